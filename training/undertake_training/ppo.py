"""The trainer: one network plays all seats of many tables and learns from what each seat earned. Read from the top.

`train` is the loop; what it repeats is `advance` here, or that of `undertake_training.monte_carlo`, which learns in
another way from the same tables: `update`, `minibatches` and `descend` serve both.

Letters: M decisions to learn from, K rewards kept apart (0 margin, 1 result), each with a value head of its own.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType

import torch
from torch import Tensor, nn

from undertake_training import checkpoint
from undertake_training.config import Config
from undertake_training.network import PolicyNetwork
from undertake_training.report import SHARE, RunLog
from undertake_training.rollout import Acting, RolloutStats
from undertake_training.run import Run, save, save_best

__all__ = [
    "Interrupted",
    "Metrics",
    "TrainingError",
    "advance",
    "blend",
    "descend",
    "merit_of",
    "minibatches",
    "objective_weights",
    "ramp",
    "train",
    "update",
]

Metrics = dict[str, float]


class TrainingError(RuntimeError):
    """Training cannot go on: the loss is no number any more, or nothing can be written."""


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C was pressed; the run has been saved, and where is the message."""


def advance(run: Run) -> Metrics:
    """One rollout and what PPO learns from it; returns the figures for the log.

    Raises:
        TrainingError: the loss is not finite; the weights are left as they were before the bad step.
    """
    return update(run, run.network, learn, gae_lambda=run.config.ppo.gae_lambda)


def update(
    run: Run,
    acting: Acting,
    learn: Callable[[Run], Metrics],
    *,
    gae_lambda: float,
    as_past: Callable[[PolicyNetwork], PolicyNetwork] = lambda policy: policy,
) -> Metrics:
    """What an update of either method is: a rollout at all tables, and what `learn` makes of it.

    Args:
        run: the run, which is advanced.
        acting: decides in the run's own seats.
        learn: learns from the decisions in memory; returns its figures for the log.
        gae_lambda: of the advantages.
        as_past: the policy as it plays among the past ones.

    Raises:
        TrainingError: the loss is not finite.
    """
    config, past = run.config, run.cast.past
    begun, cpu = time.perf_counter(), time.process_time()
    if past:
        past.draw(as_past(run.policy), run.generator)
    games = RolloutStats()
    for group in run.groups:
        games += group.rollout.collect(
            group.tables,
            acting,
            run.generator,
            critic=run.critic,
            networks=run.cast.networks,
            device=run.device,
            margin_scale=config.objective.margin_scale,
            result=config.objective.result,
            gae_lambda=gae_lambda,
        )
    played = time.perf_counter()
    metrics = learn(run)
    for group in run.groups:
        group.rollout.carry()
    before, run.decisions = run.decisions, run.decisions + sum(group.rollout.learner.size for group in run.groups)
    if past and _due(run, before, config.opponents.past_every):
        past.add(as_past(run.policy), config.opponents.past_kept, run.generator)
    ended = time.perf_counter()
    run.seconds += ended - begun
    run.cpu_seconds += time.process_time() - cpu
    return metrics | {
        "decisions": run.decisions,
        "seconds": run.seconds,
        "decisions_per_second": (run.decisions - before) / (ended - begun),
        "rollout_share": (played - begun) / (ended - begun),
        "games": games.games,
        "table_score": games.score / games.games if games.games else math.nan,
        "winning_score": games.best_score / games.games if games.games else math.nan,
    }


