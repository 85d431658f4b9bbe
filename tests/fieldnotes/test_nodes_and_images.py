"""What pods ask of nodes, and hardened containers, in every cell of the matrix."""

from __future__ import annotations

import json
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.charts.rendering import CHARTS, Object, Objects
from tests.fieldnotes.view import GPU, Pod
from tests.matrix.cells import Cell
from tokenworks.catalog.network import load_networks
from tokenworks.spec.common import quantity_value

pytestmark = pytest.mark.helm

NCCL = {"efa": "AWS Libfabric", "roce": "IB", "tcp": "Socket"}
"""Transports by their names: one that is named and cannot be used fails."""
DEVICES = {"efa": "vpc.amazonaws.com/efa", "roce": "rdma/hca"}


def network(pod: Pod) -> str | None:
    """What the pod talks to its peers over; None where it has none."""
    if pod.cell.topology.startswith("single"):
        return None
    return "efa" if pod.cell.network == "-" else pod.cell.network


@pytest.mark.fieldnote(53)
class TestRdma:
    """RDMA is there or the pod does not start; nothing falls back to TCP in silence."""

    def test_pods_ask_for_their_share_of_the_devices(self, pods: Sequence[Pod]) -> None:
        asked = set[str]()
        for pod in pods:
            device = DEVICES.get(network(pod) or "")
            limits = pod.engine["resources"]["limits"]
            others = set(DEVICES.values()) - {device}
            assert not others & limits.keys(), pod
            if device is not None:
                asked.add(device)
                share = {"vpc.amazonaws.com/efa": 4, "rdma/hca": 1}[device] * pod.gpus
                assert int(limits[device]) == share, pod
        assert asked == set(DEVICES.values())

    def test_collectives_are_told_what_to_use_and_nothing_else(self, pods: Sequence[Pod]) -> None:
        told = set[str]()
        for pod in pods:
            name = network(pod)
            assert pod.env.get("NCCL_NET") == (NCCL[name] if name else None), pod
            for variable, value in (load_networks()[name].env if name else {}).items():
                told.add(variable)
                assert pod.env[variable] == value, pod
        assert told >= {"FI_PROVIDER", "NCCL_NET"}

    def test_kv_is_told_the_same_and_cannot_fall_back(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            name = network(pod)
            if name and pod.role != "engine" and pod.cell.topology != "split-mooncake":
                for variable, value in load_networks()[name].nixl.env.items():
                    assert pod.env[variable] == value, (pod, variable)
                ways = str(pod.env.get("UCX_TLS", "")).split(",")
                assert ("tcp" in ways) == (name == "tcp"), pod
                assert ("rc" in ways) == (name == "roce"), pod

    def test_vllms_nixl_speaks_the_network(self, pods: Sequence[Pod]) -> None:
        seen = set[str]()
        for pod in pods:
            config = json.dumps(pod.line.value("kv-transfer-config"))
            if "NixlConnector" in config:
                name = network(pod)
                seen.add(str(name))
                assert ("LIBFABRIC" in config) == (name == "efa"), pod
        assert seen == {"efa", "roce", "tcp"}

    def test_a_check_with_the_same_devices_comes_before_the_engine(
        self, pods: Sequence[Pod]
    ) -> None:
        for pod in pods:
            checks = [c for c in pod.containers if c["name"] == "rdma-check"]
            device = DEVICES.get(network(pod) or "")
            assert bool(checks) == (device is not None and not pod.cell.played), pod
            for check in checks:
                engine = pod.engine["resources"]["limits"]
                assert check["resources"]["limits"][device] == engine[device], pod

    def test_nothing_leans_on_a_capability_that_a_user_does_not_get(
        self, pods: Sequence[Pod]
    ) -> None:
        for pod in pods:
            assert pod.spec["securityContext"]["runAsNonRoot"] is True, pod
            for container in pod.containers:
                capabilities = container["securityContext"]["capabilities"]
                assert capabilities == {"drop": ["ALL"]}, pod

    def test_huge_pages_are_asked_for_with_efa_alone(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            pages = pod.engine["resources"]["limits"].get("hugepages-2Mi")
            assert (pages is not None) == (network(pod) == "efa"), pod

    @pytest.mark.parametrize(
        ("limit", "devices", "words"),
        [
            (-1, True, None),
            (2**31, True, None),
            (65536, True, "only 65536 bytes of memory may be locked"),
            (-1, False, "no device in /dev/infiniband"),
        ],
    )
    def test_the_check_finds_what_is_missing(
        self,
        limit: int,
        devices: bool,
        words: str | None,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
        monkeypatch.setattr("pathlib.Path.is_dir", lambda _: devices)
        monkeypatch.setattr("pathlib.Path.iterdir", lambda _: iter(["uverbs0"]))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(CHARTS / "model" / "files" / "rdma.py"))
        assert ended.value.code == (1 if words else 0)
        assert (words or "") in capsys.readouterr().err


@pytest.mark.fieldnote(67)
class TestHardenedImages:
    """Nobody is root, nothing is written outside folders with a limit, and every cache has one."""

    def test_no_container_may_do_more_than_it_needs(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for container in pod.containers:
                context = container["securityContext"]
                assert context["readOnlyRootFilesystem"] is True, pod
                assert context["allowPrivilegeEscalation"] is False, pod
                assert context["privileged"] is False, pod

    def test_every_cache_is_in_a_folder_that_may_be_written(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for variable in (*pod.facts.caches, "TMPDIR"):
                # Weights that are there already are only read.
                place = str(pod.env[variable])
                assert writable(pod, place) or place.startswith("/weights"), (pod, variable)

    def test_every_folder_has_a_limit(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for volume in pod.spec["volumes"]:
                if "emptyDir" in volume:
                    assert quantity_value(volume["emptyDir"]["sizeLimit"]) > 0, pod

    def test_helpers_and_routers_are_hardened_too(self, matrix: Mapping[Cell, Objects]) -> None:
        for cell, objects in matrix.items():
            for deployment in objects.of("Deployment"):
                pod: Object = deployment["spec"]["template"]["spec"]
                assert pod["securityContext"]["runAsNonRoot"] is True, cell
                for container in (*pod.get("initContainers", []), *pod["containers"]):
                    assert container["securityContext"]["readOnlyRootFilesystem"] is True, cell


def writable(pod: Pod, path: str) -> bool:
    """Whether the engine may write there: below a mount that is not read-only."""
    mounts = sorted(pod.engine["volumeMounts"], key=lambda m: len(m["mountPath"]))
    over = [m for m in mounts if Path(path).is_relative_to(m["mountPath"])]
    return bool(over) and not over[-1].get("readOnly", False)


class TestGpus:
    """Whole devices, asked for once."""

    def test_helpers_hold_no_gpu(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            for container in pod.containers:
                if container["name"] != "engine":
                    assert GPU not in container["resources"].get("limits", {}), pod
