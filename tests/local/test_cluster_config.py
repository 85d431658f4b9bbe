"""Configuration of the local cluster: what each component is told, as data."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.cluster import ClusterSpec, Pool, Programs, config, pki, sandbox
from local.cluster.machine import Host
from local.cluster.spec import NODE_IP, Paths, paths
from tokenworks.errors import UsageError

HOST = Host(may_lower_oom_score=False, overlayfs=True, cni="/usr/lib/cni")
CAPABLE = Host(may_lower_oom_score=True, overlayfs=False, cni="/opt/cni/bin")
SPEC = ClusterSpec("lab", Pool("sim", 1, {"nvidia.com/gpu": 8}, {}, (("a/b", "c", "NoSchedule"),)))


@pytest.fixture
def where(tmp_path: Path) -> Paths:
    return Paths("lab", tmp_path / "lab")


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    stages = tmp_path / "stage"
    for part in ("node/fast", "node/heartbeat-with-lease", "pod/fast"):
        (stages / part).mkdir(parents=True)
        (stages / part / "stage.yaml").write_text(f"kind: Stage\nmetadata: {{name: {part}}}\n")
        (stages / part / "kustomization.yaml").write_text("kind: Kustomization\n")
    names = ("kube", "coredns", "kwok", "provisioner")
    return Programs(*(tmp_path / name for name in names), kwok_stages=stages)


def flags(where: Paths, programs: Programs, name: str) -> dict[str, str]:
    """Flags of a component."""
    found = {c.name: c for c in config.components(where, SPEC, programs)}
    pairs = (word[2:].partition("=") for word in found[name].argv if word.startswith("--"))
    return {key: value for key, _, value in pairs}


def test_the_api_server_lets_nobody_in_unknown(where: Paths, programs: Programs) -> None:
    said = flags(where, programs, "kube-apiserver")
    assert said["anonymous-auth"] == "false"
    assert said["authorization-mode"] == "Node,RBAC"
    assert said["enable-admission-plugins"] == "NodeRestriction"
    assert said["advertise-address"] == NODE_IP
    assert "token-auth-file" not in said


def test_etcd_trusts_an_authority_that_signs_for_nobody_else(
    where: Paths, programs: Programs
) -> None:
    said = flags(where, programs, "etcd")
    assert said["client-cert-auth"] == said["peer-client-cert-auth"] == ""
    assert said["trusted-ca-file"] == said["peer-trusted-ca-file"] == f"{where.pki}/etcd-ca.crt"
    assert all(u.startswith("https://") for k, u in said.items() if k.endswith("-urls"))
    signed = {i.file for i in pki.identities("lab-0") if i.signer == "etcd-ca"}
    assert signed == {"etcd", "etcd-client"}


def test_root_ca_is_the_api_servers_own(where: Paths, programs: Programs) -> None:
    assert flags(where, programs, "kube-controller-manager")["root-ca-file"] == (
        f"{where.pki}/ca.crt"
    )


def test_components_wait_for_what_they_need(where: Paths, programs: Programs) -> None:
    started: set[str] = {config.RIGHTS}
    for component in config.components(where, SPEC, programs):
        assert set(component.after) <= started, component.name
        started.add(component.name)


def test_a_component_with_rights_of_ours_waits_for_them(where: Paths, programs: Programs) -> None:
    waiting = {c.name for c in config.components(where, SPEC, programs) if config.RIGHTS in c.after}
    assert waiting == {"coredns", "kwok", "storage-provisioner"}


@pytest.mark.parametrize("host", [HOST, CAPABLE])
def test_containerd_is_the_clusters_own(where: Paths, host: Host) -> None:
    said = tomllib.loads(config.containerd_toml(where, host))
    cri = said["plugins"]["io.containerd.grpc.v1.cri"]
    assert said["version"] == 2
    assert all(str(where.root) in p for p in (said["root"], said["state"]))
    assert said["grpc"]["address"] == str(where.containerd_socket)
    assert cri["sandbox_image"] == "registry.k8s.io/pause:3.10.1"
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["restrict_oom_score_adj"] is not host.may_lower_oom_score
    assert cri["cni"]["bin_dir"] == host.cni
    assert cri["containerd"]["snapshotter"] == ("overlayfs" if host.overlayfs else "native")


def test_pods_are_routed_not_bridged() -> None:
    said = json.loads(config.cni_conflist())
    assert [p["type"] for p in said["plugins"]] == ["ptp", "portmap"]
    (ranges,) = said["plugins"][0]["ipam"]["ranges"]
    assert ranges[0]["gateway"] == NODE_IP


def kubelet(where: Paths, host: Host = HOST) -> dict[str, Any]:
    return config.kubelet_config(where, host, SPEC)


def test_the_kubelet_keeps_what_cannot_be_had_again(where: Paths) -> None:
    said = kubelet(where)
    assert said["imageGCHighThresholdPercent"] == 100
    assert said["evictionHard"]["nodefs.available"] == "1%"


def test_the_kubelet_lets_only_known_callers_in(where: Paths) -> None:
    said = kubelet(where)
    assert said["authentication"]["anonymous"]["enabled"] is False
    assert said["authorization"]["mode"] == "Webhook"


def test_the_kubelet_works_on_both_cgroup_versions(where: Paths) -> None:
    said = kubelet(where)
    assert said["failCgroupV1"] is False
    assert said["cgroupDriver"] == "cgroupfs"
    assert said["cgroupRoot"] == sandbox.cgroup_root(where) == f"/{where.tag}"
    assert said["enforceNodeAllocatable"] == []


@pytest.mark.parametrize(("host", "score"), [(HOST, 0), (CAPABLE, -999)])
def test_scores_are_lowered_only_where_allowed(where: Paths, host: Host, score: int) -> None:
    assert kubelet(where, host)["oomScoreAdj"] == score
    assert config.proxy_config(where, host, "lab-0")["oomScoreAdj"] == score


def test_taints_of_the_real_pool_are_there_from_the_start(where: Paths) -> None:
    assert kubelet(where)["registerWithTaints"] == [
        {"key": "a/b", "value": "c", "effect": "NoSchedule"}
    ]


def test_kube_proxy_touches_no_setting_of_the_machine(where: Paths) -> None:
    said = config.proxy_config(where, HOST, "lab-0")
    assert said["mode"] == "nftables"
    assert said["conntrack"] == {"maxPerCore": 0, "min": 0}


def test_every_configuration_file_can_be_read(where: Paths, programs: Programs) -> None:
    pki.make(where.pki, "lab-0")
    files = config.files(where, HOST, SPEC, programs)
    assert {p.name for p in files} >= {"kubelet.yaml", "Corefile", "kwok.yaml", "config.json"}
    for path, text in files.items():
        assert str(path).startswith(str(where.root))
        if path.suffix == ".yaml":
            assert all(isinstance(d, dict) for d in yaml.safe_load_all(text))
        if path.suffix in (".json", ".conflist"):
            assert json.loads(text)


def test_kwok_gets_its_stages_and_nothing_else(programs: Programs) -> None:
    documents = list(yaml.safe_load_all(config.kwok_stages(programs.kwok_stages)))
    assert [d["kind"] for d in documents] == ["Stage"] * 3


def test_volumes_lie_in_the_clusters_folder(where: Paths) -> None:
    said = json.loads(config.provisioner_files(where)["config.json"])
    assert said["nodePathMap"][0]["paths"] == [f"{where.root}/volumes"]


def test_clusters_of_one_name_in_two_places_do_not_meet(tmp_path: Path) -> None:
    tags = {Paths("lab", tmp_path / place / "lab").tag for place in ("a", "b")}
    assert len(tags) == 2
    assert Paths("lab", Path("/var/lib/tokenworks/lab")).tag == "tokenworks-lab"


@pytest.mark.parametrize("name", ["", "Lab", "a_b", "-a", "a-", "../x", "a" * 41])
def test_a_name_that_is_no_label_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cluster name"):
        paths(name)


def test_a_state_too_deep_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENWORKS_STATE", "/" + "a" * 90)
    with pytest.raises(UsageError, match="TOKENWORKS_STATE to a shorter path"):
        paths("lab")


def test_state_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOKENWORKS_STATE", str(tmp_path))
    assert paths("lab").root == tmp_path / "lab"
    monkeypatch.delenv("TOKENWORKS_STATE")
    assert paths("lab").root == Path("/var/lib/tokenworks/lab")
