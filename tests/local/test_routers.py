"""The catalog's facts about routers fit the bill, the images made here, and each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.images.table import table
from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_routing
from tokenworks.catalog.routers import Decision, ImageRef, LlmDVersion
from tokenworks.errors import UsageError
from tokenworks.render.platform import image_reference

LLM_D = load_routing().llm_d
WORKER_ROUTERS = load_routing().worker_routers
MADE_HERE = LLM_D.version("0.4.0")


def images() -> Iterator[tuple[str, ImageRef]]:
    """Every image of the routing facts, with the version it stands under."""
    for version, facts in LLM_D.versions.items():
        yield version, facts.picker.image
        yield version, facts.sidecar.image


@pytest.mark.parametrize(("version", "ref"), list(images()), ids=str)
def test_versions_are_those_of_the_bill(version: str, ref: ImageRef) -> None:
    assert bill().components[ref.component].version == f"v{version}"
    assert bill().image(ref.component, ref.image).tag == f"v{version}"


@pytest.mark.parametrize(
    "ref",
    [
        MADE_HERE.picker.image,
        MADE_HERE.sidecar.image,
        *(router.image for router in WORKER_ROUTERS.values()),
    ],
    ids=str,
)
def test_what_runs_locally_is_made_here_where_it_is_used(ref: ImageRef) -> None:
    image = table()[image_reference(bill().image(ref.component, ref.image))]
    assert image.when == "rendered"


@pytest.mark.parametrize("name", sorted(WORKER_ROUTERS))
def test_a_router_without_a_command_has_an_entrypoint(name: str) -> None:
    router = WORKER_ROUTERS[name]
    image = table()[image_reference(bill().image(router.image.component, router.image.image))]
    assert bool(image.entrypoint) is not bool(router.command)
    start = router.command or image.entrypoint
    assert start[0].rpartition("/")[2] == name


@pytest.mark.parametrize("version", sorted(LLM_D.versions))
@pytest.mark.parametrize("decision", ["always", "uncached"])
def test_a_threshold_is_a_parameter_of_a_plugin_of_its_decision(
    version: str, decision: str
) -> None:
    found: Decision = getattr(LLM_D.version(version).picker, decision)
    if found.threshold is not None:
        (plugin,) = (p for p in found.plugins if p.type == found.threshold.plugin)
        assert plugin.parameters[found.threshold.parameter] > 0
    assert (found.threshold is None) is (decision == "always")


@pytest.mark.parametrize("decision", [MADE_HERE.picker.always, MADE_HERE.picker.uncached])
def test_prefix_blocks_are_counted_alike(decision: Decision) -> None:
    prefix = MADE_HERE.picker.plugins.prefix.parameters
    (handler,) = decision.plugins
    assert prefix["autoTune"] is False
    assert prefix["blockSize"] == handler.parameters["hashBlockSize"]


@pytest.mark.parametrize("version", sorted(LLM_D.versions))
def test_a_decider_that_is_named_is_there(version: str) -> None:
    facts: LlmDVersion = LLM_D.version(version)
    for decision in (facts.picker.always, facts.picker.uncached):
        known = {plugin.type for plugin in decision.plugins}
        for plugin in decision.plugins:
            assert set(plugin.parameters.get("deciders", {}).values()) <= known


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r"llm-d router 0\.5\.0; the catalog knows 0\.4\.0, 0\.10"):
        LLM_D.version("0.5.0")
