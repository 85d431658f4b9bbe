"""Wrong usage in our own words: what was found, what is allowed, and what may have been meant."""

from __future__ import annotations

import re
from typing import Any, Final

from typer.core import TyperGroup

from tokenworks.errors import did_you_mean

_CHOICE: Final = re.compile(r"(?:Value error, )?'(.*)' is not one of (.*?)\.?", re.DOTALL)
_BOUND: Final = re.compile(r"Input should be (greater|less) than( or equal to)? (\S+)")
_KIND: Final = re.compile(r"Input should be a valid (\w+).*", re.DOTALL)
_KINDS: Final = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
_WORDS: Final = {
    ("greater", False): "more than",
    ("greater", True): "at least",
    ("less", False): "less than",
    ("less", True): "at most",
}


class Interrupted(BaseException):
    """Ctrl-C, after what ran below has ended."""


class Commands(TyperGroup):
    """A group whose commands' mistakes are said in our words."""

    # Typer's context and errors are click's or its own copies of them, by release.
    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # of which Typer would say nothing but that it was one
            raise Interrupted from None
        except Exception as error:
            message = getattr(error, "message", None)
            if isinstance(message, str):
                setattr(error, "message", said(message))  # noqa: B010 - of no type we know
            raise


def said(message: str) -> str:
    """The message of Typer, or ours in its place."""
    if match := _CHOICE.fullmatch(message):
        found, allowed = match[1], re.findall(r"'([^']*)'", match[2])
        return f"found {found!r}; allowed: {', '.join(allowed)}; {did_you_mean(found, allowed)}"
    if match := _BOUND.fullmatch(message):
        return f"allowed: {_WORDS[match[1], bool(match[2])]} {match[3]}; change the number"
    if match := _KIND.fullmatch(message):
        kind = _KINDS.get(match[1], match[1])
        return f"allowed: {kind}; correct the value"
    return message.removeprefix("Value error, ")
