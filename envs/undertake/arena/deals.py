"""The deals of the measuring protocol, version 1, and the compiled loops that play them.

Letters: D deals, n seats, B = D n tables. A lineup of n policies plays every deal n times, once in each rotation: in
rotation r policy k sits in seat (k + r) mod n. So table b = d n + r holds deal d in rotation r, and its seat s belongs
to policy (s - r) mod n.

Where the numbers come from, with `mix` and `stream` of `core.rng`: SplitMix64's finaliser, and
stream(key, i) = mix(mix(key) + (i + 1) GAMMA), all in 64-bit words.

- The game's root: the first eight bytes, big end first, of sha256("undertake/deals/1/" + the game's name).
- Deal i, from 0 to 2**32 - 1: the key stream(root, i) in the set "dev", stream(root, 2**32 + i) in "test". `mix` is one
  to one and GAMMA odd, so no key of one set is one of the other's.
- Of a deal: stream(key, 0) is the table's own stream, which shuffles the deck and draws the first player, and
  stream(key, 1 + s) that of seat s, from which a scripted bot gets one word for each of its decisions.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core.batch import new_states
from undertake.core.compile import JIT, compiled
from undertake.core.game import Game, choose, encode, legal, play, score, see, shuffle, start
from undertake.core.rng import GAMMA, mix, stream

__all__ = [
    "PROTOCOL",
    "SETS",
    "SET_SIZE",
    "advance",
    "deal_tables",
    "deals_sha256",
    "finals",
    "look",
    "play_actions",
    "play_scripted",
    "root_key",
]

PROTOCOL = 1
SETS = ("dev", "test")
SET_SIZE = 1 << 32

_CHUNK = 4096


def root_key(game: str) -> np.uint64:
    """The random key of all of a game's deals."""
    digest = hashlib.sha256(f"undertake/deals/{PROTOCOL}/{game}".encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "big"))


def deals_sha256(game: Game, options: Any, deal_set: str, deals: int) -> str:
    """The hash of the cards: per deal the deck in dealing order and then the first player, each a byte."""
    digest = hashlib.sha256()
    first = SETS.index(deal_set) * SET_SIZE
    cards = len(options.cards())
    for at in range(0, deals, _CHUNK):
        states = new_states(game, options, min(_CHUNK, deals - at))
        _lay_out(states, root_key(game.name), first + at)
        rows = np.empty((len(states), cards + 1), np.uint8)
        rows[:, :cards] = states["deck"][:, :cards]
        rows[:, cards] = states["turn"]
        digest.update(rows.tobytes())
    return digest.hexdigest()


@compiled
def _lay_out(states: npt.NDArray[Any], root: np.uint64, first: int) -> None:
    """Deal the consecutive deals from `first` on, one to each table."""
    for d in range(states.shape[0]):
        states[d].rng = stream(stream(root, first + d), 0)
        shuffle(states[d])
        start(states[d], -1)


@compiled
def deal_tables(states: npt.NDArray[Any], n: int, streams: npt.NDArray[np.uint64], root: np.uint64, first: int) -> None:
    """Deal D consecutive deals from `first` on to the tables `[D n]`, n times each; `streams` `[D n n]` by seat."""
    for b in range(states.shape[0]):
        key = stream(root, first + b // n)
        states[b].rng = stream(key, 0)
        shuffle(states[b])
        start(states[b], -1)
        for s in range(n):
            streams[b * n + s] = stream(key, 1 + s)


@compiled
def _word(streams: npt.NDArray[np.uint64], at: int) -> np.uint64:
    """The next word of one stream, which moves on."""
    streams[at] += GAMMA
    return mix(streams[at])


if not JIT:  # words wrap around, which plain numpy numbers warn of
    _word = np.errstate(over="ignore")(_word)


@compiled
def play_scripted(
    states: npt.NDArray[Any],
    n: int,
    views: npt.NDArray[Any],
    streams: npt.NDArray[np.uint64],
    bots: npt.NDArray[Any],
    recall: bool,
    root: np.uint64,
    first: int,
    scores: npt.NDArray[np.int32],
) -> None:
    """Play whole games between the bots `[n]`, one after the other, at the one table in `states`.

    Writes the final score of policy k in rotation r of the d-th deal from `first` on to `scores[(d n + r) n + k]`.
    """
    state = states[0]
    view = views[0]
    for b in range(scores.size // n):
        key = stream(root, first + b // n)
        state.rng = stream(key, 0)
        shuffle(state)
        start(state, -1)
        for s in range(n):
            streams[s] = stream(key, 1 + s)
        shift = n - b % n
        while state.turn >= 0:
            seat = int(state.turn)
            see(state, seat, recall, view)
            k = seat + shift
            play(state, choose(view, bots[k if k < n else k - n], _word(streams, seat)))
        for k in range(n):
            seat = k + b % n
            scores[b * n + k] = score(state, seat if seat < n else seat - n)


@compiled
def advance(
    states: npt.NDArray[Any],
    n: int,
    views: npt.NDArray[Any],
    streams: npt.NDArray[np.uint64],
    bots: npt.NDArray[Any],
    mover: npt.NDArray[np.int64],
    recall: bool,
    waiting: npt.NDArray[np.int64],
) -> None:
    """Let scripted seats act at every table until one of the others has to: `waiting[b]` says which, -1 at the end.

    `mover` `[n]` holds for each policy of the lineup -1 where it is the bot of the same number in `bots` `[n]`, and
    otherwise the number to be told in `waiting`.
    """
    view = views[0]
    for b in range(states.shape[0]):
        shift = n - b % n
        waiting[b] = -1
        while states[b].turn >= 0:
            seat = int(states[b].turn)
            k = seat + shift
            k = k if k < n else k - n
            if mover[k] >= 0:
                waiting[b] = mover[k]
                break
            see(states[b], seat, recall, view)
            play(states[b], choose(view, bots[k], _word(streams, b * n + seat)))


@compiled
def play_actions(states: npt.NDArray[Any], tables: npt.NDArray[np.int64], actions: npt.NDArray[np.int64]) -> None:
    """Play one legal action at each of `tables`."""
    for i in range(tables.shape[0]):
        play(states[tables[i]], actions[i])


@compiled
def finals(states: npt.NDArray[Any], n: int, scores: npt.NDArray[np.int32]) -> None:
    """Write the final scores of all tables as `play_scripted` does."""
    for b in range(states.shape[0]):
        for k in range(n):
            scores[b * n + k] = score(states[b], (k + b % n) % n)


@compiled
def look(
    states: npt.NDArray[Any],
    seats: npt.NDArray[np.int64],
    recall: bool,
    views: npt.NDArray[Any],
    observation: npt.NDArray[np.uint8],
    action_mask: npt.NDArray[np.int8],
) -> None:
    """Write view, observation (flat, unless empty) and mask (flat) of one seat of each table."""
    num_features = observation.size // states.shape[0]
    num_actions = action_mask.size // states.shape[0]
    for b in range(states.shape[0]):
        see(states[b], seats[b], recall, views[b])
        legal(views[b], action_mask, b * num_actions)
        if num_features > 0:
            encode(views[b], observation, b * num_features)
