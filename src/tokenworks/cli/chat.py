"""`chat`: one streamed completion through an environment's gateway."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenworks.cli.context import load, say
from tokenworks.cli.endpoint import gateway_url
from tokenworks.errors import TokenworksError, UsageError, did_you_mean
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.problems import shown
from tokenworks.spec.stack import Stack

if TYPE_CHECKING:
    import httpx

QUESTION = "Why do language models need a queue?"


@dataclass
class Answer:
    """What came back: the text, who served it, and when its tokens arrived (seconds)."""

    served_by: str = ""
    text: list[str] = field(default_factory=list[str])
    first: float = 0.0
    last: float = 0.0


def served_names(stack: Stack) -> list[str]:
    """Names that requests use in their `model` field: models, and their adapters."""
    return [name for model in stack.models for name in model.names]


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def stream(
    url: str, body: dict[str, Any], timeout: float, headers: dict[str, str] | None = None
) -> Answer:
    """Send one streaming chat completion and print its tokens as they come.

    Raises:
        TokenworksError: the gateway cannot be reached, refuses, or cuts the stream.
    """
    import httpx  # noqa: PLC0415 - it takes as long to import as all else

    answer, start = Answer(), time.monotonic()
    try:
        with httpx.stream(
            "POST", f"{url}/v1/chat/completions", json=body, timeout=timeout, headers=headers
        ) as response:
            if response.status_code != 200:
                text = response.read().decode(errors="replace").strip()
                raise TokenworksError(f"{url} answered {response.status_code}: {text or '(empty)'}")
            answer.served_by = response.headers.get("x-served-by", "")
            for chunk in _chunks(response):
                for choice in chunk.get("choices", []):
                    piece = choice.get("delta", {}).get("content") or ""
                    if piece:
                        now = time.monotonic() - start
                        answer.first, answer.last = answer.first or now, now
                        answer.text.append(piece)
                        sys.stdout.write(piece)
                        sys.stdout.flush()
    except httpx.HTTPError as error:
        so_far = f" after {len(answer.text)} tokens" if answer.text else ""
        raise TokenworksError(f"{url}: {error or type(error).__name__}{so_far}") from None
    finally:
        if answer.text:
            print()
    return answer


def _summary(answer: Answer) -> str:
    count = len(answer.text)
    rate = (count - 1) / (answer.last - answer.first) if answer.last > answer.first else 0.0
    pod = answer.served_by or "(the engine does not say)"
    return f"served by {pod}: {count} tokens, first after {answer.first:.2f} s, {rate:.0f} tokens/s"


def talk(stack: Stack, text: str, model: str | None = None, max_tokens: int = 64) -> Answer:
    """One completion through the gateway of `stack`, printed with a summary."""
    names = served_names(stack)
    if not names:
        raise UsageError(
            f"environment {stack.name} serves no model: add one under stacks/{stack.name}/models"
        )
    if model is not None and model not in names:
        raise UsageError(
            f"environment {stack.name} serves no model {shown(model)}; it serves: "
            f"{', '.join(names)}; {did_you_mean(model, names)}"
        )
    body = {
        "model": model or names[0],
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    timeout = duration_seconds(stack.environment.spec.gateway.request_timeout)
    with gateway_url(stack) as url:
        answer = stream(url, body, timeout)
    if not answer.text:
        raise TokenworksError("the stream ended without a token")
    say(_summary(answer))
    return answer


def chat(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="A folder of stacks/.")],
    text: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="What to say; - reads standard input.")
    ] = QUESTION,
    model: Annotated[
        str | None, typer.Option(help="Served name; default: the first of the environment.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 64,
) -> None:
    """Stream one chat completion through the gateway and name the pod that served it.

    Example: ./tokenworks chat local "What is a KV cache?" --model qwen3-sim
    """
    stack = load(environment)
    said = sys.stdin.read() if text == "-" else text
    if not said.strip():
        where = "standard input is empty" if text == "-" else "the text is empty"
        raise UsageError(f"{where}: say something, or leave TEXT out for a question of ours")
    talk(stack, said, model, max_tokens)
