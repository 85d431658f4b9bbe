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


SAYS = {
    'error: context "none" does not exist': "the kubeconfig has no context none",
    "Error in configuration: context was not found for specified context: dev":
        "the kubeconfig has no context dev",
    "error: stat /nosuch: no such file or directory": "there is no kubeconfig /nosuch",
    'E1130 04:05:21 9440 memcache.go:265] "Unhandled Error"\nUnable to connect to the server: dial '
    "tcp: lookup a.invalid on 10.0.0.1:53: no such host":
        "the cluster does not answer: no such host",
    "The connection to the server 127.0.0.1:1 was refused - did you specify the right host?":
        "the cluster does not answer: the connection to the server 127.0.0.1:1 was refused",
    "Unable to connect to the server: getting credentials: exec: executable aws not found\n\nTo "
    "learn more": "aws, which the kubeconfig asks for credentials, is not there",
    "Please enter Username: error: EOF": "the kubeconfig has no credentials",
    "error: You must be logged in to the server (Unauthorized)": "does not accept the credentials",
    'Error from server (Forbidden): pods is forbidden: User "jo" cannot list resource "pods" in '
    'API group "" in the namespace "a"': "user jo may not list pods",
    "error: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: the "
    "server is currently unable to handle the request": "does not answer: metrics.k8s.io/v1beta1",
    "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed "
    "by unknown authority":
        "certificate is not trusted: certificate signed by unknown authority",
    "error: something new": "something new",
    "": "kubectl ended with exit code 3",
}  # fmt: skip
"""What kubectl prints, and what is said of it."""


@pytest.mark.parametrize(("printed", "said"), SAYS.items())
def test_a_kubectl_that_fails_is_said_with_its_cause(
    tmp_path: Path, printed: str, said: str
) -> None:
    script = tmp_path / "kubectl.py"
    script.write_text(f"import sys\nsys.stderr.write({printed!r})\nsys.exit(3)\n")
    with pytest.raises(TokenworksError) as raised:
        live_objects([sys.executable, str(script)], "team-a")
    text = str(raised.value)
    assert said in text
    assert "\n" not in text and "memcache" not in text and not text.startswith("error")
