"""Leaving the game, in every phase of both games and in both PettingZoo faces."""

from typing import Any

import numpy as np
import pytest

from api.playing import MODULES, PASS, TAKE, WAIT, every_game
from undertake import no_thanks_v0, six_nimmt_v0
from undertake.core.game import REWARDS


def step_dead(env: Any, agent: str) -> tuple[float, float]:
    """Step an agent that is out; returns its last reward and score."""
    assert env.agent_selection == agent
    _, reward, termination, truncation, info = env.last()
    assert (termination, truncation) == (True, False)
    with pytest.raises(ValueError, match="the only valid action is None"):
        env.step(0)
    env.step(None)
    return reward, info["score"]


def test_leaving_in_and_out_of_turn() -> None:
    env = no_thanks_v0.env()
    env.reset(seed=1, options={"first_player": 0})
    env.step(PASS)
    before = env.unwrapped.table()
    env.unwrapped.resign("player_3")
    assert env.terminations == {"player_0": False, "player_1": False, "player_2": False, "player_3": True}
    assert env.rewards == {"player_0": 0, "player_1": 0, "player_2": 0, "player_3": -1}
    assert step_dead(env, "player_3") == (-1, -11)
    assert env.agents == ["player_0", "player_1", "player_2"]
    assert env.unwrapped.table() == before
    # In turn: the next player acts on the same card with the chip on it.
    assert env.agent_selection == "player_1"
    env.unwrapped.resign("player_1")
    assert step_dead(env, "player_1")[0] == pytest.approx((5 - 2 * 3) / 3)
    assert env.unwrapped.table() == {**before, "turn": "player_2"}
    env.step(PASS)
    assert env.agent_selection == "player_0"  # over the empty chair
    assert env.unwrapped.history()[3:] == [
        {"event": "resign", "agent": "player_3"},
        {"event": "resign", "agent": "player_1"},
        {"event": "pass", "agent": "player_2", "card": before["card"], "pot": 1, "price": before["card"] - 1},
    ]
    env.unwrapped.resign("player_2")
    assert env.terminations == {"player_0": True, "player_2": True}
    assert env.rewards == pytest.approx({"player_0": 1, "player_2": 1 / 3})
    assert step_dead(env, "player_0")[0] == 1
    assert step_dead(env, "player_2")[0] == pytest.approx(1 / 3)
    assert env.agents == []


def test_leaving_in_a_loop_over_the_agents() -> None:
    env = no_thanks_v0.env(num_players=3)
    env.reset(seed=1, options={"first_player": 0})
    order = []
    for agent in env.agent_iter():
        order.append(agent)
        _, _, termination, _, _ = env.last()
        if termination:
            env.step(None)
        elif agent == "player_1":
            env.unwrapped.resign(agent)
        else:
            env.step(env.unwrapped.default_action(agent))
    assert order[:5] == ["player_0", "player_1", "player_1", "player_2", "player_0"]
    assert "player_1" not in order[3:]


def test_two_leave_at_once() -> None:
    env = no_thanks_v0.env(num_players=5)
    env.reset(seed=1, options={"first_player": 2})
    env.unwrapped.resign("player_2")
    env.unwrapped.resign("player_1")
    assert env.terminations["player_1"] is env.terminations["player_2"] is True
    assert step_dead(env, "player_1")[0] == pytest.approx((6 - 2 * 4) / 4)
    assert step_dead(env, "player_2")[0] == -1
    assert env.agent_selection == "player_3"
    assert env.agents == ["player_0", "player_3", "player_4"]


@pytest.mark.parametrize(
    ("reward", "at_once", "at_the_end"),
    [
        # player_0 takes 5 with its two chips left and leaves at 3 points, the others holding two chips each. Then
        # player_1 takes 3 and 6 for nothing: 9 - 2 points; player_2 has none: -2.
        ("rank", -1, [0, 1]),
        ("win", -1 / 3, [-1 / 3, 2 / 3]),
        ("score", -3, [-7, 2]),
        ("margin", -2 - 3, [(3 - 2) / 2 - 7, (3 + 7) / 2 + 2]),
    ],
)
def test_what_a_leaver_is_paid_in_no_thanks(reward: str, at_once: float, at_the_end: list[float]) -> None:
    options: dict[str, Any] = {"num_players": 3, "lowest": 3, "highest": 6, "removed": 1, "chips": 2, "reward": reward}
    deal = {"deck": [5, 3, 6, 4], "first_player": 0}
    env = no_thanks_v0.env(**options)
    env.reset(options=deal)
    env.step(TAKE)
    env.unwrapped.resign("player_0")
    assert step_dead(env, "player_0") == pytest.approx((at_once, 3))
    env.step(TAKE)
    env.step(TAKE)
    assert list(env.rewards.values()) == pytest.approx(at_the_end)

    parallel = no_thanks_v0.parallel_env(**options)
    parallel.reset(options=deal)
    parallel.step({"player_0": TAKE, "player_1": 2, "player_2": 2})
    _, rewards, terminations, truncations, infos = parallel.resign("player_0")
    assert rewards == pytest.approx({"player_0": at_once, "player_1": 0, "player_2": 0})
    assert terminations == {"player_0": True, "player_1": False, "player_2": False}
    assert not any(truncations.values())
    assert infos == {"player_0": {"score": 3}, "player_1": {"score": -2}, "player_2": {"score": -2}}
    assert parallel.agents == ["player_1", "player_2"]
    parallel.step({"player_1": TAKE, "player_2": 2})
    _, rewards, terminations, _, _ = parallel.step({"player_0": 0, "player_1": TAKE, "player_2": 2})
    assert rewards == pytest.approx({"player_1": at_the_end[0], "player_2": at_the_end[1]})
    assert terminations == {"player_1": True, "player_2": True}


