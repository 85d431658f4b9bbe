"""What loading says of every cell: allowed, or the exact words of the refusal."""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.matrix.cells import LLM_D, TENANT, Cell, Overlay, cells, environment
from tokenworks.spec.environment import Environment
from tokenworks.spec.load import load_stack
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant

_PLACE: Final = re.compile(r"^stacks/lab/models/(?P<name>\w+)\.yaml(:\d+)?: (?P<words>.*)$")
RELEASES: Final = ("0.10.0", *LLM_D.values())
Refusals = Mapping[Cell, tuple[str, ...]]


def judged(asked: Iterable[Cell]) -> Refusals:
    """Words of the refusal of each cell; none where it is allowed."""
    names = {cell: f"m{n:05}" for n, cell in enumerate(asked)}
    words: dict[str, list[str]] = {}
    for release in RELEASES:
        words |= _words(release, {n: cell for cell, n in names.items() if cell.llm_d == release})
    return {cell: tuple(words.get(name, ())) for cell, name in names.items()}


def _words(release: str, mine: Mapping[str, Cell]) -> dict[str, list[str]]:
    """All documents as one environment: every problem names its file."""
    words: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "stacks" / "lab"
        for sub in ("models", "tenants"):
            (folder / sub).mkdir(parents=True)
        _write(folder / "environment.yaml", environment(release))
        _write(folder / "tenants" / "research.yaml", TENANT)
        for name, cell in mine.items():
            document = cell.document(name)
            document["spec"]["model"] |= {"servedName": name}
            document["spec"] |= {"replicas": 1}
            _write(folder / "models" / f"{name}.yaml", document)
        try:
            load_stack(Path(root), "lab")
        except DocumentErrors as errors:
            for line in str(errors).splitlines()[1:]:
                match = _PLACE.match(line)
                assert match, f"no cell's fault: {line}"
                words[match["name"]].append(match["words"])
    return words


def _write(path: Path, document: Overlay) -> None:
    path.write_text(json.dumps(document))


@cache
def refusals() -> Refusals:
    """Of every cell that is rendered, if it is allowed."""
    return judged(cells())


def allowed() -> tuple[Cell, ...]:
    """Cells that may be rendered."""
    return tuple(cell for cell, words in refusals().items() if not words)


def release_of(cell: Cell) -> tuple[Stack, ModelRelease]:
    """The release, and an environment of it alone."""
    model = ModelRelease.model_validate(cell.document("demo"))
    stack = Stack(
        environment=Environment.model_validate(environment(cell.llm_d)),
        models=(model,),
        tenants=(Tenant.model_validate(TENANT),),
    )
    return stack, model
