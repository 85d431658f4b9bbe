"""Network: room for every zone, no way in, and private ways out."""

from __future__ import annotations

import ipaddress
import itertools

import pytest

from components.aws.endpoints import INTERFACES
from components.aws.network import slices
from tests.components.aws.environments import built, inputs, of


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.20.0.0/20", "192.168.0.0/18"])
@pytest.mark.parametrize("zones", [2, 3, 6])
def test_networks_of_zones_do_not_overlap(cidr: str, zones: int) -> None:
    parts = slices(cidr, zones)
    nets = [ipaddress.ip_network(n) for p in parts for n in (p.private, p.public)]
    assert len(nets) == 2 * zones
    assert all(n.subnet_of(ipaddress.ip_network(cidr)) for n in nets)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(nets, 2))


def test_each_zone_has_a_private_and_a_public_subnet() -> None:
    found = built()
    subnets = of(found, "ec2:Subnet")
    zones = sorted(s.inputs["availabilityZone"] for s in subnets)
    assert zones == ["us-east-1a", "us-east-1a", "us-east-1b", "us-east-1b"]
    assert all(s.above == "tokenworks:aws:Network" for s in subnets)


def test_nothing_gets_a_public_address_by_itself() -> None:
    assert {s.inputs["mapPublicIpOnLaunch"] for s in of(built(), "ec2:Subnet")} == {False}


def test_load_balancers_and_karpenter_find_subnets_by_their_tags() -> None:
    found = built()
    private = found["test-foundation-network-private-us-east-1a"].inputs["tags"]
    public = found["test-foundation-network-public-us-east-1a"].inputs["tags"]
    assert private["kubernetes.io/role/internal-elb"] == "1"
    assert private["karpenter.sh/discovery"] == "test"
    assert public["kubernetes.io/role/elb"] == "1"
    assert "karpenter.sh/discovery" not in public, "nodes never stand in public subnets"


@pytest.mark.parametrize(("nat", "count"), [("one", 1), ("per-zone", 2)])
def test_nat_gateways(nat: str, count: int) -> None:
    found = built(network={"nat": nat})
    assert len(of(found, "ec2:NatGateway")) == len(of(found, "ec2:Eip")) == count
    routes = [found[f"test-foundation-network-private-us-east-1{z}-routes"] for z in "ab"]
    assert len({r.inputs["routes"][0]["natGatewayId"] for r in routes}) == count


def test_the_group_that_comes_with_the_vpc_lets_nothing_through() -> None:
    rules = inputs(built(), "ec2:DefaultSecurityGroup")
    assert "ingress" not in rules
    assert "egress" not in rules


def test_services_are_reached_without_the_internet() -> None:
    found = built()
    endpoints = {e.inputs["serviceName"]: e.inputs for e in of(found, "ec2:VpcEndpoint")}
    assert set(endpoints) == {f"com.amazonaws.us-east-1.{s}" for s in ("s3", *INTERFACES)}
    assert endpoints["com.amazonaws.us-east-1.s3"]["vpcEndpointType"] == "Gateway"
    assert len(endpoints["com.amazonaws.us-east-1.s3"]["routeTableIds"]) == 2
    for service in ("ecr.api", "ecr.dkr", "sts", "logs"):
        assert endpoints[f"com.amazonaws.us-east-1.{service}"]["privateDnsEnabled"] is True


def test_flow_logs_are_encrypted_and_kept_as_long_as_asked() -> None:
    found = built(network={"logDays": 30})
    group = found["test-foundation-flow-logs-group"].inputs
    assert group["retentionInDays"] == 30
    assert group["kmsKeyId"] == "arn:aws:test:::test-foundation-cluster-key-key"
    assert inputs(found, "ec2:FlowLog")["trafficType"] == "ALL"