# The hands are 3 7, 1 9 and 2 8, the rows begin with 5 and 6, and 4 is not dealt.
TRIO: dict[str, Any] = {"num_players": 3, "length": "hand", "hand_size": 2, "num_rows": 2, "num_cards": 9}
TRIO_DEAL: dict[str, Any] = {"deck": [7, 3, 1, 9, 2, 8, 5, 6, 4]}


def play_cards(env: Any, *cards: int) -> None:
    for card in cards:
        env.step(card - 1)


def test_a_leaver_takes_the_hidden_card_back() -> None:
    env = six_nimmt_v0.env(**TRIO)
    env.reset(options=TRIO_DEAL)
    play_cards(env, 7)
    env.unwrapped.resign("player_0")
    assert env.unwrapped.table()["chosen"] == {"player_0": None, "player_1": None, "player_2": None}
    assert env.unwrapped.table()["hands"]["player_0"] == [3, 7]
    step_dead(env, "player_0")
    assert env.agent_selection == "player_1"
    play_cards(env, 9, 8)
    assert env.unwrapped.table()["rows"] == [[5], [6, 8, 9]]


def test_the_trick_does_not_wait_for_a_leaver() -> None:
    env = six_nimmt_v0.env(reward="score", row_choice="cheapest", **TRIO)
    env.reset(options=TRIO_DEAL)
    play_cards(env, 7, 1)
    env.unwrapped.resign("player_2")
    # 1 is below both rows and takes 6 (one bull; 5 has two), 7 goes behind 5.
    assert env.unwrapped.table()["rows"] == [[5, 7], [1]]
    assert env.rewards == {"player_0": 0, "player_1": -1, "player_2": 0}
    assert env.unwrapped.history()[1:] == [
        {"event": "resign", "agent": "player_2"},
        {"event": "show", "trick": 0, "cards": {"player_0": 7, "player_1": 1}},
        {"event": "place", "agent": "player_1", "card": 1, "row": 1, "bulls": 1},
        {"event": "place", "agent": "player_0", "card": 7, "row": 0, "bulls": 0},
    ]
    assert step_dead(env, "player_2") == (0, 0)
    assert env.agent_selection == "player_0"
    assert env.last()[1] == 0
    play_cards(env, 3)
    assert env.last()[1] == -1
    play_cards(env, 9)
    assert env.terminations == {"player_0": True, "player_1": True}


def test_the_chooser_of_a_row_leaves() -> None:
    env = six_nimmt_v0.env(reward="score", **TRIO)
    env.reset(options=TRIO_DEAL)
    play_cards(env, 7, 1, 2)
    assert env.agent_selection == "player_1"
    env.unwrapped.resign("player_1")
    step_dead(env, "player_1")
    # 2, too, is below both rows: now its owner chooses, and 7 follows.
    assert env.agent_selection == "player_2"
    assert env.unwrapped.table()["phase"] == "row"
    assert env.unwrapped.history()[2:] == [{"event": "resign", "agent": "player_1"}]
    env.step(104)
    assert env.rewards == {"player_0": 0, "player_2": -2}
    assert env.unwrapped.table()["rows"] == [[2], [6, 7]]
    assert env.unwrapped.history()[3:] == [
        {"event": "choose_row", "agent": "player_2", "row": 0},
        {"event": "place", "agent": "player_2", "card": 2, "row": 0, "bulls": 2},
        {"event": "place", "agent": "player_0", "card": 7, "row": 1, "bulls": 0},
    ]


