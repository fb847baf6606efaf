"""Both games in OpenSpiel: its own conformance test, its own exact algorithms, and nothing told that is hidden."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import gambit, mcts, value_iteration
from open_spiel.python.observation import make_observation

import undertake.api.open_spiel
from pipelines import page
from undertake import exact, no_thanks_v0, six_nimmt_v0

NO_THANKS, SIX_NIMMT = "python_undertake_no_thanks", "python_undertake_six_nimmt"
TINY = {"players": 2, "num_cards": 6, "hand_size": 2, "num_rows": 1, "row_size": 2, "row_choice": "cheapest"}


def walk(state: Any) -> Iterator[Any]:
    """The state and all that can follow."""
    yield state
    if state.is_terminal():
        return
    if state.is_simultaneous_node():
        for mine in state.legal_actions(0):
            for other in state.legal_actions(1):
                child = state.clone()
                child.apply_actions([mine, other])
                yield from walk(child)
    else:
        for action in state.legal_actions():
            yield from walk(state.child(action))


@pytest.mark.parametrize(
    "name",
    [
        NO_THANKS,
        f"{NO_THANKS}(players=2,reward=margin,first_player=1,chips=5)",
        f"{NO_THANKS}(players=3,lowest=10,highest=16,removed=0,chips=0)",
        f"{NO_THANKS}(players=5,reward=win,view=recall)",
        f"{NO_THANKS}(players=7,after_take=left,reward=score,open_chips=True)",
        SIX_NIMMT,
        f"{SIX_NIMMT}(players=2,reward=margin,row_choice=cheapest,view=recall)",
        f"{SIX_NIMMT}(players=3,hand_size=3,num_rows=2,row_size=3,num_cards=12,reward=score)",
        f"{SIX_NIMMT}(players=10,deck=reduced,reward=win)",
    ],
)
def test_passes_openspiels_simulation_test(name: str) -> None:
    pyspiel.random_sim_test(pyspiel.load_game(name), num_sims=2, serialize=True, verbose=False)


@pytest.mark.parametrize(
    "name", [f"{NO_THANKS}(players=3,chance=sampled)", f"{SIX_NIMMT}(players=3,length=match,limit=10,chance=sampled)"]
)
def test_sampled_chance_passes_it_but_for_serializing(name: str) -> None:
    """OpenSpiel cannot save the random state of a game in Python."""
    pyspiel.random_sim_test(pyspiel.load_game(name), num_sims=2, serialize=False, verbose=False)


def test_turn_based_six_nimmt_passes_it() -> None:
    game = pyspiel.convert_to_turn_based(pyspiel.load_game(f"{SIX_NIMMT}(players=4)"))
    pyspiel.random_sim_test(game, num_sims=2, serialize=False, verbose=False)


# Exact play; the figures are those of two programs apart from this project.


@pytest.mark.parametrize(
    ("highest", "chips", "states", "value"), [(6, 2, 1_052, -0.6667), (8, 3, 53_382, -0.8264)], ids=["3-6", "3-8"]
)
def test_value_iteration_finds_the_value_of_small_no_thanks(
    highest: int, chips: int, states: int, value: float
) -> None:
    game = pyspiel.load_game(
        NO_THANKS,
        {"players": 2, "highest": highest, "removed": 1, "chips": chips, "first_player": 0, "reward": "margin"},
    )
    values = value_iteration.value_iteration(game, depth_limit=-1, threshold=1e-9, cyclic_game=True)
    root = game.new_initial_state()
    first = sum(chance * values[str(root.child(card))] for card, chance in root.chance_outcomes())
    assert first == pytest.approx(value, abs=5e-5)
    assert sum("The game is over" not in position for position in values) == states


def test_cfr_plus_solves_tiny_six_nimmt() -> None:
    game = pyspiel.convert_to_turn_based(pyspiel.load_game(SIX_NIMMT, {**TINY, "reward": "margin"}))
    tree = pyspiel.load_efg_game(gambit.export_gambit(game))
    assert pyspiel.nash_conv(tree, pyspiel.UniformRandomPolicy(tree)) == pytest.approx(1.444, abs=5e-4)
    solver = pyspiel.CFRPlusSolver(tree)
    found = []
    for _ in range(100):
        solver.evaluate_and_update_policy()
        found.append(pyspiel.nash_conv(tree, solver.average_policy()))
    assert found[9] < 0.1
    assert found[99] == pytest.approx(0.0015, abs=5e-5)


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("six_nimmt", {"num_cards": 6, "hand_size": 2, "num_rows": 2, "row_size": 2}),
        ("no_thanks", {"highest": 5, "removed": 1, "chips": 2, "first_player": 0}),
        ("no_thanks", {"highest": 5, "removed": 1, "chips": 1, "first_player": 0, "players": 3, "after_take": "left"}),
    ],
)
def test_openspiel_and_our_exact_values_agree(game: str, options: dict[str, Any]) -> None:
    """NashConv of uniform play: by OpenSpiel's tree search over histories, and by ours over positions."""
    theirs = {"players": 2, "reward": "margin", **options}
    ours = {key: value for key, value in theirs.items() if key not in ("players", "first_player")}
    loaded = pyspiel.load_game(f"python_undertake_{game}", theirs)
    sequential = loaded if game == "no_thanks" else pyspiel.convert_to_turn_based(loaded)
    tree = pyspiel.load_efg_game(gambit.export_gambit(sequential))
    response = exact.best_response(game, "random", **ours, num_players=theirs["players"])
    assert pyspiel.nash_conv(tree, pyspiel.UniformRandomPolicy(tree)) == pytest.approx(response.nash_conv)


