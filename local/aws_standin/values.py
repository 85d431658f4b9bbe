"""Property values as they travel between engine and provider."""

from __future__ import annotations

from typing import Any, Final, cast

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

UNKNOWN: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What stands for a value that is not known before something is made."""
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
"""The key by which secrets and outputs wrap their value."""


def plain(value: Any) -> Any:
    """The value without what marks secrets and outputs; what is not known stays `UNKNOWN`."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if _SIGNATURE in fields:
            return plain(fields.get("value", UNKNOWN))
        return {key: plain(item) for key, item in fields.items()}
    if isinstance(value, list):
        return [plain(item) for item in cast("list[Any]", value)]
    return value


def properties(message: Struct) -> dict[str, Any]:
    """A message's properties as plain values."""
    return cast("dict[str, Any]", plain(MessageToDict(message)))


def found(inputs: Any, path: str) -> Any:
    """What stands at a dotted path; None where nothing does, `UNKNOWN` below what is unknown."""
    for name in path.split("."):
        if inputs == UNKNOWN:
            return UNKNOWN
        inputs = cast("dict[str, Any]", inputs).get(name) if isinstance(inputs, dict) else None
    return inputs


def same(before: Any, after: Any) -> bool:
    """Whether two values are alike as far as both are known."""
    if UNKNOWN in (before, after):
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        return old.keys() == new.keys() and all(same(old[key], new[key]) for key in old)
    if isinstance(before, list) and isinstance(after, list):
        pairs = cast("list[Any]", before), cast("list[Any]", after)
        return len(pairs[0]) == len(pairs[1]) and all(map(same, *pairs))
    return before == after
