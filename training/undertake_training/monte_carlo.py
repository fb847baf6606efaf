"""The yardstick: learn from how games ended what each action is worth, and take the best one. No policy gradient.

    python -m undertake_training.monte_carlo --config configs/monte_carlo/no_thanks.yaml --seed 0

Tables, opponents, network, budget and measuring are those of `undertake train`, and so are the files of a run. Every
own decision whose game has ended teaches Q(observation, action) what its seat was paid from then on, the margin at
first and later the blend with the result. The policy takes the action of the greatest Q, while it learns another one
with chance epsilon.

The network's two heads together are Q: Q = V + log-probability. Any Q can be written so, V being the logarithm of the
sum of its exponentials; the likeliest action is the best one, and what is saved is a policy like any other.

Letters: T steps, B tables, n seats, R = n + T rows, M decisions to learn from.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import torch
import tyro
from torch import Tensor, nn

from undertake.arena import PolicyError
from undertake_training import checkpoint, mapping, report
from undertake_training import run as runs
from undertake_training.checkpoint import CheckpointError
from undertake_training.config import Config, ConfigError
from undertake_training.network import MASKED, PolicyNetwork
from undertake_training.ppo import Interrupt, Interrupted, Metrics, TrainingError, objective_weights, ramp
from undertake_training.rollout import Rollout, RolloutStats
from undertake_training.run import Run
from undertake_training.train import in_fields

__all__ = ["EpsilonGreedy", "MonteCarlo", "advance", "keep_ended", "main", "start", "train"]

CERTAIN = 1e4
"""What the differences of Q are multiplied with where a policy that draws shall take the best action."""


@dataclass(frozen=True)
class MonteCarlo(Config):
    """A training run by Monte-Carlo values.

    Decisions whose game goes on after a rollout are lost: few tables and many steps lose few. Of the settings of `ppo`
    those of the optimiser count, and `average`.
    """

    epsilon: float = 0.2
    """Chance of any legal action instead of the best, at the start; falls linearly to `epsilon_end`."""
    epsilon_end: float = 0.02
    """That chance at the end of the budget."""

    @property
    def run_name(self) -> str:
        """Name of the run's folder."""
        return self.name or f"monte_carlo-{self.game}-{self.num_players}p-seed{self.seed}"


