"""TorchRL's wrapper over both faces, and the page's script as it stands."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import check_env_specs

from pipelines.page import run
from undertake import no_thanks_v0, six_nimmt_v0

SEED = 7
MODULES: dict[str, Any] = {"no_thanks": no_thanks_v0, "six_nimmt": six_nimmt_v0}
OPTIONS: dict[str, dict[str, Any]] = {
    "no_thanks": {"num_players": 3},
    "six_nimmt": {"num_players": 3, "length": "hand"},
}
every_face = pytest.mark.parametrize("face", ["env", "parallel_env"])
every_game = pytest.mark.parametrize("game", list(MODULES))


def wrapped(game: str, face: str) -> Any:
    env = getattr(MODULES[game], face)(**OPTIONS[game])
    seats = {"player": list(env.possible_agents)}
    return PettingZooWrapper(env=env, use_mask=True, categorical_actions=True, group_map=seats)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(SEED)


@every_face
@every_game
def test_the_specs_are_right(game: str, face: str) -> None:
    check_env_specs(wrapped(game, face))


@every_face
@every_game
def test_random_play_that_honours_the_masks_ends_games_by_the_rules(game: str, face: str) -> None:
    frames = wrapped(game, face).rollout(300, break_when_any_done=False)
    after = frames["next"]
    chosen = frames["player", "action_mask"].gather(-1, frames["player", "action"].unsqueeze(-1)).squeeze(-1)
    assert chosen[frames["player", "mask"]].all()
    over = after["done"].squeeze(-1)
    assert int(over.sum()) > 2
    assert torch.equal(after["player", "terminated"].all(1).squeeze(-1), over)
    # An illegal action would end the game with -1 for one and 0 for the others; ranks add up to nothing.
    last = after["player", "reward"].squeeze(-1)[over]
    assert torch.allclose(last.sum(-1), torch.zeros(len(last)), atol=1e-6)
    assert (last.abs().amax(-1) > 0).all()
    assert (after["player", "reward"][~over] == 0).all()


@every_game
def test_in_the_aec_face_one_acts_at_a_time(game: str) -> None:
    frames = wrapped(game, "env").rollout(60, break_when_any_done=False)
    assert (frames["player", "mask"].sum(-1) == 1).all()


@every_game
def test_the_wrapper_shows_what_the_environment_shows(game: str) -> None:
    wrapper = wrapped(game, "env")
    wrapper.set_seed(SEED)  # deals once; the rollout deals anew
    frames = wrapper.rollout(200)
    env = MODULES[game].env(**OPTIONS[game])
    env.reset(seed=SEED)
    env.reset()
    for frame in frames:
        seat = int(frame["player", "mask"].nonzero())
        assert env.agent_selection == f"player_{seat}"
        observation = env.observe(env.agent_selection)
        np.testing.assert_array_equal(
            frame["player", "observation", "observation"][seat].numpy(), observation["observation"]
        )
        np.testing.assert_array_equal(frame["player", "action_mask"][seat].numpy(), observation["action_mask"] == 1)
        env.step(int(frame["player", "action"][seat]))
        np.testing.assert_allclose(frame["next", "player", "reward"].squeeze(-1).tolist(), list(env.rewards.values()))
    assert all(env.terminations.values())


def test_the_page(tmp_path: Path) -> None:
    lines = run("torchrl", tmp_path).splitlines()
    for game in MODULES:
        assert len([line for line in lines if line.startswith(f"{game}: ") and "frames a CPU-second" in line]) == 5
        assert len([line for line in lines if line.startswith(f"{game}: against three random players")]) == 1
