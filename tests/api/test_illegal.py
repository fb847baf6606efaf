"""Illegal actions and those that are none, in both faces and every mode."""

from typing import Any

import numpy as np
import pytest

from api.playing import MODULES, PASS, WAIT, every_game, legal, play_on, waiting
from undertake import no_thanks_v0
from undertake.core.game import REWARDS

LIMITS = {
    # four players: 24 cards of at most 12 + ... + 35 = 564; at best 44 chips and no card
    "no_thanks": {"rank": -1, "win": -0.25, "score": -564, "margin": -44 - 564},
    # four players: 65 bulls of finished hands and all 171 of the last one; at best none
    "six_nimmt": {"rank": -1, "win": -0.25, "score": -65 - 171, "margin": -65 - 171},
}


@every_game
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("action", ["wait", -1, 10**30])
def test_an_illegal_action_ends_the_game_and_costs_the_offender_alone(game: str, reward: str, action: Any) -> None:
    action = WAIT[game] if action == "wait" else action
    env = MODULES[game].env(reward=reward)
    env.reset(seed=4)
    play_on(env, np.random.default_rng(0), 5)
    offender = env.agent_selection
    env.step(action)
    expected = {agent: LIMITS[game][reward] if agent == offender else 0 for agent in env.agents}
    assert env.rewards == expected
    assert env.terminations == dict.fromkeys(env.agents, True)
    assert env.unwrapped.table()["turn"] is None
    assert env.unwrapped.history()[-1] == {"event": "illegal", "agent": offender}
    seen = {}
    for agent in env.agent_iter():
        _, seen[agent], termination, _, _ = env.last()
        assert termination is True
        env.step(None)
    assert seen == expected
    env.reset()
    play_on(env, np.random.default_rng(0))
    assert all(env.terminations.values())


@every_game
def test_an_illegal_action_raises_and_harms_nothing(game: str) -> None:
    for env in (MODULES[game].env(illegal="raise"), MODULES[game].raw_env()):
        env.reset(seed=4)
        play_on(env, np.random.default_rng(0), 7)
        before, history, agent = env.unwrapped.table(), env.unwrapped.history(), env.agent_selection
        for action in (WAIT[game], -1, 10**30):
            with pytest.raises(ValueError, match=rf"^{agent}: action {action} .*is illegal; legal are"):
                env.step(action)
        assert env.unwrapped.table() == before
        assert env.unwrapped.history() == history
        play_on(env, np.random.default_rng(0))
        assert all(env.terminations.values())


def test_a_pass_without_a_chip_is_illegal() -> None:
    env = no_thanks_v0.env(chips=0, illegal="raise")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"^player_\d: action 0 \(pass\) is illegal; legal are 1 \(take\)$"):
        env.step(PASS)


@every_game
def test_an_illegal_action_replaced_at_random_is_legal_and_uniform(game: str) -> None:
    env = MODULES[game].env(illegal="random")
    env.reset(seed=4)
    rng = np.random.default_rng(1)
    while not env.terminations[env.agent_selection]:
        agent, before = env.agent_selection, env.unwrapped.table()
        env.step(WAIT[game] if rng.random() < 0.7 else legal(env.observe(agent))[0])
        assert env.unwrapped.table() != before
    if game == "no_thanks":
        takes = 0
        for seed in range(200):
            env.reset(seed=seed)
            env.step(WAIT[game])
            takes += env.unwrapped.history()[2]["event"] == "take"
        assert 70 < takes < 130  # 100 with a standard deviation of 7


@every_game
@pytest.mark.parametrize("action", [None, 1.0, "take", [0]])
def test_an_action_that_is_no_whole_number_is_a_type_error(game: str, action: Any) -> None:
    env, parallel = MODULES[game].env(), MODULES[game].parallel_env()
    env.reset(seed=1)
    parallel.reset(seed=1)
    before = env.unwrapped.table()
    with pytest.raises(TypeError, match=r"the action of player_. is .* a whole number from 0 to"):
        env.step(action)
    with pytest.raises(TypeError, match=r"the action of player_2 is .* a whole number from 0 to"):
        parallel.step({**waiting(parallel, game), "player_2": action})
    assert env.unwrapped.table() == parallel.table() == before


@every_game
def test_illegal_actions_in_parallel(game: str) -> None:
    decider = {"no_thanks": {"player_2"}, "six_nimmt": {"player_0", "player_1", "player_2", "player_3"}}[game]
    for offender in ("player_1", "player_2"):
        wrong = WAIT[game] if offender in decider else 1
        raising = MODULES[game].parallel_env(illegal="raise")
        raising.reset(seed=1, options={"first_player": 2})
        before = raising.table()
        with pytest.raises(ValueError, match=rf"^{offender}: action {wrong} "):
            raising.step({**waiting(raising, game), offender: wrong})
        assert raising.table() == before
        raising.step(waiting(raising, game))

        ending = MODULES[game].parallel_env()
        ending.reset(seed=1, options={"first_player": 2})
        observations, rewards, terminations, _, infos = ending.step({**waiting(ending, game), offender: wrong})
        assert rewards == {agent: -1 if agent == offender else 0 for agent in ending.possible_agents}
        assert terminations == dict.fromkeys(ending.possible_agents, True)
        assert ending.agents == []
        assert set(observations) == set(infos) == set(ending.possible_agents)
        assert ending.step({}) == ({}, {}, {}, {}, {})

        replacing = MODULES[game].parallel_env(illegal="random")
        replacing.reset(seed=1, options={"first_player": 2})
        replacing.step({**waiting(replacing, game), offender: wrong})
        assert replacing.agents == replacing.possible_agents
        assert replacing.table() != before


@every_game
def test_every_offender_of_a_parallel_step_pays(game: str) -> None:
    env = MODULES[game].parallel_env(reward="win")
    env.reset(seed=1, options={"first_player": 2})
    _, rewards, *_ = env.step({**waiting(env, game), "player_0": -1, "player_3": 500})
    assert rewards == {"player_0": -0.25, "player_1": 0, "player_2": 0, "player_3": -0.25}


@every_game
def test_parallel_actions_have_to_be_complete(game: str) -> None:
    env = MODULES[game].parallel_env()
    env.reset(seed=1)
    actions = waiting(env, game)
    with pytest.raises(ValueError, match=r"^no action is given for player_1, player_3;"):
        env.step({agent: actions[agent] for agent in ("player_0", "player_2")})
    with pytest.raises(TypeError, match=r"unknown agent 'player_9'"):
        env.step({**actions, "player_9": 0})
    with pytest.raises(TypeError, match="a dict of each agent's action is needed"):
        env.step([0, 0, 0, 0])
