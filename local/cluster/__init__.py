"""A real Kubernetes on one Linux machine: no container engine, no registry, no GPU."""

from local.cluster.lifecycle import (
    ComponentStatus,
    down,
    forward_service,
    import_images,
    kubeconfig_path,
    kubectl_command,
    log_file,
    status,
    up,
)
from local.cluster.spec import ClusterSpec, Pool, Programs, paths, state_root

__all__ = [
    "ClusterSpec",
    "ComponentStatus",
    "Pool",
    "Programs",
    "down",
    "forward_service",
    "import_images",
    "kubeconfig_path",
    "kubectl_command",
    "log_file",
    "paths",
    "state_root",
    "status",
    "up",
]
