"""Fixtures every room's tests share, and the order and progress of the whole run."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    """Shells start jobs in the background deaf to Ctrl-C, and so would be every program that the
    tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def helm() -> Path:
    """The pinned helm, built when it is missing."""
    return _program("helm")


@pytest.fixture(scope="session")
def renderer() -> Path:
    """The program that renders charts, built when it is missing."""
    return _program("charts")


@pytest.fixture(scope="session")
def kubeconform() -> Path:
    """The pinned kubeconform, built when it is missing."""
    return _program("kubeconform")


def _program(name: str) -> Path:
    from local.toolchain import ensure  # noqa: PLC0415  tests without programs need no toolchain

    return ensure(name)[name]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first: a mistake shows in seconds, not after a cluster started.

    Where several processes share the tests, those of a file stay together, and so do all that
    want the matrix of releases, which takes long to render.
    """
    for item in items:
        wants = getattr(item, "fixturenames", ())
        group = "matrix" if "matrix" in wants else item.path.as_posix()
        if group == "matrix":
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(
        key=lambda item: (
            item.get_closest_marker("last") is not None,
            _is_slow(item),
            item.get_closest_marker("pulumi") is not None,
        )
    )


@pytest.fixture(scope="session", autouse=True)
def before(request: pytest.FixtureRequest) -> Generator[dict[str, set[str]]]:
    """The machine before any cluster; end-to-end tests keep their state apart from the user's."""
    if not any(_is_slow(item) for item in request.session.items):
        yield {}
        return
    from tests.e2e.platform import STATE, snapshot  # noqa: PLC0415  only where a cluster is used

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENWORKS_STATE", STATE)
        down = [str(ROOT / "tokenworks"), "local", "down"]
        yield snapshot()
        subprocess.run(down, check=True)
        shutil.rmtree(STATE, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Name each end-to-end test as it starts: one takes minutes, and dots would not show it."""
    reporter = item.config.pluginmanager.get_plugin("terminalreporter")
    if _is_slow(item) and reporter is not None and reporter.verbosity <= 0:
        reporter.ensure_newline()
        reporter.write(f"{item.nodeid} ", flush=True)
    return (yield)


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("e2e") is not None
