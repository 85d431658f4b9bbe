"""What the plain tools need for the same charts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

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


def helmfile_command(charts: Iterable[Request], folder: Path) -> list[str]:
    """One `helmfile template` for all of them, as many at once as it likes."""
    releases: list[dict[str, object]] = []
    for number, chart in enumerate(charts):
        values = folder / f"{number}.yaml"
        values.write_text(chart.values)
        releases.append(
            {
                "name": chart.name,
                "namespace": chart.namespace,
                "chart": str(chart.chart),
                "values": [str(values)],
            }
        )
    file = folder / "helmfile.yaml"
    file.write_text(yaml.safe_dump({"releases": releases}))
    helm, program = ensure("helm")["helm"], ensure("helmfile")["helmfile"]
    flags = ["--file", str(file), "--helm-binary", str(helm), "--quiet"]
    return [str(program), *flags, "template", "--skip-deps"]
