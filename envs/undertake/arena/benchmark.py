"""The benchmark: the whole protocol for one agent against a pool, at one size; each cell is kept once it is played.

What is played is a pair of policies: one in a field of the other, in every seat. The pair turned round is the
invasion, a pair of a policy with itself its own table, so that a leaderboard plays every pair once. `Row` is what an
agent has reached, `to_table` puts rows into plain data, from which pages and pictures are made (`benchmark_page`,
`pictures`). Letters: D deals, n seats.
"""

from __future__ import annotations

import errno
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake import __version__
from undertake.arena.backends import connected, make_backend, package_digest
from undertake.arena.deals import PROTOCOL
from undertake.arena.evaluation import Cell, Report
from undertake.arena.matches import (
    Setting,
    decision_ms,
    forget,
    make_setting,
    play_lineups,
    read_scores,
    write_scores,
)
from undertake.arena.policy import Policy, make_policy
from undertake.arena.statistics import Estimate, estimate, per_deal
from undertake.arena.trained import shipped
from undertake.core.game import GAMES, check_choice, get_game
from undertake.search.rollout import Rollout

__all__ = [
    "CHECKPOINTS",
    "DEALS",
    "EXTRA",
    "FULL_DISK",
    "ROLLOUTS",
    "SEARCH_DEALS",
    "SIZES",
    "Plan",
    "Row",
    "key",
    "label",
    "make_plan",
    "measure",
    "to_table",
]

SIZES: Mapping[str, tuple[int, ...]] = {"no_thanks": (3, 4, 5), "six_nimmt": (2, 4, 6, 10)}
"""The protocol's sizes; at 4 players all searching policies are measured as well."""

DEALS, SEARCH_DEALS = 4096, 512
"""Deals of a pair, and of one in which somebody searches: the first of the others."""

ROLLOUTS: Mapping[str, tuple[str, ...]] = {
    "no_thanks": ("rollout:100total:tuned",),
    "six_nimmt": ("rollout:300total:random",),
}
"""The pool's searching policies."""

CHECKPOINTS = ("champion",)
"""The pool's trained policies, of those that come with the package for a game."""

EXTRA: Mapping[str, tuple[str, ...]] = {
    "no_thanks": ("rollout:100total:random", "rollout:300total:random"),
    "six_nimmt": ("rollout:100total:random",),
}
"""Searching policies that have a row on the leaderboard, though they are no field of the pool."""

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

GROUPS = ("all", "baselines", "rollouts", "checkpoints")

Scores = npt.NDArray[np.int32]
Pair = tuple[Policy, Policy]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """A pool at one size; made by `make_plan`.

    Attributes:
        game: its name
        players: at the table
        pool: the fields
        deals: of a pair in which nobody searches
        deal_set: "dev" or "test"
        view: what everybody may see
        searching: policies that search though they are no rollout players, as `key` tells them
    """

    game: str
    players: int
    pool: tuple[Policy, ...]
    deals: int = DEALS
    deal_set: str = "test"
    view: str = "recall"
    searching: tuple[Any, ...] = ()

    def searches(self, policy: Policy) -> bool:
        """Whether a policy looks ahead before it decides."""
        return isinstance(getattr(policy.target, "__self__", None), Rollout) or key(policy) in self.searching

    def setting(self, *policies: Policy) -> Setting:
        """What is played for between these policies."""
        deals = min(self.deals, SEARCH_DEALS) if any(map(self.searches, policies)) else self.deals
        return make_setting(self.game, self.players, deals=deals, deal_set=self.deal_set, view=self.view)


def make_plan(
    game: str,
    players: int = 4,
    pool: Iterable[Any] = ("all",),
    *,
    deals: int = DEALS,
    deal_set: str = "test",
    view: str = "recall",
    trust: bool = False,
) -> Plan:
    """The plan with the `pool` asked for: policies, and the names of groups.

    Groups: "baselines", the game's scripted bots; "rollouts", `ROLLOUTS`; "checkpoints", those of `CHECKPOINTS` that
    the package brings along; "all", these three, where at sizes other than 4 nobody searches.

    Raises ValueError, TypeError or PolicyError in one line for what is not allowed.
    """
    check_choice("game", game, GAMES)
    groups = {
        "baselines": tuple(get_game(game).bots),
        "rollouts": ROLLOUTS[game],
        "checkpoints": tuple(name for name in CHECKPOINTS if name in shipped(game)),
    }
    groups["all"] = groups["baselines"] + (groups["rollouts"] if players == 4 else ()) + groups["checkpoints"]
    found: dict[Any, Policy] = {}
    for each in pool:
        for name in groups.get(each, (each,)) if isinstance(each, str) else (each,):
            policy = make_policy(name, game, trust=trust)
            found.setdefault(key(policy), policy)
    if not found:
        raise ValueError(f"the pool is empty; give policies or one of {', '.join(GROUPS)}")
    plan = Plan(game, players, tuple(found.values()), deals, deal_set, view)
    plan.setting()  # checks the rest
    for policy in plan.pool:
        policy.seated(get_game(game), view)
    return plan


