"""The program that pulls, verifies and loads adapters, against a hub and an engine on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import httpx
import pytest

from tests.charts.adapter_hub import REVISION, WEIGHTS, Hub, adapter, sha256

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "charts" / "model" / "files" / "adapters.py"
ATTEMPTS = 20_000


def entry(folder: Path, name: str, files: Mapping[str, bytes], **other: Any) -> dict[str, Any]:
    """An approved adapter of the hub."""
    digest = sha256(files[WEIGHTS])
    return {
        "uri": f"hf://org/{name}",
        "revision": REVISION,
        "digest": digest,
        "bytes": sum(map(len, files.values())),
        "rank": 8,
        "path": str(folder / f"{name}-{digest[7:19]}"),
        **other,
    }


def listed(*, replace: bool = True, **adapters: dict[str, Any]) -> dict[str, Any]:
    return {"adapters": adapters, "base": "org/base", "replace": replace}


def environ(hub: Hub, claims: Path | None = None) -> dict[str, str]:
    kept = {"PATH": os.environ["PATH"], "HF_TOKEN": "hub-token", "ADAPTER_PERIOD": "0.01"}
    return {**kept, "HF_ENDPOINT": hub.url, "ADAPTER_CLAIMS": str(claims)}


def pull(
    hub: Hub, folder: Path, wanted: dict[str, Any], claims: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it as an init container does: the program as text, the list as an argument."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text(), "pull", folder, json.dumps(wanted)],
        env=environ(hub, claims),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "adapters"
    path.mkdir()
    return path


REFUSED: dict[str, tuple[dict[str, bytes], dict[str, Any], str]] = {
    "another digest": (adapter(), {"digest": sha256(b"other")}, "approved is sha256:"),
    "no digest": (adapter(), {"digest": "unresolved"}, "its digest is unresolved"),
    "no revision": (adapter(), {"revision": None}, "it has no revision yet"),
    "another revision": (adapter(), {"revision": "0" * 40}, "404 Not Found"),
    "too large": (adapter(), {"bytes": 500}, "larger than the approved size"),
    "rank": (adapter(r=16), {}, "its rank is 16, approved is at most 8"),
    "rank of a layer": (adapter(rank_pattern={"q_proj": 64}), {}, "its rank is 64"),
    "no rank": (adapter(r=None), {}, "no configuration of an adapter"),
    "configuration": (
        {**adapter(), "adapter_config.json": b"[]"}, {}, "no configuration of an adapter",
    ),
    "another method": (adapter(peft_type="IA3"), {}, "it is a IA3 adapter"),
    "another base": (
        adapter(base_model_name_or_path="org/other"), {}, "it was trained for org/other",
    ),
    "code": ({**adapter(), "modeling.py": b"print()"}, {}, "modeling.py has no place"),
    "pickle": (
        {**adapter(), "adapter_model.bin": pickle.dumps({})}, {}, "adapter_model.bin has no",
    ),
    "a folder": ({**adapter(), "old/a.safetensors": b""}, {}, "old/a.safetensors has no place"),
    "no weights": (
        {"adapter_config.json": adapter()["adapter_config.json"]},
        {"digest": sha256(b""), "path": "/none"},
        f"{WEIGHTS} is missing",
    ),
}  # fmt: skip


class TestPull:
    """Before the engine starts."""

    def test_what_was_approved_is_there_whole(self, folder: Path) -> None:
        files = {**adapter(), "tokenizer.json": b"{}"}
        with Hub({"org/billing": files}).serving() as hub:
            item = entry(folder, "billing", files)
            done = pull(hub, folder, listed(billing=item))
            again = pull(hub, folder, listed(billing=item))
        assert (done.returncode, done.stderr) == (0, "")
        assert "billing: pulled hf://org/billing" in done.stdout
        taken = {"adapter_config.json", WEIGHTS, "tokenizer.json"}
        found = {path.name: path.read_bytes() for path in Path(item["path"]).iterdir()}
        assert found == {name: files[name] for name in taken}
        assert (again.returncode, again.stdout) == (0, ""), "it was there already"
        assert len(hub.asked) == 1 + len(taken)

    def test_the_token_goes_to_the_hub_alone(self, folder: Path) -> None:
        files = adapter()
        with Hub({"org/a": files}).serving() as store, Hub({"org/a": files}).serving() as hub:
            hub.elsewhere = store.url
            done = pull(hub, folder, listed(a=entry(folder, "a", files)))
        assert done.returncode == 0, done.stderr
        assert {token for _, token in hub.asked} == {"Bearer hub-token"}
        assert [token for _, token in store.asked] == [None]

    @pytest.mark.parametrize("flaw", ["truncated", "cut", "odd", "broken"])
    def test_what_may_pass_is_tried_again(self, flaw: str, folder: Path) -> None:
        files = adapter()
        with Hub({"org/a": files}, **{flaw: 2}).serving() as hub:  # type: ignore[arg-type]
            done = pull(hub, folder, listed(a=entry(folder, "a", files)))
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("a: will try again: ") == 2
        assert {path.name for path in folder.iterdir()} == {
            Path(entry(folder, "a", files)["path"]).name
        }

    def test_it_gives_up_in_the_end(self, folder: Path) -> None:
        files = adapter()
        with Hub({"org/a": files}, truncated=99).serving() as hub:
            done = pull(hub, folder, listed(a=entry(folder, "a", files)))
        assert done.returncode == 1
        assert "the connection ended after 699 of 700 bytes" in done.stderr
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("case", REFUSED)
    def test_what_was_not_approved_is_refused(self, case: str, folder: Path) -> None:
        files, changes, words = REFUSED[case]
        item = entry(folder, "a", {**adapter(), **files})
        item |= {key: value for key, value in changes.items() if key != "path"}
        with Hub({"org/a": files}).serving() as hub:
            done = pull(hub, folder, listed(a=item))
        assert done.returncode == 1
        assert done.stderr.startswith("adapters: a: refused: ")
        assert words in done.stderr
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("named", ["/data/models/base", "./base", "org/base", None])
    def test_a_base_that_says_nothing_else_is_taken(self, named: str | None, folder: Path) -> None:
        files = adapter(base_model_name_or_path=named)
        with Hub({"org/a": files}).serving() as hub:
            assert pull(hub, folder, listed(a=entry(folder, "a", files))).returncode == 0

    def test_from_a_claim(self, folder: Path, tmp_path: Path) -> None:
        files, place = adapter(), tmp_path / "claims" / "shared" / "sql"
        place.mkdir(parents=True)
        for name, data in files.items():
            (place / name).write_bytes(data)
        item = entry(folder, "sql", files, uri="pvc://shared/sql", revision=None)
        hub = Hub({})
        done = pull(hub, folder, listed(sql=item), tmp_path / "claims")
        assert done.returncode == 0, done.stderr
        assert (Path(item["path"]) / WEIGHTS).read_bytes() == files[WEIGHTS]
        (place / "old").mkdir()
        shutil.rmtree(item["path"])
        done = pull(hub, folder, listed(sql=item), tmp_path / "claims")
        assert "old/ has no place in an adapter" in done.stderr
        (place / "old").rmdir()
        os.mkfifo(place / "tokenizer.json")
        done = pull(hub, folder, listed(sql=item), tmp_path / "claims")
        assert "tokenizer.json/ has no place in an adapter" in done.stderr
        absent = {**item, "uri": "pvc://shared/none"}
        done = pull(hub, folder, listed(sql=absent), tmp_path / "claims")
        assert "shared/none: No such file or directory" in done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class Pod:
    """A played engine, and the sidecar beside it."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder, self.hub, self.list = folder, hub, folder.parent / "adapters.json"
        self.port, self.health = free_port(), free_port()
        self.client = httpx.Client()
        self.engine: subprocess.Popen[str] | None = None
        self.sidecar: subprocess.Popen[str] | None = None

    def start_engine(self) -> None:
        arguments = ["serve", "org/base", "--port", str(self.port), "--enable-lora"]
        self.engine = subprocess.Popen(
            [sys.executable, "-m", "simulator", "--as", "vllm", "--", *arguments],
            cwd=ROOT / "local",
            env={**os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"},
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start_sidecar(self) -> None:
        engine = f"http://127.0.0.1:{self.port}"
        words = ["serve", self.folder, self.list, engine, str(self.health)]
        self.sidecar = subprocess.Popen(
            [sys.executable, PROGRAM, *words],
            env=environ(self.hub),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def approve(self, wanted: dict[str, Any]) -> None:
        """Change the list as a ConfigMap changes: at once."""
        new = self.list.with_suffix(".new")
        new.write_text(json.dumps(wanted))
        new.rename(self.list)

    def models(self) -> dict[str, str]:
        """Adapters that the engine has loaded, with their folders."""
        try:
            cards = self.client.get(f"http://127.0.0.1:{self.port}/v1/models").json()["data"]
        except (httpx.TransportError, ValueError, KeyError):
            return {}
        return {card["id"]: card["root"] for card in cards if card["parent"]}

    def asked(self, path: str) -> int | None:
        """What the sidecar's probes would hear."""
        try:
            return self.client.get(f"http://127.0.0.1:{self.health}{path}").status_code
        except httpx.TransportError:
            return None

    def until(self, condition: Callable[[], object]) -> None:
        """Ask until it holds; a question to the sidecar takes time, so nothing has to sleep."""
        for _ in range(ATTEMPTS):
            if condition():
                return
            self.asked("/live")
        raise AssertionError("it did not come to hold")

    def stop_sidecar(self) -> str:
        """Its log, once it has ended by itself at SIGTERM."""
        assert self.sidecar is not None
        self.sidecar.send_signal(signal.SIGTERM)
        log, _ = self.sidecar.communicate(timeout=30)
        assert self.sidecar.returncode == 0
        self.sidecar = None
        return log

    def stop_engine(self) -> None:
        assert self.engine is not None
        self.engine.kill()
        self.engine.communicate()
        self.engine = None

    def close(self) -> None:
        self.client.close()
        for process in (self.engine, self.sidecar):
            if process is not None:
                process.kill()
                process.communicate()


@contextmanager
def pod(folder: Path, hub: Hub, approved: dict[str, Any]) -> Generator[Pod]:
    """A pod whose list is approved; nothing runs yet."""
    made = Pod(folder, hub)
    made.approve(approved)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def ready_pod(folder: Path, hub: Hub, approved: dict[str, Any]) -> Generator[Pod]:
    """One that has dealt with its list: approved, started, ready."""
    with pod(folder, hub, approved) as made:
        made.start_engine()
        made.start_sidecar()
        made.until(lambda: made.asked("/ready") == 200)
        yield made


class TestServe:
    """Beside the engine."""

    def test_the_engine_follows_the_list(self, folder: Path) -> None:
        one, two = adapter(b"one"), adapter(b"two")
        hub = Hub({"org/one": one, "org/two": two})
        first = entry(folder, "one", one)
        second = entry(folder, "two", two)
        with hub.serving(), pod(folder, hub, listed(one=first)) as it:
            it.start_sidecar()
            it.until(lambda: Path(first["path"]).is_dir())
            assert it.asked("/live") == 200
            assert it.asked("/ready") == 503, "the engine has loaded nothing yet"
            it.start_engine()
            it.until(lambda: it.asked("/ready") == 200)
            assert it.models() == {"one": first["path"]}

            it.approve(listed(one=first, two=second))
            it.until(lambda: it.models() == {"one": first["path"], "two": second["path"]})

            it.approve(listed(two=second))
            it.until(lambda: it.models() == {"two": second["path"]})
            it.until(lambda: not Path(first["path"]).exists())

            it.stop_engine()
            it.until(lambda: it.asked("/ready") == 503)
            it.start_engine()
            it.until(lambda: it.asked("/ready") == 200)
            assert it.models() == {"two": second["path"]}, "not ready before"
            log = it.stop_sidecar()
        assert "engine: does not answer yet" in log
        assert f"two: loaded {second['path']}" in log
        assert "one: unloaded" in log

    def test_what_somebody_else_loaded_goes(self, folder: Path) -> None:
        files = adapter()
        hub = Hub({"org/a": files})
        item = entry(folder, "a", files)
        with hub.serving(), ready_pod(folder, hub, listed(a=item)) as it:
            smuggled = {"lora_name": "evil", "lora_path": item["path"]}
            url = f"http://127.0.0.1:{it.port}/v1/load_lora_adapter"
            assert httpx.post(url, json=smuggled).status_code == 200
            it.until(lambda: it.models() == {"a": item["path"]})
            assert "evil: unloaded" in it.stop_sidecar()

    def test_one_that_is_refused_keeps_nobody_waiting(self, folder: Path) -> None:
        files = adapter()
        bad = {**adapter(b"bad"), "run.py": b""}
        hub = Hub({"org/a": files, "org/bad": bad})
        good = entry(folder, "a", files)
        both = listed(bad=entry(folder, "bad", bad), a=good)
        with hub.serving(), ready_pod(folder, hub, both) as it:
            assert it.models() == {"a": good["path"]}
            log = it.stop_sidecar()
        assert log.count("bad: refused: run.py has no place in an adapter") == 1

    def test_a_hub_that_is_away_is_waited_for(self, folder: Path) -> None:
        files = adapter()
        hub = Hub({"org/a": files})
        item = entry(folder, "a", files)
        with hub.serving(), pod(folder, hub, listed(a=item)) as it:
            hub.broken = 10**6
            it.start_engine()
            it.start_sidecar()
            it.until(lambda: it.asked("/live") == 200)
            seen = len(hub.asked)
            it.until(lambda: len(hub.asked) > seen + 2)
            assert it.asked("/ready") == 503
            hub.broken = 0
            it.until(lambda: it.asked("/ready") == 200)
            assert "a: will try again: HTTP Error 503" in it.stop_sidecar()

    @pytest.mark.parametrize("replace", [True, False])
    def test_another_adapter_under_the_same_name(self, replace: bool, folder: Path) -> None:
        old, new = adapter(b"old"), adapter(b"new")
        hub = Hub({"org/a": old})
        before, after = entry(folder, "a", old), entry(folder, "a", new)
        with hub.serving(), ready_pod(folder, hub, listed(a=before, replace=replace)) as it:
            hub.repositories["org/a"] = new
            it.approve(listed(a=after, replace=replace))
            expected = {"a": after["path"]} if replace else {}
            it.until(lambda: it.models() == expected and not Path(before["path"]).exists())
            it.stop_sidecar()
            # It remembers, because the engine's cache does.
            it.start_sidecar()
            it.until(lambda: it.asked("/ready") == 200)
            assert it.models() == expected
            log = it.stop_sidecar()
        assert ("give it a new name, or replace the pods" in log) is not replace

    def test_a_list_that_cannot_be_read_changes_nothing(self, folder: Path) -> None:
        files = adapter()
        hub = Hub({"org/a": files})
        item = entry(folder, "a", files)
        with hub.serving(), ready_pod(folder, hub, listed(a=item)) as it:
            it.list.write_text("{")
            passes = [it.asked("/live") for _ in range(200)]
            assert set(passes) == {200}
            assert it.models() == {"a": item["path"]}
            it.approve({"adapters": {}, "replace": True})
            it.until(lambda: it.models() == {})
            it.stop_sidecar()


class FakeEngine:
    """What the keeper asks of an engine, and what may go wrong there."""

    def __init__(self) -> None:
        self.loaded: dict[str, str] = {}
        self.trouble: Exception | None = None
        """Of every question."""
        self.busy: Exception | None = None
        """Of every change."""

    def adapters(self) -> dict[str, str]:
        if self.trouble:
            raise self.trouble
        return dict(self.loaded)

    def change(self, what: str, body: dict[str, str]) -> None:
        if self.busy:
            raise self.busy
        if what == "unload":
            del self.loaded[body["lora_name"]]
        else:
            self.loaded[body["lora_name"]] = body["lora_path"]


class Scene:
    """The keeper alone, its time stopped, between a hub and an engine."""

    def __init__(self, folder: Path, hub: Hub, program: Any) -> None:
        self.folder, self.hub, self.program = folder, hub, program
        self.engine, self.now = FakeEngine(), 1000.0
        self.base, self.replace = "org/base", True
        self.most = 0
        """Adapters that were on the disk at once."""
        program.time = self
        program.HUB = hub.url
        self.begin()

    def monotonic(self) -> float:
        """The time, which the program asks for whenever it gets on."""
        self.most = max(self.most, sum(path.is_dir() for path in self.folder.iterdir()))
        return self.now

    def begin(self) -> None:
        """The sidecar starts, as it does again after a crash."""
        self.beat = self.program.Beat()
        self.keeper = self.program.Keeper(self.folder, self.engine, self.beat)

    def tend(self, **adapters: dict[str, Any]) -> dict[str, str]:
        """One pass over the list; what the engine has loaded then."""
        self.keeper.tend({"adapters": adapters, "base": self.base, "replace": self.replace})
        return dict(self.engine.loaded)

    @property
    def downloads(self) -> int:
        """How often weights were asked for."""
        return sum(path.endswith(WEIGHTS) for path, _ in self.hub.asked)


@pytest.fixture
def scene(folder: Path) -> Generator[Scene]:
    spec = importlib.util.spec_from_file_location("adapters_under_test", PROGRAM)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    with Hub({}).serving() as hub:
        yield Scene(folder, hub, program)


class TestKeeper:
    """What may go wrong between two passes."""

    def test_what_was_refused_is_not_downloaded_again_and_again(self, scene: Scene) -> None:
        files = adapter()
        scene.hub.repositories["org/a"] = files
        wrong = entry(scene.folder, "a", files, digest=sha256(b"other"))
        downloads: list[int] = []
        for seconds in (0, 5, 50, 10, 60, 60):
            scene.now += seconds
            assert scene.tend(a=wrong) == {}
            downloads.append(scene.downloads)
        assert downloads == [1, 1, 1, 2, 2, 3], "after a minute, then after two"
        assert scene.beat.ready
        right = entry(scene.folder, "a", files)
        assert scene.tend(a=right) == {"a": right["path"]}, "another entry is looked at at once"

    def test_another_base_model_is_looked_at_at_once(self, scene: Scene) -> None:
        files = adapter(base_model_name_or_path="org/mirror")
        scene.hub.repositories["org/a"] = files
        item = entry(scene.folder, "a", files)
        assert scene.tend(a=item) == {}
        scene.base = "org/mirror"
        assert scene.tend(a=item) == {"a": item["path"]}

    def test_what_the_engine_refused_does_not_take_the_name(self, scene: Scene) -> None:
        """Nobody was answered with it, so no prompt of it is cached."""
        bad, good = adapter(b"bad"), adapter(b"good")
        scene.replace = False
        scene.hub.repositories["org/a"] = bad
        scene.engine.busy = scene.program.RefusedError("500 header too large")
        assert scene.tend(a=entry(scene.folder, "a", bad)) == {}
        scene.hub.repositories["org/a"], scene.engine.busy = good, None
        item = entry(scene.folder, "a", good)
        assert scene.tend(a=item) == {"a": item["path"]}
        scene.hub.repositories["org/a"] = bad
        assert scene.tend(a=entry(scene.folder, "a", bad)) == {}, "now it would"

    def test_a_refusal_is_never_forgotten_for_more_than_an_hour(self, scene: Scene) -> None:
        wrong = entry(scene.folder, "a", adapter())
        asked: list[int] = []
        for _ in range(12):
            scene.now += 3601
            scene.tend(a=wrong)
            asked.append(len(scene.hub.asked))
        assert asked == list(range(1, 13))

    def test_an_update_serves_the_old_one_while_the_hub_is_away(self, scene: Scene) -> None:
        old, new = adapter(b"old"), adapter(b"new")
        scene.hub.repositories["org/a"] = old
        before, after = entry(scene.folder, "a", old), entry(scene.folder, "a", new)
        assert scene.tend(a=before) == {"a": before["path"]}
        scene.hub.broken = 1
        assert scene.tend(a=after) == {"a": before["path"]}
        assert scene.beat.ready
        scene.hub.repositories["org/a"] = new
        scene.now += 10
        assert scene.tend(a=after) == {"a": after["path"]}

    def test_an_update_that_is_refused_takes_the_old_one_away(self, scene: Scene) -> None:
        files = adapter()
        scene.hub.repositories["org/a"] = files
        assert scene.tend(a=entry(scene.folder, "a", files)) != {}
        other = sha256(b"other")
        wrong = entry(scene.folder, "a", files, digest=other, path=f"{scene.folder}/a-other")
        assert scene.tend(a=wrong) == {}
        assert scene.tend(a=wrong) == {}

    def test_what_others_load_under_an_approved_name_goes_while_it_is_awaited(
        self, scene: Scene
    ) -> None:
        scene.hub.broken = 99
        scene.engine.loaded = {"a": "/tmp/evil", "b": f"{scene.folder}/a-verified"}
        wanted = {name: entry(scene.folder, name, adapter()) for name in ("a", "b")}
        assert scene.tend(**wanted) == {}

    def test_limits_that_are_lowered_hold_for_what_is_loaded(self, scene: Scene) -> None:
        files = adapter(r=8)
        scene.hub.repositories["org/a"] = files
        item = entry(scene.folder, "a", files)
        assert scene.tend(a=item) == {"a": item["path"]}
        for lower in ({"rank": 4}, {"bytes": 100}):
            assert scene.tend(a={**item, **lower}) == {}
            assert scene.tend(a=item) == {"a": item["path"]}
        assert scene.downloads == 1

    def test_a_list_that_changes_whole_needs_room_for_one_more(self, scene: Scene) -> None:
        def version(content: bytes) -> dict[str, dict[str, Any]]:
            found: dict[str, dict[str, Any]] = {}
            for name in "abcde":
                files = adapter(content + name.encode())
                scene.hub.repositories[f"org/{name}"] = files
                found[name] = entry(scene.folder, name, files)
            return found

        scene.tend(**version(b"1"))
        second = version(b"2")
        assert scene.tend(**second) == {name: item["path"] for name, item in second.items()}
        renamed = {f"new-{name}": item for name, item in version(b"3").items()}
        assert set(scene.tend(**renamed)) == set(renamed)
        assert scene.most == 6

    def test_an_engine_that_is_busy_has_not_refused(self, scene: Scene) -> None:
        files = adapter()
        scene.hub.repositories["org/a"] = files
        item = entry(scene.folder, "a", files)
        scene.engine.busy = HTTPError("http://engine", 503, "loading", Message(), None)
        assert scene.tend(a=item) == {}
        assert not scene.beat.ready
        scene.engine.busy = None
        scene.now += 6
        assert scene.tend(a=item) == {"a": item["path"]}
        assert scene.beat.ready

    def test_an_engine_that_was_started_again_is_ready_once_it_has_all(self, scene: Scene) -> None:
        files = adapter()
        scene.hub.repositories["org/a"] = files
        item = entry(scene.folder, "a", files)
        scene.tend(a=item)
        assert scene.beat.ready
        scene.engine.trouble = TimeoutError("slow")
        scene.tend(a=item)
        assert scene.beat.ready, "an engine that is slow still serves"
        scene.engine.trouble = URLError(ConnectionRefusedError())
        scene.tend(a=item)
        assert not scene.beat.ready
        scene.engine.trouble, scene.engine.loaded = None, {}
        scene.engine.busy = HTTPError("http://engine", 503, "loading", Message(), None)
        scene.tend(a=item)
        assert not scene.beat.ready
        scene.engine.busy = None
        scene.now += 6
        assert scene.tend(a=item) == {"a": item["path"]}
        assert scene.beat.ready
        assert scene.downloads == 1

    def test_a_sidecar_that_crashed_is_ready_though_the_hub_is_away(self, scene: Scene) -> None:
        files = adapter()
        scene.hub.repositories["org/a"] = files
        item, new = entry(scene.folder, "a", files), entry(scene.folder, "new", files)
        scene.tend(a=item)
        scene.hub.broken = 99
        (scene.folder / "new-1.part").mkdir()
        scene.begin()
        assert not scene.beat.ready
        assert scene.tend(a=item, new=new) == {"a": item["path"]}
        assert scene.beat.ready
        assert [p.name for p in scene.folder.iterdir() if p.is_dir()] == [Path(item["path"]).name]

    def test_one_odd_repository_does_not_hold_up_the_others(self, scene: Scene) -> None:
        files = adapter()
        scene.hub.repositories |= {"org/a": files, "org/b": files}
        odd, good = entry(scene.folder, "a", files), entry(scene.folder, "b", files)
        scene.hub.odd = 1
        assert scene.tend(a=odd, b=good) == {"b": good["path"]}
