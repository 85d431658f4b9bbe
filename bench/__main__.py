"""`make bench`: one table of seconds and ratios, all measured in this run on this machine.

A ratio is between two measurements taken in turn, so that a machine that slows down
slows both; `aim` is what we strive for, not a test.

    .venv/bin/python -m bench --only repository

measures one group of rows (`--help` lists them).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from unittest import mock

import yaml

from bench import scale
from bench.helm import helm_commands
from bench.measure import ROUNDS, Row, in_turn, timed
from local.cluster import kubeconfig_path
from local.toolchain import cache_dir, ensure, module_dir
from policies import RULES, Context, Manifest, check, evaluate
from tokenworks import render as rendering
from tokenworks.catalog.reduced import reduced_crds
from tokenworks.check.conform import validate_schemas
from tokenworks.check.read import read_paths
from tokenworks.check.run import check_paths
from tokenworks.check.schemas import build_schemas
from tokenworks.cli.context import load, render_tools, root, say
from tokenworks.render.charts import Renderer, Request

STATE = "/var/lib/tokenworks-bench"
ENVIRONMENT = "local"


def tokenworks(*arguments: str) -> None:
    """A command line of ours; its output is of no interest here."""
    command = [str(root() / "tokenworks"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")


def control_plane() -> Row:
    """A cluster from nothing, programs and images being there."""
    tokenworks("local", "down")
    seconds = timed(lambda: tokenworks("local", "up"))
    return Row("cluster from nothing, node ready", seconds)


def from_nothing() -> Row:
    """Everything from nothing to the end of the first completion."""
    tokenworks("local", "down")
    seconds = timed(lambda: tokenworks("up", ENVIRONMENT))
    return Row("up from nothing to the first answer", seconds, aim="at most 180 s")


def no_change() -> Row:
    """A second `up` beside the API server's own opinion of the same objects."""
    releases = rendering.render(load(ENVIRONMENT), render_tools())
    objects = [o for r in releases for o in r.objects]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.dump_all(objects, file, Dumper=yaml.CSafeDumper)
        file.flush()
        command = [
            ensure("kube")["kube"], "kubectl", "diff", "--server-side", "--force-conflicts",
            "--field-manager=bench", f"--kubeconfig={kubeconfig_path(ENVIRONMENT)}",
            "-f", file.name,
        ]  # fmt: skip

        def diff() -> None:
            subprocess.run(command, capture_output=True, check=False)

        ours, theirs = in_turn(lambda: tokenworks("up", ENVIRONMENT, "--no-chat"), diff)
    what = f"up without a change, {len(objects)} objects"
    return Row(what, ours, "kubectl diff --server-side", theirs, "at most 2 times")


def _charts() -> list[Request]:
    """Every chart of the environment, with its values."""
    seen: list[Request] = []
    real = Renderer.objects

    def note(self: Renderer, request: Request) -> tuple[Manifest, ...]:
        seen.append(request)
        return real(self, request)

    with mock.patch.object(Renderer, "objects", note):
        rendering.render(load(ENVIRONMENT), replace(render_tools(), kept=None))
    return seen


def render() -> list[Row]:
    """Rendering the environment, as the first time and again, beside `helm template` of the same
    charts, as many at once."""
    tools, charts = render_tools(), _charts()
    with tempfile.TemporaryDirectory() as folder:
        commands = helm_commands(charts, Path(folder))

        def plain() -> None:
            with ThreadPoolExecutor(max_workers=4) as pool:
                list(
                    pool.map(lambda c: subprocess.run(c, capture_output=True, check=True), commands)
                )

        stack = load(ENVIRONMENT)
        first = replace(tools, kept=None)
        ours, theirs = in_turn(lambda: rendering.render(stack, first), plain)
        again, beside = in_turn(lambda: rendering.render(stack, tools), plain)
    what = f"render, {len(charts)} charts and the CRDs"
    return [
        Row(what, ours, "helm template", theirs),
        Row(f"{what}, again", again, "helm template", beside),
    ]


def _copies(count: int) -> list[Manifest]:
    """Objects of the rendered environments, again and again, each time in other namespaces."""
    files = [str(path) for path in sorted((root() / "rendered").iterdir())]
    objects = [item.manifest for item in read_paths(files, BytesIO()).objects]
    kinds = ("CustomResourceDefinition", "ConfigMap")
    objects = [item for item in objects if item["kind"] not in kinds]
    made: list[Manifest] = []
    for number in range(count):
        item = objects[number % len(objects)]
        turn = number // len(objects)
        space = f"{item['metadata'].get('namespace', 'default')}-{turn}"
        made.append({**item, "metadata": {**item["metadata"], "namespace": space}})
    return made


