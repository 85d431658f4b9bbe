"""The one reader of engine command lines: what a container starts, with which flags.

    line = read(["sh", "-c"], ["exec vllm serve meta/llama -tp 8"], {})
    line.engine, line.form, line.model, line.value("tensor-parallel-size")
    world(line).ranks

Every spelling that an engine accepts gives the same result: `--x 2`, `--x=2`, `-tp 2`, `--x_y`,
`--no-x`, JSON whole or in pieces, through `$(VAR)`, inside a shell script, behind `env`, `mpirun`
or `python -m`. A value that is not written down is `Unresolved`, never guessed. Reading never
fails. Standard library alone, for the policies import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from tokenworks.catalog.flags import (
    Flag,
    Flags,
    Grammar,
    UnknownFlag,
    Unresolved,
    Value,
    convert,
    grammars,
    read_flags,
)
from tokenworks.catalog.lifetimes import Gap, gap, newest, tag_of
from tokenworks.catalog.shell import (
    SHELLS,
    Statement,
    Word,
    base_name,
    expand,
    script_of,
    statements,
)

Form = Literal["server", "member", "ray-head", "ray-worker", "launcher", "other", "none"]
"""server: answers HTTP, or may; member: a rank that does not; ray-…: only joins a Ray cluster;
launcher: waits for the ranks that another pod starts; other: something else; none: no words."""

WRAPPERS = frozenset(
    {
        "exec", "env", "nohup", "nice", "time", "command", "sudo", "stdbuf", "numactl", "tini",
        "dumb-init", "timeout", "taskset", "catchsegv", "mpirun", "mpiexec", "srun", "torchrun",
        "nsys", "uv", "setsid", "chrt", "gosu", "su-exec", "entrypoint.sh", "eval", "jemalloc.sh",
        "nvidia_entrypoint.sh", "trtllm-llmapi-launch", "accelerate", "unbuffer", "rlwrap",
        "source", "conda", "micromamba", "mamba", "catatonit", "docker-init", "ionice", "prlimit",
        "setpriv", "runuser", "chroot", "hwloc-bind", "opentelemetry-instrument", "ddtrace-run",
        "newrelic-admin", "ncu", "compute-sanitizer", "rocprof", "rocprofv2", "rocprofv3",
        "strace", "perf", "valgrind", "gdb", "py-spy", "memray", "viztracer", "scalene", "poetry",
        "pipenv", "pdm", "hatch", "rye", "pixi", "uvx", "deepspeed", "xvfb-run", "with-contenv",
        "doppler", "infisical", "chamber", "dotenv", "vault-env", "envconsul", "dockerize",
    }
)  # fmt: skip
"""Programs that start the one that follows; what else they take is passed over."""
_ELSEWHERE = frozenset(
    {"kubectl", "oc", "ssh", "docker", "podman", "nerdctl", "crictl", "helm", "echo", "printf",
     "grep", "pgrep", "pkill", "pip", "pip3", "apt-get", "git"}
)  # fmt: skip
"""Programs whose words behind `--` start nothing in this container."""
_PYTHON = re.compile(r"(python|pypy)[0-9.]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_GROUP_SCRIPT = re.compile(r"multi-node-serving\.sh$|run_cluster\.sh$")
PLAYS = "--as"
"""What makes our simulator play another engine: `simulator --as vllm -- ARGUMENTS`."""
_DEEPEST = 5
"""Shells within shells that are followed."""


@dataclass(frozen=True)
class CommandLine:
    """What a container starts."""

    engine: str | None
    """Name in the catalog; None where it starts none that we know."""
    form: Form
    words: tuple[str, ...]
    """Every word, those of a script included; positions count in here."""
    program: tuple[str, ...] = ()
    """The words that start the engine, such as ("vllm", "serve")."""
    model: str | Unresolved | None = None
    """The weights it names; None where it names none."""
    flags: Mapping[str, Flag] = field(default_factory=dict[str, Flag])
    """By name in the catalog."""
    unknown: tuple[UnknownFlag, ...] = ()
    script: str | None = None
    """The text given to `sh -c`; None without a shell."""
    env: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Variables of the program; None where the value is not written down."""
    notes: tuple[str, ...] = ()
    """What is odd, for people."""
    filed: tuple[str, ...] = ()
    """Words of the file of options that it names, which count as its own; the flag that names it
    is then none of `flags`."""

    def value(self, name: str) -> Value | None:
        """Value of a flag; None when it is not given."""
        flag = self.flags.get(name)
        return None if flag is None else flag.value


