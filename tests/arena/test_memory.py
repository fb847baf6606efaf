"""Policies with a memory are shown what their seat saw at its own decisions: in matches, in AEC and in Parallel."""

from __future__ import annotations

import collections
import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from undertake import exact, no_thanks_v0, six_nimmt_v0
from undertake.arena import Policy, PolicyError, deals, make_policy, make_setting, play, play_block
from undertake.core.batch import new_states
from undertake.core.game import get_game
from undertake.core.memory import Memory

MODULES = {"no_thanks": no_thanks_v0, "six_nimmt": six_nimmt_v0}
REMEMBERED = {"no_thanks": Memory(("pot", "price"), 3), "six_nimmt": Memory(("tricks_left", "unseen"), 4)}
OPTIONS: dict[str, dict[str, Any]] = {"no_thanks": {}, "six_nimmt": {"length": "hand"}}
GAMES = pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])


class Witness:
    """Plays by everything it is shown, and keeps what it was shown last."""

    batched = True
    view = "table"

    def __init__(self, game: str, memory: Memory | None = None) -> None:
        self.game, self.memory = game, memory or REMEMBERED[game]
        self.shown = np.zeros((0, 0), np.float32)

    def act(self, observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
        self.shown = observation
        word = (np.rint(observation * 255).astype(np.int64) * np.arange(1, observation.shape[1] + 1)).sum(axis=1)
        return np.array([np.flatnonzero(m)[w % m.sum()] for m, w in zip(action_mask, word, strict=True)])


class Reference:
    """What each agent saw at its own decisions, from the environment's observations, and what is to be shown of it."""

    def __init__(self, game: str, memory: Memory) -> None:
        layout = get_game(game).layouts["table"]
        self.memory, self.size = memory, layout.size
        self.columns = [i for name in memory.slices for i in range(layout.size)[layout.slices[name]]]
        self.seen: dict[str, list[npt.NDArray[np.float32]]] = collections.defaultdict(list)

    def expected(self, env: Any, agent: str) -> npt.NDArray[np.float32]:
        now = env.observe(agent)["observation"]
        past = [each[self.columns] for each in reversed(self.seen[agent])][: self.memory.decisions]
        past += [np.zeros(len(self.columns), np.float32)] * (self.memory.decisions - len(past))
        self.seen[agent].append(now)
        return np.concatenate([now, *past])


def by_hand(game: str, seats: Sequence[tuple[Policy, Witness | None]], deal: dict[str, Any]) -> list[float]:
    """One game in AEC; the final scores by seat."""
    env = MODULES[game].env(num_players=len(seats), view="table", **OPTIONS[game])
    env.reset(options=deal)
    reference = Reference(game, REMEMBERED[game])
    scores = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        _, _, termination, truncation, info = env.last()
        scores[agent] = info["score"]
        if termination or truncation:
            env.step(None)
            continue
        policy, witness = seats[env.possible_agents.index(agent)]
        expected = reference.expected(env, agent)
        action = policy.action(env, agent)
        if witness:
            np.testing.assert_array_equal(witness.shown, expected[None])
        env.step(action)
    assert max(map(len, reference.seen.values())) > REMEMBERED[game].decisions, "more than what is remembered"
    return list(scores.values())


@GAMES
def test_a_match_is_what_a_loop_over_aec_plays(game: str) -> None:
    """A remembering policy in two of three seats, in every rotation of three deals."""
    witness = Witness(game)
    policy, bot = make_policy(witness, game), make_policy("tuned" if game == "no_thanks" else "closest_gap", game)
    setting = make_setting(game, 3, deals=3, view="table")
    found = play_block(setting, [policy, bot, policy], 0)
    rules, options = setting.rules
    states = new_states(rules, options, 9)
    deals.deal_tables(states, 3, np.zeros(27, np.uint64), deals.root_key(game), 0)
    lineup: list[tuple[Policy, Witness | None]] = [(policy, witness), (bot, None), (policy, witness)]
    for b, state in enumerate(states):
        deal = {"deck": state["deck"][: len(options.cards())].tolist(), "first_player": int(state["turn"])}
        scores = by_hand(game, [lineup[(seat - b % 3) % 3] for seat in range(3)], deal)
        np.testing.assert_array_equal(found[b // 3, b % 3], [scores[(k + b % 3) % 3] for k in range(3)])


def test_in_parallel_asking_again_is_no_second_decision_and_a_reset_forgets() -> None:
    witness = Witness("six_nimmt")
    policy = make_policy(witness)
    env = six_nimmt_v0.parallel_env(num_players=3, view="table", length="hand")
    asked = 0
    for seed in (1, 2):
        env.reset(seed=seed)
        reference = Reference("six_nimmt", witness.memory)
        while env.agents:
            actions = {}
            for agent in env.agents:
                witness.shown = np.zeros((0, 0), np.float32)
                actions[agent] = policy.action(env, agent)
                if witness.shown.size:
                    expected = reference.expected(env, agent)
                    for _ in range(2):
                        np.testing.assert_array_equal(witness.shown, expected[None])
                        assert policy.action(env, agent) == actions[agent]
                    asked += 1
            env.step(actions)
    assert asked >= 2 * 3 * 10


def test_copies_of_an_environment_remember_on_their_own() -> None:
    witness = Witness("no_thanks")
    policy = make_policy(witness)
    env = no_thanks_v0.env(num_players=2, view="table")
    env.reset(seed=3)
    for _ in range(6):
        env.step(policy.action(env, env.agent_selection))
    other = copy.deepcopy(env)
    agent = env.agent_selection
    policy.action(env, agent)
    shown = witness.shown.copy()
    size = get_game("no_thanks").layouts["table"].size
    assert shown[0, size:].any()
    env.reset(seed=4)
    policy.action(env, env.agent_selection)
    assert not witness.shown[0, size:].any()
    policy.action(other, agent)
    np.testing.assert_array_equal(witness.shown, shown)


def test_what_is_hidden_changes_nothing_that_is_shown() -> None:
    """Decks that agree in the first nine cards turned up: until then all inputs are the same."""
    game, left = "no_thanks", get_game("no_thanks").layouts["table"].slices["cards_left"].start
    deck = np.random.default_rng(2).permutation(np.arange(3, 36)).tolist()
    shown = []
    for each in (deck, deck[:9] + deck[:8:-1]):
        witness = Witness(game)
        policy = make_policy(witness)
        env = no_thanks_v0.env(num_players=3, view="table")
        env.reset(options={"deck": each, "first_player": 1})
        told = []
        while True:
            action = policy.action(env, env.agent_selection)
            if round(float(witness.shown[0, left]) * 33) < 24 - 9:
                break
            told.append(witness.shown.copy())
            env.step(action)
        shown.append(told)
    assert len(shown[0]) > 15
    np.testing.assert_array_equal(shown[0], shown[1])


def test_where_nothing_is_kept_or_nothing_can_be_is_one_line() -> None:
    witness = Witness("no_thanks")
    with pytest.raises(PolicyError, match="remembers its decisions, which nobody keeps for it here"):
        gymnasium.make("undertake/NoThanks-v0", opponents=witness, view="table").reset(seed=1)
    with pytest.raises(PolicyError, match=r"a remembered slice is 'prize'; allowed .* did you mean 'price'"):
        play("no_thanks", [Witness("no_thanks", Memory(("prize",), 1)), "tuned"], deals=2)
    with pytest.raises(PolicyError, match=r"its memory is 3; an undertake\.core\.memory\.Memory"):
        make_policy(Witness("no_thanks", 3))  # type: ignore[arg-type]
    witness.sees = "view"  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="of a policy that sees the observation"):
        make_policy(witness)
    with pytest.raises(PolicyError, match="which the positions of a tree do not tell"):
        exact.best_response("no_thanks", Witness("no_thanks"), num_players=2, lowest=3, highest=6, removed=1, chips=2)
