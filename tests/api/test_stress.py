"""The faces under stress: legal and illegal actions at random, several at once, copies in mid-game.

10,000 steps a face by default, a million with `pytest -m slow`.
"""

import copy
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode

import undertake
from api.playing import MODULES, every_game
from undertake.core.game import get_game

IDS = {"no_thanks": "undertake:undertake/NoThanks-v0", "six_nimmt": "undertake:undertake/SixNimmt-v0"}
STEPS = pytest.mark.parametrize("steps", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
SHORT: dict[str, dict[str, Any]] = {"no_thanks": {}, "six_nimmt": {"limit": 20}}
REWARDS = ("rank", "win", "score", "margin")


def bounds(game: str, reward: str, players: int) -> tuple[float, float]:
    """Between what a step may pay: two scores are at most 400 apart in No Thanks! (the cards 12 to 35 as single runs
    make 564 less the chips) and the bulls of a game of 6 nimmt! to 20 are at most 19 + 171."""
    widest = 640.0 if game == "no_thanks" else 190.0
    return {"rank": (-1.0, 1.0), "win": (-1 / players, 1.0)}.get(reward, (-widest, widest))


def wild(mask: Any, rng: np.random.Generator) -> int:
    """A legal action nine times of ten, else any number, out of range ones too."""
    if mask.any() and rng.random() < 0.9:
        return int(rng.choice(np.flatnonzero(mask)))
    return int(rng.integers(-3, len(mask) + 3))


def wild_batch(mask: Any, rng: np.random.Generator) -> Any:
    """The same for B tables, no out of ten where nothing is legal."""
    legal = (mask * rng.random(mask.shape, dtype=np.float32)).argmax(axis=1)
    odd = rng.integers(-3, mask.shape[1] + 3, len(mask))
    return np.where(rng.random(len(mask)) < 0.1, odd, legal)


@every_game
@STEPS
def test_aec(game: str, steps: int) -> None:
    rng, ended = np.random.default_rng(0), 0
    for each, (reward, illegal) in enumerate((r, i) for r in REWARDS for i in ("terminate", "random")):
        env = MODULES[game].env(reward=reward, illegal=illegal, view="recall", **SHORT[game])
        low, high = bounds(game, reward, 4)
        env.reset(seed=each)
        for _ in range(steps // 8):
            observation, paid, termination, truncation, info = env.last()
            assert low <= paid <= high
            assert truncation is False
            assert np.isfinite(info["score"])
            env.step(None if termination else wild(observation["action_mask"], rng))
            if rng.random() < 0.001 and env.agents and not any(env.terminations.values()):
                env.resign(env.agent_selection)
            if not env.agents:
                ended += 1
                env.reset()
    assert ended > steps / 1000


@every_game
@STEPS
def test_parallel(game: str, steps: int) -> None:
    rng, ended = np.random.default_rng(0), 0
    for each, (reward, illegal) in enumerate((r, i) for r in REWARDS for i in ("terminate", "random")):
        env = MODULES[game].parallel_env(reward=reward, illegal=illegal, **SHORT[game])
        low, high = bounds(game, reward, 4)
        observations, _ = env.reset(seed=each)
        for _ in range(steps // 8):
            actions = {agent: wild(seen["action_mask"], rng) for agent, seen in observations.items()}
            observations, rewards, terminations, truncations, infos = env.step(actions)
            assert all(low <= paid <= high for paid in rewards.values())
            assert not any(truncations.values())
            assert set(infos) == set(observations) == set(terminations)
            if not env.agents:
                ended += 1
                observations, _ = env.reset()
    assert ended > steps / 1000


@every_game
@STEPS
def test_single_agent(game: str, steps: int) -> None:
    rng, ended = np.random.default_rng(0), 0
    for each, (reward, illegal) in enumerate((r, i) for r in REWARDS for i in ("terminate", "random")):
        env = gymnasium.make(
            IDS[game], reward=reward, illegal=illegal, opponents="random", num_players=(2, 6), **SHORT[game]
        )
        low, high = bounds(game, reward, 2)
        observation, _ = env.reset(seed=each)
        for _ in range(steps // 8):
            observation, paid, over, truncated, info = env.step(wild(observation["action_mask"], rng))
            assert low <= float(paid) <= high
            assert truncated is False
            assert np.isfinite(info["score"])
            assert over != observation["action_mask"].any()
            if over:
                ended += 1
                observation, _ = env.reset()
    assert ended > steps / 1000


@every_game
@STEPS
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector(game: str, steps: int, mode: AutoresetMode) -> None:
    rng, ended = np.random.default_rng(0), 0
    for each, (reward, illegal) in enumerate((r, i) for r in REWARDS for i in ("terminate", "random")):
        env = gymnasium.make_vec(
            IDS[game],
            50,
            autoreset_mode=mode,
            reward=reward,
            illegal=illegal,
            opponents="random",
            num_players=(2, 6),
            **SHORT[game],
        )
        low, high = bounds(game, reward, 2)
        observation, _ = env.reset(seed=each)
        for _ in range(steps // 400):
            observation, paid, over, truncated, infos = env.step(wild_batch(observation["action_mask"], rng))
            assert low <= paid.min() <= paid.max() <= high
            assert not truncated.any()
            assert np.isfinite(infos["score"]).all()
            ended += int(over.sum())
            if mode is AutoresetMode.DISABLED and over.any():
                observation, _ = env.reset(options={"reset_mask": over})
    assert ended > steps / 1000


@every_game
@STEPS
def test_batch(game: str, steps: int) -> None:
    rng, ended = np.random.default_rng(0), 0
    for each, (reward, illegal) in enumerate((r, i) for r in REWARDS for i in ("terminate", "random")):
        batch = undertake.make_batch(
            game, num_envs=50, reward=reward, illegal=illegal, view="recall", seed=each, **SHORT[game]
        )
        low, high = bounds(game, reward, 4)
        for _ in range(steps // 400):
            batch.step(wild_batch(batch.action_mask, rng))
            assert low <= batch.reward.min() <= batch.reward.max() <= high
            assert batch.action_mask.any(axis=1).all()
            ended += int(batch.done.sum())
    assert ended > steps / 1000


# Runs that a thread, a process or a copy must not change: what a face tells while it plays on for a while.


def run_aec(game: str, seed: int, env: Any = None) -> list[Any]:
    if env is None:
        env = MODULES[game].env(view="recall")
        env.reset(seed=seed)
    rng, told = np.random.default_rng(seed), []
    for _ in range(150):
        observation, paid, termination, _, info = env.last()
        told.append((observation["observation"].tobytes(), paid, termination, info["score"]))
        env.step(None if termination else int(rng.choice(np.flatnonzero(observation["action_mask"]))))
        if not env.agents:
            env.reset()
    return told


def run_parallel(game: str, seed: int, env: Any = None) -> list[Any]:
    if env is None:
        env = MODULES[game].parallel_env()
        env.reset(seed=seed)
    rng, told = np.random.default_rng(seed), []
    for _ in range(60):
        seen = {agent: env.observe(agent) for agent in env.agents}
        _, paid, *_ = env.step({a: int(rng.choice(np.flatnonzero(o["action_mask"]))) for a, o in seen.items()})
        told.append(([o["observation"].tobytes() for o in seen.values()], paid))
        if not env.agents:
            env.reset()
    return told


def run_single(game: str, seed: int, env: Any = None) -> list[Any]:
    if env is None:
        env = gymnasium.make(IDS[game], opponents=["random", "random"], num_players=(2, 5))
        env.reset(seed=seed)
    rng, told = np.random.default_rng(seed), []
    for _ in range(100):
        mask = env.unwrapped.action_masks()
        observation, paid, over, _, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        told.append((observation["observation"].tobytes(), paid, over, info["score"]))
        if over:
            env.reset()
    return told


def run_vector(game: str, seed: int, env: Any = None) -> list[Any]:
    if env is None:
        env = gymnasium.make_vec(IDS[game], 7, opponents="random", num_players=(2, 5))
        env.reset(seed=seed)
    rng, told = np.random.default_rng(seed), []
    for _ in range(60):
        mask = env.unwrapped.action_masks()
        observation, paid, over, _, _ = env.step((mask * rng.random(mask.shape)).argmax(axis=1))
        told.append((observation["observation"].tobytes(), paid.tobytes(), over.tobytes()))
    return told


def run_batch(game: str, seed: int, env: Any = None) -> list[Any]:
    batch = env if env is not None else undertake.make_batch(game, num_envs=7, seed=seed, view="recall")
    rng, told = np.random.default_rng(seed), []
    for _ in range(150):
        batch.step((batch.action_mask * rng.random(batch.action_mask.shape)).argmax(axis=1))
        told.append((batch.observation.tobytes(), batch.reward.tobytes(), batch.done.tobytes()))
    return told


RUNS: dict[str, Callable[..., list[Any]]] = {
    "aec": run_aec,
    "parallel": run_parallel,
    "single": run_single,
    "vector": run_vector,
    "batch": run_batch,
}
every_face = pytest.mark.parametrize("face", list(RUNS))


def all_runs(game: str) -> dict[str, list[Any]]:
    return {face: run(game, 3) for face, run in RUNS.items()}


@every_game
def test_threads_do_not_disturb_each_other(game: str) -> None:
    """Compiled code lets go of the interpreter's lock, so the threads are in it at the same time."""
    expected = {(face, seed): RUNS[face](game, seed) for face in RUNS for seed in (1, 2)}
    found: dict[tuple[str, int], list[Any]] = {}

    def work(face: str, seed: int) -> None:
        found[face, seed] = RUNS[face](game, seed)

    threads = [threading.Thread(target=work, args=key) for key in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


@every_face
@every_game
def test_two_in_one_process_do_not_disturb_each_other(game: str, face: str) -> None:
    """Stepped by turns, each plays what it plays alone."""
    make: dict[str, Callable[[], Any]] = {
        "aec": MODULES[game].env,
        "parallel": MODULES[game].parallel_env,
        "single": lambda: gymnasium.make(IDS[game]),
        "vector": lambda: gymnasium.make_vec(IDS[game], 3),
        "batch": lambda: undertake.make_batch(game, num_envs=3),
    }
    expected = RUNS[face](game, 1)
    other = make[face]()
    if face != "batch":
        other.reset(seed=9)
    first = RUNS[face](game, 1)
    again = RUNS[face](game, 5, other)
    assert first == expected
    assert len(again) == len(expected)


@pytest.mark.parametrize("game", ["no_thanks"])
def test_spawned_processes_play_the_same(game: str) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(all_runs, [game, game])
    expected = all_runs(game)
    assert found[0] == found[1] == expected


@every_face
@every_game
@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_in_mid_game_goes_on_with_the_same_game(game: str, face: str, way: str) -> None:
    held: dict[str, Callable[[], Any]] = {
        "aec": lambda: MODULES[game].env(view="recall"),
        "parallel": lambda: MODULES[game].parallel_env(),
        "single": lambda: gymnasium.make(IDS[game], opponents="random"),
        "vector": lambda: gymnasium.make_vec(IDS[game], 5, opponents="random"),
        "batch": lambda: undertake.make_batch(game, num_envs=5, view="recall", num_threads=2),
    }
    env = held[face]()
    if face != "batch":
        env.reset(seed=4)
    RUNS[face](game, 4, env)
    twin = copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))  # noqa: S301 - made here
    before = RUNS[face](game, 8, twin)
    assert data_equivalence(RUNS[face](game, 8, env), before, exact=True)
    if face == "batch":
        assert all(np.array_equal(env.states[name], twin.states[name]) for name in env.states.dtype.names)
        assert not np.shares_memory(env.states, twin.states)


def test_a_game_is_known_by_its_name_alone() -> None:
    assert copy.deepcopy(get_game("no_thanks")) is get_game("no_thanks")
