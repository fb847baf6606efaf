"""6 nimmt! over the tree of all that can be played: hands are hidden, so what counts is what a player has seen.

The tree grows one decision at a time, all deals at once. Who chooses at the same time as others chooses after them
here, and sees nothing of it. Letters: K nodes of a level, n seats, N actions.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.deals import look
from undertake.core.batch import new_states, records
from undertake.core.compile import compiled
from undertake.core.game import Game, play, score, start
from undertake.core.reward import SCORE, final_reward
from undertake.exact.policy import Chances
from undertake.exact.positions import hashes
from undertake.exact.response import Response

__all__ = ["tree_response"]

MAX_NODES = 1_000_000
_PAD = 64  # `legal` writes 64 bytes at a time, the last of them past the row's end

Numbers = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@compiled
def _start(states: npt.NDArray[Any]) -> None:
    for i in range(states.shape[0]):
        start(states[i], 0)


@compiled
def _play(states: npt.NDArray[Any], parents: Indices, actions: Indices, out: npt.NDArray[Any]) -> None:
    for k in range(parents.shape[0]):
        out[k] = states[parents[k]]
        play(out[k], actions[k])


@compiled
def _final(states: npt.NDArray[Any], kind: int, out: Numbers) -> None:
    for i in range(states.shape[0]):
        if states[i].turn < 0:
            for seat in range(out.shape[1]):
                out[i, seat] = -score(states[i], seat) if kind == SCORE else final_reward(states[i], seat, kind)


@dataclass
class Level:
    """The nodes after the same number of decisions.

    Attributes:
        seat: who is to act, -1 at the end, [K]
        info: the information set of that seat, [K]
        parent: node of the level before, [K]
        action: the action that led here, [K]
        final: what each seat is paid at the end, else 0, [K, n]
        weight: for each seat the chance of coming here if that seat sees to it, [K, n]
        reach: the chance of coming here if all play the policy, [K]
    """

    seat: Indices
    info: Indices
    parent: Indices
    action: Indices
    final: Numbers
    weight: Numbers
    reach: Numbers


def tree_response(game: Game, options: Any, policy: Chances, kind: int) -> Response:
    """The values of `policy`, played by all, and of a best response to it from each seat."""
    levels = _grow(game, options, policy, kind)
    players = options.num_players
    values = sum(level.reach @ level.final for level in levels)
    above = np.zeros((0, players))
    for level, below in zip(reversed(levels), [None, *reversed(levels)], strict=False):
        mine = level.weight * level.final
        if below is not None:
            for seat in range(players):
                mine[:, seat] += _best(level, below, above[:, seat], seat, game.num_actions)
        above = mine
    return Response(tuple(np.asarray(values).tolist()), tuple(above.sum(axis=0).tolist()))


def _best(level: Level, below: Level, values: Numbers, seat: int, num_actions: int) -> Numbers:
    """The weighted values of the level's nodes for `seat` from those of their children."""
    own = level.seat[below.parent] == seat
    found = np.zeros(len(level.seat))
    found += np.bincount(below.parent[~own], values[~own], len(level.seat))
    if own.any():
        # In an information set the player cannot tell the nodes apart: one action for all of them.
        info = level.info[below.parent[own]]
        slot = info * num_actions + below.action[own]
        count = (int(level.info.max()) + 1) * num_actions
        total = np.where(np.bincount(slot, minlength=count) > 0, np.bincount(slot, values[own], count), -np.inf)
        chosen = total.reshape(-1, num_actions).argmax(axis=1)
        taken = below.action[own] == chosen[info]
        found[below.parent[own][taken]] = values[own][taken]
    return found


def _deals(options: Any) -> npt.NDArray[np.uint8]:
    """Every deal once, in dealing order, the cards of a hand ascending; all are equally likely."""
    deck, sizes = list(options.cards()), [options.hand_size] * options.num_players
    count, left = 1, len(deck)
    for size in sizes:
        count, left = count * math.comb(left, size), left - size
    count *= math.perm(left, options.num_rows)
    least = count * math.factorial(options.hand_size) ** options.num_players
    if least > MAX_NODES:
        raise ValueError(f"the game can go {least:,} ways or more; exact values are to be had up to {MAX_NODES:,}")

    def hands(cards: list[int], sizes: list[int]) -> list[list[int]]:
        if not sizes:
            return [list(rows) for rows in itertools.permutations(cards, options.num_rows)]
        return [
            [*hand, *rest]
            for hand in itertools.combinations(cards, sizes[0])
            for rest in hands([card for card in cards if card not in hand], sizes[1:])
        ]

    return np.array(hands(deck, sizes), np.uint8)


def _grow(game: Game, options: Any, policy: Chances, kind: int) -> list[Level]:
    if options.length != "hand":
        raise ValueError(f"length is {options.length!r}; exact values are those of one hand, length='hand'")
    deals = _deals(options)
    count, players = len(deals), options.num_players
    states = new_states(game, options, count)
    states["deck"][:, : deals.shape[1]] = deals
    _start(states)
    nowhere = np.zeros(count, np.int64)
    weight, reach = np.full((count, players), 1 / count), np.full(count, 1 / count)
    memory = np.zeros((count, players), np.uint64)  # what each seat has seen and done, as a hash
    levels: list[Level] = []
    parents, actions = nowhere, nowhere
    while len(states):
        final = np.zeros((len(states), players))
        _final(states, kind, final)
        seat, info = states["turn"].astype(np.int64), np.full(len(states), -1, np.int64)
        levels.append(Level(seat, info, parents, actions, final, weight, reach))
        at = np.flatnonzero(seat >= 0)
        if not len(at):
            break
        asked, turn = _picked(states, at), seat[at]
        seen, mask = _look(game, asked, turn)
        memory[at, turn] = hashes(np.column_stack([memory[at, turn], turn.astype(np.uint64), seen]))
        _, info[at] = np.unique(memory[at, turn], return_inverse=True)
        chance = policy.of(asked, turn)
        rows, actions = mask.nonzero()
        parents, chosen = at[rows], chance[rows, actions]
        if len(parents) > MAX_NODES:
            raise ValueError(f"the game has more than {MAX_NODES:,} positions after {len(levels)} decisions")
        children = np.zeros(len(parents), states.dtype)
        _play(states, parents, actions, children)
        free = np.arange(players) == seat[parents][:, None]
        weight, reach = weight[parents] * np.where(free, 1.0, chosen[:, None]), reach[parents] * chosen
        memory, mover = memory[parents], turn[rows]
        every = np.arange(len(parents))
        memory[every, mover] = hashes(np.column_stack([memory[every, mover], actions.astype(np.uint64)]))
        states = children
    return levels


def _picked(states: npt.NDArray[Any], at: Indices) -> npt.NDArray[Any]:
    """Some of the records, whole: numpy leaves the bytes between fields as it likes."""
    rows = states.view(np.uint8).reshape(len(states), -1)
    return rows[at].view(states.dtype).reshape(-1)


def _look(game: Game, states: npt.NDArray[Any], seats: Indices) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int8]]:
    """What each seat sees, as words of its view record with a perfect memory, and its mask [K, N]."""
    views = records(game.view_dtype, len(states))
    flat = np.zeros(len(states) * game.num_actions + _PAD, np.int8)[: len(states) * game.num_actions]
    look(states, seats, True, views, np.zeros(0, np.uint8), flat)
    return views.view(np.uint64).reshape(len(views), -1), flat.reshape(len(states), game.num_actions)
