"""`new` writes documents that load, and nothing where something is in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tokenworks.cli import new
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec import scaffold
from tokenworks.spec.environment import Provider
from tokenworks.spec.load import load_stack
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.scaffold import Wanted, new_environment, new_model
from tokenworks.spec.sourced import EngineCatalog

REAL = Wanted("vllm", uri="hf://Qwen/Qwen3-0.6B")


def everything(root: Path) -> set[Path]:
    """Every path below the root."""
    return set(root.rglob("*"))


@pytest.mark.parametrize("provider", ["local", "kind", "existing"])
def test_a_new_environment_loads_and_takes_models(
    provider: Provider, tmp_path: Path, engines: EngineCatalog
) -> None:
    written = new_environment(tmp_path, "staging", provider)
    stack = load_stack(tmp_path, "staging", engines)
    assert stack.environment.spec.cluster.provider == provider
    assert {file.relative_to(tmp_path) for file in written.files} == set(stack.sources.values())
    new_model(tmp_path, "first", "staging", Wanted("simulator"), engines)
    new_model(tmp_path, "second", "staging", REAL, engines)
    models = load_stack(tmp_path, "staging", engines).models
    assert [model.spec.engine.version for model in models] == ["0.1.0", "0.26.0"], "the newest"
    assert [model.spec.replicas for model in models] == [1, 1]


def test_the_default_engine_follows_the_provider(tmp_path: Path, engines: EngineCatalog) -> None:
    for provider, engine in (("local", "simulator"), ("existing", "vllm")):
        new_environment(tmp_path, provider, provider)
        uri = "hf://org/m" if engine == "vllm" else None
        new_model(tmp_path, "m", provider, Wanted(uri=uri), engines)
        (model,) = load_stack(tmp_path, provider, engines).models
        assert model.spec.engine.name == engine


def test_what_is_written_explains_itself(tmp_path: Path, engines: EngineCatalog) -> None:
    files = [*new_environment(tmp_path, "staging").files]
    files += new_model(tmp_path, "m", "staging", REAL, engines).files
    for file in files:
        first, *lines = file.read_text(encoding="utf-8").splitlines()
        ups = "../" * (len(file.relative_to(tmp_path).parts) - 1)
        assert first.startswith(f"# yaml-language-server: $schema={ups}schemas/")
        assert any(line.lstrip().startswith("# ") for line in lines)
        assert "${" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "context", ["yes", "arn:aws:eks:eu-1:1:cluster/a", "a b: #c", "é\n\\", "1"]
)
def test_any_context_survives(context: str, tmp_path: Path) -> None:
    new_environment(tmp_path, "staging", context=context)
    assert load_stack(tmp_path, "staging").environment.spec.cluster.context == context


@pytest.mark.parametrize(
    "name", ["", "Upper", "a_b", "-a", "a-", "../a", "a/b", "1a", "a" * 41, "é"]
)
def test_no_name(name: str, stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root()
    before = everything(root)
    with pytest.raises(UsageError, match=r"is no name; allowed: lower-case letters"):
        new_environment(root, name)
    with pytest.raises(UsageError, match=r"is no name; allowed: lower-case letters"):
        new_model(root, name, "env", Wanted(), engines)
    assert everything(root) == before


def test_nothing_is_written_over(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root()
    before = {path: path.read_bytes() for path in everything(root) if path.is_file()}
    with pytest.raises(UsageError, match="stacks/env exists already"):
        new_environment(root, "env")
    with pytest.raises(UsageError, match=r"stacks/env/models/a\.yaml exists already"):
        new_model(root, "a", "env", Wanted(), engines)
    assert {path: path.read_bytes() for path in everything(root) if path.is_file()} == before


def test_two_at_once_make_one(
    stack_root: Callable[..., Path], engines: EngineCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the name free; the file system decides, and the loser is told."""
    root = stack_root()
    meet = threading.Barrier(2, timeout=60)
    put = scaffold._put_file

    def put_together(staged: Path, file: Path, base: Path) -> None:
        meet.wait()
        put(staged, file, base)

    monkeypatch.setattr(scaffold, "_put_file", put_together)
    outcomes: list[str] = []

    def run() -> None:
        try:
            new_model(root, "b", "env", Wanted(), engines)
            outcomes.append("written")
        except UsageError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = "stacks/env/models/b.yaml exists already: choose another name, or edit it"
    assert sorted(outcomes) == sorted([lost, "written"])
    load_stack(root, "env", engines)


