"""One Kubernetes object as one Pulumi resource, of any kind.

The provider takes every kind under the token `kubernetes:<group>/<version>:<Kind>`, so a
rendered object needs no class of its own. What only delivery knows (what to wait for, who
owns fields) is added here and not in what is rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pulumi

from components.awaiting import WEBHOOKS, group_of, waiting
from tokenworks.render.release import FIELD_MANAGER, logical_name
from tokenworks.spec.stack import Manifest


def token(manifest: Manifest, version: str | None = None) -> str:
    """Pulumi's type token, as provider and SDK spell it; `version` replaces the object's own."""
    own = str(manifest["apiVersion"]).rpartition("/")[2]
    return f"kubernetes:{group_of(manifest) or 'core'}/{version or own}:{manifest['kind']}"


def left_to_others(manifest: Manifest) -> list[str]:
    """Fields that whoever serves the object may tighten, without our undoing it.

    istiod turns `failurePolicy: Ignore` of its webhook into Fail once it can answer.
    """
    hooks: list[Manifest] = manifest.get("webhooks") or []
    lenient = any(hook.get("failurePolicy") == "Ignore" for hook in hooks)
    return ["webhooks[*].failurePolicy"] if lenient else []


def instructions(manifest: Manifest) -> dict[str, str]:
    """What the provider is told about the object."""
    told = {"pulumi.com/patchFieldManager": FIELD_MANAGER, **waiting(manifest)}
    if manifest["kind"] in WEBHOOKS:
        # Operators rewrite their own webhooks (CA, failure policy) and own those fields since.
        told["pulumi.com/patchForce"] = "true"
    return told


def properties(manifest: Manifest) -> dict[str, Any]:
    """The resource's inputs: the object, annotated; the contents of a Secret encrypted."""
    meta: Manifest = manifest["metadata"]
    given: Manifest = meta.get("annotations") or {}
    annotated = {**given, **instructions(manifest)}
    whole: Manifest = {**manifest, "metadata": {**meta, "annotations": annotated}}
    whole.pop("status", None)
    if manifest["kind"] == "Secret" and group_of(manifest) == "":
        for key in ("data", "stringData"):
            if key in whole:
                whole[key] = pulumi.Output.secret(whole[key])
    return whole


class KubernetesObject(pulumi.CustomResource):
    """One object in the cluster. `status` is known once it exists."""

    def __init__(
        self, manifest: Manifest, opts: pulumi.ResourceOptions, versions: Sequence[str] = ()
    ) -> None:
        """
        Args:
            manifest: the object.
            opts: its parent, and what comes before it.
            versions: other versions of its API: under these it may have been applied before, and
                a new version must not delete the object that it just updated.
        """
        older = [pulumi.Alias(type_=token(manifest, version)) for version in versions]
        super().__init__(
            token(manifest),
            logical_name(manifest),
            {**properties(manifest), "status": None},
            pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(aliases=older, ignore_changes=left_to_others(manifest)),
            ),
        )

    @property
    def status(self) -> pulumi.Output[Any]:
        """The object's status, as the cluster reports it."""
        return cast("pulumi.Output[Any]", pulumi.get(self, "status"))  # pyright: ignore[reportUnknownMemberType]
