"""Memory of a policy: parts of what its seat saw at its own earlier decisions in the game, stacked on what it sees now.

An observation with a memory of the k last decisions is D + k M numbers wide: the D of its layout, then the M numbers of
the remembered features as the seat saw them when it decided last, then those of the decision before that, and so on;
zeros where there was none. It holds nothing that the seat has not seen itself, and nothing of an earlier game.

Letters: T tables, n seats, R rows (decisions at different tables), D, k and M as above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertake.core.game import check_choice
from undertake.core.layout import Layout

__all__ = ["Memory", "Past", "remembered", "scale", "width"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Memory:
    """What a policy is shown of its seat's own earlier decisions in a game; nothing by default."""

    slices: tuple[str, ...] = ()
    """Names of the observation's slices that are remembered."""
    decisions: int = 0
    """The number of last decisions at which they are remembered, newest first; 0: the present is all that is seen."""


def remembered(layout: Layout, memory: Memory) -> npt.NDArray[np.int64]:
    """int64 `[M]`: where in the observation the remembered numbers lie.

    Raises ValueError, in one line with the nearest, for a name that is none of the observation's slices.
    """
    for name in memory.slices:
        check_choice("a remembered slice", name, tuple(layout.slices))
    parts = [np.arange(layout.size)[layout.slices[name]] for name in memory.slices]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def width(layout: Layout, memory: Memory) -> int:
    """D + k M; ValueError as for `remembered`."""
    return layout.size + memory.decisions * len(remembered(layout, memory))


def scale(layout: Layout, memory: Memory) -> npt.NDArray[np.float32]:
    """float32 `[D + k M]`: counts times this lie in [0, 1]; ValueError as for `remembered`."""
    return np.concatenate([layout.scale, np.tile(layout.scale[remembered(layout, memory)], memory.decisions)])


class Past:
    """What the n seats of T tables remember of the games that they are playing.

    Attributes:
        kept: uint8 `[T, n, k M]`, newest first
    """

    def __init__(self, layout: Layout, memory: Memory, tables: int, seats: int) -> None:
        self._columns, self._now = remembered(layout, memory), layout.size
        self.kept = np.zeros((tables, seats, memory.decisions * len(self._columns)), np.uint8)

    def stack(self, tables: Rows, seats: Rows, observation: npt.NDArray[np.uint8]) -> None:
        """Write what `seats` `[R]` of `tables` `[R]` remember behind what they see, uint8 `[R, D + k M]`."""
        observation[:, self._now :] = self.kept[tables, seats]

    def push(self, tables: Rows, seats: Rows, observation: npt.NDArray[np.uint8]) -> None:
        """Remember what these seats saw, uint8 `[R, >= D]`, when they decided; what is older than k decisions goes."""
        past, new = self.kept[tables, seats], len(self._columns)
        past[:, new:] = past[:, : past.shape[1] - new]
        past[:, :new] = observation[:, self._columns]
        self.kept[tables, seats] = past

    def forget(self, tables: npt.NDArray[np.bool_]) -> None:
        """Begin new games at the tables marked in bool `[T]`."""
        self.kept[tables] = 0
