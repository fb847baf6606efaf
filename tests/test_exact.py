"""Exact values: perfect play and best responses against figures known from elsewhere or calculated by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import undertake
from undertake import exact
from undertake.arena.policy import PolicyError
from undertake.core.game import get_game

TINY: dict[str, Any] = {"num_cards": 6, "hand_size": 2, "num_rows": 1, "row_size": 2, "row_choice": "cheapest"}
SMALL: dict[str, Any] = {"highest": 6, "removed": 1, "chips": 2}
ONE_CARD: dict[str, Any] = {"highest": 3, "removed": 0, "chips": 1}


class Uniform:
    """Every legal action with the same probability."""

    def __init__(self, view: str) -> None:
        self.view = view

    def probabilities(
        self, observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        return np.asarray(action_mask / action_mask.sum(axis=1, keepdims=True))


def takes_once(observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8]) -> int:
    """Takes the first card of its own will and passes ever after, which only a memory of its decisions tells."""
    own_takes = observation[get_game("no_thanks").layouts["recall"].start("takes")]
    return int(own_takes == 0 or action_mask[0] == 0)


# Two independent programs agree on these: decision states, margin and win less loss of the player who begins.
@pytest.mark.parametrize(
    ("highest", "removed", "chips", "states", "margin", "win"),
    [
        (6, 1, 2, 1_052, -0.6667, -0.2500),
        (8, 1, 3, 53_382, -0.8264, -0.2347),
        (8, 2, 3, 30_012, -0.5639, -0.1472),
        (9, 2, 4, 238_931, -0.4167, -0.1008),
    ],
)
def test_known_values_of_no_thanks(
    highest: int, removed: int, chips: int, states: int, margin: float, win: float
) -> None:
    options: dict[str, Any] = {"highest": highest, "removed": removed, "chips": chips}
    solved = exact.solve("no_thanks", **options)
    assert solved.num_positions == states
    assert solved.value == pytest.approx(margin, abs=5e-5)
    assert exact.solve("no_thanks", reward="rank", **options).value == pytest.approx(win, abs=5e-5)


def test_a_game_by_hand() -> None:
    """The card 3 alone, a chip each. Whoever begins may take (2 points against -1: margin -3) or pass; then the other
    takes (1 against 0: margin 1 for the first) or passes, and the first has to take with two chips (1 against 0: -1).
    Perfect is to pass twice: -1. Three positions."""
    solved = exact.solve("no_thanks", **ONE_CARD)
    assert (solved.value, solved.num_positions) == (-1, 3)
    passing = exact.best_response("no_thanks", "always_pass", **ONE_CARD)
    assert (passing.values, passing.best, passing.nash_conv) == ((-1, 1), (-1, 1), 0)


def test_a_best_response_by_hand() -> None:
    """Of the same game, against a player who tosses a coin where there is a choice.

    Both do: -3 in half of the games, 1 and -1 in a quarter each. The first passes against it: 1 and -1 in half of the
    games each. The second passes against it: 3 in half of the games and 1 in the others.
    """
    response = exact.best_response("no_thanks", "random", **ONE_CARD)
    assert response.values == pytest.approx((-1.5, 1.5))
    assert response.best == pytest.approx((0, 2))
    assert response.gains == pytest.approx((1.5, 0.5))
    assert response.nash_conv == pytest.approx(2)
    assert response.exploitability == pytest.approx(1)


@pytest.mark.parametrize("reward", ["margin", "rank"])
def test_nobody_gains_against_perfect_play(reward: str) -> None:
    options: dict[str, Any] = {"highest": 8, "removed": 1, "chips": 3}
    solved = exact.solve("no_thanks", reward=reward, **options)
    response = exact.best_response("no_thanks", solved, reward=reward, **options)
    assert response.values == pytest.approx((solved.value, -solved.value))
    assert response.exploitability == pytest.approx(0, abs=1e-12)


def test_perfect_play_sits_down_in_the_arena() -> None:
    options: dict[str, Any] = {"highest": 8, "removed": 1, "chips": 3}
    solved = exact.solve("no_thanks", **options)
    match = undertake.arena.play("no_thanks", [solved, "threshold_3"], deals=256, **options)
    assert match.estimates(0)["margin"].low > 0
    with pytest.raises(ValueError, match="are the options the same"):
        undertake.arena.play("no_thanks", [solved, "threshold_3"], deals=2, **{**options, "chips": 4})


@pytest.mark.parametrize("policy", ["threshold_3", "tuned", takes_once])
def test_values_are_those_of_games_played(policy: Any) -> None:
    """8,192 games of two copies, by the batch engine; four standard errors."""
    batch = undertake.make_batch("no_thanks", num_envs=8192, seed=5, view="recall", num_players=2, **SMALL)
    player, first = undertake.make_policy(policy, "no_thanks"), batch.seat.copy()
    margins, running = np.zeros(len(first)), np.ones(len(first), np.bool_)
    while running.any():
        batch.step(player.actions(batch.game, batch.states, batch.seat, "recall", np.random.default_rng(0)))
        for table in np.flatnonzero(running & batch.done):
            margins[table] = batch.score[table, 1 - first[table]] - batch.score[table, first[table]]
        running &= ~batch.done
    value = exact.best_response("no_thanks", policy, **SMALL).values[0]
    assert value == pytest.approx(margins.mean(), abs=4 * margins.std() / np.sqrt(len(margins)))


def test_a_policy_with_a_memory_has_its_best_response() -> None:
    """Nobody gains more than all there is: a best response wins no less than perfect play, and more than a copy."""
    response = exact.best_response("no_thanks", takes_once, **SMALL)
    value = exact.solve("no_thanks", **SMALL).value
    assert response.best[0] > value
    assert response.best[1] > -value
    assert min(response.gains) > 0


class Coin(Uniform):
    """In the arena it draws; here it says with what probabilities."""

    def __init__(self) -> None:
        super().__init__("recall")

    def act(self, observation: Any, action_mask: Any, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(action_mask)))


@pytest.mark.parametrize("policy", [Coin, Coin(), undertake.make_policy(Coin)])
def test_what_draws_in_the_arena_is_asked_for_probabilities(policy: Any) -> None:
    assert exact.best_response("no_thanks", policy, **ONE_CARD).best == pytest.approx((0, 2))


@pytest.mark.parametrize(("game", "options"), [("no_thanks", SMALL), ("six_nimmt", TINY)])
def test_random_is_uniform_in_both_views(game: str, options: dict[str, Any]) -> None:
    """The positions differ, for the recall view tells how the seats have decided; what is played does not."""
    found = [exact.best_response(game, policy, **options) for policy in ("random", Uniform("table"), Uniform("recall"))]
    assert found[0].best == pytest.approx(found[1].best)
    assert found[0].best == pytest.approx(found[2].best)


def test_uniform_play_of_tiny_six_nimmt() -> None:
    response = exact.best_response("six_nimmt", "random", **TINY)
    assert response.nash_conv == pytest.approx(1.444, abs=5e-4)
    assert response.values == pytest.approx((0, 0))


def test_six_nimmt_by_hand() -> None:
    """Three cards, two in hands of one and one in the row: nothing to choose, so nothing to gain."""
    options: dict[str, Any] = {"num_cards": 3, "hand_size": 1, "num_rows": 1, "row_choice": "cheapest"}
    response = exact.best_response("six_nimmt", "random", **options)
    assert response.best == response.values == pytest.approx((0, 0))


def test_choosing_a_row_by_hand() -> None:
    """Hands of one, two rows, cards 1 to 5, of which the 5 counts two bulls and the others one.

    Who chooses a row by a coin loses half a bull where one row is the 5. In 48 of the 120 deals it is, and the hands
    and the other row are three of the cards 1 to 4 in any order. A player has to choose where its card is the lowest of
    these three: in a third, 16 deals. It gains 16/120 of half a bull.
    """
    options: dict[str, Any] = {"num_cards": 5, "hand_size": 1, "num_rows": 2, "row_choice": "player"}
    response = exact.best_response("six_nimmt", "random", **options)
    assert response.gains == pytest.approx((16 / 240, 16 / 240))


def test_scores_of_three_players() -> None:
    """Not zero-sum, but each can respond; in the sum all pay what the game costs."""
    response = exact.best_response("no_thanks", "always_pass", reward="score", num_players=3, **ONE_CARD)
    # All pass, the first has to take: 3 - 3 chips = 0, the others have nothing.
    assert response.values == pytest.approx((0, 0, 0))
    assert response.best == pytest.approx((0, 0, 0))


def test_the_pages_example() -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "exact.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for figure in ("-0.8264 ", "53,382", "exploitability 0.0000", "NashConv 1.4444"):
        assert figure in done.stdout


class Draws:
    def act(self, observation: Any, action_mask: Any, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(action_mask)))


class NoDistribution:
    def probabilities(self, observation: Any, action_mask: npt.NDArray[np.int8]) -> Any:
        return np.ones(action_mask.shape)


class WrongShape:
    def probabilities(self, observation: Any, action_mask: npt.NDArray[np.int8]) -> Any:
        return np.ones(len(action_mask))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Draws, "may draw at random; give it a method 'probabilities"),
        (NoDistribution(), "no distribution over the legal actions"),
        (WrongShape(), r"gave probabilities \[4\]; \[4, 3\] are needed"),
        ("six_nimmt/highest", "plays six_nimmt; the game here is no_thanks"),
    ],
)
def test_policies_that_do_not_fit(policy: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        exact.best_response("no_thanks", policy, **SMALL)


def test_games_that_are_too_large_or_of_another_kind() -> None:
    with pytest.raises(ValueError, match="more than 3,000,000 positions"):
        exact.solve("no_thanks")
    with pytest.raises(ValueError, match="perfect play is that of 2"):
        exact.solve("no_thanks", num_players=3, **SMALL)
    with pytest.raises(ValueError, match="reward is 'score'"):
        exact.solve("no_thanks", reward="score", **SMALL)
    with pytest.raises(ValueError, match="the game to be solved is 'six_nimmt'"):
        exact.solve("six_nimmt")
    with pytest.raises(ValueError, match="exact values are to be had up to 1,000,000"):
        exact.best_response("six_nimmt", "random")
    with pytest.raises(ValueError, match="exact values are those of one hand"):
        exact.best_response("six_nimmt", "random", **{**TINY, "length": "match"})
