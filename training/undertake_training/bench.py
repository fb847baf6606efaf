"""`undertake bench`: the engine's speed on this machine, beside references measured in the same run.

All figures are per second of CPU time of one thread, the median over several rounds; every round measures everything
once, so that a machine that slows down for a while slows all of it. The references are PettingZoo's `connect_four_v3`,
for loops over environments, and a plain fill of a large array, for the machine as such.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from pettingzoo.classic import connect_four_v3
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import undertake
from undertake.arena.deals import play_scripted, root_key
from undertake.core.batch import Batch, make_batch, new_states, records
from undertake.core.game import BOT, GAMES, get_game, make_options

__all__ = ["Measurement", "machine", "main", "measure"]

_SWEEP = (1, 16, 256, 4096, 65536)
_FILL = 1 << 26


@dataclass(frozen=True)
class Measurement:
    """One line of the report; `view` is "none" where nothing is observed, `reference` is in `per_second`'s run.

    Attributes:
        what: "batch" and "aec" count decisions, "arena" games, "connect_four_v3" steps, "memory_fill" bytes
        per_second: per second of CPU time, median over the rounds
        reference: `per_second` of connect_four_v3 for "aec", of memory_fill for all others
        best: the same as `per_second`, of the fastest round: what the machine does when nobody else slows it down
    """

    what: str
    game: str
    players: int
    view: str
    num_envs: int
    per_second: float
    reference: float
    best: float


@dataclass(frozen=True)
class Bench:
    """Measure the engine's speed on one core: batch engine, AEC face, scripted matches, and references."""

    game: tyro.conf.UseAppendAction[tuple[Literal["no_thanks", "six_nimmt"], ...]] = ()
    """Only this game; both without it."""
    rounds: int = 5
    """Rounds, of which medians are taken."""
    seconds: float = 0.2
    """CPU time for each measurement in a round."""
    json: bool = False
    """Print a list of {what, game, players, view, num_envs, per_second, reference} instead of a table."""


@dataclass(frozen=True)
class _Case:
    what: str
    game: str
    players: int
    view: str
    num_envs: int
    prepare: Callable[[], Callable[[], int]]


