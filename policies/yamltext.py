"""YAML that stands as text inside objects."""

from __future__ import annotations

from typing import Any

import yaml

from policies.tree import is_mapping, is_sequence, written

_LARGEST = 1_000_000
"""Characters of a text that is read; a Kubernetes object holds no more."""
_VALUES = 20_000
"""Values of a text that is read: references may make many of few."""
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def data_of(text: object) -> object:
    """The data of a text; None for what cannot be read, which its reader refuses by itself."""
    if not written(text) or len(text) > _LARGEST:
        return None
    try:
        data: object = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        return None
    return data if _within(data) else None


def _within(data: object) -> bool:
    waiting, count = [data], 0
    while waiting and count <= _VALUES:
        value = waiting.pop()
        count += 1
        waiting.extend(value.values() if is_mapping(value) else ())
        waiting.extend(value if is_sequence(value) else ())
    return count <= _VALUES
