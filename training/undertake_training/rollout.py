"""Playing the tables and sharing out what every decision earned.

Letters: T steps, B tables, n seats, N actions, D features, E extra numbers for the critic, K rewards kept apart
(margin, result), R = n + T rows, M decisions.

One network plays many seats, yet every seat of a table is a trajectory of its own: a decision earns all that its seat
is paid from then until the seat decides again, or until the game ends. At the end of a rollout each seat's last
decision has not been paid out: what follows it is not known. It is not learned from yet; its value stands for the
future of the seat's earlier decisions, and with what it has earned so far it is carried, in one of the first n rows of
the next rollout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch

from undertake.core.compile import compiled
from undertake_training.network import Critic, PolicyNetwork
from undertake_training.tables import LEARNER

__all__ = ["Acting", "Decisions", "Playing", "Rollout", "RolloutStats", "share_rewards", "split_rewards"]

Array = npt.NDArray[Any]

SPARE = 64
"""Rows of `Decisions` left free behind each rollout's: tables write a few bytes past their last row."""


class Playing(Protocol):
    """What is used of `undertake_training.tables.Tables`, which see."""

    seat: Array
    occupant: Array
    done: Array
    reached: Array
    standing: Array
    pure: Array

    def look(self, observation: Array, action_mask: Array, extra: Array) -> None:
        """Write what the seats to act see."""

    def step(self, actions: Array) -> object:
        """Play one decision a table."""


