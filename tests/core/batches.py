"""What the tests of the batch engine share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from undertake.core.batch import Batch

ARRAYS = ("observation", "action_mask", "seat", "reward", "done", "score")


def told(batch: Batch) -> dict[str, npt.NDArray[Any]]:
    """Copies of all that a step writes, the records as bytes."""
    states = np.frombuffer(batch.states.tobytes(), np.uint8).reshape(batch.num_envs, -1)
    return {name: getattr(batch, name).copy() for name in ARRAYS} | {"states": states}


def check_same(one: dict[str, npt.NDArray[Any]], other: dict[str, npt.NDArray[Any]], rows: slice = slice(None)) -> None:
    for name, array in one.items():
        assert array.tobytes() == other[name][rows].tobytes(), name


def random_step(batch: Batch, key: int) -> npt.NDArray[np.int64]:
    actions = batch.random_actions(key).copy()
    batch.step(actions)
    return actions


def check_even(counts: Sequence[Any]) -> None:
    """Chi-square at 1e-6, with a fixed seed."""
    mean = sum(counts) / len(counts)
    assert sum((count - mean) ** 2 / mean for count in counts) < chi2.isf(1e-6, len(counts) - 1), counts
