"""Measuring by the protocol, version 1: one agent against fields, and one of each field among the agent's copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.matches import Setting, forget, make_setting, play_lineups
from undertake.arena.policy import Policy, make_policy
from undertake.arena.statistics import Estimate, compare, estimate, per_deal, pooled
from undertake.core.game import GAMES, check_choice, get_game

__all__ = ["Cell", "Match", "Report", "evaluate", "play"]

Progress = Callable[[int, int], None]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Match:
    """What n policies did at one table over the same deals, in every rotation of their seats.

    Attributes:
        setting: game, options, view and deals
        names: the n policies
        scores: int32 [D, n, n], `[d, r, k]` the final score of policy k in deal d, sitting in seat (k + r) mod n
        deals_sha256: the hash of the cards
    """

    setting: Setting
    names: tuple[str, ...]
    scores: npt.NDArray[np.int32]
    deals_sha256: str

    def estimates(self, policy: int = 0) -> dict[str, Estimate]:
        """win_share, rank, score, margin and field_score of policy number `policy`, with 95 % intervals over deals."""
        return {name: estimate(values) for name, values in per_deal(self.scores, policy).items()}


@dataclass(frozen=True)
class Cell:
    """One agent in one field.

    Attributes:
        field: the policy that plays all the other seats
        per_deal: float64 [D] by metric: win_share, rank, score, margin, field_score, invasion
        difference: the agent's per_deal less the other agent's in this field, where two are compared
    """

    field: str
    per_deal: Mapping[str, Floats]
    difference: Mapping[str, Estimate] | None = None

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Every metric with its 95 % interval over deals."""
        return {name: estimate(values) for name, values in self.per_deal.items()}


@dataclass(frozen=True)
class Report:
    """One agent in its fields; `cells` has one each, in the order asked for.

    The headline leaves out the agent's own field, where symmetry sets all figures, unless there is no other.
    """

    setting: Setting
    agent: str
    cells: tuple[Cell, ...]
    deals_sha256: str
    versus: str | None = None

    @property
    def num_players(self) -> int:
        """Players at the table; parity is one over it."""
        return int(dict(self.setting.options)["num_players"])

    @property
    def others(self) -> tuple[Cell, ...]:
        """The fields of the headline."""
        return tuple(cell for cell in self.cells if cell.field != self.agent) or self.cells

    @property
    def pool(self) -> dict[str, Estimate]:
        """Every metric's mean over the fields: averaged deal by deal, since the fields share them."""
        return {name: pooled([cell.per_deal[name] for cell in self.others]) for name in self.cells[0].per_deal}

    @property
    def worst(self) -> Cell:
        """The field with the least win share."""
        return min(self.others, key=lambda cell: cell.estimates["win_share"].mean)

    @property
    def most_invasive(self) -> Cell:
        """The field of which one wins most at a table of the agent's copies."""
        return max(self.others, key=lambda cell: cell.estimates["invasion"].mean)

    def to_json(self) -> dict[str, Any]:
        """Plain data: of one field a flat object, of several one with `cells` and the headline figures."""
        if len(self.cells) == 1:
            return self._cell_to_json(self.cells[0])
        worst, invasive = self.worst, self.most_invasive
        return {
            **self._where(),
            "fields": [cell.field for cell in self.cells],
            **self._deals(),
            "pool": _to_json(self.pool),
            "worst": {"field": worst.field, "win_share": worst.estimates["win_share"].to_json()},
            "largest_invasion": {"field": invasive.field, "invasion": invasive.estimates["invasion"].to_json()},
            "cells": [self._cell_to_json(cell) for cell in self.cells],
        }

    def _cell_to_json(self, cell: Cell) -> dict[str, Any]:
        found = {**self._where(), "field": cell.field, **self._deals(), **_to_json(cell.estimates)}
        if cell.difference is not None:
            found["versus"] = {"agent": self.versus, **_to_json(cell.difference)}
        return found

    def _where(self) -> dict[str, Any]:
        return {"game": self.setting.game, "players": self.num_players, "agent": self.agent}

    def _deals(self) -> dict[str, Any]:
        """What was played; where it departs from the protocol it says so."""
        setting = self.setting
        found: dict[str, Any] = {"set": setting.deal_set, "deals": setting.deals, "deals_sha256": self.deals_sha256}
        usual = make_setting(setting.game, self.num_players)
        if setting.view != usual.view:
            found["view"] = setting.view
        if setting.options != usual.options:
            found["options"] = dict(setting.options)
        return found


def _to_json(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: value.to_json() for name, value in estimates.items()}


