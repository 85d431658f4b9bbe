"""Images are pinned by digest, in every kind of container and in image volumes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policies.engines import PLACEHOLDER, repository_of
from policies.inventory import Inventory
from policies.model import Context, Path, Rule, Violation
from policies.tree import mapping, sequence

_LINK = "https://kubernetes.io/docs/concepts/containers/images/#image-names"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_REMEDY = "write the image as repository:tag@sha256:… (crane digest prints it)"
_INJECT = "sidecar.istio.io/inject"


@dataclass(frozen=True)
class _Image:
    """One image reference, and where it stands."""

    index: int
    """Position of its object."""
    path: Path
    title: str
    value: object
    labels: Mapping[str, str]
    """Of its pod."""


def _find(inventory: Inventory, context: Context) -> Iterator[Violation]:
    local = frozenset(_full(image) for image in context.local_images)
    unresolved = frozenset(_full(image) for image in context.unresolved_images)
    for image in _images(inventory):
        reference = image.value if isinstance(image.value, str) else ""
        if _not_ours(image, reference, local):
            continue
        name, _, digest = reference.partition("@")
        if reference and context.only_local_images:
            yield Violation(
                image.index,
                image.path,
                f"{image.title} has an image that this machine does not make, and the local "
                f"cluster pulls none: {reference}",
                "choose an image that local/images/images.yaml names, as it is named there",
            )
            continue
        if digest == "unresolved" or _full(reference) in unresolved:
            yield Violation(
                image.index,
                image.path,
                f"{image.title} has an image whose digest is still unresolved: {name}",
                "replace `unresolved` by the digest that the registry gives for the tag",
                context.unresolved,
            )
            continue
        problem = _problem(reference, digest)
        if problem:
            yield Violation(image.index, image.path, f"{image.title} {problem}", _REMEDY)


def _images(inventory: Inventory) -> Iterator[_Image]:
    for program in inventory.programs:
        container = program.container
        if (container.pod.custom or container.pod.patch) and "image" not in container.spec:
            continue
        path = container.field("image")
        value = container.spec.get("image")
        yield _Image(container.pod.index, path, container.title, value, container.pod.labels)
    yield from _pullers(inventory)
    for pod in inventory.pods:
        for position, volume in enumerate(sequence(pod.spec.get("volumes"))):
            source = mapping(volume).get("image")
            if source is None:
                continue
            path = (*pod.path, "volumes", position, "image", "reference")
            title = f'volume "{mapping(volume).get("name")}"'
            value = mapping(source).get("reference")
            yield _Image(pod.index, path, title, value, pod.labels)


def _pullers(inventory: Inventory) -> Iterator[_Image]:
    """The images by which a NIMCache downloads: they stand in no container."""
    for index, item in enumerate(inventory.objects):
        if item.get("kind") != "NIMCache":
            continue
        for source, found in mapping(mapping(item.get("spec")).get("source")).items():
            if "modelPuller" in mapping(found):
                path = ("spec", "source", str(source), "modelPuller")
                yield _Image(index, path, "modelPuller", mapping(found)["modelPuller"], {})


def _not_ours(image: _Image, reference: str, local: frozenset[str]) -> bool:
    """Put there by Istio's injection, or built on this machine."""
    injected = reference == "auto" and image.labels.get(_INJECT) == "true"
    if injected:
        return True
    full = _full(reference)
    return bool(reference) and "@" not in full and (full in local or repository_of(full) in local)


def _problem(reference: str, digest: str) -> str | None:
    """What is wrong with an image reference, or None."""
    if not reference:
        return "names no image"
    if PLACEHOLDER.search(reference):
        return f"has a placeholder for an image: {reference}"
    name = repository_of(reference)
    if name != name.lower():
        return f"has an image name with upper-case letters, which no registry takes: {reference}"
    if "@" in reference:
        malformed = f"has an image with a malformed digest: {reference}"
        return None if _DIGEST.fullmatch(digest) else malformed
    return _floating(reference, reference[len(name) + 1 :])


def _floating(reference: str, tag: str) -> str:
    """What an image without digest depends on."""
    if not tag:
        return f"has an image without tag and digest, which means :latest: {reference}"
    if tag == "latest":
        return f"has an image that moves with :latest: {reference}"
    return f"has an image without digest: {reference}"


def _full(image: str) -> str:
    """The reference as containerd writes it: with registry and, for Docker Hub, `library/`."""
    head, separator, _ = image.partition("/")
    if not separator:
        return f"docker.io/library/{image}"
    if "." in head or ":" in head or head == "localhost":
        return image
    return f"docker.io/{image}"


RULE = Rule(
    id="image-digest",
    severity="error",
    title="Images have a digest",
    reason="A tag can move: two pods of one release then run different programs, and a rollback "
    "brings back something else. Init containers and sidecars move too.",
    remedy="Pin every image as repository:tag@sha256:…; the tag is for people, the digest counts.",
    find=_find,
    link=_LINK,
)
