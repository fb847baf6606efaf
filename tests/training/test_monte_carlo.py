"""Monte-Carlo values: targets by hand, exploring, learning measured against perfect play, `undertake train`."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch

from undertake import exact
from undertake_training import checkpoint, config, monte_carlo, ppo, train
from undertake_training import run as runs
from undertake_training.config import Config, Log, MonteCarlo, Network, Objective, Opponents
from undertake_training.monte_carlo import EpsilonGreedy
from undertake_training.network import MASKED, PolicyNetwork
from undertake_training.report import read_log
from undertake_training.rollout import Decisions, Rollout

Array = npt.NDArray[Any]


GAME: dict[str, Any] = {"lowest": 3, "highest": 8, "removed": 1, "chips": 3}


class Scripted:
    """One table of two seats: who decides at each step, the scores after it, and whether it ends the game."""

    SCRIPT = (
        *((0, (3, 0), False), (1, (3, 5), False), (0, (4, 5), True), (1, (0, 2), False)),
        *((0, (6, 2), False), (1, (6, 3), True), (0, (0, 0), False), (0, (1, 0), False)),
        *((1, (1, 4), True), (0, (2, 0), False), (1, (2, 9), False), (0, (7, 9), False)),
    )

    def __init__(self) -> None:
        self.now = 0
        self.seat = np.zeros(1, np.int64)
        self.occupant = np.full(1, -1, np.int8)
        self.done, self.pure = np.zeros(1, np.bool_), np.zeros(1, np.bool_)
        self.standing, self.reached = np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32)

    def look(self, observation: Array, action_mask: Array, extra: Array) -> None:
        self.seat[0] = self.SCRIPT[self.now][0]
        observation[0, 0] = self.now
        action_mask[:] = 1

    def step(self, actions: Array) -> None:
        _, score, self.done[0] = self.SCRIPT[self.now]
        self.reached[0] = score
        self.standing[0] = 0 if self.done[0] else score
        self.now += 1


class Misled:
    """Values that would show in any target into which one went."""

    def look(self, seen: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return torch.zeros(mask.shape), torch.full((len(seen), 2), 100.0), seen

    def sample(self, log_probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.zeros(len(log_probs), dtype=torch.int64)


def test_targets_are_what_the_seat_was_paid_to_the_end_of_the_game() -> None:
    """Three rollouts of four steps; in brackets the margin in points, of which two make one unit.

    Game 1, steps 0 to 2, ends 4 : 5, seat 0 wins. Step 0 by seat 0: all of its margin (1). Step 1 by seat 1: it stood
    at +3 and ends at -1 (-4). Step 2 by seat 0: from +2 to +1 (-1).
    Game 2, steps 3 to 5, ends 6 : 3 in the second rollout, seat 1 wins. Step 3 by seat 1 (3) waits for it; step 4 by
    seat 0: from +2 to -3 (-5); step 5 by seat 1: from +4 to +3 (-1).
    Game 3, steps 6 to 8, ends 1 : 4 in the third, seat 0 wins. Step 6 is lost: its seat had decided again when the
    rollout ended. Step 7 by seat 0 (3); step 8 by seat 1: from +1 to -3 (-4). The last game does not end.
    """
    tables, seats, steps = Scripted(), 2, 4
    memory = Decisions.empty(seats + steps, features=1, actions=2, extra=0, values=2).part(0, seats + steps, 1)
    rollout, generator = Rollout(memory, seats), torch.Generator().manual_seed(0)
    found = []
    for _ in range(3):
        rollout.collect(tables, Misled(), generator, margin_scale=2.0, result="win", gae_lambda=1.0)
        monte_carlo.keep_ended(rollout)
        target = (memory.advantage + memory.value)[memory.trainable]
        steps_learned = memory.observation[memory.trainable][:, 0].tolist()
        found.append(dict(zip(steps_learned, target.tolist(), strict=True)))
        rollout.carry()
    assert found == [
        {0: [0.5, 0.5], 1: [-2.0, -0.5], 2: [-0.5, 0.5]},
        {3: [1.5, 0.5], 4: [-2.5, -0.5], 5: [-0.5, 0.5]},
        {7: [1.5, 0.5], 8: [-2.0, -0.5]},
    ]


def test_it_explores_evenly_among_legal_actions_and_else_takes_the_best() -> None:
    row = torch.tensor([-1.0, -3.0, MASKED, -0.5, -2.0])
    log_probs, generator = row.repeat(12_000, 1), torch.Generator().manual_seed(1)
    network = cast("PolicyNetwork", None)  # drawing does not ask it

    def shares(epsilon: float) -> list[float]:
        actions = EpsilonGreedy(network, epsilon).sample(log_probs, generator)
        return (torch.bincount(actions, minlength=5) / len(actions)).tolist()

    assert shares(0.0) == [0, 0, 0, 1, 0]
    # a quarter of 0.4 for each of four legal actions; 5 standard errors are 0.014
    assert shares(0.4) == pytest.approx([0.1, 0.1, 0, 0.7, 0.1], abs=0.014)


def small(tmp_path: Path, **changes: Any) -> Config:
    base = Config(
        method="monte_carlo",
        num_players=2,
        options=dict(GAME),
        decisions=80_000,
        tables=32,
        steps=128,
        threads=1,
        network=Network(hidden=(32, 32), critic=(8,)),
        ppo=config.PPO(minibatch=512, learning_rate=3e-3, learning_rate_end=0.0, average=0.9),
        objective=Objective(margin_scale=4.0, result_weight=0.0),
        log=Log(runs=str(tmp_path), tensorboard=False),
    )
    return dataclasses.replace(base, **changes)


def test_it_learns_a_small_game(tmp_path: Path) -> None:
    run = runs.start(small(tmp_path))
    assert run.config.greedy
    assert run.critic is None
    ppo.train(run, tmp_path, monte_carlo.advance)
    by_chance = exact.best_response("no_thanks", "random", **GAME).exploitability
    learned = exact.best_response("no_thanks", f"checkpoint:{tmp_path}", **GAME).exploitability
    print(f"exploitability: random {by_chance}, learned {learned}")
    assert learned < by_chance / 3
    log = read_log(tmp_path)
    assert log[-1]["decisions"] >= 80_000
    assert log[-1]["explained"] > 0.3
    assert 0.6 < log[-1]["learned_from"] / (32 * 128) < 1, "some games go on after the rollout, and only few"


def test_past_policies_play_their_best_action(tmp_path: Path) -> None:
    opponents = Opponents(("past", "threshold_3"), fields=0.5, mixed=0.5, past_every=4096)
    explores = MonteCarlo(epsilon=0.5, epsilon_end=0.5)
    changes = {"opponents": opponents, "monte_carlo": explores, "objective": Objective()}
    run = runs.start(small(tmp_path, decisions=8192, **changes))
    while run.decisions < 8192:
        monte_carlo.advance(run)
    past = run.cast.past
    assert past is not None
    assert len(past.weights) == 2
    past.network.load_state_dict(past.weights[1])
    mask = torch.ones((64, run.network.shape.num_actions), dtype=torch.int8)
    seen = torch.randint(0, 3, (64, run.network.shape.num_features), dtype=torch.uint8)
    sure, _ = past.network(seen, mask)
    assert torch.equal(sure.argmax(dim=1), run.policy(seen, mask)[0].argmax(dim=1))
    assert sure.exp().max(dim=1).values.mean() > 0.95


SETTINGS = """
num_players: 3
options: {highest: 12, removed: 2, chips: 3}
decisions: 2048
tables: 16
steps: 64
method: monte_carlo
monte_carlo: {epsilon: 0.3}
network: {hidden: [16]}
objective: {blend_from: 0.0, blend_to: 0.0}
measure: {every: 1024, deals: 4, fields: [random]}
log: {tensorboard: false}
"""


def test_the_command_trains_stops_and_goes_on_as_if_never_stopped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    given = ["--config", str(tmp_path / "settings.yaml"), "--seed", "5", "--log.runs"]
    assert train.main([*given, str(tmp_path)]) == 0
    folder = tmp_path / "monte_carlo-no_thanks-3p-seed5"
    lines = read_log(folder)
    assert [line["decisions"] for line in lines] == [1024, 2048]
    assert [line["epsilon"] for line in lines] == pytest.approx([0.3, 0.16])  # half of the way to 0.02
    assert 0 <= lines[-1]["win_share/random"] <= 1
    assert {"policy.safetensors", "policy.json", "best.safetensors", "learning_curve.png", "report.json"} <= {
        path.name for path in folder.iterdir()
    }

    measuring = train.in_fields

    def interrupted(run: runs.Run) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        return measuring(run)

    with monkeypatch.context() as patch:
        patch.setattr(train, "in_fields", interrupted)
        assert train.main([*given, str(tmp_path / "stopped")]) == 130
    stopped = tmp_path / "stopped" / folder.name
    assert "stopped after 1,024 of 2,048 decisions" in capfd.readouterr().err
    assert train.main(["--resume", str(stopped)]) == 0
    for name in (checkpoint.POLICY, runs.BEST):
        weights, others = (checkpoint.read(at / name, "policy")[0] for at in (folder, stopped))
        assert all(torch.equal(tensor, others[key]) for key, tensor in weights.items())
    assert [line["value_loss"] for line in read_log(stopped)] == [line["value_loss"] for line in lines]


def test_the_page_shows_the_measured_shares() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "training.md").read_text()
    found = json.loads((root / "docs" / "measured" / "monte_carlo.json").read_text())
    assert found["games"]
    for game in found["games"]:
        for name, values in (("mean of the fields", game["mean"]), *game["shares"].items()):
            assert f"| {game['game']} | {name} | {', '.join(f'{value:.3f}' for value in values)} |" in page
