"""Rollout players: flat Monte Carlo over imagined worlds.

For a decision, worlds that agree with the view are imagined; in each of them every legal action is tried and the round
is played out by simple policies in all seats. The action with the best mean margin (mean of the others' scores - own)
is played. All actions are tried in the same worlds, and scripted policies draw the same random words there, so that
what differs between two actions is not the luck of the deal.

Letters: B decisions, N actions, n seats, T tables that are played out.
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
    decisions: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint64],
    worlds: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    policies: int,
    states: npt.NDArray[Any],
    seats: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
) -> None:
    """Lay out table t: the world `worlds[t]` of the decision `decisions[t]`, where `actions[t]` is played.

    `keys` [B] are the decisions' random streams; `seats` (flat [T n]) gets who plays where, `words` [T] the tables'
    random streams.
    """
    n = seats.shape[0] // states.shape[0]
    for t in range(states.shape[0]):
        own = stream(keys[decisions[t]], worlds[t])
        imagine(views[decisions[t]], own, states[t])
        end_after_round(states[t])
        play(states[t], actions[t])
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
    states: npt.NDArray[Any],
    views: npt.NDArray[Any],
    decisions: npt.NDArray[np.int64],
    actions: npt.NDArray[np.int64],
    total: npt.NDArray[np.float64],
) -> None:
    for t in range(states.shape[0]):
        total[decisions[t], actions[t]] += margin(states[t], int(views[decisions[t]].seat))


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
        mean, _ = self._search(views, rng.integers(0, 1 << 64, len(views), dtype=np.uint64))
        return np.asarray(np.nanargmax(mean, axis=1))

    def margins(self, views: Any, key: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Mean margin of every action (float64 [B, N], NaN where it is not legal) and the worlds looked at (int64 [B]).

        `views` are view records [B] of seats that have a decision to make at tables of one size; `key` seeds the
        worlds. A decision's figures do not depend on the others, unless a rollout policy that is no bot draws.
        """
        keys = np.array([stream(np.uint64(key), b) for b in range(len(views))], np.uint64)
        return self._search(views, keys)

    def _records(self, views: Any) -> npt.NDArray[Any]:
        """The view records in the form in which kernels take them."""
        plain = np.asarray(views).view(get_game(self.game).view_dtype)
        return plain if JIT else plain.view(np.recarray)

    def _search(
        self, views: Any, keys: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """As `margins`, from a random stream [B] of each decision."""
        rules, views = get_game(self.game), self._records(views)
        count, num_actions = len(views), rules.num_actions
        flat = np.zeros(count * num_actions + 64, np.int8)
        _legal_actions(views, flat, num_actions)
        mask = flat[: count * num_actions].reshape(count, num_actions) == 1
        total, worlds = np.zeros((count, num_actions)), np.ones(count, np.int64)
        open_to_choice = np.flatnonzero(mask.sum(axis=1) > 1)
        if self._scripted.all():
            for b in open_to_choice.tolist():
                worlds[b] = self._compiled(rules, views, b, keys[b], flat, int(mask[b].sum()), total[b])
        elif self.budget.unit == "ms":
            for b in open_to_choice.tolist():
                worlds[b] = 0
                until = time.perf_counter() + self.budget.amount / 1000
                while worlds[b] == 0 or time.perf_counter() < until:
                    self._ask(rules, views, keys, mask, np.array([b]), worlds[b], _CHUNK, total)
                    worlds[b] += _CHUNK
        else:
            # Decisions with as many actions look at as many worlds.
            for actions in np.unique(mask[open_to_choice].sum(axis=1)):
                alike = open_to_choice[mask[open_to_choice].sum(axis=1) == actions]
                worlds[alike] = self.budget.worlds(int(actions))
                self._ask(rules, views, keys, mask, alike, 0, int(worlds[alike[0]]), total)
        return np.where(mask, total / worlds[:, None], np.nan), worlds

    def _compiled(
        self,
        rules: Game,
        views: npt.NDArray[Any],
        b: int,
        key: np.uint64,
        mask: npt.NDArray[np.int8],
        actions: int,
        total: npt.NDArray[np.float64],
    ) -> int:
        """Add the margins of decision `b`, between so many actions, to `total` [N]; returns the worlds looked at."""
        states, scratch = records(rules.state_dtype, 2), records(rules.view_dtype)
        seats = np.zeros(rules.max_players, np.int64)

        def look(first: int, last: int) -> None:
            _play_worlds(views, b, states, scratch, self._bots, seats, key, first, last, mask, rules.num_actions, total)

        if self.budget.unit != "ms":
            worlds = self.budget.worlds(actions)
            look(0, worlds)
            return worlds
        worlds, until = 0, time.perf_counter() + self.budget.amount / 1000
        while worlds == 0 or time.perf_counter() < until:
            look(worlds, worlds + _CHUNK)
            worlds += _CHUNK
        return worlds

    def _ask(
        self,
        rules: Game,
        views: npt.NDArray[Any],
        keys: npt.NDArray[np.uint64],
        mask: npt.NDArray[np.bool_],
        alike: npt.NDArray[np.int64],
        first: int,
        count: int,
        total: npt.NDArray[np.float64],
    ) -> None:
        """As `_compiled`, where some policies are no bots: many tables side by side, each policy asked once a turn.

        `count` worlds from `first` on, for the decisions `alike`, which have equally many actions.
        """
        actions = np.nonzero(mask[alike])[1].reshape(len(alike), -1)
        each = actions.shape[1] * count  # tables a decision
        rng = np.random.default_rng([int(key) for key in keys[alike]])
        view = "recall" if bool(views[alike[0]]["recall"]) else "table"
        n = int(views[alike[0]]["num_players"])
        scratch = records(rules.view_dtype)
        for begin in range(0, each * len(alike), _TABLES):
            decision, table = np.divmod(np.arange(begin, min(begin + _TABLES, each * len(alike))), each)
            world, nth = np.divmod(table, actions.shape[1])
            of, action = alike[decision], actions[decision, nth]
            states = records(rules.state_dtype, len(of))
            seats = np.zeros(len(of) * n, np.int64)
            words, waiting = np.zeros(len(of), np.uint64), np.zeros(len(of), np.int64)
            _imagine_tables(views, of, keys, first + world, action, len(self.policies), states, seats, words)
            while True:
                _advance(states, scratch, view == "recall", self._bots, self._scripted, seats, words, waiting)
                if (waiting < 0).all():
                    break
                for i, policy in enumerate(self.policies):
                    tables = np.flatnonzero(waiting == i)
                    if len(tables):
                        asked = states[tables]
                        turns = asked["turn"].astype(np.int64)
                        play_actions(states, tables, policy.actions(rules, asked, turns, view, rng))
            _add_margins(states, views, of, action, total)
