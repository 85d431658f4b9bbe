"""Weights, images, names, identities: kept, encrypted, and open to who needs them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.aws.controllers import autoscaler_policy, load_balancer_policy
from components.aws.karpenter import EVENTS
from components.aws.volumes import CLAIM, VolumesArgs, claim, volume
from policies.aws import STATEFUL
from tests.components.aws.environments import G6, built, changed, inputs, of
from tests.components.recorder import Registered

WEIGHTS: dict[str, Any] = {"weights": {"bucket": "weights-test", "lustre": {}}}
DNS: dict[str, Any] = {"dns": {"zone": "example.com", "zoneId": "Z0123456789ABC"}}


def statements(text: str) -> list[dict[str, Any]]:
    return json.loads(text)["Statement"]


def test_the_bucket_is_private_encrypted_versioned_and_stays() -> None:
    found = built(**WEIGHTS)
    (bucket,) = of(found, "s3:Bucket")
    assert bucket.inputs["bucket"] == "weights-test"
    assert bucket.protected
    assert bucket.retained
    block = inputs(found, "s3:BucketPublicAccessBlock")
    assert [block[k] for k in (
        "blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets",
    )] == [True] * 4  # fmt: skip
    versions = inputs(found, "s3:BucketVersioning")["versioningConfiguration"]
    assert versions == {"status": "Enabled"}
    (rule,) = inputs(found, "s3:BucketServerSideEncryptionConfiguration")["rules"]
    assert rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "aws:kms"
    (deny,) = statements(inputs(found, "s3:BucketPolicy")["policy"])
    assert deny["Effect"] == "Deny"
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_file_system_reads_through_to_the_bucket_and_stays() -> None:
    found = built(**WEIGHTS)
    (files,) = of(found, "fsx:LustreFileSystem")
    assert files.protected
    assert files.retained
    assert files.inputs["storageCapacity"] == 2400
    assert files.inputs["kmsKeyId"] == "arn:aws:test:::test-foundation-data-key-key"
    # The zone of the pool with most GPUs.
    assert files.inputs["subnetIds"] == "test-foundation-network-private-us-east-1a"
    link = inputs(found, "fsx:DataRepositoryAssociation")
    assert link["dataRepositoryPath"] == "s3://test-weights-bucket-bucket/weights"
    assert link["s3"]["autoImportPolicy"]["events"] == ["NEW", "CHANGED", "DELETED"]
    assert "test-addons-aws-fsx-csi-driver" in found


def test_without_weights_there_is_neither() -> None:
    found = built()
    assert of(found, "s3:Bucket") == of(found, "fsx:LustreFileSystem") == []
    assert "test-addons-aws-fsx-csi-driver" not in found


def test_each_tenant_reads_weights_with_a_role_of_its_own() -> None:
    found = built(**WEIGHTS)
    identity = found["test-weights-reader-research-association"].inputs
    assert (identity["namespace"], identity["serviceAccount"]) == ("research", "weights-reader")
    allowed = statements(found["test-weights-reader-research-policy"].inputs["policy"])
    assert {s["Action"] for s in allowed} == {"s3:ListBucket", "s3:GetObject", "kms:Decrypt"}


def test_volumes_name_the_file_system_and_their_claim() -> None:
    files = {"fileSystemId": "fs-1", "dnsName": "fs.example", "mountName": "m"}
    args = VolumesArgs(("research",), "2400Gi", files)
    made, asked = volume(args, "research"), claim(args, "research")
    assert made["spec"]["csi"]["volumeHandle"] == "fs-1"
    assert made["spec"]["csi"]["volumeAttributes"] == {"dnsname": "fs.example", "mountname": "m"}
    assert made["spec"]["claimRef"] == {"namespace": "research", "name": CLAIM}
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert asked["spec"]["volumeName"] == made["metadata"]["name"]
    assert asked["metadata"] == {"name": CLAIM, "namespace": "research"}


def test_copies_of_images_are_encrypted_immutable_and_made_by_nodes() -> None:
    found = built(registryCache={"kubernetes": {"registry": "registry.k8s.io"}})
    rule = inputs(found, "ecr:PullThroughCacheRule")
    assert rule["ecrRepositoryPrefix"] == "kubernetes"
    assert rule["upstreamRegistryUrl"] == "registry.k8s.io"
    template = inputs(found, "ecr:RepositoryCreationTemplate")
    assert template["imageTagMutability"] == "IMMUTABLE"
    assert template["encryptionConfigurations"][0]["encryptionType"] == "KMS"
    assert template["customRoleArn"] == "arn:aws:test:::test-registry-maker"
    first = found["test-registry-first-pull"].inputs
    assert first["role"] == "test-node"
    (may,) = statements(first["policy"])
    assert may["Resource"] == ["arn:aws:ecr:us-east-1:123456789012:repository/kubernetes/*"]


def test_who_makes_repositories_for_copies_may_tag_and_encrypt_them_first() -> None:
    """ECR's own role may do neither, and the first pull of every image would fail."""
    found = built(registryCache={"kubernetes": {"registry": "registry.k8s.io"}})
    (trusted,) = statements(found["test-registry-maker"].inputs["assumeRolePolicy"])
    assert trusted["Principal"] == {"Service": "ecr.amazonaws.com"}
    make, key = statements(found["test-registry-may-make"].inputs["policy"])
    assert {"ecr:CreateRepository", "ecr:TagResource"} <= set(make["Action"])
    assert make["Resource"] == ["arn:aws:ecr:us-east-1:123456789012:repository/kubernetes/*"]
    assert {"kms:CreateGrant", "kms:DescribeKey"} <= set(key["Action"])
    assert key["Resource"] == "arn:aws:test:::test-foundation-data-key-key"
    template = found["test-registry-kubernetes-template"]
    assert "test-registry-may-make" in template.depends_on


