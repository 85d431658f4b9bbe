"""A model of an inference engine, in virtual time.

Continuous batching with chunked prefill, first come first served: a step gives every
running request its next token, spends what is left of its token budget on prompts, and
lasts as long as that work takes. Nothing here reads a clock or does input or output:
callers say what time it is, so tests are exact and need no waiting.

Simplified against a real engine: a request is admitted when all of its known tokens fit
into free blocks (engines admit chunk by chunk), and prefill takes the same time per token
whatever the length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .blocks import BlockPool, Hash, chain

# A decode step of n requests takes as long as one of a single request, times 1 + 0.02(n-1):
# decoding waits for memory, so companions are nearly free until there are dozens.
BATCH_COST = 0.02
# Most tokens of one step; a longer prompt is spread over several, between others' tokens.
STEP_TOKENS = 2048


@dataclass(frozen=True)
class EngineConfig:
    """Size and speed of the engine. Rates are tokens a second."""

    max_num_seqs: int = 64
    num_blocks: int = 2048
    block_size: int = 16
    prefill_rate: float = 8000.0
    decode_rate: float = 50.0
    prefix_caching: bool = True
    max_loras: int = 4


@dataclass(eq=False)
class Job:
    """One request inside the engine. `output` is the answer it will give."""

    id: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    arrival: float
    lora: str | None = None
    given: int = 0
    """Prompt tokens whose KV came from another engine: no prefill for them."""
    keep: bool = False
    """Keep the blocks after the last token, for another engine to read."""
    computed: int = 0
    """Tokens whose KV is in the blocks."""
    generated: int = 0
    cached: int | None = None
    """Prompt tokens found in the prefix cache; None until first admitted."""
    admitted: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    blocks: list[int] = field(default_factory=list[int])
    sealed: int = 0
    """Blocks that are full and findable."""
    hashes: list[Hash] = field(default_factory=list[Hash])

    @property
    def known(self) -> int:
        """Tokens that exist so far: the prompt and what was generated."""
        return len(self.prompt) + self.generated

    def tokens(self, start: int, end: int) -> tuple[int, ...]:
        """A slice of prompt and output together."""
        size = len(self.prompt)
        return self.prompt[start:end] + self.output[max(0, start - size) : max(0, end - size)]


@dataclass(frozen=True)
class Token:
    """A token that appeared. Times are seconds."""

    id: str
    index: int
    """0 for the first token."""
    last: bool
    cached: int
    """Prompt tokens that needed no prefill."""
    queued: float
    since_arrival: float
    since_previous: float | None
    since_first: float


@dataclass(frozen=True)
class Step:
    """Work of one step: tokens to compute for each request, and how long it takes."""

    work: tuple[tuple[Job, int], ...]
    duration: float


@dataclass
class Counters:
    """What only ever grows."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    preemptions: int = 0


