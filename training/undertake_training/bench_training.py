"""`undertake bench --training`: the trainer's speed beside what torch alone would take, and beside MaskablePPO.

A decision is one action of a trained policy whose outcome is learned from: at our tables every seat that a network
holds decides, at MaskablePPO's tables the one seat that learns; what bots decide in the other seats is counted by
neither. Each measurement is some whole updates, which is playing and learning, in turn with all the others, so that a
machine that slows down for a while slows all of them.

- `learner`: `ppo.advance`, as `undertake train` calls it with the same settings.
- `torch_ceiling`: the same network, batch sizes and epochs without any game. For each step it acts for all tables at
  once and draws the actions; then it goes forward, backward and one optimizer step for each minibatch. Observations lie
  ready in memory, minibatches are cut from it unshuffled, and the loss is no more than what reaches every weight.
- The others are sb3-contrib's MaskablePPO on `LearnerVecEnv`, with the same bots in the other seats and our policy
  network as it is in a policy of SB3's, but with one value; a critic is left out.
- `maskable_ppo_same`: with our tables, steps, minibatch and epochs: the same work for torch, so that no trainer could
  be faster than the ceiling.
- `maskable_ppo_best`: with our tables and steps, and the minibatch that is fastest among `MINIBATCHES`; all else, ten
  epochs among it, is MaskablePPO's default.
- `maskable_ppo_default`: all of MaskablePPO's settings are its defaults, at `DEFAULT_TABLES` tables.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
from rich.table import Table
from torch import Tensor, nn

from undertake.arena import report
from undertake.core.game import get_game
from undertake_training import config as configuration
from undertake_training import ppo
from undertake_training.config import Config, ConfigError
from undertake_training.network import build, make_shape
from undertake_training.rollout import Decisions
from undertake_training.run import Run, start

if TYPE_CHECKING:
    from sb3_contrib import MaskablePPO

__all__ = [
    "DEFAULT_TABLES",
    "Case",
    "Measurement",
    "cases",
    "compared",
    "machine",
    "maskable_ppo",
    "measure",
    "settings",
    "table",
    "torch_alone",
]

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "demo"

MINIBATCHES = (512, 2048, 8192, 32768)
"""Minibatch sizes tried for MaskablePPO."""

DEFAULT_STEPS = 2048
"""MaskablePPO's default decisions a table and update."""

DEFAULT_TABLES = 4
"""Tables of MaskablePPO with its defaults, whose 2,048 steps are meant for few of them."""

HAS_SB3 = importlib.util.find_spec("sb3_contrib") is not None
"""Whether MaskablePPO is there to compare with."""


@dataclass(frozen=True)
class Measurement:
    """One line of the report.

    Attributes:
        what: "learner", "torch_ceiling", "maskable_ppo_same", "maskable_ppo_best" or "maskable_ppo_default"
        threads: of torch
        device: where torch acts and learns
        steps: decisions a table and update
        batch: decisions a gradient step
        epochs: passes over an update's decisions
        per_second: decisions a second by the clock, median over the rounds
        reference: `per_second` of torch_ceiling for "learner" and for itself, of "learner" for the others
        per_cpu_second: decisions a second of CPU time of all threads together, median over the rounds
        cpu_reference: the same of the reference
    """

    what: str
    game: str
    players: int
    view: str
    num_envs: int
    threads: int
    device: str
    steps: int
    batch: int
    epochs: int
    per_second: float
    reference: float
    per_cpu_second: float
    cpu_reference: float


@dataclass(frozen=True)
class Case:
    """What is measured: `update` plays and learns once, with `threads` threads, and returns its decisions."""

    config: Config
    threads: int
    device: str
    what: str
    num_envs: int
    steps: int
    batch: int
    epochs: int
    update: Callable[[], int]


def settings(games: Sequence[str], files: Sequence[Path] = ()) -> list[Config]:
    """The settings to measure: those in `files`, or without any the demos' of the games.

    Raises:
        ConfigError: a file cannot be read or holds what is not allowed.
    """
    if files:
        return [configuration.load(file) for file in files]
    if not CONFIGS.is_dir():
        raise ConfigError(f"there is no folder {CONFIGS}: run this in a clone of the repository, or give --config FILE")
    return [configuration.load(CONFIGS / f"{game}.yaml") for game in games]


