"""The Pulumi CLI on one environment: its programs, its backend, its variables, its leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenworks.cli import state
from tokenworks.cli.context import root, say
from tokenworks.cli.state import TEMPORARY, end_session, free_lock, pending, salt
from tokenworks.cli.webhooks import unreached
from tokenworks.errors import TokenworksError
from tokenworks.render.handover import VARIABLE, write
from tokenworks.render.release import Release
from tokenworks.spec.stack import Stack

PROJECT = "tokenworks"
PROVIDER_VERSION = "4.25.0"
"""The Kubernetes provider that the locked Python SDK asks for (pyproject.toml)."""


# The one that takes longest is begun first.
PROGRAMS = ("pulumi-resource-kubernetes", "pulumi", "pulumi-language-python-exec", "charts")
_CHANGES = ("up", "destroy", "refresh")
_PAUSES = (5, 20)
"""Seconds before each further attempt."""


@dataclass(frozen=True)
class Engine:
    """Everything that a call of `pulumi` on one environment needs."""

    pulumi: Path
    stack: str
    folder: Path
    """Where the file backend keeps this environment; unused with the user's own backend."""
    variables: dict[str, str]
    """What must be set beyond the caller's environment."""
    tuning: dict[str, str] = field(default_factory=dict[str, str])
    """What makes our own runs faster; not for a shell, whose other programs it would touch."""

    @property
    def own_backend(self) -> bool:
        """Whether state is kept on this machine, by us."""
        return self.variables.get("PULUMI_BACKEND_URL") == f"file://{self.folder}"

    def applying(self, checked: Iterable[Release], *, on_aws: bool = False) -> Engine:
        """The same for releases that have been checked: as they are, and without the policy pack,
        which has the same rules, and more only about AWS."""
        file = self.folder / "rendered.json"
        write(checked, file)
        dropped = () if on_aws else ("PULUMI_OPTION_POLICY_PACK",)
        kept = {k: v for k, v in self.variables.items() if k not in dropped}
        return replace(self, variables={**kept, VARIABLE: str(file)})

    @property
    def project(self) -> Path:
        """A folder in which `stack init` writes the stack's settings (its salt).

        They belong to this machine's passphrase, so they have no place in the checkout.
        """
        return self.folder / "project"

    @property
    def config(self) -> Path:
        """File of the stack's settings."""
        return self.project / f"Pulumi.{self.stack}.yaml"

    def of(self, stack: str) -> Engine:
        """The same for another Pulumi stack of the environment."""
        one = replace(self, stack=stack, variables={**self.variables, "PULUMI_STACK": stack})
        if "PULUMI_OPTION_CONFIG_FILE" in self.variables:
            one.variables["PULUMI_OPTION_CONFIG_FILE"] = str(one.config)
        return one

    @property
    def interrupted(self) -> Path:
        """A file that is there while a run changes the cluster, and after one that was killed."""
        return self.folder / "running"

    @property
    def checkpoint(self) -> Path:
        """State file of the file backend."""
        return self.folder / ".pulumi" / "stacks" / PROJECT / f"{self.stack}.json"


