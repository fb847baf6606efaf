"""Rollout players, on positions worked out by hand and against published strength."""

from typing import Any

import numpy as np
import pytest

import undertake
from api.playing import MODULES, PAIR, PAIR_DEAL, PASS, TAKE, play_moves
from undertake.arena.deals import look
from undertake.arena.policy import PolicyError
from undertake.core.batch import make_batch, records
from undertake.core.game import get_game
from undertake.search.rollout import Budget, Rollout, parse_budget

# player_0 has 5 and one chip; player_1 has 3, three chips and the last card, 6, before it. Only 4 is set aside.
LAST: dict[str, Any] = {"num_players": 2, "lowest": 3, "highest": 6, "removed": 1, "chips": 2}
LAST_DEAL: dict[str, Any] = {"deck": [5, 3, 6, 4], "first_player": 0}
LAST_MOVES = [TAKE, PASS, TAKE]


def position(game: str, options: dict[str, Any], deal: dict[str, Any], moves: list[int]) -> Any:
    """The view records [1] of the seat to act after some moves."""
    env = MODULES[game].env(view="recall", **options)
    env.reset(seed=0, options=deal)
    play_moves(env, moves)
    states, seat = env.unwrapped.policy_input(env.agent_selection)
    views = records(get_game(game).view_dtype)
    look(states, np.array([seat]), True, views, np.zeros(0, np.uint8), np.zeros(256, np.int8))
    return views


def player(name: str, game: str) -> Rollout:
    found = undertake.make_policy(name, game).target.__self__  # type: ignore[union-attr]
    assert isinstance(found, Rollout)
    return found


@pytest.mark.parametrize(
    ("policy", "passing"),
    [
        # Chips are put down until player_0 has none and takes 6 with three of them: 5 - 3 against 3 - 1.
        ("always_pass", 0.0),
        # player_0 takes 6 at once, which costs it nothing, with one chip: 5 - 2 against 3 - 2.
        ("threshold_0", 2.0),
    ],
)
def test_margins_of_a_last_card(policy: str, passing: float) -> None:
    views = position("no_thanks", LAST, LAST_DEAL, LAST_MOVES)
    mean, worlds = player(f"rollout:3:{policy}", "no_thanks").margins(views)
    # Taking: 3 + 6 - 3 against 5 - 1.
    assert mean[0, [PASS, TAKE]].tolist() == [passing, -2.0]
    assert np.isnan(mean[0, 2])
    assert worlds.tolist() == [3]


@pytest.mark.parametrize(("policy", "play_2", "play_5"), [("lowest", 1.0, -2.0), ("highest", 1.0, 4.0)])
def test_margins_of_two_tricks(policy: str, play_2: float, play_5: float) -> None:
    # The hands are 2 5 and 1 4, the row begins with 3, and player_0 knows it: no other cards are in the deck.
    # lowest: 2 and 1: 1 takes the 3 (one bull), then 4 and 5 fit. 5 and 1: as before, then 2 takes 1 and 5 (three).
    # highest: 2 and 4: 2 takes the 3 (one), then 1 takes 2 and 4 (two). 5 and 4 fit, then 1 takes 3, 4 and 5 (four).
    views = position("six_nimmt", PAIR, PAIR_DEAL, [])
    mean, _ = player(f"rollout:2:{policy}", "six_nimmt").margins(views)
    assert {card: mean[0, card - 1] for card in (2, 5)} == {2: play_2, 5: play_5}
    assert np.isnan(np.delete(mean[0], [1, 4])).all()


def test_a_mixture_gives_each_world_its_own_players() -> None:
    views = position("six_nimmt", PAIR, PAIR_DEAL, [])
    mean, _ = player("rollout:400:lowest,highest", "six_nimmt").margins(views)
    assert mean[0, 1] == 1.0
    # -2 or 4 as player_1 plays the lowest or the highest: four standard errors of .15 around 1.
    assert abs(mean[0, 4] - 1.0) < 0.6
    assert mean[0, 4] not in (-2.0, 4.0)


@pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])
def test_the_same_worlds_whoever_plays_them_out(game: str) -> None:
    """A bot asked through Python gives what it gives compiled."""
    batch = make_batch(game, num_envs=6, num_players=3, seed=4, observe=False)
    for key in range(9):
        batch.step(batch.random_actions(key))
    found = get_game(game)
    views = records(found.view_dtype, 6)
    look(batch._records, batch.seat, True, views, np.zeros(0, np.uint8), np.zeros(6 * found.num_actions + 64, np.int8))
    bot = "threshold_6" if game == "no_thanks" else "lowest"
    compiled = Rollout(game, Budget(8), [undertake.make_policy(bot, game)]).margins(views, key=3)
    asked = Rollout(game, Budget(8), [undertake.make_policy(_Asking(game))])
    np.testing.assert_array_equal(asked.margins(views, key=3)[0], compiled[0])
    other = Rollout(game, Budget(8), [undertake.make_policy(bot, game)]).margins(views, key=4)
    assert not np.array_equal(other[0], compiled[0], equal_nan=True)


class _Asking:
    """threshold_6, or the lowest card and the first of the cheapest rows, as a user would write them."""

    sees = "view"

    def __init__(self, game: str) -> None:
        self.game = game

    def act(self, view: Any, mask: np.ndarray) -> int:
        if self.game == "six_nimmt":
            if view.phase == 0:
                return int(np.flatnonzero(mask)[0])
            costs = [(view.row_bulls[row], view.row_length[row], row) for row in range(view.num_rows)]
            return 104 + int(min(costs)[2])
        cards, card = int(view.cards[0]), int(view.card)
        change = (0 if cards >> (card - 1) & 1 else card) - (card + 1 if cards >> (card + 1) & 1 else 0)
        return int(view.chips[0] == 0 or change - view.pot <= 6)


def test_budgets() -> None:
    assert parse_budget("300") == Budget(300, "")
    assert parse_budget("300total").worlds(7) == 42
    assert parse_budget("5total").worlds(10) == 1
    assert parse_budget("50ms") == Budget(50, "ms")
    views = position("six_nimmt", PAIR, PAIR_DEAL, [])
    for inner in ("lowest", "random"):
        _, worlds = player(f"rollout:1ms:{inner}", "six_nimmt").margins(views)
        assert worlds[0] >= 1
    assert player("rollout:9total:lowest", "six_nimmt").margins(views)[1].tolist() == [4]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rollout:many:random", "the budget of a rollout player is 'many'; allowed are"),
        ("rollout:0:random", "the budget of a rollout player is '0'; allowed are 1 to"),
        ("rollout:10", "names no policy to play the rounds out"),
        ("rollout:10:tuend", "did you mean 'tuned'"),
        ("six_nimmt/rollout:10:highest", "plays six_nimmt; the game here is no_thanks"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        undertake.make_policy(name, "no_thanks")


def test_a_rollout_player_of_no_game() -> None:
    with pytest.raises(PolicyError, match="is of no game by itself; write no_thanks/rollout"):
        undertake.make_policy("rollout:10:random")
    assert undertake.make_policy("rollout:10:no_thanks/tuned").game == "no_thanks"
    assert undertake.make_policy("six_nimmt/rollout:10:random").game == "six_nimmt"


def test_searching_beats_what_it_searches_with() -> None:
    cell = undertake.arena.evaluate("no_thanks", "rollout:10:threshold_6", ["threshold_6"], deals=24).cells[0]
    assert cell.estimates["win_share"].low > 0.25


def test_the_same_in_several_processes() -> None:
    setting: dict[str, Any] = {"deals": 260, "hand_size": 2, "num_rows": 1, "num_cards": 9}
    lineup = ["rollout:2:lowest", "random"]
    one = undertake.arena.play("six_nimmt", lineup, **setting)
    two = undertake.arena.play("six_nimmt", lineup, processes=2, **setting)
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "bulls"), [("100total", 6.5), ("1000total", 5.5)])
def test_published_strength_of_flat_monte_carlo(budget: str, bulls: float) -> None:
    """Mean bulls a hand in a field of three random players; the published figures are rounded to 0.1."""
    found = undertake.arena.play("six_nimmt", [f"rollout:{budget}:random", *["random"] * 3], deals=512, processes=2)
    score = found.estimates()["score"]
    assert abs(score.mean - bulls) <= 0.05 + (score.high - score.mean), str(score)
