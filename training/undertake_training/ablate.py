"""What each choice of the training is worth: the same short run without it, several seeds, all on the same dev deals.

`python -m undertake_training.ablate configs/ablation/no_thanks.yaml` trains what is missing, in `runs/ablation`, and
writes the figures to `docs/measured`. The file holds `base` (a config's path beside it), `settings` that shorten the
base, `seeds`, and `variants`: names with the settings that each changes.
"""

from __future__ import annotations

import datetime
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml
from rich.progress import Progress

from undertake.core.files import write_atomically
from undertake_training import config as configuration
from undertake_training import mapping
from undertake_training.config import Config, ConfigError
from undertake_training.report import SHARE, read_log

__all__ = ["Study", "collect", "main", "read_study"]

BASE = "base"

_COMMAND = "import sys; from undertake_training.cli import main; sys.exit(main())"
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for 95 % two-sided, by degrees of freedom from 1."""


@dataclass(frozen=True)
class Study:
    """Runs to compare: configs by (variant, seed); the variant `BASE` is the one that the others are compared with."""

    name: str
    game: str
    runs: Mapping[tuple[str, int], Config]


@dataclass(frozen=True)
class Arguments:
    """Train every variant of a study with every seed, and gather what came out."""

    study: Annotated[Path, tyro.conf.Positional]
    """YAML file of the study."""
    processes: int = 1
    """Runs at a time, one thread each."""
    only: tuple[str, ...] = ()
    """Names of the variants to train now; none: all."""
    out: Path = Path("docs/measured")
    """Folder for the gathered figures."""


def read_study(path: Path) -> Study:
    """The study in a YAML file.

    Raises:
        ConfigError: a key or value that is not allowed, with its variant.
    """
    data = mapping.read_yaml(path)
    base = merged(mapping.read_yaml(path.parent / data["base"]), data.get("settings", {}))
    runs = {}
    for variant, changes in {BASE: {}, **data.get("variants", {})}.items():
        for seed in range(data.get("seeds", 3)):
            folder = f"{path.stem}/{variant.replace(' ', '_')}-{seed}"
            own = {
                "seed": seed,
                "name": folder.replace("/", "-"),
                "log": {"runs": "runs/ablation", "tensorboard": False},
            }
            try:
                runs[variant, seed] = configuration.from_mapping(merged(merged(base, changes), own))
            except ConfigError as error:
                raise ConfigError(f"{path}, {variant}: {error}") from None
    return Study(path.stem, next(iter(runs.values())).game, runs)


def merged(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with the `changes`, settings of settings likewise."""
    result = dict(data)
    for key, value in changes.items():
        inner = result.get(key)
        both = isinstance(value, Mapping) and isinstance(inner, Mapping) and key not in ("goals", "options")
        result[key] = merged(inner, value) if both and inner is not None else value
    return result


def train(config: Config) -> None:
    """Train a run to its end, unless that has been done: in a process of its own, resumed if it was interrupted.

    Raises:
        ConfigError: what is there was trained with other settings, or its own are damaged.
        RuntimeError: the training failed.
    """
    folder = config.folder
    settings = folder.with_suffix(".yaml")
    if folder.exists() and settings.exists() and configuration.load(settings) != config:
        raise ConfigError(f"{folder}: it was trained with other settings than the study has now; remove or rename it")
    if finished(config):
        return
    if (folder / "resume.safetensors").exists():
        command = ["--resume", str(folder)]
    else:
        write_atomically(settings, configuration.write(config).encode())
        command = ["--config", str(settings)]
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, "train", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{folder}: {done.stderr.strip().splitlines()[-1]}")


def finished(config: Config) -> bool:
    """Whether a run was trained to its end."""
    lines = read_log(config.folder) if (config.folder / "log.jsonl").exists() else []
    return bool(lines) and lines[-1]["decisions"] >= config.decisions


def collect(study: Study) -> dict[str, Any]:
    """Win shares at the end of each finished run, and each variant's difference from the base, seed by seed."""
    shares = {}
    for (variant, seed), config in study.runs.items():
        if finished(config):
            last = read_log(config.folder)[-1]
            shares[variant, seed] = {k.removeprefix(SHARE): v for k, v in last.items() if k.startswith(SHARE)}
    first = next(iter(study.runs.values()))
    rows = {}
    for variant in dict.fromkeys(name for name, _ in study.runs):
        seeds = [seed for name, seed in shares if name == variant]
        if not seeds:
            continue
        means = [_mean(shares[variant, seed]) for seed in seeds]
        differences = [_mean(shares[variant, s]) - _mean(shares[BASE, s]) for s in seeds if (BASE, s) in shares]
        rows[variant] = {
            "seeds": len(seeds),
            "mean": means,
            "worst": [min(shares[variant, seed].values()) for seed in seeds],
            "difference": t_interval(differences) if variant != BASE and len(differences) > 1 else None,
            "shares": {f: [shares[variant, seed][f] for seed in seeds] for f in shares[variant, seeds[0]]},
        }
    return {
        "study": study.name,
        "date": datetime.date.today().isoformat(),
        "game": study.game,
        "decisions": first.decisions,
        "deals": first.measure.deals,
        "variants": rows,
    }


def t_interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and 95 % interval of the mean of 2 to 10 values, one a seed, by Student's t."""
    half = _T95[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _mean(shares: Mapping[str, float]) -> float:
    return sum(shares.values()) / len(shares)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    asked = tyro.cli(Arguments, prog="python -m undertake_training.ablate", args=arguments)
    try:
        study = read_study(asked.study)
        wanted = [c for (name, _), c in study.runs.items() if not asked.only or name in asked.only]
        with Progress() as progress, ThreadPoolExecutor(asked.processes) as pool:
            bar = progress.add_task(study.name, total=len(wanted))
            for _ in pool.map(train, wanted):
                progress.advance(bar)
    except (ConfigError, RuntimeError) as error:
        print(f"ablate: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    found = collect(study)
    asked.out.mkdir(parents=True, exist_ok=True)
    write_atomically(asked.out / f"ablation-{study.name}.json", (json.dumps(found, indent=1) + "\n").encode())
    print(
        yaml.safe_dump(
            {name: {k: row[k] for k in ("mean", "worst", "difference")} for name, row in found["variants"].items()},
            sort_keys=False,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
