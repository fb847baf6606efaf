"""The door between what is and what a seat may know: nothing leaks through it, and `imagine` goes back all the way."""

from __future__ import annotations

import collections
import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from games.tables import (
    OPTIONS,
    See,
    cards_in,
    check_conserved,
    copied,
    deal,
    game_of,
    mask_of,
    new_record,
    observed,
    seen,
    walk,
)
from undertake.core import game
from undertake.core.rng import mix

every_game = pytest.mark.parametrize("name", game.GAMES)
SEEDS = st.integers(0, 2**32 - 1)
ALPHA = 1e-6
"""How often a chi-square test below would fail by chance, were its seed not fixed."""


def some_states(name: str, seed: int, looks: float = 0.15) -> Iterator[tuple[Any, random.Random]]:
    """States from a random game with random options and leavers, its end included."""
    rng = random.Random(seed)
    state = deal(name, seed, **OPTIONS[name](rng))
    for _ in walk(state, rng, rng.choice([0.0, 0.02, 0.1])):
        if state.turn < 0 or rng.random() < looks:
            yield state, rng


def imagined(view: Any, key: int, into: Any | None = None) -> Any:
    state = new_record(game_of(view).state_dtype) if into is None else into
    game.imagine(view, np.uint64(key), state)
    return state


# --- imagine ---------------------------------------------------------------------------------------------------------


@every_game
@settings(max_examples=40)
@given(seed=SEEDS)
def test_an_imagined_world_looks_the_same_and_can_be_played(name: str, seed: int) -> None:
    """Every field of the view record, in either view, for any seat, leavers included, at any time."""
    used = new_record(game.get_game(name).state_dtype)
    for state, rng in some_states(name, seed):
        seat, view = rng.randrange(state.num_players), rng.choice(game.VIEWS)
        sight = seen(state, seat, view)
        key = rng.getrandbits(64)
        world = imagined(sight, key)
        again = seen(world, seat, view)
        differ = {
            field: (getattr(sight, field), getattr(again, field))
            for field in sight.dtype.names
            if not np.array_equal(getattr(sight, field), getattr(again, field))
        }
        assert not differ, f"{view} of seat {seat}: (seen, seen of the imagined) differ in {differ}"
        assert again.tobytes() == sight.tobytes()
        check_conserved(world)
        assert world.rng != state.rng
        assert imagined(sight, key).tobytes() == world.tobytes()
        imagined(sight, key, into=used)  # a search imagines into the same record again and again
        assert seen(used, seat, view).tobytes() == sight.tobytes()
        for _ in walk(used, rng, 0.01):
            check_conserved(used)
        for _ in walk(world, rng):
            assert world.turn < 0 or mask_of(seen(world, int(world.turn), view)).any()


def arrangement(state: Any) -> tuple[Any, ...]:
    """All that is hidden from somebody, as a key to count by."""
    told = game_of(state).table(state)
    if "pot" in told:
        return tuple(told["deck"]), tuple(told["removed"]), tuple(told["chips"].values())
    return (
        tuple(map(tuple, told["hands"].values())),
        tuple(told["chosen"].values()),
        tuple(told["undealt"]),
        tuple(cards_in(state.taken)),
    )


def check_uniform(state: Any, seat: int, view: str, arrangements: int) -> None:
    """All of the hidden arrangements that the seat may think possible, `arrangements` in number, equally often."""
    sight = seen(state, seat, view)
    draws = 60 * arrangements
    world = new_record(state.dtype)
    counts = collections.Counter(
        arrangement(imagined(sight, int(mix(np.uint64(n))), into=world)) for n in range(1, draws + 1)
    )
    assert len(counts) == arrangements
    assert arrangement(state) in counts
    statistic = sum((count - 60) ** 2 / 60 for count in counts.values())
    assert statistic < chi2.isf(ALPHA, arrangements - 1)
    assert statistic > chi2.ppf(ALPHA, arrangements - 1), "more even than chance is"


