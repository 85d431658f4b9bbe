"""Disks for claims: the default StorageClass of a cluster on AWS."""

from __future__ import annotations

from typing import Final

from tokenworks.render.aws.plan import AwsPlan, plan_of
from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest, Stack

CLASS: Final = "ebs"
KEY_PARAMETER: Final = "kmsKeyId"
"""Holds the key's name, as its number is known once it is made; delivery puts that in its place."""


def disks(stack: Stack) -> list[Release]:
    """EBS volumes for claims that name no class, and for those that name this one."""
    return [Release("disks", "operators", "", (storage_class(plan_of(stack)),))]


def storage_class(plan: AwsPlan) -> Manifest:
    """EBS volumes, encrypted with the environment's key for disks, in the zone of their pod."""
    key = f"arn:aws:kms:{plan.spec.region}:{plan.spec.account}:{plan.volumes_key}"
    tags = {
        f"tagSpecification_{number}": f"{name}={value}"
        for number, (name, value) in enumerate(sorted(plan.tags.items()), 1)
    }
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": CLASS,
            "labels": {"app.kubernetes.io/part-of": "tokenworks"},
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3", "encrypted": "true", KEY_PARAMETER: key, **tags},
        # A volume lies in one zone: where the pod runs is decided first.
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
        "reclaimPolicy": "Delete",
    }
