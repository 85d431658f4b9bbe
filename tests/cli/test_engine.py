"""Runs of Pulumi: what is set, how an interruption is passed on, what a killed run leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import FOREVER
from tokenworks.cli import engine, leftovers, state
from tokenworks.cli.engine import Engine
from tokenworks.errors import TokenworksError
from tokenworks.render import handover
from tokenworks.render.release import Release
from tokenworks.spec.common import Metadata
from tokenworks.spec.environment import Cluster, Environment, EnvironmentSpec, Provider
from tokenworks.spec.stack import Stack

Settings = Callable[..., Engine]
SALT = "v1:c2FsdA=="
BROKEN = (
    "<{%fg 1%}>kubernetes:apps/v1:Deployment resource x: Internal error occurred: failed calling "
    'webhook "mdeployment.kb.io": failed to call webhook: Post "https://kueue/x": write tcp '
    "10.0.0.1:1->10.0.0.2:2: write: broken pipe<{%reset%}>"
)


def program(path: Path, body: str) -> Path:
    """A stand-in for `pulumi`: Python with the arguments in `args`."""
    path.write_text(f"#!{sys.executable} -I\nimport os, signal, sys\nargs = sys.argv[1:]\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def run_of(tmp_path: Path) -> Engine:
    folder = tmp_path / "state"
    folder.mkdir()
    config = folder / "project" / "Pulumi.test.yaml"
    variables = {
        "PULUMI_BACKEND_URL": f"file://{folder}", "PULUMI_OPTION_CONFIG_FILE": str(config),
        "LOG": str(tmp_path / "log"), "PULUMI_OPTION_POLICY_PACK": "/policies",
    }  # fmt: skip
    log = "open(os.environ['LOG'], 'a').write(' '.join(args) + '\\n')"
    return Engine(program(tmp_path / "pulumi", log), "test", folder, variables, {"GOGC": "off"})


def replaced(run: Engine, body: str) -> Engine:
    program(run.pulumi, body)
    return run


def calls(run: Engine) -> list[str]:
    log = Path(run.variables["LOG"])
    return log.read_text().splitlines() if log.exists() else []


def checkpoint(run: Engine, **latest: Any) -> None:
    run.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    state = {"secrets_providers": {"state": {"salt": SALT}}, **latest}
    run.checkpoint.write_text(json.dumps({"checkpoint": {"latest": state}}))


def lock(run: Engine, text: str) -> Path:
    path = run.folder / ".pulumi" / "locks" / "organization" / "tokenworks" / "test" / "x.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


class TestRun:
    """One call of the CLI."""

    def test_the_exit_code_is_pulumis(self, run_of: Engine) -> None:
        assert engine.run(replaced(run_of, "sys.exit(5)"), ["preview"]) == 5

    def test_the_stack_is_named_and_nobody_is_asked(self, run_of: Engine) -> None:
        assert engine.run(run_of, ["preview", "--diff"]) == 0
        assert calls(run_of) == ["preview --diff --stack test --non-interactive"]

    def test_the_users_own_setting_of_the_collector_wins(
        self, run_of: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = "sys.exit(0 if os.environ['GOGC'] == os.environ['WANTED'] else 1)"
        monkeypatch.setenv("WANTED", "off")
        monkeypatch.delenv("GOGC", raising=False)
        assert engine.run(replaced(run_of, body), ["preview"]) == 0
        monkeypatch.setenv("WANTED", "50")
        monkeypatch.setenv("GOGC", "50")
        assert engine.run(run_of, ["preview"]) == 0

    def test_what_was_checked_is_applied_as_it_is_and_not_checked_again(
        self, run_of: Engine
    ) -> None:
        body = (
            "handed = os.environ.get('TOKENWORKS_RENDERED')\n"
            "print(open(handed).read() if handed else 'nothing')\n"
            "sys.exit(('PULUMI_OPTION_POLICY_PACK' in os.environ) == bool(handed))"
        )
        assert engine.run(replaced(run_of, body), ["up"]) == 0
        releases = [Release("a", "crds", "", ({"kind": "X"},))]
        applying = run_of.applying(releases)
        assert engine.run(applying, ["up"]) == 0
        assert handover.read(Path(applying.variables[handover.VARIABLE])) == tuple(releases)
        loose = [p for p in run_of.folder.iterdir() if p.is_file() and p.stat().st_mode & 0o077]
        assert loose == []

    def test_temporary_files_are_in_a_private_folder_and_go_with_the_run(
        self, run_of: Engine
    ) -> None:
        body = (
            "folder = os.environ['TMPDIR']\n"
            "open(folder + '/kubeconfig', 'w').write('secret')\n"
            "sys.exit(os.stat(folder).st_mode & 0o077)"
        )
        assert engine.run(replaced(run_of, body), ["preview"]) == 0
        assert list(run_of.folder.iterdir()) == []

    def test_a_quiet_run_that_fails_says_what_pulumi_said(self, run_of: Engine) -> None:
        run = replaced(run_of, "print('no such stack'); sys.exit(1)")
        with pytest.raises(TokenworksError, match="no such stack"):
            engine.run(run, ["refresh"], quiet=True)

    @pytest.mark.parametrize(
        ("ending", "left"), [("sys.exit(1)", False), ("os.kill(os.getpid(), 9)", True)]
    )
    def test_only_a_run_that_was_killed_leaves_its_mark(
        self, run_of: Engine, ending: str, left: bool
    ) -> None:
        engine.run(replaced(run_of, ending), ["up"])
        assert run_of.interrupted.exists() is left
        # A later run that ends well does not know what the killed one applied.
        engine.run(replaced(run_of, "sys.exit(0)"), ["destroy"])
        assert run_of.interrupted.exists() is left

    @pytest.mark.parametrize(
        ("errors", "attempts"),
        [
            ([BROKEN, "update failed"], 3),
            ([BROKEN, "spec.replicas: Invalid value", "update failed"], 1),
            (['admission webhook "a.b" denied the request: no'], 1),
            (["update failed"], 1),
        ],
    )
    def test_only_webhooks_that_could_not_be_reached_are_worth_another_attempt(
        self,
        run_of: Engine,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        errors: list[str],
        attempts: int,
    ) -> None:
        monkeypatch.setattr(engine, "_PAUSES", (0, 0))
        lines = [{"diagnosticEvent": {"severity": "error", "message": m}} for m in errors]
        lines += [{"diagnosticEvent": {"severity": "warning", "message": "odd"}}, {"sequence": 9}]
        text = "".join(f"{json.dumps(line)}\n" for line in lines) + '{"cut'
        body = (
            "open(os.environ['LOG'], 'a').write(args[0] + '\\n')\n"
            f"open(args[args.index('--event-log') + 1], 'w').write({text!r})\n"
            "sys.exit(255)"
        )
        assert engine.change(replaced(run_of, body), "up") == 255
        assert calls(run_of) == ["up"] * attempts
        assert capsys.readouterr().err.count("could not reach mdeployment.kb.io") == attempts - 1
        assert list(run_of.folder.glob("tmp-*")) == []

    def test_an_attempt_that_ends_well_is_the_last(
        self, run_of: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "_PAUSES", (0, 0))
        line = json.dumps({"diagnosticEvent": {"severity": "error", "message": BROKEN}})
        body = (
            "log = os.environ['LOG']\n"
            "open(log, 'a').write('up\\n')\n"
            "if len(open(log).readlines()) == 2: sys.exit(0)\n"
            f"open(args[args.index('--event-log') + 1], 'w').write({line!r})\n"
            "sys.exit(255)"
        )
        assert engine.change(replaced(run_of, body), "up") == 0
        assert calls(run_of) == ["up", "up"]

    def test_a_preview_leaves_no_mark(self, run_of: Engine) -> None:
        engine.run(replaced(run_of, "os.kill(os.getpid(), 9)"), ["preview"])
        assert not run_of.interrupted.exists()

    def test_what_a_killed_engine_leaves_running_is_ended(
        self, run_of: Engine, tmp_path: Path
    ) -> None:
        # Plugins get process groups of their own, as Pulumi gives them.
        pid = tmp_path / "pid"
        body = (
            "import subprocess\n"
            f"code = {FOREVER!r}\n"
            "child = subprocess.Popen([sys.executable, '-c', code], process_group=0)\n"
            f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
            "os.kill(os.getpid(), 9)"
        )
        engine.run(replaced(run_of, body), ["up"])
        assert _gone(int(pid.read_text()))

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_an_interruption_reaches_pulumi_once_and_its_end_is_awaited(
        self, run_of: Engine, tmp_path: Path, number: signal.Signals
    ) -> None:
        before = signal.getsignal(number)
        ready, noted = tmp_path / "ready", tmp_path / "noted"
        os.mkfifo(ready)
        body = (
            "def on(*_):\n"
            f"    open({str(noted)!r}, 'a').write('x')\n"
            "    sys.exit(1)\n"
            "signal.signal(signal.SIGINT, on)\n"
            f"open({str(ready)!r}, 'w').close()\n"
            f"{FOREVER}"
        )

        def press() -> None:
            ready.open().close()  # returns when the program has opened it, so listens
            os.kill(os.getpid(), number)

        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt):
            engine.run(replaced(run_of, body), ["up"])
        assert noted.read_text() == "x"
        assert signal.getsignal(number) is before
        assert not run_of.interrupted.exists()


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


class TestSettings:
    """What an environment's runs are given."""

    @pytest.fixture
    def settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
        """The engine of an environment of a provider, with stand-ins for the programs."""
        checkout, tools = tmp_path / "checkout", tmp_path / "tools"
        for folder in (checkout, tools):
            folder.mkdir()
        for name in engine.PROGRAMS:
            program(tools / name, "")

        def ensure(*names: str) -> dict[str, Path]:
            found = shutil.which("pulumi")
            return {n: Path(found) if found and n == "pulumi" else tools / n for n in names}

        monkeypatch.setattr("local.toolchain.ensure", ensure)
        monkeypatch.setattr(engine, "root", lambda: checkout)
        monkeypatch.setenv("TOKENWORKS_STATE", str(tmp_path / "state"))
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        for name in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "PULUMI_HOME"):
            monkeypatch.delenv(name, raising=False)

        def of(provider: Provider = "local", **variables: str) -> Engine:
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            context = "prod" if provider == "existing" else None
            spec = EnvironmentSpec(cluster=Cluster(provider=provider, context=context))
            document = Environment(metadata=Metadata(name="test"), spec=spec)
            return engine.engine_of(Stack(document, (), ()))

        return of

    def test_state_and_passphrase_are_for_the_owner_alone(self, settings: Settings) -> None:
        run = settings()
        passphrase = Path(run.variables["PULUMI_CONFIG_PASSPHRASE_FILE"])
        assert passphrase.stat().st_mode & 0o777 == 0o600
        assert run.folder.stat().st_mode & 0o777 == 0o700
        text = passphrase.read_text()
        assert len(text) > 30
        settings()
        assert passphrase.read_text() == text

    def test_settings_in_the_shell_lead_to_the_same_settings(self, settings: Settings) -> None:
        # The link to pulumi must not become a link to itself.
        first = settings()
        again = settings(**{k: v for k, v in first.variables.items() if k != "PATH"})
        assert again.variables == first.variables
        inside = settings(PATH=first.variables["PATH"])
        assert inside.pulumi == first.pulumi
        assert shutil.which("pulumi") == str(engine.root() / ".venv/.tokenworks/bin/pulumi")

    @pytest.mark.parametrize(
        "theirs", [{"PULUMI_BACKEND_URL": "s3://team"}, {"PULUMI_ACCESS_TOKEN": "x"}]
    )
    def test_a_teams_backend_wins_except_for_a_local_cluster(
        self, settings: Settings, theirs: dict[str, str]
    ) -> None:
        assert settings("local", **theirs).own_backend
        run = settings("existing", **theirs)
        assert not run.own_backend
        ours = {"PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_OPTION_CONFIG_FILE"}
        assert ours.isdisjoint(run.variables)
        # Where the user is logged in, with the plugins added; and every step is noted.
        assert run.variables["PULUMI_HOME"] == str(Path.home() / ".pulumi")
        assert "PULUMI_SKIP_CHECKPOINTS" not in run.tuning

    def test_without_a_backend_of_theirs_state_stays_on_this_machine(
        self, settings: Settings
    ) -> None:
        run = settings("existing")
        assert run.own_backend
        assert run.variables["PULUMI_HOME"].startswith(str(engine.root()))

    def test_plugins_are_where_the_cli_looks(self, settings: Settings) -> None:
        plugins = Path(settings().variables["PULUMI_HOME"]) / "plugins"
        found = sorted(p.name.partition("-v")[0] for p in plugins.iterdir())
        assert found == ["language-python", "resource-kubernetes"]


