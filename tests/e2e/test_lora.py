"""Adapters by name: loaded at the start, beside running engines, and behind SGLang's own names.

The simulator plays the engines with the engines' own command lines, and the program that pulls
adapters makes theirs up; routes, pickers, sidecars and the kubelet's way with ConfigMaps are real.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
import yaml

from tests.e2e.platform import NAMESPACE, Platform, ask, eventually

pytestmark = pytest.mark.e2e

DOCUMENTS = Path(__file__).parent / "adapters"
NAMES = ("tuned", "legal", "medical", "live", "billing", "tuned-sglang", "poetry", "prose")
LIST_REACHES_PODS = 180.0
"""Seconds; the kubelet brings a changed ConfigMap to its pods within about one and a half
minutes."""


@pytest.fixture(scope="module")
def models(platform: Platform) -> Iterator[Platform]:
    """The environment with a release of each way to load, until the last test of this file."""
    folder = platform.tree / "stacks" / "local" / "models"
    for source in DOCUMENTS.glob("*.yaml"):
        (folder / source.name).write_text(source.read_text())
    assert "0 errors, 0 warnings" in platform.run("check", "local").stdout
    platform.run("up", "local", "--no-chat")
    yield platform
    for source in DOCUMENTS.glob("*.yaml"):
        (folder / source.name).unlink()
    platform.run("up", "local", "--no-chat")


def pods(platform: Platform, release: str) -> list[dict[str, Any]]:
    """The release's pods with engines."""
    label = "app.kubernetes.io"
    return platform.pods(f"{label}/instance={release},{label}/component=engine")


def uids(platform: Platform, release: str) -> set[str]:
    """What tells a pod from another one of its name."""
    return {pod["metadata"]["uid"] for pod in pods(platform, release)}


def restarts(pod: dict[str, Any]) -> dict[str, int]:
    """Container: how often it was started again."""
    status = pod["status"]
    every = [*status["containerStatuses"], *status.get("initContainerStatuses", [])]
    return {container["name"]: container["restartCount"] for container in every}


def loaded(platform: Platform, release: str) -> list[dict[str, str]]:
    """Adapters that the engine of each pod has loaded: name and folder."""
    found: list[dict[str, str]] = []
    for pod in pods(platform, release):
        name, port = pod["metadata"]["name"], 8000
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/v1/models"
        cards = json.loads(platform.kubectl("get", "--raw", path))["data"]
        found.append({card["id"]: card["root"] for card in cards if card["parent"]})
    return found


def all_have(platform: Platform, release: str, *names: str) -> Callable[[], bool]:
    """A question: whether every engine has these adapters and no others."""
    return lambda: all(set(have) == set(names) for have in loaded(platform, release))


def answer(url: str, model: str, prompt: str = "hello") -> httpx.Response:
    """An answer, once there is one."""

    def look() -> httpx.Response | None:
        response = ask(url, prompt, model)
        return response if response.status_code == 200 else None

    return eventually(f"{model} answers", look)


def text(response: httpx.Response) -> str:
    """What the model said, which depends on prompt, model and adapter alone."""
    return response.json()["choices"][0]["message"]["content"]


def approve(platform: Platform, release: str, adapters: dict[str, str]) -> None:
    """Change the approved list to these names, each from its place, and bring it up."""
    file = platform.tree / "stacks" / "local" / "models" / f"{release}.yaml"
    document = yaml.safe_load(file.read_text())
    document["spec"]["lora"]["adapters"] = {
        name: {"uri": uri, "size": "1M", "rank": 8} for name, uri in adapters.items()
    }
    file.write_text(json.dumps(document))
    platform.run("up", "local", "--no-chat")


# Names


@pytest.mark.usefixtures("models")
def test_the_gateway_lists_models_and_adapters(url: str) -> None:
    listed = eventually("models are listed", lambda: httpx.get(f"{url}/v1/models").json()["data"])
    assert set(NAMES) <= {card["id"] for card in listed}


