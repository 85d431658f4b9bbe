"""The Pulumi CLI on one environment: its programs, its backend, its variables, its leftovers."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenworks.cli.context import root, say
from tokenworks.errors import TokenworksError
from tokenworks.spec.stack import Stack

PROJECT = "tokenworks"
PROVIDER_VERSION = "4.25.0"
"""The Kubernetes provider that the locked Python SDK asks for (pyproject.toml)."""


@dataclass(frozen=True)
class Engine:
    """Everything that a call of `pulumi` on one environment needs."""

    pulumi: Path
    stack: str
    folder: Path
    """Where the file backend keeps this environment; unused with the user's own backend."""
    variables: dict[str, str]
    """What must be set beyond the caller's environment."""

    @property
    def own_backend(self) -> bool:
        """Whether state is kept on this machine, by us."""
        return self.variables.get("PULUMI_BACKEND_URL") == f"file://{self.folder}"

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


def _bin(programs: Mapping[str, Path]) -> Path:
    """A folder for PATH that has pulumi and, where none is there, its Python language host."""
    from local.pulumi_host.install import install, official_host  # noqa: PLC0415 - only for deployments

    folder = root() / ".venv" / ".tokenworks" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    pulumi = folder / "pulumi"
    if not pulumi.is_symlink() or pulumi.readlink() != programs["pulumi"]:
        pulumi.unlink(missing_ok=True)
        pulumi.symlink_to(programs["pulumi"])
    there = official_host()
    if there is None or there.parent == folder:
        install(folder, Path(sys.executable), programs["pulumi-language-python-exec"])
    return folder


def policy_context(stack: Stack, unresolved: str = "warning") -> str:
    """What the policy pack must know of the environment, for TOKENWORKS_POLICY_CONTEXT."""
    from local.images import local_image_names  # noqa: PLC0415
    from tokenworks.check.context import context_of  # noqa: PLC0415

    context = context_of(stack, local_image_names())
    return replace(context, unresolved=unresolved).to_json()  # type: ignore[arg-type]


