"""`unresolved` becomes what the registry and the hub state, and nothing else of a file changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.guide import copy_tree
from tests.versions.registry import Served, digest, registry
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.versions.hub import adapter_digest, commit
from tokenworks.versions.pin import Place, pin_all, places

pytestmark = pytest.mark.slow

TEXT = (
    "# images\r\n"
    "images:\r\n"
    "  - {repository: r.example/a, tag: '1', digest: unresolved}  # why\r\n"
    "  - repository: r.example/b\r\n"
    '    digest: "unresolved"\r\n'
    "    tag: v2\r\n"
    "  - {repository: r.example/c, tag: '3', digest: sha256:" + "ab" * 32 + "}\r\n"
    "  - {repository: r.example/d, digest: unresolved}\r\n"
    "---\r\n"
    "spec: {model: {uri: hf://org/name, revision: unresolved}}\r\n"
    "other: unresolved\r\n"
)
A, B, COMMIT = "sha256:" + "0a" * 32, "sha256:" + "0b" * 32, "0c" * 20


def answer(place: Place) -> str:
    return {"r.example/a": A, "r.example/b": B, "org/name": COMMIT}[place.name]


def file_of(folder: Path, text: str = TEXT) -> Path:
    file = folder / "a.yaml"
    file.write_bytes(text.encode())
    return file


def test_only_what_can_be_asked_for_is_found(tmp_path: Path) -> None:
    found = [(p.line, p.kind, p.name, p.tag) for p in places(file_of(tmp_path))]
    assert found == [
        (3, "image", "r.example/a", "1"),
        (5, "image", "r.example/b", "v2"),
        (10, "model", "org/name", "main"),
    ]


def test_every_other_byte_stays(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    done = pin_all([file], answer, lambda _: None, write=True)
    expected = TEXT.replace("'1', digest: unresolved", f"'1', digest: {A}")
    expected = expected.replace('"unresolved"', B).replace(
        "revision: unresolved", f"revision: {COMMIT}"
    )
    assert file.read_bytes().decode() == expected
    assert (len(done.written), done.failed) == (3, ())
    assert pin_all([file], answer, lambda _: None, write=True).written == ()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    assert len(pin_all([file], answer, lambda _: None, write=False).written) == 3
    assert file.read_bytes().decode() == TEXT


def test_one_that_fails_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    def some(place: Place) -> str:
        if place.name == "r.example/b":
            raise TokenworksError("b is away")
        return answer(place)

    file = file_of(tmp_path)
    done = pin_all([file], some, lambda _: None, write=True)
    assert [(p.name, why) for p, why in done.failed] == [("r.example/b", "b is away")]
    assert A in file.read_text() and '"unresolved"' in file.read_text()


def test_the_same_image_is_asked_for_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def count(place: Place) -> str:
        asked.append(place.name)
        return A

    line = "- {repository: r.example/a, tag: v1, digest: unresolved}\n"
    pin_all([file_of(tmp_path, line * 3)], count, lambda _: None, write=True)
    assert asked == ["r.example/a"]


@pytest.mark.parametrize("text", ["a: [", "a: *b\n"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"a\.yaml: cannot be read"):
        places(file_of(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {repository: a, tag: b, digest: &u unresolved}\n- *u\n", "a.yaml:1: has an anchor"),
        ("- repository: a\n  tag: b\n  digest: >-\n    unresolved\n", "over several lines"),
        ("unresolved: " + "[" * 3000, "cannot be read"),
        ("a: &a [*a]\nb: unresolved\n", "has an anchor"),
    ],
)
def test_what_is_left_to_people_is_said_before_anything_is_written(
    tmp_path: Path, text: str, said: str
) -> None:
    first = tmp_path / "0.yaml"
    first.write_bytes(TEXT.encode())
    with pytest.raises(UsageError, match=said):
        pin_all([first, file_of(tmp_path, text)], answer, lambda _: None, write=True)
    assert first.read_bytes().decode() == TEXT


def test_a_link_stays_one_and_a_mode_too(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = file_of(tmp_path / "elsewhere")
    real.chmod(0o600)
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    pin_all([link], answer, lambda _: None, write=True)
    assert link.is_symlink() and A in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in real.parent.iterdir()] == ["a.yaml"]


def test_a_commit_of_digits_stays_text(tmp_path: Path) -> None:
    file = file_of(tmp_path, "{uri: 'hf://a/b', revision: unresolved}\n")
    pin_all([file], lambda _: "1" * 40, lambda _: None, write=True)
    assert f'revision: "{"1" * 40}"' in file.read_text()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"HF_ENDPOINT": "ftp://x"}, "HF_ENDPOINT"),
        ({"HF_ENDPOINT": "https://ada:canary@hub.example"}, "without a login"),
        ({"HF_ENDPOINT": "https://hub.example?x=1"}, "HF_ENDPOINT"),
        ({"HF_ENDPOINT": "http://hub.example", "HF_TOKEN": "canary"}, "in clear"),
        ({"HF_TOKEN": "canary é"}, "HF_TOKEN"),
        ({"HF_TOKEN": "canary\n x"}, "HF_TOKEN"),
    ],
)
def test_a_hub_that_cannot_be_asked_is_named_without_secrets(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said) as refused:
        commit("org/name", "main")
    assert "canary" not in str(refused.value)


ADAPTER = "uri: hf://org/adapter\nrevision: {revision}\ndigest: unresolved\nsize: 1Gi\n"


def test_an_adapters_digest_is_asked_at_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, ADAPTER.format(revision=f'"{COMMIT}"'))
    assert [(p.line, p.kind, p.name, p.tag) for p in places(file)] == [
        (3, "adapter", "org/adapter", COMMIT)
    ]
    served = Served(set(), commits={"org/adapter": COMMIT})
    with registry(served) as host:
        monkeypatch.setenv("HF_ENDPOINT", f"http://{host}")
        assert adapter_digest("org/adapter", COMMIT) == f"sha256:{COMMIT[:4] * 16}"
        with pytest.raises(TokenworksError, match="HTTP 404"):
            adapter_digest("org/adapter", "0d" * 20)
        served.adapters = False
        with pytest.raises(TokenworksError, match=r"no SHA-256 of adapter_model\.safetensors"):
            adapter_digest("org/adapter", COMMIT)


def test_an_adapter_without_a_commit_waits_for_it(tmp_path: Path) -> None:
    file = file_of(tmp_path, ADAPTER.format(revision="unresolved"))
    assert [(p.line, p.kind) for p in places(file)] == [(2, "model")]


def test_the_command_pins_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's own images are on other machines: they fail, and what is here is written."""
    tree = copy_tree(tmp_path / "copy")
    served = Served({("mine/engine", "v1")}, commits={"org/name": COMMIT})
    with registry(served) as host:
        document = tree / "stacks" / "dev" / "models" / "qwen3-32b.yaml"
        text = document.read_text()
        assert "uri: hf://Qwen/Qwen3-32B" in text
        document.write_text(
            text.replace("hf://Qwen/Qwen3-32B", "hf://org/name")
            .replace("docker.io/vllm/vllm-openai", f"{host}/mine/engine")
            .replace("tag: v0.26.0", "tag: v1")
        )
        for other in tree.glob("src/tokenworks/catalog/**/*.yaml"):
            other.write_text(other.read_text().replace("digest: unresolved", f"digest: {A}"))
        for other in tree.glob("stacks/*/models/*.yaml"):
            if other != document and other.parents[1].name != "dev":
                other.unlink()
        monkeypatch.setenv("HF_ENDPOINT", f"http://{host}")
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        run = subprocess.run(
            ["./tokenworks", "versions", "pin"], cwd=tree, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        again = document.read_text()
    assert f"hf://org/name: {COMMIT}" in run.stdout
    assert f"revision: {COMMIT}" in again and digest("mine/engine", "v1") in again
