"""What a seat's view of 6 nimmt! hides, as numbers for a critic that helps in training: the others' cards.

A policy never sees this: values that know the others' hands say better how good a decision was, and that is all they
are for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undertake.core.bits import popcount, put
from undertake.core.compile import compiled, i64
from undertake.core.layout import Layout, feature
from undertake.six_nimmt.rules import MAX_CARDS, MAX_PLAYERS, MAX_ROWS

_OTHERS = MAX_PLAYERS - 1
_PLACES = MAX_ROWS + 1

HIDDEN_LAYOUT = Layout(
    (
        feature("others_cards", (MAX_CARDS,), 1, "cards in the others' hands, 1 to 104"),
        feature("others_fit", (_OTHERS, _PLACES), 10, "of each other seat's hand: cards that go to no row, ..."),
        feature("others_card", (_OTHERS,), MAX_CARDS, "the card it has chosen and not yet placed, 0 for none"),
        feature("others_place", (_OTHERS, _PLACES), 1, "where that card would go now, one-hot"),
    )
)
_CARDS = HIDDEN_LAYOUT.start("others_cards")
_FIT = HIDDEN_LAYOUT.start("others_fit")
_CARD = HIDDEN_LAYOUT.start("others_card")
_PLACE = HIDDEN_LAYOUT.start("others_place")
_SIZE = HIDDEN_LAYOUT.size
_ONE = np.uint64(1)


@compiled
def _place(state: np.record, card: int) -> int:
    """How many rows end below `card`: 0 if it goes to no row, else which of the ends in order is the nearest below."""
    below = 0
    for row in range(MAX_ROWS):
        below += 1 if i64(state.row_end[row]) < card else 0
    return below


@compiled
def reveal(state: np.record, seat: int, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write the counts of `HIDDEN_LAYOUT` to `out[at:at + H]` (uint8) for `seat`, the others relative to it."""
    for i in range(_SIZE):
        put(out, at + i, 0)
    players = i64(state.num_players)
    for i in range(players - 1):
        other = seat + 1 + i
        other = other if other < players else other - players
        for word in range(2):
            cards = state.hand[other, word]
            while cards != 0:
                rest = cards & (cards - _ONE)
                card = popcount((cards ^ rest) - _ONE) + 64 * word + 1
                cards = rest
                put(out, at + _CARDS + card - 1, 1)
                fit = at + _FIT + i * _PLACES + _place(state, card)
                put(out, fit, out[fit] + 1)
        chosen = i64(state.chosen[other])
        if chosen > 0:
            put(out, at + _CARD + i, chosen)
            put(out, at + _PLACE + i * _PLACES + _place(state, chosen), 1)
