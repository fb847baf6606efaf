"""Scripted bots in some seats of some tables, so that the policy also learns to beat those who play worse than it does.

Letters: B tables, n seats.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core.batch import records
from undertake.core.compile import compiled
from undertake.core.game import Game, choose, see
from undertake.core.rng import GAMMA, below, mix, stream
from undertake_training.config import ConfigError, Opponents

__all__ = ["ScriptedSeats"]

LEARNER = -1
"""Mark of a seat that the policy being trained plays."""


@compiled
def _next(keys: npt.NDArray[np.uint64], b: int) -> np.uint64:
    """The next word of table b's own random stream."""
    keys[b] = keys[b] + GAMMA
    return mix(keys[b])


@compiled
def _seat(
    keys: npt.NDArray[Any], tables: npt.NDArray[np.bool_], share: float, bots: int, seats: npt.NDArray[Any]
) -> None:
    """At the marked tables draw anew who sits where: with chance `share` one to n - 1 bots, else none."""
    n = seats.shape[1]
    for b in range(seats.shape[0]):
        if not tables[b]:
            continue
        seats[b, :] = -1
        if below(_next(keys, b), 1 << 20) >= share * (1 << 20):
            continue
        left = 1 + below(_next(keys, b), n - 1)
        # As many of the seats, evenly: each is taken with the chance that those still wanted leave it.
        for s in range(n):
            if below(_next(keys, b), n - s) < left:
                seats[b, s] = below(_next(keys, b), bots)
                left -= 1


@compiled
def _act(
    states: npt.NDArray[Any],
    views: npt.NDArray[Any],
    keys: npt.NDArray[Any],
    bots: npt.NDArray[Any],
    recall: bool,
    seats: npt.NDArray[Any],
    actions: npt.NDArray[np.int64],
    learner: npt.NDArray[np.bool_],
) -> None:
    """Overwrite the action of every table where a bot is to act; `learner` marks the others."""
    view = views[0]
    for b in range(states.shape[0]):
        turn = states[b].turn
        bot = seats[b, turn]
        learner[b] = bot < 0
        if bot >= 0:
            see(states[b], turn, recall, view)
            actions[b] = choose(view, bots[bot], _next(keys, b))


@compiled
def _seed(keys: npt.NDArray[Any], seed: np.uint64) -> None:
    for b in range(keys.shape[0]):
        keys[b] = stream(mix(seed), b)


class ScriptedSeats:
    """Who sits where at B tables: `seats` int8 `[B, n]`, -1 the policy being trained, else the number of a bot."""

    def __init__(self, game: Game, settings: Opponents, *, tables: int, num_players: int, view: str, seed: int) -> None:
        self._share, self._recall = settings.tables, view == "recall"
        self._bots = _records(game, settings.bots)
        self._views = records(game.view_dtype)
        self.keys = np.zeros(tables, np.uint64)
        self.seats = np.full((tables, num_players), LEARNER, np.int8)
        self.learner = np.ones(tables, np.bool_)
        _seed(self.keys, np.uint64(seed))
        self.seat(np.ones(tables, np.bool_))

    def seat(self, tables: npt.NDArray[np.bool_]) -> None:
        """Draw anew who sits at the tables marked in bool `[B]`: those where a game begins."""
        if len(self._bots):
            _seat(self.keys, tables, self._share, len(self._bots), self.seats)

    def act(self, states: npt.NDArray[Any], actions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Let the bots choose: overwrite their tables' `actions` `[B]`; returns where the policy acts, bool `[B]`."""
        if len(self._bots):
            _act(states, self._views, self.keys, self._bots, self._recall, self.seats, actions, self.learner)
        return self.learner


def _records(game: Game, names: Sequence[str]) -> npt.NDArray[Any]:
    """The `BOT` records of the named bots of the game."""
    bots: Mapping[str, Any] = game.bots
    for name in names:
        if name not in bots:
            near = difflib.get_close_matches(name, bots, 1, 0.0)
            raise ConfigError(f"opponents.bots: {game.title} has no bot {name!r}; did you mean {near[0]!r}?")
    if not names:
        return np.zeros(0)
    return np.concatenate([bots[name] for name in names]).view(np.recarray)
