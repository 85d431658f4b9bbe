"""The worked example holds: one model over two machines, and its other layouts by one word."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from local.images import local_image_names
from local.toolchain import module_dir
from tests.fieldnotes.test_roles_and_groups import labels_match
from tokenworks.catalog.commandline import CommandLine, read, world
from tokenworks.check.context import context_of
from tokenworks.check.environment import CheckTools, check_environment
from tokenworks.render import RenderTools, render
from tokenworks.render.release import Release
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

pytestmark = [pytest.mark.helm, pytest.mark.kubeconform, pytest.mark.slow]

NAME = "deepseek-r1"
KINDS = ("multi-node", "wide-ep", "disaggregated")
Object = dict[str, Any]


@dataclass(frozen=True)
class Laid:
    """The example, laid out in one way."""

    stack: Stack
    releases: tuple[Release, ...]

    @cached_property
    def objects(self) -> list[Object]:
        """What the model renders to."""
        (release,) = [r for r in self.releases if r.name == f"model-{NAME}"]
        return [dict(item) for item in release.objects]

    def of(self, kind: str) -> list[Object]:
        """The model's objects of a kind."""
        return [item for item in self.objects if item["kind"] == kind]

    def groups(self) -> dict[str, Object]:
        """Its groups of pods, by name."""
        return {item["metadata"]["name"]: item["spec"] for item in self.of("LeaderWorkerSet")}


@pytest.fixture(scope="module")
def laid(
    root: Path, renderer: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Laid]:
    found: dict[str, Laid] = {}
    for kind in KINDS:
        home = tmp_path_factory.mktemp(kind)
        copy = shutil.copytree(root / "examples" / NAME, home / "stacks" / NAME)
        file = copy / "models" / f"{NAME}.yaml"
        text = file.read_text()
        assert text.count("kind: multi-node\n") == 1
        file.write_text(text.replace("kind: multi-node\n", f"kind: {kind}\n"))
        stack = load_stack(home, NAME)
        found[kind] = Laid(stack, render(stack, RenderTools(renderer, module_dir)))
    return found


def templates(group: Object) -> tuple[Object, Object]:
    """First pod and worker."""
    parts = group["leaderWorkerTemplate"]
    return parts["leaderTemplate"], parts["workerTemplate"]


def engine(template: Object) -> Object:
    """The engine's container."""
    return next(c for c in template["spec"]["containers"] if c["name"] == "engine")


def line(template: Object) -> CommandLine:
    """The engine's command line."""
    container = engine(template)
    env = {e["name"]: e.get("value") for e in container["env"]}
    return read(container["command"], container["args"], env)


