"""The pack under the real Pulumi: preview and up refuse what check refuses, in its words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import policies
from local.pulumi_host.install import install, prepare_home
from local.toolchain import ensure
from policies import Context, check, words
from policies.pack import CONTEXT_VARIABLE
from tests.policies.builders import Object, deployment, engine, network_policy, pod

pytestmark = [pytest.mark.pulumi]

PACK = Path(policies.__file__).parent
PROGRAM = """
import json, pulumi, pulumi_kubernetes
files = pulumi_kubernetes.Provider("files", render_yaml_to_directory="out")
for number, item in enumerate(json.load(open("objects.json"))):
    version = item["apiVersion"]
    token = f"kubernetes:{version if '/' in version else 'core/' + version}:{item['kind']}"
    class Object(pulumi.CustomResource): pass
    Object(token, f"object{number}", item, pulumi.ResourceOptions(provider=files))
"""
SOUND = [deployment(pod(), selector={"matchLabels": {"app": "llama"}}), network_policy()]


@dataclass(frozen=True)
class Project:
    """A Pulumi project whose provider writes files instead of calling a cluster."""

    folder: Path
    program: Path
    env: dict[str, str]

    def run(
        self, *args: str, objects: list[Object], context: Context | None = None
    ) -> tuple[int, str]:
        """Exit code and output of one `pulumi` command."""
        (self.folder / "objects.json").write_text(json.dumps(objects))
        given = (context or Context()).to_json()
        done = subprocess.run(
            [self.program, *args, "--non-interactive", "--color", "never"],
            cwd=self.folder, env={**self.env, CONTEXT_VARIABLE: given},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def files(self) -> list[str]:
        """What the provider wrote, as far as it is objects."""
        return sorted(path.name for path in (self.folder / "out").rglob("*.yaml"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    names = ("pulumi", "pulumi-resource-kubernetes", "pulumi-language-python-exec")
    tools = ensure(*names)
    install(tmp_path / "bin", Path(sys.executable), tools["pulumi-language-python-exec"])
    prepare_home(tmp_path / "home", tools["pulumi-resource-kubernetes"], "4.25.0")
    state, folder = tmp_path / "state", tmp_path / "project"
    state.mkdir()
    folder.mkdir()
    runtime = {"name": "python", "options": {"virtualenv": sys.prefix}}
    (folder / "Pulumi.yaml").write_text(json.dumps({"name": "p", "runtime": runtime}))
    (folder / "__main__.py").write_text(PROGRAM)
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_OPTION_POLICY_PACK": str(PACK),
    }
    made = Project(folder, tools["pulumi"], env)
    code, output = made.run("stack", "init", "s", objects=[])
    assert code == 0, output
    return made


BROKEN = {
    "no startup probe": [deployment(pod(engine(startupProbe=None))), network_policy()],
    "no GPU limit": [deployment(pod(engine(resources=None))), network_policy()],
    "no digest": [deployment(pod(engine(image="vllm/vllm-openai:v0.26.0"))), network_policy()],
    "no NetworkPolicy": [deployment(pod())],
}


def test_preview_and_up_refuse_in_the_words_of_check(project: Project) -> None:
    for what, objects in BROKEN.items():
        findings = check(objects, Context())
        assert len(findings) == 1, what
        for command in (["preview"], ["up", "--yes"]):
            code, output = project.run(*command, objects=objects)
            assert code != 0, f"{what}: {output}"
            for line in words(findings[0]).splitlines():
                assert line.strip() in output, f"{what}: {output}"
        assert project.files() == [], what


def test_up_without_a_preview_creates_nothing_that_is_wrong_in_itself(project: Project) -> None:
    code, output = project.run("up", "--yes", "--skip-preview", objects=BROKEN["no digest"])
    assert code != 0
    assert "[image-digest]" in output
    assert not [name for name in project.files() if "deployment" in name]


def test_what_is_sound_goes_up_and_stays(project: Project) -> None:
    code, output = project.run("up", "--yes", objects=SOUND)
    assert code == 0, output
    assert len(project.files()) == 2
    code, output = project.run("preview", "--expect-no-changes", objects=SOUND)
    assert code == 0, output
    assert "[mandatory]" not in output
    assert "[advisory]" not in output


def test_the_context_decides(project: Project) -> None:
    local = [deployment(pod(engine(image="registry.example/vllm:1"))), network_policy()]
    exempt = Context(local_images=frozenset({"registry.example/vllm:1"}))
    unresolved = Context(unresolved_images=frozenset({"registry.example/vllm:1"}))
    assert project.run("preview", objects=local, context=exempt)[0] == 0
    code, output = project.run("preview", objects=local, context=unresolved)
    assert code == 0
    assert "[advisory]" in output
    assert "still unresolved" in output
    refusing = Context(unresolved_images=unresolved.unresolved_images, unresolved="error")
    assert project.run("preview", objects=local, context=refusing)[0] != 0