@pytest.mark.parametrize(
    ("release", "adapters"),
    [
        ("tuned", ("legal", "medical")),
        ("live", ("billing",)),
        ("tuned-sglang", ("poetry", "prose")),
    ],
)
def test_an_adapter_answers_by_its_name_from_a_pod_that_has_it(
    models: Platform, url: str, release: str, adapters: tuple[str, ...]
) -> None:
    texts = {text(answer(url, release))}
    for name in adapters:
        response = answer(url, name)
        assert response.json()["model"] == name, "SGLang's own name for it is put back"
        served = response.headers["x-served-by"]
        assert served in {pod["metadata"]["name"] for pod in pods(models, release)}
        texts.add(text(response))
    assert len(texts) == 1 + len(adapters), "the base model and each adapter say different things"


def test_the_command_line_asks_an_adapter(models: Platform) -> None:
    said = models.run("chat", "local", "hello", "--model", "legal", "--max-tokens", "2").stdout
    assert re.search(r"served by tuned-\S+: 2 tokens", said), said


@pytest.mark.usefixtures("models")
def test_a_stream_carries_the_name_that_was_asked_for(url: str) -> None:
    answer(url, "poetry")
    body = {
        "model": "poetry", "messages": [{"role": "user", "content": "x"}], "max_tokens": 4,
        "stream": True,
    }  # fmt: skip
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as response:
        chunks = [json.loads(x[6:]) for x in response.iter_lines() if x.startswith("data: {")]
    assert {chunk["model"] for chunk in chunks} == {"poetry"}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("name", ["nobody", "Legal", "tuned:legal", "tuned-sglang:poetry"])
def test_a_name_that_is_not_on_a_list_is_a_404(url: str, name: str) -> None:
    answer(url, "poetry")
    assert ask(url, "hello", name).status_code == 404


# The picker


@contextmanager
def at_work(url: str, model: str) -> Generator[str]:
    """A long answer that is being written meanwhile, and the pod that writes it."""
    body = {
        "model": model, "messages": [{"role": "user", "content": str(uuid4())}],
        "max_tokens": 4000, "ignore_eos": True, "stream": True,
    }  # fmt: skip
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as response:
        assert response.status_code == 200
        lines = response.iter_lines()  # held: httpx hangs up when nobody has it any more
        next(lines)
        yield response.headers["x-served-by"]


def served_by(url: str, model: str) -> str:
    """Who answers a prompt that nobody has seen."""
    return ask(url, str(uuid4()), model, max_tokens=1).headers["x-served-by"]


def affinities(platform: Platform, model: str) -> set[float]:
    """The picker's scores for the adapter of the last request, of every pod."""
    said = platform.run("picks", "local", "--model", model, "--last", "1").stdout
    header, *rows = said.strip().splitlines()
    scorers = re.findall(r"[a-z-]+", header)[2:-1]
    column = scorers.index("lora-affinity")
    return {float(re.findall(r"\d\.\d\d", row)[column]) for row in rows}


def test_requests_go_where_their_adapter_is_at_work(models: Platform, url: str) -> None:
    for name in ("legal", "medical"):
        answer(url, name)
    with at_work(url, "legal") as busy:

        def seen() -> bool:
            served_by(url, "legal")
            return 1.0 in affinities(models, "legal")

        eventually("the picker has seen it", seen)
        assert {served_by(url, "legal") for _ in range(6)} == {busy}
        # There is room for one adapter at a time, and another one would have to wait.
        assert busy not in {served_by(url, "medical") for _ in range(6)}


def test_the_picker_of_a_release_without_adapters_misses_none(models: Platform, url: str) -> None:
    """vLLM shows its gauge of adapters with adapters only."""
    answer(url, "plain")
    selector = "app.kubernetes.io/instance=plain,app.kubernetes.io/component=picker"
    log = models.kubectl("logs", "-n", NAMESPACE, "-l", selector, "--tail=-1")
    assert "starting collection" in log
    assert not re.search(r"lora_requests_info\S* not found", log)


# Beside running engines


