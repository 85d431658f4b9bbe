"""`picks`: what the endpoint picker decided for the last requests, and why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from tokenworks.check.kubectl import reason
from tokenworks.cli.context import load
from tokenworks.cli.endpoint import kubectl, remedy
from tokenworks.errors import TokenworksError, UsageError, did_you_mean
from tokenworks.spec.problems import shown
from tokenworks.spec.stack import Stack

# Messages of the picker's log: pkg/epp/scheduling/scheduler_profile.go of the Inference
# Extension v1.5.0.
_SCORE, _PICKED = "Calculated score", "Completed running picker plugin successfully"


@dataclass
class Pick:
    """One decision: scores by scorer and pod, and the pod that was chosen."""

    request: str
    model: str
    at: float
    scores: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    chosen: str = ""


def _records(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            record: Any = json.loads(line)
        except ValueError:
            continue
        fields = cast("dict[str, Any]", record) if isinstance(record, dict) else {}
        if fields.get("x-request-id"):
            yield fields


def _pod(endpoint: str) -> str:
    """A pod's name, without the rank that the picker adds for each port."""
    return endpoint.rpartition("-rank-")[0] or endpoint


def read_picks(lines: Iterable[str]) -> list[Pick]:
    """Decisions in the picker's log, oldest first; requests without a choice are left out."""
    picks: dict[str, Pick] = {}
    for record in _records(lines):
        pick = picks.setdefault(
            record["x-request-id"],
            Pick(record["x-request-id"], record.get("incomingModelName", ""), record["ts"]),
        )
        pick.model = pick.model or record.get("incomingModelName", "")
        if record["msg"] == _SCORE:
            scorer = record["plugin"].partition("/")[0]
            pick.scores.setdefault(scorer, {})[_pod(record["endpoint"]["name"])] = record["score"]
        elif record["msg"] == _PICKED:
            chosen = record["result"]["TargetEndpoints"]
            pick.chosen = chosen[0]["Endpoint"]["PodName"] if chosen else ""
    return [pick for pick in picks.values() if pick.chosen]


def _short(scorer: str) -> str:
    return scorer.removesuffix("-scorer")


def _table(picks: list[Pick]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    scorers = sorted({s for p in picks for s in p.scores})
    for column in ("request", "pod", *(_short(s) for s in scorers), "chosen"):
        table.add_column(column)
    for pick in picks:
        pods = sorted({pod for scores in pick.scores.values() for pod in scores} | {pick.chosen})
        for number, pod in enumerate(pods):
            values = [f"{pick.scores.get(s, {}).get(pod, 0.0):.2f}" for s in scorers]
            first = pick.request[:8] if number == 0 else ""
            table.add_row(first, pod, *values, "◀" if pod == pick.chosen else "")
    return table


def _release(stack: Stack, model: str | None) -> tuple[str, str]:
    """Name and namespace of the release that serves `model` (default: the first)."""
    for release in stack.models:
        if model in (None, release.metadata.name, *release.names):
            tenant = next(t for t in stack.tenants if t.metadata.name == release.spec.tenant)
            return release.metadata.name, tenant.namespace
    names = [m.metadata.name for m in stack.models]
    wanted = "no model" if model is None else f"no model {shown(model)}"
    raise UsageError(
        f"environment {stack.name} has {wanted}; it has: {', '.join(names) or 'none'}; "
        + did_you_mean(model or "", names, "name one of these" if names else _ADD)
    )


_ADD = "add one under its models/"


def picks(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="A folder of stacks/.")],
    model: Annotated[
        str | None, typer.Option(help="Release, served name or adapter; default: the first.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="How many requests to show.")] = 5,
) -> None:
    """Show the picker's last decisions: every pod's score by scorer, and the pod it chose.

    Example: ./tokenworks picks local --model qwen3-sim --last 3
    """
    stack = load(environment)
    name, namespace = _release(stack, model)
    command = [*kubectl(stack), "-n", namespace, "logs", f"deployment/{name}-epp", "--since=1h"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TokenworksError(
            f"the picker's log cannot be read: {reason(result.stderr, result.returncode)}\n"
            f"{remedy(stack)}"
        )
    found = read_picks(result.stdout.splitlines())[-last:]
    if not found:
        print(f"{name}: no request in the last hour")
        return
    Console(width=None if sys.stdout.isatty() else 140).print(_table(found))
