"""AgileRL's multi-agent algorithms and vectors over `ActionMaskInInfo`, and the page's script as it stands."""

from pathlib import Path
from typing import Any

import numpy as np
import pettingzoo
import pytest
import torch
from agilerl.algorithms import MADDPG, MATD3
from agilerl.vector.pz_async_vec_env import AsyncPettingZooVecEnv

from pipelines.page import run
from undertake import no_thanks_v0, six_nimmt_v0
from undertake.api.wrappers import ActionMaskInInfo

MODULES: dict[str, Any] = {"no_thanks": no_thanks_v0, "six_nimmt": six_nimmt_v0}
OPTIONS: dict[str, dict[str, Any]] = {
    "no_thanks": {"num_players": 3},
    "six_nimmt": {"num_players": 3, "length": "hand"},
}
every_game = pytest.mark.parametrize("game", list(MODULES))


def wrapped(game: str) -> Any:
    return ActionMaskInInfo(MODULES[game].parallel_env(**OPTIONS[game]))


def agent_for(algorithm: Any, env: Any) -> Any:
    seats = env.possible_agents
    return algorithm(
        observation_spaces=[env.observation_space(seat) for seat in seats],
        action_spaces=[env.action_space(seat) for seat in seats],
        agent_ids=seats,
        net_config={"encoder_config": {"hidden_size": [16]}, "head_config": {"hidden_size": [16]}},
    )


def test_this_is_a_pettingzoo_before_the_registry() -> None:
    assert not hasattr(pettingzoo, "register")


@every_game
@pytest.mark.parametrize("algorithm", [MADDPG, MATD3])
def test_the_algorithms_play_whole_games_by_the_masks(algorithm: Any, game: str) -> None:
    torch.manual_seed(0)
    env = wrapped(game)
    agent = agent_for(algorithm, env)
    observations, infos = env.reset(seed=2)
    rewards: dict[str, float] = {}
    while env.agents:
        masks = {seat: info["action_mask"] for seat, info in infos.items()}
        batched = {seat: observation[None] for seat, observation in observations.items()}
        actions = {seat: int(chosen[0]) for seat, chosen in agent.get_action(obs=batched, infos=infos)[0].items()}
        assert all(masks[seat][action] == 1 for seat, action in actions.items())
        observations, rewards, _, _, infos = env.step(actions)
    # An illegal action would end the game with -1 for one and 0 for the others; ranks add up to nothing.
    assert any(rewards.values())
    assert sum(rewards.values()) == pytest.approx(0)


@every_game
def test_its_vector_keeps_the_masks_of_each_table(game: str) -> None:
    envs = AsyncPettingZooVecEnv([lambda: wrapped(game)] * 2)
    try:
        plain = wrapped(game)
        observations, infos = envs.reset(seed=4)
        # The vector seeds its tables with 4 and 5.
        expected, expected_infos = plain.reset(seed=4)
        for seat in plain.possible_agents:
            np.testing.assert_array_equal(observations[seat][0], expected[seat])
            np.testing.assert_array_equal(infos[seat]["action_mask"][0], expected_infos[seat]["action_mask"])
            assert infos[seat]["action_mask"].shape == (2, plain.action_space(seat).n)
        agent = agent_for(MATD3, plain)
        for _ in range(20):
            actions = agent.get_action(obs=observations, infos=infos)[0]
            for seat, chosen in actions.items():
                assert (infos[seat]["action_mask"][np.arange(2), chosen] == 1).all()
            observations, _, _, _, infos = envs.step(actions)
    finally:
        envs.close()


def test_the_page(tmp_path: Path) -> None:
    lines = run("agilerl", tmp_path).splitlines()
    for game in MODULES:
        assert any(f"{game}: " in line and "steps of all seats and their learning" in line for line in lines)
        assert any(f"{game}: against three random players it wins" in line for line in lines)
