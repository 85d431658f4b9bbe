"""The shared file system as a claim in each tenant's namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.objects import KubernetesObject
from tokenworks.spec.stack import Manifest

CLAIM: Final = "shared-weights"


@dataclass(frozen=True)
class VolumesArgs:
    """The file system, and who gets it."""

    namespaces: Sequence[str]
    capacity: str
    """As Kubernetes spells it, such as 2400Gi."""
    file_system: Mapping[str, pulumi.Input[Any]]
    """fileSystemId, dnsName, mountName."""
    after: Sequence[pulumi.Resource] = ()
    """The namespaces."""


def volume(args: VolumesArgs, namespace: str) -> Manifest:
    """The file system, for one namespace's claim."""
    name = f"{namespace}-{CLAIM}"
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": args.capacity},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "mountOptions": ["flock"],
            "claimRef": {"namespace": namespace, "name": CLAIM},
            "csi": {
                "driver": "fsx.csi.aws.com",
                "volumeHandle": args.file_system["fileSystemId"],
                "volumeAttributes": {
                    "dnsname": args.file_system["dnsName"],
                    "mountname": args.file_system["mountName"],
                },
            },
        },
    }  # fmt: skip


def claim(args: VolumesArgs, namespace: str) -> Manifest:
    """The claim that releases name (`caches.weights.claim`)."""
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": f"{namespace}-{CLAIM}",
            "resources": {"requests": {"storage": args.capacity}},
        },
    }  # fmt: skip


class Volumes(pulumi.ComponentResource):
    """A volume and a claim for each namespace; files stay when they go."""

    def __init__(
        self, name: str, args: VolumesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Volumes", name, None, opts)
        child = pulumi.ResourceOptions(parent=self, depends_on=list(args.after))
        for namespace in args.namespaces:
            KubernetesObject(volume(args, namespace), child)
            KubernetesObject(claim(args, namespace), child)
        self.register_outputs({"claim": CLAIM})
