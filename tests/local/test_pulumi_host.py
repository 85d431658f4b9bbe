"""The Python language host: its environment, its processes, and the real CLI on top of it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from local.pulumi_host import install, official_host, prepare_home
from local.pulumi_host.environment import InterpreterError, environment_of
from local.pulumi_host.processes import Children, stream
from tests.canary import SHAPELESS, files_with, leaks
from tests.waiting import FOREVER

ROOT = Path(__file__).resolve().parents[2]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


class TestEnvironment:
    """Which interpreter runs a program."""

    def test_the_virtual_environment_is_found_from_the_projects_folder(
        self, tmp_path: Path
    ) -> None:
        python = script(tmp_path / "venv" / "bin" / "python", "")
        found = environment_of({"virtualenv": "../venv"}, tmp_path / "project")
        assert found.python == python
        variables = found.variables({"PATH": "/bin", "PYTHONHOME": "/x"})
        assert variables["PATH"] == f"{python.parent}{os.pathsep}/bin"
        assert variables["VIRTUAL_ENV"] == str(tmp_path / "venv")
        assert "PYTHONHOME" not in variables

    def test_one_that_is_not_there_is_named_with_its_remedy(self, tmp_path: Path) -> None:
        with pytest.raises(InterpreterError, match=r"/venv: make it with `./tokenworks venv"):
            environment_of({"virtualenv": "venv"}, tmp_path)

    def test_without_one_the_variable_decides_then_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = (script(tmp_path / name, "") for name in ("python3", "mine"))
        monkeypatch.setenv("PATH", str(tmp_path))
        assert environment_of({}, tmp_path).python == first
        monkeypatch.setenv("PULUMI_PYTHON_CMD", "mine")
        assert environment_of({}, tmp_path).python == second
        monkeypatch.setenv("PULUMI_PYTHON_CMD", "absent")
        with pytest.raises(InterpreterError, match="absent is not on PATH"):
            environment_of({}, tmp_path)

    @pytest.mark.parametrize("options", [{"toolchain": "poetry"}, {"typechecker": "mypy"}])
    def test_an_option_it_does_not_know_is_refused_not_ignored(
        self, options: Mapping[str, object], tmp_path: Path
    ) -> None:
        with pytest.raises(InterpreterError, match="official pulumi-language-python"):
            environment_of(options, tmp_path)

    def test_provider_packages_name_their_plugins_and_the_policy_package_does_not(self) -> None:
        plugins = {p.name: p.version for p in environment_of(_HERE, ROOT).plugins()}
        assert plugins == {"kubernetes": "4.25.0", "aws": "7.51.1"}

    def test_packages_that_others_need_are_listed_only_when_asked_for(self) -> None:
        environment = environment_of(_HERE, ROOT)
        direct = dict(environment.packages(transitive=False))
        every = dict(environment.packages(transitive=True))
        assert "pulumi" in every
        assert "pulumi" not in direct
        assert direct.items() <= every.items()


_HERE = {"virtualenv": str(Path(sys.executable).parents[1])}


class TestProcesses:
    """What the host starts ends with it."""

    def start(self, children: Children, program: str) -> subprocess.Popen[bytes]:
        return children.start([sys.executable, "-c", program], Path("/"), os.environ, piped=True)

    def test_both_outputs_and_the_exit_code_arrive(self) -> None:
        children = Children()
        program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
        process = self.start(children, program)
        chunks = list(stream(process))
        said = {name: b"".join(d for n, d in chunks if n == name) for name in ("stdout", "stderr")}
        assert said == {"stdout": b"out\n", "stderr": b"err\n"}
        assert children.wait(process) == 7

    def test_stopping_ends_what_runs_and_what_is_started_afterwards(self) -> None:
        children = Children()
        forever = f"import sys; sys.stdout.write('up'); sys.stdout.flush()\n{FOREVER}"
        process = self.start(children, forever)
        assert next(stream(process)) == ("stdout", b"up")
        children.stop()
        assert process.poll() is not None
        assert self.start(children, forever).wait(10) != 0


class TestInstall:
    """Where the CLI finds it."""

    def test_the_launcher_is_written_whole_and_only_when_it_differs(self, tmp_path: Path) -> None:
        executor = script(tmp_path / "sdk" / "pulumi-language-python-exec", "print()\n")
        launcher = install(tmp_path / "a folder", Path(sys.executable), executor)
        assert launcher.name == "pulumi-language-python"
        assert os.access(launcher, os.X_OK)
        assert (launcher.parent / executor.name).read_text() == "print()\n"
        before = launcher.stat().st_ino
        assert install(tmp_path / "a folder", Path(sys.executable), executor) == launcher
        assert launcher.stat().st_ino == before
        executor.write_text("print(1)\n")
        install(tmp_path / "a folder", Path(sys.executable), executor)
        assert (launcher.parent / executor.name).read_text() == "print(1)\n"
        assert sorted(p.name for p in launcher.parent.iterdir()) == [launcher.name, executor.name]

    def test_the_provider_is_a_link_that_follows_the_cache(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        old, new = (script(tmp_path / v / "pulumi-resource-x", "") for v in ("old", "new"))
        prepare_home(home, old, "1.2.3")
        prepare_home(home, new, "1.2.3")
        link = home / "plugins" / "resource-kubernetes-v1.2.3" / "pulumi-resource-x"
        assert link.resolve() == new
        assert home.stat().st_mode & 0o777 == 0o700

    def test_an_official_host_is_recognised(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert official_host() is None
        there = script(tmp_path / "pulumi-language-python", "")
        assert official_host() == there


@dataclass(frozen=True)
class Pulumi:
    """The real CLI with a home, a backend and a project of its own."""

    program: Path
    project: Path
    variables: dict[str, str]

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *arguments, "--non-interactive"],
            cwd=self.project, env={**os.environ, **self.variables, **variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip

    def write(self, program: str) -> None:
        (self.project / "__main__.py").write_text(program, encoding="utf-8")

    def state(self) -> dict[str, Any]:
        exported = self("stack", "export")
        assert exported.returncode == 0, exported.stderr
        return json.loads(exported.stdout)


@pytest.fixture(scope="module")
def pulumi(tmp_path_factory: pytest.TempPathFactory) -> Pulumi:
    from local.toolchain import ensure  # noqa: PLC0415  tests without programs need no toolchain

    programs = ensure("pulumi", "pulumi-resource-kubernetes", "pulumi-language-python-exec")
    folder = tmp_path_factory.mktemp("pulumi")
    home, project, state = folder / "home", folder / "project", folder / "state"
    for each in (project, state):
        each.mkdir()
    prepare_home(home, programs["pulumi-resource-kubernetes"], "4.25.0")
    install(
        home / "plugins" / "language-python-v3.0.0",
        Path(sys.executable),
        programs["pulumi-language-python-exec"],
    )
    runtime = {"name": "python", "options": _HERE}
    (project / "Pulumi.yaml").write_text(json.dumps({"name": "tiny", "runtime": runtime}))
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if "pulumi" not in p)
    variables = {
        "PATH": path, "PULUMI_HOME": str(home), "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "tests only", "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_STACK": "test",
    }  # fmt: skip
    cli = Pulumi(programs["pulumi"], project, variables)
    made = cli("stack", "init", "test")
    assert made.returncode == 0, made.stderr
    return cli


def pack(folder: Path, level: str) -> Path:
    """A policy pack with one rule, which every stack breaks."""
    folder.mkdir()
    described = {
        "name": "tiny",
        "version": "1.0.0",
        "runtime": {"name": "python", "options": _HERE},
    }
    (folder / "PulumiPolicy.yaml").write_text(json.dumps(described))
    (folder / "__main__.py").write_text(
        "from pulumi_policy import EnforcementLevel, PolicyPack, StackValidationPolicy\n"
        "def find(args, report):\n"
        "    report(f'found {len(args.resources)} resource(s)')\n"
        f"level = EnforcementLevel('{level}')\n"
        "PolicyPack('tiny', [StackValidationPolicy('rule', 'a rule', find, level)])\n"
    )
    return folder


@pytest.mark.pulumi
class TestCommandLine:
    """What a user of the CLI sees."""

    def test_a_program_runs_with_its_configuration_secrets_and_output(self, pulumi: Pulumi) -> None:
        assert pulumi("config", "set", "level", "info").returncode == 0
        assert pulumi("config", "set", "--secret", "token", "hush").returncode == 0
        pulumi.write(
            "import pulumi, sys\n"
            "config = pulumi.Config()\n"
            "print('a line', file=sys.stderr)\n"
            "pulumi.export('level', config.require('level'))\n"
            "pulumi.export('token', config.require_secret('token'))\n"
            "pulumi.export('where', f'{pulumi.get_project()}/{pulumi.get_stack()}')\n"
        )
        result = pulumi("up", "--yes", "--skip-preview")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "a line" in result.stdout
        assert "hush" not in result.stdout
        outputs = json.loads(pulumi("stack", "output", "--json", "--show-secrets").stdout)
        assert outputs == {"level": "info", "token": "hush", "where": "tiny/test"}
        assert "hush" not in json.dumps(pulumi.state())

    def test_contents_of_a_secret_stay_out_of_state_and_output(
        self, pulumi: Pulumi, tmp_path: Path
    ) -> None:
        """Upstream charts may bring one; the provider here writes files instead of a cluster."""
        program = (
            "import sys\n"
            f"sys.path[:0] = {[str(ROOT), str(ROOT / 'src')]!r}\n"
            "import pulumi, pulumi_kubernetes\n"
            "from components.objects import KubernetesObject\n"
            f"files = pulumi_kubernetes.Provider('f', render_yaml_to_directory={str(tmp_path)!r})\n"
            "def secret(name, **held):\n"
            "    manifest = {'apiVersion': 'v1', 'kind': 'Secret', **held}\n"
            "    manifest['metadata'] = {'name': name, 'namespace': 'x'}\n"
            "    KubernetesObject(manifest, pulumi.ResourceOptions(provider=files))\n"
        )
        said = ""
        for word in ("first", "second"):
            canary = f"{SHAPELESS}-{word}"
            encoded = base64.b64encode(canary.encode()).decode()
            pulumi.write(
                f"{program}secret('a', stringData={{'t': {canary!r}}})\n"
                f"secret('b', data={{'t': {encoded!r}}})\n"
            )
            for command in (("preview", "--diff"), ("up", "--yes", "--diff")):
                result = pulumi(*command)
                assert result.returncode == 0, result.stdout + result.stderr
                said += result.stdout + result.stderr
        assert list(files_with(tmp_path, [SHAPELESS])), "they were applied"
        assert leaks(said + json.dumps(pulumi.state()), [SHAPELESS]) == []
        backend = Path(pulumi.variables["PULUMI_BACKEND_URL"].removeprefix("file://"))
        assert list(files_with(backend, [SHAPELESS])) == []

    def test_manifests_and_charts_of_a_fork_become_objects_of_their_kinds(
        self, pulumi: Pulumi, tmp_path: Path
    ) -> None:
        """The provider is built without the Go SDK's struct for every kind: see its sdk folder."""
        chart, out = tmp_path / "chart", tmp_path / "out"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 1.0.0\n")
        (chart / "templates" / "all.yaml").write_text(
            "apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Values.called }}}\n"
        )
        marks = script(tmp_path / "mark", '#!/bin/sh\nsed "s/served/$1/"\n')
        defined = {
            "group": "example.com", "scope": "Cluster", "versions": [{"name": "v1"}],
            "names": {"kind": "Anything", "plural": "anythings"},
        }  # fmt: skip
        manifests = "---\n".join(
            json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, **more})
            + "\n"
            for version, kind, more in (
                ("v1", "ConfigMap", {}),
                ("v1", "Secret", {"stringData": {"t": SHAPELESS}}),
                ("apps/v1", "Deployment", {}),
                ("rbac.authorization.k8s.io/v1", "ClusterRole", {}),
                ("apiextensions.k8s.io/v1", "CustomResourceDefinition", {"spec": defined}),
                ("example.com/v1", "Anything", {"spec": {"a": [1]}}),
            )
        )
        pulumi.write(
            "import pulumi, pulumi_kubernetes as k\n"
            f"files = k.Provider('f', render_yaml_to_directory={str(out)!r})\n"
            "by = pulumi.ResourceOptions(provider=files)\n"
            f"group = k.yaml.v2.ConfigGroup('g', yaml={manifests!r}, opts=by)\n"
            f"k.helm.v4.Chart('c', chart={str(chart)!r}, values={{'called': 'served'}}, opts=by,\n"
            "    repository_opts={'username': 'me'},\n"
            f"    post_renderer={{'command': {str(marks)!r}, 'args': ['marked']}})\n"
            "pulumi.export('made', group.resources.apply(len))\n"
        )
        result = pulumi("up", "--yes", "--skip-preview")
        assert result.returncode == 0, result.stdout + result.stderr
        assert json.loads(pulumi("stack", "output", "--json").stdout) == {"made": 6}
        state = pulumi.state()
        assert leaks(json.dumps(state), [SHAPELESS]) == []
        made = {
            r["type"].removeprefix("kubernetes:"): r["outputs"].get("metadata", {}).get("name")
            for r in state["deployment"]["resources"]
            if r["type"].startswith("kubernetes:") and r["custom"]
        }
        assert made == {
            "core/v1:ConfigMap": "m", "core/v1:Secret": "m", "apps/v1:Deployment": "m",
            "rbac.authorization.k8s.io/v1:ClusterRole": "m",
            "apiextensions.k8s.io/v1:CustomResourceDefinition": "m", "example.com/v1:Anything": "m",
            "core/v1:Service": "marked",
        }  # fmt: skip
        assert len(list(out.rglob("*.yaml"))) == len(made)

    def test_a_host_that_is_no_official_one_draws_no_warning(self, pulumi: Pulumi) -> None:
        pulumi.write("import pulumi\n")
        result = pulumi("preview")
        assert result.returncode == 0
        assert "warning" not in result.stdout

    def test_a_fault_is_shown_by_the_lines_of_the_program_alone(self, pulumi: Pulumi) -> None:
        pulumi.write("def f():\n    raise ValueError('boom')\nf()\n")
        result = pulumi("preview")
        assert result.returncode == 1
        assert "ValueError: boom" in result.stdout
        assert "__main__.py" in result.stdout
        assert "runpy" not in result.stdout
        assert "non-zero exit code" not in result.stdout

    def test_an_error_that_the_program_told_is_told_once(self, pulumi: Pulumi) -> None:
        pulumi.write(
            "import pulumi, sys\npulumi.log.error('stacks/x.yaml:3: no such field')\nsys.exit(32)\n"
        )
        result = pulumi("preview")
        assert result.returncode == 1
        diagnostics = result.stdout.partition("Diagnostics:")[2]
        assert diagnostics.count("no such field") == 1
        assert "Traceback" not in result.stdout
        assert "exit code" not in result.stdout

    @pytest.mark.parametrize(
        ("ending", "said"),
        [
            ("import sys; sys.exit(3)", "Program exited with non-zero exit code: 3"),
            ("import os; os.kill(os.getpid(), 9)", "Program was ended by signal 9"),
        ],
    )
    def test_any_other_ending_says_how_it_ended(
        self, pulumi: Pulumi, ending: str, said: str
    ) -> None:
        pulumi.write(ending)
        result = pulumi("preview")
        assert result.returncode == 1
        assert said in result.stdout

    def test_a_mandatory_rule_stops_and_an_advisory_one_is_shown(
        self, pulumi: Pulumi, tmp_path: Path
    ) -> None:
        pulumi.write("import pulumi\n")
        strict = pulumi("preview", PULUMI_OPTION_POLICY_PACK=str(pack(tmp_path / "a", "mandatory")))
        assert strict.returncode == 1
        assert "found 1 resource(s)" in strict.stdout
        mild = pulumi("preview", PULUMI_OPTION_POLICY_PACK=str(pack(tmp_path / "b", "advisory")))
        assert mild.returncode == 0, mild.stdout
        assert "found 1 resource(s)" in mild.stdout

    def test_a_pack_that_does_not_start_is_shown_with_its_fault(
        self, pulumi: Pulumi, tmp_path: Path
    ) -> None:
        pulumi.write("import pulumi\n")
        broken = pack(tmp_path / "pack", "mandatory")
        (broken / "__main__.py").write_text("import nowhere_to_be_found\n")
        result = pulumi("preview", PULUMI_OPTION_POLICY_PACK=str(broken))
        assert result.returncode == 1
        assert "No module named 'nowhere_to_be_found'" in result.stdout + result.stderr

    def test_a_missing_environment_is_told_with_its_remedy(
        self, pulumi: Pulumi, tmp_path: Path
    ) -> None:
        runtime = {"name": "python", "options": {"virtualenv": "absent"}}
        (tmp_path / "Pulumi.yaml").write_text(json.dumps({"name": "tiny", "runtime": runtime}))
        (tmp_path / "__main__.py").write_text("")
        result = pulumi("preview", "--cwd", str(tmp_path))
        assert result.returncode != 0
        assert "./tokenworks venv pulumi" in result.stdout + result.stderr

    def test_about_names_interpreter_and_packages(self, pulumi: Pulumi) -> None:
        about = json.loads(pulumi("about", "--json").stdout)
        assert about["runtime"]["executable"] == str(Path(sys.executable))
        assert "pulumi_kubernetes" in {d["name"].replace("-", "_") for d in about["dependencies"]}

    @pytest.mark.fieldnote(64)
    def test_objects_are_previewed_where_there_is_no_cluster(self, pulumi: Pulumi) -> None:
        pulumi.write(
            f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'src')!r}]\n"
            "from components import ClusterArgs, Environment, EnvironmentArgs\n"
            "from tokenworks.render.release import Release\n"
            "objects = (\n"
            "    {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'a'}},\n"
            "    {'apiVersion': 'example.com/v1', 'kind': 'Thing', 'spec': {},\n"
            "     'metadata': {'name': 'x', 'namespace': 'a'}},\n"
            ")\n"
            "release = Release('things', 'platform', 'a', objects)\n"
            "Environment('test', EnvironmentArgs(ClusterArgs('/nowhere'), [release], {}))\n"
        )
        result = pulumi("preview")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "Thing:a/x create" in result.stdout


def test_what_only_code_generators_need_is_refused_by_name() -> None:
    from local.pulumi_host.host import Host  # noqa: PLC0415  the stubs need the SDK

    class RefusedError(Exception):
        pass

    class Context:
        def abort(self, code: grpc.StatusCode, details: str) -> None:
            raise RefusedError(code, details)

    host: Any = Host("", Path("/none"), Children())
    for name in ("Pack", "Link", "GeneratePackage", "GenerateProgram", "GenerateProject"):
        with pytest.raises(RefusedError) as refusal:
            getattr(host, name)(None, Context())
        code, details = refusal.value.args
        assert code is grpc.StatusCode.UNIMPLEMENTED
        assert name in details
