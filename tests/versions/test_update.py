"""Another version goes into the bill with all that follows, or nothing is written."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from local.toolchain import update as modules
from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_engines
from tokenworks.cli import update as command
from tokenworks.cli.main import build
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.versions.update import (
    MODULES,
    Raised,
    new_bill,
    new_default,
    new_table,
    raised,
    summary,
)

ROOT = Path(__file__).resolve().parents[2]
BILL = (ROOT / command.BILL).read_text()
MODULE = "example.com/thing"


def test_tags_follow_the_version() -> None:
    change = raised("lws", bill().components["lws"], "v0.10.0", {})
    assert change == Raised(
        "lws", "v0.9.0", "v0.10.0", (("registry.k8s.io/lws/lws", "v0.9.0", "v0.10.0"),)
    )


def test_a_tag_that_does_not_follow_is_asked_for() -> None:
    istio = bill().components["istio"]
    with pytest.raises(UsageError, match="--tag pilot=TAG"):
        raised("istio", istio, "v0.0.1", {})
    change = raised("istio", istio, "v0.0.1", {"pilot": "1.32.0", "proxyv2": "1.32.0"})
    assert [new for _, _, new in change.images] == ["1.32.0", "1.32.0"]
    with pytest.raises(UsageError, match="istio has no such image; it has: pilot, proxyv2"):
        raised("istio", istio, "v0.0.1", {"proxy": "1.32.0"})


def test_a_component_changes_and_nothing_else() -> None:
    change = raised("lws", bill().components["lws"], "v0.10.0", {})
    image, required = "registry.k8s.io/lws/lws:v0.10.0", {MODULES["kubernetes"]: "v0.37.0"}
    digest = f"sha256:{'a' * 64}"
    text = new_bill(BILL, [change], {"lws": required}, {image: digest}, "2030-01-02")
    changed = [(a, b) for a, b in zip(BILL.splitlines(), text.splitlines(), strict=True) if a != b]
    assert len(changed) == 4
    after, before = (yaml.safe_load(t)["components"] for t in (text, BILL))
    lws = after.pop("lws")
    assert before.pop("lws") and after == before
    assert (lws["version"], str(lws["date"])) == ("v0.10.0", "2030-01-02")
    assert lws["images"]["manager"]["digest"] == digest
    assert lws["builtWith"] == {"kubernetes": "v0.37.0"}


def test_a_digest_that_nobody_tells_is_unresolved() -> None:
    change = raised("sglang-router", bill().components["sglang-router"], "v0.3.3", {})
    text = new_bill(
        BILL.replace("unresolved", f"sha256:{'b' * 64}"), [change], {}, {}, "2030-01-02"
    )
    image = yaml.safe_load(text)["components"]["sglang-router"]["images"]["router"]
    assert (image["tag"], image["digest"]) == ("v0.3.3", "unresolved")


def test_local_images_are_renamed_with_their_tags() -> None:
    text = "a.io/lws:v1:\n  why: a.io/lws:v1 it is\na.io/lws:v10:\n  why: other\n"
    change = Raised("lws", "v1", "v2", (("a.io/lws", "v1", "v2"),))
    assert new_table(text, [change]) == text.replace("a.io/lws:v1:\n", "a.io/lws:v2:\n")


def test_an_engine_takes_a_version_that_its_file_knows() -> None:
    vllm = load_engines().engines["vllm"]
    text = (ROOT / "src/tokenworks/catalog/engines/vllm.yaml").read_text()
    other = next(version for version in vllm.versions if version != vllm.default)
    changed = new_default(text, "vllm", vllm.versions, other)
    assert yaml.safe_load(changed)["default"] == other
    with pytest.raises(UsageError, match=r"has no version 9\.9\.9 .*add it there first"):
        new_default(text, "vllm", vllm.versions, "9.9.9")


def test_what_changes_is_counted() -> None:
    before = {"a": b"1\n2\n", "b": b"x\n", "c": b"same\n"}
    after = {"a": b"1\n3\n4\n", "c": b"same\n", "d": b"new\n"}
    assert summary(before, after) == [
        "~ a: 2 lines come, 1 go",
        "- b: 0 lines come, 1 go",
        "+ d: 1 lines come, 0 go",
    ]


# Go modules


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module proxy in a folder, with three versions of one module."""
    folder = tmp_path / "proxy" / MODULE / "@v"
    folder.mkdir(parents=True)
    for version in ("v1.0.0", "v1.1.0", "v1.2.0-rc.1"):
        text = f"module {MODULE}\n\ngo 1.21\n\nrequire k8s.io/client-go {version} // indirect\n"
        (folder / f"{version}.mod").write_text(text)
        (folder / f"{version}.info").write_text(f'{{"Version": "{version}"}}')
        with zipfile.ZipFile(folder / f"{version}.zip", "w") as file:
            file.writestr(f"{MODULE}@{version}/go.mod", text)
            file.writestr(f"{MODULE}@{version}/crd.yaml", version)
    (folder / "list").write_text("v1.0.0\nv1.1.0\nv1.2.0-rc.1\n")
    cache = tmp_path / "modules"
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path / 'proxy'}")
    monkeypatch.setenv("GONOSUMDB", "example.com")
    monkeypatch.setenv("GOFLAGS", "-modcacherw")
    monkeypatch.setenv("GOMODCACHE", str(cache))
    return folder


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A group without Go files, as for a module whose files alone are wanted."""
    folder = tmp_path / "group"
    folder.mkdir()
    (folder / "go.mod").write_text(
        f"module tokenworks.dev/x\n\ngo 1.21\n\nrequire {MODULE} v1.0.0\n"
    )
    (folder / "go.sum").write_text(f"{MODULE} v1.0.0 h1:{'A' * 43}=\nexample.com/b v1.0.0 h1:x=\n")
    return folder


def test_the_newest_release_is_no_candidate(proxy: Path) -> None:
    assert modules.newest(MODULE) == "v1.1.0"
    (proxy / "list").write_text("v1.2.0-rc.1\n")
    with pytest.raises(UsageError, match="no released versions; name one by --to"):
        modules.newest(MODULE)


@pytest.mark.usefixtures("proxy")
def test_a_module_moves_with_its_checksum(group: Path) -> None:
    assert modules.move(group, MODULE, "v1.1.0") == {MODULE: "v1.1.0"}
    sums = (group / "go.sum").read_text()
    assert f"{MODULE} v1.1.0 h1:" in sums and f"{MODULE} v1.0.0" not in sums
    assert "example.com/b v1.0.0" in sums


@pytest.mark.usefixtures("proxy")
def test_a_version_that_is_not_there_is_named() -> None:
    with pytest.raises(TokenworksError, match=r"thing@v1\.3\.0 failed: .*v1\.3\.0"):
        modules.requirements(MODULE, "v1.3.0")
    with pytest.raises(TokenworksError, match=r"thing@v1\.3\.0 failed"):
        modules.resolved(MODULE, "v1.3.0")


@pytest.mark.usefixtures("proxy")
def test_what_a_version_requires_is_read() -> None:
    assert modules.requirements(MODULE, "v1.1.0")["k8s.io/client-go"] == "v1.1.0"


# The command


def state() -> str:
    """The checkout's files, in one number."""
    found = hashlib.sha256()
    for folder in ("src", "local", "rendered", "charts", "stacks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path}".encode() + path.read_bytes())
    return found.hexdigest()


