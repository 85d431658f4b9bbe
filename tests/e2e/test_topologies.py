"""One model over several pods: groups, prefill and decode, ranks with ports of their own.

The simulator plays the engines, started with the engines' own command lines; LeaderWorkerSet,
the pickers, the sidecar and the engines' own routers are the real ones.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.e2e.platform import NAMESPACE, Platform, ask, eventually
from tests.e2e.streams import Stream

pytestmark = pytest.mark.e2e

DOCUMENTS = Path(__file__).parent / "topologies"
PLATFORM = "  platform:\n"
"""Where the environment names the parts of the platform."""
LONG = "Every question begins with the same long and careful explanation of the matter. " * 60
INSTANCE = "app.kubernetes.io/instance"
COMPONENT = "app.kubernetes.io/component"
READY = ("Ready", "True")
RACK = "topology.tokenworks.dev/rack"
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


@pytest.mark.parametrize(
    ("model", "status"),
    [("split-sglang", 400), ("split-sglang-router", 503), ("split-vllm-router", 503)],
)
def test_without_prefill_others_refuse(models: Platform, url: str, model: str, status: int) -> None:
    """What reads no prompts without prefill tells the client, who asks again."""
    scale = ("scale", "-n", NAMESPACE, f"deployment/{model}-prefill")
    models.kubectl(*scale, "--replicas=0")
    try:
        eventually("no prefill", lambda: not parts(models, model, "prefill"))
        eventually(
            f"clients get {status}", lambda: ask(url, f"{uuid4()}", model).status_code == status
        )
    finally:
        models.kubectl(*scale, "--replicas=1")
    eventually("it answers again", lambda: answers(url, model))


def at_work(platform: Platform, pod: str) -> bool:
    """Whether its engine has a request in its batch."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8000/proxy/metrics"
    running = re.search(
        r"^vllm:num_requests_running\S* (\S+)$",
        platform.kubectl("get", "--raw", path),
        re.MULTILINE,
    )
    return running is not None and float(running[1]) > 0


def end(platform: Platform, pod: str) -> None:
    """End it at once, whatever it does."""
    platform.kubectl("delete", "pod", "-n", NAMESPACE, pod, "--grace-period=0", "--force")


def test_a_prompt_whose_prefill_pod_dies_fails_and_the_next_does_not(
    models: Platform, url: str
) -> None:
    eventually("split answers", lambda: answers(url, "split", f"{uuid4()}: {LONG}"))
    (prefill,) = names(parts(models, "split", "prefill"))
    with ThreadPoolExecutor(1) as reader:
        asked = reader.submit(ask, url, f"{uuid4()}: {LONG * 5}", "split")
        eventually("prefill reads it", lambda: at_work(models, prefill))
        end(models, prefill)
        cut = asked.result()
    assert (cut.status_code, cut.text) == (502, "")
    eventually("asking again helps", lambda: answers(url, "split", f"{uuid4()}: {LONG}"))


def test_a_stream_ends_with_its_decode_pod(models: Platform, url: str) -> None:
    eventually("split answers", lambda: answers(url, "split"))
    stream = Stream(url, tokens=3000, model="split")
    assert stream.pod in names(parts(models, "split", "decode"))
    end(models, stream.pod)
    stream.thread.join(60)
    assert stream.error and stream.finish == "", "a cut stream must not look like a whole answer"
    eventually("another decode pod answers", lambda: answers(url, "split"))


# Places


def rack_of_pods(platform: Platform, model: str, pods: int) -> dict[str, list[str]] | None:
    """Group: rack of each of its pods, once so many run."""
    nodes = platform.get("nodes", "-l", "tokenworks.dev/pool=kwok-h100")["items"]
    racks = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in nodes}
    found: dict[str, list[str]] = {}
    for pod in platform.pods(f"{INSTANCE}={model},{GROUP}"):
        if pod["status"].get("phase") == "Running":
            group = pod["metadata"]["labels"][GROUP]
            found.setdefault(group, []).append(racks[pod["spec"]["nodeName"]])
    return found if sum(len(each) for each in found.values()) == pods else None


def test_each_group_of_a_release_is_within_one_rack(models: Platform) -> None:
    """`topology.within` of a ModelRelease, down to the nodes of the pods that it makes."""
    scale = ("scale", "-n", NAMESPACE, "lws/near-engine")
    models.kubectl(*scale, "--replicas=2")
    try:
        placed = eventually("four pods run", lambda: rack_of_pods(models, "near", 4))
    finally:
        models.kubectl(*scale, "--replicas=0")
    assert {group: len(racks) for group, racks in placed.items()} == {"0": 2, "1": 2}
    # Each pod takes a whole node, and a rack has two.
    assert sorted({*placed["0"]} | {*placed["1"]}) == ["kwok-h100-rack-0", "kwok-h100-rack-1"]
    assert all(len(set(racks)) == 1 for racks in placed.values())
    eventually("they are gone", lambda: not models.pods(f"{INSTANCE}=near,{GROUP}"))


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
