"""Where the command line finds the repository, the tools and an environment's documents."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tokenworks
from tokenworks.kept import Kept

if TYPE_CHECKING:
    from tokenworks.render import RenderTools
    from tokenworks.spec.stack import Manifest, Stack


def root() -> Path:
    """The repository this command belongs to."""
    return Path(tokenworks.__file__).parents[2]


def say(line: str) -> None:
    """Progress and remarks go to standard error; results go to standard output."""
    print(line, file=sys.stderr, flush=True)


def load(environment: str) -> Stack:
    """The environment's documents, checked.

    Raises:
        UsageError: they are wrong, or there is no such environment.
    """
    from tokenworks.spec.load import load_stack  # noqa: PLC0415 - start-up time of --help

    return load_stack(root(), environment, kept=kept())


def kept() -> Kept:
    """What earlier runs read and rendered."""
    from local.toolchain import cache_dir  # noqa: PLC0415

    return Kept(cache_dir() / "kept")


def render_tools() -> RenderTools:
    """The program that renders charts and the pinned modules, built or fetched when absent."""
    from local.toolchain import ensure, module_dir  # noqa: PLC0415
    from tokenworks.render import RenderTools  # noqa: PLC0415

    return RenderTools(ensure("charts")["charts"], module_dir, kept())


def rendered_objects(stack: Stack) -> list[Manifest]:
    """Every object that the environment's documents make.

    Raises:
        TokenworksError: a chart refuses its values.
    """
    from tokenworks.render import render  # noqa: PLC0415 - start-up time of --help

    return [o for release in render(stack, render_tools()) for o in release.objects]


def environments() -> list[str]:
    """Names under stacks/ that have an environment document."""
    return sorted(p.parent.name for p in (root() / "stacks").glob("*/environment.yaml"))


def begun(name: str) -> bool:
    """Whether stacks/ has a folder of that name, whatever is in it."""
    # Names that are no folder's: a path, and those that are too long for Path.is_dir().
    return name.strip(".-") != "" and "/" not in name and os.path.isdir(root() / "stacks" / name)  # noqa: PTH112
