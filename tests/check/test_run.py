"""`check PATH…`: file and line, exit codes, both formats, and that Python alone is enough."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

import policies
from policies import Context, words
from tokenworks.check.report import Report
from tokenworks.check.rules import explain, rule_ids, title
from tokenworks.check.run import check_paths
from tokenworks.cli import check
from tokenworks.errors import UsageError

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(policies.__file__).parent / "examples"
DENY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
"""
FINE = f"""apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  containers:
    - name: web
      image: nginx:1.27@sha256:{"a" * 64}
{DENY}"""
LOOSE = FINE.replace(f"@sha256:{'a' * 64}", "")


def checked(*paths: Path, stdin: str = "") -> Report:
    names = [str(path) for path in paths]
    return check_paths(names, io.BytesIO(stdin.encode()), Context())


def test_findings_have_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(LOOSE)
    report = checked(path)
    finding = report.findings[0]
    assert (finding.file, finding.line, finding.column) == (str(path), 7, 7)
    said, remedy = words(finding).splitlines()
    assert report.text().splitlines()[:3] == [str(path), f"  7:7 error: {said}", f"  {remedy}"]
    assert report.text().splitlines()[-1] == "checked 2 objects in 1 file: 1 error, 0 warnings"
    assert report.exit_code == 1


def test_a_placeholder_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(FINE.replace("nginx:1.27", "$IMAGE").replace(f"@sha256:{'a' * 64}", ""))
    (finding,) = checked(path).findings
    assert (finding.rule, finding.line) == ("leftover", 7)


def test_a_placeholder_of_a_script_hides_nothing_else_of_it(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    script = (
        "# <your comment>\nexport HF_TOKEN=<YOUR_TOKEN>\nvllm serve org/m --trust-remote-code\n"
    )
    container = {"name": "a", "image": f"vllm/vllm-openai:v0.26.0@sha256:{'a' * 64}"}
    shell = {"command": ["bash", "-c"], "args": [script]}
    spec = {"containers": [{**container, **shell}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    path.write_text(yaml.safe_dump(pod))
    found = {finding.rule: finding for finding in checked(path).findings}
    assert "left: export HF_TOKEN=<YOUR_TOKEN>" in found["leftover"].message
    assert found["leftover"].line == found["remote-code"].line


def test_lists_keep_the_lines_of_their_items(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n"
        "- apiVersion: v1\n  kind: Pod\n  metadata: {name: x}\n  spec:\n"
        "    containers:\n    - name: x\n      image: x:1\n"
    )
    digest = next(f for f in checked(path).findings if f.rule == "image-digest")
    assert (digest.line, digest.field) == (11, "spec.containers[0].image")


def test_objects_of_several_files_are_one_set(tmp_path: Path) -> None:
    pod, deny = FINE.split("---\n")
    (tmp_path / "a.yaml").write_text(pod)
    assert [f.rule for f in checked(tmp_path).findings] == ["network-policy"]
    (tmp_path / "b.yaml").write_text(deny)
    assert checked(tmp_path).findings == ()


def test_a_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.yaml").write_text(LOOSE)
    report = checked(tmp_path)
    assert {f.rule for f in report.findings} == {"unreadable", "image-digest"}
    assert report.exit_code == 1


def test_warnings_do_not_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(FINE.replace("spec:\n  cont", "spec:\n  hostNetwork: true\n  cont"))
    report = checked(path)
    assert [f.severity for f in report.findings] == ["warning"]
    assert report.exit_code == 0
    assert report.summary() == "checked 2 objects in 1 file: 0 errors, 1 warning"


def test_nothing_to_check_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("a: 1\n")
    report = checked(tmp_path)
    assert report.exit_code == 2
    assert report.text().startswith("nothing to check: no Kubernetes objects in 1 file")
    assert "values.yaml" in report.text()


def test_json_has_every_key(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(LOOSE)
    rows = json.loads(checked(path).json())
    assert rows == [
        {
            "rule": "image-digest",
            "severity": "error",
            "object": "Pod web",
            "field": "spec.containers[0].image",
            "file": str(path),
            "line": 7,
            "message": 'container "web" has an image without digest: nginx:1.27',
            "remedy": rows[0]["remedy"],
        }
    ]


@pytest.mark.slow
def test_output_is_the_same_twice() -> None:
    assert checked(EXAMPLES).text() == checked(EXAMPLES).text()


# --- the command line ----------------------------------------------------------


def app() -> typer.Typer:
    """The two commands alone, registered as the command line does."""
    made = typer.Typer(rich_markup_mode=None)
    made.command("check")(check.check_command)
    made.command("explain")(check.explain)
    return made


def cli(*args: str, stdin: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app(), list(args), input=stdin)
    if isinstance(result.exception, UsageError):
        return 2, str(result.exception)
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("args", "stdin", "code", "says"),
    [
        (["check", "-"], FINE, 0, "checked 2 objects"),
        (["check", "-"], LOOSE, 1, "  7:7 error: [image-digest] Pod web"),
        (["check", "-"], "", 2, "nothing to check"),
        (["check", "-", "--format", "json"], LOOSE, 1, '"rule": "image-digest"'),
        (["check", "-", "--format", "json"], FINE, 0, "[]"),
        (["check", "-", "--format", "sarif"], LOOSE, 1, '"ruleId": "image-digest"'),
        (["check", "-", "--format", "github"], LOOSE, 1, "::error file=(standard input),line=7,"),
        (["check", "-", "--format", "markdown"], LOOSE, 1, "| 7 | error | image-digest |"),
        (["check", "-", "--profile", "dev"], LOOSE, 0, "warning: [image-digest]"),
        (["check", "-", "--profile", "dev", "--level", "warning"], LOOSE, 1, "0 errors, 1 warning"),
        (["check", "-", "--level", "warning"], FINE, 0, "0 errors, 0 warnings"),
        (["check", "-", "--profile", "lax"], "", 2, ""),
        (["check", "absent"], "", 2, "no such file, folder or environment"),
        (["check"], "", 2, ""),
        (["check", "-", "--format", "xml"], "", 2, ""),
        (["check", "local", "dev"], "", 2, "./local"),
        (["explain", "image-digest"], "", 0, "Refused:"),
        (["explain", "schema"], "", 0, "Why:"),
        (["explain"], "", 0, "startup-probe"),
        (["explain", "image-digests"], "", 2, "did you mean image-digest?"),
    ],
)
def test_commands(args: list[str], stdin: str, code: int, says: str) -> None:
    found, output = cli(*args, stdin=stdin)
    assert found == code
    assert says in output


def test_a_bare_name_is_the_environment_and_a_path_the_folder() -> None:
    code, output = cli("check", "./stacks")
    assert code == 2
    assert "nothing to check" in output


def test_every_rule_is_explained() -> None:
    for rule in rule_ids():
        assert title(rule) in explain(rule)


def test_python_alone_is_enough() -> None:
    """Neither Pulumi nor the toolchain is imported to check files."""
    script = (
        "import io, sys; from policies import Context; "
        "from tokenworks.check.run import check_paths; "
        "check_paths(['policies/examples'], io.BytesIO(), Context()); "
        "print([m for m in sys.modules if m.split('.')[0] in ('pulumi', 'local', 'grpc')])"
    )
    path = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=path,
        cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
