"""Writing digests and commits where files say `unresolved`, and touching nothing else of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import yaml

from tokenworks.errors import TokenworksError, UsageError
from tokenworks.files import replace_text

UNRESOLVED: Final = "unresolved"
Kind = Literal["image", "model", "adapter"]
Resolve = Callable[["Place"], str]


@dataclass(frozen=True)
class Place:
    """One `unresolved` in a file."""

    file: Path
    line: int
    """From 1."""
    start: int
    """Characters from the file's beginning."""
    end: int
    kind: Kind
    name: str
    """Repository of an image; ORG/NAME on the hub of a model or an adapter."""
    tag: str
    """Tag of an image; branch of a model, whose commit is wanted; commit of an adapter."""

    @property
    def title(self) -> str:
        """As people write it."""
        return f"{self.name}:{self.tag}" if self.kind == "image" else f"hf://{self.name}"


def places(file: Path) -> list[Place]:
    """Every `unresolved` of a YAML file that a registry or the hub can answer, from the top.

    Raises:
        UsageError: the file is not read.
    """
    try:
        # Bytes first: a file's line ends stay what they are.
        text = file.read_bytes().decode("utf-8")
        _refuse_anchors(text, file)
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except RecursionError:
        raise UsageError(f"{file}: cannot be read: it is nested too deeply") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None
    found = [place for node in documents if node for place in _places(node, file)]
    for place in found:
        if "\n" in text[place.start : place.end]:
            raise UsageError(f"{file}:{place.line}: is written over several lines; write it in one")
    return sorted(found, key=lambda place: place.start)


def _refuse_anchors(text: str, file: Path) -> None:
    """One text that stands for several values is not changed for one of them."""
    if UNRESOLVED not in text:
        return
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
            line = token.start_mark.line + 1
            raise UsageError(f"{file}:{line}: has an anchor or an alias; write values out")


def _places(node: yaml.Node, file: Path) -> Iterator[Place]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _places(item, file)
    if isinstance(node, yaml.MappingNode):
        scalars = {
            key.value: value
            for key, value in node.value
            if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)
        }
        yield from _place(scalars, file)
        for _, value in node.value:
            yield from _places(value, file)


def _place(scalars: Mapping[str, yaml.ScalarNode], file: Path) -> Iterator[Place]:
    texts = {key: node.value for key, node in scalars.items()}
    uri = texts.get("uri", "")
    if texts.get("digest") == UNRESOLVED and "repository" in texts and "tag" in texts:
        yield _made(scalars["digest"], file, "image", texts["repository"], texts["tag"])
    if texts.get("revision") == UNRESOLVED and uri.startswith("hf://"):
        yield _made(scalars["revision"], file, "model", uri.removeprefix("hf://"), "main")
    commit = texts.get("revision", UNRESOLVED)
    if texts.get("digest") == UNRESOLVED and uri.startswith("hf://") and commit != UNRESOLVED:
        yield _made(scalars["digest"], file, "adapter", uri.removeprefix("hf://"), commit)


def _made(node: yaml.ScalarNode, file: Path, kind: Kind, name: str, tag: str) -> Place:
    start, end = node.start_mark, node.end_mark
    return Place(file, start.line + 1, start.index, end.index, kind, name, tag)


def pin(file: Path, found: Mapping[Place, str]) -> None:
    """Write what was resolved; everything else of the file stays byte for byte.

    Raises:
        TokenworksError: the file cannot be written, or has changed meanwhile.
    """
    try:
        text = file.read_bytes().decode("utf-8")
        for place in sorted(found, key=lambda p: p.start, reverse=True):
            if UNRESOLVED not in text[place.start : place.end]:
                raise TokenworksError(f"{file} has changed meanwhile; run it again")
            text = f"{text[: place.start]}{_yaml(found[place])}{text[place.end :]}"
    except OSError as error:
        raise TokenworksError(f"{file}: cannot be read: {error.strerror}") from None
    replace_text(file, text)


def _yaml(value: str) -> str:
    """Quoted where a reader would take it for a number."""
    return f'"{value}"' if re.fullmatch(r"[0-9]+([eE][0-9]+)?", value) else value


@dataclass(frozen=True)
class Pinned:
    """What a run did."""

    written: tuple[tuple[Place, str], ...]
    failed: tuple[tuple[Place, str], ...]
    """Places that stay as they are, and why."""


def pin_all(
    files: Iterable[Path], resolve: Resolve, say: Callable[[str], None], *, write: bool
) -> Pinned:
    """Resolve every place of these files; a file is written when all its places were asked for.

    What is named several times is asked for once. One that fails does not keep others from being
    written.
    """
    answers: dict[tuple[str, str], str | TokenworksError] = {}
    written: list[tuple[Place, str]] = []
    failed: list[tuple[Place, str]] = []
    # All are read before the first is written.
    for file, there in [(file, places(file)) for file in files]:
        found: dict[Place, str] = {}
        for place in there:
            key = (place.name, place.tag)
            if key not in answers:
                say(f"  … {place.title}")
                answers[key] = _answer(resolve, place)
            answer = answers[key]
            if isinstance(answer, TokenworksError):
                failed.append((place, str(answer)))
            else:
                found[place] = answer
        if write and found:
            pin(file, found)
        written += found.items()
    return Pinned(tuple(written), tuple(failed))


def _answer(resolve: Resolve, place: Place) -> str | TokenworksError:
    try:
        return resolve(place)
    except TokenworksError as error:
        return error