def test_a_shown_card_is_withdrawn() -> None:
    env = six_nimmt_v0.parallel_env(**TRIO)
    env.reset(options=TRIO_DEAL)
    env.step({"player_0": 6, "player_1": 0, "player_2": 7})
    observations, _, _, _, _ = env.resign("player_2")
    assert {agent: np.flatnonzero(seen["action_mask"]).tolist() for agent, seen in observations.items()} == {
        "player_0": [108],
        "player_1": [104, 105],
        "player_2": [108],
    }
    env.step({"player_0": 108, "player_1": 104})
    assert env.table()["rows"] == [[1], [6, 7]]
    assert env.history()[2:] == [
        {"event": "resign", "agent": "player_2"},
        {"event": "choose_row", "agent": "player_1", "row": 0},
        {"event": "place", "agent": "player_1", "card": 1, "row": 0, "bulls": 2},
        {"event": "place", "agent": "player_0", "card": 7, "row": 1, "bulls": 0},
    ]


@every_game
def test_the_last_one_wins_at_once(game: str) -> None:
    parallel = MODULES[game].parallel_env(num_players=2, reward="win")
    parallel.reset(seed=1)
    observations, rewards, terminations, _, _ = parallel.resign("player_0")
    assert rewards == {"player_0": -0.5, "player_1": 0.5}
    assert terminations == {"player_0": True, "player_1": True}
    assert set(observations) == {"player_0", "player_1"}
    assert parallel.agents == []
    assert parallel.history()[-1] == {"event": "resign", "agent": "player_0"}
    env = MODULES[game].env(num_players=2, reward="win")
    env.reset(seed=1)
    env.step(env.unwrapped.default_action(env.agent_selection))
    env.unwrapped.resign("player_0")
    assert (step_dead(env, "player_0")[0], step_dead(env, "player_1")[0]) == (-0.5, 0.5)
    assert env.unwrapped.history()[-1] == {"event": "resign", "agent": "player_0"}


@every_game
def test_who_is_out_cannot_leave(game: str) -> None:
    env, parallel = MODULES[game].env(), MODULES[game].parallel_env()
    for each in (env.unwrapped, parallel):
        with pytest.raises(AssertionError, match="reset"):
            each.resign("player_0")
        each.reset(seed=1)
        each.resign("player_2")
        before, history = each.table(), each.history()
        with pytest.raises(ValueError, match="player_2 cannot resign: it has left already"):
            each.resign("player_2")
        assert each.table() == before
        assert each.history() == history
        with pytest.raises(ValueError, match="player_2 has nothing to decide"):
            each.default_action("player_2")
        each.resign("player_1")
        each.resign("player_0")
        with pytest.raises(ValueError, match="player_3 cannot resign: the game is over"):
            each.resign("player_3")
        each.reset()
        assert each.agents == each.possible_agents


@every_game
@pytest.mark.parametrize("reward", REWARDS)
def test_faces_agree_and_all_is_paid_with_leavers(game: str, reward: str) -> None:
    rng = np.random.default_rng(11)
    for seed in range(30):
        players = int(rng.integers(2, 8))
        options = {"num_players": players, "reward": reward}
        env, parallel = MODULES[game].env(**options), MODULES[game].parallel_env(**options)
        env.reset(seed=seed)
        observations, _ = parallel.reset(seed=seed)
        returns = {"aec": dict.fromkeys(env.agents, 0.0), "parallel": dict.fromkeys(env.agents, 0.0)}

        def collect(env: Any = env, returns: dict[str, dict[str, float]] = returns) -> None:
            """Step the dead; whoever is alive is looked at in its turn."""
            while env.agents and env.terminations[env.agent_selection]:
                returns["aec"][env.agent_selection] += env.last()[1]
                env.step(None)

        while parallel.agents:
            if rng.random() < 0.02:
                leaver = str(rng.choice(parallel.agents))
                env.unwrapped.resign(leaver)
                collect()
                observations, rewards, *_ = parallel.resign(leaver)
            else:
                actions = {
                    agent: int(rng.choice(np.flatnonzero(observations[agent]["action_mask"])))
                    for agent in parallel.agents
                }
                for agent, action in actions.items():
                    if action != WAIT[game]:
                        assert env.agent_selection == agent
                        returns["aec"][agent] += env.last()[1]
                        env.step(action)
                        collect()
                observations, rewards, *_ = parallel.step(actions)
            for agent, paid in rewards.items():
                returns["parallel"][agent] += paid
            assert parallel.table() == env.unwrapped.table()
        assert env.agents == []
        assert returns["aec"] == pytest.approx(returns["parallel"])
        assert parallel.history() == env.unwrapped.history()
        if reward in ("rank", "win"):
            assert sum(returns["aec"].values()) == pytest.approx(0)
        if reward == "score":  # leavers' scores do not change any more, so all have been paid theirs
            table = env.unwrapped.table()
            kinds = {"no_thanks": ["scores"], "six_nimmt": ["totals", "bulls"]}[game]
            assert returns["aec"] == {agent: -sum(table[kind][agent] for kind in kinds) for agent in returns["aec"]}
