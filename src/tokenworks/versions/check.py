"""Whether environments keep to the bill, nothing floats, and components fit each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from policies.model import Finding, Severity
from tokenworks.catalog.aws.registries import regional
from tokenworks.catalog.bill import BilledComponent, bill
from tokenworks.spec.stack import Manifest, Stack
from tokenworks.versions.items import INJECTED, Item, images, named_images

_MOVING: Final = re.compile(
    r"(?:.*[-_.])?(?:latest|nightly|main|master|edge)(?![-_.]?[0-9a-f]{7,40}\b)(?:[-_].*)?"
    r"|dev|stable|v?\d{1,4}",
    re.IGNORECASE,
)
"""Tags that move: `latest`, `latest-cu129`, `nightly`, `v1`; not `nightly-<commit>` or a date."""
_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_BILL: Final = "src/tokenworks/catalog/versions.yaml"
_SKEW: Final = 1
"""Minor releases between a cluster and the client library of what runs in it."""


def moves(tag: str) -> bool:
    """Whether a tag names something else tomorrow, by what it is called."""
    return _MOVING.fullmatch(tag) is not None


def judge(
    stack: Stack, objects: Iterable[Manifest], catalog: list[Item], named: list[Item], kube: str
) -> list[Finding]:
    """Every problem of one environment. `kube` is its Kubernetes version."""
    known = images([*catalog, *named])
    for reference, pins in _regional(stack).items():
        known.setdefault(reference, pins)
    return [
        *_outside(stack, objects, known),
        *_floating(stack, named),
        *_skewed(stack, kube),
    ]


def _regional(stack: Stack) -> dict[str, set[str]]:
    """Images of the bill as the registry of the region has them, and the digests that pin them."""
    aws = stack.environment.spec.cluster.aws
    if aws is None:
        return {}
    each = [i for component in bill().components.values() for i in component.images.values()]
    return {
        f"{regional(image, aws.region).repository}:{image.tag}": _pins(image.digest)
        for image in each
    }


def _pins(digest: str | None) -> set[str]:
    return {digest} if digest and digest != "unresolved" else set()


def catalog_problems(catalog: list[Item]) -> list[Finding]:
    """Problems of the bill itself, which no environment can mend."""
    return [*_catalog_floats(catalog), *_constraints(bill().components)]


def _outside(
    stack: Stack, objects: Iterable[Manifest], known: Mapping[str, set[str]]
) -> Iterator[Finding]:
    seen: set[str] = {INJECTED}
    for item in objects:
        for image in named_images(item):
            if image in seen:
                continue
            seen.add(image)
            reference, _, digest = image.partition("@")
            pins = known.get(reference)
            if pins is None:
                what, remedy = "does not have", "add it to {} with source, date and reason"
            elif digest and pins and digest not in pins:
                what = f"has as {', '.join(sorted(pins))}"
                remedy = "write the bill's digest, or correct that in {}"
            else:
                continue
            yield Finding(
                "outside-the-bill", "error", _title(item), "image",
                f"environment {stack.name} runs {image}, which the bill of versions {what}",
                f"{remedy.format(_BILL)}, or remove what names it",
            )  # fmt: skip


def _floating(stack: Stack, named: list[Item]) -> Iterator[Finding]:
    local = stack.environment.spec.cluster.provider in ("local", "kind")
    for item in named:
        if item.kind == "image" and moves(item.version) and item.pin == "unresolved":
            yield _moving(item)
        elif item.pin == "unresolved" and not local and item.kind != "adapter":
            yield _unresolved(item)


def _catalog_floats(catalog: list[Item]) -> Iterator[Finding]:
    for item in catalog:
        if item.kind == "image" and (moves(item.version) or not item.version):
            yield _moving(item)
        elif item.kind == "image" and item.pin == "unresolved":
            yield _unresolved(item)


def _unresolved(item: Item) -> Finding:
    what = "commit" if item.kind == "model" else "digest"
    return _about(
        item, "unresolved-version", "warning", f"has no {what} yet",
        "./tokenworks versions pin, where the registry can be reached",
    )  # fmt: skip


def _moving(item: Item) -> Finding:
    return _about(
        item, "floating-version", "error", "names a tag that moves",
        "name a release, and let ./tokenworks versions pin add its digest",
    )  # fmt: skip


def _about(item: Item, rule: str, severity: Severity, what: str, remedy: str) -> Finding:
    file = item.source if item.source.startswith("stacks/") else None
    title, message = f"{item.kind} {item.name}", f"{_said(item)} {what} ({item.why})"
    return Finding(rule, severity, title, "", message, remedy, file)


def _said(item: Item) -> str:
    return f"{item.name}:{item.version}" if item.version else item.name


def _constraints(components: dict[str, BilledComponent]) -> Iterator[Finding]:
    """A component that reads another's kinds was built with them; an older version of those has
    not all the fields, and another major has others."""
    for name, component in components.items():
        for other, wanted in component.built_with.items():
            if other not in components:
                continue
            have, want = _numbers(components[other].version), _numbers(wanted)
            if have < want or have[0] != want[0]:
                yield Finding(
                    "versions-do-not-fit", "error", f"component {name}", "",
                    f"{name} {component.version} is built with {other} {wanted}, and the bill has "
                    f"{other} {components[other].version}",
                    f"raise {other}, or choose a version of {name} that is built with it",
                    _BILL,
                )  # fmt: skip


def _skewed(stack: Stack, kube: str) -> Iterator[Finding]:
    for name, component in bill().components.items():
        client = component.built_with.get("kubernetes")
        if client is None:
            continue
        # Client libraries are v0.MINOR.
        apart = abs(_numbers(client)[1] - _numbers(kube)[1])
        if apart > _SKEW:
            yield Finding(
                "versions-do-not-fit", "warning", f"component {name}", "",
                f"{name} {component.version} is built for Kubernetes 1.{_numbers(client)[1]}, and "
                f"environment {stack.name} has {kube}",
                "choose versions that are at most one minor release apart",
                _BILL,
            )  # fmt: skip


def _numbers(version: str) -> tuple[int, int, int]:
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def _title(item: Manifest) -> str:
    metadata = item.get("metadata", {})
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{item.get('kind')} {place}{metadata.get('name')}"
