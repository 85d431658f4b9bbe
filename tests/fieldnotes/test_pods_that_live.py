"""Pods that start, answer, share GPUs and stop as they should, in every cell of the matrix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from tests.charts.rendering import Object, Objects
from tests.fieldnotes.view import Pod, role_of
from tests.matrix.cells import Cell
from tests.matrix.judging import release_of
from tokenworks.catalog.commandline import world
from tokenworks.catalog.engines import load_engines
from tokenworks.catalog.flags import Unresolved
from tokenworks.render.model import model_ready_seconds, start_seconds
from tokenworks.spec.common import duration_seconds, quantity_value

pytestmark = pytest.mark.helm

DURATION = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}")
"""Durations of the Gateway API (GEP-2257)."""
SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


def window(probe: Object) -> int:
    """Seconds that a probe forgives."""
    return probe["periodSeconds"] * probe["failureThreshold"]


def rolling(pod: Pod) -> Object:
    """How the workload replaces pods or groups."""
    spec = pod.workload["spec"]
    if pod.workload["kind"] == "LeaderWorkerSet":
        return spec["rolloutStrategy"]["rollingUpdateConfiguration"]
    if pod.workload["kind"] == "RoleBasedGroup":
        return role_of(pod.workload, pod.role)["rolloutStrategy"]["rollingUpdate"]
    return spec["strategy"]["rollingUpdate"]


@pytest.mark.fieldnote(1)
class TestRolloutDeadlock:
    """The new pod would wait for a GPU that the old one holds."""

    def test_the_old_pod_goes_first(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            assert (rolling(pod)["maxSurge"], rolling(pod)["maxUnavailable"]) == (0, 1), pod

    def test_pods_of_a_role_based_group_are_made_anew(self, pods: Sequence[Pod]) -> None:
        groups = [pod for pod in pods if pod.workload["kind"] == "RoleBasedGroup"]
        assert groups
        for pod in groups:
            assert rolling(pod)["type"] == "RecreatePod", pod


@pytest.mark.fieldnote(2)
class TestStartupBudget:
    """Weights take minutes: the startup probe waits as long as size, bandwidth and loading say."""

    def test_the_startup_probe_covers_download_and_load(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            assert window(pod.probes()["startupProbe"]) >= start_seconds(pod.model), pod

    def test_nothing_waits_blindly_before_it_looks(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for probe in pod.probes().values():
                assert "initialDelaySeconds" not in probe, pod


@pytest.mark.fieldnote(3)
class TestOneTimingBudget:
    """Every deadline is longer than the start that it waits for."""

    def test_deployments_wait_for_pull_and_start(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if pod.workload["kind"] == "Deployment":
                pull = duration_seconds(pod.facts.image_pull)
                start = window(pod.probes()["startupProbe"])
                assert pod.workload["spec"]["progressDeadlineSeconds"] > pull + start - 10, pod

    def test_readiness_of_the_release_outlasts_every_replica(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            grace = pod.spec["terminationGracePeriodSeconds"]
            one = start_seconds(pod.model) + grace
            assert model_ready_seconds(pod.model) > one * pod.layout.replicas, pod

    def test_the_queue_waits_longer_than_a_start(self, matrix: Mapping[Cell, Objects]) -> None:
        for cell in matrix:
            stack, model = release_of(cell)
            limit = duration_seconds(stack.environment.spec.platform.kueue.pods_ready_timeout)
            pull = duration_seconds(load_engines().engine(cell.engine).image_pull)
            assert limit > pull + start_seconds(model), cell


@pytest.mark.fieldnote(4)
class TestLivenessUnderLoad:
    """A busy engine answers late; that is no reason to kill it."""

    def test_timeouts_are_what_a_busy_engine_needs(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            least = 10 if pod.cell.engine == "sglang" else 5
            for name, probe in pod.probes().items():
                assert probe["timeoutSeconds"] >= least, (pod, name)

    def test_liveness_is_more_patient_than_readiness(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            probes = pod.probes()
            assert window(probes["livenessProbe"]) >= 60, pod
            assert window(probes["livenessProbe"]) > window(probes["readinessProbe"]), pod


@pytest.mark.fieldnote(5)
class TestProbesThatLie:
    """A probe asks the engine itself, over HTTP, on a path that is always open."""

    def test_engines_are_asked_over_http_on_a_port_they_have(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            named = {port["name"] for port in pod.engine.get("ports", [])}
            for name, probe in pod.probes().items():
                if pod.silent:
                    continue
                ask = probe["httpGet"]
                path = getattr(pod.facts.paths, name.removesuffix("Probe"))
                assert ask["path"] == path, (pod, name)
                assert ask["port"] in named, (pod, name)

    def test_silent_ranks_ask_the_pod_that_answers(self, pods: Sequence[Pod]) -> None:
        silent = [pod for pod in pods if pod.silent]
        assert silent
        for pod in silent:
            leader = next(
                p for p in pods
                if p.workload is pod.workload and p.role == pod.role and p.part == "leader"
            )  # fmt: skip
            ports = {p["name"]: p["containerPort"] for p in leader.engine["ports"]}
            for name, probe in pod.probes().items():
                ask = leader.probes()[name]["httpGet"]
                command = probe["exec"]["command"]
                host, port, path, seconds = command[-4:]
                assert host == "$(LWS_LEADER_ADDRESS)", (pod, name)
                assert (port, path) == (str(ports[ask["port"]]), ask["path"]), (pod, name)
                assert 0 < int(seconds) <= probe["timeoutSeconds"], (pod, name)
                assert "exit 0" not in " ".join(command), (pod, name)


@pytest.mark.fieldnote(6)
class TestStreamsCut:
    """Long answers are not cut by a gateway's default."""

    def test_every_rule_of_every_route_has_both_timeouts(
        self, matrix: Mapping[Cell, Objects]
    ) -> None:
        for cell, objects in matrix.items():
            for route in objects.of("HTTPRoute"):
                for rule in route["spec"]["rules"]:
                    timeouts = rule["timeouts"]
                    assert timeouts["request"] == timeouts["backendRequest"] == "200s", cell
                    assert DURATION.fullmatch(timeouts["request"]), cell
                    assert "retry" not in rule, cell

    def test_engines_own_routers_wait_as_long(self, matrix: Mapping[Cell, Objects]) -> None:
        routers = [
            (cell, d["spec"]["template"]["spec"]["containers"][0])
            for cell, objects in matrix.items()
            for d in objects.of("Deployment")
            if d["metadata"]["name"] == "demo-router"
        ]
        assert routers
        for cell, container in routers:
            args = container["args"]
            assert args[args.index("--request-timeout-secs") + 1] == "200", cell


