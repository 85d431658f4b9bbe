"""What the command line of an engine says beyond the simulator's own options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .kv import KvRole
from .metrics import Book
from .names import vllm as vllm_names


@dataclass(frozen=True)
class Adapters:
    """LoRA adapters: those served from the start as (name, path), and how others come.

    `may_change` is whether requests may load and unload them; with `read_paths` a path that
    is absolute and not there cannot be loaded, as in a real engine, nor one of a rank above
    `max_rank`.
    """

    served: tuple[tuple[str, str], ...] = ()
    may_change: bool = True
    read_paths: bool = False
    max_rank: int | None = None


@dataclass(frozen=True)
class Setup:
    """How one server plays its engine."""

    engine: str = "simulator"
    book: Book = vllm_names.WITH_LORA
    ranks: tuple[int, ...] = (0,)
    """Engine cores behind the port, by their ranks in the data parallel group."""
    adapters: Adapters = field(default_factory=Adapters)
    model_path: str | None = None
    """Where the weights would be; None: there are none."""
    kv: KvRole | None = None
    """Its part in disaggregated serving."""
    in_group: bool = False
    """Ready only once all members of a group have joined."""
    healthy_while_draining: bool = False
    """Health checks go on succeeding after SIGTERM, as in engines that do not know of it."""
    known_as: Callable[[str], str] = str
    """The served name that a client means by a name."""
    echoes: bool = False
    """Answers carry the name that the client wrote, whatever it meant."""