def run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(build(), ["versions", "update", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of this checkout; no registry answers."""
    copy = tmp_path / "checkout"
    command.copied(ROOT, copy)
    monkeypatch.setattr(command, "root", lambda: copy)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    return copy


@pytest.mark.slow
@pytest.mark.helm
def test_an_image_goes_up_with_everything_that_names_it(checkout: Path) -> None:
    before, name = state(), "nvidia-device-plugin"
    out, err = run(name, "--to", "v0.20.1", "--dry-run")
    assert f"{name}: v0.20.0 -> v0.20.1" in out
    assert "k8s-device-plugin, tag: v0.20.1, digest: unresolved}" in out
    assert "~ rendered/prod/" in out
    assert "its digest is unresolved" in err and "nothing is written" in err
    bill_file = checkout / command.BILL
    assert bill_file.read_text() == BILL
    run(name, "--to", "v0.20.1")
    rendered = [path.read_text() for path in (checkout / "rendered/prod").rglob("*.yaml")]
    assert any("k8s-device-plugin:v0.20.1" in text for text in rendered)
    assert yaml.safe_load(bill_file.read_text())["components"][name]["version"] == "v0.20.1"
    assert state() == before


@pytest.mark.slow
@pytest.mark.helm
def test_versions_that_do_not_fit_are_refused(checkout: Path) -> None:
    fits, does_not = "{kubernetes: v0.36.2}", "{kubernetes: v0.36.2, gateway-api: v9.0.0}"
    assert fits in BILL
    (checkout / command.BILL).write_text(BILL.replace(fits, does_not, 1))
    arguments = ["versions", "update", "llm-d-router", "--to", "v0.10.1"]
    with pytest.raises(TokenworksError, match=r"(?s)versions-do-not-fit.*nothing is written"):
        CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert "v0.10.1" not in (checkout / command.BILL).read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kueu", "--to", "v1"], "did you mean kueue?"),
        (["vllm"], "vllm is an engine: it takes --to VERSION"),
        (["vllm", "--to", "9.9"], "has no version 9.9"),
        (["llm-d-router"], "no Go module that tells its newest release; give --to"),
        (["kube", "--to", "v1.36.0"], "local/toolchain/pins.yaml"),
        (["llm-d-router", "--to", "v1.2.3", "--tag", "picker"], "write IMAGE=TAG"),
        (["llm-d-router", "--to", "v1.2.3", "--tag", "x=y"], "has no such image"),
        (["llm-d-router", "--to", "latest"], "--to latest: moves"),
        (["llm-d-router", "--to", "v1.2.3", "--tag", "picker=nightly"], "--tag nightly: moves"),
        (["helm", "--to", "v4.3.2", "--tag", "x=y"], "is a program and has no images"),
    ],
)
def test_wrong_use_is_refused(checkout: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(build(), ["versions", "update", *arguments], catch_exceptions=False)
    assert said in str(refused.value)
    assert (checkout / command.BILL).read_text() == BILL


def test_go_that_fails_says_why(group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(group / "none"))
    with pytest.raises(TokenworksError, match=r"go mod download example\.com/thing failed"):
        modules.move(group, MODULE, "v1.1.0")
