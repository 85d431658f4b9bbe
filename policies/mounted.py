"""What containers have from ConfigMaps: scripts that they run, files of options that engines
read, and variables.

What a container starts is often in no word of its own: `/scripts/start.sh` is a file that a
ConfigMap of the same set holds. Its text is put where `sh -c` would have it, so that every rule
reads it as if it stood there. What is not in the set, no shell script or too long is left alone.

vLLM and SGLang take options from a YAML file (`--config`): keys are flags, a list is several
values, a false boolean is left out, and the command line wins. Read in vllm-project/vllm:
vllm/utils/argparse_utils.py, and sgl-project/sglang: python/sglang/srt/
server_args_config_parser.py, 2026-12-01.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from policies.model import Manifest, Path
from policies.pods import Container
from policies.tree import at, is_mapping, is_sequence, mapping, sequence, written
from policies.yamltext import data_of
from tokenworks.catalog.commandline import WRAPPERS, base_name, is_shell

_LARGEST = 200_000
"""Characters of a file that is read."""
_DEEPEST = 3
"""Scripts that start scripts that are followed."""
_STARTS = re.compile(
    r"(?P<before>(?m:^)|[;&|({]|\b(?:exec|then|do|else)\b)(?P<space>[ \t]*)"
    r"(?:(?P<sourced>source|\.)[ \t]+"
    r"|(?P<shell>(?:/[^\s;&|(){}]*/)?(?:ba|da|a)?sh)[ \t]+(?:-[a-z]+[ \t]+)*)?"
    r"(?P<quote>[\"']?)(?P<path>/[^\s;&|\"'(){}<>$]+)(?P=quote)(?=\s|\Z|[;&|)])"
)
"""A file that a script starts, by itself or through a shell, or takes into itself."""


@dataclass(frozen=True)
class Mounts:
    """The ConfigMaps of a set, by namespace and name."""

    maps: Mapping[tuple[str, str], Mapping[str, str]]

    @classmethod
    def of(cls, objects: Sequence[Manifest]) -> Mounts:
        """Those that hold text."""
        found: dict[tuple[str, str], Mapping[str, str]] = {}
        for item in objects:
            if item.get("kind") != "ConfigMap":
                continue
            data = mapping(item.get("data"))
            texts = {str(k): str(v) for k, v in data.items() if written(v) and len(v) <= _LARGEST}
            if texts:
                name, namespace = at(item, "metadata", "name"), at(item, "metadata", "namespace")
                found[(str(namespace or "default"), str(name))] = texts
        return cls(found)

    def seen(self, container: Container) -> Container:
        """The container with what it has from ConfigMaps, and with its script in its command."""
        if not self.maps:
            return container
        container = self._told(container)
        files = dict(self._files(container)) if container.spec.get("volumeMounts") else {}
        return _started(replace(container, files=files), files) if files else container

    def _told(self, container: Container) -> Container:
        """The container with the variables that it has from ConfigMaps."""
        told, known = dict[str, str](), 0
        for item in map(mapping, sequence(container.spec.get("envFrom"))):
            texts = self._texts(container, item.get("configMapRef"))
            prefix = item.get("prefix")
            if texts is not None and (prefix is None or written(prefix)):
                told |= {f"{prefix or ''}{key}": text for key, text in texts.items()}
                known += 1
        for item in map(mapping, sequence(container.spec.get("env"))):
            ref = mapping(item.get("valueFrom")).get("configMapKeyRef")
            name, key = str(item.get("name")), str(mapping(ref).get("key"))
            texts = self._texts(container, ref)
            # Its own list wins over envFrom, whether its value is in the set or not.
            told.pop(name, None)
            if texts is not None and key in texts:
                told[name] = texts[key]
        return replace(container, told=told, sources=known) if told or known else container

    def _texts(self, container: Container, ref: object) -> Mapping[str, str] | None:
        """The texts of a ConfigMap of the set; None where it holds none of that name."""
        return self.maps.get((container.pod.namespace, str(mapping(ref).get("name"))))

    def _files(self, container: Container) -> Iterator[tuple[str, str]]:
        """Paths in the container, and the texts of the files."""
        volumes = {
            str(mapping(v).get("name")): mapping(v)
            for v in sequence(container.pod.spec.get("volumes"))
        }
        for item in sequence(container.spec.get("volumeMounts")):
            mount = mapping(item)
            home, below = mount.get("mountPath"), mount.get("subPath")
            volume = volumes.get(str(mount.get("name")))
            if volume is None or not written(home) or mount.get("subPathExpr"):
                continue
            for path, text in self._of_volume(container.pod.namespace, volume):
                if not below:
                    yield posixpath.normpath(posixpath.join(home, path)), text
                elif posixpath.normpath(str(below)) == path:
                    yield posixpath.normpath(home), text

    def _of_volume(self, namespace: str, volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Paths in a volume, and the texts of the files."""
        projected = mapping(volume.get("projected"))
        sources = [mapping(s).get("configMap") for s in sequence(projected.get("sources"))]
        for source in map(mapping, (volume.get("configMap"), *sources)):
            texts = self.maps.get((namespace, str(source.get("name"))), {})
            items = sequence(source.get("items"))
            if not items:
                yield from texts.items()
            for item in map(mapping, items):
                key, path = str(item.get("key")), item.get("path")
                if key in texts and written(path):
                    yield posixpath.normpath(path), texts[key]


