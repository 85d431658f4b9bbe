"""One image as one archive: an OCI layout that containerd, kind, Podman and Docker import.

The index comes first in the archive, so the digest can be read without reading layers.
Layers are not compressed: they never travel, and importing them is then mere copying.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from local.images.tree import Tree

_EPOCH = "1970-01-01T00:00:00Z"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class Config:
    """How the image's process starts."""

    user: str
    entrypoint: Sequence[str]
    command: Sequence[str]
    env: Mapping[str, str]
    workdir: str


@dataclass(frozen=True)
class _Blob:
    media_type: str
    digest: str
    size: int
    source: bytes | Path

    @property
    def path(self) -> str:
        return f"blobs/sha256/{self.digest}"

    def descriptor(self) -> dict[str, Any]:
        return {
            "mediaType": self.media_type,
            "digest": f"sha256:{self.digest}",
            "size": self.size,
        }


def architecture() -> str:
    """This machine's architecture, as images call it."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def write_image(name: str, layers: Sequence[Tree], config: Config, out: Path) -> None:
    """Write the archive of image `name` (`registry/repository:tag`) to `out`."""
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".layers-") as folder:
        blobs = [_layer(tree, Path(folder) / str(i)) for i, tree in enumerate(layers)]
        config_blob = _json(f"{_OCI}.config.v1+json", _image_config(config, blobs))
        manifest = _json(
            f"{_OCI}.manifest.v1+json",
            {
                "schemaVersion": 2,
                "mediaType": f"{_OCI}.manifest.v1+json",
                "config": config_blob.descriptor(),
                "layers": [blob.descriptor() for blob in blobs],
            },
        )
        with out.open("wb") as file:
            _archive(name, file, manifest, config_blob, blobs)


def image_digest(archive: Path) -> str:
    """Digest (`sha256:…`) under which a container runtime knows the archive's image."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        return str(json.load(index)["manifests"][0]["digest"])


def _archive(
    name: str, file: IO[bytes], manifest: _Blob, config: _Blob, layers: Sequence[_Blob]
) -> None:
    reference = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [{**manifest.descriptor(), "annotations": reference}],
    }
    docker = [{"Config": config.path, "RepoTags": [name], "Layers": [blob.path for blob in layers]}]
    files = {
        "index.json": _dump(index),
        "oci-layout": _dump({"imageLayoutVersion": "1.0.0"}),
        "manifest.json": _dump(docker),
    }
    blobs = {blob.path: blob.source for blob in (manifest, config, *layers)}
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, source in {**files, **blobs}.items():
            _add(tar, path, source)


def _add(tar: tarfile.TarFile, path: str, source: bytes | Path) -> None:
    info = tarfile.TarInfo(path)
    info.mode = 0o644
    if isinstance(source, bytes):
        info.size = len(source)
        tar.addfile(info, io.BytesIO(source))
        return
    info.size = source.stat().st_size
    with source.open("rb") as data:
        tar.addfile(info, data)


def _layer(tree: Tree, path: Path) -> _Blob:
    with path.open("w+b") as file:
        tree.write(file)
        size = file.tell()
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return _Blob(f"{_OCI}.layer.v1.tar", digest, size, path)


def _image_config(config: Config, layers: Sequence[_Blob]) -> dict[str, Any]:
    process = {
        "User": config.user,
        "Env": [f"{key}={value}" for key, value in sorted(config.env.items())],
        "Entrypoint": list(config.entrypoint),
        "Cmd": list(config.command),
        "WorkingDir": config.workdir,
    }
    return {
        "created": _EPOCH,
        "architecture": architecture(),
        "os": "linux",
        "config": {key: value for key, value in process.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{blob.digest}" for blob in layers]},
        "history": [{"created": _EPOCH, "created_by": "tokenworks"} for _ in layers],
    }


def _json(media_type: str, value: object) -> _Blob:
    data = _dump(value)
    return _Blob(media_type, hashlib.sha256(data).hexdigest(), len(data), data)


def _dump(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
