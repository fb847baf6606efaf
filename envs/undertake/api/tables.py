"""Tables at which one seat learns: what the Gymnasium faces and SB3's vector environment are made of.

Each of B tables holds a game, the learner's seat in it and who sits in the others. Scripted opponents act inside the
compiled call (`episodes.py`) until the learner has to decide or the game is over; where another policy has to act the
call comes back, and the policy is asked for all the tables that wait for it at once.

Letters: B tables, n seats, K opponents, N actions, D features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.api.episodes import (
    BARREN,
    DEAL,
    NOTHING,
    PLAY,
    PREPARE,
    RESUME,
    START,
    advance,
    observe,
    table_dtype,
)
from undertake.api.opponents import SEATINGS, Opponents
from undertake.arena.deals import play_actions
from undertake.core.batch import illegal_message, new_states, records
from undertake.core.game import (
    ILLEGAL,
    REWARDS,
    VIEWS,
    Game,
    check_choice,
    check_names,
    check_whole,
    make_options,
)
from undertake.core.reward import worst_return

__all__ = ["LearnerTables", "make_tables"]

_PAD = 64  # `encode` and `legal` write 64 bytes at a time, the last of them past the row's end


class LearnerTables:
    """B tables at which one seat learns; made by `make_tables`.

    Attributes:
        num_players: the least and the greatest number of players
        states: the game's state records [B]
        tables: what each table has besides, by `episodes.table_dtype` [B]
    """

    def __init__(
        self,
        game: Game,
        options: Sequence[Any],
        opponents: Opponents,
        *,
        num_envs: int,
        view: str,
        reward: str,
        illegal: str,
        seat: int | None,
    ) -> None:
        self.game, self.options, self.opponents, self.num_envs, self.view = game, options, opponents, num_envs, view
        self.num_players = (options[0].num_players, options[-1].num_players)
        self.num_actions, self.num_features = game.num_actions, game.layouts[view].size
        self.illegal = illegal
        self.states = new_states(game, options[0], num_envs)
        self.tables = records(table_dtype(game.max_players), num_envs)
        self._all = np.arange(num_envs)
        self._commands = np.zeros(num_envs, np.int64)
        self._actions = np.zeros(num_envs, np.int64)
        self._views = records(game.view_dtype)
        self._counts = np.zeros(self.num_features + _PAD, np.uint8)
        self._scale = game.layouts[view].scale.copy()  # writable, as deep copies will be: one kernel serves both
        self._recall, self._kind = view == "recall", REWARDS.index(reward)
        self._templates = records(game.state_dtype, len(options))
        self._penalties = np.zeros(game.max_players + 1)
        for i, each in enumerate(options):
            self._templates[i] = new_states(game, each, 1)[0]
            self._penalties[each.num_players] = worst_return(each, self._kind)
        self._seat = -1 if seat is None else seat
        self._movers = opponents.movers() if opponents.current is None else None

    @property
    def reward(self) -> npt.NDArray[np.float64]:
        """What each learner has earned since it decided last (float64 [B]); a fresh array."""
        return self.tables["reward"].copy()

    @property
    def over(self) -> npt.NDArray[np.bool_]:
        """Whether each game is over (bool [B]); a fresh array."""
        return self.tables["over"].copy()

    @property
    def score(self) -> npt.NDArray[np.float64]:
        """The learners' scores, as if the games ended now (float64 [B]); a fresh array."""
        return self.tables["score"].astype(np.float64)

    @property
    def seat(self) -> npt.NDArray[np.int64]:
        """The learners' seats (int64 [B]); a fresh array."""
        return self.tables["seat"].copy()

    def refresh(self) -> None:
        """Ask for the current policy anew, where "self" is among the opponents."""
        self._movers = self.opponents.movers()

    def set_root(self, table: int, root: int) -> None:
        """Let the table's episodes come from the random word `root`, from the first one on."""
        self.tables["root"][table] = root
        self.tables["episodes"][table] = 0

    def deal(
        self,
        chosen: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin a new game at the tables chosen by bool [B]; `options` may hold "deck" and "first_player".

        Raises ValueError or TypeError in one line for a deck or player that cannot be, before any game has begun, and
        ValueError where the learner is never asked; PolicyError for an opponent that errs.
        """
        deck, first_player = _fixed(options, self.num_players[0])
        if self._movers is None:
            self.refresh()
        if deck is None:
            self._commands[:] = np.where(chosen, DEAL, NOTHING)
        else:
            before = self.states[chosen].copy(), self.tables[chosen].copy()
            self._commands[:] = np.where(chosen, PREPARE, NOTHING)
            self._run(self._commands, first_player, rng)
            whole = self.states.view(np.recarray)
            try:
                for b in np.flatnonzero(chosen):
                    self.game.lay(whole[b], deck)
            except (TypeError, ValueError):
                self.states[chosen], self.tables[chosen] = before
                raise
            self._commands[:] = np.where(chosen, START, NOTHING)
        self._run(self._commands, first_player, rng)

    def step(
        self,
        actions: npt.NDArray[np.int64],
        rng: np.random.Generator,
        chosen: npt.NDArray[np.bool_] | None = None,
        anew: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Play the learners' `actions` (int64 [B]) at the `chosen` tables (all without it) and begin games at `anew`.

        Under `illegal="raise"` an illegal action raises ValueError before any table is touched.
        """
        self._commands[:] = PLAY if chosen is None else np.where(chosen, PLAY, NOTHING)
        if anew is not None:
            self._commands[anew] = DEAL
        if self.illegal == "raise":
            self._check(actions)
        self._actions[:] = actions
        self._run(self._commands, -1, rng)

    def observe(self, at: npt.NDArray[np.int64] | None = None) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]:
        """Observation (float32 [B, D]) and mask (int8 [B, N]) of the learners, all or at the tables `at`; fresh."""
        at = self._all if at is None else at
        count = len(at)
        observation = np.empty(count * self.num_features, np.float32)
        mask = np.empty(count * self.num_actions + _PAD, np.int8)[: count * self.num_actions]
        observe(
            *(self.states, self.tables, at, self._recall, self._views),
            *(self._counts, self._scale, observation, mask),
        )
        return observation.reshape(count, self.num_features), mask.reshape(count, self.num_actions)

    def record(self, table: int) -> Any:
        """The state record of a table, for what is written in plain Python."""
        return self.states.view(np.recarray)[table]

    def _run(self, commands: npt.NDArray[np.int64], first_player: int, rng: np.random.Generator) -> None:
        opponents = self.opponents
        while True:
            waiting, barren = advance(
                *(self.states, self.tables, commands, self._actions, first_player),
                *(self._templates, self._penalties, self._seat, SEATINGS.index(opponents.seating)),
                *(opponents.bots, opponents.mover, self._views),
                *(self._recall, self.illegal == "random", self._kind),
            )
            if barren:
                raise ValueError(
                    f"the game ended before the learner was asked, at {barren} of the tables"
                    + (" with this deck" if self.tables["laid"].any() else f" in {BARREN:,} deals in a row")
                )
            if not waiting:
                return
            self._move(rng)
            commands = np.where(self.tables["waiting"] >= 0, RESUME, NOTHING)

    def _move(self, rng: np.random.Generator) -> None:
        """Let each of the movers decide once at all the tables that wait for it."""
        waiting = self.tables["waiting"].copy()
        assert self._movers is not None
        for i, policy in enumerate(self._movers):
            at = np.flatnonzero(waiting == i)
            if len(at):
                asked = self.states[at]
                seats = asked["turn"].astype(np.int64)
                play_actions(self.states, at, policy.actions(self.game, asked, seats, self.view, rng))

    def _check(self, actions: npt.NDArray[np.int64]) -> None:
        """Raise ValueError for the first of the actions to be played that is illegal."""
        at = np.flatnonzero(self._commands == PLAY)
        if not len(at):
            return
        _, mask = self.observe(at)
        wanted = actions[at]
        inside = (wanted >= 0) & (wanted < self.num_actions)
        allowed = inside & (mask[np.arange(len(at)), np.where(inside, wanted, 0)] == 1)
        if not allowed.all():
            bad = int(np.argmin(allowed))
            where = f"table {at[bad]}: " if self.num_envs > 1 else ""
            raise ValueError(where + illegal_message(self.game, int(wanted[bad]), mask[bad]))


