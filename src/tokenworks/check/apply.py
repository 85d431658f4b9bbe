"""What is judged before anything is applied: the rules over all that an environment renders.

`./tokenworks up` asks first; the Pulumi program asks again when it is about to change something,
so that `pulumi up` as users type it refuses the same. A preview only warns of what is unresolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from policies import Finding, check, words
from policies.model import Severity
from tokenworks.check.context import context_of, unresolved_revisions
from tokenworks.errors import TokenworksError
from tokenworks.render.release import Release
from tokenworks.spec.stack import Stack


def when_applied(stack: Stack) -> Severity:
    """How bad an unresolved digest or revision is then: images made here never have one."""
    made_here = stack.environment.spec.cluster.provider in ("local", "kind")
    return "warning" if made_here else "error"


def findings(
    stack: Stack, releases: Sequence[Release], local_images: Iterable[str]
) -> list[Finding]:
    """Everything found; errors forbid applying it."""
    context = replace(context_of(stack, local_images), unresolved=when_applied(stack))
    objects = [item for release in releases for item in release.objects]
    return [*check(objects, context), *unresolved_revisions(stack, context)]


def refuse(
    stack: Stack, releases: Sequence[Release], local_images: Iterable[str], *, preview: bool = False
) -> None:
    """Go on only when nothing forbids applying it; a preview is left to the policy pack.

    Raises:
        TokenworksError: with the words of every error.
    """
    if preview:
        return
    if stack.environment.spec.delivery == "argocd":
        raise TokenworksError(
            f"environment {stack.name} is delivered by Argo CD, and plain `pulumi up` does not "
            f"know what it may forget: use ./tokenworks up {stack.name}"
        )
    errors = [f for f in findings(stack, releases, local_images) if f.severity == "error"]
    if errors:
        said = "\n".join(words(finding) for finding in errors)
        raise TokenworksError(
            f"{said}\n{len(errors)} finding(s) above; nothing was changed. "
            "`./tokenworks explain RULE` says more"
        )
