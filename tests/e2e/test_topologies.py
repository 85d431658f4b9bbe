"""One model over several pods: groups, prefill and decode, ranks with ports of their own.

The simulator plays the engines, started with the engines' own command lines; LeaderWorkerSet,
the pickers, the sidecar and the engines' own routers are the real ones.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.e2e.platform import NAMESPACE, Platform, ask, eventually

pytestmark = pytest.mark.e2e

DOCUMENTS = Path(__file__).parent / "topologies"
PLATFORM = "  platform:\n"
"""Where the environment names the parts of the platform."""
LONG = "Every question begins with the same long and careful explanation of the matter. " * 60
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
READY = ("Ready", "True")
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
SPLIT = ("split", "split-sglang", "split-sglang-router", "split-vllm-router")


@pytest.fixture(scope="module")
def models(platform: Platform) -> Iterator[Platform]:
    """The environment with a model of each topology, until the last test of this file."""
    stack = platform.tree / "stacks" / "local"
    environment = stack / "environment.yaml"
    before = environment.read_text()
    added = [Path(shutil.copy(source, stack / "models")) for source in DOCUMENTS.glob("*.yaml")]
    environment.write_text(
        before.replace(PLATFORM, f"{PLATFORM}    llmD:\n      router: 0.4.0\n", 1)
    )
    assert "0 errors, 0 warnings" in platform.run("check", "local").stdout
    platform.run("up", "local")
    yield platform
    environment.write_text(before)
    for document in added:
        document.unlink()
    platform.run("up", "local")


def parts(platform: Platform, model: str, component: str) -> list[dict[str, Any]]:
    """Pods of a release's component."""
    return platform.pods(f"{INSTANCE}={model},{COMPONENT}={component}")


