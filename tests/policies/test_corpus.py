"""Good manifests, as people write them: nothing is found in them, and in nothing that we render."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from policies import Context, Finding, Manifest
from policies.profiles import PROFILES
from tests.policies.mutations import BREAKS, corpus, mutants
from tokenworks.check.read import SUFFIXES, read_paths
from tokenworks.check.run import check_paths

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOOD = sorted((HERE / "corpus").iterdir())
EXPECTED: Mapping[str, Mapping[str, Any]] = yaml.safe_load((HERE / "expected.yaml").read_text())
"""What some profiles find in some of them, by file and profile, and why it is good up to there."""
RENDERED = sorted((ROOT / "tests" / "charts" / "examples").glob("*/*/rendered.yaml"))


def said(path: Path, leave: frozenset[str] = frozenset()) -> list[str]:
    report = check_paths([str(path)], io.BytesIO(), Context())
    assert report.objects
    return [f"{f.line}: {f.rule}: {f.message}" for f in report.findings if f.rule not in leave]


def test_the_corpus_is_large() -> None:
    assert len(GOOD) >= 30
    assert len(RENDERED) >= 20
    assert {path.suffix for path in GOOD} <= SUFFIXES


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_manifests_are_silent_in_every_profile(path: Path, profile: str) -> None:
    report = check_paths([str(path)], io.BytesIO(), Context(profile=profile))
    assert report.objects
    found = [{"rule": f.rule, "severity": f.severity, "object": f.object} for f in report.findings]
    assert found == EXPECTED.get(path.name, {}).get(profile, [])


def test_what_is_expected_is_of_the_corpus_and_says_why() -> None:
    order = list(PROFILES)
    assert EXPECTED.keys() <= {path.name for path in GOOD}
    for expected in EXPECTED.values():
        assert expected["reason"].endswith(".")
        found = [profile for profile in order if expected.get(profile)]
        assert found and found == order[order.index(found[0]) :], "good up to one profile"
        assert expected.keys() == {"reason", *found}


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_what_our_charts_render_is_silent(path: Path) -> None:
    # Charts render no digests of platform images, and leave the namespace's policies to others.
    assert said(path, frozenset({"image-digest", "network-policy"})) == []


# --- the same, as JSON -------------------------------------------------------

Form = Callable[[Sequence[Manifest]], str]


def _lines(objects: Sequence[Manifest]) -> str:
    return "\n".join(json.dumps(item, ensure_ascii=False) for item in objects)


def _list(objects: Sequence[Manifest]) -> str:
    made = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(made, indent=4, ensure_ascii=False)


FORMS: Final[Mapping[str, Form]] = {
    "pretty": lambda objects: "\n".join(json.dumps(item, indent=4) for item in objects) + "\n",
    "tabs": lambda objects: "\n\n".join(json.dumps(item, indent="\t") for item in objects),
    "one line each": _lines,
    "one line": lambda objects: "".join(map(json.dumps, objects)),
    "List": _list,
    "List in one line": lambda objects: json.dumps(json.loads(_list(objects))),
}


def verdict(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """What is said, wherever it stands."""
    return [(f.rule, f.severity, f.object, f.field, f.message, f.remedy) for f in findings]


@pytest.fixture(scope="module")
def broken() -> list[tuple[str, list[Manifest]]]:
    """One set for each file of the corpus: the file, and the first break of it that there is."""
    good = corpus()
    first: dict[str, list[Manifest]] = {}
    for rule in BREAKS:
        for where, objects in mutants(rule, good):
            first.setdefault(where.partition(" #")[0], objects)
        if first.keys() == good.keys():
            break
    return list(first.items())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_json_gets_the_same_verdict(
    form: str, name: str, broken: list[tuple[str, list[Manifest]]], tmp_path: Path
) -> None:
    strict = Context(profile="strict")
    noticed = 0
    for where, objects in [*corpus().items(), *broken]:
        plain = tmp_path / "plain.yaml"
        plain.write_text(yaml.safe_dump_all(objects))
        expected = verdict(check_paths([str(plain)], io.BytesIO(), strict).findings)
        other = tmp_path / name
        other.write_text(FORMS[form](objects))
        report = check_paths([str(other)], io.BytesIO(), strict)
        assert report.objects == len(objects), where
        # Where an item stands in a list is no part of its field.
        assert verdict(report.findings) == expected, where
        noticed += len(expected)
    assert noticed > len(broken)


@pytest.mark.parametrize("form", FORMS)
def test_places_in_json_are_those_of_the_keys(form: str, tmp_path: Path) -> None:
    places = 0
    for objects in corpus().values():
        text = FORMS[form](objects)
        path = tmp_path / "a.json"
        path.write_text(text)
        lines = text.split("\n")
        reading = read_paths([str(path)], io.BytesIO())
        assert reading.findings == ()
        for item in reading.objects:
            paths = list(keys(item.manifest, ()))
            for way, (line, column) in zip(paths, item.places(paths), strict=True):
                rest = lines[line - 1][column - 1 :]
                assert rest.startswith(json.dumps(way[-1], ensure_ascii=False) + ":"), (way, rest)
                places += 1
    assert places > 5000


def keys(value: object, path: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    """The paths of all keys."""
    found: list[tuple[str | int, ...]] = []
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in pairs:
        found += [(*path, key)] if isinstance(key, str) else []
        found += keys(child, (*path, key))
    return found
