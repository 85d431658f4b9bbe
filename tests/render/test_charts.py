"""The program that renders charts says what Helm says, and its end is one clear error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local.toolchain import module_dir
from tests.charts.rendering import CHARTS, Helm
from tokenworks.errors import TokenworksError
from tokenworks.render import RenderTools, render
from tokenworks.render.charts import Renderer, Request
from tokenworks.render.helm import KUBE_VERSION, parse, values_text
from tokenworks.spec.load import load_stack

Write = Callable[[dict[str, str]], Path]
HEAD = "apiVersion: v2\nname: one\nversion: 0.1.0\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a chart; files by name."""

    def chart(files: dict[str, str]) -> Path:
        for name, text in {"Chart.yaml": HEAD, **files}.items():
            file = tmp_path / "one" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "one"

    return chart


def asked(chart: Path, values: dict[str, Any] | None = None, name: str = "demo") -> Request:
    return Request(chart, name, "research", KUBE_VERSION, values_text(values or {}))


@pytest.fixture(scope="module")
def program(renderer: Path) -> Iterator[Renderer]:
    with Renderer(renderer) as running:
        yield running


def by_helm(helm: Path, request: Request, values: Path) -> tuple[int, str]:
    """Exit code of `helm template`, and what it says: objects, or the refusal."""
    values.write_text(request.values)
    done = Helm(helm).run(
        "template", request.name, request.chart, "--namespace", request.namespace, "--values",
        values, "--kube-version", KUBE_VERSION, "--skip-tests",
    )  # fmt: skip
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


HOOKS = """
kind: B
metadata: {name: z, annotations: {helm.sh/hook: pre-install}}
---
kind: A
metadata: {name: t, annotations: {helm.sh/hook: test}}
---
# nothing
---
kind: Service
metadata: {name: s}
---
kind: Namespace
metadata: {name: space}
"""
VALUES = """
kind: A
big: {{ int64 .Values.big }}
rounded: {{ .Values.big }}
words: [yes, "yes", 010, 0o10, 1.0, 1e3, ~, 2026-01-01]
merged:
  base: &base {b: 1, a: 2}
  more: {<<: *base, c: 3}
---
kind: A
y: no
1: one
"""
RENDERED: dict[str, dict[str, str]] = {
    "plain": {"templates/a.yaml": "kind: A\nname: {{ .Release.Name }}.{{ .Release.Namespace }}\n"},
    "order and hooks": {"templates/a.yaml": HOOKS, "templates/0.yaml": "kind: ConfigMap\n"},
    "facts": {
        "templates/a.yaml": "kind: A\nv: {{ .Capabilities.KubeVersion.Version }}\n"
        "h: {{ .Capabilities.HelmVersion.Version }}\nr: {{ .Release | toJson }}\n"
        "a: {{ .Capabilities.APIVersions | toJson }}\nt: {{ .Template | toJson }}\n"
        "c: {{ .Chart | toJson }}\nf: {{ .Files.Get `x` | quote }}\n",
        "x": "content",
    },
    "notes": {"templates/NOTES.txt": "{{ .Release.Name }}", "templates/a.yaml": "kind: A\n"},
    "order of keys": {"templates/a.yaml": "kind: A\nz: 1\na: {w: [{q: 1, b: 2}], c: ''}\n"},
    "below": {
        "Chart.yaml": HEAD + "dependencies:\n- {name: sub, version: 0.1.0, condition: sub.use}\n",
        "values.yaml": "sub: {use: true, x: 1}\n",
        "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 0.1.0\n",
        "charts/sub/values.yaml": "x: 0\nz: 2\n",
        "charts/sub/templates/a.yaml": "kind: B\nv: {{ .Values | toJson }}\n",
        "templates/a.yaml": "kind: A\nv: {{ .Values | toJson }}\n",
    },
}


@pytest.mark.helm
@pytest.mark.parametrize("case", RENDERED)
def test_objects_are_those_of_helm(
    case: str, write: Write, program: Renderer, helm: Path, tmp_path: Path
) -> None:
    request = asked(write(RENDERED[case]), {"sub": {"z": None}, "a": "é"})
    code, text = by_helm(helm, request, tmp_path / "values.yaml")
    assert code == 0, text
    objects = program.objects(request)
    assert objects == parse(text)
    assert json.dumps(objects) == json.dumps(parse(text)), "keys are in another order"


@pytest.mark.helm
def test_scalars_are_what_kubernetes_reads(write: Write, program: Renderer) -> None:
    """PyYAML would take other words for dates, numbers and text."""
    chart = write({"templates/a.yaml": VALUES})
    made, keys = program.objects(asked(chart, {"big": 1_048_576_000}))
    assert keys == {"kind": "A", "true": False, "1": "one"}
    assert made == {
        "kind": "A",
        "big": 1_048_576_000,
        "rounded": 1_048_576_000,
        "words": [True, "yes", 8, 8, 1, 1000, None, "2026-01-01"],
        "merged": {"base": {"a": 2, "b": 1}, "more": {"a": 2, "b": 1, "c": 3}},
    }


