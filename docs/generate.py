"""Write the measured tables of README.md from the reports in `docs/measured`; a test fails when they drift.

    python docs/generate.py            # rewrite README.md from the reports
    python docs/generate.py --bench    # measure this machine's speed first, into docs/measured/bench.json

The tables of strength come from `docs/measured/demo_no_thanks.json` and `demo_six_nimmt.json`, which are the
`report.json` that `make demo` leaves under `runs/`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "measured"


def speed_table(report: Mapping[str, Any]) -> str:
    """The batch engine by players, the cost by tables, and the loops beside their references."""
    found = report["measurements"]

    def rate(what: str, key: str = "per_second", **wanted: Any) -> float:
        wanted["what"] = what
        return next(float(line[key]) for line in found if all(line[name] == value for name, value in wanted.items()))

    def millions(game: str, view: str, players: int, tables: int = 1024) -> str:
        case = {"game": game, "view": view, "players": players, "num_envs": tables}
        return f"{rate('batch', **case) / 1e6:.1f} ({rate('batch', 'best', **case) / 1e6:.1f})"

    sizes = {"no_thanks": (2, 4, 7), "six_nimmt": (2, 4, 7, 10)}
    titles = {"no_thanks": "No Thanks!", "six_nimmt": "6 nimmt!"}
    rows = [
        "| million decisions a CPU-second, 1,024 tables, random legal play | 2 players | 4 | 7 | 10 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for game, title in titles.items():
        for view, what in (("none", "nothing observed"), ("recall", "recall observation and action mask")):
            cells = [millions(game, view, n) if n in sizes[game] else "" for n in (2, 4, 7, 10)]
            rows.append(f"| {title}, {what} | {' | '.join(cells)} |")
    rows += [
        "",
        "| the same, 4 players, by number of tables | 1 | 16 | 256 | 1,024 | 4,096 | 65,536 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for game, title in titles.items():
        for view, what in (("none", "nothing observed"), ("recall", "recall observation and action mask")):
            cells = [millions(game, view, 4, tables) for tables in (1, 16, 256, 1024, 4096, 65536)]
            rows.append(f"| {title}, {what} | {' | '.join(cells)} |")
    other = rate("connect_four_v3")
    rows += ["", "| a CPU-second, one core | |", "| --- | --- |"]
    for game, title in titles.items():
        steps = rate("aec", game=game)
        rows.append(f"| {title} `env()`: `last()`, a random legal choice, `step()` | {steps:,.0f} steps |")
    rows.append(f"| PettingZoo's own `connect_four_v3.env()`, the same loop | {other:,.0f} steps |")
    for game, title in titles.items():
        bot = {"no_thanks": "tuned", "six_nimmt": "closest_gap"}[game]
        for tables in (64, 1024):
            steps = rate("vector", game=game, num_envs=tables)
            what = f"{title} `gymnasium.make_vec`, {tables:,} tables, three {bot}"
            rows.append(f"| {what} | {steps:,.0f} decisions of the learner |")
        steps = rate("sync_vector", game=game)
        rows.append(f"| the same 64 by Gymnasium's own `SyncVectorEnv` | {steps:,.0f} decisions of the learner |")
    for game, title in titles.items():
        bots = {"no_thanks": "four thresholds", "six_nimmt": "four closest_gap, one hand"}[game]
        rows.append(f"| {title}, whole matches in the arena, {bots} | {rate('arena', game=game):,.0f} games |")
    rows.append(f"| filling memory, for scale | {rate('memory_fill') / 1e9:.1f} GB |")
    rows += [
        "",
        "Medians of seven rounds, in brackets the fastest round: neighbours on a shared machine cost up to half.",
    ]
    rows += ["", f"Measured {report['date']} by `{report['command']}` on {report['machine']}."]
    return "\n".join(rows)


def strength_table(report: Mapping[str, Any]) -> str:
    """The demo's policy in the field of each baseline."""
    rows = [
        "| three seats played by | win share of the policy | its mean score | of one such bot among three of it |",
        "| --- | --- | --- | --- |",
    ]
    for cell in report["strength"]["cells"]:

        def show(name: str, digits: int, cell: Mapping[str, Any] = cell) -> str:
            value = cell[name]
            return f"{value['mean']:.{digits}f} ({value['low']:.{digits}f} to {value['high']:.{digits}f})"

        rows.append(f"| {cell['field']} | {show('win_share', 3)} | {show('score', 1)} | {show('invasion', 3)} |")
    deals = report["strength"]["deals"]
    rows += [
        "",
        f"{report['decisions']:,} decisions of training, seed {report['seed']}, {report['seconds']:.0f} seconds; "
        f"{deals:,} test deals in each of the {report['players']} seats.",
    ]
    return "\n".join(rows)


def sections() -> dict[str, str]:
    """The generated parts of README.md by name, of those whose report is there."""
    makers = {"bench": speed_table, "demo_no_thanks": strength_table, "demo_six_nimmt": strength_table}
    return {
        name: make(json.loads((MEASURED / f"{name}.json").read_text()))
        for name, make in makers.items()
        if (MEASURED / f"{name}.json").exists()
    }


def filled(text: str, parts: Mapping[str, str]) -> str:
    """`text` with what stands between `<!-- NAME -->` and `<!-- /NAME -->` replaced."""
    for name, part in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, part=part: f"{match[1]}{part}\n{match[2]}", text)
        if count != 1:
            raise SystemExit(f"README.md has {count} places for {name!r}, one is needed")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", action="store_true", help="measure the speed first")
    if parser.parse_args(arguments).bench:
        from undertake_training.bench import machine, measure

        found = measure(("no_thanks", "six_nimmt"), 7, 0.2)
        report = {
            "machine": machine(),
            "date": datetime.date.today().isoformat(),
            "command": "undertake bench --rounds 7",
            "measurements": [vars(line) for line in found],
        }
        MEASURED.mkdir(exist_ok=True)
        (MEASURED / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(), sections()))


if __name__ == "__main__":
    main()
