"""The chart `model`: pods that live, are found, and talk to nobody else."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from tests.charts.documents import LORA, laid, model, simulator, stack, values_of
from tests.charts.rendering import Helm, Objects
from tokenworks.catalog.engines import load_engines
from tokenworks.render.model import timing
from tokenworks.render.values import gateway_values
from tokenworks.spec.common import quantity_value

pytestmark = pytest.mark.helm
SELECTOR = {
    "app.kubernetes.io/name": "model",
    "app.kubernetes.io/instance": "demo",
    "app.kubernetes.io/component": "engine",
}
ENDPOINTS = {
    "app.kubernetes.io/name": "model",
    "app.kubernetes.io/instance": "demo",
    "tokenworks.dev/endpoint": "true",
}
ROLE = {
    "app.kubernetes.io/name": "model",
    "app.kubernetes.io/instance": "demo",
    "tokenworks.dev/role": "engine",
}
PICKER = {**SELECTOR, "app.kubernetes.io/component": "picker"}


def flags(arguments: list[str]) -> dict[str, str]:
    return dict(a[2:].split("=", 1) for a in arguments if a.startswith("--") and "=" in a)


class TestTime:
    """One budget: what waits for a start or a stop waits long enough for both."""

    def test_the_startup_probe_covers_the_start(self, vllm: Objects) -> None:
        probe, start = vllm.container()["startupProbe"], timing(model()).start_seconds
        window = probe["periodSeconds"] * probe["failureThreshold"]
        # 66 GB at 200 MB/s, then 300 s.
        assert start == 630
        assert start <= window < start + probe["periodSeconds"]
        assert "initialDelaySeconds" not in probe

    @pytest.mark.parametrize("start", [1, 59, 60, 61, 3601])
    def test_a_start_that_is_no_multiple_of_the_period_is_rounded_up(
        self, charts: Helm, start: int
    ) -> None:
        values = {"timing": {"startSeconds": start}, "probes": {"startup": {"periodSeconds": 7}}}
        probe = charts.objects("model", values).container()["startupProbe"]
        assert 0 <= 7 * probe["failureThreshold"] - start < 7

    def test_the_rollout_deadline_holds_pull_and_start(self, vllm: Objects) -> None:
        time = timing(model())
        deadline = vllm.one("Deployment")["spec"]["progressDeadlineSeconds"]
        assert deadline == time.image_pull_seconds + time.start_seconds + time.buffer_seconds

    def test_the_grace_period_holds_pre_stop_and_drain(self, vllm: Objects) -> None:
        pod, container = vllm.pod(), vllm.container()
        sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        drain = int(flags(container["args"])["shutdown-timeout"])
        assert (sleep, drain) == (10, 120)
        assert pod["terminationGracePeriodSeconds"] > sleep + drain

    def test_an_engine_that_cannot_wait_is_not_told_to(self, charts: Helm) -> None:
        old = model(engine={"version": "0.17.9"})
        arguments = charts.objects("model", values_of(old)).container()["args"]
        assert "shutdown-timeout" not in flags(arguments)

    def test_liveness_is_slower_than_readiness_and_patient(self, vllm: Objects) -> None:
        container = vllm.container()
        live, ready = container["livenessProbe"], container["readinessProbe"]
        window = live["periodSeconds"] * live["failureThreshold"]
        assert window >= 60
        assert window > ready["periodSeconds"] * ready["failureThreshold"]
        assert min(live["timeoutSeconds"], ready["timeoutSeconds"]) >= 5

    def test_bounds_keep_the_liveness_window_above_readiness(self, charts: Helm) -> None:
        quick = {"probes": {"liveness": {"periodSeconds": 14}}}
        assert charts.template("model", quick).returncode != 0
        slow = {"probes": {"readiness": {"periodSeconds": 10, "failureThreshold": 5}}}
        shortest = {"probes": {"liveness": {"periodSeconds": 15, "failureThreshold": 4}}}
        container = charts.objects("model", {**slow, **shortest}).container()
        live, ready = container["livenessProbe"], container["readinessProbe"]
        assert live["periodSeconds"] * live["failureThreshold"] >= 60
        assert ready["periodSeconds"] * ready["failureThreshold"] < 60


class TestPod:
    """What runs, and as whom."""

    @pytest.mark.parametrize("name", ["demo", "demo-epp"])
    def test_it_is_never_root_and_cannot_become_it(self, vllm: Objects, name: str) -> None:
        pod, container = vllm.pod(name)["securityContext"], vllm.container(name)["securityContext"]
        assert pod["runAsNonRoot"] is True
        assert pod["runAsUser"] > 0
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["allowPrivilegeEscalation"] is False
        assert container["readOnlyRootFilesystem"] is True
        assert container["capabilities"] == {"drop": ["ALL"]}

    def test_the_engine_gets_no_token_and_no_service_links(self, vllm: Objects) -> None:
        assert vllm.pod()["automountServiceAccountToken"] is False
        assert vllm.pod()["enableServiceLinks"] is False
        assert "serviceAccountName" not in vllm.pod()

    def test_no_shell_stands_between_the_engine_and_its_signals(self, vllm: Objects) -> None:
        assert vllm.container()["command"] == ["vllm", "serve"]
        assert vllm.container()["args"][0] == "Qwen/Qwen3-32B"

    @pytest.mark.parametrize("release", [model(), simulator()], ids=["vllm", "simulator"])
    def test_whatever_is_written_is_mounted_and_limited(self, charts: Helm, release: Any) -> None:
        objects = charts.objects("model", values_of(release))
        mounts = {m["mountPath"]: m["name"] for m in objects.container()["volumeMounts"]}
        sizes = {
            v["name"]: v.get("emptyDir", {}).get("sizeLimit") for v in objects.pod()["volumes"]
        }
        engine = load_engines().engine(release.spec.engine.name)
        paths = [objects.env()[name] for name in (*engine.caches, "TMPDIR")]
        for path in paths:
            above = [str(p) for p in (PurePosixPath(path), *PurePosixPath(path).parents)]
            mount = next(m for m in above if m in mounts)
            assert sizes[mounts[mount]], f"{path} has no limit"

    def test_volumes_fit_into_the_disk_that_is_asked_for(self, vllm: Objects) -> None:
        resources = vllm.container()["resources"]
        disk = quantity_value(resources["requests"]["ephemeral-storage"])
        assert (
            resources["limits"]["ephemeral-storage"] == resources["requests"]["ephemeral-storage"]
        )
        on_disk = [
            v["emptyDir"]
            for v in vllm.pod()["volumes"]
            if v.get("emptyDir", {}).get("medium") != "Memory"
        ]
        assert sum(quantity_value(v["sizeLimit"]) for v in on_disk) <= disk

    def test_memory_and_gpus_are_limited_to_what_is_asked_for(self, vllm: Objects) -> None:
        resources = vllm.container()["resources"]
        for name in ("memory", "nvidia.com/gpu"):
            assert resources["limits"][name] == resources["requests"][name]
        assert resources["limits"]["nvidia.com/gpu"] == "2"
        assert "cpu" not in resources["limits"]

    def test_ranks_share_memory_that_counts(self, vllm: Objects, plain: Objects) -> None:
        volumes = {v["name"]: v for v in vllm.pod()["volumes"]}
        assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
        mounts = {m["name"]: m["mountPath"] for m in vllm.container()["volumeMounts"]}
        assert mounts["shared-memory"] == "/dev/shm"
        assert "shared-memory" not in {v["name"] for v in plain.pod()["volumes"]}

    def test_without_gpus_none_are_asked_for(self, plain: Objects) -> None:
        assert "nvidia.com/gpu" not in json.dumps(plain.all)

    def test_it_goes_to_its_node_pool(self, vllm: Objects) -> None:
        assert vllm.pod()["nodeSelector"] == {"tokenworks.dev/pool": "h100"}
        assert vllm.pod()["tolerations"] == [
            {
                "key": "nvidia.com/gpu",
                "operator": "Equal",
                "value": "present",
                "effect": "NoSchedule",
            }
        ]

    def test_images_carry_their_digest(self, vllm: Objects) -> None:
        digest = "sha256:" + "ab" * 32
        assert vllm.container()["image"] == f"docker.io/vllm/vllm-openai:v0.26.0@{digest}"

    def test_a_digest_nobody_knows_is_left_out(self, charts: Helm) -> None:
        image = {"repository": "docker.io/x/y", "tag": "v1", "digest": "unresolved"}
        objects = charts.objects("model", {"engine": {"image": image}})
        assert objects.container()["image"] == "docker.io/x/y:v1"

    def test_an_image_without_tag_and_digest_is_refused(self, charts: Helm) -> None:
        done = charts.template("model", {"engine": {"image": {"tag": None}}})
        assert "has neither tag nor digest" in done.stderr


class TestWeights:
    """Where they come from decides arguments, volumes, variables and network."""

    def test_downloads_are_pinned_kept_and_authorised(self, vllm: Objects) -> None:
        container = vllm.container()
        assert flags(container["args"])["revision"] == "0123456789abcdef0123456789abcdef01234567"
        assert vllm.env()["HF_HUB_CACHE"] == "/weights"
        assert "HF_HUB_OFFLINE" not in vllm.env()
        token = next(e for e in container["env"] if e["name"] == "HF_TOKEN")
        assert token["valueFrom"]["secretKeyRef"] == {"name": "hub-token", "key": "token"}
        assert "value" not in token

    def test_a_filled_claim_is_read_only_and_offline(self, charts: Helm) -> None:
        release = model(caches={"weights": {"kind": "pvc", "claim": "hub"}})
        objects = charts.objects("model", values_of(release))
        volumes = {v["name"]: v for v in objects.pod()["volumes"]}
        assert volumes["weights"]["persistentVolumeClaim"] == {"claimName": "hub", "readOnly": True}
        assert objects.env()["HF_HUB_OFFLINE"] == "1"
        assert objects.env()["HF_HUB_CACHE"] == "/weights"
        assert outward(objects) == []

    def test_a_path_in_a_claim_is_the_model(self, charts: Helm) -> None:
        release = model(model={"uri": "pvc://hub/models/qwen", "revision": None})
        objects = charts.objects("model", values_of(release))
        assert objects.container()["args"][0] == "/weights/models/qwen"
        assert "HF_HUB_CACHE" not in objects.env()

    @pytest.mark.parametrize("uri", ["s3://bucket/qwen", "gs://bucket/qwen"])
    def test_object_stores_are_streamed_without_a_volume(self, charts: Helm, uri: str) -> None:
        release = model(model={"uri": uri, "revision": None})
        objects = charts.objects("model", values_of(release))
        assert objects.container()["args"][0] == uri
        assert flags(objects.container()["args"])["load-format"] == "runai_streamer"
        assert "weights" not in {v["name"] for v in objects.pod()["volumes"]}
        assert outward(objects) == [443]

    def test_a_volume_without_its_size_or_claim_is_refused(self, charts: Helm) -> None:
        for kind, missing in (("ephemeral", "weights.size"), ("pvc", "weights.claim")):
            done = charts.template("model", {"weights": {"kind": kind}})
            assert f"{missing} is missing" in done.stderr


def outward(objects: Objects) -> list[int]:
    """Ports the engine may reach anywhere."""
    rules = objects.one("NetworkPolicy")["spec"]["egress"]
    return [p["port"] for rule in rules if "to" not in rule for p in rule["ports"]]


class TestArguments:
    """Each value arrives as it was meant."""

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (True, ["--x"]),
            (False, ["--no-x"]),
            ("text with 'quotes' and $dollars", ["--x=text with 'quotes' and $dollars"]),
            ("1e5", ["--x=1e5"]),
            ("", ["--x="]),
            (0, ["--x=0"]),
            (0.92, ["--x=0.92"]),
            (10_000_000, ["--x=10000000"]),
            (["a b", "*", "c=<d>"], ["--x", "a b", "*", "c=<d>"]),
        ],
    )
    def test_a_flag(self, charts: Helm, value: object, expected: list[str]) -> None:
        values = {"engine": {"arguments": ["--first"], "flags": {"x": value}}}
        arguments = charts.objects("model", values).container()["args"]
        assert arguments[0] == "--first"
        at = arguments.index(expected[0])
        assert arguments[at : at + len(expected)] == expected

    def test_json_survives(self, charts: Helm) -> None:
        value = {
            "connector": "A&B<C>",
            "n": 3,
            "nested": {"list": [1, 2.5, None, "ü"], "on": False},
        }
        objects = charts.objects("model", {"engine": {"flags": {"x": value}}})
        assert json.loads(flags(objects.container()["args"])["x"]) == value

    def test_flags_that_other_values_fill_agree_with_them(self, charts: Helm) -> None:
        values = {
            "engine": {"port": 9000},
            "route": {"model": "org/name"},
            "timing": {"drainSeconds": 77},
        }
        objects = charts.objects("model", values)
        given = flags(objects.container()["args"])
        assert (given["port"], given["served-model-name"]) == ("9000", "org/name")
        assert given["shutdown-timeout"] == "77"
        assert objects.container()["ports"][0]["containerPort"] == 9000
        assert objects.one("InferencePool")["spec"]["targetPorts"] == [{"number": 9000}]

    def test_environment_is_text(self, charts: Helm) -> None:
        assert charts.objects("model", 'engine: {env: {A: "1", B: "true"}}').env()["A"] == "1"
        assert charts.template("model", "engine: {env: {A: 1}}").returncode != 0


class TestRollout:
    """Scarce GPUs, one pod at a time."""

    def test_no_pod_waits_for_a_gpu_that_the_old_one_holds(self, vllm: Objects) -> None:
        strategy = vllm.one("Deployment")["spec"]["strategy"]
        assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}

    def test_there_is_always_a_picker(self, vllm: Objects) -> None:
        strategy = vllm.one("Deployment", "demo-epp")["spec"]["strategy"]
        assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}

    def test_a_drain_is_never_blocked(self, vllm: Objects, plain: Objects) -> None:
        assert vllm.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
        assert plain.of("PodDisruptionBudget") == []

    def test_queued_pods_say_so_on_the_deployment(self, vllm: Objects, plain: Objects) -> None:
        labels = vllm.one("Deployment")["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/queue-name"] == "research"
        assert labels["kueue.x-k8s.io/priority-class"] == "serving"
        assert "kueue" not in json.dumps(plain.all)

    def test_the_picker_looks_well_before_gauges_are_stale_to_it(self, vllm: Objects) -> None:
        flag = "--refresh-metrics-interval="
        (interval,) = (a for a in vllm.container("demo-epp")["args"] if a.startswith(flag))
        assert int(interval.removeprefix(flag).removesuffix("ms")) <= 1000, "stale after 2 s"

    def test_only_a_changed_picker_configuration_restarts_the_picker(self, charts: Helm) -> None:
        def checksum(values: dict[str, Any]) -> str:
            spec = charts.objects("model", values).one("Deployment", "demo-epp")["spec"]
            return spec["template"]["metadata"]["annotations"]["checksum/config"]

        before = checksum({})
        assert checksum({"roles": {"engine": {"replicas": 3}}}) == before
        assert checksum({"picker": {"config": {"featureGates": ["other"]}}}) != before


class TestNames:
    """What must find each other does."""

    def test_selectors_are_the_three_labels_that_never_change(self, vllm: Objects) -> None:
        assert vllm.one("Deployment")["spec"]["selector"]["matchLabels"] == SELECTOR
        assert vllm.one("Service")["spec"]["selector"] == ENDPOINTS
        assert vllm.one("InferencePool")["spec"]["selector"]["matchLabels"] == ENDPOINTS
        assert vllm.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == ROLE
        assert vllm.one("Deployment", "demo-epp")["spec"]["selector"]["matchLabels"] == PICKER
        assert vllm.one("Service", "demo-epp")["spec"]["selector"] == PICKER

    def test_pods_carry_their_selector_and_the_cost_labels(self, vllm: Objects) -> None:
        labels = vllm.one("Deployment")["spec"]["template"]["metadata"]["labels"]
        assert SELECTOR.items() <= labels.items()
        assert labels["cost-center"] == "r1"
        assert labels["tokenworks.dev/tenant"] == "research"

    def test_labels_of_the_user_cannot_replace_ours(self, charts: Helm) -> None:
        stolen = {"labels": {"app.kubernetes.io/name": "other"}}
        labels = charts.objects("model", stolen).one("Service")["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "model"

    def test_every_object_is_in_the_namespace_and_labelled(self, vllm: Objects) -> None:
        for item in vllm.all:
            metadata = item["metadata"]
            assert metadata["namespace"] == "research", item["kind"]
            assert metadata["labels"]["app.kubernetes.io/part-of"] == "tokenworks"
            assert metadata["labels"]["line"] == "chat"

    def test_route_pool_and_picker_are_one_chain(self, vllm: Objects) -> None:
        (rule,) = vllm.one("HTTPRoute")["spec"]["rules"]
        (backend,) = rule["backendRefs"]
        pool = vllm.one("InferencePool", backend["name"])
        assert backend["group"] == pool["apiVersion"].partition("/")[0]
        picker = pool["spec"]["endpointPickerRef"]
        ports = {p["port"]: p for p in vllm.one("Service", picker["name"])["spec"]["ports"]}
        port = ports[picker["port"]["number"]]
        container = {p["name"]: p["containerPort"] for p in vllm.container("demo-epp")["ports"]}
        assert port["appProtocol"] == "grpc"
        assert container[port["targetPort"]] == 9002
        assert picker["failureMode"] == "FailClose"
        host = vllm.one("DestinationRule", "demo-epp")["spec"]["host"]
        assert host == "demo-epp.research.svc.cluster.local"

    def test_the_service_reaches_the_engine(self, vllm: Objects) -> None:
        (port,) = vllm.one("Service")["spec"]["ports"]
        names = [p["name"] for p in vllm.container()["ports"]]
        assert (port["port"], port["targetPort"] in names) == (8000, True)


class TestRoute:
    """Requests with this model, and only those."""

    def test_the_model_field_decides(self, vllm: Objects) -> None:
        (rule,) = vllm.one("HTTPRoute")["spec"]["rules"]
        (match,) = rule["matches"]
        assert match["headers"] == [
            {"type": "Exact", "name": "X-Gateway-Model-Name", "value": "Qwen/Qwen3-32B"}
        ]
        assert match["path"] == {"type": "PathPrefix", "value": "/v1"}

    def test_timeouts_are_explicit(self, vllm: Objects, plain: Objects) -> None:
        (rule,) = vllm.one("HTTPRoute")["spec"]["rules"]
        assert rule["timeouts"] == {"request": "200s", "backendRequest": "200s"}
        (rule,) = plain.one("HTTPRoute", "demo")["spec"]["rules"]
        assert rule["timeouts"]["request"] == "300s"

    def test_fields_with_defaults_are_spelled_out(self, vllm: Objects) -> None:
        (parent,) = vllm.one("HTTPRoute")["spec"]["parentRefs"]
        assert set(parent) == {"group", "kind", "namespace", "name", "sectionName"}
        (backend,) = vllm.one("HTTPRoute")["spec"]["rules"][0]["backendRefs"]
        assert set(backend) == {"group", "kind", "name", "port", "weight"}
        pool = vllm.one("InferencePool")["spec"]
        assert set(pool) == {"appProtocol", "targetPorts", "selector", "endpointPickerRef"}
        assert set(pool["endpointPickerRef"]) == {"group", "kind", "name", "port", "failureMode"}


class TestPicker:
    """Its configuration, its rights, its probes."""

    def config(self, objects: Objects) -> dict[str, Any]:
        return yaml.safe_load(objects.one("ConfigMap", "demo-epp")["data"]["picker.yaml"])

    def test_scorers_have_their_weights(self, vllm: Objects) -> None:
        config = self.config(vllm)
        (profile,) = config["schedulingProfiles"]
        weights = {p["pluginRef"]: p.get("weight") for p in profile["plugins"]}
        assert weights == {
            "queue-scorer": 2,
            "kv-cache-utilization-scorer": 2,
            "prefix-cache-scorer": 3,
            "max-score-picker": None,
        }
        assert set(weights) <= {p["type"] for p in config["plugins"]}

    def test_a_scorer_without_weight_is_left_out(self, charts: Helm) -> None:
        release = model(caches={"prefix": False})
        objects = charts.objects("model", values_of(release))
        assert "prefix-cache-scorer" not in json.dumps(self.config(objects))
        assert "--no-enable-prefix-caching" in objects.container()["args"]

    def test_it_reads_the_gauges_the_catalog_names(self, vllm: Objects) -> None:
        plugins = {p["type"]: p.get("parameters") for p in self.config(vllm)["plugins"]}
        (engine,) = plugins["core-metrics-extractor"]["engineConfigs"]
        gauges = load_engines().engine("vllm").metrics
        assert engine["queuedRequestsSpec"] == gauges.queued
        assert engine["kvUsageSpec"] == gauges.kv_usage
        assert engine["name"] == plugins["core-metrics-extractor"]["defaultEngine"]
        assert plugins["metrics-data-source"]["path"] == "/metrics"

    def test_its_decisions_are_logged(self, plain: Objects) -> None:
        assert "--v=4" in plain.container("demo-epp")["args"]

    def test_it_may_read_what_it_watches_and_nothing_else(self, vllm: Objects) -> None:
        rules = vllm.one("Role", "demo-epp")["rules"]
        assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
        assert {resource for rule in rules for resource in rule["resources"]} == {
            "pods",
            "inferencepools",
            "inferenceobjectives",
            "inferencemodelrewrites",
        }
        assert vllm.of("ClusterRole") == []
        account = vllm.pod("demo-epp")["serviceAccountName"]
        (subject,) = vllm.one("RoleBinding", "demo-epp")["subjects"]
        assert (
            subject["name"] == account == vllm.one("ServiceAccount", "demo-epp")["metadata"]["name"]
        )

    def test_it_has_all_three_probes(self, vllm: Objects) -> None:
        container = vllm.container("demo-epp")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["grpc"]["port"] == 9003
            assert container[probe]["timeoutSeconds"] >= 5


class TestNetwork:
    """Deny by default, and each way that is needed."""

    @pytest.mark.parametrize("name", ["demo", "demo-epp"])
    def test_both_directions_are_closed_by_default(self, vllm: Objects, name: str) -> None:
        spec = vllm.one("NetworkPolicy", name)["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        pod = vllm.one("Deployment", name)["spec"]["template"]["metadata"]["labels"]
        assert spec["podSelector"]["matchLabels"].items() <= pod.items()
        assert all(rule.get("from") for rule in spec["ingress"])

    def test_the_engine_hears_gateway_picker_and_monitoring(self, vllm: Objects) -> None:
        (rule,) = vllm.one("NetworkPolicy")["spec"]["ingress"]
        gateway, picker, monitoring = rule["from"]
        assert namespace(gateway) == "tokenworks-gateway"
        assert gateway["podSelector"]["matchLabels"] == {
            "gateway.networking.k8s.io/gateway-name": "gateway"
        }
        assert picker == {"podSelector": {"matchLabels": PICKER}}
        assert namespace(monitoring) == "monitoring"
        assert rule["ports"] == [{"protocol": "TCP", "port": 8000}]

    def test_the_picker_hears_the_gateway_and_sees_engines_and_api(self, vllm: Objects) -> None:
        spec = vllm.one("NetworkPolicy", "demo-epp")["spec"]
        ingress = {p["port"]: namespace(r["from"][0]) for r in spec["ingress"] for p in r["ports"]}
        assert ingress == {9002: "tokenworks-gateway", 9090: "monitoring"}
        dns, engines, api = spec["egress"]
        assert namespace(dns["to"][0]) == "kube-system"
        assert engines["to"] == [{"podSelector": {"matchLabels": ENDPOINTS}}]
        assert {p["port"] for p in api["ports"]} == {443, 6443}

    def test_only_downloads_open_a_way_out(self, vllm: Objects, plain: Objects) -> None:
        assert outward(vllm) == [443]
        assert outward(plain) == []


def namespace(peer: dict[str, Any]) -> str:
    return peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]


SIDECAR = {**LORA, "load": "sidecar", "maxLoaded": 2, "maxKept": 40, "maxRank": 32}


def names_and_paths(objects: Objects) -> list[tuple[str, str]]:
    """What the route takes: name and beginning of the path."""
    rules = objects.one("HTTPRoute")["spec"]["rules"]
    matches = [match for rule in rules for match in rule["matches"]]
    return [(match["headers"][0]["value"], match["path"]["value"]) for match in matches]


def loader(objects: Objects) -> dict[str, Any]:
    """The container that loads adapters."""
    found = [c for c in objects.pod()["initContainers"] if c["name"] == "adapters"]
    assert len(found) == 1
    return found[0]


def listed(text: str) -> dict[str, Any]:
    """The approved list, as the program reads it."""
    return json.loads(text)


@pytest.fixture(scope="module")
def at_start(charts: Helm) -> Objects:
    """A release that loads adapters before its engine starts."""
    return charts.objects("model", values_of(model(lora=LORA)))


@pytest.fixture(scope="module")
def beside(charts: Helm) -> Objects:
    """One that loads them beside its engine."""
    return charts.objects("model", values_of(model(lora=SIDECAR)))


class TestAdapters:
    """Only what is on the list is loaded, and found by its name."""

    def test_they_are_pulled_where_the_engine_looks(self, at_start: Objects) -> None:
        command, folder, text = loader(at_start)["args"]
        adapters = listed(text)["adapters"]
        assert (command, set(adapters)) == ("pull", {"billing", "sql-2"})
        assert adapters["billing"] == {
            "uri": "hf://org/billing-lora",
            "revision": "89abcdef0123456789abcdef0123456789abcdef",
            "digest": "sha256:" + "5a" * 32,
            "bytes": 120_000_000,
            "rank": 16,
            "path": adapters["billing"]["path"],
        }
        assert re.fullmatch("/adapters/billing-[0-9a-f]{12}", adapters["billing"]["path"])
        arguments = at_start.container()["args"]
        start = arguments.index("--lora-modules") + 1
        modules = {f"{name}={item['path']}" for name, item in adapters.items()}
        assert set(arguments[start : start + 2]) == modules
        assert "--enable-lora" in arguments
        given = flags(arguments)
        limits = [given[name] for name in ("max-loras", "max-cpu-loras", "max-lora-rank")]
        assert limits == ["2", "2", "16"]
        mounts = {m["name"]: m for m in at_start.container()["volumeMounts"]}
        assert mounts["adapters"] == {"name": "adapters", "mountPath": folder, "readOnly": True}

    @pytest.mark.parametrize(
        "change", [{"revision": "0" * 40}, {"digest": "sha256:" + "00" * 32}, {"uri": "hf://a/b"}]
    )
    def test_another_content_lies_elsewhere(
        self, charts: Helm, at_start: Objects, change: dict[str, str]
    ) -> None:
        """The same weights may come with another configuration."""
        lora = laid(LORA, {"adapters": {"billing": change}})
        found = [
            listed(loader(objects)["args"][2])["adapters"]["billing"]["path"]
            for objects in (at_start, charts.objects("model", values_of(model(lora=lora))))
        ]
        assert len(set(found)) == 2

    @pytest.mark.parametrize(("rank", "room"), [(1, "1"), (9, "16"), (65, "128"), (320, "320")])
    def test_vllm_makes_room_for_some_ranks_only(self, charts: Helm, rank: int, room: str) -> None:
        release = model(lora=laid(LORA, {"maxRank": max(rank, 16), "adapters": {"sql-2": None}}))
        ours = release if rank >= 16 else model(
            lora=laid(LORA, {"adapters": {"sql-2": None, "billing": {"rank": rank}}})
        )  # fmt: skip
        arguments = charts.objects("model", values_of(ours)).container()["args"]
        assert flags(arguments)["max-lora-rank"] == room

    def test_what_they_are_kept_in_has_a_limit(self, at_start: Objects, beside: Objects) -> None:
        for objects, size in ((at_start, 180e6), (beside, 41 * 500e6)):
            volumes = {v["name"]: v for v in objects.pod()["volumes"]}
            limit = quantity_value(volumes["adapters"]["emptyDir"]["sizeLimit"])
            assert size <= limit < size + 2**20
            disk = objects.container()["resources"]["limits"]["ephemeral-storage"]
            assert quantity_value(disk) > limit

    def test_it_gets_the_token_and_the_way_to_the_hub_and_no_more(self, charts: Helm) -> None:
        env = {"HF_ENDPOINT": "https://hub.example", "HTTPS_PROXY": "http://p:1", "OTHER": "x"}
        release = model(lora=LORA, engine={"env": env})
        found = loader(charts.objects("model", values_of(release)))["env"]
        assert [e["name"] for e in found] == ["HF_ENDPOINT", "HTTPS_PROXY", "HF_TOKEN"]
        assert found[2]["valueFrom"]["secretKeyRef"]["name"] == "hub-token"

    @pytest.mark.parametrize(
        "weights",
        [
            {"caches": {"weights": {"kind": "pvc", "prefetch": True}}},
            {"model": {"uri": "pvc://weights", "revision": None}},
        ],
    )
    def test_it_gets_the_token_where_the_engine_asks_no_hub(
        self, charts: Helm, weights: dict[str, Any]
    ) -> None:
        objects = charts.objects("model", values_of(model(lora=LORA, **weights)))
        assert [e["name"] for e in loader(objects)["env"]] == ["HF_TOKEN"]
        assert "HF_TOKEN" not in objects.env()

    def test_a_claim_is_mounted_to_be_read(self, at_start: Objects) -> None:
        mounts = {m["mountPath"]: m for m in loader(at_start)["volumeMounts"]}
        claim = mounts["/claims/adapters"]
        volumes = {v["name"]: v for v in at_start.pod()["volumes"]}
        assert claim["readOnly"] is True
        assert volumes[claim["name"]]["persistentVolumeClaim"] == {
            "claimName": "adapters",
            "readOnly": True,
        }
        assert claim["name"] not in {m["name"] for m in at_start.container()["volumeMounts"]}

    def test_pods_may_fetch_them(self, charts: Helm) -> None:
        weights = {"uri": "pvc://weights", "revision": None, "tokenSecret": None}

        def https(release: Any) -> bool:
            objects = charts.objects("model", values_of(release))
            egress = objects.one("NetworkPolicy")["spec"]["egress"]
            return any(443 in [p["port"] for p in rule["ports"]] for rule in egress)

        assert https(model(model=weights, lora=LORA))
        assert not https(model(model=weights))
        only_claims = laid(LORA, {"adapters": {"billing": None}})
        assert not https(model(model=weights, lora=only_claims))

    def test_every_name_leads_to_the_release(self, at_start: Objects) -> None:
        assert names_and_paths(at_start) == [
            (name, "/v1") for name in ("Qwen/Qwen3-32B", "billing", "sql-2")
        ]

    def test_a_route_of_many_names_has_rules_of_64(self, charts: Helm) -> None:
        one = LORA["adapters"]["sql-2"]
        many = {f"a{n:03}": one for n in range(127)}
        objects = charts.objects("model", values_of(model(lora={"adapters": many})))
        rules = objects.one("HTTPRoute")["spec"]["rules"]
        assert [len(rule["matches"]) for rule in rules] == [64, 64]
        assert rules[0]["timeouts"] == rules[1]["timeouts"]
        assert len(set(names_and_paths(objects))) == 128

    def test_the_gateway_lists_them(self) -> None:
        values = gateway_values(stack(model(lora=LORA)))
        assert values.models == dict.fromkeys(("Qwen/Qwen3-32B", "billing", "sql-2"), "research")

    def test_the_picker_prefers_pods_that_have_them_at_work(
        self, at_start: Objects, vllm: Objects
    ) -> None:
        for objects, weight in ((at_start, 2), (vllm, None)):
            text = objects.one("ConfigMap", "demo-epp")["data"]["picker.yaml"]
            (profile,) = yaml.safe_load(text)["schedulingProfiles"]
            weights = {p["pluginRef"]: p.get("weight") for p in profile["plugins"]}
            assert weights.get("lora-affinity-scorer") == weight

    def test_sglang_is_asked_by_the_name_it_wants(self, charts: Helm, at_start: Objects) -> None:
        engine = {"name": "sglang", "flags": None, "image": None, "version": None}
        objects = charts.objects("model", values_of(model(engine=engine, lora=LORA)))
        spec = objects.one("InferenceModelRewrite", "demo-adapters")["spec"]
        assert spec["poolRef"]["name"] == objects.one("InferencePool")["metadata"]["name"]
        rewritten = {
            rule["matches"][0]["model"]["value"]: rule["targets"][0]["modelRewrite"]
            for rule in spec["rules"]
        }
        assert rewritten == {n: f"Qwen/Qwen3-32B:{n}" for n in ("billing", "sql-2")}
        path = listed(loader(objects)["args"][2])["adapters"]["billing"]["path"]
        assert f"billing={path}" in objects.container()["args"]
        assert at_start.of("InferenceModelRewrite") == []

    def test_a_played_engine_loads_what_is_made_up(self, charts: Helm) -> None:
        release = model(engine={"simulation": {}, "image": None}, lora=LORA)
        objects = charts.objects("model", values_of(release))
        adapters = listed(loader(objects)["args"][2])["adapters"]
        assert {item["uri"] for item in adapters.values()} == {"dummy://billing", "dummy://sql-2"}
        assert "claims" not in json.dumps(objects.pod()["volumes"])
        assert "/simulator" in loader(objects)["image"]

    def test_every_pod_of_a_group_has_them(self, charts: Helm) -> None:
        topology = {"kind": "multi-node", "tensorParallel": 8}
        release = model(topology=topology, resources={"gpus": 8}, replicas=1, lora=LORA)
        (group,) = charts.objects("model", values_of(release)).of("LeaderWorkerSet")
        template = group["spec"]["leaderWorkerTemplate"]
        for part in ("leaderTemplate", "workerTemplate"):
            names = [c["name"] for c in template[part]["spec"]["initContainers"]]
            assert "adapters" in names


class TestAdapterSidecar:
    """The list changes while engines run, and who may change it is nobody from outside."""

    def test_another_list_changes_no_pod(self, charts: Helm, beside: Objects) -> None:
        longer = laid(SIDECAR, {"adapters": {"new": LORA["adapters"]["billing"], "sql-2": None}})
        with_claim = {**longer, "adapters": {**longer["adapters"], "s": LORA["adapters"]["sql-2"]}}
        other = charts.objects("model", values_of(model(lora=with_claim)))
        assert other.one("Deployment") == beside.one("Deployment")
        only_claims = laid(SIDECAR, {"adapters": {"billing": None}})
        assert charts.objects("model", values_of(model(lora=only_claims))).pod() == beside.pod()
        texts = [o.one("ConfigMap", "demo-adapters")["data"] for o in (other, beside)]
        assert [set(listed(t["adapters.json"])["adapters"]) for t in texts] == [
            {"billing", "new", "s"},
            {"billing", "sql-2"},
        ]

    def test_it_reads_the_list_and_asks_the_engine_beside_it(self, beside: Objects) -> None:
        container = loader(beside)
        command, folder, file, engine, port = container["args"]
        assert (command, folder, engine) == ("serve", "/adapters", "http://127.0.0.1:8000")
        assert container["ports"] == [
            {"name": "adapters", "containerPort": int(port), "protocol": "TCP"}
        ]
        mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        volumes = {v["name"]: v for v in beside.pod()["volumes"]}
        name = volumes[mounts[str(PurePosixPath(file).parent)]]["configMap"]["name"]
        assert PurePosixPath(file).name in beside.one("ConfigMap", name)["data"]

    def test_it_is_a_sidecar_that_cannot_hold_the_engine_up(self, beside: Objects) -> None:
        container = loader(beside)
        assert container["restartPolicy"] == "Always"
        paths = {p: container[f"{p}Probe"]["httpGet"]["path"] for p in PROBES}
        # The engine starts only after its start-up probe; readiness waits for the engine.
        assert paths == {"startup": "/live", "readiness": "/ready", "liveness": "/live"}
        assert container["resources"]["limits"].keys() == {"memory", "ephemeral-storage"}

    def test_the_engine_loads_on_request_only_then(
        self, charts: Helm, beside: Objects, vllm: Objects
    ) -> None:
        at_start = charts.objects("model", values_of(model(lora=LORA)))
        name = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
        assert [o.env().get(name) for o in (beside, at_start, vllm)] == ["True", None, None]
        assert "--lora-modules" not in beside.container()["args"]
        given = flags(beside.container()["args"])
        limits = [given[name] for name in ("max-loras", "max-cpu-loras", "max-lora-rank")]
        assert limits == ["2", "40", "32"]

    def test_no_route_reaches_what_loads(self, beside: Objects) -> None:
        facts = load_engines().engine("vllm").lora
        assert facts is not None
        paths = {path for _, path in names_and_paths(beside)}
        for secret in (facts.load_path, facts.unload_path):
            assert secret is not None
            # PathPrefix matches whole segments.
            assert not [p for p in paths if f"{secret}/".startswith(f"{p}/")]
        assert {"/v1/chat/completions", "/v1/completions"} <= paths
        assert {name for name, _ in names_and_paths(beside)} == {
            "Qwen/Qwen3-32B",
            "billing",
            "sql-2",
        }

    @pytest.mark.parametrize(
        ("version", "prefix", "replace"),
        [("0.26.0", True, False), ("0.26.0", False, True), ("0.32.0", True, True)],
    )
    def test_a_name_is_given_again_only_where_its_cached_prompts_are_told_apart(
        self, charts: Helm, version: str, prefix: bool, replace: bool
    ) -> None:
        release = model(lora=SIDECAR, engine={"version": version}, caches={"prefix": prefix})
        objects = charts.objects("model", values_of(release))
        text = objects.one("ConfigMap", "demo-adapters")["data"]["adapters.json"]
        assert listed(text)["replace"] is replace


PROBES = ("startup", "readiness", "liveness")
