"""Nothing leaks: states that differ only in what a seat may not know look the same to it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from games.tables import See, cards_in, copied, game_of, mask_of, observed, seen, some_states
from undertake.core import game

every_game = pytest.mark.parametrize("name", game.GAMES)


def hidden_cards(state: Any, seat: int, view: str) -> list[int]:
    """Cards whose places the seat does not know."""
    told = game_of(state).table(state)
    if "pot" in told:
        return [*told["deck"], *told["removed"]]
    name = f"player_{seat}"
    known = {*told["hands"][name], *(card for row in told["rows"] for card in row)}
    known |= {card for n, card in told["chosen"].items() if card and (told["phase"] == "row" or n == name)}
    if view == "recall":
        known |= {*cards_in(state.seen)}
    return [card for card in range(1, int(state.num_cards) + 1) if card not in known]


def exchanged(state: Any, a: int, b: int) -> Any:
    """The state with two cards changed for each other wherever they lie or are noted."""
    other = copied(state)
    shift = 0 if "pot" in state.dtype.names else 1
    other_card = {a: b, b: a}
    for field in ("deck", "chosen", "played", "rows", "last", "lowest", "highest"):
        if field in state.dtype.names and np.ndim(getattr(state, field)):
            values = getattr(other, field)
            values[...] = np.vectorize(lambda card: other_card.get(int(card), int(card)))(values)
    if not shift:
        return other
    for field in ("hand", "seen", "taken", "undealt", "withdrawn"):
        for words in np.atleast_2d(getattr(other, field)):
            cards = {other_card.get(card, card) for card in cards_in(words)}
            word = sum(1 << card - 1 for card in cards)
            words[:] = np.array([word & (1 << 64) - 1, word >> 64], np.uint64)
    return other


Change = tuple[str, Any]


def hidden_changes(state: Any, seat: int, view: str, rng: random.Random) -> Iterator[Change]:
    """States that differ from this one only in what the seat may not know, by what differs."""
    told = game_of(state).table(state)
    players, over = int(state.num_players), state.turn < 0
    other = copied(state)
    other.rng = np.uint64(rng.getrandbits(64))
    yield "random stream", other
    cards = hidden_cards(state, seat, view)
    for _ in range(4):
        if len(cards) > 1:
            yield "two unseen cards", exchanged(state, *rng.sample(cards, 2))
    others = [s for s in range(players) if s != seat]
    if "pot" in told:
        yield from _hidden_changes_no_thanks(state, others, view, over, rng)
        return
    giver = next((s for s in others if told["bulls"][f"player_{s}"] > 0), None)
    if view == "table" and giver is not None and len(others) > 1:
        other = copied(state)
        other.bulls[giver] -= 1
        other.bulls[next(s for s in others if s != giver)] += 1
        yield "others' bulls", other
    if view == "table" and state.trick > 0:
        other = copied(state)
        other.played[seat, : state.trick] = 0
        other.played[others[0], : state.trick] = 104
        other.last[:], other.lowest[:], other.highest[:] = 104, 1, 104
        yield "who has played what", other
    choosers = [s for s in others if told["chosen"][f"player_{s}"] and told["hands"][f"player_{s}"]]
    if told["phase"] == "card" and choosers:
        changer = rng.choice(choosers)
        hand = told["hands"][f"player_{changer}"]
        yield "a chosen card", exchanged(state, told["chosen"][f"player_{changer}"], rng.choice(hand))
    deck = copied(state)
    deck.deck[: state.num_cards] = rng.sample(range(1, int(state.num_cards) + 1), int(state.num_cards))
    yield "the order of the deck", deck


def _hidden_changes_no_thanks(
    state: Any, others: list[int], view: str, over: bool, rng: random.Random
) -> Iterator[Change]:
    order = copied(state)
    place = order.deck[int(state.drawn) : int(state.highest) - int(state.lowest) + 1]
    place[:] = rng.sample(place.tolist(), len(place))
    yield "the order of the deck and the removed cards", order
    rich = [s for s in others if state.chips[s] > 0]
    if view == "recall":
        return
    if len(others) > 1 and rich and not state.open_chips and not over:
        chips = copied(state)
        giver = rng.choice(rich)
        chips.chips[giver] -= 1
        chips.chips[rng.choice([s for s in others if s != giver])] += 1
        yield "others' chips", chips
    past = copied(state)
    for field in ("dearest", "cheapest", "takes", "refusals"):
        getattr(past, field)[:] = rng.sample(range(20), 7)
    yield "how the seats have decided", past


def check_no_leak(state: Any, seat: int, view: str, rng: random.Random, see: See = game.see) -> set[str]:
    """Raise AssertionError if a hidden change shows in view, observation or mask; returns what was changed."""
    sight = seen(state, seat, view, see)
    made = set()
    for what, other in hidden_changes(state, seat, view, rng):
        if other.tobytes() == state.tobytes():
            continue
        made.add(what)
        told = seen(other, seat, view, see)
        assert told.tobytes() == sight.tobytes(), f"{what} shows in the {view} view of seat {seat}"
        np.testing.assert_array_equal(observed(told), observed(sight))
        np.testing.assert_array_equal(mask_of(told), mask_of(sight))
    return made


CHANGES = {
    "no_thanks": {
        "random stream",
        "two unseen cards",
        "the order of the deck and the removed cards",
        "others' chips",
        "how the seats have decided",
    },
    "six_nimmt": {
        "random stream",
        "two unseen cards",
        "others' bulls",
        "who has played what",
        "a chosen card",
        "the order of the deck",
    },
}


@every_game
def test_hidden_things_do_not_show(name: str) -> None:
    made: set[str] = set()
    for seed in range(60):
        for state, rng in some_states(name, seed, looks=0.1):
            seat, view = rng.randrange(state.num_players), rng.choice(game.VIEWS)
            made |= check_no_leak(state, seat, view, rng)
    assert made == CHANGES[name]


def _leak_bit(state: Any, view: Any) -> None:
    view.removed = int(state.rng) & 1


def _leak_next_card(state: Any, view: Any) -> None:
    if state.drawn < state.played:
        view.start_chips = state.deck[state.drawn]


def _leak_removed(state: Any, view: Any) -> None:
    view.start_chips = state.deck[state.played]


def _leak_chips(state: Any, view: Any) -> None:
    view.chips[1] = state.chips[(view.seat + 1) % view.num_players]


def _leak_price(state: Any, view: Any) -> None:
    view.dearest[0] = state.dearest[view.seat]


def _leak_chosen(state: Any, view: Any) -> None:
    view.shown[1] = state.chosen[(view.seat + 1) % view.num_players]


def _leak_hand(state: Any, view: Any) -> None:
    view.unseen &= ~state.hand[(view.seat + 1) % view.num_players]


def _leak_undealt(state: Any, view: Any) -> None:
    view.unseen &= ~state.undealt


def _leak_bulls(state: Any, view: Any) -> None:
    view.bulls[1] = state.bulls[(view.seat + 1) % view.num_players]


def _leak_stream(state: Any, view: Any) -> None:
    view.limit = int(state.rng) & 0xFF


@pytest.mark.parametrize(
    ("name", "view", "leak"),
    [
        ("no_thanks", "recall", _leak_bit),
        ("no_thanks", "recall", _leak_next_card),
        ("no_thanks", "recall", _leak_removed),
        ("no_thanks", "table", _leak_chips),
        ("no_thanks", "table", _leak_price),
        ("six_nimmt", "recall", _leak_chosen),
        ("six_nimmt", "recall", _leak_hand),
        ("six_nimmt", "table", _leak_hand),
        ("six_nimmt", "recall", _leak_undealt),
        ("six_nimmt", "table", _leak_bulls),
        ("six_nimmt", "recall", _leak_stream),
    ],
)
def test_a_leak_would_be_caught(name: str, view: str, leak: Callable[[Any, Any], None]) -> None:
    def leaking(state: Any, seat: int, recall: bool, record: Any) -> None:
        game.see(state, seat, recall, record)
        leak(state, record)

    def look() -> None:
        for state, rng in itertools.chain.from_iterable(some_states(name, seed, looks=0.15) for seed in range(12)):
            check_no_leak(state, rng.randrange(state.num_players), view, rng, leaking)

    with pytest.raises(AssertionError, match="shows in the"):
        look()
