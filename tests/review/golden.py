"""Write the golden comments anew: `python -m tests.review.golden [CASE…]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.review.cases import CASES
from tests.review.repository import HERE, workshop
from tokenworks.review.comment import comment

GOLDEN = HERE / "golden"


def main(names: list[str]) -> None:
    """Render every case, or those that are named, and drop files of cases that are gone."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder)
        for name in names or CASES:
            text = comment(workshop(kept / "kept").of(CASES[name], kept / name))
            (GOLDEN / f"{name}.md").write_text(text)
            print(name)
    for file in GOLDEN.glob("*.md"):
        if file.stem not in CASES:
            file.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
