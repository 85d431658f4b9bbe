"""The policy pack's work, without Pulumi's types: resources in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from policies import RULES, Context, Rule, aws, evaluate, flatten, words
from policies.model import Manifest, Severity
from policies.resources import Resource, manifests
from policies.tree import mapping, written

DESCRIPTION = "Why, and examples: ./tokenworks explain RULE"
CONTEXT_VARIABLE = "TOKENWORKS_POLICY_CONTEXT"
"""Environment variable with `Context.to_json()`; without it nothing is exempt."""


@dataclass(frozen=True)
class Judge:
    """The rules with the context of one run of `preview` or `up`.

    Each resource is judged before it is created, so that even an update without a preview stops
    in time; what only the stack as a whole shows is judged when all of it is known: before the
    first change in a preview, after the last one in an update.
    """

    context: Context
    unknown: type[Exception]
    """What reading a value raises that exists only after `up`."""

    @classmethod
    def of(cls, environ: Mapping[str, str], unknown: type[Exception]) -> Judge:
        """The judge for the environment that the engine gives a policy pack."""
        text = environ.get(CONTEXT_VARIABLE)
        return cls(Context.from_json(text) if text else Context(), unknown)

    def each(self, resource: Resource, severity: Severity) -> list[str]:
        """Findings of one severity about one resource."""
        rules = [rule for rule in RULES if not rule.whole_set]
        found = self._findings([resource], severity, rules)
        found += aws.judge([resource], self.unknown, severity, self.context, across=False)
        return [text for text, _ in found]

    def stack(self, resources: Iterable[Resource], severity: Severity) -> list[tuple[str, str]]:
        """Findings of one severity, with their URN, that no resource shows by itself."""
        every = list(resources)
        known = {text for resource in every for text in self.each(resource, severity)}
        # On a cluster that is still to be made, objects have no contents yet. What is missing
        # from a set that is half unknown cannot be told; `check ENV` judges the whole of it.
        rules = RULES if all(_is_known(m) for _, m in manifests(every, self.unknown)) else ()
        found = [i for i in self._findings(every, severity, rules) if i[0] not in known]
        return found + aws.judge(every, self.unknown, severity, self.context, across=True)

    def _findings(
        self, resources: Iterable[Resource], severity: Severity, rules: Sequence[Rule]
    ) -> list[tuple[str, str]]:
        urns: list[str] = []
        objects: list[Manifest] = []
        for urn, manifest in manifests(resources, self.unknown):
            if not _is_known(manifest):
                continue
            for item in flatten([manifest]):
                urns.append(urn)
                objects.append(item)
        return [
            (words(finding), urns[violation.index] if urns else "")
            for violation, finding in evaluate(objects, self.context, rules)
            if finding.severity == severity
        ]


def _is_known(manifest: Manifest) -> bool:
    """Whether the object says at least which one it is."""
    return written(mapping(manifest.get("metadata")).get("name"))
