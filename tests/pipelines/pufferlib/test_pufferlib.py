"""PufferLib's emulation and vectors over `FlattenMask`, and the page's script as it stands."""

from pathlib import Path
from typing import Any

import numpy as np
import pufferlib.emulation
import pufferlib.vector
import pytest

from pipelines.page import run
from undertake import no_thanks_v0, six_nimmt_v0
from undertake.api.wrappers import FlattenMask

MODULES: dict[str, Any] = {"no_thanks": no_thanks_v0, "six_nimmt": six_nimmt_v0}
OPTIONS: dict[str, dict[str, Any]] = {
    "no_thanks": {"num_players": 3},
    "six_nimmt": {"num_players": 3, "length": "hand"},
}
every_game = pytest.mark.parametrize("game", list(MODULES))


def emulated(game: str, buf: Any = None, seed: int = 0) -> Any:
    env = FlattenMask(MODULES[game].parallel_env(**OPTIONS[game]))
    return pufferlib.emulation.PettingZooPufferEnv(env=env, buf=buf, seed=seed)


def legal(env: Any, observations: Any, rng: np.random.Generator) -> Any:
    """A random legal action for each row of observations."""
    _, mask = env.split(observations)
    return np.array([rng.choice(np.flatnonzero(row)) for row in mask], np.int32)


@every_game
def test_a_flat_observation_needs_no_emulation(game: str) -> None:
    env = emulated(game)
    plain = MODULES[game].parallel_env(**OPTIONS[game])
    space = plain.observation_space("player_0")
    assert not env.is_obs_emulated
    assert env.single_observation_space.dtype == np.float32
    assert env.single_observation_space.shape == (space["observation"].shape[0] + space["action_mask"].shape[0],)
    # Without the wrapper the two parts become bytes.
    bare = pufferlib.emulation.PettingZooPufferEnv(env=MODULES[game].parallel_env(**OPTIONS[game]))
    assert bare.is_obs_emulated
    assert bare.single_observation_space.dtype == np.uint8


@every_game
def test_it_shows_what_the_environment_shows(game: str) -> None:
    env, plain = emulated(game), MODULES[game].parallel_env(**OPTIONS[game])
    env.reset(seed=5)
    expected, _ = plain.reset(seed=5)
    rng = np.random.default_rng(0)
    while plain.agents:
        features, mask = env.env.split(env.observations)
        for seat, observation in enumerate(expected.values()):
            np.testing.assert_array_equal(features[seat], observation["observation"])
            np.testing.assert_array_equal(mask[seat], observation["action_mask"] == 1)
        actions = legal(env.env, env.observations, rng)
        env.step(actions)
        expected, rewards, _, _, _ = plain.step(dict(zip(plain.possible_agents, actions.tolist(), strict=True)))
        np.testing.assert_allclose(env.rewards, list(rewards.values()))
    assert env.done
    assert env.terminals.all()
    assert env.rewards.any()


@every_game
@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_its_vectors_play_by_the_masks(game: str, backend: str) -> None:
    options = {"num_workers": 2} if backend == "Multiprocessing" else {}
    envs = pufferlib.vector.make(emulated, env_kwargs={"game": game}, num_envs=4, backend=backend, seed=1, **options)
    try:
        split = FlattenMask(MODULES[game].parallel_env(**OPTIONS[game]))
        rng = np.random.default_rng(0)
        observations, _ = envs.reset(seed=1)
        ended = 0
        for _ in range(150):
            observations, rewards, terminals, _, _ = envs.step(legal(split, observations, rng))
            for table in np.flatnonzero(terminals.reshape(4, 3).all(axis=1)):
                # An illegal action would end the game with -1 for one and 0 for the others.
                last = rewards.reshape(4, 3)[table]
                assert last.any()
                assert last.sum() == pytest.approx(0, abs=1e-6)
                ended += 1
        assert ended >= 4
    finally:
        envs.close()


def test_the_page(tmp_path: Path) -> None:
    lines = run("pufferlib", tmp_path).splitlines()
    for game in MODULES:
        assert any(f"{game}: " in line and "agent steps a CPU-second" in line for line in lines)
        assert any(f"{game}: against three random players it wins" in line for line in lines)
