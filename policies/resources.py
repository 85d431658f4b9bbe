"""What Pulumi knows of a stack, as plain Kubernetes objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from policies.model import Manifest
from policies.tree import Unknown


class Resource(Protocol):
    """The part of Pulumi's `PolicyResource` that counts here."""

    resource_type: str
    props: Mapping[str, Any]
    urn: str


def manifests(
    resources: Iterable[Resource], unknown: type[Exception]
) -> Iterator[tuple[str, Manifest]]:
    """URN and object of each Kubernetes resource.

    `unknown` is what reading a value raises that exists only after `up`. Patches hold a part of
    an object only, and providers and components are none: they are left out.
    """
    for resource in resources:
        package, _, rest = resource.resource_type.partition(":")
        version, _, kind = rest.rpartition(":")
        if package != "kubernetes" or "/" not in version or kind.endswith("Patch"):
            continue
        group = version.removeprefix("core/")
        identity = {"apiVersion": group, "kind": kind}
        data = plain(resource.props, unknown)
        own = {key: value for key, value in data.items() if not key.startswith("__")}
        yield resource.urn, {**identity, **own}


def plain(value: object, unknown: type[Exception]) -> Any:
    """Pulumi's wrappers as dicts and lists; whole numbers as int, the wire knows floats only."""
    if isinstance(value, Mapping):
        keyed = cast("Mapping[str, Any]", value)
        return {key: _item(keyed, key, unknown) for key in keyed}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        listed = cast("Sequence[Any]", value)
        return [_item(listed, position, unknown) for position in range(len(listed))]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _item(holder: Any, key: Any, unknown: type[Exception]) -> Any:
    try:
        return plain(holder[key], unknown)
    except unknown:
        return Unknown()