def _batch(game: str, players: int, view: str, num_envs: int) -> Callable[[], Callable[[], int]]:
    def prepare() -> Callable[[], int]:
        length = {"length": "hand"} if game == "six_nimmt" else {}
        watched = {"observe": False} if view == "none" else {"view": view}
        batch = make_batch(game, num_envs=num_envs, num_players=players, **length, **watched)
        keys = random.Random(0)
        steps = max(1, 65536 // num_envs)
        return lambda: _steps(batch, keys, steps)

    return prepare


def _steps(batch: Batch, keys: random.Random, steps: int) -> int:
    for _ in range(steps):
        batch.step(batch.random_actions(keys.getrandbits(63)))
    return steps * batch.num_envs


def _loop(make: Callable[[], Any]) -> Callable[[], Callable[[], int]]:
    def prepare() -> Callable[[], int]:
        env, choice = make(), random.Random(0)
        env.reset(seed=0)
        return lambda: _turns(env, choice, 256)

    return prepare


def _turns(env: Any, choice: random.Random, turns: int) -> int:
    """The loop of PettingZoo's documentation: last, a random legal choice, step."""
    for _ in range(turns):
        observation, _, termination, truncation, _ = env.last()
        if termination or truncation:
            env.step(None)
            if not env.agents:
                env.reset()
            continue
        legal = np.flatnonzero(observation["action_mask"])
        env.step(int(legal[int(choice.random() * len(legal))]))
    return turns


def _matches(game: str, players: int, bots: tuple[str, ...]) -> Callable[[], Callable[[], int]]:
    def prepare() -> Callable[[], int]:
        found = get_game(game)
        length = {"length": "hand"} if game == "six_nimmt" else {}
        options = make_options(found, {"num_players": players, **length})
        lineup = np.concatenate([found.bots[bots[k % len(bots)]] for k in range(players)]).astype(BOT)
        states, views = new_states(found, options, 1), records(found.view_dtype)
        streams, scores = np.zeros(players, np.uint64), np.zeros(256 * players * players, np.int32)
        arguments = (states, players, views, streams, lineup, True, root_key(game), 0, scores)

        def play() -> int:
            play_scripted(*arguments)
            return 256 * players

        return play

    return prepare


def _fill() -> Callable[[], int]:
    array = np.zeros(_FILL, np.uint8)

    def fill() -> int:
        array.fill(1)
        return _FILL

    return fill


def _cases(games: tuple[str, ...]) -> Iterator[_Case]:
    yield _Case("memory_fill", "", 0, "none", 0, _fill)
    yield _Case("connect_four_v3", "", 2, "table", 1, _loop(connect_four_v3.env))
    for game in games:
        most = get_game(game).max_players
        sizes = sorted({2, 4, 7, 10} & set(range(most + 1)))
        for view in ("none", "recall", "table"):
            for players in sizes if view != "table" else [4]:
                yield _Case("batch", game, players, view, 1024, _batch(game, players, view, 1024))
        for view in ("none", "recall"):
            for num_envs in _SWEEP:
                yield _Case("batch", game, 4, view, num_envs, _batch(game, 4, view, num_envs))
        module = {"no_thanks": undertake.no_thanks_v0, "six_nimmt": undertake.six_nimmt_v0}[game]
        yield _Case("aec", game, 4, "table", 1, _loop(module.env))
        bots = {
            "no_thanks": ("threshold_0", "threshold_3", "threshold_6", "threshold_9"),
            "six_nimmt": ("closest_gap",),
        }
        yield _Case("arena", game, 4, "recall", 1, _matches(game, 4, bots[game]))


def measure(
    games: tuple[str, ...], rounds: int, seconds: float, tick: Callable[[], None] | None = None
) -> list[Measurement]:
    """Measure everything for the games; each case runs for `seconds` of CPU time in each of `rounds` rounds."""
    cases = list(_cases(games))
    rates: list[list[float]] = [[] for _ in cases]
    for _ in range(rounds):
        for case, found in zip(cases, rates, strict=True):
            run = case.prepare()
            run()
            count, begun = 0, time.thread_time()
            while (spent := time.thread_time() - begun) < seconds:
                count += run()
            found.append(count / spent)
            if tick is not None:
                tick()
    medians = [statistics.median(found) for found in rates]
    named = {case.what: median for case, median in zip(cases, medians, strict=True)}
    return [
        Measurement(
            case.what,
            case.game,
            case.players,
            case.view,
            case.num_envs,
            median,
            named["connect_four_v3" if case.what in ("aec", "connect_four_v3") else "memory_fill"],
            max(found),
        )
        for case, median, found in zip(cases, medians, rates, strict=True)
    ]


def machine() -> str:
    """The machine and its load in a line."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{name}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}, numpy {np.__version__}"
    )


_UNITS = {
    "memory_fill": "bytes",
    "arena": "games",
    "batch": "decisions",
    "aec": "decisions",
    "connect_four_v3": "steps",
}


def _short(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,.1f} M"


def _table(found: list[Measurement], heading: str) -> Table:
    table = Table(title=heading, title_justify="left")
    for head in ("what", "game", "players", "view", "tables", "per CPU-second", "best", "", "x connect_four_v3"):
        left = head in ("what", "game", "view", "")
        table.add_column(head, justify="left" if left else "right", no_wrap=True)
    for line in found:
        table.add_row(
            line.what,
            line.game,
            str(line.players or ""),
            line.view,
            str(line.num_envs or ""),
            _short(line.per_second),
            _short(line.best),
            _UNITS[line.what],
            f"{line.per_second / line.reference:.1f}" if line.what == "aec" else "",
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = tyro.cli(Bench, args=arguments, prog="undertake bench")
    games = given.game or GAMES
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=given.rounds * len(list(_cases(games))))
        found = measure(games, given.rounds, given.seconds, lambda: progress.advance(task))
    if given.json:
        told = [{name: value for name, value in vars(line).items() if name != "best"} for line in found]
        json.dump(told, sys.stdout, indent=1)
        print()
    else:
        console = Console()
        Console(width=console.width if console.is_terminal else 130).print(_table(found, machine()))
    return 0
