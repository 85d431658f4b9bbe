"""`check` and `explain`: manifests against the rules, and why the rules are there."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tokenworks.cli.context import environments, load, render_tools, say
from tokenworks.errors import UsageError

if TYPE_CHECKING:
    from tokenworks.check.report import Report


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"


def check_command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV|PATH",
            help="An environment of stacks/, or files, folders and - for standard input.",
        ),
    ],
    output: Annotated[
        Format, typer.Option("--format", help="text for people, json for programs.")
    ] = Format.TEXT,
) -> None:
    """Check manifests: probes, GPU limits, digests, NetworkPolicies and more.

    A bare name that is a folder of stacks/ is that environment: it is rendered and
    checked as a whole, schemas included. Everything else is a path: files as they are,
    folders with all .yaml, .yml and .json below them, as one set. Where a folder has an
    environment's name, ./NAME is the folder.

    Exit code 0: no errors (warnings may be printed); 1: errors; 2: nothing to check, or
    wrong usage. `./tokenworks explain RULE` says more about a rule.

    Example: ./tokenworks check local

    Example: helm template my-chart | ./tokenworks check -
    """
    named = [target for target in targets if target in environments()]
    if named and len(targets) > 1:
        raise UsageError(
            f"{named[0]} is an environment: check it alone, or write ./{named[0]} for the folder"
        )
    report = _environment(named[0]) if named else _paths(targets)
    if output is Format.JSON:
        print(report.json())
        say(report.summary())
    else:
        print(report.text())
    raise typer.Exit(report.exit_code)


def _paths(targets: list[str]) -> Report:
    from policies import Context  # noqa: PLC0415 - start-up time of --help
    from tokenworks.check.run import check_paths  # noqa: PLC0415

    for target in targets:
        # Not Path.exists(): it fails for names that are too long, and takes none for this folder.
        if target != "-" and not os.path.exists(target):  # noqa: PTH110
            known = ", ".join(environments()) or "none"
            raise UsageError(
                f"{target[:60] or repr(target)}: no such file, folder or environment ({known})"
            )
    return check_paths(targets, sys.stdin.buffer, Context())


def _environment(name: str) -> Report:
    from local.images import local_image_names  # noqa: PLC0415
    from local.toolchain import cache_dir, ensure, module_dir  # noqa: PLC0415
    from tokenworks.check.context import context_of  # noqa: PLC0415
    from tokenworks.check.environment import CheckTools, check_environment  # noqa: PLC0415
    from tokenworks.render import render  # noqa: PLC0415

    stack = load(name)
    tools = CheckTools(
        ensure("kubeconform")["kubeconform"],
        module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3",
        cache_dir() / "schemas",
    )
    releases = render(stack, render_tools())
    return check_environment(stack, releases, context_of(stack, local_image_names()), tools)


def explain(
    rule: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="A rule's name, as findings print it.")
    ] = None,
) -> None:
    """Say why a rule exists, with an example it refuses and one it accepts.

    Without a rule, list them all.

    Example: ./tokenworks explain startup-probe
    """
    from tokenworks.check import rules  # noqa: PLC0415

    if rule is not None:
        print(rules.explain(rule), end="")
        return
    for name in rules.rule_ids():
        print(f"{name:16} {rules.title(name)}")
