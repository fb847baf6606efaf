"""`undertake bench`: the engine's speed on this machine, beside references measured in the same run.

All figures are per second of CPU time of one thread, the median over several rounds; every round measures everything
once, so that a machine that slows down for a while slows all of it. The references are PettingZoo's `connect_four_v3`,
for loops over environments, Gymnasium's own SyncVectorEnv over the same single environments, for the vector face, and a
plain fill of a large array, for the machine as such.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
import tyro
from pettingzoo.classic import connect_four_v3
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import undertake
from undertake.arena.deals import look, play_scripted, root_key
from undertake.arena.report import machine
from undertake.core.batch import Batch, make_batch, new_states, records
from undertake.core.compile import compiled
from undertake.core.game import BOT, GAMES, get_game, make_options
from undertake.core.rng import below, mix
from undertake.search.rollout import Budget, Rollout

__all__ = ["Measurement", "machine", "main", "measure"]

_SWEEP = (1, 16, 256, 4096, 65536)
_FILL = 1 << 26


@dataclass(frozen=True)
class Measurement:
    """One line of the report; `view` is "none" where nothing is observed, `reference` is in `per_second`'s run.

    Attributes:
        what: "batch" and "aec" count decisions, "vector" and "sync_vector" decisions of the learners, "arena" games,
            "rollout" rounds played out by a searching player, "connect_four_v3" steps, "memory_fill" bytes
        per_second: per second of CPU time, median over the rounds
        reference: `per_second` of connect_four_v3 for "aec", of sync_vector for "vector", of memory_fill for all others
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
    """Measure the engine's speed on one core: batch engine, AEC face, scripted matches, and references.

    With --training the trainer's, on one core and on two and where there is one on a GPU, beside what torch alone takes
    and beside sb3-contrib's MaskablePPO.
    """

    game: tyro.conf.UseAppendAction[tuple[Literal["no_thanks", "six_nimmt"], ...]] = ()
    """Only this game; both without it."""
    rounds: int = 5
    """Rounds, of which medians are taken."""
    seconds: float = 0.2
    """CPU time for each measurement in a round; with --training time by the clock, one update at least."""
    training: bool = False
    """Measure the trainer instead of the engine: `undertake_training.bench_training` says what is compared."""
    threads: tyro.conf.UseAppendAction[tuple[int, ...]] = ()
    """With --training: this number of torch's threads; one and two without it, or one on a single core."""
    config: tyro.conf.UseAppendAction[tuple[Path, ...]] = ()
    """With --training: a YAML file of `undertake train` to measure; configs/demo's without it."""
    json: bool = False
    """Print a list of {what, game, players, view, num_envs, per_second, reference, ...} instead of a table."""


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


_SEARCHED_WITH = {"no_thanks": "threshold_3", "six_nimmt": "random"}
_GYMNASIUM = {"no_thanks": "undertake/NoThanks-v0", "six_nimmt": "undertake/SixNimmt-v0"}


