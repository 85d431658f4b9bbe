"""Offline previews as data: what each stack would make, and what a change would do to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.repo.tree import ROOT
from tokenworks.cli import engine, offline
from tokenworks.spec.load import load_stack

Step = dict[str, Any]
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def steps_of(pulumi: engine.Engine, folder: Path = ROOT) -> list[Step]:
    """Every step of a stack's preview, by the program in the folder."""
    command = [str(pulumi.pulumi), "preview", "--json", "--stack", pulumi.stack]
    without_policies = {
        k: v for k, v in pulumi.variables.items() if k != "PULUMI_OPTION_POLICY_PACK"
    }
    done = subprocess.run(
        [*command, "--non-interactive"],
        cwd=folder,
        env={**os.environ, **pulumi.tuning, **without_policies},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    return json.loads(done.stdout)["steps"]


def previewed(name: str) -> Iterator[tuple[str, list[Step]]]:
    """Each Pulumi stack of an environment, and its steps."""
    with offline.standin() as port:
        for pulumi in offline.engines(load_stack(ROOT, name), port):
            yield pulumi.stack, steps_of(pulumi)


def summary(steps: list[Step]) -> str:
    """The tree of what is made: AWS's resources by name, objects in the cluster by kind."""
    below: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        below[step["newState"].get("parent", "")].append(step)
    (top,) = below[""]
    return "\n".join(_lines(top, below, 0)) + "\n"


def _lines(step: Step, below: dict[str, list[Step]], depth: int) -> Iterator[str]:
    urn, kind = step["urn"], step["newState"]["type"]
    yield f"{'  ' * depth}{kind} {urn.rpartition('::')[2]}"
    objects: Counter[str] = Counter()
    children = below.get(urn, [])
    for child in sorted(children, key=lambda s: (s["newState"]["type"], s["urn"])):
        if child["newState"]["type"].startswith("kubernetes:"):
            objects[child["newState"]["type"]] += 1
        else:
            yield from _lines(child, below, depth + 1)
    for token, count in sorted(objects.items()):
        yield f"{'  ' * (depth + 1)}{token} x{count}"


@contextmanager
def edited(folder: Path, environment: str) -> Iterator[dict[str, Any]]:
    """A checkout in the folder whose environment document is written when the block ends."""
    for name in ("src", "components", "local", "charts", "policies", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("__main__.py", "Pulumi.yaml"):
        shutil.copyfile(ROOT / name, folder / name)
    shutil.copytree(ROOT / "stacks", folder / "stacks")
    file = folder / "stacks" / environment / "environment.yaml"
    document = yaml.safe_load(file.read_text())
    yield document
    file.write_text(yaml.safe_dump(document))


def remembered(pulumi: engine.Engine, steps: list[Step]) -> None:
    """Make the state hold what a preview would have made, as far as it is known."""
    resources = [_resource(step["newState"]) for step in steps]
    deployment = {
        "version": 3,
        "deployment": {
            "manifest": {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""},
            "resources": resources,
        },
    }
    file = pulumi.folder / "remembered.json"
    file.write_text(json.dumps(deployment))
    engine.run(pulumi, ["stack", "import", "--file", str(file), "--force"], quiet=True)


def _resource(state: dict[str, Any]) -> dict[str, Any]:
    kept = {k: state[k] for k in ("urn", "custom", "type", "inputs", "parent") if k in state}
    if state["custom"]:
        # What AWS calls it is not known; a provider has to be called something.
        known = state["type"].startswith("pulumi:providers:")
        kept |= {"id": "provider" if known else UNKNOWN, "outputs": state.get("inputs", {})}
    if "provider" in state:
        kept["provider"] = f"{state['provider'].rpartition('::')[0]}::provider"
    return kept


def changes(steps: list[Step]) -> dict[str, set[str]]:
    """Operation: names of AWS's resources that it is done to."""
    found: dict[str, set[str]] = defaultdict(set)
    for step in steps:
        kind = (step.get("newState") or step["oldState"])["type"]
        if step["op"] != "same" and kind.startswith("aws:"):
            found[step["op"]].add(step["urn"].rpartition("::")[2])
    return dict(found)


def main() -> None:
    """Write the golden summaries anew."""
    for name in ("staging", "prod"):
        for stack, steps in previewed(name):
            (Path(__file__).parent / "golden" / f"{stack}.txt").write_text(summary(steps))


if __name__ == "__main__":
    main()
