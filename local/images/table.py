"""The table of local images (`images.yaml`), typed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class User(_Part):
    """Whom the image's process runs as; uid and gid are the same number."""

    id: int
    name: str

    @property
    def home(self) -> str:
        """Home folder, as /etc/passwd names it."""
        return "/root" if self.id == 0 else f"/home/{self.name}"


def _user(value: object) -> object:
    """`65532 nonroot` as a user."""
    number, _, name = str(value).partition(" ")
    return {"id": number, "name": name}


class Debian(_Part):
    """Packages of the machine's own distribution."""

    packages: tuple[str, ...] = ()
    """Packages to take with all they depend on."""
    without: tuple[str, ...] = ()
    """Patterns of packages to leave out of what the packages depend on."""
    alone: tuple[str, ...] = ()
    """Packages to take as they are, without what they depend on."""


class Wheels(_Part):
    """Python packages from a lock file with hashes."""

    lock: str
    into: str | None = None
    """Folder for everything the wheels install."""
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """Single files instead: path in the wheel -> path in the image."""


class Image(_Part):
    """What makes one image."""

    why: str
    when: Literal["always", "rendered"] = "always"
    """`rendered`: only for an environment whose objects name the image."""
    user: Annotated[User, BeforeValidator(_user)]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    programs: dict[str, str] = Field(default_factory=dict[str, str])
    debian: Debian | None = None
    wheels: Wheels | None = None
    module: dict[str, dict[str, str]] = Field(default_factory=dict[str, dict[str, str]])
    copy_: dict[str, str] = Field(default_factory=dict[str, str], alias="copy")
    scripts: dict[str, str] = Field(default_factory=dict[str, str])
    """File of this repository -> executable path in the image."""
    links: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """Program -> names beside it that are links to it."""
    dirs: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict[str, str])
    workdir: str = "/"


@cache
def table() -> dict[str, Image]:
    """Every local image by its upstream name, `registry/repository:tag`."""
    text = (HERE / "images.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Image]).validate_python(yaml.safe_load(text))
