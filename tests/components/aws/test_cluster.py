"""Control plane: nobody reaches it from outside, nobody reads its secrets, entries decide."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from components.aws.access import kubeconfig
from components.aws.eks import LOGS
from tests.components.aws.environments import ACCOUNT, built, inputs, of
from tokenworks.catalog.aws.addons import Addon, addon_catalogue

ROLE = f"arn:aws:iam::{ACCOUNT}:role/"


def test_the_endpoint_is_private() -> None:
    config = inputs(built(), "eks:Cluster")["vpcConfig"]
    assert config["endpointPrivateAccess"] is True
    assert config["endpointPublicAccess"] is False
    assert len(config["subnetIds"]) == 2


def test_secrets_are_encrypted_with_a_key_of_the_environment() -> None:
    encryption = inputs(built(), "eks:Cluster")["encryptionConfig"]
    assert encryption["resources"] == ["secrets"]
    assert encryption["provider"]["keyArn"] == "arn:aws:test:::test-foundation-cluster-key-key"


def test_all_logs_are_kept_in_a_group_that_is_there_first() -> None:
    found = built(network={"logDays": 90})
    (cluster,) = of(found, "eks:Cluster")
    assert set(cluster.inputs["enabledClusterLogTypes"]) == set(LOGS)
    group = found["test-control-logs"]
    assert group.inputs["name"] == "/aws/eks/test/cluster"
    assert group.inputs["retentionInDays"] == 90
    assert group.name in cluster.depends_on


def test_access_is_by_entries_and_the_creator_has_none() -> None:
    found = built(access={"admins": [f"{ROLE}admin"], "viewers": [f"{ROLE}engineer"]})
    config = inputs(found, "eks:Cluster")["accessConfig"]
    assert config == {
        "authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False,
    }  # fmt: skip
    policies = {
        p.inputs["principalArn"]: p.inputs["policyArn"].rpartition("/")[2]
        for p in of(found, "eks:AccessPolicyAssociation")
    }
    assert policies == {
        f"{ROLE}admin": "AmazonEKSClusterAdminPolicy",
        f"{ROLE}engineer": "AmazonEKSViewPolicy",
    }


def test_roles_of_one_name_on_two_paths_have_an_entry_each() -> None:
    found = built(access={"admins": [f"{ROLE}team-a/deploy", f"{ROLE}team-b/deploy"]})
    entries = of(found, "eks:AccessEntry")
    assert sorted(e.inputs["principalArn"] for e in entries) == [
        f"{ROLE}team-a/deploy", f"{ROLE}team-b/deploy",
    ]  # fmt: skip


def test_roles_of_one_name_in_two_accounts_have_an_entry_each() -> None:
    """EKS lets roles of other accounts in as well."""
    other = "arn:aws:iam::999999999999:role/admin"
    found = built(access={"admins": [f"{ROLE}admin", other]})
    entries = {e.inputs["principalArn"]: e.name for e in of(found, "eks:AccessEntry")}
    assert entries == {
        f"{ROLE}admin": "test-control-admin-admin",
        other: "test-control-admin-999999999999-admin",
    }


def test_networks_that_may_reach_it_are_named_one_by_one() -> None:
    admins = [f"{ROLE}admin"]
    found = built(access={"admins": admins, "networks": ["172.16.0.0/16", "172.18.0.0/20"]})
    rules = [r.inputs for n, r in found.items() if n.startswith("test-control-from-")]
    assert sorted(r["cidrIpv4"] for r in rules) == ["172.16.0.0/16", "172.18.0.0/20"]
    assert {(r["fromPort"], r["toPort"], r["securityGroupId"]) for r in rules} == {
        (443, 443, "sg-cluster")
    }


def test_it_is_protected() -> None:
    (cluster,) = of(built(), "eks:Cluster")
    assert cluster.protected
    assert cluster.inputs["deletionProtection"] is True


def test_nodes_come_after_what_makes_them_ready_and_the_rest_after_nodes() -> None:
    found = built()
    system = found["test-nodes-system-nodes-group"]
    assert {"test-first-vpc-cni", "test-first-kube-proxy"} <= system.depends_on
    assert "test-first-eks-pod-identity-agent" in system.depends_on
    ways_out = {"test-foundation-network-private-us-east-1a-association"}
    assert ways_out | {"test-foundation-endpoints-ecr-dkr"} <= system.depends_on
    assert system.name in found["test-addons-coredns"].depends_on
    assert system.name in found["test-addons-aws-ebs-csi-driver"].depends_on


def test_add_ons_that_call_aws_have_a_role_each() -> None:
    found = built()
    for addon, account in (
        ("test-first-vpc-cni", "aws-node"),
        ("test-addons-aws-ebs-csi-driver", "ebs-csi-controller-sa"),
    ):
        (identity,) = found[addon].inputs["podIdentityAssociations"]
        assert identity == {"roleArn": f"arn:aws:test:::{addon}-role", "serviceAccount": account}
        trusted = json.loads(found[f"{addon}-role"].inputs["assumeRolePolicy"])["Statement"][0]
        assert trusted["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert "sts:TagSession" in trusted["Action"]


def test_every_add_on_has_the_version_of_the_catalogue_or_the_document() -> None:
    found = {a.inputs["addonName"]: a.inputs for a in of(built(), "eks:Addon")}
    assert len(found) == 5
    for name, addon in found.items():
        assert addon["addonVersion"] == addon_catalogue().version(cast("Addon", name), "1.35")
    said = built(addonVersions={"coredns": "v1.14.3-eksbuild.3"})
    assert said["test-addons-coredns"].inputs["addonVersion"] == "v1.14.3-eksbuild.3"
    assert said["test-first-vpc-cni"].inputs["addonVersion"] == found["vpc-cni"]["addonVersion"]


def test_network_policies_are_kept_to() -> None:
    """Without it the API server takes them, and every pod talks to every other."""
    values = {a.name: a.inputs.get("configurationValues") for a in of(built(), "eks:Addon")}
    said = {name: json.loads(text) for name, text in values.items() if text is not None}
    assert said == {"test-first-vpc-cni": {"enableNetworkPolicy": "true"}}


def test_the_node_role_may_do_what_a_node_does_and_no_more() -> None:
    found = built()
    attached = {
        a.inputs["policyArn"].rpartition("/")[2]
        for a in of(found, "iam:RolePolicyAttachment")
        if a.inputs.get("role") == "test-node"
    }
    assert attached == {
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    }


def test_nobody_gets_a_user_or_a_key_that_lives_long() -> None:
    tokens = {r.token for r in built().values()}
    assert not any("iam/user" in t or "accessKey" in t or "keyPair" in t for t in tokens)


def test_every_resource_is_tagged_with_who_pays() -> None:
    ours = {"cost-center": "inference", "tokenworks.dev/environment": "test"}
    tagged = [r for r in built().values() if "tags" in r.inputs]
    assert len(tagged) > 50
    assert [r.name for r in tagged if not ours.items() <= r.inputs["tags"].items()] == []


def test_credentials_of_another_account_are_refused() -> None:
    assert built()["test-aws"].inputs["allowedAccountIds"] == json.dumps([ACCOUNT])


def test_keys_stay_and_rotate() -> None:
    keys = of(built(), "kms:Key")
    assert len(keys) == 3
    assert all(k.retained and k.protected and k.inputs["enableKeyRotation"] for k in keys)


def key_statements(name: str) -> dict[str, dict[str, Any]]:
    policy = built()[f"test-foundation-{name}-key-key"].inputs["policy"]
    return {s["Sid"]: s for s in json.loads(policy)["Statement"]}


def test_each_key_is_open_to_the_services_that_it_is_for_and_no_others() -> None:
    assert key_statements("cluster").keys() == {"Account", "Logs"}
    assert key_statements("volumes").keys() == {"Account", "Disks", "Grants"}
    assert key_statements("data").keys() == {"Account", "Files"}


@pytest.mark.parametrize("key", ["cluster", "volumes", "data"])
def test_a_keys_policy_names_no_principal_that_an_empty_account_lacks(key: str) -> None:
    """KMS refuses the whole policy otherwise, and nothing of the environment is made."""
    for statement in key_statements(key).values():
        (who,) = statement["Principal"].values()
        assert who in (f"arn:aws:iam::{ACCOUNT}:root", "*", "logs.us-east-1.amazonaws.com")


@pytest.mark.parametrize(
    ("key", "sid", "roles"),
    [
        ("volumes", "Disks", ["ForAutoScaling", "ForEC2Spot"]),
        ("volumes", "Grants", ["ForAutoScaling", "ForEC2Spot"]),
        ("data", "Files", ["ForFSxS3Access_*"]),
    ],
)
def test_a_key_for_anybody_is_for_roles_of_aws_in_this_account(
    key: str, sid: str, roles: list[str]
) -> None:
    condition = key_statements(key)[sid]["Condition"]
    assert condition["StringEquals"]["kms:CallerAccount"] == ACCOUNT
    allowed = condition["ArnLike"]["aws:PrincipalArn"]
    assert [arn.rpartition("/AWSServiceRole")[2] for arn in allowed] == roles
    assert all(arn.startswith(f"{ROLE}aws-service-role/") for arn in allowed)


def test_keys_are_used_for_logs_of_the_account_disks_of_ec2_and_files_in_s3() -> None:
    logs = key_statements("cluster")["Logs"]["Condition"]["ArnLike"]
    assert logs == {"kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:us-east-1:{ACCOUNT}:*"}
    grants = key_statements("volumes")["Grants"]["Condition"]
    assert grants["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    files = key_statements("data")["Files"]["Condition"]["StringEquals"]
    assert files["kms:ViaService"] == "s3.us-east-1.amazonaws.com"


def test_the_kubeconfig_holds_no_credentials() -> None:
    data = json.loads(kubeconfig("test", "https://api", "Y2E=", "us-east-1"))
    (user,) = data["users"]
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["args"][:4] == ["eks", "get-token", "--cluster-name", "test"]
    assert data["clusters"][0]["cluster"]["server"] == "https://api"
