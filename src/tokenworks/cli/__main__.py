"""`python -m tokenworks.cli`."""

from __future__ import annotations

import gc
import sys

# What is imported stays until the end: looking through it for garbage takes a tenth of the start.
gc.disable()
try:
    from tokenworks.cli.main import main
except KeyboardInterrupt:  # importing takes longest, on a busy machine seconds
    print("interrupted before anything was done", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    main()
