"""Wrappers of the Parallel environments for libraries that look for the action mask elsewhere than we put it.

    ActionMaskInInfo(no_thanks_v0.parallel_env())    # AgileRL: observation Box, the mask in the infos
    FlattenMask(no_thanks_v0.parallel_env())         # PufferLib: observation Box, the mask at its end

In both an observation is one float32 vector, and all else is the environment's own. D features, N actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo.utils.wrappers import BaseParallelWrapper

from undertake.api.face import Observation
from undertake.api.parallel import ParallelFace, Step

__all__ = ["ActionMaskInInfo", "FlattenMask"]

Infos = dict[str, dict[str, Any]]
Vectors = dict[str, npt.NDArray[np.float32]]
VectorStep = tuple[Vectors, dict[str, float], dict[str, bool], dict[str, bool], Infos]


class _MaskElsewhere(BaseParallelWrapper):  # type: ignore[misc]
    """What both wrappers share: `_vector` makes an observation of ours one vector, `_infos` may add to the infos."""

    def __init__(self, env: ParallelFace) -> None:
        if not isinstance(env, ParallelFace):
            raise TypeError(f"env is {env!r}; a parallel_env() of this package is needed")
        super().__init__(env)
        self._num_actions = int(env.game.num_actions)
        self._space = spaces.Box(0, 1, self._vector(_nothing(env)).shape, np.float32)

    def _vector(self, observation: Observation) -> npt.NDArray[np.float32]:
        raise NotImplementedError

    def _infos(self, observations: Mapping[str, Observation], infos: Infos) -> Infos:
        return infos

    def _vectors(self, observations: Mapping[str, Observation]) -> Vectors:
        return {agent: self._vector(observation) for agent, observation in observations.items()}

    def observation_space(self, agent: str) -> spaces.Box:
        """`Box(0, 1, ..., float32)`, the same object for all agents."""
        return self._space

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Vectors, Infos]:
        """Deal a new game, as the environment does."""
        observations, infos = self.env.reset(seed, options)
        return self._vectors(observations), self._infos(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> VectorStep:
        """Play one action of each agent, as the environment does."""
        return self._rewritten(self.env.step(actions))

    def resign(self, agent: str) -> VectorStep:
        """Let an agent leave the game, as the environment does."""
        return self._rewritten(self.env.resign(agent))

    def observe(self, agent: str) -> npt.NDArray[np.float32]:
        """What any agent may know, at any time."""
        return self._vector(self.env.observe(agent))

    def _rewritten(self, step: Step) -> VectorStep:
        observations, rewards, terminations, truncations, infos = step
        return self._vectors(observations), rewards, terminations, truncations, self._infos(observations, infos)


class ActionMaskInInfo(_MaskElsewhere):
    """Observation float32 `[D]`; the action mask, int8 `[N]`, is `infos[agent]["action_mask"]`.

    For AgileRL, whose multi-agent algorithms read masks from the infos and refuse them in an observation. Raises
    TypeError for anything but a `parallel_env()` of this package.
    """

    def _vector(self, observation: Observation) -> npt.NDArray[np.float32]:
        return observation["observation"]

    def _infos(self, observations: Mapping[str, Observation], infos: Infos) -> Infos:
        return {agent: {**info, "action_mask": observations[agent]["action_mask"]} for agent, info in infos.items()}


class FlattenMask(_MaskElsewhere):
    """Observation float32 `[D + N]`: the features, then the action mask as 0.0 and 1.0.

    For PufferLib and others that know a Box alone; a policy takes the last N entries off again and masks its logits
    with them (`split`). Raises TypeError for anything but a `parallel_env()` of this package.
    """

    def _vector(self, observation: Observation) -> npt.NDArray[np.float32]:
        return np.concatenate([observation["observation"], observation["action_mask"]], dtype=np.float32)

    def split(self, observations: Any) -> tuple[Any, Any]:
        """Features `[..., D]` and mask `[..., N]`, true for what is legal, of an array or tensor `[..., D + N]`."""
        cut = observations.shape[-1] - self._num_actions
        return observations[..., :cut], observations[..., cut:] > 0.5


def _nothing(env: ParallelFace) -> Observation:
    """An observation of the environment's shapes, before there is a game."""
    space = env.observation_space(env.possible_agents[0])
    return {key: np.zeros(part.shape, part.dtype) for key, part in dict(space).items()}  # type: ignore[call-overload]
