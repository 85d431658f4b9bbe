"""Command lines of vLLM in rendered manifests, read as kernel and shell would read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from policies.commands import command_of
from tests.charts.rendering import Helm
from tests.matrix.judging import allowed
from tests.matrix.rendering import values_of

PLACES = ("tests/charts/examples/**/rendered.yaml", "rendered/**/*.yaml")
"""Everything our charts have rendered, and git keeps."""

# `$(POD_IP)`, `${RANK}`, `$RANK`, `$((RANK * 8))`: known on the cluster only. A digit is a
# value for every flag that takes a number or a text.
_RUN_TIME = re.compile(r"\$\(\([^)]*\)\)|\$\([^)]*\)|\$\{[^}]*\}|\$[A-Za-z_]\w*")
_OPERATOR = re.compile(r"[;&|()<>]+")


@dataclass(frozen=True)
class Line:
    """One command line: where it is, and its words from `serve` on."""

    file: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: vllm {' '.join(self.words)}"


def containers(node: Any) -> Iterator[Mapping[str, Any]]:
    """Whatever has a command or arguments, in any kind of object."""
    if isinstance(node, dict):
        if any(isinstance(node.get(key), list) for key in ("command", "args")):
            yield node
        for value in node.values():
            yield from containers(value)
    elif isinstance(node, list):
        for value in node:
            yield from containers(value)


def vllm_words(container: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Words from `serve` on, or None where the container does not run `vllm serve`."""
    env = {e["name"]: e.get("value") for e in container.get("env") or []}
    text = {
        key: [_settled(str(word), env) for word in container.get(key) or []]
        for key in ("command", "args")
    }
    words = command_of(text, {}).words
    for position in range(len(words) - 1):
        if words[position].rpartition("/")[2] == "vllm" and words[position + 1] == "serve":
            return tuple(_until_operator(words[position + 1 :]))
    return None


def _settled(word: str, env: Mapping[str, str | None]) -> str:
    def value(match: re.Match[str]) -> str:
        name = re.fullmatch(r"\$[({]?(\w+)[)}]?", match[0])
        return (env.get(name[1]) if name else None) or "0"

    return _RUN_TIME.sub(value, word)


def _until_operator(words: tuple[str, ...]) -> Iterator[str]:
    for word in words:
        if _OPERATOR.fullmatch(word):
            return
        yield word


def of_matrix(helm: Helm) -> list[Line]:
    """Every command line of vLLM in the matrix that no simulator plays, each different one once."""
    found: dict[tuple[str, ...], Line] = {}
    for cell in allowed():
        if cell.engine != "vllm" or cell.played:
            continue
        for container in containers(helm.objects("model", values_of(cell)).all):
            if words := vllm_words(container):
                found.setdefault(words, Line(f"{cell.topology} {cell.column}", words))
    return list(found.values())


def lines_of(root: Path) -> list[Line]:
    """Every command line of vLLM that git keeps, each different one once a file."""
    found: dict[Line, None] = {}
    for file in sorted(f for place in PLACES for f in root.glob(place)):
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            for container in containers(document):
                if words := vllm_words(container):
                    found[Line(file.relative_to(root).as_posix(), words)] = None
    return list(found)
