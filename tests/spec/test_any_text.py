"""Whatever a file holds, loading ends in a `Stack` or in one `UsageError`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenworks.errors import UsageError
from tokenworks.spec.load import load_stack
from tokenworks.spec.scalars import plain_value
from tokenworks.spec.yamlsource import data_of, read_yaml

GOOD = Path(__file__).parent / "good"
FILES = ("environment.yaml", "models/a.yaml", "tenants/research.yaml", "manifests/extra.yaml")

PIECES = (
    "*", ": ", ", ", "- ", "? ", "&", "!", "|", ">", "%", "@", "`", "#", "[", "]", "{", "}", "'",
    '"', "\\", "<<", "---", "...", "~", "=", "0", "1e9", "0x", "07", "1:2", "true", "on", "null",
    ".inf", "&a", "*a", "!!str", "!!int", "%YAML", "apiVersion", "kind", "metadata", "name",
    "spec", "\n", "\t", "\r", "\n  ", "\n- ", "\ufeff", "\x85", "\u2028", "\x01", "\U0001f600",
    '"\\x00"', '"\\U0010FFFF"', '"\\UFFFFFFFF"', "!%ff", "%YAML " + "9" * 5000,
)  # fmt: skip
yamlish = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=40).map(
    "".join
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
        st.sampled_from(["10Gi", "300s", "a", "local", "existing", "research", "sim", "dummy://a"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the good environment, whose files the tests overwrite and put back."""
    folder = tmp_path_factory.mktemp("root")
    shutil.copytree(GOOD, folder / "stacks" / "env")
    return folder


def load_with(root: Path, name: str, text: str) -> str:
    """Loads the good environment with other text in one file; what was said about it."""
    file = root / "stacks" / "env" / name
    good = file.read_bytes()
    try:
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        load_stack(root, "env")
    except UsageError as error:
        return str(error)
    finally:
        file.write_bytes(good)
    return ""


@quick
@given(st.sampled_from(FILES), yamlish)
def test_text(root: Path, name: str, text: str) -> None:
    load_with(root, name, text)


@quick
@given(st.sampled_from(FILES), yamlish, st.data())
def test_text_in_the_middle_of_a_good_document(
    root: Path, name: str, text: str, data: st.DataObject
) -> None:
    good = (GOOD / name).read_text(encoding="utf-8")
    at = data.draw(st.integers(0, len(good)))
    load_with(root, name, good[:at] + text + good[at:])


def _replace(document: Any, choose: st.DataObject, value: object) -> Any:
    """The document with one of its parts, at any depth, replaced."""
    if not isinstance(document, dict | list) or not document or choose.draw(st.booleans()):
        return value
    places = list(document) if isinstance(document, dict) else range(len(document))
    place = choose.draw(st.sampled_from(places))
    changed = dict(document) if isinstance(document, dict) else list(document)
    changed[place] = _replace(document[place], choose, value)
    return changed


@quick
@given(st.sampled_from(FILES[:3]), values, st.data())
def test_any_value_in_any_field(root: Path, name: str, value: object, data: st.DataObject) -> None:
    document = yaml.safe_load((GOOD / name).read_text(encoding="utf-8"))
    said = load_with(root, name, yaml.safe_dump(_replace(document, data, value)))
    assert "\n\n" not in said
    for line in said.splitlines()[1:]:
        assert line.startswith("stacks/env/"), "each problem is one line"


@quick
@given(values)
def test_quoted_data_comes_back_as_it_was(value: object) -> None:
    """Text never turns into anything else, whatever it looks like."""
    texts = st_texts(value)
    read = read_yaml(yaml.safe_dump({"texts": texts}, default_style='"', allow_unicode=False))
    if not read.flaws:
        (document,) = read.documents
        assert data_of(document) == {"texts": texts}


def st_texts(value: object) -> list[str]:
    """Every text in the value, and the text of every other scalar."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in st_texts(item)] + list(value)
    if isinstance(value, list):
        return [text for item in value for text in st_texts(item)]
    return [str(value)]


@quick
@given(st.text("0123456789abcdefxoXOyenYN_.:+-~ \t", max_size=12), st.booleans())
def test_plain_scalars_mean_what_yaml_says_or_nothing(text: str, kubernetes: bool) -> None:
    """A number or a boolean is only made of what every reader makes the same of."""
    meaning = plain_value(text, kubernetes=kubernetes)
    if isinstance(meaning, bool):
        assert text.lower() in ("true", "false")
    elif isinstance(meaning, int):
        assert (
            int(text.replace("o", "") if kubernetes and "o" in text else text, _base(text))
            == meaning
        )
    elif isinstance(meaning, float):
        assert float(text) == meaning


def _base(text: str) -> int:
    digits = text.lstrip("+-")
    if digits.startswith("0x"):
        return 16
    return 8 if len(digits) > 1 and digits.startswith("0") else 10
