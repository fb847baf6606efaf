"""6 nimmt!, written a second time, slow and plain, from RULES.md alone, to compare the engine with."""

from collections.abc import Callable, Sequence
from typing import Any

from oracles.ranking import VIEWS, agent, check_choice, check_range, ranks, rewards

FIRST_ROW_ACTION = 104  # 0 to 103 play the cards 1 to 104, the rows follow


def bulls_on(card: int) -> int:
    """Bulls on a card (RULES.md, material)."""
    if card == 55:
        return 7
    if card % 11 == 0:
        return 5
    if card % 10 == 0:
        return 3
    if card % 5 == 0:
        return 2
    return 1


class SixNimmt:
    """One game of 6 nimmt! with 2 to 10 players.

    `deck` holds every card in use once: the first hand's cards, a whole hand to each player in turn, then the row
    starts, top row first, then the rest. `next_deck()` gives the deck of each later hand in the same form; players
    that have left get none of it. `num_cards` is the highest card, None for 104 or, with
    ``deck_option="reduced"``, for as many as the deal needs. Raises ValueError for anything else.
    """

    def __init__(
        self,
        deck: Sequence[int],
        *,
        num_players: int = 4,
        length: str = "match",
        limit: int = 66,
        deck_option: str = "full",
        row_choice: str = "player",
        hand_size: int = 10,
        num_rows: int = 4,
        row_size: int = 5,
        num_cards: int | None = None,
        next_deck: Callable[[], Sequence[int]],
    ) -> None:
        check_range("num_players", num_players, 2, 10)
        check_choice("length", length, ("match", "hand"))
        check_choice("deck_option", deck_option, ("full", "reduced"))
        check_choice("row_choice", row_choice, ("player", "cheapest"))
        check_range("hand_size", hand_size, 1, 10)
        check_range("num_rows", num_rows, 1, 4)
        check_range("row_size", row_size, 1, 5)
        dealt = hand_size * num_players + num_rows
        highest = (dealt if deck_option == "reduced" else 104) if num_cards is None else num_cards
        check_range("num_cards", highest, dealt, dealt if deck_option == "reduced" else 104)
        self.num_players = num_players
        self.length = length
        self.limit = limit
        self.row_choice = row_choice
        self.hand_size = hand_size
        self.num_rows = num_rows
        self.row_size = row_size
        self.num_cards = highest
        self.next_deck = next_deck
        self.leavers: list[int] = []
        self.totals = [0] * num_players
        self.hand = 0
        self.over = False
        self._deal(deck)

    def _deal(self, deck: Sequence[int]) -> None:
        if sorted(deck) != list(range(1, self.num_cards + 1)):
            raise ValueError(f"deck is {list(deck)}, allowed is every card from 1 to {self.num_cards} once")
        rest = list(deck)
        self.hands: list[set[int]] = [set() for _ in range(self.num_players)]
        for seat in self._staying():
            self.hands[seat] = set(rest[: self.hand_size])
            rest = rest[self.hand_size :]
        self.rows = [[card] for card in rest[: self.num_rows]]
        self.undealt = rest[self.num_rows :]
        self.chosen: list[int | None] = [None] * self.num_players
        self.taken: list[list[int]] = [[] for _ in range(self.num_players)]
        self.played: list[list[int]] = [[] for _ in range(self.num_players)]
        self.counted = False  # whether the totals hold this hand's bulls already
        self.phase = "card"
        self.trick = 0

    def _staying(self) -> list[int]:
        return [seat for seat in range(self.num_players) if seat not in self.leavers]

    def _cards_to_place(self) -> list[tuple[int, int]]:
        """(card, owner) of the cards chosen and not yet placed, lowest first."""
        return sorted((card, seat) for seat, card in enumerate(self.chosen) if card is not None)

    @property
    def turn(self) -> int | None:
        """The seat to act, None when the game is over."""
        if self.over:
            return None
        if self.phase == "row":
            _, owner = self._cards_to_place()[0]
            return owner
        return min(seat for seat in self._staying() if self.chosen[seat] is None)

    def legal_actions(self) -> list[int]:
        """Actions of the seat to act, ascending: card - 1, or 104 + row, top row first. Empty when the game is over."""
        if self.turn is None:
            return []
        if self.phase == "row":
            return [FIRST_ROW_ACTION + row for row in range(self.num_rows)]
        return [card - 1 for card in sorted(self.hands[self.turn])]

    def play(self, action: int) -> None:
        """Let the seat to act choose a card or a row. Raises ValueError for an illegal action or when all is over."""
        seat = self.turn
        if seat is None or action not in self.legal_actions():
            raise ValueError(f"action is {action}, allowed are {self.legal_actions()}")
        if self.phase == "row":
            self._take_row(action - FIRST_ROW_ACTION)
            self._place_cards()
            return
        card = action + 1
        self.hands[seat].remove(card)
        self.chosen[seat] = card
        self._show_if_all_have_chosen()

    def _show_if_all_have_chosen(self) -> None:
        if any(self.chosen[seat] is None for seat in self._staying()):
            return
        for card, owner in self._cards_to_place():
            self.played[owner].append(card)
        self._place_cards()

    def _place_cards(self) -> None:
        """Place the shown cards, lowest first, until all lie or one waits for its owner's choice of a row."""
        while self._cards_to_place():
            card, owner = self._cards_to_place()[0]
            lower_ends = [row[-1] for row in self.rows if row[-1] < card]
            if not lower_ends:
                if self.row_choice == "player":
                    self.phase = "row"
                    return
                self._take_row(self._cheapest_row())
                continue
            row = next(number for number in range(self.num_rows) if self.rows[number][-1] == max(lower_ends))
            if len(self.rows[row]) == self.row_size:
                self._take_row(row)
            else:
                self.rows[row].append(card)
                self.chosen[owner] = None
        self.phase = "card"
        self.trick += 1
        if self.trick == self.hand_size:
            self._end_hand()

    def _take_row(self, row: int) -> None:
        """The owner of the lowest card to be placed takes all cards of the row, and its card starts the row anew."""
        card, owner = self._cards_to_place()[0]
        self.taken[owner].extend(self.rows[row])
        self.rows[row] = [card]
        self.chosen[owner] = None

    def _cheapest_row(self) -> int:
        """The row with fewest bulls; ties: fewest cards, then the topmost."""

        def cost(row: int) -> tuple[int, int, int]:
            return sum(bulls_on(card) for card in self.rows[row]), len(self.rows[row]), row

        return min(range(self.num_rows), key=cost)

    def _bulls(self) -> list[int]:
        """Bulls that each seat has taken in the running hand; none once they are in the totals."""
        if self.counted:
            return [0] * self.num_players
        return [sum(bulls_on(card) for card in cards) for cards in self.taken]

    def _end_hand(self) -> None:
        self.totals = self.scores()
        if self.length == "hand" or max(self.totals) >= self.limit:
            self.over = True
            self.counted = True
            return
        self.hand += 1
        self._deal(self.next_deck())

    def resign(self, seat: int) -> None:
        """Let a seat leave. Raises ValueError if it has left already, is no seat, or the game is over.

        Its hand is out of play; a card that it has chosen and that is not yet placed goes back there.
        """
        check_range("seat", seat, 0, self.num_players - 1)
        if self.over or seat in self.leavers:
            raise ValueError(f"seat is {seat}, which cannot resign: it has left already or the game is over")
        self.leavers.append(seat)
        withdrawn = self.chosen[seat]
        if withdrawn is not None:
            self.hands[seat].add(withdrawn)
            self.chosen[seat] = None
        if len(self._staying()) == 1:
            self.over = True
        elif self.phase == "row":
            self._place_cards()
        else:
            self._show_if_all_have_chosen()

    def default_action(self) -> int:
        """The action of a seat that overruns its time: its lowest card, or the row with fewest bulls."""
        if self.turn is None:
            raise ValueError("the game is over, there is no default action")
        if self.phase == "row":
            return FIRST_ROW_ACTION + self._cheapest_row()
        return min(self.hands[self.turn]) - 1

    def scores(self) -> list[int]:
        """Each seat's score if the game ended now: bulls of the finished hands and of the running one."""
        return [total + bulls for total, bulls in zip(self.totals, self._bulls(), strict=True)]

    def ranks(self) -> list[float]:
        """Each seat's rank if the game ended now, 1 = best (see `oracles.ranking.ranks`)."""
        return ranks(self.scores(), self.leavers)

    def rewards(self, kind: str) -> list[float]:
        """Each seat's reward if the game ended now (see `oracles.ranking.rewards`)."""
        return rewards(kind, self.scores(), self.leavers)

    def recall(self) -> list[dict[str, list[int]]]:
        """The cards that each seat has shown in this hand, in that order; one shown and then withdrawn was shown."""
        return [{"played": list(cards)} for cards in self.played]

    def table(self) -> dict[str, Any]:
        """The whole truth, in the shape of DESIGN.md's `table()`."""
        seats = range(self.num_players)
        bulls = self._bulls()
        return {
            "phase": self.phase,
            "turn": None if self.turn is None else agent(self.turn),
            "rows": [list(row) for row in self.rows],
            "hands": {agent(seat): sorted(self.hands[seat]) for seat in seats},
            "chosen": {agent(seat): self.chosen[seat] for seat in seats},
            "bulls": {agent(seat): bulls[seat] for seat in seats},
            "totals": {agent(seat): self.totals[seat] for seat in seats},
            "trick": self.trick,
            "hand": self.hand,
            "undealt": sorted(self.undealt),
        }

    def view(self, seat: int, view: str) -> dict[str, Any]:
        """`table()` with None for what the seat may not see, in the view ``"table"`` or ``"recall"``."""
        check_range("seat", seat, 0, self.num_players - 1)
        check_choice("view", view, VIEWS)
        seen = self.table()
        seen["undealt"] = None
        for other in range(self.num_players):
            if other == seat:
                continue
            seen["hands"][agent(other)] = None
            if self.phase == "card":
                seen["chosen"][agent(other)] = None
            if view == "table":
                seen["bulls"][agent(other)] = None
        return seen
