"""Which containers serve models, which are their silent members, which are neither."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from policies.commands import Command, command_of, words_of
from policies.mounted import options_in
from policies.pods import DYNAMO, Container
from policies.tree import Unknown, mapping, quantity, sequence, unread
from tokenworks.catalog.commandline import (
    PLAYS,
    CommandLine,
    World,
    grammars,
    image_words,
    read,
    world,
)

Mode = Literal["server", "member", "none"]


@dataclass(frozen=True)
class Engine:
    """A program that serves models, and how to know it."""

    name: str
    image: re.Pattern[str]
    command: re.Pattern[str]
    gpu: bool
    """It does not run without an accelerator, unless it is a CPU build or told to."""
    probe_seconds: int
    """Least timeout that a healthy, busy one needs to answer a probe."""
    port_variable: str | None
    """Its own variable that a Service called like it would overwrite."""
    own: re.Pattern[str] | None = None
    """Images of its project that the catalog knows no entry point of."""


@dataclass(frozen=True)
class _Facts:
    engines: tuple[Engine, ...]
    other_image: re.Pattern[str]
    other_command: re.Pattern[str]
    member: re.Pattern[str]
    runs: Mapping[str, str]
    idle_programs: frozenset[str]
    idle_images: re.Pattern[str]
    accelerators: frozenset[str]
    accelerator: re.Pattern[str]


@cache
def _facts() -> _Facts:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("engines.json").read_text())
    return _Facts(
        tuple(
            Engine(
                item["name"],
                re.compile(item["image"]),
                re.compile(item["command"]),
                item["gpu"],
                item.get("probeSeconds", 5),
                item.get("portVariable"),
                re.compile(item["own"]) if "own" in item else None,
            )
            for item in data["engines"]
        ),
        re.compile(data["notEngines"]["image"]),
        re.compile(data["notEngines"]["command"]),
        re.compile(data["worker"]["command"]),
        {name: start for name, start in data["runs"].items() if "." in name},
        frozenset(data["idlePrograms"]),
        re.compile(data["idleImages"]),
        frozenset(data["accelerators"]["names"]),
        re.compile(data["accelerators"]["pattern"]),
    )


@dataclass(frozen=True)
class Program:
    """What one container runs."""

    container: Container

    @cached_property
    def command(self) -> Command:
        """Its words, flat."""
        return command_of(self.container.spec, self.container.env)

    @cached_property
    def engine(self) -> Engine | None:
        """None where it is no engine we know."""
        return self._class[0]

    @cached_property
    def mode(self) -> Mode:
        """server: answers HTTP; member: a rank or worker that does not; none: something else."""
        mode = self._class[1]
        return "member" if mode == "server" and self.follows else mode

    @cached_property
    def _class(self) -> tuple[Engine | None, Mode]:
        return _classify(self.container, self.command)

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        """Accelerator resources it asks for, in requests, limits or claims."""
        return _accelerators(self.container.spec)

    @cached_property
    def line(self) -> CommandLine:
        """Its command line, read with the engine's own grammar."""
        container = self.container
        command, args = (tuple(map(_as_engine, words)) for words in words_of(container.spec))
        args = (*args, *self._added)
        image = "" if command else container.image
        more = container.open_env
        options = self._options
        found = read(command, args, container.env, image, more, options=options)
        grammar = grammars().get(_GRAMMARS.get(self.engine.name, "")) if self.engine else None
        if found.engine is None and grammar is not None and not command:
            starts = list(grammar.facts["starts"][0]["words"])
            found = read(starts, args, container.env, image, more, options=options)
        return found

    @property
    def _added(self) -> tuple[str, ...]:
        """Arguments that KServe's presets of an LLMInferenceService take from a variable: in
        config/llmisvcconfig of kserve/kserve v0.16.0 a shell writes it behind its own."""
        container = self.container
        if not container.pod.kind.startswith("LLMInferenceService") or container.spec.get(
            "command"
        ):
            return ()
        try:
            return tuple(shlex.split(container.env.get("VLLM_ADDITIONAL_ARGS") or ""))
        except ValueError:
            return ()

    @cached_property
    def _options(self) -> dict[str, tuple[str, ...]]:
        """Words of the files of options that its command line may name, by path."""
        files, said = self.container.files, " ".join(self.command.words)
        return {path: options_in(text) for path, text in files.items() if path in said}

    def given(self, *names: str) -> str | None:
        """Text of a flag as the program reads it; `""` for a bare one, None where it is absent.

        Of an engine with a grammar every spelling is known, and its variables; of others the
        names themselves.
        """
        if self.line.engine is None:
            return self.command.flag(*names)
        found = next((self.line.flags[n] for n in names if n in self.line.flags), None)
        if found is not None:
            return found.raw or ""
        other = next((u for u in self.line.unknown if u.name.replace("_", "-") in names), None)
        return None if other is None else other.raw or ""

    @cached_property
    def world(self) -> World | None:
        """How it spreads over GPUs; None for what is no engine that does."""
        return world(self.line, self.gpus) if self.engine is not None else None

    @property
    def follows(self) -> bool:
        """It is a worker of a group whose command line starts no server: the leader answers.

        KServe's `workerSpec` joins the head's Ray cluster, whatever it is given.
        """
        pod = self.container.pod
        started = self.engine is not None and self.engine.command.search(self.command.text.lower())
        unsaid = not started and (self.line.engine is None or not self.command.words)
        return pod.role == "worker" and (unsaid or "workerSpec" in pod.path)

    @property
    def stays(self) -> bool:
        """It is all that its pod waits for: the only container, and no script that goes on."""
        only = len(sequence(self.container.pod.spec.get("containers"))) == 1
        return only and _BEHIND.search(self.line.script or "") is None

    @property
    def played(self) -> bool:
        """Our simulator answers to the engine's command line; the image's tag is its own."""
        return self.line.engine is not None and PLAYS in self.line.program

    @property
    def gpus(self) -> int | None:
        """Whole GPUs it asks for; None where that is not written down."""
        resources = mapping(self.container.spec.get("resources"))
        if resources.get("claims") or isinstance(self.container.spec.get("resources"), Unknown):
            return None
        total = 0
        for name in self.accelerators:
            value = next(
                v for side in ("limits", "requests")
                if (v := mapping(resources.get(side)).get(name)) is not None
            )  # fmt: skip
            amount = quantity(value)
            if amount is None or amount.denominator != 1 or not _is_whole(name):
                return None
            total += int(amount)
        return total

    @property
    def port(self) -> int | None:
        """Port it serves on; None where that is not known."""
        grammar = grammars().get(self.line.engine or "")
        if grammar is None:
            return None
        name = _PORTS.get(grammar.engine, "port")
        value, option = self.line.value(name), grammar.options.get(name)
        variable = option.env if option else None
        if variable and self._may_be_told(name, variable):
            return None
        if value is None:
            return int(grammar.facts["port"]) if self.words or self.plain else None
        return value if isinstance(value, int) else None

    def _may_be_told(self, name: str, variable: str) -> bool:
        """Whether a variable whose value is not in the set may say a flag that no word says."""
        flag, env = self.line.flags.get(name), self.container.env
        if flag is not None and flag.position is not None:
            return False
        return env[variable] is None if variable in env else self.container.open_env

    @property
    def words(self) -> bool:
        """Whether command or arguments of its own are written down."""
        return bool(self.container.spec.get("command") or self.container.spec.get("args"))

    @property
    def plain(self) -> bool:
        """Whether its image is of the engine's own project: one that others made may keep caches
        elsewhere, and start anything."""
        image, own = self.container.image, self.engine.own if self.engine else None
        known = own is not None and own.search(repository_of(image).lower()) is not None
        # What Ray starts by a text keeps its caches where images of Ray do.
        return known or self.container.kind == "model" or bool(image_words(image, True))

    @property
    def title(self) -> str:
        """`container "engine" (vllm)`."""
        return self.container.title + (f" ({self.engine.name})" if self.engine else "")

    @property
    def started(self) -> str:
        """The title, with the script that starts it where that stands in a ConfigMap."""
        said = [self.engine.name] if self.engine else []
        said += [f"in {self.container.script}"] if self.container.script else []
        return self.container.title + (f" ({' '.join(said)})" if said else "")

    @property
    def needs_gpu(self) -> bool:
        """It is an engine that cannot run without an accelerator, or is made for one here."""
        engine = self.engine
        if engine is None or self.mode == "none" or self._on_cpu:
            return False
        if not engine.gpu and not self._made_for_gpu:
            return False
        # An image that is still to be filled in may be a simulator.
        return PLACEHOLDER.search(self.container.image) is None or bool(self.accelerators)

    @property
    def loads(self) -> bool:
        """It is an engine that loads weights, with a GPU or on the CPU."""
        serves = self.engine is not None and self.mode != "none" and self.engine.gpu
        return self.needs_gpu or (serves and self._on_cpu)

    @property
    def _made_for_gpu(self) -> bool:
        """An engine that runs on both: its image is built for a GPU, or its pod gets them from the
        NVIDIA container runtime."""
        if self.engine is None or self.engine.name == "simulator":
            return False
        tag = self.container.image.partition("@")[0].rpartition(":")[2].lower()
        runtime = str(self.container.pod.spec.get("runtimeClassName") or "")
        return _FOR_GPU.search(tag) is not None or runtime.startswith("nvidia")

    @property
    def _on_cpu(self) -> bool:
        env, image = self.container.env, self.container.image.lower().partition("@")[0]
        return (
            re.search(r"(?<![a-z0-9])cpu(?![a-z0-9])", image) is not None
            or (self.given("device") or "").lower() == "cpu"
            or (env.get("VLLM_TARGET_DEVICE") or "").lower() == "cpu"
            or "VLLM_CPU_KVCACHE_SPACE" in env
        )


