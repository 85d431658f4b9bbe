"""Every pod template in a set of objects, whatever kind holds it.

Built-in workloads and LeaderWorkerSets are known by their paths. In any other
resource, a mapping with a list `containers` of things with a name and an image
is a pod spec, at whatever depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from policies.model import Manifest, Path
from policies.servers import Made, alone, descend, described, parent
from policies.tree import (
    Unknown,
    at,
    is_mapping,
    is_sequence,
    known_items,
    mapping,
    sequence,
    string_map,
    unread,
    with_labels,
    written,
)
from tokenworks.catalog.commandline import expanded

ContainerKind = Literal["container", "sidecar", "init", "ephemeral", "model"]
"""model: no container, but what one starts because a text elsewhere in the object says so."""
Role = Literal["pod", "leader", "worker"]

_TEMPLATE: tuple[Path, ...] = (("spec", "template", "spec"),)
_KNOWN: dict[tuple[str, str], tuple[Path, ...]] = {
    ("", "Pod"): (("spec",),),
    ("", "PodTemplate"): (("template", "spec"),),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): (("spec", "jobTemplate", "spec", "template", "spec"),),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"),
        ("spec", "leaderWorkerTemplate", "workerTemplate", "spec"),
    ),
}
_BATCH = frozenset(
    {
        "JobSet", "Workflow", "CronWorkflow", "WorkflowTemplate", "ClusterWorkflowTemplate",
        "Workload", "TrainingRuntime", "ClusterTrainingRuntime", "Notebook", "SparkApplication",
        "ScheduledSparkApplication", "PodTemplate", "Task", "ClusterTask", "TaskRun", "StepAction",
        "Pipeline", "PipelineRun", "CustomRun",
    }
)  # fmt: skip
"""Kinds whose pods end, or are not serving, besides every kind that is called …Job."""
_WHOLE = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "LeaderWorkerSet"}
)
"""Kinds whose containers the API server refuses without an image."""
_LISTS: tuple[tuple[ContainerKind, str], ...] = (
    ("init", "initContainers"),
    ("container", "containers"),
    ("ephemeral", "ephemeralContainers"),
)


@dataclass(frozen=True)
class Container:
    """One container of a pod template, and where it stands."""

    pod: Pod
    kind: ContainerKind
    path: Path
    spec: Mapping[str, Any]
    completed: bool = False
    """A controller fills in what is not written: what is absent here says nothing."""
    layers: tuple[Path, ...] = ()
    """Where its parts stand, if a template and patches of it make it: the last one wins."""
    elsewhere: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    """Places in the object of parts that do not stand below `path`."""
    asked: bool = False
    """Whatever completes it, it asks for the resources that are written here and for no others."""
    fetches: bool = False
    """Whatever completes it, its engine fetches the weights that it is given."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts that it has from ConfigMaps of the set, by path."""
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that it has from ConfigMaps of the set, by `envFrom` and by `configMapKeyRef`."""
    sources: int = 0
    """How many of its `envFrom` are ConfigMaps of the set."""
    script: str = ""
    """Path of the one that its command runs, and that `spec` has in place of it."""

    def place(self, path: Path) -> Path:
        """Where in the object a part of it stands."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.elsewhere:
                return (*self.elsewhere[path[:length]], *path[length:])
        return (*self.path, *path)

    def field(self, name: str) -> Path:
        """Where a field of it stands: in the last of its parts that says it."""
        for path in reversed(self.layers):
            if name in mapping(descend(self.pod.object, path)):
                return (*path, name)
        return self.place((name,))

    @property
    def name(self) -> str:
        """Its name, for messages."""
        return str(self.spec.get("name") or "(no name)")

    @property
    def title(self) -> str:
        """`container "engine"`, `init container "fetch"`, `sidecar "proxy"`."""
        words = {"init": "init container", "ephemeral": "ephemeral container"}
        return f'{words.get(self.kind, self.kind)} "{self.name}"'

    @property
    def image(self) -> str:
        """Its image, empty when it names none."""
        value = self.spec.get("image")
        return value if isinstance(value, str) else ""

    @cached_property
    def env(self) -> dict[str, str | None]:
        """Variables by name; None where the value comes from what the set does not hold."""
        found: dict[str, str | None] = dict(self.told)
        for item in sequence(self.spec.get("env")):
            entry = mapping(item)
            name, value = str(entry.get("name")), unread(entry, "value")
            if "valueFrom" in entry:
                refers = "configMapKeyRef" in mapping(entry["valueFrom"])
                found[name] = self.told.get(name) if refers else None
            elif isinstance(value, Unknown):
                found[name] = None
            else:
                found[name] = "" if value is None else expanded(str(value), found)
        return found

    @property
    def open_env(self) -> bool:
        """Whether it may have variables that the set does not hold."""
        sources = sequence(self.spec.get("envFrom"))
        return bool(sources) and len(sources) != self.sources

    def literals(self) -> Iterator[tuple[int, str, str]]:
        """Position, name and value of each variable whose value is written down."""
        for position, item in enumerate(sequence(self.spec.get("env"))):
            entry = mapping(item)
            value = unread(entry, "value")
            if written(value):
                yield position, str(entry.get("name")), value