def _private(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _passphrase(file: Path) -> Path:
    """A file with a random passphrase, made once."""
    if not file.exists():
        handle = os.open(file.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(secrets.token_urlsafe(32))
        file.with_suffix(".new").replace(file)
    return file


def _bin(pulumi: Path) -> Path:
    """A folder for PATH that has pulumi."""
    folder = root() / ".venv" / ".tokenworks" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "pulumi"
    if not link.is_symlink() or link.readlink() != pulumi:
        link.unlink(missing_ok=True)
        link.symlink_to(pulumi)
    return folder


def _home(programs: Mapping[str, Path], users_backend: bool) -> Path:
    """A PULUMI_HOME with the plugins: of this checkout, or the user's, who is logged in there.

    The language host goes where plugins go, since the CLI warns of one that is on PATH.
    """
    from local.pulumi_host import install, official_host, prepare_home  # noqa: PLC0415
    from local.toolchain import pins  # noqa: PLC0415

    users = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    home = users if users_backend else root() / ".venv" / ".tokenworks" / "pulumi"
    prepare_home(home, programs["pulumi-resource-kubernetes"], PROVIDER_VERSION)
    if official_host() is None:
        folder = home / "plugins" / f"language-python-{pins().programs['pulumi'].version}"
        install(folder, Path(sys.executable), programs["pulumi-language-python-exec"])
    return home


def policy_context(stack: Stack) -> str:
    """What the policy pack must know of the environment, for TOKENWORKS_POLICY_CONTEXT."""
    from local.images import local_image_names  # noqa: PLC0415
    from tokenworks.check.context import context_of  # noqa: PLC0415

    return context_of(stack, local_image_names()).to_json()


def engines_of(stack: Stack) -> tuple[Engine, ...]:
    """The engines of an environment's Pulumi stacks, in the order in which they are applied.

    Raises:
        TokenworksError: a build failed.
    """
    from tokenworks.spec.stacks import pulumi_stacks  # noqa: PLC0415

    first = engine_of(stack)
    return tuple(first.of(name) for name in pulumi_stacks(stack))


def engine_of(stack: Stack, offline: bool = False) -> Engine:
    """The engine for an environment; programs are built when absent.

    Args:
        stack: the environment's documents.
        offline: keep a state of its own, which a preview begins anew.

    Raises:
        TokenworksError: a build failed.
    """
    from local.cluster.spec import state_root  # noqa: PLC0415
    from local.toolchain import ensure  # noqa: PLC0415

    # Resolved: with the settings of `env` in the shell, `pulumi` on PATH is our own link.
    programs = {name: path.resolve() for name, path in ensure(*PROGRAMS).items()}
    state = _private(state_root() / "pulumi")
    folder = _private(state / "offline" / stack.name if offline else state / stack.name)
    # A local cluster's state belongs to this machine; elsewhere the user's own settings win.
    provider = stack.environment.spec.cluster.provider
    here = offline or provider == "local"
    ours = f"file://{folder}"
    users = "PULUMI_ACCESS_TOKEN" in os.environ or "PULUMI_BACKEND_URL" in os.environ
    own = here or not users or os.environ.get("PULUMI_BACKEND_URL") == ours
    variables = {
        "PATH": f"{_bin(programs['pulumi'])}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PULUMI_HOME": str(_home(programs, not own)),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_STACK": stack.name,
        # Most operations wait for pods: a few slow models must not hold up the others.
        "PULUMI_PARALLEL": "32",
        "PULUMI_OPTION_POLICY_PACK": str(root() / "policies"),
        "TOKENWORKS_POLICY_CONTEXT": policy_context(stack),
    }
    if offline or provider != "aws":
        # The AWS provider's SDK may be installed, for other environments: fetch nothing for it.
        variables["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
    places = ("TOKENWORKS_STATE", "TOKENWORKS_CACHE")
    variables |= {name: os.environ[name] for name in places if name in os.environ}
    tuning = {"GOGC": "400", "GOMEMLIMIT": "768MiB"}
    engine = Engine(programs["pulumi"], stack.name, folder, variables, tuning)
    if own:
        variables["PULUMI_BACKEND_URL"] = ours
        variables["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase(state / "passphrase"))
        variables["PULUMI_OPTION_CONFIG_FILE"] = str(engine.config)
        # The state is read here too, as it is.
        variables["PULUMI_DIY_BACKEND_GZIP"] = variables["PULUMI_DIY_BACKEND_ZSTD"] = "false"
        # Each run would add two copies of the state to the history.
        variables["PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS"] = "true"
        # The file backend writes the whole state before and after every object, which takes
        # longer than applying it. A killed run loses what it noted; the next one applies the
        # same objects again, which server-side apply makes harmless (and see `leftovers`).
        tuning["PULUMI_SKIP_CHECKPOINTS"] = "true"
    return engine


def _environment(engine: Engine) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PULUMI_CONFIG_PASSPHRASE"}
    inherited = os.environ if "PULUMI_CONFIG_PASSPHRASE_FILE" not in engine.variables else kept
    chosen = {k: v for k, v in engine.tuning.items() if k not in os.environ}
    return {**inherited, **chosen, **engine.variables}


def run(engine: Engine, arguments: Iterable[str], quiet: bool = False) -> int:
    """Run `pulumi` with its output shown; Ctrl-C is handed on once, and its end awaited."""
    command = [str(engine.pulumi), *arguments, "--stack", engine.stack, "--non-interactive"]
    marked = command[1] in _CHANGES and not engine.interrupted.exists()
    if marked:
        engine.interrupted.touch()
    output = subprocess.PIPE if quiet else None
    with (
        # The provider leaves a copy of the kubeconfig where temporary files go.
        tempfile.TemporaryDirectory(dir=engine.folder, prefix=TEMPORARY) as temporary,
        subprocess.Popen(
            command, cwd=root(), env={**_environment(engine), "TMPDIR": temporary},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT if quiet else None,
            start_new_session=True, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            with _ends_as_by_ctrl_c():
                said = _await(process)
        finally:
            # Pulumi notes its state before it ends; only when it was killed nothing is known.
            if marked and (process.poll() or 0) >= 0:
                engine.interrupted.unlink(missing_ok=True)
            end_session(process.pid)
    if quiet and process.returncode:
        raise TokenworksError(f"pulumi {' '.join(command[1:])} failed:\n{said.strip()}")
    return process.returncode


def change(engine: Engine, command: str) -> int:
    """`pulumi up` or `pulumi destroy`, without questions: its exit status.

    What failed only because the API server could not reach a webhook for a moment is tried again,
    twice at most: admission controllers restart, and connections to them break.
    """
    debugging = {**engine.variables, "PULUMI_DEBUG_COMMANDS": "true"}
    with tempfile.TemporaryDirectory(dir=engine.folder, prefix=TEMPORARY) as kept:
        events = Path(kept) / "events.json"
        options = ("--yes", "--skip-preview", "--event-log", str(events))
        for pause in (*_PAUSES, None):
            events.unlink(missing_ok=True)
            code = run(replace(engine, variables=debugging), [command, *options])
            missed = unreached(events) if code else ()
            if not missed or pause is None:
                return code
            say(
                f"the API server could not reach {', '.join(missed)}, nothing else failed: "
                f"once more in {pause} s"
            )
            time.sleep(pause)
    raise AssertionError("the last attempt returns")


@contextlib.contextmanager
def _ends_as_by_ctrl_c() -> Generator[None]:
    """While it lasts, being told to end (by `timeout`, CI or a closed terminal) is a Ctrl-C.

    Otherwise Pulumi, in its own session, would go on alone.
    """
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _await(process: subprocess.Popen[str]) -> str:
    """What the process said, when it has ended; the first two Ctrl-C go to it."""
    interrupted = 0
    while True:
        try:
            said, _ = process.communicate()
        except KeyboardInterrupt:
            interrupted += 1
            if interrupted == 1:
                say("stopping: what runs is finished first; press Ctrl-C again to give up on it")
            process.send_signal(signal.SIGINT)
            continue
        if interrupted:
            raise KeyboardInterrupt
        return said or ""


def select(engine: Engine) -> None:
    """Make the stack where it is not there yet, and settle what killed runs left.

    Raises:
        TokenworksError: another run works on the stack, or Pulumi refuses.
    """
    if not engine.own_backend:
        _call(engine, "stack", "select", engine.stack, "--create")
        return
    free_lock(engine.folder, engine.stack)
    config = Path(engine.variables["PULUMI_OPTION_CONFIG_FILE"])
    if not engine.checkpoint.exists():
        _private(engine.project)
        (engine.project / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\n")
        _call(engine, "stack", "init", engine.stack, "--cwd", str(engine.project))
        return
    if not config.exists():
        _private(engine.project)
        config.write_text(f"encryptionsalt: {salt(engine.checkpoint)}\n")
    if count := pending(engine.checkpoint):
        # Creation is server-side apply, which adopts what is there: an unknown creation is
        # forgotten and made again.
        say(f"{count} operation(s) of an interrupted run are settled first")
        run(engine, ("refresh", "--yes", "--skip-preview", "--clear-pending-creates"), quiet=True)


def _call(engine: Engine, *arguments: str) -> str:
    """What a `pulumi` says that works on no cluster; its errors matter only when it fails."""
    result = subprocess.run(
        [str(engine.pulumi), *arguments, "--non-interactive"], cwd=root(),
        env=_environment(engine), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if result.returncode != 0:
        raise TokenworksError(f"pulumi {' '.join(arguments)} failed: {result.stderr.strip()}")
    return result.stdout


def exists(engine: Engine) -> bool:
    """Whether there may be something to remove; of another's backend only Pulumi knows.

    Raises:
        TokenworksError: the state is damaged.
    """
    if not engine.own_backend or engine.interrupted.exists():
        return True
    return bool(state.resources(engine.checkpoint))


def resources(engine: Engine) -> list[dict[str, Any]]:
    """The resources of the stack's state, as Pulumi notes them.

    Raises:
        TokenworksError: the backend cannot be read.
    """
    if engine.own_backend:
        return state.resources(engine.checkpoint)
    return _deployment(engine)["deployment"].get("resources") or []


def replace_resources(engine: Engine, resources: Iterable[dict[str, Any]]) -> None:
    """Make the state have these resources; the cluster is not touched.

    Raises:
        TokenworksError: Pulumi finds that they do not fit together, or the backend refuses.
    """
    whole = _deployment(engine)
    whole["deployment"]["resources"] = list(resources)
    with tempfile.NamedTemporaryFile("w", dir=_private(engine.folder), suffix=".json") as file:
        json.dump(whole, file)
        file.flush()
        _call(engine, "stack", "import", "--stack", engine.stack, "--file", file.name)


def _deployment(engine: Engine) -> dict[str, Any]:
    said = _call(engine, "stack", "export", "--stack", engine.stack)
    found: dict[str, Any] = json.loads(said)
    return found
