"""What several rules need: where a flag stands, sentences about a container, sizes of a group."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from policies.commands import placed_words
from policies.engines import Program
from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Path, Severity, Violation
from policies.pods import DYNAMO, Pod, descend
from policies.tree import integer, mapping, sequence
from tokenworks.catalog.commandline import grammars

RAY_PORTS = {6379: "Ray's head", 8265: "Ray's dashboard", 10001: "Ray's client port"}
INTERNAL = {
    **RAY_PORTS, 29500: "the rendezvous of ranks", 29501: "the rendezvous of ranks",
    29550: "the data ranks' own port", 5557: "KV events", 5600: "NIXL's side channel",
    8998: "the bootstrap of transfers", 25000: "the rendezvous of ranks",
}  # fmt: skip
"""Ports that run code, or believe everything, for whoever reaches them."""

_FLAG = re.compile(r"(?:^|[\s'\"])--?([A-Za-z][\w.-]*)")


def about(
    program: Program, path: Path, message: str, remedy: str, severity: Severity | None = None
) -> Violation:
    """A violation of a container; `path` begins at the container."""
    container = program.container
    # What a script says stands there, and everything else in the object.
    title = program.started if path[:1] in (("command",), ("args",)) else program.title
    return Violation(
        container.pod.index,
        container.place(path),
        f"{title} {_in_words_of(program, message)}",
        _in_words_of(program, remedy),
        severity,
    )


_DASHED = re.compile(r"--([a-z][\w-]*)")


def _in_words_of(program: Program, text: str) -> str:
    """Flags as they are written where the engine is started: `--x-y`, or engine_kwargs.x_y."""
    if program.container.kind != "model":
        return text
    shown = text.replace(" a --", " an --")
    return _DASHED.sub(lambda match: f"engine_kwargs.{match[1].replace('-', '_')}", shown)


def of_pod(
    pod: Pod, path: Path, message: str, remedy: str, severity: Severity | None = None
) -> Violation:
    """A violation of a pod; `path` begins at the pod's spec."""
    return Violation(pod.index, (*pod.path, *path), f"{pod.title} {message}", remedy, severity)


def of_item(
    item: Item, path: Path, message: str, remedy: str, severity: Severity | None = None
) -> Violation:
    """A violation of an object; `path` begins at the object."""
    return Violation(item.index, path, message, remedy, severity)


def flag_path(program: Program, *names: str) -> Path:
    """Where a flag is written, in a container: its word, the script, or the words as a whole."""
    wanted = {*names, *_aliases(program, names)}
    grammar = grammars().get(program.line.engine or "")

    def means(name: str) -> bool:
        found = grammar.find(f"--{name}") if grammar is not None else None
        return name.replace("_", "-") in wanted or (found is not None and found[0] in names)

    return _place(program, lambda word: any(map(means, _FLAG.findall(word))))


def _place(program: Program, sought: Callable[[str], bool]) -> Path:
    """Where a word stands that is sought; the arguments come first, and no one word last."""
    spec = program.container.spec
    found = [path for path, word in placed_words(spec) if sought(str(word))]
    key = "args" if spec.get("args") else "command"
    return next((p for p in found if p[0] == "args"), found[0] if found else (key,))


def _aliases(program: Program, names: tuple[str, ...]) -> Iterator[str]:
    grammar = grammars().get(program.line.engine or "")
    if grammar is not None:
        for table in (grammar.long, grammar.short):
            yield from (other for other, (name, _) in table.items() if name in names)


def env_path(program: Program, name: str) -> Path:
    """Where a variable is written, in a container."""
    for position, item in enumerate(sequence(program.container.spec.get("env"))):
        if mapping(item).get("name") == name:
            return ("env", position)
    return ("env",)


def pods_of_group(pod: Pod) -> int | None:
    """Pods of the group that this template belongs to; None where it is in none."""
    if pod.kind in DYNAMO:
        return _group_of_dynamo(pod)
    if pod.role == "pod" and "leaderWorkerPattern" not in pod.path:
        return None
    if pod.kind.startswith("Ray"):
        return None
    if str(pod.object.get("apiVersion")).startswith("ome.io/"):
        return _group_of_ome(pod)
    value: object = pod.object
    size: int | None = None
    for part in pod.path:
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
        found = mapping(value).get("size")
        if isinstance(found, int) and not isinstance(found, bool):
            size = found
    if size is None and "leaderWorkerTemplate" in pod.path:
        return 1
    return size


def _group_of_dynamo(pod: Pod) -> int | None:
    """Pods that a component of Dynamo's spreads over, one a node (`multinode.nodeCount`)."""
    for length in range(len(pod.path), 0, -1):
        nodes = mapping(mapping(descend(pod.object, pod.path[:length])).get("multinode"))
        count = integer(nodes.get("nodeCount"), 1)
        if nodes:
            return count if count and count > 1 else None
    return None


def _group_of_ome(pod: Pod) -> int | None:
    """OME counts a group's workers beside its leader (`worker.size`)."""
    parts = [part for part in ("leader", "worker") if part in pod.path]
    holder = descend(pod.object, pod.path[: pod.path.index(parts[0])]) if parts else None
    size = mapping(mapping(holder).get("worker")).get("size")
    return size + 1 if isinstance(size, int) and not isinstance(size, bool) else None


def replicas_of(pod: Pod) -> int:
    """Replicas that the object of a pod asks for; 1 where it does not say."""
    value: object = pod.object
    found = 1
    for part in pod.path:
        replicas = mapping(value).get("replicas")
        if replicas is None:
            replicas = mapping(value).get("minReplicas")
        number = integer(replicas, found)
        found = found if number is None else number
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
    return found


def absent(
    inventory: Inventory, context: Context, kind: str, namespace: str, name: str
) -> Severity | None:
    """How bad it is that nothing of this name is there; None where it is, or may be elsewhere.

    A set that brings other objects of the kind in that namespace, or one that is called nearly
    the same, is taken to be meant; only a whole environment is known to be all there is. What
    controllers and people make too counts only where the set holds one that nobody uses.
    """
    graph = inventory.graph
    there = graph.find(kind, namespace, name) is not None or graph.made(kind, namespace, name)
    if there or not name or _PLACEHOLDER.search(name):
        return None
    if namespace in context.platform_namespaces or namespace.startswith("kube-"):
        return None
    if graph.near(kind, namespace, name):
        return "error"
    if kind in _OUTSIDE:
        return "warning" if graph.orphan(kind, namespace) else None
    if context.whole:
        return "error"
    return "warning" if graph.brings(kind, namespace) else None


_PLACEHOLDER = re.compile(r"[${}<>]")
_OUTSIDE = frozenset({"PersistentVolumeClaim", "Secret", "ConfigMap", "ServiceAccount"})
"""Kinds that others make too: controllers, people, jobs."""


def instead(inventory: Inventory, kind: str, namespace: str, name: str) -> str:
    """`; did you mean x?`, or nothing."""
    near = inventory.graph.near(kind, namespace, name)
    return f"; did you mean {near}?" if near else ""


_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_model(program: Program) -> str | None:
    """The name on the hub of the weights that an engine loads; None for paths and other sources."""
    model = program.line.model
    if not isinstance(model, str) or not _HUB.fullmatch(model):
        return None
    return model


def model_flag(program: Program) -> Path:
    """Where the weights are named: a word, or the variables where none of them does."""
    model, spec = str(program.line.model), program.container.spec
    place = _place(program, lambda word: model in word)
    told = model in program.container.told.values()
    if told and not any(model in str(word) for _, word in placed_words(spec)):
        return ("envFrom",) if spec.get("envFrom") else ("env",)
    return place
