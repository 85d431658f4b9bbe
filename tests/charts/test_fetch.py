"""The program that fetches weights, against a hub on loopback."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.charts.hub import REVISION, Hub, serving
from tests.charts.rendering import CHARTS

pytestmark = pytest.mark.slow

PROGRAM = CHARTS / "model" / "files" / "fetch.py"
ONE, TWO = "model-1.safetensors", "model-2.safetensors"
FILES = {
    "config.json": b'{"layers": 2}',
    "tokenizer/vocab.txt": b"a\nb\n",
    ONE: bytes(range(256)) * 20_000,
    TWO: b"weights" * 1000,
}


def command(what: str, root: Path, repository: str = "org/name") -> list[str]:
    return [sys.executable, str(PROGRAM), what, repository, REVISION, str(root)]


def environment(hub: Hub, token: str | None = None) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, **({"HF_TOKEN": token} if token else {})}


def run(
    hub: Hub, root: Path, what: str = "fetch", *, token: str | None = None, limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    words = command(what, root)
    if limit is not None:
        words = ["sh", "-c", f'ulimit -f {limit}; trap "" XFSZ; exec "$@"', "--", *words]
    return subprocess.run(
        words,
        env=environment(hub, token) | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def started(hub: Hub, root: Path, what: str = "fetch") -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command(what, root),
        env=environment(hub),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def folder(root: Path) -> Path:
    return root / "org" / "name" / REVISION


def whole(root: Path) -> bool:
    return all((folder(root) / name).read_bytes() == data for name, data in FILES.items())


def written(root: Path, name: str) -> int:
    """Bytes of a file that is being downloaded."""
    return sum(part.stat().st_size for part in root.glob(f".partial/*/{name}.part"))


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(FILES)) as hub:
        yield hub


def test_every_file_comes_and_is_said(hub: Hub, tmp_path: Path) -> None:
    done = run(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert whole(tmp_path)
    marker = json.loads((folder(tmp_path) / "tokenworks.json").read_text())
    assert marker["files"] == {name: len(data) for name, data in FILES.items()}
    assert f"{ONE}: verified; " in done.stdout
    assert "5.13 MB of 5.13 MB (100%)" in done.stdout


def test_a_second_time_asks_nothing(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path).returncode == 0
    hub.asked.clear()
    done = run(hub, tmp_path)
    assert (done.returncode, hub.asked) == (0, [])
    assert "complete already" in done.stdout


def test_the_token_goes_to_the_hub_alone(hub: Hub, tmp_path: Path) -> None:
    hub.token = "secret-token"
    done = run(hub, tmp_path, token="secret-token")
    assert done.returncode == 0, done.stderr
    by_store = {path.startswith("/store/"): token for path, _, token in hub.asked}
    assert by_store == {True: None, False: "Bearer secret-token"}
    assert "secret-token" not in done.stdout + done.stderr


def test_an_answer_that_ends_early_is_continued(hub: Hub, tmp_path: Path) -> None:
    hub.cuts[ONE] = 1_500_000
    done = run(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert whole(tmp_path)
    assert hub.loads(ONE) == [None, "bytes=1500000-"]


def test_a_corrupted_file_is_loaded_again(hub: Hub, tmp_path: Path) -> None:
    hub.corrupt[ONE] = 1
    done = run(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert whole(tmp_path)
    assert hub.loads(ONE) == [None, None]


@pytest.mark.parametrize("name", [ONE, "config.json"])
def test_a_file_that_stays_corrupted_is_not_published(hub: Hub, tmp_path: Path, name: str) -> None:
    hub.corrupt[name] = 2
    done = run(hub, tmp_path)
    assert done.returncode == 1
    assert f"weights: {name}: hub or network deliver other bytes" in done.stderr
    assert not folder(tmp_path).exists()


def test_progress_counts_a_file_that_is_being_renamed(tmp_path: Path) -> None:
    """Another thread turns the part into the whole between two looks."""
    program = runpy.run_path(str(PROGRAM))

    class Moving(type(tmp_path)):
        def stat(self, **options: Any) -> os.stat_result:
            found = super().stat(**options)
            if self.suffix == ".part":
                self.rename(self.with_suffix(""))
            return found

    file = program["File"](ONE, 3, None, None)
    work = program["Download"]([file], "/", Moving(tmp_path))
    (tmp_path / f"{ONE}.part").write_bytes(b"abc")
    assert work.there(file) == 3
    assert not (tmp_path / f"{ONE}.part").exists()
    assert work.there(file) == 3
    assert program["size_of"](tmp_path / ONE / "inside") is None
    assert program["size_of"](tmp_path) is None


def test_a_killed_download_is_continued(hub: Hub, tmp_path: Path) -> None:
    hub.hold[ONE] = threading.Event()
    with started(hub, tmp_path) as process:
        assert hub.half.wait(30)
        # Two whole pieces of the half that was sent.
        while written(tmp_path, ONE) < 2 * 2**20:
            assert process.poll() is None
        process.kill()
    assert not folder(tmp_path).exists()
    hub.hold.pop(ONE).set()
    done = run(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert whole(tmp_path)
    assert hub.loads(ONE) == [None, f"bytes={2 * 2**20}-"]


def test_two_at_once_download_once(hub: Hub, tmp_path: Path) -> None:
    hub.hold[ONE] = threading.Event()
    with started(hub, tmp_path) as first:
        assert hub.half.wait(30)
        with started(hub, tmp_path) as second:
            assert second.stdout is not None
            assert "waiting for whoever downloads it now" in second.stdout.readline()
            hub.hold[ONE].set()
            assert (first.wait(60), second.wait(60)) == (0, 0)
            assert "complete already" in second.stdout.read()
    assert whole(tmp_path)
    assert len(hub.loads(ONE)) == 1


def test_a_busy_hub_is_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.busy = [503]
    done = run(hub, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "HTTP Error 503: Service Unavailable; again in 1 s" in done.stdout


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "HTTP 401: the token is missing or wrong: mend the Secret (spec.model.tokenSecret)"),
        (403, "HTTP 403: the token may not read it: accept the model's licence"),
        (404, "HTTP 404: the hub knows no such model, revision or file"),
    ],
)
def test_refusals_say_what_to_do(hub: Hub, tmp_path: Path, status: int, words: str) -> None:
    hub.busy = [status]
    done = run(hub, tmp_path)
    assert done.returncode == 1
    assert f"weights: org/name at {REVISION}: {words}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_without_room_is_said_before_the_start(hub: Hub, tmp_path: Path) -> None:
    entry = hub.entry

    def huge(name: str) -> dict[str, object]:
        return entry(name) | ({"lfs": {"sha256": "0", "size": 10**18}} if name == ONE else {})

    hub.entry = huge  # type: ignore[method-assign]
    done = run(hub, tmp_path)
    assert done.returncode == 1
    assert "are missing, but the disk has only" in done.stderr
    assert hub.loads(ONE) == []


def test_a_file_that_cannot_be_written_is_an_error_in_words(hub: Hub, tmp_path: Path) -> None:
    done = run(hub, tmp_path, limit=100)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not folder(tmp_path).exists()


def test_a_path_that_leads_outside_is_refused(tmp_path: Path) -> None:
    with serving(Hub({"../outside.json": b"{}"})) as hub:
        done = run(hub, tmp_path)
    assert done.returncode == 1
    assert "the hub lists a file outside the model's folder: ../outside.json" in done.stderr


def test_other_formats_of_the_same_weights_stay_there(tmp_path: Path) -> None:
    names = ["model.safetensors", "pytorch_model.bin", "original/consolidated.00.pth", "a.json"]
    with serving(Hub(dict.fromkeys(names, b"x"))) as hub:
        assert run(hub, tmp_path).returncode == 0
    found = sorted(p.name for p in folder(tmp_path).rglob("*") if p.is_file())
    assert found == ["a.json", "model.safetensors", "tokenworks.json"]


def test_damaged_weights_are_repaired(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path).returncode == 0
    (folder(tmp_path) / TWO).write_bytes(b"short")
    hub.asked.clear()
    assert run(hub, tmp_path).returncode == 0
    assert whole(tmp_path)
    assert (hub.loads(ONE), hub.loads(TWO)) == ([], [None])


def test_what_others_put_there_is_not_touched(hub: Hub, tmp_path: Path) -> None:
    folder(tmp_path).mkdir(parents=True)
    (folder(tmp_path) / "own.txt").write_text("mine")
    done = run(hub, tmp_path)
    assert done.returncode == 1
    assert "was not made by this program: move it away" in done.stderr
    assert (folder(tmp_path) / "own.txt").read_text() == "mine"


# Before an engine starts


def test_an_engine_waits_until_the_weights_are_whole(hub: Hub, tmp_path: Path) -> None:
    hub.hold[ONE] = threading.Event()
    with started(hub, tmp_path) as loader, started(hub, tmp_path, "wait") as waiter:
        assert hub.half.wait(30)
        assert waiter.stdout is not None
        assert f"waiting for {folder(tmp_path)}" in waiter.stdout.readline()
        assert waiter.poll() is None
        hub.hold[ONE].set()
        assert (loader.wait(60), waiter.wait(60)) == (0, 0)
    assert whole(tmp_path)


def test_an_engine_does_not_start_on_damaged_weights(hub: Hub, tmp_path: Path) -> None:
    assert run(hub, tmp_path).returncode == 0
    (folder(tmp_path) / ONE).write_bytes(b"short")
    done = run(hub, tmp_path, "wait")
    assert done.returncode == 1
    assert f"{ONE} has 5 bytes, not {len(FILES[ONE])}" in done.stderr
