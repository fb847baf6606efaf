"""The wrappers that put the action mask elsewhere change that and nothing else."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from api.playing import MODULES, PAIR, PAIR_DEAL, every_game
from undertake import make_policy
from undertake.api.wrappers import ActionMaskInInfo, FlattenMask

WRAPPERS = [ActionMaskInInfo, FlattenMask]
every_wrapper = pytest.mark.parametrize("wrapper", WRAPPERS)
OPTIONS: dict[str, dict[str, Any]] = {"no_thanks": {}, "six_nimmt": {"length": "hand"}}


def mask_of(wrapper: Any, observation: Any, info: dict[str, Any]) -> Any:
    """The mask where that wrapper puts it."""
    if isinstance(wrapper, ActionMaskInInfo):
        return info["action_mask"]
    return wrapper.split(observation)[1]


@every_game
@every_wrapper
def test_a_game_is_the_same_with_the_mask_elsewhere(wrapper: Any, game: str) -> None:
    plain = MODULES[game].parallel_env(**OPTIONS[game])
    wrapped = wrapper(MODULES[game].parallel_env(**OPTIONS[game]))
    expected, infos = plain.reset(seed=3)
    seen, seen_infos = wrapped.reset(seed=3)
    rng = np.random.default_rng(0)
    steps = 0
    while plain.agents:
        assert wrapped.agents == plain.agents == list(seen)
        actions = {}
        for agent, observation in expected.items():
            assert wrapped.observation_space(agent).contains(seen[agent])
            features = seen[agent][: observation["observation"].size]
            np.testing.assert_array_equal(features, observation["observation"])
            np.testing.assert_array_equal(mask_of(wrapped, seen[agent], seen_infos[agent]), observation["action_mask"])
            np.testing.assert_array_equal(wrapped.observe(agent), seen[agent])
            assert seen_infos[agent]["score"] == infos[agent]["score"]
            actions[agent] = int(rng.choice(np.flatnonzero(observation["action_mask"])))
        expected, *outcome, infos = plain.step(actions)
        seen, *seen_outcome, seen_infos = wrapped.step(actions)
        assert seen_outcome == outcome
        steps += 1
    assert steps >= 10
    assert all(seen_outcome[1].values())


def test_shapes_by_hand() -> None:
    # Two own cards of five, one row: N = 104 cards, 4 rows and wait; D as the page of six_nimmt_v0 tells, table view.
    env = MODULES["six_nimmt"].parallel_env(**PAIR)
    in_info, flat = ActionMaskInInfo(env), FlattenMask(env)
    assert in_info.observation_space("player_0").shape == (445,)
    assert flat.observation_space("player_0").shape == (445 + 109,)
    observations, infos = in_info.reset(options=PAIR_DEAL)
    assert observations["player_0"].shape == (445,)
    assert infos["player_0"]["action_mask"].dtype == np.int8
    assert np.flatnonzero(infos["player_0"]["action_mask"]).tolist() == [1, 4]  # the cards 2 and 5
    observations, infos = flat.reset(options=PAIR_DEAL)
    assert observations["player_0"].dtype == np.float32
    assert np.flatnonzero(observations["player_0"][445:]).tolist() == [1, 4]
    assert "action_mask" not in infos["player_0"]
    both = np.stack(list(observations.values()))
    features, mask = flat.split(both)
    assert features.shape == (2, 445)
    assert mask.shape == (2, 109)
    assert mask.dtype == np.bool_


@every_game
@every_wrapper
def test_pettingzoos_own_tests(wrapper: Any, game: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The old environment creation API", DeprecationWarning)
        parallel_api_test(wrapper(MODULES[game].parallel_env(**OPTIONS[game])), 200)
        parallel_seed_test(lambda: wrapper(MODULES[game].parallel_env(**OPTIONS[game])), 50)


@every_wrapper
def test_resigning_policies_and_copies_work_through_a_wrapper(wrapper: Any) -> None:
    env = wrapper(MODULES["no_thanks"].parallel_env(num_players=3))
    env.reset(seed=1)
    observations, rewards, terminations, _, infos = env.resign("player_1")
    assert observations["player_0"].ndim == 1
    assert rewards["player_1"] == -1
    assert terminations == {"player_0": False, "player_1": True, "player_2": False}
    assert ("action_mask" in infos["player_0"]) == (wrapper is ActionMaskInInfo)
    policy = make_policy("no_thanks/tuned")
    for _ in range(5):
        twins = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]  # noqa: S301
        actions = {agent: policy.action(env, agent) for agent in env.agents}
        expected = env.step(actions)[0]
        for twin in twins:
            seen = twin.step(actions)[0]
            assert list(seen) == list(expected)
            for agent, observation in expected.items():
                np.testing.assert_array_equal(seen[agent], observation)


@every_wrapper
def test_what_is_no_parallel_environment_is_refused(wrapper: Any) -> None:
    with pytest.raises(TypeError, match=r"a parallel_env\(\) of this package is needed"):
        wrapper(MODULES["no_thanks"].env())
