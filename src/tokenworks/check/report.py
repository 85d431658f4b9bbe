"""What a check found: as text, JSON, SARIF, GitHub annotations, Markdown, and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from policies import RULES, Finding
from policies.model import Severity
from policies.secrets import masked
from policies.text import one_line, visible, what, words
from tokenworks.check import rules
from tokenworks.check.markdown import code, plain

SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class Report:
    """Findings, and how much was looked at."""

    findings: tuple[Finding, ...]
    objects: int
    where: str
    """`4 files`, `environment local`."""
    without_objects: tuple[str, ...] = ()
    level: Severity = "error"
    """The least severity that fails the check."""

    @property
    def errors(self) -> int:
        """Findings of severity error."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 fine, 1 findings at or above the level, 2 nothing to check."""
        if self.errors or (self.level == "warning" and self.findings):
            return 1
        return 0 if self.objects else 2

    def text(self) -> str:
        """The findings of each file, those of an object together, and a last line that counts.

        Each says its object too: the words are those of previews and `up`.
        """
        lines: list[str] = []
        for file, findings in self._by_file().items():
            lines.append(visible(file))
            by_object: dict[str, list[Finding]] = {}
            for finding in findings:
                by_object.setdefault(finding.object, []).append(finding)
            lines += [_two_lines(finding) for own in by_object.values() for finding in own]
            lines.append("")
        return "\n".join([*lines, self.summary()])

    def summary(self) -> str:
        """`checked 12 objects in 4 files: 2 errors, 1 warning`."""
        if self.exit_code == 2:
            where = visible(self.where)
            return f"nothing to check: no Kubernetes objects in {where}{self._others()}"
        warnings = len(self.findings) - self.errors
        found = f"{_count(self.errors, 'error')}, {_count(warnings, 'warning')}"
        where = visible(self.where)
        return f"checked {_count(self.objects, 'object')} in {where}: {found}{self._others()}"

    def _others(self) -> str:
        if not self.without_objects:
            return ""
        shown = visible(", ".join(self.without_objects[:5]))
        more = len(self.without_objects) - 5
        rest = f" and {more} more" if more > 0 else ""
        return f" (no Kubernetes objects in {shown}{rest})"

    def json(self) -> str:
        """The findings as a JSON list; what would show nothing, or turn a line, is written out."""
        rows = [_row(finding) for finding in self.findings]
        text = json.dumps(rows, indent=2, ensure_ascii=False)
        return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)

    def sarif(self) -> str:
        """One run of SARIF 2.1.0, for code scanning."""
        used = list(dict.fromkeys(finding.rule for finding in self.findings))
        driver = {
            "name": "tokenworks",
            "rules": [_sarif_rule(name) for name in used],
        }
        results = [_sarif_result(finding, used.index(finding.rule)) for finding in self.findings]
        run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2)

    def github(self) -> str:
        """Workflow commands that GitHub shows beside the line, and a last line that counts."""
        return "\n".join([*map(_annotation, self.findings), self.summary()])

    def markdown(self) -> str:
        """A comment for a pull request: a count, and a table for each file."""
        lines = [f"**Policies:** {plain(self.summary())}"]
        for file, findings in self._by_file().items():
            lines += ["", f"### {code(file)}", "", "| line | severity | rule | what | remedy |",
                      "|---|---|---|---|---|"]  # fmt: skip
            for found in findings:
                of = f"{found.object}: " if found.object else ""
                where = f" ({_cell(found.field)})" if found.field else ""
                problem = f"{plain(f'{of}{found.message}')}{where}"
                cells = ("" if found.line is None else str(found.line), found.severity, found.rule,
                         problem, plain(found.remedy))  # fmt: skip
                lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def _by_file(self) -> Mapping[str, list[Finding]]:
        grouped: dict[str, list[Finding]] = {}
        for finding in self.findings:
            grouped.setdefault(finding.file or self.where, []).append(finding)
        return grouped


FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": Report.text,
    "json": Report.json,
    "sarif": Report.sarif,
    "github": Report.github,
    "markdown": Report.markdown,
}


def _two_lines(finding: Finding) -> str:
    """Line and column, as far as they are known, and what is wrong; below it what to do."""
    known = [str(n) for n in (finding.line, finding.column) if n is not None]
    place = f"{':'.join(known)} " if known else ""
    return f"  {place}{finding.severity}: {words(finding)}".replace("\n", "\n  ")


def _row(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "object": masked(finding.object),
        "field": masked(finding.field),
        "file": finding.file,
        "line": finding.line,
        "message": masked(finding.message),
        "remedy": masked(finding.remedy),
    }


def _sarif_rule(name: str) -> dict[str, object]:
    what, why, remedy = rules.about(name)
    link = next((rule.link for rule in RULES if rule.id == name), "")
    found: dict[str, object] = {
        "id": name,
        "shortDescription": {"text": what},
        "fullDescription": {"text": why},
        "help": {"text": remedy},
    }
    return {**found, "helpUri": link} if link else found


def _sarif_result(finding: Finding, index: int) -> dict[str, object]:
    text = f"{finding.object}: {finding.message}. Remedy: {finding.remedy}"
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": masked(text)},
    }
    location: dict[str, Any] = {
        "logicalLocations": [
            {"fullyQualifiedName": masked(f"{finding.object} {finding.field}".strip())}
        ]
    }
    if finding.file is not None:
        region = {"startLine": finding.line or 1, "startColumn": finding.column or 1}
        uri = finding.file.replace("\\", "/").replace(" ", "%20")
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": region}
    result["locations"] = [location]
    return result


def _annotation(finding: Finding) -> str:
    properties = {"file": finding.file, "line": finding.line, "col": finding.column,
                  "title": finding.rule}  # fmt: skip
    shown = ",".join(
        f"{key}={_escaped(visible(str(value)), ':,')}" for key, value in properties.items() if value
    )
    problem, remedy = what(finding)
    of = f"{one_line(finding.object)}: " if finding.object else ""
    return (
        f"::{finding.severity} {shown}::{_escaped(f'{of}{problem}')}%0Aremedy: {_escaped(remedy)}"
    )


def _escaped(text: str, more: str = "") -> str:
    """As workflow commands want it: no line end, and no sign that ends a property."""
    for sign in ("%", "\r", "\n", *more):
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _cell(text: str) -> str:
    """A name as code that a table's cell can hold."""
    return code(text.replace("|", "¦"))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
