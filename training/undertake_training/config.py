"""Everything a training run can be told: the defaults, the command line and the YAML files are these dataclasses.

A YAML file holds only what differs from the defaults; `mapping` reads it, `check` looks at the values.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from undertake.core.memory import Memory
from undertake_training.mapping import ConfigError, build, difference, plain, read_yaml

__all__ = [
    "PAST",
    "PPO",
    "CardSlots",
    "Config",
    "ConfigError",
    "Log",
    "Measure",
    "MonteCarlo",
    "Network",
    "Objective",
    "Opponents",
    "check",
    "from_mapping",
    "load",
    "to_mapping",
    "write",
]

Option = int | bool | str | None


@dataclass(frozen=True)
class CardSlots:
    """The hand's cards, each scored by one small network that all slots share; card c speaks for action c - 1."""

    slices: tuple[str, ...] = ()
    """Names of the observation's slices that describe the slots; the first number of a slot is its card's, 0 if it is
    empty. None: no slots, the trunk scores all actions."""
    slots: int = 10
    """Number of slots; it divides the length of every slice."""
    actions: int = 104
    """Actions 0 .. actions - 1 play the cards 1 .. actions; the others (rows, wait) come from the trunk."""
    hidden: int = 64
    """Width of the shared network's layers."""


@dataclass(frozen=True)
class Network:
    """Shape of the policy and value network."""

    hidden: tuple[int, ...] = (256, 128, 128)
    """Widths of the trunk's layers."""
    card_slots: CardSlots = field(default_factory=CardSlots)
    """Scoring of the hand's cards, for games whose actions are cards."""
    critic: tuple[int, ...] = ()
    """Widths of a value network on top of the trunk, for training alone, which also sees what the view hides and who
    sits where. None: the advantages come from the trunk's own values."""


@dataclass(frozen=True)
class PPO:
    """Proximal policy optimisation (Schulman et al. 2017) with generalised advantage estimation, undiscounted."""

    learning_rate: float = 1e-3
    """Adam's step size at the start; falls linearly to `learning_rate_end`."""
    learning_rate_end: float = 1e-4
    """Adam's step size at the end of the budget."""
    epochs: int = 2
    """Passes over the decisions of a rollout."""
    minibatch: int = 4096
    """Decisions a gradient step, about: a rollout is cut into equal parts of this size."""
    clip: float = 0.1
    """Bound on the change of a decision's probability ratio."""
    entropy: float = 0.05
    """Weight of the entropy bonus at the start; falls linearly to `entropy_end`."""
    entropy_end: float = 0.01
    """Weight of the entropy bonus at the end of the budget."""
    gae_lambda: float = 0.95
    """Lambda of the advantage estimate: 1 trusts outcomes alone, 0 the value network alone."""
    value_weight: float = 0.5
    """Weight of the value loss."""
    average: float = 0.0
    """The moving average of the weights keeps this share at each gradient step and takes the rest from the new ones;
    it is what is saved, measured and put among the past opponents. 0: no average, the weights themselves."""
    max_gradient: float = 0.5
    """Gradients are scaled down to at most this norm."""


@dataclass(frozen=True)
class MonteCarlo:
    """Monte-Carlo values, the other method. Of the settings of `ppo` those of the optimiser and `average` count too.

    Decisions whose game goes on after a rollout are lost: few tables and many steps lose few.
    """

    epsilon: float = 0.2
    """Chance of any legal action instead of the best, at the start; falls linearly to `epsilon_end`."""
    epsilon_end: float = 0.02
    """That chance at the end of the budget."""


@dataclass(frozen=True)
class Objective:
    """What is maximised: the margin (mean of the others' final scores - own), later blended with the final ranking."""

    margin_scale: float = 20.0
    """Score points that count as one unit of margin."""
    result: Literal["win", "rank"] = "win"
    """The final ranking's reward: win share - 1/n, or the rank reward between -1 and 1."""
    blend_from: float = 0.5
    """Share of the budget after which the result begins to count."""
    blend_to: float = 0.75
    """Share of the budget after which its weight no longer grows."""
    result_weight: float = 0.5
    """Final weight of the result's advantage; the margin's is one less this."""


PAST = "past"
"""Name among the opponents of the run's own earlier policies."""


@dataclass(frozen=True)
class Opponents:
    """Who else sits at the training tables. Self-play alone does not learn to beat those who play badly."""

    policies: tuple[str, ...] = ()
    """Names of the game's bots, "past" for the run's own earlier policies, checkpoint:PATH for a trained policy; each
    is drawn as often as it is named. None: pure self-play."""
    fields: float = 0.0
    """Share of the games in which one of them plays all seats but one, as in measuring."""
    mixed: float = 0.5
    """Share of the games in which they sit in 1 to n - 1 of the n seats, each number as often, drawn one by one."""
    past_every: int = 500_000
    """Decisions after which the policy joins the past ones."""
    past_kept: int = 8
    """Past policies kept; a new one takes the place of one drawn at random, so that old ones stay among them."""


