"""Network interfaces of a node, laid out over its network cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interface:
    """One network interface of a node, fixed at launch."""

    card: int
    device: int
    efa_only: bool

    @property
    def kind(self) -> str:
        """As EC2 calls it."""
        return "efa-only" if self.efa_only else "interface"


def interfaces(efa_cards: Sequence[int]) -> list[Interface]:
    """One interface with an address, on the first card, and an EFA interface on each card.

    The first card's EFA is its second device, as its first has the node's address.
    """
    first = Interface(card=0, device=0, efa_only=False)
    return [first, *(Interface(card, 1 if card == 0 else 0, True) for card in efa_cards)]
