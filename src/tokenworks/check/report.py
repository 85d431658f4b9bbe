"""What a check found: as text, JSON, SARIF, GitHub annotations, Markdown, and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from policies import RULES, Finding, words
from policies.model import Severity
from policies.secrets import masked
from tokenworks.check import rules

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
        """All findings, one below the other, and a last line that counts."""
        blocks = [
            f"{place(finding)}{finding.severity}: {words(finding)}" for finding in self.findings
        ]
        return "\n".join([*blocks, self.summary()])

    def summary(self) -> str:
        """`checked 12 objects in 4 files: 2 errors, 1 warning`."""
        if self.exit_code == 2:
            return f"nothing to check: no Kubernetes objects in {self.where}{self._others()}"
        warnings = len(self.findings) - self.errors
        found = f"{_count(self.errors, 'error')}, {_count(warnings, 'warning')}"
        return f"checked {_count(self.objects, 'object')} in {self.where}: {found}{self._others()}"

    def _others(self) -> str:
        if not self.without_objects:
            return ""
        shown = ", ".join(self.without_objects[:5])
        more = len(self.without_objects) - 5
        rest = f" and {more} more" if more > 0 else ""
        return f" (no Kubernetes objects in {shown}{rest})"

    def json(self) -> str:
        """The findings as a JSON list."""
        return json.dumps(
            [_row(finding) for finding in self.findings], indent=2, ensure_ascii=False
        )

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
        lines = [f"**Policies:** {self.summary()}"]
        for file, findings in self._by_file().items():
            lines += ["", f"### {_inline(file)}", "", "| line | severity | rule | what | remedy |",
                      "|---|---|---|---|---|"]  # fmt: skip
            for found in findings:
                what = f"{found.object}: {found.message}" + (
                    f" (`{found.field}`)" if found.field else ""
                )
                cells = ("" if found.line is None else str(found.line), found.severity, found.rule,
                         what, found.remedy)  # fmt: skip
                lines.append(f"| {' | '.join(_cell(masked(cell)) for cell in cells)} |")
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


def place(finding: Finding) -> str:
    """`file:line:column: `, as far as it is known."""
    if finding.file is None:
        return ""
    parts = [finding.file, *(str(n) for n in (finding.line, finding.column) if n is not None)]
    return f"{':'.join(parts)}: "


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
        f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items() if value
    )
    text = f"{finding.object}: {finding.message} ({finding.field})\nremedy: {finding.remedy}"
    return f"::{finding.severity} {shown}::{_escaped(masked(text))}"


def _escaped(text: str, more: str = "") -> str:
    """As workflow commands want it: no line end, and no sign that ends a property."""
    for sign in ("%", "\r", "\n", *more):
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _inline(text: str) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    """Text that a table's cell can hold."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