def cases(
    configs: Sequence[Config],
    *,
    threads: Sequence[int] = (),
    rivals: bool | None = None,
    default_steps: int = DEFAULT_STEPS,
) -> list[Case]:
    """All that is measured for these settings; networks and tables are made here.

    Args:
        configs: settings of runs; their threads and devices are not used.
        threads: numbers of torch's threads; without any, one and two, or one where the machine has one core.
        rivals: whether to measure MaskablePPO as well; None: if it is installed.
        default_steps: steps of MaskablePPO with its defaults, if not the default.

    Raises:
        ConfigError: settings that do not fit their game, or a number of threads below 1.
    """
    if any(count < 1 for count in threads):
        raise ConfigError(f"--threads: {min(threads)} is not allowed, at least 1")
    threads = threads or ((1, 2) if (os.cpu_count() or 1) > 1 else (1,))
    rivals = HAS_SB3 if rivals is None else rivals
    found: list[Case] = []
    for config in configs:
        updates = [
            *_ours(dataclasses.replace(config, device="cpu")),
            *(_theirs(config, default_steps) if rivals else ()),
        ]
        found += [Case(config, count, "cpu", *update) for count in threads for update in updates]
        if torch.cuda.is_available():
            ours = _ours(dataclasses.replace(config, device="cuda"))
            found += [Case(config, min(threads), "cuda", *update) for update in ours]
    return found


_Update = tuple[str, int, int, int, int, Callable[[], int]]
"""What it is, tables, steps, minibatch, epochs, and the function that makes one update."""


def _ours(config: Config) -> Iterator[_Update]:
    sizes = config.tables, config.steps, config.ppo.minibatch, config.ppo.epochs
    run = start(config)

    def update() -> int:
        before = run.decisions
        ppo.advance(run)
        return run.decisions - before

    update()  # what is compiled or allocated at the first call is not measured
    yield "learner", *sizes, update
    ceiling = torch_alone(config)
    ceiling()
    yield "torch_ceiling", *sizes, ceiling


