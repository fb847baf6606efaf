"""Training tables of one size: games, who sits where, and bots that act by themselves.

At these tables only the decisions of networks come to the surface, those of the policy being trained and of the trained
policies among the opponents; bots decide inside the compiled call that plays on.

Letters: B tables, n seats, N actions, D features, E extra numbers for the critic, K opponents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core.batch import Batch, records
from undertake.core.compile import compiled
from undertake.core.game import choose, encode, legal, play, reveal, score, see, shuffle, start
from undertake.core.memory import Memory, Past
from undertake.core.rng import GAMMA, below, mix, stream
from undertake_training.opponents import Cast

__all__ = ["LEARNER", "Tables", "extra_scale"]

Array = npt.NDArray[Any]

LEARNER = -1
"""Mark of a seat that the policy being trained plays."""

_FINE = 1 << 20


@compiled
def _next(keys: npt.NDArray[np.uint64], b: int) -> np.uint64:
    """The next word of table b's own random stream."""
    keys[b] = keys[b] + GAMMA
    return mix(keys[b])


@compiled
def _seat(keys: Array, b: int, fields: float, mixed: float, weights: Array, seats: Array) -> None:
    """Draw who sits at table b: with chance `fields` one opponent in all seats but one, with chance `mixed` some."""
    n = seats.shape[1]
    seats[b, :] = LEARNER
    if weights.size == 0:
        return
    kind = below(_next(keys, b), _FINE)
    if kind < fields * _FINE:
        seats[b, :] = weights[below(_next(keys, b), weights.size)]
        seats[b, below(_next(keys, b), n)] = LEARNER
    elif kind < (fields + mixed) * _FINE:
        left = 1 + below(_next(keys, b), n - 1)
        # As many of the seats, evenly: each is taken with the chance that those still wanted leave it.
        for s in range(n):
            if below(_next(keys, b), n - s) < left:
                seats[b, s] = weights[below(_next(keys, b), weights.size)]
                left -= 1


@compiled
def _begin(keys: Array, seed: np.uint64, fields: float, mixed: float, weights: Array, seats: Array) -> None:
    for b in range(seats.shape[0]):
        keys[b] = stream(mix(seed), b)
        _seat(keys, b, fields, mixed, weights, seats)


@compiled
def _play_on(
    states: Array,
    views: Array,
    recall: bool,
    bots: Array,
    scripted: Array,
    fields: float,
    mixed: float,
    weights: Array,
    keys: Array,
    seats: Array,
    done: Array,
    reached: Array,
    standing: Array,
    pure: Array,
) -> None:
    """Let the bots decide until a network has to, at every table; games that end are dealt and seated anew.

    `done` and `reached` tell of the game that the last step played in; what happens in a game before a network's first
    decision in it is nobody's merit, even where that game ends.
    """
    view = views[0]
    for b in range(states.shape[0]):
        state = states[b]
        pure[b] = done[b]
        if done[b]:
            for s in range(seats.shape[1]):
                pure[b] &= seats[b, s] == LEARNER
            _seat(keys, b, fields, mixed, weights, seats)
        while True:
            turn = state.turn
            k = seats[b, turn]
            if k == LEARNER or not scripted[k]:
                break
            see(state, turn, recall, view)
            play(state, choose(view, bots[k], _next(keys, b)))
            if state.turn < 0:
                if not done[b]:
                    done[b] = True
                    for s in range(seats.shape[1]):
                        reached[b, s] = score(state, s)
                shuffle(state)
                start(state, -1)
                _seat(keys, b, fields, mixed, weights, seats)
        for s in range(seats.shape[1]):
            standing[b, s] = score(state, s)
            if not done[b]:
                reached[b, s] = standing[b, s]


@compiled
def _look(
    states: Array,
    views: Array,
    recall: bool,
    seats: Array,
    kinds: int,
    hidden: int,
    seat: Array,
    occupant: Array,
    observation: Array,
    action_mask: Array,
    extra: Array,
) -> None:
    """Write what the seat to act may know, and for the critic what is hidden and who sits where, seats relative."""
    view = views[0]
    tables, n = seats.shape
    num_features, num_actions, num_extra = observation.size // tables, action_mask.size // tables, extra.size // tables
    for b in range(tables):
        turn = states[b].turn
        seat[b] = turn
        occupant[b] = seats[b, turn]
        see(states[b], turn, recall, view)
        encode(view, observation, b * num_features)
        legal(view, action_mask, b * num_actions)
        if num_extra:
            at = b * num_extra
            reveal(states[b], turn, extra, at)
            extra[at + hidden : at + num_extra] = 0
            for i in range(n):
                other = turn + i if turn + i < n else turn + i - n
                extra[at + hidden + i * kinds + seats[b, other] + 1] = 1


