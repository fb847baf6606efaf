"""The scripted baselines play as strongly as they did where they come from (the baselines' published tables).

The figures were measured in simulators apart from this project. Both they and ours have an error: a cell agrees where
the two 95 % intervals meet.
"""

import pytest

from undertake.arena import evaluate, play

pytestmark = pytest.mark.slow

DEALS = 4096
NAMES = ["threshold_0", "threshold_6", "threshold_9", "half_price", "tuned", "milker_win", "milker_score"]

# No Thanks!, 4 players: win share (± .02) and mean score of one of the row in a field of the column, over 2,000 deals.
NO_THANKS = """
threshold_0  .25 (40.0) .09 (55.4) .16 (52.0) .07 (57.4) .02 (68.9) .03 (66.2) .06 (58.8)
threshold_6  .76 (17.2) .25 (42.2) .14 (54.4) .20 (44.8) .03 (67.0) .03 (68.8) .05 (61.1)
threshold_9  .49 (27.5) .49 (28.3) .25 (43.9) .37 (34.0) .04 (64.9) .02 (72.6) .03 (64.7)
half_price   .62 (25.7) .46 (28.1) .49 (27.0) .25 (40.3) .03 (68.3) .31 (43.7) .20 (49.7)
tuned        .45 (31.6) .39 (33.4) .41 (33.0) .30 (34.7) .25 (44.4) .50 (33.9) .54 (32.2)
milker_win   .64 (22.7) .58 (22.3) .66 (20.8) .47 (27.1) .09 (61.0) .25 (50.9) .14 (61.6)
milker_score .53 (28.0) .49 (27.1) .55 (25.6) .34 (31.0) .09 (56.6) .36 (41.3) .25 (50.9)
"""

# 6 nimmt!, one hand: mean bulls in a field of random (standard error at most .05).
BULLS = {
    4: {
        "random": 12.13,
        "highest": 9.54,
        "shortest_row": 8.91,
        "gap_slots": 8.10,
        "exp_cost": 8.00,
        "closest_gap": 7.91,
    },
    2: {"random": 8.20, "closest_gap": 7.02},
}


@pytest.mark.parametrize("line", NO_THANKS.strip().splitlines(), ids=NAMES)
def test_no_thanks_table(line: str) -> None:
    agent, *cells = line.replace("(", "").replace(")", "").split()
    report = evaluate("no_thanks", agent, NAMES, deals=DEALS)
    wrong = []
    for i, cell in enumerate(report.cells):
        share, score = cell.estimates["win_share"], cell.estimates["score"]
        told_share, told_score = float(cells[2 * i]), float(cells[2 * i + 1])
        # The told score's own interval is that of 2,000 deals where ours is that of 4,096.
        own, score_error = share.high - share.mean, (score.high - score.mean) * (1 + (DEALS / 2000) ** 0.5)
        if abs(share.mean - told_share) > 0.02 + own or abs(score.mean - told_score) > score_error:
            wrong.append(f"in a field of {cell.field}: {share} and {score}, not {told_share} and {told_score}")
    assert not wrong


@pytest.mark.parametrize(("players", "bot"), [(players, bot) for players in BULLS for bot in BULLS[players]])
def test_six_nimmt_bulls(players: int, bot: str) -> None:
    bulls = play("six_nimmt", [bot, *["random"] * (players - 1)], deals=DEALS).estimates()["score"]
    assert abs(bulls.mean - BULLS[players][bot]) <= 1.96 * 0.05 + (bulls.high - bulls.mean), str(bulls)
