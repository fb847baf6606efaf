"""The Gymnasium vector face against Gymnasium's own over the single-agent face, and what it does with what is wrong."""

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import undertake
from api.playing import every_game
from api.test_single_agent import BOTS, IDS, always_pass, no_warnings
from pipelines.page import run as run_page
from undertake.api.vector import LearnerVectorEnv

MODES = list(AutoresetMode)
SIZE = 6


def chosen(env: Any, rng: np.random.Generator) -> Any:
    """A random legal action of each learner, 0 where there is none."""
    masks = env.unwrapped.action_masks()
    return np.array([rng.choice(np.flatnonzero(mask)) if mask.any() else 0 for mask in masks])


@every_game
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reward", ["rank", "score"])
def test_it_plays_what_gymnasiums_own_plays(game: str, mode: AutoresetMode, reward: str) -> None:
    """The same observations, rewards, flags and infos, of the same types, as SyncVectorEnv over single environments."""
    keywords: dict[str, Any] = {"num_players": (2, 5), "view": "recall", "reward": reward}
    keywords["opponents"] = ["random", BOTS[game], always_pass]
    if game == "six_nimmt":
        keywords["limit"] = 20
    ours = gymnasium.make_vec(IDS[game], SIZE, autoreset_mode=mode, **keywords)
    theirs = gymnasium.make_vec(
        IDS[game], SIZE, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **keywords
    )
    assert isinstance(ours, LearnerVectorEnv)
    assert ours.metadata["autoreset_mode"] is mode
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert data_equivalence(ours.reset(seed=5), theirs.reset(seed=5), exact=True)
    rng, ended = np.random.default_rng(0), 0
    for _ in range(150):
        actions = chosen(ours, rng)
        if rng.random() < 0.02:
            actions[rng.integers(SIZE)] = -1  # illegal: the episode ends
        told = ours.step(actions)
        for mine, other in zip(told, theirs.step(actions), strict=True):
            assert data_equivalence(mine, other, exact=True)
        assert mine_in(ours.observation_space, told[0])
        over = told[2]
        ended += int(over.sum())
        if mode is AutoresetMode.DISABLED and over.any():
            again = ours.reset(options={"reset_mask": over.copy()})
            assert data_equivalence(again, theirs.reset(options={"reset_mask": over.copy()}), exact=True)
    assert ended > 2 * SIZE


def mine_in(space: Any, observation: Any) -> bool:
    return bool(space.contains(observation))


@every_game
def test_reset_with_seeds_and_without(game: str) -> None:
    ours: Any = gymnasium.make_vec(IDS[game], 3)
    theirs: Any = gymnasium.make_vec(IDS[game], 3, vectorization_mode="sync")
    for seed in (7, [1, 5, 3], None, [None, 4, None], None):
        options = {"first_player": 1} if seed is None else None
        mine, other = (env.reset(seed=seed, options=options) for env in (ours, theirs))
        assert data_equivalence(mine, other, exact=True)
    assert not data_equivalence(ours.reset(seed=8), ours.reset(seed=9), exact=True)
    unseeded = [gymnasium.make_vec(IDS[game], 3).reset()[0]["observation"] for _ in range(2)]
    assert not np.array_equal(*unseeded)


@every_game
def test_policies_that_are_networks_are_asked_once_for_all_tables(game: str) -> None:
    asked: list[int] = []

    class Batched:
        batched = True

        def act(self, observation: Any, action_mask: Any) -> Any:
            asked.append(len(action_mask))
            assert observation.dtype == np.float32
            assert (action_mask.sum(axis=1) > 0).all()
            return action_mask.argmax(axis=1)

    keywords: dict[str, Any] = {"num_players": 3, "seat": 0}
    batched = gymnasium.make_vec(IDS[game], 16, opponents=Batched(), **keywords)
    one_by_one = gymnasium.make_vec(IDS[game], 16, opponents=always_pass, **keywords)
    assert data_equivalence(batched.reset(seed=1), one_by_one.reset(seed=1), exact=True)
    rng = np.random.default_rng(0)
    asked.clear()
    for _ in range(30):
        actions = chosen(batched, rng)
        assert data_equivalence(batched.step(actions), one_by_one.step(actions), exact=True)
    assert sum(asked) > 3 * len(asked)  # decisions a call, of at most 16


@every_game
def test_self_plays_with_the_policy_as_it_is_now(game: str) -> None:
    class Learning:
        batched = True
        turn = 0

        def act(self, observation: Any, action_mask: Any) -> Any:
            self.turn += 1
            return action_mask.argmax(axis=1)

    learning = Learning()
    env: Any = gymnasium.make_vec(IDS[game], 4, opponents=["self", BOTS[game]], current_policy=lambda: learning)
    env.reset(seed=0)
    for _ in range(20):
        env.step(chosen(env, np.random.default_rng(0)))
    assert learning.turn > 0
    other = Learning()
    env.unwrapped._tables.opponents.__dict__["current"] = lambda: other
    env.unwrapped.refresh()
    before = learning.turn
    for _ in range(20):
        env.step(chosen(env, np.random.default_rng(0)))
    assert learning.turn == before
    assert other.turn > 0


