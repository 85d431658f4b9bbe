"""Wrong usage is said in our words: what was found, what is allowed, what may have been meant."""

from __future__ import annotations

import io
import sys

import pytest

from tokenworks.cli import main
from tokenworks.cli.usage import said


@pytest.mark.parametrize(
    ("message", "ours"),
    [
        ("Value error, 'txt' is not one of 'text', 'json'.",
         "found 'txt'; allowed: text, json; did you mean text?"),
        ("'nope' is not one of 'text', 'json'",
         "found 'nope'; allowed: text, json; name one of these"),
        ("Input should be greater than or equal to 1", "allowed: at least 1; change the number"),
        ("Input should be less than 3", "allowed: less than 3; change the number"),
        ("Input should be a valid integer, unable to parse string as an integer",
         "allowed: a whole number; correct the value"),
        ("Value error, anything else", "anything else"),
        ("No such option: --forma", "No such option: --forma"),
    ],
)  # fmt: skip
def test_messages(message: str, ours: str) -> None:
    assert said(message) == ours


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["check", "-", "--format", "Text"], "found 'Text'; allowed: text, json"),
        (["check", "-", "--format", "Text"], "did you mean text?"),
        (["check", "-", "--profile", "prd"], "did you mean prod?"),
        (["new", "model", "x", "--env", "dev", "--engine", "vlm"], "did you mean vllm?"),
        (["chat", "local", "x", "--max-tokens", "0"], "allowed: at least 1"),
        (["chat", "local", "x", "--max-tokens", "many"], "allowed: a whole number"),
        (["check", "dve"], "did you mean dev?"),
        (["chat", "locla", "x"], "did you mean local?"),
        (["render", "DEV"], "did you mean dev?"),
        (["explain", "STARTUP-PROBE"], "did you mean startup-probe?"),
        (["explain", "startup_probes"], "did you mean startup-probe?"),
        (["engines", "vLLM"], "did you mean vllm?"),
        (["admission", "loca"], "did you mean local?"),
        (["toolchain", "kubeconfrm"], "did you mean kubeconform?"),
        (["chat", "local", "x", "--model", "QWEN3_SIM"], "did you mean qwen3-sim?"),
        (["picks", "local", "--model", "qwen3sim"], "did you mean qwen3-sim?"),
        (["chat", "local", ""], "the text is empty"),
        (["chat", "local", " \n"], "the text is empty"),
        (["chat", "local", "-"], "standard input is empty"),
    ],
    ids=" ".join,
)
def test_commands(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["./tokenworks", *words])
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    told = capfd.readouterr().err
    assert says in told
    assert "Value error" not in told and "Input should" not in told
