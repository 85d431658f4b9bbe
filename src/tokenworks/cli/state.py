"""What a run of Pulumi leaves behind: its state, and after a kill processes and a lock."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenworks.cli.context import say
from tokenworks.errors import TokenworksError

TEMPORARY = "tmp-"
"""What a run's folder for temporary files is called, up to its random part."""
_DEATH_SECONDS = 10
_SESSION = 3
"""Field of /proc/PID/stat, counted from the state that follows the program's name."""


def _session_members(session: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[_SESSION]) == session:
                yield int(stat.parent.name)


def end_session(session: int) -> None:
    """Kill what a run's Pulumi left running: providers outlive an engine that was killed.

    The number of a session is not given to another process while one of its members lives.
    """
    for pid in _session_members(session):
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [], _DEATH_SECONDS)  # readable when it has ended
            finally:
                os.close(handle)


def _is_pulumi(pid: int) -> bool:
    try:
        return b"pulumi" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def free_lock(folder: Path, stack: str) -> None:
    """Remove the locks of runs that were killed, with what those left.

    Args:
        folder: the file backend.
        stack: its name, for messages.

    Raises:
        TokenworksError: another run holds the stack.
    """
    for lock in (folder / ".pulumi" / "locks").rglob("*.json"):
        try:
            owner: dict[str, Any] = json.loads(lock.read_text())
            pid = int(owner["pid"])
        except (OSError, ValueError, KeyError, TypeError):
            pid = 0
        if pid and _is_pulumi(pid):
            raise TokenworksError(
                f"another run (pid {pid}) is working on {stack}; wait for it, then try again"
            )
        say(f"removing the lock of a run that was killed (pid {pid or 'unknown'})")
        if pid:
            end_session(pid)
        lock.unlink(missing_ok=True)
        for temporary in folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(temporary, ignore_errors=True)


def _latest(checkpoint: Path) -> dict[str, Any]:
    try:
        return json.loads(checkpoint.read_text())["checkpoint"]["latest"] or {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TokenworksError(
            f"{checkpoint} is no state of Pulumi ({type(error).__name__}: {error}); "
            f"the one before is {checkpoint}.bak"
        ) from None


def pending(checkpoint: Path) -> int:
    """How many operations the last run began and did not finish.

    Raises:
        TokenworksError: the file is damaged.
    """
    return len(_latest(checkpoint).get("pending_operations") or [])


def resources(checkpoint: Path) -> list[dict[str, Any]]:
    """The resources that the state has; none where there is no state yet.

    Raises:
        TokenworksError: the file is damaged.
    """
    if not checkpoint.exists():
        return []
    found: list[dict[str, Any]] = _latest(checkpoint).get("resources") or []
    return found


def salt(checkpoint: Path) -> str:
    """The salt of the state's secrets, which the stack's settings must repeat.

    Raises:
        TokenworksError: the file is damaged.
    """
    try:
        return str(_latest(checkpoint)["secrets_providers"]["state"]["salt"])
    except (KeyError, TypeError):
        raise TokenworksError(f"{checkpoint} has no salt: its secrets cannot be read") from None
