"""The Pulumi policy pack: the rules of `./tokenworks check`, in the same words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)
sys.path.insert(1, str(ROOT / "src"))

import pulumi_policy as pulumi  # noqa: E402
from pulumi_policy.proxy import UnknownValueError  # noqa: E402

from policies.model import Severity  # noqa: E402
from policies.pack import DESCRIPTION, Judge  # noqa: E402

JUDGE = Judge.of(os.environ, UnknownValueError)
MUST, MAY = pulumi.EnforcementLevel.MANDATORY, pulumi.EnforcementLevel.ADVISORY


def policies(severity: Severity, level: pulumi.EnforcementLevel) -> list[pulumi.Policy]:
    """Findings of one severity: in each resource by itself, and in the stack as a whole."""

    def each(args: pulumi.ResourceValidationArgs, report: pulumi.ReportViolation) -> None:
        for text in JUDGE.each(args, severity):
            report(text, args.urn)

    def stack(args: pulumi.StackValidationArgs, report: pulumi.ReportViolation) -> None:
        for text, urn in JUDGE.stack(args.resources, severity):
            report(text, urn)

    return [
        pulumi.ResourceValidationPolicy(f"{severity}s", DESCRIPTION, each, level),
        pulumi.StackValidationPolicy(f"stack-{severity}s", DESCRIPTION, stack, level),
    ]


pulumi.PolicyPack("tokenworks", policies("error", MUST) + policies("warning", MAY))
