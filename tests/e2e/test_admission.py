"""Admission in the cluster, and `check --live`: rules where objects arrive, and where they run."""

from __future__ import annotations

import json
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
import yaml

from policies import RULES, Manifest
from policies.admission import PREFIX, admission, local_rules
from tests.e2e.admission import (
    NAMESPACE,
    NOT_SERVED,
    STRICT,
    Server,
    agreement,
    asked,
    probes,
    warning_policies,
)
from tests.e2e.platform import Platform, eventually
from tests.policies.builders import LABELS, Object, deployment, engine, network_policy, pod

pytestmark = pytest.mark.e2e

SERVED = sorted(local_rules() - NOT_SERVED)
LIVE = "check-live"
DENIED = "admission-denied"
SIMULATOR = "ghcr.io/tokenworks/simulator:0.1.0"
PLAYED = ["/usr/bin/python3", "-m", "simulator", "--as", "vllm", "--"]


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def denial(rule: str) -> Manifest:
    """A rule's own binding, for one namespace."""
    name = f"{PREFIX}{rule}"
    made = next(m for m in admission(RULES, STRICT) if m["spec"].get("policyName") == name)
    assert made["spec"]["validationActions"] == ["Deny"]
    labels = {"kubernetes.io/metadata.name": DENIED}
    where = {"namespaceSelector": {"matchLabels": labels}}
    return {
        **made,
        "metadata": {"name": f"{name}-denied"},
        "spec": {**made["spec"], "matchResources": where},
    }


def given(platform: Platform, folder: Path, objects: list[Manifest]) -> Path:
    """The objects, created; the file that holds them."""
    path = folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    platform.kubectl("apply", "--server-side", "-f", str(path))
    return path


@pytest.fixture(scope="module")
def server(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """The API server, with every admission policy bound to one namespace."""
    folder = tmp_path_factory.mktemp("admission")
    config = platform.kubectl("config", "view", "--raw", "--minify", "-o", "json")
    spaces = [namespace(NAMESPACE), namespace(DENIED)]
    path = given(platform, folder, [*spaces, *warning_policies(), denial("queue-label")])
    yield Server(json.loads(config), folder)
    platform.kubectl("delete", "--wait=false", "-f", str(path))


def test_every_policy_is_asked(server: Server) -> None:
    for rule in SERVED:
        eventually(f"{rule} is asked", partial(_objects, server, probes(rule), rule))


def _objects(server: Server, items: list[Manifest], rule: str) -> bool:
    return any(rule in (asked(server, item) or ()) for item in items)


def test_the_server_agrees_with_python(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    found = agreement(lambda item: asked(server, item))
    with capsys.disabled():
        print(f"\n{found.table()}")
    # Narrower than in Python, and never wider.
    assert found.examples == {}
    assert found.apart == {}
    assert {rule for rule in SERVED if not found.both[rule]} == set()
    assert found.objects > 10 * found.refused


def test_errors_are_denied_in_the_words_of_the_rule(server: Server) -> None:
    item = probes("queue-label")[0]
    item["metadata"]["namespace"] = DENIED

    def denied() -> str:
        path = f"/apis/apps/v1/namespaces/{DENIED}/deployments?dryRun=All"
        status, answer, _ = server.post(path, item)
        return answer["message"] if status == 422 else ""

    rule = next(rule for rule in RULES if rule.id == "queue-label")
    assert f"[queue-label] {rule.title}. Remedy: {rule.remedy}" in eventually(
        "it is denied", denied
    )


def _played(**changes: object) -> Object:
    args = ["/models/qwen", "--max-model-len", "8192"]
    return engine(image=SIMULATOR, command=PLAYED, args=args, **changes)


@pytest.fixture
def live(platform: Platform, tmp_path: Path) -> Generator[str]:
    """A namespace with a sound Deployment and one without probes; no pod of them is started."""
    sound = deployment(pod(_played()), replicas=0)
    broken = deployment(pod(_played(readinessProbe=None), enableServiceLinks=True), replicas=0)
    broken["metadata"]["name"] = "broken"
    objects = [sound, broken, network_policy()]
    for item in objects:
        item["metadata"]["namespace"] = LIVE
    for item in (sound, broken):
        item["spec"]["selector"] = {"matchLabels": LABELS}
    path = given(platform, tmp_path, [namespace(LIVE), *objects])
    yield LIVE
    platform.kubectl("delete", "--wait=false", "-f", str(path))


def test_what_runs_is_judged_as_it_was_written(platform: Platform, live: str) -> None:
    done = platform.run("check", "local", "--live", live, "--format", "json", check=False)
    findings = json.loads(done.stdout[done.stdout.index("[") : done.stdout.rindex("]") + 1])
    assert done.returncode == 1
    assert {(f["object"], f["rule"]) for f in findings} == {
        (f"Deployment {live}/broken", "readiness-probe"),
        (f"Deployment {live}/broken", "service-links"),
    }
