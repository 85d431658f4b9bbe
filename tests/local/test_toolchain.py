"""The toolchain: pins that agree with each other, and programs found or built exactly once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from local.toolchain import build
from local.toolchain.align import TOGETHER
from local.toolchain.build import cached_path, debian_present, ensure, ensure_debian, find
from local.toolchain.pins import (
    HERE,
    DebianPackage,
    Program,
    groups,
    module_versions,
    pinned_modules,
    pins,
)
from local.toolchain.progress import Running, run
from tests.waiting import FOREVER
from tokenworks.catalog.bill import bill
from tokenworks.cli import engine
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.render import helm

ROOT = Path(__file__).parents[2]

# A Go that says its version, and builds by writing down that it did.
FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit 0; fi
echo "$@" >> "$FAKE_GO_LOG"
while [ "$1" != -o ]; do shift; done
echo half > "$2"
{then}
echo whole > "$2"
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache and a PATH of its own; nothing remembered from before, or afterwards."""
    remembered = (build._on_path, build._go_version)  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("TOKENWORKS_CACHE", str(tmp_path / "cache"))
    for name in ("cat", "touch"):  # what the fakes use; this machine may have a Go of its own
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("FAKE_GO_LOG", str(tmp_path / "built"))
    for function in remembered:
        function.cache_clear()
    yield tmp_path
    for function in remembered:
        function.cache_clear()


def put(place: Path, name: str, script: str) -> Path:
    """A program on PATH."""
    path = place / "bin" / name
    path.write_text(script)
    path.chmod(0o755)
    return path


def go(place: Path, then: str = "", version: str = "") -> None:
    """A fake Go on PATH; `then` runs when half of a program is written."""
    put(place, "go", FAKE_GO.format(version=version or pins().go, then=then))


def built(place: Path) -> list[str]:
    """Calls of `go build` so far."""
    log = place / "built"
    return log.read_text().splitlines() if log.exists() else []


def always(folder: Path) -> Callable[[Program], Path]:
    """A place of modules that has one folder for all."""
    return lambda _program: folder


