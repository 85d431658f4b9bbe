"""`check` and `explain`: manifests against the rules, and why the rules are there."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tokenworks.cli.context import begun, environments, load, render_tools, root, say
from tokenworks.cli.pr import refused_since
from tokenworks.errors import TokenworksError, UsageError, nearest
from tokenworks.spec.problems import shown

if TYPE_CHECKING:
    from policies import Context
    from tokenworks.check.report import Report


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    MARKDOWN = "markdown"


class Level(StrEnum):
    """Which findings fail the check."""

    ERROR = "error"
    WARNING = "warning"


class Profile(StrEnum):
    """How strict the rules are."""

    LOCAL = "local"
    DEV = "dev"
    PROD = "prod"
    STRICT = "strict"


_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV|PATH",
            help="An environment of stacks/, or files, folders and - for standard input.",
        ),
    ],
    *,
    output: Annotated[
        Format,
        typer.Option(
            "--format",
            help="text for people, json for programs, sarif for code scanning, github for "
            "annotations, markdown for a pull request's comment.",
        ),
    ] = Format.TEXT,
    level: Annotated[
        Level, typer.Option("--level", help="The least severity that fails the check.")
    ] = Level.ERROR,
    profile: Annotated[
        Profile | None,
        typer.Option(
            "--profile",
            help="How strict to be (default: what the environment says; prod for other files).",
        ),
    ] = None,
    live: Annotated[
        str | None,
        typer.Option(
            "--live",
            metavar="NAMESPACE",
            help="Check what runs in this namespace of ENV's cluster.",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REF",
            help="Refuse what ENV cannot change since REF too: fixed fields, CRDs that go.",
        ),
    ] = None,
) -> None:
    """Check manifests: probes, GPU limits, digests, NetworkPolicies and more.

    A bare name that is a folder of stacks/ is that environment: it is rendered and
    checked as a whole, schemas included. Everything else is a path: files as they are,
    folders with all .yaml, .yml and .json below them, as one set. Where a folder has an
    environment's name, ./NAME is the folder.

    Folders below rendered/ are judged as their environment says.

    Exit code 0: no errors (warnings may be printed); 1: errors, or whatever --level says;
    2: nothing to check, or wrong usage. `./tokenworks explain RULE` says more about a rule.

    Example: ./tokenworks check local

    Example: helm template my-chart | ./tokenworks check -

    Example: ./tokenworks check local --live research

    Example: ./tokenworks check prod --base main
    """
    named = [target for target in targets if _is_environment(target)]
    if named and len(targets) > 1:
        raise UsageError(
            f"{named[0]} is an environment: check it alone, or write ./{named[0]} for the folder"
        )
    if live is not None and not named:
        raise UsageError("--live wants the environment whose cluster it is: check ENV --live NS")
    if live is not None and not _NAMESPACE.fullmatch(live):
        raise UsageError(
            f"--live wants the name of a namespace, found {shown(live) if live else 'nothing'}; "
            "allowed: lower-case letters, digits and dashes, at most 63"
        )
    if base is not None and (not named or live is not None):
        raise UsageError("--base wants an environment of stacks/ alone: check ENV --base REF")
    from tokenworks.check.report import FORMATS  # noqa: PLC0415 - start-up time of --help

    if named and live is not None:
        found = _live(named[0], live, profile)
    else:
        found = _environment(named[0], profile) if named else _paths(targets, profile)
    if base is not None:
        found = replace(found, findings=(*found.findings, *refused_since(base, named[0])))
    report = replace(found, level=level.value)
    print(FORMATS[output.value](report))
    if output in (Format.JSON, Format.SARIF):
        say(report.summary())
    raise typer.Exit(report.exit_code)


def _is_environment(name: str) -> bool:
    """An environment, or a folder of stacks/ that lacks the document which makes it one."""
    # Not Path.exists(): it fails for names that are too long.
    return name in environments() or (begun(name) and not os.path.exists(name))  # noqa: PTH110


def _paths(targets: list[str], profile: Profile | None) -> Report:
    from policies import Context  # noqa: PLC0415
    from tokenworks.check.context import today  # noqa: PLC0415
    from tokenworks.check.run import check_paths  # noqa: PLC0415

    for target in targets:
        # Not Path.exists(): it fails for names that are too long, and takes none for this folder.
        if target != "-" and not os.path.exists(target):  # noqa: PTH110
            known = environments()
            near = nearest(target, known) if "/" not in target else None
            raise UsageError(
                f"{shown(target)}: no such file, folder or environment "
                f"({', '.join(known) or 'none'})" + (f"; did you mean {near}?" if near else "")
            )
    rendered = _rendered(targets)
    context = Context(today=today()) if rendered is None else _context(rendered)
    return check_paths(targets, sys.stdin.buffer, _with(context, profile))


def _rendered(targets: list[str]) -> str | None:
    """The environment whose rendered files all targets are."""
    known = environments()
    found: set[str | None] = set()
    for target in targets:
        path = Path(target).resolve()
        below = root() / "rendered"
        inside = target != "-" and path.is_relative_to(below) and path != below
        name = path.relative_to(below).parts[0] if inside else None
        found.add(name if name in known else None)
    return found.pop() if len(found) == 1 else None


def _context(name: str) -> Context:
    """What the rules must know of an environment, for files that may be a part of it."""
    from local.images import local_image_names  # noqa: PLC0415
    from tokenworks.check.context import context_of  # noqa: PLC0415

    context = context_of(load(name), local_image_names())
    # A part of an environment does not use all of its waivers.
    return replace(context, whole=False)


def _live(name: str, namespace: str, profile: Profile | None) -> Report:
    from tokenworks.check.live import check_live  # noqa: PLC0415
    from tokenworks.cli.endpoint import kubectl, remedy  # noqa: PLC0415

    stack = load(name)
    command, context = kubectl(stack), _with(_context(name), profile)
    try:
        return check_live(command, namespace, context)
    except TokenworksError as error:
        raise TokenworksError(f"check --live {namespace}: {error}\n{remedy(stack)}") from None


def _with(context: Context, profile: Profile | None) -> Context:
    return context if profile is None else replace(context, profile=profile.value)


def _environment(name: str, profile: Profile | None) -> Report:
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
    context = _with(context_of(stack, local_image_names()), profile)
    return check_environment(stack, releases, context, tools)


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
        print(f"{name:26} {rules.title(name)}")


def admission_command(
    environment: Annotated[
        str, typer.Argument(metavar="ENV", help="The environment whose profile and waivers count.")
    ],
    rules: Annotated[
        bool, typer.Option("--rules", help="Say of each rule whether it is asked, and why not.")
    ] = False,
) -> None:
    """Print the rules that one object shows by itself as admission policies for its cluster.

    ValidatingAdmissionPolicies and their bindings: errors are denied, warnings are said.

    Example: ./tokenworks admission dev | kubectl apply -f -
    """
    import yaml  # noqa: PLC0415 - start-up time of --help

    from policies import RULES  # noqa: PLC0415
    from policies.admission import admission, elsewhere  # noqa: PLC0415

    load(environment)  # which says what is wrong with the name, or with the documents
    if rules:
        for rule in RULES:
            print(f"{rule.id:26} {elsewhere(rule) or 'asked in admission'}")
        return
    made = admission(RULES, _context(environment))
    texts: list[str] = [
        yaml.safe_dump(item, sort_keys=False, width=100)  # pyright: ignore[reportUnknownMemberType]
        for item in made
    ]
    print("---\n".join(texts), end="")
