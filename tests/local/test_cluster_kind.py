"""The provider kind, against a `kind` that plays back what the real one says."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
import yaml

from local.cluster import ClusterSpec, Pool, kind
from local.cluster.api import Api
from tests.local.test_cluster_images import archive
from tests.local.test_cluster_nodes import GPU, FakeApi, registered
from tokenworks.errors import TokenworksError, UsageError

SPEC = ClusterSpec("lab", Pool("sim", 1, {GPU: 8}))

# What kind v0.30 does for the four calls: a cluster is a line in a file.
KIND = """#!/bin/sh
echo "$@" >> {root}/calls
case "$1 $2" in
"get clusters") cat {root}/clusters 2>/dev/null || echo "No kind clusters found." >&2 ;;
"create cluster") echo "$4" >> {root}/clusters ;;
"delete cluster") rm -f {root}/clusters ;;
"get kubeconfig") cat {root}/kubeconfig ;;
"load image-archive") [ ! -e {root}/refuse ] || {{ echo "ERROR: no space left" >&2; exit 1; }} ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kind and Docker on PATH, and nothing made yet."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kind").write_text(KIND.format(root=tmp_path))
    (programs / "docker").write_text("#!/bin/sh\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    pem = base64.b64encode(b"pem").decode()
    document = {
        "clusters": [
            {"cluster": {"server": "https://127.0.0.1:4", "certificate-authority-data": pem}}
        ],
        "users": [{"user": {"client-certificate-data": pem, "client-key-data": pem}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("TOKENWORKS_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("KIND_EXPERIMENTAL_PROVIDER", raising=False)
    return tmp_path


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The cluster's API, with the one node that kind makes."""
    node = registered()
    node["metadata"]["name"] = "lab-control-plane"
    fake = FakeApi(node)
    monkeypatch.setattr(kind, "_api", lambda *_: fake)
    return fake


def calls(root: Path) -> list[str]:
    """What kind was asked."""
    return (root / "calls").read_text().splitlines()


def test_a_cluster_is_made_filled_and_its_node_set(root: Path, api: FakeApi) -> None:
    image = archive(root / "a.tar", ("a:1", "sha256:aa"))
    said: list[str] = []
    kubeconfig = kind.up(SPEC, [image], said.append)
    assert f"load image-archive {image} --name lab" in calls(root)
    assert "create cluster --name lab --wait 180s" in calls(root)
    assert api.nodes["lab-control-plane"]["status"]["allocatable"][GPU] == "8"
    assert kubeconfig == root / "state" / "kind-lab" / "kubeconfig"
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert said == ["  kind makes cluster lab", "  1 image(s) loaded"]


def test_a_second_up_changes_nothing(root: Path, api: FakeApi) -> None:
    image = archive(root / "a.tar", ("a:1", "sha256:aa"))
    kind.up(SPEC, [image], [].append)
    (root / "calls").unlink()
    api.calls.clear()
    said: list[str] = []
    kind.up(SPEC, [image], said.append)
    assert said == ["cluster lab runs; nothing to change"]
    assert calls(root) == ["get clusters", "get kubeconfig --name lab"]
    assert api.calls == []


def test_a_cluster_that_was_made_anew_gets_its_images_again(root: Path, api: FakeApi) -> None:
    assert api.nodes
    image = archive(root / "a.tar", ("a:1", "sha256:aa"))
    kind.up(SPEC, [image], [].append)
    (root / "clusters").unlink()  # `kind delete cluster`, typed by hand
    (root / "calls").unlink()
    kind.up(SPEC, [image], [].append)
    assert f"load image-archive {image} --name lab" in calls(root)


def test_an_image_that_was_not_loaded_is_loaded_next_time(root: Path, api: FakeApi) -> None:
    assert api.nodes
    image = archive(root / "a.tar", ("a:1", "sha256:aa"))
    (root / "refuse").touch()
    with pytest.raises(TokenworksError, match=r"kind load image-archive .*no space left"):
        kind.up(SPEC, [image], [].append)
    (root / "refuse").unlink()
    said: list[str] = []
    kind.up(SPEC, [image], said.append)
    assert said == ["  1 image(s) loaded"]


def test_down_removes_the_cluster_and_what_was_kept_of_it(root: Path, api: FakeApi) -> None:
    assert api.nodes
    kind.up(SPEC, (), [].append)
    assert kind.down("lab", [].append)
    assert "delete cluster --name lab" in calls(root)
    assert not (root / "state" / "kind-lab").exists()
    said: list[str] = []
    assert not kind.down("lab", said.append)
    assert said == ["cluster lab is not there"]


def test_the_api_is_reached_with_the_keys_of_the_kubeconfig(root: Path) -> None:
    folder = root / "keys"
    api = kind._api(root / "kubeconfig", folder)
    assert isinstance(api, Api)
    assert api.address == ("127.0.0.1", 4)
    assert {p.name for p in folder.iterdir()} == {"ca.crt", "admin.crt", "admin.key"}
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}


def test_simulated_nodes_are_refused_before_anything_is_made(root: Path) -> None:
    spec = ClusterSpec("lab", SPEC.real, (Pool("big", 2, {GPU: 8}),))
    with pytest.raises(UsageError, match=r"node pool big is simulated.*provider: local"):
        kind.up(spec, (), [].append)
    assert not (root / "calls").exists()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("kind", r"kind is not on PATH: install it .*provider: local"),
        ("docker", "kind needs docker"),
    ],
)
def test_what_is_missing_is_named_with_its_cure(root: Path, missing: str, words: str) -> None:
    (root / "bin" / missing).unlink()
    with pytest.raises(TokenworksError, match=words):
        kind.up(SPEC, (), [].append)


def test_podman_serves_kind_as_well(
    root: Path, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.nodes
    (root / "bin" / "docker").rename(root / "bin" / "podman")
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    assert kind.up(SPEC, (), [].append).exists()
