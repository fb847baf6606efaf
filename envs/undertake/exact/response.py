"""What `best_response` returns."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Response"]


@dataclass(frozen=True)
class Response:
    """Values by seat when all play the policy, and when the player of that seat alone plays a best response instead.

    Attributes:
        values: the expected reward of each seat, all playing the policy
        best: the expected reward of each seat, a best response being played there and the policy in the others
    """

    values: tuple[float, ...]
    best: tuple[float, ...]

    @property
    def gains(self) -> tuple[float, ...]:
        """What a best response wins over the policy, by seat; nowhere below zero, rounding aside."""
        return tuple(best - value for best, value in zip(self.best, self.values, strict=True))

    @property
    def nash_conv(self) -> float:
        """The sum of the gains: zero in an equilibrium and nowhere else."""
        return sum(self.gains)

    @property
    def exploitability(self) -> float:
        """The mean of the gains: for two and a zero-sum reward how far from optimal play the policy is."""
        return self.nash_conv / len(self.gains)
