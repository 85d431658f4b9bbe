"""Flags of an engine, and what stands behind its topologies, caches and adapters, typed.

Flags are named by their long form with dashes, whatever the engine spells; `Style` says how
they are written.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tokenworks.spec.common import Document, Form
from tokenworks.spec.values import EngineMetrics, EnvName

OptionType = Literal["flag", "integer", "number", "text", "json", "list", "choice"]
Lists = Literal["items", "repeat", "comma", "joined"]
Taking = Literal["none", "equals", "optional", "required"]
Version = Annotated[
    str,
    Form(r"[0-9]+(\.[0-9]+)*(rc[0-9]+|\.?post[0-9]+)?", "numbers with dots, such as 0.26.0"),
]
FlagName = Annotated[
    str,
    Form(r"[A-Za-z][A-Za-z0-9]*(-[a-z0-9]+)*", "a flag with dashes inside and none at the front"),
]


class Option(Document):
    """One flag of an engine."""

    type: OptionType = Field(
        description="flag: on or off; integer, number, text, json; list: several values; choice: "
        "one of `choices`."
    )
    choices: tuple[str, ...] = Field(default=(), description="What it may be, as text.")
    aliases: tuple[FlagName, ...] = Field(
        default=(), description="Other names, one dash at the front when they have one letter or "
        "are listed in `short`."
    )  # fmt: skip
    short: tuple[FlagName, ...] = Field(default=(), description="Names after a single dash.")
    negatives: tuple[FlagName, ...] = Field(
        default=(), description="Names that switch it off, where no rule of the style says so."
    )
    takes: Taking | None = Field(
        default=None,
        description="Value: none; only after `=`; optional; required. Default: none for a flag, "
        "else required.",
    )
    lists: Lists | None = Field(default=None, description="Where it differs from the style.")
    suffixes: bool = Field(
        default=False, description="Integers may be written 32k (thousands) or 32K (of 1024)."
    )
    env: EnvName | None = Field(
        default=None, description="Variable that sets it when the flag is absent."
    )
    only_env: bool = Field(default=False, description="There is no flag, only the variable.")
    since: Version | None = Field(
        default=None, description="First version seen with it; null: the oldest looked at has it."
    )
    until: Version | None = Field(
        default=None, description="Last version seen with it; null: the newest looked at has it."
    )
    meaning: str = Field(default="", description="In a few words; empty: see the engine's help.")


class Range(Document):
    """Numbers that some flags take; none but these start the engine, or mean anything to it."""

    flags: Annotated[tuple[FlagName, ...], Field(min_length=1)]
    least: float | None = Field(default=None, description="The smallest.")
    above: float | None = Field(default=None, description="They are larger than this.")
    most: float | None = Field(default=None, description="The largest.")
    below: float | None = Field(default=None, description="They are smaller than this.")
    multiple_of: int | None = Field(default=None, description="Each is a multiple of it.")
    besides: tuple[float, ...] = Field(default=(), description="Others that are taken too.")
    only: tuple[float, ...] = Field(default=(), description="These and no others.")


class Style(Document):
    """How an engine's flags are spelled."""

    separator: Literal["equals", "space"] = Field(description="How we join a flag and its value.")
    equals: bool = Field(default=True, description="Whether `--flag=value` is read at all.")
    off: Literal["no-prefix", "omit", "value"] = Field(
        description="A flag that is off: `--no-flag`, left out, or `--flag=false`."
    )
    lists: Lists = Field(
        description="Several values: `--f a b`, `--f a --f b`, `--f a,b`, or `--f 'a b'`."
    )
    underscores: bool = Field(description="`--a_b` is read like `--a-b`.")
    written: Literal["dashes", "underscores"] = Field(
        default="dashes", description="What stands between the words of a flag."
    )
    abbreviations: bool = Field(
        default=False, description="The beginning of one flag's name is enough."
    )
    dotted: bool = Field(
        default=False, description="`--flag.key.key value` builds the JSON of `--flag`."
    )
    single_dash: bool = Field(default=False, description="`-flag` is read like `--flag`.")


class Start(Document):
    """Words that start a program of the engine."""

    words: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="`python` stands for any Python; the first word is a base name."
    )
    skip: tuple[str, ...] = Field(
        default=(), description="A subcommand that may follow and changes nothing."
    )
    but: tuple[str, ...] = Field(default=(), description="Subcommands after which it is no server.")


class ImageStart(Document):
    """What an image runs when the container does not say."""

    repository: str = Field(description="End of the repository, such as vllm/vllm-openai.")
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...] = ()


class ParallelFlags(Document):
    """Flags that decide how many GPUs a replica takes; absent ones default to 1."""

    tensor: FlagName | None = None
    pipeline: FlagName | None = None
    context: FlagName | None = Field(
        default=None, description="Context parallelism that needs GPUs of its own."
    )
    data: FlagName | None = None
    data_local: FlagName | None = Field(default=None, description="Data ranks of one pod.")
    data_rank: FlagName | None = Field(
        default=None, description="Given: this pod is one data rank."
    )
    data_within_tensor: FlagName | None = Field(
        default=None, description="Given: data ranks share the tensor ranks' GPUs."
    )
    nodes: FlagName | None = None
    node_rank: FlagName | None = None
    headless: FlagName | None = Field(default=None, description="A member that answers no HTTP.")
    expert: FlagName | None = Field(default=None, description="A switch, or a number of ranks.")


class DrainFlag(Document):
    """The flag that makes SIGTERM wait for running requests, in seconds."""

    flag: FlagName
    since: Version = Field(description="First version that knows it.")
    source: str