def test_registries_that_ask_for_credentials_get_a_secrets_name() -> None:
    secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:ecr-pullthroughcache/hub"
    cached = {"hub": {"registry": "registry-1.docker.io", "credentials": secret}}
    assert (
        inputs(built(registryCache=cached), "ecr:PullThroughCacheRule")["credentialArn"] == secret
    )


def test_the_gateways_name_is_proven_by_a_record() -> None:
    found = built(**DNS)
    assert inputs(found, "acm:Certificate")["domainName"] == "llm.example.com"
    proof = found["test-gateway-proof"].inputs
    assert (proof["name"], proof["type"], proof["records"]) == ("_x", "CNAME", ["_y"])
    assert "test-gateway-proof" in found["test-gateway-valid"].depends_on


def test_without_a_zone_there_is_no_certificate() -> None:
    assert of(built(), "acm:Certificate") == []


@pytest.mark.parametrize("account", ["aws-load-balancer-controller", "cluster-autoscaler"])
def test_controllers_have_an_identity_each(account: str) -> None:
    found = built()[f"test-controllers-{account}-association"].inputs
    assert (found["namespace"], found["serviceAccount"]) == ("kube-system", account)


@pytest.mark.parametrize("policy", [autoscaler_policy("test"), load_balancer_policy("test")])
def test_controllers_change_only_what_is_their_clusters(policy: str) -> None:
    changing = [
        s for s in statements(policy)
        if s["Sid"] not in ("Look", "InVpc", "TagBorn", "Role")
    ]  # fmt: skip
    assert changing
    for statement in changing:
        assert "test" in next(iter(statement["Condition"]["StringEquals"].values()))


def test_karpenter_hears_of_interruptions_and_owns_its_nodes_only() -> None:
    found = built({"g6": changed(G6, manager="karpenter", minNodes=0)})
    assert len(of(found, "cloudwatch:EventRule")) == len(EVENTS)
    assert inputs(found, "sqs:Queue")["sqsManagedSseEnabled"] is True
    (entry,) = [e for e in of(found, "eks:AccessEntry") if e.inputs.get("type")]
    assert entry.inputs["type"] == "EC2_LINUX"
    policy = {
        s["Sid"]: s for s in statements(found["test-karpenter-controller-policy"].inputs["policy"])
    }
    own = {"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/test": "owned"}}
    assert policy["Own"]["Condition"] == own
    assert policy["Pass"]["Resource"].endswith(":role/test-node")
    assert "test-nodes-g6-nodes-group" not in found


def test_karpenter_may_make_the_role_for_spot_that_an_empty_account_lacks() -> None:
    found = built({"g6": changed(G6, manager="karpenter", minNodes=0, purchase="spot")})
    (spot,) = [
        s for s in statements(found["test-karpenter-controller-policy"].inputs["policy"])
        if s["Sid"] == "Spot"
    ]  # fmt: skip
    assert spot["Action"] == "iam:CreateServiceLinkedRole"
    assert spot["Condition"] == {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}


def test_without_karpenter_there_is_no_queue() -> None:
    assert of(built(), "sqs:Queue") == []


def test_what_the_load_balancer_controller_makes_it_may_tag_when_it_makes_it() -> None:
    (born,) = [s for s in statements(load_balancer_policy("test")) if s["Sid"] == "TagBorn"]
    made = born["Condition"]["StringEquals"]["elasticloadbalancing:CreateAction"]
    assert set(made) == {"CreateLoadBalancer", "CreateTargetGroup", "CreateListener", "CreateRule"}


@pytest.mark.parametrize(
    "policy", ["test-addons-aws-ebs-csi-driver-key", "test-karpenter-controller-policy"]
)
def test_whoever_makes_encrypted_disks_may_use_their_key(policy: str) -> None:
    found = built({"g6": changed(G6, manager="karpenter", minNodes=0)})
    by_name = {s["Sid"]: s for s in statements(found[policy].inputs["policy"])}
    key = "arn:aws:test:::test-foundation-volumes-key-key"
    assert by_name["DiskKey"]["Resource"] == by_name["DiskGrants"]["Resource"] == key
    assert "kms:Decrypt" in by_name["DiskKey"]["Action"]
    granted = by_name["DiskGrants"]["Condition"]
    assert granted == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_the_driver_of_disks_starts_after_it_may_use_the_key() -> None:
    driver = built()["test-addons-aws-ebs-csi-driver"]
    assert "test-addons-aws-ebs-csi-driver-key" in driver.depends_on


def test_what_holds_data_is_protected_and_stays() -> None:
    """Policies see the first only. The cluster goes when it is meant to: its objects are in Git."""
    found = built(**WEIGHTS)
    stateful = [r for r in found.values() if r.token.startswith("aws:") and _short(r) in STATEFUL]
    assert {_short(r) for r in stateful} == {
        "s3:Bucket", "fsx:LustreFileSystem", "kms:Key", "eks:Cluster",
    }  # fmt: skip
    assert [r.name for r in stateful if not r.protected] == []
    assert [r.name for r in stateful if not r.retained] == ["test-control-cluster"]


def _short(resource: Registered) -> str:
    """`s3:Bucket` for `aws:s3/bucket:Bucket`."""
    _, module, kind = resource.token.split(":")
    return f"{module.partition('/')[0]}:{kind}"
