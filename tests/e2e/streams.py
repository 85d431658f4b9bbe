"""Long answers that tests act in the middle of."""

from __future__ import annotations

import json
import threading

import httpx

from tests.e2e.platform import MODEL


class Stream:
    """A long answer, read in a thread so that the test can act in the middle of it."""

    def __init__(self, url: str, tokens: int, model: str = MODEL) -> None:
        self._url, self._tokens, self._model = url, tokens, model
        self.pod, self.pieces, self.error, self.finish = "", 0, "", ""
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        assert self.begun.wait(60), "the stream does not begin"

    def _read(self) -> None:
        body = {
            "model": self._model, "messages": [{"role": "user", "content": "tell me a long story"}],
            "max_tokens": self._tokens, "min_tokens": self._tokens, "ignore_eos": True,
            "stream": True,
        }  # fmt: skip
        try:
            with httpx.stream(
                "POST", f"{self._url}/v1/chat/completions", json=body, timeout=120
            ) as response:
                self.pod = response.headers["x-served-by"]
                for line in response.iter_lines():
                    if line.startswith("data: {"):
                        chunk = json.loads(line[6:])
                        self.error = self.error or str(chunk.get("error", ""))
                        for choice in chunk.get("choices", []):
                            self.pieces += bool(choice["delta"].get("content"))
                            self.finish = choice.get("finish_reason") or self.finish
                    if self.pieces > 3:
                        self.begun.set()
        except httpx.HTTPError as error:
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self.begun.set()
