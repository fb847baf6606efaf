"""Scripted baselines for 6 nimmt!. They see views and nothing else; all take the cheapest row where one is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from undertake.core.bits import highest_bit, lowest_bit, nth_bit, popcount
from undertake.core.compile import compiled, i64
from undertake.core.game import BOT
from undertake.core.rng import below
from undertake.six_nimmt.rules import CHOOSE_ROW, TAKE_ROW, cheapest, row_for
from undertake.six_nimmt.view import count_below

RANDOM, LOWEST, HIGHEST, CLOSEST_GAP, SHORTEST_ROW, GAP_SLOTS, EXP_COST = range(7)

_ONE = np.uint64(1)
_WORST = 1e9


@compiled
def _chance_full(free: int, between: int, unseen: int, opponents: int) -> float:
    """The chance that `opponents` cards drawn from `unseen` hold at least `free` of the `between` (hypergeometric)."""
    if free <= 0:
        return 1.0
    if between < free or opponents < free:
        return 0.0
    # P(no hit), then each further number of hits from the one before.
    chance = 1.0
    for i in range(opponents):
        chance *= max(unseen - between - i, 0) / (unseen - i)
    if chance == 0.0:
        return 1.0  # so few other cards are unseen that hits are certain
    fewer = chance
    for hits in range(1, free):
        chance *= (between - hits + 1) * (opponents - hits + 1)
        chance /= hits * (unseen - between - opponents + hits)
        fewer += chance
    return 1.0 - fewer


@compiled
def _cost(view: np.record, kind: int, card: int) -> float:
    """What a bot has against playing `card`; it plays the card with the least, the lowest of equal ones.

    Where the sources of these rules leave a case open, it is settled so that the published mean bulls against a field
    of random come out: SHORTEST_ROW counts a full row as six cards too, and of such cards plays the cheapest;
    GAP_SLOTS takes the cheapest row's bulls for the gap of a card below all rows, and a full row only in need; among
    cards of equal cost EXP_COST plays the highest.
    """
    row = row_for(view, card)
    least = i64(view.row_bulls[cheapest(view)])
    if row < 0:
        if kind == SHORTEST_ROW:
            return 6.0 + least / 100
        if kind == CLOSEST_GAP:
            return 1000.0 + least
        return float(least) if kind == GAP_SLOTS else least - card / 1000
    gap = card - i64(view.row_end[row])
    free = i64(view.row_size) - i64(view.row_length[row])
    bulls = i64(view.row_bulls[row])
    if kind == SHORTEST_ROW:
        return 6.0 + bulls / 100 if free == 0 else float(view.row_length[row])
    if kind != EXP_COST:
        if free == 0:
            return 1000.0 + bulls
        return float(gap - 5 * free) if kind == GAP_SLOTS else float(gap)
    unseen = popcount(view.unseen[0]) + popcount(view.unseen[1])
    lower = count_below(view.unseen[0], view.unseen[1], card)
    between = lower - count_below(view.unseen[0], view.unseen[1], card - gap + 1)
    opponents = 0
    for i in range(1, view.num_players):
        opponents += 1 if view.resigned[i] == 0 else 0
    return _chance_full(free, between, unseen, min(opponents, unseen)) * bulls - card / 1000


@compiled
def choose(view: np.record, bot: np.record, word: np.uint64) -> int:
    """The action of the bot for the seat that looks, which has a decision to make."""
    if view.phase == CHOOSE_ROW:
        return TAKE_ROW + cheapest(view)
    kind = bot.kind
    low = view.hand[0]
    high = view.hand[1]
    if kind == RANDOM:
        in_low = popcount(low)
        n = below(word, in_low + popcount(high))
        return nth_bit(low, n) if n < in_low else 64 + nth_bit(high, n - in_low)
    if kind == LOWEST:
        return lowest_bit(low) if low != 0 else 64 + lowest_bit(high)
    if kind == HIGHEST:
        return 64 + highest_bit(high) if high != 0 else highest_bit(low)
    best, best_cost = 0, _WORST
    for half in range(2):
        rest = high if half == 1 else low
        while rest != 0:
            card = lowest_bit(rest) + 64 * half + 1
            rest &= rest - _ONE
            cost = _cost(view, kind, card)
            if cost < best_cost:
                best, best_cost = card, cost
    return best - 1


def _bot(kind: int) -> np.ndarray[Any, Any]:
    bot = np.zeros(1, BOT)
    bot["kind"] = kind
    return bot


BOTS = {
    "random": _bot(RANDOM),
    "lowest": _bot(LOWEST),
    "highest": _bot(HIGHEST),
    "closest_gap": _bot(CLOSEST_GAP),
    "shortest_row": _bot(SHORTEST_ROW),
    "gap_slots": _bot(GAP_SLOTS),
    "exp_cost": _bot(EXP_COST),
}
"""The bots by name: `BOT` arrays of one."""
