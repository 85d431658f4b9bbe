"""The words of a finding: the same in `check`, in `preview` and in `up`."""

from __future__ import annotations

from policies.model import Finding, Rule
from policies.secrets import masked


def words(finding: Finding) -> str:
    """What is wrong, where, and what to do; two lines, the same wherever it is printed."""
    where = f" ({finding.field})" if finding.field else ""
    subject = f"{finding.object}: " if finding.object else ""
    text = f"[{finding.rule}] {subject}{finding.message}{where}\n    remedy: {finding.remedy}"
    return masked(text)


def explanation(rule: Rule, good: str, bad: str) -> str:
    """Everything known about a rule, for `explain`."""
    return (
        f"{rule.id} ({rule.severity}): {rule.title}\n\n"
        f"Why: {rule.reason}\n\nRemedy: {rule.remedy}\n\n"
        f"{f'More: {rule.link}' if rule.link else ''}\n\n"
        f"Refused:\n{_indent(bad)}\n\nFine:\n{_indent(good)}\n"
    )


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.strip().splitlines())