class Metrics(EngineMetrics):
    """Prometheus names; empty: the engine has none. Counters as they are exposed (`_total`)."""

    ttft: str = Field(description="Histogram: seconds to the first token.")
    tpot: str = Field(description="Histogram: seconds per output token after the first.")
    e2e: str = Field(description="Histogram: seconds of the whole request.")
    prompt_tokens: str = Field(description="Counter: prompt tokens.")
    generation_tokens: str = Field(description="Counter: answer tokens.")
    preemptions: str = Field(description="Counter: requests that lost their KV and start again.")
    rejections: str = Field(description="Counter: requests that were not admitted.")


class MetricsBefore(Document):
    """Names that older versions use."""

    before: Version = Field(description="First version that uses the newer names.")
    names: dict[str, str] = Field(description="Our name for it: its older name; empty: none.")
    source: str


class PortFact(Document):
    """A port beside the one that answers HTTP."""

    port: Annotated[int, Field(ge=1, le=65535)] = Field(description="The engine's default.")
    flag: FlagName | None = Field(default=None, description="Flag that moves it.")
    env: EnvName | None = Field(default=None, description="Variable that moves it.")
    per_rank: bool = Field(default=False, description="Rank n listens on port + n.")
    meaning: str


class PrefixCache(Document):
    """Reuse of the KV of prompts that begin alike."""

    default: Literal["on", "off"] = Field(description="Without any flag.")
    flag: FlagName | None = Field(
        default=None, description="Flag about it; null: it cannot be changed."
    )
    inverted: bool = Field(default=False, description="The flag switches it off.")


class KvDtypes(Document):
    """Types the KV cache can be kept in."""

    flags: tuple[FlagName, ...] = Field(
        description="Every one of them gets the type; empty where it is set in the engine's file."
    )
    values: tuple[str, ...]


class CacheTier(Document):
    """A place for KV blocks beyond the GPU's memory, and how it is switched on."""

    flags: dict[FlagName, str | int | float | bool | dict[str, object]] = Field(
        default_factory=dict[str, str | int | float | bool | dict[str, object]],
        description="Flags with an example value.",
    )
    size_flag: FlagName | None = Field(default=None, description="Flag that gets the size.")
    size_unit: Literal["GiB", "GB", "MiB", "bytes", "ratio"] | None = Field(
        default=None, description="Unit of that size."
    )
    size_of: Literal["pod", "rank"] | None = Field(
        default=None, description="The size is of all ranks together, or of each."
    )
    env: dict[EnvName, str] = Field(default_factory=dict[str, str])
    since: Version | None = None
    shared_memory: bool = Field(default=False, description="The memory is a file in /dev/shm.")
    meaning: str
    source: str


class BesideTransfer(Document):
    """Places for KV that go together with handing it from prefill to decode (by NIXL)."""

    tiers: tuple[str, ...]
    since: str = Field(description="First version in which they do.")
    source: str


class ConfigFile(Document):
    """A YAML file for settings that the engine has no flags for."""

    flag: FlagName = Field(description="Flag that names the file.")
    always: dict[str, object] = Field(description="What is in it for every release.")
    prefix: tuple[str, ...] = Field(description="Keys that lead to the switch of prefix reuse.")
    kv_dtype: tuple[str, ...] = Field(description="Keys that lead to the KV cache's type.")
    block_size: tuple[str, ...] = Field(description="Keys that lead to the tokens of a block.")
    host_memory: tuple[str, ...] = Field(description="Keys that lead to bytes of memory for KV.")
    source: str


class Lora(Document):
    """Adapters."""

    enable: FlagName | None = None
    modules: FlagName = Field(description="Flag that lists adapters to load at the start.")
    module_form: str = Field(description="Form of one item; {name} and {path} are filled in.")
    most: FlagName | None = Field(default=None, description="Adapters in one batch.")
    most_cpu: FlagName | None = Field(default=None, description="Adapters kept in memory.")
    max_rank: FlagName | None = None
    load_path: str | None = Field(default=None, description="POST: load one while running.")
    unload_path: str | None = Field(default=None, description="POST: unload it.")
    load_env: dict[EnvName, str] = Field(
        default_factory=dict[str, str], description="What allows loading while running."
    )
    load_fields: tuple[str, str] = Field(
        default=("lora_name", "lora_path"), description="Fields of the request."
    )
    loading: tuple[Literal["start", "sidecar"], ...] = Field(
        default=(),
        description="How adapters that requests name may be loaded; empty: requests cannot name "
        "them, or nothing is loaded.",
    )
    asked: str | None = Field(
        default=None,
        description="The `model` field that the engine wants, where it is not the adapter's name; "
        "{base} and {name} are filled in.",
    )
    path_in_prefix: Version | None = Field(
        default=None,
        description="Oldest version seen to tell the KV of two adapters apart by their paths, not "
        "by name alone.",
    )
    kv_tiers: dict[str, Version] = Field(
        default_factory=dict[str, Version],
        description="Places for KV beyond the GPU in which an adapter finds its own KV alone, and "
        "the oldest version seen to keep it apart there. What outlives a pod has to tell contents "
        "apart, not names.",
    )
    servers: FlagName | None = Field(
        default=None,
        description="Flag for the number of processes that answer; only a single one loads while "
        "running.",
    )
    other_flags: tuple[FlagName, ...] = Field(
        default=(), description="Flags that load adapters too, past the approved list."
    )
    other_env: tuple[EnvName, ...] = Field(
        default=(), description="Variables that let requests load adapters of their own choice."
    )