def _fixed(options: Mapping[str, Any] | None, players: int) -> tuple[Any, int]:
    """The deck, None if none is given, and the first player, -1 if it is left to chance."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options is {options!r}; a dict such as {{'deck': [...], 'first_player': 0}} is needed")
    deck, first_player = (options or {}).get("deck"), (options or {}).get("first_player")
    if first_player is not None:
        check_whole("first_player", first_player, 0, players - 1)
    return deck, -1 if first_player is None else int(first_player)


def make_tables(
    game: Game,
    opponents: Opponents,
    *,
    num_envs: int,
    num_players: int | Sequence[int] = 4,
    seat: int | str = "random",
    view: str = "table",
    reward: str = "rank",
    illegal: str = "terminate",
    **options: Any,
) -> LearnerTables:
    """B tables at which one seat learns.

    Args:
        game: the game.
        opponents: who sits in the other seats.
        num_envs: B.
        num_players: how many sit at each table, or a pair (least, most) from which each episode draws evenly.
        seat: the learner's, from 0, or "random": drawn anew for each episode.
        view: "table" or "recall", for all seats.
        reward: "rank", "win", "score" or "margin".
        illegal: "terminate", "raise" or "random".
        **options: of the game.

    Raises ValueError or TypeError in one line for what is not allowed.
    """
    check_whole("num_envs", num_envs, 1, 1 << 24)
    check_choice("view", view, VIEWS)
    check_choice("reward", reward, REWARDS)
    check_choice("illegal", illegal, ILLEGAL)
    least, most = _range(game, num_players)
    if isinstance(seat, str):
        check_choice("seat", seat, ("random", *map(str, range(least))))
        chosen = None if seat == "random" else int(seat)
    else:
        check_whole("seat", seat, 0, least - 1)
        chosen = int(seat)
    check_names("keyword", options, [name for name in game.options.__dataclass_fields__ if name != "num_players"])
    sizes = [make_options(game, {**options, "num_players": n}) for n in range(least, most + 1)]
    if opponents.seating == "listed" and (least != most or len(opponents.names) != least - 1):
        raise ValueError(
            f"seating is 'listed' with {len(opponents.names)} opponents and num_players={num_players!r}; "
            "it needs a fixed number of players, and one opponent for each of the other seats"
        )
    kept: dict[str, Any] = {"view": view, "reward": reward, "illegal": illegal}
    return LearnerTables(game, sizes, opponents, num_envs=num_envs, seat=chosen, **kept)


def _range(game: Game, num_players: int | Sequence[int]) -> tuple[int, int]:
    if not isinstance(num_players, list | tuple):
        check_whole("num_players", num_players, game.min_players, game.max_players)
        return num_players, num_players  # type: ignore[return-value]
    if len(num_players) != 2:
        raise ValueError(f"num_players is {num_players!r}; a number or a pair (least, most) is needed")
    least, most = num_players
    check_whole("the least of num_players", least, game.min_players, game.max_players)
    check_whole("the most of num_players", most, least, game.max_players)
    return int(least), int(most)
