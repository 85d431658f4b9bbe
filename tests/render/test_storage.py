"""Disks for claims: encrypted with the environment's key, in the zone of their pod."""

from __future__ import annotations

from tests.render.aws_stacks import changed
from tokenworks.render.aws import plan_of
from tokenworks.render.aws.storage import storage_class


def test_disks_are_encrypted_with_the_key_that_nodes_use() -> None:
    parameters = storage_class(plan_of(changed()))["parameters"]
    assert parameters["encrypted"] == "true"
    assert parameters["kmsKeyId"] == "arn:aws:kms:us-east-1:444455556666:alias/prod-volumes"


def test_a_volume_is_made_where_its_pod_runs() -> None:
    assert storage_class(plan_of(changed()))["volumeBindingMode"] == "WaitForFirstConsumer"


def test_disks_carry_who_pays() -> None:
    parameters = storage_class(plan_of(changed()))["parameters"]
    tags = {v for k, v in parameters.items() if k.startswith("tagSpecification_")}
    assert tags == {"cost-center=inference-prod", "tokenworks.dev/environment=prod"}


def test_claims_that_name_no_class_get_it() -> None:
    notes = storage_class(plan_of(changed()))["metadata"]["annotations"]
    assert notes == {"storageclass.kubernetes.io/is-default-class": "true"}