class TestPins:
    """Each version is written once; what repeats it elsewhere agrees."""

    def test_what_few_want_is_built_for_nobody_else(self) -> None:
        extra = {name for name, program in pins().programs.items() if program.extra}
        assert (
            extra
            == {"actionlint", "argocd", "conftest", "helm3", "helmfile"}
            == {*pins().programs} - {*pins().needed}
        )

    def test_programs_are_required_by_their_go_mod(self) -> None:
        wrong = [
            p.name
            for p in pins().programs.values()
            if p.group and p.module not in module_versions(p.group)
        ]
        assert wrong == []

    def test_a_version_of_its_own_is_only_for_what_go_mod_cannot_name(self) -> None:
        data = yaml.safe_load((HERE / "pins.yaml").read_text())["programs"]
        own = {name for name, entry in data.items() if "version" in entry}
        assert own == {"pause", "pulumi-resource-kubernetes"}

    def test_the_pinned_go_is_as_new_as_each_module_asks(self) -> None:
        for group in groups():
            text = (HERE / "go" / group / "go.mod").read_text()
            match = re.search(r"^go (\d+)\.(\d+)\.(\d+)$", text, re.MULTILINE)
            assert match, group
            pinned = tuple(map(int, pins().go_of(group).split(".")))
            assert tuple(map(int, match.groups())) <= pinned, group

    def test_a_newer_go_is_only_for_what_wants_it(self) -> None:
        def numbers(version: str) -> tuple[int, ...]:
            return tuple(map(int, version.split(".")))

        for group, newer in pins().newer_go.items():
            text = (HERE / "go" / group / "go.mod").read_text()
            wanted = re.search(r"^go ([\d.]+)$", text, re.MULTILINE)
            assert wanted, group
            assert numbers(pins().go) < numbers(wanted[1]) <= numbers(newer), group

    @pytest.mark.parametrize("pair", TOGETHER, ids="+".join)
    def test_what_two_folders_compile_has_one_version(self, pair: tuple[str, str]) -> None:
        """`hack/align.py` sees to it; else a first build compiles Kubernetes' libraries twice."""
        one, other = (module_versions(group) for group in pair)
        shared = {m for m in one.keys() & other.keys() if m.startswith("k8s.io/")}
        apart = {m: (one[m], other[m]) for m in shared if one[m] != other[m]}
        assert "k8s.io/client-go" in shared and not apart

    def test_every_go_mod_has_its_sums(self) -> None:
        assert groups()
        for group in groups():
            sums = (HERE / "go" / group / "go.sum").read_text()
            for module, version in module_versions(group).items():
                assert (
                    f"{module} {version}" in sums
                    or f"{module} =>" in (HERE / "go" / group / "go.mod").read_text()
                ), f"{group}: {module} {version}"

    def test_the_routers_group_shares_the_operators_compiled_packages(self) -> None:
        operators, llm_d = module_versions("operators"), module_versions("llm-d")
        shared = operators.keys() & llm_d.keys()
        assert len(shared) > 50
        assert {m for m in shared if operators[m] != llm_d[m]} == {
            "sigs.k8s.io/gateway-api-inference-extension"
        }

    def test_helm_3_shares_the_compiled_packages_of_helm_4(self) -> None:
        ours, theirs = module_versions("manifests"), module_versions("helm3")
        shared = ours.keys() & theirs.keys()
        assert len(shared) > 50
        assert [m for m in shared if ours[m] != theirs[m]] == []

    def test_every_group_serves_something(self) -> None:
        used = {p.group for p in pins().programs.values()}
        charts = {c.module for c in bill().components.values()}
        for group in groups():
            assert group in used or charts & pinned_modules(group).keys(), group

    @pytest.mark.parametrize(
        "name", sorted(n for n, component in bill().components.items() if component.module)
    )
    def test_the_bill_of_versions_is_what_go_mod_pins(self, name: str) -> None:
        component = bill().components[name]
        pins_of = [pinned_modules(g).get(str(component.module)) for g in groups()]
        assert [version for version in pins_of if version] == [component.version]

    def test_a_module_comes_in_its_pinned_version_whoever_else_needs_it(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for group, text in (
            ("needs", "require (\n\texample.com/x v1.0.0 // indirect\n)\n"),
            ("pins", "require example.com/x v1.0.1\n"),
        ):
            (place / "go" / group).mkdir(parents=True)
            (place / "go" / group / "go.mod").write_text(f"module {group}\n\n{text}")
        monkeypatch.setattr(sys.modules["local.toolchain.pins"], "HERE", place)
        monkeypatch.setattr(build, "HERE", place)
        version = f'if [ "$1" = version ]; then echo "go version go{pins().go}"; exit; fi'
        put(place, "go", f'#!/bin/sh\n{version}\necho "{{\\"Dir\\": \\"/$4\\"}}"\n')
        assert build.module_dir("example.com/x") == Path("/example.com/x@v1.0.1")

    @pytest.mark.parametrize(
        "program", [p for p in pins().programs.values() if p.file or p.files], ids=lambda p: p.name
    )
    def test_files_beside_programs_come_in_the_version_that_is_built(
        self, program: Program, place: Path
    ) -> None:
        version = f'if [ "$1" = version ]; then echo "go version go{pins().go}"; exit; fi'
        put(place, "go", f'#!/bin/sh\n{version}\necho "{{\\"Dir\\": \\"/$4\\"}}"\n')
        wanted = module_versions(str(program.group))[str(program.module)]
        assert build.files_of(program) == Path(f"/{program.module}@{wanted}")

    def test_the_kubernetes_provider_is_the_sdks(self) -> None:
        assert pins().programs["pulumi-resource-kubernetes"].version == (
            f"v{engine.PROVIDER_VERSION}"
        )
        assert f"pulumi-kubernetes=={engine.PROVIDER_VERSION}" in (
            (ROOT / "pyproject.toml").read_text()
        )

    def test_charts_are_rendered_for_the_kubernetes_that_runs(self) -> None:
        assert pins().programs["kube"].version == f"v{helm.KUBE_VERSION}"

    def test_flags_are_filled_in(self) -> None:
        flags = pins().programs["kube"].ldflags
        assert "-X k8s.io/component-base/version.gitVersion=v1.35.4" in flags
        assert "-X k8s.io/component-base/version.gitMinor=35" in flags
        assert not [f for p in pins().programs.values() for f in p.ldflags if "{" in f]


class TestOnPath:
    """A program of the user serves when its version fits, and is left alone when not."""

    def test_a_fitting_version_is_used(self, place: Path) -> None:
        major, minor, _ = pins().programs["helm"].version.lstrip("v").split(".")
        path = put(place, "helm", f'#!/bin/sh\necho "v{major}.{minor}.99+g1234567"\n')
        found = find("helm")
        assert (found.path, found.source, found.seen) == (path, "PATH", f"{major}.{minor}.99")
        assert ensure("helm") == {"helm": path}

    def test_another_version_is_seen_and_not_used(self, place: Path) -> None:
        put(place, "helm", "#!/bin/sh\necho v3.19.0+g1234567\n")
        found = find("helm")
        assert (found.path, found.source, found.seen) == (None, "missing", "3.19.0")
        go(place)
        assert ensure("helm")["helm"] == cached_path(pins().programs["helm"])
        assert find("helm").source == "cache"

    @pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "not a program"])
    def test_one_that_says_nothing_is_not_used(self, place: Path, script: str) -> None:
        put(place, "helm", script)
        assert (find("helm").path, find("helm").seen) == (None, "unknown")

    def test_one_that_hangs_is_not_waited_for(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(build, "_ASK_SECONDS", 0.1)
        os.mkfifo(place / "fifo")
        put(place, "helm", f"#!/bin/sh\nexec cat {place / 'fifo'}\n")
        assert (find("helm").path, find("helm").seen) == (None, "unknown")

    def test_programs_of_the_cluster_are_never_taken_from_path(self, place: Path) -> None:
        put(place, "kube", "#!/bin/sh\necho v1.35.4\n")
        assert find("kube").source == "missing"


class TestKey:
    """The cache's key holds everything that makes the program."""

    def test_what_is_built_is_in_it(self) -> None:
        program = pins().programs["helm"]
        others = [
            replace(program, version="v4.3.2"),
            replace(program, package="example.com/other"),
            replace(program, ldflags=("-X a=b",)),
            replace(program, files={"schema.json": "schema.json"}),
            replace(program, name="helm2"),
        ]
        paths = {cached_path(p) for p in (program, *others)}
        assert len(paths) == 1 + len(others)
        assert cached_path(program) == cached_path(replace(program, why="another reason"))

    def test_the_groups_files_are_in_it(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program, folder = pins().programs["helm"], place / "go" / "manifests"
        folder.mkdir(parents=True)
        (folder / "go.mod").write_text("module a\n")
        monkeypatch.setattr(build, "HERE", place)
        before = cached_path(program)
        (folder / "go.sum").write_text("b v1 h1:x\n")
        with_sums = cached_path(program)
        (folder / "go.mod").write_text("module b\n")
        assert len({before, with_sums, cached_path(program)}) == 3

    def test_a_source_of_this_repository_is_in_it(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = pins().programs["pause"]
        source = place / str(program.source)
        source.parent.mkdir(parents=True)
        source.write_text("package main\n")
        monkeypatch.setattr(build, "ROOT", place)
        before = cached_path(program)
        source.write_text("package main // changed\n")
        assert cached_path(program) != before

    def test_the_release_of_go_is_in_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        program, newer = pins().programs["helm"], replace(pins(), go="9.9.9")
        before = cached_path(program)
        monkeypatch.setattr(build, "pins", lambda: newer)
        assert cached_path(program) != before


class TestBuild:
    """Built once, whole or not at all."""

    def test_a_second_call_builds_nothing(self, place: Path) -> None:
        go(place)
        first, second = ensure("helm", "kubeconform"), ensure("helm", "kubeconform")
        assert first == second
        assert len(built(place)) == 2
        assert first["helm"].read_text() == "whole\n"
        assert first["helm"].stat().st_mode & 0o777 == 0o755
        assert first["helm"].parent.stat().st_mode & 0o777 == 0o755

    def test_only_what_is_asked_for_is_built(self, place: Path) -> None:
        go(place)
        ensure("kubeconform")
        assert [call.split()[-1] for call in built(place)] == [
            "github.com/yannh/kubeconform/cmd/kubeconform"
        ]

    def test_what_is_there_needs_no_go(self, place: Path) -> None:
        go(place)
        first = ensure("helm")
        (place / "bin" / "go").unlink()
        build._go_version.cache_clear()  # pyright: ignore[reportPrivateUsage]
        assert ensure("helm") == first

    def test_progress_names_the_program_and_why(self, place: Path) -> None:
        go(place)
        said: list[str] = []
        ensure("helm", progress=said.append)
        assert said[0] == f"Building 1 program(s) once, into {place / 'cache'}:"
        title = f"building helm v4.3.1 ({pins().programs['helm'].why})"
        assert said[1] == f"  → {title}"
        assert re.fullmatch(rf"  ✓ {re.escape(title)} \(\d+:\d\d\)", said[2])

    def test_two_runs_at_once_build_once(self, place: Path) -> None:
        gate = place / "gate"
        os.mkfifo(gate)
        go(place, then=f"read -r go_on < {gate}")
        waiting, paths = threading.Event(), list[Path]()

        def told(line: str) -> None:
            if "another run is working on this" in line:
                waiting.set()

        def run() -> None:
            paths.append(ensure("helm", progress=told)["helm"])

        runs = [threading.Thread(target=run) for _ in range(2)]
        for each in runs:
            each.start()
        assert waiting.wait(30)
        gate.write_text("go on\n")
        for each in runs:
            each.join(30)
        assert len(built(place)) == 1
        assert paths == [cached_path(pins().programs["helm"])] * 2

    def test_a_failed_build_leaves_nothing_and_says_what_go_said(self, place: Path) -> None:
        go(place, then="echo 'undefined: Frobnicate' >&2; exit 1")
        with pytest.raises(TokenworksError, match=r"(?s)helm v4\.3\.1 failed.*Frobnicate.*resume"):
            ensure("helm")
        assert list((place / "cache" / "bin").iterdir()) == []
        go(place)
        assert ensure("helm")["helm"].read_text() == "whole\n"

    def test_a_killed_build_leaves_nothing_that_is_taken_for_whole(self, place: Path) -> None:
        gate = place / "gate"
        os.mkfifo(gate)
        os.mkfifo(place / "never")
        go(place, then=f"echo half > {gate}; read -r go_on < {place / 'never'}")
        code = "from local.toolchain import ensure; ensure('helm')"
        with subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        ) as run:
            assert gate.read_text() == "half\n"
            os.killpg(run.pid, signal.SIGKILL)
        (place / "never").write_text("nobody waits for it any more\n")
        assert find("helm").source == "missing"
        go(place)
        assert ensure("helm")["helm"].read_text() == "whole\n"
        assert [p.name for p in (place / "cache" / "bin").iterdir()] == [
            cached_path(pins().programs["helm"]).parent.name
        ]

    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
    )
    def test_who_is_told_to_end_leaves_no_compiler_behind(
        self, place: Path, number: signal.Signals, code: int
    ) -> None:
        gate = place / "gate"
        os.mkfifo(gate)
        os.mkfifo(place / "never")
        go(place, then=f"echo $$ > {gate}; read -r go_on < {place / 'never'}")
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "tokenworks.cli", "toolchain", "helm"],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stderr=subprocess.PIPE,
            text=True,
        ) as run:
            compiler = int(gate.read_text())
            os.kill(run.pid, number)
            _, said = run.communicate(timeout=60)
        assert run.returncode == code
        assert "run the same command again to continue" in said and "Traceback" not in said
        with pytest.raises(ProcessLookupError):
            os.kill(compiler, 0)

    def test_a_child_that_starts_while_all_are_told_to_end_is_told_too(self) -> None:
        running = Running()
        running.end()
        waits = [sys.executable, "-c", FOREVER]
        assert run(waits, running=running).returncode == -signal.SIGINT

    def test_two_are_built_at_once(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        begun, go_on = place / "begun", place / "go-on"
        os.mkfifo(begun)
        os.mkfifo(go_on)
        go(place, then=f"echo x > {begun}; read -r word < {go_on}")
        monkeypatch.setattr(build, "at_once", lambda: 2)
        both = threading.Thread(target=ensure, args=("helm", "kwok"))
        both.start()
        # Open for both directions: it does not end between the two.
        with os.fdopen(os.open(begun, os.O_RDWR), "rb", buffering=0) as handle:
            assert handle.read(2) + handle.read(2) == b"x\nx\n"
        with go_on.open("w") as handle:
            handle.write("on\non\n")
            handle.flush()
            both.join(60)
        assert len(built(place)) == 2

    def test_the_longest_begins_first_and_one_go_mod_is_built_one_by_one(self) -> None:
        lines = [[p.name for p in line] for line in build._lines(pins().programs.values())]
        of = {name: number for number, line in enumerate(lines) for name in line}
        assert of["kube"] < 2
        assert len({of[name] for name in ("kwok", "kueue", "lws", "epp")}) == 1
        assert of["pulumi"] < of["pilot-agent"] == of["pilot-discovery"] < of["coredns"]
        assert sorted(of) == sorted(pins().programs)

    @pytest.mark.parametrize(("gib", "at_once", "off"), [(8, 1, False), (24, 2, True)])
    def test_a_small_machine_builds_one_and_frees_memory(
        self, monkeypatch: pytest.MonkeyPatch, gib: int, at_once: int, off: bool
    ) -> None:
        monkeypatch.setattr(build, "_memory", lambda: gib << 30)
        assert build.at_once() == at_once
        assert (build.go_env()["GOGC"] == "off") == off
        assert build.go_env().get("GOMEMLIMIT") == ("8192MiB" if off else None)

    @pytest.mark.parametrize(
        ("names", "most"),
        [
            # The next may have begun before the first was seen to fail; not in its own line.
            (("helm", "kubeconform", "kwok", "coredns"), 2),
            (("kwok", "kueue", "lws"), 1),
        ],
    )
    def test_after_a_failure_none_is_begun(
        self, place: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], most: int
    ) -> None:
        go(place, then="exit 1")
        monkeypatch.setattr(build, "at_once", lambda: 1)
        with pytest.raises(TokenworksError, match="kwok"):
            ensure(*names)
        assert 1 <= len(built(place)) <= most

    def test_files_of_the_module_lie_beside_the_program(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go(place)
        module = place / "module"
        schema = module / pins().programs["pulumi-resource-kubernetes"].files["schema.json"]
        schema.parent.mkdir(parents=True)
        schema.write_text("{}")
        monkeypatch.setattr(build, "files_of", always(module))
        path = ensure("pulumi-resource-kubernetes")["pulumi-resource-kubernetes"]
        assert (path.parent / "schema.json").read_text() == "{}"

    def test_a_script_is_copied_from_its_module(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go(place)
        program = pins().programs["pulumi-language-python-exec"]
        script = place / "module" / str(program.file)
        script.parent.mkdir(parents=True)
        script.write_text("#!/usr/bin/env python3\n")
        monkeypatch.setattr(build, "files_of", always(place / "module"))
        path = ensure(program.name)[program.name]
        assert path.read_text() == "#!/usr/bin/env python3\n"
        assert os.access(path, os.X_OK)
        assert built(place) == []


class TestRefusals:
    """What cannot work is said with what to do."""

    def test_no_go(self, place: Path) -> None:
        assert not (place / "bin" / "go").exists()
        with pytest.raises(TokenworksError, match=r"go is not on PATH.*1\.26\.8.*Install it"):
            ensure("helm")

    def test_an_old_go(self, place: Path) -> None:
        go(place, version="1.19.8")
        with pytest.raises(TokenworksError, match=r"go 1\.19\.8 on PATH is too old.*1\.21"):
            ensure("helm")

    def test_another_go_fetches_the_pinned_one(self, place: Path) -> None:
        go(place, version="1.22.1")
        assert build.go_env()["GOTOOLCHAIN"] == f"go{pins().go}"
        for group, newer in pins().newer_go.items():
            assert build.go_env(group)["GOTOOLCHAIN"] == f"go{newer}"
        build._go_version.cache_clear()  # pyright: ignore[reportPrivateUsage]
        go(place)
        assert build.go_env()["GOTOOLCHAIN"] == "local"

    def test_an_unknown_program(self) -> None:
        known = (
            r"unknown program 'helmm'; known: actionlint, argocd, bbr, charts, conftest, coredns,"
        )
        with pytest.raises(UsageError, match=known):
            ensure("helmm")

    def test_a_module_that_is_not_pinned(self) -> None:
        with pytest.raises(TokenworksError, match=r"example\.com/y is pinned by none of local/"):
            build.module_dir("example.com/y")


class TestDistribution:
    """Packages of the distribution: found by what they bring, installed by root alone."""

    absent = DebianPackage("frobnicator", "frobnicate-program", "nothing")

    def test_presence_is_proved_by_a_program_or_a_file(self, place: Path) -> None:
        assert not debian_present(self.absent)
        path = put(place, "frobnicate-program", "#!/bin/sh\n")
        assert debian_present(self.absent)
        assert debian_present(replace(self.absent, program=str(path)))

    @pytest.fixture(autouse=True)
    def pinned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One package, which is not there."""
        one = replace(pins(), debian={"frobnicator": self.absent})
        monkeypatch.setattr(build, "pins", lambda: one)

    def test_without_root_the_command_is_named(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(place, "apt-get", "#!/bin/sh\n")
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(TokenworksError, match=r"Run as root: apt-get install -y frobnicator"):
            ensure_debian()

    def test_without_apt_the_packages_are_named(self) -> None:
        with pytest.raises(TokenworksError, match=r"missing: frobnicator\. Install them with"):
            ensure_debian()

    def test_package_lists_are_fetched_when_an_install_fails_without_them(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        put(
            place,
            "apt-get",
            f'#!/bin/sh\necho "$1" >> {place}/apt\n'
            f'[ "$1" = update ] && touch {place}/lists\ntest -e {place}/lists\n',
        )
        ensure_debian()
        assert (place / "apt").read_text().split() == ["install", "update", "install"]

    def test_a_failed_install_says_what_apt_said(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        put(place, "apt-get", "#!/bin/sh\necho 'no space left' >&2; exit 100\n")
        with pytest.raises(TokenworksError, match="no space left"):
            ensure_debian()