def engine_of(image: str) -> Engine | None:
    """The engine that an image is of; vLLM's for those that Ray builds with it."""
    facts, repository = _facts(), repository_of(image).lower()
    if re.search(r"(^|/)ray-llm$", repository):
        return engine_called("vllm")
    if facts.other_image.search(repository):
        return None
    return next((engine for engine in facts.engines if engine.image.search(repository)), None)


def engine_called(name: str) -> Engine:
    """An engine by its name in `engines.json`; StopIteration where there is none."""
    return next(engine for engine in _facts().engines if engine.name == name)


_GRAMMARS = {
    "vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "llama.cpp": "llamacpp", "tgi": "tgi",
}  # fmt: skip
"""Engines whose images run them when arguments alone are given, and the names of their grammars."""
_PORTS = {"triton": "http-port"}
_FOR_GPU = re.compile(r"(?<![a-z0-9])(cuda|rocm|musa)")
"""Tags of images that use a GPU, such as llama.cpp's server-cuda and ollama's 0.12-rocm."""
_BEHIND = re.compile(r"(?<![&>|])&(?![&>])")
"""What puts a program of a script in the background."""
PLACEHOLDER = re.compile(r"\$[A-Za-z_{(]|\{\{|<[^<>\s][^<>]*>")
"""What somebody still has to fill in."""


