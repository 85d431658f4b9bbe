"""The charts `queues` and `tenant`: who may hold what, and what a namespace starts with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.documents import TENANT, model, stack, values_of
from tests.charts.rendering import Helm, Objects
from tokenworks.render.defaults import helm_values
from tokenworks.render.values import queues_values, tenant_namespace, tenant_values
from tokenworks.spec.tenant import Tenant

pytestmark = pytest.mark.helm


@pytest.fixture(scope="module")
def queues(charts: Helm) -> Objects:
    """Queues of an environment with three pools and one tenant."""
    return charts.objects("queues", helm_values("queues", queues_values(stack())))


@pytest.fixture(scope="module")
def tenant(charts: Helm) -> Objects:
    """What the tenant's namespace holds."""
    made = stack()
    return charts.objects("tenant", helm_values("tenant", tenant_values(made, made.tenants[0])))


def quotas(objects: Objects, tenant: str = "research") -> dict[str, dict[str, dict[str, Any]]]:
    """Pool: resource: quota."""
    (group,) = objects.one("ClusterQueue", tenant)["spec"]["resourceGroups"]
    return {f["name"]: {r["name"]: r for r in f["resources"]} for f in group["flavors"]}


class TestQueues:
    def test_flavors_find_and_tolerate_their_nodes(self, queues: Objects) -> None:
        h100 = queues.one("ResourceFlavor", "h100")["spec"]
        assert h100["nodeLabels"] == {"tokenworks.dev/pool": "h100"}
        assert h100["tolerations"] == [
            {
                "key": "nvidia.com/gpu",
                "operator": "Equal",
                "value": "present",
                "effect": "NoSchedule",
            }
        ]
        assert queues.one("ResourceFlavor", "l4")["spec"]["tolerations"] == [
            {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
        ]

    @pytest.mark.fieldnote(51)
    def test_whatever_a_pod_asks_for_is_counted(self, queues: Objects, charts: Helm) -> None:
        """A resource that no queue counts admits nothing."""
        (group,) = queues.one("ClusterQueue", "research")["spec"]["resourceGroups"]
        pod = charts.objects("model", values_of(model()))
        assert set(pod.container()["resources"]["requests"]) <= set(group["coveredResources"])
        assert "vpc.amazonaws.com/efa" in group["coveredResources"]
        # Kueue wants every flavor to list what is covered, in that order.
        for resources in quotas(queues).values():
            assert list(resources) == group["coveredResources"]

    def test_quota_is_the_tenants_share(self, queues: Objects) -> None:
        h100, l4 = quotas(queues)["h100"], quotas(queues)["l4"]
        assert h100["nvidia.com/gpu"]["nominalQuota"] == "6"
        # 32 devices for 8 GPUs, so 24 for 6; the other pool has none.
        assert h100["vpc.amazonaws.com/efa"]["nominalQuota"] == "24"
        assert l4["vpc.amazonaws.com/efa"]["nominalQuota"] == "0"

    def test_only_who_may_borrows(self, queues: Objects) -> None:
        assert quotas(queues)["h100"]["nvidia.com/gpu"]["borrowingLimit"] == "0"
        assert "borrowingLimit" not in quotas(queues)["l4"]["nvidia.com/gpu"]

    def test_batch_never_takes_from_serving(self, queues: Objects) -> None:
        values = {o["metadata"]["name"]: o["value"] for o in queues.of("WorkloadPriorityClass")}
        assert values["serving"] > values["batch"]
        preemption = queues.one("ClusterQueue", "research")["spec"]["preemption"]
        assert preemption == {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": {"policy": "Never"},
        }

    def test_a_queue_is_for_its_tenants_namespace(self, queues: Objects) -> None:
        spec = queues.one("ClusterQueue", "research")["spec"]
        assert spec["namespaceSelector"] == {"matchLabels": {"tokenworks.dev/tenant": "research"}}
        assert spec["cohortName"] == "tokenworks"

    def test_a_pool_with_levels_is_placed_by_them(self, queues: Objects) -> None:
        (topology,) = queues.of("Topology")
        flavor = queues.one("ResourceFlavor", "racks")["spec"]
        assert flavor["topologyName"] == topology["metadata"]["name"] == "racks"
        assert flavor["nodeLabels"], "the API server refuses a topology without"
        assert topology["spec"]["levels"] == [
            {"nodeLabel": "topology.k8s.aws/network-node-layer-2"},
            {"nodeLabel": "topology.k8s.aws/network-node-layer-3"},
            {"nodeLabel": "kubernetes.io/hostname"},
        ]
        for other in ("h100", "l4"):
            assert "topologyName" not in queues.one("ResourceFlavor", other)["spec"]

    def test_pools_with_levels_come_last(self, charts: Helm) -> None:
        """What Kueue said of the last flavor is what a user finds in the Workload."""
        pools = {name: {"borrow": False, "nominal": {}} for name in ("a", "b", "c")}
        flavors: dict[str, dict[str, Any]] = {
            name: {"nodeLabels": {"pool": name}, "taints": [], "topology": levels}
            for name, levels in (("a", ["rack"]), ("b", []), ("c", []))
        }
        made = charts.objects("queues", {"flavors": flavors, "tenants": {"t": {"pools": pools}}})
        assert list(quotas(made, "t")) == ["b", "c", "a"]

    def test_quota_that_would_not_count_is_refused(self, charts: Helm) -> None:
        values = helm_values("queues", queues_values(stack()))
        values["tenants"]["research"]["pools"]["h100"]["nominal"]["example.com/fpga"] = "1"
        done = charts.template("queues", values)
        assert "nominal quota of example.com/fpga: it is not among resources" in done.stderr

    def test_every_version_is_the_stored_one(self, queues: Objects, tenant: Objects) -> None:
        kueue = [o for o in (*queues.all, *tenant.all) if "kueue" in o["apiVersion"]]
        assert {o["apiVersion"] for o in kueue} == {"kueue.x-k8s.io/v1beta2"}
        assert len(kueue) == 8


class TestTenant:
    def test_the_namespace_is_closed_by_default(self, tenant: Objects) -> None:
        spec = tenant.one("NetworkPolicy", "default-deny")["spec"]
        assert set(spec) == {"podSelector", "policyTypes"}
        assert spec["podSelector"] == {}
        assert spec["policyTypes"] == ["Ingress", "Egress"]

    def test_its_queue_feeds_its_cluster_queue(
        self, tenant: Objects, queues: Objects, vllm: Objects
    ) -> None:
        queue = tenant.one("LocalQueue", "research")
        assert queues.one("ClusterQueue", queue["spec"]["clusterQueue"])
        labels = vllm.one("Deployment")["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/queue-name"] == queue["metadata"]["name"]
        assert queues.one("WorkloadPriorityClass", labels["kueue.x-k8s.io/priority-class"])

    def test_cost_labels_are_on_what_it_owns(self, tenant: Objects) -> None:
        for item in tenant.all:
            labels = item["metadata"]["labels"]
            assert (labels["cost-center"], labels["floor"]) == ("r1", "3")

    def test_without_quota_there_is_no_queue(self, charts: Helm) -> None:
        poor = Tenant.model_validate({**TENANT, "spec": {"namespace": "elsewhere"}})
        values = tenant_values(stack(), poor)
        assert values.queue is None
        assert tenant_namespace(poor) == "elsewhere"
        assert charts.objects("tenant", helm_values("tenant", values)).of("LocalQueue") == []

    def test_without_kueue_there_is_no_queue(self) -> None:
        made = stack(environment={"spec": {"platform": {"kueue": {"enabled": False}}}})
        assert tenant_values(made, made.tenants[0]).queue is None


def test_a_flavor_for_nodes_without_labels_has_no_spec(charts: Helm) -> None:
    flavors = {"plain": {"nodeLabels": {}, "taints": [], "topology": []}}
    assert "spec" not in charts.objects("queues", {"flavors": flavors}).one(
        "ResourceFlavor", "plain"
    )


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        (
            "queues",
            {"flavors": {"a": {"nodeLabels": {}, "taints": [{"key": "spot"}], "topology": []}}},
        ),
        ("model", {"roles": {"engine": {"scheduling": {"tolerations": [{"key": "spot"}]}}}}),
    ],
)
def test_what_helm_cannot_fill_in_has_to_be_given(
    chart: str, values: dict[str, Any], charts: Helm
) -> None:
    """Items of lists have no defaults in values.yaml: an absent effect would mean every effect."""
    done = charts.template(chart, values)
    assert done.returncode != 0
    assert "effect" in done.stderr
