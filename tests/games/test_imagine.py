"""`imagine`: worlds that agree with a view, each of them equally often."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from games.tables import (
    cards_in,
    check_conserved,
    deal,
    game_of,
    mask_of,
    new_record,
    seen,
    some_states,
    walk,
)
from undertake.core import game
from undertake.core.rng import mix

every_game = pytest.mark.parametrize("name", game.GAMES)
SEEDS = st.integers(0, 2**32 - 1)
ALPHA = 1e-6
"""How often a chi-square test below would fail by chance, were its seed not fixed."""


def imagined(view: Any, key: int, into: Any | None = None) -> Any:
    state = new_record(game_of(view).state_dtype) if into is None else into
    game.imagine(view, np.uint64(key), state)
    return state


@every_game
@settings(max_examples=30)
@given(seed=SEEDS)
def test_an_imagined_world_looks_the_same_and_can_be_played(name: str, seed: int) -> None:
    """Every field of the view record, in either view, for any seat, leavers included, at any time."""
    used = new_record(game.get_game(name).state_dtype)
    for state, rng in some_states(name, seed, looks=0.08):
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
            if used.turn < 0 or rng.random() < 0.05:
                check_conserved(used)
                assert used.turn < 0 or mask_of(seen(used, int(used.turn), view)).any()


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
    options: dict[str, Any] = {"num_rows": 1, "row_size": row_size, "num_cards": 8, "hand_size": 2, "length": "hand"}
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


def test_an_uneven_imagination_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    fair = game.imagine

    def uneven(view: Any, key: np.uint64, state: Any) -> None:
        fair(view, key, state)
        if state.chips[1] == 0:
            fair(view, key + np.uint64(1), state)

    check_uniform(small_no_thanks(), 0, "table", 6 * 5)
    monkeypatch.setattr(game, "imagine", uneven)
    with pytest.raises(AssertionError, match="chi2"):
        check_uniform(small_no_thanks(), 0, "table", 6 * 5)


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
    options: dict[str, Any] = {
        "num_rows": 1,
        "row_size": 1,
        "num_cards": 8,
        "hand_size": 2,
        "length": "hand",
        "num_players": 2,
    }
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