@every_game
def test_gymnasiums_wrappers_take_it(game: str) -> None:
    options: dict[str, Any] = {"length": "hand"} if game == "six_nimmt" else {}
    with no_warnings():
        env = DictInfoToList(RecordEpisodeStatistics(gymnasium.make_vec(IDS[game], 4, reward="score", **options)))
        env.reset(seed=0)
        rng, lengths, returns, scores = np.random.default_rng(0), [], [], []
        for _ in range(200):
            *_, infos = env.step(chosen(env, rng))
            for info in infos:
                if "episode" in info:
                    lengths.append(info["episode"]["l"])
                    returns.append(info["episode"]["r"])
                    scores.append(info["score"])
    assert len(returns) > 10
    assert returns == [-score for score in scores]
    if game == "six_nimmt":
        assert all(10 <= length <= 20 for length in lengths)


def test_what_is_not_allowed_is_said_in_one_line() -> None:
    make = gymnasium.make_vec
    with pytest.raises(ValueError, match=r"autoreset_mode is 'NextStp'; .*did you mean 'NextStep'"):
        make(IDS["no_thanks"], 2, autoreset_mode="NextStp")
    with pytest.raises(ValueError, match="num_envs is 0; allowed is 1 to"):
        LearnerVectorEnv("no_thanks", 0)
    env = LearnerVectorEnv("no_thanks", 3, autoreset_mode="Disabled", illegal="raise")
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(np.zeros(3, np.int64))
    with pytest.raises(ResetNeeded, match="without a reset_mask"):
        env.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(ValueError, match="2 seeds are given; one a table is needed, 3"):
        env.reset(seed=[1, 2])
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"actions have the shape \(2,\); one action a table is needed, \(3,\)"):
        env.step([0, 1])
    with pytest.raises(TypeError, match="actions are of dtype float64; integers are needed"):
        env.step([0.0, 1.0, 1.0])
    before = env._tables.states.copy()
    with pytest.raises(ValueError, match=r"^table 1: action 2 \(wait\) is illegal; legal are 0 \(pass\), 1 \(take\)$"):
        env.step([0, 2, 0])
    assert np.array_equal(before, env._tables.states)
    for mask in ([True, False, False], np.array([1, 0, 0]), np.array([True])):
        with pytest.raises(TypeError, match="a bool array of the shape"):
            env.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="chooses no table"):
        env.reset(options={"reset_mask": np.zeros(3, np.bool_)})
    while not env._tables.over.any():
        env.step(np.ones(3, np.int64))
    with pytest.raises(ResetNeeded, match=r"the episodes of the tables .* are over"):
        env.step(np.ones(3, np.int64))


@every_game
def test_what_is_returned_is_fresh(game: str) -> None:
    env: Any = gymnasium.make_vec(IDS[game], 4, autoreset_mode=AutoresetMode.SAME_STEP)
    observation, infos = env.reset(seed=0)
    rng = np.random.default_rng(0)
    kept, copies = [], []
    for _ in range(40):
        kept.append((observation, infos))
        copies.append(copy.deepcopy((observation, infos)))
        observation, *_, infos = env.step(chosen(env, rng))
        kept[-1][0]["action_mask"][:] = 1
        copies[-1][0]["action_mask"][:] = 1
    assert all(data_equivalence(a, b, exact=True) for a, b in zip(kept, copies, strict=True))
    assert env.unwrapped.action_masks().sum() < 4 * env.single_action_space.n


@every_game
def test_a_copy_goes_on_with_the_same_games(game: str) -> None:
    env = gymnasium.make_vec(IDS[game], 5, opponents=["random", always_pass], num_players=(2, 4))
    env.reset(seed=3)
    env.step(chosen(env, np.random.default_rng(0)))
    copies = [env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))]  # noqa: S301 - made in this line
    told = []
    for each in copies:
        rng = np.random.default_rng(1)
        told.append([each.step(chosen(each, rng)) for _ in range(60)])
    assert data_equivalence(told[0], told[1], exact=True)
    assert data_equivalence(told[0], told[2], exact=True)


def test_tables_are_drawn(capsys: Any) -> None:
    env: Any = gymnasium.make_vec(IDS["six_nimmt"], 2, render_mode="ansi", num_players=2)
    env.reset(seed=0)
    texts = env.render()
    assert texts is not None
    assert [text.count("player_1") for text in texts] == [1, 1]


def test_importing_undertake_registers_it_without_loading_it() -> None:
    assert undertake.__version__
    assert {"undertake/NoThanks-v0", "undertake/SixNimmt-v0"} <= set(gymnasium.registry)


def test_the_pages_script_runs_as_it_stands(tmp_path: Path) -> None:
    told = run_page("gymnasium", tmp_path)
    one = r"^(?:NoThanks|SixNimmt): seat \d, final score -?\d+, return [-+]\d\.\d\d$"
    many = r"games, mean reward at the end [-+]\d\.\d\d, [\d,]+ steps a second$"
    assert [len(re.findall(each, told, re.MULTILINE)) for each in (one, many)] == [2, 2]
