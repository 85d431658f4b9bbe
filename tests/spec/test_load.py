"""Good environments load; what is not a document is refused without a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tokenworks.errors import UsageError
from tokenworks.spec.load import MAX_BYTES, environment_names, load_stack
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.sourced import EngineCatalog

ROOT = Path(__file__).parents[2]
MODEL = "models/a.yaml"


def problems_of(root: Path, engines: EngineCatalog) -> list[str]:
    """The problems of stacks/env, each as its line."""
    with pytest.raises(DocumentErrors) as raised:
        load_stack(root, "env", engines)
    return [str(problem).removeprefix("stacks/env/") for problem in raised.value.problems]


@pytest.mark.parametrize("name", environment_names(ROOT))
def test_the_environments_of_the_repository_load(name: str) -> None:
    stack = load_stack(ROOT, name)
    assert stack.name == name
    assert stack.models, "an environment that shows nothing explains nothing"
    documents = {f"ModelRelease/{model.metadata.name}" for model in stack.models}
    documents |= {f"Tenant/{tenant.metadata.name}" for tenant in stack.tenants}
    assert stack.sources.keys() == documents | {f"Environment/{name}"}
    assert all((ROOT / file).is_file() for file in stack.sources.values())


def test_local_and_dev_are_there() -> None:
    assert {"local", "dev"} <= set(environment_names(ROOT))


def test_every_document_of_the_repository_names_its_schema() -> None:
    files = [*(ROOT / "stacks").glob("*/environment.yaml"), *(ROOT / "stacks").glob("*/models/*")]
    files += (ROOT / "stacks").glob("*/tenants/*")
    assert files
    for file in files:
        first = file.read_text(encoding="utf-8").splitlines()[0]
        mark, _, target = first.partition("$schema=")
        assert mark == "# yaml-language-server: ", file
        assert (file.parent / target).resolve().is_file(), f"{file}: {target} does not exist"


def test_good_documents(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    stack = load_stack(stack_root(), "env", engines)
    (model,) = stack.models
    assert (model.served_name, model.spec.replicas, model.spec.resources.cpu) == ("a", 2, "50m")
    (tenant,) = stack.tenants
    assert (tenant.namespace, tenant.spec.quota["sim"].gpus) == ("research", 4)


def test_plain_objects(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    stack = load_stack(stack_root(), "env", engines)
    one, two, three, four = stack.manifests
    assert one["data"] == {"on": "yes", "8080": "text"}, "keys are text, quoted words too"
    assert (two["kind"], three["kind"]) == ("Secret", "ConfigMap"), "lists are flattened"
    assert three["data"] == {"mode": "0555"}
    assert four["spec"] == {
        "mode": "0555",
        "defaultMode": 0o555,
        "at": "22:22",
        "day": "2026-01-02",
    }, "octal as Kubernetes reads it; times and dates stay text"
    file = Path("stacks/env/manifests/extra.yaml")
    assert stack.manifest_sources == ((file, 1), (file, 11), (file, 17), (file, 21))


def test_folders_may_be_absent(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    folder = stack_root() / "stacks" / "env"
    for path in [*(folder / "models").iterdir(), *(folder / "manifests").iterdir()]:
        path.unlink()
    for name in ("models", "manifests"):
        (folder / name).rmdir()
    stack = load_stack(folder.parents[1], "env", engines)
    assert (stack.models, stack.manifests) == ((), ())


def test_byte_order_mark_and_windows_lines(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    for file in (root / "stacks" / "env").rglob("*.yaml"):
        text = file.read_text(encoding="utf-8").replace("\n", "\r\n")
        file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    load_stack(root, "env", engines)
    file = root / "stacks" / "env" / MODEL
    file.write_bytes(file.read_bytes().replace(b"pool:", b"pol:"))
    assert problems_of(root, engines)[0].startswith("models/a.yaml:14: spec.pol: unknown field")


def test_anchors_and_merges(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root()
    file = root / "stacks" / "env" / "environment.yaml"
    text = file.read_text(encoding="utf-8").replace("    sim:", "    sim: &node")
    text += "    third:\n      <<: [*node]\n      nodes: 0\n      labels: {pool: third}\n"
    file.write_text(text, encoding="utf-8")
    pools = load_stack(root, "env", engines).environment.spec.node_pools
    assert (pools["third"].nodes, pools["third"].gpus_per_node) == (0, 8), "own keys win"


def test_unknown_environment_lists_those_that_exist(stack_root: Callable[..., Path]) -> None:
    root = stack_root()
    for name in ("evn", "../env", "", ".", "env/", "env\0"):
        with pytest.raises(UsageError, match=r"unknown environment .*; allowed: env; "):
            load_stack(root, name)
    with pytest.raises(UsageError, match="did you mean env"):
        load_stack(root, "evn")


def test_no_environments_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="new environment NAME"):
        load_stack(tmp_path, "env")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a: \xff\n", "models/a.yaml:1: found the byte 0xff, which is not UTF-8; "),
        (b"a: 1\nb: \xc3\n", "models/a.yaml:2: found the byte 0xc3, which is not UTF-8; "),
        ("a: 1".encode("utf-16"), "models/a.yaml:1: is UTF-16; "),
        (b"\x7fELF\x00\x00", "models/a.yaml:1: is a binary file; "),
        (b"", "models/a.yaml: is empty; "),
        (b"\x01", "models/a.yaml: unreadable YAML: "),
        (b'a: "\\UFFFFFFFF"', "models/a.yaml: unreadable YAML: "),
        (b"a: b\n" * (MAX_BYTES // 5 + 1), "models/a.yaml: has 419430"),
    ],
)
def test_bytes_that_are_no_document(
    raw: bytes, expected: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    (root / "stacks" / "env" / MODEL).write_bytes(raw)
    (problem,) = problems_of(root, engines)
    assert problem.startswith(expected)


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere.yaml")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (_folder, "is a folder; "),
        (_loop, "cannot be read: Too many levels of symbolic links; "),
        (_dangling, "is a link to nothing; "),
        (_pipe, "is not a regular file; "),
        (_device, "is not a regular file; "),
    ],
)
@pytest.mark.parametrize("name", [MODEL, "environment.yaml", "manifests/extra.yaml"])
def test_what_is_no_file(
    name: str,
    make: Callable[[Path], None],
    expected: str,
    stack_root: Callable[..., Path],
    engines: EngineCatalog,
) -> None:
    root = stack_root()
    path = root / "stacks" / "env" / name
    path.unlink()
    make(path)
    (problem,) = problems_of(root, engines)
    assert problem.startswith(f"{name}: {expected}")


def test_environment_document_missing(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    (root / "stacks" / "env" / "environment.yaml").unlink()
    assert problems_of(root, engines) == [
        "environment.yaml: is missing, and without it the folder is no environment; allowed: an "
        "Environment; write it (docs/documents.md), bring it back, or remove the folder"
    ]


def test_a_folder_that_is_a_file(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root()
    (root / "stacks" / "env" / MODEL).unlink()
    (root / "stacks" / "env" / "models").rmdir()
    (root / "stacks" / "env" / "models").write_text("x")
    assert problems_of(root, engines) == ["models: is not a folder; make it one"]


def test_notes_and_hidden_files_are_left_alone(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    for name in ("README.md", "models/README.md", "models/.a.yaml.swp", ".gitkeep"):
        (root / "stacks" / "env" / name).write_text("not yaml: [")
    load_stack(root, "env", engines)


def test_an_unreadable_tenant_is_reported_once(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    (root / "stacks" / "env" / "tenants" / "research.yaml").write_text("[")
    (problem,) = problems_of(root, engines)
    assert problem.startswith("tenants/research.yaml:"), "its models are not blamed for it"


def test_problems_are_data(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root()
    file = root / "stacks" / "env" / MODEL
    file.write_text(file.read_text(encoding="utf-8").replace("replicas: 2", "replicas: many"))
    with pytest.raises(DocumentErrors) as raised:
        load_stack(root, "env", engines)
    (problem,) = raised.value.problems
    assert (problem.file, problem.line) == (Path("stacks/env/models/a.yaml"), 15)
    assert (problem.field, problem.found) == ("spec.replicas", 'found "many"')
    assert (problem.allowed, problem.remedy) == (
        "a whole number",
        "write digits only, without quotes and unit",
    )


@pytest.mark.parametrize(
    ("uri", "provider", "loads"),
    [
        ("hf://org/a", "local", True),
        ("hf://org/a", "kind", False),
        ("s3://bucket/a", "kind", True),
        ("pvc://claim/a", "kind", True),
    ],
)
def test_a_revision_is_asked_for_where_it_means_something(
    uri: str,
    provider: str,
    loads: bool,
    stack_root: Callable[..., Path],
    engines: EngineCatalog,
) -> None:
    root = stack_root()
    folder = root / "stacks" / "env"
    text = (folder / MODEL).read_text(encoding="utf-8").replace("dummy://a", uri)
    text = text.replace("simulator", "vllm").replace("0.1.0", "0.26.0")
    (folder / MODEL).write_text(text)
    text = (folder / "environment.yaml").read_text(encoding="utf-8")
    (folder / "environment.yaml").write_text(text.replace("local", provider))
    if loads:
        load_stack(root, "env", engines)
    else:
        assert "spec.model.revision: is missing" in problems_of(root, engines)[0]


def with_variable(root: Path, name: str) -> Path:
    """The root, with a variable in the model's document."""
    file = root / "stacks" / "env" / MODEL
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("0.1.0", f'0.1.0\n    env:\n      {name}: "x"'))
    return root


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "VLLM_MAX_TOKENS", "PASSWORD_FILE", "KEYS_DIR", "MONKEY"]
)
def test_names_that_hold_no_secret(
    name: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    load_stack(with_variable(stack_root(), name), "env", engines)


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "OPENAI_API_KEY", "KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "S_CREDENTIALS"],
)
def test_names_that_hold_a_secret(
    name: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = with_variable(stack_root(), name)
    (problem,) = problems_of(root, engines)
    assert "tokenSecret" in problem


def test_a_file_name_of_two_lines_is_one_line_of_the_message(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    text = (root / "stacks" / "env" / MODEL).read_text(encoding="utf-8")
    (root / "stacks" / "env" / "models" / "b\nc.yaml").write_text(text, encoding="utf-8")
    (problem,) = problems_of(root, engines)
    assert problem.startswith('"stacks/env/models/b\\nc.yaml":4: metadata.name: ')
