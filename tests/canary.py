"""Made-up credentials to plant, and a search for them in everything a run leaves."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path

# In pieces: no file of the repository holds anything that looks like a credential.
SHAPED = {
    "Hugging Face token": "hf_" + "CanaryCanaryCanaryCanaryCanaryCana",
    "API key of a model provider": "sk-" + "proj-C4naryC4naryC4naryC4nary_C4nary",
    "NVIDIA API key": "nvapi-" + "Canary0123456789-Canary0123456789",
    "AWS access key": "AKIA" + "CANARY234567CANA",
    "Google API key": "AIza" + "Canary0123456789_Canary0123456789-C",
    "GitHub token": "ghp_" + "Canary0123456789Canary0123456789Cana",
    "GitLab token": "glpat-" + "Canary0123456789Cana",
    "Slack token": "xoxb-" + "0123456789-Canary0123456789",
    "JSON Web Token": "eyJ" + "hbGciOiJub25lIn0.eyJ" + "zdWIiOiJjYW5hcnkifQ.C4naryC4nary",
    "private key": "-----BEGIN EC PRIVATE" + " KEY-----\nC4nary\n-----END EC PRIVATE KEY-----",
    "password in an address": "postgresql" + "://canary:C4naryC4nary@db.example/x",
}  # fmt: skip
"""What a credential is called: one of its shape."""
SHAPELESS = "correct-horse-battery-canary"
"""A password like any word: only its name or its place gives it away."""


def forms(canary: str) -> tuple[str, ...]:
    """The canary, and how it looks in Secrets: base64, with each alignment of its bytes."""
    raw = canary.encode()
    aligned = (base64.b64encode(raw[skip : skip + (len(raw) - skip) // 3 * 3]) for skip in range(3))
    return canary, *(text.decode() for text in aligned)


def leaks(text: str, canaries: Iterable[str]) -> list[str]:
    """Which canaries stand in the text, in clear or in base64."""
    return [c for c in canaries if any(form in text for form in forms(c))]


def files_with(folder: Path, canaries: Iterable[str]) -> Iterator[str]:
    """Files below a folder that hold a canary, each with the first few letters of it."""
    wanted = list(canaries)
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink():
            for canary in leaks(file.read_bytes().decode("latin-1"), wanted):
                yield f"{file.relative_to(folder)}: {canary[:8]}…"
