"""Images run on the driver that the set installs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from policies.engines import Program
from policies.inventory import Inventory
from policies.model import Context, Violation, rule
from policies.rules.shared import about
from policies.tree import integer, mapping

_CUDA = re.compile(r"(?:^|[^a-z0-9])(?:cu(1\d)\d|cuda-?(1\d)(?:\.\d+)*)(?![a-z0-9])")
_OLDER = re.compile(r"(?:^|[^a-z0-9.])(1\d)\.\d+\.\d+-(?:cudnn|base|devel|runtime)")
_MAJOR = re.compile(r"\d{3}(?![0-9])")
_LABELS = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver-version.major")
_COMPATIBLE = "VLLM_ENABLE_CUDA_COMPATIBILITY"


@cache
def _least() -> Mapping[str, int]:
    return json.loads((Path(__file__).parents[1] / "drivers.json").read_text())["least"]


def _cuda(program: Program) -> str | None:
    """Major release of CUDA that the image's tag names."""
    tag = program.container.image.partition("@")[0].rpartition("/")[2].partition(":")[2].lower()
    found = _CUDA.search(tag) or _OLDER.search(tag)
    return next((part for part in found.groups() if part), None) if found else None


def _branch(version: object) -> int | None:
    """The branch of a driver: 570 of `570.124.06`."""
    found = _MAJOR.match(str(version))
    return integer(found[0], 0) if found else None


def _installed(inventory: Inventory) -> dict[str, int]:
    """Branches of the drivers that the set's own objects install, by the objects' titles."""
    found: dict[str, int] = {}
    policies = [i for i in inventory.graph.of_kind("ClusterPolicy") if i.group == "nvidia.com"]
    for item in policies:
        driver = mapping(item.spec.get("driver"))
        own = driver.get("enabled") is not False and driver.get("useNvidiaDriverCRD") is not True
        branch = _branch(driver.get("version")) if own else None
        if branch is not None:
            found[item.title] = branch
    for item in inventory.graph.of_kind("NVIDIADriver"):
        branch = _branch(item.spec.get("version"))
        if branch is not None:
            found[item.title] = branch
    return found


def _driver(program: Program, installed: Mapping[str, int]) -> tuple[str, int] | None:
    """Who says which driver the program meets, and its branch; of several the newest."""
    selector = mapping(program.container.pod.spec.get("nodeSelector"))
    for label in _LABELS:
        branch = _branch(selector.get(label))
        if branch is not None:
            return f"its nodeSelector ({label})", branch
    newest = max(installed, key=lambda title: installed[title], default=None)
    return None if newest is None else (newest, installed[newest])


@rule(
    "image-driver",
    "warning",
    "Images run on the driver of their nodes",
    "A program of a newer major release of CUDA than the driver knows stops when it starts, with "
    "a message about an insufficient driver.",
    "Use the image for the driver's CUDA, or install a newer driver.",
    "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    whole_set=True,
)
def image_driver(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    installed = _installed(inventory)
    for program in inventory.programs:
        if program.engine is None or program.mode == "none" or not program.needs_gpu:
            continue
        container = program.container
        paths = (container.env.get("LD_LIBRARY_PATH") or "", program.command.text)
        if _COMPATIBLE in container.env or any("/compat" in path for path in paths):
            continue  # it brings NVIDIA's compatibility libraries
        major, driver = _cuda(program), _driver(program, installed)
        least = _least().get(major or "")
        if least is None or driver is None or driver[1] >= least:
            continue
        yield about(
            program,
            ("image",),
            f"has an image of CUDA {major}, which wants a driver of branch {least} or newer, and "
            f"{driver[0]} gives it {driver[1]}",
            f"use an image for an older CUDA, or install a driver of branch {least}",
        )


ALL = (image_driver,)