class TestSelect:
    """The stack is there, and free."""

    def test_a_new_stack_is_made_outside_the_checkout(self, run_of: Engine) -> None:
        engine.select(run_of)
        assert calls(run_of) == [
            f"stack init test --cwd {run_of.folder / 'project'} --non-interactive"
        ]
        assert (
            (run_of.folder / "project" / "Pulumi.yaml").read_text().startswith("name: tokenworks")
        )

    def test_one_that_is_there_costs_no_call(self, run_of: Engine) -> None:
        checkpoint(run_of)
        engine.select(run_of)
        assert calls(run_of) == []

    def test_lost_settings_are_written_from_the_state(self, run_of: Engine) -> None:
        checkpoint(run_of)
        engine.select(run_of)
        config = Path(run_of.variables["PULUMI_OPTION_CONFIG_FILE"])
        assert config.read_text() == f"encryptionsalt: {SALT}\n"

    def test_open_operations_are_settled_with_the_cluster(self, run_of: Engine) -> None:
        checkpoint(run_of, pending_operations=[{"type": "creating"}])
        engine.select(run_of)
        assert [call.split()[0] for call in calls(run_of)] == ["refresh"]
        assert "--clear-pending-creates" in calls(run_of)[0]

    def test_a_damaged_state_is_named_with_its_copy(self, run_of: Engine) -> None:
        checkpoint(run_of)
        run_of.checkpoint.write_text('{"checkpoint": {')
        with pytest.raises(TokenworksError, match=r"test\.json is no state.*test\.json\.bak"):
            engine.select(run_of)

    def test_a_backend_of_the_users_own_is_left_to_pulumi(self, run_of: Engine) -> None:
        run_of.variables["PULUMI_BACKEND_URL"] = "s3://team"
        lock(run_of, json.dumps({"pid": 1}))
        engine.select(run_of)
        assert calls(run_of) == ["stack select test --create --non-interactive"]

    def test_a_stack_that_was_only_previewed_has_nothing_to_remove(self, run_of: Engine) -> None:
        assert not engine.exists(run_of)
        checkpoint(run_of)
        assert not engine.exists(run_of)
        checkpoint(run_of, resources=[{"urn": "x"}])
        assert engine.exists(run_of)

    def test_one_whose_only_run_was_killed_has(self, run_of: Engine) -> None:
        checkpoint(run_of)
        run_of.interrupted.touch()
        assert engine.exists(run_of)

    def test_a_refusal_is_passed_on(self, run_of: Engine) -> None:
        run = replaced(run_of, "print('error: passphrase', file=sys.stderr); sys.exit(255)")
        with pytest.raises(TokenworksError, match=r"stack init test .*: error: passphrase"):
            engine.select(run)