@dataclass(frozen=True)
class Pod:
    """One pod template of one object."""

    index: int
    """Position of its object in the flattened list."""
    object: Manifest
    path: Path
    """Path of the pod spec."""
    spec: Mapping[str, Any]
    labels: dict[str, str]
    labels_known: bool
    """False where a controller labels the pods and the object does not say how."""
    role: Role
    layers: tuple[Path, ...] = ()
    """The template and the patches that make it, where there are any."""
    places: Mapping[tuple[str, str], tuple[Path, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[Path, ...]]
    )
    """Containers that stand elsewhere than at `path`: in the template and in its patches."""
    made: Made | None = None
    """One container that stands outside of lists of containers, as custom resources write it."""

    @property
    def completed(self) -> bool:
        """A controller writes the pod: only what is written here can be judged."""
        return self.made is not None or any(c.completed for c in self.containers)

    @cached_property
    def kind(self) -> str:
        """Kind of its object."""
        return str(self.object.get("kind"))

    @cached_property
    def name(self) -> str:
        """Name of its object."""
        return str(at(self.object, "metadata", "name") or "")

    @cached_property
    def namespace(self) -> str:
        """Namespace of its object; an absent one reads as `default`."""
        return str(at(self.object, "metadata", "namespace") or "default")

    @property
    def long_running(self) -> bool:
        """Its pods are meant to stay: no jobs, no pods that may end."""
        if self.kind in _BATCH or self.kind.endswith("Job"):
            return False
        return str(self.spec.get("restartPolicy") or "Always") == "Always"

    @property
    def title(self) -> str:
        """`pod template`, `leader template`, `worker template`, `pod`."""
        if self.kind == "Pod":
            return "pod"
        return "pod template" if self.role == "pod" else f"{self.role} template"

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """All of them: init containers, native sidecars, containers, ephemeral ones."""
        return tuple(self._containers())

    def _containers(self) -> Iterator[Container]:
        for kind, key in _LISTS:
            for position, item in enumerate(sequence(self.spec.get(key))):
                if not is_mapping(item):
                    continue
                spec: Mapping[str, Any] = item
                sidecar = kind == "init" and spec.get("restartPolicy") == "Always"
                layers = self.places.get((key, str(spec.get("name"))), ())
                path = layers[-1] if layers else (*self.path, key, position)
                # Without an image it is a part of a container, that a tool or controller completes.
                partial = self.kind in _COMPLETED or "image" not in spec
                yield Container(self, "sidecar" if sidecar else kind, path, spec, partial, layers)
        if self.made is not None:
            made = self.made
            yield Container(
                self, "container", made.path, made.spec, True, elsewhere=made.elsewhere,
                asked=made.whole, fetches=made.fetches,
            )  # fmt: skip

    @property
    def of_knative(self) -> bool:
        """Knative Serving makes it: without service links, and its proxy lets requests end
        (knative.dev/docs/serving/configuration/config-defaults, knative/serving pkg/queue)."""
        return str(self.object.get("apiVersion")).startswith("serving.knative.dev/")

    @cached_property
    def patch(self) -> bool:
        """Its object is a part of one, as Kustomize puts them together: of a kind that the API
        server refuses so, no container names an image. What is absent from it says nothing."""
        whole = self.kind not in _WHOLE or self.custom
        return not whole and all("image" not in container.spec for container in self.containers)

    @property
    def custom(self) -> bool:
        """Its object is no built-in kind and no LeaderWorkerSet."""
        group = str(self.object.get("apiVersion") or "").rpartition("/")[0]
        return (group, self.kind) not in _KNOWN


