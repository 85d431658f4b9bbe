"""What `check` says and what the Pulumi pack says, of the same objects.

python -m tests.policies.agreement        prints the table

Admission, the third place, wants a cluster: `tests/e2e/admission.py` sets it beside these two.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from google.protobuf import json_format, struct_pb2
from pulumi_policy.proxy import UnknownValueError, unknown_checking_proxy

from policies import RULES, Context, Manifest, check, words
from policies.model import Severity
from policies.pack import Judge
from tests.policies.mutations import BREAKS, corpus, mutants

STRICT: Final = Context(profile="strict")
_SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning")
_RULE: Final = re.compile(r"\[([a-z0-9-]+)\]")


@dataclass(frozen=True)
class Resource:
    """What Pulumi hands to a policy, as far as the rules read it."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str


def resource(number: int, item: Manifest) -> Resource:
    """An object as it reaches the pack: through protobuf, where every number is a float."""
    version = item["apiVersion"]
    kind = f"kubernetes:{version if '/' in version else f'core/{version}'}:{item['kind']}"
    struct = json_format.Parse(json.dumps(item), struct_pb2.Struct())
    props = unknown_checking_proxy(json_format.MessageToDict(struct))
    return Resource(kind, props, f"urn:{number}")


def packed(objects: Sequence[Manifest], context: Context) -> list[str]:
    """Every sentence of a preview of these objects: of each resource, and of the stack."""
    judge = Judge(context, UnknownValueError)
    resources = [resource(number, item) for number, item in enumerate(objects)]
    said: list[str] = []
    for severity in _SEVERITIES:
        said += [text for one in resources for text in judge.each(one, severity)]
        said += [text for text, _ in judge.stack(resources, severity)]
    return said


def packed_rules(item: Manifest, context: Context) -> set[str]:
    """The rules by which the pack objects to a stack of one resource."""
    return {m[1] for text in packed([item], context) if (m := _RULE.match(text))}


def sets(breaks: int) -> Iterator[tuple[str, str, list[Manifest]]]:
    """The good manifests, and some broken ones of each rule: the rule, where, the objects."""
    good = corpus()
    yield from (("", name, objects) for name, objects in good.items())
    for rule in BREAKS:
        for where, objects in islice(mutants(rule, good), breaks):
            yield rule, where, objects


@dataclass
class Agreement:
    """Sentences of both, by rule."""

    sets: int = 0
    both: Counter[str] = field(default_factory=Counter[str])
    check: Counter[str] = field(default_factory=Counter[str])
    pack: Counter[str] = field(default_factory=Counter[str])
    apart: list[str] = field(default_factory=list[str])
    """What only one of them said, and of which set."""

    def count(self, where: str, objects: Sequence[Manifest], context: Context) -> None:
        """One set, judged by both."""
        self.sets += 1
        here = Counter(words(finding) for finding in check(objects, context))
        there = Counter(packed(objects, context))
        for side, only in ((self.both, here & there), (self.check, here - there),
                           (self.pack, there - here)):  # fmt: skip
            for text, times in only.items():
                match = _RULE.match(text)
                side[match[1] if match else text] += times
        self.apart += [f"{where}: {text}" for text in (here - there) + (there - here)]

    def table(self) -> str:
        """Rules in lines."""
        lines = [f"{'rule':24} both  check only  pack only"]
        lines += [
            f"{rule.id:24} {self.both[rule.id]:4}  {self.check[rule.id]:10}  {self.pack[rule.id]:9}"
            for rule in RULES
        ]
        both, mine, its = (sum(c.values()) for c in (self.both, self.check, self.pack))
        lines.append(f"{'all':24} {both:4}  {mine:10}  {its:9}")
        return "\n".join((*lines, f"{self.sets} sets of objects"))


def agreement(breaks: int = 2) -> Agreement:
    """The good manifests and some breaks of each rule, judged by both."""
    found = Agreement()
    for rule, where, objects in sets(breaks):
        found.count(f"{rule} {where}", objects, STRICT)
    return found


if __name__ == "__main__":
    print(agreement().table())