REFUSED: dict[str, dict[str, str]] = {
    "schema": {
        "values.schema.json": '{"properties": {"a": {"type": "integer"}, "b": {"minimum": 3}}}',
        "values.yaml": "b: 1\n",
        "templates/a.yaml": "kind: A\n",
    },
    "schema below": {
        "Chart.yaml": HEAD + "dependencies:\n- {name: sub, version: 0.1.0}\n",
        "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 0.1.0\n",
        "charts/sub/values.schema.json": '{"properties": {"x": {"type": "integer"}}}',
        "charts/sub/values.yaml": "x: text\n",
        "templates/a.yaml": "kind: A\n",
    },
    "schema that is none": {"values.schema.json": "{", "templates/a.yaml": "kind: A\n"},
    "fail": {"templates/a.yaml": 'kind: A\n{{ fail "because of this" }}\n'},
    "required": {"templates/a.yaml": 'kind: {{ required "kind is needed" .Values.kind }}\n'},
    "nil": {"templates/a.yaml": "kind: A\n\n{{ .Values.no.way }}\n"},
    "include": {
        "templates/_b.tpl": '{{ define "b" }}\n{{ fail "deep down" }}{{ end }}',
        "templates/a.yaml": 'kind: A\n{{ include "b" . }}\n',
    },
    "no such template": {"templates/a.yaml": '{{ include "nobody" . }}\n'},
    "no such function": {"templates/a.yaml": "{{ frobnicate 1 }}\n"},
    "syntax": {"templates/a.yaml": "kind: A\n{{ if }}\n"},
    "yaml": {"templates/a.yaml": "kind: A\n  b: 1\n"},
    "a list": {"templates/a.yaml": "- kind: A\n"},
    "kube version": {"Chart.yaml": HEAD + 'kubeVersion: ">= 99.0.0"\n'},
    "library": {"Chart.yaml": HEAD + "type: library\n"},
    "values": {"values.yaml": "a: [\n"},
    "chart": {"Chart.yaml": "apiVersion: v2\nversion: 0.1.0\n"},
}


@pytest.mark.helm
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_are_those_of_helm(
    case: str, write: Write, program: Renderer, helm: Path, tmp_path: Path
) -> None:
    request = asked(write(REFUSED[case]), {"a": "text"})
    code, said = by_helm(helm, request, tmp_path / "values.yaml")
    assert code != 0
    # Helm logs some refusals as well, and points to a flag of its own.
    words = said[said.index("Error: ") :].removeprefix("Error: ")
    words = words.replace("Use --debug flag to render out invalid YAML", "").strip()
    with pytest.raises(TokenworksError) as refused:
        program.objects(request)
    first, _, rest = str(refused.value).partition("\n")
    assert first == f"chart {request.chart} does not render as demo:"
    # Helm says what a schema refuses in another order each time.
    assert sorted(rest.splitlines()) == sorted(words.splitlines())


MANY = {
    "values.schema.json": """{
      "properties": {
        "a": {"type": "integer"}, "b": {"minimum": 3}, "c": {"maximum": 1},
        "d": {"additionalProperties": false},
        "e": {"anyOf": [
          {"required": ["x"]}, {"properties": {"f": {"type": "null"}, "g": {"type": "null"}}}
        ]}
      }
    }""",
    "values.yaml": "b: 1\nc: 2\nd: {r: 1, q: 2, p: 3}\ne: {g: 1, f: 2}\n",
    "templates/a.yaml": "kind: A\n",
}


def test_refusals_by_a_schema_are_the_same_each_time(write: Write, program: Renderer) -> None:
    request = asked(write(MANY), {"a": "text"})
    said: set[str] = set()
    for _ in range(30):
        with pytest.raises(TokenworksError) as refused:
            program.objects(request)
        said.add(str(refused.value).partition("\n")[2])
    assert len(said) == 1
    assert said.pop().splitlines()[2:] == [
        "- at '/a': got string, want integer",
        "- at '/b': minimum: got 1, want 3",
        "- at '/c': maximum: got 2, want 1",
        "- at '/d': additional properties 'p', 'q', 'r' not allowed",
        "- at '/e': 'anyOf' failed",
        "  - at '/e': missing property 'x'",
        "  - at '/e': validation failed",
        "    - at '/e/f': got number, want null",
        "    - at '/e/g': got number, want null",
    ]


@pytest.mark.helm
def test_a_name_that_helm_refuses(write: Write, program: Renderer) -> None:
    request = asked(write({"templates/a.yaml": "kind: A\n"}), name="No Name")
    with pytest.raises(TokenworksError, match=r'release name "No Name": invalid release name'):
        program.objects(request)


@pytest.mark.helm
def test_a_chart_that_is_not_there(program: Renderer, tmp_path: Path) -> None:
    with pytest.raises(TokenworksError, match="no such file or directory"):
        program.objects(asked(tmp_path / "nothing"))


