"""The words of a finding: the same in `check`, in `preview` and in `up`."""

from __future__ import annotations

from policies.model import Finding, Rule
from policies.secrets import masked


def words(finding: Finding) -> str:
    """What is wrong, where, and what to do; two lines, the same wherever it is printed."""
    subject = f"{one_line(finding.object)}: " if finding.object else ""
    problem, remedy = what(finding)
    return f"[{finding.rule}] {subject}{problem}\n    remedy: {remedy}"


def what(finding: Finding) -> tuple[str, str]:
    """What is wrong and where, and what to do: one line each, for those who say of which object."""
    where = f" ({finding.field})" if finding.field else ""
    return one_line(f"{finding.message}{where}"), one_line(finding.remedy)


def one_line(text: str) -> str:
    """The text without credentials, as one line that shows all there is in it."""
    return visible(masked(text))


def visible(text: str) -> str:
    """The text with every sign that shows nothing, ends a line or turns it around, written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _named(c) for c in text)


def _named(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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
