"""The policy pack's work, without Pulumi's types: resources in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable

from policies import Context, evaluate, flatten, words
from policies.model import Manifest, Severity
from policies.resources import Resource, manifests

DESCRIPTION = "Why, and examples: ./tokenworks explain RULE"
ENFORCEMENT: dict[Severity, str] = {"error": "mandatory", "warning": "advisory"}
"""What a finding does to `preview` and `up`: stop them, or be printed."""


def violations(
    resources: Iterable[Resource], severity: Severity, context: Context, unknown: type[Exception]
) -> list[tuple[str, str]]:
    """Sentence and URN of each finding of one severity."""
    urns: list[str] = []
    objects: list[Manifest] = []
    for urn, manifest in manifests(resources, unknown):
        for item in flatten([manifest]):
            urns.append(urn)
            objects.append(item)
    return [
        (words(finding), urns[violation.index])
        for violation, finding in evaluate(objects, context)
        if finding.severity == severity
    ]


def context_from(text: str | None) -> Context:
    """The context that the environment variable holds; the strictest one without it."""
    return Context() if not text else Context.from_json(text)
