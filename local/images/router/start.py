#!/usr/bin/python3
"""Start the router whose name this file has in the image: `sglang-router` or `vllm-router`.

The wheels' own launchers import a load balancer for debugging, and with it a web framework
that would have to fit the distribution's Python. The router itself is one library for every
Python 3, so this takes the wheels' arguments to it directly.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path


def main() -> None:
    """Parse the router's arguments and serve until SIGTERM."""
    program = Path(sys.argv[0]).name
    package = program.replace("-", "_")
    arguments = importlib.import_module(f"{package}.router_args").RouterArgs
    router = importlib.import_module(f"{package}.router").Router
    parser = argparse.ArgumentParser(prog=program)
    arguments.add_cli_args(parser)
    parsed = parser.parse_args()
    if parsed.mini_lb:
        parser.error("--mini-lb: the load balancer for debugging is not in this image")
    chosen = arguments.from_cli_args(parsed)
    chosen._validate_router_args()
    router.from_args(chosen).start()


if __name__ == "__main__":
    main()