class Acting(Protocol):
    """What is used of the `undertake_training.network.PolicyNetwork` that plays, which see."""

    def look(
        self, observation: torch.Tensor, action_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities, values and what the critic is told."""

    def sample(self, log_probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Actions `[B]`."""


@dataclass(frozen=True)
class Decisions:
    """Memory for M decisions, written by the tables and read by torch without a copy in between."""

    observation: torch.Tensor
    action_mask: torch.Tensor
    extra: torch.Tensor
    action: torch.Tensor
    log_prob: torch.Tensor
    value: torch.Tensor
    advantage: torch.Tensor
    trainable: torch.Tensor

    @staticmethod
    def empty(count: int, *, features: int, actions: int, extra: int, values: int) -> Decisions:
        """Zeroed memory: uint8 `[M, D]`, int8 `[M, N]`, uint8 `[M, E]`, then `[M]` or `[M, K]`."""
        return Decisions(
            observation=torch.zeros((count, features), dtype=torch.uint8),
            action_mask=torch.zeros((count, actions), dtype=torch.int8),
            extra=torch.zeros((count, extra), dtype=torch.uint8),
            action=torch.zeros(count, dtype=torch.int64),
            log_prob=torch.zeros(count),
            value=torch.zeros((count, values)),
            advantage=torch.zeros((count, values)),
            trainable=torch.zeros(count, dtype=torch.bool),
        )

    def part(self, start: int, rows: int, tables: int) -> Decisions:
        """A view of `rows * tables` of the decisions, as `[R, B, ...]`."""
        count = rows * tables
        return Decisions(**{n: t[start : start + count].unflatten(0, (rows, tables)) for n, t in vars(self).items()})

    def to(self, device: torch.device) -> Decisions:
        """The decisions on a device: themselves if they are there."""
        return Decisions(**{name: tensor.to(device) for name, tensor in vars(self).items()})


_CARRIED = ("observation", "action_mask", "extra", "action", "log_prob", "value")


@dataclass
class RolloutStats:
    """Sums over the games of a rollout that ended with the policy in all seats."""

    games: int = 0
    score: float = 0.0
    best_score: float = 0.0

    def add(self, scores: Array) -> None:
        """Add the final scores `[games, n]` of games that ended."""
        self.games += len(scores)
        self.score += float(scores.mean(axis=1).sum())
        self.best_score += float(scores.min(axis=1).sum())

    def __iadd__(self, other: RolloutStats) -> RolloutStats:
        """Add the sums of another rollout."""
        self.games += other.games
        self.score += other.score
        self.best_score += other.best_score
        return self


class Rollout:
    """One rollout at B tables of n seats.

    Rows 0 .. n - 1 of `decisions` hold the carried decisions, one a seat; row n + t holds the decision of step t.
    """

    def __init__(self, decisions: Decisions, seats: int) -> None:
        rows, tables, values = decisions.value.shape
        self.decisions, self.seats, self.steps = decisions, seats, rows - seats
        self.seat = np.zeros((self.steps, tables), dtype=np.int8)
        self.learner = np.ones((self.steps, tables), dtype=np.bool_)
        self.done = np.zeros((self.steps, tables), dtype=np.bool_)
        self.reward = np.zeros((self.steps, tables, seats, values), dtype=np.float32)
        self.carried = np.zeros((seats, tables), dtype=np.bool_)
        self.pending = np.zeros((seats, tables, values), dtype=np.float32)
        self._last_row = np.zeros((seats, tables), dtype=np.int32)
        self._last_pending = np.zeros_like(self.pending)

    @torch.no_grad()
    def collect(
        self,
        tables: Playing,
        network: Acting,
        generator: torch.Generator,
        *,
        critic: Critic | None = None,
        networks: Mapping[int, PolicyNetwork] | None = None,
        device: torch.device | None = None,
        margin_scale: float,
        result: Literal["win", "rank"],
        gae_lambda: float,
    ) -> RolloutStats:
        """Play T decisions at every table and work out which decisions can be learned from, and their advantages.

        `networks` act for the trained opponents, by their numbers; values come from the `critic` if there is one.
        Fills all memory; call `carry` before the next rollout.
        """
        stats = RolloutStats()
        memory = self.decisions
        device = device or torch.device("cpu")
        observation, action_mask, extra = memory.observation.numpy(), memory.action_mask.numpy(), memory.extra.numpy()
        for step in range(self.steps):
            row = self.seats + step
            tables.look(observation[row], action_mask[row], extra[row])
            self.seat[step] = tables.seat
            self.learner[step] = tables.occupant == LEARNER
            seen, mask = memory.observation[row].to(device), memory.action_mask[row].to(device)
            log_probs, value, trunk = network.look(seen, mask)
            action = network.sample(log_probs, generator)
            for number, other in (networks or {}).items():
                where = torch.from_numpy(np.flatnonzero(tables.occupant == number)).to(device)
                if len(where):
                    # One that remembers less sees the beginning of what the policy sees.
                    known = seen[where, : other.shape.num_features]
                    action[where] = other.sample(other(known, mask[where])[0], generator)
            memory.action[row] = action
            memory.log_prob[row] = log_probs.gather(1, action.unsqueeze(1)).squeeze(1)
            memory.value[row] = critic(trunk, memory.extra[row].to(device)) if critic else value
            before = tables.standing.copy()
            tables.step(memory.action[row].numpy())
            self.done[step] = tables.done
            split_rewards(self.reward[step], before, tables.reached, tables.done, margin_scale, result)
            if tables.pure.any():
                stats.add(tables.reached[tables.pure])
        share_rewards(
            self.seat,
            self.learner,
            self.done,
            self.reward,
            memory.value.numpy(),
            self.carried,
            self.pending,
            gae_lambda,
            memory.advantage.numpy(),
            memory.trainable.numpy(),
            self._last_row,
            self._last_pending,
        )
        return stats

    def carry(self) -> None:
        """Move every seat's last decision that is still open to the first rows, for the next rollout."""
        seat, table = np.nonzero(self._last_row >= 0)
        source = torch.from_numpy(self._last_row[seat, table].astype(np.int64))
        to, at = torch.from_numpy(seat), torch.from_numpy(table)
        memory = self.decisions
        for buffer in (
            memory.observation,
            memory.action_mask,
            memory.extra,
            memory.action,
            memory.log_prob,
            memory.value,
        ):
            buffer[to, at] = buffer[source, at]  # the right side is a copy, so no row is overwritten before it is read
        self.carried[:] = self._last_row >= 0
        self.pending[:] = self._last_pending

    def arrays(self) -> dict[str, Array]:
        """What `carry` left, as views: all that the next rollout needs of this one."""
        kept = {name: getattr(self.decisions, name).numpy()[: self.seats] for name in _CARRIED}
        return {**kept, "carried": self.carried, "pending": self.pending}


def split_rewards(
    out: Array, before: Array, after: Array, done: Array, margin_scale: float, result: Literal["win", "rank"]
) -> None:
    """Write the rewards `[B, n, K]` of one step: 0 the margin in units of `margin_scale`, 1 the result (if K = 2).

    `before` and `after` `[B, n]` are the scores if the game ended before and after the step. The margin (mean of the
    others' scores - own) is paid as it changes: all start level, so the instalments add up to the margin of the final
    scores, and a decision feels at once what it cost. The result is paid at the end, to the games in `done` `[B]`: win
    share - 1/n with k winners sharing 1/k each, or the rank reward (n + 1 - 2r) / (n - 1), ties averaged.
    """
    n = before.shape[1]
    gain = before - after
    out[:, :, 0] = (gain - (gain.sum(axis=1, keepdims=True) - gain) / (n - 1)) / margin_scale
    if out.shape[2] == 1:
        return
    out[:, :, 1] = 0.0
    ended = np.flatnonzero(done)
    if not len(ended):
        return
    final = after[ended]
    if result == "win":
        winner = final == final.min(axis=1, keepdims=True)
        out[ended, :, 1] = winner / winner.sum(axis=1, keepdims=True) - 1.0 / n
    else:
        # r = 1 + number better + half the number equal (without oneself); so n + 1 - 2r = number worse - number better.
        sign = np.sign(final[:, None, :] - final[:, :, None]).sum(axis=2)
        out[ended, :, 1] = sign / (n - 1)


@compiled
def share_rewards(
    seat: Array,
    learner: Array,
    done: Array,
    reward: Array,
    value: Array,
    carried: Array,
    pending: Array,
    gae_lambda: float,
    advantage: Array,
    trainable: Array,
    last_row: Array,
    last_pending: Array,
) -> None:
    """Advantages of every decision, each (table, seat) a trajectory of its own; gamma = 1.

    Args:
        seat: int `[T, B]`, who decided.
        learner: bool `[T, B]`, whether the policy decided; the decisions of others are passed over.
        done: bool `[T, B]`, whether the step ended the game.
        reward: `[T, B, n, K]`, what the step paid every seat.
        value: `[R, B, K]`, the network's values of the decisions.
        carried: bool `[n, B]`, which seats have an open decision from before, in the row of the seat.
        pending: `[n, B, K]`, what those had earned by then.
        gae_lambda: 0 to 1.
        advantage: `[R, B, K]`, written.
        trainable: bool `[R, B]`, written: the decision is one of the policy's and has been paid out or bootstrapped.
        last_row: int `[n, B]`, written: the row of each seat's decision that is still open at the end, -1 if none.
        last_pending: `[n, B, K]`, written: what that decision has earned so far.

    A decision's target is what its seat was paid from it to the seat's next decision, plus that decision's value, or
    nothing more if the game ended in between; the estimate is GAE (Schulman et al. 2016) over these.
    """
    steps, tables = seat.shape
    seats, values = reward.shape[2], reward.shape[3]
    earned = np.zeros((seats, values), np.float32)
    next_value = np.zeros((seats, values), np.float32)
    next_advantage = np.zeros((seats, values), np.float32)
    known = np.zeros(seats, np.bool_)
    for b in range(tables):
        earned[:] = 0.0
        known[:] = False
        last_row[:, b] = -1
        last_pending[:, b, :] = 0.0
        for t in range(steps - 1, -1 - seats, -1):
            # t below 0 are the carried decisions, which have happened before step 0; among them the order is no matter.
            row = t + seats
            if t >= 0:
                if done[t, b]:
                    earned[:] = 0.0
                    next_value[:] = 0.0
                    next_advantage[:] = 0.0
                    known[:] = True
                for other in range(seats):
                    for k in range(values):
                        earned[other, k] += reward[t, b, other, k]
                if not learner[t, b]:
                    trainable[row, b] = False
                    advantage[row, b, :] = 0.0
                    continue
            s = np.int64(seat[t, b]) if t >= 0 else np.int64(row)
            if t < 0:
                trainable[row, b] = False
                if not carried[s, b]:
                    advantage[row, b, :] = 0.0
                    continue
                for k in range(values):
                    earned[s, k] += pending[s, b, k]
            trainable[row, b] = known[s]
            for k in range(values):
                if known[s]:
                    error = earned[s, k] + next_value[s, k] - value[row, b, k]
                    next_advantage[s, k] = error + np.float32(gae_lambda) * next_advantage[s, k]
                else:
                    last_pending[s, b, k] = earned[s, k]
                    next_advantage[s, k] = 0.0
                advantage[row, b, k] = next_advantage[s, k]
                next_value[s, k] = value[row, b, k]
                earned[s, k] = 0.0
            if not known[s]:
                last_row[s, b] = row
                known[s] = True
