"""What the batch engine is given: any integers, and one clear line for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.batches import check_same, told
from undertake.core import game
from undertake.core.batch import make_batch

every_game = pytest.mark.parametrize("name", game.GAMES)


@every_game
@pytest.mark.parametrize(
    ("seats", "error", "words"),
    [
        ([0, 1, 4], ValueError, "seat 4 of table 2; allowed is 0 to 3"),
        ([-1, 0, 0], ValueError, "seat -1 of table 0; allowed is 0 to 3"),
        ([0, 1], ValueError, r"shape \(2,\).*\(3,\)"),
        ([0.0, 1.0, 2.0], TypeError, "float64; integers"),
    ],
)
def test_seats_that_are_not_at_the_table(name: str, seats: list[Any], error: type[Exception], words: str) -> None:
    batch = make_batch(name, num_envs=3, num_players=4)
    with pytest.raises(error, match=words):
        batch.observe(np.array(seats))


@every_game
@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        (np.ones((4, 1), np.int64), ValueError, r"shape \(4, 1\).*\(4,\)"),
        (np.ones(5, np.int64), ValueError, r"shape \(5,\).*\(4,\)"),
        (np.int64(1), ValueError, r"shape \(\).*\(4,\)"),
        (np.ones(4), TypeError, "float64; integers"),
        ([True] * 4, TypeError, "bool; integers"),
        (["1"] * 4, TypeError, "integers"),
        (None, TypeError, "object; integers"),
    ],
)
def test_actions_that_cannot_be(name: str, actions: Any, error: type[Exception], words: str) -> None:
    batch = make_batch(name, num_envs=4)
    kept = told(batch)
    with pytest.raises(error, match=words) as raised:
        batch.step(actions)
    assert "\n" not in str(raised.value)
    check_same(kept, told(batch))


@every_game
@pytest.mark.parametrize("form", [list, np.int8, np.uint64, ">i8", "strided"])
def test_actions_of_any_integers(name: str, form: Any) -> None:
    one, other = (make_batch(name, num_envs=4, seed=3) for _ in range(2))
    actions = one.random_actions(1).copy()
    one.step(actions)
    if form == "strided":
        other.step(np.repeat(actions, 2)[::2])
    else:
        other.step(actions.tolist() if form is list else actions.astype(form))
    check_same(told(one), told(other))


@every_game
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"num_envs": 0}, ValueError, "num_envs is 0; allowed is 1 to 16777216, nearest 1"),
        ({"num_envs": 2.0}, TypeError, "num_envs is 2.0; a whole number"),
        ({"num_threads": 0}, ValueError, "num_threads is 0; allowed is 1"),
        ({"view": "recal"}, ValueError, "did you mean 'recall'"),
        ({"reward": "scores"}, ValueError, "did you mean 'score'"),
        ({"illegal": "rise"}, ValueError, "did you mean 'raise'"),
        ({"observe": 1}, TypeError, "observe is 1; True or False"),
        ({"seed": -1}, ValueError, "seed is -1; a whole number from 0"),
        ({"seed": 1.5}, TypeError, "seed is 1.5; a whole number from 0"),
        ({"seed": "1"}, TypeError, "seed is '1'"),
        ({"num_players": 1}, ValueError, "num_players is 1; allowed is 2 to"),
        ({"num_env": 3}, TypeError, "'num_env'.*did you mean 'num_envs'"),
        ({"num_player": 3}, TypeError, "'num_player'.*did you mean 'num_players'"),
    ],
)
def test_keywords_that_cannot_be(name: str, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        make_batch(name, **options)
    assert "\n" not in str(raised.value)


def test_a_game_that_is_unknown() -> None:
    with pytest.raises(ValueError, match=r"game is 'six_nimt'; allowed are .*did you mean 'six_nimmt'"):
        make_batch("six_nimt")
    batch = make_batch("no_thanks", num_envs=2)
    for seed, error in ((-1, ValueError), (0.5, TypeError)):
        kept = told(batch)
        with pytest.raises(error):
            batch.reset(seed)  # type: ignore[arg-type]
        check_same(kept, told(batch))
