"""A namespace of a cluster, through kubectl: what was written is judged, what was made is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from policies import Context
from tests.policies.builders import Object, deployment, engine, network_policy, pod
from tokenworks.check.live import check_live, live_objects
from tokenworks.errors import TokenworksError

FAKE = """
import json, sys
if "api-resources" in sys.argv:
    print("pods\\nsecrets\\ndeployments.apps\\nnetworkpolicies.networking.k8s.io")
    sys.exit()
assert "secrets" not in " ".join(sys.argv), sys.argv
print(open({path!r}).read())
"""


def kubectl(folder: Path, answer: object) -> list[str]:
    """A program that answers like kubectl."""
    data, script = folder / "answer", folder / "kubectl.py"
    data.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    script.write_text(FAKE.replace("{path!r}", repr(str(data))))
    return [sys.executable, str(script)]


def living(item: Object, **metadata: Any) -> Object:
    """The object as a cluster gives it back."""
    meta = {**item["metadata"], "uid": "1", "managedFields": [{}], **metadata}
    return {**item, "metadata": meta, "status": {"replicas": 1}}


def test_what_runs_is_judged(tmp_path: Path) -> None:
    owner = [{"controller": True, "kind": "ReplicaSet", "name": "llama-1"}]
    items = [
        living(deployment(pod(engine(livenessProbe=None)))),
        living(network_policy()),
        living({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, ownerReferences=owner),
    ]
    report = check_live(kubectl(tmp_path, {"items": items}), "team-a", Context())
    assert [finding.rule for finding in report.findings] == ["liveness-probe"]
    assert report.summary() == (
        "checked 2 objects in namespace team-a of the cluster: 1 error, 0 warnings"
    )


def test_what_the_cluster_added_is_left_out(tmp_path: Path) -> None:
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "own": "kept"}
    item = living(network_policy(), annotations=notes)
    found = live_objects(kubectl(tmp_path, {"items": [item]}), "team-a")[0]
    assert found["metadata"] == {**network_policy()["metadata"], "annotations": {"own": "kept"}}
    assert "status" not in found


@pytest.mark.parametrize("answer", ["no json", "[]", "{}"])
def test_odd_answers_are_said(tmp_path: Path, answer: str) -> None:
    with pytest.raises(TokenworksError, match="no list"):
        live_objects(kubectl(tmp_path, answer), "team-a")


def test_a_kubectl_that_fails_is_said() -> None:
    with pytest.raises(TokenworksError, match="kubectl"):
        live_objects([sys.executable, "-c", "raise SystemExit('unreachable')"], "team-a")