def _as_engine(word: str) -> str:
    """A word of a command line, with programs that take an engine's arguments named as it is."""
    for program, engine in _facts().runs.items():
        if program in word:
            word = re.sub(rf"\b{re.escape(program)}\b", engine, word)
    return word


def _is_whole(resource: str) -> bool:
    """One of it is one GPU, that no other container shares."""
    return resource in ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")


@lru_cache(maxsize=1024)
def is_accelerator(resource: str) -> bool:
    """Whether an extended resource stands for an accelerator we know."""
    facts = _facts()
    return resource in facts.accelerators or facts.accelerator.fullmatch(resource) is not None


def program_of(container: Container) -> Program:
    """What a container runs, judged by its command first and its image second."""
    return Program(container)


def _classify(container: Container, command: Command) -> tuple[Engine | None, Mode]:
    facts, text = _facts(), command.text.lower()
    # An operator of Dynamo starts a frontend, a worker or a planner where nothing is written.
    left_to_dynamo = container.pod.kind in DYNAMO and not command.words
    if left_to_dynamo or facts.other_command.search(text):
        return None, "none"
    by_command = next((e for e in facts.engines if e.command.search(text)), None)
    known = by_command is None or not isinstance(unread(container.spec, "image"), Unknown)
    repository = repository_of(container.image).lower() if known else ""
    by_image = next((e for e in facts.engines if e.image.search(repository)), None)
    if facts.other_image.search(repository):
        by_image = None
    # A simulator may be started with an engine's own command line, for drop-in use.
    engine = by_image if by_image and not by_image.gpu else by_command or by_image
    if engine is None and not command.explicit and container.pod.long_running:
        engine = _by_flags(container, command)
    if engine is None or (by_command is None and idle(container, command)):
        return None, "none"
    if by_command is None and not _RAY.isdisjoint(container.pod.path):
        # KubeRay starts Ray there, whatever the image would start.
        return None, "none"
    steady = container.pod.long_running and container.kind != "init"
    if by_command is None and command.explicit and not _may_start(container, command):
        return None, "none"
    if by_command is None and command.explicit and not steady:
        # An engine's image often carries the tools that jobs and init containers want.
        return None, "none"
    return engine, "member" if _is_member(container, command, engine) else "server"


