"""Scripted baselines for No Thanks!. They see views and nothing else.

D is the change of the player's own card score if it takes the card, pot the chips on the card; all take when they have
no chip. Where the others' chips are unknown (view "table") the rules that ask for them suppose that they have some.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertake.core.compile import compiled, i64
from undertake.core.game import BOT
from undertake.core.rng import below
from undertake.no_thanks.rules import PASS, TAKE, change

RANDOM, THRESHOLD, HALF_PRICE, TUNED, MILKER = range(5)

# a, b, c, d, k for up to three, four, and five and more players
_TUNED = np.array([[5.46, 0.344, 2.37, 1.92, 0.172], [4.26, 0.362, 1.99, 3.0, 0.186], [7.38, 0.337, 5.16, 3.41, 0.108]])
_ONE = np.uint64(1)


@compiled
def _someone_broke(view: np.record) -> bool:
    """Whether some opponent still in the game has no chip."""
    for i in range(1, view.num_players):
        if view.chips[i] == 0 and view.resigned[i] == 0:
            return True
    return False


@compiled
def _tuned(view: np.record, own: int) -> bool:
    """Take iff the pot reaches a bar linear in D, the card, the cards still undrawn and the chips in hand."""
    players = i64(view.num_players)
    row = 0 if players <= 3 else (1 if players == 4 else 2)
    a, b, c, d, k = _TUNED[row, 0], _TUNED[row, 1], _TUNED[row, 2], _TUNED[row, 3], _TUNED[row, 4]
    bar = b * own + k * (view.card - own) - a * view.cards_left / 23 + c + d * (view.chips[0] - 11) / 11
    return bool(view.pot >= bar or (view.pot >= own and _someone_broke(view)))


@compiled
def _unseen(view: np.record, seen: np.uint64, card: int) -> bool:
    return bool(view.lowest <= card <= view.highest and (seen >> np.uint64(card)) & _ONE == 0)


@compiled
def _run_hopes(view: np.record, across: float) -> float:
    """1 for each unseen neighbour of the card, plus `across` for each own card two away across an unseen one."""
    card = i64(view.card)
    seen = view.seen
    hopes = 0.0
    for step in (-1, 1):
        if _unseen(view, seen, card + step):
            hopes += 1.0
            if (view.cards[0] >> np.uint64(card + 2 * step)) & _ONE != 0:
                hopes += across
    return hopes


@compiled
def _wanted(view: np.record, y: float) -> bool:
    """Whether the card is likely to be taken before it comes round again."""
    if _someone_broke(view):
        return True
    passes = 0
    for i in range(1, view.num_players):
        if view.resigned[i] == 0:
            if change(view.cards[i], view.card) - view.pot - passes <= y:
                return True
            passes += 1
    return False


@compiled
def _milker(view: np.record, bot: np.record, own: int) -> bool:
    """Take what is cheap enough, but let a card that nobody else wants gather chips first."""
    p = bot.parameters
    t, u, v, w, y = p[0], p[1], p[2], p[3], p[4]
    x, z, m, q, s = p[5], p[6], p[7], p[8], p[9]
    chips = i64(view.chips[0])
    bar = t + u / (chips + 1) + (v if chips <= 2 else 0.0) + s * chips
    if own == view.card:
        bar += w * _run_hopes(view, z)
    if own - view.pot > bar:
        return False
    return bool(_wanted(view, y) or own > m or chips <= x or view.pot >= q)


@compiled
def choose(view: np.record, bot: np.record, word: np.uint64) -> int:
    """The action of the bot for the seat that looks, whose turn it is."""
    if view.chips[0] <= 0:
        return TAKE
    kind = bot.kind
    if kind == RANDOM:
        return below(word, 2)
    own = change(view.cards[0], view.card)
    if kind == THRESHOLD:
        take = own - view.pot <= bot.parameters[0]
    elif kind == HALF_PRICE:
        take = view.pot >= own / 2
    elif kind == TUNED:
        take = _tuned(view, own)
    else:
        take = _milker(view, bot, own)
    return TAKE if take else PASS


def _bot(kind: int, *parameters: float) -> np.ndarray[Any, Any]:
    bot = np.zeros(1, BOT)
    bot["kind"] = kind
    bot["parameters"][0, : len(parameters)] = parameters
    return bot


BOTS = {
    "random": _bot(RANDOM),
    "always_pass": _bot(THRESHOLD, -1000.0),
    "threshold_0": _bot(THRESHOLD, 0.0),
    "threshold_3": _bot(THRESHOLD, 3.0),
    "threshold_6": _bot(THRESHOLD, 6.0),
    "threshold_9": _bot(THRESHOLD, 9.0),
    "half_price": _bot(HALF_PRICE),
    "tuned": _bot(TUNED),
    "milker_win": _bot(MILKER, 11.129, 7.828, 2.477, 2.273, 10.281, 1.178, 1.337, 2.66, 8.891, -0.446),
    "milker_score": _bot(MILKER, 12.175, 15.74, 1.318, 2.44, 13.257, 1.833, 1.612, 2.493, 7.292, -0.462),
}
"""The bots by name: `BOT` arrays of one."""
