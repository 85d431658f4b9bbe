"""Examples: a few values beside what they render to. They are documentation and golden test.

    .venv/bin/python -m tests.charts.examples

writes `rendered.yaml` of every example anew, and the values that are made from documents.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.charts.documents import values_of, variants
from tests.charts.rendering import Helm

FOLDER = Path(__file__).parent / "examples"


def examples() -> list[Path]:
    """The folder of every example: `<chart>/<case>`."""
    return sorted(path.parent for path in FOLDER.glob("*/*/values.yaml"))


def rendered(helm: Helm, example: Path) -> str:
    """What the example's values render to: objects by kind and name, without Helm's comments."""
    objects = helm.objects(example.parent.name, (example / "values.yaml").read_text()).all
    ordered = sorted(objects, key=lambda o: (o["kind"], o["metadata"]["name"]))
    return yaml.dump_all(ordered, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Files inside objects are shown line by line."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def made_values() -> dict[Path, str]:
    """Values of examples that come from documents, as `./tokenworks render` computes them."""
    made: dict[Path, str] = {}
    for name, release in variants().items():
        text = yaml.safe_dump(values_of(release), sort_keys=False, width=110)
        head = f"# What the ModelRelease `{name}` of documents.py becomes.\n"
        made[FOLDER / "model" / name / "values.yaml"] = head + text
    return made


def write() -> None:
    """Write what is generated."""
    from local.toolchain import ensure  # noqa: PLC0415  only this needs the toolchain

    for path, text in made_values().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    helm = Helm(ensure("helm")["helm"])
    for example in examples():
        (example / "rendered.yaml").write_text(rendered(helm, example))


if __name__ == "__main__":
    write()
