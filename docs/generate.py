"""Write the measured tables of README.md, docs/training.md and docs/leaderboard.md from the reports in `docs/measured`.

    python docs/generate.py            # rewrite them from the reports, checkpoints/README.md from the cards
    python docs/generate.py --bench    # measure this machine's speed first, into docs/measured/bench.json
    python docs/generate.py --bench-training    # and the trainer's, into docs/measured/bench_training.json

The tables of strength come from `docs/measured/demo_no_thanks.json` and `demo_six_nimmt.json`, which are the
`report.json` that `make demo` leaves under `runs/`; the leaderboard from `docs/measured/leaderboard`, which `undertake
benchmark --leaderboard` measures. Tests fail when any of it drifts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from collections.abc import Callable, Mapping, Sequence
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


def training_table(report: Mapping[str, Any]) -> str:
    """The trainer's throughput beside what torch alone takes and beside MaskablePPO."""
    from undertake_training.bench_training import Measurement, compared

    titles = {"no_thanks": "No Thanks!", "six_nimmt": "6 nimmt!"}
    names = {
        "learner": "`undertake train`",
        "torch_ceiling": "torch alone, no games",
        "maskable_ppo_same": "MaskablePPO, our minibatch and epochs",
        "maskable_ppo_best": "MaskablePPO, its best minibatch",
        "maskable_ppo_default": "MaskablePPO, all defaults",
    }
    rows = [
        "| | threads | tables x steps, minibatch, epochs | decisions a second (a CPU-second) | compared |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in report["measurements"]:
        what = f"{titles[line['game']]} {names[line['what']]}" + (", GPU" if line["device"] == "cuda" else "")
        sizes = f"{line['num_envs']:,} x {line['steps']:,}, {line['batch']:,}, {line['epochs']}"
        rate = f"{line['per_second']:,.0f} ({line['per_cpu_second']:,.0f})"
        rows.append(f"| {what} | {line['threads']} | {sizes} | {rate} | {compared(Measurement(**line))} |")
    rows += ["", f"Measured {report['date']} by `{report['command']}` on {report['machine']}."]
    return "\n".join(rows)


def ablation_table(report: Mapping[str, Any]) -> str:
    """Each variant of a study beside its base: mean and worst win share over the fields, and every field's."""
    fields = list(report["variants"]["base"]["shares"])
    rows = [
        f"| {report['decisions']:,} decisions | mean of the fields, each seed | difference | worst field | "
        + " | ".join(fields)
        + " |",
        "| --- | --- | --- | --- |" + " --- |" * len(fields),
    ]

    def average(values: Sequence[float]) -> str:
        return f"{sum(values) / len(values):.3f}"

    for name, row in report["variants"].items():
        gap = row["difference"]
        told = f"{gap['mean']:+.3f} ({gap['low']:+.3f} to {gap['high']:+.3f})" if gap else ""
        seeds = " ".join(f"{value:.3f}" for value in row["mean"])
        rows.append(
            f"| {name} | {seeds} | {told} | {average(row['worst'])} | "
            + " | ".join(average(row["shares"][field]) for field in fields)
            + " |"
        )
    command = f"python -m undertake_training.ablate configs/ablation/{report['study']}.yaml"
    rows += ["", f"Measured {report['date']} by `{command}`; the right part are means over the seeds."]
    return "\n".join(rows)


def _fields(strength: Mapping[str, Any]) -> list[str]:
    """Table rows: a policy in the field of each baseline."""
    rows = [
        "| three seats played by | win share of the policy | its mean score | of one such bot among three of it |",
        "| --- | --- | --- | --- |",
    ]
    for cell in strength["cells"]:
        shown = (_told(cell["win_share"], 3), _told(cell["score"], 1), _told(cell["invasion"], 3))
        rows.append(f"| {cell['field']} | {' | '.join(shown)} |")
    return rows


def _told(value: Mapping[str, float], digits: int) -> str:
    return f"{value['mean']:z.{digits}f} ({value['low']:z.{digits}f} to {value['high']:z.{digits}f})"


def strength_table(report: Mapping[str, Any]) -> str:
    """The demo's policy in the field of each baseline."""
    rows = [
        *_fields(report["strength"]),
        "",
        f"{report['decisions']:,} decisions of training, seed {report['seed']}, {report['seconds']:.0f} seconds; "
        f"{report['strength']['deals']:,} test deals in each of the {report['players']} seats.",
    ]
    return "\n".join(rows)


def champion_table(card: Mapping[str, Any]) -> str:
    """A shipped champion in the field of each baseline."""
    strength = card["strength"]
    rows = [
        *_fields(strength),
        "",
        f"{card['decisions']:,} decisions of training, {card['cpu_hours']:.1f} CPU-hours; "
        f"{strength['deals']:,} test deals in each of the {strength['players']} seats.",
    ]
    return "\n".join(rows)


def card_table() -> str:
    """The trained policies in `checkpoints/`, a row a card."""
    rows = [
        "| policy | trained for | by | decisions | CPU-hours | win share in all fields | in its worst |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for path in sorted((ROOT / "checkpoints").glob("*/*.json")):
        card, game, name = json.loads(path.read_text()), path.parent.name, path.stem

        def share(of: Mapping[str, Any]) -> str:
            value = of["win_share"]
            return f"{value['mean']:.3f} ({value['low']:.3f} to {value['high']:.3f})"

        strength = card["strength"]
        pool, worst = ("not measured", "") if not strength else (share(strength["pool"]), share(strength["worst"]))
        worst += f", {strength['worst']['field']}" if strength else ""
        size = path.with_suffix(".safetensors").stat().st_size
        hours = card.get("cpu_hours")
        options = "".join(f", {key}={value}" for key, value in card["options"].items())
        rows.append(
            f"| `{game}/{name}` ({size / 1e6:.1f} MB) | {card['num_players']} players, view {card['view']}{options} "
            f"| [configs/{name}](../configs/{name}/{game}.yaml), seed {card['seed']} | {card['decisions']:,} "
            f"| {'' if hours is None else f'{hours:.1f}'} | {pool} | {worst} |"
        )
    return "\n".join([*rows, "", "Means and 95 % intervals over test deals; the cards hold every field."])


def size_table() -> str:
    """The champions at the protocol's other sizes, and what a learned best response gains from them."""
    rows = [
        "| policy | players (parity) | win share by field, lower end of the interval |",
        "| --- | --- | --- |",
    ]
    gains = []
    for path in sorted((ROOT / "checkpoints").glob("*/*.json")):
        strength, name = json.loads(path.read_text())["strength"], f"{path.parent.name}/{path.stem}"
        for players, found in strength.get("sizes", {}).items():
            fields = ", ".join(f"{cell['field']} {cell['win_share']['low']:.3f}" for cell in found["cells"])
            rows.append(f"| `{name}` | {players} ({1 / int(players):.3f}) | {fields} |")
        if response := strength.get("best_response"):
            gains.append(
                f"- `{name}`: {_told(response['gain'], 3)} over parity after {response['decisions'] / 1e6:.1f} million "
                f"decisions at its tables, {response['cpu_minutes']:.0f} CPU-minutes, seed {response['seed']}; "
                f"{response['deals']:,} test deals."
            )
    if gains:
        rows += ["", "A best response learned against frozen copies (`undertake best-response`) gains", "", *gains]
    return "\n".join(rows)


def sections() -> dict[str, str]:
    """The generated parts of README.md by name, of those whose report is there."""
    reports: dict[str, tuple[Callable[[Mapping[str, Any]], str], Path]] = {
        "bench": (speed_table, MEASURED / "bench.json"),
        "demo_no_thanks": (strength_table, MEASURED / "demo_no_thanks.json"),
        "demo_six_nimmt": (strength_table, MEASURED / "demo_six_nimmt.json"),
        "champion_no_thanks": (champion_table, ROOT / "checkpoints" / "no_thanks" / "champion.json"),
        "champion_six_nimmt": (champion_table, ROOT / "checkpoints" / "six_nimmt" / "champion.json"),
    }
    return {name: make(json.loads(path.read_text())) for name, (make, path) in reports.items() if path.exists()}


def training_sections() -> dict[str, str]:
    """The generated parts of docs/training.md by name."""
    makers = {
        "bench_training": training_table,
        "ablation-no_thanks": ablation_table,
        "ablation-six_nimmt": ablation_table,
    }
    return {
        name: maker(json.loads((MEASURED / f"{name}.json").read_text()))
        for name, maker in makers.items()
        if (MEASURED / f"{name}.json").exists()
    }


def filled(text: str, parts: Mapping[str, str]) -> str:
    """`text` with what stands between `<!-- NAME -->` and `<!-- /NAME -->` replaced."""
    for name, part in parts.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, part=part: f"{match[1]}{part}\n{match[2]}", text)
        if count != 1:
            raise SystemExit(f"there are {count} places for {name!r}, one is needed")
    return text


def _write_report(name: str, machine: str, command: str, found: Sequence[Any]) -> None:
    report = {
        "machine": machine,
        "date": datetime.date.today().isoformat(),
        "command": command,
        "measurements": [vars(line) for line in found],
    }
    MEASURED.mkdir(exist_ok=True)
    (MEASURED / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", action="store_true", help="measure the speed first")
    parser.add_argument("--bench-training", action="store_true", help="measure the trainer's speed first")
    given = parser.parse_args(arguments)
    games = ("no_thanks", "six_nimmt")
    if given.bench:
        from undertake_training.bench import machine, measure

        found = measure(games, 7, 0.2)
        _write_report("bench", machine(), "undertake bench --rounds 7", found)
    if given.bench_training:
        from undertake_training import bench_training as training

        cases = training.cases(training.settings(games))
        lines = training.measure(cases, 3, 0.2)
        _write_report("bench_training", training.machine(), "undertake bench --training --rounds 3", lines)
    for readme, parts in (
        (ROOT / "README.md", sections()),
        (ROOT / "docs" / "training.md", training_sections()),
        (ROOT / "checkpoints" / "README.md", {"cards": card_table(), "sizes": size_table()}),
    ):
        readme.write_text(filled(readme.read_text(), parts))
    from undertake.arena.benchmark_page import leaderboard_page, read_tables

    (ROOT / "docs" / "leaderboard.md").write_text(leaderboard_page(read_tables(MEASURED / "leaderboard")))


if __name__ == "__main__":
    main()
