"""Batch, AEC and Parallel play the same games from the same seeds and actions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import undertake
from api.playing import MODULES, WAIT, every_game, legal
from undertake.core.game import REWARDS, get_game

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "no_thanks": [
        *({"num_players": n} for n in range(2, 8)),
        {"num_players": 3, "after_take": "left", "lowest": 3, "highest": 12, "removed": 2},
        {"num_players": 5, "open_chips": True, "lowest": 8, "highest": 20, "removed": 0, "chips": 4},
        {"num_players": 2, "lowest": 3, "highest": 8, "removed": 3, "chips": 0},
    ],
    "six_nimmt": [
        *({"num_players": n, "length": "hand"} for n in range(2, 11)),
        {"num_players": 4, "limit": 30},
        {"num_players": 3, "row_choice": "cheapest", "deck": "reduced"},
        {"num_players": 2, "hand_size": 3, "num_rows": 2, "row_size": 2, "num_cards": 12, "limit": 12},
    ],
}


@every_game
@pytest.mark.parametrize("view", ["table", "recall"])
def test_three_faces_play_the_same_games(game: str, view: str) -> None:
    for number, options in enumerate(SETTINGS[game]):
        small = "lowest" in options or "hand_size" in options
        same_games(game, number, {"view": view, "reward": REWARDS[number % 4], **options}, games=200 if small else 30)


def same_games(game: str, seed: int, options: dict[str, Any], games: int) -> None:
    """Play games in a row from one seed with the same actions through batch, AEC and Parallel."""
    rng = np.random.default_rng(seed)
    batch = undertake.make_batch(game, num_envs=1, seed=seed, **options)
    env, parallel = MODULES[game].env(**options), MODULES[game].parallel_env(**options)
    env.reset(seed=seed)
    observations, infos = parallel.reset(seed=seed)
    steps = 0
    while games > 0:
        assert infos == env.infos
        chosen = {agent: random_action(observations[agent], rng) for agent in parallel.agents}
        total = dict.fromkeys(parallel.agents, 0.0)
        for agent, action in chosen.items():
            if action == WAIT[game]:
                continue
            assert env.agent_selection == agent == f"player_{batch.seat[0]}"
            seen = env.observe(agent)
            same_observation(seen, batch.observation[0] * batch.scale, batch.action_mask[0])
            # In Parallel this was seen before the others' choices of the same step.
            same_observation(seen, **observations[agent])
            env.step(action)
            batch.step(np.array([action]))
            assert [np.float32(reward) for reward in env.rewards.values()] == batch.reward[0].tolist()
            total = {each: total[each] + paid for each, paid in env.rewards.items()}
        observations, rewards, terminations, truncations, infos = parallel.step(chosen)
        assert rewards == total
        assert terminations == env.terminations
        assert truncations == env.truncations
        if not parallel.agents:
            assert bool(batch.done[0])
            assert infos == env.infos == {a: {"score": float(s)} for a, s in zip(infos, batch.score[0], strict=True)}
            assert parallel.history() == env.unwrapped.history()
            games -= 1
            env.reset()
            observations, infos = parallel.reset()
        steps += 1
        if steps % 29 == 0:
            assert parallel.table() == env.unwrapped.table() == get_game(game).table(batch.states[0])
            assert_array_equal(parallel.state(), env.state())


def same_observation(seen: Mapping[str, Any], observation: Any, action_mask: Any) -> None:
    assert seen["observation"].tobytes() == observation.tobytes()
    assert seen["action_mask"].tobytes() == action_mask.tobytes()


def random_action(observation: Mapping[str, Any], rng: np.random.Generator) -> int:
    actions = np.flatnonzero(observation["action_mask"])
    return int(actions[int(rng.random() * len(actions))])


@every_game
def test_a_random_action_instead_of_an_illegal_one_is_the_same_in_all_faces(game: str) -> None:
    rng = np.random.default_rng(3)
    batch = undertake.make_batch(game, num_envs=1, seed=5, illegal="random")
    env, parallel = MODULES[game].env(illegal="random"), MODULES[game].parallel_env(illegal="random")
    env.reset(seed=5)
    observations, _ = parallel.reset(seed=5)
    wait, actions = WAIT[game], range(-1, WAIT[game] + 2)
    games = 0
    while games < 20:
        chosen = {agent: int(rng.choice(actions)) for agent in parallel.agents}
        for agent, observation in observations.items():
            if legal(observation) != [wait]:
                assert env.agent_selection == agent
                env.step(chosen[agent])
                batch.step(np.array([chosen[agent]]))
        observations, *_ = parallel.step(chosen)
        assert parallel.table() == env.unwrapped.table()
        if not parallel.agents:
            games += 1
            env.reset()
            observations, _ = parallel.reset()
        assert env.unwrapped.table() == get_game(game).table(batch.states[0])
