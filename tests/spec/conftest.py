"""A good environment, and what a case changes in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

HERE = Path(__file__).parent


@dataclass(frozen=True)
class KnownEngine:
    """One engine of the catalog below."""

    topologies: Sequence[str]
    weights_from: Sequence[str]
    gpu: str = "required"
    memory_fraction: float = 0.9
    image_pull: str = "60s"
    default: str = "0.26.0"
    divides: Sequence[str] = ("pipelineParallel", "dataParallel")
    adapter_loading: Sequence[str] = ()
    adapter_servers: str | None = None
    python: str | None = "its image"
    cache_fields: Set[str] = frozenset({"prefix", "kv.memoryFraction", "kv.dtype", "kv.blockSize"})
    kv_types: Sequence[str] = ("auto", "fp8")

    cache_flags: Mapping[str, str] = field(default_factory=dict[str, str])

    def flag_called(self, name: str) -> str:
        return {"device-memory-utilization": "gpu-memory-utilization"}.get(name, name)

    def field_of(self, flag: str) -> str | None:
        return {"max-model-len": "spec.model.maxContext"}.get(flag)

    def tier_names(self, version: str) -> Set[str]:
        return {"cpu", "mooncake"} if self.python and version != "9.9.9" else set()

    def tiers_beside_transfer(self, version: str) -> Set[str]:
        return {"mooncake"} if self.python and version != "9.9.9" else set()

    def tier_settings(self) -> Set[str]:
        return {"kv-transfer-config"}

    def reserved_flags(self) -> Set[str]:
        return {"port", "max-model-len"}

    def unknown_flags(self, flags: Iterable[str], version: str) -> Mapping[str, Sequence[str]]:
        known = version != "9.9.9"
        return {f: ("x-flag",) for f in flags if known and f.startswith(("misspelt", "no-"))}

    def reserved_env(self) -> Set[str]:
        return {"HOME"}

    def adapter_ranks(self, version: str) -> Sequence[int]:
        return (8, 16, 64, 128) if self.adapter_loading and version else ()

    def adapter_tiers(self, version: str) -> Set[str]:
        return {"cpu"} if self.adapter_loading and version else set()


class KnownEngines:
    """A catalog of engines that does not change with the repository's."""

    ENGINES: ClassVar = {
        "simulator": KnownEngine(
            ("single",), ("dummy",), gpu="optional", default="0.1.0", divides=()
        ),
        "vllm": KnownEngine(
            ("single", "multi-node", "disaggregated", "wide-ep"),
            ("hf", "s3", "gs", "pvc", "oci", "dummy"),
            cache_flags={"kv.blockSize": "block-size"},
            adapter_loading=("start", "sidecar"),
            adapter_servers="api-server-count",
        ),
        "sglang": KnownEngine(
            ("single", "multi-node", "disaggregated"),
            ("hf", "pvc", "oci", "dummy"),
            adapter_loading=("start",),
        ),
        "ollama": KnownEngine(
            ("single",),
            ("hf", "pvc", "oci"),
            gpu="optional",
            default="0.40.0",
            divides=(),
            python=None,
            cache_fields=frozenset(),
            kv_types=(),
        ),
    }

    def engine(self, name: str) -> KnownEngine:
        return self.ENGINES[name]

    def engines_for(self, topology: str) -> Collection[str]:
        return [name for name, engine in self.ENGINES.items() if topology in engine.topologies]

    def misread_flags(self, engine: str, flags: Mapping[str, object]) -> Mapping[str, str]:
        wrong = [flag for flag, value in flags.items() if value == "not a number"]
        odd = [flag for flag, value in flags.items() if flag == "block-size" and value == 7]
        return dict.fromkeys([*wrong, *odd], f"{engine} wants a number")

    def misplayed(self, options: Mapping[str, object]) -> Mapping[str, tuple[str, str, str]]:
        wrong = ("is no option of the simulator", "seed", "did you mean seed?")
        return {name: wrong for name in options if name == "sede"}

    def runs_on_cpu(self, engine: str, version: str) -> bool:
        return (engine, version) == ("vllm", "0.32.0")

    def versions(self, engine: str) -> Collection[str]:
        known = {"simulator": ("0.1.0",), "vllm": ("0.25.0", "0.26.0"), "sglang": ("0.5.16",)}
        return known.get(engine, ())


@pytest.fixture
def engines() -> KnownEngines:
    return KnownEngines()


@pytest.fixture
def stack_root(tmp_path: Path) -> Callable[..., Path]:
    """Makes a root whose stacks/env is the good environment with a folder's files over it."""

    def make(case: Path | None = None) -> Path:
        folder = tmp_path / "stacks" / "env"
        shutil.copytree(HERE / "good", folder)
        if case is not None:
            ignore = shutil.ignore_patterns("expected.txt")
            shutil.copytree(case, folder, dirs_exist_ok=True, ignore=ignore)
        return tmp_path

    return make
