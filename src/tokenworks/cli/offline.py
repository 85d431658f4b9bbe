"""Previews of environments on AWS without an account: the real engine and program, and a
stand-in where the AWS provider would be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tokenworks.cli import engine
from tokenworks.cli.context import root, say
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.stack import Stack

VARIABLE: Final = "PULUMI_DEBUG_PROVIDERS"
"""Tells the engine to talk to a provider that runs already. It is set for previews only."""
_UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What a state holds for an output that is not known."""
_REACHES_CLUSTER: Final = "kubeconfig"
"""An output that stays unknown here: whoever knew it would try to reach the cluster."""


def refuse_standin() -> None:
    """Nothing that changes something, or compares with it, runs through the stand-in.

    Raises:
        UsageError: the caller's environment names a provider for AWS.
    """
    named = [part for part in os.environ.get(VARIABLE, "").split(",") if part.startswith("aws:")]
    if named:
        raise UsageError(
            f"{VARIABLE} is {os.environ[VARIABLE]}: another program would play AWS, and what it "
            "says would be taken for real. Unset it; previews without an account are "
            "`./tokenworks preview ENV --offline`"
        )


def preview(stack: Stack, options: Sequence[str]) -> None:
    """Build the whole environment from nothing, and show it.

    Raises:
        UsageError: the environment is not on AWS.
        TokenworksError: the engine or the stand-in found something wrong.
    """
    if stack.environment.spec.cluster.provider != "aws":
        raise UsageError(
            f"{stack.name} is not on AWS, and its preview needs neither account nor cluster: leave "
            "out --offline"
        )
    say(
        f"offline preview of {stack.name}: from nothing, with a stand-in for the AWS provider. It "
        "checks inputs; no account was asked for quotas, names and capacity"
    )
    with standin() as port:
        for pulumi in engines(stack, port):
            say(f"stack {pulumi.stack}:")
            if engine.run(pulumi, ["preview", *options]) != 0:
                raise TokenworksError(f"preview of {pulumi.stack} failed; the reason is above")


def engines(stack: Stack, port: int) -> Generator[engine.Engine]:
    """The engine of each Pulumi stack on a state of its own: the others as they were recorded."""
    from tokenworks.spec.stacks import pulumi_stacks  # noqa: PLC0415

    first = engine.engine_of(stack, offline=True)
    shutil.rmtree(first.folder)
    first.folder.mkdir(mode=0o700)
    first = replace(first, variables={**first.variables, VARIABLE: f"aws:{port}"})
    for name in pulumi_stacks(stack):
        pulumi = first.of(name)
        engine.select(pulumi)
        yield pulumi
        if name != pulumi_stacks(stack)[-1]:
            remember(pulumi, recorded(name))


def recorded(name: str) -> dict[str, Any]:
    """Outputs of a stack as its last `up` left them, from the file beside its settings.

    Raises:
        TokenworksError: there is no such file, or it is damaged.
    """
    file = Path("stacks") / f"Pulumi.{name}.outputs.json"
    try:
        outputs: dict[str, Any] = json.loads((root() / file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TokenworksError(
            f"{file} is missing: it holds what the stacks after {name} read of it. Write it with "
            f"`pulumi stack output --json --stack {name} > {file}`"
        ) from None
    except ValueError as error:
        raise TokenworksError(f"{file} is no JSON: {error}; write it anew") from None
    return {key: _UNKNOWN if key == _REACHES_CLUSTER else outputs[key] for key in outputs}


def remember(pulumi: engine.Engine, outputs: dict[str, Any]) -> None:
    """Make the state hold the stack's outputs, and nothing else.

    Raises:
        TokenworksError: Pulumi refuses them.
    """
    kind = "pulumi:pulumi:Stack"
    name = f"{engine.PROJECT}-{pulumi.stack}"
    urn = f"urn:pulumi:{pulumi.stack}::{engine.PROJECT}::{kind}::{name}"
    resource = {"urn": urn, "custom": False, "type": kind, "outputs": outputs}
    deployment = {"version": 3, "deployment": {
        "manifest": {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""},
        "resources": [resource],
    }}  # fmt: skip
    file = pulumi.folder / "recorded.json"
    file.write_text(json.dumps(deployment), encoding="utf-8")
    engine.run(pulumi, ["stack", "import", "--file", str(file), "--force"], quiet=True)


@contextmanager
def standin() -> Generator[int]:
    """The stand-in's port while it serves; in the end it says what it checked.

    Raises:
        TokenworksError: it does not start.
    """
    command = [sys.executable, "-P", "-m", "local.aws_standin"]
    with subprocess.Popen(
        command, cwd=root(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        said = process.stdout.readline().strip()
        if not said.isdigit():
            raise TokenworksError(
                "the stand-in for AWS does not start; the reason is above. Its packages come with "
                "`./tokenworks venv pulumi aws`"
            )
        try:
            yield int(said)
        finally:
            process.stdin.close()
