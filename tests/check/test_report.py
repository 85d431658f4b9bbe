"""Findings for people, programs, code scanning, GitHub and pull requests."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from policies import Finding
from policies.model import Severity
from tokenworks.check.report import FORMATS, Report

ODD = Finding(
    "image-digest", "error", "Pod a|b", "spec.containers[0].image",
    "is 100% wrong:\nhf_abcdefghijklmnopqrstuvwxyz012345", "write <digest>",
    "my files/a,b.yaml", 7, 3,
)  # fmt: skip
WARNING = Finding("drain", "warning", "Pod x", "", "cuts streams", "add a pause")


def report(*findings: Finding, level: Severity = "error") -> Report:
    return Report(findings, 2, "1 file", level=level)


def test_sarif_has_rules_places_and_levels() -> None:
    made = json.loads(report(ODD, WARNING, ODD).sarif())
    assert made["version"] == "2.1.0"
    run = made["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["image-digest", "drain"]
    assert all(rule["helpUri"].startswith("https://") for rule in run["tool"]["driver"]["rules"])
    first, second, third = run["results"]
    assert (first["ruleIndex"], second["ruleIndex"], third["ruleIndex"]) == (0, 1, 0)
    assert (first["level"], second["level"]) == ("error", "warning")
    physical = first["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "my%20files/a,b.yaml"
    assert physical["region"] == {"startLine": 7, "startColumn": 3}
    assert "physicalLocation" not in second["locations"][0]


def test_github_escapes_what_would_end_a_command() -> None:
    first, second, last = report(ODD, WARNING).github().splitlines()
    assert first.startswith("::error file=my files/a%2Cb.yaml,line=7,col=3,title=image-digest::")
    assert "100%25 wrong:\\u000a" in first
    assert "(spec.containers[0].image)%0Aremedy: write <digest>" in first
    assert second.startswith("::warning title=drain::Pod x: cuts streams")
    assert last.startswith("checked 2 objects")


def test_markdown_is_a_table_for_each_file() -> None:
    lines = report(ODD, WARNING).markdown().splitlines()
    assert lines[0] == "**Policies:** checked 2 objects in 1 file: 1 error, 1 warning"
    assert "### `my files/a,b.yaml`" in lines
    row = next(line for line in lines if line.startswith("| 7 |"))
    assert "Pod a\\|b: is 100% wrong:" in row
    assert "write &lt;digest&gt;" in row


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_repeats_a_credential(name: str) -> None:
    text = FORMATS[name](report(ODD))
    assert "hf_abcdef" not in text
    assert text == FORMATS[name](report(ODD))


@pytest.mark.parametrize(
    ("findings", "level", "code"),
    [
        ((), "error", 0),
        ((WARNING,), "error", 0),
        ((WARNING,), "warning", 1),
        ((ODD,), "error", 1),
        ((), "warning", 0),
    ],
)
def test_the_level_decides(findings: tuple[Finding, ...], level: Severity, code: int) -> None:
    assert report(*findings, level=level).exit_code == code


OTHER = Finding("image-digest", "warning", "Pod y", "", "floats", "pin it", "b.yaml", 2)
LATER = Finding("drain", "warning", "Pod a|b", "spec", "cuts", "wait", "my files/a,b.yaml", 9, 1)


def test_text_is_grouped_by_file_and_object() -> None:
    assert report(ODD, OTHER, LATER, WARNING).text().splitlines() == [
        "my files/a,b.yaml",
        "  7:3 error: [image-digest] Pod a|b: is 100% wrong:\\u000a(not shown) "
        "(spec.containers[0].image)",
        "      remedy: write <digest>",
        "  9:1 warning: [drain] Pod a|b: cuts (spec)",
        "      remedy: wait",
        "",
        "b.yaml",
        "  2 warning: [image-digest] Pod y: floats",
        "      remedy: pin it",
        "",
        "1 file",
        "  warning: [drain] Pod x: cuts streams",
        "      remedy: add a pause",
        "",
        "checked 2 objects in 1 file: 1 error, 3 warnings",
    ]
    assert report().text() == "checked 2 objects in 1 file: 0 errors, 0 warnings"


ESCAPES = "a\tb\n::error::b\r\x1b[31m\u2028\u202e\x85|<img src=x>`*@team [x](http://y)\n\n# Head"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("part", ["object", "field", "message", "remedy", "file"])
def test_no_value_breaks_out_of_its_line(name: str, part: str) -> None:
    plain = replace(ODD, message="is wrong", object="Pod a", file="a.yaml")
    odd = replace(plain, **{part: ESCAPES})
    lines, usual = (FORMATS[name](report(f)).splitlines() for f in (odd, plain))
    assert len(lines) == len(usual)
    for line in lines:
        assert line.isprintable()
        assert not line.startswith(("::error::b", "# Head"))


@pytest.mark.parametrize("part", ["object", "field", "message", "remedy", "file"])
def test_markdown_of_a_value_is_no_markup(part: str) -> None:
    odd = replace(ODD, message="is wrong", object="Pod a")
    made = report(replace(odd, **{part: ESCAPES})).markdown()
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", made)
    assert "<img" not in outside and "@team" not in outside and "](http" not in outside
    rows = [line for line in made.splitlines() if line.startswith("| 7 |")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [6]


def test_a_files_name_is_shown_whole_where_nothing_is_in_it() -> None:
    made = Report((), 0, "1 file", ("a\nb.yaml",))
    assert made.text() == (
        "nothing to check: no Kubernetes objects in 1 file "
        "(no Kubernetes objects in a\\u000ab.yaml)"
    )
