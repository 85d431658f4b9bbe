"""What AWS's own services accept: enumerations, patterns and lengths, from botocore's models.

A property is looked up among the members of the call that makes the resource, by its name. Where
the provider's name is another, nothing is checked.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import yaml

from local.aws_standin.schema import Failure, takes
from local.aws_standin.values import UNKNOWN

Shape = dict[str, Any]
_RANDOM: Final = len("-1234567")
"""What Pulumi puts behind a name that it makes."""


@cache
def operations() -> dict[str, list[tuple[str, str]]]:
    """Type token: services and shapes whose members its properties are."""
    data = yaml.safe_load((Path(__file__).parent / "operations.yaml").read_text())
    found: dict[str, list[tuple[str, str]]] = {}
    for token, places in data["resources"].items():
        found[token] = [(place.split(".")[0], place.split(".")[1]) for place in places]
    return found


@cache
def _model(service: str) -> Shape:
    """The newest model of a service.

    Raises:
        RuntimeError: botocore is not installed, or has no such service.
    """
    spec = find_spec("botocore")
    places = (spec.submodule_search_locations if spec else None) or []
    files = [f for p in places for f in Path(p, "data", service).glob("*/service-2.json.gz")]
    if not files:
        raise RuntimeError(f"botocore has no model of {service}: run ./tokenworks venv pulumi aws")
    return json.loads(gzip.decompress(max(files).read_bytes()))


class Checker:
    """Checks values, and counts them."""

    def __init__(self) -> None:
        self.checked = 0

    def failures(self, token: str, inputs: dict[str, Any]) -> Iterator[Failure]:
        """What the service would refuse."""
        for service, name in operations().get(token, []):
            shapes: dict[str, Shape] = _model(service)["shapes"]
            operation = _model(service)["operations"].get(name)
            shape = operation["input"]["shape"] if operation else name
            yield from self._structure(inputs, shapes[shape], shapes, "")

    def unnamed(self, token: str, inputs: dict[str, Any], name: str) -> Iterator[Failure]:
        """A name that is left to Pulumi, which makes it of the resource's own, and which the
        service would refuse for its length."""
        if inputs.get("name") or inputs.get("namePrefix") or not takes(token, "name"):
            return
        kind, long = _plain(token.rpartition(":")[2]), len(name) + _RANDOM
        for service, operation in operations().get(token, []):
            for most in _longest(service, operation, kind):
                self.checked += 1
                if long > most:
                    yield (
                        "name",
                        (
                            f"Pulumi would name it {name}-xxxxxxx, of {long} characters, wanted at "
                            f"most {most}"
                        ),
                    )

    def _structure(
        self, value: dict[str, Any], shape: Shape, shapes: dict[str, Shape], path: str
    ) -> Iterator[Failure]:
        members = {_plain(name): member["shape"] for name, member in shape["members"].items()}
        for name, item in value.items():
            plain = _plain(name)
            spelt = (plain, plain.rstrip("s"), f"{plain}s")
            member = next((members[each] for each in spelt if each in members), None)
            if member is not None:
                below = f"{path}.{name}" if path else name
                yield from self._value(item, shapes[member], shapes, below)

    def _value(
        self, value: Any, shape: Shape, shapes: dict[str, Shape], path: str
    ) -> Iterator[Failure]:
        if value is None or value == UNKNOWN:
            return
        if isinstance(value, list):
            item = shapes[shape["member"]["shape"]] if shape["type"] == "list" else shape
            for place, part in enumerate(cast("list[Any]", value)):
                yield from self._value(part, item, shapes, f"{path}[{place}]")
        elif isinstance(value, dict):
            if shape["type"] == "list":
                # One of those that the call takes many of.
                shape = shapes[shape["member"]["shape"]]
            if shape["type"] == "structure":
                yield from self._structure(cast("dict[str, Any]", value), shape, shapes, path)
        elif shape["type"] in ("string", "integer", "long"):
            self.checked += 1
            yield from _scalar(value, shape, path)


def _longest(service: str, operation: str, kind: str) -> Iterator[int]:
    """How long the name of a resource may be, where the call that makes it says so."""
    model = _model(service)
    called = model["operations"].get(operation)
    if called is None:
        return
    for member, given in model["shapes"][called["input"]["shape"]]["members"].items():
        # `Name`, or that of the kind: RoleName of a role, PolicyName of a role policy.
        whose = _plain(member).removesuffix("name")
        most = model["shapes"][given["shape"]].get("max")
        if whose != _plain(member) and kind.endswith(whose) and most is not None:
            yield most


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _scalar(value: Any, shape: Shape, path: str) -> Iterator[Failure]:
    if shape["type"] != "string":
        low, high = shape.get("min"), shape.get("max")
        number = float(value) if isinstance(value, int | float) else None
        outside = number is not None and (
            (low is not None and number < low) or (high is not None and number > high)
        )
        if outside:
            yield path, f"found {value}, wanted {low} to {high}"
        return
    text = str(value)
    allowed = shape.get("enum")
    if allowed is not None and text not in allowed:
        some = ", ".join(allowed[:12]) + (", and more" if len(allowed) > 12 else "")
        yield path, f"found {text!r}, which the service does not know; it knows {some}"
    elif not shape.get("min", 0) <= len(text) <= shape.get("max", len(text)):
        yield path, f"found {len(text)} characters, wanted {shape.get('min', 0)} to {shape['max']}"
    elif not _matches(shape.get("pattern"), text):
        yield path, f"found {text!r}, wanted {shape['pattern']}"


def _matches(pattern: str | None, text: str) -> bool:
    """Whether the text fits; models are written for Java, and some patterns are not Python's."""
    if pattern is None:
        return True
    try:
        return re.fullmatch(pattern, text, re.DOTALL) is not None
    except re.error:
        return True
