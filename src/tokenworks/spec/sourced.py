"""Documents with the file and lines they came from: what rules look at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tokenworks.spec.common import Document, FlagValue
from tokenworks.spec.environment import Environment, NodePool
from tokenworks.spec.model import ModelRelease
from tokenworks.spec.problems import FieldPath, Flaw, Problem
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.yamlsource import Node, line_of

D = TypeVar("D", bound=Document)


class EngineFacts(Protocol):
    """What loading asks about one engine."""

    def reserved_flags(self) -> Set[str]:
        """Flags that are derived from the document."""
        ...

    def flag_called(self, name: str) -> str:
        """The flag's own name, for another name of it; the same for what is no flag."""
        ...

    def field_of(self, flag: str) -> str | None:
        """The field that a derived flag follows from; None: no field decides."""
        ...

    def reserved_env(self) -> Set[str]:
        """Variables that are derived from the document."""
        ...

    @property
    def image_pull(self) -> str:
        """Duration to allow for pulling the image."""
        ...

    @property
    def memory_fraction(self) -> float:
        """Most of a GPU's memory that it takes unasked."""
        ...

    @property
    def topologies(self) -> Sequence[str]:
        """Kinds of topology it can serve in."""
        ...

    @property
    def weights_from(self) -> Sequence[str]:
        """Schemes of weights it can read."""
        ...

    @property
    def cache_fields(self) -> Set[str]:
        """Fields of `spec.caches` it can be told of: prefix, kv.memoryFraction, kv.dtype,
        kv.blockSize."""
        ...

    @property
    def cache_flags(self) -> Mapping[str, str]:
        """Those of them whose value is a flag's, and that flag."""
        ...

    @property
    def kv_types(self) -> Sequence[str]:
        """Types its KV cache can be kept in."""
        ...

    def tier_names(self, version: str) -> Set[str]:
        """Places for KV beyond the GPU: cpu, nvme, lmcache, mooncake, hicache."""
        ...

    def tiers_beside_transfer(self, version: str) -> Set[str]:
        """Those that go together with prefill and decode, which hand over KV themselves."""
        ...

    def tier_settings(self) -> Set[str]:
        """Flags and variables that are derived when one of them is asked for."""
        ...

    @property
    def divides(self) -> Collection[str]:
        """Fields of the topology besides tensorParallel by which it divides a pod's GPUs."""
        ...

    @property
    def python(self) -> str | None:
        """Where it was read that its image has Python; None: it has not."""
        ...

    @property
    def gpu(self) -> str:
        """`required`, or `optional` where it also runs on CPUs."""
        ...

    @property
    def default(self) -> str:
        """Version that is used when a document names none."""
        ...

    @property
    def adapter_loading(self) -> Sequence[str]:
        """How adapters that requests name can be loaded: start, sidecar; empty: not at all."""
        ...

    @property
    def adapter_servers(self) -> str | None:
        """Flag for processes that answer, of which load sidecar reaches one."""
        ...

    def adapter_ranks(self, version: str) -> Sequence[int]:
        """Ranks of adapters that the version can make room for, ascending; empty: any."""
        ...

    def adapter_tiers(self, version: str) -> Set[str]:
        """Places for KV beyond the GPU where the version keeps the KV of adapters apart."""
        ...

    def unknown_flags(self, flags: Iterable[str], version: str) -> Mapping[str, Sequence[str]]:
        """Flags that the version does not know, each with those it may be meant for."""
        ...


class EngineCatalog(Protocol):
    """What loading asks the catalog of engines."""

    def engine(self, name: str) -> EngineFacts:
        """The engine of that name; `UsageError` when there is none."""
        ...

    def engines_for(self, topology: str) -> Collection[str]:
        """Engines that can serve in a topology."""
        ...

    def misread_flags(self, engine: str, flags: Mapping[str, FlagValue]) -> Mapping[str, str]:
        """Flags whose values the engine would not take as they are meant, each with the reason."""
        ...

    def misplayed(self, options: Mapping[str, object]) -> Mapping[str, tuple[str, str, str]]:
        """Options of a simulation that it would not take: found, allowed and remedy of each."""
        ...

    def runs_on_cpu(self, engine: str, version: str) -> bool:
        """Whether there is a build of that version for CPUs."""
        ...

    def versions(self, engine: str) -> Collection[str]:
        """Versions of the engine that are known; empty when the engine is not."""
        ...


@dataclass(frozen=True)
class Sourced(Generic[D]):
    """A document and where it came from."""

    document: D
    file: Path
    """Relative to the root of the repository."""
    read: Callable[[], Node] = field(repr=False, compare=False)
    """Its YAML. Only messages want it: reading it takes longer than all else."""

    def line(self, path: FieldPath) -> int:
        """Line of the field, or of what would hold it."""
        return line_of(self.read(), path)

    def problem(
        self, path: FieldPath, found: str, allowed: str | None = None, remedy: str | None = None
    ) -> Problem:
        """A problem with the field, at its line."""
        return Problem.of(self.file, Flaw(self.line(path), path, found, allowed, remedy))


@dataclass(frozen=True)
class Documents:
    """The documents that could be read, and the names of those that could not."""

    environment: Sourced[Environment] | None
    models: tuple[Sourced[ModelRelease], ...]
    tenants: tuple[Sourced[Tenant], ...]
    unread_tenants: frozenset[str]

    @property
    def pools(self) -> dict[str, NodePool]:
        """Node pools by name; empty when the environment could not be read."""
        return self.environment.document.spec.node_pools if self.environment else {}

    def tenant(self, name: str) -> Tenant | None:
        """The tenant of that name, if it could be read."""
        found = [item.document for item in self.tenants if item.document.metadata.name == name]
        return found[0] if found else None


def listed(names: Iterable[str], none: str) -> str:
    """The names in a message, or what to say when there are none."""
    return ", ".join(sorted(names)) or none
