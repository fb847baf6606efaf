"""The yardstick: learn from how games ended what each action is worth, and take the best one. No policy gradient.

    undertake train --config configs/monte_carlo/no_thanks.yaml --seed 0

The other method of `undertake train`: tables, opponents, network, budget, measuring and the files of a run are those
of PPO. Every own decision whose game has ended teaches Q(observation, action) what its seat was paid from then on, the
margin at first and later the blend with the result. The policy takes the action of the greatest Q, while it learns
another one with chance epsilon.

The network's two heads together are Q: Q = V + log-probability. Any Q can be written so, V being the logarithm of the
sum of its exponentials; the likeliest action is the best one, and what is saved is a policy like any other.

Letters: T steps, B tables, n seats, R = n + T rows, M decisions to learn from.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from undertake_training.network import MASKED, PolicyNetwork
from undertake_training.ppo import Metrics, descend, minibatches, objective_weights, ramp, update
from undertake_training.rollout import Rollout
from undertake_training.run import Run

__all__ = ["EpsilonGreedy", "advance", "keep_ended"]

CERTAIN = 1e4
"""What the differences of Q are multiplied with where a policy that draws shall take the best action."""


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


def advance(run: Run) -> Metrics:
    """One rollout and what is learned from it; returns the figures for the log.

    Raises:
        TrainingError: the loss is not finite; the weights are left as they were before the bad step.
    """
    settings = run.config.monte_carlo
    epsilon = ramp(settings.epsilon, settings.epsilon_end, run.progress)
    # With lambda 1 advantage + value is all that a seat was paid to the end of its game.
    metrics = update(run, EpsilonGreedy(run.network, epsilon), _learn, gae_lambda=1.0, as_past=_certain)
    return metrics | {"epsilon": epsilon}


def keep_ended(rollout: Rollout) -> None:
    """Leave among what is learned from only decisions of games that ended in the rollout.

    With lambda 1 their advantage + value is what their seat was paid from the decision to the end, no value in it.
    """
    ended = np.logical_or.accumulate(rollout.done[::-1])[::-1]  # [T, B]: this game or a later one ended, hence this one
    carried = np.broadcast_to(ended[:1], (rollout.seats, ended.shape[1]))
    rollout.decisions.trainable.numpy()[...] &= np.concatenate([carried, ended])


def _learn(run: Run) -> Metrics:
    """Regress Q of the actions taken on the outcomes, in several epochs."""
    for group in run.groups:
        keep_ended(group.rollout)
    memory = run.memory.to(run.device)
    rows = memory.trainable.nonzero().squeeze(1)  # [M]
    if len(rows) < 2:
        return {}
    weights = objective_weights(run.config, run.progress)
    outcome = memory.advantage + memory.value
    # Margin and result each in units of their own spread, as PPO's advantages are blended.
    target = (outcome / (outcome[rows].std(dim=0) + 1e-8)) @ torch.tensor(weights, device=run.device)
    parts, total = minibatches(run, rows), 0.0
    for part in parts:
        log_probs, values = run.network(memory.observation[part], memory.action_mask[part])
        q = values[:, 0] + log_probs.gather(1, memory.action[part].unsqueeze(1)).squeeze(1)
        loss = (q - target[part]).square().mean()
        descend(run, loss)
        total += loss.item()
    mean = total / len(parts)
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
