"""From scores to ranks and rewards, for any game in which the lowest score wins.

Leavers rank below all others, the earlier one lower; otherwise equal scores share a rank.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undertake.core.compile import compiled, i64
from undertake.core.game import Options, paid, score

__all__ = ["MARGIN", "RANK", "SCORE", "WIN", "final_reward", "rank", "win_share", "worst_return"]

RANK, WIN, SCORE, MARGIN = range(4)
"""The kinds of reward in the order of `core.game.REWARDS`."""


@compiled
def _beats(state: np.record, a: int, b: int) -> int:
    """1 where seat a ranks above seat b, -1 below, 0 with it."""
    left_a, left_b = i64(state.resigned[a]), i64(state.resigned[b])
    if left_a != left_b:
        if left_a == 0:
            return 1
        return -1 if left_b == 0 or left_a < left_b else 1
    difference = score(state, b) - score(state, a)
    return 1 if difference > 0 else (-1 if difference < 0 else 0)


@compiled
def rank(state: np.record, seat: int) -> float:
    """The rank of `seat` if the game ended now, 1 the best; equal ones share the mean of their ranks."""
    above, equal = 0, 1
    for other in range(state.num_players):
        if other != seat:
            result = _beats(state, other, seat)
            if result > 0:
                above += 1
            elif result == 0:
                equal += 1
    return above + (equal + 1) / 2


@compiled
def win_share(state: np.record, seat: int) -> float:
    """1/k for each of k players who share the first rank, 0 for the others."""
    equal = 1
    for other in range(state.num_players):
        if other != seat:
            result = _beats(state, other, seat)
            if result > 0:
                return 0.0
            if result == 0:
                equal += 1
    return 1.0 / equal


@compiled
def margin(state: np.record, seat: int) -> float:
    """The mean of the others' scores less one's own, if the game ended now."""
    total = 0
    for other in range(state.num_players):
        if other != seat:
            total += score(state, other)
    return total / (i64(state.num_players) - 1) - score(state, seat)


@compiled
def final_reward(state: np.record, seat: int, kind: int) -> float:
    """What `seat` is paid when it is done, besides what the kind SCORE pays on the way.

    RANK (n + 1 - 2r) / (n - 1); WIN win share - 1/n; MARGIN the mean of the others' scores - own; SCORE 0.
    """
    players = i64(state.num_players)
    if kind == RANK:
        return (players + 1 - 2 * rank(state, seat)) / (players - 1)
    if kind == WIN:
        return win_share(state, seat) - 1.0 / players
    if kind == MARGIN:
        return margin(state, seat)
    return 0.0


@compiled
def note_paid(state: np.record, reward: npt.NDArray[np.float32], b: int) -> None:
    """For the kind SCORE: note in `reward[b]` (float32 [n]) what has been paid before a decision."""
    for seat in range(state.num_players):
        reward[b, seat] = paid(state, seat)


@compiled
def pay(state: np.record, kind: int, reward: npt.NDArray[np.float32], b: int) -> None:
    """Write to `reward[b]` the rewards of the decision just played; who had left was paid on leaving.

    For the kind SCORE `reward[b]` holds what `note_paid` wrote there before the decision, else zeros.
    """
    over = state.turn < 0
    for seat in range(state.num_players):
        if state.resigned[seat] != 0:
            reward[b, seat] = 0
        elif kind == SCORE:
            reward[b, seat] -= paid(state, seat)
        elif over:
            reward[b, seat] = final_reward(state, seat, kind)


def worst_return(options: Options, kind: int) -> float:
    """A bound that no return of the kind can be below: what an illegal action costs."""
    low, high = options.score_bounds()
    return (-1.0, -1.0 / options.num_players, -high, low - high)[kind]
