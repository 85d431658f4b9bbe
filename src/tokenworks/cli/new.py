"""`new`: a first version of a document, commented and valid."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tokenworks.cli.context import root, say
from tokenworks.spec.scaffold import Wanted, Written, new_environment, new_model

app = typer.Typer(
    help="Write a new document: commented, valid, and never over an existing one.\n\n"
    "Example: ./tokenworks new model qwen3-small --env local",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class EngineName(StrEnum):
    """Engines a new model can start from."""

    VLLM = "vllm"
    SIMULATOR = "simulator"


class ProviderName(StrEnum):
    """Providers of a cluster."""

    LOCAL = "local"
    KIND = "kind"
    EXISTING = "existing"


@app.command("model")
def model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the release and its file.")],
    env: Annotated[str, typer.Option(metavar="ENV", help="A folder of stacks/.")],
    engine: Annotated[
        EngineName | None,
        typer.Option(help="Default: vllm on an existing cluster, otherwise simulator."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Who owns it; default: the environment's only tenant.")
    ] = None,
    uri: Annotated[
        str | None, typer.Option(help="Weights: hf://org/name, s3://…, gs://… or pvc://….")
    ] = None,
) -> None:
    """Write stacks/ENV/models/NAME.yaml: one served model.

    Example: ./tokenworks new model qwen3-small --env dev --uri hf://Qwen/Qwen3-0.6B
    """
    wanted = Wanted(engine.value if engine else None, tenant, uri)
    written = new_model(root(), name, env, wanted)
    _tell(written, f"./tokenworks preview {env}")


@app.command("environment")
def environment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the folder under stacks/.")],
    provider: Annotated[
        ProviderName,
        typer.Option(help="Where its cluster comes from. For one on AWS copy stacks/staging."),
    ] = ProviderName.EXISTING,
    context: Annotated[
        str | None, typer.Option(help="existing: kubeconfig context; default: NAME.")
    ] = None,
) -> None:
    """Write stacks/NAME/: an environment and its first tenant.

    Example: ./tokenworks new environment qa --context qa-eks
    """
    written = new_environment(root(), name, provider.value, context)
    _tell(written, f"./tokenworks new model MODEL --env {name}")


def _tell(written: Written, following: str) -> None:
    for file in written.files:
        print(file.relative_to(root()))
    for note in written.notes:
        say(note)
    say(f"next: edit what its comments ask for, then {following}")