@dataclass(frozen=True)
class _Found:
    """A statement that starts an engine."""

    grammar: Grammar
    program: tuple[str, ...]
    rest: tuple[Word, ...]
    """The words behind the program."""
    position: int
    """Position of the first of them."""
    env: Mapping[str, str | None]
    launched: bool
    """By something that starts several ranks."""


def read(
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    image: str = "",
    open_env: bool = False,
    *,
    options: Mapping[str, Sequence[str]] | None = None,
) -> CommandLine:
    """The command line of a container.

    `env`: its variables, None for a value from elsewhere. `image`: what starts by itself when
    `command` is absent. `open_env`: there are more variables than `env` holds. `options`: files
    that `--config` may name, by path, as the words that they stand for.
    """
    variables = dict(env or {})
    own = [expand(word, variables) for word in (*command, *args)]
    if not command:
        entry = image_words(image, bool(args))
        while own and entry and repeats(entry, own[0].text):
            own = own[1:]  # said twice: what is meant is read, and policies object
        own = [*(Word(word) for word in entry), *own]
    parts, script, words = _parts(own, variables, open_env)
    texts = tuple(word.text for word in words)
    found = next(_engines(parts, variables), None)
    if found is None:
        return CommandLine(None, _form_without(parts, texts), texts, script=script, env=variables)
    return _line(found, texts, script, options or {})


def read_container(container: Mapping[str, Any]) -> CommandLine:
    """The command line of a container as Kubernetes writes it; malformed parts read as absent."""
    env: dict[str, str | None] = {}
    for item in _sequence(container.get("env")):
        entry = _mapping(item)
        if "name" in entry:
            value = None if "valueFrom" in entry else _plain(entry.get("value"))
            env[str(entry["name"])] = None if value is None else expanded(value, env)
    return read(
        [str(word) for word in _sequence(container.get("command"))],
        [str(word) for word in _sequence(container.get("args"))],
        env,
        str(container.get("image") or ""),
        bool(container.get("envFrom")),
    )


def expanded(value: str, before: Mapping[str, str | None]) -> str:
    """The value of a variable with those defined before it in their places, as Kubernetes puts
    them there; as it stands where one of them is not known."""
    word = expand(value, before)
    return value if word.unknown else word.text


def newest_version(engine: str) -> str | None:
    """The newest version whose flags are known; None where those of no version are."""
    return newest(engine)


def strangers(line: CommandLine, image: str) -> Iterator[tuple[str, Gap]]:
    """The flags, without dashes in front, that the engine's version in an image does not know.

    A command line is read with a grammar of many versions; the image's tag says which one runs it.
    Nothing where that is not known.
    """
    grammar, tag = grammars().get(line.engine or ""), tag_of(line.engine or "", image)
    if grammar is None or tag is None:
        return
    given = (*line.flags.values(), *line.unknown)
    positions = sorted({f.position for f in given if f.position is not None})
    for text in (*(line.words[position] for position in positions), *line.filed):
        word = text.partition("=")[0].partition(".")[0]
        name = grammar.dashed(word[2:])
        found = gap(grammar.engine, name, tag) if word.startswith("--") else None
        if found is not None:
            yield name, found


def _sequence(value: object) -> Sequence[Any]:
    return cast(Sequence[Any], value) if isinstance(value, list | tuple) else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _plain(value: object) -> str:
    return "" if value is None else str(value)


def image_words(image: str, with_args: bool) -> tuple[str, ...]:
    """What an image of the catalog starts when the container gives no command."""
    name = image.partition("@")[0]
    head, separator, tail = name.rpartition(":")
    repository = head if separator and "/" not in tail else name
    for grammar in grammars().values():
        for item in grammar.facts["images"]:
            if f"/{repository}".endswith("/" + item["repository"]):
                return (*item["entrypoint"], *(() if with_args else item["cmd"]))
    return ()


def repeats(entry: Sequence[str], word: str) -> bool:
    """Whether an argument says a word of the entry point again, that stands in front of it."""
    return base_name(word) in {base_name(known) for known in entry if not known.startswith("-")}


