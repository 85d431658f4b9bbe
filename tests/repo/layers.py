"""Who may import whom. The first pattern that matches a file is its layer."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Layer:
    """Files, and what they may import beside the standard library (a name covers what is below)."""

    files: str
    may: tuple[str, ...]
    why: str


LAYERS = (
    Layer(
        "policies/__main__.py",
        ("policies", "pulumi_policy", "pulumi", "tokenworks.catalog.commandline"),
        "the Pulumi policy pack: a thin wrapper over the rules",
    ),
    Layer("charts/*", (), "runs in the pods of charts: the standard library of the engine's image"),
    Layer(
        "policies/yamltext.py",
        ("policies", "yaml"),
        "reads YAML that objects hold as text; PyYAML comes with Pulumi",
    ),
    Layer(
        "policies/*",
        ("policies", "tokenworks.catalog.commandline"),
        "pure functions: they run in admission, check and Pulumi; one reader of command lines",
    ),
    Layer("src/tokenworks/bootstrap.py", (), "runs before anything is installed"),
    Layer("src/tokenworks/__init__.py", (), "imported by everyone"),
    Layer("src/tokenworks/errors.py", (), "imported by everyone"),
    Layer("src/tokenworks/files.py", ("tokenworks.errors",), "imported by everyone who writes"),
    Layer(
        "src/tokenworks/kept.py",
        ("tokenworks.files", "pydantic", "yaml"),
        "results by content: versions of libraries are part of it",
    ),
    Layer(
        "src/tokenworks/catalog/shell.py",
        (),
        "reads commands for policies too: the standard library alone",
    ),
    Layer(
        "src/tokenworks/catalog/flags.py",
        ("tokenworks.catalog.shell",),
        "reads commands for policies too: the standard library alone",
    ),
    Layer(
        "src/tokenworks/catalog/lifetimes.py",
        (),
        "reads commands for policies too: the standard library alone",
    ),
    Layer(
        "src/tokenworks/catalog/commandline.py",
        (
            "tokenworks.catalog.flags",
            "tokenworks.catalog.lifetimes",
            "tokenworks.catalog.shell",
        ),
        "reads commands for policies too: the standard library alone",
    ),
    Layer(
        "src/tokenworks/catalog/*",
        ("tokenworks.catalog", "tokenworks.errors", "tokenworks.spec", "pydantic", "yaml"),
        "facts as data",
    ),
    Layer(
        "src/tokenworks/spec/*",
        (
            "tokenworks.spec",
            "tokenworks.errors",
            "tokenworks.files",
            "tokenworks.kept",
            "tokenworks.catalog",
            "policies.secrets",
            "pydantic",
            "yaml",
            "pydantic_core",
        ),
        "documents know nothing of Kubernetes, Pulumi or the machine; what a credential looks "
        "like is one rule for both",
    ),
    Layer(
        "src/tokenworks/render/*",
        (
            "tokenworks.render",
            "tokenworks.spec",
            "tokenworks.catalog",
            "tokenworks.errors",
            "tokenworks.files",
            "tokenworks.kept",
            "pydantic",
            "yaml",
        ),
        "one renderer for Pulumi, Git, checks and tests",
    ),
    Layer(
        "src/tokenworks/check/*",
        (
            "tokenworks.check",
            "tokenworks.render",
            "tokenworks.spec",
            "tokenworks.catalog",
            "tokenworks.errors",
            "policies",
            "pydantic",
            "yaml",
        ),
        "checks anyone's manifests, without a cluster",
    ),
    Layer(
        "src/tokenworks/review/*",
        (
            "tokenworks.review",
            "tokenworks.check",
            "tokenworks.render",
            "tokenworks.spec",
            "tokenworks.catalog",
            "tokenworks.errors",
            "tokenworks.files",
            "policies",
            "yaml",
        ),
        "two states of the repository as data; Git is the one program it runs",
    ),
    Layer(
        "src/tokenworks/versions/*",
        (
            "tokenworks.versions",
            "tokenworks.spec",
            "tokenworks.catalog",
            "tokenworks.errors",
            "tokenworks.files",
            "policies.model",
            "httpx",
            "yaml",
        ),
        "versions of everything; programs of the toolchain are told by the command line",
    ),
    Layer(
        "src/tokenworks/cli/*",
        ("tokenworks", "local", "policies", "typer", "click", "rich", "httpx", "yaml", "pydantic"),
        "Pulumi runs as a program of its own, never inside the command line",
    ),
    Layer(
        "components/aws/*",
        (
            "components",
            "pulumi",
            "pulumi_aws",
            "tokenworks.spec",
            "tokenworks.errors",
            "tokenworks.render.aws",
            "tokenworks.render.release",
        ),
        "a component gets typed arguments; it reads no files and looks nothing up",
    ),
    Layer(
        "components/*",
        (
            "components",
            "pulumi",
            "pulumi_kubernetes",
            "tokenworks.spec",
            "tokenworks.errors",
            "tokenworks.render.release",
        ),
        "a component gets typed arguments; it reads no files and looks nothing up",
    ),
    Layer(
        "__main__.py",
        (
            "components",
            "pulumi",
            "tokenworks.catalog.engines",
            "tokenworks.check",
            "tokenworks.spec",
            "tokenworks.render",
            "tokenworks.errors",
            "local.cluster",
            "local.images",
            "local.toolchain",
        ),
        "a table of contents",
    ),
    Layer(
        "local/simulator/*",
        ("local.simulator", "starlette", "uvicorn", "prometheus_client"),
        "an image of its own: only what locks/simulator.txt brings",
    ),
    Layer(
        "local/pulumi_host/*",
        ("local.pulumi_host", "tokenworks.errors", "pulumi", "grpc", "google.protobuf"),
        "stands in for Pulumi's Python host",
    ),
    Layer(
        "local/aws_standin/*",
        ("local.aws_standin", "local.pulumi_host.stubs", "grpc", "google.protobuf", "yaml"),
        "stands in for the AWS provider; the SDK whose types it reads is data to it",
    ),
    Layer(
        "local/*",
        ("local", "tokenworks.errors", "tokenworks.catalog", "cryptography", "pydantic", "yaml"),
        "the machine knows nothing of deployments or rules",
    ),
    Layer(
        "bench/*",
        ("bench", "tokenworks", "local", "policies", "httpx", "rich", "yaml"),
        "measures from outside",
    ),
    Layer("hack/charts.py", ("local.toolchain", "yaml"), "releases charts, by the pinned Helm"),
    Layer("hack/align.py", ("local.toolchain",), "moves what the toolchain pins"),
    Layer(
        "hack/*", ("hack", "tokenworks", "policies", "typer", "yaml"), "writes what is generated"
    ),
)


def layer_of(file: str) -> Layer | None:
    """The layer of a Python file outside tests/; None when no pattern covers it."""
    return next((layer for layer in LAYERS if fnmatchcase(file, layer.files)), None)


def imports(source: str, file: str) -> Iterator[tuple[int, str]]:
    """Line and full name of each import; `from a import b` yields `a.b`.

    Imports inside functions and under TYPE_CHECKING count as well.
    """
    for node in ast.walk(ast.parse(source, file)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, file)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _absolute(node: ast.ImportFrom, file: str) -> str:
    if node.level == 0:
        return node.module or ""
    package = file.removeprefix("src/").removesuffix(".py").split("/")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def allowed(name: str, layer: Layer) -> bool:
    """Whether a file of the layer may import the name."""
    if name.split(".", maxsplit=1)[0] in sys.stdlib_module_names:
        return True
    return any(name == may or name.startswith(f"{may}.") for may in layer.may)
