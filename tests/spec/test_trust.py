"""Code that comes with weights is run where the environment names them, and nowhere else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spec.conftest import HERE
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.sourced import EngineCatalog

CASE = HERE / "broken" / "remote-code"


@pytest.mark.fieldnote(68)
@pytest.mark.parametrize(
    ("trusted", "runs"),
    [
        ([], False),
        (["hf://org/name"], True),
        (["hf://org/*"], True),
        (["hf://other/name", "hf://org/names", "hf://org/nam", "hf://or/*"], False),
    ],
)
def test_only_weights_that_are_named_run_their_code(
    trusted: list[str],
    runs: bool,
    tmp_path: Path,
    stack_root: Callable[..., Path],
    engines: EngineCatalog,
) -> None:
    case = tmp_path / "case"
    shutil.copytree(CASE, case)
    policies = f"  policies: {{remoteCode: {trusted}}}\n"
    good = (HERE / "good" / "environment.yaml").read_text()
    (case / "environment.yaml").write_text(good + policies)
    if runs:
        (release,) = load_stack(stack_root(case), "env", engines).models
        assert release.spec.engine.flags == {"trust-remote-code": True}
        return
    with pytest.raises(DocumentErrors, match=r"a\.yaml:14: .*runs the code that hf://org/name"):
        load_stack(stack_root(case), "env", engines)


def test_a_flag_that_is_off_runs_nothing(
    tmp_path: Path, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    shutil.copytree(CASE, tmp_path / "case")
    release = tmp_path / "case" / "models" / "a.yaml"
    release.write_text(release.read_text().replace("remote-code: true", "remote-code: false"))
    assert load_stack(stack_root(tmp_path / "case"), "env", engines).models