# --- from words to statements --------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A statement, and the position of its first word."""

    statement: Statement
    position: int


def _parts(
    words: Sequence[Word], env: Mapping[str, str | None], open_env: bool
) -> tuple[list[_Part], str | None, list[Word]]:
    """Statements, the outermost script, and every word."""
    flat: list[Word] = []
    parts = list(_flatten([Statement(tuple(words))] if words else [], env, open_env, flat, 0))
    script = shell_in(words)
    return parts, script[1][1].text if script else None, flat


def _flatten(
    found: Sequence[Statement],
    env: Mapping[str, str | None],
    open_env: bool,
    flat: list[Word],
    level: int,
) -> Iterator[_Part]:
    """Statements with those inside `sh -c` in their place."""
    for statement in found:
        inner = _inner(statement.words) if level < _DEEPEST else None
        if inner is None:
            yield _Part(statement, len(flat))
            flat.extend(statement.words)
            continue
        script, given = inner
        values = {**env, **{name: _known(word) for name, word in statement.env.items()}}
        below = [_handed(part, given) for part in statements(script, values, open_env)]
        yield from _flatten(below, values, open_env, flat, level + 1)


def _handed(statement: Statement, given: Sequence[Word]) -> Statement:
    """With `"$@"` as the words that the shell was given."""
    parts = [given if word.unknown == ("$@",) else (word,) for word in statement.words]
    return replace(statement, words=tuple(word for part in parts for word in part))


def _inner(words: Sequence[Word]) -> tuple[str, Sequence[Word]] | None:
    """The script that a statement gives to a shell, wrappers in front of it or not, and what
    the script gets as `"$@"`: the words after the one that is its name."""
    found = shell_in(words)
    if found is not None:
        position, (at, script) = found
        return script.text, words[position + at + 2 :]
    if [base_name(word.text) for word in words[:1]] == ["env"]:
        # `env -S "PROGRAM WORD …"` splits its argument.
        for position, word in enumerate(words[1:], start=1):
            if word.text in ("-S", "--split-string") and position + 1 < len(words):
                return f'{words[position + 1].text} "$@"', words[position + 2 :]
    return None


def shell_in(words: Sequence[Word]) -> tuple[int, tuple[int, Word]] | None:
    """Position of the shell that a statement starts, behind wrappers or not, with what
    `script_of` says of it; None where it starts none with a script."""
    for position, word in enumerate(words):
        script = script_of(words[position:])
        if script is not None:
            return position, script
        if position == 0 and base_name(word.text) not in WRAPPERS and _ended(words) is None:
            return None
    return None


def is_shell(program: str) -> bool:
    """Whether a word starts a shell."""
    return base_name(program) in SHELLS


def _ended(words: Sequence[Word]) -> int | None:
    """Position of the `--` behind which a program gets the one that it starts."""
    if base_name(words[0].text) in _ELSEWHERE:
        return None
    return next((n for n, word in enumerate(words) if word.text == "--"), None)


def _known(word: Word) -> str | None:
    return None if word.unknown else word.text


# --- from statements to a program ----------------------------------------------


def _engines(parts: Sequence[_Part], env: Mapping[str, str | None]) -> Iterator[_Found]:
    for part in parts:
        words = part.statement.words
        own = {**env, **{name: _known(word) for name, word in part.statement.env.items()}}
        for at in _candidates(words):
            found = _start(words, at)
            if found is None:
                continue
            grammar, length = found
            wrapped = [word.text for word in words[:at]]
            yield _Found(
                grammar,
                tuple(word.text for word in words[at : at + length]),
                words[at + length :],
                part.position + at + length,
                {**own, **_assigned(words[:at])},
                any(base_name(word) in _LAUNCHERS for word in wrapped),
            )
            break


_LAUNCHERS = frozenset({"mpirun", "mpiexec", "srun", "torchrun", "trtllm-llmapi-launch"})


def _candidates(words: Sequence[Word]) -> Sequence[int]:
    """Where an engine may start: at the front, as the script of a Python, behind `--`, or
    anywhere behind a wrapper."""
    if not words:
        return ()
    first = base_name(words[0].text)
    if first in WRAPPERS or _assigned(words[:1]):
        return range(len(words))
    if _PYTHON.fullmatch(first):
        return (0, 1 + _python_options(words, 1))
    ended = _ended(words)
    return (0,) if ended is None else (0, ended + 1)


