"""A real vLLM, started as the chart says, behind the real gateway and picker.

The tests follow one pod through its life: it starts, answers, is measured and, last, drains.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.cluster import kubectl_command
from local.toolchain import ensure, module_dir
from tests.e2e.platform import Platform, eventually
from tests.engine.commands import containers, vllm_words
from tests.engine.documents import CONTEXT, DRAIN_SECONDS, NAME, NAMESPACE
from tokenworks.catalog.engines import load_engines
from tokenworks.render import render
from tokenworks.render.helm import RenderTools
from tokenworks.render.model import PRE_STOP_SECONDS
from tokenworks.spec.load import load_stack

pytestmark = [pytest.mark.engine, pytest.mark.e2e]

SELECTOR = f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component=engine"
VLLM = load_engines().engine("vllm")
LONG = "The quick brown fox jumps over the lazy dog, and then it does so once more. " * 8
"""Longer than two blocks of the KV cache, which are 128 tokens each on a CPU."""


def pod_of(served: Platform) -> dict[str, Any]:
    (pod,) = served.pods(SELECTOR, NAMESPACE)
    return pod


def fetch(served: Platform, path: str) -> str:
    """What the pod itself answers, past the gateway: the API server passes it on."""
    name = pod_of(served)["metadata"]["name"]
    proxy = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{VLLM.port}/proxy{path}"
    return served.kubectl("get", "--raw", proxy)


def samples(served: Platform) -> dict[str, float]:
    """Metric name to the sum of its samples."""
    found: dict[str, float] = {}
    for name, value in re.findall(
        r"^([a-z0-9_:]+)(?:\{.*\})? (\S+)$", fetch(served, VLLM.paths.metrics), re.M
    ):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def complete(url: str, prompt: str, tokens: int = 8) -> dict[str, Any]:
    """One chat completion through the gateway, of exactly so many tokens."""
    body = {
        "model": NAME,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        # Random weights may say at any token that the answer ends.
        "ignore_eos": True,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_up_ends_with_a_streamed_completion(served: Platform) -> None:
    assert re.search(r"^served by .*: \d+ tokens, first after ", served.first_up, re.MULTILINE)


def test_the_pod_is_what_the_chart_rendered(served: Platform) -> None:
    tools = RenderTools(ensure("charts")["charts"], module_dir)
    objects = [o for r in render(load_stack(served.tree, "local"), tools) for o in r.objects]
    (wanted,) = [c for o in objects for c in containers(o) if vllm_words(c)]
    (running,) = pod_of(served)["spec"]["containers"]
    for part in ("image", "command", "args", "env"):
        assert running[part] == wanted[part], part


def test_probes_pass(served: Platform) -> None:
    pod = pod_of(served)
    status = pod["status"]["containerStatuses"][0]
    assert (status["started"], status["ready"], status["restartCount"]) == (True, True, 0)
    events = served.get("events", "-n", NAMESPACE)["items"]
    name = pod["metadata"]["name"]
    said = [e["message"] for e in events if e["involvedObject"]["name"] == name]
    assert [m for m in said if re.match(r"(Liveness|Readiness) probe failed", m)] == []
    for path in {VLLM.paths.startup, VLLM.paths.readiness, VLLM.paths.liveness}:
        fetch(served, path)


def test_the_served_name_is_listed(served: Platform) -> None:
    (model,) = json.loads(fetch(served, "/v1/models"))["data"]
    assert (model["id"], model["max_model_len"]) == (NAME, CONTEXT)


def test_a_completion_comes_through_the_gateway(served: Platform, url: str) -> None:
    before = samples(served)["vllm:generation_tokens_total"]
    answer = complete(url, "hello", 8)
    assert answer["model"] == NAME
    assert answer["usage"]["completion_tokens"] == 8
    assert samples(served)["vllm:generation_tokens_total"] == before + 8, "by this pod"


def test_every_metric_of_the_catalogue_exists(served: Platform, url: str) -> None:
    complete(url, "hello")
    # The one about adapters is there only where adapters are allowed (seen with 0.32.0).
    names = {name for name in VLLM.metrics.model_dump(exclude={"lora"}).values() if name}
    # A histogram shows as its buckets, sum and count.
    shown = {name.removesuffix("_count") for name in samples(served)} | samples(served).keys()
    assert names - shown == set()


def test_prefix_cache_counters_move(served: Platform, url: str) -> None:
    complete(url, LONG)
    before = samples(served)
    complete(url, LONG)
    after = samples(served)
    queried = after["vllm:prefix_cache_queries_total"] - before["vllm:prefix_cache_queries_total"]
    hit = after["vllm:prefix_cache_hits_total"] - before["vllm:prefix_cache_hits_total"]
    assert queried > len(LONG)
    assert queried > hit >= 256


@dataclass
class Stream:
    """A completion as it comes."""

    url: str
    tokens: int
    pieces: int = 0
    finish: str | None = None
    counted: int = 0
    """Tokens by the engine's own count, which it sends last."""
    done: bool = False
    error: str = ""
    started: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        """Read to the end; runs in a thread of its own."""
        body = {
            "model": NAME, "prompt": "Tell me everything.", "max_tokens": self.tokens,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        try:
            with httpx.stream(
                "POST", f"{self.url}/v1/completions", json=body, timeout=120
            ) as response:
                response.raise_for_status()
                for line in response.iter_lines():
                    self._take(line)
        except httpx.HTTPError as error:
            self.error = f"{type(error).__name__}: {error}"
        self.started.set()

    def _take(self, line: str) -> None:
        if line == "data: [DONE]":
            self.done = True
        elif line.startswith("data: "):
            chunk = json.loads(line[6:])
            for choice in chunk["choices"]:
                self.pieces += 1
                self.finish = choice["finish_reason"] or self.finish
                self.started.set()
            self.counted = (chunk.get("usage") or {}).get("completion_tokens", self.counted)


@pytest.fixture
def log(served: Platform, tmp_path: Path) -> Generator[Path]:
    """The pod's log from now on, kept when the pod is gone."""
    file = tmp_path / "pod.log"
    name = pod_of(served)["metadata"]["name"]
    command = kubectl_command("local", ["logs", "-n", NAMESPACE, name, "--follow", "--tail=0"])
    with file.open("w") as out, subprocess.Popen(command, stdout=out) as process:
        yield file
        process.terminate()


def test_a_stream_outlives_sigterm_and_the_pod_outlives_the_stream(
    served: Platform, url: str, log: Path
) -> None:
    # SIGTERM comes once the pre-stop hook has slept, and then there is time to drain: a stream that
    # aims at the middle of what may be, in ratio, may turn out as much faster as slower.
    before = samples(served)
    complete(url, "warm", 1024)
    after = samples(served)
    latency = "vllm:inter_token_latency_seconds"
    took, of = (after[f"{latency}_{x}"] - before[f"{latency}_{x}"] for x in ("sum", "count"))
    aim = math.sqrt(PRE_STOP_SECONDS * (PRE_STOP_SECONDS + DRAIN_SECONDS))
    tokens = min(int(aim * of / took), CONTEXT - 1000)
    stream = Stream(url, tokens)
    reader = threading.Thread(target=stream.read)
    reader.start()
    assert stream.started.wait(60)
    name = pod_of(served)["metadata"]["name"]
    served.kubectl("delete", "pod", "-n", NAMESPACE, name, "--wait=false")
    eventually("the engine gets SIGTERM", lambda: "shutdown triggered" in log.read_text())
    at_sigterm = stream.pieces
    pod = served.get("pod", name, "-n", NAMESPACE)
    reader.join()
    assert stream.error == ""
    assert (stream.finish, stream.counted, stream.done) == ("length", tokens, True)
    assert stream.pieces > at_sigterm > 0, "the stream had ended before SIGTERM came"
    assert "deletionTimestamp" in pod["metadata"]
    assert "running" in pod["status"]["containerStatuses"][0]["state"]
    assert re.search(rf"mode=drain timeout={DRAIN_SECONDS}s", log.read_text())
    served.kubectl("wait", "--for=delete", f"pod/{name}", "-n", NAMESPACE, "--timeout=180s")
