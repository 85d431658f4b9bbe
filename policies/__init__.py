"""Rules over a whole set of Kubernetes objects, as pure functions.

`check` is the one entry: `./tokenworks check`, the Pulumi policy pack and the tests
call it, and all print `words`. Nothing here reads files or the cluster, save its own
data; only the standard library is used, and PyYAML for texts inside of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policies.certain import Certain
from policies.inventory import Inventory
from policies.model import Context, Finding, Manifest, Rule, Violation, field_of, name_of
from policies.pods import flatten
from policies.profiles import weigh
from policies.rules import ALL as RULES
from policies.text import explanation, words
from policies.tree import Unknown
from policies.waivers import apply

__all__ = [
    "RULES",
    "Context",
    "Finding",
    "Manifest",
    "Rule",
    "Unknown",
    "Violation",
    "check",
    "evaluate",
    "explain",
    "field_of",
    "flatten",
    "name_of",
    "words",
]


def check(objects: Sequence[Manifest], context: Context) -> list[Finding]:
    """All findings over a set of objects, in the order of the objects, then of the rules."""
    return [finding for _, finding in evaluate(objects, context)]


_NAMES = frozenset(rule.id for rule in RULES)


def evaluate(
    objects: Sequence[Manifest],
    context: Context,
    rules: Sequence[Rule] = RULES,
    *,
    known: bool = False,
) -> list[tuple[Violation, Finding]]:
    """Findings with the violations behind them, for callers that know where objects come from.

    `Violation.index` counts the objects of `flatten(objects)`. `known`: no value is `Unknown`, as
    in whatever was read from files or a cluster; only previews have such.
    """
    inventory = Inventory.of(objects)
    certain = Certain(inventory, known)
    found: list[tuple[int, Violation, Finding]] = []
    for order, rule in enumerate(rules):
        for violation in certain.find(rule, context):
            severity = weigh(rule.id, violation.severity or rule.severity, context)
            if severity is None:
                continue
            finding = Finding(
                rule.id,
                severity,
                name_of(inventory.objects[violation.index]),
                field_of(violation.path),
                violation.message,
                violation.remedy,
            )
            found.append((order, violation, finding))
    found.sort(key=lambda item: (item[1].index, item[0]))
    once: dict[tuple[int, Finding], Violation] = {}
    for _, violation, finding in found:
        once.setdefault((violation.index, finding), violation)
    ordered = [(violation, finding) for (_, finding), violation in once.items()]
    return apply(inventory.objects, context, ordered, every=rules is RULES, rules=_NAMES)


def explain(rule_id: str) -> str:
    """Why a rule exists, with an example it refuses and one it accepts.

    Raises KeyError when there is no such rule.
    """
    rule = next((rule for rule in RULES if rule.id == rule_id), None)
    if rule is None:
        raise KeyError(rule_id)
    examples = Path(__file__).parent / "examples" / rule.id
    good, bad = ((examples / f"{name}.yaml").read_text() for name in ("good", "bad"))
    return explanation(rule, good, bad)
