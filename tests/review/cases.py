"""Prepared changes of the base: each function edits a checkout, and has a golden comment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Edit = Callable[[Path], None]
CASES: dict[str, Edit] = {}


def case(edit: Edit) -> Edit:
    """Give the edit a golden file, named like it."""
    CASES[edit.__name__.replace("_", "-")] = edit
    return edit


def replaced(file: Path, old: str, new: str) -> None:
    """Put a text in the place of another, which is there."""
    text = file.read_text()
    assert old in text, f"{file} has no {old!r}"
    file.write_text(text.replace(old, new))


def changed(file: Path, change: Callable[[Any], None]) -> None:
    """Change a document as data."""
    document = yaml.safe_load(file.read_text())
    change(document)
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def team(folder: Path, *names: str) -> Path:
    """A file of the environment `team`."""
    return folder.joinpath("stacks", "team", *names)


def cloud(folder: Path, *names: str) -> Path:
    """A file of the environment `cloud`, on AWS."""
    return folder.joinpath("stacks", "cloud", *names)


@case
def new_model(folder: Path) -> None:
    """A release is added."""
    target = team(folder, "models", "small.yaml")
    shutil.copyfile(team(folder, "models", "chat.yaml"), target)
    for old, new in (
        ("name: chat", "name: small"),
        ("hf://Qwen/Qwen3-32B", "hf://Qwen/Qwen3-8B"),
        ("servedName: Qwen/Qwen3-32B", "servedName: Qwen/Qwen3-8B"),
        ("size: 66G", "size: 17G"),
        ("pool: h100", "pool: l40s"),
        ("tensorParallel: 2", "tensorParallel: 1"),
        ("gpus: 2", "gpus: 1"),
    ):
        replaced(target, old, new)


@case
def image_bump(folder: Path) -> None:
    """An image of the release gets another tag and a digest."""
    digest = "sha256:" + "0123456789abcdef" * 4
    replaced(team(folder, "models", "chat.yaml"), "digest: unresolved", f"digest: {digest}")


@case
def flag_change(folder: Path) -> None:
    """Flags change, one of which is derived from the document."""
    chat = team(folder, "models", "chat.yaml")
    replaced(chat, "maxContext: 8192", "maxContext: 16384")
    replaced(
        chat,
        "      gpu-memory-utilization: 0.92\n",
        "      gpu-memory-utilization: 0.9\n      max-num-seqs: 64\n",
    )


@case
def scale_change(folder: Path) -> None:
    """More replicas, and not one restart."""
    replaced(team(folder, "models", "chat.yaml"), "replicas: 2", "replicas: 4")


@case
def scale_to_zero(folder: Path) -> None:
    """The last replica goes."""
    replaced(team(folder, "models", "chat.yaml"), "replicas: 2", "replicas: 0")


@case
def pool_change(folder: Path) -> None:
    """Nodes of another type, and more of them."""
    environment = cloud(folder, "environment.yaml")
    replaced(environment, "instanceType: g6e.12xlarge", "instanceType: g6e.24xlarge")
    replaced(environment, "nodes: 2", "nodes: 3")
    replaced(environment, "purchase: spot", "purchase: on-demand")


@case
def tenant_limit(folder: Path) -> None:
    """A tenant may hold more GPUs."""
    replaced(team(folder, "tenants", "research.yaml"), "gpus: 24", "gpus: 32")


@case
def crd_bump(folder: Path) -> None:
    """A CRD gets another version and fields; what is stored stays."""

    def newer(crd: Any) -> None:
        old = crd["spec"]["versions"][0]
        spec = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        crd["spec"]["versions"].append(
            {"name": "v1", "served": True, "storage": False, "schema": schema}
        )
        fields = old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        fields |= {"weight": {"type": "integer"}, "size": {"type": "integer", "minimum": 0}}

    _widgets(folder, newer)


def _widgets(folder: Path, change: Callable[[Any], None]) -> None:
    file = team(folder, "manifests", "widgets.yaml")
    documents = list(yaml.safe_load_all(file.read_text()))
    change(documents[0])
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))


@case
def crd_version(folder: Path) -> None:
    """The version goes that objects are stored as."""

    def other(crd: Any) -> None:
        crd["spec"]["versions"][0]["name"] = "v1"

    _widgets(folder, other)
    replaced(team(folder, "manifests", "widgets.yaml"), "example.com/v1alpha1", "example.com/v1")


@case
def crd_unserved(folder: Path) -> None:
    """A version goes that nothing is stored as."""

    def fewer(crd: Any) -> None:
        crd["spec"]["versions"][0]["served"] = False

    crd_bump(folder)
    _widgets(folder, fewer)


@case
def credential(folder: Path) -> None:
    """Configuration gets what looks like nothing, and is called a password."""

    def more(document: Any) -> None:
        document["data"]["guide"] += "password: correct-horse-battery\n"
        document["data"]["adminPassword"] = "correct-horse-battery"

    changed(team(folder, "manifests", "notes.yaml"), more)


@case
def crd_removal(folder: Path) -> None:
    """An operator goes, and its CRDs with it."""

    def without(document: Any) -> None:
        document["spec"]["platform"] = {"kueue": {"enabled": False}}

    changed(team(folder, "environment.yaml"), without)


@case
def crd_removal_waived(folder: Path) -> None:
    """A CRD goes whose objects went before, and somebody answers for it."""
    file = team(folder, "manifests", "widgets.yaml")
    file.unlink()
    waived(folder, "crd-removal", "CustomResourceDefinition widgets.example.com")


def waived(folder: Path, rule: str, name: str) -> None:
    """Write a waiver into the environment's document."""
    entry = {
        "rule": rule, "object": name, "reason": "nothing uses it any more", "owner": "platform",
        "expires": "2099-12-31",
    }  # fmt: skip

    def more(document: Any) -> None:
        document["spec"]["policies"]["waivers"] = [entry]

    changed(team(folder, "environment.yaml"), more)


