"""What happens at tables at which one seat learns, in compiled code: setting up, playing on, observing.

An episode is a function of the table's root (one random word), its number since the root was set, and what the
policies do: the key stream(root, number) gives the streams of the table, of each scripted seat, and of the set-up
(number of players, seats, opponents). Letters: B tables, n seats, K opponents, N actions, D features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core.batch import FOUL
from undertake.core.compile import JIT, compiled, i64
from undertake.core.game import (
    choose,
    encode,
    is_legal,
    legal,
    paid,
    play,
    random_legal,
    score,
    see,
    shuffle,
    start,
)
from undertake.core.reward import SCORE, final_reward
from undertake.core.rng import GAMMA, below, draw, mix, stream

__all__ = ["BARREN", "DEAL", "NOTHING", "PLAY", "PREPARE", "RESUME", "START", "advance", "observe", "table_dtype"]

_SETUP = 1 << 20  # the child stream of an episode's key from which the set-up comes
BARREN = 1_000  # deals in a row in which the learner is never asked, after which no further one is tried

NOTHING, PLAY, DEAL, PREPARE, START, RESUME = range(6)
"""What `advance` does at a table: leave it, play the learner's action, begin a new game, prepare one for a given deck,
begin it with the deck as it lies, or go on after another policy has acted."""


def table_dtype(seats: int) -> np.dtype[Any]:
    """What a table has besides its game."""
    return np.dtype(
        [
            ("root", np.uint64),
            ("episodes", np.int64),  # begun since the root was set
            ("streams", np.uint64, seats),  # of the scripted seats
            ("reward", np.float64),  # all the learner has earned between its last two decisions
            ("owed", np.int64),  # what the reward "score" had paid for when the learner was last asked
            ("score", np.int64),  # the learner's, as if the game ended now
            ("seat", np.int64),  # the learner's
            ("waiting", np.int64),  # the mover to act, -1 none
            ("who", np.int64, seats),  # the opponent in each seat
            ("tries", np.int64),  # deals in a row in which the learner was not asked
            ("fresh", np.bool_),  # the learner has not decided yet in this game
            ("over", np.bool_),
            ("laid", np.bool_),  # with a deck that was given
        ],
        align=True,
    )


@compiled
def _word(table: np.record, seat: int) -> np.uint64:
    """The next word of a scripted seat's stream."""
    table.streams[seat] += GAMMA
    return mix(table.streams[seat])


@compiled
def _nth(key: np.uint64, n: int) -> np.uint64:
    """The n-th word of a stream."""
    return mix(key + np.uint64(n + 1) * GAMMA)


if not JIT:  # words wrap around, which plain numpy numbers warn of
    _word = np.errstate(over="ignore")(_word)
    _nth = np.errstate(over="ignore")(_nth)


@compiled
def _prepare(
    states: npt.NDArray[Any],
    tables: npt.NDArray[Any],
    b: int,
    templates: npt.NDArray[Any],
    seat: int,
    seating: int,
    opponents: int,
) -> None:
    """Set up the table's next game all but the deal: its size, the streams, and who sits where."""
    table = tables[b]
    key = stream(table.root, table.episodes)
    table.episodes += 1
    setup = stream(key, _SETUP)
    if templates.shape[0] > 1:
        states[b] = templates[below(_nth(setup, 0), templates.shape[0])]
    state = states[b]
    n = i64(state.num_players)
    state.rng = stream(key, 0)
    table.seat = seat if seat >= 0 else below(_nth(setup, 1), n)
    one = below(_nth(setup, 2), opponents)
    for s in range(n):
        table.streams[s] = stream(key, 1 + s)
        if seating == 0:
            table.who[s] = below(_nth(setup, 3 + s), opponents)
        elif seating == 1:
            table.who[s] = one
        else:
            place = s - table.seat
            place = place if place >= 0 else place + n
            table.who[s] = max(place - 1, 0)
    table.fresh = True
    table.over = False
    table.laid = False
    table.reward = 0.0
    table.waiting = -1