@pytest.mark.fieldnote(7)
class TestDrain:
    """Leaving the picker's list, finishing answers, and a buffer fit into the grace period."""

    def test_the_parts_add_up(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            drain = duration_seconds(pod.model.spec.startup.drain)
            pause = pod.engine["lifecycle"]["preStop"]["sleep"]["seconds"]
            grace = pod.spec["terminationGracePeriodSeconds"]
            if pod.silent:
                # It leaves at SIGTERM, and the ranks that still answer need it until then.
                assert pause >= 5 + drain, pod
                assert grace >= pause + 10, pod
            else:
                assert pause >= 5, pod
                assert grace >= pause + drain + 10, pod

    def test_the_flag_is_given_to_versions_that_know_it(self, pods: Sequence[Pod]) -> None:
        given = 0
        for pod in pods:
            flag = pod.facts.drain_flag(pod.version)
            if flag is not None and pod.line.flags:
                given += 1
                assert pod.line.value(flag) == duration_seconds(pod.model.spec.startup.drain), pod
        assert given


@pytest.mark.fieldnote(8)
class TestPidOne:
    """The engine gets SIGTERM itself."""

    def test_a_shell_hands_over(self, pods: Sequence[Pod]) -> None:
        shells = [pod for pod in pods if pod.engine["command"][0] in SHELLS]
        assert {pod.cell.topology for pod in shells} == {"group-ray"}
        for pod in shells:
            script = pod.engine["command"][2]
            assert script.endswith('exec "$@"'), pod
            assert "|" not in script.replace("&&", "") and "eval" not in script, pod


@pytest.mark.fieldnote(9)
class TestServiceNamedLikeTheEngine:
    """Service links would set VLLM_PORT to tcp://…"""

    def test_no_pod_gets_service_links(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            assert pod.spec["enableServiceLinks"] is False, pod


@pytest.mark.fieldnote(10)
class TestWorldSize:
    """Ranks of the rendered command line are the GPUs of the replica: no more, none idle."""

    def test_ranks_are_gpus(self, pods: Sequence[Pod]) -> None:
        counted = set[str]()
        for pod in pods:
            # Others spread over the GPUs that they see, or play them.
            counts = pod.facts.parallel.tensor is not None
            found = world(pod.line) if pod.line.flags and counts else None
            if pod.gpus == 0 or found is None:
                continue
            counted.add(f"{pod.cell.engine} {pod.cell.topology}")
            assert found.ranks == pod.gpus * pod.size, pod
            if found.ranks_per_pod is not None and not isinstance(found.nodes, Unresolved):
                assert found.ranks_per_pod == pod.gpus, pod
        assert counted >= {
            "vllm single", "vllm single-data", "vllm single-stages", "vllm group", "vllm group-ray",
            "vllm wide-ep", "vllm split", "vllm split-groups", "sglang group",
            "sglang split-groups", "sglang split-rbg-groups", "sglang single-data",
            "trtllm single-stages",
        }  # fmt: skip

    def test_engines_without_a_count_of_ranks_are_known(self, pods: Sequence[Pod]) -> None:
        uncounted = {pod.cell.engine for pod in pods if pod.facts.parallel.tensor is None}
        assert uncounted == {"llamacpp", "llmd-sim", "ollama", "simulator", "triton"}

    def test_members_of_a_group_know_their_number(self, pods: Sequence[Pod]) -> None:
        numbered = 0
        for pod in pods:
            flag = pod.facts.parallel.node_rank
            if pod.size > 1 and flag and pod.line.flags and pod.cell.topology != "group-ray":
                numbered += 1
                group = pod.workload["kind"] == "RoleBasedGroup"
                own = "$(RBG_LWP_WORKER_INDEX)" if group else "$(LWS_WORKER_INDEX)"
                assert any(own in word for word in pod.engine["args"]), pod
        assert numbered


@pytest.mark.fieldnote(13)
class TestSharedMemory:
    """Ranks on one node talk through /dev/shm, in every role and every pod of a group."""

    def test_it_is_in_memory_and_has_a_limit_within_the_containers(
        self, pods: Sequence[Pod]
    ) -> None:
        sharing = [pod for pod in pods if pod.layout.ranks > pod.layout.nodes]
        assert {pod.part for pod in sharing} == {"only", "leader", "worker", "member"}
        for pod in sharing:
            volume = pod.volume("/dev/shm")
            assert volume is not None, pod
            assert volume["emptyDir"]["medium"] == "Memory", pod
            assert 0 < quantity_value(volume["emptyDir"]["sizeLimit"]) < pod.memory, pod

    def test_one_rank_alone_has_none_unless_kv_lies_there(self, pods: Sequence[Pod]) -> None:
        alone = [pod for pod in pods if pod.layout.ranks == 1]
        assert alone
        for pod in alone:
            kept = pod.model.spec.caches.offload is not None and pod.cell.engine == "vllm"
            assert (pod.volume("/dev/shm") is not None) == kept, pod


@pytest.mark.fieldnote(14)
class TestVolumes:
    """Pods of one model sit on different nodes."""

    def test_claims_are_only_read(self, pods: Sequence[Pod]) -> None:
        claims = 0
        for pod in pods:
            mounts = {m["name"]: m for m in pod.engine["volumeMounts"]}
            for volume in pod.spec["volumes"]:
                if volume["name"] == "kv":  # what engines keep there they write
                    assert "readOnly" not in mounts["kv"], pod
                elif "persistentVolumeClaim" in volume:
                    claims += 1
                    assert volume["persistentVolumeClaim"]["readOnly"] is True, pod
                    assert mounts[volume["name"]]["readOnly"] is True, pod
        assert claims

    def test_no_claim_is_made_that_one_node_would_keep(
        self, matrix: Mapping[Cell, Objects]
    ) -> None:
        """But for one that lives and goes with its pod."""
        made = 0
        for cell, objects in matrix.items():
            claims = objects.of("PersistentVolumeClaim")
            assert bool(claims) == (cell.cache == "prefetch" and not cell.played), cell
            for claim in claims:
                made += 1
                assert claim["spec"]["accessModes"] == ["ReadWriteMany"], cell
            for workload in objects.all:
                assert "volumeClaimTemplates" not in workload.get("spec", {}), cell
        assert made


@pytest.mark.fieldnote(15)
class TestDownloads:
    """Weights come from where they were put, at one commit, and fit on the disk they go to."""

    def test_the_commit_is_pinned(self, pods: Sequence[Pod]) -> None:
        pinned = 0
        for pod in pods:
            flag, wanted = pod.facts.flags.revision, pod.model.spec.model.revision
            if flag and wanted and pod.line.flags:
                pinned += 1
                # What was brought before lies in a folder of the commit's name.
                place = any(word.endswith(f"/{wanted}") for word in pod.engine["args"])
                assert (pod.line.value(flag) == wanted) != place, pod
                assert place == (pod.cell.cache in ("prefetch", "node") and not pod.cell.played), (
                    pod
                )
        assert pinned

    def test_what_is_there_already_is_not_asked_for_outside(self, pods: Sequence[Pod]) -> None:
        offline = 0
        for pod in pods:
            volume = pod.volume("/weights") or {}
            if {"persistentVolumeClaim", "image"} & volume.keys():
                offline += len(pod.facts.offline)
                for name, value in pod.facts.offline.items():
                    assert pod.env[name] == value, (pod, name)
        assert offline

    def test_downloads_go_where_the_engine_looks(self, pods: Sequence[Pod]) -> None:
        kept = 0
        for pod in pods:
            volume = pod.volume("/weights") or {}
            where = pod.facts.hub_cache
            if where and "emptyDir" in volume and pod.model.spec.model.uri.startswith("hf://"):
                kept += 1
                assert pod.env[where] == "/weights", pod
        assert kept

    def test_the_disk_holds_all_volumes(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            limits = [v["emptyDir"] for v in pod.spec["volumes"] if "emptyDir" in v]
            disk = sum(
                quantity_value(e["sizeLimit"]) for e in limits if e.get("medium") != "Memory"
            )
            asked = pod.engine["resources"]["limits"]["ephemeral-storage"]
            assert quantity_value(asked) > disk, pod

    def test_the_hubs_token_comes_from_a_secret(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for entry in pod.engine["env"]:
                if entry["name"] == pod.facts.hub_token:
                    assert "secretKeyRef" in entry["valueFrom"], pod
