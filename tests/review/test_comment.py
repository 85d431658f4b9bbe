"""The comment as a whole: what is told, in which order, and how much of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policies import Finding
from tokenworks.review.comment import LIMIT, MARKER, Comparison, comment
from tokenworks.review.findings import verdicts
from tokenworks.review.review import Operation, Preview, Review, review
from tokenworks.review.sections import cost_words, delta
from tokenworks.review.snapshot import (
    FORMAT,
    Cost,
    Placed,
    Pool,
    Shelf,
    Snapshot,
    of_json,
)  # fmt: skip


def finding(rule: str = "rule", severity: Any = "error", **more: str) -> Finding:
    given = {"object": "Pod x", "field": "spec", "message": "words", "remedy": "mend it", **more}
    return Finding(rule, severity, **given)


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def snapshot(name: str, *objects: dict[str, Any], **more: Any) -> Snapshot:
    return Snapshot(name, tuple(Placed("release", item) for item in objects), **more)


def one(before: Snapshot | None, after: Snapshot | None) -> Review:
    found = before or after
    assert found is not None
    return review(found.environment, before, after)


def text(*reviews: Review, whole: bool = False, **more: Any) -> str:
    return comment(Comparison("main", "c" * 40, reviews, **more), whole=whole)


def test_nothing_is_said_in_a_line() -> None:
    same = snapshot("dev", config("a"))
    said = text(one(same, same), unchanged=("prod",))
    assert said.splitlines()[:2] == [
        MARKER, "**Tokenworks:** nothing changes in 2 environments.",
    ]  # fmt: skip
    assert "Compared with `main` (`cccccccccccc`)." in said
    assert "<details>" not in said


def test_what_limits_the_comparison_is_said() -> None:
    assert "The base is older." in text(notes=("The base is older.",))


def test_an_environment_that_is_the_same_is_named_below_the_others() -> None:
    same, other = snapshot("dev", config("a")), snapshot("prod", config("a"))
    said = text(one(same, same), one(other, snapshot("prod")), unchanged=("local",))
    assert "Nothing changes in `dev`, `local`." in said
    assert "### `dev`" not in said


def huge(name: str, count: int, size: int) -> Review:
    """A review of many releases, each of which takes some room."""
    objects = tuple(Placed(f"release-{n}", config(f"x{n}", words="y" * size)) for n in range(count))
    changed = tuple(Placed(f"release-{n}", config(f"x{n}", words="z" * size)) for n in range(count))
    return one(Snapshot(name, objects), Snapshot(name, changed))


@pytest.mark.parametrize(
    ("environments", "count", "size", "left"),
    [
        (1, 400, 2_000, True),
        (1, 3_000, 10, True),
        (60, 50, 10, True),
        pytest.param(200, 1, 300_000, True, marks=pytest.mark.slow),
        (1, 1, 300_000, False),
        (1, 20, 60_000, False),
    ],
)
def test_every_comment_fits(environments: int, count: int, size: int, left: bool) -> None:
    said = text(*(huge(f"env{n}", count, size) for n in range(environments)))
    assert len(said.encode()) <= LIMIT
    assert ("**Left out**" in said) is left
    assert ("--whole" in said) is left
    assert said.count("<details>") == said.count("</details>")
    assert "Compared with `main`" in said


def test_what_is_refused_is_told_before_what_is_long() -> None:
    reviewed = replace(huge("env", 400, 2000), refused=(finding("immutable-field"),))
    said = text(reviewed)
    assert "**immutable-field** `Pod x` `spec`: words. *Remedy:* mend it" in said


def test_many_findings_are_counted() -> None:
    many = tuple(finding(object=f"Pod x{n}", message=f"words {n}") for n in range(400))
    after = snapshot("env", findings=many)
    said = text(one(snapshot("env"), after))
    assert "**New errors** (400):" in said
    assert "- and 375 more" in said
    assert said.count("- **rule**") == 25
    assert text(one(snapshot("env"), after), whole=True).count("- **rule**") == 400


def test_findings_with_the_same_words_share_them() -> None:
    both = tuple(finding(object=f"Pod x{n}") for n in range(2))
    said = text(one(snapshot("env"), snapshot("env", findings=both)))
    assert "- **rule** words. *Remedy:* mend it:\n  - `Pod x0` `spec`\n  - `Pod x1` `spec`" in said


@pytest.mark.parametrize(
    ("before", "after", "new", "fixed", "same"),
    [
        ([], [finding()], 1, 0, 0),
        ([finding()], [], 0, 1, 0),
        ([finding()], [finding()], 0, 0, 1),
        ([finding()], [finding(), finding()], 1, 0, 1),
        ([finding(field="a[0].b")], [finding(field="a[1].b")], 0, 0, 1),
        ([finding(severity="warning")], [finding()], 1, 1, 0),
        ([finding(message="1 of 2")], [finding(message="1 of 3")], 0, 0, 1),
    ],
)
def test_findings_are_new_fixed_or_as_before(
    before: list[Finding], after: list[Finding], new: int, fixed: int, same: int
) -> None:
    found = verdicts(before, after)
    assert (len(found.new), len(found.fixed), found.same) == (new, fixed, same)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (Cost(1, 2, 0), Cost(1, 1236.5, 0), "+1,234.50 at most"),
        (Cost(1, 1236.5, 0), Cost(1, 2, 0), "−1,234.50 at most"),
        (None, Cost(0, 10, 2), "+10.00 at most, without 2 not known"),
        (None, Cost(0, 10, 0, "2026-08-10"), "+10.00 at most, spot estimated"),
        (Cost(0, 10, 0, "2026-08-10"), None, "−10.00 at most, spot estimated"),
        (Cost(1, 2, 0), Cost(1, 2.001, 0), "±0.00 at most"),
    ],
)
def test_dollars_are_a_difference(before: Cost | None, after: Cost | None, words: str) -> None:
    assert cost_words(before, after) == words


def test_what_makes_dollars_less_than_the_truth_is_said() -> None:
    before = snapshot("env", cost=Cost(0, 1, 1), infrastructure={"a": 1})
    after = snapshot("env", cost=Cost(0, 3, 2, "2026-08-10"), infrastructure={"a": 2})
    said = text(one(before, after))
    assert "Without prices that are not known: 1 before, 2 after." in said
    assert "With spot prices as of 2026-08-10, an estimate" in said
    plain = replace(after, cost=Cost(0, 3, 2), infrastructure={"a": 3})
    assert "With spot prices" not in text(one(before, plain))
    assert "With spot prices as of 2026-08-10" in text(one(after, plain)), "they were in it"


def test_costs_of_code_that_knew_no_spot_price_are_read() -> None:
    data = json.loads(snapshot("env", cost=Cost(1, 2, 3)).to_json())
    del data["cost"]["as_of"]
    read = of_json(json.dumps(data))
    assert read is not None
    assert read.cost == Cost(1, 2, 3)


def test_less_has_a_sign() -> None:
    assert [delta(1, 3), delta(3, 1), delta(1, 1)] == ["+2.00", "−2.00", "±0.00"]


def infrastructure(**plan: Any) -> Snapshot:
    return snapshot("env", infrastructure=plan)


def test_settings_of_the_infrastructure_are_told() -> None:
    said = text(one(infrastructure(pools=[{"name": "a", "most": 1}]),
                    infrastructure(pools=[{"name": "a", "most": 2}])))  # fmt: skip
    assert "<summary>Infrastructure: 1 setting differs</summary>" in said
    assert "- `pools[a].most`: `1` → `2`" in said


def test_what_is_replaced_is_told_openly() -> None:
    done = (
        Operation("replace", "aws:eks/nodeGroup:NodeGroup", "group"),
        Operation("update", "aws:ec2/vpc:Vpc", "vpc"),
    )
    reviewed = replace(one(infrastructure(a=1), infrastructure(a=2)), preview=Preview(done))
    said = text(reviewed)
    assert "- **replaces** `group` of the infrastructure" in said
    assert "1 setting differs, replace 1, update 1" in said
    assert "- update `vpc` (`aws:ec2/vpc:Vpc`)" in said


def test_a_preview_that_fails_says_why() -> None:
    reviewed = replace(
        one(infrastructure(a=1), infrastructure(a=2)), preview=Preview(failed="no ``` room")
    )
    said = text(reviewed)
    assert "The preview fails:" in said
    assert "````\nno ``` room\n````" in said


def test_an_environment_that_goes_is_not_deleted() -> None:
    said = text(one(snapshot("env", config("a")), None))
    assert "That deletes nothing" in said


def full() -> Snapshot:
    return snapshot(
        "env",
        config("a", words="é\u2028"),
        findings=(finding(), finding(field="b")),
        pools={"a": Pool("gpu", 8, 2, {"a": "b"})},
        cost=Cost(1.5, 2.5, 1, "2026-08-10"),
        infrastructure={"a": [1, {"b": None}]},
        today="2026-01-01",
    )


def test_snapshots_are_read_as_they_were_written() -> None:
    assert of_json(full().to_json()) == full()


@pytest.mark.parametrize(
    "damaged",
    [
        "", "[]", "{}", "null", full().to_json()[:-20],
        json.dumps({**json.loads(full().to_json()), "format": FORMAT + 1}),
        json.dumps({**json.loads(full().to_json()), "findings": [{"rule": "x"}]}),
    ],
    ids=["empty", "list", "map", "null", "cut", "another format", "other fields"],
)  # fmt: skip
def test_what_is_no_snapshot_is_none(damaged: str) -> None:
    assert of_json(damaged) is None


def test_a_shelf_gives_back_what_it_holds_and_forgets_the_oldest(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf")
    assert shelf.get("a") is None
    for number in range(60):
        shelf.put(str(number), full())
    assert len(list((tmp_path / "shelf").iterdir())) == 50
    assert shelf.get("59") == full()


def test_a_shelf_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    shelf = Shelf(tmp_path / "file" / "shelf")
    shelf.put("a", full())
    assert shelf.get("a") is None