def learn(run: Run) -> Metrics:
    """Several epochs of clipped policy gradient over the decisions in memory that can be learned from."""
    ppo, network, critic = run.config.ppo, run.network, run.critic
    memory = run.memory.to(run.device)
    observation, action_mask, action, log_prob = memory.observation, memory.action_mask, memory.action, memory.log_prob
    extra = memory.extra
    rows = memory.trainable.nonzero().squeeze(1)  # [M]
    if len(rows) < 2:
        return {}
    target = memory.advantage + memory.value
    weights = objective_weights(run.config, run.progress)
    gain = torch.zeros(len(target), device=run.device)
    gain[rows] = blend(memory.advantage[rows], weights)
    entropy_weight = ramp(ppo.entropy, ppo.entropy_end, run.progress)

    sums: Metrics = dict.fromkeys(("policy_loss", "value_loss", "entropy", "kl", "clipped"), 0.0)
    parts = minibatches(run, rows)
    for part in parts:
        seen, mask = observation[part], action_mask[part]
        log_probs, values, trunk = network.look(seen, mask)
        change = log_probs.gather(1, action[part].unsqueeze(1)).squeeze(1) - log_prob[part]
        ratio = change.exp()
        bounded = ratio.clamp(1 - ppo.clip, 1 + ppo.clip)
        policy_loss = -torch.minimum(ratio * gain[part], bounded * gain[part]).mean()
        value_loss = (values - target[part]).square().sum(dim=1).mean() / 2
        if critic:
            value_loss = value_loss + (critic(trunk, extra[part]) - target[part]).square().sum(dim=1).mean() / 2
        entropy = -(log_probs.exp() * log_probs).sum(dim=1).mean()
        descend(run, policy_loss + ppo.value_weight * value_loss - entropy_weight * entropy)
        with torch.no_grad():
            sums["policy_loss"] += policy_loss.item()
            sums["value_loss"] += value_loss.item()
            sums["entropy"] += entropy.item()
            sums["kl"] += (ratio - 1 - change).mean().item()
            sums["clipped"] += ((ratio - 1).abs() > ppo.clip).float().mean().item()
    metrics = {name: total / len(parts) for name, total in sums.items()}
    spread = target[rows].var(dim=0)
    explained = 1 - memory.advantage[rows].var(dim=0) / spread.clamp_min(1e-12)
    return metrics | {
        "explained_margin": explained[0].item(),
        "explained_result": explained[1].item(),
        "result_weight": weights[1],
        "learned_from": len(rows),
    }


def minibatches(run: Run, rows: Tensor) -> list[Tensor]:
    """The `rows` `[M]` to learn from, shuffled anew for each epoch and cut into parts of about `ppo.minibatch`."""
    ppo = run.config.ppo
    parts = max(1, round(len(rows) / ppo.minibatch))
    epochs = (rows[torch.randperm(len(rows), generator=run.generator).to(run.device)] for _ in range(ppo.epochs))
    return [part for shuffled in epochs for part in shuffled.tensor_split(parts)]


def descend(run: Run, loss: Tensor) -> None:
    """One step of the optimiser, and of the moving average.

    Raises:
        TrainingError: the loss or its gradient is not finite; nothing was changed.
    """
    ppo = run.config.ppo
    for group in run.optimizer.param_groups:
        group["lr"] = ramp(ppo.learning_rate, ppo.learning_rate_end, run.progress)
    run.optimizer.zero_grad()
    torch.autograd.backward(loss)
    norm = nn.utils.clip_grad_norm_(run.network.parameters(), ppo.max_gradient)
    if run.critic:
        norm = norm + nn.utils.clip_grad_norm_(run.critic.parameters(), ppo.max_gradient)
    if not torch.isfinite(loss + norm):
        what = f"the loss is {loss.item()}, its gradient's norm {norm.item()}"
        raise TrainingError(f"{what}, after {run.decisions:,} decisions")
    run.optimizer.step()
    if run.average:
        with torch.no_grad():
            torch._foreach_lerp_(list(run.average.parameters()), list(run.network.parameters()), 1 - ppo.average)


def blend(advantage: Tensor, weights: tuple[float, float]) -> Tensor:
    """One advantage `[M]` of mean 0 and deviation 1 from those of margin and result `[M, 2]`, each normalised first."""
    normal = (advantage - advantage.mean(dim=0)) / (advantage.std(dim=0) + 1e-8)
    mixed = normal @ torch.tensor(weights, device=normal.device)
    return mixed / (mixed.std() + 1e-8)


