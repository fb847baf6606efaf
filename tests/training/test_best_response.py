"""The learned best response: finds what an untrained policy gives away, and is measured as the protocol says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from undertake_training import best_response, checkpoint
from undertake_training import run as runs
from undertake_training.config import PPO, Config, Network


def save_untrained(folder: Path) -> Path:
    """A policy that plays almost at random."""
    settings = Config(
        num_players=3,
        options={"lowest": 3, "highest": 14, "removed": 2, "chips": 4},
        tables=64,
        steps=16,
        threads=1,
        network=Network(hidden=(32,)),
        ppo=PPO(minibatch=512),
    )
    run = runs.start(settings)
    checkpoint.save_policy(folder / checkpoint.POLICY, run.policy, runs.card(run))
    return folder


def test_it_gains_much_from_a_policy_that_plays_at_random(tmp_path: Path) -> None:
    report = best_response.respond(save_untrained(tmp_path), deals=256, decisions=120_000)
    assert report["gain"]["low"] > 0.15
    assert report["win_share"]["mean"] == pytest.approx(1 / 3 + report["gain"]["mean"])
    assert report["decisions"] >= 120_000
    again = best_response.respond(tmp_path, deals=256, decisions=2_000)
    assert abs(again["gain"]["mean"]) < 0.1, "with no time to learn it is the policy itself, at parity"


def test_the_command_keeps_to_minutes_and_refuses_what_is_no_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    arguments = [str(save_untrained(tmp_path)), "--minutes", "0.02", "--deals", "8", "--out", str(out)]
    assert best_response.main(arguments) == 0
    report = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == report
    assert (report["game"], report["players"], report["set"], report["budget_minutes"]) == (
        "no_thanks",
        3,
        "test",
        0.02,
    )
    assert best_response.main([str(tmp_path / "nothing.safetensors")]) == 2
    assert "there is no such file" in capsys.readouterr().err
