"""The Gymnasium face: one seat learns, the others are played by policies; a step is a decision of the learner."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from undertake.api.face import RENDER_MODES
from undertake.api.opponents import make_opponents
from undertake.api.tables import LearnerTables, make_tables
from undertake.core.game import Game, check_choice, check_flag, get_game

__all__ = ["SingleAgentEnv", "check_render_mode", "new_root", "observation_space"]


class SingleAgentEnv(gymnasium.Env[Any, Any]):
    """A table of one game at which one seat learns.

    `gymnasium.make("undertake:undertake/NoThanks-v0", **keywords)`, "undertake:undertake/SixNimmt-v0".

    Each decision of the learner is a step; its reward is all that its seat has earned since the decision before, so a
    seat that loses while others act is told so with its next decision or at the end. A decision with a single legal
    action is a decision. A deal in which the game ends before the learner is asked is dealt anew.

    Args:
        game: "no_thanks" or "six_nimmt".
        opponents: the policy in the other seats: a name or an object that `undertake.make_policy` takes, "self", or a
            list of such.
        seating: what a list means: "mixed" (each seat of each episode draws one), "same" (all seats of an episode
            are the one drawn) or "listed" (one a seat, clockwise from the learner's left).
        current_policy: a callable that gives the policy that "self" stands for; it is called at every reset and by
            `refresh()`, and what it gives is asked with the weights it then has.
        seat: the learner's, from 0, or "random": drawn for each episode.
        num_players: players, or a pair (least, most) from which each episode draws.
        view: "table" or "recall": what all seats see.
        reward: "rank", "win", "score" or "margin".
        illegal: what an illegal action does: "terminate" (the episode ends, paid with the worst return there is),
            "raise" (ValueError, nothing is played) or "random" (a random legal action is played instead).
        dict_observation: False for the bare vector, for learners that get the mask from `action_masks()`.
        render_mode: "ansi": `render()` returns the whole table as text; "human": every position is printed.
        trust: seat policies from files that can run code when they are opened ("sb3:PATH").
        **options: of the game.

    The observation is `{"observation": float32 [D], "action_mask": int8 [N]}`; after the end the mask is all zeros. The
    info holds `score` (as if the game ended now), `seat` (the learner's) and `action_mask`. All randomness comes from
    `np_random`: the same seed and actions give the same episodes.

    Raises ValueError or TypeError in one line for what is not allowed, PolicyError for an opponent that cannot be had.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}  # noqa: RUF012 (as in the base)

    def __init__(
        self,
        game: str,
        *,
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
        check_render_mode(render_mode)
        check_flag("dict_observation", dict_observation)
        self.game: Game = get_game(game)
        rivals: dict[str, Any] = {"seating": seating, "current_policy": current_policy, "trust": trust}
        self._tables: LearnerTables = make_tables(
            self.game,
            make_opponents(self.game, opponents, view=view, **rivals),
            num_envs=1,
            num_players=num_players,
            seat=seat,
            view=view,
            reward=reward,
            illegal=illegal,
            **options,
        )
        self.render_mode = render_mode
        self.observation_space = observation_space(self.game, view, dict_observation)
        self.action_space = spaces.Discrete(self.game.num_actions)
        self._dict = dict_observation
        self._rooted: np.random.Generator | None = None
        self._running = False
        self._mask: npt.NDArray[np.int8] = np.zeros(self.game.num_actions, np.int8)
        self._one = np.ones(1, np.bool_)
        self._action = np.zeros(1, np.int64)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode; returns the learner's first observation and info.

        `seed` (a whole number from 0) starts the random stream anew; without one it goes on. `options` may hold "deck"
        and "first_player", which fix the deal; other keys are ignored. Raises ValueError or TypeError in one line for
        a deck or player that cannot be, and ValueError where the learner is never asked.
        """
        super().reset(seed=seed)
        if seed is not None or self.np_random is not self._rooted:
            self._rooted = self.np_random
            self._tables.set_root(0, new_root(self.np_random))
        if self._tables.opponents.current is not None:
            self.refresh()
        self._tables.deal(self._one, self.np_random, options)
        self._running = True
        return self._told()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play the learner's action and let the others act until it is to decide again, or the game is over.

        Raises TypeError for an action that is not a whole number, `gymnasium.error.ResetNeeded` before `reset` and
        after the end; for illegal actions see the class.
        """
        if not self._running:
            raise ResetNeeded("the episode is over or has not begun: call reset() before step()")
        try:
            self._action[0] = operator.index(action)
        except TypeError:
            raise TypeError(f"action is {action!r}; a whole number is needed") from None
        except OverflowError:
            self._action[0] = -1  # no action is so large: illegal
        self._tables.step(self._action, self.np_random)
        table = self._tables.tables[0]
        over = bool(table["over"])
        self._running = not over
        observation, info = self._told()
        return observation, float(table["reward"]), over, False, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """What the learner may do now (bool [N]); nothing before the first reset and after the end."""
        return self._mask.astype(np.bool_)

    def refresh(self) -> None:
        """Ask `current_policy` anew for the policy that "self" stands for."""
        self._tables.refresh()

    def table(self) -> dict[str, Any]:
        """The whole truth about the table as plain data; raises `ResetNeeded` before the first reset."""
        self._need_reset("table")
        return self.game.table(self._tables.record(0))

    def render(self) -> Any:
        """The whole table in a few lines: returned in render mode "ansi", printed in "human"."""
        self._need_reset("render")
        if self.render_mode is None:
            gymnasium.logger.warn(f"render() draws nothing without a render_mode; there are {', '.join(RENDER_MODES)}")
            return None
        text = self.game.text(self.table())
        if self.render_mode == "ansi":
            return text
        print(text, flush=True)
        return None

    def _need_reset(self, what: str) -> None:
        if self._rooted is None:
            raise ResetNeeded(f"reset() needs to be called before {what}()")

    def _told(self) -> tuple[Any, dict[str, Any]]:
        """Observation and info as they are now."""
        observations, masks = self._tables.observe()
        observation, self._mask = observations[0], masks[0]
        table = self._tables.tables[0]
        info = {"score": float(table["score"]), "seat": int(table["seat"]), "action_mask": self._mask.copy()}
        if self.render_mode == "human":
            self.render()
        return {"observation": observation, "action_mask": self._mask.copy()} if self._dict else observation, info


def check_render_mode(render_mode: str | None) -> None:
    """Raise TypeError for a mode that does not exist: SB3's `make_vec_env` tries "rgb_array" and awaits this error."""
    try:
        check_choice("render_mode", render_mode if render_mode is not None else "ansi", RENDER_MODES)
    except ValueError as error:
        raise TypeError(str(error)) from None


def new_root(rng: np.random.Generator) -> int:
    """The random word from which a table's episodes come."""
    return int(rng.integers(1 << 64, dtype=np.uint64))


def observation_space(game: Game, view: str, dict_observation: bool) -> spaces.Space[Any]:
    """What a learner of `game` sees: `Dict(observation=Box(0, 1, (D,)), action_mask=Box(0, 1, (N,)))`, or the Box."""
    vector = spaces.Box(0, 1, (game.layouts[view].size,), np.float32)
    if not dict_observation:
        return vector
    return spaces.Dict({"observation": vector, "action_mask": spaces.Box(0, 1, (game.num_actions,), np.int8)})
