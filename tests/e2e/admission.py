"""The admission policies asked by a real API server, beside the same rules in Python, as `check`
and as the Pulumi pack judge by them."""

from __future__ import annotations

import base64
import copy
import http.client
import json
import re
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from policies import RULES, Context, Manifest, check
from policies.admission import PREFIX, admission, local_rules
from policies.model import Waiver
from tests.policies.agreement import packed_rules
from tests.policies.mutations import corpus, mutants

NAMESPACE: Final = "admission-agreement"
_WAIVED: Final = Waiver(
    "image-digest", f"Deployment {NAMESPACE}/waived", "it is being mended", "team-a", "2099-12-31"
)
STRICT: Final = Context(
    profile="strict",
    local_images=frozenset({"docker.io/team/made-here", "docker.io/team/made-once:1"}),
    waivers=(_WAIVED,),
    today="2026-11-30",
)
_KINDS: Final = {
    "Pod": ("/api/v1", "pods"), "Deployment": ("/apis/apps/v1", "deployments"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "DaemonSet": ("/apis/apps/v1", "daemonsets"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"), "Job": ("/apis/batch/v1", "jobs"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
    "LeaderWorkerSet": ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
}  # fmt: skip
"""Kinds that the policies ask about and the local cluster serves: where they are created."""
NOT_SERVED: Final = frozenset({"efa-placement", "node-image", "node-metadata"})
"""Rules about kinds that only clusters on AWS have."""
_SAID: Final = re.compile(rf"Policy '{PREFIX}([a-z0-9-]+)'")


class Server:
    """An API server, as the cluster's administrator sees it."""

    def __init__(self, kubeconfig: Mapping[str, Any], folder: Path) -> None:
        """`kubeconfig` is one context with everything inside; keys are unpacked into `folder`."""
        cluster = kubeconfig["clusters"][0]["cluster"]
        user = kubeconfig["users"][0]["user"]
        self._address = cluster["server"].removeprefix("https://")
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        for name in ("certificate", "key"):
            path = folder / name
            path.write_bytes(base64.b64decode(user[f"client-{name}-data"]))
            path.chmod(0o600)
        self._context.load_cert_chain(folder / "certificate", folder / "key")
        self._connection = http.client.HTTPSConnection(
            self._address, context=self._context, timeout=60
        )

    def post(self, path: str, body: Manifest) -> tuple[int, dict[str, Any], list[str]]:
        """Status, answer and warnings."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        data = json.loads(answer.read())
        return answer.status, data, answer.headers.get_all("Warning") or []


def warning_policies() -> list[Manifest]:
    """The policies of every rule, as warnings, for the namespace of the test alone."""
    made = copy.deepcopy(admission(RULES, STRICT))
    for item in made:
        if item["kind"] == "ValidatingAdmissionPolicyBinding":
            item["spec"]["validationActions"] = ["Warn"]
            item["spec"]["matchResources"] = {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
            }
    return made


def moved(item: Manifest) -> Manifest:
    """The object in the namespace of the test."""
    metadata = {**item["metadata"], "namespace": NAMESPACE}
    return {**item, "metadata": metadata}


def asked(server: Server, item: Manifest) -> set[str] | None:
    """The rules that the API server objects by; None where it refuses the object itself."""
    base, plural = _KINDS[item["kind"]]
    path = f"{base}/namespaces/{NAMESPACE}/{plural}?dryRun=All"
    status, _, warnings = server.post(path, item)
    return None if status >= 300 else {m[1] for text in warnings for m in _SAID.finditer(text)}


def judged(item: Manifest) -> set[str]:
    """The rules of admission that object in Python, to the object alone."""
    return {finding.rule for finding in check([item], STRICT)} & local_rules()


def samples(good: dict[str, list[Manifest]]) -> Iterator[Manifest]:
    """Objects of the good manifests, and of those that are broken for each rule of admission."""
    sets = [*good.values()]
    for rule in sorted(local_rules()):
        sets += [broken for _, broken in mutants(rule, good)]
    sets.append(list(_exempt()))
    seen: set[str] = set()
    for item in (moved(item) for found in sets for item in found if item["kind"] in _KINDS):
        text = json.dumps(item, sort_keys=True)
        if text not in seen:
            seen.add(text)
            yield item


def _exempt() -> Iterator[Manifest]:
    """Deployments whose images need no digest, or are waived well and badly."""
    key = "policies.tokenworks.dev/waive.image-digest"
    made = {
        "made-here": ("team/made-here:7", {}), "made-once": ("docker.io/team/made-once:1", {}),
        "made-never": ("team/made-once:2", {}), "waived": ("team/other:1", {}),
        "annotated": ("team/other:1", {key: "it is being mended; team-a; 2099-12-31"}),
        "expired": ("team/other:1", {key: "it is being mended; team-a; 2020-12-31"}),
        "ownerless": ("team/other:1", {key: "it is being mended"}),
        "dayless": ("team/other:1", {key: "it is being mended; team-a; soon"}),
    }  # fmt: skip
    for name, (image, notes) in made.items():
        spec = {"containers": [{"name": "main", "image": image}]}
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        yield {
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "annotations": notes},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
        }  # fmt: skip


@dataclass
class Agreement:
    """How often both objected, one of them, or neither; by rule. The Pulumi pack, which judges the
    same objects, has to say what Python says."""

    both: Counter[str] = field(default_factory=Counter[str])
    python: Counter[str] = field(default_factory=Counter[str])
    server: Counter[str] = field(default_factory=Counter[str])
    neither: Counter[str] = field(default_factory=Counter[str])
    pack: Counter[str] = field(default_factory=Counter[str])
    apart: dict[str, str] = field(default_factory=dict[str, str])
    """An object of which the pack and Python say different things, by rule."""
    examples: dict[str, str] = field(default_factory=dict[str, str])
    """An object by which only the server objected, by rule."""
    objects: int = 0
    refused: int = 0
    """Objects that the API server itself does not take."""

    def count(self, item: Manifest, here: set[str], there: set[str], pack: set[str]) -> None:
        """One object, and who objected to it."""
        self.objects += 1
        self.pack.update(pack & local_rules())
        for rule in sorted((here ^ pack) & local_rules()):
            self.apart.setdefault(rule, f"{item['kind']} {item['metadata']['name']}")
        for rule in local_rules():
            cell = (rule in here, rule in there)
            counter = {
                (True, True): self.both, (True, False): self.python,
                (False, True): self.server, (False, False): self.neither,
            }[cell]  # fmt: skip
            counter[rule] += 1
            if cell == (False, True):
                self.examples.setdefault(rule, f"{item['kind']} {item['metadata']['name']}")

    def table(self) -> str:
        """Rules in lines."""
        lines = [f"{'rule':22} check  pack  admission  check only  admission only  neither"]
        lines += [
            f"{rule:22} {self.both[rule] + self.python[rule]:5}  {self.pack[rule]:4}  "
            f"{self.both[rule] + self.server[rule]:9}  {self.python[rule]:10}  "
            f"{self.server[rule]:14}  {self.neither[rule]:7}"
            for rule in sorted(local_rules())
        ]
        return "\n".join((*lines, f"{self.objects} objects, {self.refused} not taken"))


def agreement(ask: Callable[[Manifest], set[str] | None]) -> Agreement:
    """Every sample, asked of both."""
    found = Agreement()
    for item in samples(corpus()):
        there = ask(item)
        if there is None:
            found.refused += 1
        else:
            found.count(item, judged(item), there, packed_rules(item, STRICT))
    return found


def probes(rule: str) -> list[Manifest]:
    """Objects to which a rule objects, in Python; the policies are narrower, by a few of them."""
    found = [
        moved(item)
        for _, broken in mutants(rule, corpus())
        for item in broken
        if item["kind"] in _KINDS and rule in judged(moved(item))
    ]
    assert found, f"no broken object of the corpus shows {rule} by itself"
    return found