def test_every_deal_of_tiny_six_nimmt_is_one_of_180_and_equally_likely() -> None:
    chances: list[float] = []

    def deal(state: Any, chance: float) -> None:
        if not state.is_chance_node():
            chances.append(chance)
            return
        for card, probability in state.chance_outcomes():
            deal(state.child(card), chance * probability)

    deal(pyspiel.load_game(SIX_NIMMT, TINY).new_initial_state(), 1.0)
    assert chances == pytest.approx([1 / 180] * 180)


# Information.


@pytest.mark.parametrize(
    ("parameters", "choices"), [(TINY, 60), ({**TINY, "num_rows": 2, "row_choice": "player"}, None)], ids=["one", "two"]
)
def test_information_states_of_six_nimmt_hold_what_the_player_has_seen_and_no_more(
    parameters: dict[str, Any], choices: int | None
) -> None:
    """What has been seen is put together here from the moves alone: one's own hand, the rows' first cards, and all
    that was played openly."""
    game, dealt = pyspiel.load_game(SIX_NIMMT, parameters), 4 + int(parameters["num_rows"])
    for player in (0, 1):
        strings, tensors = defaultdict(set), defaultdict(set)
        deciding = set()
        for state in walk(game.new_initial_state()):
            if state.is_chance_node():
                continue
            moves = [(move.player, move.action) for move in state.full_history()]
            cards = [action for _, action in moves[:dealt]]
            seen = (tuple(cards[2 * player : 2 * player + 2]), tuple(cards[4:dealt]), tuple(moves[dealt:]))
            strings[seen].add(state.information_state_string(player))
            tensors[seen].add(tuple(state.information_state_tensor(player)))
            if state.is_simultaneous_node() and len(state.legal_actions(player)) > 1:
                deciding.add(seen)
        for told in (strings, tensors):
            assert all(len(each) == 1 for each in told.values())
            assert len(set().union(*told.values())) == len(told)
        if choices:
            assert len(deciding) == choices


def test_information_states_of_no_thanks_are_the_public_history() -> None:
    game = pyspiel.load_game(NO_THANKS, {"players": 3, "highest": 5, "removed": 1, "chips": 1})
    states = [state for state in walk(game.new_initial_state()) if not state.is_chance_node()]
    for player in range(3):
        assert len({state.information_state_string(player) for state in states}) == len(states)
        assert len({tuple(state.information_state_tensor(player)) for state in states}) == len(states)


@pytest.mark.parametrize("view", ["table", "recall"])
def test_nothing_tells_of_cards_in_other_hands(view: str) -> None:
    """Three deals of the whole deck that differ in what players 1 to 3 hold."""
    told = []
    for shift in (0, 30, 50):
        state = pyspiel.load_game(SIX_NIMMT, {"view": view}).new_initial_state()
        others = [11 + shift + i for i in range(30)]
        for card in (
            [*range(1, 11), *others, 42, 43, 100, 104] if shift == 50 else [*range(1, 11), *others, 101, 102, 103, 104]
        ):
            state.apply_action(card - 1)
        told.append(
            (
                state.information_state_string(0),
                tuple(state.information_state_tensor(0)),
                state.observation_string(0),
                tuple(state.observation_tensor(0)),
            )
        )
    assert told[0] == told[1]
    assert told[0][0] != told[2][0]  # other rows: what lies open is told


# The same games as everywhere.


def test_plays_the_same_no_thanks_as_the_environment() -> None:
    rng = np.random.default_rng(3)
    state = pyspiel.load_game(NO_THANKS, {"players": 3, "view": "recall"}).new_initial_state()
    env = no_thanks_v0.env(num_players=3, view="recall", illegal="raise")
    deck = (rng.permutation(33) + 3).tolist()
    env.reset(options={"deck": deck, "first_player": 2})
    state.apply_action(2)
    for card in deck[:24]:
        state.apply_action(card - 3)
        while not state.is_terminal() and not state.is_chance_node():
            seen = env.last()[0]
            assert env.agent_selection == f"player_{state.current_player()}"
            assert state.observation_tensor() == seen["observation"].tolist()
            assert state.legal_actions_mask() == seen["action_mask"][:2].tolist()
            action = int(rng.choice(state.legal_actions()))
            state.apply_action(action)
            env.step(action)
    assert state.returns() == pytest.approx([env.rewards[agent] for agent in env.possible_agents])


