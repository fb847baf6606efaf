"""Rollout players: flat Monte Carlo over imagined worlds.

For a decision, worlds that agree with the view are imagined; in each of them every legal action is tried and the round
is played out by simple policies in all seats. The action with the best mean margin (mean of the others' scores - own)
is played. All actions are tried in the same worlds, and scripted policies draw the same random words there, so that
what differs between two actions is not the luck of the deal.

Letters: B decisions, W worlds, N actions, n seats, P rollout policies, T tables that are played out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.deals import play_actions
from undertake.core.batch import records
from undertake.core.compile import JIT, compiled
from undertake.core.game import (
    BOT,
    Game,
    choose,
    end_after_round,
    get_game,
    imagine,
    legal,
    play,
    see,
)
from undertake.core.reward import margin
from undertake.core.rng import GAMMA, below, mix, stream

__all__ = ["Budget", "Rollout", "parse_budget"]

_FORM = re.compile(r"(\d+)(|total|ms)")
_CHUNK = 16  # worlds between two looks at the clock
_TABLES = 4096  # tables played out side by side where a rollout policy is no scripted bot


@dataclass(frozen=True)
class Budget:
    """How much a decision may cost: `amount` worlds for every action, playouts in `total`, or milliseconds (`ms`)."""

    amount: int
    unit: str = ""

    def worlds(self, actions: int) -> int:
        """The number of worlds for a decision between `actions` actions; at least 1."""
        return self.amount if self.unit == "" else max(1, self.amount // actions)


def parse_budget(text: str) -> Budget:
    """The budget written as "300" (worlds an action), "300total" (playouts of all actions together) or "50ms".

    Raises ValueError in one line for anything else.
    """
    found = _FORM.fullmatch(text)
    if not found or not 1 <= int(found[1]) <= 10_000_000:
        raise ValueError(
            f"the budget of a rollout player is {text!r}; allowed are 1 to 10000000 worlds for every action (300), "
            "that many playouts of all actions together (300total) or milliseconds (50ms)"
        )
    return Budget(int(found[1]), found[2])


@compiled
def _seat_policies(key: np.uint64, policies: int, seats: npt.NDArray[np.int64], at: int, n: int) -> None:
    """Draw who plays the seats of one world: one of the policies each, evenly."""
    for s in range(n):
        seats[at + s] = below(stream(key, 1 + s), policies) if policies > 1 else 0


@compiled
def _play_worlds(
    views: npt.NDArray[Any],
    b: int,
    states: npt.NDArray[Any],
    scratch: npt.NDArray[Any],
    bots: npt.NDArray[Any],
    seats: npt.NDArray[np.int64],
    key: np.uint64,
    first: int,
    last: int,
    mask: npt.NDArray[np.int8],
    num_actions: int,
    total: npt.NDArray[np.float64],
) -> None:
    """Try all legal actions of decision `b` in the worlds `first` to `last - 1`, and add their margins to `total`.

    `states` are two records to work with, `scratch` one view, `mask` (flat [B N]) the legal actions, `total` (float64
    [N]) what is added to.
    """
    view = scratch[0]
    recall = bool(views[b].recall)
    seat = int(views[b].seat)
    for world in range(first, last):
        own = stream(key, world)
        imagine(views[b], own, states[0])
        end_after_round(states[0])
        _seat_policies(own, bots.shape[0], seats, 0, int(states[0].num_players))
        for action in range(num_actions):
            if mask[b * num_actions + action] == 0:
                continue
            states[1] = states[0]
            play(states[1], action)
            word = own
            while states[1].turn >= 0:
                turn = int(states[1].turn)
                see(states[1], turn, recall, view)
                word += GAMMA
                play(states[1], choose(view, bots[seats[turn]], mix(word)))
            total[action] += margin(states[1], seat)


@compiled
def _imagine_tables(
    views: npt.NDArray[Any],
    b: int,
    key: np.uint64,
    first: int,
    actions: npt.NDArray[np.int64],
    policies: int,
    states: npt.NDArray[Any],
    seats: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
) -> None:
    """Lay out every action in every world on tables of their own, world by world from `first` on.

    `seats` (flat [T n]) gets who plays where, `words` [T] the tables' random streams.
    """
    count = actions.shape[0]
    n = int(views[b].num_players)
    for t in range(states.shape[0]):
        own = stream(key, first + t // count)
        imagine(views[b], own, states[t])
        end_after_round(states[t])
        play(states[t], actions[t % count])
        _seat_policies(own, policies, seats, t * n, n)
        words[t] = own


@compiled
def _advance(
    states: npt.NDArray[Any],
    scratch: npt.NDArray[Any],
    recall: bool,
    bots: npt.NDArray[Any],
    scripted: npt.NDArray[np.bool_],
    seats: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    waiting: npt.NDArray[np.int64],
) -> None:
    """Let scripted policies act until another one has to: `waiting[t]` is its number, -1 where the round has ended."""
    view = scratch[0]
    for t in range(states.shape[0]):
        waiting[t] = -1
        while states[t].turn >= 0:
            turn = int(states[t].turn)
            policy = seats[t * int(states[t].num_players) + turn]
            if not scripted[policy]:
                waiting[t] = policy
                break
            see(states[t], turn, recall, view)
            words[t] += GAMMA
            play(states[t], choose(view, bots[policy], mix(words[t])))


@compiled
def _add_margins(
    states: npt.NDArray[Any], seat: int, actions: npt.NDArray[np.int64], total: npt.NDArray[np.float64]
) -> None:
    for t in range(states.shape[0]):
        total[actions[t % actions.shape[0]]] += margin(states[t], seat)


@compiled
def _legal_actions(views: npt.NDArray[Any], mask: npt.NDArray[np.int8], num_actions: int) -> None:
    for b in range(views.shape[0]):
        legal(views[b], mask, b * num_actions)


if not JIT:  # words wrap around, which plain numpy numbers warn of
    _play_worlds = np.errstate(over="ignore")(_play_worlds)
    _advance = np.errstate(over="ignore")(_advance)


class Rollout:
    """A rollout player of one game, to be seated by `make_policy("rollout:BUDGET:policy[,policy…]")`.

    Args:
        game: the name of the game.
        budget: how many worlds or how much time a decision may take.
        policies: what plays the rounds out; with more than one, every seat of every world is given one of them by lot.
            Scripted bots are played in compiled code; others are asked in batches, which is slower.

    Raises ValueError where no policy is given.
    """

    sees = "view"
    batched = True

    def __init__(self, game: str, budget: Budget, policies: Sequence[Any]) -> None:
        if not policies:
            raise ValueError("a rollout player needs at least one policy to play its rounds out")
        self.game, self.budget, self.policies = game, budget, tuple(policies)
        rules: Game = get_game(game)
        self._bots = records(BOT, len(self.policies))
        for i, policy in enumerate(self.policies):
            if policy.scripted:
                self._bots[i] = policy.bot(rules)[0]
        self._scripted = np.array([policy.scripted for policy in self.policies])
        views = [policy.view for policy in self.policies]
        self.view = "recall" if "recall" in views else None

    def act(self, views: Any, mask: npt.NDArray[np.int8], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """The actions (int64 [B]) for the seats whose view records (`[B]`) are given."""
        views = self._records(views)
        keys = rng.integers(0, 1 << 64, len(views), dtype=np.uint64)
        chosen = np.zeros(len(views), np.int64)
        for b in range(len(views)):
            found, _ = self._margins(views, b, keys[b])
            chosen[b] = np.nanargmax(found)
        return chosen

    def margins(self, views: Any, key: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Mean margin of every action (float64 [B, N], NaN where it is not legal) and the worlds looked at (int64 [B]).

        `views` are view records [B] of seats that have a decision to make; `key` seeds the worlds.
        """
        views = self._records(views)
        found = [self._margins(views, b, np.uint64(stream(np.uint64(key), b))) for b in range(len(views))]
        return np.stack([mean for mean, _ in found]), np.array([worlds for _, worlds in found], np.int64)

    def _records(self, views: Any) -> npt.NDArray[Any]:
        """The view records in the form in which kernels take them."""
        plain = np.asarray(views).view(get_game(self.game).view_dtype)
        return plain if JIT else plain.view(np.recarray)

    def _margins(self, views: npt.NDArray[Any], b: int, key: np.uint64) -> tuple[npt.NDArray[np.float64], int]:
        rules = get_game(self.game)
        padded = np.zeros(rules.num_actions + 64, np.int8)
        _legal_actions(views[b : b + 1], padded, rules.num_actions)
        actions = np.flatnonzero(padded[: rules.num_actions])
        total = np.zeros(rules.num_actions)
        if len(actions) == 1:
            worlds = 1  # nothing to decide
        elif self._scripted.all():
            worlds = self._compiled(rules, views[b : b + 1], key, padded, len(actions), total)
        else:
            worlds = self._asked(rules, views[b : b + 1], key, actions, total)
        mean = np.full(rules.num_actions, np.nan)
        mean[actions] = total[actions] / worlds
        return mean, worlds

    def _compiled(
        self,
        rules: Game,
        views: npt.NDArray[Any],
        key: np.uint64,
        mask: npt.NDArray[np.int8],
        actions: int,
        total: npt.NDArray[np.float64],
    ) -> int:
        states, scratch = records(rules.state_dtype, 2), records(rules.view_dtype)
        seats = np.zeros(rules.max_players, np.int64)

        def look(first: int, last: int) -> None:
            _play_worlds(views, 0, states, scratch, self._bots, seats, key, first, last, mask, rules.num_actions, total)

        if self.budget.unit != "ms":
            worlds = self.budget.worlds(actions)
            look(0, worlds)
            return worlds
        worlds, until = 0, time.perf_counter() + self.budget.amount / 1000
        while worlds == 0 or time.perf_counter() < until:
            look(worlds, worlds + _CHUNK)
            worlds += _CHUNK
        return worlds

    def _asked(
        self,
        rules: Game,
        views: npt.NDArray[Any],
        key: np.uint64,
        actions: npt.NDArray[np.int64],
        total: npt.NDArray[np.float64],
    ) -> int:
        """As `_compiled`, where some policies are no bots: all tables side by side, each policy asked once a turn."""
        timed = self.budget.unit == "ms"
        goal = 0 if timed else self.budget.worlds(len(actions))
        until = time.perf_counter() + self.budget.amount / 1000
        step = _CHUNK if timed else max(1, _TABLES // len(actions))
        rng = np.random.default_rng(int(key))
        view = "recall" if bool(views[0]["recall"]) else "table"
        scratch, n = records(rules.view_dtype), int(views[0]["num_players"])
        worlds = 0
        while worlds == 0 or (time.perf_counter() < until if timed else worlds < goal):
            now = step if timed else min(step, goal - worlds)
            states = records(rules.state_dtype, now * len(actions))
            seats = np.zeros(len(states) * n, np.int64)
            words, waiting = np.zeros(len(states), np.uint64), np.zeros(len(states), np.int64)
            _imagine_tables(views, 0, key, worlds, actions, len(self.policies), states, seats, words)
            while True:
                _advance(states, scratch, view == "recall", self._bots, self._scripted, seats, words, waiting)
                open_tables = False
                for i, policy in enumerate(self.policies):
                    tables = np.flatnonzero(waiting == i)
                    if len(tables):
                        open_tables = True
                        asked = states[tables]
                        turns = asked["turn"].astype(np.int64)
                        play_actions(states, tables, policy.actions(rules, asked, turns, view, rng))
                if not open_tables:
                    break
            _add_margins(states, int(views[0]["seat"]), actions, total)
            worlds += now
        return worlds
