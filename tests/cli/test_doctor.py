"""`doctor` and `toolchain`: what users see of what is there and what is not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from local import toolchain
from local.toolchain import build, pins
from local.toolchain.pins import DebianPackage
from tokenworks.cli.main import build as build_app
from tokenworks.errors import TokenworksError, UsageError

RUN = CliRunner()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, one program and one package wanted, and nothing on PATH but a Go."""
    remembered = (build._on_path, build._go_version)  # pyright: ignore[reportPrivateUsage]
    real = pins()
    two = replace(
        real,
        programs={"helm": real.programs["helm"]},
        debian={"frob": DebianPackage("frob", "frob-program", "frobs")},
    )
    for module in (build, sys.modules["local.toolchain.pins"], toolchain):
        monkeypatch.setattr(module, "pins", lambda: two)
    monkeypatch.setenv("TOKENWORKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    put(tmp_path, "go", f"#!/bin/sh\necho go version go{real.go} linux/amd64\n")
    for function in remembered:
        function.cache_clear()
    yield tmp_path
    for function in remembered:
        function.cache_clear()


def put(folder: Path, name: str, script: str) -> None:
    """A program on PATH."""
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


def run(*arguments: str) -> Result:
    """The command, its output in one."""
    return RUN.invoke(build_app(), arguments)


def row(output: str, name: str) -> list[str]:
    """Words of the table's row for `name`."""
    return next(line.split() for line in output.splitlines() if line.startswith(name))


def test_what_is_missing_has_its_cure_and_is_no_failure() -> None:
    result = run("doctor")
    assert result.exit_code == 0
    assert row(result.output, "helm") == ["helm", "v4.3.1", "missing", "./tokenworks", "toolchain",
                                          "helm"]  # fmt: skip
    assert row(result.output, "frob")[-3:] == ["apt-get", "install", "frob"]
    assert "2 to be made on demand: helm, frob" in result.output


def test_a_version_that_does_not_fit_is_shown_as_such(place: Path) -> None:
    put(place, "helm", "#!/bin/sh\necho v3.19.0\n")
    words = row(run("doctor").output, "helm")
    assert words[:7] == ["helm", "v4.3.1", "3.19.0", "PATH,", "does", "not", "fit"]


def test_where_a_program_comes_from_is_shown(place: Path) -> None:
    put(place, "helm", "#!/bin/sh\necho v4.3.7\n")
    put(place, "frob-program", "#!/bin/sh\n")
    result = run("doctor")
    assert row(result.output, "helm") == ["helm", "v4.3.1", "4.3.7", str(place / "helm")]
    assert row(result.output, "frob")[2:] == ["present", "distribution"]
    assert "All is there." in result.output


@pytest.mark.parametrize("version", [None, "1.20.14"])
def test_without_a_go_that_serves_it_fails(place: Path, version: str | None) -> None:
    (place / "go").unlink()
    if version:
        put(place, "go", f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    result = run("doctor")
    assert isinstance(result.exception, TokenworksError)
    assert not isinstance(result.exception, UsageError)
    assert "install Go 1.21 or newer" in str(result.exception)
    assert row(result.output, "go")[-5:] == ["install", "Go", "1.21", "or", "newer"]


def test_not_being_root_is_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = run("doctor")
    assert result.exit_code == 0
    assert "sudo ./tokenworks" in result.output
    assert "2 to be made on demand: helm, frob" in result.output


def test_toolchain_prints_where_each_program_is(place: Path) -> None:
    put(place, "helm", "#!/bin/sh\necho v4.3.7\n")
    result = run("toolchain", "helm")
    assert result.output == f"helm {place / 'helm'}\n"


def test_toolchain_refuses_a_name_it_does_not_know() -> None:
    result = run("toolchain", "helmm")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "unknown program 'helmm'; known: helm; did you mean helm?"
