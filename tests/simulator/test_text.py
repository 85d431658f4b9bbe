"""Tokens and answers: lossless, seeded, and ended by exactly what was asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local.simulator.text import Limits, plan
from local.simulator.tokens import encode, encode_chat, pieces

LONG = Limits(max_tokens=400, ignore_eos=True)
KNOWN = "Only while sends block together prefix"


@given(st.text())
def test_the_pieces_of_a_text_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text


def test_a_token_is_about_four_letters_of_english() -> None:
    text = "A tokenizer that needs no model, and always cuts in the same places. " * 10
    assert 3 < len(text) / len(encode(text)) < 6


def test_a_longer_conversation_begins_with_the_shorter_one_and_its_answer() -> None:
    answer = plan(("s",), LONG)
    text = "".join(answer.pieces)
    short = encode_chat([("user", "hello")])
    longer = encode_chat([("user", "hello"), ("assistant", text), ("user", "and now?")])
    assert longer[: len(short) + len(answer.ids)] == [*short, *answer.ids]


def test_the_seed_decides_the_answer_and_nothing_else_does() -> None:
    assert plan((1, "m", (1, 2)), LONG) == plan((1, "m", (1, 2)), LONG)
    assert plan((1, "m", (1, 2)), LONG) != plan((2, "m", (1, 2)), LONG)
    assert plan((1, "m", (1, 2)), LONG) != plan((1, "m", (1, 3)), LONG)


def test_a_known_seed_gives_a_known_text() -> None:
    """The same on every machine and Python: answers may be quoted in documentation."""
    assert "".join(plan((0,), Limits(max_tokens=6)).pieces) == KNOWN


def test_every_token_has_one_piece_and_one_id() -> None:
    answer = plan(("s",), LONG)
    assert len(answer.pieces) == len(answer.ids) == 400
    assert answer.finish_reason == "length"
    assert encode("".join(answer.pieces)) == list(answer.ids)


def test_an_answer_left_alone_ends_by_itself() -> None:
    answers = [plan((i,), Limits(max_tokens=10_000)) for i in range(50)]
    assert {a.finish_reason for a in answers} == {"stop"}
    assert len({len(a.ids) for a in answers}) > 10
    assert max(len(a.ids) for a in answers) <= 160


def test_a_shorter_limit_cuts_the_same_answer() -> None:
    whole = plan(("s",), Limits(max_tokens=10_000))
    short = plan(("s",), Limits(max_tokens=5))
    assert short.pieces == whole.pieces[:5]
    assert short.finish_reason == "length"


def test_min_tokens_keeps_it_going() -> None:
    answer = plan(("s",), Limits(max_tokens=1000, min_tokens=500))
    assert (len(answer.ids), answer.finish_reason) == (500, "stop")


def test_a_stop_string_ends_the_text_before_it_even_across_tokens() -> None:
    whole = plan(("s",), LONG)
    text = "".join(whole.pieces)
    # From inside one token into the next: no single piece holds the stop string.
    start = len("".join(whole.pieces[:10])) - 2
    stop = text[start : start + 5]
    first = text.find(stop)
    answer = plan(("s",), Limits(400, 0, (stop,), True))
    assert "".join(answer.pieces) == text[:first]
    assert answer.finish_reason == "stop"
    assert len(answer.pieces) == len(answer.ids) < 400


def test_the_earliest_of_several_stop_strings_counts() -> None:
    text = "".join(plan(("s",), LONG).pieces)
    late, early = text[200:206], text[50:56]
    answer = plan(("s",), Limits(400, 0, (late, early), True))
    assert "".join(answer.pieces) == text[: text.find(early)]


def test_stop_strings_do_not_count_before_min_tokens() -> None:
    text = "".join(plan(("s",), LONG).pieces)
    answer = plan(("s",), Limits(400, 100, (text[:4], "."), True))
    assert len(answer.ids) > 100
