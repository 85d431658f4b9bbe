"""Findings of two states of one environment: which are new, which are gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from policies import Finding


@dataclass(frozen=True)
class Verdicts:
    """Findings, told apart."""

    new: tuple[Finding, ...]
    fixed: tuple[Finding, ...]
    same: int
    """How many are in both."""

    @property
    def errors(self) -> int:
        """New findings that forbid applying the change."""
        return sum(finding.severity == "error" for finding in self.new)


def verdicts(before: Sequence[Finding], after: Sequence[Finding]) -> Verdicts:
    """Findings are the same when rule, weight, object and field are: words may hold numbers, and
    positions in lists move with what stands before them."""
    new, fixed = _left(after, before), _left(before, after)
    return Verdicts(new, fixed, len(after) - len(new))


def _key(finding: Finding) -> tuple[str, str, str, str]:
    field = re.sub(r"\[\d+\]", "[]", finding.field)
    return finding.rule, finding.severity, finding.object, field


def _left(findings: Sequence[Finding], others: Sequence[Finding]) -> tuple[Finding, ...]:
    """Those that the others have not, as often as they have not."""
    there = Counter(map(_key, others))
    found: list[Finding] = []
    for finding in findings:
        key = _key(finding)
        if there[key]:
            there[key] -= 1
        else:
            found.append(finding)
    return tuple(found)