def _assigned(words: Sequence[Word]) -> dict[str, str | None]:
    """`NAME=value` words, as `env` takes them."""
    matches = ((word, _ASSIGNMENT.fullmatch(word.text)) for word in words)
    return {m[1]: None if word.unknown else m[2] for word, m in matches if m}


def _start(words: Sequence[Word], at: int) -> tuple[Grammar, int] | None:
    for grammar in grammars().values():
        for start in grammar.facts["starts"]:
            length = _matches(words, at, start["words"])
            if length is None:
                continue
            after = words[at + length].text if at + length < len(words) else ""
            if after in start["but"]:
                return None
            return _played(grammar, length + (after in start["skip"]), words[at:])
    return None


def _played(grammar: Grammar, length: int, words: Sequence[Word]) -> tuple[Grammar, int] | None:
    """The engine whose place our simulator takes, with that engine's own command line behind
    `--as ENGINE --`; None for a part that is no engine, such as Ray."""
    after = [word.text for word in words[length : length + 3]]
    if grammar.engine != "simulator" or after[:1] != [PLAYS]:
        return grammar, length
    engine = grammars().get(after[1]) if len(after) > 1 else None
    if engine is None:
        return None
    length += 2 + (after[2:] == ["--"])
    # Its command's second word may be said too: `simulator --as vllm -- serve MODEL`.
    seconds = {start["words"][1] for start in engine.facts["starts"] if len(start["words"]) == 2}
    said = length < len(words) and words[length].text in seconds
    return engine, length + said


def _matches(words: Sequence[Word], at: int, pattern: Sequence[str]) -> int | None:
    """How many words the pattern covers; None where it does not fit."""
    if at >= len(words):
        return None
    python = pattern[0] == "python"
    if not python and base_name(words[at].text) != pattern[0]:
        return None
    length = _module(words, at, pattern[2]) if python else 1
    if length is None:
        return None
    wanted = list(pattern[3 if python else 1 :])
    rest = [word.text for word in words[at + length : at + length + len(wanted)]]
    return length + len(rest) if rest == wanted else None


def _module(words: Sequence[Word], at: int, module: str) -> int | None:
    """How many words run a Python module: `python -m MODULE`, `python …/MODULE.py`, or `-m MODULE`
    behind a launcher that is a Python itself."""
    length = 0
    if _PYTHON.fullmatch(base_name(words[at].text)):
        length = 1 + _python_options(words, at + 1)
    elif at == 0:
        return None
    texts = [word.text for word in words[at + length : at + length + 2]]
    if texts[:1] in (["-m"], ["--module"]) and texts[1:] == [module]:
        return length + 2
    script = texts[0] if length and texts and "." in module else ""
    named = script.endswith(".py") and f".{script[:-3].replace('/', '.')}".endswith(f".{module}")
    return length + 1 if named else None


def _python_options(words: Sequence[Word], at: int) -> int:
    """How many of Python's own options stand before `-m`."""
    count = 0
    while at + count < len(words) and re.fullmatch(r"-[^m].*", words[at + count].text):
        count += 2 if words[at + count].text in ("-X", "-W") else 1
    return count


def _form_without(parts: Sequence[_Part], words: tuple[str, ...]) -> Form:
    """What a command line is that starts no engine."""
    for part in parts:
        texts = [word.text for word in part.statement.words]
        names = [base_name(text) for text in texts]
        if "ray" in names and "start" in names[names.index("ray") :]:
            return "ray-head" if "--head" in texts else "ray-worker"
        script = next((i for i, name in enumerate(names) if _GROUP_SCRIPT.search(name)), None)
        if script is not None:
            leads = "leader" in texts[script:] or "--head" in texts[script:]
            return "ray-head" if leads else "ray-worker"
        if "trtllm-llmapi-launch" in names:
            return "launcher"
    return "other" if words else "none"


# --- from a program to its line ------------------------------------------------