def rules() -> Row:
    """The rules over many objects, beside kubeconform over the same."""
    objects = _copies(10_000)
    openapi = module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"
    schemas = build_schemas(openapi, reduced_crds(), cache_dir() / "schemas")
    program = ensure("kubeconform")["kubeconform"]
    ours = timed(lambda: check(objects, Context()))
    theirs = timed(lambda: validate_schemas(objects, program, schemas))
    return Row("rules over 10,000 objects", ours, "kubeconform", theirs)


FIVE_TIMES = "at most 0.2 times"
SHARED = ("startup-probe", "readiness-probe", "liveness-probe", "gpu-limits", "image-digest",
          "service-links")  # fmt: skip
"""Rules that `bench/conftest` has too."""


def beside_conftest() -> list[Row]:
    """A file of many objects, read and judged by the same six rules; and the judging alone, which
    for conftest is what it takes longer than with no rule at all: medians, measured in turn."""
    program = ensure("conftest")["conftest"]
    chosen = [rule for rule in RULES if rule.id in SHARED]
    with tempfile.TemporaryDirectory() as folder:
        file, empty = Path(folder) / "objects.yaml", Path(folder) / "none"
        file.write_text(yaml.dump_all(_copies(10_000), Dumper=yaml.CSafeDumper))
        empty.mkdir()
        (empty / "none.rego").write_text("package main\n")

        def conftest(policies: Path) -> float:
            command = [program, "test", "--no-fail", "--policy", policies, file]
            return timed(lambda: subprocess.run(command, capture_output=True, check=True))

        def ours() -> tuple[float, float]:
            start = time.perf_counter()
            objects = [item.manifest for item in read_paths([str(file)], BytesIO()).objects]
            judging = timed(lambda: evaluate(objects, Context(), chosen, known=True))
            return time.perf_counter() - start, judging

        rounds = [
            (*ours(), conftest(root() / "bench" / "conftest"), conftest(empty))
            for _ in range(ROUNDS)
        ]
    whole, judging, theirs, reading = map(statistics.median, zip(*rounds, strict=True))
    what = f"{len(chosen)} rules over 10,000 objects"
    return [
        Row(f"{what}, reading the file included", whole, "conftest", theirs, FIVE_TIMES),
        Row(what, judging, "conftest", theirs - reading, FIVE_TIMES),
    ]


def linear() -> list[Row]:
    """Ten times the objects take ten times as long: by the rules, and by all that `check` does."""
    aim, counts = "at most 11 times", (10_000, 1_000)
    large, small = (_copies(count) for count in counts)
    ours, theirs = (timed(partial(check, objects, Context())) for objects in (large, small))
    rows = [Row("rules over 10,000 objects", ours, "over 1,000", theirs, aim)]
    with tempfile.TemporaryDirectory() as folder:
        seconds: list[float] = []
        for objects in (large, small):
            file = Path(folder) / f"{len(objects)}.yaml"
            file.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper))
            seconds.append(timed(partial(check_paths, [str(file)], BytesIO(), Context())))
    ours, theirs = seconds
    return [*rows, Row("check of a file of 10,000 objects", ours, "of 1,000", theirs, aim)]


def table(rows: list[Row]) -> str:
    """Rows in columns."""
    head = ("what", "seconds", "beside", "seconds", "ratio", "aim")
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


MEASURES: dict[str, Callable[[], Row | list[Row]]] = {
    "render": render,
    "repository": scale.measure,
    "rules": rules,
    "conftest": beside_conftest,
    "linear": linear,
    "control-plane": control_plane,
    "from-nothing": from_nothing,
    "no-change": no_change,
}
"""Groups of rows, in the order in which they are measured."""
_ON_A_CLUSTER = frozenset({"control-plane", "from-nothing", "no-change"})


def _asked() -> tuple[str, ...]:
    parser = argparse.ArgumentParser(prog="bench", description="Measure, and print one table.")
    parser.add_argument(
        "--only", action="append", choices=MEASURES, help="measure this; may be given again"
    )
    return tuple(parser.parse_args().only or MEASURES)


def main() -> None:
    """Measure what was asked for and print the table."""
    asked = _asked()
    os.environ["TOKENWORKS_STATE"] = STATE
    rows: list[Row] = []
    try:
        for name in asked:
            say(f"measuring: {name}")
            made = MEASURES[name]()
            rows += made if isinstance(made, list) else [made]
    finally:
        if _ON_A_CLUSTER.intersection(asked):
            tokenworks("local", "down")
    print(table(rows))


if __name__ == "__main__":
    sys.exit(main())
