"""`versions`: the bill of versions, and what keeps it true."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from policies.secrets import masked
from tokenworks.cli.context import environments, load, rendered_objects, root, say
from tokenworks.cli.update import update
from tokenworks.errors import TokenworksError, UsageError
from tokenworks.spec.stack import Stack
from tokenworks.versions.items import Item
from tokenworks.versions.mirror import Machine

app = typer.Typer(
    help="List, resolve, check and raise versions: charts, CRDs, images, programs, weights.\n\n"
    "Example: ./tokenworks versions check",
    rich_markup_mode=None,
    no_args_is_help=True,
)
_REGISTRY = re.compile(
    r"[a-z0-9]+(-+[a-z0-9]+)*(\.[a-z0-9]+(-+[a-z0-9]+)*)*(:(?P<port>[0-9]{1,5}))?"
    r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
)
_WIDEST = 100_000
app.command("update")(update)
Environments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ENV]...", help="Folders of stacks/; default: all of them."),
]


def _stacks(names: list[str] | None) -> list[Stack]:
    return [load(name) for name in dict.fromkeys(names or environments())]


def _catalog() -> list[Item]:
    """The catalog, with the programs of the toolchain."""
    from local.toolchain.pins import pins  # noqa: PLC0415 - start-up time
    from tokenworks.versions.items import catalogued  # noqa: PLC0415

    return catalogued(
        Item(
            "program",
            program.name,
            program.version,
            f"local/toolchain/go/{program.group}/go.sum" if program.group else "this repository",
            program.module or "",
            "",
            program.why,
        )
        for program in pins().programs.values()
    )


@app.command("list")
def list_versions(
    names: Environments = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="A table, or a list of lines.")
    ] = "text",
) -> None:
    """Everything that has a version, with what pins it, where that was read, when, and why.

    Example: ./tokenworks versions list staging --format json
    """
    from tokenworks.versions.items import named_by  # noqa: PLC0415 - start-up time

    stacks = _stacks(names)
    items = [*_catalog(), *dict.fromkeys(i for stack in stacks for i in named_by(stack))]
    if form == "json":
        print(json.dumps([asdict(item) for item in items], indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for head in ("kind", "name", "version", "pinned by", "source", "date", "why"):
        table.add_column(head, overflow="fold")
    for item in items:
        table.add_row(
            item.kind, item.name, item.version, item.pin, item.source, item.date, item.why
        )
    # Through a pipe each is one line, however long.
    Console(width=None if sys.stdout.isatty() else _WIDEST).print(table)


@app.command("pin")
def pin(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask and print, and write nothing.")
    ] = False,
) -> None:
    """Write digests and commits where the catalog and stacks/ say `unresolved`.

    Registries are asked for the digest of each image's tag, the hub (HF_ENDPOINT, HF_TOKEN) for
    the commit of each model's main branch and for the SHA-256 of adapters at their commits.
    Credentials are those of `docker login`. Nothing else of a file changes; what cannot be
    resolved stays, and the exit code is 1.

    Example: ./tokenworks versions pin --dry-run
    """
    from tokenworks.versions.hub import adapter_digest, commit  # noqa: PLC0415 - start-up time
    from tokenworks.versions.pin import Place, pin_all  # noqa: PLC0415
    from tokenworks.versions.registry import Registries  # noqa: PLC0415

    with Registries() as registries:

        def resolve(place: Place) -> str:
            ask = {"image": registries.digest, "model": commit, "adapter": adapter_digest}
            return ask[place.kind](place.name, place.tag)

        done = pin_all(_files(), resolve, say, write=not dry_run)
    for place, found in done.written:
        print(f"{place.file.relative_to(root())}:{place.line}: {place.title}: {found}")
    for place, why in done.failed:
        say(masked(f"{place.file.relative_to(root())}:{place.line}: {why}"))
    if not done.written and not done.failed:
        say("nothing that a registry or the hub could tell is unresolved")
    if done.written and not dry_run:
        say("next: ./tokenworks render ENV, and review the difference")
    if done.failed:
        raise TokenworksError(
            f"{len(done.failed)} of {len(done.failed) + len(done.written)} places stay unresolved; "
            "the reasons are above"
        )


def _files() -> list[Path]:
    catalog = root() / "src" / "tokenworks" / "catalog"
    stacks = root() / "stacks"
    return [
        catalog / "versions.yaml",
        *sorted((catalog / "engines").glob("*.yaml")),
        *(f for f in sorted(stacks.glob("*/environment.yaml")) if _seen(f)),
        *(f for f in sorted(stacks.glob("*/models/*.yaml")) if _seen(f)),
    ]


def _seen(file: Path) -> bool:
    """Whether it is a file that environments have; editors leave others, with a dot in front."""
    parts = file.relative_to(root() / "stacks").parts
    return file.is_file() and not any(part.startswith(".") for part in parts)


@app.command("check")
def check_versions(
    names: Environments = None,
    level: Annotated[
        Literal["error", "warning"], typer.Option(help="The least severity that fails.")
    ] = "error",
    form: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Sentences, or a list of findings.")
    ] = "text",
) -> None:
    """Nothing runs that the bill does not have, nothing floats, and components fit each other.

    Example: ./tokenworks versions check prod --level warning
    """
    from tokenworks.check.report import Report  # noqa: PLC0415 - start-up time
    from tokenworks.versions.check import catalog_problems, judge  # noqa: PLC0415
    from tokenworks.versions.items import named_by  # noqa: PLC0415

    stacks, catalog = _stacks(names), _catalog()
    if not stacks:
        raise UsageError("stacks/ has no environment; ./tokenworks new environment NAME makes one")
    findings, count = catalog_problems(catalog), 0
    for stack in stacks:
        objects = rendered_objects(stack)
        count += len(objects)
        findings += judge(stack, objects, catalog, named_by(stack), kubernetes_version(stack))
    where = f"environment {', '.join(stack.name for stack in stacks)}"
    report = Report(tuple(findings), count, where, level=level)
    print(report.json() if form == "json" else report.text())
    if report.exit_code:
        raise typer.Exit(report.exit_code)


@app.command("mirror")
def mirror(
    to: Annotated[
        str, typer.Option("--to", metavar="REGISTRY", help="Registry, and a path in it.")
    ],
    names: Environments = None,
    form: Annotated[
        Literal["script", "json"], typer.Option("--format", help="For bash, or a list.")
    ] = "script",
) -> None:
    """Print what copies every image, weight, program and package that the environments need.

    Images keep their whole path under REGISTRY: docker.io/vllm/vllm-openai goes to
    REGISTRY/docker.io/vllm/vllm-openai. Nothing is copied by this command itself.

    Example: ./tokenworks versions mirror prod --to registry.example.com/mirror > mirror.sh
    """
    from tokenworks.versions.items import named_by, needed  # noqa: PLC0415
    from tokenworks.versions.mirror import listed, script  # noqa: PLC0415 - start-up time

    found = _REGISTRY.fullmatch(to)
    if found is None or not 0 < int(found["port"] or 443) < 2**16:
        raise UsageError(
            f"--to {to!r} is no registry; write host[:port][/path] in lower case, without scheme"
        )
    stacks, catalog = _stacks(names), _catalog()
    items: dict[Item, None] = {}
    for stack in stacks:
        items |= dict.fromkeys(
            needed(rendered_objects(stack), [*catalog, *named_by(stack)], named_by(stack))
        )
    if form == "json":
        print(json.dumps(listed(items, to), indent=2))
    else:
        print(script(items, [s.name for s in stacks], to, _machine()), end="")


def _machine() -> Machine:
    from local.images.table import table  # noqa: PLC0415 - start-up time
    from local.toolchain.pins import groups, pins  # noqa: PLC0415

    images = table().values()
    versions = {group: pins().go_of(group) for group in groups()}
    packages = {package.name for package in pins().debian.values()} | {"python3-venv"}
    for image in images:
        if image.debian is not None:
            packages |= {*image.debian.packages, *image.debian.alone}
    locks = {path.relative_to(root()).as_posix() for path in (root() / "locks").glob("*.txt")}
    locks.discard("locks/vllm-cpu.txt")  # `make engine`, which no environment needs
    locks |= {image.wheels.lock for image in images if image.wheels is not None}
    return Machine(versions, tuple(sorted(packages)), tuple(sorted(locks)))


def kubernetes_version(stack: Stack) -> str:
    """Version of the environment's cluster: AWS's as its document says, otherwise the pinned."""
    from tokenworks.render.helm import KUBE_VERSION  # noqa: PLC0415 - start-up time

    aws = stack.environment.spec.cluster.aws
    return aws.kubernetes_version if aws is not None else KUBE_VERSION