def _line(
    found: _Found,
    words: tuple[str, ...],
    script: str | None,
    options: Mapping[str, Sequence[str]],
) -> CommandLine:
    grammar = found.grammar
    read_ = read_flags(grammar, found.rest, found.position)
    env = {**grammar.facts["imageEnv"], **found.env}
    filed, more = _from_file(grammar, read_, options)
    flags = {**_from_variables(grammar, env), **more.given, **read_.given}
    if filed:
        del flags["config"]
    model, notes = _model(grammar, read_, flags, found.position)
    form: Form = "member" if _is_member(grammar, flags) else "server"
    return CommandLine(
        grammar.engine,
        form,
        words,
        found.program,
        model,
        flags,
        (*read_.unknown, *more.unknown),
        script,
        env,
        (*read_.notes, *more.notes, *notes, *_remarks(found, flags)),
        filed,
    )


_CONFIGURED = frozenset({"vllm", "sglang"})
"""Engines whose `--config` names a YAML file of flags, that the command line overrules."""


def _from_file(
    grammar: Grammar, read_: Flags, options: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], Flags]:
    """The words of the file that the command line names, and its flags; none where it is not
    read."""
    named = read_.given.get("config") if grammar.engine in _CONFIGURED else None
    words = tuple(options.get(str(named.value), ())) if named is not None else ()
    found = read_flags(grammar, [Word(word) for word in words])
    place = (named.position if named is not None else None) or 0
    given = {name: replace(flag, position=None) for name, flag in found.given.items()}
    unknown = tuple(replace(flag, position=place) for flag in found.unknown)
    return words, replace(found, given=given, unknown=unknown)


def _from_variables(grammar: Grammar, env: Mapping[str, str | None]) -> dict[str, Flag]:
    found: dict[str, Flag] = {}
    for option in grammar.variables:
        variable = option.env or ""
        if variable not in env:
            continue
        raw = env[variable]
        word = Word(f"${variable}", (variable,)) if raw is None else Word(raw)
        value = convert(option, word)[0]
        if option.type == "flag" and not isinstance(value, Unresolved):
            value = str(raw).lower() in ("1", "true", "on", "yes")
        found[option.name] = Flag(option.name, value, word.text, None)
    return found


def _model(
    grammar: Grammar, read_: Flags, flags: Mapping[str, Flag], start: int
) -> tuple[str | Unresolved | None, list[str]]:
    """The weights, and remarks about words that belong to nothing."""
    notes: list[str] = []
    extra = list(read_.extra)
    named = flags.get(grammar.facts["weightsFlag"] or "model")
    model = named.value if named is not None else None
    if grammar.facts["weights"] == "argument" and extra:
        position, first = extra[0]
        # Right behind the program only the weights make sense; later they may be a stray word.
        if position == start or (named is None and not _loose(first)):
            model = _value(first)
            extra = extra[1:]
    for _, word in extra:
        what = "may hold more flags" if _loose(word) else "belongs to no flag"
        notes.append(f"{word.text} {what}")
    if isinstance(model, list):
        model = str(model[0]) if model else None
    return (model if isinstance(model, Unresolved) or model is None else str(model)), notes


def _loose(word: Word) -> bool:
    """A variable of unknown value that can be several words, or none: an unquoted one, an array."""
    if not word.unknown:
        return False
    several = re.fullmatch(r"\$[@*]|\$\{(?:[@*]|\w+\[[@*]\])[^}]*\}", word.text) is not None
    return several or (word.bare and re.fullmatch(r"\$\{?\w+\}?", word.text) is not None)


def _value(word: Word) -> str | Unresolved:
    return Unresolved(word.text, word.unknown) if word.unknown else word.text


def _is_member(grammar: Grammar, flags: Mapping[str, Flag]) -> bool:
    parallel = grammar.facts["parallel"]
    headless = flags.get(parallel["headless"] or "")
    if headless is not None:
        return headless.value is not False
    if parallel["headless"]:
        return False
    rank = flags.get(parallel["nodeRank"] or "")
    return rank is not None and isinstance(rank.value, int) and rank.value > 0


def _remarks(found: _Found, flags: Mapping[str, Flag]) -> Iterator[str]:
    config = flags.get("config")
    if config is not None:
        yield f"more options are in {config.value}, which is not read here"
    for word in found.rest:
        if re.search(r"\$\{?[A-Za-z_]", word.text) and not word.unknown:
            yield f"{word.text} is passed as it stands: only a shell expands it"


# --- how many GPUs --------------------------------------------------------------

Size = int | Unresolved


