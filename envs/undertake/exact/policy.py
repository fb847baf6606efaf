"""Policies by the probabilities of their actions, for any number of positions at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from undertake.arena.deals import look
from undertake.arena.policy import Policy, PolicyError, make_policy
from undertake.core.batch import records
from undertake.core.game import VIEWS, Game, check_choice
from undertake.core.memory import Memory

__all__ = ["Chances", "Probabilities", "chances"]

_PAD = 64  # `encode` and `legal` write 64 bytes at a time, the last of them past the row's end
_CHUNK = 1 << 15  # positions shown to a policy in one call


class Probabilities(Protocol):
    """A policy that draws its actions; an attribute `view`, "table" or "recall", says for which view it was made."""

    def probabilities(
        self, observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8]
    ) -> npt.NDArray[Any]:
        """The probability of every action, [B, N], for observations [B, D] and action masks [B, N]."""


@dataclass(frozen=True)
class Chances:
    """A policy as a function of state records [B] and the seats to act (int64 [B]), to float64 [B, N].

    Attributes:
        view: what the policy is shown
        of: the function
    """

    view: str
    of: Callable[[npt.NDArray[Any], npt.NDArray[np.int64]], npt.NDArray[np.float64]]


def chances(policy: Any, game: Game, view: str) -> Chances:
    """How `policy` plays; raises PolicyError for one that draws at random and does not say with what probabilities."""
    given = policy() if inspect.isclass(policy) and hasattr(policy, "probabilities") else policy
    if not hasattr(given, "probabilities"):
        found = make_policy(given, game.name)
        given = getattr(found.target, "__self__", found.target)
    if getattr(given, "memory", Memory()).decisions:
        name = str(getattr(given, "name", type(given).__name__))
        raise PolicyError(f"policy {name!r} remembers its decisions, which the positions of a tree do not tell")
    if hasattr(given, "probabilities"):
        own = getattr(given, "view", None) or view
        check_choice("the view of the policy", own, VIEWS)
        name = str(getattr(given, "name", type(given).__name__))
        return Chances(own, _in_chunks(lambda states, seats: _asked(given, name, game, own, states, seats)))
    own = found.seated(game, view)
    if found.name == "random" and found.scripted:
        return Chances("table", _in_chunks(lambda states, seats: _uniform(_seen(game, "table", states, seats)[1])))
    if found.takes_rng and not getattr(given, "greedy", False):
        raise PolicyError(
            f"policy {found.name!r} may draw at random; give it a method 'probabilities(observation, action_mask)'"
        )
    return Chances(own, _in_chunks(lambda states, seats: _certain(found, game, own, states, seats)))


def _in_chunks(
    function: Callable[[npt.NDArray[Any], npt.NDArray[np.int64]], npt.NDArray[np.float64]],
) -> Callable[[npt.NDArray[Any], npt.NDArray[np.int64]], npt.NDArray[np.float64]]:
    def chunked(states: npt.NDArray[Any], seats: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        parts = [function(states[at : at + _CHUNK], seats[at : at + _CHUNK]) for at in range(0, len(states), _CHUNK)]
        return np.concatenate(parts)

    return chunked


def _seen(
    game: Game, view: str, states: npt.NDArray[Any], seats: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]:
    """Observations [B, D] and masks [B, N]."""
    count, layout = len(states), game.layouts[view]
    counts = np.zeros(count * layout.size + _PAD, np.uint8)[: count * layout.size]
    flat = np.zeros(count * game.num_actions + _PAD, np.int8)[: count * game.num_actions]
    look(states, seats, view == "recall", records(game.view_dtype, count), counts, flat)
    observation = counts.reshape(count, layout.size) * layout.scale
    return observation.astype(np.float32, copy=False), flat.reshape(count, game.num_actions)


def _uniform(mask: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    return np.asarray(mask / mask.sum(axis=1, keepdims=True))


def _certain(
    policy: Policy, game: Game, view: str, states: npt.NDArray[Any], seats: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    actions = policy.actions(game, states, seats, view, np.random.default_rng(0))
    found = np.zeros((len(states), game.num_actions))
    found[np.arange(len(states)), actions] = 1
    return found


def _asked(
    policy: Any, name: str, game: Game, view: str, states: npt.NDArray[Any], seats: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    observation, mask = _seen(game, view, states, seats)
    found = np.asarray(policy.probabilities(observation, mask), np.float64)
    if found.shape != mask.shape:
        raise PolicyError(f"policy {name!r} gave probabilities {list(found.shape)}; {list(mask.shape)} are needed")
    legal = (found >= 0).all() and (found[mask == 0] <= 1e-6).all() and np.allclose(found.sum(axis=1), 1, atol=1e-3)
    if not legal:
        raise PolicyError(f"policy {name!r} gave probabilities that are no distribution over the legal actions")
    found[mask == 0] = 0
    return np.asarray(found / found.sum(axis=1, keepdims=True))