def flatten(objects: Sequence[Manifest]) -> list[Manifest]:
    """The objects, with `List` and `…List` objects replaced by their items."""
    flat: list[Manifest] = []
    for manifest in objects:
        kind = str(manifest.get("kind") or "")
        items = manifest.get("items")
        if not kind.endswith("List") or not is_sequence(items):
            flat.append(manifest)
            continue
        inherited = {"apiVersion": manifest.get("apiVersion"), "kind": kind.removesuffix("List")}
        if not inherited["kind"]:
            inherited = {}
        # What is not known yet may be any object.
        children = [
            {"kind": item} if isinstance(item, Unknown) else mapping(item) for item in items
        ]
        flat.extend(flatten([{**inherited, **child} for child in children if child]))
    return flat


def pods_of(index: int, manifest: Manifest) -> Iterator[Pod]:
    """Every pod template inside one object."""
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    known = _KNOWN.get((group, str(manifest.get("kind"))))
    if known is not None:
        for path in known:
            if mapping(at(manifest, *map(str, path))):
                yield _pod(index, manifest, path)
    elif group not in _WITHOUT and (group, str(manifest.get("kind"))) not in _QUEUES:
        patched = list(_patched(index, manifest))
        yield from patched
        parts = {(*layer, "spec") for pod in patched for layer in pod.layers}
        for path in _pod_specs(manifest, ()):
            if not patched or not (_is_part(path) or path in parts):
                yield _pod(index, manifest, path)
        for path, made in _made(manifest):
            yield replace(_pod(index, manifest, path), made=made)