def engine_of(stack: Stack, unresolved: str = "warning") -> Engine:
    """The engine for an environment; programs are built when absent.

    Raises:
        TokenworksError: a build failed.
    """
    from local.cluster.spec import state_root  # noqa: PLC0415
    from local.pulumi_host import prepare_home  # noqa: PLC0415
    from local.toolchain import cache_dir, ensure  # noqa: PLC0415

    programs = ensure("pulumi", "pulumi-resource-kubernetes", "pulumi-language-python-exec", "helm")
    home = Path(os.environ.get("PULUMI_HOME") or cache_dir() / "pulumi")
    prepare_home(home, programs["pulumi-resource-kubernetes"], PROVIDER_VERSION)
    state = _private(state_root() / "pulumi")
    folder = _private(state / stack.name)
    here = stack.environment.spec.cluster.provider == "local"
    variables = {
        "PATH": f"{_bin(programs)}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PULUMI_HOME": str(home),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_OPTION_POLICY_PACK": str(root() / "policies"),
        "TOKENWORKS_POLICY_CONTEXT": policy_context(stack, unresolved),
    }
    # A local cluster's state belongs to this machine; elsewhere the user's own settings win.
    if here or "PULUMI_BACKEND_URL" not in os.environ:
        variables["PULUMI_BACKEND_URL"] = f"file://{folder}"
    own_secret = {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys()
    if here or not own_secret:
        variables["PULUMI_CONFIG_PASSPHRASE_FILE"] = str(_passphrase(state / "passphrase"))
    return Engine(programs["pulumi"], stack.name, folder, variables)


def _environment(engine: Engine) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PULUMI_CONFIG_PASSPHRASE"}
    inherited = os.environ if "PULUMI_CONFIG_PASSPHRASE_FILE" not in engine.variables else kept
    return {**inherited, **engine.variables}


def run(engine: Engine, arguments: Iterable[str], quiet: bool = False) -> int:
    """Run `pulumi` with its output shown; Ctrl-C is handed on once, and its end awaited."""
    command = [str(engine.pulumi), *arguments, "--stack", engine.stack, "--non-interactive"]
    output = subprocess.PIPE if quiet else None
    with subprocess.Popen(
        command, cwd=root(), env=_environment(engine), stdin=subprocess.DEVNULL,
        stdout=output, stderr=subprocess.STDOUT if quiet else None, start_new_session=True,
        text=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate()
        except KeyboardInterrupt:
            say("stopping: what runs is finished first; press Ctrl-C again to give up on it")
            process.send_signal(signal.SIGINT)
            try:
                said, _ = process.communicate()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                said, _ = process.communicate()
            raise
    if quiet and process.returncode:
        raise TokenworksError(f"pulumi {' '.join(arguments)} failed:\n{(said or '').strip()}")
    return process.returncode


def _salt(file: Path) -> str:
    match = re.search(r"^encryptionsalt:\s*(\S+)", file.read_text(), re.MULTILINE)
    return match[1] if match else ""


def _config_file(engine: Engine) -> Path:
    return root() / "stacks" / f"Pulumi.{engine.stack}.yaml"


def _settle_salt(engine: Engine) -> None:
    """Give the stack's configuration file the salt that belongs to this backend's passphrase.

    The file lies in the checkout and the passphrase does not, so another state folder, or a
    new one, would otherwise be told that its passphrase is wrong.
    """
    config, kept = _config_file(engine), engine.folder / "salt"
    salt = _salt(config) if config.exists() else ""
    wanted = kept.read_text() if kept.exists() and engine.checkpoint.exists() else ""
    if salt == wanted:
        return
    lines = config.read_text().splitlines() if config.exists() else []
    lines = [line for line in lines if not line.startswith("encryptionsalt:")]
    lines += [f"encryptionsalt: {wanted}"] if wanted else []
    if lines:
        config.write_text("\n".join(lines) + "\n")
    else:
        config.unlink()


def _keep_salt(engine: Engine) -> None:
    config = _config_file(engine)
    if config.exists() and (salt := _salt(config)):
        (engine.folder / "salt").write_text(salt)


def select(engine: Engine) -> None:
    """Make the stack where it is not there yet, and the one that plain `pulumi` works on."""
    here = engine.own_backend
    if here:
        _settle_salt(engine)
        _free_lock(engine)
    command = [str(engine.pulumi), "stack", "select", engine.stack, "--create", "--non-interactive"]
    result = subprocess.run(
        command, cwd=root(), env=_environment(engine), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode != 0:
        raise TokenworksError(f"pulumi stack select failed: {result.stderr.strip()}")
    if here:
        _keep_salt(engine)
        _settle_pending(engine)


def exists(engine: Engine) -> bool:
    """Whether anything was ever deployed by this backend."""
    return not engine.own_backend or engine.checkpoint.exists()


def _running_pulumi(pid: int) -> bool:
    try:
        return b"pulumi" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _free_lock(engine: Engine) -> None:
    """Remove locks of runs that were killed; refuse while another run works.

    Raises:
        TokenworksError: another run holds the stack.
    """
    for lock in (engine.folder / ".pulumi" / "locks").rglob("*.json"):
        try:
            owner: dict[str, Any] = json.loads(lock.read_text())
        except (OSError, ValueError):
            owner = {}
        pid = int(owner.get("pid") or 0)
        if pid and _running_pulumi(pid):
            raise TokenworksError(
                f"another run (pid {pid}) is working on {engine.stack}; wait for it, then try again"
            )
        say(f"removing the lock of a run that was killed (pid {pid or 'unknown'})")
        lock.unlink(missing_ok=True)


def _pending(engine: Engine) -> int:
    try:
        data = json.loads(engine.checkpoint.read_text())
        return len(data["checkpoint"]["latest"].get("pending_operations") or [])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


def _settle_pending(engine: Engine) -> None:
    """Ask the cluster what became of operations that a killed run left open.

    Creation is server-side apply, which adopts what is there, so an unknown creation is
    forgotten and made again.
    """
    count = _pending(engine)
    if count:
        say(f"{count} operation(s) of an interrupted run are settled first")
        arguments = ("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
        run(engine, arguments, quiet=True)
