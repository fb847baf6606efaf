"""What holds in every state of every game: conservation, termination, rewards, and what an observation says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from games.by_hand import Past, expected
from games.tables import OPTIONS, check_conserved, copied, deal, game_of, mask_of, new_record, observed, seen, walk
from undertake.core import game, reward

every_game = pytest.mark.parametrize("name", game.GAMES)
SEEDS = st.integers(0, 2**32 - 1)


def longest(state: Any) -> int:
    """More decisions than a game can have.

    No Thanks!: between two takes every chip can be paid once, so a card lasts for at most all chips and a take.
    6 nimmt!: a trick is a card from everyone and at most one choice of a row, for the lowest card alone can be too
    low. A hand in which nobody leaves costs at least one bull where two hands and the row starts do not all fit into
    the rows (`six_nimmt_options` sees to that), and a match has at most limit - 1 bulls a player before its last hand.
    """
    players = int(state.num_players)
    if "pot" in state.dtype.names:
        return int(state.played) * (players * int(state.start_chips) + 1)
    hands = 1 if state.single_hand else players * (int(state.limit) - 1) + 1 + players
    return hands * int(state.hand_size) * (players + 1)


@every_game
@settings(max_examples=40)
@given(seed=SEEDS)
def test_cards_and_chips_are_conserved_and_the_game_ends(name: str, seed: int) -> None:
    rng = random.Random(seed)
    state = deal(name, seed, **OPTIONS[name](rng))
    decisions = -1
    for _ in walk(state, rng, rng.choice([0.0, 0.0, 0.01, 0.1])):
        check_conserved(state)
        assert state.turn < 0 or state.resigned[state.turn] == 0
        decisions += 1
    players, left = int(state.num_players), np.count_nonzero(state.resigned)
    assert decisions - left <= longest(state)
    assert left <= players - 1
    assert sorted(state.resigned[:players])[players - left :] == list(range(1, left + 1))


def bound_is_met(actions: list[int]) -> int:
    state = deal("no_thanks", cards=[3, 4], first=0, num_players=2, lowest=3, highest=4, removed=0, chips=1)
    for action in actions:
        assert state.turn >= 0
        game.play(state, action)
    assert state.turn == -1
    return longest(state)


def test_the_bound_of_no_thanks_is_met_but_not_by_much() -> None:
    # Both pay their chip; the first takes both and 3, pays one of them for 4, and the second takes it.
    assert bound_is_met([0, 0, 1, 0, 1]) == 2 * (2 * 1 + 1)


@every_game
@settings(max_examples=40)
@given(seed=SEEDS)
def test_ranks_and_rewards_balance(name: str, seed: int) -> None:
    rng = random.Random(seed)
    options = OPTIONS[name](rng)
    state = deal(name, seed, **options)
    for _ in walk(state, rng, rng.choice([0.0, 0.02])):
        pass
    seats = range(int(state.num_players))
    ranks = [reward.rank(state, seat) for seat in seats]
    scores = [game.score(state, seat) for seat in seats]
    n = len(ranks)
    assert sum(ranks) == n * (n + 1) / 2
    assert sum(reward.win_share(state, seat) for seat in seats) == pytest.approx(1, abs=1e-12)
    paid = {kind: [reward.final_reward(state, seat, code) for seat in seats] for code, kind in enumerate(game.REWARDS)}
    assert sum(paid["rank"]) == pytest.approx(0, abs=1e-12)
    assert sum(paid["win"]) == pytest.approx(0, abs=1e-12)
    assert sum(paid["margin"]) == pytest.approx(0, abs=1e-9)
    assert paid["score"] == [0.0] * n
    assert [game.paid(state, seat) for seat in seats] == scores
    assert paid["rank"] == pytest.approx([(n + 1 - 2 * r) / (n - 1) for r in ranks])
    assert max(map(abs, paid["rank"])) <= 1
    assert min(paid["win"]) >= -1 / n
    low, high = game.make_options(game.get_game(name), options).score_bounds()
    assert low <= min(scores)
    assert max(scores) <= high
    for code in range(len(game.REWARDS)):
        total = [
            -score if code == reward.SCORE else reward.final_reward(state, s, code) for s, score in enumerate(scores)
        ]
        assert min(total) >= reward.worst_return(game.make_options(game.get_game(name), options), code)


def play_on(state: Any, rng: random.Random, leaving: float, past: Past) -> None:
    """One random decision or leaving, noted."""
    before = game_of(state).table(state)
    seat, action = int(state.turn), None
    if rng.random() < leaving:
        seat = rng.choice([s for s in range(state.num_players) if state.resigned[s] == 0])
        game.resign(state, seat)
    else:
        action = game.random_legal(state, np.uint64(rng.getrandbits(64)))
        game.play(state, action)
    past.note(before, seat, action, game_of(state).table(state))


def check_mask(state: Any, seat: int, view: Any) -> None:
    """The mask of the seat to act agrees with the rules; others may choose a card when all choose at once."""
    mask = mask_of(view)
    found = game_of(state)
    assert set(mask.tolist()) <= {0, 1}
    if seat == state.turn:
        assert [game.is_legal(state, action) for action in range(found.num_actions)] == mask.astype(bool).tolist()
        assert mask[game.default_action(view)] == 1
        return
    told = found.table(state)
    name = f"player_{seat}"
    chooses = told.get("phase") == "card" and told["turn"] and not told["chosen"][name] and not state.resigned[seat]
    assert np.flatnonzero(mask).tolist() == ([card - 1 for card in told["hands"][name]] if chooses else [])


@every_game
@settings(max_examples=30)
@given(seed=SEEDS)
def test_an_observation_says_what_it_says(name: str, seed: int) -> None:
    rng = random.Random(seed)
    state = deal(name, seed, **OPTIONS[name](rng))
    leaving, past = rng.choice([0.0, 0.0, 0.02, 0.1]), Past()
    past.begin(game_of(state).table(state))
    used = new_record(game_of(state).view_dtype)
    while True:
        seat, view = rng.randrange(state.num_players), rng.choice(game.VIEWS)
        if state.turn >= 0 and rng.random() < 0.5:
            seat = int(state.turn)
        layout = game_of(state).layouts[view]
        record = seen(state, seat, view)
        counts = observed(record)
        wanted = expected(state, seat, view, past)
        wrong = {
            key: (counts[place].tolist(), wanted[place].tolist())
            for key, place in layout.slices.items()
            if not np.array_equal(counts[place], wanted[place])
        }
        assert not wrong, f"{view} of seat {seat}: (observation, by hand) differ in {wrong}"
        for item in layout.features:
            assert counts[layout.slices[item.name]].max() <= item.highest, item
        scaled = counts * layout.scale
        assert scaled.dtype == np.float32
        assert scaled.max() <= 1
        check_mask(state, seat, record)
        game.see(state, seat, view == "recall", used)  # a view record used before shows no trace of it
        np.testing.assert_array_equal(observed(used), counts)
        np.testing.assert_array_equal(mask_of(used), mask_of(record))
        if state.turn < 0:
            break
        for _ in range(rng.randint(1, 4)):
            if state.turn >= 0:
                play_on(state, rng, leaving, past)


@every_game
@settings(max_examples=15)
@given(seed=SEEDS)
def test_a_record_is_the_whole_game(name: str, seed: int) -> None:
    """Two equal records go on equally, and looking changes nothing."""
    rng = random.Random(seed)
    state = deal(name, seed, **OPTIONS[name](rng))
    for _, _step in zip(walk(state, rng), range(rng.randrange(60)), strict=False):
        pass
    twin = copied(state)
    while state.turn >= 0:
        for view in game.VIEWS:
            observed(seen(state, rng.randrange(state.num_players), view))
        word = np.uint64(rng.getrandbits(64))
        assert game.random_legal(state, word) == game.random_legal(twin, word)
        game.play(state, game.random_legal(state, word))
        game.play(twin, game.random_legal(twin, word))
        assert state.tobytes() == twin.tobytes()
