"""A run: all that moves while a policy is trained, from a config to the saved state and back.

A run that was saved and resumed, in the same versions and with the same number of threads, plays and learns exactly as
one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from undertake.core.batch import Batch, make_batch
from undertake.core.game import get_game
from undertake_training import checkpoint
from undertake_training import config as configuration
from undertake_training import network as networks
from undertake_training.config import Config, ConfigError
from undertake_training.opponents import ScriptedSeats
from undertake_training.rollout import Rollout

__all__ = ["REWARDS", "STATE", "Run", "card", "resume", "save", "start"]

REWARDS = 2
"""Rewards kept apart, each with a value head of its own: 0 the margin, 1 the result."""

STATE = "resume.safetensors"


@dataclass
class Run:
    """A run and all that moves while it goes on: the same run, saved and resumed, plays and learns the same."""

    config: Config
    batch: Batch
    network: networks.PolicyNetwork
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    rollout: Rollout
    scripted: ScriptedSeats | None
    decisions: int = 0
    seconds: float = 0.0

    @property
    def progress(self) -> float:
        """Share of the budget played, 0 to 1."""
        return min(1.0, self.decisions / self.config.decisions)


def start(config: Config) -> Run:
    """A fresh run.

    Raises:
        ConfigError: the game, its options or its view are not allowed, or the network does not fit them.
    """
    configuration.check(config)
    seeds = np.random.SeedSequence(config.seed).generate_state(4, np.uint32)
    batch = _tables(config, config.tables, config.seed)
    layout = get_game(config.game).layouts[config.view]
    shape = networks.make_shape(config.network, layout.slices, batch.num_actions, REWARDS)
    network = networks.build(shape, torch.from_numpy(batch.scale.copy()), int(seeds[0]))
    rollout = Rollout(
        steps=config.steps,
        tables=config.tables,
        seats=config.num_players,
        features=batch.num_features,
        actions=batch.num_actions,
        values=REWARDS,
    )
    scripted = None
    if config.opponents.bots:
        scripted = ScriptedSeats(
            get_game(config.game),
            config.opponents,
            tables=config.tables,
            num_players=config.num_players,
            view=config.view,
            seed=int(seeds[2]),
        )
    network.calibrate(_sample(config, int(seeds[3])))
    optimizer = torch.optim.Adam(network.parameters(), lr=config.ppo.learning_rate, eps=1e-5, fused=True)
    return Run(config, batch, network, optimizer, torch.Generator().manual_seed(int(seeds[1])), rollout, scripted)


def _tables(config: Config, tables: int, seed: int) -> Batch:
    try:
        return make_batch(
            config.game,
            num_envs=tables,
            seed=seed,
            view=config.view,
            num_players=config.num_players,
            **config.options,
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from None


def _sample(config: Config, seed: int) -> Tensor:
    """Observations uint8 `[B, D]` from random play, of every stage of the game."""
    batch = _tables(config, 256, seed)
    seen = []
    for step in range(400):
        batch.step(batch.random_actions(seed + step * 256))
        if step % 8 == 0:
            seen.append(torch.from_numpy(batch.observation.copy()))
    return torch.cat(seen)


def card(run: Run) -> dict[str, Any]:
    """The card of the policy as it is now."""
    return checkpoint.make_card(
        game=run.config.game,
        num_players=run.config.num_players,
        view=run.config.view,
        options=run.config.options,
        network=run.network,
        config=configuration.to_mapping(run.config),
        decisions=run.decisions,
        seed=run.config.seed,
        greedy=run.config.greedy,
    )


def save(run: Run, folder: Path) -> None:
    """Write the policy with its card, then the state to resume from."""
    checkpoint.save_policy(folder / checkpoint.POLICY, run.network, card(run))
    tensors = {f"network.{name}": tensor for name, tensor in run.network.tensors().items()}
    for index, state in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
    tensors["generator"] = run.generator.get_state()
    tensors |= {name: _bytes(array) for name, array in _arrays(run).items()}
    data = {"config": configuration.to_mapping(run.config), "decisions": run.decisions, "seconds": run.seconds}
    checkpoint.save(folder / STATE, tensors, "run", data)


def resume(folder: Path, change: Callable[[Config], Config] = lambda config: config) -> Run:
    """The run saved in `folder`, as it was; `change` may give it another budget, other threads and log settings.

    Raises:
        CheckpointError: there is no run in the folder, or it is damaged.
        ConfigError: the changed config differs in what must stay.
    """
    tensors, data = checkpoint.read(folder / STATE, "run")
    try:
        before = configuration.from_mapping(data["config"])
        run = start(before)
        run.decisions, run.seconds = int(data["decisions"]), float(data["seconds"])
        run.network.load_state_dict({name: tensors[f"network.{name}"] for name in run.network.state_dict()})
        state = run.optimizer.state_dict()
        names = ("step", "exp_avg", "exp_avg_sq")
        count = len(list(run.network.parameters()))
        present = f"optimizer.0.{names[0]}" in tensors
        state["state"] = {i: {n: tensors[f"optimizer.{i}.{n}"] for n in names} for i in range(count if present else 0)}
        run.optimizer.load_state_dict(state)
        run.generator.set_state(tensors["generator"])
        for name, array in _arrays(run).items():
            array[...] = np.frombuffer(tensors[name].numpy().tobytes(), array.dtype).reshape(array.shape)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise checkpoint.CheckpointError(f"checkpoint {folder / STATE}: not a run of this version ({error})") from None
    after = change(before)
    for key, value in configuration.to_mapping(after).items():
        if key not in ("decisions", "threads", "log", "measure") and value != data["config"].get(key):
            raise ConfigError(
                f"{key} cannot change in a resumed run: it is {data['config'].get(key)}, given was {value}"
            )
    run.config = after
    return run


def _arrays(run: Run) -> dict[str, Any]:
    """All arrays that carry a run from one update to the next, as views to save and to overwrite."""
    names = ("states", "observation", "action_mask", "seat", "reward", "done", "score")
    arrays = {f"batch.{name}": getattr(run.batch, name) for name in names}
    arrays |= {f"rollout.{name}": array for name, array in run.rollout.arrays().items()}
    if run.scripted:
        arrays |= {"scripted.keys": run.scripted.keys, "scripted.seats": run.scripted.seats}
    return arrays


def _bytes(array: Any) -> Tensor:
    return torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy())
