"""Telling processes, waiting for locks: what repairs rest on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from local.cluster import processes
from local.cluster.locks import locked
from tests.waiting import FOREVER


def test_this_process_is_told_from_every_other() -> None:
    assert processes.from_identity(processes.identity(os.getpid())) == os.getpid()


def test_a_pid_that_was_given_away_again_is_not_ours() -> None:
    pid, _, boot = processes.identity(os.getpid()).split()
    assert processes.from_identity(f"{pid} 1 {boot}") == 0


def test_nothing_survives_a_restart_of_the_machine() -> None:
    pid, ticks, _ = processes.identity(os.getpid()).split()
    assert processes.from_identity(f"{pid} {ticks} another-boot") == 0


def test_an_empty_or_broken_file_names_nobody() -> None:
    assert [processes.from_identity(t) for t in ("", "x", "-1 2 3", "999999999 1 b")] == [0] * 4


def test_a_zombie_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.start_ticks(child.pid) == 0


def test_stop_is_polite_first() -> None:
    script = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7));"
        f"print('on', flush=True)\n{FOREVER}"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        processes.stop(child.pid)
    assert child.returncode == 7


def test_stop_insists() -> None:
    script = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"print('on', flush=True)\n{FOREVER}"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        processes.stop(child.pid, patience=0.1)
    assert child.returncode == -signal.SIGKILL


def test_stop_of_nothing_is_nothing() -> None:
    processes.stop(0)


def test_system_programs_are_found_from_a_users_shell() -> None:
    assert {"/usr/sbin", "/sbin"} <= set(processes.search_path().split(os.pathsep))


def test_a_lock_is_held_by_one_and_the_next_is_told(tmp_path: Path) -> None:
    told, order = threading.Event(), list[str]()

    def second() -> None:
        with locked(tmp_path / "lock", told.set):
            order.append("second")

    with locked(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_a_lock_whose_file_was_removed_by_its_holder_is_taken_anew(tmp_path: Path) -> None:
    path, told, held = tmp_path / "lock", threading.Event(), list[bool]()

    def second() -> None:
        with locked(path, told.set):
            held.append(path.exists())

    with locked(path):
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(30)
        path.unlink()
    thread.join(30)
    assert held == [True]


def test_a_child_holds_the_lock_until_it_lets_go(tmp_path: Path) -> None:
    script = (
        "import os, sys; sys.stdin.readline(); os.close(int(sys.argv[1])); sys.stdin.readline()"
    )
    told, held = threading.Event(), threading.Event()
    with locked(tmp_path / "lock") as lock:
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(lock)],
            stdin=subprocess.PIPE, text=True, pass_fds=(lock,),
        )  # fmt: skip

    def second() -> None:
        with locked(tmp_path / "lock", told.set):
            held.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert told.wait(30)
    assert not held.is_set()
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert held.wait(30)
    child.communicate("\n", timeout=30)
    thread.join(30)
