"""Ask the real engine's own parser about command lines."""

from __future__ import annotations

import json
from collections.abc import Sequence

from local.engine.install import HERE, Installed

SCRIPT = HERE / "inside" / "arguments.py"


def parsed(engine: Installed, lines: Sequence[Sequence[str]]) -> list[str]:
    """What vLLM's parser says to each command line (`serve MODEL --flag=…`); empty: accepted.

    One process for all of them: importing vLLM takes most of the time.

    Raises:
        TokenworksError: vLLM does not load.
    """
    answers: list[str] = json.loads(engine.run(SCRIPT, text=json.dumps([[*x] for x in lines])))
    assert len(answers) == len(lines)
    return answers
