"""Digests are those that a registry states and that its bytes have."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.versions.registry import PASSWORD, TOKEN, USER, Served, digest, registry
from tokenworks.errors import TokenworksError
from tokenworks.versions.registry import Registries

TAGS = {("vllm/vllm-openai", "v0.26.0")}


def login(folder: Path, host: str, **more: object) -> Path:
    """Docker's configuration after `docker login`."""
    file = folder / "config.json"
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    file.write_text(json.dumps({"auths": {host: {"auth": auth}}, **more}))
    return file


@pytest.mark.parametrize("silent", [False, True])
def test_a_digest_is_that_of_the_bytes(tmp_path: Path, silent: bool) -> None:
    with registry(Served(TAGS, silent=silent)) as host, Registries(tmp_path / "none") as asked:
        found = asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0")
    assert found == digest("vllm/vllm-openai", "v0.26.0")


def test_a_private_one_is_asked_with_the_login_of_docker(tmp_path: Path) -> None:
    with registry(Served(TAGS, private=True)) as host:
        with Registries(login(tmp_path, host)) as asked:
            found = asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0")
        assert found == digest("vllm/vllm-openai", "v0.26.0")


def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-tests"
    said = json.dumps({"Username": USER, "Secret": PASSWORD})
    helper.write_text(f"#!/bin/sh\n[ \"$1\" = get ] && cat >/dev/null && echo '{said}'\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    file = tmp_path / "config.json"
    with registry(Served(TAGS, private=True)) as host:
        file.write_text(json.dumps({"credHelpers": {host: "tests"}}))
        with Registries(file) as asked:
            assert asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0").startswith("sha256:")


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (Served(set()), "no such tag"),
        (Served(TAGS, status=403), "docker login"),
        (Served(TAGS, status=429), "limits requests"),
        (Served(TAGS, status=503), "HTTP 503"),
        (Served(TAGS, lies=True), "not to be trusted"),
        (Served(TAGS, private=True), "token service answers HTTP 401"),
    ],
)
def test_a_refusal_says_why(tmp_path: Path, served: Served, said: str) -> None:
    with (
        registry(served) as host,
        Registries(tmp_path / "none") as asked,
        pytest.raises(TokenworksError) as refused,
    ):
        asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0")
    assert said in str(refused.value)
    assert f"{served.host}/vllm/vllm-openai:v0.26.0" in str(refused.value)


@pytest.mark.parametrize(
    "says", [b"<html>log in</html>", b"", b"[]", b"[" * 100_000, b"x" * (9 << 20), b'{"a": 1}']
)
def test_what_is_no_manifest_has_no_digest(tmp_path: Path, says: bytes) -> None:
    """As a network says it that wants people to log in first."""
    with (
        registry(Served(TAGS, says=says)) as host,
        Registries(tmp_path / "none") as asked,
        pytest.raises(TokenworksError, match=r"no manifest|more than a manifest"),
    ):
        asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0")


@pytest.mark.parametrize(
    "served",
    [
        Served(TAGS, private=True, token="canary\nof a token"),
        Served(TAGS, private=True, token="canary é"),
        Served(TAGS, private=True, realm="http://[::1/token"),
        Served(TAGS, private=True, realm="http://ada:canary@registry.example/token"),
        Served(TAGS, private=True, realm="http://127.evil.example/token"),
        Served(TAGS, private=True, realm="https://xn--/token"),
    ],
)
def test_a_token_service_that_makes_no_sense_is_refused(tmp_path: Path, served: Served) -> None:
    with (
        registry(served) as host,
        Registries(login(tmp_path, host)) as asked,
        pytest.raises(TokenworksError) as refused,
    ):
        asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0")
    assert "canary" not in str(refused.value) and "evil" not in str(refused.value)


@pytest.mark.parametrize("host", ["a..b", "xn--", "x" * 70 + ".b", "127.evil.invalid"])
def test_a_host_that_cannot_be_one_is_named(tmp_path: Path, host: str) -> None:
    with Registries(tmp_path / "none") as asked, pytest.raises(TokenworksError, match="registry"):
        asked.digest(f"{host}/a", "1")


@pytest.mark.parametrize(
    "text",
    [
        '{"auths": {"HOST": {"auth": "canary\\ncanary"}}}',
        '{"auths": {"HOST": {"auth": null}}}',
        '{"auths": [], "credHelpers": 7}',
        '{"credsStore": "a\\u0000b"}',
        "[]",
        "null",
    ],
)
def test_a_configuration_with_odd_types_is_no_login(tmp_path: Path, text: str) -> None:
    with registry(Served(TAGS, private=True)) as host:
        file = tmp_path / "config.json"
        file.write_text(text.replace("HOST", host))
        with Registries(file) as asked, pytest.raises(TokenworksError) as refused:
            asked.digest(f"{host}/vllm/vllm-openai", "v0.26.0")
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["vllm/vllm-openai", "busybox"])
def test_a_name_without_a_host_is_docker_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with (
        Registries(tmp_path / "none.json") as registries,
        pytest.raises(TokenworksError, match=r"registry docker\.io is not reached"),
    ):
        registries.digest(name, "v1")


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    with registry(Served(TAGS)) as host:
        gone = host
    with Registries(tmp_path / "none") as asked, pytest.raises(TokenworksError) as refused:
        asked.digest(f"{gone}/a", "1")
    assert f"registry {gone} is not reached" in str(refused.value)


def test_credentials_stand_in_no_message(tmp_path: Path) -> None:
    served = Served(set(), private=True)
    with (
        registry(served) as host,
        Registries(login(tmp_path, host)) as asked,
        pytest.raises(TokenworksError) as refused,
    ):
        asked.digest(f"{host}/a", "1")
    for secret in (PASSWORD, TOKEN):
        assert secret not in str(refused.value) + "".join(served.asked)


def test_a_configuration_that_is_no_json_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for content in (b"{", b"\xff", b"[" * 100_000):
        file.write_bytes(content)
        with pytest.raises(TokenworksError, match=r"config\.json: is not JSON"):
            Registries(file)
