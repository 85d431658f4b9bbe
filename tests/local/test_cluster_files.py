"""Files of a cluster: whole or absent, and for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local.cluster.files import write


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    assert write(path, "text ü")
    before = path.stat()
    assert not write(path, "text ü")
    assert path.stat().st_ino == before.st_ino
    assert path.read_text() == "text ü"


def test_nobody_else_can_read_it_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    real = os.open

    def watched(path: Path, flags: int, mode: int = 0o777) -> int:
        opened.append(mode)
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", watched)
    umask = os.umask(0)
    try:
        write(tmp_path / "a", "secret")
    finally:
        os.umask(umask)
    assert opened == [0o600]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_mode_that_was_opened_is_closed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o644)
    assert write(tmp_path / "a", "text")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_what_is_no_text_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\x00")
    assert write(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"


def test_a_killed_runs_leftover_neither_stops_nor_leaks(tmp_path: Path) -> None:
    leftover = tmp_path / ".a.new"
    leftover.write_text("half")
    leftover.chmod(0o644)
    assert write(tmp_path / "a", "text")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
