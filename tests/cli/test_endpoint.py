"""How an environment's cluster and gateway are reached from this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local import cluster
from tokenworks.cli import endpoint
from tokenworks.errors import TokenworksError
from tokenworks.spec.environment import Cluster
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing of Kubernetes on it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def put(folder: Path, script: str) -> str:
    """A kubectl on PATH."""
    path = folder / "kubectl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def on(**fields: Any) -> Stack:
    """The dev environment, on a cluster like this."""
    stack = load_stack(ROOT, "dev")
    spec = stack.environment.spec.model_copy(update={"cluster": Cluster.model_validate(fields)})
    return replace(stack, environment=stack.environment.model_copy(update={"spec": spec}))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"provider": "existing", "context": "prod"}, ["--context", "prod"]),
        (
            {"provider": "existing", "context": "prod", "kubeconfig": "/k"},
            ["--context", "prod", "--kubeconfig", "/k"],
        ),
        ({"provider": "kind"}, ["--context", "kind-dev"]),
        ({"provider": "kind", "context": "mine"}, ["--context", "mine"]),
    ],
)
def test_the_users_kubectl_is_told_which_cluster(
    folder: Path, fields: dict[str, str], words: list[str]
) -> None:
    program = put(folder, "")
    assert endpoint.kubectl(on(**fields)) == [program, *words]


def test_without_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(TokenworksError, match="kubectl is not on PATH"):
        endpoint.kubectl(on(provider="kind"))


def test_the_local_cluster_brings_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "kubectl_command", lambda name, words: ["/k", name, *words])
    assert endpoint.kubectl(load_stack(ROOT, "local")) == ["/k", "local"]


def test_the_local_gateway_is_reached_through_its_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cluster, "forward", lambda *words: asked.append(words) or "127.0.0.1:4000")
    with endpoint.gateway_url(load_stack(ROOT, "local")) as url:
        assert url == "http://127.0.0.1:4000"
    assert asked == [("local", "tokenworks-gateway", "gateway-istio", 80)]


def test_elsewhere_kubectl_forwards_while_it_lasts(folder: Path) -> None:
    os.mkfifo(folder / "open")
    put(
        folder,
        f'echo "$@" > {folder}/asked\n'
        "echo Forwarding from 127.0.0.1:40123\n"
        # Whoever reads the other end sees when it ends.
        f"exec 3> {folder}/open; exec cat {folder}/open",
    )
    with endpoint.gateway_url(on(provider="kind")) as url:
        assert url == "http://127.0.0.1:40123"
        reader = (folder / "open").open()
    with reader:
        assert reader.read() == ""  # the end of it
    assert (folder / "asked").read_text().split() == [
        "--context", "kind-dev", "-n", "tokenworks-gateway", "port-forward",
        "service/gateway-istio", ":80",
    ]  # fmt: skip


def test_a_forward_that_fails_says_why(folder: Path) -> None:
    put(folder, 'echo "error: services gateway-istio not found" >&2; exit 1')
    stack = on(provider="kind")
    with (
        pytest.raises(TokenworksError, match="services gateway-istio not found"),
        endpoint.gateway_url(stack),
    ):
        pytest.fail("there was no forward")
