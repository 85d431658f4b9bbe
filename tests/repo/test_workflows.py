"""Workflows run what contributors run, with pinned actions and no rights they do not need."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from tests.repo.tree import ROOT, files, text_of

OPT_IN = {
    "engine": "fetches 2.5 GB and keeps 5.5 GB; `make test` asks for neither",
}
"""Markers that `make test` leaves out, each with the reason; it has its own target and workflow."""

WORKFLOWS = [f for f in files() if f.startswith(".github/workflows/")]


def load(file: str) -> dict[Any, Any]:
    return yaml.safe_load(text_of(file))


def test_there_are_workflows_for_lint_and_test() -> None:
    assert {"lint.yaml", "test.yaml"} <= {f.rsplit("/", 1)[-1] for f in WORKFLOWS}


@pytest.mark.parametrize("file", WORKFLOWS)
def test_actions_are_pinned_by_commit_and_name_their_release(file: str) -> None:
    uses = [line for line in text_of(file).splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        assert re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("file", WORKFLOWS)
def test_a_workflow_may_only_read(file: str) -> None:
    workflow = load(file)
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())


@pytest.mark.parametrize("file", WORKFLOWS)
def test_pull_requests_of_strangers_see_no_secret(file: str) -> None:
    # YAML 1.1 reads the key `on` as true.
    assert "pull_request_target" not in load(file)[True]
    assert "secrets." not in text_of(file)
    checkouts = [
        step
        for job in load(file)["jobs"].values()
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("file", WORKFLOWS)
def test_a_newer_push_ends_the_older_run_and_every_job_ends(file: str) -> None:
    workflow = load(file)
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())


def test_every_command_of_a_workflow_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE))
    targets |= {f"verify-{x}" for x in ("schemas", "charts", "docs", "rendered")}
    for file in WORKFLOWS:
        for target in re.findall(r"\bmake ([a-z0-9-]+)", text_of(file)):
            assert target in targets, f"{file}: make {target}"


def test_make_alone_lists_every_target() -> None:
    listed = subprocess.run(
        ["make"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    ).stdout
    for target in re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE):
        assert re.search(rf"make {target} +\w", listed), f"{target} says nothing after ##"


def recipe(target: str) -> str:
    """Last line of a target's recipe."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text_of("Makefile"), re.MULTILINE)
    assert found is not None, f"make {target} does nothing"
    return found[1].strip().splitlines()[-1]


def test_make_test_leaves_out_what_is_opt_in_and_nothing_else() -> None:
    assert recipe("test") == "@$(PY) -m pytest $(ARGS)"
    settings = tomllib.loads(text_of("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    options = shlex.split(settings["addopts"])
    assert options.count("-m") == 1
    chosen = options[options.index("-m") + 1]
    assert chosen == " and ".join(f"not {marker}" for marker in sorted(OPT_IN))


@pytest.mark.parametrize("marker", OPT_IN)
def test_what_is_opt_in_has_a_target_and_a_workflow_of_its_own(marker: str) -> None:
    assert recipe(f"test-{marker}") == f"@$(PY) -m pytest -m {marker} $(ARGS)"
    assert any(f"make test-{marker}" in text_of(file) for file in WORKFLOWS)
    # A choice on the command line replaces the one in pyproject.toml.
    for target in ("test-fast", "test-e2e"):
        assert f"not {marker}" in recipe(target)


def test_ci_runs_make_test() -> None:
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert text_of(".ci/run").rstrip().endswith("make test")
