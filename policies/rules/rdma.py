"""Fast networks that are really used: rights, transports, one zone, one owner."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.graph import Item
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.pods import Container
from policies.rules.shared import about, env_path, of_item
from policies.tree import at, mapping, sequence, strings

_DOCS = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_EFA_DOCS = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_EFA = "vpc.amazonaws.com/efa"
_RDMA = re.compile(
    r"rdma/.+|nvidia\.com/(?:.*rdma.*|.*mlnx.*|roce.*|ib.*)|mellanox\.com/.+|openshift\.io/.*(?:rdma|ib|mlnx).*"
)


def _devices(container: Container) -> list[str]:
    """Network devices that a container asks for."""
    resources = mapping(container.spec.get("resources"))
    names = {str(n) for side in ("limits", "requests") for n in mapping(resources.get(side))}
    return sorted(name for name in names if name == _EFA or _RDMA.fullmatch(name))


def _capabilities(container: Container) -> tuple[str, ...]:
    return strings(at(container.spec, "securityContext", "capabilities", "add"))


def _user(container: Container) -> object:
    for level in (container.spec, container.pod.spec):
        context = mapping(level.get("securityContext"))
        if "runAsUser" in context:
            return context["runAsUser"]
        if context.get("runAsNonRoot") is True:
            return "non-root"
    return None


def _needs_lock(
    devices: list[str], added: tuple[str, ...], user: object, context: Mapping[str, Any]
) -> bool:
    """Root with devices, and without the right."""
    rooted = user in (None, 0) and context.get("privileged") is not True
    return bool(devices) and rooted and not {"IPC_LOCK", "ALL"} & set(added)


@rule(
    "ipc-lock",
    "warning",
    "Pods with RDMA may lock memory",
    "RDMA registers memory, which must be locked: without the right, or for a user whom the right "
    "does not reach, registration fails and the traffic goes over TCP.",
    "Add the capability IPC_LOCK and run as root, or raise the memlock limit of the container "
    "runtime.",
    "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
    "#set-capabilities-for-a-container",
)
def ipc_lock(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        devices = [name for name in _devices(container) if name != _EFA]
        added = _capabilities(container)
        user = _user(container)
        context = mapping(container.spec.get("securityContext"))
        if "IPC_LOCK" in added and user not in (None, 0):
            yield about(
                program, ("securityContext", "capabilities", "add"),
                f"adds IPC_LOCK and runs as user {user}, to whom Kubernetes does not give it",
                "run as root, or raise the memlock limit of the container runtime and remove "
                "IPC_LOCK",
            )  # fmt: skip
        elif container.completed:
            continue
        elif _needs_lock(devices, added, user, context) and container.kind != "init":
            yield about(
                program, ("securityContext", "capabilities"),
                f"asks for {devices[0]} and may not lock memory",
                "add the capability IPC_LOCK",
            )  # fmt: skip


_OFF = {
    "NCCL_IB_DISABLE": ("1",),
    "NCCL_NET": ("Socket",),
    "UCX_TLS": ("tcp",),
    "FI_PROVIDER": ("tcp", "sockets"),
    "NCCL_NET_PLUGIN": ("none",),
}


@rule(
    "rdma-unused",
    "error",
    "What has RDMA does not switch it off",
    "A device that is asked for and switched off is kept from others, and every transfer takes "
    "the slow way without a message.",
    "Remove the variable, or the device.",
    _DOCS,
)
def rdma_unused(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        devices = _devices(program.container)
        if not devices:
            continue
        env = program.container.env
        for name, values in _OFF.items():
            efa = devices == [_EFA] and name in ("NCCL_IB_DISABLE", "UCX_TLS")
            if env.get(name) in values and not efa:
                yield about(
                    program, env_path(program, name),
                    f"asks for {devices[0]} and switches it off with {name}={env[name]}",
                    f"remove {name}, or {devices[0]}",
                )  # fmt: skip


_WANTED = (
    "NCCL_IB_HCA", "NVSHMEM_HCA_LIST", "NVSHMEM_ENABLE_NIC_PE_MAPPING", "NCCL_IB_GID_INDEX",
)  # fmt: skip
"""Variables that mean nothing without RDMA; in the order in which one is named."""


@rule(
    "rdma-missing",
    "warning",
    "What needs RDMA has it",
    "Settings for RDMA in a pod without its device do nothing: transfers fall back to TCP, or "
    "experts across nodes do not start.",
    "Ask for the device (rdma/…, vpc.amazonaws.com/efa), or remove the settings.",
    _DOCS,
)
def rdma_missing(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        if program.engine is None or not program.accelerators or _devices(container):
            continue
        spec, context = container.pod.spec, mapping(container.spec.get("securityContext"))
        host = spec.get("hostNetwork") is True or context.get("privileged") is True
        claims = mapping(container.spec.get("resources")).get("claims")
        if host or claims or _attached(container):
            continue
        named = [name for name in _WANTED if container.env.get(name)]
        if named:
            yield about(
                program, env_path(program, named[0]),
                f"sets {named[0]} and asks for no RDMA device",
                f"ask for the device, or remove {named[0]}",
            )  # fmt: skip


def _attached(container: Container) -> bool:
    """A second network is attached in another way: Multus, GKE's multi-networking, Infiniband
    devices of the host."""
    value: object = container.pod.object
    for part in container.pod.path[:-1]:
        value = sequence(value)[part] if isinstance(part, int) else mapping(value).get(part)
    notes = mapping(at(value, "metadata", "annotations"))
    if any("networks" in str(key) or "networking" in str(key) for key in notes):
        return True
    return any(
        "infiniband" in str(at(mapping(volume), "hostPath", "path"))
        for volume in sequence(container.pod.spec.get("volumes"))
    )


def _node_class(inventory: Inventory, pool: Item) -> Item | None:
    name = str(at(pool.spec, "template", "spec", "nodeClassRef", "name"))
    return inventory.graph.find("EC2NodeClass", "", name)


def _has_efa(inventory: Inventory, pool: Item) -> bool:
    found = _node_class(inventory, pool)
    return found is not None and _efa_interfaces(found)


def _efa_interfaces(node_class: Item) -> bool:
    interfaces = sequence(node_class.spec.get("networkInterfaces"))
    return any("efa" in str(mapping(entry).get("interfaceType")) for entry in interfaces)


@rule(
    "efa-zone",
    "error",
    "Nodes with EFA are in one zone, close together",
    "EFA does not leave its subnet: ranks in two zones do not find each other.",
    "Require one topology.kubernetes.io/zone, and set a placement group.",
    _EFA_DOCS,
    whole_set=True,
)
def efa_zone(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for pool in inventory.graph.of_kind("NodePool"):
        if not _has_efa(inventory, pool):
            continue
        zones = [
            strings(mapping(entry).get("values"))
            for entry in sequence(at(pool.spec, "template", "spec", "requirements"))
            if mapping(entry).get("key") == "topology.kubernetes.io/zone"
            and mapping(entry).get("operator") == "In"
        ]
        if not zones or all(len(values) > 1 for values in zones):
            yield of_item(
                pool, ("spec", "template", "spec", "requirements"),
                "makes nodes with EFA in any zone" if not zones else
                f"makes nodes with EFA in {len(zones[0])} zones",
                "require one topology.kubernetes.io/zone",
            )  # fmt: skip


@rule(
    "efa-placement",
    "warning",
    "Nodes with EFA stand close together",
    "Without a placement group, or a block of capacity that is one, EC2 starts nodes of a group "
    "anywhere in the zone: collectives are slower, and differ from start to start.",
    "Make a placement group of strategy cluster, and name it in placementGroupSelector.",
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html",
)
def efa_placement(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for item in inventory.graph.of_kind("EC2NodeClass"):
        close = ("placementGroupSelector", "capacityReservationSelectorTerms")
        if _efa_interfaces(item) and not any(item.spec.get(key) for key in close):
            yield of_item(
                item, ("spec",),
                "makes nodes with EFA without a placement group",
                "set placementGroupSelector to a group of strategy cluster",
            )  # fmt: skip


def _plugin(item: Item) -> bool:
    return item.kind == "DaemonSet" and "efa-k8s-device-plugin" in str(item.manifest)


@rule(
    "efa-plugin",
    "error",
    "EFA has one owner, on every node that has it",
    "Device plugin and DRA driver give out the same interface twice; a plugin that does not "
    "tolerate the taints of the pool is not there, and no pod is scheduled.",
    "Keep plugin or DRA driver; give the plugin the tolerations of the pool.",
    _EFA_DOCS,
    whole_set=True,
)
def efa_plugin(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    plugins = [item for item in inventory.graph.of_kind("DaemonSet") if _plugin(item)]
    drivers = [
        item
        for item in inventory.graph.of_kind("DeviceClass", "ResourceSlice")
        if "efa" in str(item.manifest).lower()
    ]
    for plugin in plugins:
        if drivers:
            yield of_item(
                plugin, ("spec",),
                f"gives out EFA, and {drivers[0].kind} {drivers[0].name} does too",
                "remove the device plugin, or the DRA driver",
            )  # fmt: skip
        tolerations = [
            mapping(entry) for entry in sequence(at(plugin.spec, "template", "spec", "tolerations"))
        ]
        for pool in inventory.graph.of_kind("NodePool"):
            if not _has_efa(inventory, pool):
                continue
            for taint in sequence(at(pool.spec, "template", "spec", "taints")):
                if not any(_tolerates(entry, mapping(taint)) for entry in tolerations):
                    yield of_item(
                        plugin, ("spec", "template", "spec", "tolerations"),
                        f"does not tolerate the taint {mapping(taint).get('key')} of NodePool "
                        f"{pool.name}", "add the toleration",
                    )  # fmt: skip


def _tolerates(entry: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if entry.get("effect") not in (None, "", taint.get("effect")):
        return False
    if entry.get("operator") == "Exists":
        return entry.get("key") in (None, "", taint.get("key"))
    return entry.get("key") == taint.get("key") and (entry.get("value") or "") == (
        taint.get("value") or ""
    )


ALL = (ipc_lock, rdma_unused, rdma_missing, efa_zone, efa_placement, efa_plugin)