@case
def rename(folder: Path) -> None:
    """A release gets another name, and is the same."""
    file = team(folder, "models", "chat.yaml")
    replaced(file, "name: chat", "name: talk")
    file.rename(team(folder, "models", "talk.yaml"))
    replaced(team(folder, "manifests", "canary.yaml"), "name: chat", "name: talk")


@case
def rename_without_room(folder: Path) -> None:
    """Old and new would need more GPUs than there are."""
    file = team(folder, "models", "reason.yaml")
    replaced(file, "name: reason", "name: think")
    file.rename(team(folder, "models", "think.yaml"))


@case
def deletion(folder: Path) -> None:
    """A release, a plain object and a route are removed."""
    team(folder, "models", "reason.yaml").unlink()
    team(folder, "manifests", "canary.yaml").unlink()


@case
def canary_step(folder: Path) -> None:
    """Half of the requests go to the other model."""
    file = team(folder, "manifests", "canary.yaml")
    replaced(file, "weight: 90", "weight: 50")
    replaced(file, "weight: 10", "weight: 50")


@case
def broken_document(folder: Path) -> None:
    """A field is misspelt, a value out of range."""
    file = team(folder, "models", "chat.yaml")
    replaced(file, "replicas: 2", "replica: 2")
    replaced(file, "gpus: 2", "gpus: 99")


@case
def no_op(folder: Path) -> None:
    """A comment, another order of keys, and a file that nobody renders."""

    def turned(document: Any) -> None:
        document["spec"] = dict(reversed(list(document["spec"].items())))

    changed(team(folder, "models", "chat.yaml"), turned)
    file = team(folder, "tenants", "research.yaml")
    file.write_text(f"# Who asks for more, asks here.\n{file.read_text()}")
    (folder / "README.md").write_text("words\n")


@case
def immutable(folder: Path) -> None:
    """Resources of a group that a queue has counted, and a field that its CRD holds fast."""
    replaced(team(folder, "models", "reason.yaml"), 'cpu: "96"', 'cpu: "90"')
    replaced(team(folder, "manifests", "widgets.yaml"), "color: red", "color: blue")


@case
def topology_change(folder: Path) -> None:
    """Another topology makes other objects under other names: nothing is refused."""

    def single(document: Any) -> None:
        document["spec"]["topology"] = {"kind": "multi-node", "nodes": 2, "tensorParallel": 2}
        document["spec"]["replicas"] = 1

    changed(team(folder, "models", "chat.yaml"), single)


@case
def new_finding(folder: Path) -> None:
    """A plain object that breaks rules."""
    team(folder, "manifests", "pod.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: raw, namespace: research}\n"
        "spec:\n  selector: {matchLabels: {app: raw}}\n  template:\n"
        "    metadata: {labels: {app: raw}}\n    spec:\n      containers:\n"
        "        - {name: engine, image: 'vllm/vllm-openai:latest', args: [--port=8000]}\n"
    )


@case
def new_environment(folder: Path) -> None:
    """An environment is added."""
    shutil.copytree(cloud(folder), folder / "stacks" / "other")
    replaced(folder / "stacks" / "other" / "environment.yaml", "name: cloud", "name: other")
    replaced(folder / "stacks" / "other" / "environment.yaml", "tokenworks-cloud", "tokenworks-o")


@case
def removed_environment(folder: Path) -> None:
    """An environment is gone."""
    shutil.rmtree(cloud(folder))


@case
def text_change(folder: Path) -> None:
    """A line of a long text."""
    replaced(team(folder, "manifests", "notes.yaml"), "second line", "another line")


NASTY = (
    "`</code></details> @octocat **bold** [x](http://example.com) ![y](http://b.c/y.png) | a | "
    "<!-- tokenworks-pr --> ```` #1 \u202egnp"
)


@case
def injection(folder: Path) -> None:
    """Values that try to be Markdown, HTML, mentions, and the marker; and a credential."""

    def nasty(document: Any) -> None:
        document["data"]["words"] = NASTY
        document["data"]["guide"] += f"```\n{NASTY}\n</details>\n"
        document["data"]["a`b|c"] = "x"
        document["metadata"]["annotations"] = {"who": "ping @octocat now"}

    changed(team(folder, "manifests", "notes.yaml"), nasty)


@case
def huge(folder: Path) -> None:
    """More than a comment can tell of."""
    text = "".join(f"line {n} of many that somebody wrote\n" for n in range(180))
    team(folder, "manifests", "many.yaml").write_text(
        "---\n".join(
            yaml.safe_dump(
                {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": f"many-{n:04}", "namespace": "research"},
                    "data": {"number": str(n)},
                }
            )
            for n in range(1500)
        )
    )  # fmt: skip

    def longer(document: Any) -> None:
        document["data"] |= {f"text-{n:02}": text for n in range(20)}

    changed(team(folder, "manifests", "notes.yaml"), longer)
    replaced(team(folder, "models", "chat.yaml"), "replicas: 2", "replicas: 3")
