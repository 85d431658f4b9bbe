"""Offline previews of whole environments, summed up, and checkouts with a change."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.repo.tree import ROOT
from tokenworks.cli import offline
from tokenworks.cli.previews import Step, steps_of
from tokenworks.spec.load import load_stack


def previewed(name: str) -> Iterator[tuple[str, list[Step]]]:
    """Each Pulumi stack of an environment, and its steps."""
    with offline.standin() as port:
        for pulumi in offline.engines(load_stack(ROOT, name), port):
            yield pulumi.stack, steps_of(pulumi, ROOT)


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


def main() -> None:
    """Write the golden summaries anew."""
    for name in ("staging", "prod"):
        for stack, steps in previewed(name):
            (Path(__file__).parent / "golden" / f"{stack}.txt").write_text(summary(steps))


if __name__ == "__main__":
    main()
