"""Layers: what is known only once it is made takes the place of what was rendered."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.aws import layers
from components.cluster import Cluster, ClusterArgs
from components.disks import keyed
from components.environment import Environment
from components.release import Release, ReleaseArgs
from tests.components.aws.environments import plan
from tests.components.recorder import run
from tests.render.aws_stacks import changed
from tokenworks.render.aws.storage import disks, storage_class
from tokenworks.render.release import Release as Rendered


@pytest.mark.parametrize("read", [False, True], ids=["made here", "read"])
def test_everything_of_aws_is_of_the_environments_account_and_region(read: bool) -> None:
    """Pulumi's default provider would take what the shell happens to name."""
    stack = changed()

    def program() -> Any:
        made = layers.infrastructure(stack, 65532, read=read)
        environment = SimpleNamespace(
            gateway=pulumi.Output.from_input("lb.example.com"),
            provider=kubernetes.Provider("kubernetes"),
            ready_tenants=[],
        )
        layers.platform(stack, made, cast("Environment", environment))

    found = run(program)
    of_aws = {r.name: r.provider for r in found.values() if r.token.startswith("aws:")}
    (ours,) = [r for r in found.values() if r.token == "pulumi:providers:aws"]
    assert "prod-gateway-address-record" in of_aws
    assert [name for name, used in of_aws.items() if not used.startswith(f"{ours.urn}::")] == []
    cluster = stack.environment.spec.cluster.aws
    assert cluster is not None
    assert ours.inputs["region"] == cluster.region
    assert json.loads(ours.inputs["allowedAccountIds"]) == [cluster.account]


def test_the_cluster_is_used_only_while_what_runs_on_it_has_what_it_needs() -> None:
    """A pod that starts before its identity never gets it; a Service that goes after the controller
    of its load balancer never goes."""
    stack = changed()

    def program() -> Any:
        made = layers.infrastructure(stack, 65532, read=False)
        args = ClusterArgs(made.kubeconfig, None, layers.identity(stack), made.ready)
        return Cluster("cluster", args).provider.urn

    (provider,) = [r for r in run(program).values() if r.token == "pulumi:providers:kubernetes"]
    assert provider.depends_on >= {
        "prod-control-admin-deploy-policy",
        "prod-control-from-0",
        "prod-foundation-network-private-us-east-1a-association",
        "prod-nodes-system-nodes-group",
        "prod-nodes-entry",
        "prod-addons-coredns",
        "prod-controllers-aws-load-balancer-controller-association",
        "prod-controllers-aws-load-balancer-controller-policy",
        "prod-karpenter-controller-association",
    }
    assert not any("nodes-p5" in name for name in provider.depends_on), "capacity may come later"


CLASSLESS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}
OTHER = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "other"},
    "provisioner": "example.com", "parameters": {"type": "fast"},
}  # fmt: skip


def test_a_class_of_disks_names_the_key_by_its_number() -> None:
    """The driver refuses to clone a disk whose key the class calls otherwise than the disk does."""
    stack = changed()

    def program() -> Any:
        made = layers.infrastructure(stack, 65532, read=False)
        (release,) = keyed(disks(stack), *layers.disk_key(made))
        Release("disks", ReleaseArgs(release.objects))
        return made.exports["volumesKey"]

    found = run(program)
    (made,) = [r for r in found.values() if r.token.endswith(":StorageClass")]
    assert made.inputs["parameters"]["kmsKeyId"] == (
        "arn:aws:test:::prod-foundation-volumes-key-key"
    )
    rendered = storage_class(plan())["parameters"]
    assert made.inputs["parameters"].keys() == rendered.keys()


def test_what_names_no_key_stays_as_it_was_rendered() -> None:
    given = [Rendered("a", "operators", "", (CLASSLESS, OTHER)), Rendered("b", "operators", "", ())]

    def program() -> Any:
        made = layers.infrastructure(changed(), 65532, read=False)
        assert keyed(given, *layers.disk_key(made)) == given
        return made.kubeconfig

    run(program)
