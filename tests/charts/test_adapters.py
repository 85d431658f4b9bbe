"""The program that pulls, verifies and loads adapters, against a hub and an engine on loopback."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.charts.adapter_hub import REVISION, WEIGHTS, Hub, adapter, sha256

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

    @pytest.mark.parametrize("flaw", ["truncated", "broken"])
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
def pod(folder: Path, hub: Hub) -> Generator[Pod]:
    made = Pod(folder, hub)
    try:
        yield made
    finally:
        made.close()


class TestServe:
    """Beside the engine."""

    def test_the_engine_follows_the_list(self, folder: Path) -> None:
        one, two = adapter(b"one"), adapter(b"two")
        hub = Hub({"org/one": one, "org/two": two})
        first = entry(folder, "one", one)
        second = entry(folder, "two", two)
        with hub.serving(), pod(folder, hub) as it:
            it.approve(listed(one=first))
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
            it.start_engine()
            it.until(lambda: it.models() == {"two": second["path"]})
            log = it.stop_sidecar()
        assert "engine: does not answer yet" in log
        assert f"two: loaded {second['path']}" in log
        assert "one: unloaded" in log

    def test_what_somebody_else_loaded_goes(self, folder: Path) -> None:
        files = adapter()
        hub = Hub({"org/a": files})
        item = entry(folder, "a", files)
        with hub.serving(), pod(folder, hub) as it:
            it.approve(listed(a=item))
            it.start_engine()
            it.start_sidecar()
            it.until(lambda: it.asked("/ready") == 200)
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
        with hub.serving(), pod(folder, hub) as it:
            it.approve(listed(bad=entry(folder, "bad", bad), a=good))
            it.start_engine()
            it.start_sidecar()
            it.until(lambda: it.asked("/ready") == 200)
            assert it.models() == {"a": good["path"]}
            log = it.stop_sidecar()
        assert log.count("bad: refused: run.py has no place in an adapter") == 1

    def test_a_hub_that_is_away_is_waited_for(self, folder: Path) -> None:
        files = adapter()
        hub = Hub({"org/a": files})
        item = entry(folder, "a", files)
        with hub.serving(), pod(folder, hub) as it:
            hub.broken = 10**6
            it.approve(listed(a=item))
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
        with hub.serving(), pod(folder, hub) as it:
            it.approve(listed(a=before, replace=replace))
            it.start_engine()
            it.start_sidecar()
            it.until(lambda: it.asked("/ready") == 200)
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
        with hub.serving(), pod(folder, hub) as it:
            it.approve(listed(a=item))
            it.start_engine()
            it.start_sidecar()
            it.until(lambda: it.asked("/ready") == 200)
            it.list.write_text("{")
            passes = [it.asked("/live") for _ in range(200)]
            assert set(passes) == {200}
            assert it.models() == {"a": item["path"]}
            it.approve({"adapters": {}, "replace": True})
            it.until(lambda: it.models() == {})
            it.stop_sidecar()
