"""Write `grammar.json`: of each engine what reading its command lines needs.

    python -m tokenworks.catalog.grammar        (make generate-grammar)

The reader uses the standard library alone, so that policies run anywhere; the facts it needs
are copied from `engines/*.yaml` and `foreign/*.yaml`, without words for people.
"""

from __future__ import annotations

import json
from typing import Any

from tokenworks.catalog.engines import HERE, CommandFacts, load_engines, load_foreign

FILE = HERE / "grammar.json"
_KEPT = {
    "title": True, "starts": True, "images": True, "image_env": True, "weights": True,
    "weights_flag": True, "spreads": True,
}  # fmt: skip
_FOR_RULES = {"port": True, "paths": True, "metrics": True, "metrics_before": True, "drain": True}
"""What the policies ask for beside the command line."""
_SILENT = frozenset({"meaning", "since", "until"})


def grammar(engine: CommandFacts) -> dict[str, Any]:
    """What reading one engine's command lines needs."""
    facts = engine.model_dump(
        by_alias=True,
        include={**_KEPT, **_FOR_RULES, "style": True, "parallel": True, "switches": True},
    )
    facts["options"] = {
        name: {
            key: value
            for key, value in option.model_dump(by_alias=True, exclude_defaults=True).items()
            if key not in _SILENT
        }
        for name, option in engine.options.items()
    }
    facts["ranges"] = [
        item.model_dump(by_alias=True, exclude_defaults=True) for item in engine.ranges
    ]
    return json.loads(json.dumps(facts))


def text() -> str:
    """The whole file."""
    known = {**load_engines().engines, **load_foreign()}
    engines = {name: grammar(engine) for name, engine in known.items()}
    lines = [f'"{name}": {json.dumps(facts, sort_keys=True)}' for name, facts in engines.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text())
