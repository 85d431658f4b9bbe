"""Pickers, prefill and decode, and groups of pods, in every cell of the matrix that has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.charts.rendering import Object, Objects
from tests.fieldnotes.view import Pod, role_of
from tests.matrix.cells import Cell
from tokenworks.render.model import model_ready_seconds, start_seconds
from tokenworks.render.ranks import NIXL_PER_RANK

pytestmark = pytest.mark.helm


def labels_match(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a pod with the labels is selected."""
    return selector.items() <= labels.items()


def admits(policy: Object, pod: Pod, other: Pod, port: int) -> bool:
    """Whether a NetworkPolicy of `pod` lets `other` connect to the port."""
    if not labels_match(policy["spec"]["podSelector"]["matchLabels"], pod.labels):
        return False
    for rule in policy["spec"]["ingress"]:
        selectors = [peer.get("podSelector", {}).get("matchLabels") for peer in rule["from"]]
        near = [s for s, peer in zip(selectors, rule["from"], strict=True) if len(peer) == 1 and s]
        ports = rule.get("ports")
        open_port = ports is None or any(
            p["port"] <= port <= p.get("endPort", p["port"]) for p in ports
        )
        if open_port and any(labels_match(s, other.labels) for s in near):
            return True
    return False


def reachable(pod: Pod, other: Pod, port: int) -> bool:
    """Whether the release's policies let one engine pod connect to another."""
    return any(admits(policy, pod, other, port) for policy in pod.all.of("NetworkPolicy"))


def mates(pod: Pod, pods: Sequence[Pod]) -> list[Pod]:
    """Engine pods of the same release."""
    return [other for other in pods if other.all is pod.all]


