"""Who else sits at the training tables: scripted bots, trained policies, the run's own past, by their names.

Letters: K opponents.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from undertake.core.batch import records
from undertake.core.game import BOT, Game
from undertake.core.memory import Memory
from undertake_training.checkpoint import load_policy
from undertake_training.config import PAST, ConfigError, Opponents
from undertake_training.network import PolicyNetwork

__all__ = ["Cast", "Past", "make_cast"]

_CHECKPOINT = "checkpoint:"


@dataclass
class Past:
    """The run's own earlier policies; `network` plays one of them, drawn anew for every rollout."""

    network: PolicyNetwork
    weights: list[dict[str, torch.Tensor]] = field(default_factory=list)

    def add(self, network: PolicyNetwork, kept: int, generator: torch.Generator) -> None:
        """Keep the weights of `network`; with `kept` there already they take the place of one drawn at random."""
        weights = network.tensors()
        weights = {name: tensor.clone() for name, tensor in weights.items()}
        if len(self.weights) < kept:
            self.weights.append(weights)
        else:
            self.weights[int(torch.randint(kept, (), generator=generator))] = weights

    def draw(self, current: PolicyNetwork, generator: torch.Generator) -> None:
        """Let `network` play one of the past policies, evenly; while there is none, the current one."""
        count = len(self.weights)
        chosen = self.weights[int(torch.randint(count, (), generator=generator))] if count else current.state_dict()
        self.network.load_state_dict(chosen)


@dataclass(frozen=True)
class Cast:
    """The opponents, each once.

    Attributes:
        names: their K names
        bots: `BOT` records `[K]`, empty ones for trained policies
        scripted: bool `[K]`, which are bots
        weights: int64 `[W]`, from which opponents are drawn evenly
        networks: the trained policies by their numbers
        past: the run's own past, if it is among them; its network is among `networks`
    """

    names: tuple[str, ...]
    bots: npt.NDArray[Any]
    scripted: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.int64]
    networks: Mapping[int, PolicyNetwork]
    past: Past | None = None


def make_cast(game: Game, settings: Opponents, view: str, network: PolicyNetwork, memory: Memory | None = None) -> Cast:
    """The configured opponents; `network`, the policy to be trained, gives the past ones their shape.

    What the tables keep is what the policy to be trained remembers, its `memory`: an opponent may remember less of it.

    Raises:
        ConfigError: a name that is no bot's, in one line with the nearest; a checkpoint that remembers anything else.
        CheckpointError: a checkpoint that cannot be loaded, or is of another game or view.
    """
    names = tuple(dict.fromkeys(settings.policies))
    bots = records(BOT, len(names)) if names else np.zeros(0, BOT)
    networks: dict[int, PolicyNetwork] = {}
    past = None
    for k, name in enumerate(names):
        if name == PAST:
            past = Past(copy.deepcopy(network).requires_grad_(False))
            networks[k] = past.network
        elif name.startswith(_CHECKPOINT):
            loaded = load_policy(name.removeprefix(_CHECKPOINT), game=game.name, view=view)
            _check_memory(name, loaded.memory, memory or Memory())
            networks[k] = loaded.network.requires_grad_(False).to(network.scale.device)
        elif name in game.bots:
            bots[k] = game.bots[name][0]
        else:
            near = difflib.get_close_matches(name, [*game.bots, PAST, _CHECKPOINT], 1, 0.0)[0]
            raise ConfigError(f"opponents.policies: {game.title} has no bot {name!r}; did you mean {near!r}?")
    scripted = np.array([k not in networks for k in range(len(names))], np.bool_)
    weights = np.array([names.index(name) for name in settings.policies], np.int64)
    return Cast(names, bots, scripted, weights, networks, past)


def _check_memory(name: str, its: Memory, kept: Memory) -> None:
    if its.decisions and (its.slices != kept.slices or its.decisions > kept.decisions):
        told = [f"{list(each.slices)} at {each.decisions} decisions" for each in (its, kept)]
        raise ConfigError(f"opponents.policies: {name!r} remembers {told[0]}, the policy to be trained only {told[1]}")
