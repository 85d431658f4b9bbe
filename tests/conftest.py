"""Fixtures every room's tests share, and the order and progress of the whole run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
# Where the clusters of end-to-end tests keep their state: one place for all processes of a run.
STATE = "TOKENWORKS_TESTS_STATE"
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ[STATE] = f"/var/lib/tokenworks-tests/{os.getpid()}"
# Tests that want a cluster take minutes.
CLUSTER = (
    "tests/e2e/",
    "tests/engine/test_serving.py",
    "tests/docs/test_guides.py::test_a_guide_holds_on",
)
MATRIX = ("tests/matrix/", "tests/fieldnotes/", "tests/render/test_same.py")


def pytest_configure(config: pytest.Config) -> None:
    """Shells start jobs in the background deaf to Ctrl-C, and so would be every program that the
    tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Names(config))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Whoever started the others cleans up after one that was ended in the middle of a test."""
    if not hasattr(config, "workerinput"):
        _clean()


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
    """Quick tests first: a mistake shows in seconds, not after a cluster started."""
    here = Path(__file__).relative_to(ROOT)
    for item in items:
        wants = getattr(item, "fixturenames", [])
        if "matrix" in wants:
            item.add_marker(pytest.mark.slow)
        if not _is_slow(item):
            continue
        if not item.nodeid.startswith(CLUSTER):
            raise pytest.UsageError(f"{item.nodeid} wants the cluster: add it to CLUSTER in {here}")
        if "before" not in wants:  # a function's tests share the list
            wants.insert(0, "before")
    items.sort(
        key=lambda item: (
            item.get_closest_marker("last") is not None,
            item.nodeid.startswith(CLUSTER),
            item.get_closest_marker("pulumi") is not None,
        )
    )


class Shared(LoadScopeScheduling):
    """Where several processes share the tests, those of a file stay together, and so do all that
    want the matrix of releases, which takes long to render, and all that want the cluster."""

    def _split_scope(self, nodeid: str) -> str:
        for together in (CLUSTER, MATRIX):
            if nodeid.startswith(together):
                return together[0]
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Shared:
    """How xdist shares them."""
    return Shared(config, log)


@pytest.fixture(scope="session")
def before() -> Generator[dict[str, set[str]]]:
    """The machine before any cluster; end-to-end tests keep their state apart from the user's."""
    from tests.e2e.platform import snapshot  # noqa: PLC0415  only where a cluster is used

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENWORKS_STATE", os.environ[STATE])
        yield snapshot()
        _clean()


def _clean() -> None:
    """Remove the cluster of the tests, where there is one."""
    state = os.environ[STATE]
    if Path(state).exists():
        down = [str(ROOT / "tokenworks"), "local", "down"]
        subprocess.run(down, env={**os.environ, "TOKENWORKS_STATE": state}, check=True)
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def state() -> Generator[Path]:
    """A folder for the state of clusters. `tmp_path` may be too deep for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="tw-") as folder:
        yield Path(folder) / "state"


class Names:
    """Name each end-to-end test as it starts: one takes minutes, and dots would not show it."""

    def __init__(self, config: pytest.Config) -> None:
        """Names go where the results go."""
        self._config = config

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Asked in the process that reports, whichever runs the test."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        named = nodeid.startswith(CLUSTER)
        if named and reporter is not None and reporter.verbosity <= 0:
            # Where results of several processes come together, `ensure_newline` does not see them.
            below = "\n" if getattr(reporter, "_width_of_current_line", 1) else ""
            reporter.write(f"{below}{nodeid} ", flush=True)


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("e2e") is not None
