"""What the rules must know about an environment and cannot read from its objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from policies import RULES, Context, Finding, aws
from policies.model import Level, Waiver
from tokenworks.catalog.aws import instances
from tokenworks.catalog.aws.registries import regional
from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_engines
from tokenworks.check.rules import rule_ids
from tokenworks.errors import did_you_mean
from tokenworks.spec.common import Image
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import DocumentErrors, FieldPath, Problem, field_name
from tokenworks.spec.stack import Stack

_BUILT_HERE = frozenset({"local", "kind"})
"""Providers whose nodes get images from this machine, without a registry."""


def context_of(stack: Stack, local_images: Iterable[str]) -> Context:
    """The rules' context for an environment; `local_images` is the table of local images.

    Applying asks for more: see `tokenworks.check.apply`.
    """
    provider = stack.environment.spec.cluster.provider
    local = provider in _BUILT_HERE
    components = bill().components.values()
    policies = stack.environment.spec.policies
    return Context(
        profile=policies.profile or ("local" if local else "prod"),
        levels=_levels(stack, policies.rules),
        waivers=tuple(_waivers(stack)),
        today=today(),
        whole=True,
        local_images=frozenset(local_images) if local else frozenset(),
        platform_namespaces=frozenset(c.namespace for c in components if c.namespace),
        unresolved_images=frozenset(_unresolved(stack)),
        only_local_images=provider == "local",
    )


def today() -> str:
    """The day by which waivers expire, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _levels(stack: Stack, given: Mapping[str, Level]) -> Mapping[str, Level]:
    """Rules that weigh otherwise.

    Raises DocumentErrors when there is no such rule.
    """
    known = [rule.id for rule in (*RULES, *aws.RULES)]
    hint = "name one that ./tokenworks explain lists"
    wrong = [
        _problem(
            stack, ("spec", "policies", "rules", name),
            f"{name} is about reading, and always an error" if name in rule_ids()
            else f"there is no rule {name}",
            did_you_mean(name, known, hint),
        )
        for name in given
        if name not in known
    ]  # fmt: skip
    if wrong:
        raise DocumentErrors(f"stacks/{stack.name}", wrong)
    return given


def _problem(stack: Stack, field: FieldPath, found: str, remedy: str) -> Problem:
    """A problem of the environment's own document."""
    file, line = stack.place(f"Environment/{stack.name}", field)
    return Problem(Path(file or "environment.yaml"), line, field_name(field), found, None, remedy)


def _waivers(stack: Stack) -> Iterator[Waiver]:
    for position, waiver in enumerate(stack.environment.spec.policies.waivers):
        file, line = stack.place(
            f"Environment/{stack.name}", ("spec", "policies", "waivers", position)
        )
        place = file or "environment.yaml"
        yield Waiver(
            waiver.rule, waiver.object, waiver.reason, waiver.owner, waiver.expires,
            f"{place}:{line}" if line else place,
        )  # fmt: skip


def _unresolved(stack: Stack) -> Iterator[str]:
    for image in _images(stack):
        if image.digest == "unresolved":
            yield f"{image.repository}:{image.tag}" if image.tag else image.repository


def _images(stack: Stack) -> Iterator[Image]:
    aws = stack.environment.spec.cluster.aws
    for component in bill().components.values():
        for image in component.images.values():
            yield image if aws is None else regional(image, aws.region)
    for engine in load_engines().engines.values():
        for version in engine.versions.values():
            yield from (i for i in (version.image, version.cpu, version.efa) if i is not None)
    for model in stack.models:
        if model.spec.engine.image is not None:
            yield model.spec.engine.image


def unresolved_revisions(stack: Stack, context: Context) -> Iterator[Finding]:
    """Weights and adapters without a revision or digest yet: no object says so, and a branch can
    move. So do node images without a release. And pools that no price is known for."""
    yield from _unresolved_nodes(stack, context)
    yield from _pools_elsewhere(stack)
    for model in stack.models:
        for rule, path, message, remedy in _unresolved_in(model):
            file, line = stack.place(f"ModelRelease/{model.metadata.name}", path)
            yield Finding(
                rule,
                context.unresolved,
                f"ModelRelease {model.metadata.name}",
                field_name(path),
                message,
                remedy,
                file,
                line,
            )


def _unresolved_nodes(stack: Stack, context: Context) -> Iterator[Finding]:
    aws = stack.environment.spec.cluster.aws
    if aws is not None and aws.node_release == "unresolved":
        path = ("spec", "cluster", "aws", "nodeRelease")
        file, line = stack.place(f"Environment/{stack.name}", path)
        yield Finding(
            "unresolved-node-release",
            context.unresolved,
            f"Environment {stack.name}",
            field_name(path),
            "the release of the node images is still unresolved: nodes would take the newest",
            "replace `unresolved` by a release of awslabs/amazon-eks-ami",
            file,
            line,
        )


def _pools_elsewhere(stack: Stack) -> Iterator[Finding]:
    """A type without a price in a region that has prices of others is not sold there, or was not
    when they were read."""
    aws = stack.environment.spec.cluster.aws
    if aws is None:
        return
    for name, pool in stack.environment.spec.node_pools.items():
        if pool.aws is None or instances().sold_in(
            pool.aws.instance_type, pool.aws.purchase, aws.region
        ):
            continue
        path = ("spec", "nodePools", name, "aws", "instanceType")
        file, line = stack.place(f"Environment/{stack.name}", path)
        yield Finding(
            "instance-type-elsewhere",
            "warning",
            f"Environment {stack.name}",
            field_name(path),
            f"AWS's lists have no price for {pool.aws.instance_type} ({pool.aws.purchase}) in "
            f"{aws.region}: it is probably not sold there",
            "name another type, purchase or region, or look whether AWS has added it since",
            file,
            line,
        )


_OF_ADAPTERS = {
    "revision": "the commit that the hub shows for it",
    "digest": "sha256: and what `sha256sum adapter_model.safetensors` says",
}


def _unresolved_in(model: ModelRelease) -> Iterator[tuple[str, FieldPath, str, str]]:
    """Rule, field, message and remedy of each."""
    spec = model.spec
    if spec.model.revision == "unresolved":
        yield (
            "unresolved-revision",
            ("spec", "model", "revision"),
            f"the revision of {spec.model.uri} is still unresolved: the weights may change",
            "replace `unresolved` by the commit that the hub shows for the weights",
        )
    for name, adapter in (spec.lora.adapters if spec.lora else {}).items():
        for field, words in _OF_ADAPTERS.items():
            if getattr(adapter, field) == "unresolved":
                yield (
                    "unresolved-adapter",
                    ("spec", "lora", "adapters", name, field),
                    f"the {field} of {adapter.uri} is still unresolved: no pod will load it",
                    f"replace `unresolved` by {words}",
                )
