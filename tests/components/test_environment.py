"""An environment: parents, order between releases, what stays, what a change touches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components import ClusterArgs, Environment, EnvironmentArgs, cluster_of
from tests.components.recorder import Manifest, Registered, crd, manifest, run
from tokenworks.errors import TokenworksError
from tokenworks.render.release import Release, RemoteChart
from tokenworks.spec.common import Metadata
from tokenworks.spec.environment import Cluster, EnvironmentSpec
from tokenworks.spec.environment import Environment as Document
from tokenworks.spec.stack import Stack

THING = crd("example.com", "Thing", "v1alpha1", "v1")


def deployment(name: str, namespace: str, image: str = "x:1") -> Manifest:
    containers = [{"name": "engine", "image": image}]
    spec = {"template": {"spec": {"containers": containers}}}
    return manifest("Deployment", name, "apps/v1", namespace=namespace, spec=spec)


def releases(image: str = "x:1") -> list[Release]:
    gateway = manifest("Gateway", "gateway", "gateway.networking.k8s.io/v1", namespace="entry")
    return [
        Release("things-crds", "crds", "", (THING,)),
        Release(
            "things", "operators", "things",
            (manifest("Namespace", "things"), deployment("operator", "things")), ("things-crds",),
        ),
        Release("gateway", "platform", "entry", (manifest("Namespace", "entry"), gateway)),
        Release(
            "tenant-a", "platform", "a",
            (
                manifest("Namespace", "a"),
                manifest("Thing", "quota", "example.com/v1", namespace="a"),
            ),
            ("things", "absent"),
        ),
        Release(
            "model-m", "models", "a",
            (manifest("Service", "m", namespace="a"), deployment("m", "a", image)),
            ("tenant-a", "gateway"), ready_seconds=4321,
        ),
        Release("model-n", "models", "a", (deployment("n", "a"),), ("tenant-a", "gateway")),
    ]  # fmt: skip


def built(
    rendered: Sequence[Release] | None = None, cluster: ClusterArgs | None = None
) -> dict[str, Registered]:
    args = EnvironmentArgs(
        cluster or ClusterArgs("/nowhere/kubeconfig"),
        releases() if rendered is None else rendered,
        {"model-m": "org/m", "model-n": "n"},
    )

    def program() -> None:
        Environment("test", args)

    return run(program)


def test_every_object_is_one_resource_below_its_release() -> None:
    found = built()
    objects = [r for r in found.values() if r.token.startswith("kubernetes:")]
    assert len(objects) == sum(len(r.objects) for r in releases())
    assert found["Deployment:a/m"].parents == [
        "tokenworks:serving:Model",
        "kubernetes:apps/v1:Deployment",
    ]
    assert found["Namespace:a"].parents[0] == "tokenworks:serving:Tenant"
    assert found["Gateway:entry/gateway"].parents[0] == "tokenworks:serving:Gateway"
    assert found["Deployment:things/operator"].parents[0] == "tokenworks:platform:Release"
    definition = found["CustomResourceDefinition:things.example.com"]
    assert definition.parents[0] == "tokenworks:platform:CustomResourceDefinitions"
    assert found["model-m"].parents[0] == "tokenworks:environment:Environment"


def test_every_object_goes_through_the_environments_own_provider() -> None:
    found = built()
    provider = found["test-cluster-provider"].urn
    objects = [r for r in found.values() if r.token.startswith("kubernetes:")]
    assert all(r.provider.startswith(provider) for r in objects)


def test_a_release_waits_until_what_it_needs_is_ready() -> None:
    found = built()
    assert found["Namespace:things"].depends_on == {"CustomResourceDefinition:things.example.com"}
    # A tenant's first object waits for the last ones of the operator, which are its pods.
    assert found["Namespace:a"].depends_on == {"Deployment:things/operator"}
    assert found["Deployment:a/n"].depends_on == {"Thing:a/quota", "Gateway:entry/gateway"}


def test_releases_that_do_not_need_each_other_do_not_wait() -> None:
    found = built()
    assert found["Namespace:entry"].depends_on == frozenset()
    assert not any("/m" in name for name in found["Deployment:a/n"].depends_on)


def test_inside_a_release_each_tier_waits_for_the_one_before() -> None:
    found = built()
    assert found["Service:a/m"].depends_on == {"Thing:a/quota", "Gateway:entry/gateway"}
    assert found["Deployment:a/m"].depends_on == {"Service:a/m"}


def test_definitions_stay_when_an_environment_goes_and_nothing_else_does() -> None:
    # Deleting a definition deletes every object of its kind, of everyone on the cluster.
    kept = [r.name for r in built().values() if r.retained]
    assert kept == ["CustomResourceDefinition:things.example.com"]


def test_a_model_may_take_as_long_as_its_weights_need() -> None:
    found = built()
    assert found["Deployment:a/m"].timeout == "4321s"
    assert found["Deployment:a/n"].timeout == "600s"


def test_custom_resources_survive_a_new_version_of_their_api() -> None:
    found = built()
    assert found["Thing:a/quota"].aliases == ("kubernetes:example.com/v1alpha1:Thing",)
    assert found["Deployment:a/m"].aliases == ()


def test_editing_a_model_changes_that_models_objects_only() -> None:
    before, after = built(), built(releases(image="x:2"))
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["Deployment:a/m"]


def test_without_releases_there_is_a_cluster_and_nothing_on_it() -> None:
    assert set(built([])) == {"test", "test-cluster", "test-cluster-provider"}


def test_one_object_in_two_releases_is_refused_with_both_names() -> None:
    twice = [
        Release("first", "platform", "", (manifest("Namespace", "a"),)),
        Release("second", "platform", "", (manifest("Namespace", "a"),)),
    ]
    with pytest.raises(TokenworksError, match=r"Namespace:a \(.*\) in first, second"):
        built(twice)


def test_outputs_say_where_and_what_to_ask() -> None:
    args = EnvironmentArgs(ClusterArgs(), releases(), {"model-m": "org/m", "model-n": "n"})

    def program() -> pulumi.Output[Any]:
        environment = Environment("test", args)
        assert environment.models == ["n", "org/m"]
        assert environment.namespaces == ["a"]
        return environment.gateway.apply(_must_be_the_address)

    run(program)


def test_a_chart_is_fetched_by_its_exact_version_after_its_namespace() -> None:
    chart = RemoteChart("gpu", "https://charts.example.com", "gpu-op", "v1.2", "gpu", {"a": True})
    namespace = manifest("Namespace", "gpu")
    found = built(
        [
            Release("gpu", "operators", "gpu", (namespace,), charts=(chart,)),
            Release("devices", "platform", "", (manifest("ConfigMap", "d"),), ("gpu",)),
        ]
    )
    (made,) = [r for r in found.values() if r.token == "kubernetes:helm.sh/v4:Chart"]
    assert made.inputs == {
        "name": "gpu", "chart": "gpu-op", "version": "v1.2", "namespace": "gpu",
        "values": {"a": True},
        "repositoryOpts": {"repo": "https://charts.example.com"},
    }  # fmt: skip
    assert made.above == "tokenworks:platform:Release"
    assert made.depends_on == {"Namespace:gpu"}
    assert "gpu-chart" in found["ConfigMap:d"].depends_on


def test_the_gateways_service_is_told_what_is_known_only_later() -> None:
    """The ARN of a certificate that this very run makes; the rendered annotations stay."""
    later = pulumi.Output.from_input("arn:aws:acm:x")
    rendered = releases()
    gateway = next(r for r in rendered if r.name == "gateway").objects[1]
    gateway["spec"] = {"infrastructure": {"annotations": {"type": "external"}}, "listeners": []}

    def program() -> Any:
        args = EnvironmentArgs(
            ClusterArgs(), rendered, {}, gateway_annotations={"certificate": later}
        )
        return Environment("prod", args).gateway

    spec = run(program)["Gateway:entry/gateway"].inputs["spec"]
    assert spec["infrastructure"]["annotations"] == {
        "type": "external", "certificate": "arn:aws:acm:x",
    }  # fmt: skip
    assert spec["listeners"] == []
    assert gateway["spec"]["infrastructure"]["annotations"] == {"type": "external"}


def test_an_application_is_awaited_after_its_project_and_only_our_commands_delete_it() -> None:
    """Deleting it deletes what it delivered."""
    project = manifest("AppProject", "p", "argoproj.io/v1alpha1", namespace="argocd")
    application = manifest("Application", "all", "argoproj.io/v1alpha1", namespace="argocd")
    found = built([Release("begin", "delivery", "argocd", (application, project))])
    assert found["Application:argocd/all"].depends_on == {"AppProject:argocd/p"}
    notes = found["Application:argocd/all"].inputs["metadata"]["annotations"]
    assert "jsonpath={.status.sync.status}=Synced" in notes["pulumi.com/waitFor"]
    assert "jsonpath={.status.health.status}=Healthy" in notes["pulumi.com/waitFor"]
    assert [r.name for r in found.values() if r.protected] == ["Application:argocd/all"]


def test_an_environment_without_a_gateway_has_no_address() -> None:
    def program() -> pulumi.Output[Any]:
        environment = Environment("test", EnvironmentArgs(ClusterArgs(), [], {}))
        return environment.gateway.apply(_must_be_none)

    run(program)


def test_the_provider_changes_maps_in_place_and_applies_on_the_server() -> None:
    inputs = built(cluster=ClusterArgs("/k", "there", "there"))["test-cluster-provider"].inputs
    assert inputs["kubeconfig"] == "/k"
    assert inputs["context"] == "there"
    assert inputs["clusterIdentifier"] == "there"
    for switch in ("enableServerSideApply", "enableConfigMapMutable", "enableSecretMutable"):
        assert inputs[switch] == "true"


def stack(cluster: Cluster) -> Stack:
    spec = EnvironmentSpec(cluster=cluster)
    return Stack(Document(metadata=Metadata(name="test"), spec=spec), (), ())


def test_a_local_cluster_is_reached_by_the_kubeconfig_made_here() -> None:
    args = cluster_of(stack(Cluster(provider="local")), Path("/state/test/kubeconfig"))
    assert args == ClusterArgs("/state/test/kubeconfig", None, "local/test")


def test_another_cluster_is_reached_by_its_context() -> None:
    theirs = Cluster(provider="existing", context="prod", kubeconfig="/etc/kube")
    assert cluster_of(stack(theirs), Path("/no")) == ClusterArgs("/etc/kube", "prod", "prod")
    kind = cluster_of(stack(Cluster(provider="kind")), Path("/no"))
    assert kind == ClusterArgs(None, "kind-test", "kind-test")


def _must_be_the_address(value: str | None) -> None:
    assert value == "gateway.example.internal"


def _must_be_none(value: str | None) -> None:
    assert value is None
