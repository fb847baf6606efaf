"""No face tells a seat what it may not know.

Worlds that differ only in what the seat may not know are put in the place of the true one, in play, mid-trick too:
whatever the seat asks, the answers have to be the same.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from api.playing import MODULES, every_game, legal
from games.test_no_leak import CHANGES, hidden_changes
from undertake import six_nimmt_v0
from undertake.core import game as core
from undertake.core.batch import new_states, records

every_view = pytest.mark.parametrize("view", ["table", "recall"])
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "no_thanks": [{"num_players": 2}, {"num_players": 4}, {"num_players": 7, "after_take": "left"}],
    "six_nimmt": [{"num_players": 2}, {"num_players": 5, "limit": 20}, {"num_players": 3, "deck": "reduced"}],
}


def worlds(env: Any, agent: str, rng: random.Random) -> Iterator[tuple[str, Any]]:
    """State records that differ from the table's in what `agent` may not know, by what differs.

    Some are changed by hand in one thing; one is imagined anew from all that the agent's view holds.
    """
    state, seat = env._states.view(np.recarray)[0], env.possible_agents.index(agent)
    yield from hidden_changes(state, seat, env.view_name, rng)
    view = records(env.game.view_dtype).view(np.recarray)[0]
    imagined = new_states(env.game, env.options, 1).view(np.recarray)[0]
    core.see(state, seat, env.view_name == "recall", view)
    core.imagine(view, np.uint64(rng.getrandbits(64)), imagined)
    yield "all", imagined


def in_world(env: Any, world: Any) -> Any:
    """A copy of the environment in another world."""
    other = copy.copy(env)
    other._states = env._states.copy()
    other._states[0] = world
    return other


def asked(env: Any, agent: str) -> Any:
    """All that an agent can ask for itself."""
    seen = env.observe(agent)
    return seen["observation"].tobytes(), seen["action_mask"].tobytes(), env.view(agent)


def moments(env: Any, rng: random.Random, every: int) -> Iterator[None]:
    """Stop now and then in a game of random legal play, resignations included."""
    number = 0
    while env.agents:
        number += 1
        if number % every == 0:
            yield
        over = env.terminations[env.agent_selection]
        if not over and len(env.agents) > 2 and rng.random() < 0.01:
            env.unwrapped.resign(rng.choice(env.agents))
        else:
            env.step(None if over else rng.choice(legal(env.observe(env.agent_selection))))


@every_game
def test_aec_tells_nothing_that_is_hidden(game: str) -> None:
    rng = random.Random(2)
    made = set()
    for view in ("table", "recall"):
        for seed, options in enumerate(OPTIONS[game]):
            env = MODULES[game].env(view=view, **options)
            env.reset(seed=seed)
            for _ in moments(env, rng, every=6):
                for agent in env.possible_agents:
                    answers = asked(env.unwrapped, agent)
                    for what, world in worlds(env.unwrapped, agent, rng):
                        made.add(what)
                        assert asked(in_world(env.unwrapped, world), agent) == answers, what
    assert made == {*CHANGES[game], "all"}


@every_view
@every_game
def test_a_decision_tells_its_seat_nothing_that_stays_hidden(game: str, view: str) -> None:
    """Rewards and infos of a seat after a move of its own that turns nothing up."""
    rng = random.Random(3)
    compared = 0
    for seed, options in enumerate(OPTIONS[game]):
        for reward in ("rank", "score"):
            env = MODULES[game].env(view=view, reward=reward, **options)
            env.reset(seed=seed)
            for _ in moments(env, rng, every=4):
                agent = env.agent_selection
                action = None if env.terminations[agent] else quiet_action(game, env.unwrapped, agent)
                if action is None:
                    continue
                true = copy.deepcopy(env.unwrapped)
                true.step(action)
                for what, world in worlds(env.unwrapped, agent, rng):
                    other = copy.deepcopy(env.unwrapped)
                    other._states[0] = world
                    other.step(action)
                    assert asked(other, agent) == asked(true, agent), what
                    assert (other.rewards[agent], other.infos[agent]) == (true.rewards[agent], true.infos[agent]), what
                    assert other._cumulative_rewards[agent] == true._cumulative_rewards[agent], what
                    compared += 1
    assert compared > 100


def quiet_action(game: str, env: Any, agent: str) -> int | None:
    """An action of the agent that shows nothing hidden: a pass; a card while others are still to choose."""
    mask = env.observe(agent)["action_mask"]
    if game == "no_thanks":
        return 0 if mask[0] else None
    last = max(env.agents, key=env.possible_agents.index)
    return None if agent == last or env.table()["phase"] == "row" else int(np.flatnonzero(mask)[0])


@every_game
def test_parallel_tells_nothing_that_is_hidden(game: str) -> None:
    rng = random.Random(4)
    for view in ("table", "recall"):
        for seed, options in enumerate(OPTIONS[game]):
            env = MODULES[game].parallel_env(view=view, **options)
            observations, _ = env.reset(seed=seed)
            number = 0
            while env.agents:
                number += 1
                for agent in env.agents if number % 5 == 0 else []:
                    answers = asked(env, agent)
                    assert tuple(array.tobytes() for array in observations[agent].values()) == answers[:2]
                    for what, world in worlds(env, agent, rng):
                        assert asked(in_world(env, world), agent) == answers, what
                observations, *_ = env.step({agent: rng.choice(legal(observations[agent])) for agent in env.agents})


def test_the_history_and_others_infos_do_not_tell_a_chosen_card() -> None:
    """Whatever the seats before have chosen, those after them and the public see the same."""
    told = []
    for choices in ((0, 0), (4, 7)):
        env = six_nimmt_v0.env(num_players=3, view="recall", reward="score")
        env.reset(seed=3)
        for choice in choices:
            env.step(legal(env.observe(env.agent_selection))[choice])
        told.append((env.unwrapped.history(), env.infos, env.rewards, asked(env.unwrapped, "player_2")))
    assert told[0] == told[1]
