"""Broken texts, for as long as one likes: `check` ends with findings, never with an error.

    .venv/bin/python -m tests.check.fuzz --seconds 600      (make fuzz)

Good manifests are cut, mixed and spoilt by chance. Each text is checked whole and reported in
every format; where the quick reader takes it, the careful one has to read the same objects. What
fails is printed with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import json
import random
import time
import traceback
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from policies import Context
from tokenworks.check import read
from tokenworks.check.jsonstream import is_json, split
from tokenworks.check.report import FORMATS
from tokenworks.check.run import check_paths
from tokenworks.spec.yamlshares import cut, read_parts

CORPUS: Final = Path(__file__).parents[1] / "policies/corpus"
SLOW: Final = 30.0
"""Seconds for one text of a few hundred lines: nothing that ends takes as long."""
_WORDS: Final = (
    "&a", "*a", "<<: *a", "!!binary", "!x", "---", "...", "%YAML 1.1", "|", ">-", "? ", "- ", ": ",
    "{", "}", "[", "]", "'", '"', "#", "\t", "\r\n", "\ufeff", "\0", "\u2028", "é", "😀",
    "<<<<<<< a", ">>>>>>> b", "{{ .Values.x }}", "null", "~", "yes", "0o17", "1e400", "-.inf",
    ".nan", "1_0", "12:30:45", "2026-11-30", "99999999999999999999", "-1", "", "a" * 3000,
    "[" * 300, "- " * 300,
    "kind: List\nitems:", "apiVersion: 1", "containers: 3", "env: x", "args: {a: b}",
    "command: [[a]]", "image: null", "resources: {limits: [1]}", "ports: [x]", "$(A)",
    "${A:-$(b)}", "`id`", "&&", "\\", r'name: "a\n::error::b\e[31m"', r'image: "a\u2028b"',
)  # fmt: skip

Change = Callable[[random.Random, list[str]], list[str]]


def _drop(chance: random.Random, lines: list[str]) -> list[str]:
    start = chance.randrange(len(lines))
    return lines[:start] + lines[start + chance.randint(1, 4) :]


def _repeat(chance: random.Random, lines: list[str]) -> list[str]:
    start = chance.randrange(len(lines))
    part = lines[start : start + chance.randint(1, 8)]
    return lines[:start] + part + lines[start:]


def _indent(chance: random.Random, lines: list[str]) -> list[str]:
    at = chance.randrange(len(lines))
    blanks = chance.choice(("", " ", "  ", "    ", "\t"))
    return [*lines[:at], blanks + lines[at].lstrip(), *lines[at + 1 :]]


def _insert(chance: random.Random, lines: list[str]) -> list[str]:
    at = chance.randrange(len(lines))
    place = chance.randint(0, len(lines[at]))
    word = chance.choice(_WORDS)
    return [*lines[:at], lines[at][:place] + word + lines[at][place:], *lines[at + 1 :]]


def _replace(chance: random.Random, lines: list[str]) -> list[str]:
    at = chance.randrange(len(lines))
    key = lines[at].partition(":")[0]
    return [*lines[:at], f"{key}: {chance.choice(_WORDS)}", *lines[at + 1 :]]


def _swap(chance: random.Random, lines: list[str]) -> list[str]:
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    mixed = list(lines)
    mixed[a], mixed[b] = mixed[b], mixed[a]
    return mixed


_CHANGES: Final[Sequence[Change]] = (_drop, _repeat, _indent, _insert, _insert, _replace, _swap)


def text(seed: int, sources: Sequence[str]) -> bytes:
    """One broken text; the same for the same seed and sources."""
    chance = random.Random(seed)
    lines = chance.choice(sources).split("\n")
    if chance.random() < 0.2:
        other = chance.choice(sources).split("\n")
        lines = lines[: chance.randrange(len(lines))] + other[chance.randrange(len(other)) :]
    for _ in range(chance.randint(1, 6)):
        lines = chance.choice(_CHANGES)(chance, lines or [""])
    made = "\n".join(lines).encode("utf-8", "surrogatepass")
    if chance.random() < 0.1 and made:
        at = chance.randrange(len(made))
        made = made[:at] + bytes([chance.randrange(256)]) + made[at + 1 :]
    return made


def _manifests(part: Any) -> list[Any]:
    return [item.manifest for item in part.objects]


def wrong(data: bytes) -> str | None:
    """What a text shows to be wrong with the reader or the rules; None for nothing."""
    begun = time.monotonic()
    try:
        report = check_paths(["-"], BytesIO(data), Context(profile="strict"))
        for name, form in FORMATS.items():
            if not all(line.isprintable() for line in form(report).splitlines()):
                return f"a value breaks out of its line in the format {name}"
        words = read._text(data)  # pyright: ignore[reportPrivateUsage]
        if isinstance(words, str) and is_json(words):
            words = (split(words) or (words,))[0]
        if isinstance(words, str):
            look = read._look  # pyright: ignore[reportPrivateUsage]
            whole, cut_up = (
                read_parts(cut(words, size), look) for size in (len(words) + 1, len(words) // 5 + 1)
            )
            if repr(whole) != repr(cut_up):
                return "what is read in parts is not what is read at once"
            quick = read._of_data("-", words, whole or ())  # pyright: ignore[reportPrivateUsage]
            if quick is not None:
                careful = read._of_nodes("-", words, named=True)  # pyright: ignore[reportPrivateUsage]
                if repr(_manifests(quick)) != repr(_manifests(careful)):
                    return "the quick reader and the careful one read different objects"
    except Exception:
        return traceback.format_exc()
    taken = time.monotonic() - begun
    return f"took {taken:.0f} s" if taken > SLOW else None


def texts() -> list[str]:
    """The good manifests as they stand, and as JSON: a document a line, and a pretty one."""
    found = [file.read_text("utf-8") for file in sorted(CORPUS.iterdir())]
    for file in sorted(CORPUS.iterdir()):
        objects = [item.manifest for item in read.read_paths([str(file)], BytesIO()).objects]
        found.append("\n".join(map(json.dumps, objects)))
        found.append("\n".join(json.dumps(item, indent=2) for item in objects))
    return found


def main() -> int:
    """Check broken texts until the time is over; 1 when one of them shows a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="the first text's; each has the next")
    asked = parser.parse_args()
    sources = texts()
    end, seed, faults = time.monotonic() + asked.seconds, asked.seed, 0
    while time.monotonic() < end:
        if (why := wrong(text(seed, sources))) is not None:
            faults += 1
            print(f"seed {seed}: {why}", flush=True)
        seed += 1
    print(f"{seed - asked.seed} texts in {asked.seconds:.0f} s, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
