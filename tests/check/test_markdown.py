"""Markdown that no value can get out of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.check.markdown import cell, code, fence, plain, prose, tag

NASTY = st.text(
    alphabet=st.sampled_from(list("`~<>&|@#*_[]()!\\$:/\n\r\t -ab1\u202e\u200b\u2028\x00\x1b")),
    max_size=60,
)


def inside(span: str) -> str:
    """What a code span holds, as CommonMark reads it; it is one span and nothing else."""
    ticks = re.match(r"`+", span)
    assert ticks is not None
    run = len(ticks[0])
    assert span.endswith("`" * run)
    content = span[run:-run]
    assert not re.search(rf"(?<!`)`{{{run}}}(?!`)", content)
    return content


@given(NASTY)
def test_code_is_one_span_on_one_line(text: str) -> None:
    span = code(text)
    if span in ("(empty)", "(blanks)"):
        assert not text.strip()
        return
    assert "\n" not in span
    assert "\r" not in span
    inside(span)


@given(NASTY)
def test_a_fence_is_not_closed_by_what_it_holds(text: str) -> None:
    first, *lines, last = fence(text)
    assert first == last
    assert not any(re.match(rf" {{0,3}}`{{{len(first)},}}\s*$", line) for line in lines)


@given(NASTY)
def test_plain_words_mean_nothing(text: str) -> None:
    words = plain(text)
    assert "<" not in words
    assert "\n" not in words
    assert not re.search(r"@(?!&#8203;)", words)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~!]", words.replace("&#8203;", ""))
    assert not re.search(r"\\#(?!&#8203;)", words)


@given(NASTY)
def test_prose_is_words_and_code(text: str) -> None:
    rest = re.sub(r"(`+)(?:(?!\1).)+\1", "", prose(text))
    assert "<" not in rest
    assert not re.search(r"@(?!&#8203;)", rest)


@given(NASTY)
def test_html_is_closed(text: str) -> None:
    found = tag(text)
    assert re.fullmatch(r"<code>[^<>]*</code>", found)


@given(NASTY)
def test_a_cell_has_no_bar(text: str) -> None:
    assert "|" not in cell(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "`a`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("", "(empty)"),
        ("  ", "(blanks)"),
        ("a\nb", "`a b`"),
        ("\u202eab", "`\\u202eab`"),
        ("token hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "`token (not shown)`"),
    ],
)
def test_code_shows_the_text(text: str, expected: str) -> None:
    assert code(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask @octocat", "ask @&#8203;octocat"),
        ("see #12", "see \\#&#8203;12"),
        ("http://a.b", "http:&#8203;//a.b"),
        ("a | b", "a \\| b"),
        ("<b>", "&lt;b&gt;"),
        ("write `x: 1` there", "write `x: 1` there"),
        ("one ` alone", "one \\` alone"),
    ],
)
def test_prose_shows_the_words(text: str, expected: str) -> None:
    assert prose(text) == expected


def test_long_values_are_cut() -> None:
    assert len(code("x" * 1000)) == 202
    assert code("x" * 1000).endswith("…`")
