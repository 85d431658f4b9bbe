"""Weights of an environment: the bucket, the file system in front of it, who may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi

from components.aws.bucket import Bucket, BucketArgs
from components.aws.common import document
from components.aws.foundation import Foundation
from components.aws.lustre import Lustre, LustreArgs
from components.aws.pod_identity import PodIdentity, PodIdentityArgs
from tokenworks.render.aws import AwsPlan
from tokenworks.spec.aws import WeightsStore
from tokenworks.spec.common import quantity_value

SERVICE_ACCOUNT: Final = "weights-reader"
"""Pods of a tenant that run as it may read the bucket."""


@dataclass(frozen=True)
class WeightsArgs:
    """The plan, and what it stands on."""

    plan: AwsPlan
    store: WeightsStore
    foundation: Foundation
    cluster: pulumi.Input[str]


def reader_policy(bucket: str, key_arn: str) -> str:
    """Read weights, and nothing else."""
    arn = f"arn:aws:s3:::{bucket}"
    return document([
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/weights/*"},
        {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": key_arn},
    ])  # fmt: skip


class Weights(pulumi.ComponentResource):
    """Bucket, optional file system, a reading identity for each tenant."""

    bucket: pulumi.Output[str]
    lustre: Lustre | None

    def __init__(
        self, name: str, args: WeightsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Weights", name, None, opts)
        plan, child = args.plan, pulumi.ResourceOptions(parent=self)
        key = args.foundation.data_key.arn
        self.bucket = Bucket(
            f"{name}-bucket", BucketArgs(args.store.bucket, key, plan.tags), child
        ).name
        self.lustre = self._lustre(name, args) if args.store.lustre else None
        for namespace in plan.namespaces:
            identity = PodIdentityArgs(
                args.cluster, namespace, SERVICE_ACCOUNT, plan.tags,
                policy=key.apply(lambda arn: reader_policy(args.store.bucket, arn)),
            )  # fmt: skip
            PodIdentity(f"{name}-reader-{namespace}", identity, child)
        self.register_outputs({"bucket": self.bucket})

    def _lustre(self, name: str, args: WeightsArgs) -> Lustre:
        wanted, network = args.store.lustre, args.foundation.network
        assert wanted is not None
        return Lustre(
            f"{name}-lustre",
            LustreArgs(
                vpc_id=network.vpc_id,
                cidr=args.plan.spec.network.cidr,
                subnet=network.private_subnets[_zone(args.plan)],
                bucket=self.bucket,
                gibibytes=round(quantity_value(wanted.capacity) / 2**30),
                megabytes_per_second=wanted.megabytes_per_second,
                key_arn=args.foundation.data_key.arn,
                tags=args.plan.tags,
            ),
            pulumi.ResourceOptions(parent=self),
        )


def _zone(plan: AwsPlan) -> str:
    """The zone of the largest pool: most reading happens there."""
    largest = max(plan.pools, key=lambda pool: pool.most * pool.gpus, default=None)
    return largest.zones[0] if largest else plan.spec.zones[0]
