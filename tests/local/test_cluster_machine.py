"""What the machine allows, and that it is afterwards as it was before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local.cluster import machine, sandbox
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine in a folder: its settings, its fixed places, its record."""
    for name, value in {"vm/overcommit_memory": "0", "kernel/panic": "0"}.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(f"{value}\n")
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(machine, "_TUNABLES", {"vm/overcommit_memory": "1", "kernel/panic": "10"})
    monkeypatch.setattr(machine, "_tunable", lambda name: tmp_path / "sys" / name)
    monkeypatch.setattr(machine, "_RECORD", tmp_path / "record")
    covered = {str(tmp_path / "there"): "a", str(tmp_path / "absent"): "b"}
    monkeypatch.setattr(sandbox, "COVERED", covered)
    return tmp_path


def cluster(world: Path, name: str) -> Paths:
    (world / name).mkdir(exist_ok=True)
    return Paths(name, world / name)


def kubelet_starts(world: Path) -> None:
    (world / "sys/vm/overcommit_memory").write_text("1\n")
    (world / "sys/kernel/panic").write_text("10\n")


def settings(world: Path) -> list[str]:
    return [
        (world / "sys" / n).read_text().strip() for n in ("vm/overcommit_memory", "kernel/panic")
    ]


def test_the_last_cluster_puts_everything_back(world: Path) -> None:
    first, second = cluster(world, "first"), cluster(world, "second")
    machine.enter(first)
    kubelet_starts(world)
    machine.enter(second)
    assert (world / "absent").is_dir()
    machine.leave(first)
    assert settings(world) == ["1", "10"]
    assert (world / "absent").is_dir()
    machine.leave(second)
    assert settings(world) == ["0", "0"]
    assert not (world / "absent").exists()
    assert (world / "there").is_dir()
    assert not (world / "record").exists()


def test_entering_twice_changes_nothing(world: Path) -> None:
    only = cluster(world, "only")
    machine.enter(only)
    kubelet_starts(world)
    machine.enter(only)
    machine.leave(only)
    assert settings(world) == ["0", "0"]
    assert not (world / "absent").exists()


def test_what_somebody_else_set_meanwhile_stays(world: Path) -> None:
    only = cluster(world, "only")
    machine.enter(only)
    kubelet_starts(world)
    (world / "sys/kernel/panic").write_text("30\n")
    machine.leave(only)
    assert settings(world) == ["0", "30"]


def test_a_folder_that_somebody_uses_stays(world: Path) -> None:
    only = cluster(world, "only")
    machine.enter(only)
    (world / "absent" / "file").touch()
    machine.leave(only)
    assert (world / "absent" / "file").exists()


def test_folders_are_removed_though_the_machine_restarted(world: Path) -> None:
    only = cluster(world, "only")
    machine.enter(only)
    (world / "record" / "machine.json").unlink()  # /run is empty after a restart
    machine.enter(only)
    machine.leave(only)
    assert not (world / "absent").exists()


def test_a_cluster_whose_folder_is_gone_holds_nothing_back(world: Path) -> None:
    lost, only = cluster(world, "lost"), cluster(world, "only")
    machine.enter(lost)
    machine.enter(only)
    kubelet_starts(world)
    (world / "lost" / "folders.json").unlink()
    (world / "lost").rmdir()
    machine.leave(only)
    assert settings(world) == ["0", "0"]


def test_another_system_is_told_what_to_do() -> None:
    with pytest.raises(TokenworksError, match=r"needs Linux, this is darwin.*provider: kind"):
        machine.require("darwin", 0)


def test_another_user_is_told_what_to_do() -> None:
    with pytest.raises(TokenworksError, match=r"needs root: .*sudo"):
        machine.require("linux", 1000)


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(machine, "_CNI", (tmp_path,))
    with pytest.raises(TokenworksError) as error:
        machine.require_programs()
    said = str(error.value)
    assert "containerd" in said
    assert (
        "apt-get install containerd containernetworking-plugins iproute2 mount nftables runc "
        "util-linux" in said
    )


def test_programs_that_are_there_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (*machine._NEEDED, *machine._CNI_PLUGINS):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(machine, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(machine, "_CNI", (tmp_path / "absent", tmp_path))
    assert machine.require_programs() == tmp_path


def test_the_machine_is_examined_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "require_programs", lambda: Path("/plugins"))
    monkeypatch.setattr(machine, "_overlay_works", lambda _: False)
    where = Paths("lab", tmp_path)
    first = machine.inspect(where)
    assert (first.overlayfs, first.cni) == (False, "/plugins")
    monkeypatch.setattr(machine, "_overlay_works", lambda _: True)
    assert machine.inspect(where) == first
    (tmp_path / "host.json").write_text(json.dumps({"unknown": 1}))
    assert machine.inspect(where).overlayfs is True