class EpsilonGreedy:
    """What a rollout asks of a network: looks as the network does, and takes the best action or, seldom, any."""

    def __init__(self, network: PolicyNetwork, epsilon: float) -> None:
        self.network, self.epsilon = network, epsilon

    def look(self, observation: Tensor, action_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `PolicyNetwork.look`."""
        return self.network.look(observation, action_mask)

    def sample(self, log_probs: Tensor, generator: torch.Generator) -> Tensor:
        """The likeliest actions `[B]`, with chance epsilon any legal one, evenly."""
        noise = torch.rand(log_probs.shape, generator=generator).to(log_probs.device)
        any_legal = noise.masked_fill(log_probs <= MASKED / 2, -1.0).argmax(dim=1)
        explores = torch.rand(len(log_probs), generator=generator) < self.epsilon
        return torch.where(explores.to(log_probs.device), any_legal, log_probs.argmax(dim=1))


def start(config: MonteCarlo) -> Run:
    """A fresh run; raises as `undertake_training.run.start` does."""
    for name in ("epsilon", "epsilon_end"):
        if not 0 <= getattr(config, name) <= 1:
            raise ConfigError(f"{name}: {getattr(config, name)} is not allowed, 0.0 to 1.0")
    return runs.start(replace(config, greedy=True, network=replace(config.network, critic=())))


def advance(run: Run, epsilon: float) -> Metrics:
    """One rollout and what is learned from it; returns the figures for the log.

    Raises:
        TrainingError: the loss is not finite.
    """
    config, past = run.config, run.cast.past
    begun, cpu = time.perf_counter(), time.process_time()
    if past:
        past.draw(_certain(run.policy), run.generator)
    games = RolloutStats()
    for group in run.groups:
        games += group.rollout.collect(
            group.tables,
            cast("PolicyNetwork", EpsilonGreedy(run.network, epsilon)),
            run.generator,
            networks=run.cast.networks,
            device=run.device,
            margin_scale=config.objective.margin_scale,
            result=config.objective.result,
            gae_lambda=1.0,
        )
        keep_ended(group.rollout)
    metrics = _learn(run)
    for group in run.groups:
        group.rollout.carry()
    before, run.decisions = run.decisions, run.decisions + sum(group.rollout.learner.size for group in run.groups)
    if past and _due(before, run.decisions, config.opponents.past_every):
        past.add(_certain(run.policy), config.opponents.past_kept, run.generator)
    run.seconds += time.perf_counter() - begun
    run.cpu_seconds += time.process_time() - cpu
    return metrics | {
        "decisions": run.decisions,
        "seconds": run.seconds,
        "epsilon": epsilon,
        "games": games.games,
        "table_score": games.score / games.games if games.games else math.nan,
        "winning_score": games.best_score / games.games if games.games else math.nan,
    }


def keep_ended(rollout: Rollout) -> None:
    """Leave among what is learned from only decisions of games that ended in the rollout.

    With lambda 1 their advantage + value is what their seat was paid from the decision to the end, no value in it.
    """
    ended = np.logical_or.accumulate(rollout.done[::-1])[::-1]  # [T, B]: this game or a later one ended, hence this one
    carried = np.broadcast_to(ended[:1], (rollout.seats, ended.shape[1]))
    rollout.decisions.trainable.numpy()[...] &= np.concatenate([carried, ended])


def _learn(run: Run) -> Metrics:
    """Regress Q of the actions taken on the outcomes, in several epochs."""
    ppo, network, memory = run.config.ppo, run.network, run.memory.to(run.device)
    rows = memory.trainable.nonzero().squeeze(1)  # [M]
    if len(rows) < 2:
        return {}
    weights = objective_weights(run.config, run.progress)
    outcome = memory.advantage + memory.value
    # Margin and result each in units of their own spread, as PPO's advantages are blended.
    target = (outcome / (outcome[rows].std(dim=0) + 1e-8)) @ torch.tensor(weights, device=run.device)
    for group in run.optimizer.param_groups:
        group["lr"] = ramp(ppo.learning_rate, ppo.learning_rate_end, run.progress)
    parts, total = max(1, round(len(rows) / ppo.minibatch)), 0.0
    for _ in range(ppo.epochs):
        shuffled = rows[torch.randperm(len(rows), generator=run.generator).to(run.device)]
        for part in shuffled.tensor_split(parts):
            log_probs, values = network(memory.observation[part], memory.action_mask[part])
            q = values[:, 0] + log_probs.gather(1, memory.action[part].unsqueeze(1)).squeeze(1)
            loss = (q - target[part]).square().mean()
            run.optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(network.parameters(), ppo.max_gradient)
            if not torch.isfinite(loss + norm):
                raise TrainingError(f"the loss is {loss.item()}, after {run.decisions:,} decisions")
            run.optimizer.step()
            if run.average:
                with torch.no_grad():
                    torch._foreach_lerp_(list(run.average.parameters()), list(network.parameters()), 1 - ppo.average)
            total += loss.item()
    mean = total / (parts * ppo.epochs)
    explained = 1 - mean / target[rows].var().clamp_min(1e-12).item()
    return {"value_loss": mean, "explained": explained, "result_weight": weights[1], "learned_from": len(rows)}


def _certain(network: PolicyNetwork) -> PolicyNetwork:
    """A copy that all but surely takes its best action where it is let draw, as past policies are."""
    sharp = copy.deepcopy(network).requires_grad_(False)
    heads = [sharp.policy, *([sharp.slot_score] if sharp.shape.slots else [])]
    for head in heads:
        for parameter in head.parameters():
            parameter.mul_(CERTAIN)
    return sharp


def train(run: Run, folder: Path, *, measure: Callable[[Run], dict[str, float]] | None = None) -> None:
    """Play the budget of a run made by `start`; writes log and policy to `folder`, which exists.

    Args:
        run: a fresh run.
        folder: the run's folder.
        measure: called every `config.measure.every` decisions; its figures go to the log.

    Raises:
        Interrupted: Ctrl-C; the policy as it is was saved.
        TrainingError: the loss is no number any more.
    """
    config = run.config
    assert isinstance(config, MonteCarlo)
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        with report.RunLog(folder, config, run.decisions) as log, Interrupt() as interrupt:
            while run.decisions < config.decisions and not interrupt.asked:
                before = run.decisions
                metrics = advance(run, ramp(config.epsilon, config.epsilon_end, run.progress))
                over = run.decisions >= config.decisions
                every = config.measure.every
                if measure and every and (over or _due(before, run.decisions, every)):
                    metrics |= measure(run)
                log.add(metrics)
                if over or _due(before, run.decisions, config.log.checkpoint_every):
                    checkpoint.save_policy(folder / checkpoint.POLICY, run.policy, runs.card(run))
    finally:
        torch.set_num_threads(threads)
    if interrupt.asked and run.decisions < config.decisions:
        checkpoint.save_policy(folder / checkpoint.POLICY, run.policy, runs.card(run))
        raise Interrupted(f"stopped after {run.decisions:,} of {config.decisions:,} decisions; policy in {folder}")


def _due(before: int, after: int, every: int) -> bool:
    return after // every > before // every


@dataclass(frozen=True)
class Arguments:
    """Train a policy by Monte-Carlo values: the outcome of every own decision, epsilon-greedy."""

    config: Path | None = None
    """YAML file of settings that differ from the defaults; the command line goes before it."""
    settings: Annotated[MonteCarlo, tyro.conf.arg(name="")] = field(default_factory=MonteCarlo)


def load(path: Path) -> MonteCarlo:
    """Read a YAML file that holds what differs from the defaults.

    Raises:
        ConfigError: the file cannot be read or is no YAML mapping, or a key or value in it is not allowed.
    """
    data = mapping.read_yaml(path)
    try:
        config: MonteCarlo = mapping.build(MonteCarlo, data)
    except ConfigError as error:
        raise ConfigError(f"config {path}: {error}") from None
    return config


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("--config", type=Path)
    prog = "python -m undertake_training.monte_carlo"
    try:
        before, _ = known.parse_known_args(arguments)
        default = load(before.config) if before.config else MonteCarlo()
        asked = tyro.cli(Arguments, prog=prog, args=arguments, default=Arguments(settings=default))
        run = start(asked.settings)
        folder = run.config.folder
        if folder.exists():
            raise ConfigError(f"name: there is a run in {folder} already; give another --name")
        folder.mkdir(parents=True)
        train(run, folder, measure=in_fields if run.config.measure.every else None)
    except (ConfigError, CheckpointError, PolicyError, TrainingError) as error:
        print(f"monte_carlo: {error}", file=sys.stderr)
        return 1 if isinstance(error, TrainingError) else 2
    except Interrupted as reason:
        print(reason, file=sys.stderr)
        return 130
    report.draw_curve(folder, run.config)
    report.write_report(folder, run.config, {})
    print(f"policy, report.json and learning_curve.png are in {folder}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
