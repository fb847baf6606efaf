"""`undertake train-sb3`: sb3-contrib's MaskablePPO on tables at which one seat learns, measured in the arena.

    undertake train-sb3 --config configs/sb3/no_thanks.yaml --evaluate

A run's folder holds `policy.zip` with its card `policy.json`, `config.yaml` and `log.jsonl`; the policy is then
"sb3:FOLDER" wherever policies are named, behind `--trust`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from undertake import arena
from undertake.arena.report import print_report, progress_bar
from undertake.core.files import write_atomically
from undertake.core.game import get_game, make_options
from undertake_training import mapping
from undertake_training.checkpoint import CheckpointError, add_strength
from undertake_training.config import ConfigError
from undertake_training.sb3_config import MaskedPPO, SB3Config, check, load, write
from undertake_training.sb3_env import LearnerVecEnv
from undertake_training.sb3_policy import POLICY, SB3Policy, load_model, make_card, save_policy

__all__ = ["MaskedPPO", "SB3Config", "card", "load", "main", "make_env", "make_model", "train"]

LOG, CONFIG = "log.jsonl", "config.yaml"


@dataclass(frozen=True)
class Arguments:
    """Train sb3-contrib's MaskablePPO in one seat against policies in the others."""

    config: Path | None = None
    """YAML file of settings that differ from the defaults; the command line goes before it."""
    resume: Path | None = None
    """Folder of a run to go on with, to `decisions` in all; its zip is opened, which asks for --trust."""
    trust: bool = False
    """Open zips of stable-baselines3: they hold pickles, which can run any code when they are opened."""
    evaluate: bool = False
    """Measure the policy at the end, on test deals in the fields of `measure.test_fields`."""
    json: bool = False
    """Print the card as one JSON object instead of tables."""
    settings: Annotated[SB3Config, tyro.conf.arg(name="")] = field(default_factory=SB3Config)


