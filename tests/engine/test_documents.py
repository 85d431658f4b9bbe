"""What the real engine is started with is what GPUs get, minus a list; needs no engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.engine import IMAGE, Installed
from local.images import images_for, local_image_names
from local.toolchain import module_dir
from tests.engine.commands import containers, vllm_words
from tests.engine.documents import CPU_FLAGS, GPU_FLAGS, NAME, on_cpu, prepare
from tests.engine.documents import ON_GPUS as SOURCE
from tokenworks.render import render
from tokenworks.render.helm import RenderTools
from tokenworks.spec.load import load_stack

pytestmark = pytest.mark.slow


def flags(words: tuple[str, ...]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words if word.startswith("--"))
    return {name.removeprefix("--"): value for name, _, value in pairs}


def engine_of(root: Path, environment: str, release: str, renderer: Path) -> dict[str, Any]:
    """The rendered container of a release's engine."""
    rendered = render(load_stack(root, environment), RenderTools(renderer, module_dir))
    objects = [o for r in rendered if r.name == f"model-{release}" for o in r.objects]
    found = [c for o in objects for c in containers(o) if vllm_words(c)]
    assert len(found) == 1
    return dict(found[0])


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """The documents, with the real engine's beside the others'."""
    shutil.copytree(root / "stacks", tmp_path / "stacks")
    prepare(tmp_path, Installed(Path("/engine"), Path("/engine/model-1")))
    return tmp_path


@pytest.mark.helm
def test_the_command_line_is_that_of_gpus_minus_what_needs_one(
    root: Path, tree: Path, renderer: Path
) -> None:
    gpu = engine_of(root, "dev", "qwen3-32b", renderer)
    cpu = engine_of(tree, "local", NAME, renderer)
    before, after = flags(vllm_words(gpu) or ()), flags(vllm_words(cpu) or ())
    assert before.keys() - after.keys() == GPU_FLAGS.keys()
    assert after.keys() - before.keys() == CPU_FLAGS.keys()
    assert (vllm_words(cpu) or ())[:2] == ("serve", "/weights/model-1")
    assert cpu["command"] == gpu["command"] == ["vllm", "serve"]
    assert cpu["image"] == IMAGE
    for same in ("ports", "lifecycle", "securityContext", "readinessProbe", "livenessProbe"):
        assert cpu[same] == gpu[same], same


def test_only_what_is_listed_is_taken_from_the_document(root: Path) -> None:
    release = yaml.safe_load((root / SOURCE).read_text())
    release["spec"]["engine"]["flags"] = {"gpu-memory-utilization": 0.9, "max-num-seqs": 8}
    release["spec"]["engine"]["env"] = {"VLLM_LOGGING_LEVEL": "INFO"}
    engine = on_cpu(release, "model-1")["spec"]["engine"]
    assert engine["flags"] == {"max-num-seqs": 8, **CPU_FLAGS}
    assert engine["env"]["VLLM_LOGGING_LEVEL"] == "INFO"
    assert release["spec"]["engine"]["flags"]["gpu-memory-utilization"] == 0.9, "a copy"


def test_its_image_is_made_for_clusters_that_use_it_alone() -> None:
    assert IMAGE in local_image_names()
    assert IMAGE in images_for([IMAGE])
    assert IMAGE not in images_for([])
