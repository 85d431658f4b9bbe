"""Everything that has a version: what the catalog knows, and what documents add to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_engines
from tokenworks.spec.common import Image
from tokenworks.spec.stack import Manifest, Stack

INJECTED: Final = "auto"
"""What Istio's injection replaces by the proxy of its own release."""
Kind = Literal["chart", "crds", "image", "program", "model", "adapter"]


@dataclass(frozen=True)
class Item:
    """One line of the bill."""

    kind: Kind
    name: str
    version: str
    pin: str
    """What decides the bytes: a digest, a checksum's file, a commit; `unresolved`: nothing yet."""
    source: str
    date: str
    why: str


def catalogued(programs: Iterable[Item] = ()) -> list[Item]:
    """What the catalog pins, and `programs`, by kind and name."""
    return _sorted([*_components(), *_engines(), *programs])


def named_by(stack: Stack) -> list[Item]:
    """What an environment's documents pin themselves: images, weights, adapters."""
    found: list[Item] = []
    for model in stack.models:
        source = stack.sources.get(f"ModelRelease/{model.metadata.name}")
        where, why = str(source or ""), f"model release {model.metadata.name}"
        spec = model.spec
        if spec.engine.image is not None:
            found.append(_image(spec.engine.image, where, "", why))
        if spec.model.uri.startswith("hf://"):
            pin = spec.model.revision or "unresolved"
            found.append(Item("model", spec.model.uri, "", pin, where, "", why))
        elif spec.model.uri.startswith("oci://"):
            name, _, digest = spec.model.uri.partition("@")
            found.append(Item("model", name, "", digest or "unresolved", where, "", why))
        for name, adapter in (spec.lora.adapters if spec.lora else {}).items():
            pin = adapter.digest or "unresolved"
            found.append(Item("adapter", adapter.uri, name, pin, where, "", why))
    return _sorted(found)


def images(items: Iterable[Item]) -> dict[str, set[str]]:
    """References `repository:tag` of those that are images, weights in images too; of each, the
    digests that pin it, none where one of them is `unresolved`."""
    found, open_ = dict[str, set[str]](), set[str]()
    for item in items:
        weights = item.kind == "model" and item.name.startswith("oci://")
        if item.kind != "image" and not weights:
            continue
        reference = _reference(item).removeprefix("oci://")
        found.setdefault(reference, set()).add(item.pin)
        if item.pin == "unresolved":
            open_.add(reference)
    return {name: set[str]() if name in open_ else pins for name, pins in found.items()}


def needed(objects: Iterable[Manifest], items: list[Item], named: list[Item]) -> list[Item]:
    """Images that these objects run, of `items` where they are known; and weights of `named`.

    Where one image of a component runs, the others are needed too: no object names the proxies
    that Istio starts for gateways.
    """
    references = {image for item in objects for image in named_images(item)} - {INJECTED}
    used = {image.partition("@")[0] for image in references}
    for component in bill().components.values():
        every = {f"{i.repository}:{i.tag}" for i in component.images.values()}
        used |= every if every & used else set[str]()
    known = {_reference(item): item for item in items if item.kind == "image"}
    found = [item for reference, item in known.items() if reference in used]
    found += [_plain(image) for image in references if image.partition("@")[0] not in known]
    return _sorted([*found, *(item for item in named if item.kind != "image")])


def _reference(item: Item) -> str:
    return f"{item.name}:{item.version}" if item.version else item.name


def _plain(reference: str) -> Item:
    """An image that objects name and the bill does not have."""
    reference, _, digest = reference.partition("@")
    name, _, tag = reference.rpartition(":")
    whole = not name or "/" in tag
    name, tag = (reference, "") if whole else (name, tag)
    return Item("image", name, tag, digest or "unresolved", "", "", "")


def named_images(value: object) -> Iterator[str]:
    """Images that an object names, in containers and volumes anywhere in it."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for key, inner in fields.items():
            if key == "image" and isinstance(inner, str):
                yield inner
            elif key == "image" and isinstance(inner, dict) and "reference" in inner:
                yield str(cast("dict[str, Any]", inner)["reference"])
            else:
                yield from named_images(cast("object", inner))
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from named_images(inner)


def _sorted(items: list[Item]) -> list[Item]:
    return sorted(set(items), key=lambda i: (i.kind, i.name, i.version, i.source))


def _image(image: Image, source: str, date: str, why: str) -> Item:
    pin = image.digest or "unresolved"
    return Item("image", image.repository, image.tag or "", pin, source, date, why)


def _components() -> Iterator[Item]:
    for name, component in bill().components.items():
        pin = f"go.sum of {component.module}" if component.module else component.source
        said = (component.source, component.date, component.why)
        if component.chart:
            yield Item("chart", name, component.version, pin, *said)
        if component.crds:
            yield Item("crds", name, component.version, pin, *said)
        for image in component.images.values():
            yield _image(image, *said)


def _engines() -> Iterator[Item]:
    for name, engine in load_engines().engines.items():
        for version, release in engine.versions.items():
            why = f"engine {name} {version}" + (", default" if version == engine.default else "")
            for image in (release.image, release.cpu, release.efa):
                if image is not None:
                    yield _image(image, engine.source, engine.date, why)
