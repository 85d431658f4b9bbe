"""Credentials in what changes: none is said, and that one changed is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.secrets import HIDDEN
from tokenworks.review.difference import Change
from tokenworks.review.objects import differences
from tokenworks.review.paths import ABSENT, shown
from tokenworks.review.sections import Limits, change_lines
from tokenworks.review.snapshot import Placed, Snapshot

CANARY = "canary-7f3a"


def told(before: dict[str, Any], after: dict[str, Any]) -> tuple[Change, ...]:
    """The changes of an object, of which it is known that a comment holds them."""
    old, new = (Snapshot("env", (Placed("r", item),)) for item in (before, after))
    (found,) = differences(old, new)
    return found.changes


def text_of(found: tuple[Change, ...]) -> str:
    return "\n".join(line for c in found for line in change_lines(c, Limits(None, None, None)))


def workload(**container: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "c", **container}]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "n"}, "spec": {"template": pod},
    }  # fmt: skip


def config(**data: str) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "n"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def secret(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, **more}


def route(value: str) -> dict[str, Any]:
    made = {"name": "Authorization", "value": value}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "x"}, "spec": {"rules": [{"filters": [{"set": [made]}]}]},
    }  # fmt: skip


C = CANARY
LINES = "".join(f"line {n}\n" for n in range(9))
CASES = {
    "a flag with its value": (workload(args=["--api-key=a"]), workload(args=[f"--api-key={C}"])),
    "a flag before it": (workload(args=["--password", "a"]), workload(args=["--password", C])),
    "flags that repeat": (workload(args=["--token=a"]),
                         workload(args=["--token=a", f"--token={C}"])),
    "a shell": (workload(command=["sh", "-c", "run"]),
                workload(command=["sh", "-c", f"export TOKEN={C}; run --db-password {C}"])),
    "a variable": (workload(env=[]), workload(env=[{"name": "DB_PASSWORD", "value": C}])),
    "a container": (workload(), {**workload(), "spec": {"template": {"spec": {"containers": [
        {"name": "c"}, {"name": "d", "args": ["--password", C, f"--api-key={C}"],
                        "env": [{"name": "A_TOKEN", "value": C}]}]}}}}),
    "a key of configuration": (config(a="b"), config(a="b", apiKey=C)),
    "configuration as text": (config(f=LINES), config(f=f"{LINES}password: {C}\napi_key={C}\n")),
    "a header as text": (config(f="x"), config(f=f"Authorization: Bearer {C}")),
    "configuration as JSON": (config(f='{"a": 1}'), config(f=f'{{"a": 1, "dbPassword": "{C}"}}')),
    "all of the configuration": ({**config(), "data": None}, config(clientSecret=C)),
    "a header": (route("a"), route(f"Bearer {C}")),
    "a Secret": (secret(data={"a": "b"}), secret(data={"a": C})),
    "all of a Secret": (secret(), secret(stringData={"anything": C})),
    "what is noted on a Secret": (
        secret(), secret(metadata={"name": "x", "annotations": {"a": C}})),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("back", [False, True], ids=["comes", "goes"])
def test_no_credential_is_told(name: str, *, back: bool) -> None:
    before, after = CASES[name]
    found = told(after, before) if back else told(before, after)
    assert CANARY in json.dumps([before, after])
    assert found
    assert CANARY not in text_of(found)
    assert HIDDEN in text_of(found)


def test_a_credential_that_becomes_another_is_a_change_of_something_not_shown() -> None:
    old, new = (config(f=f"{LINES}password: {word}\n") for word in ("one", "two"))
    assert [(shown(c.path), c.before, c.after) for c in told(old, new)] == [
        ("data.f", HIDDEN, HIDDEN)
    ]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            workload(env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "a"}}}]),
            workload(env=[{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "b"}}}]),
            "`a` → `b`",
        ),
        (workload(command=["--api-key=$(A)"]), workload(args=["--x=$TOKEN"]), "--x=$TOKEN"),
        (workload(), workload(envFrom=[{"secretRef": {"name": "hub-token"}}]), "hub-token"),
        (
            {**secret(), "type": "Opaque"},
            {**secret(), "type": "kubernetes.io/tls"},
            "kubernetes.io/tls",
        ),
        (config(f="token: $TOKEN"), config(f="token: ${OTHER}"), "${OTHER}"),
        (config(key="a"), config(key="b"), "`a` → `b`"),
        (config(f="x"), config(f="key: nvidia.com/gpu"), "key: nvidia.com/gpu"),
        (config(maxTokens="1"), config(maxTokens="2"), "`1` → `2`"),
        (
            {**workload(), "spec": {"secretName": "a", "tokenSecret": "c"}},
            {**workload(), "spec": {"secretName": "b", "tokenSecret": "d"}},
            "`c` → `d`",
        ),
    ],
)
def test_where_a_credential_lies_is_told(before: Any, after: Any, words: str) -> None:
    found = told(before, after)
    assert words in text_of(found)
    assert ABSENT not in [c.path for c in found]