# --- scripts -------------------------------------------------------------------


def _started(container: Container, files: Mapping[str, str]) -> Container:
    """The container with the script that it runs, or that its script runs, in its place."""
    command, args = (list(sequence(container.spec.get(key))) for key in ("command", "args"))
    words = [*command, *args]
    if not words or not all(written(word) for word in words):
        return container
    scripts = {path: text for path, text in files.items() if _shell_of(text) is not None}
    place = _run(words, scripts, container.spec.get("workingDir"))
    if place is not None:
        at_, path = place
        shell = [] if _has_shell(words[:at_]) else [_shell_of(scripts[path]) or "sh"]
        text = _Inliner(scripts).whole(scripts[path])
        return _with_words(container, at_, [*shell, "-c", text, str(words[at_])], path)
    at_ = next((n + 1 for n, w in enumerate(words[:-1]) if re.fullmatch(r"-[a-z]*c", w)), 0)
    if not at_ or not _has_shell(words[:at_]):
        return container
    text = _Inliner(scripts).whole(words[at_])
    if text == words[at_]:
        return container
    named = next((path for path in scripts if path in words[at_]), "a script of its own")
    return _with_words(container, at_, [text], named)


def _run(
    words: Sequence[str], scripts: Mapping[str, str], folder: object
) -> tuple[int, str] | None:
    """Position and path of the script that a command line runs."""
    home = str(folder) if written(folder) else "/"
    for position, word in enumerate(words):
        path = posixpath.normpath(posixpath.join(home, word))
        if path in scripts and (position == 0 or "/" in word or _has_shell(words[:position])):
            return position, path
        if re.fullmatch(r"-[a-z]*c", word) and _has_shell(words[:position]):
            return None
        if position == 0 and not (is_shell(word) or base_name(word) in WRAPPERS):
            return None
    return None


def _has_shell(words: Sequence[str]) -> bool:
    return any(is_shell(word) for word in words)


def _shell_of(text: str) -> str | None:
    """The shell that a script asks for; None for what is no script of a shell."""
    if not text.startswith("#!"):
        first = next((line for line in text.splitlines() if line.strip()), "")
        return None if re.match(r"\s*(import|from|def|\{|\[|---|[\w.-]+:(\s|$))", first) else "sh"
    words = text.partition("\n")[0][2:].split()
    names = [base_name(word) for word in words]
    return next((name for name in names[:3] if is_shell(name)), None)


@dataclass(frozen=True)
class _Inliner:
    """Puts scripts that a script starts in their places; each of them once a level."""

    scripts: Mapping[str, str]
    done: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])

    def whole(self, script: str, level: int = 1) -> str:
        """A script with those that it starts; as it is where that would be too long."""
        found, length = list[str](), 0
        at_ = 0
        for match in _STARTS.finditer(script):
            part = f"{script[at_ : match.start()]}{self._put(match, level)}"
            found.append(part)
            at_, length = match.end(), length + len(part)
            if length > _LARGEST:
                return script
        return "".join([*found, script[at_:]])

    def _put(self, match: re.Match[str], level: int) -> str:
        path = posixpath.normpath(match["path"])
        if path not in self.scripts:
            return match[0]
        text = self._of(path, level)
        if match["sourced"]:
            return f"{match['before']}\n{text}\n"
        shell = match["shell"] or _shell_of(text) or "sh"
        return f"{match['before']}{match['space']}{shell} -c {shlex.quote(text)} {match['path']}"

    def _of(self, path: str, level: int) -> str:
        if level >= _DEEPEST:
            return self.scripts[path]
        if (path, level) not in self.done:
            self.done[path, level] = self.whole(self.scripts[path], level + 1)
        return self.done[path, level]


def _with_words(container: Container, at_: int, new: Sequence[str], path: str) -> Container:
    """The container with words in the place of one; findings still point at that one."""
    lists = {key: list(sequence(container.spec.get(key))) for key in ("command", "args")}
    count = len(lists["command"])
    key, position = ("command", at_) if at_ < count else ("args", at_ - count)
    old = lists[key]
    words = [*old[:position], *new, *old[position + 1 :]]
    moved = {
        (key, n): (*container.place((key,)), max(position, n - len(new) + 1))
        for n in range(position, len(words))
    }
    elsewhere: dict[Path, Path] = {**container.elsewhere, **moved}
    spec = {**container.spec, key: words}
    return replace(container, spec=spec, elsewhere=elsewhere, script=path)


# --- options -------------------------------------------------------------------


def options_in(text: str) -> tuple[str, ...]:
    """The words that a file of options stands for; none where it cannot be read."""
    entries = mapping(data_of(text))
    return tuple(word for key, value in entries.items() for word in _option(str(key), value))


def _option(key: str, value: object) -> Iterator[str]:
    if value is None or value is False:
        return
    yield f"--{key}"
    if is_sequence(value):
        yield from (_plain(item) for item in value)
    elif value is not True:
        yield _plain(value)


def _plain(value: object) -> str:
    held = is_mapping(value) or is_sequence(value)
    return json.dumps(value, default=str) if held else str(value)
