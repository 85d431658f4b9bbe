"""Workflows run what contributors run, with pinned actions and no rights they do not need."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import ensure
from tests.repo.tree import ROOT, files, text_of
from tokenworks.cli.main import build

OPT_IN = {
    "argocd": "a quarter of an hour beside an hour and a half that all may take",
    "engine": "fetches 2.5 GB and keeps 5.5 GB; `make test` asks for neither",
}
"""Markers that `make test` leaves out, each with the reason; it has its own target and workflow."""

RIGHTS = {
    ("pull-request-comment.yaml", "post"): {"actions": "read", "pull-requests": "write"},
    ("merge.yaml", "staging"): {"deployments": "read", "id-token": "write"},
    ("merge.yaml", "prod"): {"deployments": "read", "id-token": "write"},
    ("release.yaml", "charts"): {"packages": "write", "id-token": "write"},
}
"""Jobs that may do more than read the repository, and what."""
MINUTES = {"merge.yaml": 180}
"""Workflows whose jobs may take longer than 90 minutes."""
OTHERS = ("ct lint --config ct.yaml",)
"""Commands of workflows that are neither ours nor make's."""

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


def jobs(file: str) -> list[tuple[str, dict[Any, Any]]]:
    return list(load(file)["jobs"].items())


def base_of(file: str) -> str:
    return file.rsplit("/", 1)[-1]


@pytest.mark.parametrize("file", WORKFLOWS)
def test_a_workflow_may_only_read_and_a_job_no_more_than_is_listed(file: str) -> None:
    assert load(file)["permissions"] == {"contents": "read"}
    for name, job in jobs(file):
        more = RIGHTS.get((base_of(file), name))
        wanted = None if more is None else {"contents": "read", **more}
        assert job.get("permissions") == wanted, name


def test_every_right_is_of_a_job_that_is_there() -> None:
    assert set(RIGHTS) <= {(base_of(file), name) for file in WORKFLOWS for name, _ in jobs(file)}


def checkouts(file: str) -> list[dict[Any, Any]]:
    steps = [step for _, job in jobs(file) for step in job["steps"]]
    return [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]


@pytest.mark.parametrize("file", WORKFLOWS)
def test_pull_requests_of_strangers_see_no_secret(file: str) -> None:
    # YAML 1.1 reads the key `on` as true.
    assert "pull_request_target" not in load(file)[True]
    assert "secrets." not in text_of(file)
    assert checkouts(file)
    assert all(step["with"]["persist-credentials"] is False for step in checkouts(file))


def test_who_may_write_runs_no_code_of_a_pull_request() -> None:
    for file in WORKFLOWS:
        writes = [
            name for name, job in jobs(file) if "write" in (job.get("permissions") or {}).values()
        ]
        if not writes:
            continue
        assert not {"pull_request", "issue_comment"} & set(load(file)[True]), file
        own = {"${{ github.event.repository.default_branch }}", None}
        assert {step["with"].get("ref") for step in checkouts(file)} <= own, file
        if "workflow_run" in load(file)[True]:
            assert all(step["with"].get("ref") for step in checkouts(file)), file


@pytest.mark.parametrize("file", WORKFLOWS)
def test_nothing_that_others_choose_stands_in_a_command(file: str) -> None:
    """Branches and titles are text of strangers: a shell gets them as variables alone."""
    commands = [step["run"] for _, job in jobs(file) for step in job["steps"] if "run" in step]
    assert not [command for command in commands if "${{" in command]


@pytest.mark.parametrize("file", WORKFLOWS)
def test_a_newer_push_ends_the_older_run_and_every_job_ends(file: str) -> None:
    workflow = load(file)
    most = MINUTES.get(base_of(file), 90)
    assert all(job["timeout-minutes"] <= most for _, job in jobs(file))
    if "concurrency" in workflow:
        assert workflow["concurrency"]["cancel-in-progress"] is True
        return
    # What changes an environment is not stopped half-way, and is alone on it.
    groups = [job["concurrency"] for _, job in jobs(file)]
    assert all(group["cancel-in-progress"] is False for group in groups)
    assert len({group["group"] for group in groups}) == len(groups)


def test_every_environment_on_aws_is_deployed_by_a_job_with_its_approval() -> None:
    """One after the other, by the token of the run: no key is kept anywhere."""
    found = jobs(".github/workflows/merge.yaml")
    on_aws = {
        file.split("/")[1]
        for file in files()
        if re.fullmatch(r"stacks/[^/]+/environment.yaml", file)
        and yaml.safe_load(text_of(file))["spec"]["cluster"]["provider"] == "aws"
    }
    assert {job["environment"] for _, job in found} == on_aws
    for place, (name, job) in enumerate(found):
        assert job["environment"] == name
        refuse, up = [step["run"] for step in job["steps"] if "run" in step]
        assert up == f"./tokenworks up {name} --yes"
        assert refuse == f"make refuse-older ENVIRONMENT={name}"
        assert job.get("needs") == (found[place - 1][0] if place else None)
        assert any("configure-aws-credentials@" in step.get("uses", "") for step in job["steps"])


def command_of(line: str) -> list[str]:
    """The words of a command, without who runs it."""
    return [w for w in shlex.split(line) if w != "sudo" and not w.startswith("--preserve-env")]


@pytest.mark.parametrize("file", WORKFLOWS)
def test_every_command_of_a_workflow_is_one_that_people_can_type(file: str) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", text_of("Makefile"), re.MULTILINE))
    targets |= {f"verify-{x}" for x in ("grammar", "schemas", "charts", "docs", "rendered")}
    commands = [command.name for command in build().registered_commands]
    for _, job in jobs(file):
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                program, *words = command_of(line)
                if line in OTHERS:
                    continue
                if program == "make":
                    assert words[0] in targets, f"{file}: {line}"
                elif program == "./tokenworks":
                    assert words[0] in commands, f"{file}: {line}"
                else:
                    assert (ROOT / program).stat().st_mode & 0o111, f"{file}: {line}"


@pytest.mark.slow
def test_github_would_take_every_workflow() -> None:
    """Contexts, expressions, events, labels of runners and the inputs of well-known actions."""
    actionlint = ensure("actionlint")["actionlint"]
    # Shell and Python inside workflows are one command each; the tools for them are not asked.
    done = subprocess.run(
        [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", *WORKFLOWS],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.slow
def test_a_workflow_that_github_refuses_is_found(tmp_path: Path) -> None:
    actionlint = ensure("actionlint")["actionlint"]
    file = tmp_path / "wrong.yaml"
    file.write_text(
        "on: push\njobs:\n  one:\n    runs-on: ubuntu-24.04\n    needs: two\n"
        "    steps: [{run: make test, if: github.evnt}]\n"
    )
    done = subprocess.run(
        [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", file],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert 'property "evnt" is not defined' in done.stdout


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
    assert recipe("test") == "@$(PY) -m pytest $(SHARED) --no-loadscope-reorder $(ARGS)"
    assert "-m" not in re.findall("^SHARED := (.*)", text_of("Makefile"), re.MULTILINE)[0].split()
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
