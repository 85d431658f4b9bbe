"""Volumes that every pod can mount, weights that are found, caches that can be written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.commands import placed_words
from policies.engines import Program
from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.pods import DYNAMO, Container, Pod, descend
from policies.rules.rollout import surge_of
from policies.rules.shared import (
    COMMIT,
    about,
    absent,
    flag_path,
    hub_model,
    instead,
    model_flag,
    of_item,
    of_pod,
    pods_of_group,
    replicas_of,
)
from policies.tree import at, integer, is_mapping, mapping, sequence, string_map, strings
from policies.weights import named_weights
from tokenworks.catalog.commandline import grammars

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes"
_HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


def _claims(pod: Pod) -> Iterator[tuple[int, str]]:
    for position, volume in enumerate(sequence(pod.spec.get("volumes"))):
        claim = mapping(mapping(volume).get("persistentVolumeClaim")).get("claimName")
        if isinstance(claim, str):
            yield position, claim


def _one_node(claim: Item) -> bool:
    """Whether the claim can be mounted on one node only."""
    modes = set(strings(claim.spec.get("accessModes")))
    return bool(modes) and modes <= {"ReadWriteOnce", "ReadWriteOncePod"}


def _shared_claims(inventory: Inventory) -> Iterator[tuple[Pod, int, Item]]:
    for pod in inventory.pods:
        for position, name in _claims(pod):
            claim = inventory.graph.find("PersistentVolumeClaim", pod.namespace, name)
            if claim is not None and _one_node(claim):
                yield pod, position, claim


@rule(
    "claim-shared",
    "error",
    "Volumes of one node are not shared by pods of several",
    "A ReadWriteOnce volume is attached to one node: pods on other nodes wait for it for ever.",
    "Use ReadWriteMany or ReadOnlyMany, or a claim for each pod (volumeClaimTemplates).",
    _VOLUMES,
    whole_set=True,
)
def claim_shared(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod, position, claim in _shared_claims(inventory):
        why = _several(inventory, pod)
        if why:
            yield of_pod(
                pod,
                ("volumes", position, "persistentVolumeClaim", "claimName"),
                f"mounts {claim.name}, which is ReadWriteOnce, {why}",
                "make the claim ReadWriteMany or ReadOnlyMany, or give each pod its own",
            )
    yield from _held_twice(inventory)
    for item in inventory.graph.of_kind("NIMService"):
        yield from _nim_shared(inventory, item)
    for item in inventory.graph.of_kind("ArksApplication"):
        yield from _arks_shared(inventory, item)


def _held_twice(inventory: Inventory) -> Iterator[Violation]:
    """Claims of one node that several objects with pods that stay mount."""
    first: dict[tuple[str, str], Pod] = {}
    for pod, position, claim in _shared_claims(inventory):
        if not pod.long_running or not replicas_of(pod):
            continue
        holder = first.setdefault((claim.namespace, claim.name), pod)
        if holder.index != pod.index:
            yield of_pod(
                pod,
                ("volumes", position, "persistentVolumeClaim", "claimName"),
                f"mounts {claim.name}, which is ReadWriteOnce, beside {holder.kind} {holder.name}",
                "make the claim ReadWriteMany or ReadOnlyMany, or give each its own",
            )


def _nim_shared(inventory: Inventory, service: Item) -> Iterator[Violation]:
    """A NIMService and the volume that its operator makes for it or for its cache."""
    storage = mapping(service.spec.get("storage"))
    path, claim = ("spec", "storage", "pvc"), mapping(storage.get("pvc"))
    name = mapping(storage.get("nimCache")).get("name")
    cache = inventory.graph.find("NIMCache", service.namespace, str(name)) if name else None
    if cache is not None:
        path = ("spec", "storage", "nimCache", "name")
        claim = mapping(mapping(cache.spec.get("storage")).get("pvc"))
    most = integer(service.spec.get("replicas"), 1) or 1
    scale = mapping(service.spec.get("scale"))
    if scale.get("enabled") is True:
        most = integer(mapping(scale.get("hpa")).get("maxReplicas"), most) or most
    mode = claim.get("volumeAccessMode")
    if mode in ("ReadWriteOnce", "ReadWriteOncePod") and most > 1:
        yield of_item(
            service,
            path,
            f"runs up to {most} pods on one volume that is {mode}",
            "set volumeAccessMode: ReadWriteMany, with a storage class that has it",
        )


def _arks_shared(inventory: Inventory, application: Item) -> Iterator[Violation]:
    """An ArksApplication and the claim of its ArksModel, which all of its pods mount: scitix/arks,
    api/v1/arksmodel_types.go, read 2026-12-01."""
    name = mapping(application.spec.get("model")).get("name")
    model = inventory.graph.find("ArksModel", application.namespace, str(name))
    claim = mapping(at(model.spec, "storage", "pvc", "spec") if model else None)
    modes = strings(claim.get("accessModes"))
    counts = [integer(application.spec.get(key), 1) or 1 for key in ("replicas", "size")]
    most = counts[0] * counts[1]
    if modes and most > 1 and all(mode.startswith("ReadWriteOnce") for mode in modes):
        yield of_item(
            application,
            ("spec", "model", "name"),
            f"runs {most} pods on one volume that is {modes[0]} (ArksModel {name})",
            "set accessModes of the model's claim to ReadWriteMany, with a storage class that "
            "has it",
        )


def _several(inventory: Inventory, pod: Pod) -> str | None:
    """Why there are several pods of one template; None where there is one."""
    size = pods_of_group(pod)
    if size is not None and size > 1:
        return f"in a group of {size} pods"
    if pod.kind == "DaemonSet":
        return "on every node"
    replicas = replicas_of(pod)
    if replicas > 1 and pod.long_running:
        return f"in {replicas} replicas"
    most = _most(inventory, pod)
    return f"and is scaled to up to {most} replicas" if most > 1 else None


def _most(inventory: Inventory, pod: Pod) -> int:
    """Replicas that an autoscaler may make."""
    found = 1
    scalers = [s for kind in _SCALERS for s in inventory.graph.of_namespace(kind, pod.namespace)]
    for scaler in scalers:
        target = mapping(scaler.spec.get("scaleTargetRef"))
        kind = target.get("kind") or "Deployment"
        if (kind, target.get("name")) == (pod.kind, pod.name):
            key = "maxReplicas" if scaler.kind == "HorizontalPodAutoscaler" else "maxReplicaCount"
            found = max(found, integer(scaler.spec.get(key), 100) or 1)
    return found


@rule(
    "claim-surge",
    "warning",
    "A rollout does not need one volume on two nodes",
    "The new pod of a surge waits for a ReadWriteOnce volume that the old one holds, and the old "
    "one goes only when the new one is ready.",
    "Set strategy type Recreate, or maxSurge 0 with maxUnavailable 1.",
    _VOLUMES,
    whole_set=True,
)
def claim_surge(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod, position, claim in _shared_claims(inventory):
        if pod.kind == "Deployment" and surge_of(pod) and _several(inventory, pod) is None:
            yield of_pod(
                pod,
                ("volumes", position, "persistentVolumeClaim", "claimName"),
                f"mounts {claim.name}, which is ReadWriteOnce, and a rollout starts a second pod "
                "before it stops the first",
                "set strategy.type to Recreate, or maxSurge: 0 and maxUnavailable: 1",
            )


@rule(
    "missing-volume",
    "error",
    "Mounts name volumes of their pod",
    "The API server refuses a pod whose mount names no volume: the Deployment is accepted, and its "
    "pods are never made.",
    "Add the volume to the pod, or correct the name in volumeMounts.",
    "https://kubernetes.io/docs/concepts/storage/volumes/",
)
def missing_volume(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pod in inventory.pods:
        if pod.custom:
            continue
        names = {str(mapping(v).get("name")) for v in sequence(pod.spec.get("volumes"))}
        names |= _templates(pod)
        for container in pod.containers:
            for key in ("volumeMounts", "volumeDevices"):
                for position, mount in enumerate(sequence(container.spec.get(key))):
                    name = mapping(mount).get("name")
                    if isinstance(name, str) and name not in names:
                        yield Violation(
                            pod.index,
                            container.place((key, position, "name")),
                            f'{container.title} mounts "{name}", which is no volume of its pod',
                            f"add a volume called {name}, or correct the name",
                        )


def _templates(pod: Pod) -> set[str]:
    """Claims that the object makes for each pod."""
    names: set[str] = set()
    value: object = pod.object
    for part in pod.path:
        for claim in sequence(mapping(value).get("volumeClaimTemplates")):
            names.add(str(mapping(mapping(claim).get("metadata")).get("name")))
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
    return names


@rule(
    "missing-claim",
    "warning",
    "Claims that pods mount exist",
    "A pod waits for a claim that nobody makes, and stays Pending for ever, its GPUs asked for and "
    "not used.",
    "Make the PersistentVolumeClaim, or correct its name.",
    _VOLUMES,
    whole_set=True,
)
def missing_claim(inventory: Inventory, context: Context) -> Iterator[Violation]:
    for pod in inventory.pods:
        for position, name in _claims(pod):
            kind = "PersistentVolumeClaim"
            severity = absent(inventory, context, kind, pod.namespace, name)
            if severity:
                hint = instead(inventory, kind, pod.namespace, name)
                yield of_pod(
                    pod,
                    ("volumes", position, "persistentVolumeClaim", "claimName"),
                    f"mounts the claim {name}, and namespace {pod.namespace} has no such "
                    f"PersistentVolumeClaim{hint}",
                    "make the claim, or correct the name",
                    severity,
                )


# --- weights -------------------------------------------------------------------

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_USE_MODELSCOPE")
_MODELSCOPE = ("VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE")


def _on(program: Program, *names: str) -> bool:
    values = (program.line.env.get(name) or program.container.env.get(name) for name in names)
    return any((value or "").lower() in ("1", "true", "yes", "on") for value in values)


@dataclass(frozen=True)
class _Mount:
    """One mount of a container."""

    position: int
    path: str
    """Without a slash at its end."""
    volume: Mapping[str, Any] | None
    """None for a claim of a template."""


def _mounts(container: Container) -> Iterator[_Mount]:
    """The mounts of a container that say where they are."""
    volumes = {
        str(mapping(v).get("name")): mapping(v) for v in sequence(container.pod.spec.get("volumes"))
    }
    for position, mount in enumerate(sequence(container.spec.get("volumeMounts"))):
        entry = mapping(mount)
        path = entry.get("mountPath")
        if isinstance(path, str):
            yield _Mount(position, path.rstrip("/") or "/", volumes.get(str(entry.get("name"))))


def _under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _home(program: Program) -> str:
    return program.line.env.get("HOME") or "/root"


def _hub_cache(program: Program) -> str | None:
    """Where the engine keeps what it downloads; None where that is not written down."""
    said, cache = _said_cache(program)
    if said:
        return cache
    # An image that others made may have its cache in any mount.
    return None if _anywhere(program) else f"{_home(program)}/.cache/huggingface/hub"


def _said_cache(program: Program) -> tuple[bool, str | None]:
    """Whether flags or variables say where the cache is, and where, if their values are known."""
    grammar = grammars().get(program.line.engine or "")
    set_by_image = string_map(grammar.facts["imageEnv"]) if grammar and not program.plain else {}
    for flag in ("download-dir", "huggingface-hub-cache"):
        given = program.line.value(flag)
        if isinstance(given, str):
            return True, given.rstrip("/")
    for name, below in (
        ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "/hub"),
        ("XDG_CACHE_HOME", "/huggingface/hub"),
    ):  # fmt: skip
        value = program.line.env.get(name, "")
        if name in program.container.env or (value and value != set_by_image.get(name)):
            return True, None if value is None else f"{value.rstrip('/')}{below}"
    return "TRANSFORMERS_CACHE" in program.line.env, None


def _anywhere(program: Program) -> bool:
    """Whether only who made its image knows which of its mounts holds the cache."""
    return not program.plain and any(_may_hold(m) for m in _mounts(program.container))


_OF_SYSTEM = re.compile(r"/(dev|proc|sys|etc|boot|run|var/run|lib|lib64|usr/lib)(/|$)")
"""Folders that hold devices, settings and libraries."""
_NO_DATA = frozenset({"configMap", "secret", "projected", "downwardAPI"})


def _may_hold(mount: _Mount) -> bool:
    """Whether weights may be kept in a mount."""
    volume = mapping(mount.volume)
    memory = mapping(volume.get("emptyDir")).get("medium") == "Memory"
    return not (memory or _OF_SYSTEM.match(mount.path) or _NO_DATA & volume.keys())


def _at(program: Program, cache: str) -> str:
    """Where a cache is, as far as that is known."""
    said = program.plain or not cache.endswith("/.cache/huggingface/hub")
    return f"at {cache}" if said else "where its image keeps the hub's cache"


def _downloading(inventory: Inventory) -> Iterator[tuple[Program, str]]:
    """Engines that fetch weights from a hub when they start."""
    for program in inventory.engines():
        model = hub_weights(program)
        if model is not None:
            yield program, model


def hub_weights(program: Program) -> str | None:
    """The model that an engine fetches from a hub when it starts; None where it does not."""
    keeps_none = program.loads and not _left_to_others(program.container)
    return hub_model(program) if keeps_none and _fetches(program) else None


def _fetches(program: Program) -> bool:
    """Whether it fetches weights itself, as far as is written."""
    others = _left_to_others(program.container) and not program.container.fetches
    if others or program.line.value("load-format") == "dummy":
        return False
    by_kserve = program.container.pod.kind.startswith("LLMInferenceService")
    return not (by_kserve or _on(program, *_OFFLINE))


def _left_to_others(container: Container) -> bool:
    """Whether a controller may mount weights that are not written here.

    Dynamo's operator mounts what the component or the graph names, and nothing else.
    """
    if not container.completed or container.pod.kind not in DYNAMO:
        return container.completed
    holders = [
        container.pod.object.get("spec"),
        descend(container.pod.object, container.pod.path[:-1]),
    ]
    named = ("pvc", "pvcs", "volumeMounts", "modelRef", "models")
    return any(mapping(holder).get(name) for holder in holders for name in named)


def _limits(container: Container) -> frozenset[str]:
    """Resources that a container has a limit for; Dynamo's components may name theirs beside the
    pod, `custom` ones one level down."""
    holders: list[object] = [container.spec]
    if container.pod.kind in DYNAMO:
        holders.append(descend(container.pod.object, container.pod.path[:-1]))
    found: set[str] = set()
    for holder in holders:
        limits = mapping(mapping(mapping(holder).get("resources")).get("limits"))
        found |= {*limits, *mapping(limits.get("custom"))}
    return frozenset(found)


def _caching(inventory: Inventory) -> Iterator[tuple[Program, str, str, list[_Mount]]]:
    """The same where it is written down which folder they fetch to: with the folder and all
    mounts."""
    for program, model in _downloading(inventory):
        cache = _hub_cache(program)
        if cache is not None:
            yield program, model, cache, list(_mounts(program.container))


def fetched_weights(program: Program) -> str | None:
    """The model that an engine cannot start without fetching; None where a volume may hold it."""
    model, cache = hub_weights(program), _hub_cache(program)
    mounts = _mounts(program.container)
    if cache is None or any(_under(cache, m.path) and _kept(m.volume) for m in mounts):
        return None
    return model


def _bounded(volume: Mapping[str, Any] | None) -> bool:
    """Whether a volume of the pod's own has a limit: somebody has thought about its size."""
    return mapping(mapping(volume).get("emptyDir")).get("sizeLimit") is not None


