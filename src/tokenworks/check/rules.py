"""The rules that only `check` has, because they are about files and whole environments."""

from __future__ import annotations

from typing import Final

import policies
from policies import aws
from tokenworks.errors import UsageError, did_you_mean
from tokenworks.spec.problems import shown

_OWN: Final = {
    "unreadable": (
        "A file is YAML or JSON text that every reader understands the same way",
        "A key given twice is settled silently in favour of one; `on`, `012` and `1_000` mean "
        "different things to different YAML versions; a tab or a NUL byte stops the whole file.",
        "Correct the line that is named; quote what is meant as text.",
    ),
    "not-an-object": (
        "A document is a Kubernetes object",
        "A misspelt apiVersion or kind makes a document that no rule looks at.",
        "Give it apiVersion and kind, or leave the file out.",
    ),
    "malformed": (
        "Fields have the shape that Kubernetes gives them",
        "A list where a map belongs, or a number where text does, is refused by the API server; "
        "and no rule can look into it, so that the object would seem clean.",
        "Write what is allowed there.",
    ),
    "leftover": (
        "No template syntax, placeholder or merge conflict is left",
        "`{{ .Values.x }}`, `${NAME}`, `<image>` and `<<<<<<<` reach the cluster as they stand, or "
        "stop the file from being read at all.",
        "Render the template, write the value, resolve the conflict.",
    ),
    "repeated-object": (
        "An object is there once",
        "The last one that is applied wins; in an environment, two releases then undo each other.",
        "Remove one, or rename it.",
    ),
    "unresolved-revision": (
        "Weights have a revision",
        "A branch of the hub can move: two pods of one release then serve different weights.",
        "Write the commit into spec.model.revision.",
    ),
    "unresolved-adapter": (
        "Adapters have a revision and a digest",
        "What was approved is one content, and the pod loads no other: without a digest it loads "
        "nothing, and requests for the adapter find no model.",
        "Write commit and `sha256sum adapter_model.safetensors` into spec.lora.adapters.",
    ),
    "unresolved-node-release": (
        "Node images have a release",
        "Nodes that start later would run another kernel and driver than those beside them.",
        "Write one of the releases of awslabs/amazon-eks-ami into spec.cluster.aws.nodeRelease.",
    ),
    "instance-type-elsewhere": (
        "Pools name instance types that their region has",
        "Nodes that AWS does not sell there never start; `up` makes everything else first.",
        "Name another type or region. AWS adds some every month: where it has, leave it.",
    ),
    "waiver": (
        "Waivers are owned, count until a day, and waive something",
        "An exception that nobody answers for, or that outlives its reason, hides the next fault.",
        "Mend what it waives and remove it, or argue for it anew with a later day.",
    ),
    "immutable-field": (
        "A change leaves alone what cannot change",
        "Selectors, claims, the queue of a running workload and what a queue has counted are fixed "
        "when an object is made: the cluster refuses the update, after other objects of the same "
        "change have been applied. Replacing the object instead stops its pods first.",
        "Give the release another name, so that a new object stands beside the old one. Where the "
        "object may be deleted first, say so in a waiver.",
    ),
    "crd-removal": (
        "A change keeps the CRDs that are there",
        "With a CRD go all objects of its kind, those of other teams and environments too.",
        "Remove what uses the kind first; remove the CRD in a change of its own, with a waiver.",
    ),
    "crd-version": (
        "A change keeps the version of a CRD that objects are stored as",
        "The API server refuses a CRD without a version that status.storedVersions names: it could "
        "not read the objects that are stored as it.",
        "Keep the version beside the new one until every object has been written anew.",
    ),
    "empty-render": (
        "A release renders objects",
        "A release without objects looks like success and installs nothing.",
        "Look at its values: ./tokenworks render ENV.",
    ),
    "schema": (
        "Objects fit the schemas of the cluster's own version and of the environment's CRDs",
        "The API server refuses wrong types and silently drops unknown fields, so a misspelt field "
        "keeps its default. A kind without a schema is an error, never skipped.",
        "Correct the field; enable the component that brings the CRD.",
    ),
}


def rule_ids() -> list[str]:
    """Every rule that a finding may name."""
    return [*(rule.id for rule in policies.RULES), *_OWN, *_aws()]


def _aws() -> dict[str, tuple[str, str, str]]:
    """Rules about resources of AWS, which the policy pack asks."""
    return {
        r.id: (f"{r.title} (AWS)", r.reason, f"{r.remedy[:1].upper()}{r.remedy[1:]}.")
        for r in aws.RULES
    }


def about(rule_id: str) -> tuple[str, str, str]:
    """What a rule asks for, why, and what to do."""
    known = {rule.id: (rule.title, rule.reason, rule.remedy) for rule in policies.RULES}
    return known.get(rule_id) or {**_OWN, **_aws()}[rule_id]


def title(rule_id: str) -> str:
    """What a rule asks for, in one line."""
    known = {rule.id: rule.title for rule in policies.RULES}
    return known.get(rule_id) or {**_OWN, **_aws()}[rule_id][0]


def explain(rule_id: str) -> str:
    """Why a rule exists and what to do; with examples, where it is about objects.

    Raises UsageError when there is no such rule.
    """
    own = {**_OWN, **_aws()}
    if rule_id in own:
        what, why, remedy = own[rule_id]
        return f"{rule_id}: {what}\n\nWhy: {why}\n\nRemedy: {remedy}\n"
    try:
        return policies.explain(rule_id)
    except KeyError:
        hint = did_you_mean(rule_id, rule_ids(), "./tokenworks explain lists them")
        raise UsageError(f"unknown rule {shown(rule_id)}; {hint}") from None
