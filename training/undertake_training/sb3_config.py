"""The settings of a run of sb3-contrib's MaskablePPO: dataclasses, which a YAML file and the command line change."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from undertake.core.game import GAMES, check_choice
from undertake_training import mapping
from undertake_training.config import ConfigError, Measure, Option

__all__ = ["MaskedPPO", "SB3Config", "check", "load", "write"]


@dataclass(frozen=True)
class MaskedPPO:
    """Settings of sb3-contrib's MaskablePPO, by its names."""

    learning_rate: float = 1e-3
    """Adam's step size at the start; falls linearly to `learning_rate_end`."""
    learning_rate_end: float = 1e-4
    """Adam's step size at the end of the budget."""
    n_steps: int = 32
    """Decisions a table and rollout; tables x n_steps decisions make one update."""
    batch_size: int = 2048
    """Decisions a gradient step."""
    n_epochs: int = 1
    """Passes over the decisions of a rollout."""
    gamma: float = 1.0
    """Discount a decision; a game is short and its end is what counts."""
    gae_lambda: float = 0.95
    """Lambda of the advantage estimate: 1 trusts outcomes alone, 0 the value network alone."""
    clip_range: float = 0.2
    """Bound on the change of a decision's probability ratio."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to at most this norm."""
    net_arch: tuple[int, ...] = (64, 64)
    """Widths of the layers of the policy's network, and of the value's."""


@dataclass(frozen=True)
class SB3Config:
    """A training run: MaskablePPO in one seat of every table, policies in the others."""

    game: str = "no_thanks"
    """Name of the game."""
    num_players: int = 4
    """Seats at every table."""
    most_players: int = 0
    """If given, every episode draws its seats from num_players to this."""
    view: str = "recall"
    """What the seats see: "table" (what lies in sight) or "recall" (the public past as well)."""
    reward: Literal["rank", "win", "score", "margin"] = "rank"
    """What the learner is paid."""
    options: dict[str, Option] = field(default_factory=dict)
    """Options of the game that differ from its defaults, e.g. length hand."""
    opponents: tuple[str, ...] = ("random",)
    """Policies in the other seats; "self" is the policy being trained, as it is at that moment."""
    seating: Literal["mixed", "same"] = "mixed"
    """Each seat of an episode draws one of the opponents, or all its seats are the one drawn."""
    name: str = ""
    """Name of the run and of its folder; sb3, game, players and seed if not given."""
    runs: str = "runs"
    """Folder that holds the runs."""
    seed: int = 0
    """Seed of deals, network and play."""
    decisions: int = 1_000_000
    """Budget: decisions of the learner."""
    tables: int = 512
    """Tables that are played side by side."""
    threads: int = 1
    """CPU threads of torch; so small a network gains little from a second one."""
    greedy: bool = True
    """How the trained policy plays: its likeliest action each time, or drawn from its probabilities."""
    save_every: int = 500_000
    """Decisions between two saves; the last state is always saved."""
    ppo: MaskedPPO = field(default_factory=MaskedPPO)
    measure: Measure = field(default_factory=Measure)

    @property
    def run_name(self) -> str:
        """Name of the run's folder."""
        return self.name or f"sb3-{self.game}-{self.num_players}p-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.runs) / self.run_name


def load(path: str | Path) -> SB3Config:
    """Read a YAML file that holds what differs from the defaults; raises ConfigError in one line."""
    data = mapping.read_yaml(path)
    try:
        found: SB3Config = mapping.build(SB3Config, data)
        check(found)
    except ConfigError as error:
        raise ConfigError(f"config {path}: {error}") from None
    return found


def check(config: SB3Config) -> None:
    """Raise ConfigError for values out of their range; the game's own are checked when its tables are made."""
    try:
        check_choice("game", config.game, GAMES)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    ppo = config.ppo
    for name, value, low in (
        *(("decisions", config.decisions, 1), ("tables", config.tables, 1), ("threads", config.threads, 1)),
        *(("save_every", config.save_every, 1), ("seed", config.seed, 0), ("ppo.n_steps", ppo.n_steps, 2)),
        *(("ppo.batch_size", ppo.batch_size, 2), ("ppo.n_epochs", ppo.n_epochs, 1)),
        *(("measure.every", config.measure.every, 0), ("measure.deals", config.measure.deals, 2)),
        *((f"ppo.net_arch[{i}]", width, 1) for i, width in enumerate(ppo.net_arch)),
    ):
        if value < low:
            raise ConfigError(f"{name}: {value} is not allowed, at least {low}")
    if config.name in (".", "..") or any(character in config.name for character in "/\\\0"):
        raise ConfigError(f"name: {config.name!r} is not allowed: it names one folder")


def write(config: SB3Config) -> str:
    """YAML text of what differs from the defaults."""
    mappings = (mapping.plain(dataclasses.asdict(each)) for each in (config, SB3Config()))
    differing = mapping.difference(*mappings)
    return yaml.safe_dump(differing, sort_keys=False) if differing else "{}\n"