def names(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def since_ready(pod: dict[str, Any]) -> str | None:
    """When the pod became ready (RFC 3339, so that text compares as time); None if it is not."""
    conditions = pod["status"].get("conditions", [])
    return next(
        (c["lastTransitionTime"] for c in conditions if (c["type"], c["status"]) == READY), None
    )


def started(pod: dict[str, Any]) -> str:
    """When the engine's container started."""
    states = {c["name"]: c["state"] for c in pod["status"]["containerStatuses"]}
    return states["engine"]["running"]["startedAt"]


def answers(url: str, model: str, prompt: str = "hello") -> httpx.Response | None:
    """The answer to one question, once there is one."""
    response = ask(url, prompt, model)
    return response if response.status_code == 200 else None


# Groups


def groups(platform: Platform) -> dict[str, dict[str, str]] | None:
    """Group: pod: uid, once two groups of three are ready."""
    found: dict[str, dict[str, str]] = {}
    for pod in platform.pods(f"{INSTANCE}=group"):
        meta = pod["metadata"]
        if GROUP in meta["labels"] and since_ready(pod):
            found.setdefault(meta["labels"][GROUP], {})[meta["name"]] = meta["uid"]
    return found if [len(found.get(g, {})) for g in ("0", "1")] == [3, 3] else None


def test_a_group_answers_by_its_first_pod_once_all_have_joined(models: Platform, url: str) -> None:
    eventually("two groups of three", lambda: groups(models))
    leaders = parts(models, "group", "engine")
    assert names(leaders) == {"group-engine-0", "group-engine-1"}
    for leader in leaders:
        group = f"{INSTANCE}=group,{GROUP}={leader['metadata']['labels'][GROUP]}"
        assert (since_ready(leader) or "") >= max(started(pod) for pod in models.pods(group))
    served = {ask(url, f"question {n}", "group").headers["x-served-by"] for n in range(8)}
    assert served == names(leaders)
    pool = models.get("endpointslices", "-n", NAMESPACE, "-l", "kubernetes.io/service-name=group")
    targets = {e["targetRef"]["name"] for s in pool["items"] for e in s["endpoints"]}
    assert targets == names(leaders)


def test_a_dead_worker_rebuilds_its_group_while_the_other_answers(
    models: Platform, url: str
) -> None:
    before = eventually("two groups of three", lambda: groups(models))
    models.kubectl(
        "delete", "pod", "-n", NAMESPACE, "group-engine-0-1", "--grace-period=0", "--force"
    )

    def rebuilt() -> dict[str, dict[str, str]] | None:
        now = groups(models)
        return now if now and not set(now["0"].values()) & set(before["0"].values()) else None

    eventually("group 1 answers", lambda: answers(url, "group"))
    after = eventually("group 0 is rebuilt whole", rebuilt)
    assert after["1"] == before["1"]


# Prefill and decode


@pytest.mark.parametrize("model", SPLIT)
def test_decode_starts_once_prefill_answers(models: Platform, model: str) -> None:
    """Told by the decode pod alone, so it holds however often prefill was replaced since."""
    (decode,) = parts(models, model, "decode")
    waiters = {c["name"]: c["state"] for c in decode["status"]["initContainerStatuses"]}
    ended = waiters["wait-for-prefill"]["terminated"]
    assert ended["exitCode"] == 0
    assert ended["finishedAt"] <= started(decode)
    name = decode["metadata"]["name"]
    log = models.kubectl("logs", "-n", NAMESPACE, name, "-c", "wait-for-prefill")
    assert re.search(rf"http://{model}-prefill-ready:\d+/\S* answers", log), log


@pytest.mark.parametrize("model", SPLIT)
def test_a_long_prompt_is_read_by_one_pod_and_answered_by_another(
    models: Platform, url: str, model: str
) -> None:
    response = eventually(f"{model} answers", lambda: answers(url, model, f"{model}: {LONG}"))
    assert response.json()["prefilled_by"] in names(parts(models, model, "prefill"))
    (choice,) = response.json()["choices"]
    assert choice["message"]["content"]


def test_a_short_prompt_is_read_where_it_is_answered(models: Platform, url: str) -> None:
    eventually("split answers", lambda: answers(url, "split"))
    response = ask(url, "hello", "split")
    assert response.headers["x-served-by"] in names(parts(models, "split", "decode"))
    assert "x-prefilled-by" not in response.headers


def test_without_prefill_decode_reads_prompts_itself(models: Platform, url: str) -> None:
    """vLLM's decode can; what it does instead is slower, and no error."""
    (old,) = names(parts(models, "split", "prefill"))
    scale = ("scale", "-n", NAMESPACE, "deployment/split-prefill")
    models.kubectl(*scale, "--replicas=0")
    try:
        eventually("no prefill", lambda: not parts(models, "split", "prefill"))

        def alone() -> httpx.Response | None:
            found = answers(url, "split", f"alone: {LONG}")
            return found if found and "x-prefilled-by" not in found.headers else None

        eventually("decode answers alone", alone)
    finally:
        models.kubectl(*scale, "--replicas=1")

    def healed() -> str | None:
        # A prompt that decode has answered alone is in its cache, and stays with it.
        found = answers(url, "split", f"{uuid4()}: {LONG}")
        return found.headers.get("x-prefilled-by") if found else None

    assert eventually("another prefill reads prompts", healed) != old


def test_sglang_without_prefill_refuses(models: Platform, url: str) -> None:
    """Its decode cannot read a prompt: the client is told, and asks again."""
    model = "split-sglang-router"
    scale = ("scale", "-n", NAMESPACE, f"deployment/{model}-prefill")
    models.kubectl(*scale, "--replicas=0")
    try:
        eventually("no prefill", lambda: not parts(models, model, "prefill"))
        refused = eventually(
            "the router refuses",
            lambda: r if (r := ask(url, "a", model)).status_code >= 500 else None,
        )
        assert refused.status_code in (500, 503)
    finally:
        models.kubectl(*scale, "--replicas=1")
    eventually("it answers again", lambda: answers(url, model))


# Ranks with ports of their own


def test_every_rank_is_asked_on_its_own_port(models: Platform, url: str) -> None:
    eventually("experts answers", lambda: answers(url, "experts"))
    pods = parts(models, "experts", "engine") + parts(models, "experts", "engine-worker")
    assert names(pods) == {"experts-engine-0", "experts-engine-0-1"}
    seen: set[tuple[str, str]] = set()

    def all_ranks() -> bool:
        headers = ask(url, f"question {len(seen)}", "experts", seed=str(uuid4())).headers
        seen.add((headers["x-served-by"], headers["x-served-rank"]))
        return len(seen) == 4

    eventually("four ranks answered", all_ranks)
    assert seen == {
        ("experts-engine-0", "0"), ("experts-engine-0", "1"),
        ("experts-engine-0-1", "2"), ("experts-engine-0-1", "3"),
    }  # fmt: skip
