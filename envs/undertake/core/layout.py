"""The layout of an observation vector: named features in a row, each with its shape and range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Feature", "Layout", "feature"]


@dataclass(frozen=True)
class Feature:
    """A named slice of the observation, `shape` numbers each from 0 to `highest` as uint8 counts."""

    name: str
    shape: tuple[int, ...]
    highest: int
    meaning: str

    @property
    def size(self) -> int:
        """How many numbers the slice holds."""
        return math.prod(self.shape)


def feature(name: str, shape: tuple[int, ...], highest: int, meaning: str) -> Feature:
    """A `Feature`; counts go from 0 to `highest`, which is at most 255 and becomes 1.0 in the scaled observation."""
    if not 1 <= highest <= 255:
        raise ValueError(f"feature {name!r}: the highest count is {highest}; uint8 counts allow 1 to 255")
    return Feature(name, shape, highest, meaning)


@dataclass(frozen=True)
class Layout:
    """Features in the order in which they lie in the observation vector."""

    features: tuple[Feature, ...]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each feature lies."""
        found: dict[str, slice] = {}
        start = 0
        for item in self.features:
            found[item.name] = slice(start, start + item.size)
            start += item.size
        return found

    def start(self, name: str) -> int:
        """The index of a feature's first number."""
        return int(self.slices[name].start)

    @cached_property
    def size(self) -> int:
        """D, the length of the observation vector."""
        return sum(item.size for item in self.features)

    @cached_property
    def scale(self) -> npt.NDArray[np.float32]:
        """float32 [D]: observation = counts * scale lies in [0, 1]."""
        parts = [np.full(item.size, 1 / item.highest, np.float32) for item in self.features]
        scale = np.concatenate(parts)
        scale.setflags(write=False)
        return scale

    def pack(self, counts: Mapping[str, Any]) -> npt.NDArray[np.uint8]:
        """The vector (uint8 [D]) of the counts given for every feature by name, in any shape of the right size."""
        vector = np.zeros(self.size, np.uint8)
        for name, place in self.slices.items():
            vector[place] = np.ravel(counts[name])
        return vector
