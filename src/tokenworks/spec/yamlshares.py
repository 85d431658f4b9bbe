"""Large YAML texts, read by as many processes as there are processors.

A line that begins with `---` ends a document wherever it stands, inside quotes and block text
too (YAML 1.2.2, 9.1.2: such a line cannot be content), so a text can be cut there, and its
parts be read apart. What is read is what `yamldata` reads of the whole text.
"""

from __future__ import annotations

import marshal
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from tokenworks.spec.yamldata import Data, Document, read_data

Look = Callable[[Data], int]
"""Says something about what a document holds, where it is read."""
Told = tuple[Document, int]
"""A document, and what was said of it."""

_LEAST: Final = 1 << 20
"""Characters from which on another process is worth its start."""
_MOST: Final = 8
_MARKER: Final = re.compile(r"^---(?=[ \t\n]|\Z)", re.MULTILINE)
_FORBIDS: Final = ("%", "...")
"""Begin lines that belong to the document after or before them: directives, ends of documents."""


@dataclass(frozen=True)
class Part:
    """Some documents of a text."""

    text: str
    before: int
    """Lines of the whole text before it."""


def cut(text: str, size: int) -> list[Part]:
    """A text in parts of about so many characters, each of whole documents."""
    if len(text) < 2 * size or any(text.startswith(s) or f"\n{s}" in text for s in _FORBIDS):
        return [Part(text, 0)]
    parts: list[Part] = []
    start = before = 0
    while len(text) - start >= 2 * size and (found := _MARKER.search(text, start + size)):
        parts.append(Part(text[start : found.start()], before))
        before += text.count("\n", start, found.start())
        start = found.start()
    return [*parts, Part(text[start:], before)]


def read_all(
    texts: Sequence[str], look: Look, processes: int | None = None
) -> list[list[Told] | None]:
    """The documents of each text; None for one that `yamlsource` must read.

    Args:
        texts: what files say.
        look: is asked about each document, in the process that reads it.
        processes: how many read at most; None: as many as pay here.
    """
    total = sum(map(len, texts))
    most = (_allowed() if total >= 2 * _LEAST else 1) if processes is None else processes
    size = max(total // most, 1)
    parts = [cut(text, size) if most > 1 else [Part(text, 0)] for text in texts]
    shares = _shares(list(chain.from_iterable(parts)), most)
    read = chain.from_iterable(_read_shares(shares, look))
    return [_joined([next(read) for _ in mine]) for mine in parts]


def read_parts(parts: Sequence[Part], look: Look) -> list[Told] | None:
    """The documents of a text that was cut, all read here; None where `yamlsource` must read it."""
    return _joined(_told(_read_share(parts, look)))


def _allowed() -> int:
    """Processes that may read at once: a fork needs Linux, and a process without other threads."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    if sys.platform != "linux" or not alone:
        return 1
    return min(len(os.sched_getaffinity(0)), _MOST)


def _shares(parts: Sequence[Part], most: int) -> list[list[Part]]:
    """The parts in their order, in so many shares of about the same size; none is empty."""
    total, shares, done = sum(len(part.text) for part in parts), list[list[Part]](), 0
    for part in parts:
        # The middle of a part decides whose it is.
        place = (done + len(part.text) / 2) * most // max(total, 1)
        while len(shares) <= place:
            shares.append([])
        shares[-1].append(part)
        done += len(part.text)
    return [share for share in shares if share]


def _joined(read: Sequence[list[Told] | None]) -> list[Told] | None:
    """What the parts of one text hold; None where one of them must be read with care."""
    whole: list[Told] = []
    for told in read:
        if told is None:
            return None
        whole += told
    return whole


# --- one share -----------------------------------------------------------------

_Plain = tuple[Any, tuple[int, int], int, int, int]
"""A document as it comes from another process."""


def _read_share(share: Sequence[Part], look: Look) -> list[list[_Plain] | None]:
    return [_read_part(part, look) for part in share]


def _read_part(part: Part, look: Look) -> list[_Plain] | None:
    documents = read_data(part.text)
    if documents is None:
        return None
    n = part.before
    return [
        (d.data, (d.place[0] + n, d.place[1]), d.first + n, d.after + n, look(d.data))
        for d in documents
    ]


def _told(read: Sequence[list[_Plain] | None]) -> list[list[Told] | None]:
    return [None if part is None else [(Document(*d[:4]), d[4]) for d in part] for part in read]


@dataclass(frozen=True)
class _Helper:
    """A process that reads a share."""

    process: BaseProcess
    end: Connection


def _read_shares(shares: Sequence[Sequence[Part]], look: Look) -> list[list[list[Told] | None]]:
    """What each share holds; the first is read here, while the others are read elsewhere."""
    helpers: list[_Helper | None] = [None]
    try:
        helpers += [_helper(share, look) for share in shares[1:]]
        return [
            _told(_received(helper) or _read_share(share, look))
            for share, helper in zip(shares, helpers, strict=False)
        ]
    finally:
        for helper in helpers:
            if helper is not None:
                helper.process.kill()
                helper.process.join()
                helper.end.close()


def _helper(share: Sequence[Part], look: Look) -> _Helper | None:
    """Start a process, which has the texts as it is a copy of this one; None: there can be none."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    with there:
        process = context.Process(target=_serve, args=(share, look, here, there), daemon=True)
        try:
            process.start()
        except OSError:
            here.close()
            return None
    return _Helper(process, here)


def _serve(share: Sequence[Part], look: Look, here: Connection, there: Connection) -> None:
    """Read a share and hand it over; whatever goes wrong is met again, and said, by whoever asked.

    An interrupt is meant for that process too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    here.close()
    with suppress(Exception):
        there.send_bytes(marshal.dumps(_read_share(share, look)))


def _received(helper: _Helper | None) -> list[list[_Plain] | None] | None:
    """What a process read; None where it did not, and the share is to be read here."""
    if helper is None:
        return None
    try:
        found: list[list[_Plain] | None] = marshal.loads(helper.end.recv_bytes())
    except (EOFError, OSError):
        return None
    return found
