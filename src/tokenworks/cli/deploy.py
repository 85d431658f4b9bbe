"""`preview`, `up`, `down` and `env`: Pulumi on one environment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from tokenworks.cli import chat, delivery, engine, leftovers, offline
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
    without: Annotated[
        bool,
        typer.Option("--offline", help="aws: no account; a stand-in checks every input."),
    ] = False,
) -> None:
    """Show what `up` would change. No cluster and no credentials are needed.

    An environment on AWS is compared with what is there, which needs credentials; with
    --offline it is built from nothing by the same program, and a stand-in for the AWS provider
    checks every input.

    Example: ./tokenworks preview local --diff

    Example: ./tokenworks preview staging --offline
    """
    stack = load(environment)
    _say_unresolved_revisions(stack)
    options = ["--diff"] if diff else []
    if without:
        offline.preview(stack, options)
        return
    offline.refuse_standin()
    for pulumi in engine.engines_of(stack):
        engine.select(pulumi)
        _announce(stack, pulumi)
        if engine.run(pulumi, ["preview", *options]) != 0:
            raise TokenworksError(f"preview of {pulumi.stack} failed; the reason is above")


def _announce(stack: Stack, pulumi: engine.Engine) -> None:
    """Only with Argo CD does a preview call deleted what stays."""
    if stack.environment.spec.delivery == "argocd":
        from tokenworks.render import render  # noqa: PLC0415

        delivery.announce(stack, render(stack, render_tools()), pulumi)


def up(
    environment: EnvironmentArgument,
    yes: YesOption = False,
    quiet: Annotated[bool, typer.Option("--no-chat", help="Do not end with a completion.")] = False,
) -> None:
    """Bring an environment up, and prove it: a local one ends with a streamed completion.

    A second run changes nothing. With provider local or kind the cluster is made first.

    Example: ./tokenworks up local
    """
    offline.refuse_standin()
    stack = load(environment)
    here = _made_here(stack)
    releases = _checked(stack)
    if here:
        from tokenworks.cli import local  # noqa: PLC0415

        local.build(stack.environment, engine.PROGRAMS)
        local.bring_up(stack, [o for release in releases for o in release.objects])
    on_aws = stack.environment.spec.cluster.provider == "aws"
    pulumis = [p.applying(releases, on_aws=on_aws) for p in engine.engines_of(stack)]
    for pulumi in pulumis:
        engine.select(pulumi)
    if pulumis[0].own_backend and not here:
        say(
            f"the state of {environment} is kept on this machine, in {pulumis[0].folder}; "
            "set PULUMI_BACKEND_URL to share it"
        )
    ask = not (here or yes)
    _settle_delivery(stack, releases, pulumis, ask=ask)
    for pulumi in pulumis:
        _apply(pulumi, stack, releases, ask=ask)
    if here and not quiet and stack.models:
        chat.talk(stack, chat.QUESTION)


def _settle_delivery(
    stack: Stack, releases: Sequence[Release], pulumis: Sequence[engine.Engine], *, ask: bool
) -> None:
    """Where Argo CD is removed, Pulumi has what it delivered before that.

    Raises:
        UsageError: the answer was no.
    """
    wanted = stack.environment.spec.delivery
    if wanted == "argocd":
        spec = stack.environment.spec.argocd
        assert spec is not None
        say(f"Argo CD delivers what {spec.repository} has at {spec.revision}")
        return
    if delivery.argocd_delivers(pulumis):
        if ask:
            _confirm(f"Stop Argo CD, which delivers {stack.name}, and let Pulumi deliver it?")
        delivery.take_back(stack, releases, pulumis)


def _apply(pulumi: engine.Engine, stack: Stack, releases: Sequence[Release], *, ask: bool) -> None:
    """Bring one Pulumi stack up; a split environment's next one reads its outputs.

    Raises:
        TokenworksError: it is not up.
        UsageError: the answer was no.
    """
    if ask:
        _need_terminal()
        delivery.announce(stack, releases, pulumi)
        if engine.run(pulumi, ["preview"]) != 0:
            raise TokenworksError(f"preview of {pulumi.stack} failed; the reason is above")
        _confirm(f"Apply these changes to {pulumi.stack}?")
    delivery.hand_over(stack, releases, pulumi)
    if engine.change(pulumi, "up") != 0:
        raise TokenworksError(
            f"{pulumi.stack} is not up; the reason is above. What was applied stays; "
            f"run ./tokenworks up {stack.name} again to go on"
        )
    pulumi.interrupted.unlink(missing_ok=True)


def down(environment: EnvironmentArgument, yes: YesOption = False) -> None:
    """Remove what was deployed. CRDs stay, with the objects of others; so does the cluster.

    It asks first, where others may use the environment: with provider local or kind, whose
    cluster is this machine's own, it does not; --yes answers for the others.

    Example: ./tokenworks down local
    """
    stack = load(environment)
    offline.refuse_standin()
    pulumis = [pulumi for pulumi in engine.engines_of(stack) if engine.exists(pulumi)]
    if not pulumis:
        say(f"{environment}: nothing is deployed")
        return
    if not (_made_here(stack) or yes):
        _confirm(f"Remove everything that was deployed to {environment}?")
    if delivery.argocd_delivers(pulumis):
        delivery.remove_delivered(stack, pulumis)
    for pulumi in reversed(pulumis):
        _destroy(pulumi, stack)


def _destroy(pulumi: engine.Engine, stack: Stack) -> None:
    """Remove what one Pulumi stack holds.

    Raises:
        TokenworksError: something is left.
    """
    engine.select(pulumi)
    killed = pulumi.interrupted.exists()
    if engine.change(pulumi, "destroy") != 0:
        raise TokenworksError(f"not everything of {pulumi.stack} was removed; the reason is above")
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
    pulumis = engine.engines_of(stack)
    for pulumi in pulumis:
        engine.select(pulumi)
    pulumi = pulumis[0]
    for name, value in sorted(pulumi.variables.items()):
        print(f"export {name}={shlex.quote(value)}")
    if "PULUMI_CONFIG_PASSPHRASE_FILE" in pulumi.variables:
        # Pulumi would prefer the user's own passphrase, which fits another state.
        print("unset PULUMI_CONFIG_PASSPHRASE")


def _need_terminal() -> None:
    """Say so before anything slow, where there is nobody to ask.

    Raises:
        UsageError: no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on: add --yes")


def _confirm(question: str) -> None:
    """Ask; without a terminal there is nobody to ask.

    Raises:
        UsageError: no terminal, or the answer is no.
    """
    _need_terminal()
    if not typer.confirm(question):
        raise UsageError("nothing was changed")
