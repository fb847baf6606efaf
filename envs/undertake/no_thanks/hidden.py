"""What every view of No Thanks! hides, as numbers for a critic that helps in training: the deck.

A policy never sees this: values that know the cards to come say better how good a decision was, and that is all they
are for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undertake.core.bits import put
from undertake.core.compile import compiled, i64
from undertake.core.layout import Layout, feature
from undertake.no_thanks.rules import LOWEST, MAX_CARDS

HIDDEN_LAYOUT = Layout(
    (
        feature("next_card", (MAX_CARDS,), 1, "the card that is turned up next, one-hot"),
        feature("comes", (MAX_CARDS,), 1, "the card will be turned up"),
        feature("soon", (MAX_CARDS,), MAX_CARDS, "33 for the card turned up next, 32 for the one after it, ..."),
    )
)
_NEXT = HIDDEN_LAYOUT.start("next_card")
_COMES = HIDDEN_LAYOUT.start("comes")
_SOON = HIDDEN_LAYOUT.start("soon")
_SIZE = HIDDEN_LAYOUT.size


@compiled
def reveal(state: np.record, _seat: int, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write the counts of `HIDDEN_LAYOUT` to `out[at:at + H]` (uint8); they are the same for every seat."""
    for i in range(_SIZE):
        put(out, at + i, 0)
    for i in range(i64(state.drawn), i64(state.played)):
        card = i64(state.deck[i]) - LOWEST
        turns = i - i64(state.drawn)
        put(out, at + _COMES + card, 1)
        put(out, at + _SOON + card, MAX_CARDS - turns)
        if turns == 0:
            put(out, at + _NEXT + card, 1)
