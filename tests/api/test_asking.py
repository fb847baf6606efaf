"""What can be asked of an environment at any time, and copies of it."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from api.playing import (
    MODULES,
    PAIR,
    PAIR_DEAL,
    PASS,
    TAKE,
    THREE,
    THREE_DEAL,
    THREE_MOVES,
    WAIT,
    every_game,
    legal,
    play_moves,
    play_on,
)
from undertake import no_thanks_v0, six_nimmt_v0
from undertake.core.game import get_game


@every_game
def test_any_agent_is_observed_at_any_time(game: str) -> None:
    env = MODULES[game].env(view="recall")
    env.reset(seed=2)
    rng = np.random.default_rng(0)
    space = env.observation_space("player_0")
    while env.agents:
        for agent in env.possible_agents:
            first, second = env.observe(agent), env.observe(agent)
            assert space.contains(first)
            assert not np.shares_memory(first["observation"], second["observation"])
            assert not np.shares_memory(first["action_mask"], second["action_mask"])
            if agent != env.agent_selection or env.terminations[agent]:
                assert legal(first) == []
            else:
                assert legal(first)
                assert WAIT[game] not in legal(first)
            assert env.unwrapped.view(agent)["turn"] == env.unwrapped.table()["turn"]
        assert env.state_space.contains(env.state())
        flags = [*env.terminations.values(), *env.truncations.values()]
        assert all(type(flag) is bool for flag in flags)
        assert all(type(value) is float for value in env._cumulative_rewards.values())
        assert {agent: list(info) for agent, info in env.infos.items()} == {agent: ["score"] for agent in env.agents}
        assert all(type(info["score"]) is float for info in env.infos.values())
        dead = env.terminations[env.agent_selection]
        env.step(None if dead else int(rng.choice(legal(env.observe(env.agent_selection)))))
    with pytest.raises(ValueError, match="agent is 'player_5'; allowed are 'player_0'"):
        env.observe("player_5")


@every_game
def test_an_agent_is_one_of_the_table(game: str) -> None:
    for env in (MODULES[game].env(), MODULES[game].parallel_env()):
        env.reset(seed=1)
        for ask in (env.observe, env.unwrapped.view, env.unwrapped.default_action, env.unwrapped.resign):
            with pytest.raises(ValueError, match=r"^agent is 'player_12'; allowed are 'player_0', "):
                ask("player_12")


@every_game
def test_default_actions(game: str) -> None:
    env, parallel = MODULES[game].env(), MODULES[game].parallel_env()
    env.reset(seed=1, options={"first_player": 0})
    parallel.reset(seed=1, options={"first_player": 0})
    expected = {
        "no_thanks": PASS,
        "six_nimmt": min(env.unwrapped.table()["hands"]["player_0"]) - 1 if game == "six_nimmt" else 0,
    }
    assert env.unwrapped.default_action("player_0") == parallel.default_action("player_0") == expected[game]
    env.step(expected[game])
    with pytest.raises(ValueError, match="player_0 has nothing to decide"):
        env.unwrapped.default_action("player_0")
    if game == "no_thanks":
        assert parallel.default_action("player_1") == WAIT[game]
        broke = no_thanks_v0.env(chips=0)
        broke.reset(seed=0)
        assert broke.unwrapped.default_action(broke.agent_selection) == TAKE


def test_the_default_row_is_the_cheapest() -> None:
    # Rows 30 (3 bulls), 11 (5), 12 (1), 13 (1) and the card 1 below all: rows 2 and 3 tie, the upper one is taken.
    deck = [1, 50, 30, 11, 12, 13]
    env = six_nimmt_v0.env(num_players=2, hand_size=1)
    env.reset(options={"deck": [*deck, *(card for card in range(1, 105) if card not in deck)]})
    env.step(0)
    env.step(49)
    assert env.agent_selection == "player_0"
    assert env.unwrapped.default_action("player_0") == 104 + 2


@every_game
@pytest.mark.parametrize("way", ["deepcopy", "pickle"])
def test_a_copy_goes_on_with_the_same_game(game: str, way: str) -> None:
    def duplicate(env: Any) -> Any:
        return copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))  # noqa: S301

    env, parallel = MODULES[game].env(reward="score"), MODULES[game].parallel_env(reward="score")
    env.reset(seed=9)
    play_on(env, np.random.default_rng(0), 30)
    other = duplicate(env)
    before = other.unwrapped.table()
    play_on(env, np.random.default_rng(5))
    assert other.unwrapped.table() == before
    play_on(other, np.random.default_rng(5))
    assert other.unwrapped.history() == env.unwrapped.history()
    assert other.rewards == env.rewards
    assert other._cumulative_rewards == env._cumulative_rewards
    env.reset()
    other.reset()
    assert other.unwrapped.table() == env.unwrapped.table()

    parallel.reset(seed=9)
    twin = duplicate(parallel)
    for each in (parallel, twin):
        rng = np.random.default_rng(5)
        while each.agents:
            each.step({agent: int(rng.choice(legal(each.observe(agent)))) for agent in each.agents})
    assert twin.history() == parallel.history()


def test_the_history_of_no_thanks() -> None:
    env = no_thanks_v0.env(**THREE)
    env.reset(options=THREE_DEAL)
    told = env.unwrapped.history()
    assert told == [{"event": "deal", "first": "player_0"}, {"event": "turn_up", "card": 5}]
    told[1]["card"] = 99
    play_moves(env, THREE_MOVES[:3])
    assert env.unwrapped.history() == [
        {"event": "deal", "first": "player_0"},
        {"event": "turn_up", "card": 5},
        {"event": "take", "agent": "player_0", "card": 5, "pot": 0, "price": 5},
        {"event": "turn_up", "card": 3},
        {"event": "pass", "agent": "player_0", "card": 3, "pot": 0, "price": 3},
        {"event": "take", "agent": "player_1", "card": 3, "pot": 1, "price": 2},
        {"event": "turn_up", "card": 6},
    ]


def test_the_history_of_six_nimmt_keeps_the_secret() -> None:
    env = six_nimmt_v0.env(**PAIR)
    env.reset(options=PAIR_DEAL)
    deal = {"event": "deal", "hand": 0, "rows": [[3]]}
    env.step(4)
    assert env.unwrapped.history() == [deal]
    env.step(0)
    show = {"event": "show", "trick": 0, "cards": {"player_0": 5, "player_1": 1}}
    assert env.unwrapped.history() == [deal, show]
    env.step(104)
    assert env.unwrapped.history()[2:] == [
        {"event": "choose_row", "agent": "player_1", "row": 0},
        {"event": "place", "agent": "player_1", "card": 1, "row": 0, "bulls": 1},
        {"event": "place", "agent": "player_0", "card": 5, "row": 0, "bulls": 0},
    ]


@every_game
def test_the_state_tells_hidden_things_apart(game: str) -> None:
    cards = list(get_game(game).options().cards())
    vectors = []
    for swap in ((30, 31), (-1, -2), (5, 25)):  # two cards each that nobody has seen change places
        deck = cards.copy()
        deck[swap[0]], deck[swap[1]] = deck[swap[1]], deck[swap[0]]
        env = MODULES[game].env(num_players=3)
        env.reset(options={"deck": deck, "first_player": 0})
        vectors.append(env.state())
    hands = {"no_thanks": 1, "six_nimmt": 2}[game]  # the removed cards lie in no order, nor do the rest of the 104
    assert len({vector.tobytes() for vector in vectors}) >= hands
    assert vectors[0].tobytes() != vectors[2].tobytes()
