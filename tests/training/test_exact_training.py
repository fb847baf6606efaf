"""The shipped configurations for games whose perfect play is known, trained in full: minutes, hence marked slow."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from undertake import exact
from undertake_training import config, ppo
from undertake_training import run as runs

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "exact"

pytestmark = pytest.mark.slow


def trained(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train a configuration with a seed into `folder`; returns the game's options."""
    chosen = config.load(CONFIGS / f"{name}.yaml")
    log = dataclasses.replace(chosen.log, runs=str(folder), tensorboard=False)
    chosen = dataclasses.replace(chosen, seed=seed, log=log)
    ppo.train(runs.start(chosen), folder)
    return dict(chosen.options)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_thanks_to_within_two_hundredths_of_perfect_play(seed: int, tmp_path: Path) -> None:
    options = trained("no_thanks_3_8", seed, tmp_path)
    response = exact.best_response("no_thanks", f"checkpoint:{tmp_path}", **options)
    print(f"gains by seat {response.gains}, exploitability {response.exploitability}")
    # Two independent programs: perfect play is worth -0.8264 to the player who begins. What a best response wins beyond
    # that from the policy in seat 1 and in seat 0 is how far the policy is from perfect there.
    worse = max(response.best[0] + 0.8264, response.best[1] - 0.8264)
    assert min(response.best[0] + 0.8264, response.best[1] - 0.8264) > -1e-4
    assert worse < 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tiny_six_nimmt_near_its_mixed_equilibrium(seed: int, tmp_path: Path) -> None:
    options = trained("six_nimmt_tiny", seed, tmp_path)
    response = exact.best_response("six_nimmt", f"checkpoint:{tmp_path}", **options)
    print(f"NashConv {response.nash_conv}")
    assert response.nash_conv < 0.1
