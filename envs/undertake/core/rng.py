"""Random streams: SplitMix64 used as a counter-based generator.

The n-th word of the stream `key` is `mix(key + n * GAMMA)`, so a stream is one uint64 and any word of it can be had
without the ones before. `mix` is the finaliser of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, *Fast splittable
pseudorandom number generators*, OOPSLA 2014). A stream's record field holds the counter itself, `key + n * GAMMA`.

Numbers below a bound come from the top 32 bits by multiply and shift; with bounds up to 104 the deviation from
uniform is below 104 / 2**32, that is 3e-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from undertake.core.compile import JIT, compiled, i64

__all__ = ["GAMMA", "below", "draw", "mix", "stream"]

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@compiled
def mix(word: np.uint64) -> np.uint64:
    """Scramble one uint64 into another, one to one."""
    word = (word ^ (word >> _S30)) * _M1
    word = (word ^ (word >> _S27)) * _M2
    return word ^ (word >> _S31)


@compiled
def stream(key: np.uint64, index: int) -> np.uint64:
    """The key of the `index`-th child stream of `key`."""
    return mix(mix(key) + np.uint64(index + 1) * GAMMA)


@compiled
def below(word: np.uint64, bound: int) -> int:
    """A number in 0 .. bound - 1 from one random word; `bound` is at most 2**31."""
    return i64(((word >> _S32) * np.uint64(bound)) >> _S32)


@compiled
def draw(record: Any) -> np.uint64:
    """The next word of the stream in the record's field `rng`, which moves on."""
    record.rng = record.rng + GAMMA
    return mix(record.rng)


if not JIT:  # words wrap around, which plain numpy numbers warn of
    mix = np.errstate(over="ignore")(mix)
    stream = np.errstate(over="ignore")(stream)
    draw = np.errstate(over="ignore")(draw)