def test_an_approved_adapter_comes_and_goes_without_a_restart(models: Platform, url: str) -> None:
    eventually("billing is loaded", all_have(models, "live", "billing"))
    before = uids(models, "live")
    assert ask(url, "hello", "travel").status_code == 404

    approve(models, "live", {"billing": "dummy://billing", "travel": "dummy://travel"})
    eventually("travel is loaded", all_have(models, "live", "billing", "travel"), LIST_REACHES_PODS)
    assert text(answer(url, "travel")) != text(answer(url, "billing"))

    (first, second) = loaded(models, "live")
    assert first == second
    approve(models, "live", {"travel": "dummy://other"})
    eventually("billing is unloaded", all_have(models, "live", "travel"), LIST_REACHES_PODS)
    eventually(
        "another travel is loaded",
        lambda: all(have["travel"] != first["travel"] for have in loaded(models, "live")),
        LIST_REACHES_PODS,
    )
    eventually("billing is no name", lambda: ask(url, "hello", "billing").status_code == 404)
    answer(url, "travel")

    assert uids(models, "live") == before
    assert all(set(restarts(pod).values()) == {0} for pod in pods(models, "live"))

    approve(models, "live", {"billing": "dummy://billing"})
    eventually("billing is back", all_have(models, "live", "billing"), LIST_REACHES_PODS)
    answer(url, "billing")


def raw(url: str, path: str, body: dict[str, str]) -> int:
    """The status of a POST whose path goes out as it is written."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.putrequest("POST", path, skip_host=False)
        data = json.dumps(body).encode()
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/load_lora_adapter",
        "/v1//load_lora_adapter",
        "/v1/completions/../load_lora_adapter",
        "/v1/completions/%2e%2e/load_lora_adapter",
        "/v1/completions/..%2fload_lora_adapter",
        "/v1/chat/completions/../../load_lora_adapter",
        "/v1/unload_lora_adapter",
    ],
)
def test_nobody_outside_loads_or_unloads(models: Platform, url: str, path: str) -> None:
    eventually("billing is loaded", all_have(models, "live", "billing"))
    folder = loaded(models, "live")[0]["billing"]
    name = "billing" if "unload" in path else "smuggled"
    status = raw(url, path, {"model": "live", "lora_name": name, "lora_path": folder})
    assert 400 <= status < 500
    assert all_have(models, "live", "billing")()


def end(platform: Platform, pod: str, container: str) -> None:
    """Have a container's program end as at SIGTERM; the kubelet starts it again."""
    program = "import os, signal; os.kill(1, signal.SIGTERM)"
    inside = ("-n", NAMESPACE, pod, "-c", container, "--", "python3", "-c", program)
    # It may take this program with it.
    platform.run("local", "kubectl", "exec", *inside, check=False)


@pytest.mark.parametrize("container", ["adapters", "engine"])
def test_what_ends_and_starts_again_serves_the_same_adapters(
    models: Platform, url: str, container: str
) -> None:
    eventually("billing is loaded", all_have(models, "live", "billing"))
    before = uids(models, "live")
    pod = pods(models, "live")[0]["metadata"]["name"]

    def now() -> dict[str, Any]:
        return next(p for p in pods(models, "live") if p["metadata"]["name"] == pod)

    count = restarts(now())
    end(models, pod, container)

    def again() -> bool:
        found = now()
        conditions = {c["type"]: c["status"] for c in found["status"]["conditions"]}
        restarted = restarts(found)[container] > count[container]
        return restarted and conditions["Ready"] == "True"

    eventually(f"{container} was started again", again)
    eventually("billing is loaded", all_have(models, "live", "billing"))
    answer(url, "billing")
    assert uids(models, "live") == before
    others = {name: n for name, n in restarts(now()).items() if name != container}
    assert others == {name: n for name, n in count.items() if name != container}


# At the start


def test_a_list_that_is_read_at_the_start_replaces_the_pods(models: Platform, url: str) -> None:
    answer(url, "poetry")
    before = uids(models, "tuned-sglang")
    approve(models, "tuned-sglang", {"poetry": "dummy://poetry", "drama": "dummy://drama"})
    assert text(answer(url, "drama")) != text(answer(url, "tuned-sglang"))
    assert not uids(models, "tuned-sglang") & before
    eventually("prose is no name", lambda: ask(url, "hello", "prose").status_code == 404)