def make_env(config: SB3Config, current_policy: Any = None, *, trust: bool = False) -> LearnerVecEnv:
    """The tables of a run; raises ConfigError in one line for options, seats or opponents that are not allowed."""
    players = [config.num_players, config.most_players] if config.most_players else config.num_players
    keywords: dict[str, Any] = {"num_players": players, "view": config.view, "reward": config.reward, **config.options}
    try:
        return LearnerVecEnv(
            config.game,
            config.tables,
            opponents=list(config.opponents),
            seating=config.seating,
            current_policy=current_policy if "self" in config.opponents else None,
            trust=trust,
            **keywords,
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from None


def make_model(config: SB3Config, env: LearnerVecEnv) -> MaskablePPO:
    """A fresh MaskablePPO with the run's settings."""
    ppo = dataclasses.asdict(config.ppo)
    net_arch, end = list(ppo.pop("net_arch")), ppo.pop("learning_rate_end")
    ppo["learning_rate"] = _Falling(config.ppo.learning_rate, end)
    return MaskablePPO(
        "MlpPolicy", env, **ppo, policy_kwargs={"net_arch": net_arch}, seed=config.seed, device="cpu", verbose=0
    )


@dataclass(frozen=True)
class _Falling:
    """A value that falls linearly with the budget that is left, from 1 to 0."""

    begin: float
    end: float

    def __call__(self, left: float) -> float:
        return self.end + (self.begin - self.end) * left


class _Telling(BaseCallback):
    """Progress bar, log.jsonl, measuring and saving while SB3 trains."""

    def __init__(self, config: SB3Config, folder: Path, policy: Any) -> None:
        super().__init__()
        self._config, self._folder, self._policy = config, folder, policy
        self._games: list[Mapping[str, float]] = []
        self._begun = time.monotonic()
        self._from = self._saved = self._measured = 0
        self._shares: dict[str, float] = {}
        console = Console(stderr=True)
        self._tenth = -1
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}% {task.fields[speed]:>9,.0f} decisions/s"),
                TimeRemainingColumn(),
                TextColumn("left  {task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=console)

    def _on_training_start(self) -> None:
        self._from = self._saved = self._measured = self.num_timesteps
        if self._bar:
            self._task = self._bar.add_task(
                f"training {self._config.game}", total=self._config.decisions, speed=0.0, note=""
            )
            self._bar.start()

    def _on_step(self) -> bool:
        self._games += [info["episode"] for info in self.locals["infos"] if info]
        return True

    def _on_rollout_end(self) -> None:
        config, done = self._config, self.num_timesteps
        if config.measure.every and done - self._measured >= config.measure.every:
            self._measured = done
            self._shares = in_fields(config, self._policy())
        line: dict[str, Any] = {"decisions": done, "seconds": round(time.monotonic() - self._begun, 3)}
        if self._games:
            line |= {
                "games": len(self._games),
                "return": float(np.mean([game["r"] for game in self._games])),
                "score": float(np.mean([game["score"] for game in self._games])),
                "decisions_a_game": float(np.mean([game["l"] for game in self._games])),
            }
        line |= {f"win_share/{name}": share for name, share in self._shares.items()}
        self._games, self._shares = [], {}
        with (self._folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._show(line)
        if done - self._saved >= config.save_every:
            self._saved = done
            assert isinstance(self.model, MaskablePPO)
            save(self._folder, config, self.model)

    def _on_training_end(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()

    def _show(self, line: Mapping[str, Any]) -> None:
        done, total = line["decisions"], self._config.decisions
        speed = (done - self._from) / max(1e-9, time.monotonic() - self._begun)
        note = f"mean return {line['return']:.3f}" if "return" in line else ""
        if self._bar:
            self._bar.update(self._task, completed=min(done, total), speed=speed, note=note)
        elif 10 * done // total > self._tenth:
            self._tenth = 10 * done // total
            left = max(0, total - done) / speed
            text = f"{done:,} of {total:,} decisions, {speed:,.0f} a second, {left:.0f} s left"
            print(f"{text}, {note}" if note else text, file=sys.stderr, flush=True)


def train(config: SB3Config, folder: Path, *, resume: bool = False, trust: bool = False) -> MaskablePPO:
    """Train in `folder`, which exists, and save there; with `resume` from the zip in it.

    Raises ConfigError, CheckpointError, OSError; KeyboardInterrupt with one line, after saving.
    """
    torch.set_num_threads(config.threads)
    held: list[MaskablePPO] = []

    def policy() -> SB3Policy:
        return SB3Policy(held[0].policy, card(config, held[0].num_timesteps), "self")

    env = make_env(config, policy, trust=trust)
    model = load_model(folder, env=env)[0] if resume else make_model(config, env)
    held.append(model)
    write_atomically(folder / CONFIG, write(config).encode())
    left = config.decisions - model.num_timesteps
    if left <= 0:
        return model
    telling = _Telling(config, folder, policy)
    try:
        model.learn(left, callback=telling, reset_num_timesteps=not resume)
    except KeyboardInterrupt:
        save(folder, config, model)
        raise KeyboardInterrupt(
            f"interrupted and saved after {model.num_timesteps:,} decisions; go on with --resume {folder} --trust"
        ) from None
    finally:
        telling.stop()
    save(folder, config, model)
    return model


def card(config: SB3Config, decisions: int) -> dict[str, Any]:
    """The card of the run's policy after so many decisions."""
    players: Any = [config.num_players, config.most_players] if config.most_players else config.num_players
    return make_card(
        game=config.game,
        num_players=players,
        view=config.view,
        options=config.options,
        greedy=config.greedy,
        decisions=decisions,
        seed=config.seed,
        config=mapping.plain(dataclasses.asdict(config)),
    )


def save(folder: Path, config: SB3Config, model: MaskablePPO) -> None:
    """Write the zip and its card."""
    save_policy(folder / POLICY, model, card(config, model.num_timesteps))


def in_fields(config: SB3Config, policy: SB3Policy) -> dict[str, float]:
    """Win shares of a policy in the configured fields, on dev deals in every seat."""
    shares = {}
    for name in config.measure.fields or tuple(get_game(config.game).bots):
        lineup = [policy, *[name] * (config.num_players - 1)]
        match = arena.play(
            config.game, lineup, deals=config.measure.deals, deal_set="dev", view=config.view, **_options(config)
        )
        shares[name] = match.estimates()["win_share"].mean
    return shares


def measure(config: SB3Config, model: MaskablePPO) -> arena.Report:
    """Measure the model's policy in the configured fields by the protocol, on test deals."""
    policy = SB3Policy(model.policy, card(config, model.num_timesteps), config.run_name)
    with progress_bar("measuring") as progress:
        return arena.evaluate(
            config.game,
            policy,
            list(config.measure.test_fields or get_game(config.game).bots),
            num_players=config.num_players,
            deals=config.measure.test_deals,
            deal_set="test",
            view=config.view,
            progress=progress,
            **_options(config),
        )


def _options(config: SB3Config) -> dict[str, Any]:
    """The game's options in full: the arena has defaults of its own."""
    options = make_options(get_game(config.game), {**config.options, "num_players": config.num_players})
    return {name: value for name, value in dataclasses.asdict(options).items() if name != "num_players"}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    try:
        return _main(list(arguments))
    except (ConfigError, CheckpointError, arena.PolicyError) as error:
        print(f"undertake train-sb3: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as reason:
        print(str(reason) or "interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"undertake train-sb3: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1


def _main(given: list[str]) -> int:
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("--config", type=Path)
    known.add_argument("--resume", type=Path)
    before, _ = known.parse_known_args(given)
    if before.config and before.resume:
        raise ConfigError("--config and --resume: a resumed run has its config with it, give one of the two")
    file = before.resume / CONFIG if before.resume else before.config
    default = Arguments(settings=load(file) if file else SB3Config())
    asked = tyro.cli(Arguments, prog="undertake train-sb3", args=given, default=default)
    config = asked.settings
    check(config)
    if asked.resume and not asked.trust:
        raise ConfigError(
            f"--resume {asked.resume}: the run's zip holds pickles, which can run any code when they are opened; "
            "if you know where it comes from, say --trust"
        )
    if asked.evaluate or config.measure.every:  # a slip of the pen shows before the training, not after it
        for name in (*config.measure.fields, *config.measure.test_fields):
            arena.make_policy(name, config.game)
    # What cannot be leaves no folder.
    make_env(dataclasses.replace(config, tables=1), lambda: None, trust=asked.trust)
    folder = asked.resume or _new_folder(config)
    print(f"{'resuming' if asked.resume else 'training'} in {folder}", file=sys.stderr)
    model = train(config, folder, resume=asked.resume is not None, trust=asked.trust)
    if asked.evaluate:
        found = measure(config, model)
        add_strength(folder / POLICY, found.to_json())
        if not asked.json:
            print_report(found)
    if asked.json:
        print((folder / POLICY).with_suffix(".json").read_text(encoding="utf-8"), end="")
    else:
        print(f"the policy is sb3:{folder}", file=sys.stderr)
    return 0


def _new_folder(config: SB3Config) -> Path:
    """Make the run's folder; a name that holds a run already gets a number."""
    folder, number = config.folder, 1
    while True:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
            folder = config.folder.with_name(f"{config.run_name}-{number}")
        else:
            return folder
