"""What a user sees of a platform that is up."""

from __future__ import annotations

import json
import re
import subprocess

import httpx
import pytest

from tests.e2e.platform import MODEL, Platform, ask, eventually

pytestmark = pytest.mark.e2e

LONG = "You are a careful assistant for platform engineers. " * 40


def unchanged(output: str) -> bool:
    """Whether Pulumi's summary names nothing but unchanged resources."""
    summary = re.search(r"^Resources:\n((?: .*\n)+)", output, re.MULTILINE)
    assert summary, output
    return bool(re.fullmatch(r"\s*\d+ unchanged\s*", summary[1]))


def test_up_ends_with_a_streamed_completion_that_names_its_pod(platform: Platform) -> None:
    last = platform.first_up.strip().splitlines()[-1]
    assert re.match(r"served by \S+-\w+: \d+ tokens, first after ", last), platform.first_up[-2000:]


def test_a_second_up_changes_nothing(platform: Platform) -> None:
    again = platform.run("up", "local").stdout
    assert "nothing to change" in again
    assert unchanged(again)


def test_plain_pulumi_does_the_same(platform: Platform) -> None:
    commands = ('eval "$(./tokenworks env local)"', "pulumi preview", "pulumi up --yes")
    script = " && ".join(commands)
    result = subprocess.run(
        ["bash", "-c", script], cwd=platform.tree, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Policies:" in result.stdout
    assert unchanged(result.stdout.rpartition("Updating")[2])


def test_a_stream_comes_token_by_token(url: str) -> None:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "count"}],
        "max_tokens": 64,
        "stream": True,
    }
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as response:
        assert response.status_code == 200
        pod = response.headers["x-served-by"]
        reads = [*response.iter_raw()]
    assert len(reads) > 5, "what is gathered on its way comes in one piece"
    lines = b"".join(reads).decode().splitlines()
    chunks = [json.loads(x[6:]) for x in lines if x.startswith("data: {")]
    pieces = [c["choices"][0]["delta"].get("content") for c in chunks if c["choices"]]
    assert pod.startswith(MODEL)
    assert len([p for p in pieces if p]) > 5


def test_the_model_field_decides_who_answers(url: str) -> None:
    for model in ("qwen3-sim", "llama-sim"):
        response = ask(url, "who are you", model)
        assert response.headers["x-served-by"].startswith(model)
        assert response.json()["model"] == model
    unknown = ask(url, "who are you", "nobody")
    assert unknown.status_code == 404
    assert "nobody" in unknown.text or "model" in unknown.text


def test_a_shared_prefix_stays_on_its_pod_and_others_spread(platform: Platform, url: str) -> None:
    def home() -> str:
        return ask(url, "first", seed=LONG).headers["x-served-by"]

    first = home()
    eventually("the picker has learnt the prefix", lambda: home() == first)
    shared = {ask(url, f"question {i}", seed=LONG).headers["x-served-by"] for i in range(8)}
    other = {ask(url, "x", seed=f"{i} " * 60).headers["x-served-by"] for i in range(24)}
    assert len(shared) == 1
    assert len(other) == 3
    seen = platform.run("picks", "local", "--model", MODEL, "--last", "3").stdout
    assert "prefix-cache" in seen
    assert "◀" in seen


def test_one_edited_file_changes_that_model_alone(platform: Platform) -> None:
    file = platform.tree / "stacks" / "local" / "models" / "llama-sim.yaml"
    text = file.read_text()
    edited = re.sub(r"drain: \S+", "drain: 47s", text)
    edited = edited if edited != text else f"{text.rstrip()}\n  startup:\n    drain: 47s\n"
    file.write_text(edited)
    try:
        for said in (
            platform.run("preview", "local").stdout,
            platform.run("up", "local", "--no-chat").stdout,
        ):
            changed = re.findall(
                r"(?:~|\+-|\+|-) +(kubernetes:\S+) (\S+) (?:update|create|replace|delete)", said
            )
            assert changed, said
            assert all("llama-sim" in name for _, name in changed), changed
    finally:
        file.write_text(text)
    platform.run("up", "local", "--no-chat")


BROKEN = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: bad, namespace: elsewhere}
spec:
  selector: {matchLabels: {app: bad}}
  template:
    metadata: {labels: {app: bad}}
    spec:
      containers:
        - name: engine
          image: docker.io/vllm/vllm-openai:v0.26.0
          args: [--model, x]
          ports: [{name: http, containerPort: 8000}]
"""


def findings(output: str) -> list[str]:
    """What findings say, whoever printed them."""
    rules = "startup-probe|gpu-limits|image-digest|network-policy"
    found = re.findall(rf"\[(?:{rules})\][^\n]*", output)
    return sorted({line.strip() for line in found})


def test_a_bad_pod_is_refused_by_check_preview_and_up_alike(platform: Platform) -> None:
    folder = platform.tree / "stacks" / "local" / "manifests"
    folder.mkdir(exist_ok=True)
    file = folder / "bad.yaml"
    file.write_text(BROKEN)
    try:
        said = {c: platform.run(c, "local", check=False) for c in ("check", "preview", "up")}
    finally:
        file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
    assert {c: r.returncode for c, r in said.items()} == {"check": 1, "preview": 1, "up": 1}
    words = {c: findings(r.stdout) for c, r in said.items()}
    rules = [line.partition("]")[0] for line in words["check"]]
    assert rules == ["[gpu-limits", "[image-digest", "[network-policy", "[startup-probe"]
    assert words["check"] == words["preview"] == words["up"]
    assert "bad" not in platform.kubectl("get", "deployments", "-A")
