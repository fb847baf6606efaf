"""`undertake benchmark`: the whole protocol for one agent, with a report; and the leaderboard of all known ones."""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from undertake.arena import pictures
from undertake.arena.benchmark import (
    DEALS,
    EXTRA,
    FULL_DISK,
    SIZES,
    Plan,
    Row,
    key,
    label,
    make_plan,
    measure,
    to_table,
)
from undertake.arena.benchmark_page import (
    KNOWN,
    known_table,
    leaderboard_page,
    merged,
    place,
    read_tables,
    report_page,
    verdicts,
)
from undertake.arena.cli import Playing, exit_code, prepare
from undertake.arena.policy import Policy, make_policy
from undertake.arena.report import machine, print_report, print_table, progress_bar
from undertake.arena.trained import shipped
from undertake.core.files import write_atomically
from undertake.core.game import GAMES, check_choice

__all__ = ["Arguments", "benchmark_command", "leaderboard_command", "main"]


@dataclass(frozen=True)
class Arguments:
    """Measure an agent by the whole protocol: every field of the pool in every seat, the reverse, its own table.

    What has been played is kept: the same command goes on where an interrupted one stopped. Writes report.md,
    report.json and pictures. With --leaderboard all baselines, searching players and checkpoints are measured, and
    docs/leaderboard.md is written.
    """

    game: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")] = None
    """no_thanks or six_nimmt; with --leaderboard both, unless one is named."""
    agent: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="POLICY")] = ()
    """The policy measured, as for undertake evaluate. Several are measured in turn; for the leaderboard, besides."""
    players: Annotated[str | None, tyro.conf.arg(metavar="N|all")] = None
    """Players at the table, or "all" sizes of the protocol. None: 4, for the leaderboard all."""
    set: Literal["dev", "test"] = "test"
    """Deals for reporting, or those for tuning."""
    deals: int = DEALS
    """Deals in a field; where somebody searches, 512 at most."""
    pool: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="POLICY")] = ()
    """The fields: policies, or "baselines", "rollouts", "checkpoints" or, the default, "all" for these three."""
    search: bool = False
    """The agent searches, though its name does not tell: it plays 512 deals and is timed. Rollout players do anyway."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Where the report is written. None: runs/benchmark/GAME-AGENT, for the leaderboard docs/measured/leaderboard."""
    known: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = KNOWN
    """The leaderboard's tables, among which the agent is placed."""
    page: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("docs/leaderboard.md")
    """The leaderboard's page."""
    leaderboard: bool = False
    """Measure all known agents and write the page."""
    json: bool = False
    """Print report.json."""
    keep: Path = Path("runs/benchmark/pairs")
    """Folder for what has been played. It may be removed when no benchmark is to go on from it."""
    playing: tyro.conf.OmitArgPrefixes[Playing] = field(default_factory=Playing)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code: 0 done, 1 failed, 2 called wrongly, 130 interrupted."""
    prepare()
    asked = tyro.cli(Arguments, prog="undertake benchmark", args=list(arguments))
    command = shlex.join(["undertake", "benchmark", *arguments])
    run = leaderboard_command if asked.leaderboard else benchmark_command

    def hint(error: OSError) -> str:
        if error.errno not in FULL_DISK:
            return ""
        kept = f"{len(list(asked.keep.glob('pair-*.npz')))} finished pairs are kept in {asked.keep}"
        return f"; {kept}: make room and give the same command again, it goes on from there"

    return exit_code("undertake benchmark", lambda: run(asked, command), hint)


def benchmark_command(asked: Arguments, command: str) -> int:
    """Measure the agents asked for, and write and print a report of each; returns the exit code.

    Raises what `measure` raises, and OSError where a file cannot be written.
    """
    if asked.game is None or not asked.agent:
        raise ValueError("a game and --agent POLICY are needed, or --leaderboard")
    check_choice("game", asked.game, GAMES)
    names = [part.strip() for each in asked.agent for part in each.split(",")]
    # All of them first: a slip of the pen shows at once.
    agents = [make_policy(name, asked.game, trust=asked.playing.trust) for name in names]
    plans = [_plan(asked, asked.game, n) for n in _sizes(asked, asked.game, "4")]
    printed = []
    for agent in agents:
        folder = asked.out or Path("runs/benchmark") / f"{asked.game}-{_file_name(label(agent))}"
        if len(agents) > 1 and asked.out:
            folder = folder / _file_name(label(agent))
        folder.mkdir(parents=True, exist_ok=True)  # say before the work that its result could not be written
        tables, known = [], {}
        for plan in plans:
            if asked.search:
                plan = replace(plan, searching=(key(agent),))
            (row,) = _measure(plan, [agent], asked, f"{label(agent)}, {plan.players} players")
            tables.append(to_table(plan, [row], _measured(command)))
            known[plan.players] = known_table(tables[-1], asked.known)
            if not asked.json:
                _print(plan, row, tables[-1])
                print(place(tables[-1], known[plan.players]))
        _write_report(folder, agent, tables, known)
        printed += tables
        if not asked.json:
            print(f"report: {folder / 'report.md'}")
    if asked.json:
        print(json.dumps(printed[0] if len(printed) == 1 else printed, indent=1))
    return 0


def leaderboard_command(asked: Arguments, command: str) -> int:
    """Measure all known agents at all sizes, write their tables and the page; returns the exit code.

    The agents are the pool and, besides, all trained policies that come with the package, `--agent` and, at 4 players,
    the searching players of `EXTRA`.

    Raises what `measure` raises, and OSError where a file cannot be written.
    """
    folder = asked.out or Path("docs/measured/leaderboard")
    folder.mkdir(parents=True, exist_ok=True)
    for game in [asked.game] if asked.game else GAMES:
        check_choice("game", game, GAMES)
        for n in _sizes(asked, game, "all"):
            plan = _plan(asked, game, n)
            rows = _measure(plan, _agents(plan, asked), asked, f"{game}, {n} players")
            table = to_table(plan, rows, _measured(command))
            write_atomically(folder / f"{game}-{n}.json", (json.dumps(table, indent=1) + "\n").encode())
            print(f"{folder / f'{game}-{n}.json'}: {len(rows)} agents in {len(plan.pool)} fields", flush=True)
    asked.page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(asked.page, leaderboard_page(read_tables(folder)).encode())
    print(asked.page)
    return 0


def _agents(plan: Plan, asked: Arguments) -> list[Policy]:
    names = [part.strip() for each in asked.agent for part in each.split(",")]
    if plan.players == 4 and {"all", "rollouts"} & set(_pool(asked)):
        names = [*EXTRA[plan.game], *names]
    if {"all", "checkpoints"} & set(_pool(asked)):
        names += shipped(plan.game)
    found = {label(policy): policy for policy in plan.pool}
    for name in names:
        policy = make_policy(name, plan.game, trust=asked.playing.trust)
        if policy.fingerprint not in {each.fingerprint for each in found.values()}:
            found.setdefault(label(policy), policy)
    return list(found.values())


def _plan(asked: Arguments, game: str, n: int) -> Plan:
    return make_plan(
        game, n, _pool(asked), deals=asked.deals, deal_set=asked.set, view=asked.playing.view, trust=asked.playing.trust
    )


def _pool(asked: Arguments) -> list[str]:
    return [part.strip() for each in asked.pool or ("all",) for part in each.split(",")]


def _sizes(asked: Arguments, game: str, usual: str) -> list[int]:
    text = asked.players or usual
    if text == "all":
        return list(SIZES[game])
    if not text.replace(",", "").isdecimal():
        raise ValueError(f"players is {text!r}; a number is needed, several with commas, or 'all' for {SIZES[game]}")
    return [int(part) for part in text.split(",") if part]


def _measure(plan: Plan, agents: Sequence[Policy], asked: Arguments, text: str) -> list[Row]:
    with progress_bar(text) as progress:
        return measure(
            plan,
            agents,
            asked.keep,
            processes=asked.playing.processes,
            backend=asked.playing.backend,
            ray_address=asked.playing.ray_address,
            progress=progress,
        )


def _measured(command: str) -> dict[str, str]:
    return {"date": datetime.date.today().isoformat(), "machine": machine(), "command": command}


def _print(plan: Plan, row: Row, table: Mapping[str, Any]) -> None:
    print_report(row.report)
    deals = row.report.setting.deals
    for cell in row.report.cells:
        if len(cell.per_deal["score"]) < deals:
            print(f"{len(cell.per_deal['score'])} of the deals in the field of {cell.field}, which searches")
    if row.ms is not None:
        print(f"search       {row.ms:.3g} ms of CPU time a decision")
    print(f"own table    mean score {row.own_score}")
    if row.track != "search":
        judged = verdicts(plan.game, plan.players, table["rows"][0])
        if judged:
            print_table(
                "targets, by the worse end of the interval",
                ["target", "measured", "floor", "goal", "beyond", "reached"],
                [_judged(each) for each in judged],
            )


def _judged(each: Mapping[str, Any]) -> list[str]:
    value = each["value"]
    levels = ["" if each[name] is None else f"{each[name]:.3g}" for name in ("floor", "goal", "beyond")]
    return [each["what"], f"{value['mean']:.3f} ({value['low']:.3f} to {value['high']:.3f})", *levels, each["reached"]]


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-.") or "agent"


def _checkpoint(agent: Policy) -> Path | None:
    """The file or folder of a trained policy."""
    kind, colon, path = (agent.source or "").partition(":")
    if not colon:
        return shipped(agent.game).get(agent.name) if agent.game else None
    return Path(path) if kind == "checkpoint" else None


def _curve(path: Path) -> Path:
    """The training log of a checkpoint: NAME.curve.jsonl beside it, or that of its run."""
    if path.is_dir() or path.stem == "policy":
        return (path if path.is_dir() else path.parent) / "log.jsonl"
    return path.with_suffix(".curve.jsonl")


def _write_report(
    folder: Path, agent: Policy, tables: Sequence[Mapping[str, Any]], known: Mapping[int, Mapping[str, Any] | None]
) -> None:
    """report.json, then pictures, then report.md, which shows them."""
    write_atomically(folder / "report.json", (json.dumps({"tables": list(tables)}, indent=1) + "\n").encode())
    name = label(agent)
    shown: dict[int, list[tuple[str, str]]] = {}
    if importlib.util.find_spec("matplotlib") is None:
        print("undertake benchmark: no pictures without matplotlib: pip install 'undertake[report]'", file=sys.stderr)
    else:
        for table in tables:
            n = table["players"]
            rows = merged(table, known[n])
            files = [
                (f"pool-{n}.png", "win shares of all known agents in the fields of the pool, and the reverse"),
                (f"strength-{n}.png", "win share in the worst field over the mean of the pool"),
            ]
            pictures.draw_pool(table, rows, folder / files[0][0], name)
            # Means over other pools are no measure for this one.
            same = (known[n] or table)["pool"] == table["pool"]
            pictures.draw_strength(table, rows if same else table["rows"], folder / files[1][0], name)
            shown[n] = files
        trained = _checkpoint(agent)
        lines = pictures.read_curve(_curve(trained)) if trained else []
        if lines:
            n = 4 if 4 in shown else tables[0]["players"]
            pictures.draw_curves(lines, n, name, folder / "learning_curve.png")
            shown[n] = [*shown[n], ("learning_curve.png", "win share in each field while it was trained")]
    write_atomically(folder / "report.md", report_page(tables, known, shown).encode())
