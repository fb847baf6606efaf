"""Rewards of endings worked out by hand, of every kind and in both games."""

from typing import Any

import pytest

from api.playing import (
    PAIR,
    PAIR_DEAL,
    PAIR_MOVES,
    PASS,
    TAKE,
    THREE,
    THREE_DEAL,
    THREE_MOVES,
    legal,
    play_moves,
)
from undertake import no_thanks_v0, six_nimmt_v0


def play_all(env: Any, actions: list[int]) -> dict[str, float]:
    """Play the actions, step the dead, and return each agent's return, collected as PettingZoo's loop does."""
    returns = dict.fromkeys(env.possible_agents, 0.0)
    total = dict.fromkeys(env.possible_agents, 0.0)
    queue = iter(actions)
    for agent in env.agent_iter():
        _, reward, termination, truncation, info = env.last()
        returns[agent] += reward
        assert list(info) == ["score"]
        env.step(None if termination or truncation else next(queue))
        for each, paid in env.rewards.items():
            total[each] += paid
    assert next(queue, None) is None
    assert returns == pytest.approx(total)
    return returns


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("rank", [-1, 0, 1]),
        ("win", [-1 / 3, -1 / 3, 2 / 3]),
        ("score", [-5, -2, -1]),
        ("margin", [(2 + 1) / 2 - 5, (5 + 1) / 2 - 2, (5 + 2) / 2 - 1]),
    ],
)
def test_rewards_of_no_thanks(reward: str, expected: list[float]) -> None:
    env = no_thanks_v0.env(reward=reward, **THREE)
    env.reset(options=THREE_DEAL)
    assert list(play_all(env, THREE_MOVES).values()) == pytest.approx(expected)
    env.reset(options=THREE_DEAL)
    play_moves(env, THREE_MOVES)
    assert [info["score"] for info in env.infos.values()] == [5, 2, 1]
    assert list(env.rewards.values()) == pytest.approx(expected)


def test_rewards_of_a_tie() -> None:
    # Both pass 5, player_0 takes it with two chips: 5 - 3. player_1 takes 3 with its one chip: 3 - 1.
    options: dict[str, Any] = {
        "num_players": 2,
        "lowest": 3,
        "highest": 5,
        "removed": 1,
        "chips": 2,
        "after_take": "left",
    }
    for reward, expected in (("rank", 0), ("win", 0), ("score", -2), ("margin", 0)):
        env = no_thanks_v0.env(reward=reward, **options)
        env.reset(options={"deck": [5, 3, 4], "first_player": 0})
        assert play_all(env, [PASS, PASS, TAKE, TAKE]) == {"player_0": expected, "player_1": expected}


@pytest.mark.parametrize(
    ("reward", "expected"), [("rank", [-1, 1]), ("win", [-0.5, 0.5]), ("score", [-3, -1]), ("margin", [-2, 2])]
)
def test_rewards_of_six_nimmt(reward: str, expected: list[float]) -> None:
    env = six_nimmt_v0.env(reward=reward, **PAIR)
    env.reset(options=PAIR_DEAL)
    assert list(play_all(env, PAIR_MOVES).values()) == expected


def test_bulls_are_paid_as_they_are_taken() -> None:
    env = six_nimmt_v0.env(reward="score", **PAIR)
    env.reset(options=PAIR_DEAL)
    paid = []
    for action in PAIR_MOVES:
        env.step(action)
        paid.append(list(env.rewards.values()))
    assert paid == [[0, 0], [0, 0], [0, -1], [0, 0], [0, 0], [-3, 0]]
    parallel = six_nimmt_v0.parallel_env(reward="score", **PAIR)
    parallel.reset(options=PAIR_DEAL)
    moves = [(4, 0), (108, 104), (1, 3), (104, 108)]
    steps = [parallel.step(dict(zip(parallel.agents, move, strict=True))) for move in moves]
    assert [list(step[1].values()) for step in steps] == [[0, 0], [0, -1], [0, 0], [-3, 0]]
    assert [list(step[2].values()) for step in steps] == [[False, False]] * 3 + [[True, True]]


def test_a_trick_without_a_row_to_choose_is_one_parallel_step() -> None:
    env = six_nimmt_v0.parallel_env(num_players=5, row_choice="cheapest", length="hand")
    observations, _ = env.reset(seed=1)
    steps = 0
    while env.agents:
        observations, *_ = env.step({agent: legal(observations[agent])[0] for agent in env.agents})
        steps += 1
    assert steps == 10
