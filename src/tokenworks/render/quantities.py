"""Numbers as Kubernetes quantities."""

from __future__ import annotations

import math


def mebibytes(size: float) -> str:
    """Bytes as a quantity, rounded up."""
    return f"{math.ceil(size / 2**20)}Mi"