def _by_flags(container: Container, command: Command) -> Engine | None:
    """The engine of an image that we do not know, where only one has all the flags it is given.

    Two of them have to be that engine's alone; and it holds a GPU.
    """
    given = {word.partition("=")[0] for word in command.words if word.startswith("--")}
    if len(given) < 2 or not _accelerators(container.spec):
        return None
    knows = {
        name: {flag for flag in given if grammars()[grammar].find(flag)}
        for name, grammar in _GRAMMARS.items()
    }
    whole = [name for name, known in knows.items() if known == given]
    if len(whole) != 1:
        return None
    others = set[str]().union(*(known for name, known in knows.items() if name != whole[0]))
    if len(given - others) < 2:
        return None
    return engine_called(whole[0])


def _may_start(container: Container, command: Command) -> bool:
    """Whether a command of its own may start the image's engine: a script we cannot see into, or
    anything that holds an accelerator."""
    name = command.program
    opaque = name in _OPAQUE or name.endswith((".sh", ".bash")) or "entrypoint" in name
    return opaque or bool(_accelerators(container.spec))


_RAY = frozenset({"headGroupSpec", "workerGroupSpecs"})
_OPAQUE = frozenset(
    {
        "sh", "bash", "dash", "ash", "zsh", "env", "tini", "dumb-init", "numactl", "exec", "nohup",
        "mpirun", "torchrun", "uv", "nsys", "taskset", "gosu", "su-exec",
    }
)  # fmt: skip
"""Programs that start another one, which their words may not show."""


def _is_member(container: Container, command: Command, engine: Engine) -> bool:
    if _facts().member.search(command.text.lower()):
        return True
    if engine.name == "trtllm" and container.pod.role == "worker":
        return "trtllm-llmapi-launch" in command.text and "trtllm-serve" not in command.text
    rank = command.flag("node-rank")
    if rank is None or rank == "0":
        return False
    return rank.isdigit() or container.pod.role == "worker"


def idle(container: Container, command: Command) -> bool:
    """A pause image, or a program that only waits or looks."""
    facts = _facts()
    if facts.idle_images.search(repository_of(container.image).lower()):
        return True
    return command.program in facts.idle_programs


def helps(container: Container) -> bool:
    """An image beside engines: a proxy, a router, an exporter. Its pod is ready when they are."""
    return _facts().other_image.search(repository_of(container.image).lower()) is not None


def repository_of(image: str) -> str:
    """An image reference without tag and digest."""
    name = image.partition("@")[0]
    head, separator, tail = name.rpartition(":")
    return head if separator and "/" not in tail else name


def _some(value: object) -> bool:
    amount = quantity(value)
    return amount is not None and amount > 0


def _accelerators(spec: Mapping[str, Any]) -> tuple[str, ...]:
    resources = mapping(spec.get("resources"))
    found: dict[str, None] = {}
    for side in ("limits", "requests"):
        for name, value in mapping(resources.get(side)).items():
            if is_accelerator(str(name)) and (isinstance(value, Unknown) or _some(value)):
                found[str(name)] = None
    for claim in sequence(resources.get("claims")):
        found[f"claim {mapping(claim).get('name')}"] = None
    return tuple(found)