@compiled
def _settle(state: np.record, table: np.record, kind: int) -> None:
    """Pay the learner, who has to decide now unless the game is over."""
    over = state.turn < 0
    seat = table.seat
    if kind == SCORE:
        so_far = paid(state, seat)
        table.reward = 0.0 if table.fresh else float(table.owed - so_far)
        table.owed = so_far
    elif over:
        table.reward = final_reward(state, seat, kind)
    else:
        table.reward = 0.0
    table.score = score(state, seat)
    table.fresh = False
    table.over = over


@compiled
def advance(
    states: npt.NDArray[Any],
    tables: npt.NDArray[Any],
    commands: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    first_player: int,
    templates: npt.NDArray[Any],
    penalties: npt.NDArray[np.float64],
    seat: int,
    seating: int,
    bots: npt.NDArray[Any],
    mover: npt.NDArray[np.int64],
    views: npt.NDArray[Any],
    recall: bool,
    replace: bool,
    kind: int,
) -> tuple[int, int]:
    """Do at each table what `commands` says and let the bots act, until the learner or a mover has to or it is over.

    Returns how many tables wait for movers, and how many were given up because the learner is never asked.
    """
    view = views[0]
    waiting, barren = 0, 0
    for b in range(states.shape[0]):
        command = commands[b]
        if command == NOTHING:
            continue
        table = tables[b]
        action, begin = -1, command == DEAL
        if command == PLAY:
            action = actions[b]
            if not is_legal(states[b], action):
                if not replace:
                    states[b].turn = FOUL
                    table.reward = penalties[states[b].num_players]
                    table.score = score(states[b], table.seat)
                    table.over = True
                    continue
                action = random_legal(states[b], draw(states[b]))
        elif command == PREPARE:
            _prepare(states, tables, b, templates, seat, seating, mover.shape[0])
            continue
        elif command == START:
            table.laid = True
            start(states[b], first_player)
        if command != RESUME:
            table.tries = 0
        table.waiting = -1
        # One loop, so that `play` and `see`, which are large and made part of this code, are in it once.
        while True:
            if begin:
                _prepare(states, tables, b, templates, seat, seating, mover.shape[0])
                shuffle(states[b])
                start(states[b], first_player)
                begin = False
            state = states[b]
            if action >= 0:
                play(state, action)
                action = -1
            turn = i64(state.turn)
            if turn >= 0 and turn != table.seat:
                k = table.who[turn]
                if mover[k] >= 0:
                    table.waiting = mover[k]
                    waiting += 1
                    break
                see(state, turn, recall, view)
                action = choose(view, bots[k], _word(table, turn))
                continue
            if turn >= 0 or not table.fresh:
                break
            # A game that ends before the learner has been asked is none of its games.
            table.tries += 1
            if table.laid or table.tries >= BARREN:
                barren += 1
                break
            begin = True
        if table.waiting < 0:
            _settle(states[b], table, kind)
    return waiting, barren


@compiled
def observe(
    states: npt.NDArray[Any],
    tables: npt.NDArray[Any],
    at: npt.NDArray[np.int64],
    recall: bool,
    views: npt.NDArray[Any],
    counts: npt.NDArray[np.uint8],
    scale: npt.NDArray[np.float32],
    observation: npt.NDArray[np.float32],
    action_mask: npt.NDArray[np.int8],
) -> None:
    """Write observation (flat) and mask (flat, padded) of the learners at the tables `at`."""
    view = views[0]
    num_features = scale.size
    num_actions = action_mask.size // at.size
    for i in range(at.size):
        b = at[i]
        see(states[b], tables[b].seat, recall, view)
        encode(view, counts, 0)
        begin = i * num_features
        for j in range(num_features):
            observation[begin + j] = counts[j] * scale[j]
        legal(view, action_mask, i * num_actions)
