"""Images go from archives into the cluster's containerd; nothing is pulled."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from local.cluster.processes import search_path
from local.cluster.spec import Paths
from tokenworks.errors import TokenworksError, UsageError


def contents(archive: Path) -> dict[str, str]:
    """Image names in an OCI archive, each with its digest.

    Raises:
        UsageError: it is no OCI archive whose images have names.
    """
    try:
        with tarfile.open(archive) as tar:
            index = tar.extractfile("index.json")
            manifests: list[dict[str, Any]] = json.load(index)["manifests"] if index else []
        return {m["annotations"]["io.containerd.image.name"]: m["digest"] for m in manifests}
    except (OSError, ValueError, KeyError, tarfile.TarError) as error:
        raise UsageError(
            f"{archive} is no OCI archive with named images ({type(error).__name__}: {error})"
        ) from None


def _ctr(paths: Paths, *arguments: str | Path) -> str:
    command = ["ctr", "--address", paths.containerd_socket, "--namespace", "k8s.io", *arguments]
    env = {"PATH": search_path()}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if result.returncode != 0:
        what = " ".join(str(a) for a in arguments)
        raise TokenworksError(f"ctr {what}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def present(paths: Paths) -> dict[str, str]:
    """Images in the cluster, each with its digest."""
    rows = [line.split() for line in _ctr(paths, "images", "list").splitlines()[1:]]
    return {row[0]: row[2] for row in rows if len(row) > 2}


def add(paths: Paths, archives: Iterable[Path]) -> list[str]:
    """Import the archives whose images the cluster does not have; returns the images' names.

    Raises:
        UsageError: an archive cannot be read.
        TokenworksError: containerd refused one.
    """
    there, added = present(paths), list[str]()
    for archive in archives:
        missing = [n for n, digest in contents(archive).items() if there.get(n) != digest]
        if missing:
            _ctr(paths, "images", "import", archive)
            added += missing
    return added
