"""How programs reach an EKS cluster: a kubeconfig that holds no credentials."""

from __future__ import annotations

import json


def kubeconfig(name: str, endpoint: str, authority: str, region: str) -> str:
    """A kubeconfig whose user asks `aws` for a token each time, with the caller's own role."""
    command = ["eks", "get-token", "--cluster-name", name, "--region", region, "--output", "json"]
    user = {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": command,
        "interactiveMode": "Never",
    }}  # fmt: skip
    cluster = {"server": endpoint, "certificate-authority-data": authority}
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }, sort_keys=True)  # fmt: skip
