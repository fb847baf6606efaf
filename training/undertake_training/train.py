"""`undertake train`: from the command line to a trained, saved and measured policy."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

from undertake import arena
from undertake.arena.report import print_report, progress_bar
from undertake.core.game import get_game, make_options
from undertake_training import checkpoint, monte_carlo, ppo, report
from undertake_training import config as configuration
from undertake_training import run as runs
from undertake_training.checkpoint import CheckpointError, CheckpointPolicy, load_policy
from undertake_training.config import Config, ConfigError

__all__ = ["ADVANCE", "main", "options_of"]

ADVANCE = {"ppo": ppo.advance, "monte_carlo": monte_carlo.advance}
"""What makes one update, by the config's `method`."""


@dataclass(frozen=True)
class Arguments:
    """Train a policy in self-play, one network in all seats: by masked PPO, or by Monte-Carlo values."""

    config: Path | None = None
    """YAML file of settings that differ from the defaults; the command line goes before it."""
    resume: Path | None = None
    """Folder of a run to go on with; only its budget, threads, measuring and logging, and how often each opponent is
    drawn, may change."""
    evaluate: bool = False
    """Measure the policy at the end, on test deals in the fields of `measure.fields`."""
    json: bool = False
    """Print the report as one JSON object instead of tables."""
    settings: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    try:
        return _train(list(arguments))
    except (ConfigError, CheckpointError, arena.PolicyError, ppo.TrainingError) as error:
        print(f"undertake train: {error}", file=sys.stderr)
        return 1 if isinstance(error, ppo.TrainingError) else 2
    except ppo.Interrupted as reason:
        print(reason, file=sys.stderr)
        return 130
    except OSError as error:
        print(f"undertake train: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1


def _train(given: list[str]) -> int:
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("--config", type=Path)
    known.add_argument("--resume", type=Path)
    before, _ = known.parse_known_args(given)
    if before.config and before.resume:
        raise ConfigError("--config and --resume: a resumed run has its config with it, give one of the two")

    def parse(default: Config) -> Arguments:
        return tyro.cli(Arguments, prog="undertake train", args=given, default=Arguments(settings=default))

    if before.resume:
        run = runs.resume(before.resume, lambda default: parse(default).settings)
        folder, asked = before.resume, parse(run.config)
        _check_fields(asked)
    else:
        asked = parse(configuration.load(before.config) if before.config else Config())
        run = runs.start(asked.settings)
        _check_fields(asked)
        folder = _new_folder(asked.settings)
    print(f"{'resuming' if before.resume else 'training'} in {folder}", file=sys.stderr)
    measuring = in_fields if run.config.measure.every else None
    ppo.train(run, folder, ADVANCE[run.config.method], measure=measuring)
    strength = {}
    if asked.evaluate:
        found = measure(folder, run.config)
        strength = found.to_json()
        checkpoint.add_strength(folder / checkpoint.POLICY, strength)
        if not asked.json:
            print_report(found)
    report.draw_curve(folder, run.config)
    written = report.write_report(folder, run.config, strength)
    if asked.json:
        print(json.dumps(written, indent=2))
    else:
        print(f"policy, report.json and learning_curve.png are in {folder}", file=sys.stderr)
    return 0


def _check_fields(asked: Arguments) -> None:
    """Find a slip of the pen in the fields' names before the training, not after it."""
    if asked.evaluate or asked.settings.measure.every:
        measure = asked.settings.measure
        for name in (*measure.fields, *measure.test_fields):
            arena.make_policy(name, asked.settings.game)


def in_fields(run: runs.Run) -> dict[str, float]:
    """Win shares of the policy as it is now in the configured fields, on dev deals in every seat."""
    config = run.config
    policy = CheckpointPolicy(run.policy, runs.card(run), config.run_name, greedy=config.greedy)
    shares = {}
    for bot in _fields(config, config.measure.fields):
        lineup = [policy, *[bot] * (config.num_players - 1)]
        deals, options = config.measure.deals, options_of(config)
        match = arena.play(config.game, lineup, deals=deals, deal_set="dev", view=config.view, **options)
        shares[f"{report.SHARE}{bot}"] = match.estimates()["win_share"].mean
    run.network.train()
    return shares


def measure(folder: Path, config: Config) -> arena.Report:
    """Measure the policy saved in `folder` in the configured fields by the protocol, on test deals."""
    with progress_bar("measuring") as progress:
        return arena.evaluate(
            config.game,
            load_policy(folder),
            _fields(config, config.measure.test_fields),
            num_players=config.num_players,
            deals=config.measure.test_deals,
            deal_set="test",
            view=config.view,
            progress=progress,
            **options_of(config),
        )


def _fields(config: Config, names: tuple[str, ...]) -> list[str]:
    return list(names or get_game(config.game).bots)


def options_of(config: Config) -> dict[str, Any]:
    """The game's options in full: the arena has defaults of its own."""
    options = make_options(get_game(config.game), {**config.options, "num_players": config.num_players})
    return {name: value for name, value in dataclasses.asdict(options).items() if name != "num_players"}


def _new_folder(config: Config) -> Path:
    """Make the run's folder; a name that holds a run already gets a number."""
    folder = config.folder
    number = 1
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        number += 1
        folder = config.folder.with_name(f"{config.run_name}-{number}")
