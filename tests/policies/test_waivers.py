"""Waivers: in the environment or on the object; owned, dated, and never for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies import RULES, Context, check
from policies.model import Waiver
from policies.profiles import PROFILES
from policies.waivers import PREFIX
from tests.policies.builders import Object, deployment, engine, found, network_policy, pod

GIVEN = Waiver(
    "liveness-probe", "Deployment team-a/llama", "a test rig", "team-a", "2027-01-31", "x"
)
TODAY = Context(today="2026-12-01", waivers=(GIVEN,), whole=True)


def broken(annotation: str | None = None) -> list[Object]:
    made = deployment(pod(engine(livenessProbe=None)))
    if annotation is not None:
        made["metadata"]["annotations"] = {f"{PREFIX}liveness-probe": annotation}
    return [made, network_policy()]


def said(objects: list[Object], context: Context) -> list[str]:
    return [f"{finding.rule}: {finding.message}" for finding in check(objects, context)]


def test_a_waiver_of_the_environment_waives() -> None:
    assert said(broken(), replace(TODAY, waivers=())) != []
    assert said(broken(), TODAY) == []


def test_an_annotation_waives() -> None:
    assert said(broken("a test rig; team-a; 2027-01-31"), Context(today="2026-12-01")) == []


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ("a test rig; team-a; 2026-11-30", "expired on 2026-11-30 (owner: team-a)"),
        ("a test rig; team-a", "names no day"),
        ("a test rig", "names no reason or no owner"),
        ("; team-a; 2027-01-31", "names no reason or no owner"),
        ("a test rig; team-a; soon", "names no day"),
    ],
)
def test_a_bad_annotation_waives_nothing_and_is_a_finding(annotation: str, says: str) -> None:
    texts = said(broken(annotation), Context(today="2026-12-01"))
    assert len(texts) == 2
    assert any(text.startswith("waiver: ") and says in text for text in texts)


def test_an_expired_waiver_is_a_finding() -> None:
    texts = said(broken(), replace(TODAY, today="2027-02-01"))
    assert any("expired on 2027-01-31" in text for text in texts)
    assert any(text.startswith("liveness-probe") for text in texts)


@pytest.mark.parametrize(
    ("place", "found"),
    [("stacks/a/environment.yaml:7", ("stacks/a/environment.yaml", 7)), ("x", ("x", None)),
     ("", (None, None))],
)  # fmt: skip
def test_a_bad_waiver_is_found_where_it_is_written(
    place: str, found: tuple[str | None, int | None]
) -> None:
    context = replace(TODAY, today="2027-02-01", waivers=(replace(GIVEN, place=place),))
    (about,) = [finding for finding in check(broken(), context) if finding.rule == "waiver"]
    assert (about.file, about.line) == found


@pytest.mark.parametrize(
    "waiver",
    [
        replace(GIVEN, object="Deployment team-a/other"),
        replace(GIVEN, rule="readiness-probe"),
    ],
)
def test_an_unused_waiver_is_a_finding(waiver: Waiver) -> None:
    texts = said(broken(), replace(TODAY, waivers=(waiver,)))
    what = f"{waiver.rule} finds nothing in {waiver.object}"
    assert f"waiver: the waiver of {waiver.rule} waives nothing: {what}" in texts


def test_a_waiver_of_no_rule_says_which_may_be_meant() -> None:
    texts = said(broken(), replace(TODAY, waivers=(replace(GIVEN, rule="startup-prob"),)))
    wanted = "waiver: the waiver of startup-prob names no rule; did you mean startup-probe?"
    assert wanted in texts


def test_a_part_of_an_environment_leaves_waivers_unused() -> None:
    other = replace(GIVEN, object="Deployment team-a/other")
    texts = said(broken(), replace(TODAY, waivers=(other,), whole=False))
    assert [text for text in texts if text.startswith("waiver")] == []


def test_the_last_day_counts() -> None:
    assert said(broken(), replace(TODAY, today="2027-01-31")) == []


# --- profiles ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "severity"),
    [("local", "error"), ("dev", "warning"), ("prod", "error"), ("strict", "error")],
)
def test_profiles_weigh(profile: str, severity: str) -> None:
    made = deployment(pod(engine(image="vllm/vllm-openai:v0.26.0")))
    context = Context(profile=profile)
    assert [f.severity for f in found("image-digest", made, context=context)] == [severity]


def test_strict_makes_errors_of_warnings() -> None:
    made = deployment(pod(engine(), enableServiceLinks=None))
    assert [f.severity for f in found("service-links", made)] == ["warning"]
    strict = Context(profile="strict")
    assert [f.severity for f in found("service-links", made, context=strict)] == ["error"]


@pytest.mark.parametrize(("level", "expected"), [("off", []), ("warning", ["warning"])])
def test_rules_can_weigh_otherwise_here(level: str, expected: list[str]) -> None:
    context = Context(levels={"liveness-probe": level})  # type: ignore[dict-item]
    made = broken()
    assert [f.severity for f in found("liveness-probe", *made, context=context)] == expected


def test_profiles_name_rules_that_exist() -> None:
    known = {rule.id for rule in RULES}
    assert {name for levels in PROFILES.values() for name in levels} <= known
    assert list(PROFILES) == ["local", "dev", "prod", "strict"]
