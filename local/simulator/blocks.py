"""KV blocks: reference counts, and a prefix cache in the blocks nobody holds.

A full block is known by the hash of its tokens and of everything before them. When the
last request lets go of it, it stays findable until its space is needed, oldest first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from .tokens import as_bytes

Hash = bytes


def chain(parent: Hash, tokens: Sequence[int]) -> Hash:
    """Hash of a full block that follows `parent`."""
    return hashlib.blake2b(parent + as_bytes(tokens), digest_size=16).digest()


class BlockPool:
    """A fixed number of blocks, numbered from 0."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._references = [0] * count
        self._hashes: list[Hash | None] = [None] * count
        self._by_hash: dict[Hash, int] = {}
        # Blocks without holder in the order they will be reused.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))

    @property
    def free(self) -> int:
        """Blocks that nobody holds, whether findable or not."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks that requests hold, 0..1."""
        return 1 - self.free / self.count

    def find(self, hashes: Sequence[Hash]) -> list[int]:
        """The blocks of the longest known beginning of `hashes`."""
        found: list[int] = []
        for value in hashes:
            block = self._by_hash.get(value)
            if block is None:
                break
            found.append(block)
        return found

    def take(self, known: Sequence[int], fresh: int) -> list[int] | None:
        """Hold the `known` blocks and `fresh` new ones; None, and nothing held, if too few."""
        revived = sum(self._references[block] == 0 for block in known)
        if self.free - revived < fresh:
            return None
        for block in known:
            self._references[block] += 1
            self._free.pop(block, None)
        return [*known, *(self._fresh() for _ in range(fresh))]

    def seal(self, block: int, value: Hash) -> None:
        """Make a full block findable, unless an equal one already is."""
        if value not in self._by_hash and self._hashes[block] is None:
            self._by_hash[value] = block
            self._hashes[block] = value

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of a request's blocks; their ends are reused before their beginnings."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                if self._hashes[block] is None:  # worth nothing to anyone: reuse it first
                    self._free.move_to_end(block, last=False)

    def _fresh(self) -> int:
        block, _ = self._free.popitem(last=False)
        old = self._hashes[block]
        if old is not None:
            del self._by_hash[old]
            self._hashes[block] = None
        self._references[block] = 1
        return block
