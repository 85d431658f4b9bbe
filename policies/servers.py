"""Containers of model servers that custom resources describe in words of their own.

What an operator makes of such words is data (`servers.json`). Of any other resource, whatever has
an image beside what only a container has is one as well, wherever it stands.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from policies.model import Manifest
from policies.model import Path as Place
from policies.tree import is_mapping, is_sequence, known_items, mapping, sequence, unread, written

Facts = Mapping[str, Any]
Part = tuple[str, Any, dict[Place, Place]]
"""A field of a container, its value, and where what it is made of stands."""


@dataclass(frozen=True)
class Made:
    """A container as Kubernetes would write it, and where its parts stand in the object."""

    path: Place
    spec: Mapping[str, Any]
    elsewhere: Mapping[Place, Place] = field(default_factory=dict[Place, Place])
    whole: bool = False
    """It asks for nothing that is not written there."""
    bare: bool = False
    """Nothing of its pod stands beside it: what else an operator makes with it is not known."""
    fetches: bool = False
    """The engine itself fetches the weights that it is given."""


@cache
def _servers() -> Mapping[tuple[str, str], tuple[Facts, ...]]:
    found: dict[tuple[str, str], list[Facts]] = {}
    for facts in data()["servers"]:
        for kind in facts["kinds"]:
            found.setdefault((facts["group"], kind), []).append(facts)
    return {key: tuple(servers) for key, servers in found.items()}


@cache
def _not_images() -> frozenset[tuple[str, str]]:
    return frozenset((item["group"], item["kind"]) for item in data()["notImages"])


@cache
def data() -> dict[str, Any]:
    """What `servers.json` says."""
    return json.loads(Path(__file__).with_name("servers.json").read_text())


def descend(value: object, path: Place) -> Any:
    """What stands at a path of an object; None where nothing does."""
    for part in path:
        if isinstance(part, int):
            items = sequence(value)
            value = items[part] if part < len(items) else None
        else:
            value = mapping(value).get(part)
    return value


def parent(manifest: Manifest, path: Place) -> Place:
    """The map that holds what stands at a path, lists between them left out."""
    path = path[:-1]
    while path and is_sequence(descend(manifest, path)):
        path = path[:-1]
    return path


def described(manifest: Manifest) -> Iterator[Made]:
    """The containers that an object's own words describe."""
    for facts in _servers().get(_identity(manifest), ()):
        for pattern in facts["at"]:
            for home in homes(manifest, pattern.split("."), ()):
                found = _Server(manifest, home, facts).made()
                if found is not None:
                    yield found


def _identity(manifest: Manifest) -> tuple[str, str]:
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    return group, str(manifest.get("kind"))


def homes(value: object, pattern: Sequence[str], path: Place) -> Iterator[Place]:
    """The paths of maps that a pattern leads to; `*` stands for every key or element."""
    if not pattern:
        if is_mapping(value):
            yield path
        return
    head, *rest = pattern
    for key, child in known_items(value):
        if head in ("*", key):
            yield from homes(child, rest, (*path, key))


