"""Errors the CLI shows without a traceback, each with the exit code it stands for."""

from __future__ import annotations


class TokenworksError(Exception):
    """What was asked failed, or found something: exit code 1."""

    exit_code = 1


class UsageError(TokenworksError):
    """Wrong usage or wrong input; nothing was changed: exit code 2."""

    exit_code = 2
