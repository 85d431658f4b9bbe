"""Node software: one owner for each part, on the nodes that have the devices."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import module_dir
from tests.render import aws_stacks
from tokenworks.catalog.bill import bill
from tokenworks.check.context import context_of
from tokenworks.render.aws import plan_of
from tokenworks.render.aws.gpu_operator import gpu_operator
from tokenworks.render.aws.node_software import node_software
from tokenworks.render.aws.plan import GPU
from tokenworks.render.helm import RenderTools
from tokenworks.spec.stack import Stack

OPERATOR = {"gpus": "gpu-operator", "metrics": "gpu-operator", "labels": "gpu-operator"}
TOLERATED = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
pytestmark = pytest.mark.helm


def changed(**software: str) -> Stack:
    """prod with other owners of node software."""
    return aws_stacks.changed({"nodeSoftware": software})


@pytest.fixture
def tools(renderer: Path) -> RenderTools:
    return RenderTools(renderer, module_dir)


def objects(stack: Stack, tools: RenderTools) -> list[dict[str, Any]]:
    return [o for r in node_software(stack, tools) if r.name == "node-software" for o in r.objects]


def daemons(stack: Stack, tools: RenderTools) -> dict[str, dict[str, Any]]:
    """Pod specs by name."""
    return {
        o["metadata"]["name"]: o["spec"]["template"]["spec"]
        for o in objects(stack, tools)
        if o["kind"] == "DaemonSet"
    }


OURS = {"nvidia-device-plugin", "efa-device-plugin", "dcgm-exporter", "gpu-feature-discovery"}
WORKER = "node-feature-discovery-worker"
CLAIMS = "dra-driver-nvidia-gpu-kubelet-plugin"
READER = "node-software-dcgm-exporter"


@pytest.mark.fieldnote(58)
def test_each_part_has_one_owner(tools: RenderTools) -> None:
    assert set(daemons(changed(), tools)) == {*OURS, WORKER}
    assert gpu_operator(changed()) == []


@pytest.mark.fieldnote(58)
def test_what_another_owner_installs_is_left_to_it(tools: RenderTools) -> None:
    assert set(daemons(changed(**OPERATOR), tools)) == {"efa-device-plugin"}
    assert node_software(changed(**OPERATOR, efa="dra"), tools) == []


def claimed() -> Stack:
    """prod with GPUs through dynamic resource allocation."""
    return aws_stacks.changed({"nodeSoftware": {"gpus": "dra"}, "kubernetesVersion": "1.36"})


def named(kind: str, stack: Stack, tools: RenderTools) -> dict[str, dict[str, Any]]:
    return {o["metadata"]["name"]: o for o in objects(stack, tools) if o["kind"] == kind}


@pytest.mark.fieldnote(58)
def test_a_driver_of_claims_takes_the_place_of_the_plugin(tools: RenderTools) -> None:
    """What engines ask for stays the same: a class says that it serves nvidia.com/gpu."""
    found = daemons(claimed(), tools)
    assert set(found) == {*OURS, WORKER, CLAIMS} - {"nvidia-device-plugin"}
    assert CLAIMS not in daemons(changed(), tools)
    assert found[CLAIMS]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert "affinity" not in found[CLAIMS]
    assert found[CLAIMS]["tolerations"] == TOLERATED
    names = [c["name"] for c in found[CLAIMS]["containers"]]
    assert names == ["gpus"], "nobody claims channels between nodes"
    classes = named("DeviceClass", claimed(), tools)
    served = {name: o["spec"].get("extendedResourceName") for name, o in classes.items()}
    assert [name for name, resource in served.items() if resource == GPU] == ["gpu.nvidia.com"]
    assert named("DeviceClass", changed(), tools) == {}


def test_whose_a_claimed_gpu_is_the_exporter_reads_from_the_api_server(tools: RenderTools) -> None:
    pod = daemons(claimed(), tools)["dcgm-exporter"]
    (container,) = pod["containers"]
    assert {"name": "KUBERNETES_ENABLE_DRA", "value": "true"} in container["env"]
    assert pod["automountServiceAccountToken"] is True
    (subject,) = named("ClusterRoleBinding", claimed(), tools)[READER]["subjects"]
    assert subject["name"] == pod["serviceAccountName"]
    rules = named("ClusterRole", claimed(), tools)[READER]["rules"]
    assert {r for rule in rules for r in rule["resources"]} == {"pods", "resourceslices"}
    assert {v for rule in rules for v in rule["verbs"]} == {"get", "list", "watch"}
    (policy,) = named("NetworkPolicy", claimed(), tools).values()
    ports = {p["port"] for rule in policy["spec"]["egress"] for p in rule["ports"]}
    assert ports == {443, 53}
    alone = daemons(changed(), tools)["dcgm-exporter"]
    assert alone["automountServiceAccountToken"] is False
    assert READER not in named("ClusterRole", changed(), tools)


def test_the_operator_installs_what_is_given_to_it_and_no_driver() -> None:
    (release,) = gpu_operator(changed(**OPERATOR))
    (chart,) = release.charts
    assert chart.repository.startswith("https://")
    assert chart.version == "v26.7.0"
    on = {k: chart.values[k]["enabled"] for k in ("devicePlugin", "gfd", "dcgmExporter", "nfd")}
    assert set(on.values()) == {True}
    assert (chart.values["driver"], chart.values["toolkit"]) == ({"enabled": False},) * 2
    assert chart.values["daemonsets"]["tolerations"] == TOLERATED
    assert chart.values["node-feature-discovery"]["worker"]["tolerations"] == TOLERATED


def test_they_run_where_the_devices_are(tools: RenderTools) -> None:
    found = daemons(changed(), tools)
    labels = [pool.labels for pool in plan_of(changed()).pools]
    for name in (*OURS, WORKER):
        ((key, value),) = found[name]["nodeSelector"].items()
        wanted = 1 if name == "efa-device-plugin" else 3
        assert sum(each.get(key) == value for each in labels) == wanted


@pytest.mark.fieldnote(56)
def test_they_tolerate_every_taint_of_their_pools(tools: RenderTools) -> None:
    assert all(spec["tolerations"] == TOLERATED for spec in daemons(changed(), tools).values())


def test_ours_get_the_folders_they_need_and_no_privileges(tools: RenderTools) -> None:
    found = daemons(changed(), tools)
    paths = {name: [v["hostPath"]["path"] for v in found[name]["volumes"]] for name in OURS}
    sockets = ["/var/lib/kubelet/device-plugins"]
    assert paths == {
        "nvidia-device-plugin": sockets,
        "efa-device-plugin": [*sockets, "/dev/infiniband"],
        "dcgm-exporter": ["/var/lib/kubelet/pod-resources"],
        "gpu-feature-discovery": ["/etc/kubernetes/node-feature-discovery/features.d", "/sys"],
    }
    for name in OURS:
        (container,) = found[name]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in container["securityContext"]


def chart_of_the_efa_plugin(helm: Path) -> dict[str, Any]:
    """The DaemonSet that AWS's own chart makes, in the version of the toolchain's module."""
    module = bill().components["aws-load-balancer-controller"].module
    assert module is not None
    folder = module_dir(module) / "stable/aws-efa-k8s-device-plugin"
    command = [str(helm), "template", "efa", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return next(o for o in yaml.safe_load_all(done.stdout) if o["kind"] == "DaemonSet")


def test_the_efa_plugin_sees_what_its_own_chart_shows_it(tools: RenderTools, helm: Path) -> None:
    theirs = chart_of_the_efa_plugin(helm)["spec"]["template"]["spec"]
    ours = daemons(changed(), tools)["efa-device-plugin"]
    mounted = [
        {m["mountPath"].rstrip("/") for m in pod["containers"][0]["volumeMounts"]}
        for pod in (ours, theirs)
    ]
    assert mounted[1] - mounted[0] == {"/opt/aws/neuron"}, "Trainium's, which no engine here has"
    assert ours["hostNetwork"] is theirs["hostNetwork"] is True


def test_the_efa_plugin_is_not_older_than_its_chart_says(helm: Path) -> None:
    (container,) = chart_of_the_efa_plugin(helm)["spec"]["template"]["spec"]["containers"]
    theirs, ours = container["image"], bill().image("efa-device-plugin", "plugin")
    assert theirs.rpartition(":")[0] == ours.repository
    assert _numbers(theirs.rpartition(":")[2]) <= _numbers(str(ours.tag))


def _numbers(tag: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", tag)]


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "602401143452.dkr.ecr.us-east-1.amazonaws.com"),
        ("eu-south-1", "590381155156.dkr.ecr.eu-south-1.amazonaws.com"),
    ],
)
def test_eks_own_images_come_from_the_registry_of_the_region(
    region: str, host: str, tools: RenderTools
) -> None:
    zones = [f"{region}a", f"{region}b"]
    stack = aws_stacks.changed({"region": region, "zones": zones})
    image = daemons(stack, tools)["efa-device-plugin"]["containers"][0]["image"]
    assert image.startswith(f"{host}/eks/aws-efa-k8s-device-plugin:")
    # An image without a digest is no finding of its own while the bill has none.
    assert image in context_of(stack, ()).unresolved_images


def test_labels_of_gpus_are_read_where_they_are_written(tools: RenderTools) -> None:
    found = daemons(changed(), tools)
    written = found["gpu-feature-discovery"]["volumes"][0]["hostPath"]["path"]
    read = {v["hostPath"]["path"].rstrip("/") for v in found[WORKER]["volumes"] if "hostPath" in v}
    assert written in read


def test_controllers_of_discovery_run_on_nodes_that_stay(tools: RenderTools) -> None:
    deployments = [o for o in objects(changed(), tools) if o["kind"] == "Deployment"]
    assert len(deployments) == 2
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"tokenworks.dev/pool": "system"}


def test_kinds_of_discovery_come_first(tools: RenderTools) -> None:
    first, second = node_software(changed(), tools)
    assert {o["kind"] for o in first.objects} == {"CustomResourceDefinition"}
    assert second.needs == (first.name,)


def test_only_monitoring_reads_the_metrics_of_gpus(tools: RenderTools) -> None:
    (policy,) = [o for o in objects(changed(), tools) if o["kind"] == "NetworkPolicy"]
    (service,) = [o for o in objects(changed(), tools) if o["kind"] == "Service"]
    (rule,) = policy["spec"]["ingress"]
    selector = rule["from"][0]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "monitoring"}
    assert policy["spec"]["podSelector"]["matchLabels"] == service["spec"]["selector"]
    assert "egress" not in policy["spec"]
