"""The layers of an environment on AWS, made here or read from another stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from components.aws.account import provider
from components.aws.dns import GatewayRecord, GatewayRecordArgs
from components.aws.infrastructure import Infrastructure, InfrastructureArgs
from components.aws.volumes import Volumes, VolumesArgs
from components.environment import Environment
from components.references import Reference
from tokenworks.errors import TokenworksError
from tokenworks.render.aws import AwsPlan, plan_of
from tokenworks.render.aws.load_balancer import CERTIFICATE
from tokenworks.render.aws.storage import KEY_PARAMETER
from tokenworks.spec.stack import Stack

_KEY: Final = "volumesKey"


@dataclass(frozen=True)
class Made:
    """The infrastructure, as the layers above see it."""

    plan: AwsPlan
    kubeconfig: pulumi.Output[str]
    weights: Mapping[str, pulumi.Output[Any]]
    certificate: pulumi.Output[str] | None
    """Of the gateway's name; None where it has none."""
    volumes_key: pulumi.Output[str]
    """ARN of the key of disks."""
    exports: Mapping[str, Any]
    ready: Sequence[pulumi.Resource] = ()
    """What has to be there before, and until after, anything on the cluster; empty where another
    stack made it."""
    provider: aws.Provider | None = None
    """The one that made it; None where another stack did."""


def identity(stack: Stack) -> str:
    """What tells the cluster from every other."""
    cluster = stack.environment.spec.cluster.aws
    assert cluster is not None
    return f"aws/{cluster.account}/{cluster.region}/{stack.name}"


def infrastructure(stack: Stack, user: int, *, read: bool) -> Made:
    """The infrastructure, made in this stack or read from the environment's own for it."""
    plan = plan_of(stack)
    if read:
        files = _files(plan) if plan.spec.weights else ()
        wanted = ["kubeconfig", _KEY, *(f"weights.{part}" for part in files)]
        wanted += ["certificate"] if plan.certified else []
        reference = Reference(f"{stack.name}-infrastructure", wanted)
        weights = {part: _part(reference.output("weights"), part) for part in files}
        certificate = reference.output("certificate") if plan.certified else None
        key = reference.output(_KEY)
        return Made(plan, reference.output("kubeconfig"), weights, certificate, key, {})
    made = Infrastructure(stack.name, InfrastructureArgs(plan, user))
    exports: dict[str, Any] = {"kubeconfig": made.kubeconfig, _KEY: made.volumes_key}
    if made.weights:
        exports["weights"] = made.weights
    if made.certificate is not None:
        exports["certificate"] = made.certificate
    key = made.volumes_key
    return Made(
        plan, made.kubeconfig, made.weights, made.certificate, key, exports, made.ready,
        made.provider,
    )  # fmt: skip


def gateway_annotations(made: Made) -> dict[str, pulumi.Input[str]]:
    """What the gateway's load balancer is told of things that were made for it."""
    return {} if made.certificate is None else {CERTIFICATE: made.certificate}


def disk_key(made: Made) -> tuple[str, pulumi.Output[str]]:
    """Parameter of classes of disks that names a key, and the key's ARN."""
    return KEY_PARAMETER, made.volumes_key


def platform(stack: Stack, made: Made, environment: Environment) -> None:
    """What the platform needs of AWS once its objects are there: names and volumes."""
    dns, hostname = made.plan.spec.dns, made.plan.hostname
    if dns is not None and hostname is not None:
        address = environment.gateway.apply(_load_balancer)
        args = GatewayRecordArgs(hostname, dns.zone_id, address)
        ours = made.provider or provider(stack.name, made.plan)
        opts = pulumi.ResourceOptions(providers=[ours])
        GatewayRecord(f"{stack.name}-gateway-address", args, opts)
    store = made.plan.spec.weights
    if store is not None and store.lustre is not None:
        args = VolumesArgs(
            made.plan.namespaces, store.lustre.capacity, made.weights, environment.ready_tenants
        )
        opts = pulumi.ResourceOptions(providers=[environment.provider])
        Volumes(f"{stack.name}-volumes", args, opts)


def _files(plan: AwsPlan) -> tuple[str, ...]:
    store = plan.spec.weights
    lustre = ("fileSystemId", "dnsName", "mountName") if store and store.lustre else ()
    return ("bucket", *lustre)


def _part(weights: pulumi.Output[Any], name: str) -> pulumi.Output[Any]:
    return weights.apply(lambda known: known[name])


def _load_balancer(address: str | None) -> str:
    if not address:
        raise TokenworksError(
            "the gateway got no address, so its name cannot lead anywhere: see why its Service has "
            "none (kubectl describe), then run the same command again"
        )
    return address
