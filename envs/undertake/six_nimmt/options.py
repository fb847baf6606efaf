"""The options of a table of 6 nimmt!, and decks that are given rather than shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from undertake.core.game import check_choice, check_deck, check_whole
from undertake.six_nimmt.rules import BULLS, MAX_CARDS, MAX_HAND, MAX_LIMIT, MAX_PLAYERS, MAX_ROW_SIZE, MAX_ROWS


@dataclass(frozen=True)
class SixNimmtOptions:
    """The options of a table of 6 nimmt!; a bad value or combination raises ValueError or TypeError in one line.

    Attributes:
        num_players: 2 to 10
        length: "match" (to the limit) or "hand" (one hand)
        limit: the total that ends a match, 1 to 255
        deck: "full", or "reduced" to the cards 1 to hand_size * num_players + num_rows
        row_choice: "player" (whose card is too low chooses a row) or "cheapest" (the row with fewest bulls is taken)
        hand_size: cards a player gets, 1 to 10
        num_rows: 1 to 4
        row_size: cards a row holds, 1 to 5
        num_cards: cards of the full deck, as many as are dealt to 104; None for all
    """

    num_players: int = 4
    length: str = "match"
    limit: int = 66
    deck: str = "full"
    row_choice: str = "player"
    hand_size: int = MAX_HAND
    num_rows: int = MAX_ROWS
    row_size: int = MAX_ROW_SIZE
    num_cards: int | None = None

    def __post_init__(self) -> None:
        check_whole("num_players", self.num_players, 2, MAX_PLAYERS)
        check_choice("length", self.length, ("match", "hand"))
        check_whole("limit", self.limit, 1, MAX_LIMIT)
        check_choice("deck", self.deck, ("full", "reduced"))
        check_choice("row_choice", self.row_choice, ("player", "cheapest"))
        check_whole("hand_size", self.hand_size, 1, MAX_HAND)
        check_whole("num_rows", self.num_rows, 1, MAX_ROWS)
        check_whole("row_size", self.row_size, 1, MAX_ROW_SIZE)
        if self.num_cards is not None:
            check_whole("num_cards", self.num_cards, self._dealt, MAX_CARDS)
            if self.deck == "reduced" and self.num_cards != self._dealt:
                raise ValueError(
                    f"num_cards is {self.num_cards} with deck='reduced', which means {self._dealt}; give one of the two"
                )

    @property
    def _dealt(self) -> int:
        return self.hand_size * self.num_players + self.num_rows

    def cards(self) -> range:
        """The cards of the deck in use."""
        return range(1, (self._dealt if self.deck == "reduced" else self.num_cards or MAX_CARDS) + 1)

    def score_bounds(self) -> tuple[float, float]:
        """No bull; just below the limit, and all bulls of a last hand."""
        hand = float(sum(BULLS[card] for card in self.cards()))
        return 0.0, hand if self.length == "hand" else self.limit - 1 + hand

    def write(self, state: Any) -> None:
        """Write the options to one state record or to an array of them."""
        state.num_players = self.num_players
        state.num_cards = len(self.cards())
        state.hand_size, state.num_rows, state.row_size = self.hand_size, self.num_rows, self.row_size
        state.limit = self.limit
        state.single_hand = self.length == "hand"
        state.cheapest_row = self.row_choice == "cheapest"


def lay(state: Any, deck: Sequence[int]) -> None:
    """Put a given deck on the table for the first hand, in dealing order: the hands by seat, the row starts, the rest.

    Raises ValueError in one line where it is no permutation of the deck in use.
    """
    check_deck(deck, range(1, int(state.num_cards) + 1))
    state.deck[: len(deck)] = deck
