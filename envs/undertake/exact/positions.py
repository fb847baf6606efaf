"""No Thanks! over its public positions: everything that anybody knows is known to a player who remembers.

Positions lie in layers by the cards turned up and the chips on the middle card: passing leads to the next layer, taking
to the first one with a card more, so that every position is met once and values follow from the last layer to the
first. Two histories lead to the same position where all that matters is the same: what lies in front of whom, chips,
whose turn it is, and, for policies that are shown it, how the seats have decided.

Letters: K positions of a layer, C cards not yet turned up, n seats, W words of a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core.batch import new_states, records
from undertake.core.compile import compiled
from undertake.core.game import Game, imagine, is_legal, play, score, start
from undertake.core.reward import SCORE, final_reward
from undertake.core.rng import mix
from undertake.exact.policy import Chances

__all__ = ["Graph", "Solution", "build", "hashes", "response_value", "solution"]

PASS, TAKE = 0, 1
MAX_POSITIONS = 3_000_000
_DECISIONS = ("dearest", "cheapest", "takes", "refusals")  # how the seats have decided

Rows = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]


@compiled
def _start(states: npt.NDArray[Any]) -> None:
    for i in range(states.shape[0]):
        start(states[i], 0)
        states[i].deck[0] = 0


@compiled
def _can_pass(states: npt.NDArray[Any], found: npt.NDArray[np.bool_]) -> None:
    for i in range(states.shape[0]):
        found[i] = is_legal(states[i], PASS)


@compiled
def _after_pass(states: npt.NDArray[Any], at: Indices, out: npt.NDArray[Any]) -> None:
    for k in range(at.shape[0]):
        out[k] = states[at[k]]
        play(out[k], PASS)


@compiled
def _after_take(states: npt.NDArray[Any], at: Indices, lowest: int, highest: int, out: npt.NDArray[Any]) -> None:
    """What can follow when the middle card is taken: one position for each card not yet seen, in ascending order."""
    child = 0
    for k in range(at.shape[0]):
        seen = states[at[k]].seen
        for card in range(lowest, highest + 1):
            if (seen >> np.uint64(card)) & np.uint64(1) == 0:
                out[child] = states[at[k]]
                place = out[child].drawn
                out[child].deck[place] = card
                play(out[child], TAKE)
                out[child].deck[place] = 0
                child += 1


@compiled
def _final(states: npt.NDArray[Any], at: Indices, kind: int, scratch: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """What each seat is paid when the last card is taken; `out` [K, n]."""
    for k in range(at.shape[0]):
        scratch[0] = states[at[k]]
        play(scratch[0], TAKE)
        for seat in range(out.shape[1]):
            paid = -score(scratch[0], seat) if kind == SCORE else final_reward(scratch[0], seat, kind)
            out[at[k], seat] = paid


@compiled
def _hash(rows: Rows, out: Rows) -> None:
    for i in range(rows.shape[0]):
        word = np.uint64(0)
        for j in range(rows.shape[1]):
            word = mix(word ^ rows[i, j])
        out[i] = word


@compiled
def _imagine(views: npt.NDArray[Any], states: npt.NDArray[Any]) -> None:
    for i in range(views.shape[0]):
        imagine(views[i], np.uint64(0), states[i])


def hashes(rows: Rows) -> Rows:
    """A uint64 for each row [K, W]."""
    found = np.empty(len(rows), np.uint64)
    _hash(rows, found)
    return found


def _distinct(rows: Rows) -> tuple[Rows, Indices]:
    """The rows that differ, and for each row which of these it is."""
    _, index, inverse = np.unique(hashes(rows), return_index=True, return_inverse=True)
    if not np.array_equal(rows[index[inverse]], rows):
        raise RuntimeError("two different positions have the same hash")  # for a million of them 1 in 10**7
    return rows[index], inverse


def _rows(states: npt.NDArray[Any]) -> Rows:
    """The records as words: picking records, numpy would leave the bytes between their fields as it likes."""
    return states.view(np.uint64).reshape(len(states), -1)


@dataclass
class Layer:
    """Positions with the same number of cards turned up and of chips on the middle card.

    Attributes:
        seat: who is to act, [K]
        passing: the probability with which the policy of that seat passes, NaN where the seat is free to choose, [K]
        can_pass: whether passing is legal, [K]
        after_pass: position of the next layer, -1 where none is reached, [K]
        after_take: positions of the layer `takes_to`, all equally likely, [K, C]; -1 where none is reached
        takes_to: number of that layer, -1 where the last card is taken
        final: what each seat is then paid, [K, n]
        rows: the records themselves, [K, W], where they are kept
    """

    seat: Indices
    passing: npt.NDArray[np.float64]
    can_pass: npt.NDArray[np.bool_]
    after_pass: Indices
    after_take: Indices
    takes_to: int = -1
    final: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    rows: Rows | None = None


@dataclass(frozen=True)
class Graph:
    """All layers that can be reached; the positions of the first are the first cards, all equally likely."""

    layers: list[Layer]

    @property
    def num_positions(self) -> int:
        """Positions in which somebody has to decide."""
        return sum(len(layer.seat) for layer in self.layers)


def build(
    game: Game, options: Any, plays: Sequence[Chances | None], kind: int, forget: bool, keep: bool = False
) -> Graph:
    """All positions that can be reached when seats play policies, and every legal action where `plays` is None.

    With `forget` positions that differ in nothing but how the seats have decided are one; with `keep` the layers hold
    their records. Raises ValueError where there are too many.
    """
    cards, players = options.cards(), options.num_players
    played = len(cards) - options.removed
    states = new_states(game, options, len(cards))
    states["deck"][:, 0] = cards
    dtype = states.dtype
    _start(states)
    front = _forgotten(states, forget)
    layers: list[Layer] = []
    found = awaited = 0
    for drawn in range(1, played + 1):
        first, taken = len(layers), []
        while len(front):
            found += len(front)
            if found + awaited + len(front) * (len(cards) - drawn) > MAX_POSITIONS:
                raise ValueError(f"the game has more than {MAX_POSITIONS:,} positions; fewer cards or chips are needed")
            layer, states = _layer(front, dtype, plays, keep), front.view(dtype).reshape(-1)
            layers.append(layer)
            takes = np.flatnonzero(layer.passing != 1)
            if drawn < played:
                children = np.zeros(len(takes) * (len(cards) - drawn), dtype)
                _after_take(states, takes, cards[0], cards[-1], children)
                taken.append((layer, takes, _distinct(_forgotten(children, forget))))
                awaited += len(taken[-1][2][0])
            else:
                layer.final = np.zeros((len(front), players))
                _final(states, takes, kind, np.zeros(1, dtype), layer.final)
            passes = np.flatnonzero(layer.can_pass & (layer.passing != 0))
            children = np.zeros(len(passes), dtype)
            _after_pass(states, passes, children)
            front, layer.after_pass[passes] = _distinct(_forgotten(children, forget))
        if drawn < played:
            front, awaited = _join(taken, len(layers), len(cards) - drawn), 0
        assert len(layers) > first
    return Graph(layers)


def _layer(rows: Rows, dtype: np.dtype[Any], plays: Sequence[Chances | None], keep: bool) -> Layer:
    states = rows.view(dtype).reshape(-1)
    count, seat = len(states), states["turn"].astype(np.int64)
    passing, can_pass = np.full(count, np.nan), np.zeros(count, np.bool_)
    for number, policy in enumerate(plays):
        at = np.flatnonzero(seat == number)
        if policy is not None and len(at):
            asked = rows[at].view(dtype).reshape(-1)
            passing[at] = policy.of(asked, seat[at])[:, PASS]
    _can_pass(states, can_pass)
    nowhere = np.full(count, -1, np.int64)
    return Layer(seat, passing, can_pass, nowhere, np.empty((count, 0), np.int64), rows=rows if keep else None)


def _forgotten(states: npt.NDArray[Any], forget: bool) -> Rows:
    if forget:
        for name in _DECISIONS:
            states[name] = 0
    return _rows(states) if len(states) else np.empty((0, states.itemsize // 8), np.uint64)


def _join(taken: list[tuple[Layer, Indices, tuple[Rows, Indices]]], number: int, unseen: int) -> Rows:
    """The first layer with one card more, from what the takes of all layers before lead to."""
    front, inverse = _distinct(np.concatenate([rows for _, _, (rows, _) in taken]))
    at = 0
    for layer, takes, (rows, which) in taken:
        layer.takes_to = number
        layer.after_take = np.full((len(layer.seat), unseen), -1, np.int64)
        layer.after_take[takes] = inverse[at + which].reshape(-1, unseen)
        at += len(rows)
    return front


def _values(layer: Layer, number: int, values: list[npt.NDArray[np.float64]], seat: int) -> tuple[Any, Any]:
    """The values for `seat` after a pass and after a take, [K]; NaN never, 0 where a policy does not go there."""
    nothing = np.zeros(1)
    below = values[number + 1] if number + 1 < len(values) else nothing
    after_pass = np.append(below, 0.0)[layer.after_pass]
    if layer.takes_to < 0:
        return after_pass, layer.final[:, seat]
    return after_pass, np.append(values[layer.takes_to], 0.0)[layer.after_take].mean(axis=1)


def response_value(graph: Graph, seat: int) -> float:
    """The expected reward of `seat`, which chooses the best where it is free to choose; the others play policies."""
    values: list[npt.NDArray[np.float64]] = [np.empty(0)] * len(graph.layers)
    for number in reversed(range(len(values))):
        layer = graph.layers[number]
        after_pass, after_take = _values(layer, number, values, seat)
        best = np.where(layer.can_pass, np.maximum(after_pass, after_take), after_take)
        mixed = layer.passing * after_pass + (1 - layer.passing) * after_take
        values[number] = np.where(np.isnan(layer.passing), best, mixed)
    return float(values[0].mean())


@dataclass(frozen=True)
class Solution:
    """Perfect play of a game for two.

    Attributes:
        value: the expected reward of the player who begins
        num_positions: positions in which somebody has to decide
    """

    value: float
    num_positions: int
    _game: Game = field(repr=False)
    _known: Rows = field(repr=False)  # hashes of all positions, sorted
    _rows: Rows = field(repr=False)
    _passes: npt.NDArray[np.bool_] = field(repr=False)  # whether passing is as good as taking, or better

    batched = True
    sees = "view"
    view = "recall"
    game = "no_thanks"
    name = "perfect"

    def act(self, views: Any, action_mask: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
        """The best actions (int64 [B]) for view records [B]: the solution is itself a policy for the arena.

        Of two that are as good as each other it passes. Raises ValueError for a position that is not of this game.
        """
        found = np.full(len(views), -1, np.int64)
        for mirrored in (False, True):  # positions are numbered for player_0 beginning
            todo = np.flatnonzero(found < 0)
            if len(todo):
                found[todo] = self._places(views, todo, mirrored)
        if (found < 0).any():
            raise ValueError("a position cannot be reached in the game that was solved; are the options the same?")
        return np.where(self._passes[found], PASS, TAKE)

    def _places(self, views: Any, at: Indices, mirrored: bool) -> Indices:
        """Where the positions are in the tables, -1 for one that is not there."""
        asked, states = records(self._game.view_dtype, len(at)), records(self._game.state_dtype, len(at))
        asked[:] = views[at]
        if mirrored:
            asked["seat"] = 1 - asked["seat"]
        _imagine(asked, states)
        states["rng"] = 0
        states["deck"] = 0
        rows = _forgotten(states, forget=True)
        words = hashes(rows)
        places = np.minimum(np.searchsorted(self._known, words), len(self._known) - 1)
        return np.where((self._rows[places] == rows).all(axis=1), places, -1)


def solution(game: Game, options: Any, kind: int) -> Solution:
    """Backward induction for two players and a zero-sum reward."""
    graph = build(game, options, (None, None), kind, forget=True, keep=True)
    values: list[npt.NDArray[np.float64]] = [np.empty(0)] * len(graph.layers)
    passes: list[npt.NDArray[np.bool_]] = [np.empty(0, np.bool_)] * len(graph.layers)
    for number in reversed(range(len(values))):
        layer = graph.layers[number]
        after_pass, after_take = _values(layer, number, values, 0)
        better = np.where(layer.seat == 0, after_pass >= after_take, after_pass <= after_take)
        passes[number] = layer.can_pass & better
        values[number] = np.where(passes[number], after_pass, after_take)
    rows = np.concatenate([layer.rows for layer in graph.layers if layer.rows is not None])
    words = hashes(rows)
    order = np.argsort(words)
    value = float(values[0].mean())
    return Solution(value, graph.num_positions, game, words[order], rows[order], np.concatenate(passes)[order])