@dataclass(frozen=True)
class Measure:
    """Matches on the dev deals while training, for the learning curve, and on the test deals at its end."""

    fields: tuple[str, ...] = ()
    """Policies that fill the other seats while training, each in its turn; none: all of the game's bots."""
    test_fields: tuple[str, ...] = ()
    """The same for the measurement that `--evaluate` asks for."""
    goals: dict[str, float] = field(default_factory=dict)
    """Win shares wanted in the fields, by name. The best policy of a run is that of the greatest mean share less the
    worst gap to a goal; without goals, to the mean itself."""
    every: int = 0
    """Decisions between two measurements on dev deals; 0: never."""
    deals: int = 128
    """Dev deals a measurement; the policy takes every seat of each."""
    test_deals: int = 4096
    """Test deals of the measurement that `--evaluate` asks for; at least 2, as for `deals`."""


@dataclass(frozen=True)
class Log:
    """Where and how often a run writes."""

    runs: str = "runs"
    """Folder that holds the runs."""
    tensorboard: bool = True
    """Whether to write TensorBoard files beside log.jsonl."""
    checkpoint_every: int = 1_000_000
    """Decisions between two checkpoints; the last state is always saved."""


@dataclass(frozen=True)
class Config:
    """A training run: self-play, one network in all seats."""

    game: str = "no_thanks"
    """Name of the game."""
    num_players: int = 4
    """Seats at a table, in training and in measuring."""
    other_sizes: tuple[int, ...] = ()
    """Numbers of players that are trained besides, by the same network. A size named twice gets twice the tables."""
    other_tables: float = 0.3
    """Share of the tables that the other sizes have together."""
    view: str = "recall"
    """What the seats see: "table" (what lies in sight) or "recall" (the public past as well)."""
    memory: Memory = field(default_factory=Memory)
    """What the policy is shown besides of its seat's own earlier decisions in the game."""
    options: dict[str, Option] = field(default_factory=dict)
    """Options of the game that differ from its defaults, e.g. length hand."""
    name: str = ""
    """Name of the run and of its folder; method if not PPO, game, players and seed if not given."""
    seed: int = 0
    """Seed of deals, network and play: the same seed and threads give the same run."""
    decisions: int = 4_000_000
    """Budget: decisions of trained policies; those of bots are not counted."""
    tables: int = 1024
    """Tables that are played side by side."""
    steps: int = 64
    """Decisions a table and rollout; tables x steps decisions make one update."""
    threads: int = 2
    """CPU threads of torch."""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """Where the network acts and learns; "auto": on a GPU if there is one."""
    greedy: bool = False
    """How the trained policy plays: its likeliest action each time, or drawn from its probabilities."""
    method: Literal["ppo", "monte_carlo"] = "ppo"
    """How the policy learns: masked PPO, or Monte-Carlo values, of which it takes the greatest. A run by the latter is
    always `greedy` and has no `network.critic`, whatever is given."""
    network: Network = field(default_factory=Network)
    ppo: PPO = field(default_factory=PPO)
    monte_carlo: MonteCarlo = field(default_factory=MonteCarlo)
    objective: Objective = field(default_factory=Objective)
    opponents: Opponents = field(default_factory=Opponents)
    measure: Measure = field(default_factory=Measure)
    log: Log = field(default_factory=Log)

    @property
    def run_name(self) -> str:
        """Name of the run's folder."""
        method = "" if self.method == "ppo" else f"{self.method}-"
        return self.name or f"{method}{self.game}-{self.num_players}p-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.log.runs) / self.run_name


def load(path: str | Path) -> Config:
    """Read a YAML file that holds what differs from the defaults.

    Raises:
        ConfigError: the file cannot be read or is no YAML mapping, or a key or value in it is not allowed.
    """
    data = read_yaml(path)
    try:
        return from_mapping(data)
    except ConfigError as error:
        raise ConfigError(f"config {path}: {error}") from None


def from_mapping(data: Mapping[str, Any]) -> Config:
    """Build a config from plain nested data, as YAML and JSON give it.

    Raises:
        ConfigError: an unknown key (the nearest known one is named), a wrong type or a value out of range.
    """
    config: Config = build(Config, _without_retired(data))
    check(config)
    return config


_RETIRED = {("ppo", "magnet"): 0.0}
"""Settings that are no more, each with the value at which it did nothing. A saved run or policy holds its whole config,
so one from before may name them; at that value they say nothing, at any other the run could not go on as it began."""