def objective_weights(config: Config, progress: float) -> tuple[float, float]:
    """Weights of margin and result after a share `progress` of the budget."""
    objective = config.objective
    span = objective.blend_to - objective.blend_from
    share = (progress - objective.blend_from) / span if span > 0 else float(progress >= objective.blend_from)
    result = objective.result_weight * min(1.0, max(0.0, share))
    return 1.0 - result, result


def ramp(first: float, last: float, progress: float) -> float:
    """The value of a linear schedule after a share `progress` of the budget."""
    return first + (last - first) * progress


def train(
    run: Run,
    folder: Path,
    advance: Callable[[Run], Metrics] = advance,
    *,
    measure: Callable[[Run], dict[str, float]] | None = None,
) -> None:
    """Go on with `run` until its budget is played; writes log, policy and state to `folder`.

    Args:
        run: a fresh or resumed run.
        folder: the run's folder, which exists.
        advance: makes one update by the run's method; returns the figures for the log.
        measure: called every `config.measure.every` decisions; its figures go to the log.

    Raises:
        Interrupted: Ctrl-C; the update under way was finished and everything saved.
        TrainingError: the loss is no number any more, or a file cannot be written; the last checkpoint is left as it
            is.
    """
    config = run.config
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    saved = measured = run.decisions
    try:
        with RunLog(folder, config, run.decisions) as log, Interrupt() as interrupt:
            while run.decisions < config.decisions and not interrupt.asked:
                try:
                    metrics = advance(run)
                except TrainingError as error:
                    raise TrainingError(f"{error}; {_last_checkpoint(folder)}") from None
                over = run.decisions >= config.decisions
                if measure and config.measure.every and (over or _due(run, measured, config.measure.every)):
                    metrics |= measure(run)
                    measured = run.decisions
                    _keep_best(run, metrics, folder)
                log.add(metrics)
                if not over and _due(run, saved, config.log.checkpoint_every):
                    save(run, folder)
                    saved = run.decisions
            save(run, folder)
    except OSError as error:
        raise TrainingError(
            f"cannot write {error.filename or folder}: {error.strerror or error}, after {run.decisions:,} decisions; "
            f"what was saved before is as it was; make room and go on with: undertake train --resume {folder}"
        ) from None
    finally:
        torch.set_num_threads(threads)
    if interrupt.asked and run.decisions < config.decisions:
        raise Interrupted(
            f"stopped after {run.decisions:,} of {config.decisions:,} decisions, saved in {folder}; "
            f"go on with: undertake train --resume {folder}"
        )


def _keep_best(run: Run, metrics: Metrics, folder: Path) -> None:
    """Save the policy apart if its win shares on the dev deals are the best so far: their mean less the worst gap."""
    shares = {name.removeprefix(SHARE): share for name, share in metrics.items() if name.startswith(SHARE)}
    if not shares:
        return
    merit = merit_of(shares, run.config.measure.goals)
    metrics["merit"] = merit
    if run.best is None or merit > run.best:
        run.best = merit
        save_best(run, folder)


def merit_of(shares: Mapping[str, float], goals: Mapping[str, float]) -> float:
    """The mean of the win shares in the fields less the worst gap to a goal; without goals, to the mean itself."""
    mean = sum(shares.values()) / len(shares)
    wanted = {name: goals[name] for name in shares if name in goals} or dict.fromkeys(shares, mean)
    return mean - max(goal - shares[name] for name, goal in wanted.items())


def _due(run: Run, last: int, every: int) -> bool:
    return run.decisions // every > last // every


def _last_checkpoint(folder: Path) -> str:
    if not (folder / checkpoint.POLICY).exists():
        return "no checkpoint had been written yet"
    return f"the last checkpoint in {folder} is as it was; a smaller ppo.learning_rate may help"


class Interrupt:
    """Turns the first Ctrl-C into a wish to stop, seen in `asked`; a second one stops at once."""

    asked = False

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        os.write(sys.stderr.fileno(), b"\nstopping after this update; Ctrl-C again stops at once, without saving\n")
