"""A real Kubernetes on one Linux machine: no container engine, no registry, no GPU."""

from local.cluster.control import NotRunningError
from local.cluster.lifecycle import (
    ComponentStatus,
    down,
    forward,
    import_images,
    kubeconfig_path,
    kubectl_command,
    log_file,
    node_status,
    status,
    up,
)
from local.cluster.machine import require
from local.cluster.nodes import NodeStatus
from local.cluster.spec import ClusterSpec, Pool, Programs, paths, state_root

__all__ = [
    "ClusterSpec",
    "ComponentStatus",
    "NodeStatus",
    "NotRunningError",
    "Pool",
    "Programs",
    "down",
    "forward",
    "import_images",
    "kubeconfig_path",
    "kubectl_command",
    "log_file",
    "node_status",
    "paths",
    "require",
    "state_root",
    "status",
    "up",
]
