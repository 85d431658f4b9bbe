"""The cluster autoscaler: which groups it sizes, what it may look at, when nodes go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.aws_stacks import changed
from tokenworks.catalog.aws import instances
from tokenworks.render.aws import plan_of
from tokenworks.render.aws.autoscaler import arguments, cluster_autoscaler
from tokenworks.spec.stack import Stack

FIXED = {"instanceType": "m7i.4xlarge", "minNodes": 3, "maxNodes": 3}


def objects(stack: Stack) -> list[dict[str, Any]]:
    (release,) = cluster_autoscaler(stack)
    return list(release.objects)


def pod(stack: Stack) -> dict[str, Any]:
    (found,) = [o for o in objects(stack) if o["kind"] == "Deployment"]
    return found["spec"]["template"]["spec"]


@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36"])
def test_it_is_of_the_clusters_own_version(minor: str) -> None:
    stack = changed({"kubernetesVersion": minor, "nodeRelease": "unresolved"})
    image = pod(stack)["containers"][0]["image"]
    assert image.startswith(f"registry.k8s.io/autoscaling/cluster-autoscaler:v{minor}.")


def test_it_sizes_the_groups_of_its_cluster_only() -> None:
    wanted = "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod"
    assert f"--node-group-auto-discovery={wanted}" in arguments(plan_of(changed()))
    assert pod(changed())["containers"][0]["env"] == [{"name": "AWS_REGION", "value": "us-east-1"}]


@pytest.mark.fieldnote(62)
def test_a_gpu_node_goes_only_when_none_of_its_gpus_is_in_use() -> None:
    (text,) = [a for a in arguments(plan_of(changed())) if "gpu-utilization" in a]
    one_of_eight = 1 / 8
    assert 0 < float(text.partition("=")[2]) < one_of_eight


def test_nodes_of_its_groups_say_that_they_have_gpus() -> None:
    """By this label alone the autoscaler counts use in GPUs."""
    for pool in plan_of(changed()).pools:
        label = pool.labels.get("k8s.amazonaws.com/accelerator")
        assert (label is not None) == (pool.manager == "node-group")


def test_a_group_that_is_empty_is_known_to_have_disk_for_pods() -> None:
    """Pods ask for it, and it is in no instance type."""
    (p5,) = [pool for pool in plan_of(changed()).pools if pool.name == "p5"]
    assert p5.raid
    assert 20_000 < int(p5.resources["ephemeral-storage"].removesuffix("Gi")) < 28_000


def test_without_local_disks_pods_have_the_nodes_own() -> None:
    bare = next(n for n, i in instances().accelerated.items() if i.nvme is None)
    stack = changed(pools={"p5": {"instanceType": bare, "rootVolume": "100Gi"}})
    (pool,) = [pool for pool in plan_of(stack).pools if pool.name == "p5"]
    assert pool.resources["ephemeral-storage"] == "80Gi"


def test_where_every_group_keeps_its_size_there_is_none() -> None:
    sizes = {name: {"minNodes": 0, "manager": "karpenter"} for name in ("p5", "g6e")}
    assert cluster_autoscaler(changed({"systemPool": FIXED}, pools=sizes)) == []
    assert cluster_autoscaler(changed({"systemPool": FIXED})) != []
    assert cluster_autoscaler(changed(pools=sizes)) != []


def test_its_rights_end_at_looking_and_emptying_nodes() -> None:
    (role,) = [o for o in objects(changed()) if o["kind"] == "ClusterRole"]
    changing = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }
    assert changing == {
        ("nodes", "update"), ("events", "create"), ("events", "patch"),
        ("pods/eviction", "create"), ("pods/status", "update"),
    }  # fmt: skip


def test_it_runs_as_whom_aws_knows_on_nodes_that_stay() -> None:
    found = pod(changed())
    assert found["serviceAccountName"] == "cluster-autoscaler"
    assert found["nodeSelector"] == {"tokenworks.dev/pool": "system"}
    accounts = [o for o in objects(changed()) if o["kind"] == "ServiceAccount"]
    assert [a["metadata"]["namespace"] for a in accounts] == ["kube-system"]
