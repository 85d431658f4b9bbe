"""KV blocks: counting, finding, and in which order they are reused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local.simulator.blocks import BlockPool, chain


def test_a_hash_stands_for_the_block_and_all_before_it() -> None:
    assert chain(b"", [1, 2]) == chain(b"", [1, 2])
    assert chain(b"", [1, 2]) != chain(b"", [2, 1])
    assert chain(chain(b"", [1]), [2]) != chain(chain(b"", [3]), [2])


def test_released_blocks_stay_findable_until_their_space_is_needed() -> None:
    pool = BlockPool(2)
    held = pool.take((), 2)
    assert held is not None
    pool.seal(held[0], b"a")
    pool.release(held)
    assert pool.find([b"a", b"b"]) == [held[0]]
    assert pool.usage == 0
    # The block without content goes first, the findable one only when all are needed.
    assert pool.take((), 1) == [held[1]]
    assert pool.find([b"a"]) == [held[0]]
    assert pool.take((), 1) == [held[0]]
    assert pool.find([b"a"]) == []


def test_the_least_recently_released_is_reused_first() -> None:
    pool = BlockPool(2)
    for name in (b"old", b"new"):
        block = pool.take((), 1)
        assert block is not None
        pool.seal(block[0], name)
        pool.release(block)
    pool.take((), 1)
    assert pool.find([b"old"]) == []
    assert pool.find([b"new"]) != []


def test_the_end_of_a_prompt_is_forgotten_before_its_beginning() -> None:
    pool = BlockPool(2)
    blocks = pool.take((), 2)
    assert blocks is not None
    for block, name in zip(blocks, (b"first", b"second"), strict=True):
        pool.seal(block, name)
    pool.release(blocks)
    pool.take((), 1)
    assert pool.find([b"first", b"second"]) == [blocks[0]]


def test_a_shared_block_is_free_only_when_its_last_holder_lets_go() -> None:
    pool = BlockPool(1)
    one = pool.take((), 1)
    assert one is not None
    assert pool.take(one, 0) == one
    pool.release(one)
    assert pool.free == 0
    pool.release(one)
    assert pool.free == 1


def test_nothing_is_held_when_there_is_too_little() -> None:
    pool = BlockPool(2)
    kept = pool.take((), 1)
    assert kept is not None
    pool.seal(kept[0], b"a")
    pool.release(kept)
    assert pool.take(kept, 2) is None, "the known block is one of the two free ones"
    assert pool.free == 2


@given(st.lists(st.integers(min_value=1, max_value=5), max_size=40))
def test_blocks_are_never_lost_nor_given_twice(sizes: list[int]) -> None:
    pool = BlockPool(8)
    holders: list[list[int]] = []
    for turn, size in enumerate(sizes):
        blocks = pool.take((), size)
        if blocks is None:
            assert pool.free < size
            pool.release(holders.pop(0))
            continue
        pool.seal(blocks[0], str(turn % 3).encode())
        holders.append(blocks)
        held = [block for blocks in holders for block in blocks]
        assert len(set(held)) == len(held)
        assert pool.free == pool.count - len(held)
