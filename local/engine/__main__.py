"""`python -m local.engine`: install the engine, or find it, and print its folder."""

from __future__ import annotations

import sys

from local.engine.install import ensure
from tokenworks.errors import TokenworksError


def main() -> int:
    """Install; 0 when it is there, 1 when it cannot be."""
    try:
        print(ensure().root)
    except TokenworksError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
