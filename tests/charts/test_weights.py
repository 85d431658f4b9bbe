"""How weights get to the engines, and that no engine starts on half of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.documents import model, stack, values_of
from tests.charts.rendering import Helm, Object, Objects
from tokenworks.render.model import timing
from tokenworks.render.weights import weights_values

pytestmark = pytest.mark.helm
SHARED: dict[str, Any] = {"weights": {"kind": "pvc", "prefetch": True, "storageClass": "efs"}}
NODE: dict[str, Any] = {"weights": {"kind": "node"}}
REVISION = "0123456789abcdef0123456789abcdef01234567"


def of(charts: Helm, caches: dict[str, Any], **spec: Any) -> Objects:
    return charts.objects("model", values_of(model(caches=caches, **spec)))


def job(objects: Objects) -> Object:
    (found,) = objects.of("Job")
    return found


def first(pod: Object) -> Object:
    """What runs before all else in a pod."""
    return pod["initContainers"][0]


def volume(pod: Object, name: str) -> Object:
    return next(v for v in pod["volumes"] if v["name"] == name)


def mount(container: Object, name: str) -> Object:
    return next(m for m in container["volumeMounts"] if m["name"] == name)


def test_a_job_fills_the_claim_and_every_pod_waits_for_it(charts: Helm) -> None:
    objects = of(charts, SHARED)
    (loader,) = job(objects)["spec"]["template"]["spec"]["containers"]
    waiter = first(objects.pod())
    tail = ["Qwen/Qwen3-32B", REVISION, "/weights"]
    assert loader["command"] == ["python3", "/opt/fetch/fetch.py", "fetch", *tail]
    assert waiter["command"] == ["python3", "/opt/fetch/fetch.py", "wait", *tail]
    assert [mount(c, "weights")["readOnly"] for c in (loader, waiter, objects.container())] == [
        False,
        True,
        True,
    ]


def test_every_pod_of_a_group_waits(charts: Helm) -> None:
    group = {"topology": {"kind": "multi-node", "tensorParallel": 8}, "replicas": 1}
    objects = of(charts, SHARED, resources={"gpus": 8}, **group)
    template = objects.one("LeaderWorkerSet", "demo-engine")["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        assert first(template[part]["spec"])["name"] == "weights"


def test_weights_come_before_anything_else_is_waited_for(charts: Helm) -> None:
    objects = of(charts, SHARED, topology={"kind": "disaggregated", "tensorParallel": 2})
    names = [c["name"] for c in objects.pod("demo-decode")["initContainers"]]
    assert names[:2] == ["weights", "wait-for-prefill"]


def test_the_engine_loads_a_folder_and_asks_nobody(charts: Helm) -> None:
    for caches in (SHARED, NODE):
        objects = of(charts, caches)
        arguments, env = objects.container()["args"], objects.env()
        assert arguments[0] == f"/weights/Qwen/Qwen3-32B/{REVISION}"
        assert not [a for a in arguments if a.startswith("--revision")]
        assert env["HF_HUB_OFFLINE"] == "1"
        assert not {"HF_TOKEN", "HF_HUB_CACHE"} & set(env)


def test_the_token_is_with_who_downloads(charts: Helm) -> None:
    secret = {"name": "hub-token", "key": "token"}
    shared, node = of(charts, SHARED), of(charts, NODE)
    (loader,) = job(shared)["spec"]["template"]["spec"]["containers"]
    for container in (loader, first(node.pod())):
        assert container["env"] == [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": secret}}]
    assert "env" not in first(shared.pod())


def test_the_job_is_named_by_what_it_runs(charts: Helm) -> None:
    def name(**spec: Any) -> str:
        return job(of(charts, SHARED, **spec))["metadata"]["name"]

    same = name()
    assert same.startswith("demo-weights-")
    assert name(replicas=1) == name(engine={"flags": {"seed": 3}}) == same
    assert name(model={"revision": "f" * 40}) != same
    assert name(model={"uri": "hf://Qwen/Qwen3-8B"}) != same
    # Whatever else would change the Job, which may not change, changes its name.
    assert name(model={"tokenSecret": "other"}) != same


def test_a_job_stays_and_is_no_hook(charts: Helm) -> None:
    objects = of(charts, SHARED)
    assert "ttlSecondsAfterFinished" not in job(objects)["spec"]
    assert job(objects)["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    notes = [n for o in objects.all for n in o["metadata"].get("annotations", {})]
    assert not [n for n in notes if "hook" in n or n.startswith("helm.sh/hook")]


def test_a_claim_that_is_made_outlives_the_release(charts: Helm) -> None:
    claim = of(charts, SHARED).one("PersistentVolumeClaim", "demo-weights")
    assert claim["metadata"]["annotations"] == {
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    }
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "efs",
        # 66 GB and a fifth.
        "resources": {"requests": {"storage": "75532Mi"}},
    }


def test_an_existing_claim_is_filled_and_not_made(charts: Helm) -> None:
    objects = of(charts, {"weights": {"kind": "pvc", "claim": "models", "prefetch": True}})
    assert objects.of("PersistentVolumeClaim") == []
    for pod in (objects.pod(), job(objects)["spec"]["template"]["spec"]):
        assert volume(pod, "weights")["persistentVolumeClaim"]["claimName"] == "models"


def test_only_the_job_reaches_the_hub(charts: Helm) -> None:
    def https(policy: Object) -> bool:
        ports = [p for rule in policy["spec"]["egress"] for p in rule.get("ports", [])]
        return {"protocol": "TCP", "port": 443} in ports

    shared = of(charts, SHARED)
    found = {name: https(shared.one("NetworkPolicy", name)) for name in ("demo", "demo-weights")}
    assert found == {"demo": False, "demo-weights": True}
    pods = job(shared)["spec"]["template"]["metadata"]["labels"]
    selector = shared.one("NetworkPolicy", "demo-weights")["spec"]["podSelector"]["matchLabels"]
    assert selector.items() <= pods.items()
    pool = shared.one("InferencePool")["spec"]["selector"]["matchLabels"]
    assert not pool.items() <= pods.items()
    assert https(of(charts, NODE).one("NetworkPolicy"))


def test_a_nodes_disk_is_filled_by_the_first_pod(charts: Helm) -> None:
    objects = of(charts, NODE)
    pod = objects.pod()
    assert objects.of("Job") == []
    assert first(pod)["command"][2] == "fetch"
    assert volume(pod, "weights")["hostPath"] == {"path": "/mnt/nvme/weights", "type": "Directory"}
    assert (mount(first(pod), "weights")["readOnly"], mount(objects.container(), "weights")) == (
        False,
        {"name": "weights", "mountPath": "/weights", "readOnly": True},
    )


def test_an_image_volume_is_read_only_and_pinned(charts: Helm) -> None:
    uri = "oci://ghcr.io/org/weights:v1@sha256:" + "ef" * 32
    over = {"uri": uri, "revision": None, "tokenSecret": None}
    objects = charts.objects("model", values_of(model(model=over)))
    assert volume(objects.pod(), "weights")["image"] == {
        "reference": uri.removeprefix("oci://"),
        "pullPolicy": "IfNotPresent",
    }
    assert mount(objects.container(), "weights")["readOnly"] is True


@pytest.mark.parametrize(
    ("caches", "fetch", "start"),
    [(None, 0, 630), (SHARED, 330, 300), (NODE, 330, 300)],
)
def test_a_start_is_shorter_when_weights_are_there(
    caches: dict[str, Any] | None, fetch: int, start: int
) -> None:
    time = timing(model(caches=caches or {}))
    assert (time.fetch_seconds, time.start_seconds) == (fetch, start)


def test_a_simulator_that_plays_the_engine_fetches_nothing() -> None:
    release = model(caches=NODE, engine={"simulation": {}, "image": None})
    assert weights_values(stack(release), release).kind == "none"
