"""`preview`, `up`, `down` and `env`: Pulumi on one environment."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from tokenworks.cli import chat, engine, leftovers
from tokenworks.cli.context import load, render_tools, say
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.render.release import Release
from tokenworks.spec.stack import Stack

EnvironmentArgument = Annotated[str, typer.Argument(metavar="ENV", help="A folder of stacks/.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def _checked(stack: Stack) -> tuple[Release, ...]:
    """What would be applied, checked before anything is touched, in the words of `check`.

    Raises:
        TokenworksError: an error was found.
    """
    from local.images import local_image_names  # noqa: PLC0415
    from policies import words  # noqa: PLC0415
    from tokenworks.check.apply import findings  # noqa: PLC0415
    from tokenworks.render import render  # noqa: PLC0415

    releases = render(stack, render_tools())
    found = findings(stack, releases, local_image_names())
    for finding in found:
        print(words(finding), file=sys.stderr)
    errors = sum(finding.severity == "error" for finding in found)
    if errors:
        raise TokenworksError(
            f"{errors} finding(s) above; nothing was changed. `./tokenworks explain RULE` says more"
        )
    return releases


def _say_unresolved_revisions(stack: Stack) -> None:
    """What no object shows, so that the policy pack of a preview cannot say it."""
    from local.images import local_image_names  # noqa: PLC0415
    from policies import words  # noqa: PLC0415
    from tokenworks.check.context import context_of, unresolved_revisions  # noqa: PLC0415

    for finding in unresolved_revisions(stack, context_of(stack, local_image_names())):
        print(words(finding), file=sys.stderr)


def _made_here(stack: Stack) -> bool:
    return stack.environment.spec.cluster.provider in ("local", "kind")


def preview(
    environment: EnvironmentArgument,
    diff: Annotated[bool, typer.Option("--diff", help="Show every field that changes.")] = False,
) -> None:
    """Show what `up` would change. No cluster and no credentials are needed.

    Example: ./tokenworks preview local --diff
    """
    stack = load(environment)
    _say_unresolved_revisions(stack)
    pulumi = engine.engine_of(stack)
    engine.select(pulumi)
    if engine.run(pulumi, ["preview", *(["--diff"] if diff else [])]) != 0:
        raise TokenworksError(f"preview of {environment} failed; the reason is above")


def up(
    environment: EnvironmentArgument,
    yes: YesOption = False,
    quiet: Annotated[bool, typer.Option("--no-chat", help="Do not end with a completion.")] = False,
) -> None:
    """Bring an environment up, and prove it: a local one ends with a streamed completion.

    A second run changes nothing. With provider local or kind the cluster is made first.

    Example: ./tokenworks up local
    """
    stack = load(environment)
    here = _made_here(stack)
    releases = _checked(stack)
    if here:
        from tokenworks.cli.local import bring_up  # noqa: PLC0415

        bring_up(stack, [o for release in releases for o in release.objects])
    pulumi = engine.engine_of(stack).applying(releases)
    engine.select(pulumi)
    if pulumi.own_backend and not here:
        say(
            f"the state of {environment} is kept on this machine, in {pulumi.folder}; "
            "set PULUMI_BACKEND_URL to share it"
        )
    if not (here or yes):
        if engine.run(pulumi, ["preview"]) != 0:
            raise TokenworksError(f"preview of {environment} failed; the reason is above")
        _confirm(f"Apply these changes to {environment}?")
    if engine.run(pulumi, ["up", "--yes", "--skip-preview"]) != 0:
        raise TokenworksError(
            f"{environment} is not up; the reason is above. What was applied stays; "
            f"run ./tokenworks up {environment} again to go on"
        )
    pulumi.interrupted.unlink(missing_ok=True)
    if here and not quiet and stack.models:
        chat.talk(stack, chat.QUESTION)


def down(environment: EnvironmentArgument, yes: YesOption = False) -> None:
    """Remove what was deployed. CRDs stay, with the objects of others; so does the cluster.

    Example: ./tokenworks down local
    """
    stack = load(environment)
    pulumi = engine.engine_of(stack)
    if not engine.exists(pulumi):
        say(f"{environment}: nothing is deployed")
        return
    if not (_made_here(stack) or yes):
        _confirm(f"Remove everything that was deployed to {environment}?")
    engine.select(pulumi)
    killed = pulumi.interrupted.exists()
    if engine.run(pulumi, ["destroy", "--yes", "--skip-preview"]) != 0:
        raise TokenworksError(f"not everything of {environment} was removed; the reason is above")
    if killed:
        say("an earlier run was killed: removing what it applied and could not note")
        leftovers.remove(stack)
    pulumi.interrupted.unlink(missing_ok=True)


def env(environment: EnvironmentArgument) -> None:
    """Print the settings with which plain `pulumi` does what these commands do.

    A preview warns of what is unresolved; `pulumi up` refuses it, as `up` does, before the first
    change.

    Example: eval "$(./tokenworks env local)" && pulumi preview
    """
    stack = load(environment)
    pulumi = engine.engine_of(stack)
    engine.select(pulumi)
    for name, value in sorted(pulumi.variables.items()):
        print(f"export {name}={shlex.quote(value)}")
    if "PULUMI_CONFIG_PASSPHRASE_FILE" in pulumi.variables:
        # Pulumi would prefer the user's own passphrase, which fits another state.
        print("unset PULUMI_CONFIG_PASSPHRASE")


def _confirm(question: str) -> None:
    """Ask; without a terminal there is nobody to ask.

    Raises:
        UsageError: no terminal, or the answer is no.
    """
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on: add --yes")
    if not typer.confirm(question):
        raise UsageError("nothing was changed")
