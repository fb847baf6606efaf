"""Tianshou's PettingZooEnv over the AEC face, and the page's script as it stands."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.multiagent.marl import MultiAgentPolicy
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.utils.net.common import Net

from pipelines.page import run
from undertake import no_thanks_v0, six_nimmt_v0

MODULES: dict[str, Any] = {"no_thanks": no_thanks_v0, "six_nimmt": six_nimmt_v0}
OPTIONS: dict[str, dict[str, Any]] = {
    "no_thanks": {"num_players": 3},
    "six_nimmt": {"num_players": 3, "length": "hand"},
}
every_game = pytest.mark.parametrize("game", list(MODULES))


def wrapped(game: str) -> Any:
    return PettingZooEnv(MODULES[game].env(**OPTIONS[game]))


@every_game
def test_it_shows_what_the_environment_shows(game: str) -> None:
    env, plain = wrapped(game), MODULES[game].env(**OPTIONS[game])
    seen, _ = env.reset(seed=5)
    plain.reset(seed=5)
    rng = np.random.default_rng(0)
    over = False
    while not over:
        observation = plain.observe(plain.agent_selection)
        assert seen["agent_id"] == plain.agent_selection
        np.testing.assert_array_equal(seen["obs"], observation["observation"])
        np.testing.assert_array_equal(seen["mask"], observation["action_mask"] == 1)
        action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
        seen, rewards, over, _, _ = env.step(action)
        plain.step(action)
        assert list(rewards) == [plain.rewards[agent] for agent in plain.possible_agents]
    assert all(plain.terminations.values())
    assert any(rewards)


@every_game
def test_a_dqn_that_explores_plays_by_the_masks(game: str) -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - Tianshou explores with it
    env = wrapped(game)
    policy = DiscreteQLearningPolicy(
        model=Net(
            state_shape=env.observation_space["observation"].shape, action_shape=env.action_space.n, hidden_sizes=[16]
        ),
        action_space=env.action_space,
        observation_space=env.observation_space,
        eps_training=0.5,
    )
    buffer = VectorReplayBuffer(4000, buffer_num=2)
    envs = DummyVectorEnv([lambda: wrapped(game)] * 2)
    collector = Collector(MultiAgentPolicy(dict.fromkeys(env.agents, policy)), envs, buffer, exploration_noise=True)
    collector.reset(gym_reset_kwargs={"seed": 1})
    collected = collector.collect(n_episode=6)
    stored, _ = buffer.sample(0)
    assert len(stored) == collected.n_collected_steps
    assert stored.obs.mask[np.arange(len(stored)), stored.act].all()
    # An illegal action would end the game with -1 for one and 0 for the others; ranks add up to nothing.
    assert stored.terminated.sum() == collected.n_collected_episodes
    last = stored.rew[stored.terminated]
    np.testing.assert_allclose(last.sum(axis=1), 0, atol=1e-6)
    assert (np.abs(last).max(axis=1) > 0).all()
    assert not stored.rew[~stored.terminated].any()


def test_the_page(tmp_path: Path) -> None:
    lines = run("tianshou", tmp_path).splitlines()
    for game in MODULES:
        assert any(f"{game}: " in line and "a CPU-second with learning" in line for line in lines)
        assert any(f"{game}: against three random players it wins" in line for line in lines)