@pytest.mark.fieldnote(43)
class TestPickerWiring:
    """Pool, picker, its Service and its certificate agree."""

    def test_the_pool_names_a_port_that_the_picker_serves(
        self, matrix: Mapping[Cell, Objects]
    ) -> None:
        pools = 0
        for cell, objects in matrix.items():
            for pool in objects.of("InferencePool"):
                pools += 1
                reference = pool["spec"]["endpointPickerRef"]
                service = objects.one("Service", reference["name"])
                (port,) = [
                    p for p in service["spec"]["ports"]
                    if p["port"] == reference["port"]["number"]
                ]  # fmt: skip
                assert port["appProtocol"] == "grpc", cell
                picker = objects.container("demo-epp")
                assert port["targetPort"] in {p["name"] for p in picker["ports"]}, cell
        assert pools

    def test_the_gateway_speaks_tls_to_the_picker(self, matrix: Mapping[Cell, Objects]) -> None:
        for cell, objects in matrix.items():
            rules = {rule["spec"]["host"]: rule for rule in objects.of("DestinationRule")}
            hosts = {f"{p['spec']['endpointPickerRef']['name']}.research.svc.cluster.local"
                     for p in objects.of("InferencePool")}  # fmt: skip
            assert hosts == rules.keys(), cell
            for rule in rules.values():
                assert rule["spec"]["trafficPolicy"]["tls"]["mode"] == "SIMPLE", cell

    def test_the_pool_selects_pods_that_answer_and_no_others(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for pool in pod.all.of("InferencePool"):
                chosen = labels_match(pool["spec"]["selector"]["matchLabels"], pod.labels)
                leads = pod.part in ("only", "leader") or pod.layout.all_serve
                if pod.part == "member":
                    # The patch of the first pod adds the label.
                    patch = role_of(pod.workload, pod.role)["leaderWorkerPattern"]
                    added = patch["leaderTemplatePatch"]["metadata"]["labels"]
                    assert labels_match(pool["spec"]["selector"]["matchLabels"], added), pod
                assert chosen == leads, pod

    def test_the_pools_ports_are_those_the_pods_have(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for pool in pod.all.of("InferencePool"):
                wanted = {p["number"] for p in pool["spec"]["targetPorts"]}
                if pod.labels.get("tokenworks.dev/endpoint") == "true":
                    have = {p["containerPort"] for c in pod.containers for p in c.get("ports", [])}
                    assert wanted <= have, pod


@pytest.mark.fieldnote(46)
class TestSideChannel:
    """Ranks hand over KV at the pod's address, on a port each that peers can reach."""

    def test_the_address_is_the_pods_own(self, pods: Sequence[Pod]) -> None:
        nixl = [pod for pod in pods if "VLLM_NIXL_SIDE_CHANNEL_HOST" in pod.env]
        assert {pod.role for pod in nixl} == {"prefill", "decode"}
        for pod in nixl:
            names = [e["name"] for e in pod.engine["env"]]
            assert pod.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "$(POD_IP)", pod
            # A reference is only resolved to what stands before it.
            assert names.index("POD_IP") < names.index("VLLM_NIXL_SIDE_CHANNEL_HOST"), pod
            source = pod.engine["env"][names.index("POD_IP")]["valueFrom"]["fieldRef"]
            assert source["fieldPath"] == "status.podIP", pod

    def test_every_rank_has_a_port_that_the_other_role_reaches(self, pods: Sequence[Pod]) -> None:
        nixl = [pod for pod in pods if "VLLM_NIXL_SIDE_CHANNEL_PORT" in pod.env]
        for pod in nixl:
            first = int(str(pod.env["VLLM_NIXL_SIDE_CHANNEL_PORT"]))
            count = min(NIXL_PER_RANK, pod.layout.tensor * pod.layout.local_data)
            declared = {p["containerPort"] for p in pod.engine["ports"]}
            for port in range(first, first + count):
                assert port in declared, pod
                for other in mates(pod, pods):
                    assert reachable(pod, other, port), (pod, other, port)

    def test_sglangs_decode_reaches_prefills_bootstrap(self, pods: Sequence[Pod]) -> None:
        prefill = [p for p in pods if p.cell.engine == "sglang" and p.role == "prefill"]
        assert prefill
        for pod in prefill:
            port = pod.line.value("disaggregation-bootstrap-port")
            assert isinstance(port, int), pod
            for other in mates(pod, pods):
                assert reachable(pod, other, port), (pod, other)

    def test_vllms_router_is_told_how_kv_travels_and_where_it_is_asked_for(
        self, pods: Sequence[Pod]
    ) -> None:
        routed = [
            pod
            for pod in pods
            if pod.cell.engine == "vllm"
            and any(d["metadata"]["name"] == "demo-router" for d in pod.all.of("Deployment"))
        ]
        assert {pod.role for pod in routed} == {"prefill", "decode"}
        for pod in routed:
            args = pod.all.container("demo-router")["args"]
            how = "mooncake" if pod.cell.topology == "split-mooncake" else "nixl"
            assert args[args.index("--kv-connector") + 1] == how, pod
            noted = pod.template["metadata"]["annotations"].get("vllm.ai/bootstrap-port")
            asked = how == "mooncake" and pod.role == "prefill"
            assert noted == (pod.env["VLLM_MOONCAKE_BOOTSTRAP_PORT"] if asked else None), pod

    def test_roles_are_told_which_they_are(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.cell.engine == "sglang" and pod.role != "engine":
                assert pod.line.value("disaggregation-mode") == pod.role, pod
            if pod.role != "engine" and pod.labels.get("tokenworks.dev/endpoint") == "true":
                assert pod.labels["llm-d.ai/role"] == pod.role, pod


@pytest.mark.fieldnote(47)
class TestVersionSkew:
    """Prefill and decode lay KV out alike: one image, one block size, one type."""

    SAME = (
        "block-size", "page-size", "kv-cache-dtype", "dtype", "revision", "max-model-len",
        "context-length", "served-model-name", "pipeline-parallel-size",
        "disaggregation-transfer-backend",
    )  # fmt: skip

    def test_both_roles_have_the_same_image_and_layout(self, pods: Sequence[Pod]) -> None:
        prefill = [pod for pod in pods if pod.role == "prefill" and pod.part != "worker"]
        assert prefill
        seen = set[str]()
        for pod in prefill:
            decode = next(p for p in mates(pod, pods) if p.role == "decode" and p.part == pod.part)
            assert pod.engine["image"] == decode.engine["image"], pod
            for flag in self.SAME:
                seen |= {flag} if flag in pod.line.flags else set()
                assert pod.line.value(flag) == decode.line.value(flag), (pod, flag)
        assert seen >= {"block-size", "page-size", "kv-cache-dtype", "revision"}

    def test_both_name_the_same_connector(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            other = next((p for p in mates(pod, pods) if p.role not in (pod.role, "engine")), None)
            if other is not None and pod.cell.engine == "vllm":
                mine, its = connector(pod), connector(other)
                assert mine["kv_connector"] == its["kv_connector"], pod
                if mine["kv_connector"] != "MooncakeConnector":
                    assert mine == its, pod
                    assert mine["kv_load_failure_policy"] == "fail", pod
                else:
                    sides = {"prefill": "kv_producer", "decode": "kv_consumer"}
                    assert mine["kv_role"] == sides[pod.role], pod


def connector(pod: Pod) -> dict[str, Any]:
    """vLLM's settings of KV transfers, as they arrive."""
    prefix = "--kv-transfer-config="
    (text,) = [a for a in pod.engine["args"] if a.startswith(prefix)]
    return json.loads(text.removeprefix(prefix))


@pytest.mark.fieldnote(49)
class TestWorkerHealth:
    """A dead rank is noticed, and ranks find the first one before it is ready."""

    def test_every_member_of_a_group_has_all_probes(self, pods: Sequence[Pod]) -> None:
        members = [pod for pod in pods if pod.part in ("worker", "member")]
        assert {p.cell.topology for p in members} >= {"group", "group-ray", "wide-ep"}
        for pod in members:
            for probe in pod.probes().values():
                assert {"exec", "httpGet"} & probe.keys(), pod

    def test_headless_ranks_have_no_port_that_answers(self, pods: Sequence[Pod]) -> None:
        silent = [pod for pod in pods if pod.silent]
        assert silent
        for pod in silent:
            assert not {"http", "engine"} & {p["name"] for p in pod.engine.get("ports", [])}, pod
            assert "tokenworks.dev/endpoint" not in pod.labels, pod

    def test_ranks_start_without_waiting_for_the_first_ones_health(
        self, pods: Sequence[Pod]
    ) -> None:
        groups = [p for p in pods if p.workload["kind"] == "LeaderWorkerSet"]
        assert groups
        for pod in groups:
            spec = pod.workload["spec"]
            assert spec["startupPolicy"] == "LeaderCreated", pod
            assert spec["networkConfig"]["subdomainPolicy"] == "Shared", pod

    def test_all_ranks_look_for_the_same_first_pod(self, pods: Sequence[Pod]) -> None:
        names = {"LeaderWorkerSet": "$(LWS_LEADER_ADDRESS)",
                 "RoleBasedGroup": "$(RBG_LWP_LEADER_ADDRESS)"}  # fmt: skip
        for pod in pods:
            if pod.size > 1 and not (pod.part == "leader" and pod.cell.topology == "group-ray"):
                words = " ".join([*pod.engine["command"], *pod.engine.get("args", [])])
                assert names[pod.workload["kind"]] in words, pod

    def test_members_reach_each_other_on_any_port(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.size > 1:
                for other in mates(pod, pods):
                    if other.role == pod.role:
                        assert reachable(pod, other, 43210), (pod, other)


@pytest.mark.fieldnote(50)
class TestGroupRollouts:
    """Groups are replaced one at a time, whole, and a deadline allows for all of them."""

    def test_numbers_are_absolute(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.workload["kind"] == "LeaderWorkerSet":
                rolling = pod.workload["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
                for name in ("maxSurge", "maxUnavailable", "partition"):
                    assert isinstance(rolling[name], int), (pod, name)

    def test_a_lost_rank_takes_its_group_along(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.workload["kind"] == "LeaderWorkerSet":
                template = pod.workload["spec"]["leaderWorkerTemplate"]
                assert template["restartPolicy"] == "RecreateGroupOnPodRestart", pod
            if pod.part == "member":
                pattern = role_of(pod.workload, pod.role)["leaderWorkerPattern"]
                assert pattern["restartPolicy"] == "RecreateRoleInstanceOnPodRestart", pod

    def test_time_is_that_of_one_group_after_another(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.size > 1:
                replicas = sum(
                    other.layout.replicas for other in mates(pod, pods) if other.part != "worker"
                )
                assert model_ready_seconds(pod.model) >= replicas * start_seconds(pod.model), pod

    def test_decode_waits_for_prefill(self, pods: Sequence[Pod]) -> None:
        decode = [pod for pod in pods if pod.role == "decode"]
        assert decode
        for pod in decode:
            if pod.workload["kind"] == "RoleBasedGroup":
                assert role_of(pod.workload, "decode")["dependencies"] == ["prefill"], pod
                continue
            (waiter,) = [c for c in pod.spec["initContainers"] if c["name"] == "wait-for-prefill"]
            url = waiter["command"][-1]
            service = pod.all.one("Service", url.split("//")[1].split(":")[0])
            others = [p for p in mates(pod, pods) if p.role == "prefill" and p.part != "worker"]
            assert all(labels_match(service["spec"]["selector"], p.labels) for p in others), pod
