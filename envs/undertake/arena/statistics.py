"""From final scores to win shares, ranks and intervals.

Letters: D deals, n seats. `scores[d, r, k]` is the final score of policy k of a lineup in rotation r of deal d. Games
that share a deal are not independent, so everything is averaged over a deal's rotations first, and the intervals are
over deals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["METRICS", "Estimate", "compare", "estimate", "margin", "per_deal", "pooled", "rank_reward", "win_share"]

METRICS = ("win_share", "rank", "score", "margin", "field_score")

Z95 = 1.96

Floats = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """A mean over deals and its 95 % interval, mean ± 1.96 standard errors."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """As reports hold it."""
        return self._asdict()

    def __str__(self) -> str:
        digits = 3 if abs(self.mean) < 2 else 2
        return f"{self.mean:z.{digits}f} ±{self.high - self.mean:.{digits}f}"


def win_share(scores: npt.NDArray[Any]) -> Floats:
    """1/k for each of k seats that share the lowest score, 0 for the others; float64 `[..., n]` as `scores`."""
    best = scores == scores.min(axis=-1, keepdims=True)
    return np.asarray(best / best.sum(axis=-1, keepdims=True))


def rank_reward(scores: npt.NDArray[Any]) -> Floats:
    """(n + 1 - 2r) / (n - 1) with r the rank, the lowest score first, equal ones sharing the mean of their ranks.

    That is the share of the others whom one beats less that of those who beat one.
    """
    n = scores.shape[-1]
    total = np.zeros(scores.shape)
    for other in range(n):
        total += np.sign(scores[..., other : other + 1] - scores)
    return np.asarray(total / (n - 1))


def margin(scores: npt.NDArray[Any]) -> Floats:
    """The mean of the others' scores less one's own."""
    return np.asarray(_others(scores) - scores)


def _others(scores: npt.NDArray[Any]) -> Floats:
    return np.asarray((scores.sum(axis=-1, keepdims=True) - scores) / (scores.shape[-1] - 1))


def per_deal(scores: npt.NDArray[Any], policy: int = 0) -> dict[str, Floats]:
    """What policy number `policy` of the lineup reached on each deal, float64 `[D]` by the names of `METRICS`.

    `field_score` is the mean score of the others.
    """
    found = {
        "win_share": win_share(scores),
        "rank": rank_reward(scores),
        "score": scores,
        "margin": margin(scores),
        "field_score": _others(scores),
    }
    return {name: values[:, :, policy].mean(axis=1, dtype=np.float64) for name, values in found.items()}


def estimate(values: npt.NDArray[Any]) -> Estimate:
    """Mean and interval of one number a deal `[D]`; at least two deals."""
    if len(values) < 2:
        raise ValueError(f"an interval over {len(values)} deals; at least 2 are needed")
    mean = float(values.mean())
    half = Z95 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def pooled(fields: Sequence[npt.NDArray[Any]]) -> Estimate:
    """The mean over fields of each field's mean over its deals.

    The fields share their deals, so it is averaged deal by deal. A field of fewer deals has the first of them: deals
    that only some fields have are a stratum of their own, and the variances of the strata add up.
    """
    if min(map(len, fields)) < 2:
        raise ValueError(f"an interval over {min(map(len, fields))} deals; at least 2 are needed")
    mean = float(np.mean([values.mean() for values in fields]))
    variance, first = 0.0, 0
    for last in sorted({len(values) for values in fields}):
        parts = [values[first:last] / (len(values) * len(fields)) for values in fields if len(values) >= last]
        deals = np.sum(parts, axis=0)
        variance += len(deals) * float(deals.var(ddof=min(1, len(deals) - 1)))
        first = last
    half = Z95 * math.sqrt(variance)
    return Estimate(mean, mean - half, mean + half)


def compare(one: Mapping[str, Floats], other: Mapping[str, Floats]) -> dict[str, Estimate]:
    """Differences one - other of two agents on the same deals, each metric paired deal by deal."""
    return {name: estimate(one[name] - other[name]) for name in one if name in other}
