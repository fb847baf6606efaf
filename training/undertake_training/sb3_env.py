"""stable-baselines3's vector environment over the batch of learner's tables. Letters: B tables, N actions, D features.

from sb3_contrib import MaskablePPO
from undertake_training.sb3_env import LearnerVecEnv

env = LearnerVecEnv("no_thanks", 256, opponents="tuned")
MaskablePPO("MlpPolicy", env).learn(100_000)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from undertake.api.opponents import make_opponents
from undertake.api.single_agent import observation_space
from undertake.api.tables import LearnerTables, make_tables
from undertake.api.vector import set_roots
from undertake.core.game import get_game

__all__ = ["LearnerVecEnv"]

Indices = None | int | Iterable[int]


class LearnerVecEnv(VecEnv):
    """B tables of one game at each of which one seat learns, as stable-baselines3 takes them.

    Observations are the bare vectors (float32 [B, D], for "MlpPolicy"), or with `dict_observation=True` the dicts of
    the Gymnasium face; masks come from `env_method("action_masks")`, which sb3-contrib's `MaskablePPO` calls. Finished
    tables begin anew in the same step: `infos[b]["terminal_observation"]` is the last observation, and
    `infos[b]["episode"]` holds return `r`, length `l` and the learner's final score `score`, as `VecMonitor` would have
    it. Table b plays what the Gymnasium vector face plays at table b from the same seed.

    Args:
        game: "no_thanks" or "six_nimmt".
        num_envs: B.
        dict_observation: True for `{"observation": ..., "action_mask": ...}`, for "MultiInputPolicy".
        **keywords: of `undertake.api.single_agent.SingleAgentEnv`: opponents, seat, num_players, view, reward, the
            game's options, ...

    Raises ValueError or TypeError in one line for what is not allowed, PolicyError for an opponent that cannot be had.
    """

    def __init__(
        self,
        game: str,
        num_envs: int = 256,
        *,
        opponents: Any = "random",
        seating: str = "mixed",
        current_policy: Callable[[], Any] | None = None,
        view: str = "table",
        dict_observation: bool = False,
        trust: bool = False,
        **keywords: Any,
    ) -> None:
        self.game = get_game(game)
        rivals = make_opponents(
            self.game, opponents, view=view, seating=seating, current_policy=current_policy, trust=trust
        )
        self._tables: LearnerTables = make_tables(self.game, rivals, num_envs=num_envs, view=view, **keywords)
        self._dict = dict_observation
        self._rng = np.random.default_rng()
        self._mask: npt.NDArray[np.int8] = np.zeros((num_envs, self.game.num_actions), np.int8)
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs, np.int64)
        self._actions = np.zeros(num_envs, np.int64)
        self._rooted = False
        self._spaces = observation_space(self.game, view, dict_observation), spaces.Discrete(self.game.num_actions)
        super().__init__(num_envs, *self._spaces)

    def reset(self) -> Any:
        """Begin a new episode at every table, with the seeds and options set before; returns the observations."""
        if self._seeds[0] is not None:
            self._rng = np.random.default_rng(self._seeds[0])
            set_roots(self._tables, self._seeds)
            self._rooted = True
        elif not self._rooted:
            set_roots(self._tables, [int(each) for each in self._rng.integers(1 << 63, size=self.num_envs)])
            self._rooted = True
        if self._tables.opponents.current is not None:
            self._tables.refresh()
        given: Mapping[str, Any] = self._options[0] if self._options else {}
        self._tables.deal(np.ones(self.num_envs, np.bool_), self._rng, given)
        self._reset_seeds()
        self._reset_options()
        self._return[:] = 0
        self._length[:] = 0
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return self._observe()

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Take the actions (integers [B]) that `step_wait` plays."""
        self._actions = np.asarray(actions).reshape(self.num_envs).astype(np.int64)

    def step_wait(self) -> tuple[Any, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Play the actions; returns observations, rewards (float32 [B]), dones (bool [B]) and infos.

        Raises ValueError for an illegal action under `illegal="raise"`.
        """
        tables = self._tables
        tables.step(self._actions, self._rng)
        reward, done = tables.reward, tables.over
        self._return += reward
        self._length += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            at = np.flatnonzero(done)
            seen, masks = tables.observe(at)
            score = tables.score
            for i, b in enumerate(at.tolist()):
                last = seen[i].copy()
                infos[b] = {
                    "terminal_observation": {"observation": last, "action_mask": masks[i]} if self._dict else last,
                    "TimeLimit.truncated": False,
                    "episode": {"r": float(self._return[b]), "l": int(self._length[b]), "score": float(score[b])},
                }
            tables.deal(done, self._rng)
            self._return[done] = 0
            self._length[done] = 0
        return self._observe(), reward.astype(np.float32), done, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """What each learner may do now (bool [B, N])."""
        return self._mask.astype(np.bool_)

    def refresh(self) -> None:
        """Ask `current_policy` anew for the policy that "self" stands for."""
        self._tables.refresh()

    def close(self) -> None:
        """Nothing is held open."""

    def has_attr(self, attr_name: str) -> bool:
        """Whether the tables have an attribute or method of this name."""
        return attr_name == "render_mode" or hasattr(self, attr_name)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of each of the tables: they have all in common but the masks."""
        count = len(self._chosen(indices))
        if attr_name == "render_mode":
            return [None] * count
        return [getattr(self, attr_name)] * count

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Raises AttributeError: the tables have all in common and are made by the constructor's keywords."""
        raise AttributeError(f"{attr_name!r} cannot be set: the tables are made by the keywords of LearnerVecEnv")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method: "action_masks" gives a row (bool [N]) for each of the tables; others are called once.

        Raises AttributeError for a method that does not exist.
        """
        chosen = self._chosen(indices)
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[b] for b in chosen]
        return [getattr(self, method_name)(*method_args, **method_kwargs)] * len(chosen)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """False for each of the tables, but for `Monitor`: returns and lengths are in the infos already."""
        return [wrapper_class.__name__ == "Monitor"] * len(self._chosen(indices))

    def _observe(self) -> Any:
        observation, self._mask = self._tables.observe()
        return {"observation": observation, "action_mask": self._mask.copy()} if self._dict else observation

    def _chosen(self, indices: Indices) -> Sequence[int]:
        return list(self._get_indices(indices))