class Engine:
    """The engine: submit requests, then `begin` and `finish` steps in turn."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks)
        self.counters = Counters()
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.kept: dict[str, list[int]] = {}
        """Blocks of finished requests that another engine may still read."""

    def submit(self, sequence: Job) -> None:
        """Queue a request.

        Raises:
            ValueError: it could not fit even if it were alone.
        """
        needed = self._blocks_for(len(sequence.prompt) + len(sequence.output))
        if needed > self.config.num_blocks:
            raise ValueError(f"needs {needed} KV blocks of {self.config.num_blocks}")
        self.waiting.append(sequence)

    def abort(self, sequence_id: str) -> bool:
        """Forget a request and free what it holds; False if it is not here (any more)."""
        for sequence in (*self.running, *self.waiting):
            if sequence.id == sequence_id:
                self._drop(sequence)
                return True
        return False

    def let_go(self, sequence_id: str) -> bool:
        """Free the blocks kept for another engine; False if there are none (any more)."""
        blocks = self.kept.pop(sequence_id, None)
        if blocks is None:
            return False
        self.pool.release(blocks)
        return True

    def begin(self, now: float) -> Step | None:
        """Schedule a step; None when there is nothing to do."""
        work: list[tuple[Job, int]] = []
        budget = STEP_TOKENS
        preempted = False
        for sequence in tuple(self.running):
            count = min(sequence.known - sequence.computed, budget)
            if count == 0 or sequence not in self.running:
                continue
            preempted |= self._make_room(sequence, sequence.computed + count)
            if sequence in self.running:
                work.append((sequence, count))
                budget -= count
        if not preempted:
            self._admit(now, budget, work)
        return Step(tuple(work), self._duration(work)) if work else None

    def finish(self, step: Step, now: float) -> list[Token]:
        """Account for a step that ended `now`; requests aborted meanwhile give no token."""
        tokens: list[Token] = []
        for sequence, count in step.work:
            if sequence not in self.running:
                continue
            sequence.computed += count
            self._seal(sequence)
            if sequence.computed == sequence.known:
                tokens.append(self._emit(sequence, now))
        return tokens

    def adapters(self) -> tuple[list[str], list[str]]:
        """LoRA adapters of running and of waiting requests, each sorted."""
        running = {s.lora for s in self.running if s.lora}
        waiting = {s.lora for s in self.waiting if s.lora}
        return sorted(running), sorted(waiting)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.config.block_size)

    def _duration(self, work: Sequence[tuple[Job, int]]) -> float:
        decoding = sum(s.generated > 0 and count == 1 for s, count in work)
        prefill = sum(count for s, count in work if not (s.generated > 0 and count == 1))
        decode = (1 + BATCH_COST * (decoding - 1)) / self.config.decode_rate if decoding else 0.0
        return prefill / self.config.prefill_rate + decode

    def _make_room(self, sequence: Job, tokens: int) -> bool:
        """Give a running request blocks for `tokens`; True if it cost the youngest its own."""
        preempted = False
        missing = self._blocks_for(tokens) - len(sequence.blocks)
        while missing > 0:
            more = self.pool.take((), missing)
            if more is not None:
                sequence.blocks += more
                return preempted
            victim = self.running[-1]
            preempted = True
            self._preempt(victim)
            if victim is sequence:
                return True
        return preempted

    def _preempt(self, victim: Job) -> None:
        """Back to the head of the queue; its tokens will be computed again."""
        self._drop(victim)
        victim.blocks, victim.sealed, victim.computed = [], 0, 0
        self.waiting.appendleft(victim)
        self.counters.preemptions += 1

    def _admit(self, now: float, budget: int, work: list[tuple[Job, int]]) -> None:
        loras = {s.lora for s in self.running if s.lora}
        for sequence in tuple(self.waiting):
            if budget <= 0 or len(self.running) >= self.config.max_num_seqs:
                return
            if sequence.lora and len(loras | {sequence.lora}) > self.config.max_loras:
                continue  # later requests of adapters that are loaded need not wait for it
            if not self._place(sequence, now):
                return
            loras |= {sequence.lora} if sequence.lora else set()
            count = min(sequence.known - sequence.computed, budget)
            work.append((sequence, count))
            budget -= count

    def _place(self, sequence: Job, now: float) -> bool:
        """Move a waiting request among the running ones if its blocks can be had."""
        known_blocks = self.pool.find(self._prefix(sequence))
        fresh = self._blocks_for(sequence.known) - len(known_blocks)
        blocks = self.pool.take(known_blocks, fresh)
        if blocks is None:
            return False
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.blocks = blocks
        found = len(known_blocks) * self.config.block_size
        # The last token is computed here in any case: it gives the next one.
        sequence.computed = max(found, min(sequence.given, len(sequence.prompt) - 1))
        sequence.given = 0  # after a preemption the KV has to be computed here
        if sequence.cached is None:
            sequence.cached, sequence.admitted = found, now
            self.counters.prefix_queries += (
                len(sequence.prompt) if self.config.prefix_caching else 0
            )
            self.counters.prefix_hits += found
        return True

    def _prefix(self, sequence: Job) -> list[Hash]:
        """Hashes of the blocks that may come from the cache: all but the last token's."""
        if not self.config.prefix_caching:
            return []
        return self._hash_up_to(sequence, (sequence.known - 1) // self.config.block_size)

    def _hash_up_to(self, sequence: Job, count: int) -> list[Hash]:
        size = self.config.block_size
        hashes = sequence.hashes
        while len(hashes) < count:
            start = len(hashes) * size
            # Adapters change the KV, so their blocks are not the base model's.
            parent = hashes[-1] if hashes else (sequence.lora or "").encode()
            hashes.append(chain(parent, sequence.tokens(start, start + size)))
        return hashes[:count]

    def _seal(self, sequence: Job) -> None:
        if not self.config.prefix_caching:
            return
        full = sequence.computed // self.config.block_size
        hashes = self._hash_up_to(sequence, full)
        for index in range(sequence.sealed, full):
            self.pool.seal(sequence.blocks[index], hashes[index])
        sequence.sealed = full

    def _emit(self, sequence: Job, now: float) -> Token:
        previous = sequence.last_token
        sequence.generated += 1
        sequence.last_token = now
        if sequence.first_token is None:
            sequence.first_token = now
        self.counters.generation_tokens += 1
        if sequence.generated == 1:
            self.counters.prompt_tokens += len(sequence.prompt)
        last = sequence.generated == len(sequence.output)
        if last and sequence.keep:
            self.running.remove(sequence)
            self.kept[sequence.id] = sequence.blocks
        elif last:
            self._drop(sequence)
        return Token(
            id=sequence.id,
            index=sequence.generated - 1,
            last=last,
            cached=sequence.cached or 0,
            queued=max(0.0, (sequence.admitted or 0.0) - sequence.arrival),
            since_arrival=max(0.0, now - sequence.arrival),
            since_previous=None if previous is None else now - previous,
            since_first=now - sequence.first_token,
        )

    def _drop(self, sequence: Job) -> None:
        if sequence in self.running:
            self.running.remove(sequence)
            self.pool.release(sequence.blocks)
        else:
            self.waiting.remove(sequence)
