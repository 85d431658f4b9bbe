"""What the plain tool needs for the same charts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from local.toolchain import ensure
from tokenworks.render.charts import Request


def helm_commands(charts: Iterable[Request], folder: Path) -> list[list[str]]:
    """A `helm template` for each chart; its values are files in the folder."""
    helm, commands = str(ensure("helm")["helm"]), list[list[str]]()
    for number, chart in enumerate(charts):
        file = folder / f"{number}.yaml"
        file.write_text(chart.values)
        command = ["template", chart.name, str(chart.chart), "--namespace", chart.namespace]
        commands.append([helm, *command, "--values", str(file)])
    return commands
