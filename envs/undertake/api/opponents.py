"""Who plays the other seats where one seat learns: bots in compiled code, anything else by one call for many tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.policy import Policy, make_policy
from undertake.core.batch import records
from undertake.core.game import BOT, VIEWS, Game, check_choice

__all__ = ["SEATINGS", "SELF", "Movers", "Opponents", "make_opponents"]

SELF = "self"
"""The name of the opponent that is the policy being trained."""

SEATINGS = ("mixed", "same", "listed")
"""How a list of opponents is seated: each seat draws one, all seats of an episode are the one drawn, or in order."""


class Movers(tuple[Policy, ...]):
    """The opponents that are asked in Python, in their order; shared by copies of an environment, not copied."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Movers:
        """What moves is no part of the game: a copied game goes on against the same policies."""
        return self


@dataclass(frozen=True, eq=False)
class Opponents:
    """Who may sit in the other seats; made by `make_opponents`.

    Attributes:
        names: the opponents' names in the order given
        seating: one of `SEATINGS`
        bots: `BOT` records [K]; zeros for an opponent that is no scripted bot
        mover: int64 [K], -1 for a scripted bot, else which of the movers it is
    """

    game: Game
    view: str
    names: tuple[str, ...]
    seating: str
    bots: npt.NDArray[Any]
    mover: npt.NDArray[np.int64]
    fixed: tuple[Policy | None, ...]
    current: Callable[[], Any] | None

    def __deepcopy__(self, memo: dict[int, Any]) -> Opponents:
        """Nothing in it ever changes."""
        return self

    @property
    def scripted(self) -> bool:
        """Whether all of them play in compiled code."""
        return not self.fixed

    def movers(self) -> Movers:
        """Those asked in Python, with "self" as the callable gives it now.

        Raises PolicyError where what the callable gives is no policy, or does not fit the game or the view.
        """
        found = []
        for policy in self.fixed:
            if policy is None:
                assert self.current is not None
                policy = make_policy(self.current(), self.game.name)
                policy.seated(self.game, self.view)
            found.append(policy)
        return Movers(found)


def make_opponents(
    game: Game,
    opponents: Any,
    *,
    view: str,
    seating: str = "mixed",
    current_policy: Callable[[], Any] | None = None,
    trust: bool = False,
) -> Opponents:
    """Read off who the opponents are.

    Args:
        game: the game played.
        opponents: what `make_policy` takes, or "self"; or a list of such.
        view: the view of the table, which the opponents get as well.
        seating: how a list is seated, one of `SEATINGS`.
        current_policy: gives the policy that "self" stands for whenever it is called.
        trust: load files that can run code when they are opened, as `make_policy` does.

    Raises ValueError or TypeError in one line for what is not allowed, PolicyError for a policy that cannot be had.
    """
    check_choice("seating", seating, SEATINGS)
    check_choice("view", view, VIEWS)
    given = list(opponents) if isinstance(opponents, Sequence) and not isinstance(opponents, str) else [opponents]
    if not given:
        raise ValueError("opponents is an empty list; at least one policy is needed")
    if any(_is_self(each) for each in given) != (current_policy is not None):
        raise ValueError(
            f"opponents='{SELF}' and current_policy, a callable that gives the policy being trained, go together; "
            f"given are opponents={opponents!r} and current_policy={current_policy!r}"
        )
    if current_policy is not None and not callable(current_policy):
        raise TypeError(f"current_policy is {current_policy!r}; a callable without parameters is needed")
    bots, mover = records(BOT, len(given)), np.full(len(given), -1, np.int64)
    names: list[str] = []
    fixed: list[Policy | None] = []
    numbers: dict[Any, int] = {}
    for k, each in enumerate(given):
        policy = None if _is_self(each) else make_policy(each, game.name, trust=trust)
        names.append(SELF if policy is None else policy.name)
        if policy is not None:
            policy.seated(game, view)
            if policy.scripted:
                bots[k] = policy.bot(game)[0]
                continue
        # The same name or object is one mover: it is asked once for all of its tables.
        key = each if isinstance(each, str) else id(each)
        if key not in numbers:
            numbers[key] = len(fixed)
            fixed.append(policy)
        mover[k] = numbers[key]
    return Opponents(game, view, tuple(names), seating, bots, mover, tuple(fixed), current_policy)


def _is_self(given: Any) -> bool:
    return isinstance(given, str) and given == SELF
