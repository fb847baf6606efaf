"""Win shares, ranks, margins and intervals, computed by hand."""

import numpy as np
import pytest

from undertake.arena import compare, estimate
from undertake.arena.statistics import margin, per_deal, rank_reward, win_share


@pytest.mark.parametrize(
    ("scores", "shares", "ranks", "margins"),
    [
        # One winner; ranks 1, 2, 3, 4: (5 - 2r) / 3.
        ([10, 20, 30, 40], [1, 0, 0, 0], [1, 1 / 3, -1 / 3, -1], [20, 20 / 3, -20 / 3, -20]),
        # Two share the first rank (1.5 each), two the last (3.5 each).
        ([7, 9, 9, 7], [0.5, 0, 0, 0.5], [2 / 3, -2 / 3, -2 / 3, 2 / 3], [4 / 3, -4 / 3, -4 / 3, 4 / 3]),
        ([5, 5, 5], [1 / 3] * 3, [0, 0, 0], [0, 0, 0]),
        # The last two share ranks 2 and 3: (4 - 5) / 2.
        ([-11, 0, 0], [1, 0, 0], [1, -0.5, -0.5], [11, -5.5, -5.5]),
        ([3, 1], [0, 1], [-1, 1], [-2, 2]),
    ],
)
def test_one_game(scores: list[int], shares: list[float], ranks: list[float], margins: list[float]) -> None:
    given = np.array([scores])
    np.testing.assert_allclose(win_share(given), [shares])
    np.testing.assert_allclose(rank_reward(given), [ranks], atol=1e-12)
    np.testing.assert_allclose(margin(given), [margins])


def test_seats_are_averaged_before_deals() -> None:
    # Two deals, two rotations, two policies.
    scores = np.array([[[1, 2], [3, 1]], [[0, 4], [5, 5]]])
    first = per_deal(scores, 0)
    np.testing.assert_allclose(first["win_share"], [(1 + 0) / 2, (1 + 0.5) / 2])
    np.testing.assert_allclose(first["rank"], [(1 - 1) / 2, (1 + 0) / 2])
    np.testing.assert_allclose(first["score"], [2, 2.5])
    np.testing.assert_allclose(first["margin"], [(1 - 2) / 2, (4 + 0) / 2])
    np.testing.assert_allclose(first["field_score"], [1.5, 4.5])
    np.testing.assert_allclose(per_deal(scores, 1)["win_share"], [0.5, 0.25])


def test_interval_over_deals() -> None:
    # Mean 2, sample variance ((-1)^2 + 0 + 0 + 1^2) / 3 = 2/3, standard error sqrt(2/3 / 4).
    found = estimate(np.array([1.0, 2.0, 2.0, 3.0]))
    half = 1.96 * (2 / 3 / 4) ** 0.5
    assert found == pytest.approx((2.0, 2.0 - half, 2.0 + half))


def test_an_interval_needs_two_deals() -> None:
    with pytest.raises(ValueError, match="over 1 deals; at least 2"):
        estimate(np.array([1.0]))


def test_a_comparison_is_paired() -> None:
    one, other = {"score": np.array([1.0, 5.0, 9.0])}, {"score": np.array([0.0, 4.0, 8.0])}
    # The differences are 1 on every deal: no doubt is left, though the scores themselves spread widely.
    assert compare(one, other) == {"score": pytest.approx((1.0, 1.0, 1.0))}
    assert compare(other, one) == {"score": pytest.approx((-1.0, -1.0, -1.0))}