def counts(template: Object) -> tuple[object, ...]:
    """Nodes, tensor ranks and stages, as the engine is told."""
    names = ("nnodes", "tensor-parallel-size", "pipeline-parallel-size")
    return tuple(line(template).value(name) for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_sound(
    kind: str, laid: Mapping[str, Laid], kubeconform: Path, tmp_path: Path
) -> None:
    """No rule and no schema finds anything, but digests that nobody has looked up yet."""
    openapi = module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"
    tools = CheckTools(kubeconform, openapi, tmp_path)
    mine = laid[kind]
    context = context_of(mine.stack, local_image_names())
    report = check_environment(mine.stack, mine.releases, context, tools)
    others = [f for f in report.findings if not (
        f.rule == "image-digest" and f.severity == "warning" and "still unresolved" in f.message
    )]  # fmt: skip
    assert others == []
    assert report.findings, "the catalog says `unresolved` of images, and the rule says so too"


class TestTwoMachines:
    """8 GPUs and EFA each; one group, whose pods differ in what they are told and nothing else."""

    @pytest.fixture
    def group(self, laid: Mapping[str, Laid]) -> Object:
        (group,) = laid["multi-node"].groups().values()
        return group

    def test_ranks_are_the_gpus_of_two_pods(self, group: Object) -> None:
        assert group["leaderWorkerTemplate"]["size"] == 2
        for template in templates(group):
            assert counts(template) == (2, 8, 2)
            found = world(line(template))
            assert found is not None and (found.ranks, found.ranks_per_pod) == (16, 8)

    def test_both_pods_have_what_the_machine_has(self, group: Object) -> None:
        for template in templates(group):
            limits = engine(template)["resources"]["limits"]
            assert limits["nvidia.com/gpu"] == "8"
            assert limits["vpc.amazonaws.com/efa"] == "32"
            assert limits["hugepages-2Mi"] == "5Gi"
            mounts = {m["mountPath"]: m["name"] for m in engine(template)["volumeMounts"]}
            volumes = {v["name"]: v for v in template["spec"]["volumes"]}
            shm = volumes[mounts["/dev/shm"]]
            assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}

    def test_nothing_but_the_server_differs(self, group: Object) -> None:
        first, worker = templates(group)
        headless = set(engine(worker)["args"]) ^ set(engine(first)["args"])
        assert headless == {"--headless"}
        for part in ("resources", "env", "securityContext", "volumeMounts", "image", "command"):
            assert engine(first)[part] == engine(worker)[part], part
        # Probes and ports are what tells a pod that answers from one that does not.
        for part in ("volumes", "tolerations", "nodeSelector", "securityContext"):
            assert first["spec"][part] == worker["spec"][part], part
        checks = [
            next(c for c in t["spec"]["initContainers"] if c["name"] == "rdma-check")
            for t in (first, worker)
        ]
        assert checks[0] == checks[1]
        assert checks[0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"

    def test_no_pod_starts_on_half_a_model(self, laid: Mapping[str, Laid], group: Object) -> None:
        (claim,) = laid["multi-node"].of("PersistentVolumeClaim")
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
        assert claim["spec"]["storageClassName"] == "fsx"
        assert len(laid["multi-node"].of("Job")) == 1
        for template in templates(group):
            names = [c["name"] for c in template["spec"]["initContainers"]]
            assert "weights" in names

    def test_pool_and_service_select_first_pods_alone(
        self, laid: Mapping[str, Laid], group: Object
    ) -> None:
        (pool,) = laid["multi-node"].of("InferencePool")
        services = {s["metadata"]["name"]: s for s in laid["multi-node"].of("Service")}
        first, worker = (template["metadata"]["labels"] for template in templates(group))
        for selector in (
            pool["spec"]["selector"]["matchLabels"], services[NAME]["spec"]["selector"],
        ):  # fmt: skip
            assert labels_match(selector, first)
            assert not labels_match(selector, worker)

    def test_the_group_is_admitted_and_replaced_whole(self, laid: Mapping[str, Laid]) -> None:
        (item,) = laid["multi-node"].of("LeaderWorkerSet")
        assert item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
        restart = item["spec"]["leaderWorkerTemplate"]["restartPolicy"]
        assert restart == "RecreateGroupOnPodRestart"


def test_experts_spread_over_the_same_two_machines(laid: Mapping[str, Laid]) -> None:
    (group,) = laid["wide-ep"].groups().values()
    assert group["leaderWorkerTemplate"]["size"] == 2
    for template in templates(group):
        told = line(template)
        assert (told.value("data-parallel-size"), told.value("data-parallel-size-local")) == (16, 8)
        assert told.value("tensor-parallel-size") == 1
        assert told.value("enable-expert-parallel") is True
        assert told.value("all2all-backend") == "allgather_reducescatter"
        assert template["metadata"]["labels"]["tokenworks.dev/endpoint"] == "true"
    (pool,) = laid["wide-ep"].of("InferencePool")
    assert [p["number"] for p in pool["spec"]["targetPorts"]] == [*range(8000, 8008)]


def test_prefill_and_decode_are_a_group_each(laid: Mapping[str, Laid]) -> None:
    groups = laid["disaggregated"].groups()
    assert groups.keys() == {f"{NAME}-prefill", f"{NAME}-decode"}
    configs = set[str]()
    for group in groups.values():
        assert group["leaderWorkerTemplate"]["size"] == 2
        for template in templates(group):
            assert counts(template) == (2, 16, None)
            configs |= {a for a in engine(template)["args"] if a.startswith("--kv-transfer")}
    (config,) = configs
    assert '"kv_connector":"NixlConnector"' in config and '"backends":["LIBFABRIC"]' in config
