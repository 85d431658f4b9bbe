"""Words that reach a program as they are meant: split, quoted, expanded, of the right type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.commands import placed_words, words_of
from policies.engines import Program, repository_of
from policies.inventory import Inventory
from policies.model import Context, Path, Violation, rule
from policies.pods import Container
from policies.rayserve import brought
from policies.rules.shared import about, flag_path
from policies.secrets import names_secret
from policies.tree import is_mapping, known_items, mapping, sequence, unread
from tokenworks.catalog.commandline import (
    Gap,
    grammars,
    image_words,
    newest_version,
    repeats,
    strangers,
)

_ARGS = (
    "https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/"
)
_ENV = (
    "https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-"
    "variables/"
)
_JOINED = re.compile(r"--?[A-Za-z][\w.-]*\s+\S.*", re.DOTALL)
_QUOTED = re.compile(r"(?:--?[A-Za-z][\w.-]*=)?(['\"])(?P<text>.+)\1", re.DOTALL)
_SHELL_VARIABLE = re.compile(r"(?<!\$)\$(?:\{([A-Z_][A-Z0-9_]*)\}|([A-Z_][A-Z0-9_]*))")
_KUBERNETES = re.compile(r"(?<!\$)\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_INJECTED = re.compile(
    r"(?:LWS|RBG|RAY|TPU|KUBERNETES|JOB|JOBSET|DYN|GROVE|OPENSHIFT)_.*|.*_SERVICE_(?:HOST|PORT.*)"
    r"|.*_PORT(?:_.*)?|HOSTNAME|PATH|HOME"
)
"""Variables that controllers, Services and images bring."""


def _words(program: Program) -> Iterator[tuple[Path, str]]:
    """The words that no shell reads, and where they stand."""
    if program.line.script is not None or _starts_shell(program):
        return
    for path, word in placed_words(program.container.spec):
        yield path, str(word)


def _starts_shell(program: Program) -> bool:
    names = {word.rpartition("/")[2] for word in words_of(program.container.spec)[0][:2]}
    return not names.isdisjoint({"sh", "bash", "dash", "ash", "zsh", "eval"})


@rule(
    "argument-split",
    "error",
    "Each argument is one word",
    "A flag and its value in one list element reach the program as one word with a blank in it, "
    "which is no flag it knows; a command line in one element is a program nobody installed.",
    "Write flag and value as two elements, or as --flag=value.",
    _ARGS,
)
def argument_split(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        for path, word in _words(program):
            if path == ("command", 0) and len(word.split()) > 1 and "\n" not in word.strip():
                yield about(
                    program,
                    path,
                    f"starts a program called {word.strip()!r}, blanks included",
                    "write each word as an element of its own",
                )
            elif program.engine and program.mode != "none" and _JOINED.fullmatch(word.strip()):
                flag = word.split()[0]
                if "=" not in flag:
                    yield about(
                        program,
                        path,
                        f"gets {flag} and its value as one word",
                        f"write {flag} and the value as two elements, or as {flag}=…",
                    )


@rule(
    "shell-words",
    "error",
    "A shell gets its script in one word",
    "`sh -c` runs the next word only; the words after it become $0, $1, … of a script that does "
    "not look at them, so flags are lost without a message.",
    "Put the whole command into the one word after -c.",
    "https://pubs.opengroup.org/onlinepubs/9699919799/utilities/sh.html",
)
def shell_words(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        placed = [(path, str(word)) for path, word in placed_words(program.container.spec)]
        at = next(
            (n for n, (_, word) in enumerate(placed) if re.fullmatch(r"-[a-z]*c", word)), None
        )
        if at is None or not _starts_shell(program) or at + 2 >= len(placed):
            continue
        script, lost = placed[at + 1][1], placed[at + 2]
        if re.search(r"\$[@*0-9{#]", script) and re.search(r"\$(?:[@*0-9#]|\{[@*0-9#])", script):
            continue
        if any(word.startswith("-") for _, word in placed[at + 2 :]):
            yield about(
                program,
                lost[0],
                f"gives its shell words after the script, which are lost: {lost[1]}",
                "put them into the script",
            )


@rule(
    "entry-twice",
    "error",
    "Arguments begin where the image's entry point ends",
    "Without `command` the arguments follow the image's own first words. Saying these again gives "
    "the engine its own name as a model, or as a word that it does not know: it stops.",
    "Leave the words of the entry point out of args, or write the whole line in command.",
    "https://docs.vllm.ai/en/stable/deployment/docker.html",
)
def entry_twice(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        entry = image_words(container.image, True)
        first = next((str(w) for path, w in placed_words(container.spec) if path[0] == "args"), "")
        if container.spec.get("command") or not entry or not repeats(entry, first):
            continue
        yield about(
            program,
            ("args", 0),
            f"gets {first} after the entry point of its image: it runs {' '.join(entry)} {first} …",
            f"begin args with what comes after {' '.join(entry)}, or write it all in command",
        )


@rule(
    "argument-quotes",
    "error",
    "No argument carries its quotes along",
    "Outside a shell nobody removes quotes: they become part of the value, and the model, the path "
    "or the JSON is not found.",
    "Remove the inner quotes; YAML's own are enough.",
    _ARGS,
)
def argument_quotes(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.engines():
        for path, word in _words(program):
            match = _QUOTED.fullmatch(word.strip())
            if match and not _is_json_text(match["text"], match[1], word):
                yield about(
                    program,
                    path,
                    f"gets quotes as part of a value: {_short(word)}",
                    "remove the inner quotes",
                )


def _is_json_text(text: str, quote: str, word: str) -> bool:
    """A JSON string on purpose."""
    return quote == '"' and not word.startswith("-") and quote in text


@rule(
    "argument-json",
    "error",
    "JSON arguments are JSON",
    "Quotes that a shell or YAML took away leave text that no engine can read: it stops when it "
    "starts.",
    "Write the JSON as one YAML string in single quotes; inside a shell script, in single quotes "
    "there too.",
    "https://docs.vllm.ai/en/stable/cli/serve/",
)
def argument_json(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.engines():
        for flag, _, found in _notes(program, "JSON"):
            if flag == "limit-mm-per-prompt" or _QUOTED.fullmatch(found):
                continue
            yield about(
                program,
                flag_path(program, flag),
                f"has a --{flag} that is no JSON: {_short(found)}",
                "quote it once, with double quotes inside",
                "error" if found[:1] in "{['" else "warning",
            )


@rule(
    "flag-value",
    "error",
    "Values of flags have their type, and numbers are ones that the engine takes",
    "A number that is none, or out of its range, stops the engine when it starts; so does a value "
    "that is given to a switch.",
    "Write a value of the type and range that the engine's --help gives; leave it out after a "
    "switch.",
    "https://docs.vllm.ai/en/stable/cli/serve/",
)
def flag_value(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.engines():
        for flag, wanted, found in _notes(program, r"a (?:whole )?number.*?"):
            if re.search(r"[$<{]", found) or _QUOTED.fullmatch(found):
                continue
            yield about(
                program,
                flag_path(program, flag),
                f"has a --{flag} that is not {wanted}: {_short(found)}",
                f"give --{flag} {wanted}",
            )
        yield from _valued_switches(program)


_BY_VALUE_ONCE = frozenset({"enable-chunked-prefill", "multi-step-stream-outputs"})
"""Switches that took a value before vLLM 0.9 (StoreBoolean in vllm/engine/arg_utils.py)."""


def _valued_switches(program: Program) -> Iterator[Violation]:
    """Switches that are given a value: `--x=true`, `--x true`, `--x=$(VAR)`."""
    tag = program.container.image.partition("@")[0].rpartition(":")[2]
    version = re.match(r"v?(\d{1,9})\.(\d{1,9})", tag)
    recent = version is not None and (int(version[1]), int(version[2])) >= (0, 9)
    for note in program.line.notes:
        match = re.fullmatch(r"--([\w.-]+) takes no value, found (.*)", note, re.DOTALL)
        if match is None or (match[1] in _BY_VALUE_ONCE and not recent):
            continue
        on = match[2].lower() not in ("false", "0", "no", "off", "f")
        yield about(
            program,
            flag_path(program, match[1]),
            f"has a --{match[1]} that takes no value, and gives it {_short(match[2])}",
            f"write --{match[1]} alone" if on else f"leave --{match[1]} out",
        )


def _notes(program: Program, wanted: str) -> Iterator[tuple[str, str, str]]:
    """Flag, what it wants (a regular expression of it is given), and what was found."""
    pattern = re.compile(rf"--([\w.-]+) wants ({wanted}), found (.*)", re.DOTALL)
    for note in program.line.notes:
        match = pattern.fullmatch(note)
        if match:
            yield match[1], match[2], match[3]


@rule(
    "unknown-flag",
    "error",
    "The engine knows its flags",
    "An engine stops at a flag that it does not know: one that is misspelt, one that came later, "
    "and one that went with an older version. The pod restarts again and again, and its log says "
    "so between pages of help.",
    "Write the flag as the engine's --help of the image's version does.",
    "https://docs.vllm.ai/en/stable/cli/serve/",
)
def unknown_flag(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.engines():
        strange = {} if program.played else dict(_strangers(program))
        for name, gap in strange.items():
            if name != _drain_flag(program):  # shutdown-flag says more about it
                words, moves = _strange(program, name, gap), _moving(program) is not None
                said = "warning" if moves else None
                yield about(program, flag_path(program, name), *words, said)
        for unknown in program.line.unknown:
            name = unknown.name.replace("_", "-").partition("=")[0]
            near = [other for other in unknown.near if _typo(name, other)]
            if near and name not in strange:
                yield about(
                    program,
                    flag_path(program, name),
                    f"has a flag --{unknown.name}, which it does not know",
                    f"write --{near[0]}",
                )


def _strangers(program: Program) -> Iterator[tuple[str, Gap]]:
    """Flags that the engine's version does not know; Ray's images bring an engine of their own."""
    image, moving = program.container.image, _moving(program)
    ray = brought(image) if program.container.kind == "model" else None
    for name, found in strangers(program.line, ray.image if ray else moving or image):
        # Of a version that is at least this one: what went before it, and never came again.
        exact = ray.exact if ray else moving is None
        if exact or (found.last and not found.next):
            yield name, found


_MOVES = re.compile(r"(?P<repository>[^@]*?)(:(latest|nightly))?")


def _moving(program: Program) -> str | None:
    """The image with the newest version that we know in place of a tag that moves; None for all
    other tags. It runs that version or a newer one."""
    image = program.container.image
    match = _MOVES.fullmatch(image)
    if match is None or repository_of(image) != match["repository"]:
        return None
    version = newest_version(program.line.engine or "")
    return f"{match['repository']}:v{version.removeprefix('v')}" if version else None


def _drain_flag(program: Program) -> str | None:
    grammar = grammars().get(program.line.engine or "")
    drain = grammar.facts.get("drain") if grammar else None
    return drain["flag"] if drain else None


def _strange(program: Program, name: str, gap: Gap) -> tuple[str, str]:
    """What is said of a flag that the image's version does not know, and what to do."""
    title = program.engine.name if program.engine else "the engine"
    when = " or ".join(
        part
        for part in (
            f"it went after {gap.last}" if gap.last else "",
            f"it comes with {gap.next}" if gap.next else "",
        )
        if part
    )
    newer = " and newer" if _moving(program) else ""
    message = f"has a flag --{name}, which {title} {gap.version}{newer} does not know: {when}"
    if gap.instead:
        return message, gap.instead
    if gap.next:
        return message, f"leave --{name} out, or use an image of {gap.next} or newer"
    return message, f"leave --{name} out"


