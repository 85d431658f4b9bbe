"""What an environment installs besides models, rendered with the real Helm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import module_dir
from tokenworks.catalog.bill import bill
from tokenworks.render import RenderTools, render
from tokenworks.render.platform import image_reference, slim
from tokenworks.render.tree import tree
from tokenworks.spec.common import Image
from tokenworks.spec.load import load_stack

pytestmark = pytest.mark.helm


@pytest.fixture(scope="module")
def tools(renderer: Path) -> RenderTools:
    return RenderTools(renderer, module_dir)


@pytest.fixture(scope="module")
def local(root: Path, tools: RenderTools) -> dict[str, tuple[dict[str, Any], ...]]:
    return {r.name: r.objects for r in render(load_stack(root, "local"), tools)}


def named(objects: tuple[dict[str, Any], ...], kind: str) -> dict[str, dict[str, Any]]:
    return {o["metadata"]["name"]: o for o in objects if o["kind"] == kind}


@pytest.mark.slow
def test_rendering_twice_gives_the_same_bytes(root: Path, tools: RenderTools) -> None:
    stack = load_stack(root, "dev")
    assert tree(render(stack, tools)) == tree(render(stack, tools))


def test_crds_are_releases_of_their_own(local: dict[str, tuple[dict[str, Any], ...]]) -> None:
    for name, objects in local.items():
        kinds = {o["kind"] for o in objects}
        if name.endswith("-crds"):
            assert "CustomResourceDefinition" in kinds
        else:
            assert "CustomResourceDefinition" not in kinds, name


def test_kueue_takes_its_timeout_from_the_environment(
    local: dict[str, tuple[dict[str, Any], ...]],
) -> None:
    config = named(local["kueue"], "ConfigMap")["kueue-manager-config"]["data"]
    data = yaml.safe_load(config["controller_manager_config.yaml"])
    assert data["waitForPodsReady"]["timeout"].endswith("s")
    assert int(data["waitForPodsReady"]["timeout"][:-1]) > 1800


def test_kueues_webhooks_leave_the_platform_alone(
    local: dict[str, tuple[dict[str, Any], ...]],
) -> None:
    hooks = named(local["kueue"], "MutatingWebhookConfiguration").values()
    for hook in (h for config in hooks for h in config["webhooks"]):
        rules = {r for rule in hook["rules"] for r in rule["resources"]}
        if rules & {"pods", "deployments", "statefulsets", "jobs"}:
            assert hook["namespaceSelector"]["matchExpressions"] == [
                {"key": "tokenworks.dev/tenant", "operator": "Exists"}
            ]


def test_levels_of_a_pool_come_with_its_flavor_once_kueue_is_there(
    local: dict[str, tuple[dict[str, Any], ...]],
) -> None:
    assert "topologies.kueue.x-k8s.io" in named(local["kueue-crds"], "CustomResourceDefinition")
    assert list(local).index("kueue") < list(local).index("queues")
    assert list(named(local["queues"], "Topology")) == ["kwok-h100"]
    flavors = named(local["queues"], "ResourceFlavor")
    assert {name: flavor["spec"].get("topologyName") for name, flavor in flavors.items()} == {
        "kwok-h100": "kwok-h100",
        "sim": None,
    }


def test_images_of_operators_are_the_bills(local: dict[str, tuple[dict[str, Any], ...]]) -> None:
    images = {
        c["image"]
        for name in ("istiod", "kueue", "lws")
        for d in named(local[name], "Deployment").values()
        for c in d["spec"]["template"]["spec"]["containers"]
    }
    billed = [bill().image("istio", "pilot"), bill().image("kueue", "manager")]
    billed.append(bill().image("lws", "manager"))
    assert images == {image_reference(i) for i in billed}


def test_a_digest_goes_behind_the_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    image = Image(repository="r.example/x", tag="v1", digest=digest)
    assert image_reference(image) == f"r.example/x:v1@{digest}"
    assert (
        image_reference(Image(repository="r.example/x", tag="1", digest="unresolved"))
        == "r.example/x:1"
    )


def test_slimming_keeps_a_field_called_description() -> None:
    schema = {"description": "prose", "properties": {"description": {"type": "string"}}}
    assert slim(schema) == {"properties": {"description": {"type": "string"}}}
