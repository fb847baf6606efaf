"""The Gymnasium vector face: B tables at which one seat learns, stepped in compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from undertake.api.face import RENDER_MODES
from undertake.api.opponents import make_opponents
from undertake.api.single_agent import check_render_mode, new_root, observation_space
from undertake.api.tables import LearnerTables, make_tables
from undertake.core.game import Game, check_choice, check_flag, get_game

__all__ = ["LearnerVectorEnv", "set_roots"]

Step = tuple[Any, npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]
"""Observations, rewards [B], terminations [B], truncations [B] and infos."""


class LearnerVectorEnv(VectorEnv[Any, Any, Any]):
    """B tables of one game, at each of which one seat learns.

    `gymnasium.make_vec("undertake:undertake/NoThanks-v0", num_envs=1024, **keywords)`, and likewise for
    "undertake:undertake/SixNimmt-v0". All keywords but `num_envs` and `autoreset_mode` are those of `SingleAgentEnv`.

    Table b plays, step for step, what `SingleAgentEnv` reset with the seed of table b plays against the same opponents
    (who must not draw random numbers in Python: at B tables together they draw others). Scripted opponents act inside
    the compiled call, others are asked once for all tables that wait for them. Numbers of players drawn from a range
    are drawn for each table and episode.

    Args:
        game: "no_thanks" or "six_nimmt".
        num_envs: B.
        autoreset_mode: a `gymnasium.vector.AutoresetMode` or its value: "NextStep" (the step after the end begins a new
            episode and pays nothing), "SameStep" (the observation is already that of the new episode, the last one is
            `infos["final_obs"][b]` and its info `infos["final_info"]`) or "Disabled" (tables whose episode is over wait
            for `reset(options={"reset_mask": bool [B]})`).
        **keywords: of `SingleAgentEnv`.

    Observations are batches, `{"observation": float32 [B, D], "action_mask": int8 [B, N]}` or float32 `[B, D]`; infos
    hold arrays `score`, `seat` and `action_mask`, each with a mask (`_score`, ...) of the tables that it speaks of. All
    arrays are fresh in every step.

    Raises ValueError or TypeError in one line for what is not allowed, PolicyError for an opponent that cannot be had.
    """

    def __init__(
        self,
        game: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        opponents: Any = "random",
        seating: str = "mixed",
        current_policy: Callable[[], Any] | None = None,
        seat: int | str = "random",
        num_players: int | Sequence[int] = 4,
        view: str = "table",
        reward: str = "rank",
        illegal: str = "terminate",
        dict_observation: bool = True,
        render_mode: str | None = None,
        trust: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        check_render_mode(render_mode)
        check_flag("dict_observation", dict_observation)
        if not isinstance(autoreset_mode, AutoresetMode):
            check_choice("autoreset_mode", autoreset_mode, [mode.value for mode in AutoresetMode])
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.game: Game = get_game(game)
        rivals: dict[str, Any] = {"seating": seating, "current_policy": current_policy, "trust": trust}
        self._tables: LearnerTables = make_tables(
            self.game,
            make_opponents(self.game, opponents, view=view, **rivals),
            num_envs=num_envs,
            num_players=num_players,
            seat=seat,
            view=view,
            reward=reward,
            illegal=illegal,
            **options,
        )
        self.num_envs, self.render_mode, self._dict = num_envs, render_mode, dict_observation
        self.metadata = {
            "render_modes": list(RENDER_MODES),
            "render_fps": 1,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_observation_space = observation_space(self.game, view, dict_observation)
        self.single_action_space = spaces.Discrete(self.game.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._every = np.ones(num_envs, np.bool_)
        self._mask: npt.NDArray[np.int8] = np.zeros((num_envs, self.game.num_actions), np.int8)
        self._rooted = self._running = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode at every table, or at those of `options["reset_mask"]` (bool [B]).

        Table b gets the seed `seed + b`, or `seed[b]` of a list; without one its random stream goes on. `options` may
        hold "deck" and "first_player" as well, which then fix the deal at all these tables. The infos speak of the
        tables that have been reset.

        Raises ValueError or TypeError in one line for what is not allowed.
        """
        chosen = _reset_mask(options, self.num_envs)
        if not self._running and not chosen.all():
            raise ResetNeeded("the first reset() is one of all tables, without a reset_mask")
        if seed is None and not self._rooted:
            self._np_random, self._np_random_seed = seeding.np_random()
            seed = [int(each) for each in self._np_random.integers(1 << 63, size=self.num_envs)]
        elif seed is not None:
            first = (
                int(seed)
                if isinstance(seed, int | np.integer)
                else next((each for each in seed if each is not None), None)
            )
            super().reset(seed=first)
        set_roots(self._tables, seed, chosen)
        self._rooted = True
        if self._tables.opponents.current is not None:
            self._tables.refresh()
        self._tables.deal(chosen, self.np_random, options)
        self._running = True
        observation, self._mask = self._tables.observe()
        infos = self._infos(chosen)
        self._show()
        return self._packed(observation), infos

    def step(self, actions: Any) -> Step:
        """Play one action (integers [B]) of each learner.

        The action of a table that begins a new episode in this step is ignored. Raises ValueError for another shape,
        TypeError for numbers that are not integers, `gymnasium.error.ResetNeeded` before the first reset and, with
        autoreset "Disabled", while a table's episode is over; for illegal actions see `SingleAgentEnv`.
        """
        if not self._running:
            raise ResetNeeded("reset() needs to be called before step()")
        given = _whole(actions, self.num_envs)
        tables = self._tables
        before = tables.over
        if not before.any():
            tables.step(given, self.np_random)
        elif self.autoreset_mode is AutoresetMode.NEXT_STEP:
            tables.step(given, self.np_random, ~before, before)
        else:
            at = ", ".join(map(str, np.flatnonzero(before)[:10]))
            raise ResetNeeded(f"the episodes of the tables {at} are over: reset them by options={{'reset_mask': ...}}")
        reward, over = tables.reward, tables.over
        final: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and over.any():
            final = self._final(over)
            tables.deal(over, self.np_random)
        observation, self._mask = tables.observe()
        infos = {**final, **self._infos(self._every)}
        self._show()
        return self._packed(observation), reward, over, np.zeros(self.num_envs, np.bool_), infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """What each learner may do now (bool [B, N])."""
        return self._mask.astype(np.bool_)

    def refresh(self) -> None:
        """Ask `current_policy` anew for the policy that "self" stands for."""
        self._tables.refresh()

    def render(self) -> Any:
        """Every table in a few lines: a tuple of B texts in render mode "ansi", printed in "human"."""
        if not self._running:
            raise ResetNeeded("reset() needs to be called before render()")
        if self.render_mode is None:
            gymnasium.logger.warn(f"render() draws nothing without a render_mode; there are {', '.join(RENDER_MODES)}")
            return None
        texts = tuple(self.game.text(self.game.table(self._tables.record(b))) for b in range(self.num_envs))
        if self.render_mode == "ansi":
            return texts
        print("\n\n".join(texts), flush=True)
        return None

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def _packed(self, observation: npt.NDArray[np.float32]) -> Any:
        return {"observation": observation, "action_mask": self._mask.copy()} if self._dict else observation

    def _infos(self, told: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """Infos of the tables in `told`, in the form of `VectorEnv._add_info`; zeros for the others."""
        told_mask = self._mask * told[:, None] if not told.all() else self._mask.copy()
        arrays = {
            "score": self._tables.score * told,
            "seat": self._tables.seat * told,
            "action_mask": told_mask.astype(np.int8, copy=False),
        }
        infos: dict[str, Any] = {}
        for name, array in arrays.items():
            infos[name], infos[f"_{name}"] = array, told.copy()
        return infos

    def _final(self, over: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """The last observation and info of the tables whose episode is over."""
        at = np.flatnonzero(over)
        seen, masks = self._tables.observe(at)
        observations = np.full(self.num_envs, None, object)
        all_masks = np.zeros((self.num_envs, self.game.num_actions), np.int8)
        all_masks[at] = masks
        for i, b in enumerate(at):
            last = seen[i].copy()
            observations[b] = {"observation": last, "action_mask": masks[i].copy()} if self._dict else last
        before, self._mask = self._mask, all_masks
        info = self._infos(over)
        self._mask = before
        return {"final_obs": observations, "_final_obs": over.copy(), "final_info": info, "_final_info": over.copy()}


def set_roots(
    tables: LearnerTables, seed: int | Sequence[int | None] | None, chosen: npt.NDArray[np.bool_] | None = None
) -> None:
    """Give the (chosen) tables the random streams that `SingleAgentEnv.reset(seed=...)` gives its table.

    Raises ValueError for a list of another length than B.
    """
    if seed is None:
        return
    count = tables.num_envs
    seeds = [int(seed) + b for b in range(count)] if isinstance(seed, int | np.integer) else list(seed)
    if len(seeds) != count:
        raise ValueError(f"{len(seeds)} seeds are given; one a table is needed, {count}")
    for b, each in enumerate(seeds):
        if each is not None and (chosen is None or chosen[b]):
            tables.set_root(b, new_root(seeding.np_random(each)[0]))


def _whole(actions: Any, count: int) -> npt.NDArray[np.int64]:
    given = np.asarray(actions)
    if given.dtype.kind not in "iu":
        raise TypeError(f"actions are of dtype {given.dtype}; integers are needed")
    if given.shape != (count,):
        raise ValueError(f"actions have the shape {given.shape}; one action a table is needed, ({count},)")
    return given.astype(np.int64, copy=False)


def _reset_mask(options: Mapping[str, Any] | None, count: int) -> npt.NDArray[np.bool_]:
    """The tables to be reset."""
    if not isinstance(options, Mapping) or "reset_mask" not in options:
        return np.ones(count, np.bool_)
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,):
        raise TypeError(f"options['reset_mask'] is {mask!r}; a bool array of the shape ({count},) is needed")
    if not mask.any():
        raise ValueError("options['reset_mask'] chooses no table; at least one is needed")
    return mask.copy()
