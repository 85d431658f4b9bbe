"""Engine pods do not get the environment of every Service in their namespace."""

from __future__ import annotations

from collections.abc import Iterator

from policies.inventory import Inventory
from policies.model import Context, Manifest, Rule, Violation
from policies.pods import DYNAMO
from policies.tree import at, mapping

_LINK = "https://kubernetes.io/docs/concepts/containers/container-environment/#cluster-information"


def _find(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    services = {
        (str(at(item, "metadata", "namespace") or "default"), str(at(item, "metadata", "name")))
        for item in inventory.objects
        if item.get("kind") == "Service" and item.get("apiVersion") == "v1" and _has_address(item)
    }
    seen: set[tuple[int, object]] = set()
    for program in inventory.programs:
        pod, engine = program.container.pod, program.engine
        links = pod.spec.get("enableServiceLinks")
        # Dynamo's operator takes the pod's own fields as they are written; others may not.
        if engine is None or links is False or (pod.completed and pod.kind not in DYNAMO):
            continue
        if (pod.index, pod.path) in seen:
            continue
        seen.add((pod.index, pod.path))
        variable = engine.port_variable
        collides = variable is not None and (pod.namespace, engine.name) in services
        because = "every Service of its namespace sets variables in it"
        if variable is not None:
            because = f"a Service called {engine.name} would set {variable}"
        if collides:
            because = f"Service {engine.name} sets {variable}=tcp://…, which stops it"
        yield Violation(
            pod.index,
            (*pod.path, "enableServiceLinks"),
            f"{pod.title} of {engine.name} has enableServiceLinks on: {because}",
            "set enableServiceLinks: false on the pod",
            "error" if collides else None,
        )


def _has_address(service: Manifest) -> bool:
    """Variables are set for a Service with an address of its own alone."""
    spec = mapping(service.get("spec"))
    return spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName"


RULE = Rule(
    id="service-links",
    severity="warning",
    title="Engine pods have service links off",
    reason="Kubernetes sets <SERVICE>_PORT=tcp://… for every Service of the namespace. One that is "
    "called like the engine overrides its own variables, such as VLLM_PORT, and it does not start.",
    remedy="Set enableServiceLinks: false on every engine pod.",
    find=_find,
    link=_LINK,
)