def torch_alone(config: Config) -> Callable[[], int]:
    """A function that does what torch must do for one update of such a run, and returns the number of decisions.

    It has a run of its own whose learning rate is 0: the weights stay as they are however often it is called.
    """
    run = start(config)
    ppo.advance(run)  # so that memory holds decisions as they are
    for settings_of in run.optimizer.param_groups:
        settings_of["lr"] = 0.0
    memory = run.memory.to(run.device)
    played = [group.rollout.decisions.to(run.device) for group in run.groups]
    count = sum(group.rollout.learner.size for group in run.groups)
    parts = max(1, round(count / config.ppo.minibatch))

    def update() -> int:
        with torch.no_grad():
            for group, decisions in zip(run.groups, played, strict=True):
                for row in range(group.rollout.seats, len(decisions.action)):
                    log_probs, _ = _look(run, *(each[row] for each in _seen(decisions)))
                    run.network.sample(log_probs, run.generator)
        for _ in range(config.ppo.epochs):
            for k in range(parts):
                part = slice(k * count // parts, (k + 1) * count // parts)
                log_probs, values = _look(run, *(each[part] for each in _seen(memory)))
                chosen = log_probs.gather(1, memory.action[part].unsqueeze(1))
                loss = values.square().mean() - chosen.mean()
                run.optimizer.zero_grad()
                torch.autograd.backward(loss)
                run.optimizer.step()
        if run.device.type == "cuda":
            torch.cuda.synchronize()
        return count

    return update


def _seen(decisions: Decisions) -> tuple[Tensor, Tensor, Tensor]:
    return decisions.observation, decisions.action_mask, decisions.extra


def _look(run: Run, observation: Tensor, action_mask: Tensor, extra: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities, and the values of the network and, if there is one, of the critic."""
    log_probs, values, trunk = run.network.look(observation, action_mask)
    return log_probs, torch.cat([values, run.critic(trunk, extra)], dim=1) if run.critic else values


def _theirs(config: Config, default_steps: int) -> Iterator[_Update]:
    tables, steps, ppo_epochs = config.tables, config.steps, config.ppo.epochs
    default = maskable_ppo(config, DEFAULT_TABLES, default_steps)
    many = maskable_ppo(config, tables, steps)

    def update(model: MaskablePPO, minibatch: int, epochs: int) -> int:
        model.batch_size, model.n_epochs = minibatch, epochs
        before = model.num_timesteps
        model.learn(model.n_steps * model.n_envs, reset_num_timesteps=before == 0)
        return model.num_timesteps - before

    def took(minibatch: int) -> float:
        begun = time.process_time()
        update(many, minibatch, 1)
        return time.process_time() - begun

    # An epoch is the same work however many there are, so one of them tells which size is the fastest.
    sizes = sorted({min(size, tables * steps) for size in MINIBATCHES})
    update(many, sizes[-1], 1)
    best = min(sizes, key=took)
    for what, model, minibatch, epochs in (
        ("maskable_ppo_same", many, min(config.ppo.minibatch, tables * steps), ppo_epochs),
        ("maskable_ppo_best", many, best, default.n_epochs),
        ("maskable_ppo_default", default, default.batch_size, default.n_epochs),
    ):
        assert minibatch is not None
        yield what, model.n_envs, model.n_steps, minibatch, epochs, partial(update, model, minibatch, epochs)


def maskable_ppo(config: Config, tables: int, steps: int) -> MaskablePPO:
    """A fresh MaskablePPO with our policy network, `policy.features_extractor.network`, in the settings' game."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    from undertake_training.sb3_env import LearnerVecEnv

    game = get_game(config.game)
    layout = game.layouts[config.view]

    class Whole(BaseFeaturesExtractor):
        """The network, whose features are its log-probabilities and its value `[B, N + 1]`."""

        def __init__(self, space: gymnasium.Space[Any]) -> None:
            super().__init__(space, game.num_actions + 1)
            shape = make_shape(config.network, layout.slices, game.num_actions, 1)
            self.network = build(shape, torch.from_numpy(layout.scale.copy()), config.seed)
            self.register_buffer("all", torch.ones(1, game.num_actions, dtype=torch.int8))

        def forward(self, observation: Tensor) -> Tensor:
            return torch.cat(self.network(observation, self.all), dim=1)

    keywords: dict[str, Any] = {"num_players": config.num_players, "view": config.view, **config.options}
    bots = [name for name in config.opponents.policies if name in game.bots]
    env = LearnerVecEnv(config.game, tables, opponents=bots or "random", **keywords)
    shape = {"features_extractor_class": Whole, "net_arch": [], "ortho_init": False}
    model = MaskablePPO("MlpPolicy", env, n_steps=steps, policy_kwargs=shape, seed=config.seed, device="cpu")
    # What SB3 puts behind a network is there already; what it made for that gets no gradient and is passed over.
    policy: Any = model.policy
    policy.action_net = _Columns(slice(0, game.num_actions))
    policy.value_net = _Columns(slice(game.num_actions, None))
    return model


class _Columns(nn.Module):
    """Some columns of `[B, N + 1]`."""

    def __init__(self, columns: slice) -> None:
        super().__init__()
        self.columns = columns

    def forward(self, features: Tensor) -> Tensor:
        return features[:, self.columns]


def measure(
    found: Sequence[Case], rounds: int, seconds: float, tick: Callable[[], object] | None = None
) -> list[Measurement]:
    """Measure the cases by turns, each for one update at least and `seconds` by the clock in each of the rounds.

    `tick` is called after each measurement, `len(found)` times a round.
    """
    before = torch.get_num_threads()
    rates: list[list[tuple[float, float]]] = [[] for _ in found]
    try:
        for _ in range(rounds):
            for case, rate in zip(found, rates, strict=True):
                torch.set_num_threads(case.threads)
                rate.append(_rate(case.update, seconds))
                if tick is not None:
                    tick()
    finally:
        torch.set_num_threads(before)
    medians = [
        (statistics.median(clock for clock, _ in rate), statistics.median(cpu for _, cpu in rate)) for rate in rates
    ]
    return _lines(found, medians)


def _rate(update: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Decisions a second by the clock and of CPU time."""
    count, begun, cpu = 0, time.perf_counter(), time.process_time()
    while True:
        count += update()
        spent = time.perf_counter() - begun
        if spent >= seconds:
            return count / spent, count / (time.process_time() - cpu)


def _lines(found: Sequence[Case], medians: Sequence[tuple[float, float]]) -> list[Measurement]:
    measured = {(c.what, id(c.config), c.threads, c.device): rate for c, rate in zip(found, medians, strict=True)}
    lines = []
    for case, rate in zip(found, medians, strict=True):
        wanted = "torch_ceiling" if case.what in ("learner", "torch_ceiling") else "learner"
        reference = measured[wanted, id(case.config), case.threads, case.device]
        config = case.config
        lines.append(
            Measurement(
                *(case.what, config.game, config.num_players, config.view, case.num_envs, case.threads, case.device),
                *(case.steps, case.batch, case.epochs, rate[0], reference[0], rate[1], reference[1]),
            )
        )
    return lines


def machine() -> str:
    """The machine, its load, and torch's version in a line."""
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{report.machine()}, torch {torch.__version__}{gpu}"


def table(found: Sequence[Measurement], heading: str) -> Table:
    """The lines as a table for the terminal."""
    shown = Table(title=heading, title_justify="left")
    for head in ("what", "game"):
        shown.add_column(head, no_wrap=True)
    for head in ("threads", "tables x steps", "minibatch", "epochs", "decisions/s", "per CPU-s"):
        shown.add_column(head, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for line in found:
        shown.add_row(
            line.what + (" on a GPU" if line.device == "cuda" else ""),
            line.game,
            str(line.threads),
            f"{line.num_envs:,} x {line.steps:,}",
            *(f"{number:,.0f}" for number in (line.batch, line.epochs, line.per_second, line.per_cpu_second)),
            compared(line),
        )
    return shown


def compared(line: Measurement) -> str:
    """How the learner stands, by the clock and by CPU time."""
    if line.what == "learner":
        ratios = line.per_second / line.reference, line.per_cpu_second / line.cpu_reference
        return f"{ratios[0]:.2f} ({ratios[1]:.2f}) of the ceiling"
    if line.what == "torch_ceiling":
        return ""
    return f"the learner {line.reference / line.per_second:.1f} ({line.cpu_reference / line.per_cpu_second:.1f}) x"
