"""Who earned what: hand-computed advantages, and every trajectory against a reference that never cuts a game."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch

from undertake_training.network import PolicyNetwork
from undertake_training.rollout import Decisions, Rollout, share_rewards, split_rewards

Array = npt.NDArray[Any]


class Shared:
    """`share_rewards` on one table and one reward; lists in, arrays out."""

    def __init__(
        self,
        *,
        seat: list[int],
        reward: list[list[float]],
        value: list[float],
        done: list[int] | None = None,
        learner: list[bool] | None = None,
        carried: list[float | None] | None = None,
        gae_lambda: float = 0.5,
    ) -> None:
        steps, seats = len(seat), len(reward[0])
        pending = carried or [None] * seats
        ended = np.zeros((steps, 1), np.bool_)
        ended[done or [], 0] = True
        self.advantage = np.full((seats + steps, 1, 1), 99.0, np.float32)
        self.trainable = np.ones((seats + steps, 1), np.bool_)
        self.last_row = np.full((seats, 1), 99, np.int32)
        self.last_pending = np.full((seats, 1, 1), 99.0, np.float32)
        share_rewards(
            np.array(seat, np.int8)[:, None],
            np.array(learner or [True] * steps)[:, None],
            ended,
            np.array(reward, np.float32)[:, None, :, None],
            np.array(value, np.float32)[:, None, None],
            np.array([p is not None for p in pending])[:, None],
            np.array([p or 0.0 for p in pending], np.float32)[:, None, None],
            gae_lambda,
            self.advantage,
            self.trainable,
            self.last_row,
            self.last_pending,
        )


def test_a_seat_is_paid_from_its_decision_to_its_next() -> None:
    # Seats act 0 1 0 1, the game ends with the last step; rows 0 and 1 are the (empty) carried ones.
    # Seat 0: first decision earns 1 + 0, then stands at value 2; second earns 3 + 5, then nothing more.
    #   second: 8 - 2 = 6; first: 1 + 2 - 0.5 + 0.5 * 6 = 5.5
    # Seat 1: the 9 before its first decision is nobody's merit; first earns 2 - 1, then value 4; second earns 7.
    #   second: 7 - 4 = 3; first: 1 + 4 - 1.5 + 0.5 * 3 = 5
    shared = Shared(
        seat=[0, 1, 0, 1],
        reward=[[1, 9], [0, 2], [3, -1], [5, 7]],
        value=[0, 0, 0.5, 1.5, 2, 4],
        done=[3],
    )
    assert shared.advantage.ravel().tolist() == [0, 0, 5.5, 5, 6, 3]
    assert shared.trainable.ravel().tolist() == [False, False, True, True, True, True]
    assert shared.last_row.ravel().tolist() == [-1, -1]


def test_the_final_reward_reaches_seats_that_decided_before_the_end() -> None:
    # Three seats decide once each, the last ends the game, which pays 10, 20, 30. Then a new game begins.
    shared = Shared(
        seat=[0, 1, 2, 0],
        reward=[[0, 0, 0], [0, 0, 0], [10, 20, 30], [0, 0, 4]],
        value=[0, 0, 0, 1, 2, 3, 50],
        done=[2],
    )
    assert shared.advantage.ravel().tolist() == [0, 0, 0, 9, 18, 27, 0]
    assert shared.trainable.ravel().tolist() == [False] * 3 + [True] * 3 + [False]
    assert shared.last_row.ravel().tolist() == [6, -1, -1], (
        "the new game's decision is open, with nothing of the old one"
    )
    assert shared.last_pending.ravel().tolist() == [0, 0, 0]


def test_an_open_decision_is_bootstrapped_from_and_carried_with_what_it_earned() -> None:
    # Seat 0 decides at steps 0 and 2, seat 1 at step 1; nothing ends.
    # Seat 0's first: earns 1 + 2, then stands at value 6 of its open second decision: 3 + 6 - 5 = 4, no further lambda.
    shared = Shared(seat=[0, 1, 0], reward=[[1, 0], [2, 8], [4, 16]], value=[0, 0, 5, 7, 6])
    assert shared.advantage.ravel().tolist() == [0, 0, 4, 0, 0]
    assert shared.trainable.ravel().tolist() == [False, False, True, False, False]
    assert shared.last_row.ravel().tolist() == [4, 3]
    assert shared.last_pending.ravel().tolist() == [4, 24]


def test_a_carried_decision_is_paid_in_the_next_rollout() -> None:
    # Both seats come with an open decision that has earned 4 and 24. Seat 0 decides at step 1, seat 1 never; no end.
    # Seat 0: 4 + 1 + value 9 of its open decision - value 6 = 8. Seat 1 stays open with 24 + 2 + 3.
    shared = Shared(
        seat=[0, 0],
        learner=[False, True],  # as if someone else had decided in the first step
        reward=[[1, 2], [5, 3]],
        value=[6, 7, 0, 9],
        carried=[4, 24],
    )
    assert shared.trainable.ravel().tolist() == [True, False, False, False]
    assert shared.advantage.ravel().tolist() == [8, 0, 0, 0]
    assert shared.last_row.ravel().tolist() == [3, 1]
    assert shared.last_pending.ravel().tolist() == [5, 29]


def test_a_game_that_ends_at_once_pays_the_carried_decisions() -> None:
    # Lambda must pass from a carried decision to the same game's next ones only.
    # Seat 1's decision at step 0 ends the game: 20 - 7 = 13; its carried one: 24 + 0 + 7 - 1 + 0.5 * 13 = 36.5.
    # Seat 0's carried one: 4 + 10 - 6 = 8, whatever follows in the next game.
    shared = Shared(
        seat=[1, 0, 1, 0, 0],
        reward=[[10, 20], [0, 0], [0, 0], [0, 0], [50, 50]],
        value=[6, 1, 7, 3, 3, 3, 3],
        done=[0, 4],
        carried=[4, 24],
    )
    assert shared.advantage.ravel()[:3].tolist() == [8, 36.5, 13]
    assert shared.trainable.all()


def test_decisions_of_bots_are_passed_over() -> None:
    shared = Shared(
        seat=[0, 1, 0, 1],
        learner=[True, False, True, False],
        reward=[[1, 1], [2, 1], [4, 1], [8, 1]],
        value=[0, 0, 0, 100, 0, 100],
        done=[3],
        gae_lambda=1.0,
    )
    assert shared.trainable.ravel().tolist() == [False, False, True, False, True, False]
    assert shared.advantage.ravel().tolist() == [0, 0, 15, 0, 12, 0]


class ScriptedTables:
    """A stand-in for the tables: seats, rewards and ends are drawn beforehand; an observation names its decision."""

    def __init__(self, steps: int, tables: int, seats: int) -> None:
        rng = np.random.default_rng(3)
        self.seats = rng.integers(seats, size=(steps + 1, tables))
        self.rewards = rng.integers(-4, 5, size=(steps, tables, seats)).astype(np.float32)
        self.ends = rng.random((steps, tables)) < 0.15
        self.now = 0
        self.done = np.zeros(tables, np.bool_)
        self.pure = np.zeros(tables, np.bool_)
        self.seat = np.zeros(tables, np.int64)
        self.occupant = np.full(tables, -1, np.int8)
        self.standing = np.zeros((tables, seats), np.float32)
        self.reached = np.zeros((tables, seats), np.float32)
        self.actions: list[list[int]] = []

    def look(self, observation: Array, action_mask: Array, extra: Array) -> None:
        self.seat[:] = self.seats[self.now]
        observation[:, 0] = self.now
        observation[:, 1] = np.arange(len(observation))
        action_mask[:] = 1
        assert extra.shape == (len(observation), 0)

    def step(self, actions: Array) -> None:
        self.actions.append(actions.tolist())
        self.standing -= self.rewards[self.now]
        self.reached[:] = self.standing
        self.done[:] = self.ends[self.now]
        self.standing[self.done] = 0
        self.now += 1


class CountingNetwork:
    """Values that name the decision: step / 8 for the one reward."""

    def look(self, seen: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.full(mask.shape, -np.log(4.0)), seen[:, :1].float() / 8, seen

    def sample(self, log_probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(4, (len(log_probs),), generator=generator)


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_rollout_borders_lose_nothing(steps: int) -> None:
    """Whatever the length of a rollout, a decision is learned from once, with the reward that its seat got for it."""
    total, tables, seats = 60, 5, 3
    batch = ScriptedTables(total, tables, seats)
    network, generator = cast("PolicyNetwork", CountingNetwork()), torch.Generator().manual_seed(0)
    decisions = Decisions.empty((seats + steps) * tables, features=2, actions=4, extra=0, values=1)
    memory = decisions.part(0, seats + steps, tables)
    rollout = Rollout(memory, seats)
    learned: dict[tuple[int, int], float] = {}
    for _ in range(total // steps):
        rollout.collect(batch, network, generator, margin_scale=1.0, result="win", gae_lambda=0.0)
        for row, table in memory.trainable.nonzero().tolist():
            step, at = memory.observation[row, table].tolist()
            assert at == table
            assert (step, at) not in learned
            assert memory.action[row, table].item() == batch.actions[step][table]
            learned[step, at] = (memory.advantage + memory.value)[row, table].item()
        rollout.carry()

    paid = (seats * batch.rewards - batch.rewards.sum(axis=2, keepdims=True)) / (seats - 1)  # own - mean of the others
    expected: dict[tuple[int, int], float] = {}
    for table in range(tables):
        open_at: dict[int, int] = {}
        earned: dict[int, float] = defaultdict(float)
        for step in range(total):
            seat = int(batch.seats[step, table])
            if seat in open_at:
                expected[open_at[seat], table] = earned[seat] + step / 8
            open_at[seat], earned[seat] = step, 0.0
            for other in range(seats):
                earned[other] += float(paid[step, table, other])
            if batch.ends[step, table]:
                expected |= {(at, table): earned[who] for who, at in open_at.items()}
                open_at = {}
    assert learned.keys() == expected.keys()
    for decision, target in expected.items():
        assert learned[decision] == pytest.approx(target, abs=1e-5)


def split(scores: list[list[float]], *, result: Any = "win", scale: float = 1.0) -> Array:
    score = np.array(scores, np.float32)
    out = np.full((*score.shape, 2), 99.0, np.float32)
    split_rewards(out, np.zeros_like(score), score, np.ones(len(score), np.bool_), scale, result)
    return out


def test_margin_is_the_mean_of_the_others_less_own() -> None:
    # others' means 70/3, 20, 20, 50/3 less 10, 20, 20, 30; in units of 10 points
    assert split([[10, 20, 20, 30]], scale=10.0)[0, :, 0] == pytest.approx([4 / 3, 0, 0, -4 / 3], abs=1e-6)


@pytest.mark.parametrize(
    ("result", "scores", "expected"),
    [
        ("win", [10, 20, 20, 30], [0.75, -0.25, -0.25, -0.25]),
        ("win", [5, 9, 5, 9], [0.25, -0.25, 0.25, -0.25]),
        ("rank", [10, 20, 20, 30], [1, 0, 0, -1]),
        ("rank", [40, 10, 20, 30], [-1, 1, 1 / 3, -1 / 3]),
        ("rank", [5, 5, 5, 5], [0, 0, 0, 0]),
    ],
)
def test_result_rewards(result: str, scores: list[float], expected: list[float]) -> None:
    assert split([scores], result=result)[0, :, 1] == pytest.approx(expected, abs=1e-6)


def test_a_running_game_pays_no_result() -> None:
    score = np.array([[1, 2], [3, 4]], np.float32)
    out = np.full((2, 2, 2), 99.0, np.float32)
    split_rewards(out, np.array([[1, 2], [0, 9]], np.float32), score, np.array([False, True]), 1.0, "win")
    assert out[:, :, 1].tolist() == [[0, 0], [0.5, -0.5]]
    # first table: nothing changed; second: seat 0 lost 3 and seat 1 gained 5, which the margin counts twice
    assert out[:, :, 0].tolist() == [[0, 0], [-8, 8]]
