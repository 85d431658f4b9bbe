"""Images without a registry: the table, the layers, the archives, the cache."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from local.images import build as build_module
from local.images import (
    build_images,
    debian,
    image_digest,
    images_for,
    local_image_names,
    oci,
    programs_needed,
    wheels,
)
from local.images.table import ROOT, Debian, Wheels, table
from local.images.tree import Tree, merged
from local.toolchain.pins import pins
from tokenworks.errors import TokenworksError, UsageError

PAUSE = "registry.k8s.io/pause:3.10.1"
KUEUE = "registry.k8s.io/kueue/kueue:v0.19.2"


def silent(_: str) -> None:
    """Progress nobody reads."""


@pytest.fixture
def pause(tmp_path: Path) -> dict[str, Path]:
    program = tmp_path / "pause-program"
    program.write_bytes(b"\x7fELF pause")
    return {"pause": program}


def build(programs: dict[str, Path], cache: Path, name: str = PAUSE) -> Path:
    return build_images(programs, cache, [name], silent)[name]


def blobs(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {m.name: read(tar, m.name) for m in tar if m.isfile()}


def read(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def layer_members(archive: Path) -> dict[str, tarfile.TarInfo]:
    """Every member of every layer, later layers winning."""
    files = blobs(archive)
    members: dict[str, tarfile.TarInfo] = {}
    for layer in json.loads(files["manifest.json"])[0]["Layers"]:
        with tarfile.open(fileobj=io.BytesIO(files[layer])) as tar:
            members |= {m.name: m for m in tar}
    return members


def config_of(archive: Path) -> dict[str, Any]:
    files = blobs(archive)
    return json.loads(files[json.loads(files["manifest.json"])[0]["Config"]])


# The table ------------------------------------------------------------------------------


def test_every_program_of_the_table_is_pinned() -> None:
    assert programs_needed() <= pins().programs.keys()


@pytest.mark.parametrize(
    "program", ["kueue", "lws", "epp", "bbr", "pause", "llm-d-epp", "pd-sidecar", "argocd"]
)
def test_the_tag_is_the_version_of_the_program_inside(program: str) -> None:
    tags = [n.rpartition(":")[2] for n, image in table().items() if program in image.programs]
    assert [tag.lstrip("v") for tag in tags] == [pins().programs[program].version.lstrip("v")]


@pytest.mark.parametrize("lock", ["sglang-router", "vllm-router"])
def test_the_tag_is_the_version_of_the_wheel_inside(lock: str) -> None:
    path = f"local/images/{lock}.txt"
    (name,) = [n for n, image in table().items() if image.wheels and image.wheels.lock == path]
    version = name.rpartition(":v")[2]
    assert f"{lock}=={version} " in (ROOT / path).read_text()


class TestImagesFor:
    """What is made for an environment: not what it does not use."""

    ROUTERS = (
        "docker.io/lmsysorg/sgl-model-gateway:v0.3.2",
        "docker.io/vllm/vllm-router:v0.1.17",
        "ghcr.io/llm-d/llm-d-inference-scheduler:v0.4.0",
        "ghcr.io/llm-d/llm-d-routing-sidecar:v0.4.0",
    )

    def test_routers_are_not_made_where_none_is_named(self) -> None:
        rendered = {name for name, image in table().items() if image.when == "rendered"}
        assert set(self.ROUTERS) < rendered
        assert images_for([KUEUE]) == local_image_names() - rendered

    @pytest.mark.parametrize("name", ROUTERS)
    @pytest.mark.parametrize("digest", ["", f"@sha256:{'0' * 64}"], ids=["tag", "digest"])
    def test_a_router_that_is_named_is_made(self, name: str, digest: str) -> None:
        assert images_for([name + digest]) == images_for([]) | {name}

    def test_another_version_of_a_router_is_not_made_here(self) -> None:
        assert images_for(["docker.io/vllm/vllm-router:v0.1.16"]) == images_for([])

    def test_programs_of_images_that_are_not_made_are_not_built(self) -> None:
        assert not programs_needed(images_for([])) & {"llm-d-epp", "pd-sidecar"}
        assert programs_needed(images_for(self.ROUTERS)) >= {"llm-d-epp", "pd-sidecar"}


def test_names_are_whole_and_tags_are_fixed() -> None:
    for name in local_image_names():
        assert re.fullmatch(r"[a-z0-9.-]+\.[a-z]+(/[a-z0-9-]+)+:v?\d+(\.\d+)+(-alpine)?", name), (
            name
        )


def test_every_entrypoint_is_something_the_image_has() -> None:
    from_packages = {"/usr/bin/python3", "/usr/bin/redis-server", "/usr/bin/tini"}
    for name, image in table().items():
        start = (image.entrypoint or image.command)[0]
        linked = {f"{p.rpartition('/')[0]}/{n}" for p, names in image.links.items() for n in names}
        own = {*image.programs.values(), *image.scripts.values()}
        assert start in {*own, *linked, *from_packages}, name


def test_locked_wheels_carry_hashes_and_exact_versions() -> None:
    for image in table().values():
        if image.wheels:
            lock = (ROOT / image.wheels.lock).read_text()
            requirements = re.findall(r"^[\w-]+.*$", lock, re.MULTILINE)
            assert requirements
            assert all("==" in line for line in requirements)
            assert lock.count("--hash=sha256:") >= len(requirements)


def test_the_simulator_image_takes_the_folder_that_holds_the_simulator() -> None:
    (folder,) = table()["ghcr.io/tokenworks/simulator:0.1.0"].copy_
    assert (ROOT / folder / "__main__.py").is_file()


def test_asking_for_names_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENWORKS_CACHE", str(tmp_path / "cache"))
    assert PAUSE in local_image_names()
    assert not (tmp_path / "cache").exists()


# Layers ---------------------------------------------------------------------------------


def layer(tree: Tree) -> bytes:
    out = io.BytesIO()
    tree.write(out)
    return out.getvalue()


def test_a_layer_does_not_depend_on_order_or_on_the_files_times(tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_bytes(b"x" * 1000)
    one, two = Tree(), Tree()
    one.file("/b", source, 0o755)
    one.file("/a/c", "text")
    first = layer(one)
    os.utime(source, (1, 1))
    source.chmod(0o600)
    two.file("/a/c", "text")
    two.file("/b", source, 0o755)
    assert layer(two) == first


def test_parents_come_first_and_everything_is_root_s_and_timeless() -> None:
    tree = Tree()
    tree.file("/etc/deep/file", "x")
    with tarfile.open(fileobj=io.BytesIO(layer(tree))) as tar:
        members = tar.getmembers()
    assert [m.name for m in members] == ["etc", "etc/deep", "etc/deep/file"]
    assert {(m.uid, m.gid, m.mtime, m.uname) for m in members} == {(0, 0, 0, "")}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("/bin/busybox", "/usr/bin/busybox"),
        ("/usr/lib/x", "/usr/lib/x"),
        ("/library", "/library"),
        ("/etc/lib/x", "/etc/lib/x"),
    ],
)
def test_old_places_are_merged_into_usr(path: str, place: str) -> None:
    assert merged(path) == place


def test_merged_folders_leave_links_behind_and_moved_links_still_point_right() -> None:
    tree = Tree()
    tree.file("/usr/lib/libreal.so", "x")
    tree.link("/lib/libold.so", "../usr/lib/libreal.so")
    tree.link("/lib/libabs.so", "/lib/libreal.so")
    with tarfile.open(fileobj=io.BytesIO(layer(tree))) as tar:
        links = {m.name: m.linkname for m in tar if m.issym()}
    assert links == {
        "lib": "usr/lib",
        "usr/lib/libold.so": "/usr/lib/libreal.so",
        "usr/lib/libabs.so": "/lib/libreal.so",
    }


# Archives -------------------------------------------------------------------------------


def test_the_archive_is_consistent_for_oci_and_for_docker(
    tmp_path: Path, pause: dict[str, Path]
) -> None:
    files = blobs(build(pause, tmp_path))
    index, docker = json.loads(files["index.json"]), json.loads(files["manifest.json"])[0]
    (entry,) = index["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == PAUSE
    assert docker["RepoTags"] == [PAUSE]
    manifest = json.loads(files[f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"])
    for descriptor in (manifest["config"], *manifest["layers"]):
        data = files[f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == descriptor["digest"]
        assert len(data) == descriptor["size"]
    config = json.loads(files[docker["Config"]])
    # Layers are not compressed, so their digests are those of the unpacked layers too.
    assert config["rootfs"]["diff_ids"] == [d["digest"] for d in manifest["layers"]]
    assert image_digest(build(pause, tmp_path)) == entry["digest"]


def test_the_process_starts_as_the_table_says(tmp_path: Path, pause: dict[str, Path]) -> None:
    archive = build(pause, tmp_path)
    config, members = config_of(archive), layer_members(archive)
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["config"]["User"] == "65535:65535"
    assert members["pause"].mode == 0o755
    assert members["tmp"].mode == 0o1777
    assert (members["home/pause"].uid, members["home/pause"].mode) == (65535, 0o700)


def test_the_architecture_is_named_as_images_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert oci.architecture() == "arm64"


# The cache ------------------------------------------------------------------------------


def test_the_same_inputs_give_the_same_bytes_anywhere(
    tmp_path: Path, pause: dict[str, Path]
) -> None:
    one, two = build(pause, tmp_path / "a"), build(pause, tmp_path / "b")
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


def test_an_unchanged_image_is_not_built_again(
    tmp_path: Path, pause: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(pause, tmp_path)

    def no_writing(*_: object) -> None:
        raise AssertionError("built twice")

    monkeypatch.setattr(build_module, "write_image", no_writing)
    assert build(pause, tmp_path) == first


def test_a_changed_program_makes_another_image(tmp_path: Path, pause: dict[str, Path]) -> None:
    first = build(pause, tmp_path)
    pause["pause"].write_bytes(b"\x7fELF another")
    second = build(pause, tmp_path)
    assert second != first
    assert image_digest(second) != image_digest(first)


def test_the_cache_keeps_two_of_each_image(tmp_path: Path, pause: dict[str, Path]) -> None:
    built: list[Path] = []
    for number in range(4):
        pause["pause"].write_bytes(b"program %d" % number)
        built.append(build(pause, tmp_path))
        os.utime(built[-1], (number, number))
    assert {p for p in built if p.exists()} == set(built[-2:])


def test_an_interrupted_build_leaves_no_image(
    tmp_path: Path, pause: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        arguments[3].write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(build_module, "write_image", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(pause, tmp_path)
    assert [p.name for p in (tmp_path / "images").iterdir()] == [".lock"]


def test_progress_is_said_for_what_is_built_and_only_then(
    tmp_path: Path, pause: dict[str, Path]
) -> None:
    lines: list[str] = []
    build_images(pause, tmp_path, [PAUSE], lines.append)
    assert any(PAUSE in line for line in lines)
    again: list[str] = []
    build_images(pause, tmp_path, [PAUSE], again.append)
    assert again == []


def test_an_unknown_image_is_a_usage_error_that_names_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nginx:1\.27: not in .*pause"):
        build_images({}, tmp_path, ["nginx:1.27"], silent)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs the program kueue"):
        build({}, tmp_path, KUEUE)


# Packages of the distribution -----------------------------------------------------------

FAKE_APT = """#!/bin/sh
echo "$@" >> "$FAKE/calls"
case "$*" in
  *update*) touch "$FAKE/updated" ;;
  *print-uris*)
    [ -e "$FAKE/updated" ] || [ -e "$FAKE/lists" ] || exit 100
    for deb in "$FAKE"/mirror/*.deb; do echo "'http://x/y' $(basename "$deb") 1 SHA256:0"; done ;;
  *download*)
    for word in "$@"; do case "$word" in *=*.*)
      name=${word%%=*}; version=$(echo "${word#*=}" | sed 's/:/%3a/')
      cp "$FAKE/mirror/${name%%:*}_${version}_"*.deb . || exit 100 ;;
    esac; done ;;
esac
"""


def make_deb(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    root = folder / f"tree-{name}"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: made for a test\n"
    )
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    file = folder / "mirror" / f"{name}_{version.replace(':', '%3a')}_amd64.deb"
    file.parent.mkdir(exist_ok=True)
    subprocess.run(["dpkg-deb", "--build", root, file], check=True, capture_output=True)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with two packages and an apt-get that serves it."""
    folder = tmp_path / "fake"
    folder.mkdir()
    make_deb(folder, "libone", "1:2.0-1", {"lib/libone.so": "one", "usr/share/doc/libone/x": "x"})
    make_deb(folder, "helper", "1.0", {"usr/bin/helper": "help"})
    (folder / "lists").touch()
    apt = folder / "bin/apt-get"
    apt.parent.mkdir()
    apt.write_text(FAKE_APT)
    apt.chmod(apt.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{apt.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(folder))
    return folder


def calls(mirror: Path, word: str) -> int:
    log = mirror / "calls"
    return sum(word in line for line in log.read_text().splitlines()) if log.exists() else 0


WANTED = Debian(packages=("libone",))


@pytest.mark.usefixtures("mirror")
def test_a_package_comes_with_what_it_needs(tmp_path: Path) -> None:
    tree = Tree()
    debian.add_packages(tree, debian.fetch(WANTED, tmp_path, silent))
    assert tree.get("/usr/lib/libone.so") is not None
    assert tree.get("/usr/bin/helper") is not None
    assert tree.get("/usr/share/doc/libone/x") is None, "documentation is not shipped"
    assert (tmp_path / "debs/libone_1%3a2.0-1_amd64.deb").is_file()


@pytest.mark.usefixtures("mirror")
def test_left_out_and_alone_packages(tmp_path: Path) -> None:
    without = debian.closure(Debian(packages=("libone",), without=("help.*",)), tmp_path)
    alone = debian.closure(Debian(alone=("helper",)), tmp_path)
    assert [p.name for p in without] == ["libone"]
    assert [p.name for p in alone] == ["helper"]


def test_what_was_resolved_and_fetched_is_not_asked_for_again(mirror: Path, tmp_path: Path) -> None:
    debian.fetch(WANTED, tmp_path, silent)
    before = (mirror / "calls").read_text()
    debian.fetch(WANTED, tmp_path, silent)
    assert (mirror / "calls").read_text() == before


def test_a_machine_without_package_lists_gets_them(mirror: Path, tmp_path: Path) -> None:
    (mirror / "lists").unlink()
    assert debian.closure(WANTED, tmp_path)
    assert calls(mirror, "update") == 1


def test_versions_that_the_mirror_withdrew_are_resolved_anew(mirror: Path, tmp_path: Path) -> None:
    debian.closure(WANTED, tmp_path)
    (mirror / "mirror/helper_1.0_amd64.deb").unlink()
    newer = mirror / "newer"
    newer.mkdir()
    make_deb(newer, "helper", "1.1", {"usr/bin/helper": "help"})
    (newer / "mirror/helper_1.1_amd64.deb").rename(mirror / "mirror/helper_1.1_amd64.deb")
    names = [p.name for p in debian.fetch(WANTED, tmp_path, silent)]
    assert "helper_1.1_amd64.deb" in names


def test_an_unreachable_mirror_is_said_with_the_packages(mirror: Path, tmp_path: Path) -> None:
    debian.closure(WANTED, tmp_path)
    apt = mirror / "bin/apt-get"
    apt.write_text(apt.read_text().replace("*download*)", "*download*) exit 100;"))
    with pytest.raises(TokenworksError, match=r"helper=1\.0.*mirror reachable"):
        debian.fetch(WANTED, tmp_path, silent)


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TokenworksError, match="Debian or Ubuntu"):
        debian.closure(WANTED, tmp_path)


def test_a_broken_package_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.deb"
    broken.write_bytes(b"not a package")
    with pytest.raises(TokenworksError, match=r"broken\.deb: delete it"):
        debian.add_packages(Tree(), [broken])


def test_certificates_become_one_bundle(tmp_path: Path) -> None:
    folder = "usr/share/ca-certificates/mozilla"
    make_deb(tmp_path, "ca", "1.0", {f"{folder}/b.crt": "B\n\n", f"{folder}/a.crt": "A"})
    tree = Tree()
    debian.add_packages(tree, [tmp_path / "mirror/ca_1.0_amd64.deb"])
    bundle = tree.get(debian.CA_BUNDLE)
    assert bundle is not None
    assert bundle.content == b"A\nB\n"
    assert tree.under("/usr/share/ca-certificates") == []


# Wheels ---------------------------------------------------------------------------------


def make_wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_a_wheel_is_installed_whole_or_by_single_files(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "p-1-py3-none-any.whl", {"p/__init__.py": "", "p/tool": "run"})
    whole, single = Tree(), Tree()
    wheels.add_wheels(whole, Wheels(lock="x", into="/app/site"), [wheel])
    wheels.add_wheels(single, Wheels(lock="x", files={"p/tool": "/usr/bin/tool"}), [wheel])
    assert whole.get("/app/site/p/__init__.py") is not None
    tool = single.get("/usr/bin/tool")
    assert tool is not None
    assert tool.mode == 0o755
    assert single.get("/app/site/p/__init__.py") is None


def test_a_file_that_no_wheel_has_is_an_error(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "p-1-py3-none-any.whl", {"p/__init__.py": ""})
    with pytest.raises(TokenworksError, match="/usr/bin/tool"):
        wheels.add_wheels(Tree(), Wheels(lock="x", files={"p/tool": "/usr/bin/tool"}), [wheel])
