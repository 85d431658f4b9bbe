"""A shared file system that reads weights through from their bucket."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, kept, named


@dataclass(frozen=True)
class LustreArgs:
    """The file system."""

    vpc_id: pulumi.Input[str]
    cidr: str
    subnet: pulumi.Input[str]
    """In one zone: nodes of others pay for the traffic and wait longer."""
    bucket: pulumi.Input[str]
    gibibytes: int
    megabytes_per_second: int
    """For each TiB."""
    key_arn: pulumi.Input[str]
    tags: Tags


class Lustre(pulumi.ComponentResource):
    """FSx for Lustre linked to the bucket, open to the VPC's nodes alone."""

    file_system_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]

    def __init__(
        self, name: str, args: LustreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Lustre", name, None, opts)
        child, tags = pulumi.ResourceOptions(parent=self), named(args.tags, name)
        group = aws.ec2.SecurityGroup(
            f"{name}-group", vpc_id=args.vpc_id, description="Lustre", tags=tags, opts=child
        )
        # 988 is Lustre's, the others carry what its servers ask of each other and of clients.
        for first, last in ((988, 988), (1018, 1023)):
            for kind, rule in (
                ("in", aws.vpc.SecurityGroupIngressRule),
                ("out", aws.vpc.SecurityGroupEgressRule),
            ):
                rule(
                    f"{name}-{kind}-{first}",
                    security_group_id=group.id,
                    description="Lustre within the VPC",
                    cidr_ipv4=args.cidr,
                    ip_protocol="tcp",
                    from_port=first,
                    to_port=last,
                    tags=tags,
                    opts=child,
                )
        made = aws.fsx.LustreFileSystem(
            f"{name}-files",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            storage_capacity=args.gibibytes,
            per_unit_storage_throughput=args.megabytes_per_second,
            subnet_ids=args.subnet,
            security_group_ids=[group.id],
            kms_key_id=args.key_arn,
            data_compression_type="LZ4",
            tags=tags,
            opts=kept(self),
        )
        aws.fsx.DataRepositoryAssociation(
            f"{name}-weights",
            file_system_id=made.id,
            data_repository_path=pulumi.Output.concat("s3://", args.bucket, "/weights"),
            file_system_path="/weights",
            batch_import_meta_data_on_create=True,
            s3=aws.fsx.DataRepositoryAssociationS3Args(
                auto_import_policy=aws.fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(
                    events=["NEW", "CHANGED", "DELETED"]
                )
            ),
            tags=tags,
            opts=child,
        )
        self.file_system_id, self.dns_name = made.id, made.dns_name
        self.mount_name = made.mount_name
        self.register_outputs({"fileSystemId": self.file_system_id})