def _without_retired(data: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(data)
    for (section, name), neutral in _RETIRED.items():
        inner = kept.get(section)
        if not isinstance(inner, Mapping) or name not in inner:
            continue
        if inner[name] != neutral:
            what = f"{section}.{name}: {inner[name]!r} is not allowed"
            raise ConfigError(f"{what}, this setting is no more: leave it out, or at {neutral}, which changed nothing")
        kept[section] = {key: value for key, value in inner.items() if key != name}
    return kept


def to_mapping(config: Config) -> dict[str, Any]:
    """The config as plain nested data; `from_mapping` gives it back."""
    return typing.cast("dict[str, Any]", plain(dataclasses.asdict(config)))


def write(config: Config) -> str:
    """YAML text of what differs from the defaults."""
    differing = difference(to_mapping(config), to_mapping(Config()))
    return yaml.safe_dump(differing, sort_keys=False) if differing else "{}\n"


def check(config: Config) -> None:
    """Check the values that do not depend on a game.

    Raises:
        ConfigError: a value out of its range, with the range.
    """
    ppo, objective, network = config.ppo, config.objective, config.network
    for name, value in (
        ("decisions", config.decisions),
        ("tables", config.tables),
        ("steps", config.steps),
        ("threads", config.threads),
        ("ppo.epochs", ppo.epochs),
        ("ppo.minibatch", ppo.minibatch),
        ("log.checkpoint_every", config.log.checkpoint_every),
        ("network.card_slots.slots", network.card_slots.slots),
        ("network.card_slots.actions", network.card_slots.actions),
        ("network.card_slots.hidden", network.card_slots.hidden),
        ("opponents.past_every", config.opponents.past_every),
        ("opponents.past_kept", config.opponents.past_kept),
        *((f"network.critic[{i}]", width) for i, width in enumerate(network.critic)),
        *((f"network.hidden[{i}]", width) for i, width in enumerate(network.hidden)),
    ):
        if value < 1:
            raise ConfigError(f"{name}: {value} is not allowed, at least 1")
    for name, number, low, high in (
        ("seed", config.seed, 0, 2**63 - 1),
        ("measure.every", config.measure.every, 0, 2**63 - 1),
        ("measure.deals", config.measure.deals, 2, 2**32),
        ("measure.test_deals", config.measure.test_deals, 2, 2**32),
        ("ppo.clip", ppo.clip, 0.0, 1.0),
        ("ppo.gae_lambda", ppo.gae_lambda, 0.0, 1.0),
        ("ppo.learning_rate", ppo.learning_rate, 0.0, 1.0),
        ("ppo.learning_rate_end", ppo.learning_rate_end, 0.0, 1.0),
        ("ppo.entropy", ppo.entropy, 0.0, 10.0),
        ("ppo.entropy_end", ppo.entropy_end, 0.0, 10.0),
        ("ppo.value_weight", ppo.value_weight, 0.0, 100.0),
        ("ppo.max_gradient", ppo.max_gradient, 1e-9, 1e9),
        ("objective.margin_scale", objective.margin_scale, 1e-9, 1e9),
        ("objective.blend_from", objective.blend_from, 0.0, 1.0),
        ("objective.blend_to", objective.blend_to, objective.blend_from, 1.0),
        ("objective.result_weight", objective.result_weight, 0.0, 1.0),
        ("ppo.average", ppo.average, 0.0, 0.999999),
        ("monte_carlo.epsilon", config.monte_carlo.epsilon, 0.0, 1.0),
        ("monte_carlo.epsilon_end", config.monte_carlo.epsilon_end, 0.0, 1.0),
        ("opponents.fields", config.opponents.fields, 0.0, 1.0),
        ("opponents.mixed", config.opponents.mixed, 0.0, round(1.0 - config.opponents.fields, 12)),
        ("other_tables", config.other_tables, 0.0, 1.0),
        ("memory.decisions", config.memory.decisions, 1 if config.memory.slices else 0, 1000),
    ):
        if not low <= number <= high:
            raise ConfigError(f"{name}: {number} is not allowed, {low} to {high}")
    if config.num_players in config.other_sizes:
        raise ConfigError(f"other_sizes: {config.num_players} is not allowed, it is num_players already")
    if config.memory.decisions and not config.memory.slices:
        raise ConfigError("memory.slices: the names of the slices to be remembered are wanted")
    if not network.hidden:
        raise ConfigError("network.hidden: at least one layer is wanted")
    if config.name in (".", "..") or any(character in config.name for character in "/\\\0"):
        raise ConfigError(f"name: {config.name!r} is not allowed: it names one folder")
