"""A table of an OpenSpiel game: the state record, what chance has settled of its deck, and what has been played."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyspiel

from undertake.core.game import Game

__all__ = ["DECKS", "Deck", "Table", "card_chances", "unpacked"]


@dataclass(frozen=True)
class Deck:
    """How a game's cards come out of the deck, for chance nodes.

    Attributes:
        at_start: places of the deck that have to be settled before a game can start
        group: cards that are dealt together, in any order, from the given place of the deck on
        turned_up: places of the deck that the table shows
        starter: whether chance draws the player who begins
    """

    at_start: Callable[[Any], int]
    group: Callable[[Any, int], tuple[int, int]]
    turned_up: Callable[[npt.NDArray[Any]], int]
    starter: bool


def _hand_or_row(options: Any, place: int) -> tuple[int, int]:
    in_hands = place < options.hand_size * options.num_players
    return (place % options.hand_size, options.hand_size) if in_hands else (0, 1)


DECKS = {
    "no_thanks": Deck(
        at_start=lambda options: 1,
        group=lambda options, place: (0, 1),
        turned_up=lambda states: int(states["drawn"][0]),
        starter=True,
    ),
    "six_nimmt": Deck(
        at_start=lambda options: options.hand_size * options.num_players + options.num_rows,
        group=_hand_or_row,
        turned_up=lambda states: 0,
        starter=False,
    ),
}


def unpacked(record: bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array of one record, writable: `copy` would go through the record field by field."""
    return np.frombuffer(bytearray(record), dtype)


@dataclass(slots=True)
class Table:
    """All that changes in a state.

    Attributes:
        states: the state record, an array of one
        first_player: who begins, -1 until chance has said it
        settled: places of the deck that chance has settled
        started: whether the game has started
        pending: an action that waits for the card that it turns up, -1 for none
        log: every decision played: the bytes of the record before it, and the action
        legal: the legal actions of each seat
        player: the OpenSpiel player to act
    """

    states: npt.NDArray[Any]
    first_player: int
    settled: int = 0
    started: bool = False
    pending: int = -1
    log: tuple[tuple[bytes, int], ...] = ()
    legal: tuple[list[int], ...] = ()
    player: int = int(pyspiel.PlayerId.CHANCE)

    def __deepcopy__(self, memo: Any) -> Table:
        # OpenSpiel clones by deep copy. Everything but the record is replaced when it changes, never written to.
        return replace(self, states=unpacked(self.states.tobytes(), self.states.dtype))

    def record(self) -> Any:
        """The state record, for plain Python."""
        return self.states.view(np.recarray)[0]

    def events(self, game: Game) -> list[dict[str, Any]]:
        """All public events since the deal."""
        if not self.started:
            return []
        raw = [*(before for before, _ in self.log), self.states.tobytes()]
        states = [np.frombuffer(each, game.state_dtype).view(np.recarray)[0] for each in raw]
        told = game.opening(states[0])
        for (_, action), before, after in zip(self.log, states, states[1:], strict=False):
            told.extend(game.events(before, action, after))
        return told


@cache
def card_chances(cards: int, picks: int) -> tuple[float, ...]:
    """The chance of each of `cards` cards to be the lowest of `picks` of them, drawn uniformly; lowest card first."""
    total = math.comb(cards, picks)
    return tuple(math.comb(cards - 1 - i, picks - 1) / total for i in range(cards - picks + 1))
