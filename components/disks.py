"""Classes of disks, and the key that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pulumi

from tokenworks.render.release import Release
from tokenworks.spec.stack import Manifest

_CLASS: Final = "StorageClass"


def keyed(releases: Sequence[Release], parameter: str, key: pulumi.Output[str]) -> list[Release]:
    """The releases, with the number of the key of disks where its name stood.

    Both make disks, but the driver compares what a class says with the key of the disk that is
    copied, and by its name it would refuse every clone of a claim (pkg/driver/controller.go of
    kubernetes-sigs/aws-ebs-csi-driver v1.63.1).

    Args:
        releases: as they were rendered.
        parameter: of classes, that names the key.
        key: its number, known once it is made.
    """
    return [
        replace(release, objects=tuple(_keyed(o, parameter, key) for o in release.objects))
        if any(o["kind"] == _CLASS for o in release.objects)
        else release
        for release in releases
    ]


def _keyed(manifest: Manifest, parameter: str, key: pulumi.Output[str]) -> Manifest:
    parameters: Manifest = manifest.get("parameters") or {}
    if manifest["kind"] != _CLASS or parameter not in parameters:
        return manifest
    return {**manifest, "parameters": {**parameters, parameter: key}}
