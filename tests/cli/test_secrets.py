"""Planted credentials come out nowhere: commands, rendered files, Pulumi's state and processes."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.canary import SHAPED, SHAPELESS, files_with, leaks
from tokenworks.cli import chat, check, context, engine, main
from tokenworks.errors import TokenworksError

ROOT = Path(__file__).parents[2]
PLANTED = (*SHAPED.values(), SHAPELESS)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command as a user does; its exit code and both outputs in one."""

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["./tokenworks", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out + err

    return call


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the local environment's folder, under a root of its own."""
    folder = tmp_path / "stacks" / "local"
    shutil.copytree(ROOT / "stacks" / "local", folder)
    monkeypatch.setattr(context, "root", lambda: tmp_path)
    monkeypatch.setattr("tokenworks.cli.render.root", lambda: tmp_path)
    monkeypatch.setenv("TOKENWORKS_STATE", str(tmp_path / "state"))
    return folder


SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "hub", "namespace": "research"},
    "stringData": {"token": SHAPELESS},
}


@pytest.mark.parametrize("canary", PLANTED, ids=[*SHAPED, "no shape"])
@pytest.mark.parametrize("output", ["text", "json"])
def test_check_names_the_place_and_not_the_value(
    canary: str, output: str, run: Run, tmp_path: Path
) -> None:
    env = [{"name": "ANY", "value": canary}, {"name": "API_KEY", "value": canary}]
    containers = [{"name": "x", "image": f"x/{canary}", "env": env, "args": [canary]}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "${" + canary + "}"}}
    file = tmp_path / "all.yaml"
    documents = [
        {**SECRET, "stringData": {"token": canary}},
        {**pod, "spec": {"containers": containers}},
    ]
    file.write_text(yaml.safe_dump_all(documents))
    code, said = run("check", "--format", output, str(file))
    assert code == 1
    assert said.count("plain-secret") >= 2
    # A name or an image is shown as it is, unless its shape tells: a password like any word is
    # a word there.
    expected = [canary] if canary == SHAPELESS else []
    assert leaks(said, PLANTED) == expected
    assert f"value: {canary}" not in said


@pytest.mark.parametrize("command", ["render", "check", "preview", "up", "env", "chat", "picks"])
def test_every_command_refuses_an_environment_with_a_secret_in_its_files(
    command: str, run: Run, stack: Path
) -> None:
    (stack / "manifests").mkdir(exist_ok=True)
    (stack / "manifests" / "hub.yaml").write_text(yaml.safe_dump(SECRET))
    model = next((stack / "models").iterdir())
    document = yaml.safe_load(model.read_text())
    document["spec"]["engine"]["env"] = {"EXTRA": SHAPED["GitHub token"]}
    model.write_text(yaml.safe_dump(document))
    code, said = run(command, "local")
    assert code == 2
    assert "stacks/local/manifests/hub.yaml" in said
    assert "spec.engine.env.EXTRA" in said
    assert "ExternalSecret" in said
    assert leaks(said, PLANTED) == []
    root = stack.parents[1]
    assert list(files_with(root, PLANTED)) == [
        f"stacks/local/manifests/hub.yaml: {SHAPELESS[:8]}…",
        f"{model.relative_to(root)}: {SHAPED['GitHub token'][:8]}…",
    ]


@pytest.mark.parametrize("error", [TokenworksError, ValueError])
def test_what_another_program_says_is_passed_on_without_credentials(
    error: type[Exception], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_name: str) -> None:
        raise error(f"helm template failed: {' '.join(SHAPED.values())} end")

    monkeypatch.delenv("TOKENWORKS_DEBUG", raising=False)
    monkeypatch.setattr(chat, "load", fails)
    code, said = run("chat", "local")
    assert code == 1
    assert said.startswith("error: ")
    assert "end" in said
    assert leaks(said, PLANTED) == []


