"""What remembering is worth: one training in the table view alone, with a memory, and in the view that recalls all.

`python -m undertake_training.remembering configs/table/no_thanks.yaml` trains what is missing, in `runs/table-*`, plays
the policies in the fields of `measure.fields` on dev deals, in the view that each was made for, and writes the figures
to `docs/measured/memory.json` and the table of `docs/training.md` from them.

Letters: D deals.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import tyro

from undertake import arena
from undertake.arena.statistics import Estimate, estimate, per_deal
from undertake.core.files import write_atomically
from undertake.core.memory import Memory
from undertake_training import config as configuration
from undertake_training.ablate import train
from undertake_training.checkpoint import load_policy
from undertake_training.config import Config, ConfigError
from undertake_training.train import options_of

__all__ = ["ARMS", "arms", "main", "rewritten", "table"]

ARMS = {"alone": "table view", "memory": "table view with memory", "recall": "recall view"}
"""The policies that are compared, as the table calls them; the first is what the others are compared with."""

MEASURED = Path("docs/measured/memory.json")
PAGE = Path("docs/training.md")
_MARKS = ("<!-- memory -->\n", "<!-- /memory -->")
_TITLES = {"no_thanks": "No Thanks!", "six_nimmt": "6 nimmt!, one hand"}

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Arguments:
    """Train a policy of the table view with and without its memory, and one that recalls, and compare them."""

    config: Annotated[Path, tyro.conf.Positional]
    """YAML file of the policy with a memory."""
    decisions: int | None = None
    """Budget of each run; that of the file if not given."""
    seeds: int = 1
    """Runs of each."""
    machine: str = "2 vCPUs, shared"
    """What the figures are said to have been measured on."""


def arms(config: Config, seed: int) -> dict[str, Config]:
    """The runs of one seed, by the names in `ARMS`: they differ in view and memory alone."""
    changes: dict[str, dict[str, Any]] = {
        "alone": {"memory": Memory()},
        "memory": {},
        "recall": {"memory": Memory(), "view": "recall"},
    }
    return {
        arm: dataclasses.replace(config, name=f"table-{config.game}-{arm}-seed{seed}", seed=seed, **changes[arm])
        for arm in ARMS
    }


def measure(config: Config) -> dict[str, dict[str, Shares]]:
    """Per field win share and score of the policy on each of the dev deals, float64 `[D]`."""
    found = {}
    for field in config.measure.fields:
        lineup = [load_policy(config.folder), *[field] * (config.num_players - 1)]
        deals = config.measure.deals
        match = arena.play(config.game, lineup, deals=deals, deal_set="dev", view=config.view, **options_of(config))
        metrics = per_deal(match.scores)
        found[field] = {name: metrics[name] for name in ("win_share", "score")}
    return found


def compare(measured: Mapping[str, Sequence[Mapping[str, Mapping[str, Shares]]]]) -> dict[str, Any]:
    """Means over seeds and fields with their intervals over deals, of each arm and of its difference from the first.

    `measured` holds for each arm, seed by seed, what `measure` gives; the deals are the same everywhere.
    """
    pooled = {
        arm: {
            name: np.mean([[field[name] for field in run.values()] for run in runs], axis=(0, 1))
            for name in ("win_share", "score")
        }
        for arm, runs in measured.items()
    }
    first = pooled[next(iter(ARMS))]
    return {
        arm: {
            **{name: estimate(values).to_json() for name, values in metrics.items()},
            "difference": {name: estimate(values - first[name]).to_json() for name, values in metrics.items()},
            "seeds": [float(np.mean([field["win_share"] for field in run.values()])) for run in measured[arm]],
            "fields": {
                field: float(np.mean([run[field]["win_share"] for run in measured[arm]])) for field in measured[arm][0]
            },
        }
        for arm, metrics in pooled.items()
    }


def table(found: Mapping[str, Any]) -> str:
    """The table of `docs/training.md` from what stands in `MEASURED`."""
    lines = [
        "| game | policy | win share | more than the table view alone | score | difference |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for game, title in _TITLES.items():
        for arm, name in ARMS.items() if game in found else ():
            row = found[game]["arms"][arm]
            cells = [Estimate(**row[what]) for what in ("win_share", "score")]
            more = [
                str(Estimate(**row["difference"][what])) if arm != "alone" else "" for what in ("win_share", "score")
            ]
            lines.append(f"| {title} | {name} | {cells[0]} | {more[0]} | {cells[1]} | {more[1]} |")
    for game, title in _TITLES.items():
        if game in found:
            what = found[game]
            seeds = f"{what['seeds']} seed" + ("s" if what["seeds"] > 1 else "")
            told = (
                f"{title}: {what['decisions']:,} decisions of training each, {seeds}; mean over the fields "
                f"{', '.join(what['arms']['alone']['fields'])}, {what['deals']:,} dev deals in four seats. Measured "
                f"{what['date']} by `{what['command']}` on {what['machine']}."
            )
            lines += ["", *textwrap.wrap(told, 120, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def rewritten(page: str, found: Mapping[str, Any]) -> str:
    """The text of `docs/training.md` with its table as `found` gives it; ValueError where the marks are missing."""
    before, begin, rest = page.partition(_MARKS[0])
    _, end, after = rest.partition(_MARKS[1])
    if not begin or not end:
        raise ValueError(f"{PAGE}: the marks {_MARKS[0].strip()} and {_MARKS[1]} are missing")
    return before + begin + table(found) + end + after


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, measure and write; returns the exit code."""
    asked = tyro.cli(Arguments, prog="python -m undertake_training.remembering", args=arguments)
    try:
        config = configuration.load(asked.config)
        config = dataclasses.replace(config, decisions=asked.decisions or config.decisions)
        if not config.memory.decisions or config.view != "table":
            raise ConfigError(f"config {asked.config}: a policy of the table view with a memory is wanted")
        measured: dict[str, list[dict[str, dict[str, Shares]]]] = {arm: [] for arm in ARMS}
        for seed in range(asked.seeds):
            for arm, run in arms(config, seed).items():
                train(run)
                measured[arm].append(measure(run))
                print(f"{run.name}: {np.mean([each['win_share'] for each in measured[arm][-1].values()]):.3f}")
    except (ConfigError, RuntimeError) as error:
        print(f"remembering: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    found = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    found[config.game] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": asked.machine,
        "command": f"python -m undertake_training.remembering {asked.config} "
        f"--decisions {config.decisions} --seeds {asked.seeds}",
        "decisions": config.decisions,
        "deals": config.measure.deals,
        "seeds": asked.seeds,
        "memory": dataclasses.asdict(config.memory),
        "arms": compare(measured),
    }
    write_atomically(MEASURED, (json.dumps(found, indent=1) + "\n").encode())
    if PAGE.exists():
        write_atomically(PAGE, rewritten(PAGE.read_text(encoding="utf-8"), found).encode())
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
