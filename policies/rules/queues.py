"""Quota that covers what pods ask for, and serving that batch work does not push out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from policies.engines import is_accelerator
from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.pods import Pod
from policies.rules.shared import of_item, pods_of_group, replicas_of
from policies.tree import at, mapping, quantity, sequence, string_map, strings

_DOCS = "https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/"
_QUEUE = "kueue.x-k8s.io/queue-name"
_PRIORITY = "kueue.x-k8s.io/priority-class"


def _queued(inventory: Inventory) -> Iterator[tuple[Pod, Item]]:
    """Pods that wait in a queue of the set, and its cluster queue."""
    for pod in inventory.pods:
        labels = string_map(at(pod.object, "metadata", "labels"))
        name = labels.get(_QUEUE) or pod.labels.get(_QUEUE)
        if name is None:
            continue
        local = inventory.graph.find("LocalQueue", pod.namespace, name)
        if local is None:
            continue
        queue = inventory.graph.find("ClusterQueue", "", str(local.spec.get("clusterQueue")))
        if queue is not None:
            yield pod, queue


@rule(
    "queue-coverage",
    "error",
    "Queues cover every resource that pods ask for",
    "A workload that asks for something its queue has no quota for is never admitted: no pod, no "
    "message.",
    "Add the resource to coveredResources and to every flavor of the group.",
    _DOCS,
    whole_set=True,
)
def queue_coverage(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod, queue in _queued(inventory):
        covered = {
            name
            for group in sequence(queue.spec.get("resourceGroups"))
            for name in strings(mapping(group).get("coveredResources"))
        }
        for container in pod.containers:
            resources = mapping(container.spec.get("resources"))
            for side in ("requests", "limits"):
                asked = set(mapping(resources.get(side))) - covered
                missing = sorted(n for n in asked if not _converted(inventory, str(n), covered))
                if missing and covered:
                    yield Violation(
                        pod.index,
                        container.place(("resources", side, missing[0])),
                        f"{container.title} asks for {', '.join(missing)}, which ClusterQueue "
                        f"{queue.name} does not cover",
                        f"add {', '.join(missing)} to its coveredResources and its flavors, "
                        "or do not ask for it",
                    )
                    break


@rule(
    "queue-label",
    "warning",
    "The queue's name stands on the workload",
    "Kueue reads the label of the Deployment, the LeaderWorkerSet or the Job; on the pod template "
    "alone pods are admitted one by one, or run outside of every quota.",
    "Move the label kueue.x-k8s.io/queue-name to metadata.labels of the object.",
    "https://kueue.sigs.k8s.io/docs/tasks/run/deployment/",
)
def queue_label(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod in inventory.pods:
        # Kueue knows no RoleBasedGroup: only its pods can be queued, one by one.
        if pod.kind in ("Pod", "PodTemplate", "RoleBasedGroup") or len(pod.path) < 2:
            continue
        if pod.of_knative:
            continue  # its pods get the labels of the template, and of nothing else
        template = string_map(at(_template(pod), "metadata", "labels"))
        if _QUEUE in template and _QUEUE not in string_map(at(pod.object, "metadata", "labels")):
            yield Violation(
                pod.index,
                (*pod.path[:-1], "metadata", "labels", _QUEUE),
                f"{pod.title} names queue {template[_QUEUE]}, and its {pod.kind} does not",
                f"move {_QUEUE} to metadata.labels of the {pod.kind}",
            )


def _template(pod: Pod) -> object:
    value: object = pod.object
    for part in pod.path[:-1]:
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
    return value


@rule(
    "serving-priority",
    "warning",
    "Serving is not pushed out by batch work",
    "A queue that preempts inside itself evicts engines without a priority like any other job.",
    "Give serving a higher WorkloadPriorityClass, or a queue that preempts nobody.",
    "https://kueue.sigs.k8s.io/docs/concepts/preemption/",
    whole_set=True,
)
def serving_priority(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    told: set[int] = set()
    for pod, queue in _queued(inventory):
        preemption = mapping(queue.spec.get("preemption"))
        inside = str(preemption.get("withinClusterQueue") or "Never")
        if inside == "Never" or pod.index in told or not _serves(inventory, pod):
            continue
        labels = string_map(at(pod.object, "metadata", "labels"))
        if _PRIORITY in labels or pod.spec.get("priorityClassName"):
            continue
        told.add(pod.index)
        yield Violation(
            pod.index,
            ("metadata", "labels"),
            f"serves without a priority in ClusterQueue {queue.name}, which preempts inside itself "
            f"({inside})",
            f"set the label {_PRIORITY}, or withinClusterQueue: Never",
        )


def _serves(inventory: Inventory, pod: Pod) -> bool:
    programs = inventory.of_pod(pod)
    return pod.long_running and any(program.mode != "none" for program in programs)


@rule(
    "queue-preemption",
    "warning",
    "Queues of serving do not preempt among equals",
    "With LowerOrNewerEqualPriority an older workload evicts newer ones of its own priority: a "
    "model that waits takes the GPUs of one that serves, its own rollout's among them. A queue of "
    "the cohort that reclaims from Any takes back what serving borrowed, whatever its priority.",
    "Set preemption.withinClusterQueue to Never, or to LowerPriority, in queues of serving, and "
    "reclaimWithinCohort to LowerPriority in those that share their cohort.",
    "https://kueue.sigs.k8s.io/docs/concepts/preemption/",
    whole_set=True,
)
def queue_preemption(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    told: set[int] = set()
    for pod, queue in _queued(inventory):
        inside = str(mapping(queue.spec.get("preemption")).get("withinClusterQueue") or "Never")
        if inside != "LowerOrNewerEqualPriority" or queue.index in told:
            continue
        if _serves(inventory, pod):
            told.add(queue.index)
            yield of_item(
                queue,
                ("spec", "preemption", "withinClusterQueue"),
                f"evicts newer workloads of equal priority for older ones, and {pod.kind} "
                f"{pod.name} serves in it",
                "set withinClusterQueue: Never",
            )


@rule(
    "queue-cohort",
    "warning",
    "Serving keeps the quota of its queue",
    "Queues of one cohort lend each other what they do not use. A queue of serving that takes "
    "nothing back waits for batch work to end before it can scale; one whose engines need more "
    "than its own loses them as soon as the lender wants its quota back from anybody.",
    "Give the queue of serving the quota that it uses, with reclaimWithinCohort: Any or "
    "LowerPriority, and LowerPriority to those that it borrows from.",
    "https://kueue.sigs.k8s.io/docs/concepts/preemption/",
    whole_set=True,
)
def queue_cohort(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    sizes = Counter(map(_cohort, inventory.graph.of_kind("ClusterQueue")))
    told: set[int] = set()
    for pod, queue in _queued(inventory):
        alone = not _cohort(queue) or sizes[_cohort(queue)] < 2
        if alone or queue.index in told or not _serves(inventory, pod):
            continue
        told.add(queue.index)
        if _reclaims(queue) == "Never" and _lent(queue) is not None:
            yield of_item(
                queue,
                ("spec", "preemption", "reclaimWithinCohort"),
                f"lends its quota to cohort {_cohort(queue)} and takes nothing back "
                f"(reclaimWithinCohort: Never): {pod.kind} {pod.name} waits until others are done",
                "set reclaimWithinCohort: Any, or LowerPriority with a priority for serving, or "
                "lendingLimit: 0",
            )
    yield from _reclaimed(inventory)


def _reclaimed(inventory: Inventory) -> Iterator[Violation]:
    """Queues that take back what serving certainly borrows, whatever its priority is."""
    borrowers: dict[str, list[tuple[Item, Pod]]] = {}
    for queue, pod in _borrowing(inventory):
        borrowers.setdefault(_cohort(queue), []).append((queue, pod))
    for other in inventory.graph.of_kind("ClusterQueue"):
        if not _cohort(other) or _reclaims(other) != "Any":
            continue
        of_others = (b for b in borrowers.get(_cohort(other), []) if b[0].index != other.index)
        if found := next(of_others, None):
            queue, serving = found
            yield of_item(
                other,
                ("spec", "preemption", "reclaimWithinCohort"),
                f"takes back from workloads of any priority, and {serving.kind} {serving.name} "
                f"serves on GPUs that ClusterQueue {queue.name} borrows",
                "set reclaimWithinCohort: LowerPriority, or give serving's queue the quota that it "
                "uses",
            )


def _converted(inventory: Inventory, name: str, covered: set[str]) -> bool:
    """Whether Kueue may count another resource for this one, or none.

    `resources.transformations` and `excludeResourcePrefixes` of its configuration say so, which
    is a text of the set; or a name that the queue covers for it, as total-gpucores for the
    gpucores of HAMi's GPUs (https://kueue.sigs.k8s.io/docs/tasks/run/using_hami/, read 2026-12-01).
    """
    domain, _, own = name.rpartition("/")
    if own and any(o.startswith(f"{domain}/") and o.endswith(f"-{own}") for o in covered):
        return True
    return any(
        name in text and "kind: Configuration" in text
        for item in inventory.graph.of_kind("ConfigMap")
        for text in string_map(item.manifest.get("data")).values()
    )


def _cohort(queue: Item) -> str:
    """`cohortName` since v1beta2, `cohort` before."""
    return str(queue.spec.get("cohortName") or queue.spec.get("cohort") or "")


def _borrowing(inventory: Inventory) -> Iterator[tuple[Item, Pod]]:
    """Queues whose engines ask for more than the queue's own quota, each with a pod of them."""
    asked: dict[tuple[int, str], Fraction] = {}
    serving: dict[tuple[int, str], tuple[Item, Pod]] = {}
    for pod, queue in _queued(inventory):
        if not _serves(inventory, pod):
            continue
        for name, amount in _accelerators(pod):
            key = queue.index, name
            asked[key] = asked.get(key, Fraction(0)) + amount * _copies(pod)
            serving[key] = queue, pod
    for key, amount in asked.items():
        queue, pod = serving[key]
        quota = _quota(queue, key[1])
        if quota is not None and amount > quota:
            yield queue, pod