@dataclass(frozen=True)
class _Server:
    """One place in an object, read with the facts about its kind."""

    manifest: Manifest
    home: Place
    facts: Facts

    def made(self) -> Made | None:
        """The container; None where nothing is said of it."""
        spec: dict[str, Any] = {"name": self._text(self.facts.get("name")) or "server"}
        elsewhere: dict[Place, Place] = {}
        for part in (self._image(), self._words(), self._env(), self._resources()):
            for key, value, places in part:
                spec[key] = value
                elsewhere |= places
        if len(spec) == 1:
            return None
        whole, pods, fetches = (self.facts.get(key) is True for key in ("whole", "pods", "fetches"))
        return Made(self.home, spec, elsewhere, whole, not pods, fetches)

    # --- places ------------------------------------------------------------------

    def _place(self, name: str) -> Place:
        """Where `name` stands: below the home, or below a parent of it after each `../`."""
        place = self.home
        while name.startswith("../"):
            name, place = name.removeprefix("../"), parent(self.manifest, place)
        return (*place, *name.split("."))

    def _at(self, place: Place) -> Any:
        return descend(self.manifest, place)

    def _value(self, name: str) -> Any:
        return self._at(self._place(name))

    def _text(self, name: str | None) -> str:
        value = self._value(name) if name else None
        return value if written(value) else ""

    # --- parts ---------------------------------------------------------------------

    def _image(self) -> Iterator[Part]:
        if "image" not in self.facts:
            return
        place = self._place(self.facts["image"])
        value = self._at(place)
        if not isinstance(value, str) or not value:
            return
        registry, tag = (self._text(self.facts.get(key)) for key in ("registry", "tag"))
        if written(value):
            value = f"{registry}/{value}" if registry else value
            value = f"{value}:{tag}" if tag else value
        yield "image", value, {("image",): place}

    def _env(self) -> Iterator[Part]:
        if "env" in self.facts:
            place = self._place(self.facts["env"])
            variables, places = as_variables(self._at(place), place)
            yield "env", variables, {("env",): place, **places}
        if "envFrom" in self.facts:
            place = self._place(self.facts["envFrom"])
            if is_sequence(self._at(place)):
                yield "envFrom", self._at(place), {("envFrom",): place}

    def _resources(self) -> Iterator[Part]:
        if "resources" in self.facts:
            place = self._place(self.facts["resources"])
            yield "resources", self._at(place), {("resources",): place}
        gpus = self.facts.get("gpus")
        if gpus:
            place, count = self._place(gpus["count"]), self._value(gpus["count"])
            resource = self._text(gpus.get("type")) or gpus["resource"]
            limits = {} if count in (None, 0, "", "0") else {resource: count}
            side: Place = ("resources", "limits")
            places: dict[Place, Place] = {side[:1]: place[:-1], (*side, resource): place}
            yield "resources", {"limits": limits}, {**places, side: place[:-1]}

    def _words(self) -> Iterator[Part]:
        command = self._command()
        if command is not None:
            place, words = command
            yield "command", words, {("command",): place}
        placed = [*self._model(), *self._flags(), *self._group()]
        if placed:
            places: dict[Place, Place] = {("args", n): place for n, (place, _) in enumerate(placed)}
            # The words as a whole stand where the first of them does.
            places["args",] = placed[0][0][:-1]
            yield "args", [word for _, word in placed], places

    def _choice(self, facts: Facts) -> str:
        """The value of the field by which words are chosen, in lower case."""
        if "by" not in facts:
            return ""
        return self._text(facts["by"]).lower() or str(facts.get("absent", ""))

    def _command(self) -> tuple[Place, Sequence[Any]] | None:
        own = self._value(self.facts["command"]) if "command" in self.facts else None
        if is_sequence(own) and own:
            return self._place(self.facts["command"]), own
        starts = self.facts.get("starts")
        if is_sequence(starts):
            return self.home, starts
        words = mapping(mapping(starts).get("of")).get(self._choice(mapping(starts)))
        return (self.home, words) if words else None

    def _model(self) -> Iterator[tuple[Place, str]]:
        facts = self.facts.get("model")
        value = self._value(facts["at"]) if facts else None
        if facts is None or not written(value) or not self._takes_model():
            return
        place, hub = self._place(facts["at"]), facts.get("hub", "")
        kept = "unless" in facts and self._value(facts["unless"])
        name = value.removeprefix(hub) if value.startswith(hub) else ""
        word = name if name and not kept and not facts.get("local") else "/models"
        yield from ((place, text) for text in (facts["flag"], word) if text)

    def _takes_model(self) -> bool:
        found = self._command()
        return found is not None and list(found[1]) != ["ollama", "serve"]

    def _flags(self) -> Iterator[tuple[Place, Any]]:
        for facts in self.facts.get("flags", ()):
            if "of" in facts and self._choice(mapping(self.facts["starts"])) != facts["of"]:
                continue
            name = next(facts[key] for key in ("list", "map", "field") if key in facts)
            place, value = self._place(name), self._value(name)
            if "list" in facts:
                yield from _listed(place, value, facts.get("joined") is True)
            elif "map" in facts:
                yield from _mapped(place, value, facts.get("but", ()))
            elif "switch" in facts:
                yield from [(place, facts["switch"])] if value is True else []
            elif value not in (None, "", 0) and not is_mapping(value) and not is_sequence(value):
                yield from ((place, word) for word in (facts["flag"], _shown(value)))

    def _group(self) -> Iterator[tuple[Place, str]]:
        facts = self.facts.get("grouped")
        size = self._value(facts["size"]) if facts else None
        if facts is None or size in (None, 0, 1):
            return
        words = facts.get("words") or mapping(facts.get("of")).get(self._choice(facts), ())
        yield from ((self._place(facts["size"]), word) for word in words)


