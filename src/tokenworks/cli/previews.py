"""Offline previews as data: what a Pulumi stack would make, and what a change would do to it."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final

from tokenworks.cli import engine, offline
from tokenworks.cli.context import root, say
from tokenworks.errors import TokenworksError
from tokenworks.review.review import Operation
from tokenworks.spec.load import load_stack
from tokenworks.spec.stacks import pulumi_stacks

Step = dict[str, Any]
"""One resource of a preview, as Pulumi tells of it."""
UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What a state holds for an output that is not known."""


def steps_of(pulumi: engine.Engine, folder: Path) -> list[Step]:
    """Every step of a stack's preview, by the program in the folder.

    Raises:
        TokenworksError: the preview fails.
    """
    command = [str(pulumi.pulumi), "preview", "--json", "--stack", pulumi.stack]
    without_policies = {
        k: v for k, v in pulumi.variables.items() if k != "PULUMI_OPTION_POLICY_PACK"
    }
    paths = {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    done = subprocess.run(
        [*command, "--non-interactive"],
        cwd=folder,
        env={**os.environ, **pulumi.tuning, **without_policies, **paths},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise TokenworksError(f"preview of {pulumi.stack} failed:\n{_said(done)}")
    return json.loads(done.stdout)["steps"]


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """What went wrong: Pulumi says it in its JSON, or beside it."""
    try:
        told: list[dict[str, Any]] = json.loads(done.stdout).get("diagnostics") or []
    except (ValueError, AttributeError):
        return f"{done.stderr}{done.stdout[-2000:]}".strip()
    errors = [str(d.get("message")).strip() for d in told if d.get("severity") == "error"]
    return "\n".join([done.stderr.strip(), *errors]).strip()


def remember(pulumi: engine.Engine, steps: Iterable[Step]) -> None:
    """Make the state hold what a preview would have made, as far as it is known."""
    deployment = {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""},
            "resources": [_resource(state) for state in _ordered(steps)],
        },
    }
    file = pulumi.folder / "remembered.json"
    file.write_text(json.dumps(deployment), encoding="utf-8")
    engine.run(pulumi, ["stack", "import", "--file", str(file), "--force"], quiet=True)


def _ordered(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """What is made, each after its parent and its provider, as a state has it: a preview tells of
    resources when they are ready."""
    states: dict[str, dict[str, Any]] = {str(s["urn"]): s["newState"] for s in steps}
    for urn in {_provider(state) for state in states.values()} - {*states, ""}:
        # Previews do not show the providers that resources have by default.
        kind = urn.split("::")[2]
        states[urn] = {"urn": urn, "custom": True, "type": kind, "inputs": {}}
    needs = {
        urn: [n for n in (state.get("parent"), _provider(state)) if n in states and n != urn]
        for urn, state in states.items()
    }
    return [states[urn] for urn in TopologicalSorter(needs).static_order()]


def _provider(state: dict[str, Any]) -> str:
    """URN of a resource's provider: what it names without the provider's own number."""
    return str(state.get("provider") or "").rpartition("::")[0]


def _resource(state: dict[str, Any]) -> dict[str, Any]:
    kept = {k: state[k] for k in ("urn", "custom", "type", "inputs", "parent") if k in state}
    if state["custom"]:
        # What AWS calls it is not known; a provider has to be called something.
        known = str(state["type"]).startswith("pulumi:providers:")
        kept |= {"id": "provider" if known else UNKNOWN, "outputs": state.get("inputs", {})}
    if "provider" in state:
        kept["provider"] = f"{_provider(state)}::provider"
    return kept


def changes(steps: Iterable[Step]) -> dict[str, set[str]]:
    """Operation: names of AWS's resources that it is done to."""
    found: dict[str, set[str]] = defaultdict(set)
    for operation in _operations(steps):
        found[operation.what].add(operation.name)
    return dict(found)


def _operations(steps: Iterable[Step]) -> Iterator[Operation]:
    for step in steps:
        kind = str((step.get("newState") or step["oldState"])["type"])
        if step["op"] != "same" and kind.startswith("aws:"):
            yield Operation(step["op"], kind, str(step["urn"]).rpartition("::")[2])


def operations(name: str, before: Path, after: Path) -> tuple[Operation, ...]:
    """What the way from one folder's documents and program to another's does to AWS's resources.

    A stand-in plays AWS: what the first would make is taken for what is there.

    Raises:
        TokenworksError: a preview fails, or the two have other stacks.
    """
    old, new = load_stack(before, name), load_stack(after, name)
    if pulumi_stacks(old) != pulumi_stacks(new):
        raise TokenworksError(f"{name} is divided into other stacks (spec.stacks)")
    say(f"{name}: previewing its infrastructure before and after, without an account")
    for folder in (before, after):
        venv = folder / ".venv"
        if not venv.exists():
            venv.symlink_to(root() / ".venv")
    with offline.standin() as port:
        pulumi = next(offline.engines(old, port))
        remember(pulumi, steps_of(pulumi, before))
        return tuple(sorted(_operations(steps_of(pulumi, after)), key=lambda o: (o.what, o.name)))
