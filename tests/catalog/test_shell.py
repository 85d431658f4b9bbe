"""Words as Kubernetes and a shell read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.catalog.shell import Word, calculate, expand, statements

ENV = {"TP": "8", "EMPTY": "", "MORE": "--a 1 --b", "REMOTE": None}


def texts(script: str, open_env: bool = False) -> list[list[str]]:
    return [[w.text for w in s.words] for s in statements(script, ENV, open_env)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("vllm serve m", [["vllm", "serve", "m"]]),
        ("a \\\n  b \\\n c", [["a", "b", "c"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("""a '{"k": "v"}' "{\\"k\\": 1}\"""", [["a", '{"k": "v"}', '{"k": 1}']]),
        ("a --x=$TP -tp ${TP} \"$TP\" '$TP'", [["a", "--x=8", "-tp", "8", "8", "$TP"]]),
        ("a ${NONE:-4} ${EMPTY:-5} ${EMPTY-6} ${TP:+7}", [["a", "4", "5", "7"]]),
        ("a ${NONE:-${TP}} ${NONE:-'x y'}", [["a", "8", "x y"]]),
        ("a $((TP * 2)) $(( ${TP}-1 ))", [["a", "16", "7"]]),
        ('a $MORE "$MORE"', [["a", "--a", "1", "--b", "--a 1 --b"]]),
        ("a; b && c || d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a 2>&1 >log b < in", [["a", "b"]]),
        ("a # comment\nb#c", [["a"], ["b#c"]]),
        ("X=4; Y=2 a $X", [["a", "4"]]),
        ("export X=4 && a $X", [["export", "X=4"], ["a", "4"]]),
        ("if true; then exec a; else exec b; fi", [["true"], ["exec", "a"], ["exec", "b"]]),
        ("cat <<EOF >f\nvllm serve x\nEOF\na", [["cat"], ["a"]]),
        ("{ a; } ; ( b )", [["a"], ["b"]]),
        ("", []),
    ],
    ids=str,
)
def test_statements(script: str, expected: list[list[str]]) -> None:
    assert texts(script) == expected


@pytest.mark.parametrize(
    ("script", "needs"),
    [
        ("a $REMOTE", ("REMOTE",)),
        ("a $NOWHERE", ("NOWHERE",)),
        ("a ${LWS_WORKER_INDEX:-0}", ("LWS_WORKER_INDEX",)),
        ("a $((LWS_GROUP_SIZE * TP))", ("LWS_GROUP_SIZE",)),
        ("a $(LWS_GROUP_SIZE)", ("LWS_GROUP_SIZE",)),
        ("a $(nproc --all)", ("$(nproc --all)",)),
        ("a `hostname -i`", ("`hostname -i`",)),
        ("a ${TP%x}", ("${TP%x}",)),
        ("a $1", ("$1",)),
        ("if x; then N=1; else N=2; fi; a $N", ("N",)),
        ("N=$(nproc); a $N", ("$(nproc)",)),
    ],
)
def test_what_is_not_written_down_is_said(script: str, needs: tuple[str, ...]) -> None:
    assert statements(script, ENV, False)[-1].words[1].unknown == needs


def test_a_default_counts_only_where_no_other_variables_can_be() -> None:
    assert texts("a ${NONE:-4}") == [["a", "4"]]
    assert statements("a ${NONE:-4}", ENV, True)[0].words[1].unknown == ("NONE",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--tp=$(TP)", Word("--tp=8")),
        ("$$(TP)", Word("$(TP)")),
        ("$TP ${TP}", Word("$TP ${TP}")),
        ("$(REMOTE)", Word("$(REMOTE)", ("REMOTE",))),
        ("$(NOWHERE)-x", Word("$(NOWHERE)-x", ("NOWHERE",))),
    ],
)
def test_kubernetes_expands_its_own_form_only(text: str, expected: Word) -> None:
    assert expand(text, ENV) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 * (8 - 1)", 14), ("-3", -3), ("7 / 2", 3), ("7 % 4", 3), ("1 / 0", None), ("2 ** 9", None),
     ("a", None), ("", None), ("1.5", None), ("(" * 90, None)],
)  # fmt: skip
def test_calculations(text: str, value: int | None) -> None:
    assert calculate(text) == value


@given(st.text(alphabet="ab $(){}'\"`\\\n\t;&|<>#=-:+?*/%10EOF", max_size=60), st.booleans())
def test_any_script_is_read(script: str, open_env: bool) -> None:
    for statement in statements(script, ENV, open_env):
        assert statement.words


def test_defaults_within_defaults_end() -> None:
    assert texts("a " + "${N:-" * 400 + "x" + "}" * 400)
