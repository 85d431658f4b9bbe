"""Engine pods do not get the environment of every Service in their namespace."""

from __future__ import annotations

from collections.abc import Iterator

from policies.engines import Engine, Program, engine_called, engine_of
from policies.inventory import Inventory
from policies.model import Context, Manifest, Rule, Violation
from policies.pods import DYNAMO, Pod
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
        pod = program.container.pod
        engine = program.engine or _left_to_kserve(program) or _joined(program)
        links = pod.spec.get("enableServiceLinks")
        # Of pods that operators complete, these take the pod's own fields as they are written.
        taken = pod.kind in DYNAMO or _of_kserve(pod)
        if engine is None or links is False or (pod.completed and not taken) or pod.of_knative:
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


def _left_to_kserve(program: Program) -> Engine | None:
    """vLLM, which KServe starts in its main container where image and command are left to it."""
    container = program.container
    given = any(container.spec.get(key) for key in ("image", "command"))
    ours = _of_kserve(container.pod) and container.name == "main" and not given
    return engine_called("vllm") if ours else None


def _joined(program: Program) -> Engine | None:
    """The engine that Ray starts in a worker, of which only the image tells."""
    container = program.container
    if "workerGroupSpecs" not in container.pod.path or container.kind != "container":
        return None
    return engine_of(container.image)


def _of_kserve(pod: Pod) -> bool:
    """A template that KServe lays over its own, which say nothing about links: kserve/kserve,
    config/llmisvcconfig/*.yaml, read 2026-11-30. Base configurations may."""
    return pod.kind == "LLMInferenceService" and not at(pod.object, "spec", "baseRefs")


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
