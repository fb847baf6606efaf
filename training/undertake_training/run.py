"""A run: all that moves while a policy is trained, from a config to the saved state and back.

A run that was saved and resumed, in the same versions and with the same number of threads, plays and learns exactly as
one that was never stopped.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from undertake.core import memory as memories
from undertake.core.batch import Batch, make_batch
from undertake_training import checkpoint
from undertake_training import config as configuration
from undertake_training import network as networks
from undertake_training.config import Config, ConfigError
from undertake_training.opponents import Cast, make_cast
from undertake_training.rollout import SPARE, Decisions, Rollout
from undertake_training.tables import Tables, extra_scale

__all__ = ["BEST", "PREVIOUS", "REWARDS", "STATE", "Group", "Run", "card", "resume", "save", "save_best", "start"]

REWARDS = 2
"""Rewards kept apart, each with a value head of its own: 0 the margin, 1 the result."""

STATE = "resume.safetensors"
PREVIOUS = "resume-previous.safetensors"
BEST = "best.safetensors"


@dataclass(frozen=True)
class Group:
    """The tables of one number of players and what is played there."""

    tables: Tables
    rollout: Rollout


@dataclass
class Run:
    """A run and all that moves while it goes on: the same run, saved and resumed, plays and learns the same.

    `memory` holds the decisions of all groups; `average` is the moving average of the network, if one is kept.
    """

    config: Config
    device: torch.device
    network: networks.PolicyNetwork
    critic: networks.Critic | None
    average: networks.PolicyNetwork | None
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    cast: Cast
    memory: Decisions
    groups: tuple[Group, ...]
    decisions: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    best: float | None = None

    @property
    def progress(self) -> float:
        """Share of the budget played, 0 to 1."""
        return min(1.0, self.decisions / self.config.decisions)

    @property
    def policy(self) -> networks.PolicyNetwork:
        """The policy that is saved and measured."""
        return self.average or self.network

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """All that is learned."""
        return [*self.network.parameters(), *(self.critic.parameters() if self.critic else ())]


def start(config: Config) -> Run:
    """A fresh run; by Monte-Carlo values it takes the likeliest action and has no critic, whatever `config` says.

    Raises:
        ConfigError: the game, its options or its view are not allowed, the network or the memory does not fit them, an
            opponent is not known, or there is no GPU.
    """
    configuration.check(config)
    if config.method == "monte_carlo":
        without = dataclasses.replace(config.network, critic=())
        config = dataclasses.replace(config, greedy=True, network=without)
    device = _device(config.device)
    game_seeds, network_seed, generator_seed, seat_seed, sample_seed, critic_seed = _seeds(config)
    batches = [_tables(config, size, tables, game_seeds + i) for i, (size, tables) in enumerate(_sizes(config))]
    game = batches[0].game
    layout = game.layouts[config.view]
    try:
        scales = memories.scale(layout, config.memory)
    except ValueError as error:
        raise ConfigError(f"memory.slices: {error}") from None
    slices = {**layout.slices, "memory": slice(layout.size, len(scales))}
    shape = networks.make_shape(config.network, slices, batches[0].num_actions, REWARDS)
    network = networks.build(shape, torch.from_numpy(scales), network_seed)
    network.calibrate(_sample(config, sample_seed))
    network.to(device)
    cast = make_cast(game, config.opponents, config.view, network, config.memory)
    critic, width = None, 0
    if config.network.critic:
        scale = torch.from_numpy(extra_scale(game, cast))
        width = len(scale)
        critic = networks.build_critic(config.network.hidden[-1], scale, config.network.critic, REWARDS, critic_seed)
        critic.to(device)
    shares = {"fields": config.opponents.fields, "mixed": config.opponents.mixed}
    rows = [size + config.steps for size, _ in _sizes(config)]
    counts = [r * batch.num_envs for r, batch in zip(rows, batches, strict=True)]
    memory = Decisions.empty(
        sum(counts) + SPARE * len(counts),
        features=len(scales),
        actions=game.num_actions,
        extra=width,
        values=REWARDS,
    )
    groups, at = [], 0
    for i, batch in enumerate(batches):
        part = memory.part(at, rows[i], batch.num_envs)
        at_tables = Tables(batch, cast, seed=seat_seed + i, memory=config.memory, **shares)
        groups.append(Group(at_tables, Rollout(part, batch.num_players)))
        at += counts[i] + SPARE
    average = copy.deepcopy(network).requires_grad_(False) if config.ppo.average else None
    learned = [*network.parameters(), *(critic.parameters() if critic else ())]
    optimizer = torch.optim.Adam(learned, lr=config.ppo.learning_rate, eps=1e-5, fused=True)
    generator = torch.Generator().manual_seed(generator_seed)
    return Run(config, device, network, critic, average, optimizer, generator, cast, memory, tuple(groups))


def _seeds(config: Config) -> Iterator[int]:
    words = np.random.SeedSequence(config.seed).generate_state(5, np.uint32)
    return iter((config.seed, *(int(words[i]) for i in (0, 1, 2, 3, 4))))


def _device(name: str) -> torch.device:
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise ConfigError("device: 'cuda' is not allowed, torch finds no GPU here; allowed are 'cpu' and 'auto'")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and there) else "cpu")


def _sizes(config: Config) -> list[tuple[int, int]]:
    """Numbers of players, each with its number of tables."""
    if not config.other_sizes:
        return [(config.num_players, config.tables)]
    each = max(1, round(config.tables * config.other_tables / len(config.other_sizes)))
    main = max(1, config.tables - each * len(config.other_sizes))
    return [(config.num_players, main), *((size, each * times) for size, times in Counter(config.other_sizes).items())]


def _tables(config: Config, players: int, tables: int, seed: int) -> Batch:
    try:
        return make_batch(
            config.game,
            num_envs=tables,
            seed=seed,
            view=config.view,
            observe=False,
            num_players=players,
            **config.options,
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from None


def _sample(config: Config, seed: int) -> Tensor:
    """Observations uint8 `[B, D]` from random play, of every stage of the game and every size."""
    seen = []
    for players, _ in _sizes(config):
        batch = _tables(config, players, 256, seed)
        layout, tables = batch.game.layouts[config.view], np.arange(256)
        past = memories.Past(layout, config.memory, 256, players)
        for step in range(400):
            wanted = step % 8 == 1
            if wanted or config.memory.decisions:
                rows = np.zeros((256, memories.width(layout, config.memory)), np.uint8)
                rows[:, : layout.size] = batch.observe(batch.seat)[0]
                past.stack(tables, batch.seat, rows)
                past.push(tables, batch.seat, rows)
                if wanted:
                    seen.append(torch.from_numpy(rows))
            batch.step(batch.random_actions(seed + step * 256))
            past.forget(batch.done)
    return torch.cat(seen)


def card(run: Run) -> dict[str, Any]:
    """The card of the policy as it is now."""
    return checkpoint.make_card(
        game=run.config.game,
        num_players=run.config.num_players,
        view=run.config.view,
        options=run.config.options,
        network=run.policy,
        config=configuration.to_mapping(run.config),
        decisions=run.decisions,
        seed=run.config.seed,
        greedy=run.config.greedy,
        cpu_hours=round(run.cpu_seconds / 3600, 3),
        memory=run.config.memory,
    )


def save(run: Run, folder: Path) -> None:
    """Write the policy with its card, then the state to resume from."""
    checkpoint.save_policy(folder / checkpoint.POLICY, run.policy, card(run))
    tensors: dict[str, Tensor] = {}
    for name, part in _modules(run).items():
        tensors |= {f"{name}.{key}": tensor.detach().cpu() for key, tensor in part.state_dict().items()}
    for index, state in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor.cpu() for name, tensor in state.items()}
    for i, weights in enumerate(run.cast.past.weights if run.cast.past else ()):
        tensors |= {f"past.{i}.{name}": tensor for name, tensor in weights.items()}
    tensors["generator"] = run.generator.get_state()
    tensors |= {name: _bytes(array) for name, array in _arrays(run).items()}
    data = {name: getattr(run, name) for name in _NUMBERS}
    if (folder / STATE).exists():
        _link(folder / STATE, folder / PREVIOUS)
    checkpoint.save(folder / STATE, tensors, "run", {"config": configuration.to_mapping(run.config), **data})


def _link(path: Path, other: Path) -> None:
    """Let `other` be the file that `path` is now, whatever `path` becomes."""
    spare = other.with_name(f".{other.name}.tmp")
    spare.unlink(missing_ok=True)
    try:
        os.link(path, spare)
    except OSError:  # not every file system has hard links
        shutil.copyfile(path, spare)
    spare.replace(other)


def save_best(run: Run, folder: Path) -> None:
    """Write the policy as it is now as the best of the run."""
    checkpoint.save_policy(folder / BEST, run.policy, card(run))


def resume(folder: Path, change: Callable[[Config], Config] = lambda config: config) -> Run:
    """The run saved in `folder`, as it was.

    `change` may give it another budget, other threads and log settings, and let opponents be drawn more or less often.
    Where the last state is damaged the one before it is taken, with a line on stderr.

    Raises:
        CheckpointError: there is no run in the folder, or it is damaged.
        ConfigError: the changed config differs in what must stay.
    """
    for left in folder.glob(".*.tmp"):  # by a process that was killed while it wrote
        left.unlink(missing_ok=True)
    try:
        return _resume(folder / STATE, change)
    except checkpoint.CheckpointError as error:
        if not (folder / PREVIOUS).exists():
            raise
        run = _resume(folder / PREVIOUS, change)
        print(f"{error}; going on from the state before it, {run.decisions:,} decisions", file=sys.stderr)
        return run


def _resume(path: Path, change: Callable[[Config], Config]) -> Run:
    tensors, data = checkpoint.read(path, "run")
    try:
        before = configuration.from_mapping(data["config"])
        run = start(before)
        for name in _NUMBERS:
            setattr(run, name, data[name])
        for name, part in _modules(run).items():
            part.load_state_dict({key: tensors[f"{name}.{key}"] for key in part.state_dict()})
        state = run.optimizer.state_dict()
        names = ("step", "exp_avg", "exp_avg_sq")
        present = f"optimizer.0.{names[0]}" in tensors
        count = len(run.parameters) if present else 0
        state["state"] = {i: {n: tensors[f"optimizer.{i}.{n}"] for n in names} for i in range(count)}
        run.optimizer.load_state_dict(state)
        if run.cast.past:
            keys = run.cast.past.network.state_dict().keys()
            while f"past.{len(run.cast.past.weights)}.scale" in tensors:
                i = len(run.cast.past.weights)
                run.cast.past.weights.append({key: tensors[f"past.{i}.{key}"] for key in keys})
        run.generator.set_state(tensors["generator"])
        for name, array in _arrays(run).items():
            array[...] = np.frombuffer(tensors[name].numpy().tobytes(), array.dtype).reshape(array.shape)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise checkpoint.CheckpointError(f"checkpoint {path}: not a run of this version ({error})") from None
    after, was = change(before), configuration.to_mapping(before)  # with the defaults of what has come since
    for key, value in configuration.to_mapping(after).items():
        if key not in ("decisions", "threads", "log", "measure", "opponents") and value != was[key]:
            raise ConfigError(f"{key} cannot change in a resumed run: it is {was[key]}, given was {value}")
    run.config = after
    if after.opponents != before.opponents:
        _reseat(run, before)
    return run


def _reseat(run: Run, before: Config) -> None:
    """Let the opponents be drawn in the changed proportions, from the next game at each table on."""
    opponents = run.config.opponents
    known = dict.fromkeys(before.opponents.policies)
    if list(dict.fromkeys(opponents.policies)) != list(known):
        kept = ", ".join(known) or "none"
        raise ConfigError(f"opponents.policies: a resumed run keeps them in this order, each at least once: {kept}")
    weights = np.array([run.cast.names.index(name) for name in opponents.policies], np.int64)
    run.cast = dataclasses.replace(run.cast, weights=weights)
    for group in run.groups:
        group.tables.reseat(run.cast, opponents.fields, opponents.mixed)


_NUMBERS = ("decisions", "seconds", "cpu_seconds", "best")


def _modules(run: Run) -> dict[str, torch.nn.Module]:
    """The networks that a run has, by name."""
    named = {"network": run.network, "critic": run.critic, "average": run.average}
    return {name: part for name, part in named.items() if part}


def _arrays(run: Run) -> dict[str, Any]:
    """All arrays that carry a run from one update to the next, as views to save and to overwrite."""
    return {
        f"{i}.{name}": array
        for i, group in enumerate(run.groups)
        for name, array in (group.tables.arrays() | group.rollout.arrays()).items()
    }


def _bytes(array: Any) -> Tensor:
    return torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy())