def small_no_thanks(*actions: int, players: int = 3, chips: int = 2, leaver: int | None = None) -> Any:
    """The cards 3 to 6, one of them removed; player 0 starts, 4 is turned up first."""
    state = deal("no_thanks", 1, 0, [4, 6, 3, 5], num_players=players, lowest=3, highest=6, removed=1, chips=chips)
    for action in actions:
        game.play(state, action)
    if leaver is not None:
        game.resign(state, leaver)
    return state


@pytest.mark.parametrize(
    ("state", "seat", "view", "arrangements"),
    [
        pytest.param(small_no_thanks(), 1, "recall", 6, id="recall"),  # 3! orders of the unseen cards
        # The table view of seat 0: of 6 chips, 2 are its own, 4 with two others in 5 ways.
        pytest.param(small_no_thanks(), 0, "table", 6 * 5, id="table"),
        pytest.param(small_no_thanks(0, 0), 2, "table", 6 * 3, id="pot"),  # 2 in the pot, 2 own, 2 with two others
        pytest.param(small_no_thanks(0, 0, 1), 1, "table", 2 * 6, id="taken"),  # 5 with two others, 3 and 5 unseen
        pytest.param(small_no_thanks(0, 0, 1, leaver=2), 0, "table", 2 * 6, id="leaver"),
        pytest.param(small_no_thanks(players=4, chips=1), 3, "table", 6 * 10, id="four"),  # 3 with three: C(5, 2)
        pytest.param(small_no_thanks(players=2), 0, "table", 6, id="two"),  # the other's chips are what is left
        pytest.param(small_no_thanks(1, 1, 1), 2, "table", 1, id="over"),
    ],
)
def test_every_arrangement_of_no_thanks_is_imagined_equally_often(
    state: Any, seat: int, view: str, arrangements: int
) -> None:
    if arrangements == 1:
        world = imagined(seen(state, seat, view), 5)
        assert arrangement(world)[2] == arrangement(state)[2]
        return
    check_uniform(state, seat, view, arrangements)


def small_six_nimmt(*actions: int, players: int = 3, row_size: int = 5, leaver: int | None = None) -> Any:
    """Eight cards in one row: the hands 2 7, 4 8, 1 5 (or the first two of them), then 3 on the table."""
    front = [2, 7, 4, 8, 1, 5][: 2 * players]
    options = {"num_rows": 1, "row_size": row_size, "num_cards": 8, "hand_size": 2, "length": "hand"}
    rest = [card for card in range(1, 9) if card not in front and card != 3]
    state = deal("six_nimmt", 1, cards=[*front, 3, *rest], num_players=players, **options)
    for card in actions:
        game.play(state, card if card >= 104 else card - 1)
    if leaver is not None:
        game.resign(state, leaver)
    return state


@pytest.mark.parametrize("view", game.VIEWS)
@pytest.mark.parametrize(
    ("state", "seat", "arrangements"),
    [
        # Seat 0 has two cards and sees one: five are with others, two, two and one undealt: 5! / (2! 2! 1!)
        pytest.param(small_six_nimmt(), 0, 30, id="hands"),
        pytest.param(small_six_nimmt(7), 1, 30 * 2, id="one-chosen"),
        pytest.param(small_six_nimmt(7, 4), 2, 30 * 2 * 2, id="two-chosen"),
        pytest.param(small_six_nimmt(7, 4), 0, 30 * 2, id="own-chosen"),
        pytest.param(small_six_nimmt(7, 4, leaver=0), 2, 30 * 2, id="a-chosen-card-withdrawn"),
        # 2 is shown and waits for its row: 2, 8, 5, 3 are known; of 7, 4, 1, 6 seat 0 has 7: 3! for 4, 1 and 6.
        pytest.param(small_six_nimmt(2, 8, 5), 0, 6, id="choosing-a-row"),
        # All placed, 3 7 4 8 5 seen in recall as in the table's row; again 3! for the three unseen.
        pytest.param(small_six_nimmt(7, 4, 5), 0, 6, id="second-trick"),
        pytest.param(small_six_nimmt(7, 4, 5, 2), 1, 6, id="second-trick-chosen"),
        pytest.param(small_six_nimmt(7, 8, players=2), 0, 4, id="two-players"),  # 4 of 1, 4, 5, 6 for one card
    ],
)
def test_every_arrangement_of_six_nimmt_is_imagined_equally_often(
    state: Any, seat: int, view: str, arrangements: int
) -> None:
    check_uniform(state, seat, view, arrangements)


