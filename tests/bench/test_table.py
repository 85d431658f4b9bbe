"""The table of timings says what was measured, and divides the right way round."""

from __future__ import annotations

from bench.__main__ import table
from bench.measure import Row, in_turn


def test_a_ratio_is_ours_over_theirs() -> None:
    assert Row("x", 3.0, "y", 2.0).cells()[4] == "1.50"


def test_without_a_counterpart_there_is_no_ratio() -> None:
    assert Row("x", 3.0).cells()[2:5] == ("", "", "")


def test_both_sides_run_in_turn_and_as_often() -> None:
    calls: list[str] = []
    in_turn(lambda: calls.append("a"), lambda: calls.append("b"))
    assert calls == ["a", "b"] * 6


def test_columns_line_up() -> None:
    lines = table([Row("long name", 1.0), Row("x", 22.5, "y", 2.0, "2")]).splitlines()
    assert len({line.index("seconds") if i == 0 else 11 for i, line in enumerate(lines)}) == 1
    assert lines[2].startswith("x          22.50")