@dataclass(frozen=True)
class World:
    """Sizes of a replica's parallelism; absent flags count as the engine's default."""

    tp: Size
    pp: Size
    cp: Size
    """Context parallelism that takes GPUs of its own."""
    dp: Size
    dp_local: Size
    """Data ranks of this pod."""
    nodes: Size
    ep: Size
    """Ranks that share the experts; 1 without expert parallelism."""
    shared: bool
    """Data ranks use the tensor ranks' GPUs."""
    spread: bool
    """Ray or MPI places ranks: how many share a pod is not in this command line."""

    @property
    def ranks(self) -> Size:
        """GPUs of the whole replica."""
        return product(self.tp, self.pp, self.cp, 1 if self.shared else self.dp)

    @property
    def ranks_per_pod(self) -> Size | None:
        """GPUs of this pod; None where something else places them."""
        if self.spread:
            return None
        if isinstance(self.nodes, Unresolved) and self.nodes == self.pp:
            # One stage a pod, however many there are.
            return product(self.tp, self.cp, 1 if self.shared else self.dp)
        if isinstance(self.nodes, Unresolved) or self.nodes > 1:
            return quotient(self.ranks, self.nodes)
        return product(self.tp, self.pp, self.cp, 1 if self.shared else self.dp_local)


def product(*sizes: Size) -> Size:
    """The sizes multiplied; unresolved if one of them is."""
    result = 1
    for size in sizes:
        if isinstance(size, Unresolved):
            return size
        result *= size
    return result


def quotient(size: Size, by: Size) -> Size:
    """The size divided, rounded up; unresolved if one of them is."""
    if isinstance(size, Unresolved):
        return size
    return by if isinstance(by, Unresolved) else -(-size // max(by, 1))


def world(line: CommandLine, gpus: int | None = None) -> World | None:
    """How a command line spreads over GPUs; None for engines that do not.

    `gpus`: those of its container, which some engines take unasked; None: not known.
    """
    grammar = grammars().get(line.engine or "")
    if grammar is None or not any(grammar.facts["parallel"].values()):
        return None
    names: Mapping[str, str | None] = grammar.facts["parallel"]
    tp, pp, cp, dp, nodes = (
        _size(line, names[key]) for key in ("tensor", "pipeline", "context", "data", "nodes")
    )
    if grammar.facts["spreads"] and names["tensor"] not in line.flags:
        tp = _all_or_one(line, grammar.facts["spreads"], gpus)
    shared = names["dataWithinTensor"] in line.flags
    per_rank = product(tp, pp, cp)
    return World(
        tp,
        pp,
        cp,
        dp,
        _local(line, names, dp, nodes, per_rank),
        nodes,
        _experts(line, names["expert"], product(tp, 1 if shared else dp, cp)),
        shared,
        _is_spread(line),
    )


def _size(line: CommandLine, name: str | None) -> Size:
    value = line.value(name) if name else None
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int | Unresolved):
        return Unresolved(str(value), ())
    return value


def _all_or_one(line: CommandLine, switch: str, gpus: int | None) -> Size:
    """Tensor ranks of an engine that takes every GPU it sees unless it is told not to."""
    value = line.value(switch)
    if value is False:
        return 1
    return gpus if gpus and value in (None, True) else Unresolved("all GPUs", ())


def _local(
    line: CommandLine, names: Mapping[str, str | None], dp: Size, nodes: Size, per_rank: Size
) -> Size:
    if names["dataRank"] in line.flags:
        return 1
    if names["dataLocal"] in line.flags:
        return _size(line, names["dataLocal"])
    if isinstance(nodes, int) and nodes <= 1:
        return dp
    # Ranks are dealt out evenly, at least one to each pod.
    here = quotient(product(dp, per_rank), nodes)
    if isinstance(here, Unresolved) or isinstance(per_rank, Unresolved):
        return here if isinstance(here, Unresolved) else per_rank
    return max(here // max(per_rank, 1), 1)


def _experts(line: CommandLine, name: str | None, all_ranks: Size) -> Size:
    value = line.value(name) if name else None
    if value is True:
        return all_ranks
    if value is None or value is False:
        return 1
    return _size(line, name)


def _is_spread(line: CommandLine) -> bool:
    by_ray = "ray" in (
        line.value("distributed-executor-backend"),
        line.value("data-parallel-backend"),
    )
    launched = any(base_name(word) in _LAUNCHERS for word in line.words)
    return by_ray or launched
