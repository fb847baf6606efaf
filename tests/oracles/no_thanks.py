"""No Thanks!, written a second time, slow and plain, from RULES.md alone, to compare the engine with."""

from collections.abc import Iterable, Sequence
from typing import Any

from oracles.ranking import VIEWS, agent, check_choice, check_range, ranks, rewards

PASS = 0
TAKE = 1


def start_chips(num_players: int) -> int:
    """Chips that each player starts with: 11 with 2 to 5 players, 9 with 6, 7 with 7 (RULES.md, set-up)."""
    if num_players <= 5:
        return 11
    return {6: 9, 7: 7}[num_players]


def card_score(cards: Iterable[int]) -> int:
    """Sum of the lowest cards of the maximal runs: a card counts unless the card one below it lies there too."""
    lying = set(cards)
    return sum(card for card in lying if card - 1 not in lying)


class NoThanks:
    """One game of No Thanks! with 2 to 7 players.

    `deck` holds every card from `lowest` to `highest` once: those to be turned up, in that order, then the `removed`
    ones. `chips` are the chips each player starts with, None for the box's number. Raises ValueError for anything else.
    """

    def __init__(
        self,
        deck: Sequence[int],
        first_player: int,
        *,
        num_players: int = 4,
        after_take: str = "taker",
        open_chips: bool = False,
        lowest: int = 3,
        highest: int = 35,
        removed: int = 9,
        chips: int | None = None,
    ) -> None:
        check_range("num_players", num_players, 2, 7)
        check_range("first_player", first_player, 0, num_players - 1)
        check_choice("after_take", after_take, ("taker", "left"))
        check_range("removed", removed, 0, highest - lowest)
        if chips is not None and chips < 0:
            raise ValueError(f"chips is {chips}, allowed are None and numbers from 0")
        if sorted(deck) != list(range(lowest, highest + 1)):
            raise ValueError(f"deck is {list(deck)}, allowed is every card from {lowest} to {highest} once")
        played = len(deck) - removed
        self.num_players = num_players
        self.after_take = after_take
        self.open_chips = open_chips
        self.removed = list(deck[played:])
        self.card: int | None = deck[0]
        self.deck = list(deck[1:played])
        self.pot = 0
        self.cards: list[set[int]] = [set() for _ in range(num_players)]
        self.chips = [start_chips(num_players) if chips is None else chips for _ in range(num_players)]
        self.leavers: list[int] = []
        self.turn: int | None = first_player
        self.prices_taken: list[list[int]] = [[] for _ in range(num_players)]
        self.prices_refused: list[list[int]] = [[] for _ in range(num_players)]

    def legal_actions(self) -> list[int]:
        """Actions of the seat to act, ascending: 0 pass, 1 take. Empty when the game is over."""
        if self.turn is None:
            return []
        if self.chips[self.turn] == 0:
            return [TAKE]
        return [PASS, TAKE]

    def play(self, action: int) -> None:
        """Let the seat to act pass or take. Raises ValueError for an illegal action or when the game is over."""
        if self.turn is None or self.card is None or action not in self.legal_actions():
            raise ValueError(f"action is {action}, allowed are {self.legal_actions()}")
        seat = self.turn
        price = card_score(self.cards[seat] | {self.card}) - card_score(self.cards[seat]) - self.pot
        if action == PASS:
            self.prices_refused[seat].append(price)
            self.chips[seat] -= 1
            self.pot += 1
            self.turn = self._left_of(seat)
            return
        if self.chips[seat] > 0:  # without a chip it had no choice
            self.prices_taken[seat].append(price)
        self.cards[seat].add(self.card)
        self.chips[seat] += self.pot
        self.pot = 0
        if not self.deck:
            self.card = None
            self.turn = None
            return
        self.card = self.deck.pop(0)
        if self.after_take == "left":
            self.turn = self._left_of(seat)

    def resign(self, seat: int) -> None:
        """Let a seat leave. Raises ValueError if it has left already, is no seat, or the game is over."""
        check_range("seat", seat, 0, self.num_players - 1)
        if self.turn is None or seat in self.leavers:
            raise ValueError(f"seat is {seat}, which cannot resign: it has left already or the game is over")
        self.leavers.append(seat)
        if len(self.leavers) == self.num_players - 1:
            self.turn = None
        elif self.turn == seat:
            self.turn = self._left_of(seat)

    def default_action(self) -> int:
        """The action of a seat that overruns its time: pass while it has a chip, else take."""
        if self.turn is None:
            raise ValueError("the game is over, there is no default action")
        return PASS if self.chips[self.turn] > 0 else TAKE

    def scores(self) -> list[int]:
        """Each seat's score if the game ended now: card score minus chips."""
        return [card_score(self.cards[seat]) - self.chips[seat] for seat in range(self.num_players)]

    def ranks(self) -> list[float]:
        """Each seat's rank if the game ended now, 1 = best (see `oracles.ranking.ranks`)."""
        return ranks(self.scores(), self.leavers)

    def rewards(self, kind: str) -> list[float]:
        """Each seat's reward if the game ended now (see `oracles.ranking.rewards`)."""
        return rewards(kind, self.scores(), self.leavers)

    def recall(self) -> list[dict[str, int | None]]:
        """What each seat has decided of its own will: the dearest price taken, the cheapest refused, how often either.

        A take without a chip is no decision; every pass is one. The price is the change of the seat's card score minus
        the chips that lay on the card when it decided.
        """
        return [
            {
                "dearest": max(taken, default=None),
                "cheapest": min(refused, default=None),
                "takes": len(taken),
                "refusals": len(refused),
            }
            for taken, refused in zip(self.prices_taken, self.prices_refused, strict=True)
        ]

    def table(self) -> dict[str, Any]:
        """The whole truth, in the shape of DESIGN.md's `table()`.

        `cards_left` counts the cards still to be turned up. When leaving ends the game, the card in the middle and the
        chips on it stay where they lie, so that no chip is lost (G9).
        """
        seats = range(self.num_players)
        scores = self.scores()
        return {
            "card": self.card,
            "pot": self.pot,
            "cards_left": len(self.deck),
            "turn": None if self.turn is None else agent(self.turn),
            "cards": {agent(seat): sorted(self.cards[seat]) for seat in seats},
            "chips": {agent(seat): self.chips[seat] for seat in seats},
            "scores": {agent(seat): scores[seat] for seat in seats},
            "deck": list(self.deck),
            "removed": list(self.removed),
        }

    def view(self, seat: int, view: str) -> dict[str, Any]:
        """`table()` with None for what the seat may not see, in the view ``"table"`` or ``"recall"``."""
        check_range("seat", seat, 0, self.num_players - 1)
        check_choice("view", view, VIEWS)
        seen = self.table()
        seen["deck"] = None
        seen["removed"] = None
        chips_are_known = self.open_chips or view == "recall" or self.turn is None
        for other in range(self.num_players):
            if other != seat and not chips_are_known:
                seen["chips"][agent(other)] = None
                seen["scores"][agent(other)] = None
        return seen

    def _left_of(self, seat: int) -> int:
        """The next seat, clockwise, that has not left."""
        seat = (seat + 1) % self.num_players
        while seat in self.leavers:
            seat = (seat + 1) % self.num_players
        return seat
