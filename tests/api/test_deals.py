"""Deals that are fixed, by chance, or refused."""

from typing import Any

import pytest
from numpy.testing import assert_array_equal

from api.playing import MODULES, every_game
from undertake import no_thanks_v0, six_nimmt_v0


def test_a_fixed_deal_of_no_thanks() -> None:
    deck = [*range(35, 2, -1)]
    env = no_thanks_v0.env()
    env.reset(seed=1, options={"deck": deck, "first_player": 2, "colour": "red"})
    assert env.agent_selection == "player_2"
    table = env.unwrapped.table()
    assert (table["card"], table["deck"], table["removed"]) == (35, deck[1:24], deck[24:])
    env.reset(options={"first_player": 1})
    assert env.agent_selection == "player_1"
    assert env.unwrapped.table()["deck"] != deck[1:24]


def test_a_fixed_deal_of_six_nimmt() -> None:
    deck = [*range(104, 0, -1)]
    env = six_nimmt_v0.env(num_players=3)
    env.reset(options={"deck": deck})
    table = env.unwrapped.table()
    assert table["hands"] == {f"player_{i}": sorted(deck[10 * i : 10 * i + 10]) for i in range(3)}
    assert table["rows"] == [[74], [73], [72], [71]]
    assert table["undealt"] == [*range(1, 71)]


@every_game
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"options": {"deck": [3, 4, 5]}}, ValueError, "deck holds 3 cards"),
        ({"options": {"deck": [1, 2, 3, 4] * 26}}, ValueError, "deck holds the card"),
        ({"options": {"deck": "no cards"}}, TypeError, "a sequence of whole numbers is needed"),
        ({"options": {"deck": 5}}, TypeError, "a sequence of whole numbers is needed"),
        ({"options": {"first_player": 4}}, ValueError, "first_player is 4; allowed is 0 to 3"),
        ({"options": {"first_player": "player_0"}}, TypeError, "first_player is 'player_0'"),
        ({"options": [1]}, TypeError, "options is"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": 0.5}, TypeError, "seed is 0.5"),
        ({"seed": 3, "options": {"deck": [0]}}, ValueError, "deck holds the card 0"),
    ],
)
def test_a_deal_that_cannot_be_harms_nothing(
    game: str, bad: dict[str, Any], error: type[Exception], message: str
) -> None:
    for env in (MODULES[game].env(), MODULES[game].parallel_env()):
        env.reset(seed=1)
        before, state = env.unwrapped.table(), env.state()
        with pytest.raises(error, match=message) as caught:
            env.reset(**bad)
        assert "\n" not in str(caught.value)
        assert env.unwrapped.table() == before
        assert_array_equal(env.state(), state)
        # The random stream has not moved either.
        untouched = MODULES[game].env()
        untouched.reset(seed=1)
        env.reset()
        untouched.reset()
        assert env.unwrapped.table() == untouched.unwrapped.table()


@every_game
def test_without_a_seed_the_first_deal_is_by_chance(game: str) -> None:
    tables = []
    for _ in range(3):
        env = MODULES[game].env()
        env.reset()
        tables.append(env.unwrapped.table())
    assert tables[0] != tables[1] != tables[2] != tables[0]