DYNAMO = frozenset({"DynamoGraphDeployment", "DynamoComponentDeployment"})
"""Kinds whose operator chooses what a component starts, and probes it on a port of its own:
https://docs.nvidia.com/dynamo/dev/kubernetes/operations/health-probes, read 2026-11-30."""
_COMPLETED = DYNAMO | {
    "LLMInferenceService", "LLMInferenceServiceConfig", "ServingRuntime", "ClusterServingRuntime",
}  # fmt: skip
"""Kinds whose containers a controller merges with templates of its own."""
_RULES = frozenset({"kyverno.io", "constraints.gatekeeper.sh", "templates.gatekeeper.sh"})
"""Groups whose objects show pods as patterns."""
_WITHOUT = _RULES | {
    "", "rbac.authorization.k8s.io", "networking.k8s.io", "policy", "autoscaling",
    "storage.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io",
    "gateway.networking.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io",
    "inference.networking.k8s.io", "inference.networking.x-k8s.io", "networking.istio.io",
    "karpenter.sh", "karpenter.k8s.aws",
}  # fmt: skip
"""Groups whose objects hold no pods, save the kinds that are known by their paths."""
_QUEUES = frozenset(
    ("kueue.x-k8s.io", kind)
    for kind in ("ResourceFlavor", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass")
)
"""Kinds without pods of a group that has a kind with some."""
_NIM = frozenset({"NIMService", "NIMCache", "NemoGuardrail"})
_COMPONENTS = ("predictor", "transformer", "explainer")


def _made(manifest: Manifest) -> Iterator[tuple[Path, Made]]:
    """Containers outside of lists: the path that stands for their pod, and what they are."""
    for path, single in _singles(manifest):
        spec = _single(descend(manifest, single), str(single[-1]))
        if manifest.get("kind") in DYNAMO and "resources" not in spec:
            yield path, _of_component(manifest, single, spec)
        else:
            yield path, Made(single, spec)
    own = list(described(manifest))
    yield from ((made.path, made) for made in own)
    kind = manifest.get("kind")
    if kind in (*_NIM, *_BATCH) or str(kind).endswith("Job"):
        return
    for made in alone(manifest, [made.path for made in own]):
        path = made.path if made.path[-1] == "spec" else parent(manifest, made.path)
        yield path, made


def _singles(manifest: Manifest) -> Iterator[tuple[Path, Path]]:
    """Containers that kinds without a pod template have a place for."""
    kind, spec = manifest.get("kind"), mapping(manifest.get("spec"))
    if kind in _NIM and is_mapping(spec.get("image")):
        yield ("spec",), ("spec",)
    if kind in DYNAMO:
        yield from _components(spec)
    if kind == "InferenceService":
        for name in _COMPONENTS:
            for part, value in mapping(spec.get(name)).items():
                if is_mapping(value) and ("modelFormat" in value or "storageUri" in value):
                    yield ("spec", name), ("spec", name, str(part))


def _components(spec: Mapping[str, Any]) -> Iterator[tuple[Path, Path]]:
    """The main containers of a Dynamo graph's services, or of one component by itself."""
    holders: dict[Path, object] = {
        ("spec", "services", str(name)): service
        for name, service in mapping(spec.get("services")).items()
    }
    for home, holder in {("spec",): spec, **holders}.items():
        pod = mapping(mapping(holder).get("extraPodSpec"))
        if is_mapping(pod.get("mainContainer")):
            path = (*home, "extraPodSpec")
            yield path, (*path, "mainContainer")


def _of_component(manifest: Manifest, path: Path, spec: Mapping[str, Any]) -> Made:
    """The main container of a component of Dynamo's, with the resources that stand beside its pod.

    `gpu` counts `gpuType`, nvidia.com/gpu where nothing is said, and `custom` holds others: ai-
    dynamo/dynamo, deploy/operator/api/v1alpha1 (ResourceItem), read 2026-12-01. They are those of
    one node.
    """
    home = path[:-2]
    component = mapping(descend(manifest, home))
    given = mapping(component.get("resources"))
    if not given:
        return Made(path, spec)
    resources, places = dict[str, Any](), dict[Path, Path]({("resources",): (*home, "resources")})
    for side in ("limits", "requests"):
        item = mapping(given.get(side))
        own = {key: item[key] for key in ("cpu", "memory") if key in item}
        gpu = str(item.get("gpuType") or "nvidia.com/gpu")
        if "gpu" in item:
            own[gpu] = item["gpu"]
            places["resources", side, gpu] = (*home, "resources", side, "gpu")
        resources[side] = {**own, **mapping(item.get("custom"))}
    # The operator sets the limit of GPUs where only a request is written.
    resources["limits"] = {
        **{key: value for key, value in resources["requests"].items() if is_extended(key)},
        **resources["limits"],
    }
    claims = {"claims": given["claims"]} if "claims" in given else {}
    return Made(path, {**spec, "resources": {**resources, **claims}}, places)


def is_extended(resource: str) -> bool:
    """Whether a resource is one that a device plugin brings: domain/name."""
    return "/" in resource


def _single(spec: object, key: str) -> Mapping[str, Any]:
    """Such a container as Kubernetes writes one; `key` is the field that holds it."""
    own = mapping(spec)
    image = own.get("image")
    written = {"name": "main" if key == "mainContainer" else "model", **own}
    if is_mapping(image):
        name, tag = image.get("repository"), image.get("tag")
        written["image"] = f"{name}:{tag}" if tag else str(name)
        # The operator writes probes itself, where they are not written one level down.
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            given = mapping(written.pop(probe, None)).get("probe")
            if given is not None:
                written[probe] = given
    return written


def _pod_specs(value: object, path: Path) -> Iterator[Path]:
    if is_mapping(value):
        if "containers" in value and _is_pod_spec(value):
            yield path
            # A predictor's pod spec holds its workers' too.
            value = {"workerSpec": value["workerSpec"]} if "workerSpec" in value else {}
        for key, child in known_items(value):
            if is_mapping(child) or is_sequence(child):
                yield from _pod_specs(child, (*path, str(key)))
    elif is_sequence(value):
        for position, child in known_items(value):
            yield from _pod_specs(child, (*path, position))


_PATCHES: tuple[tuple[str, str, Role], ...] = (
    ("leaderWorkerPattern", "leaderTemplatePatch", "leader"),
    ("leaderWorkerPattern", "workerTemplatePatch", "worker"),
    ("leaderWorkerSet", "patchLeaderTemplate", "leader"),
    ("leaderWorkerSet", "patchWorkerTemplate", "worker"),
)
"""Where a role of a RoleBasedGroup patches its template."""
_PARTS = frozenset(
    {"roleTemplates", "templateRef", "leaderTemplatePatch", "workerTemplatePatch",
     "patchLeaderTemplate", "patchWorkerTemplate"}
)  # fmt: skip


def _is_part(path: Path) -> bool:
    """Whether a pod spec is only a part of one: a template for others, or a patch."""
    return not _PARTS.isdisjoint(path)


def _patched(index: int, manifest: Manifest) -> Iterator[Pod]:
    """The pods of a RoleBasedGroup whose templates are patched, or stand elsewhere."""
    if manifest.get("kind") != "RoleBasedGroup":
        return
    spec = mapping(manifest.get("spec"))
    shared = {
        str(mapping(entry).get("name")): ("spec", "roleTemplates", position, "template")
        for position, entry in enumerate(sequence(spec.get("roleTemplates")))
    }
    for position, entry in enumerate(sequence(spec.get("roles"))):
        role, home = mapping(entry), ("spec", "roles", position)
        for pattern in (*(key for key in role if str(key).endswith("Pattern")), None):
            holder = mapping(role.get(pattern)) if pattern else role
            inside = (*home, pattern) if pattern else home
            yield from _of_pattern(index, manifest, holder, inside, shared)


def _of_pattern(
    index: int,
    manifest: Manifest,
    holder: Mapping[str, Any],
    inside: Path,
    shared: Mapping[str, Path],
) -> Iterator[Pod]:
    ref = mapping(holder.get("templateRef"))
    base = shared.get(str(ref.get("name"))) if ref else None
    layers = [base] if base else [(*inside, "template")] if "template" in holder else []
    if ref.get("patch") or holder.get("templatePatch"):
        layers.append((*inside, "templateRef", "patch") if ref else (*inside, "templatePatch"))
    roles: list[tuple[Role, Path]] = [
        (role, (*(inside if pattern in inside else (*inside, pattern)), patch))
        for pattern, patch, role in _PATCHES
        if mapping(mapping(holder if pattern in inside else holder.get(pattern)).get(patch))
    ]
    if not layers or (not roles and len(layers) == 1 and base is None):
        return
    if not roles:
        yield _merged(index, manifest, layers, "pod")
    for role, patch in roles:
        yield _merged(index, manifest, [*layers, patch], role)
    # Where only one of the two is patched, the other is the template as it stands.
    for role in {"leader", "worker"} - {role for role, _ in roles} if roles else ():
        yield _merged(index, manifest, layers, "leader" if role == "leader" else "worker")


def _merged(index: int, manifest: Manifest, layers: Sequence[Path], role: Role) -> Pod:
    """One pod from a template and its patches."""
    template: Mapping[str, Any] = {}
    places: dict[tuple[str, str], tuple[Path, ...]] = {}
    home = layers[-1]
    for path in layers:
        layer = mapping(descend(manifest, path))
        template = mapping(merge(template, layer))
        home = path if "spec" in layer or path is layers[0] else home
        for _, key in _LISTS:
            for position, item in enumerate(sequence(at(layer, "spec", key))):
                named = key, str(mapping(item).get("name"))
                places[named] = (*places.get(named, ()), (*path, "spec", key, position))
    labels = string_map(at(template, "metadata", "labels"))
    spec = mapping(template.get("spec"))
    made = tuple(layers)
    return Pod(index, manifest, (*home, "spec"), spec, labels, True, role, made, places)


_KEYS = ("name", "mountPath", "containerPort", "key", "topologyKey", "ip")


def merge(base: object, patch: object) -> object:
    """A strategic merge: maps by key, lists of named things by name, everything else replaced."""
    if is_mapping(base) and is_mapping(patch):
        found = {
            key: value for key, value in base.items() if key not in patch or patch[key] is not None
        }
        for key, value in patch.items():
            if value is not None:
                found[key] = merge(found.get(key), value)
        return found
    if is_sequence(base) and is_sequence(patch):
        named = next((k for k in _KEYS if _all_have(base, k) and _all_have(patch, k)), None)
        if named is None:
            return patch
        merged = {mapping(item)[named]: item for item in base}
        for item in patch:
            merged[mapping(item)[named]] = merge(merged.get(mapping(item)[named]), item)
        return list(merged.values())
    return patch


def _all_have(items: Sequence[Any], key: str) -> bool:
    return bool(items) and all(isinstance(mapping(item).get(key), str | int) for item in items)


def _is_pod_spec(value: Mapping[str, Any]) -> bool:
    return any(
        isinstance(mapping(item).get("name"), str) and not _CONTAINER.isdisjoint(mapping(item))
        for item in sequence(value.get("containers"))
    )


_CONTAINER = frozenset(
    {"image", "command", "args", "env", "envFrom", "volumeMounts", "resources", "ports"}
)
"""What a container has beside its name; templates that a controller completes leave out the
image."""


def _pod(index: int, manifest: Manifest, path: Path) -> Pod:
    holder = mapping(descend(manifest, path[:-1]))
    is_template = path[-1:] == ("spec",) and (len(path) > 1 or manifest.get("kind") == "Pod")
    labels = string_map(at(holder, "metadata", "labels")) if is_template else {}
    role = _role(manifest, path)
    return Pod(
        index,
        manifest,
        path,
        mapping(descend(manifest, path)),
        with_labels(labels, _controller_labels(manifest, role)),
        is_template,
        role,
    )


_LEADERS = frozenset({"leaderTemplate", "leaderTemplatePatch", "headGroupSpec", "leader"})
_WORKERS = frozenset(
    {"workerTemplate", "workerTemplatePatch", "workerGroupSpecs", "workerSpec", "worker"}
)


def _role(manifest: Manifest, path: Path) -> Role:
    """The part that pods of this template play in a group."""
    if not _LEADERS.isdisjoint(path):
        return "leader"
    if manifest.get("kind") == "LeaderWorkerSet" or not _WORKERS.isdisjoint(path):
        return "worker"
    return "pod"


def _controller_labels(manifest: Manifest, role: Role) -> dict[str, str]:
    """Labels that the object's controller certainly adds to its pods."""
    kind = manifest.get("kind")
    if kind not in ("LeaderWorkerSet", "Job"):
        return {}
    name = str(at(manifest, "metadata", "name") or "")
    if kind == "LeaderWorkerSet":
        leader = {"leaderworkerset.sigs.k8s.io/worker-index": "0"} if role == "leader" else {}
        return {"leaderworkerset.sigs.k8s.io/name": name, **leader}
    return {"job-name": name, "batch.kubernetes.io/job-name": name}


_CONTROLLERS = (
    "leaderworkerset.sigs.k8s.io/", "statefulset.kubernetes.io/", "apps.kubernetes.io/",
    "rbg.workloads.x-k8s.io/", "ray.io/", "batch.kubernetes.io/", "gateway.networking.k8s.io/",
    "serving.kserve.io/", "kserve.io/", "serving.knative.dev/", "nvidia.com/",
    "disaggregatedset.x-k8s.io/",
)  # fmt: skip
"""Labels that controllers add to pods."""


def own_labels(selector: Mapping[str, str]) -> dict[str, str]:
    """The selector without labels that only a controller writes."""
    return {k: v for k, v in selector.items() if not k.startswith(_CONTROLLERS)}


def leads_to(selector: Mapping[str, str], pod: Pod) -> bool:
    """Whether a selector finds pods of a template, those that only some of them have labels for
    (the index of a StatefulSet's pod) among it."""
    own = own_labels(selector)
    others = (k for k in selector if k not in own and k in pod.labels)
    found = bool(own) and own.items() <= pod.labels.items()
    return (found and all(selector[k] == pod.labels[k] for k in others)) or (
        bool(selector) and selector.items() <= pod.labels.items()
    )
