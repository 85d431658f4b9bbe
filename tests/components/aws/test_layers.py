"""Layers: what is known only once it is made takes the place of what was rendered."""

from __future__ import annotations

from typing import Any

from components.aws import layers
from components.disks import keyed
from components.release import Release, ReleaseArgs
from tests.components.aws.environments import plan
from tests.components.recorder import run
from tests.render.aws_stacks import changed
from tokenworks.render.aws.storage import disks, storage_class
from tokenworks.render.release import Release as Rendered

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
