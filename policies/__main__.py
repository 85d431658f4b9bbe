"""The Pulumi policy pack: the rules of `./tokenworks check`, in the same words.

`TOKENWORKS_POLICY_CONTEXT` (see `./tokenworks env ENV`) holds what objects do not say: which
images are built locally, which namespaces are the platform's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from pulumi_policy import EnforcementLevel, PolicyPack, StackValidationPolicy  # noqa: E402
from pulumi_policy.policy import ReportViolation, StackValidationArgs  # noqa: E402
from pulumi_policy.proxy import UnknownValueError  # noqa: E402

from policies.model import Severity  # noqa: E402
from policies.pack import DESCRIPTION, ENFORCEMENT, context_from, violations  # noqa: E402

CONTEXT = context_from(os.environ.get("TOKENWORKS_POLICY_CONTEXT"))


def policy(severity: Severity, level: str) -> StackValidationPolicy:
    """The findings of one severity, over all resources of the stack at once."""

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        for text, urn in violations(args.resources, severity, CONTEXT, UnknownValueError):
            report(text, urn)

    return StackValidationPolicy(f"{severity}s", DESCRIPTION, validate, EnforcementLevel(level))


PolicyPack("tokenworks", [policy(*item) for item in ENFORCEMENT.items()])