@dataclass(frozen=True)
class Row:
    """What an agent has reached.

    Attributes:
        policy: the agent
        report: its fields, its own left out
        own_score: the mean score of a table of its copies
        track: "scripted", "policy" or "search"
        ms: CPU milliseconds a decision, where it searches
    """

    policy: Policy
    report: Report
    own_score: Estimate
    track: str
    ms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, to six digits."""
        report, worst, invasive = self.report, self.report.worst, self.report.most_invasive
        found = {
            "agent": label(self.policy),
            "track": self.track,
            "view": self.policy.view,
            "ms_a_decision": self.ms,
            "own_score": self.own_score.to_json(),
            "pool": {name: value.to_json() for name, value in report.pool.items()},
            "worst": {"field": worst.field, "win_share": worst.estimates["win_share"].to_json()},
            "largest_invasion": {"field": invasive.field, "invasion": invasive.estimates["invasion"].to_json()},
            "cells": [
                {"field": cell.field, "deals": len(cell.per_deal["score"])}
                | {name: value.to_json() for name, value in cell.estimates.items()}
                for cell in report.cells
            ],
        }
        return {name: _rounded(value) for name, value in found.items()}


def to_table(plan: Plan, rows: Sequence[Row], measured: Mapping[str, str]) -> dict[str, Any]:
    """Rows of one plan as plain data, the best mean over the pool first; `measured` says when, where and by what."""
    played = {len(cell.per_deal["score"]) for row in rows for cell in row.report.cells}
    written = [row.to_json() for row in rows]
    return {
        "protocol": PROTOCOL,
        "game": plan.game,
        "players": plan.players,
        "view": plan.view,
        "set": plan.deal_set,
        "deals_sha256": {
            str(deals): _hash(replace(plan.setting(), deals=deals)) for deals in sorted(played, reverse=True)
        },
        "pool": [label(policy) for policy in plan.pool],
        "measured": dict(measured),
        "rows": sorted(written, key=lambda row: -float(row["pool"]["win_share"]["mean"])),
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def label(policy: Policy) -> str:
    """A policy's name as tables have room for it: a checkpoint's without its folder."""
    kind, colon, path = policy.name.partition(":")
    if kind != "checkpoint" or not colon:
        return policy.name.removeprefix(f"{policy.game}/")
    file = Path(path)
    return file.stem if file.suffix in (".safetensors", ".json") and file.stem != "policy" else file.resolve().name


def measure(
    plan: Plan,
    agents: Sequence[Policy],
    folder: Path,
    *,
    processes: int = 1,
    backend: str | None = None,
    ray_address: str | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Play each agent against the pool, as far as its pairs are not kept in `folder`, and keep what is played.

    A pair is kept under a name told by all that decides its result: rules, protocol, deals and policies. A policy
    without a `fingerprint` is played anew every time.

    Args:
        plan: the pool, and what is played.
        agents: the policies measured.
        folder: where pairs are kept, and blocks of those that are being played.
        processes: as for `evaluate`, like all that follow.
        backend: where the games are played.
        ray_address: of a Ray cluster.
        progress: called with games played and games in all.

    Raises what `evaluate` raises, OSError where the folder cannot be written, KeyboardInterrupt with one line.
    """
    pairs: dict[tuple[Any, Any], Pair] = {}
    for agent in agents:
        for other in (agent, *plan.pool):
            for pair in ((agent, other), (other, agent)):
                pairs.setdefault((key(pair[0]), key(pair[1])), pair)
    where = {"processes": processes, "backend": backend, "ray_address": ray_address}
    scores = _play(plan, pairs, folder, where, progress)

    def in_field(agent: Policy, other: Policy) -> Scores:
        return scores[key(agent), key(other)]

    rows = []
    for agent in agents:
        cells = [
            Cell(
                label(other),
                {
                    **per_deal(in_field(agent, other)),
                    "invasion": per_deal(in_field(other, agent))["win_share"],
                },
            )
            for other in plan.pool
            if key(other) != key(agent)
        ]
        if not cells:
            raise ValueError(f"the pool holds nothing but {label(agent)!r} itself; another field is needed")
        setting = plan.setting(agent)
        own = estimate(in_field(agent, agent).mean(axis=(1, 2)))
        kind = "scripted" if agent.scripted else "search" if plan.searches(agent) else "policy"
        ms = decision_ms(plan.setting(agent), agent) if kind == "search" else None
        rows.append(Row(agent, Report(setting, label(agent), tuple(cells), _hash(setting)), own, kind, ms))
    return rows