def test_the_fault_of_a_check_is_one_line_without_the_document(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_targets: list[str], *_rest: object) -> None:
        raise RuntimeError(f"{{'token': '{SHAPED['Hugging Face token']}'}}")

    monkeypatch.delenv("TOKENWORKS_DEBUG", raising=False)
    monkeypatch.setattr(check, "_paths", fails)
    code, said = run("check", "x.yaml")
    assert code == 1
    assert "unexpected RuntimeError" in said
    assert leaks(said, PLANTED) == []


# Under the real Pulumi


@dataclass(frozen=True)
class Process:
    """A process of the run, as everybody on the machine may see it, and what it was given."""

    arguments: str
    environment: str


def processes(tag: str) -> Iterator[Process]:
    """Processes whose environment has the tag."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().decode("latin-1")
            arguments = (folder / "cmdline").read_bytes().decode("latin-1")
        except OSError:
            continue
        if tag in environment:
            yield Process(arguments.replace("\0", " "), environment)


def watched(command: list[str], variables: dict[str, str], log: Path) -> tuple[int, set[Process]]:
    """Run a command to its end; every process that was seen meanwhile."""
    seen: set[Process] = set()
    with (
        log.open("ab") as out,
        subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
            stdout=out, stderr=out,
        ) as process,
    ):  # fmt: skip
        handle = os.pidfd_open(process.pid)
        while not select.select([handle], [], [], 0.05)[0]:
            seen.update(processes(variables["TOKENWORKS_STATE"]))
        os.close(handle)
    return process.returncode, seen


@pytest.mark.pulumi
def test_passphrase_and_configured_secrets_stay_where_they_belong(
    tmp_path: Path, state: Path
) -> None:
    place, log = state, tmp_path / "log"
    variables = {"TOKENWORKS_STATE": str(place), "PULUMI_CONFIG_PASSPHRASE": f"mine-{SHAPELESS}"}
    code, _ = watched(["./tokenworks", "env", "local"], variables, log)
    assert code == 0, log.read_text()
    passphrase = place / "pulumi" / "passphrase"
    assert [p.stat().st_mode & 0o777 for p in (passphrase, passphrase.parent)] == [0o600, 0o700]
    # As a user types it, with the settings of `env`; the value by standard input.
    script = 'eval "$(./tokenworks env local)" && pulumi config set --secret hub'
    configured = subprocess.run(
        ["sh", "-c", script], cwd=ROOT, env={**os.environ, **variables}, input=SHAPELESS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert configured.returncode == 0, configured.stderr
    code, seen = watched(["./tokenworks", "preview", "local", "--diff"], variables, log)
    assert code == 0, log.read_text()

    engines = [p for p in seen if "/pulumi preview" in p.arguments]
    programs = [p for p in seen if "pulumi-language-python-exec" in p.arguments]
    assert engines and programs, "the run was seen"
    secret = passphrase.read_text()
    for process in seen:
        assert leaks(process.arguments, [secret, SHAPELESS]) == []
        assert leaks(process.environment, [secret]) == []
    for process in engines:
        assert SHAPELESS not in process.environment, "the caller's own passphrase is not ours"
    assert leaks(log.read_text() + configured.stdout + configured.stderr, [secret, SHAPELESS]) == []
    assert list(files_with(place, [SHAPELESS])) == []
    assert list(files_with(place, [secret])) == [f"pulumi/passphrase: {secret[:8]}…"]
    loose = [p for p in (place / "pulumi").iterdir() if p.stat().st_mode & 0o077]
    assert loose == [], "nobody else reads state"


def test_the_passphrase_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = engine._passphrase(tmp_path / "passphrase")  # pyright: ignore[reportPrivateUsage]
    first = file.read_text()
    assert len(first) >= 32
    assert engine._passphrase(file).read_text() == first  # pyright: ignore[reportPrivateUsage]
    assert [p.name for p in tmp_path.iterdir()] == ["passphrase"]
    assert file.stat().st_mode & 0o777 == 0o600
