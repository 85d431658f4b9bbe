"""Notes that rules answer: what people wrote is found, and what works is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies import RULES
from tests.policies.builders import CARRIERS, Object, engine, found, pod
from tests.policies.sets import objects

HERE = Path(__file__).parents[1] / "policies/cases"
SETS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "sets.yaml").read_text())
DEPLOYMENT = CARRIERS["Deployment"]


def says(rule: str, made: Sequence[Object]) -> list[str]:
    """What one rule says of a set."""
    return [finding.message for finding in found(rule, *made)]


def told(rule: str, *parts: str) -> bool:
    """Whether cases of a rule are about all the parts, each said of some set, and not of others."""
    assert rule in {known.id for known in RULES}
    heard = [text for case in SETS[rule]["fires"] for text in says(rule, objects(case))]
    quiet = [text for case in SETS[rule]["silent"] for text in says(rule, objects(case))]
    return not quiet and all(any(part in text for text in heard) for part in parts)


@pytest.mark.fieldnote(18)
class TestMetricNames:
    """Names by version, gauges that end somewhere, averages that are divided once."""

    def test_a_name_that_is_gone_is_found_by_version(self) -> None:
        assert told("metric-names", "since 0.9.2", "does not have")

    def test_a_gauge_does_not_pass_its_ceiling(self) -> None:
        assert told("metric-ceiling", "a share", "--max-num-seqs")

    def test_an_average_is_divided_once(self) -> None:
        assert told("metric-average", "AverageValue divides by the replicas once more")


@pytest.mark.fieldnote(20)
class TestNetworkPolicies:
    """The whole set as a graph: who must reach whom, and who cannot."""

    @pytest.mark.parametrize(
        ("rule", "parts"),
        [
            ("network-dns", ("not ask for names",)),
            ("network-serving", ("lets nobody reach", "by the Gateway in namespace")),
            ("network-picker", ("cannot read its pods' metrics",)),
            ("network-scraper", ("PodMonitor", "ServiceMonitor", "prometheus.io/scrape")),
            ("network-group", ("of its group on every port",)),
            ("network-transfer", ("5600", "5603", "8998", "9200", "every port")),
            ("network-store", ("outside the cluster on port 443",)),
        ],
    )
    def test_each_way_is_looked_at(self, rule: str, parts: tuple[str, ...]) -> None:
        assert told(rule, *parts)

    def test_the_hosts_network_is_said_to_be_unprotected(self) -> None:
        made = DEPLOYMENT(pod(hostNetwork=True))
        assert "no NetworkPolicy protects it" in says("network-policy", [made])[0]


TOKEN: Object = {
    "name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
}  # fmt: skip


@pytest.mark.fieldnote(21)
class TestSecrets:
    """Literals, placeholders that nobody fills in, and arguments that every process shows."""

    @pytest.mark.parametrize(
        ("changes", "part"),
        [
            ({"env": [{"name": "HF_TOKEN", "value": "a-literal"}]}, "a secret in clear text"),
            ({"env": [{"name": "HF_TOKEN", "value": "<your-token>"}]}, "a placeholder"),
            ({"args": ["--model", "/m", "--api-key", "a-literal-key"]}, "in --api-key"),
            ({"args": ["--model", "/m", "--api-key=$(HF_TOKEN)"], "env": [TOKEN]}, "arguments"),
        ],
    )
    def test_it_is_found_in_every_kind(self, changes: Object, part: str) -> None:
        for carrier in CARRIERS.values():
            assert any(
                part in text for text in says("plain-secret", [carrier(pod(engine(**changes)))])
            )

    def test_a_reference_is_none(self) -> None:
        for carrier in CARRIERS.values():
            assert says("plain-secret", [carrier(pod(engine(env=[TOKEN])))]) == []

    def test_what_kubernetes_does_not_expand_is_said(self) -> None:
        made = DEPLOYMENT(pod(engine(args=["--model", "/m", "--api-key", "$API_KEY"])))
        assert says("unexpanded-variable", [made])


@pytest.mark.fieldnote(39)
class TestDanglingReferences:
    """Both ends are named: who refers, and what is not there."""

    @pytest.mark.parametrize(
        ("rule", "parts"),
        [
            ("missing-config", ("ConfigMap settings", "Secret hf-token")),
            ("missing-claim", ("the claim weights",)),
            ("missing-service-account", ()),
            ("missing-class", ()),
            ("service-selector", ()),
            ("service-port", ()),
            ("pool-selector", ()),
            ("pool-picker", ()),
            ("route-backend", ()),
            ("route-gateway", ()),
            ("scaler-target", ()),
            ("queue-chain", ()),
        ],
    )
    def test_each_reference_is_followed(self, rule: str, parts: tuple[str, ...]) -> None:
        assert SETS[rule]["fires"]
        assert told(rule, *parts, *(case["says"] for case in SETS[rule]["fires"]))


@pytest.mark.fieldnote(41)
class TestGroupMix:
    """Pool, route, rights and health check are of one API group."""

    def test_pool_and_route(self) -> None:
        assert told("pool-group", "does not know", "which is of inference.networking.k8s.io")

    def test_rights(self) -> None:
        assert told("pool-rights", "grants inferencepools of inference.networking.x-k8s.io")

    def test_health(self) -> None:
        assert told("pool-group", "checks the health of pools of inference.networking.x-k8s.io")


@pytest.mark.fieldnote(43)
class TestPickerWiring:
    """The picker is asked in its own protocol, with its certificate, whichever gateway asks."""

    def test_istio_is_told_of_its_certificate_and_others_need_not_be(self) -> None:
        assert told("picker-tls", "whose certificate Istio does not trust")

    def test_the_port_says_grpc(self) -> None:
        assert told("pool-protocol", "its port says http", "from the name of its port")

    def test_the_pool_says_what_engines_speak(self) -> None:
        assert told("pool-protocol", "speaks h2c to")


@pytest.mark.fieldnote(45)
class TestBodyLimits:
    """A limit is measured by the context that the engine is given."""

    def test_limits_below_the_context_are_found(self) -> None:
        assert told("body-limit", *(case["says"] for case in SETS["body-limit"]["fires"]))


@pytest.mark.fieldnote(52)
class TestServingInQueues:
    """Never pushed out by batch, by its own rollout or by a webhook that is away."""

    def test_batch_does_not_push_it_out(self) -> None:
        assert told("serving-priority", "serves without a priority")
        assert told("queue-preemption", "evicts newer workloads")
        assert told("queue-cohort", "takes back from workloads", "takes nothing back")

    def test_a_webhook_that_is_away_can_come_back(self) -> None:
        assert told("webhook-outage", "where it runs itself", "pods of kube-system")

    def test_the_queues_name_stands_on_the_workload(self) -> None:
        assert told("queue-label", *(case["says"] for case in SETS["queue-label"]["fires"]))


@pytest.mark.fieldnote(59)
class TestFloating:
    """Images of every container, and of nodes, stay what they are."""

    def test_init_containers_and_sidecars_count(self) -> None:
        loose = {"name": "fetch", "image": "busybox:1.37"}
        for more in ({}, {"restartPolicy": "Always"}):
            made = DEPLOYMENT(pod(initContainers=[{**loose, **more}]))
            assert "without digest: busybox:1.37" in says("image-digest", [made])[0]

    def test_nodes_start_from_an_image_that_stays(self) -> None:
        assert told("node-image", "@latest", "eks-gpu-*", "recommended")

    def test_the_image_fits_the_driver(self) -> None:
        assert told("image-driver", *(case["says"] for case in SETS["image-driver"]["fires"]))


@pytest.mark.fieldnote(60)
class TestGpuSpelling:
    """Right names, whole numbers, and nothing that defeats the allotment."""

    @pytest.mark.parametrize(
        ("changes", "rule", "part"),
        [
            ({"resources": {"limits": {"nvidia.com/gpus": 1}}}, "gpu-limits", "no node offers"),
            ({"resources": {"limits": {"nvidia.com/gpu": "0.5"}}}, "gpu-limits", "GPUs come whole"),
            (
                {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
                "gpu-limits",
                "not all",
            ),
            ({"securityContext": {"privileged": True}}, "privileged-engine", "every GPU"),
        ],
    )
    def test_it_is_found_in_every_kind(self, changes: Object, rule: str, part: str) -> None:
        for carrier in CARRIERS.values():
            assert any(part in text for text in says(rule, [carrier(pod(engine(**changes)))]))

    def test_sound_ones_are_left_alone(self) -> None:
        for name in ("gpu-limits", "privileged-engine"):
            assert says(name, [DEPLOYMENT(pod())]) == []


@pytest.mark.fieldnote(68)
class TestOpenPorts:
    """What runs code for whoever reaches it stays inside; code of models is pinned."""

    def test_ports_of_a_group_stay_inside(self) -> None:
        assert told(
            "group-port-exposed", "to Ray's head (port 6379)", "of Service r-head-svc",
            "by a LoadBalancer", "the rendezvous of ranks",
        )  # fmt: skip

    def test_no_load_balancer_leads_straight_to_an_engine(self) -> None:
        assert told("engine-exposed", *(case["says"] for case in SETS["engine-exposed"]["fires"]))

    def test_code_of_models_wants_a_revision(self) -> None:
        args = ["Qwen/Qwen3-32B", "--trust-remote-code"]
        for carrier in CARRIERS.values():
            loose = carrier(pod(engine(command=["vllm", "serve"], args=args)))
            assert any("no pinned revision" in text for text in says("remote-code", [loose]))
            pinned = engine(command=["vllm", "serve"], args=[*args, "--revision", "0" * 40])
            assert says("remote-code", [carrier(pod(pinned))]) == []