def _shown(value: object) -> Any:
    """A value as a word; one that is not known yet stays so."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_mapping(value) or is_sequence(value):
        return json.dumps(value, default=str)
    return value if isinstance(value, str) else str(value)


def _listed(place: Place, value: object, joined: bool) -> Iterator[tuple[Place, Any]]:
    for position, word in enumerate(sequence(value)):
        for part in _split(word) if joined and written(word) else (word,):
            yield (*place, position), part


def _split(text: str) -> Iterable[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _mapped(place: Place, value: object, but: Sequence[str]) -> Iterator[tuple[Place, Any]]:
    """A map of flags: `max-model-len: 8192`, and an empty value for a switch."""
    for key, child in mapping(value).items():
        if key not in but:
            here = (*place, str(key))
            yield here, f"--{str(key).replace('_', '-')}"
            if child not in (None, ""):
                yield here, _shown(child)


def as_variables(value: object, place: Place) -> tuple[Any, dict[Place, Place]]:
    """Variables as Kubernetes lists them, of a map too, and where each of a map's stands."""
    if not is_mapping(value):
        return value, {}
    variables: list[dict[str, Any]] = []
    places: dict[Place, Place] = {}
    for position, (name, given) in enumerate(value.items()):
        content = {"valueFrom": given} if is_mapping(given) else {"value": given}
        variables.append({"name": str(name), **content})
        for part in ((), ("value",), ("valueFrom",)):
            places["env", position, *part] = (*place, str(name))
    return variables, places


# --- anywhere ------------------------------------------------------------------


def alone(manifest: Manifest, taken: Sequence[Place]) -> Iterator[Made]:
    """Containers outside of lists of containers: what has an image beside what only a container
    has. What stands at `taken` is described otherwise."""
    if _identity(manifest) not in _not_images():
        for key, value in known_items(manifest):
            if key not in ("metadata", "status"):
                yield from _alone(value, (str(key),), taken, {})


_LISTED = frozenset({"containers", "initContainers", "ephemeralContainers", "mainContainer"})
_NO_CONTAINER = frozenset({"repository", "version", "tag", "modelFormat", "storageUri"})
"""Fields of what an operator makes an image's name and a container of."""


def _alone(
    value: object, path: Place, taken: Sequence[Place], beside: Mapping[str, Any]
) -> Iterator[Made]:
    if is_mapping(value) and path not in taken and _is_container(value):
        variables, places = as_variables(value.get("env"), (*path, "env"))
        spec = {**value, "env": variables} if places else value
        yield Made(path, {"name": _called(path), **spec}, places, bare=_is_bare(value, beside))
        return
    for key, child in known_items(value):
        if key not in _LISTED and (is_mapping(child) or is_sequence(child)):
            place = (*path, key if is_sequence(value) else str(key))
            yield from _alone(child, place, taken, value if is_mapping(value) else beside)


def _called(path: Place) -> str:
    """A name for a container without one: that of its field."""
    name = next(part for part in reversed(path) if isinstance(part, str))
    return "model" if name == "spec" else name


def _is_bare(value: Mapping[str, Any], beside: Mapping[str, Any]) -> bool:
    return _POD.isdisjoint({*value, *beside})


_POD = frozenset(
    {
        "volumes", "initContainers", "hostNetwork", "serviceAccountName",
        "terminationGracePeriodSeconds",
    }
)  # fmt: skip
"""Fields that only pods have."""


def _is_container(value: Mapping[str, Any]) -> bool:
    if not isinstance(unread(value, "image"), str) or not _NO_CONTAINER.isdisjoint(value.keys()):
        return False
    if any(is_sequence(value.get(key)) and value[key] for key in ("command", "args", "envFrom")):
        return True
    for key, part in (("env", "name"), ("ports", "containerPort")):
        items = sequence(value.get(key))
        if items and all(part in mapping(item) for item in items):
            return True
    resources = mapping(value.get("resources"))
    return any(is_mapping(resources.get(side)) for side in ("limits", "requests"))
