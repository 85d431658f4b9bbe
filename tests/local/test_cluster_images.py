"""Which archives are imported, and what a wrong archive is told."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from local.cluster import images
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError, UsageError

LISTED = """\
REF                  TYPE                DIGEST     SIZE    PLATFORMS    LABELS
a:1                  application/vnd     sha256:aa  1.0 MiB linux/amd64  -
b:1                  application/vnd     sha256:old 1.0 MiB linux/amd64  -
"""


def archive(path: Path, *named: tuple[str, str]) -> Path:
    """An OCI archive as far as its index."""
    manifests = [
        {"digest": digest, "annotations": {"io.containerd.image.name": name}}
        for name, digest in named
    ]
    data = json.dumps({"manifests": manifests}).encode()
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("index.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A cluster whose `ctr` has two images and notes what it is asked."""
    (tmp_path / "listed").write_text(LISTED)
    (tmp_path / "ctr").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f'case "$*" in *list) cat {tmp_path}/listed;; *broken*) echo "bad tar" >&2; exit 1;; esac\n'
    )
    (tmp_path / "ctr").chmod(0o755)
    monkeypatch.setattr(images, "search_path", lambda: f"{tmp_path}:/usr/bin:/bin")
    return Paths("lab", tmp_path / "lab")


def imported(tmp_path: Path) -> list[str]:
    """Archives that `ctr` was asked to import."""
    calls = (tmp_path / "calls").read_text().splitlines()
    return [Path(c.split()[-1]).name for c in calls if " import " in c]


def test_only_what_is_missing_or_different_is_imported(where: Paths, tmp_path: Path) -> None:
    archives = [
        archive(tmp_path / "a.tar", ("a:1", "sha256:aa")),
        archive(tmp_path / "b.tar", ("b:1", "sha256:new")),
        archive(tmp_path / "c.tar", ("c:1", "sha256:cc"), ("a:1", "sha256:aa")),
    ]
    assert images.add(where, archives) == ["b:1", "c:1"]
    assert imported(tmp_path) == ["b.tar", "c.tar"]


def test_the_clusters_own_containerd_is_asked(where: Paths, tmp_path: Path) -> None:
    images.present(where)
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call == f"--address {where.containerd_socket} --namespace k8s.io images list"


def test_a_refusal_says_what_was_refused(where: Paths, tmp_path: Path) -> None:
    broken = archive(tmp_path / "broken.tar", ("x:1", "sha256:x"))
    with pytest.raises(TokenworksError, match=r"broken\.tar: bad tar"):
        images.add(where, [broken])


@pytest.mark.parametrize("content", [b"", b"no tar", None])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.tar"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.tar is no OCI archive"):
        images.contents(path)


def test_an_archive_without_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    data = json.dumps({"manifests": [{"digest": "sha256:aa"}]}).encode()
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("index.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    with pytest.raises(UsageError, match="named images"):
        images.contents(path)
