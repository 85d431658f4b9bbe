"""Debian ships Python without the part that makes environments: what bootstrap does about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tokenworks import bootstrap

APT = """#!/bin/sh
echo "$@" >> "$CALLS"
case $1 in
install) [ -e "$LISTS" ] ;;
update) touch "$LISTS" ;;
esac
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose Python lacks ensurepip, with a stand-in apt-get; returns its record.

    It installs only once the package lists are there, as on a fresh machine.
    """
    program = tmp_path / "apt-get"
    program.write_text(APT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("LISTS", str(tmp_path / "lists"))
    monkeypatch.setattr(bootstrap, "_has_ensurepip", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "calls"


def test_root_gets_it_installed_even_without_package_lists(apt: Path) -> None:
    bootstrap.need_ensurepip()
    calls = [line.split()[0] for line in apt.read_text().splitlines()]
    assert calls == ["install", "update", "install"]


def test_it_is_installed_for_the_python_that_runs(apt: Path) -> None:
    (apt.parent / "lists").touch()
    bootstrap.need_ensurepip()
    version = f"python{bootstrap.sys.version_info.major}.{bootstrap.sys.version_info.minor}"
    assert apt.read_text().split()[-1] == f"{version}-venv"


def test_others_are_told_the_command(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(bootstrap.BootstrapError, match="sudo apt-get install python3"):
        bootstrap.need_ensurepip()
    assert not apt.exists()


def test_a_failing_installation_is_said(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTS", "/nonexistent/lists")
    with pytest.raises(bootstrap.BootstrapError, match="apt-get install"):
        bootstrap.need_ensurepip()
    assert len(apt.read_text().splitlines()) == 3


def test_nothing_is_installed_where_nothing_is_missing(
    apt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "_has_ensurepip", lambda: True)
    bootstrap.need_ensurepip()
    assert not apt.exists()


def test_what_the_machine_refuses_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/clone/.venv")

    monkeypatch.setattr(bootstrap, "prepare", refused)
    monkeypatch.setattr("sys.argv", ["bootstrap.py"])
    assert bootstrap.main() == 1
    said = capsys.readouterr().err
    assert said == (
        "tokenworks: the Python environment cannot be made: /clone/.venv: Permission denied\n"
    )
