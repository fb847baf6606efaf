"""Matches: n policies at one table, all rotations of their seats over the same deals, block by block.

A block is a fixed number of deals, played by a pure function of the setting, the lineup and the block's number. So it
does not matter which process plays it, nor when: blocks go to a backend's workers, and finished ones can be kept on
disk for a run that is interrupted. Letters: D deals, n seats.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import shutil
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from undertake import __version__
from undertake.arena import deals as dealing
from undertake.arena.backends import make_backend, package_digest, play_tasks
from undertake.arena.policy import Policy
from undertake.core.batch import new_states, records
from undertake.core.files import write_atomically
from undertake.core.game import BOT, GAMES, VIEWS, Game, check_choice, check_whole, get_game, make_options

__all__ = [
    "BLOCK",
    "Setting",
    "decision_ms",
    "forget",
    "make_setting",
    "play_block",
    "play_lineups",
    "read_scores",
    "write_scores",
]

BLOCK = 256
"""Deals a block."""

_HAND = {"six_nimmt": {"length": "hand"}}
"""Options that the protocol sets where none are given."""

Scores = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Setting:
    """What is played for, by whomever: game, options, view and deals; made by `make_setting`."""

    game: str
    options: tuple[tuple[str, Any], ...]
    view: str
    deal_set: str
    deals: int

    @property
    def rules(self) -> tuple[Game, Any]:
        """The game and its options object."""
        game = get_game(self.game)
        return game, make_options(game, dict(self.options))

    @property
    def num_blocks(self) -> int:
        """Blocks it takes to play all deals."""
        return math.ceil(self.deals / BLOCK)

    @property
    def sha256(self) -> str:
        """The hash of the cards of all deals."""
        game, options = self.rules
        return dealing.deals_sha256(game, options, self.deal_set, self.deals)


def make_setting(
    game: str, num_players: int, *, deals: int = 4096, deal_set: str = "dev", view: str = "recall", **options: Any
) -> Setting:
    """The setting of a match; 6 nimmt! is one hand unless `length` says otherwise.

    Raises ValueError or TypeError in one line for anything that is not allowed.
    """
    check_choice("game", game, GAMES)
    check_choice("view", view, VIEWS)
    check_choice("the set of deals", deal_set, dealing.SETS)
    check_whole("deals", deals, 2, dealing.SET_SIZE)
    full = {**_HAND.get(game, {}), **options, "num_players": num_players}
    setting = Setting(game, tuple(sorted(full.items())), view, deal_set, deals)
    assert setting.rules, "checks the options"
    return setting


def play_block(setting: Setting, policies: Sequence[Policy], block: int) -> Scores:
    """Play one block of deals with `policies` as the lineup; int32 [D, n, n].

    `[d, r, k]` is the final score of policy k in deal `BLOCK * block + d`, when it sits in seat (k + r) mod n.
    """
    game, options = setting.rules
    n = options.num_players
    if len(policies) != n:
        raise ValueError(f"the lineup has {len(policies)} policies; one for each of the {n} players is needed")
    for policy in policies:
        policy.seated(game, setting.view)
    count = min(BLOCK, setting.deals - BLOCK * block)
    first = dealing.SETS.index(setting.deal_set) * dealing.SET_SIZE + BLOCK * block
    scores = np.zeros(count * n * n, np.int32)
    root, recall, views = dealing.root_key(game.name), setting.view == "recall", records(game.view_dtype)
    bots = records(BOT, n)
    for k, policy in enumerate(policies):
        if policy.scripted:
            bots[k] = policy.bot(game)[0]
    if all(policy.scripted for policy in policies):
        table, streams = new_states(game, options, 1), np.zeros(n, np.uint64)
        dealing.play_scripted(table, n, views, streams, bots, recall, root, first, scores)
    else:
        states, streams = new_states(game, options, count * n), np.zeros(count * n * n, np.uint64)
        dealing.deal_tables(states, n, streams, root, first)
        _play_tables(setting, game, policies, states, streams, bots, [int(root), first])
        dealing.finals(states, n, scores)
    return scores.reshape(count, n, n)


def _play_tables(
    setting: Setting,
    game: Game,
    policies: Sequence[Policy],
    states: npt.NDArray[Any],
    streams: npt.NDArray[np.uint64],
    bots: npt.NDArray[Any],
    seed: list[int],
) -> None:
    """Play all tables to their ends: in turns all the bots, in one compiled call, and each of the Python policies."""
    # Equal names are one policy, as they are for a worker process, which gets nothing but names.
    keys = [policy.source or id(policy) for policy in policies]
    movers = {key: policy for key, policy in zip(keys, policies, strict=True) if not policy.scripted}
    number = {key: i for i, key in enumerate(movers)}
    mover = np.array([number.get(key, -1) for key in keys], np.int64)
    generators = [np.random.default_rng([*seed, i]) for i in range(len(movers))]
    pasts = [policy.past(game, setting.view, len(states), len(policies)) for policy in movers.values()]
    waiting = np.zeros(len(states), np.int64)
    views, recall = records(game.view_dtype), setting.view == "recall"
    while True:
        dealing.advance(states, len(policies), views, streams, bots, mover, recall, waiting)
        open_tables = False
        for i, policy in enumerate(movers.values()):
            tables = np.flatnonzero(waiting == i)
            if len(tables):
                open_tables = True
                asked = states[tables]
                seats = asked["turn"].astype(np.int64)
                actions = policy.actions(game, asked, seats, setting.view, generators[i], pasts[i], tables)
                dealing.play_actions(states, tables, actions)
        if not open_tables:
            return


def decision_ms(setting: Setting, policy: Policy) -> float:
    """CPU milliseconds that a policy takes for a decision, in 2 n games side by side at tables of its copies.

    Decisions between one action count for nothing. CPU time is what a machine that is busy with other things leaves as
    it is. Raises ValueError for a scripted bot.
    """
    if policy.target is None:
        raise ValueError(f"{policy.name!r} is a scripted bot, which decides in compiled code")
    target, spent, decisions = policy.target, 0.0, 0

    def timed(seen: Any, mask: npt.NDArray[np.int8], *rest: Any) -> Any:
        nonlocal spent, decisions
        begun = time.process_time()
        answer = target(seen, mask, *rest)
        spent += time.process_time() - begun
        decisions += int((np.atleast_2d(mask).sum(axis=1) > 1).sum())
        return answer

    _, options = setting.rules
    play_block(replace(setting, deals=2), [replace(policy, target=timed)] * options.num_players, 0)
    return 1000 * spent / max(1, decisions)


def play_lineups(
    setting: Setting,
    lineups: Sequence[Sequence[Policy]],
    *,
    processes: int = 1,
    backend: str | None = None,
    ray_address: str | None = None,
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Scores]:
    """Play every deal of the setting with each lineup; one int32 array [D, n, n] a lineup, as `play_block` gives.

    Args:
        setting: what is played.
        lineups: n policies each.
        processes: blocks played at once; with more than one every policy needs a name, and the results are the same.
        backend: "serial", "processes" or "ray", None by the number of processes; see `arena.backends`.
        ray_address: of the Ray cluster to join.
        folder: where finished blocks are kept until `forget` is called, so that the same run goes on from them.
        progress: called with the number of games played and of games in all, after every block.

    Raises PolicyError, ValueError or TypeError for what does not fit, OSError where the folder cannot be written,
    BrokenExecutor where workers die again and again, and KeyboardInterrupt with one line on where it can go on.
    """
    chosen = make_backend(backend, processes, ray_address)
    game, options = setting.rules
    n = options.num_players
    for lineup in lineups:
        if len(lineup) != n:
            raise ValueError(f"a lineup has {len(lineup)} policies; one for each of the {n} players is needed")
        for policy in lineup:
            policy.seated(game, setting.view)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    kept = [lineup_folder(setting, lineup, folder) for lineup in lineups]
    found = [np.zeros((setting.deals, n, n), np.int32) for _ in lineups]
    todo = []
    for task in [(i, block) for i in range(len(lineups)) for block in range(setting.num_blocks)]:
        part = found[task[0]][BLOCK * task[1] : BLOCK * (task[1] + 1)]
        if not _load(kept[task[0]], task[1], part):
            todo.append(task)
    total = setting.deals * n * len(lineups)
    played = total - sum(_deals_in(setting, block) for _, block in todo) * n
    if progress:
        progress(played, total)
    left = len(todo)
    try:
        # Closed at once when anything goes wrong, so that no worker goes on.
        with contextlib.closing(play_tasks(play_block, setting, lineups, todo, chosen)) as tasks:
            for (i, block), scores in tasks:
                found[i][BLOCK * block : BLOCK * block + len(scores)] = scores
                _save(kept[i], block, scores)
                played += len(scores) * n
                left -= 1
                if progress:
                    progress(played, total)
    except KeyboardInterrupt:
        blocks = len(lineups) * setting.num_blocks
        where = f"they are kept in {folder}, and the same call goes on from there" if folder else "none is kept"
        raise KeyboardInterrupt(f"interrupted with {blocks - left} of {blocks} blocks played; {where}") from None
    return found


def _deals_in(setting: Setting, block: int) -> int:
    return min(BLOCK, setting.deals - BLOCK * block)


def lineup_folder(setting: Setting, lineup: Sequence[Policy], folder: Path | None) -> Path | None:
    """Where the blocks of a lineup are kept: named by all that decides what they hold, None where that is not known."""
    if folder is None or not all(policy.fingerprint for policy in lineup):
        return None
    told = {
        "protocol": dealing.PROTOCOL,
        "version": __version__,
        "sources": package_digest(),
        "block": BLOCK,
        "setting": [setting.game, setting.options, setting.view, setting.deal_set, setting.deals],
        "lineup": [[policy.name, policy.fingerprint] for policy in lineup],
    }
    return folder / hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def forget(setting: Setting, lineups: Sequence[Sequence[Policy]], folder: Path | None) -> None:
    """Remove the kept blocks of these lineups, which have been reported."""
    for lineup in lineups:
        kept = lineup_folder(setting, lineup, folder)
        if kept:
            shutil.rmtree(kept, ignore_errors=True)


def _file(folder: Path, block: int) -> Path:
    return folder / f"block-{block:05d}.npz"


def _load(folder: Path | None, block: int, into: Scores) -> bool:
    """Read a kept block; False where there is none, or what is there is damaged."""
    scores = read_scores(_file(folder, block), into.shape) if folder else None
    if scores is None:
        return False
    into[:] = scores
    return True


def read_scores(path: Path, shape: tuple[int, ...]) -> Scores | None:
    """Scores (int32) that `write_scores` has kept; None where there are none of this shape, or they are damaged."""
    # numpy and zipfile say in many ways that a file is cut short or foreign.
    said = (OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, BadZipFile, zlib.error)
    with contextlib.suppress(*said):
        # By way of memory: np.load forgets to close a file that it cannot read.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as data:
            scores: Scores = data["scores"]
        if scores.shape == shape and scores.dtype == np.int32:
            return scores
    return None


def _save(folder: Path | None, block: int, scores: Scores) -> None:
    """Keep a block, so that the file is there whole or not at all."""
    if folder is None:
        return
    # Another run of the same match may have ended and taken the folder away: this one goes on all the same.
    with contextlib.suppress(FileNotFoundError):
        write_scores(_file(folder, block), scores)


def write_scores(path: Path, scores: Scores) -> None:
    """Keep scores; OSError where the file cannot be written."""
    content = io.BytesIO()
    np.savez_compressed(content, scores=scores)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())