class TestLock:
    """A stack that another run holds, or held."""

    def test_a_run_that_works_is_not_disturbed(self, run_of: Engine, tmp_path: Path) -> None:
        other = program(tmp_path / "pulumi-other", f"print('up', flush=True)\n{FOREVER}")
        with subprocess.Popen([str(other)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            held = lock(run_of, json.dumps({"pid": process.pid}))
            with pytest.raises(TokenworksError, match=rf"pid {process.pid}\) is working on test"):
                state.free_lock(run_of.folder, "test")
            assert process.poll() is None
            process.kill()
        assert held.exists()

    @pytest.mark.parametrize("text", ['{"pid": 999999999}', "", "{", "[]", '{"pid": null}'])
    def test_a_lock_of_nobody_is_removed(self, run_of: Engine, text: str) -> None:
        held = lock(run_of, text)
        (run_of.folder / "tmp-old").mkdir()
        state.free_lock(run_of.folder, "test")
        assert not held.exists()
        assert not (run_of.folder / "tmp-old").exists()

    def test_a_process_that_got_the_number_is_not_taken_for_the_run(self, run_of: Engine) -> None:
        with subprocess.Popen(["sleep", "60"]) as process:
            held = lock(run_of, json.dumps({"pid": process.pid}))
            state.free_lock(run_of.folder, "test")
            assert process.poll() is None
            process.kill()
        assert not held.exists()


class TestLeftovers:
    """What `down` removes by name."""

    def test_the_last_applied_goes_first_and_definitions_stay(self) -> None:
        def named(kind: str) -> dict[str, Any]:
            return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}

        releases = [
            Release("a", "crds", "", (named("CustomResourceDefinition"),)),
            Release("b", "platform", "", (named("Namespace"), named("ConfigMap"))),
            Release("c", "models", "", (named("Deployment"),)),
        ]
        kinds = [o["kind"] for o in leftovers.removable(releases)]
        assert kinds == ["Deployment", "ConfigMap", "Namespace"]
