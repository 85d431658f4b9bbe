"""What a node runs first: the image's own configuration, and a folder for weights."""

from __future__ import annotations

import json
from typing import Final

_BOUNDARY: Final = "//tokenworks//"


def user_data(raid: bool, folder: str | None = None, owner: int = 0) -> str:
    """What nodeadm is told, and a script that makes the folder for weights.

    Args:
        raid: join the NVMe disks to one array, which containerd and kubelet use too.
        folder: a folder on that array, made for `owner`.
        owner: numeric user and group.
    """
    spec = {"instance": {"localStorage": {"strategy": "RAID0"}}} if raid else {}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    parts = [("application/node.eks.aws", json.dumps(config, indent=2))]
    if folder is not None:
        script = f"#!/bin/sh\nset -e\ninstall -d -m 0755 -o {owner} -g {owner} '{folder}'\n"
        parts.append(('text/x-shellscript; charset="us-ascii"', script))
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for kind, body in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {kind}", "", body]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])