def _kept(volume: Mapping[str, Any] | None) -> bool:
    """Whether a volume outlives its pod."""
    return volume is None or not {"emptyDir", "ephemeral"} & volume.keys()


@rule(
    "weights-download",
    "warning",
    "Weights are there before the engine starts",
    "Every start of every replica downloads everything: minutes of idle GPUs, rate limits of the "
    "hub, and evictions when the node's disk fills up.",
    "Mount a volume that outlives the pod where the engine looks, and fill it once.",
    _HUB,
    whole_set=True,
)
def weights_download(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, model, cache, mounts in _caching(inventory):
        here = [m.volume for m in mounts if _under(cache, m.path)]
        if any(_kept(volume) or _bounded(volume) for volume in here):
            continue
        if any("huggingface" in m.path and _kept(m.volume) for m in mounts):
            continue  # cache-mount says it
        yield about(
            program,
            model_flag(program),
            f"downloads {model} from the hub at every start: nothing that outlives the pod is "
            f"mounted {_at(program, cache)}",
            "mount a PersistentVolumeClaim there that a Job fills, and set HF_HUB_OFFLINE=1"
            + ("" if program.plain else ", and HF_HOME to the mount"),
        )
    for program, model in _downloading(inventory):
        mounts = [m for m in _mounts(program.container) if _may_hold(m)]
        lasting = any(_kept(m.volume) or _bounded(m.volume) for m in mounts)
        if mounts and not lasting and not program.plain and not _said_cache(program)[0]:
            yield about(
                program,
                model_flag(program),
                f"downloads {model} from the hub at every start: no mount of it outlives the pod",
                "mount a PersistentVolumeClaim that a Job fills, and set HF_HUB_OFFLINE=1, and "
                "HF_HOME to the mount",
            )
    for program in inventory.engines():
        yield from _filled_anew(program)
    for index, path, model, uri in fetched_by_kserve(inventory):
        if not (_cached_by_kserve(inventory, uri) or _mounts_models(inventory, index)):
            yield Violation(
                index,
                path,
                f"has KServe download {model} from the hub into every pod that starts, "
                "and keeps nothing",
                "name a claim (pvc://…) or an image (oci://…), or make a LocalModelCache for "
                f"{uri}",
            )


_FETCHES = re.compile(
    r"\b(?:download\w*|snapshot_download|huggingface(?:-cli)?|modelscope|wget|curl|gsutil|gcloud"
    r"|s5cmd|rclone|azcopy|aws s3|git clone)\b|\b(?:s3|gs|hf|https?|az|abfss?|oss)://"
)
"""Words of programs that fetch something from elsewhere."""


def _filled_anew(program: Program) -> Iterator[Violation]:
    """Weights in a volume that begins empty with each pod, where another container fetches them."""
    model, container = program.line.model, program.container
    if not isinstance(model, str) or not program.needs_gpu or container.completed:
        return
    if not container.pod.long_running:
        return
    holding = [m for m in _mounts(container) if _under(model, m.path) and m.path != "/"]
    home = max(holding, key=lambda m: len(m.path), default=None)
    volume = mapping(home.volume if home else None)
    if "emptyDir" not in volume or _bounded(volume):
        return
    for other in container.pod.containers:
        mounts = list(_mounts(other))
        fills = any(mapping(m.volume) == volume for m in mounts)
        copies = any(_kept(m.volume) and _may_hold(m) for m in mounts)
        if other is container or not fills or copies or not _FETCHES.search(_text_of(other)):
            continue
        position = sequence(container.pod.spec.get("volumes")).index(volume)
        yield of_pod(
            container.pod,
            ("volumes", position, "emptyDir"),
            f'begins every start with an empty volume "{volume.get("name")}", into which '
            f"{other.title} fetches the weights of {container.title} again",
            "use a PersistentVolumeClaim that a Job fills, or fetch only what is not there yet",
        )
        return


def _text_of(container: Container) -> str:
    """What says what a container does: its image, its words, its variables."""
    words = (word for _, word in placed_words(container.spec))
    values = (value or "" for value in container.env.values())
    return " ".join([container.image, *map(str, words), *values]).lower()


_KSERVE_CACHES = ("LocalModelCache", "LocalModelNamespaceCache")


def _cached_by_kserve(inventory: Inventory, uri: str) -> bool:
    """Whether a cache of KServe's holds what a URI names: then it mounts that instead."""
    sources = (
        str(cache.spec.get("sourceModelUri") or "")
        for cache in inventory.graph.of_kind(*_KSERVE_CACHES)
    )
    return any(source and uri.startswith(source) for source in sources)


def _mounts_models(inventory: Inventory, index: int) -> bool:
    """Whether the object mounts what outlives its pods where KServe puts weights, or turns the
    download off."""
    spec = mapping(inventory.objects[index].get("spec"))
    if mapping(spec.get("storageInitializer")).get("enabled") is False:
        return True
    mounts = [m for p in inventory.of_object(index) for m in _mounts(p.container)]
    kept = ("/mnt/models", "/models", "/root/.cache/huggingface")
    return any(_kept(m.volume) and any(_under(m.path, k) for k in kept) for m in mounts)


@rule(
    "cache-mount",
    "warning",
    "Caches are mounted where the engine looks",
    "A volume beside the folder that the engine uses stays empty, and everything is downloaded "
    "again at every start.",
    "Mount the volume at HF_HOME (default: ~/.cache/huggingface), or set HF_HOME to the mount.",
    _HUB,
)
def cache_mount(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, _model, cache, mounts in _caching(inventory):
        if any(_under(cache, m.path) or _under(m.path, cache) for m in mounts):
            continue
        beside = [m for m in mounts if "huggingface" in m.path or m.path.endswith("/.cache")]
        for mount in beside[:1]:
            yield about(
                program,
                ("volumeMounts", mount.position, "mountPath"),
                f"has a cache at {mount.path}, and downloads to {cache}",
                "mount it there, or set HF_HOME to the mount",
            )


@rule(
    "model-revision",
    "warning",
    "Weights have a pinned revision",
    "A branch of the hub can move: two pods of one release then serve different weights, and a "
    "rollback brings back something else.",
    "Give --revision the commit.",
    "https://docs.vllm.ai/en/stable/cli/serve/",
)
def model_revision(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    yield from _served_by_kserve(inventory)
    yield from _served_by_others(inventory)
    yield from _without_grammar(inventory)
    yield from _fetched_by_tools(inventory)
    yield from _fetched_by_kthena(inventory)
    for program, model in _asking(inventory):
        if "revision" not in _options(program) or _on(program, *_MODELSCOPE):
            continue
        revision = program.line.value("revision")
        if revision is None:
            where, what = model_flag(program), f"serves {model} without a revision"
        elif isinstance(revision, str) and not COMMIT.fullmatch(revision):
            where, what = flag_path(program, "revision"), f"serves a branch of {model}: {revision}"
        else:
            continue
        yield about(program, where, what, "add --revision with the commit that the hub shows")


def _asking(inventory: Inventory) -> Iterator[tuple[Program, str]]:
    """Engines that ask a hub for weights, with a GPU or without one."""
    for program in inventory.engines():
        model = hub_model(program)
        if model is None or program.engine is None or not program.engine.gpu:
            continue
        if _fetches(program):
            yield program, model


_TEI = re.compile(r"(^|/)text-embeddings-inference(:|@|$)")
_REVISED = (
    re.compile(r"\blmdeploy\s+serve\s+api_server\s+([\w.-]+/[\w.-]+)(?=\s|$)"),
    re.compile(r"\bfastchat\.serve\.\w+worker\b.*?--model-path[= ]([\w.-]+/[\w.-]+)(?=\s|$)"),
    re.compile(r"\btext-embeddings-router\b.*?--model-id[= ]([\w.-]+/[\w.-]+)(?=\s|$)"),
    re.compile(r"\binfinity_emb\s+v2\b.*?--model-id[= ]([\w.-]+/[\w.-]+)(?=\s|$)"),
)
"""Programs without a grammar that have --revision, and where they name the model: internlm/lmdeploy
docs/en/llm/api_server.md, lm-sys/FastChat fastchat/model/model_adapter.py,
huggingface/text-embeddings-inference README.md, michaelfeil/infinity docs/docs/cli_v2.md; read
2026-12-01. llama.cpp (-hf), Ollama, MLC and LocalAI have no way to say one."""


def _without_grammar(inventory: Inventory) -> Iterator[Violation]:
    for program in inventory.programs:
        container, text = program.container, program.command.text
        if container.completed or _on(program, *_OFFLINE, *_MODELSCOPE):
            continue
        if _TEI.search(container.image) and not container.spec.get("command"):
            text = f"text-embeddings-router {text}"
        found = next((match for p in _REVISED if (match := p.search(text)) is not None), None)
        if found is None:
            continue
        revision = program.command.flag("revision")
        if revision is not None and (COMMIT.fullmatch(revision) or "$" in revision):
            continue
        said = (
            f"a branch of {found[1]}: {revision}" if revision else f"{found[1]} without a revision"
        )
        yield about(
            program,
            ("args" if container.spec.get("args") else "command",),
            f"serves {said}",
            "add --revision with the commit that the hub shows",
        )


_BY_TOOL = re.compile(
    r"\b(?:hf|huggingface-cli)\s+download\s+(?P<named>[\w.-]+/[\w.-]+|[\"']?\$\{?\w+\}?[\"']?)"
    r"(?P<rest>[^\n;&|]*)"
    r"|\b(?:snapshot|hf_hub)_download\(\s*(?:repo_id\s*=\s*)?"
    r"(?P<called>[\"'][\w.-]+/[\w.-]+[\"']|[A-Za-z_][\w.]*(?=\s*,))(?P<more>[^)]*)"
    r"|https://huggingface\.co/(?P<addressed>[\w.-]+/[\w.-]+)/resolve/(?P<branch>[\w.-]+)/"
)
"""The hub's own tools: huggingface/huggingface_hub docs/source/en/guides/{cli,download}.md; and
addresses of its files, which name a branch or a commit."""


def _fetched_by_tools(inventory: Inventory) -> Iterator[Violation]:
    """Weights that an init container or a Job fetches before an engine starts."""
    for program in inventory.programs:
        container = program.container
        text = program.line.script or program.command.text
        for match in _BY_TOOL.finditer(text.replace("\\\n", " ")):
            model = (match["named"] or match["called"] or match["addressed"]).strip("\"'")
            rest = match["rest"] or match["more"] or ""
            if "revision" in rest or "repo-type" in rest or "repo_type" in rest:
                continue
            named = model if "/" in model or "$" in model else f"what {model} names"
            what, remedy = (
                f"{named} without a revision",
                ("give the commit that the hub shows: --revision COMMIT, or revision= in Python"),
            )
            if match["addressed"]:
                if COMMIT.fullmatch(match["branch"]):
                    continue
                what = f"a branch of {model}: {match['branch']}"
                remedy = "write the commit that the hub shows: /resolve/COMMIT/"
            key = "args" if container.spec.get("args") else "command"
            yield about(program, (key,), f"fetches {what}", remedy)


_KTHENA = re.compile(r"--source[= ](?:hf://)?(?P<model>[\w.-]+/[\w.-]+)(?=\s|$)")


def _fetched_by_kthena(inventory: Inventory) -> Iterator[Violation]:
    """Its downloader takes HF_REVISION: volcano-sh/kthena, python/kthena/downloader/app.py, read
    2026-12-01."""
    for program in inventory.programs:
        container = program.container
        name = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        match = _KTHENA.search(" ".join(program.command.words))
        if name != "downloader" or match is None or container.open_env:
            continue
        revision = container.env.get("HF_REVISION", "")
        if revision is not None and not COMMIT.fullmatch(revision):
            model = match["model"]
            said = f"a branch of {model}: {revision}" if revision else f"{model} without a revision"
            yield about(
                program,
                ("args",),
                f"fetches {said}",
                "set the variable HF_REVISION to the commit that the hub shows",
            )


def _served_by_others(inventory: Inventory) -> Iterator[Violation]:
    """Models of controllers that fetch them, whatever starts the engine."""
    for index, manifest in enumerate(inventory.objects):
        for weights in named_weights(manifest):
            if not COMMIT.fullmatch(weights.revision):
                branch = f"a branch of {weights.model}: {weights.revision}"
                said = branch if weights.revision else f"{weights.model} without a revision"
                yield Violation(index, weights.path, f"serves {said}", weights.remedy)


_HUB_URI = re.compile(r"hf://([\w.-]+/[\w.-]+)(?::(.*))?")


def _served_by_kserve(inventory: Inventory) -> Iterator[Violation]:
    for index, path, model, uri in fetched_by_kserve(inventory):
        revision = uri.partition("hf://")[2].partition(":")[2]
        if COMMIT.fullmatch(revision):
            continue
        said = f"a branch of {model}: {revision}" if revision else f"{model} without a revision"
        yield Violation(
            index,
            path,
            f"serves {said}",
            f"write the commit that the hub shows: hf://{model}:COMMIT",
        )


def fetched_by_kserve(inventory: Inventory) -> Iterator[tuple[int, Path, str, str]]:
    """Weights that KServe fetches, hf://OWNER/NAME[:REVISION]: object, field, name and URI."""
    for index, manifest in enumerate(inventory.objects):
        if manifest.get("kind") not in ("LLMInferenceService", "InferenceService"):
            continue
        spec = mapping(manifest.get("spec"))
        places: list[tuple[str, ...]] = [("model", "uri")]
        for part, value in mapping(spec.get("predictor")).items():
            if is_mapping(value):
                places.append(("predictor", str(part), "storageUri"))
        for place in places:
            uri = str(at(spec, *place) or "")
            match = _HUB_URI.fullmatch(uri)
            if match is not None:
                yield index, ("spec", *place), match[1], uri


def _options(program: Program) -> frozenset[str]:
    grammar = grammars().get(program.line.engine or "")
    return frozenset(grammar.options) if grammar else frozenset()


@rule(
    "hub-offline",
    "warning",
    "Engines with local weights do not ask the hub",
    "An engine that has its weights still asks the hub for newer ones, and does not start when the "
    "hub cannot be reached.",
    "Set HF_HUB_OFFLINE=1 in the engine's env, once a Job has filled the cache.",
    _HUB,
)
def hub_offline(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program, model, cache, mounts in _caching(inventory):
        if any(_under(cache, m.path) and _kept(m.volume) for m in mounts):
            yield about(
                program,
                ("env",),
                f"has a cache for {model} and still asks the hub at every start",
                "set HF_HUB_OFFLINE=1 once the cache is filled",
            )


@rule(
    "ephemeral-limit",
    "warning",
    "Downloads into the pod have a limit",
    "What fills a node's disk evicts every pod of the node, those with GPUs first.",
    "Give the emptyDir a sizeLimit, or the container a limit for ephemeral-storage.",
    "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
    "#local-ephemeral-storage",
)
def ephemeral_limit(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        holds = program.loads or bool(program.accelerators)
        if program.engine is None or not holds or _left_to_others(container):
            continue
        if "ephemeral-storage" in _limits(container):
            continue
        model, cache = hub_weights(program), _hub_cache(program)
        mounts = list(_mounts(container))
        if model and cache and not any(_under(cache, m.path) for m in mounts):
            yield about(
                program,
                ("resources", "limits"),
                f"downloads {model} to the node's own disk, {_at(program, cache)}, without a limit",
                "mount a volume there, or limit ephemeral-storage of the container",
            )
        for mount in mounts:
            path, volume = mount.path, mount.volume
            empty = mapping(volume).get("emptyDir") if volume else None
            unbounded = volume is not None and "emptyDir" in volume
            if not unbounded or mapping(empty).get("sizeLimit") is not None:
                continue
            if mapping(empty).get("medium") == "Memory" or path == "/dev/shm":
                continue
            if not _is_filled(container.pod, str(mapping(volume).get("name"))):
                continue
            position = next(
                n
                for n, v in enumerate(sequence(container.pod.spec.get("volumes")))
                if mapping(v) is volume or mapping(v) == volume
            )
            yield of_pod(
                container.pod,
                ("volumes", position, "emptyDir"),
                f'has a volume "{mapping(volume).get("name")}" of the engine at {path} without '
                "sizeLimit",
                "set sizeLimit, or limit ephemeral-storage of the container",
            )


def _is_filled(pod: Pod, volume: str) -> bool:
    """Whether a container of the pod may write into a volume."""
    return any(
        mapping(mount).get("name") == volume and mapping(mount).get("readOnly") is not True
        for container in pod.containers
        for mount in sequence(container.spec.get("volumeMounts"))
    )


# --- hardened images -----------------------------------------------------------

_CACHES = (
    "HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME",
)  # fmt: skip


@rule(
    "hardened-caches",
    "error",
    "A read-only root has a place for every cache",
    "Engines, Triton, PyTorch and CUDA compile into caches in the home folder and in /tmp: on a "
    "read-only root they stop, or compile at every start.",
    "Mount a volume with a limit at /tmp and one for HOME, and point every cache variable there.",
    "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/",
)
def hardened_caches(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        context = mapping(container.spec.get("securityContext"))
        if context.get("readOnlyRootFilesystem") is not True or not program.needs_gpu:
            continue
        if container.completed:
            continue
        folders = [mount.path for mount in _mounts(container)]
        for what, path in _unwritable(container, folders):
            yield about(
                program,
                ("volumeMounts",),
                f"has a read-only root, and {what} is at {path}, where nothing is mounted",
                f"mount an emptyDir with a sizeLimit at {path}, or point {what} to a mount",
            )


def _unwritable(container: Container, folders: list[str]) -> Iterator[tuple[str, str]]:
    env = container.env
    places = {"TMPDIR": env.get("TMPDIR") or "/tmp"}
    if not all(env.get(name) for name in _CACHES):
        places["HOME"] = env.get("HOME") or "/root"
    places |= {name: str(env[name]) for name in (*_CACHES, "HF_HUB_CACHE") if env.get(name)}
    for what, path in places.items():
        home_cache = what == "HOME" and any(_under(f"{path}/.cache", f) for f in folders)
        if not home_cache and not any(_under(path, folder) for folder in folders):
            yield what, path


@rule(
    "nonroot-home",
    "warning",
    "Engines that are not root have a home they can write",
    "Images keep caches in /root or in a home that belongs to another user: the engine stops with "
    "permission denied, or compiles at every start.",
    "Set HOME and HF_HOME to mounted folders, and fsGroup to the user's group.",
    "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/",
)
def nonroot_home(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        if program.engine is None or not program.loads or container.completed:
            continue
        user, env = _user(container), container.env
        if not user or any(name in env for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME")):
            continue
        if program.line.script is not None and "HOME=" in program.line.script:
            continue
        if program.engine.name not in ("vllm", "sglang", "trtllm"):
            continue
        if any(mount.path.endswith("/.cache") for mount in _mounts(container)):
            continue  # a home without HOME, as OpenShift's users have
        yield about(
            program,
            ("env",),
            f"runs as {user} without HOME: its caches are where that user cannot write",
            "set HOME and HF_HOME to mounted folders that the user may write",
        )


def _user(container: Container) -> str | None:
    """The user it runs as, where it is written that it is not root."""
    contexts = [mapping(of.get("securityContext")) for of in (container.spec, container.pod.spec)]
    for context in contexts:
        user = context.get("runAsUser")
        if isinstance(user, int) and not isinstance(user, bool):
            return f"user {user}" if user else None
    another = any(context.get("runAsNonRoot") is True for context in contexts)
    return "a user that is not root" if another else None


ALL = (
    claim_shared, claim_surge, missing_volume, missing_claim, weights_download, cache_mount,
    model_revision, hub_offline, ephemeral_limit, hardened_caches, nonroot_home,
)  # fmt: skip