def test_who_sees_the_table_alone_does_not_know_the_cards_taken() -> None:
    # Rows of two: 7 is laid on 3, 8 takes both. The table view of seat 0 knows its 2 and the 8 in the row; of the
    # other six cards one is with the other player, two are taken and three are undealt.
    state = small_six_nimmt(7, 8, players=2, row_size=2)
    check_uniform(state, 0, "table", 60)
    check_uniform(state, 0, "recall", 4)
    # Seat 1 has taken 3 and 7, two bulls: any two cards hold as many, and the 5 with its two bulls makes three.
    check_uniform(state, 1, "table", 60)


def test_cards_taken_hold_the_bulls_that_were_taken() -> None:
    # Rows of one: seat 0 plays 2 and takes 5 with its two bulls, then seat 1's 8 takes the 2.
    options = {"num_rows": 1, "row_size": 1, "num_cards": 8, "hand_size": 2, "length": "hand", "num_players": 2}
    state = deal("six_nimmt", 1, cards=[2, 7, 8, 4, 5, 1, 3, 6], **options)
    for action in (2 - 1, 8 - 1, 104):
        game.play(state, action)
    assert state.bulls[:2].tolist() == [2, 1]
    # Two cards are taken, 8 lies there and seat 0 has 7. Any two hold two bulls: 6 x C(5, 2) for hand and taken.
    check_uniform(state, 0, "table", 60)
    # Had seat 0 taken three bulls, 5 would be among them: 5 places of the other's card, then 4 for the taken one.
    state.bulls[0] = 3
    worlds = [imagined(seen(state, 0, "table"), key) for key in range(1, 400)]
    assert {5 in cards_in(world.taken) for world in worlds} == {True}
    assert len({arrangement(world) for world in worlds}) == 5 * 4


def test_unlikely_bulls_are_imagined_too() -> None:
    """Where chance does not find enough bulls among the unseen cards, imagine puts them there."""
    state = deal("six_nimmt", 3, cards=None, num_players=10, hand_size=1, num_rows=1, row_size=1)
    for _ in walk(state, random.Random(1)):
        if state.phase == 1:
            break
    state = deal("six_nimmt", 3, num_players=2, hand_size=3, num_rows=1, row_size=1, num_cards=104)
    front = [50, 60, 70, 56, 80, 90, 55]  # 56 takes 50 which took 55
    state = deal(
        "six_nimmt",
        3,
        cards=[*front, *(card for card in range(1, 105) if card not in front)],
        num_players=2,
        hand_size=3,
        num_rows=1,
        row_size=1,
    )
    for action in (50 - 1, 56 - 1, 104):
        game.play(state, action)
    assert state.bulls[:2].tolist() == [7, 3]
    for key in range(1, 200):
        world = imagined(seen(state, 0, "table"), key)
        check_conserved(world)
        assert world.bulls[0] == 7
        assert seen(world, 0, "table").tobytes() == seen(state, 0, "table").tobytes()


# --- no leak ---------------------------------------------------------------------------------------------------------


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
        other.played[: state.trick, seat] = 0
        other.played[: state.trick, others[0]] = 104
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
    """Raise AssertionError if a hidden change shows in view, observation or mask; the kinds of change that were made."""
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


MADE: dict[str, set[str]] = {name: set() for name in game.GAMES}
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
        for state, rng in itertools.chain.from_iterable(some_states(name, seed) for seed in range(12)):
            check_no_leak(state, rng.randrange(state.num_players), view, rng, leaking)

    with pytest.raises(AssertionError, match="shows in the"):
        look()


def test_the_checks_of_evenness_can_fail() -> None:
    """Figures of the chi-square law itself, so that the bounds above are what they are said to be."""
    assert chi2.isf(ALPHA, 5) == pytest.approx(35.9, abs=0.1)  # tables: 5 degrees, 1e-6
    assert math.isclose(chi2.sf(11.07, 5), 0.05, abs_tol=1e-4)
