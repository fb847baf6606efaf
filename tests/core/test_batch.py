"""The batch engine: what it writes, where, and that it is the same game at every size and on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from core.batches import check_even, check_same, random_step, told
from games.tables import mask_of, observed, seen
from undertake.core import game
from undertake.core.batch import Batch, make_batch

every_game = pytest.mark.parametrize("name", game.GAMES)
PLAYERS = [*(("no_thanks", n) for n in range(2, 8)), *(("six_nimmt", n) for n in range(2, 11))]
TINY: dict[str, dict[str, Any]] = {
    "no_thanks": {"num_players": 2, "lowest": 3, "highest": 4, "removed": 0, "chips": 1},
    "six_nimmt": {
        "num_players": 2,
        "num_cards": 3,
        "hand_size": 1,
        "num_rows": 1,
        "length": "hand",
        "row_choice": "cheapest",
    },
}


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", game.VIEWS)
@pytest.mark.parametrize(("name", "players"), PLAYERS)
def test_every_row_is_what_the_seat_to_act_sees(name: str, players: int, view: str) -> None:
    batch = make_batch(name, num_envs=7, num_players=players, view=view, seed=players)
    features, actions = batch.game.layouts[view].size, {"no_thanks": 3, "six_nimmt": 109}[name]
    form = {
        "observation": ((7, features), np.uint8),
        "action_mask": ((7, actions), np.int8),
        "seat": ((7,), np.int64),
        "reward": ((7, players), np.float32),
        "done": ((7,), np.bool_),
        "score": ((7, players), np.float32),
        "scale": ((features,), np.float32),
    }
    kept = {key: getattr(batch, key) for key in form}
    states = batch.states
    assert {key: (array.shape, array.dtype.type) for key, array in kept.items()} == form
    assert states.shape == (7,)
    for key in range(30):
        for b in range(7):
            assert batch.seat[b] == states[b].turn
            view_record = seen(states[b], int(batch.seat[b]), view)
            np.testing.assert_array_equal(batch.observation[b], observed(view_record))
            np.testing.assert_array_equal(batch.action_mask[b], mask_of(view_record))
        random_step(batch, key)
    assert all(getattr(batch, key) is array for key, array in kept.items()), "written in place"
    assert np.shares_memory(batch.states, states)
    assert batch.scale.min() > 0
    assert (batch.observation * batch.scale).max() <= 1


@every_game
def test_the_number_of_tables_changes_no_table(name: str) -> None:
    """One table's row, the last of 64 and the same in the middle of more: nothing at an array's end is different."""
    sizes = (1, 64, 65, 200)
    batches = [make_batch(name, num_envs=size, seed=9, view="recall") for size in sizes]
    for key in range(60):
        states = [told(batch) for batch in batches]
        for size, small in zip(sizes, states, strict=True):
            check_same(small, states[-1], slice(0, size))
        actions = batches[-1].random_actions(key).copy()
        for size, batch in zip(sizes, batches, strict=True):
            batch.step(actions[:size].copy())


@every_game
@pytest.mark.parametrize("illegal", ["raise", "random", "terminate"])
@pytest.mark.parametrize("view", game.VIEWS)
def test_threads_change_nothing(name: str, view: str, illegal: str) -> None:
    batches = [
        make_batch(name, num_envs=101, seed=4, view=view, illegal=illegal, reward="score", num_threads=threads)
        for threads in (1, 3, 64)
    ]
    rng = np.random.default_rng(0)
    for key in range(150):
        actions = batches[0].random_actions(key).copy()
        if illegal != "raise":
            actions[rng.random(101) < 0.02] = 2
        for batch in batches:
            batch.step(actions)
        serial = told(batches[0])
        for batch in batches[1:]:
            check_same(serial, told(batch))


@every_game
def test_without_observing_the_game_is_the_same(name: str) -> None:
    seeing, blind = (make_batch(name, num_envs=20, seed=2, observe=observe) for observe in (True, False))
    for key in range(100):
        np.testing.assert_array_equal(random_step(seeing, key), random_step(blind, key))
    assert seeing.states.tobytes() == blind.states.tobytes()
    assert not blind.observation.any()
    assert not blind.action_mask.any()
    check_same(
        {key: getattr(seeing, key) for key in ("seat", "reward", "done", "score")},
        {key: getattr(blind, key) for key in ("seat", "reward", "done", "score")},
    )
    for wanted, given in zip((seeing.observation, seeing.action_mask), blind.observe(blind.seat), strict=True):
        np.testing.assert_array_equal(given, wanted)


@every_game
def test_any_seat_can_be_observed(name: str) -> None:
    batch = make_batch(name, num_envs=12, num_players=4, seed=3)
    for key in range(15):
        random_step(batch, key)
    kept = told(batch)
    seats = np.arange(12) % 4
    observation, mask = batch.observe(seats)
    for b, seat in enumerate(seats):
        record = seen(batch.states[b], int(seat), "table")
        np.testing.assert_array_equal(observation[b], observed(record))
        np.testing.assert_array_equal(mask[b], mask_of(record))
    check_same(kept, told(batch))
    assert not np.shares_memory(observation, batch.observation)


# --- seeds -----------------------------------------------------------------------------------------------------------


@every_game
def test_a_seed_repeats_all_and_no_two_tables_are_the_same(name: str) -> None:
    first, second = (make_batch(name, num_envs=50, seed=11) for _ in range(2))
    other = make_batch(name, num_envs=50, seed=12)
    begun = told(first)
    check_same(begun, told(second))
    decks = [first.states[b].deck.tobytes() for b in range(50)] + [other.states[b].deck.tobytes() for b in range(50)]
    assert len(set(decks)) == 100
    for key in range(120):
        random_step(first, key)
        random_step(second, key)
    check_same(told(first), told(second))
    first.reset(11)
    check_same(begun, told(first))
    first.reset()  # the streams go on: other deals
    assert not {first.states[b].deck.tobytes() for b in range(50)} & set(decks)
    assert not first.reward.any()
    assert not first.done.any()


# --- the end of a game -----------------------------------------------------------------------------------------------


def play_tiny(name: str, reward: str) -> tuple[Batch, list[npt.NDArray[Any]], npt.NDArray[Any], npt.NDArray[np.int64]]:
    """A tiny game at 40 tables: the engine after it, its rewards step by step, the first states and seats."""
    batch = make_batch(name, num_envs=40, seed=5, reward=reward, **TINY[name])
    states, seats = np.asarray(batch.states).copy(), batch.seat.copy()
    steps = []
    # No Thanks!: the starter pays, the other takes the card, pays for the second one, and the starter takes that.
    for action in (0, 1, 0, 1) if name == "no_thanks" else (None, None):
        assert not batch.done.any()
        batch.step(np.argmax(batch.action_mask, axis=1) if action is None else np.full(40, action))
        steps.append(batch.reward.copy())
    assert batch.done.all()
    return batch, steps, states, seats


def tiny_scores(name: str, state: Any, seat: int) -> list[int]:
    """By hand. No Thanks!: the first card goes to the other, who keeps one chip of two; the starter gets the second."""
    if name == "no_thanks":
        scores = [0, 0]
        scores[seat], scores[1 - seat] = int(state["deck"][1]), int(state["deck"][0]) - 1
        scores[seat] -= 1  # the chip that the other has paid
        return scores
    first, second, row = (int(card) for card in state["deck"][:3])
    # A card below the row takes it, which costs its one bull; the higher of two such cards then follows the lower.
    return [int(first < row and first == min(first, second)), int(second < row and second == min(first, second))]


@every_game
@pytest.mark.parametrize("reward", game.REWARDS)
def test_scores_and_rewards_by_hand(name: str, reward: str) -> None:
    batch, steps, states, seats = play_tiny(name, reward)
    met = set()
    for b in range(40):
        mine, yours = tiny_scores(name, states[b], int(seats[b]))
        met.add((mine, yours))
        assert batch.score[b].tolist() == [mine, yours]
        sign = float(np.sign(yours - mine))
        wanted = {
            "rank": [sign, -sign],  # (3 - 2r) / 1 with r = 1, 2, or 1.5 for both
            "win": [sign / 2, -sign / 2],
            "score": [float(-mine), float(-yours)],
            "margin": [float(yours - mine), float(mine - yours)],
        }[reward]
        assert steps[-1][b].tolist() == wanted
        assert not any(step[b].any() for step in steps[:-1])
    # 4 and 3 either way round; with 6 nimmt! a bull for either or none.
    assert met == ({(2, 3), (3, 2)} if name == "no_thanks" else {(0, 0), (0, 1), (1, 0)})


def test_ties_and_more_players_by_hand() -> None:
    options = {"num_players": 3, "lowest": 3, "highest": 5, "removed": 0, "chips": 0}
    wanted = {"rank": (-1, 0.5), "win": (-1 / 3, 1 / 6), "score": (-3, 0), "margin": (-3, 1.5)}
    for reward, (taker, other) in wanted.items():
        batch = make_batch("no_thanks", num_envs=9, reward=reward, **options)
        starter = batch.seat.copy()
        assert len(set(starter)) == 3
        for _ in range(3):  # no chips: the starter has to take 3, 4 and 5, a run that counts 3
            np.testing.assert_array_equal(batch.action_mask, [[0, 1, 0]] * 9)
            batch.step(np.ones(9, np.int64))
        for b in range(9):
            expected = np.full(3, other, np.float32)
            expected[starter[b]] = taker
            np.testing.assert_array_equal(batch.reward[b], expected)


def test_bulls_are_paid_as_they_are_taken() -> None:
    options: dict[str, Any] = {"num_cards": 5, "hand_size": 2, "num_rows": 1, "row_size": 1, "length": "hand"}
    batch = make_batch("six_nimmt", num_envs=1, num_players=2, reward="score", **options)
    state = batch.states[0]
    batch.game.lay(state, [1, 4, 2, 3, 5])  # player 0 has 1 and 4, player 1 has 2 and 3; 5 lies on the table
    game.start(state, -1)
    paid = []
    for action in (1 - 1, 3 - 1, 104, 4 - 1, 2 - 1, 104):
        batch.step(np.array([action]))
        paid.append(batch.reward[0].tolist())
    # 1 takes the 5 with two bulls when its owner has chosen the row, and 3 takes the 1 after it. Then 2 is below 3 and
    # takes it, and 4 takes the 2: all bulls of the last trick are paid at the game's end.
    assert paid == [[0, 0], [0, 0], [-2, -1], [0, 0], [0, 0], [-1, -1]]
    assert batch.done.tolist() == [True]
    assert batch.score.tolist() == [[3, 2]]


@every_game
@pytest.mark.parametrize("reward", game.REWARDS)
def test_a_game_that_ends_is_followed_by_the_next(name: str, reward: str) -> None:
    options = {"no_thanks": {}, "six_nimmt": {"length": "hand", "limit": 30}}[name]
    batch = make_batch(name, num_envs=16, num_players=3, reward=reward, seed=1, **options)
    paid, ended, last = np.zeros((16, 3)), 0, np.zeros((16, 3), np.float32)
    for key in range(300):
        before = np.asarray(batch.states).copy()
        random_step(batch, key)
        paid += batch.reward
        for b in np.flatnonzero(batch.done):
            ended += 1
            last[b] = batch.score[b]
            if reward == "score":
                np.testing.assert_array_equal(paid[b], -batch.score[b])
            elif reward == "margin":
                others = (batch.score[b].sum() - batch.score[b]) / 2
                np.testing.assert_allclose(paid[b], others - batch.score[b], atol=1e-5)
            else:
                assert paid[b].sum() == pytest.approx(0, abs=1e-6)
                assert np.argmax(paid[b]) in np.flatnonzero(batch.score[b] == batch.score[b].min())
            paid[b] = 0
            fresh = batch.states[b]
            assert fresh.deck.tobytes() != before[b]["deck"].tobytes()
            assert np.count_nonzero(fresh.resigned) == 0
            if name == "no_thanks":
                assert (int(fresh.drawn), int(fresh.pot), fresh.chips[:3].tolist()) == (1, 0, [11, 11, 11])
            else:
                assert (int(fresh.trick), int(fresh.hand_number), fresh.totals[:3].tolist()) == (0, 0, [0, 0, 0])
        np.testing.assert_array_equal(batch.score, last)
        if reward != "score":
            assert not batch.reward[~batch.done].any()
    assert ended > 30


# --- illegal actions -------------------------------------------------------------------------------------------------

BAD = {"no_thanks": [2, -1, 3, 2**62], "six_nimmt": [108, 104, -1, 109, -(2**62)]}


@every_game
def test_raise_names_the_table_and_touches_nothing(name: str) -> None:
    batch = make_batch(name, num_envs=8, seed=6, num_threads=2)
    random_step(batch, 0)
    kept = told(batch)
    for bad in BAD[name]:
        actions = batch.random_actions(1).copy()
        actions[5:7] = bad
        with pytest.raises(ValueError, match=rf"^table 5: action {bad} \(.*\) is illegal; legal are ") as error:
            batch.step(actions)
        assert "\n" not in str(error.value)
        check_same(kept, told(batch))


@every_game
@pytest.mark.parametrize("reward", game.REWARDS)
def test_terminate_costs_the_offender_alone(name: str, reward: str) -> None:
    options = {"no_thanks": {}, "six_nimmt": {"length": "match", "limit": 66}}[name]
    batch = make_batch(name, num_envs=6, num_players=4, seed=7, reward=reward, illegal="terminate", **options)
    # The worst: last place; no win; the 24 highest cards 12 to 35, each alone: 24 x 23.5, or 65 and all 171 bulls;
    # and of that against others who have all 44 chips, or no bull.
    worst = {
        "no_thanks": {"rank": -1.0, "win": -0.25, "score": -564.0, "margin": -564.0 - 44},
        "six_nimmt": {"rank": -1.0, "win": -0.25, "score": -236.0, "margin": -236.0},
    }[name][reward]
    for bad in BAD[name]:
        random_step(batch, 3)
        offender, actions = int(batch.seat[2]), batch.random_actions(2).copy()
        actions[2] = bad
        rng = batch.states[2].rng
        batch.step(actions)
        wanted = np.zeros(4)
        wanted[offender] = worst
        assert batch.reward[2].tolist() == wanted.tolist()
        assert batch.done.tolist() == [False, False, True, False, False, False]
        assert batch.states[2].rng != rng
        assert batch.seat[2] == batch.states[2].turn >= 0


@every_game
def test_random_plays_on_with_a_legal_action(name: str) -> None:
    batch = make_batch(name, num_envs=3000, num_players=4, seed=8, illegal="random", view="recall")
    batch.step(np.full(3000, BAD[name][0]))
    assert not batch.done.any()
    assert not batch.reward.any()
    if name == "no_thanks":
        played = batch.states.pot == 1
        counts = [np.count_nonzero(played), np.count_nonzero(~played)]
    else:
        hands = np.zeros(3000, np.int64)
        for b in range(3000):
            own = [*batch.game.table(batch.states[b])["hands"]["player_0"], card := int(batch.states[b].chosen[0])]
            assert len(set(own)) == 10
            hands[b] = sorted(own).index(card)
        counts = np.bincount(hands, minlength=10).tolist()
    check_even(counts)
    for key in range(200):  # and legal actions are played as they are
        actions = batch.random_actions(key).copy()
        before = np.asarray(batch.states).copy().view(np.recarray)
        batch.step(actions)
        if name == "no_thanks":
            np.testing.assert_array_equal(batch.states.pot[actions == 0], before.pot[actions == 0] + 1)


@every_game
def test_random_actions_are_legal_and_even(name: str) -> None:
    batch = make_batch(name, num_envs=500, num_players=3, seed=10)
    chosen: dict[int, list[int]] = {}
    for key in range(100):
        actions = batch.random_actions(key << 40)
        assert actions.dtype == np.int64
        assert batch.action_mask[np.arange(500), actions].all()
        choices = batch.action_mask.sum(axis=1)
        place = (np.cumsum(batch.action_mask, axis=1)[np.arange(500), actions] - 1).astype(int)
        for size in set(choices.tolist()):
            counts = chosen.setdefault(size, [0] * size)
            for i, count in enumerate(np.bincount(place[choices == size], minlength=size)):
                counts[i] += int(count)
        batch.step(actions)
    assert len(chosen) == {"no_thanks": 2, "six_nimmt": 10}[name]  # rows are four as well
    del chosen[1]
    for counts in chosen.values():
        assert sum(counts) > 20 * len(counts)
        check_even(counts)
    repeated = batch.random_actions(7).copy()
    np.testing.assert_array_equal(batch.random_actions(7), repeated)
    assert not np.array_equal(batch.random_actions(8), repeated)