def test_plays_the_same_six_nimmt_as_the_environment() -> None:
    rng = np.random.default_rng(4)
    state = pyspiel.load_game(SIX_NIMMT, {"players": 3}).new_initial_state()
    env = six_nimmt_v0.parallel_env(num_players=3, length="hand", illegal="raise")
    deck = (rng.permutation(104) + 1).tolist()
    dealt = [*sorted(deck[:10]), *sorted(deck[10:20]), *sorted(deck[20:30]), *deck[30:34]]
    observations, _ = env.reset(options={"deck": deck})
    rewards: dict[str, float] = {}
    for card in dealt:
        state.apply_action(card - 1)
    rows = 0
    while not state.is_terminal():
        actions = dict.fromkeys(env.agents, 108)
        for player in range(3):
            seen = observations[f"player_{player}"]
            assert state.observation_tensor(player) == seen["observation"].tolist()
            if state.legal_actions(player):
                assert state.legal_actions(player) == np.flatnonzero(seen["action_mask"]).tolist()
                actions[f"player_{player}"] = int(rng.choice(state.legal_actions(player)))
        if state.is_simultaneous_node():
            state.apply_actions([actions[f"player_{player}"] for player in range(3)])
        else:
            rows += 1
            state.apply_action(actions[f"player_{state.current_player()}"])
        observations, rewards, *_ = env.step(actions)
    assert rows
    assert state.returns() == pytest.approx([rewards[f"player_{player}"] for player in range(3)])


@pytest.mark.parametrize(
    ("reward", "returns"), [("score", [-2, 1]), ("margin", [-3, 3]), ("rank", [-1, 1]), ("win", [-0.5, 0.5])]
)
def test_returns(reward: str, returns: list[float]) -> None:
    """Player 0 takes 3 and 4, a run that counts 3, and keeps the chip: 2. Player 1 has a chip alone: -1."""
    parameters = {"players": 2, "highest": 4, "removed": 0, "chips": 1, "first_player": 0, "reward": reward}
    state = pyspiel.load_game(NO_THANKS, parameters).new_initial_state()
    for action in (0, 1, 1):  # card 3, take, card 4
        state.apply_action(action)
        assert state.returns() == [0, 0]
    state.apply_action(1)
    assert state.is_terminal()
    assert state.returns() == pytest.approx(returns)


def test_mcts_plays_no_thanks() -> None:
    game = pyspiel.load_game(NO_THANKS, {"players": 2, "highest": 8, "removed": 1, "chips": 3, "reward": "margin"})
    evaluator = mcts.RandomRolloutEvaluator(1, np.random.RandomState(0))
    bot = mcts.MCTSBot(game, 10.0, 50, evaluator, random_state=np.random.RandomState(1))
    state = game.new_initial_state()
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[0] if state.is_chance_node() else bot.step(state))
    assert sum(state.returns()) == pytest.approx(0)


def test_sampled_chance_follows_its_seed() -> None:
    def dealt(seed: int) -> list[str]:
        game = pyspiel.load_game(SIX_NIMMT, {"chance": "sampled", "rng_seed": seed})
        found = []
        for _ in range(3):
            state = game.new_initial_state()
            assert state.chance_outcomes() == [(0, 1.0)]
            state.apply_action(0)
            found.append(str(state))
        return found

    assert dealt(5) == dealt(5)
    assert len({*dealt(5), *dealt(6)}) == 6


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{NO_THANKS}(players=9)", "num_players is 9; allowed is 2 to 7, nearest 7"),
        (f"{NO_THANKS}(first_player=4)", "first_player is 4; allowed is -1 to 3, nearest 3"),
        (f"{NO_THANKS}(reward=rnak)", "did you mean 'rank'"),
        (f"{NO_THANKS}(removed=-1)", "removed is -1; allowed is 0 to 32, nearest 0"),
        (f"{SIX_NIMMT}(chance=none)", "allowed are 'explicit', 'sampled'"),
        (f"{SIX_NIMMT}(length=match)", "give chance=sampled"),
    ],
)
def test_parameters_that_cannot_be(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pyspiel.load_game(name)


def test_sampled_games_cannot_be_pickled() -> None:
    """As the page says; explicit ones can, in the middle of a game."""
    with pytest.raises(pyspiel.SpielError, match="GetRNGState"):
        pickle.dumps(pyspiel.load_game(f"{NO_THANKS}(chance=sampled)"))
    state = pyspiel.load_game(NO_THANKS).new_initial_state()
    for action in (1, 5, 0):
        state.apply_action(action)
    assert str(pickle.loads(pickle.dumps(state))) == str(state)  # noqa: S301


def test_observations_of_another_kind_are_refused() -> None:
    game = pyspiel.load_game(NO_THANKS)
    kind = pyspiel.IIGObservationType(public_info=False, perfect_recall=False)
    with pytest.raises(ValueError, match="public and the player's own"):
        make_observation(game, kind)


def test_leaves_python_in_peace() -> None:
    """OpenSpiel keeps what is registered beyond the interpreter's end."""
    code = f"import {undertake.api.open_spiel.__name__}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_pages_script(tmp_path: Path) -> None:
    out = page.run("openspiel", tmp_path)
    assert "-0.6667" in out
    assert "1.4444" in out
