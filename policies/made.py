"""Secrets and ConfigMaps that controllers make of other objects of a set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.model import Manifest
from policies.tree import at, is_sequence, mapping

_MADE: Mapping[tuple[str, str], tuple[str, Sequence[str]]] = {
    ("cert-manager.io", "Certificate"): ("Secret", ["spec.secretName"]),
    ("trust.cert-manager.io", "Bundle"): ("ConfigMap", ["metadata.name"]),
    ("external-secrets.io", "ExternalSecret"): ("Secret", ["spec.target.name", "metadata.name"]),
    ("bitnami.com", "SealedSecret"): ("Secret", ["spec.template.metadata.name", "metadata.name"]),
    ("secrets.hashicorp.com", "VaultStaticSecret"): ("Secret", ["spec.destination.name"]),
    ("secrets.hashicorp.com", "VaultDynamicSecret"): ("Secret", ["spec.destination.name"]),
    ("secrets.hashicorp.com", "VaultPKISecret"): ("Secret", ["spec.destination.name"]),
    ("secrets-store.csi.x-k8s.io", "SecretProviderClass"): (
        "Secret", ["spec.secretObjects.*.secretName"],
    ),
    ("onepassword.com", "OnePasswordItem"): ("Secret", ["metadata.name"]),
    ("isindir.github.com", "SopsSecret"): ("Secret", ["spec.secretTemplates.*.name"]),
    ("secrets.infisical.com", "InfisicalSecret"): (
        "Secret", ["spec.managedSecretReference.secretName"],
    ),
}  # fmt: skip
"""What a controller makes, and where its name stands: the first place that says one. From the
projects' own API references: cert-manager.io/docs/reference/api-docs, cert-manager.io/docs/trust/
trust-manager, external-secrets.io/latest/api/externalsecret, bitnami-labs/sealed-secrets README.md,
developer.hashicorp.com/vault/docs/deploy/kubernetes/vso/api-reference, secrets-store-csi-driver
sync-as-kubernetes-secret, 1Password/onepassword-operator, isindir/sops-secrets-operator and
infisical.com/docs; read 2026-12-01."""


def made_of(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Kind, namespace and name of each object that a controller makes of this one; the namespace
    is empty for those that it makes in all."""
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    found = _MADE.get((group, str(manifest.get("kind"))))
    if found is None:
        return
    kind, places = found
    namespace = "" if group.startswith("trust.") else at(manifest, "metadata", "namespace")
    names = next((names for place in places if (names := _texts(manifest, place.split(".")))), ())
    for name in names:
        yield kind, "" if namespace == "" else str(namespace or "default"), name


def _texts(value: Any, place: Sequence[str]) -> list[str]:
    if not place:
        return [value] if isinstance(value, str) and value else []
    head, *rest = place
    if head == "*":
        items: Sequence[Any] = value if is_sequence(value) else ()
        return [text for item in items for text in _texts(item, rest)]
    return _texts(mapping(value).get(head), rest)
