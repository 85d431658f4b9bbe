"""Charts are released with higher versions, whole, and under digests that can be signed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hack import charts
from local.toolchain import ensure
from tests.charts.registry import serving
from tests.charts.rendering import CHARTS, NAMES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.helm]


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that has these charts."""
    shutil.copytree(CHARTS, tmp_path / "charts", symlinks=True)
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message=charts")
    git(tmp_path, "checkout", "-b", "change")
    return tmp_path


def commit(root: Path) -> None:
    git(root, "commit", "--all", "--message=change")


def append(root: Path, file: str, text: str) -> None:
    path = root / "charts" / file
    path.write_text(path.read_text() + text)


def raise_to(root: Path, name: str, version: str) -> None:
    path = root / "charts" / name / "Chart.yaml"
    before = yaml.safe_load(path.read_text())["version"]
    path.write_text(path.read_text().replace(f"\nversion: {before}\n", f"\nversion: {version}\n"))


def said(root: Path) -> list[str]:
    """Charts that should have been raised."""
    return [line.split("/")[1] for line in charts.unraised(root, "main")]


def test_what_did_not_change_needs_no_other_version(repository: Path) -> None:
    assert said(repository) == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_template_that_changed_needs_a_higher_version(repository: Path, committed: bool) -> None:
    append(repository, "tenant/templates/localqueue.yaml", "# other\n")
    if committed:
        commit(repository)
    assert said(repository) == ["tenant"]
    raise_to(repository, "tenant", "0.0.9")
    assert said(repository) == ["tenant"]
    raise_to(repository, "tenant", "0.2.0")
    assert said(repository) == []


def test_a_file_that_git_does_not_know_yet_counts(repository: Path) -> None:
    (repository / "charts" / "queues" / "templates" / "new.yaml").write_text("# new\n")
    assert said(repository) == ["queues"]


def test_charts_change_with_their_library(repository: Path) -> None:
    append(repository, "tokenworks-lib/templates/_pod.tpl", "{{/* other */}}\n")
    assert said(repository) == sorted([*NAMES, "tokenworks-lib"])


def test_what_main_did_meanwhile_is_no_change_of_ours(repository: Path) -> None:
    git(repository, "checkout", "main")
    append(repository, "tenant/templates/localqueue.yaml", "# other\n")
    commit(repository)
    git(repository, "checkout", "change")
    assert said(repository) == []


def test_a_base_that_is_not_there_is_named(repository: Path) -> None:
    with pytest.raises(charts.ChartsError, match="merge-base nowhere"):
        list(charts.unraised(repository, "nowhere"))


def test_a_version_has_three_numbers(repository: Path) -> None:
    raise_to(repository, "tenant", "one")
    with pytest.raises(charts.ChartsError, match=r"tenant/Chart\.yaml: version: one is not"):
        list(charts.unraised(repository, "main"))


def test_charts_name_the_library_that_they_link_to(repository: Path) -> None:
    assert list(charts.unfit(ROOT)) == []
    raise_to(repository, "tokenworks-lib", "0.9.0")
    assert len(list(charts.unfit(repository))) == len(NAMES)


def test_a_pushed_chart_renders_as_the_folder_does(tmp_path: Path) -> None:
    helm = ensure("helm")["helm"]
    archives = charts.package(ROOT, helm, tmp_path)
    assert [path.name.rpartition("-")[0] for path in archives] == sorted(NAMES)
    with serving() as registry:
        place = charts.Registry(helm, f"oci://{registry.address}/charts", ("--plain-http",))
        lines = list(charts.release(place, archives, sign=False))
        for name, line in zip(sorted(NAMES), lines, strict=True):
            where, digest = line.split("@")
            assert where == f"{registry.address}/charts/{name}"
            assert (f"charts/{name}", digest) in registry.manifests
            pulled = template(helm, f"oci://{line}", "--plain-http")
            assert pulled == template(helm, str(CHARTS / name))


def template(helm: Path, *chart: str) -> str:
    return subprocess.run(
        [helm, "template", "x", *chart], check=True, capture_output=True, text=True
    ).stdout


def test_a_registry_that_refuses_is_named(tmp_path: Path) -> None:
    helm = ensure("helm")["helm"]
    archives = charts.package(ROOT, helm, tmp_path)
    with serving() as registry:
        registry.refuses = True
        place = charts.Registry(helm, f"oci://{registry.address}/x", ("--plain-http",))
        with pytest.raises(charts.ChartsError, match=r"helm push .*403"):
            list(charts.release(place, archives, sign=False))


COSIGN = """#!/bin/sh
cat "$DOCKER_CONFIG/config.json" > {folder}/login
echo "$@" >> {folder}/signed
exit {code}
"""
PASSWORD = "canary-of-a-token"


@pytest.fixture
def archive(tmp_path: Path) -> list[Path]:
    return charts.package(ROOT, ensure("helm")["helm"], tmp_path / "dist")[:1]


def signing(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
    """A cosign that writes down what it was given."""
    program = folder / "bin" / "cosign"
    program.parent.mkdir(exist_ok=True)
    program.write_text(COSIGN.format(folder=folder, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("REGISTRY_USER", "ada")
    monkeypatch.setenv("REGISTRY_TOKEN", PASSWORD)


def test_what_is_signed_is_the_digest_that_the_registry_has(
    tmp_path: Path, archive: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    signing(tmp_path, monkeypatch)
    with serving() as registry:
        registry.login = f"ada:{PASSWORD}"
        to = f"oci://{registry.address}/charts"
        place = charts.Registry(ensure("helm")["helm"], to, ("--plain-http",))
        (line,) = charts.release(place, archive, sign=True)
        assert (tmp_path / "signed").read_text() == f"sign --yes {line}\n"
        assert ("charts/gateway", line.split("@")[1]) in registry.manifests
        assert registry.address in (tmp_path / "login").read_text()
        registry.login = "ada:other"
        with pytest.raises(charts.ChartsError, match="helm registry login") as refused:
            list(charts.release(place, archive, sign=True))
        assert PASSWORD not in str(refused.value)


def test_a_signature_that_fails_is_a_failure(
    tmp_path: Path, archive: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    signing(tmp_path, monkeypatch, code=1)
    with serving() as registry:
        to = f"oci://{registry.address}/charts"
        place = charts.Registry(ensure("helm")["helm"], to, ("--plain-http",))
        with pytest.raises(charts.ChartsError, match="cosign sign"):
            list(charts.release(place, archive, sign=True))
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(charts.ChartsError, match="cosign is not on PATH"):
            list(charts.release(place, archive, sign=True))