def test_a_full_quota_starts_at_no_replicas(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    for name in ("b", "c"):
        assert new_model(root, name, "env", Wanted(), engines).notes == ()
    written = new_model(root, "d", "env", Wanted(), engines)
    assert written.notes == (
        "tenant research has no GPU left on pool sim: replicas is 0; raise its quota, then "
        "replicas",
    )
    assert [m.spec.replicas for m in load_stack(root, "env", engines).models] == [2, 1, 1, 0]


def test_without_pools_only_the_simulator_runs(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    folder = root / "stacks" / "env"
    (folder / "models" / "a.yaml").unlink()
    text = (folder / "environment.yaml").read_text(encoding="utf-8")
    (folder / "environment.yaml").write_text(text.partition("  nodePools:")[0])
    tenant = (folder / "tenants" / "research.yaml").read_text(encoding="utf-8")
    (folder / "tenants" / "research.yaml").write_text(tenant.partition("spec:")[0] + "spec: {}\n")
    new_model(root, "b", "env", Wanted(), engines)
    (model,) = load_stack(root, "env", engines).models
    assert (model.spec.pool, model.spec.resources.gpus) == (None, 0)
    with pytest.raises(UsageError, match="has no node pool with GPUs"):
        new_model(root, "c", "env", REAL, engines)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted("vllm"), "engine vllm needs weights: pass --uri"),
        (Wanted("simulator", uri="hf://a/b"), "--uri is for engines that load weights"),
        (Wanted(tenant="nobody"), 'no tenant "nobody"; pass --tenant with one of: research'),
        (Wanted("vllm", uri="https://a/b"), r'spec.model.uri: found "https://a/b"; allowed: hf://'),
        (Wanted("vllm", uri="dummy://a"), "found dummy://a, but engine vllm needs real weights"),
    ],
)
def test_what_the_user_has_to_decide(
    wanted: Wanted, expected: str, stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    before = everything(root)
    with pytest.raises(UsageError, match=expected):
        new_model(root, "b", "env", wanted, engines)
    assert everything(root) == before, "a refused document leaves nothing behind"


def test_several_tenants_ask_for_one(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    tenants = root / "stacks" / "env" / "tenants"
    text = (tenants / "research.yaml").read_text(encoding="utf-8")
    (tenants / "other.yaml").write_text(text.replace("research", "other"))
    with pytest.raises(UsageError, match="several tenants; pass --tenant with one of: other, res"):
        new_model(root, "b", "env", Wanted(), engines)
    new_model(root, "b", "env", Wanted(tenant="other"), engines)
    _, model = load_stack(root, "env", engines).models
    assert model.spec.tenant == "other"


def test_no_tenant_to_own_it(stack_root: Callable[..., Path], engines: EngineCatalog) -> None:
    root = stack_root()
    for name in ("models/a.yaml", "tenants/research.yaml"):
        (root / "stacks" / "env" / name).unlink()
    with pytest.raises(UsageError, match=r"no tenant to own the model: write .*tenants/<name>"):
        new_model(root, "b", "env", Wanted(), engines)


def test_a_name_that_would_not_load(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    before = everything(root)
    with pytest.raises(DocumentErrors, match="the name of the endpoint picker of a"):
        new_model(root, "a-epp", "env", Wanted(), engines)
    assert everything(root) == before


def test_a_broken_environment_is_said_first(
    stack_root: Callable[..., Path], engines: EngineCatalog
) -> None:
    root = stack_root()
    (root / "stacks" / "env" / "tenants" / "research.yaml").write_text("[")
    with pytest.raises(DocumentErrors, match=r"tenants/research\.yaml"):
        new_model(root, "b", "env", Wanted(), engines)


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "stacks").write_text("a file where the folder belongs")
    with pytest.raises(TokenworksError, match=r"stacks: cannot be written: File exists"):
        new_environment(tmp_path, "staging")


def test_context_belongs_to_existing_clusters(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--context is for provider existing"):
        new_environment(tmp_path, "staging", "local", "prod")
    assert everything(tmp_path) == set()


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new, "root", lambda: tmp_path)
    runner = CliRunner()
    result = runner.invoke(new.app, ["environment", "lab", "--provider", "local"])
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["stacks/lab/environment.yaml", "stacks/lab/tenants/team.yaml"],
    )
    assert result.stderr.endswith("then ./tokenworks new model MODEL --env lab\n")
    result = runner.invoke(new.app, ["model", "m", "--env", "lab"])
    assert (result.exit_code, result.stdout) == (0, "stacks/lab/models/m.yaml\n")
    assert result.stderr.endswith("then ./tokenworks preview lab\n")
    result = runner.invoke(new.app, ["model", "m", "--env", "lab"])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize("command", ["model", "environment"])
def test_help_shows_an_example(command: str) -> None:
    result = CliRunner().invoke(new.app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: ./tokenworks new {command} " in " ".join(result.stdout.split())
