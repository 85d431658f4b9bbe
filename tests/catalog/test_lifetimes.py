"""Which versions know which flags: what the table says, and where nothing can be said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hack.lifetimes import READINGS, flags, spans
from tokenworks.catalog import lifetimes
from tokenworks.catalog.engines import load_engines
from tokenworks.catalog.flags import grammars
from tokenworks.catalog.lifetimes import Gap, gap, order_of, tag_of

TABLE = json.loads(Path(lifetimes.__file__).with_name("lifetimes.json").read_text())


@pytest.mark.parametrize(
    ("flag", "tag", "last", "later"),
    [
        ("use-v2-block-manager", "v0.10.0", "0.9.2", None),
        ("swap-space", "v0.26.0", "0.17.1", None),
        ("disable-log-requests", "v0.26.0-cu130", "0.16.0", None),
        ("speculative-config", "v0.6.3.post1", None, "0.8.2"),
        ("structured-outputs-config", "v0.10.2-x86_64", None, "0.11.0"),
        ("chat-template-text-format", "v99.0.0", "0.6.4", None),
        ("enable-lora-bias", "0.6.3", None, "0.6.4"),
    ],
)
def test_a_version_without_the_flag(
    flag: str, tag: str, last: str | None, later: str | None
) -> None:
    found = gap("vllm", flag, tag)
    assert found is not None
    assert (found.last, found.next) == (last, later)


@pytest.mark.parametrize(
    ("flag", "tag"),
    [
        ("use-v2-block-manager", "v0.9.2"),
        ("use-v2-block-manager", "v0.9.2.post1"),  # between the last that has it and the next
        ("speculative-config", "v0.8.1.post1"),
        ("speculative-config", "v0.8.2rc1"),
        ("speculative-config", "v0.8.2"),
        ("speculative-config", "v99.0.0"),
        ("speculative-config", "v0.3.0"),  # older than the table
        ("speculative-config", "latest"),
        ("speculative-config", "nightly"),
        ("speculative-config", "v0.6.3-patched"),
        ("speculative-config", "6"),
        ("speculative-config", "v0.6." + "9" * 5000),
        ("max-model-len", "v0.5.0"),  # always there
        ("a-flag-of-nobody", "v0.5.0"),
    ],
)
def test_nothing_is_said_where_it_is_known_or_cannot_be_told(flag: str, tag: str) -> None:
    assert gap("vllm", flag, tag) is None


def test_the_words_say_the_version_as_the_engine_does() -> None:
    assert gap("vllm", "swap-space", "v0.26.0-cu130") == Gap("0.26.0", "0.17.1", None, "")
    assert gap("vllm", "speculative-config", "v0.6.3.post1-x86_64") == Gap(
        "0.6.3.post1", None, "0.8.2", ""
    )


@pytest.mark.parametrize(
    ("engine", "flag", "tag", "instead"),
    [
        ("sglang", "enable-ep-moe", "v0.5.6", "write --ep-size, as large as --tp-size"),
        ("sglang", "enable-deepep-moe", "v0.5.5", "write --moe-a2a-backend deepep"),
        ("sglang", "nsa-prefill-backend", "v0.5.21", "write --dsa-prefill-backend"),
        ("sglang", "nsa-prefill-backend", "v0.4.6", ""),  # neither was there yet
        ("sglang", "piecewise-cuda-graph-compiler", "v0.5.20", "write --cuda-graph-tc-compiler"),
        ("sglang", "piecewise-cuda-graph-compiler", "v0.5.23", ""),  # both are gone
        ("vllm", "cuda-graph-sizes", "v0.14.0", "write --cudagraph-capture-sizes"),
        ("vllm", "cuda-graph-sizes", "v0.8.2", ""),
    ],
)
def test_a_successor_is_named_where_that_version_has_it(
    engine: str, flag: str, tag: str, instead: str
) -> None:
    found = gap(engine, flag, tag)
    assert found is not None
    assert found.instead == instead


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("vllm/vllm-openai:v0.9.0", "v0.9.0"),
        ("docker.io/vllm/vllm-openai:v0.9.0@sha256:00", "v0.9.0"),
        ("registry.example.com:5000/mirror/vllm/vllm-openai:v0.9.0", "v0.9.0"),
        ("vllm/vllm-openai@sha256:00", None),
        ("vllm/vllm-openai", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),  # a version of somebody else's
        ("example.com/my-vllm/vllm-openai:v0.9.0", None),
    ],
)
def test_tags_of_the_engines_own_images_are_versions(image: str, tag: str | None) -> None:
    assert tag_of("vllm", image) == tag


def test_candidates_come_before_a_release_and_posts_after_it() -> None:
    tags = ["v0.9.2", "v0.10.0rc1", "v0.10.0rc2", "v0.10.0", "v0.10.0.post1", "v0.10.1"]
    orders = [order_of(tag) for tag in tags]
    assert None not in orders
    assert orders == sorted(orders)  # type: ignore[type-var]


def test_a_parser_is_read_by_its_words_and_by_its_fields() -> None:
    source = (
        "class FrontendArgs:\n    tool_parser: str = ''\n    _own: int = 0\n"
        "    other: Annotated[str, Arg(names=['--said-otherwise'])] = ''\n"
        "class Other:\n    no_flag_at_all: str = ''\n"
        "def add(parser):\n    parser.add_argument('--a_b', '-a', help='--like-this')\n"
    )
    assert set(flags(source, ("*FrontendArgs",))) == {
        *("a-b", "tool-parser", "other", "said-otherwise"),
        *("no-a-b", "no-tool-parser", "no-other", "no-said-otherwise"),
    }


def test_spans_name_the_ends_and_the_beginnings_of_longer_flags_count() -> None:
    known = {
        "0.9.0": frozenset({"old", "always", "gone-and-back"}),
        "0.10.0": frozenset({"old", "always", "new-config"}),
        "0.11.0": frozenset({"always", "new-config", "gone-and-back", "older"}),
    }
    assert spans(known) == {
        "gone-and-back": "..0.9.0,0.11.0..", "new-config": "0.10.0..", "older": "0.11.0..",
    }  # fmt: skip


@pytest.mark.parametrize("engine", sorted(READINGS))
def test_what_took_a_flags_place_is_known_to_the_newest(engine: str) -> None:
    instead = TABLE[engine]["instead"]
    grammar = grammars()[engine]
    for flag, words in instead.items():
        assert flag in TABLE[engine]["flags"], flag
        for name in re.findall(r"--([a-z][a-z-]*)", words):
            assert grammar.find(f"--{name}"), f"{flag}: {name}"


@pytest.mark.parametrize("engine", sorted(READINGS))
def test_the_table_agrees_with_the_catalog(engine: str) -> None:
    """Which read the same parsers by running them, from some version on."""
    facts = load_engines().engines[engine]
    for version in facts.versions:
        for name, option in facts.options_in(version).items():
            if not option.only_env:
                assert gap(engine, name, version) is None, f"{name} in {version}"
