"""The command line: one command a file, registered here.

Exit codes: 0 fine; 1 findings, or what was asked failed; 2 wrong usage or input.
"""

from __future__ import annotations

import os
import signal
import sys

import typer

from policies.secrets import masked
from tokenworks.cli import (
    chat,
    check,
    cost,
    deploy,
    doctor,
    engines,
    local,
    new,
    picks,
    pr,
    promote,
    render,
    versions,
)
from tokenworks.cli.usage import Commands, Interrupted
from tokenworks.errors import TokenworksError


def build() -> typer.Typer:
    """The application with every command."""
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
    app.command("up")(deploy.up)
    app.command("down")(deploy.down)
    app.command("preview")(deploy.preview)
    app.command("env")(deploy.env)
    app.command("chat")(chat.chat)
    app.command("picks")(picks.picks)
    app.command("promote")(promote.promote)
    app.command("pr")(pr.pr)
    app.command("render")(render.render_command)
    app.command("check")(check.check_command)
    app.command("cost")(cost.cost)
    app.command("engines")(engines.engines)
    app.command("explain")(check.explain)
    app.command("admission")(check.admission_command)
    app.add_typer(new.app, name="new")
    app.add_typer(local.app, name="local")
    app.add_typer(versions.app, name="versions")
    app.command("doctor")(doctor.doctor)
    app.command("toolchain")(doctor.toolchain)
    return app


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
        build()(prog_name="./tokenworks")
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
