"""What the PettingZoo faces share: one table of one game, its agents and spaces, and what can be asked of it.

A face holds a single state record, the same that the batch engine holds many of, and plays on it by compiled calls.
Letters: n agents, N actions, D features, S numbers in the state vector.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from undertake.core.batch import FOUL, new_states, records, seed_key
from undertake.core.compile import compiled
from undertake.core.game import (
    REWARDS,
    VIEWS,
    Game,
    check_choice,
    check_whole,
    default_action,
    encode,
    is_legal,
    legal,
    paid,
    play,
    random_legal,
    resign,
    score,
    see,
    shuffle,
    start,
)
from undertake.core.reward import SCORE, final_reward, note_paid, pay, worst_return
from undertake.core.rng import draw, stream

__all__ = ["RENDER_MODES", "Face", "Observation"]

Observation = dict[str, npt.NDArray[Any]]
"""`{"observation": float32 [D] in [0, 1], "action_mask": int8 [N]}`, fresh arrays."""

RENDER_MODES = ("ansi", "human")

_PAD = 64  # `encode` and `legal` write 64 bytes at a time, the last of them past the row's end
_AFTER_RESET = frozenset(
    ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos", "_cumulative_rewards")
)

# The kernels take `told`, float64 [2, n]: the rewards of the decision, and the scores as they then stand.


@compiled
def _tell_scores(state: np.record, told: npt.NDArray[Any]) -> None:
    for seat in range(state.num_players):
        told[1, seat] = score(state, seat)


@compiled
def _begin(states: npt.NDArray[Any], shuffled: bool, first_player: int, told: npt.NDArray[Any]) -> int:
    """Begin a game; returns the seat to act."""
    state = states[0]
    if shuffled:
        shuffle(state)
    start(state, first_player)
    told[0, :] = 0
    _tell_scores(state, told)
    return int(state.turn)


@compiled
def _play(states: npt.NDArray[Any], action: int, replace: bool, kind: int, told: npt.NDArray[Any]) -> tuple[int, int]:
    """Play an action of the seat to act, or with `replace` a random legal one instead of an illegal one.

    Returns what was played, -1 where it was illegal and nothing has been touched, and the seat to act, -1 at the end.
    """
    state = states[0]
    if not is_legal(state, action):
        if not replace:
            return -1, int(state.turn)
        action = random_legal(state, draw(state))
    told[0, :] = 0
    if kind == SCORE:
        note_paid(state, told, 0)
    play(state, action)
    pay(state, kind, told, 0)
    _tell_scores(state, told)
    return action, int(state.turn)


@compiled
def _leave(states: npt.NDArray[Any], seat: int, kind: int, told: npt.NDArray[Any]) -> int:
    """Let a seat leave and pay it what it is still owed; returns the seat to act, -1 at the end."""
    state = states[0]
    told[0, :] = 0
    if kind == SCORE:
        note_paid(state, told, 0)
    before = paid(state, seat)
    resign(state, seat)
    pay(state, kind, told, 0)
    _tell_scores(state, told)
    told[0, seat] = before - told[1, seat] if kind == SCORE else final_reward(state, seat, kind)
    return int(state.turn)


@compiled
def _look(
    states: npt.NDArray[Any],
    views: npt.NDArray[Any],
    first: int,
    recall: bool,
    counts: npt.NDArray[np.uint8],
    scale: npt.NDArray[np.float32],
    observations: npt.NDArray[np.float32],
    masks: npt.NDArray[np.int8],
    num_actions: int,
) -> None:
    """Write observations (flat [k * D]) and masks (flat [k * N], padded) of the k seats from `first`."""
    view = views[0]
    num_features = scale.size
    for i in range(observations.size // num_features):
        see(states[0], first + i, recall, view)
        encode(view, counts, 0)
        for j in range(num_features):
            observations[i * num_features + j] = counts[j] * scale[j]
        legal(view, masks, i * num_actions)


class Face:
    """One table of one game: agents, spaces, views and history. The AEC and the Parallel face are made of it.

    Attributes:
        game: the `core.game.Game` played
        options: its options
        view_name: "table" or "recall", what observations tell
        reward_name: the kind of reward
        possible_agents: `player_0` to `player_{n-1}`, clockwise
        state_space: `Box(0, 1, (S,), float32)`
    """

    def __init__(self, game: Game, options: Any, view: str, reward: str, render_mode: str | None) -> None:
        check_choice("view", view, VIEWS)
        check_choice("reward", reward, REWARDS)
        if render_mode is not None:
            check_choice("render_mode", render_mode, RENDER_MODES)
        self.game, self.options = game, options
        self.view_name, self.reward_name, self.render_mode = view, reward, render_mode
        self.metadata: dict[str, Any] = {
            "name": f"{game.name}_v0",
            "render_modes": list(RENDER_MODES),
            "render_fps": 1,
            "is_parallelizable": False,
        }
        players, layout = options.num_players, game.layouts[view]
        self.possible_agents = [f"player_{seat}" for seat in range(players)]
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._num_features, self._num_actions = layout.size, game.num_actions
        # Writable, as deep copies of it will be: kernels are compiled once more for read-only arrays.
        self._scale = layout.scale.copy()
        self._kind, self._recall = REWARDS.index(reward), view == "recall"
        self._penalty = worst_return(options, self._kind)
        self._observation_space = spaces.Dict(
            {
                "observation": spaces.Box(0, 1, (self._num_features,), np.float32),
                "action_mask": spaces.Box(0, 1, (self._num_actions,), np.int8),
            }
        )
        self._action_space = spaces.Discrete(self._num_actions)
        self.state_space = spaces.Box(0, 1, (game.whole_layout.size,), np.float32)
        self._states = new_states(game, options, 1)
        self._views = records(game.view_dtype)
        self._counts = np.zeros(self._num_features + _PAD, np.uint8)
        self._told = np.zeros((2, players))
        self._seeded = self._dealt = False
        # What has happened since the events were last told: the state before it, what it was, the action or the seat.
        self._log: list[tuple[bytes, str, int]] = []
        self._events: list[dict[str, Any]] | None = None
        self.pasts: dict[Any, Any] = {}  # of the running game, for `Policy.action`

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """`Dict(observation=Box(0, 1, (D,), float32), action_mask=Box(0, 1, (N,), int8))`, the same for all agents."""
        return self._observation_space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """`Discrete(N)`, the same for all agents."""
        return self._action_space

    def table(self) -> dict[str, Any]:
        """The whole truth about the table as plain data."""
        self._need_reset("table")
        return self.game.table(self._record())

    def view(self, agent: str) -> dict[str, Any]:
        """The shape of `table` with what the agent may not see set to None."""
        self._need_reset("view")
        self._see(self._seat(agent))
        return self.game.sight(self._views.view(np.recarray)[0])

    def history(self) -> list[dict[str, Any]]:
        """All public events since the deal, in fresh dicts: what any player with a perfect memory has seen.

        Besides the game's own events there are `{"event": "resign", "agent": ...}` and, where an illegal action has
        ended the game, `{"event": "illegal", "agent": ...}`.
        """
        self._need_reset("history")
        self._tell_events()
        return [_fresh(event) for event in self._events or ()]

    def state(self) -> npt.NDArray[np.float32]:
        """The whole truth as numbers in [0, 1] (float32 [S]), seats as numbered at the table; for central critics."""
        self._need_reset("state")
        return self.game.whole_layout.pack(self.game.whole(self._record())) * self.game.whole_layout.scale

    def default_action(self, agent: str) -> int:
        """What is played for an agent that overruns its time; raises ValueError where it has nothing to decide."""
        self._need_reset("default_action")
        _, mask = self._see(self._seat(agent))
        if not mask.any():
            raise ValueError(f"{agent} has nothing to decide now")
        return default_action(self._views.view(np.recarray)[0])

    def policy_input(self, agent: str) -> tuple[npt.NDArray[Any], int]:
        """For `Policy.action`: a copy of the state (a record array of one) and the seat of an agent that is to decide.

        Raises ValueError where it has nothing to decide. What the policy gets to see of the state is a view of it.
        """
        self._need_reset("policy_input")
        seat = self._seat(agent)
        if not self._see(seat)[1].any():
            raise ValueError(f"{agent} has nothing to decide now")
        return self._states.copy(), seat

    def render(self) -> str | None:
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

    def close(self) -> None:
        """Nothing is held open."""

    def __getattr__(self, name: str) -> Any:
        """Say what is missing; reached only for attributes that do not exist."""
        if name in _AFTER_RESET:
            raise AttributeError(f"{name} cannot be accessed before reset()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _need_reset(self, what: str) -> None:
        if not self._dealt:
            raise AssertionError(f"reset() needs to be called before {what}()")

    def _record(self) -> Any:
        return self._states.view(np.recarray)[0]

    def _seat(self, agent: str) -> int:
        try:
            return self._seats[agent]
        except (KeyError, TypeError):
            check_choice("agent", agent, self.possible_agents)
            raise

    def _whole(self, action: Any, agent: str) -> int:
        """The action as an int, -1 for one that is out of range; raises TypeError for anything else."""
        try:
            number = operator.index(action)
        except TypeError:
            allowed = f"a whole number from 0 to {self._num_actions - 1}"
            raise TypeError(f"the action of {agent} is {action!r}; {allowed} is needed") from None
        return number if 0 <= number < self._num_actions else -1

    def _see(self, seat: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]:
        """Observation (float32 [D]) and mask (int8 [N], zeros where there is nothing to decide) of one seat."""
        actions = self._num_actions
        observation, mask = np.empty(self._num_features, np.float32), np.empty(actions + _PAD, np.int8)
        _look(self._states, self._views, seat, self._recall, self._counts, self._scale, observation, mask, actions)
        return observation, mask[:actions]

    def _see_all(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]:
        """Observations (float32 [n, D]) and masks (int8 [n, N], zeros where nothing is to be decided) of all seats."""
        players, features, actions = len(self.possible_agents), self._num_features, self._num_actions
        seen, masks = np.empty(players * features, np.float32), np.empty(players * actions + _PAD, np.int8)
        _look(self._states, self._views, 0, self._recall, self._counts, self._scale, seen, masks, actions)
        return seen.reshape(players, features), masks[: players * actions].reshape(players, actions)

    def _deal(self, seed: int | None, options: Mapping[str, Any] | None) -> int:
        """Deal a new game; returns the seat to act. Bad input raises before anything has changed."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options is {options!r}; a dict such as {{'deck': [...], 'first_player': 0}} is needed")
        deck, first_player = (options or {}).get("deck"), (options or {}).get("first_player")
        if first_player is not None:
            check_whole("first_player", first_player, 0, len(self.possible_agents) - 1)
        if seed is not None:
            key = seed_key(seed)
        elif not self._seeded:
            key = np.uint64(secrets.randbits(64))
        else:
            key = None
        if deck is not None:
            self.game.lay(self._record(), deck)
        if key is not None:
            self._states["rng"] = stream(key, 0)
        self._seeded = self._dealt = True
        self._log.clear()
        self._events = None
        self.pasts.clear()
        return _begin(self._states, deck is None, -1 if first_player is None else first_player, self._told)

    def _play(self, action: int, replace: bool) -> tuple[int, int]:
        """Play for the seat to act: what was played, -1 where it was illegal, and the seat to act, -1 at the end."""
        before = self._states.tobytes()
        played, turn = _play(self._states, action, replace, self._kind, self._told)
        if played >= 0:
            self._log.append((before, "play", played))
        return played, turn

    def _foul(self, seats: list[int]) -> None:
        """End the game by illegal actions of `seats`, which alone are paid, and for that."""
        self._told[0, :] = 0
        for seat in seats:
            self._log.append((self._states.tobytes(), "illegal", seat))
            self._told[0, seat] = self._penalty
        self._states["turn"] = FOUL

    def _leave(self, agent: str) -> int:
        """Let an agent leave; returns the seat to act, -1 at the end. Raises ValueError where it is out already."""
        self._need_reset("resign")
        seat, record = self._seat(agent), self._record()
        if record.turn < 0:
            raise ValueError(f"{agent} cannot resign: the game is over")
        if record.resigned[seat] != 0:
            raise ValueError(f"{agent} cannot resign: it has left already")
        self._log.append((self._states.tobytes(), "resign", seat))
        return _leave(self._states, seat, self._kind, self._told)

    def _tell_events(self) -> None:
        """Turn what has been logged into events."""
        raw = [entry[0] for entry in self._log]
        states = [np.frombuffer(each, self.game.state_dtype).view(np.recarray)[0] for each in raw]
        states.append(self._states.copy().view(np.recarray)[0])
        if self._events is None:
            self._events = self.game.opening(states[0])
        for (_, what, number), before, after in zip(self._log, states, states[1:], strict=False):
            if what == "play":
                self._events.extend(self.game.events(before, number, after))
            else:
                self._events.append({"event": what, "agent": self.possible_agents[number]})
                if what == "resign":
                    self._events.extend(self.game.events(before, -1, after))
        self._log.clear()


def _fresh(value: Any) -> Any:
    """A copy of plain data that shares nothing with it."""
    if isinstance(value, dict):
        return {key: _fresh(each) for key, each in value.items()}
    return [_fresh(each) for each in value] if isinstance(value, list) else value
