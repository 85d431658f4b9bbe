"""What a check found, as text, as JSON, and as an exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass

from policies import Finding, words
from policies.secrets import masked


@dataclass(frozen=True)
class Report:
    """Findings, and how much was looked at."""

    findings: tuple[Finding, ...]
    objects: int
    where: str
    """`4 files`, `environment local`."""
    without_objects: tuple[str, ...] = ()

    @property
    def errors(self) -> int:
        """Findings that fail the check."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 fine, 1 errors found, 2 nothing to check."""
        if self.errors:
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
        rows = [
            {
                "rule": f.rule,
                "severity": f.severity,
                "object": masked(f.object),
                "field": masked(f.field),
                "file": f.file,
                "line": f.line,
                "message": masked(f.message),
                "remedy": masked(f.remedy),
            }
            for f in self.findings
        ]
        return json.dumps(rows, indent=2, ensure_ascii=False)


def place(finding: Finding) -> str:
    """`file:line: `, as far as it is known."""
    if finding.file is None:
        return ""
    return f"{finding.file}:{'' if finding.line is None else f'{finding.line}:'} "


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
