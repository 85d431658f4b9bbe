"""The gateway's certificate, proven by a record in a zone that exists already."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named


@dataclass(frozen=True)
class CertificateArgs:
    """Which name, in which zone."""

    hostname: str
    zone_id: str
    tags: Tags


class Certificate(pulumi.ComponentResource):
    """A certificate that renews itself as long as its record stays."""

    arn: pulumi.Output[str]

    def __init__(
        self, name: str, args: CertificateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Certificate", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        made = aws.acm.Certificate(
            f"{name}-certificate",
            domain_name=args.hostname,
            validation_method="DNS",
            tags=named(args.tags, args.hostname),
            opts=child,
        )
        proof = made.domain_validation_options.apply(lambda options: options[0])
        record = aws.route53.Record(
            f"{name}-proof",
            zone_id=args.zone_id,
            name=proof.apply(lambda p: p.resource_record_name or ""),
            type=proof.apply(lambda p: p.resource_record_type or ""),
            records=[proof.apply(lambda p: p.resource_record_value or "")],
            ttl=300,
            allow_overwrite=True,
            opts=child,
        )
        valid = aws.acm.CertificateValidation(
            f"{name}-valid",
            certificate_arn=made.arn,
            validation_record_fqdns=[record.fqdn],
            opts=child,
        )
        self.arn = valid.certificate_arn
        self.register_outputs({"arn": self.arn})


@dataclass(frozen=True)
class GatewayRecordArgs:
    """The name, and where it leads."""

    hostname: str
    zone_id: str
    address: pulumi.Input[str]
    """What the load balancer is called."""


class GatewayRecord(pulumi.ComponentResource):
    """The gateway's name."""

    def __init__(
        self, name: str, args: GatewayRecordArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:GatewayRecord", name, None, opts)
        aws.route53.Record(
            f"{name}-record",
            zone_id=args.zone_id,
            name=args.hostname,
            type="CNAME",
            ttl=60,
            records=[args.address],
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
