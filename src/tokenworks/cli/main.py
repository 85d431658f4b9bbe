"""The command line: one command a file, registered here.

Exit codes: 0 fine; 1 findings, or what was asked failed; 2 wrong usage or input.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Final

import typer

from policies.secrets import masked
from tokenworks.cli.usage import Commands, Interrupted
from tokenworks.errors import TokenworksError

_COMMANDS: Final = {
    "up": ("deploy", "up"),
    "down": ("deploy", "down"),
    "preview": ("deploy", "preview"),
    "env": ("deploy", "env"),
    "chat": ("chat", "chat"),
    "picks": ("picks", "picks"),
    "promote": ("promote", "promote"),
    "pr": ("pr", "pr"),
    "render": ("render", "render_command"),
    "check": ("check", "check_command"),
    "cost": ("cost", "cost"),
    "engines": ("engines", "engines"),
    "explain": ("check", "explain"),
    "admission": ("check", "admission_command"),
    "new": ("new", "app"),
    "local": ("local", "app"),
    "versions": ("versions", "app"),
    "doctor": ("doctor", "doctor"),
    "toolchain": ("doctor", "toolchain"),
}
"""Command: its module, and the function or the group of commands there."""


def build(wanted: str | None = None) -> typer.Typer:
    """The application: with the command that is wanted, or with all when there is none of that
    name. Importing them takes longer than most of them run."""
    app = typer.Typer(
        name="tokenworks",
        cls=Commands,
        help="Run LLM inference on Kubernetes from one Git repository.\n\n"
        "Example: ./tokenworks up local",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_nothing)  # a group, though there may be one command alone
    for name in [wanted] if wanted in _COMMANDS else _COMMANDS:
        module, attribute = _COMMANDS[name]
        found = getattr(import_module(f"tokenworks.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _nothing() -> None:
    """No option comes before the command."""


def open_streams() -> None:
    """Put /dev/null where the caller closed input, output or messages.

    Otherwise Python has nothing there, and the next file that is opened takes the place.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _of_machine(error: OSError) -> str:
    """What the machine refused, and of which file."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{where}{error.strerror or error}"


def _told_to_end(number: int, _frame: object) -> None:
    """As Ctrl-C: what runs below ends first, and nothing is left half done."""
    print("told to end; run the same command again to continue", file=sys.stderr)
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line; every error is one message, never a traceback."""
    open_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _told_to_end)
    try:
        build(next(iter(sys.argv[1:]), None))(prog_name="./tokenworks")
    except TokenworksError as error:
        print(f"error: {masked(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, Interrupted):
        print("interrupted; run the same command again to continue", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # no permission, no space, a name too long
        if os.environ.get("TOKENWORKS_DEBUG"):
            raise
        print(f"error: {_of_machine(error)}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:  # the last resort: a fault of ours, said as such
        if os.environ.get("TOKENWORKS_DEBUG"):
            raise
        print(
            f"error: unexpected {type(error).__name__}: {masked(str(error))}\n"
            "This is a fault in Tokenworks; run again with TOKENWORKS_DEBUG=1 for the details.",
            file=sys.stderr,
        )
        sys.exit(1)