class Tables:
    """B tables of n seats.

    Attributes:
        seats: int8 `[B, n]`, `LEARNER` or an opponent's number in the cast
        seat: int64 `[B]`, the seat to act, as `look` found it
        occupant: int8 `[B]`, who sits there
        done: bool `[B]`, whether the last step's game ended
        reached: float32 `[B, n]`, its final scores, or the scores as if it ended now
        standing: float32 `[B, n]`, the scores as if the present game ended now
        pure: bool `[B]`, whether a game ended that the learner played in all seats
    """

    def __init__(
        self, batch: Batch, cast: Cast, *, fields: float, mixed: float, seed: int, memory: Memory | None = None
    ) -> None:
        self.batch, self.cast = batch, cast
        tables, n = batch.num_envs, batch.num_players
        self._memory = Past(batch.game.layouts[batch.view], memory, tables, n) if memory and memory.decisions else None
        self._rows, self._seen = np.arange(tables), np.zeros((tables, batch.num_features), np.uint8)
        self._states = batch.states.view(batch.game.state_dtype).view(np.ndarray)
        self._fields, self._mixed = fields, mixed
        self._views = records(batch.game.view_dtype)
        self._recall = batch.view == "recall"
        self.keys = np.zeros(tables, np.uint64)
        self.seats = np.full((tables, n), LEARNER, np.int8)
        self.seat = np.zeros(tables, np.int64)
        self.occupant = np.zeros(tables, np.int8)
        self.done = np.zeros(tables, np.bool_)
        self.pure = np.zeros(tables, np.bool_)
        self.reached = np.zeros((tables, n), np.float32)
        self.standing = np.zeros((tables, n), np.float32)
        _begin(self.keys, np.uint64(seed), fields, mixed, cast.weights, self.seats)
        self._play_on()

    def look(self, observation: Array, action_mask: Array, extra: Array) -> None:
        """Write what the seats to act see: uint8 `[B, D]`, int8 `[B, N]`, uint8 `[B, E]`, E = 0 for no critic.

        With a memory the first is `[B, D + k M]`, see `core.memory`. The arrays are contiguous, with 64 bytes that may
        be overwritten behind the first two.
        """
        kinds, hidden = len(self.cast.names) + 1, self.batch.game.hidden_layout.size
        _look(
            *(self._states, self._views, self._recall, self.seats, kinds, hidden, self.seat, self.occupant),
            *(observation.reshape(-1), action_mask.reshape(-1), extra.reshape(-1)),
        )
        if self._memory:
            self._memory.stack(self._rows, self.seat, observation)
            self._seen = observation

    def reseat(self, cast: Cast, fields: float, mixed: float) -> None:
        """Draw who sits where in other proportions from the next game on; the opponents are the same."""
        self.cast, self._fields, self._mixed = cast, fields, mixed

    def step(self, actions: npt.NDArray[np.int64]) -> None:
        """Play one decision a table, `actions` int64 `[B]`, then what the bots decide."""
        self.batch.step(actions)
        self.done[:] = self.batch.done
        self.reached[:] = self.batch.score
        self._play_on()
        if self._memory:
            self._memory.push(self._rows, self.seat, self._seen)
            self._memory.forget(self.done)

    def _play_on(self) -> None:
        cast = self.cast
        _play_on(
            *(self._states, self._views, self._recall, cast.bots, cast.scripted),
            *(self._fields, self._mixed, cast.weights, self.keys, self.seats),
            *(self.done, self.reached, self.standing, self.pure),
        )

    def arrays(self) -> dict[str, Array]:
        """All that carries the tables from one step to the next, as views."""
        found = {"states": self.batch.states, "keys": self.keys, "seats": self.seats, "standing": self.standing}
        return found | ({"memory": self._memory.kept} if self._memory else {})


def extra_scale(game: Any, cast: Cast) -> npt.NDArray[np.float32]:
    """float32 `[E]`: the scale of the numbers that `Tables.look` writes for the critic."""
    kinds = len(cast.names) + 1
    return np.concatenate([game.hidden_layout.scale, np.ones(game.max_players * kinds, np.float32)])