def play(
    game: str,
    policies: Sequence[Any],
    *,
    deals: int = 4096,
    deal_set: str = "dev",
    view: str = "recall",
    processes: int = 1,
    backend: str | None = None,
    ray_address: str | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Match:
    """Seat `policies` at one table and play all rotations of their seats over the same deals.

    Args:
        game: "no_thanks" or "six_nimmt".
        policies: one a player, each a name or an object that `make_policy` takes.
        deals: how many; D deals are D times n games.
        deal_set: "dev" for tuning and choosing, "test" for reporting.
        view: what everybody may see, "recall" or "table".
        processes: worker processes, or with Ray the CPUs of one that is started; they need policies with names.
        backend: "serial", "processes" or "ray"; None: by the number of processes. The results are the same.
        ray_address: of the Ray cluster to join, whose CPUs are all used; None starts Ray on this machine.
        keep: folder for finished blocks while the match runs: an interrupted one goes on from there.
        progress: called with games played and games in all.
        **options: of the game; 6 nimmt! is one hand unless `length` says otherwise.

    Raises ValueError or TypeError in one line for what is not allowed, PolicyError for a policy that errs,
    BrokenExecutor where worker processes die again and again.
    """
    check_choice("game", game, GAMES)
    setting = make_setting(game, len(policies), deals=deals, deal_set=deal_set, view=view, **options)
    lineup = _make([*policies], game)
    scores = play_lineups(
        setting, [lineup], processes=processes, backend=backend, ray_address=ray_address, folder=keep, progress=progress
    )[0]
    forget(setting, [lineup], keep)
    return Match(setting, tuple(policy.name for policy in lineup), scores, setting.sha256)


def evaluate(
    game: str,
    agent: Any,
    field: Any = "all",
    *,
    versus: Any = None,
    num_players: int = 4,
    deals: int = 4096,
    deal_set: str = "dev",
    view: str = "recall",
    processes: int = 1,
    backend: str | None = None,
    ray_address: str | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Measure `agent` in one or several fields by the protocol: all seats of the same deals, and the reverse.

    Args:
        game: "no_thanks" or "six_nimmt".
        agent: a name or an object that `make_policy` takes.
        field: one such, a list of them, names with commas between, or "all" for the game's scripted baselines.
        versus: another agent, to be compared in the same fields on the same deals.
        num_players: seats; parity is one over it.
        deals: as for `play`, like all that follow.
        deal_set: "dev" or "test".
        view: "recall" or "table".
        processes: worker processes, or CPUs.
        backend: where the games are played.
        ray_address: of a Ray cluster.
        keep: folder for finished blocks.
        progress: called with games played and games in all.
        **options: of the game.

    Raises ValueError or TypeError in one line for what is not allowed, PolicyError for a policy that errs,
    BrokenExecutor where worker processes die again and again.
    """
    check_choice("game", game, GAMES)
    setting = make_setting(game, num_players, deals=deals, deal_set=deal_set, view=view, **options)
    first, *others = _make([agent, *_fields(field, game)], game)
    rival = _make([versus], game)[0] if versus is not None else None
    n = num_players
    lineups = [[first, *[other] * (n - 1)] for other in others]
    lineups += [[other, *[first] * (n - 1)] for other in others]
    if rival is not None:
        lineups += [[rival, *[other] * (n - 1)] for other in others]
        lineups += [[other, *[rival] * (n - 1)] for other in others]
    scores = play_lineups(
        setting, lineups, processes=processes, backend=backend, ray_address=ray_address, folder=keep, progress=progress
    )
    count = len(others)
    cells = []
    for i, other in enumerate(others):
        found = _cell(scores[i], scores[count + i])
        difference = None
        if rival is not None:
            difference = compare(found, _cell(scores[2 * count + i], scores[3 * count + i]))
        cells.append(Cell(other.name, found, difference))
    forget(setting, lineups, keep)
    return Report(setting, first.name, tuple(cells), setting.sha256, rival.name if rival is not None else None)


def _cell(in_field: npt.NDArray[np.int32], invaded: npt.NDArray[np.int32]) -> dict[str, Floats]:
    return {**per_deal(in_field), "invasion": per_deal(invaded)["win_share"]}


def _fields(field: Any, game: str) -> list[Any]:
    """The fields meant, each once."""
    found: list[Any] = []
    for each in field if isinstance(field, Iterable) and not isinstance(field, str) else [field]:
        names: list[Any] = [part.strip() for part in each.split(",")] if isinstance(each, str) else [each]
        for name in names:
            found += list(get_game(game).bots) if name == "all" else [name]
    if not found:
        raise ValueError("no field is given; a policy's name or 'all' is needed")
    return list({_key(each): each for each in found}.values())


def _key(given: Any) -> Any:
    return given if isinstance(given, str) else id(given)


def _make(given: Sequence[Any], game: str) -> list[Policy]:
    """The policies, where the same name or object is the same policy."""
    made = {key: make_policy(each, game) for key, each in {_key(each): each for each in given}.items()}
    return [made[_key(each)] for each in given]