def _typo(name: str, other: str) -> bool:
    """One letter too many, too few, changed, or two letters swapped, or the same letters with
    capitals for dashes: no other word."""
    if name.lower().replace("-", "") == other.replace("-", ""):
        return name != other
    if len(name) < 6 or name == other or abs(len(name) - len(other)) > 1:
        return False
    differing = [n for n, (a, b) in enumerate(zip(name, other, strict=False)) if a != b]
    if not differing:
        return True
    first, last = differing[0], differing[-1]
    if len(name) == len(other):
        swapped = len(differing) == 2 and name[first] == other[last] and name[last] == other[first]
        return len(differing) == 1 or swapped
    longer, shorter = (name, other) if len(name) > len(other) else (other, name)
    return longer[:first] + longer[first + 1 :] == shorter


@rule(
    "unexpanded-variable",
    "error",
    "Variables are written as Kubernetes expands them",
    "Kubernetes replaces $(NAME) only. $NAME and ${NAME} reach the program as they stand, unless a "
    "shell reads them.",
    "Write $(NAME), or start the program through a shell.",
    _ENV,
)
def unexpanded(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        if container.completed or "eval" in (program.line.script or ""):
            continue
        known = container.env.keys()
        for path, word in (*_words(program), *_values(container)):
            names = [a or b for a, b in _SHELL_VARIABLE.findall(word)]
            whole = re.fullmatch(r"(--?[\w.-]+=)?\$\{?[A-Z_][A-Z0-9_]*\}?", word) is not None
            ours = whole and (program.engine is not None or path[-1] == "value")
            name = next((n for n in names if n in known or ours), None)
            if name is not None:
                yield _left(program, path, name)


def _left(program: Program, path: Path, name: str) -> Violation:
    remedy = f"write $({name})"
    itself = path[0] == "env" and name == _variable(program, path)
    if itself:
        remedy = f"write out what {name} is in the image: no variable refers to itself"
    if names_secret(name):
        remedy = "take it from a Secret: valueFrom.secretKeyRef"
    elif name not in program.container.env and not itself:
        remedy = f"write the value, or define {name} in env and write $({name})"
    return about(
        program,
        path,
        f"gets ${name} as it stands: Kubernetes expands $({name}) only",
        remedy,
    )


def _variable(program: Program, path: Path) -> str:
    """The variable whose value stands at a path of `env`."""
    entry = sequence(program.container.spec.get("env"))[int(path[1])]
    return str(mapping(entry).get("name"))


def _values(container: Container) -> Iterator[tuple[Path, str]]:
    for position, _, value in container.literals():
        yield ("env", position, "value"), value


@rule(
    "undefined-variable",
    "error",
    "Variables are defined before they are used",
    "$(NAME) stays as it stands where no variable of that name was defined before it in the list: "
    "the engine looks for a model, or a peer, that is called $(NAME).",
    "Define the variable in env, above its first use.",
    _ENV,
)
def undefined(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        # What a tool or a controller completes may get variables of what it is put together with.
        if container.pod.custom or container.open_env or container.completed:
            continue
        for path, word in _words(program):
            for name in _KUBERNETES.findall(word):
                if _absent(container, name):
                    yield _undefined(program, path, name, "defines no such variable")
        yield from _out_of_order(program)


def _absent(container: Container, name: str) -> bool:
    """Whether nobody defines a variable that is written as those are that people define."""
    return name not in container.env and not _INJECTED.fullmatch(name) and name.isupper()


def _out_of_order(program: Program) -> Iterator[Violation]:
    container = program.container
    order = [str(mapping(item).get("name")) for item in sequence(container.spec.get("env"))]
    for position, own, value in container.literals():
        path = ("env", position, "value")
        for name in _KUBERNETES.findall(value):
            if name in order and name not in order[:position] and name != own:
                yield _undefined(program, path, name, "defines it later")
            elif _absent(container, name):
                yield _undefined(program, path, name, "defines no such variable")


def _undefined(program: Program, path: Path, name: str, why: str) -> Violation:
    return about(
        program,
        path,
        f"uses $({name}) and {why}: it stays as it stands",
        f"add {name} to env, above its first use",
    )


@rule(
    "string-values",
    "error",
    "What must be text is text",
    "The API server refuses numbers and booleans in env, args, labels, annotations and the data of "
    "ConfigMaps; `yes`, `1` and `1.0` are none without quotes.",
    "Put the value in quotes.",
    "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container",
)
def string_values(inventory: Inventory, _context: Context) -> Iterator[Violation]:
    for program in inventory.programs:
        container = program.container
        for path, value in _typed(container):
            if not isinstance(value, str) and value is not None:
                yield about(
                    program,
                    path,
                    f"has {_shown(value)} where text must be",
                    f'write "{_shown(value)}"' if not isinstance(value, dict) else "write text",
                )
    for index, manifest in enumerate(inventory.objects):
        for path, value in _texts(manifest):
            yield Violation(
                index, path, f"holds {_shown(value)} where text must be", f'write "{_shown(value)}"'
            )


def _typed(container: Container) -> Iterator[tuple[Path, Any]]:
    yield from placed_words(container.spec)
    for position, item in known_items(container.spec.get("env")):
        if "value" in mapping(item):
            yield ("env", position, "value"), unread(item, "value")


def _texts(manifest: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    places: list[Path] = [("metadata", "labels"), ("metadata", "annotations")]
    if manifest.get("kind") in ("ConfigMap", "Secret") and manifest.get("apiVersion") == "v1":
        places += [("data",), ("stringData",)]
    for place in places:
        value: Any = manifest
        for part in place:
            value = mapping(value).get(str(part))
        for name, text in known_items(mapping(value)):
            if isinstance(text, bool | int | float):
                yield (*place, name), text


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _short(str(value)) if not is_mapping(value) else "a map"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


ALL = (
    argument_split, shell_words, entry_twice, argument_quotes, argument_json, flag_value,
    unknown_flag, unexpanded, undefined, string_values,
)  # fmt: skip