def key(policy: Policy) -> Any:
    """What makes two policies one."""
    return policy.fingerprint or policy.source or id(policy.target)


def _play(
    plan: Plan,
    pairs: Mapping[tuple[Any, Any], Pair],
    folder: Path,
    where: Mapping[str, Any],
    progress: Progress | None,
) -> dict[tuple[Any, Any], Scores]:
    """The scores of all pairs; those that are not kept are played, the quick ones first."""
    found: dict[tuple[Any, Any], Scores] = {}
    todo: list[tuple[Any, Any]] = []
    settings = {each: plan.setting(*pair) for each, pair in pairs.items()}
    for each, pair in pairs.items():
        kept = _kept(settings[each], pair, folder)
        if kept is not None:
            found[each] = kept
        else:
            todo.append(each)
    todo.sort(key=lambda each: -settings[each].deals)
    games = {each: settings[each].deals * plan.players for each in pairs}
    total = sum(games.values())
    played = total - sum(games[each] for each in todo)
    chosen = make_backend(where["backend"], where["processes"], where["ray_address"])
    with connected(chosen):
        while todo:
            # Workers are started once for all pairs of a setting; alone, every pair is kept as soon as it is played.
            setting = settings[todo[0]]
            now = todo[:1] if chosen.name == "serial" else [each for each in todo if settings[each] == setting]
            lineups = [[pairs[each][0], *[pairs[each][1]] * (plan.players - 1)] for each in now]
            if progress:
                progress(played, total)
            try:
                scores = play_lineups(
                    setting, lineups, folder=folder, progress=_moved(progress, played, total), **where
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted with {len(found)} of {len(pairs)} pairs played; they, and the blocks of the next, "
                    f"are kept in {folder}, and the same command goes on from there"
                ) from None
            for each, result in zip(now, scores, strict=True):
                found[each] = result
                file = _file(setting, pairs[each], folder)
                if file is not None:
                    write_scores(file, result)
                played += games[each]
                todo.remove(each)
            forget(setting, lineups, folder)
    return found


def _moved(progress: Progress | None, before: int, total: int) -> Progress | None:
    """The progress of some pairs as one of the whole."""
    return None if progress is None else lambda played, _: progress(before + played, total)


def _kept(setting: Setting, pair: Pair, folder: Path) -> Scores | None:
    file = _file(setting, pair, folder)
    if file is None or not file.exists():
        return None
    n = int(dict(setting.options)["num_players"])
    scores = read_scores(file, (setting.deals, n, n))
    if scores is None:
        _tell(f"{file} is damaged; {label(pair[0])} in a field of {label(pair[1])} is played again")
    return scores


def _file(setting: Setting, pair: Pair, folder: Path) -> Path | None:
    """Where a pair is kept; None where a policy cannot be told from another one."""
    if not all(policy.fingerprint for policy in pair):
        return None
    # Not all of the package, as for a match's blocks: a leaderboard outlives changes to what decides no game.
    parts = ("rules*.py", "options*.py", "view*.py", "bots*.py")
    told = {
        "protocol": PROTOCOL,
        "version": __version__,
        "rules": package_digest(*(f"{setting.game}/{part}" for part in parts)),
        "engine": package_digest("core/rng.py", "core/bits.py", "core/reward.py", "arena/deals.py", "search/*.py"),
        "setting": [setting.game, setting.options, setting.view, setting.deal_set, setting.deals],
        "deals_sha256": _hash(setting),
        "pair": [policy.fingerprint for policy in pair],
    }
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return folder / f"pair-{digest[:24]}.npz"


@cache
def _hash(setting: Setting) -> str:
    return setting.sha256


def _tell(text: str) -> None:
    print(f"undertake benchmark: {text}", file=sys.stderr, flush=True)
