"""Which folders under `go/` compile the same libraries, and are therefore kept at one version."""

from __future__ import annotations

TOGETHER = (
    ("istio", "operators"),
    ("llm-d", "operators"),
    ("coredns", "manifests"),
    ("helm3", "manifests"),
)
"""Pairs whose Kubernetes libraries are of the same minor version: compiled once for both."""
APART = (
    "github.com/envoyproxy/", "github.com/cncf/xds", "github.com/prometheus/prometheus",
    "istio.io/", "sigs.k8s.io/gateway-api",
)  # fmt: skip
"""Beginnings of modules that stay as each needs them: their versions do not go together."""
