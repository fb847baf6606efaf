"""Learning, measured against perfect play: No Thanks! for two with the cards 3 to 8, one removed, three chips each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from undertake import exact
from undertake_training import config, ppo
from undertake_training import run as runs
from undertake_training.checkpoint import CheckpointPolicy
from undertake_training.config import Config, Log, Network, Objective

GAME: dict[str, Any] = {"lowest": 3, "highest": 8, "removed": 1, "chips": 3}
FIRST_PLAYERS_VALUE = -0.8264
"""Opponent's score - own under perfect play; two independent programs agree on it, over 53,382 states."""


def measured(run: runs.Run) -> exact.Response:
    """The policy, playing its likeliest actions, and what a best response wins against it."""
    policy = CheckpointPolicy(run.network, runs.card(run), "learner", greedy=True)
    return exact.best_response("no_thanks", policy, **GAME)


def test_self_play_comes_near_perfect_play(tmp_path: Path) -> None:
    """A best response wins -0.8264 as first and 0.8264 as second player from perfect play, 0 in the mean."""
    run = runs.start(
        Config(
            num_players=2,
            options=dict(GAME),
            decisions=400_000,
            tables=256,
            steps=32,
            threads=1,
            network=Network(hidden=(64, 64)),
            ppo=config.PPO(minibatch=1024, learning_rate=2e-3, entropy=0.03, entropy_end=0.0, epochs=3),
            objective=Objective(margin_scale=4.0, result_weight=0.0),
            log=Log(runs=str(tmp_path), tensorboard=False, checkpoint_every=10**9),
        )
    )
    before = measured(run)
    ppo.train(run, tmp_path)
    after = measured(run)
    print(f"exploitability: before {before.exploitability}, after {after.exploitability}; {after}")
    assert before.exploitability > 3
    assert after.exploitability < 0.5
    assert after.values[0] == pytest.approx(FIRST_PLAYERS_VALUE, abs=0.4)