def _accelerators(pod: Pod) -> Iterator[tuple[str, Fraction]]:
    for container in pod.containers:
        for name, value in mapping(at(container.spec, "resources", "limits")).items():
            amount = quantity(value)
            if amount is not None and is_accelerator(str(name)):
                yield str(name), amount


def _copies(pod: Pod) -> int:
    """Pods of a template."""
    size = pods_of_group(pod)
    each = 1 if size is None or pod.role == "leader" else size - 1 if pod.role == "worker" else size
    return replicas_of(pod) * each


def _quota(queue: Item, resource: str) -> Fraction | None:
    """What a queue has of a resource; None where it does not cover it, or does not say."""
    amounts = [
        quantity(mapping(entry).get("nominalQuota"))
        for group in sequence(queue.spec.get("resourceGroups"))
        for flavor in sequence(mapping(group).get("flavors"))
        for entry in sequence(mapping(flavor).get("resources"))
        if mapping(entry).get("name") == resource
    ]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Fraction(0)) if known and len(known) == len(amounts) else None


def _reclaims(queue: Item) -> str:
    return str(mapping(queue.spec.get("preemption")).get("reclaimWithinCohort") or "Never")


def _lent(queue: Item) -> Path | None:
    """The limit of the first GPU quota that may be lent; None where none may."""
    for group, entry in enumerate(sequence(queue.spec.get("resourceGroups"))):
        for position, flavor in enumerate(sequence(mapping(entry).get("flavors"))):
            for number, resource in enumerate(sequence(mapping(flavor).get("resources"))):
                given = mapping(resource)
                if quantity(given.get("nominalQuota")) == 0:
                    continue  # it has nothing to lend
                free = quantity(given.get("lendingLimit")) != 0
                if free and is_accelerator(str(given.get("name"))):
                    home = ("spec", "resourceGroups", group, "flavors", position, "resources")
                    return (*home, number, "lendingLimit")
    return None


ALL = (queue_coverage, queue_label, serving_priority, queue_preemption, queue_cohort)
