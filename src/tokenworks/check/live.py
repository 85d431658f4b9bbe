"""`check ENV --live NAMESPACE`: what runs there, as it would have been written.

Read through kubectl: every kind of the namespace that can be listed, save Secrets, whose contents
are nobody's business, and what controllers made from objects that are judged themselves.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from policies import Context, Manifest, evaluate
from tokenworks.check.kubectl import reason
from tokenworks.check.report import Report
from tokenworks.errors import TokenworksError

_LEFT: Final = frozenset(
    {
        "secrets", "events", "events.events.k8s.io", "endpoints", "leases.coordination.k8s.io",
        "endpointslices.discovery.k8s.io", "controllerrevisions.apps", "bindings",
        "localsubjectaccessreviews.authorization.k8s.io", "pods.metrics.k8s.io",
        "workloads.kueue.x-k8s.io",
    }
)  # fmt: skip
"""Resources that nobody writes, or that are not ours to read."""
_MADE: Final = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp")
_NOTES: Final = ("kubectl.kubernetes.io/last-applied-configuration",)


def check_live(kubectl: Sequence[str], namespace: str, context: Context) -> Report:
    """The rules over what a namespace of the cluster holds.

    Raises TokenworksError when kubectl fails.
    """
    objects = live_objects(kubectl, namespace)
    found = tuple(finding for _, finding in evaluate(objects, context, known=True))
    return Report(found, len(objects), f"namespace {namespace} of the cluster")


def live_objects(kubectl: Sequence[str], namespace: str) -> list[Manifest]:
    """The objects of a namespace, without what the cluster added. See `check_live`."""
    listed = _run([*kubectl, "api-resources", "--verbs=list", "--namespaced=true", "-o", "name"])
    names = sorted(set(listed.split()) - _LEFT)
    text = _run([*kubectl, "-n", namespace, "get", ",".join(names), "-o", "json"])
    try:
        items = cast("list[Manifest]", json.loads(text)["items"])
    except (ValueError, KeyError, TypeError):
        raise TokenworksError("kubectl get answered with something that is no list") from None
    return list(written(items))


def written(items: Sequence[Manifest]) -> Iterator[Manifest]:
    """The objects that somebody wrote, as they were written."""
    for item in items:
        metadata: Mapping[str, Any] = item.get("metadata") or {}
        if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
            continue
        given: Mapping[str, Any] = metadata.get("annotations") or {}
        notes = {key: value for key, value in given.items() if key not in _NOTES}
        kept = {key: value for key, value in metadata.items() if key not in _MADE}
        yield {
            **{key: value for key, value in item.items() if key != "status"},
            "metadata": {**kept, **({"annotations": notes} if notes else {})},
        }


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise TokenworksError(reason(done.stderr, done.returncode))
    return done.stdout
