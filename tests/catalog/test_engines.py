"""The engine catalog: complete, consistent with itself, and no fact without a source."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ValidationError

from local.simulator import options as simulator_options
from local.simulator.engines.knobs import Knobs
from tokenworks.catalog.engines import Engine, load_engines, load_foreign, numbers, older
from tokenworks.catalog.flags import grammars
from tokenworks.catalog.grammar import FILE, text

CATALOG = load_engines()
ENGINES = CATALOG.engines
NAMES = sorted(ENGINES)


def flags_named(engine: Engine) -> dict[str, str]:
    """Every flag that a field of the engine names, by where it is named."""
    found: dict[str, str | None] = {
        **{f"flags.{k}": v for k, v in engine.flags.model_dump(exclude_none=True).items()},
        **{f"parallel.{k}": v for k, v in engine.parallel.model_dump(exclude_none=True).items()},
        **{f"ports.{name}": port.flag for name, port in engine.ports.items()},
        **{f"switches.{name}": name for name in engine.switches},
        "weightsFlag": engine.weights_flag,
        "drain": engine.drain.flag if engine.drain else None,
        "prefixCache": engine.prefix_cache.flag if engine.prefix_cache else None,
    }
    for name, tier in (*engine.offload.items(), *engine.distributed_kv.items()):
        found |= {f"{name}.{flag}": flag for flag in tier.flags}
        found[f"{name}.sizeFlag"] = tier.size_flag
    if engine.kv_dtypes:
        found |= {f"kvDtypes.{flag}": flag for flag in engine.kv_dtypes.flags}
    if engine.lora:
        lora = engine.lora
        several = (
            lora.enable, lora.modules, lora.most, lora.most_cpu, lora.max_rank, lora.servers,
            *lora.other_flags,
        )  # fmt: skip
        found |= {f"lora.{flag}": flag for flag in several}
    return {where: flag for where, flag in found.items() if flag}


def test_every_engine_is_there() -> None:
    assert NAMES == [
        "llamacpp", "llmd-sim", "ollama", "sglang", "simulator", "triton", "trtllm", "vllm",
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_flag_that_is_used_is_a_flag_the_engine_has(name: str) -> None:
    engine = ENGINES[name]
    missing = {w: f for w, f in flags_named(engine).items() if f not in engine.options}
    assert missing == {}


@pytest.mark.parametrize("name", NAMES)
def test_what_we_use_exists_in_the_version_we_pin(name: str) -> None:
    engine = ENGINES[name]
    known = engine.options_in(engine.default)
    derived = [flag for where, flag in flags_named(engine).items() if where.startswith("flags.")]
    assert [flag for flag in derived if flag not in known] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_pinned_version_is_known_and_its_image_is_named(name: str) -> None:
    engine = ENGINES[name]
    assert engine.default in engine.versions
    for version, release in engine.versions.items():
        assert numbers(version)
        assert release.image.tag and release.image.digest


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_has_a_source_and_a_day(name: str) -> None:
    engine = ENGINES[name]
    assert engine.source and engine.options_of
    assert re.fullmatch(r"2026-\d\d-\d\d", engine.date)
    for tier in (*engine.offload.values(), *engine.distributed_kv.values()):
        assert tier.source and tier.meaning


@pytest.mark.parametrize("name", NAMES)
def test_options_hold_together(name: str) -> None:
    for flag, option in ENGINES[name].options.items():
        assert (option.type == "choice") == bool(option.choices), flag
        assert not (option.since and option.until and older(option.until, option.since)), flag
        assert not option.only_env or option.env, flag
        assert option.type == "flag" or not option.negatives, flag


@pytest.mark.parametrize("name", NAMES)
def test_no_two_options_share_a_name(name: str) -> None:
    seen: dict[str, str] = {}
    for flag, option in ENGINES[name].options.items():
        for spelling in {flag, *option.aliases, *option.short, *option.negatives}:
            assert seen.setdefault(spelling, flag) == flag, spelling


@pytest.mark.parametrize("name", NAMES)
def test_kv_types_are_ones_the_flag_takes(name: str) -> None:
    types = ENGINES[name].kv_dtypes
    for flag in types.flags if types else ():
        choices = ENGINES[name].options[flag].choices
        assert types is not None and set(types.values) <= set(choices)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_named_in_the_way_that_is_said(name: str) -> None:
    engine = ENGINES[name]
    assert (engine.weights == "flag") == (engine.weights_flag is not None)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_one_of_the_ways_to_start_it(name: str) -> None:
    engine = ENGINES[name]
    program = engine.command[0].rpartition("/")[2].rstrip("3")
    assert any(
        start.words[0] == program and start.words[1:] == engine.command[1:]
        for start in engine.starts
    )


def test_a_misspelt_field_is_refused() -> None:
    data = ENGINES["vllm"].model_dump(by_alias=True)
    with pytest.raises(ValidationError, match="probeTimeuot"):
        Engine.model_validate({**data, "probeTimeuot": "5s"})


def test_the_simulators_options_are_those_of_its_parser() -> None:
    parser = simulator_options._parser()  # pyright: ignore[reportPrivateUsage]
    names = {
        word[2:]
        for action in parser._actions  # pyright: ignore[reportPrivateUsage]
        for word in action.option_strings
        if word.startswith("--") and not word.startswith("--no-")
    }
    assert names - {"help", "version"} == set(ENGINES["simulator"].options)


def test_the_grammar_is_fresh() -> None:
    assert FILE.read_text() == text(), "run: make generate-grammar"
    assert sorted(grammars()) == sorted([*NAMES, *load_foreign()])


# --- versions ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("0.9.0", "0.10.0"),
        ("0.26.0", "0.26.1"),
        ("1.3.0rc23", "1.3.0"),
        ("1.3.0rc9", "1.3.0rc23"),
        ("1.2.1", "1.3.0rc1"),
        ("0.5.9", "0.5.10.post1"),
    ],
)
def test_versions_are_ordered(first: str, second: str) -> None:
    assert older(first, second) and not older(second, first) and not older(first, first)


@pytest.mark.parametrize(
    ("engine", "version", "name", "expected"),
    [
        ("vllm", "0.9.1", "kv_usage", "vllm:gpu_cache_usage_perc"),
        ("vllm", "0.26.0", "kv_usage", "vllm:kv_cache_usage_perc"),
        ("vllm", "0.10.0", "tpot", "vllm:time_per_output_token_seconds"),
        ("vllm", "0.26.0", "tpot", "vllm:inter_token_latency_seconds"),
        ("vllm", "0.26.0", "rejections", ""),
        ("vllm", "0.32.0", "rejections", "vllm:admission_rejections_total"),
        ("sglang", "0.5.10", "cache_info", "sglang:cache_config_info"),
        ("sglang", "0.5.16", "cache_info", ""),
        ("trtllm", "1.3.0rc23", "queued", "trtllm_num_requests_waiting"),
        ("llamacpp", "0.0.11206", "kv_usage", ""),
    ],
)
def test_metrics_have_the_names_of_the_version(
    engine: str, version: str, name: str, expected: str
) -> None:
    assert getattr(ENGINES[engine].metrics_of(version), name) == expected


def test_metric_names_of_old_versions_are_names_of_ours() -> None:
    for engine in ENGINES.values():
        ours = engine.metrics.model_dump(by_alias=True)
        for change in engine.metrics_before:
            assert set(change.names) <= set(ours) and change.source


@pytest.mark.parametrize(
    ("engine", "version", "flag"),
    [
        ("vllm", "0.17.1", None),
        ("vllm", "0.18.0", "shutdown-timeout"),
        ("sglang", "0.5.16", None),
        ("triton", "2.71.0", "exit-timeout-secs"),
    ],
)
def test_only_versions_that_can_drain_are_told_to(
    engine: str, version: str, flag: str | None
) -> None:
    assert ENGINES[engine].drain_flag(version) == flag


def test_what_a_version_does_not_know_is_not_among_its_options() -> None:
    vllm = ENGINES["vllm"]
    assert "max-num-queued-reqs" not in vllm.options_in("0.26.0")
    assert "max-num-queued-reqs" in vllm.options_in("0.32.0")
    assert "calculate-kv-scales" in vllm.options_in("0.26.0")
    assert "calculate-kv-scales" not in vllm.options_in("0.32.0")


def test_what_is_derived_may_not_be_set_and_absent_flags_are_no_flags() -> None:
    reserved = ENGINES["sglang"].reserved_flags()
    assert {"served-model-name", "host", "model-path", "enable-metrics"} <= reserved
    assert all(ENGINES[name].reserved_flags().isdisjoint({""}) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_ranges_are_of_numbers_that_there_are_once_each(name: str) -> None:
    engine = ENGINES[name]
    flags = [flag for numbers in engine.ranges for flag in numbers.flags]
    assert len(flags) == len(set(flags))
    assert {engine.options[flag].type for flag in flags} <= {"integer", "number"}
    numbers = [flag for flag, option in engine.options.items() if option.type == "integer"]
    assert {flag for flag in numbers if flag == "port" or flag.endswith("-port")} <= {*flags}


def test_options_of_a_simulation_are_those_that_it_reads() -> None:
    kinds = {int: "integer", float: "number"}
    read = {
        field.name.replace("_", "-"): kinds[type(field.default)]
        for field in fields(Knobs)
        if isinstance(field.default, int | float)
    }
    assert read == ENGINES["simulator"].playing


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": 1, "decode-tokens-per-second": 0.5, "load-seconds": 0}, {}),
        ({"decode-token-per-second": 5},
         {"decode-token-per-second": "did you mean decode-tokens-per-second?"}),
        ({"decode-tokens-per-second": 0}, {"decode-tokens-per-second": "a number above 0"}),
        ({"seed": -1}, {"seed": "a whole number of at least 0"}),
        ({"seed": 1.5}, {"seed": "a whole number of at least 0"}),
        ({"seed": True}, {"seed": "a whole number of at least 0"}),
        ({"load-seconds": "5"}, {"load-seconds": "a number of at least 0"}),
    ],
    ids=str,
)  # fmt: skip
def test_options_of_a_simulation(options: dict[str, object], said: dict[str, str]) -> None:
    found = CATALOG.misplayed(options)
    assert found.keys() == said.keys()
    assert all(said[name] in found[name] for name in said)


@pytest.mark.parametrize("name", NAMES)
def test_a_derived_flag_names_the_field_to_set_instead(name: str) -> None:
    engine = ENGINES[name]
    without = {flag for flag in engine.reserved_flags() if engine.field_of(flag) is None}
    ours = (engine.flags.port, engine.flags.host, engine.flags.metrics)
    assert without <= {flag for flag in ours if flag}
    others = engine.reserved_flags() - without
    assert all(str(engine.field_of(flag)).startswith("spec.") for flag in others)


@pytest.mark.parametrize("name", [n for n in NAMES if ENGINES[n].lora])
def test_adapters_come_from_the_approved_list_alone(name: str) -> None:
    """Neither a flag nor a variable of the document can name others, or let others name them."""
    engine = ENGINES[name]
    assert engine.lora is not None
    assert {engine.lora.modules} <= engine.reserved_flags()
    assert engine.lora.load_env.keys() <= engine.reserved_env()
    if engine.lora.enable:
        assert engine.lora.enable in engine.reserved_flags()
    assert engine.reserved_flags() >= set(engine.lora.other_flags)
    assert engine.reserved_env() >= set(engine.lora.other_env)


def test_how_adapters_are_loaded_and_asked_for() -> None:
    loading = {name: engine.adapter_loading for name, engine in ENGINES.items()}
    assert {n: found for n, found in loading.items() if found} == {
        "vllm": ("start", "sidecar"),
        "sglang": ("start",),
    }
    assert ENGINES["vllm"].reserved_env() >= {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_LORA_RESOLVER_HF_REPO_LIST",
    }  # fmt: skip
    assert "default-mm-loras" in ENGINES["vllm"].reserved_flags()
    assert ENGINES["vllm"].adapter_ranks("0.26.0")[:3] == (1, 8, 16)
    assert ENGINES["sglang"].adapter_ranks("0.5.16") == ()
    apart = [ENGINES["vllm"].tells_adapters_apart(v) for v in ("0.26.0", "0.31.0", "0.32.0")]
    assert apart == [False, False, True]


@pytest.mark.parametrize(
    ("engine", "version", "tiers"),
    [
        ("vllm", "0.26.0", {"cpu", "nvme"}),
        ("vllm", "0.32.0", {"cpu", "nvme", "mooncake"}),
        ("sglang", "0.5.16", {"cpu"}),
        ("sglang", "0.5.23", {"cpu", "nvme", "hicache", "mooncake"}),
        ("llamacpp", "0.0.1", set[str]()),
    ],
)
def test_where_the_kv_of_adapters_is_kept_apart(engine: str, version: str, tiers: set[str]) -> None:
    assert ENGINES[engine].adapter_tiers(version) == tiers
    assert tiers <= {*ENGINES[engine].offload, *ENGINES[engine].distributed_kv}


def test_the_page_of_caches_names_flags_that_exist() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "reference" / "caches.md").read_text()
    named = set(re.findall(r"`--([a-z0-9-]+)", guide))
    known = {flag for engine in ENGINES.values() for flag in engine.options}
    assert len(named) > 10
    assert {n for n in named if n not in known and n.removeprefix("no-") not in known} == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_source_can_be_looked_up(name: str) -> None:
    """An address, a package with its version, or a file of ours; nobody's memory."""
    place = re.compile(r"https://|\b[a-z-]+ \d+\.\d+|local/|docs\.[a-z.]+")
    sources = {"source": ENGINES[name].source, **ENGINES[name].sources}
    assert {field: text for field, text in sources.items() if not place.search(text)} == {}


def test_images_in_which_our_programs_run_have_a_python_for_them() -> None:
    having = {name for name in NAMES if ENGINES[name].python}
    groups = {name for name in NAMES if {"multi-node", "wide-ep"} & {*ENGINES[name].topologies}}
    assert having >= groups | {"trtllm"}, "workers ask their first pod by a program"
    with pytest.raises(ValidationError):
        Engine.model_validate(
            {**ENGINES["vllm"].model_dump(by_alias=True), "python": "3.8: https://x"}
        )
