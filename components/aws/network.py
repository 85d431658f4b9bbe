"""The VPC: private subnets for nodes, public ones for load balancers and NAT, in each zone."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from components.aws.common import Tags, named


@dataclass(frozen=True)
class NetworkArgs:
    """Addresses and zones."""

    cidr: str
    zones: Sequence[str]
    nat: Literal["one", "per-zone"]
    cluster: str
    """Name of the cluster: load balancers and Karpenter find subnets by it."""
    tags: Tags


@dataclass(frozen=True)
class Slices:
    """The networks of one zone."""

    private: str
    public: str


def slices(cidr: str, count: int) -> list[Slices]:
    """Private networks of an eighth each, and public ones of a 256th, that do not overlap.

    The first half is private, six zones at most share it and the quarter after; the last eighth
    holds the public ones.
    """
    eighths = list(ipaddress.ip_network(cidr).subnets(prefixlen_diff=3))
    public = list(eighths[7].subnets(prefixlen_diff=3))
    return [Slices(str(eighths[n]), str(public[n])) for n in range(count)]


class Network(pulumi.ComponentResource):
    """VPC, subnets, gateways, routes. Nodes have no public address and no way in."""

    vpc_id: pulumi.Output[str]
    private_subnets: dict[str, pulumi.Output[str]]
    """Zone: its subnet."""
    public_subnets: dict[str, pulumi.Output[str]]
    route_tables: list[pulumi.Output[str]]
    """Of the private subnets."""

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:aws:Network", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=named(args.tags, name),
            opts=self._child,
        )
        self.vpc_id = vpc.id
        # What AWS makes with the VPC lets everything out and its members in: empty it.
        aws.ec2.DefaultSecurityGroup(
            f"{name}-default", vpc_id=vpc.id, tags=named(args.tags, f"{name}-unused"),
            opts=self._child,
        )  # fmt: skip
        internet = aws.ec2.InternetGateway(
            f"{name}-internet", vpc_id=vpc.id, tags=named(args.tags, name), opts=self._child
        )
        parts = dict(zip(args.zones, slices(args.cidr, len(args.zones)), strict=True))
        elb, karpenter = "kubernetes.io/role/elb", "karpenter.sh/discovery"
        internal = {"kubernetes.io/role/internal-elb": "1", karpenter: args.cluster}
        public = {z: self._subnet("public", z, p.public, {elb: "1"}) for z, p in parts.items()}
        private = {z: self._subnet("private", z, p.private, internal) for z, p in parts.items()}
        out = self._table("public", aws.ec2.RouteTableRouteArgs(
            cidr_block="0.0.0.0/0", gateway_id=internet.id))  # fmt: skip
        for zone, subnet in public.items():
            self._associate(f"public-{zone}", subnet, out)
        nats = self._nats(public, internet)
        self.route_tables = []
        for zone, subnet in private.items():
            nat = nats.get(zone) or nats[args.zones[0]]
            route = aws.ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", nat_gateway_id=nat.id)
            table = self._table(f"private-{zone}", route)
            self._associate(f"private-{zone}", subnet, table)
            self.route_tables.append(table.id)
        self.private_subnets = {zone: subnet.id for zone, subnet in private.items()}
        self.public_subnets = {zone: subnet.id for zone, subnet in public.items()}
        self.register_outputs({"vpcId": self.vpc_id, "privateSubnets": self.private_subnets})

    def _subnet(self, kind: str, zone: str, cidr: str, marks: Tags) -> aws.ec2.Subnet:
        full = f"{self._name}-{kind}-{zone}"
        return aws.ec2.Subnet(
            full,
            vpc_id=self.vpc_id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            tags=named(self._args.tags, full, **marks),
            opts=self._child,
        )

    def _nats(
        self, public: dict[str, aws.ec2.Subnet], internet: aws.ec2.InternetGateway
    ) -> dict[str, aws.ec2.NatGateway]:
        zones = self._args.zones if self._args.nat == "per-zone" else self._args.zones[:1]
        opts = pulumi.ResourceOptions(parent=self, depends_on=[internet])
        found: dict[str, aws.ec2.NatGateway] = {}
        for zone in zones:
            full = f"{self._name}-nat-{zone}"
            tags = named(self._args.tags, full)
            address = aws.ec2.Eip(f"{full}-address", domain="vpc", tags=tags, opts=opts)
            found[zone] = aws.ec2.NatGateway(
                full, allocation_id=address.id, subnet_id=public[zone].id, tags=tags, opts=opts
            )
        return found

    def _table(self, part: str, route: aws.ec2.RouteTableRouteArgs) -> aws.ec2.RouteTable:
        full = f"{self._name}-{part}-routes"
        return aws.ec2.RouteTable(
            full, vpc_id=self.vpc_id, routes=[route], tags=named(self._args.tags, full),
            opts=self._child,
        )  # fmt: skip

    def _associate(self, part: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> None:
        aws.ec2.RouteTableAssociation(
            f"{self._name}-{part}-association",
            subnet_id=subnet.id,
            route_table_id=table.id,
            opts=self._child,
        )