def _learners(game: str, num_envs: int, mode: str) -> Callable[[], Callable[[], int]]:
    """Learners that play at random against the face's default opponents, which are scripted."""

    def prepare() -> Callable[[], int]:
        length: dict[str, Any] = {"length": "hand"} if game == "six_nimmt" else {}
        env = gymnasium.make_vec(_GYMNASIUM[game], num_envs, vectorization_mode=mode, **length)
        mask = env.reset(seed=0)[0]["action_mask"]
        keys = random.Random(0)
        steps = max(1, 16384 // num_envs) if mode != "sync" else 8
        actions = np.zeros(num_envs, np.int64)

        def play() -> int:
            nonlocal mask
            for _ in range(steps):
                _pick(mask, np.uint64(keys.getrandbits(63)), actions)
                mask = env.step(actions)[0]["action_mask"]
            return steps * num_envs

        return play

    return prepare


@compiled
def _pick(mask: npt.NDArray[np.int8], key: np.uint64, actions: npt.NDArray[np.int64]) -> None:
    """A random legal action for each row of masks, 0 where there is none."""
    for b in range(mask.shape[0]):
        legal = 0
        for a in range(mask.shape[1]):
            legal += mask[b, a]
        left = below(mix(key + np.uint64(b)), legal)
        actions[b] = 0
        for a in range(mask.shape[1]):
            if mask[b, a] != 0:
                if left == 0:
                    actions[b] = a
                    break
                left -= 1


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


def _playouts(game: str, bot: str) -> Callable[[], Callable[[], int]]:
    """The first decisions of some games, searched with `bot` in all seats; worlds are imagined anew in every call."""

    def prepare() -> Callable[[], int]:
        found = get_game(game)
        length = {"length": "hand"} if game == "six_nimmt" else {}
        deals = 8
        batch = make_batch(game, num_envs=deals, observe=False, **length)
        views, mask = records(found.view_dtype, deals), np.zeros(deals * found.num_actions + 64, np.int8)
        look(batch.states.view(np.ndarray), batch.seat, True, views, np.zeros(0, np.uint8), mask)
        player = Rollout(game, Budget(32), [undertake.make_policy(bot, game)])
        keys = random.Random(0)

        def search() -> int:
            mean, worlds = player.margins(views, keys.getrandbits(63))
            return int((worlds[:, None] * ~np.isnan(mean)).sum())

        return search

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
        yield _Case("sync_vector", game, 4, "table", 64, _learners(game, 64, "sync"))
        for num_envs in (64, 1024):
            yield _Case("vector", game, 4, "table", num_envs, _learners(game, num_envs, "vector_entry_point"))
        bots = {
            "no_thanks": ("threshold_0", "threshold_3", "threshold_6", "threshold_9"),
            "six_nimmt": ("closest_gap",),
        }
        yield _Case("arena", game, 4, "recall", 1, _matches(game, 4, bots[game]))
        yield _Case("rollout", game, 4, "recall", 1, _playouts(game, _SEARCHED_WITH[game]))


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
    named = {(case.what, case.game): median for case, median in zip(cases, medians, strict=True)}
    return [
        Measurement(
            case.what,
            case.game,
            case.players,
            case.view,
            case.num_envs,
            median,
            named[_REFERENCES.get(case.what, "memory_fill"), case.game if "vector" in case.what else ""],
            max(found),
        )
        for case, median, found in zip(cases, medians, rates, strict=True)
    ]


_REFERENCES = {
    "aec": "connect_four_v3",
    "connect_four_v3": "connect_four_v3",
    "vector": "sync_vector",
    "sync_vector": "sync_vector",
}
"""Which line a line is compared with; the others with memory_fill."""


_UNITS = {
    "memory_fill": "bytes",
    "arena": "games",
    "rollout": "playouts",
    "batch": "decisions",
    "aec": "decisions",
    "vector": "decisions",
    "sync_vector": "decisions",
    "connect_four_v3": "steps",
}


def _short(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,.1f} M"


def _table(found: list[Measurement], heading: str) -> Table:
    table = Table(title=heading, title_justify="left")
    for head in ("what", "game", "players", "view", "tables", "per CPU-second", "best", "", "x reference"):
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
            f"{line.per_second / line.reference:.1f} {_REFERENCES[line.what]}"
            if line.what in ("aec", "vector")
            else "",
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = tyro.cli(Bench, args=arguments, prog="undertake bench")
    games = given.game or GAMES
    if given.training:
        return _training(given, games)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=given.rounds * len(list(_cases(games))))
        found = measure(games, given.rounds, given.seconds, lambda: progress.advance(task))
    told = [{name: value for name, value in vars(line).items() if name != "best"} for line in found]
    _print(told if given.json else _table(found, machine()))
    return 0


def _training(given: Bench, games: tuple[str, ...]) -> int:
    from undertake_training import bench_training  # torch is imported only where it is measured
    from undertake_training.config import ConfigError

    try:
        configs = bench_training.settings(games, given.config)
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("measuring", total=None)
            cases = bench_training.cases(configs, threads=given.threads)
            progress.update(task, total=given.rounds * len(cases))
            found = bench_training.measure(cases, given.rounds, given.seconds, lambda: progress.advance(task))
    except ConfigError as error:
        print(f"undertake bench: {error}", file=sys.stderr)
        return 2
    if not bench_training.HAS_SB3:
        print(
            "undertake bench: sb3-contrib is not installed, MaskablePPO is left out: pip install 'undertake[sb3]'",
            file=sys.stderr,
        )
    _print([vars(line) for line in found] if given.json else bench_training.table(found, bench_training.machine()))
    return 0


def _print(told: list[dict[str, Any]] | Table) -> None:
    """Lines as JSON, or a table."""
    if isinstance(told, list):
        json.dump(told, sys.stdout, indent=1)
        print()
        return
    console = Console()
    Console(width=console.width if console.is_terminal else 130).print(told)