@pytest.mark.helm
def test_one_refusal_is_no_others(write: Write, program: Renderer) -> None:
    chart = write({"templates/a.yaml": 'kind: A\n{{ if .Values.no }}{{ fail "no" }}{{ end }}\n'})
    with pytest.raises(TokenworksError):
        program.objects(asked(chart, {"no": True}))
    assert program.objects(asked(chart)) == ({"kind": "A"},)


@pytest.mark.helm
def test_a_value_of_one_release_is_in_no_other(write: Write, program: Renderer) -> None:
    """The chart is loaded once; what one rendering lays into it stays there."""
    chart = write(RENDERED["below"])

    def seen(number: int) -> Any:
        values = {"sub": {"use": number % 2 == 0, "x": number, f"k{number}": {"deep": number}}}
        return program.objects(asked(chart, values, f"r{number}"))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(seen, range(64)))
    assert found == [seen(number) for number in range(64)]
    assert [len(objects) for objects in found] == [2, 1] * 32
    assert found[4][1]["v"] == {"global": {}, "k4": {"deep": 4}, "use": True, "x": 4, "z": 2}


@pytest.mark.helm
@pytest.mark.slow
def test_huge_values_arrive(write: Write, program: Renderer) -> None:
    text = "x" * 30_000_000
    chart = write({"templates/a.yaml": "kind: A\na: {{ .Values.a | quote }}\n"})
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda n: program.objects(asked(chart, {"a": f"{n}{text}"})), (1, 2)))
    assert [made["a"] for (made,) in found] == [f"1{text}", f"2{text}"]


def fake(tmp_path: Path, script: str) -> Path:
    """A program that does as the script says."""
    path = tmp_path / "charts"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "it ended with exit code 3 while it rendered model demo: it said nothing"),
        ("read x; kill -9 $$", "it ended by signal 9 while it rendered model demo: it said noth"),
        ("echo 'fatal: no memory' >&2; exit 2", "code 2 while it rendered model demo: fatal: no"),
        ("read x; exit 0", "it ended with exit code 0 while it rendered model demo"),
        ("read x; echo nonsense; cat", "it said what is no answer: nonsense"),
        ("read x; echo '[1]'; cat", r"it said what is no answer: \[1\]"),
        ('read x; echo \'{"id":7,"objects":[]}\'; cat', "it said what is no answer: "),
        ("read x; echo '{\"id\":1}'; cat", "it said what is no answer: "),
        ('read x; printf \'{"id":1,"obj\'', "it ended with exit code 0 while it rendered model"),
    ],
)
def test_its_end_is_one_clear_error(script: str, words: str, tmp_path: Path) -> None:
    with Renderer(fake(tmp_path, script)) as running:
        with pytest.raises(TokenworksError, match=words) as first:
            running.objects(asked(CHARTS / "model"))
        with pytest.raises(TokenworksError) as second:
            running.objects(asked(CHARTS / "model"))
    assert str(first.value) == str(second.value)
    assert "Run the command again" in str(first.value)


def test_one_that_does_not_start(tmp_path: Path) -> None:
    words = "it does not start: No such file or directory"
    with Renderer(tmp_path / "nothing") as running, pytest.raises(TokenworksError, match=words):
        running.objects(asked(CHARTS / "model"))


@pytest.mark.parametrize("script", ["read x; echo > $0.asked", "echo > $0.asked"])
def test_whoever_waits_when_it_is_stopped_is_told(script: str, tmp_path: Path) -> None:
    """For an answer, or for its input to be read."""
    os.mkfifo(tmp_path / "charts.asked")
    running = Renderer(fake(tmp_path, f"{script}; exec tail -f /dev/null"))
    request = asked(CHARTS / "model", {"a": "x" * 5_000_000})
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(running.objects, request) for _ in range(2)]
        (tmp_path / "charts.asked").read_text()
        running.close()
    assert all("it was stopped" in str(future.exception()) for future in waiting)


@pytest.mark.helm
def test_a_line_that_is_no_request_ends_it(renderer: Path) -> None:
    done = subprocess.run([renderer], input=b"\n{}\nhello\n", capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"line 1 is no request: ")


def test_without_the_program_nothing_else_is_asked(root: Path, tmp_path: Path) -> None:
    program = fake(tmp_path, 'while read x; do echo x >> "$0.log"; exit 1; done')
    stack = load_stack(root, "dev")
    tools = RenderTools(program, module_dir)
    with pytest.raises(TokenworksError, match="charts cannot be rendered by"):
        render(stack, tools)
    assert (tmp_path / "charts.log").read_text() == "x\n"


ASK = """
import sys
from pathlib import Path
from local.toolchain import module_dir
from tokenworks.render import RenderTools, render
from tokenworks.spec.load import load_stack
render(load_stack(Path(sys.argv[1]), "dev"), RenderTools(Path(sys.argv[2]), module_dir))
"""


def test_ctrl_c_ends_both(root: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "charts.asked")
    program = fake(tmp_path, "echo $$ > $0.asked; exec tail -f /dev/null")
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ASK, root, program],
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        number = int((tmp_path / "charts.asked").read_text())
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate()
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert not Path(f"/proc/{number}").exists()
