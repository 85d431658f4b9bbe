"""A text that is read in parts is read as it is as a whole, wherever it may be cut."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.spec import yamlshares
from tokenworks.spec.yamldata import Data, read_data
from tokenworks.spec.yamlshares import Part, Told, cut, read_all

PIECES = (
    "---\n", "--- \n", "---\t# note\n", "--- {a: 1}\n", "---", "----\n", " ---\n", "...\n",
    "... \n", "%YAML 1.2\n", "%x\n", "# --- no\n", "a: |\n  x\n---\n", "a: |\n---\n",
    "b: >-\n\n  y\n\n", "a: 'it\n---\nis'\n", 'a: "q\n---\n q"\n', "a: {b: [1,\n---\n2]}\n",
    "a: [\n", "a: b\n", "c: 0o7\n", "a: &x 1\n", "b: *x\n", "a: 1\na: 2\n", "- a\n- b\n",
    "plain\n", "? x\n", "\n", "  \n", "a: yes\n", "metadata:\n  name: x\n", "d: e", "\ta: b\n",
    "<<: {a: 1}\n", "!t a: b\n", "é: ü\n",
)  # fmt: skip


def length(data: Data) -> int:
    return len(str(data))


def whole(text: str) -> list[Told] | None:
    documents = read_data(text)
    return None if documents is None else [(d, length(d.data)) for d in documents]


def no_helper(*_: object) -> None:
    """Instead of another process: each share is read here."""


texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@given(text=texts, size=st.integers(1, 40))
def test_parts_are_the_text(text: str, size: int) -> None:
    parts = cut(text, size)
    assert "".join(part.text for part in parts) == text
    lines = 0
    for part in parts:
        assert part.before == lines
        lines += part.text.count("\n")


@given(texts=st.lists(texts, max_size=4), processes=st.integers(1, 5))
def test_what_is_read_in_shares_is_what_is_read_at_once(texts: list[str], processes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yamlshares, "_helper", no_helper)
        read = read_all(texts, length, processes)
    for text, told in zip(texts, read, strict=True):
        expected = whole(text)
        assert told == expected, text


def test_a_long_text_is_cut_where_documents_begin() -> None:
    text = "a: |\n  ---\n  x\n" + "".join(f"---\nat: {n}\n" for n in range(100))
    parts = cut(text, len(text) // 4)
    assert 3 <= len(parts) <= 4
    assert all(part.text.startswith("---\n") for part in parts[1:])
    assert [d.data for d, _ in read_all([text], length, 4)[0] or ()][1:] == [
        {"at": n} for n in range(100)
    ]


def test_directives_and_ends_of_documents_are_not_parted_from_theirs() -> None:
    for mark in ("%YAML 1.1\n---\n", "...\n"):
        text = f"a: 1\n---\nb: 2\n{mark}" + "---\nc: 3\n" * 50
        assert cut(text, 10) == [Part(text, 0)]


PROGRAM = """
import os, signal, sys
from tokenworks.spec import yamlshares
from tokenworks.spec.yamldata import read_data
from tokenworks.spec.yamlshares import read_all

text = "".join(f"---\\nat: {n}\\nname: x{n}\\n" for n in range(4000))
here = os.getpid()
seen = []

def look(data):
    seen.append(data["at"])
    if sys.argv[1] == "dies" and os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "fails" and os.getpid() != here:
        raise ValueError("not here")
    return data["at"] % 3

(told,) = read_all([text], look, 3)
assert told == [(d, d.data["at"] % 3) for d in read_data(text)]
print(len(seen) == len(told))
"""


@pytest.mark.parametrize(
    ("case", "alone"), [("well", "False"), ("dies", "True"), ("fails", "True")]
)
def test_other_processes_read_and_may_end(root: Path, case: str, alone: str) -> None:
    """What they did not read is read here, and nothing is said of it."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, case], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{alone}\n", "")


def test_where_no_process_can_be_started_all_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr("multiprocessing.context.ForkProcess.start", refused)
    text = "---\nat: 1\n" * 9
    assert read_all([text], length, 3) == [whole(text)]


def test_nothing_is_started_for_little(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(yamlshares, "_helper", never)
    text = "---\nat: 1\n" * 99
    assert read_all([text, "", text], length) == [whole(text), [], whole(text)]
