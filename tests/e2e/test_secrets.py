"""Keys of a running platform, and secrets planted in it, stay where they belong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policies.secrets import kind_of
from tests.canary import SHAPED, SHAPELESS, files_with, leaks
from tests.e2e.platform import NAMESPACE, STATE, Platform

pytestmark = pytest.mark.e2e

TOKEN = SHAPED["Hugging Face token"]
HOLDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "holder", "namespace": NAMESPACE},
    "spec": {
        "restartPolicy": "Never",
        # The namespace takes no pod that asks for more.
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "holder",
                "image": "docker.io/library/busybox:1.36",
                "command": ["sh", "-c", 'test -n "$HF_TOKEN"'],
                "securityContext": {
                    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
                },
                "env": [
                    {
                        "name": "HF_TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "canary", "key": "token"}},
                    }
                ],
            }
        ],
    },
}  # fmt: skip


def keys() -> list[str]:
    """A line of each private key of the cluster, and the passphrase of Pulumi's state."""
    found = [file.read_text().splitlines()[1] for file in Path(STATE, "local", "pki").glob("*.key")]
    return [*found, Path(STATE, "pulumi", "passphrase").read_text()]


def arguments() -> str:
    """The arguments of every process of the machine."""
    words: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words.append(file.read_bytes().decode("latin-1").replace("\0", " "))
        except OSError:
            continue
    return "\n".join(words)


def test_keys_are_in_no_log_no_state_and_no_arguments(platform: Platform) -> None:
    secret = keys()
    assert len(secret) > 10
    assert leaks(platform.first_up + arguments(), secret) == []
    assert list(files_with(Path(STATE, "local", "logs"), secret)) == []
    assert list(files_with(Path(STATE, "pulumi", "local"), secret)) == []
    for log in Path(STATE, "local", "logs").glob("*.log"):
        assert kind_of(log.read_text(errors="replace")) is None, log.name


def test_a_secret_of_the_cluster_is_used_without_being_shown(
    platform: Platform, tmp_path: Path
) -> None:
    planted = {"token": TOKEN, "password": SHAPELESS}
    files = []
    for name, value in planted.items():
        (tmp_path / name).write_text(value)
        files.append(f"--from-file={name}={tmp_path / name}")
    pod = tmp_path / "pod.json"
    pod.write_text(json.dumps(HOLDER))
    platform.kubectl("-n", NAMESPACE, "create", "secret", "generic", "canary", *files)
    try:
        platform.kubectl("apply", "-f", str(pod))
        done = "--for=jsonpath={.status.phase}=Succeeded"
        platform.kubectl("-n", NAMESPACE, "wait", done, "pod/holder", "--timeout=120s")
        said = [
            platform.run(*command).stdout
            for command in (
                ("preview", "local", "--diff"),
                ("up", "local", "--no-chat"),
                ("local", "status"),
                ("local", "kubectl", "-n", NAMESPACE, "describe", "pod/holder", "secret/canary"),
                ("local", "kubectl", "-n", NAMESPACE, "get", "events"),
            )
        ]
        assert leaks("\n".join(said) + arguments(), planted.values()) == []
        for place in ("local/logs", "local/log", "pulumi"):
            assert list(files_with(Path(STATE, place), planted.values())) == [], place
        assert list(files_with(platform.tree / "rendered", planted.values())) == []
        database = Path(STATE, "local", "etcd")
        assert list(files_with(database, planted.values())), "it was stored"
        assert database.stat().st_mode & 0o077 == 0
    finally:
        platform.kubectl("-n", NAMESPACE, "delete", "pod/holder", "secret/canary", "--wait=false")
