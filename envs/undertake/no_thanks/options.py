"""The options of a table of No Thanks!, and decks that are given rather than shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from undertake.core.game import check_choice, check_deck, check_flag, check_whole
from undertake.no_thanks.rules import HIGHEST, LOWEST, MAX_CHIPS, MAX_PLAYERS


@dataclass(frozen=True)
class NoThanksOptions:
    """The options of a table of No Thanks!; a bad value raises ValueError or TypeError in one line.

    Attributes:
        num_players: 2 to 7
        after_take: "taker" (the taker acts on the next card) or "left" (the player to the left does)
        open_chips: chips lie open in the table view too
        lowest, highest: the deck's cards, within 3 to 35
        removed: cards set aside unseen; at least one card is played
        chips: chips each player starts with, 0 to 36; None gives 11, with 6 players 9, with 7 players 7
    """

    num_players: int = 4
    after_take: str = "taker"
    open_chips: bool = False
    lowest: int = LOWEST
    highest: int = HIGHEST
    removed: int = 9
    chips: int | None = None

    def __post_init__(self) -> None:
        check_whole("num_players", self.num_players, 2, MAX_PLAYERS)
        check_choice("after_take", self.after_take, ("taker", "left"))
        check_flag("open_chips", self.open_chips)
        check_whole("lowest", self.lowest, LOWEST, HIGHEST)
        check_whole("highest", self.highest, self.lowest, HIGHEST)
        check_whole("removed", self.removed, 0, self.highest - self.lowest)
        if self.chips is not None:
            check_whole("chips", self.chips, 0, MAX_CHIPS)

    @property
    def start_chips(self) -> int:
        """Chips each player starts with."""
        return self.chips if self.chips is not None else {6: 9, 7: 7}.get(self.num_players, 11)

    def cards(self) -> range:
        """The cards of the deck."""
        return range(self.lowest, self.highest + 1)

    def score_bounds(self) -> tuple[float, float]:
        """No card and all the chips; all cards that can be played, each as a run of its own, and no chip."""
        played = len(self.cards()) - self.removed
        return -float(self.start_chips * self.num_players), float(sum(self.cards()[-played:]))

    def write(self, state: Any) -> None:
        """Write the options to one state record or to an array of them."""
        state.num_players = self.num_players
        state.lowest, state.highest, state.removed = self.lowest, self.highest, self.removed
        state.played = len(self.cards()) - self.removed
        state.start_chips = self.start_chips
        state.taker_goes_on = self.after_take == "taker"
        state.open_chips = self.open_chips


def lay(state: Any, deck: Sequence[int]) -> None:
    """Put a given deck on the table: the cards in the order of turning up, then the removed ones.

    Raises ValueError in one line where it is no permutation of the deck in use.
    """
    check_deck(deck, range(int(state.lowest), int(state.highest) + 1))
    state.deck[: len(deck)] = deck
