"""`undertake bench --training`: it compares the same work; and the trainer shares its memory with the engine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from undertake.core.game import GAMES
from undertake_training import bench, bench_training, ppo
from undertake_training import config as configuration
from undertake_training.bench_training import DEFAULT_TABLES, cases, maskable_ppo, measure, settings, torch_alone
from undertake_training.config import Config, ConfigError
from undertake_training.network import PolicyNetwork
from undertake_training.run import start

every_game = pytest.mark.parametrize("game", GAMES)

TABLES, STEPS, MINIBATCH, EPOCHS = 8, 4, 16, 2


def tiny(game: str, **changes: Any) -> Config:
    """The demo's settings on a scale that a test can pay."""
    (demo,) = settings([game])
    return dataclasses.replace(
        demo,
        tables=TABLES,
        steps=STEPS,
        network=dataclasses.replace(demo.network, hidden=(8,), critic=(8,)),
        ppo=dataclasses.replace(demo.ppo, minibatch=MINIBATCH, epochs=EPOCHS),
        **changes,
    )


@dataclasses.dataclass
class Work:
    """What networks and optimizers had to do: rows of every call without and with gradients, and gradient steps."""

    acted: list[int] = dataclasses.field(default_factory=list)
    learned: list[int] = dataclasses.field(default_factory=list)
    steps: int = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    work, look = Work(), PolicyNetwork.look

    def noting(network: PolicyNetwork, observation: Any, action_mask: Any) -> Any:
        (work.learned if torch.is_grad_enabled() else work.acted).append(len(observation))
        return look(network, observation, action_mask)

    def stepped(*_: Any) -> None:
        work.steps += 1

    handle = register_optimizer_step_post_hook(stepped)
    with monkeypatch.context() as patch:
        patch.setattr(PolicyNetwork, "look", noting)
        yield work
    handle.remove()


@every_game
def test_the_ceiling_is_the_trainers_work_without_the_games(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config, run = tiny(game), start(tiny(game))
    alone = torch_alone(config)
    with counted(monkeypatch) as ceiling:
        assert alone() == TABLES * STEPS
    # 8 tables x 4 steps are 32 decisions: 2 epochs of 2 minibatches of 16.
    assert ceiling == Work([8, 8, 8, 8], [16, 16, 16, 16], 4)
    ppo.advance(run)
    for _ in range(3):
        with counted(monkeypatch) as trainer:
            metrics = ppo.advance(run)
        assert trainer.acted == ceiling.acted
        assert sum(trainer.learned) == EPOCHS * metrics["learned_from"]
        assert len(trainer.learned) == trainer.steps == EPOCHS * max(1, round(metrics["learned_from"] / MINIBATCH))


def test_the_ceiling_acts_for_the_tables_of_each_size() -> None:
    config = tiny("no_thanks", other_sizes=(3, 5), other_tables=0.5)
    assert torch_alone(config)() == TABLES * STEPS


def test_every_line_names_its_settings_and_what_it_is_compared_with() -> None:
    game = "no_thanks"
    found = measure(cases([tiny(game)], threads=(1,), default_steps=64), rounds=1, seconds=0.0)
    lines = {line.what: line for line in found if line.device == "cpu"}
    ours = ["learner", "torch_ceiling", "maskable_ppo_same", "maskable_ppo_best"]
    assert list(lines) == [*ours, "maskable_ppo_default"]
    for what, line in lines.items():
        assert (line.game, line.players, line.view, line.threads) == (game, 4, "recall", 1)
        assert line.per_second > 0
        assert line.per_cpu_second > 0
        other = lines["torch_ceiling" if what in ("learner", "torch_ceiling") else "learner"]
        assert (line.reference, line.cpu_reference) == (other.per_second, other.per_cpu_second)
    sizes = {what: (line.num_envs, line.steps, line.batch, line.epochs) for what, line in lines.items()}
    for what in ours[:3]:
        assert sizes[what] == (TABLES, STEPS, MINIBATCH, EPOCHS)
    # All minibatches that are tried hold the rollout's 32 decisions; 64 and 10 are sb3-contrib's documented defaults.
    assert sizes["maskable_ppo_best"] == (TABLES, STEPS, 32, 10)
    assert sizes["maskable_ppo_default"] == (DEFAULT_TABLES, 64, 64, 10)


def test_measuring_goes_by_turns_for_the_time_given_and_puts_the_threads_back() -> None:
    found = cases([tiny("no_thanks")], threads=(1, 2), rivals=False)
    assert [(case.what, case.threads) for case in found if case.device == "cpu"] == [
        ("learner", 1),
        ("torch_ceiling", 1),
        ("learner", 2),
        ("torch_ceiling", 2),
    ]
    seen: list[tuple[int, int]] = []

    def noting(number: int) -> int:
        seen.append((number, torch.get_num_threads()))
        return 1

    before = torch.get_num_threads()
    noted = [dataclasses.replace(case, update=partial(noting, number)) for number, case in enumerate(found)]
    measure(noted, rounds=2, seconds=0.0)
    assert seen[:4] == [(0, 1), (1, 1), (2, 2), (3, 2)]
    assert seen[len(noted) : len(noted) + 4] == seen[:4]
    assert torch.get_num_threads() == before


@every_game
def test_maskable_ppo_plays_and_trains_our_network(game: str) -> None:
    config = tiny(game)
    model = maskable_ppo(config, TABLES, STEPS)
    network = model.policy.features_extractor.network
    assert isinstance(network, PolicyNetwork)
    env: Any = model.get_env()
    seen = torch.as_tensor(env.reset())
    masks = np.stack(env.env_method("action_masks"))
    with torch.no_grad():
        expected, values = network(seen, torch.as_tensor(masks))
        found: Any = model.policy.get_distribution(seen, action_masks=masks).distribution
        torch.testing.assert_close(found.probs, expected.exp())
        torch.testing.assert_close(model.policy.predict_values(seen), values)
    before = {name: weight.clone() for name, weight in network.named_parameters()}
    model.batch_size, model.n_epochs = MINIBATCH, EPOCHS
    model.learn(TABLES * STEPS)
    assert all((weight != before[name]).any() for name, weight in network.named_parameters())


@every_game
def test_torch_reads_the_memory_that_the_engine_writes(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tiny(game))
    (group,) = run.groups
    memory, tables, seats = run.memory, group.tables, group.rollout.seats
    written: list[tuple[int, int, int]] = []
    read: list[tuple[int, int]] = []
    played: list[int] = []
    look, step, network_look = tables.look, tables.step, run.network.look
    assert run.critic is not None
    extras: list[int] = []
    run.critic.register_forward_pre_hook(lambda _, given: extras.append(given[1].data_ptr()))

    def writing(observation: Any, action_mask: Any, extra: Any) -> None:
        for array, tensor in ((observation, memory.observation), (action_mask, memory.action_mask)):
            assert np.shares_memory(array, tensor.numpy())
        assert np.shares_memory(extra, memory.extra.numpy())
        written.append((observation.ctypes.data, action_mask.ctypes.data, extra.ctypes.data))
        look(observation, action_mask, extra)
        # What the compiled function wrote is what the tensors hold, at the rows of this step.
        at = slice((seats + len(played)) * TABLES, (seats + len(played) + 1) * TABLES)
        seen, legal = tables.batch.observe(tables.seat)
        np.testing.assert_array_equal(memory.observation[at].numpy(), seen)
        np.testing.assert_array_equal(memory.action_mask[at].numpy(), legal)

    def reading(observation: torch.Tensor, action_mask: torch.Tensor) -> Any:
        if not torch.is_grad_enabled():
            read.append((observation.data_ptr(), action_mask.data_ptr()))
        return network_look(observation, action_mask)

    def playing(actions: Any) -> None:
        assert np.shares_memory(actions, memory.action.numpy())
        played.append(actions.ctypes.data)
        step(actions)

    monkeypatch.setattr(tables, "look", writing)
    monkeypatch.setattr(tables, "step", playing)
    monkeypatch.setattr(run.network, "look", reading)
    ppo.advance(run)
    assert len(written) == len(played) == STEPS
    assert read == [each[:2] for each in written]
    assert extras[:STEPS] == [extra for _, _, extra in written]
    for t, at in enumerate(played):
        assert at == memory.action[(seats + t) * TABLES :].data_ptr()
    # And learning goes over the same memory.
    assert memory.to(run.device).observation.data_ptr() == memory.observation.data_ptr()


def test_without_sb3_its_lines_are_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_training, "HAS_SB3", False)
    file = tmp_path / "tiny.yaml"
    file.write_text(configuration.write(tiny("no_thanks")))
    arguments = ["--training", "--config", str(file), "--threads", "1", "--rounds", "1", "--seconds", "0", "--json"]
    assert bench.main(arguments) == 0
    out, err = capsys.readouterr()
    lines = json.loads(out)
    assert [line["what"] for line in lines if line["device"] == "cpu"] == ["learner", "torch_ceiling"]
    wanted = {"what", "game", "players", "view", "num_envs", "threads", "per_second", "reference"}
    assert all(wanted <= line.keys() for line in lines)
    assert "sb3-contrib is not installed" in err


def test_slips_of_the_pen_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--training", "--config", str(tmp_path / "missing.yaml")]) == 2
    assert "missing.yaml" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="--threads: 0 is not allowed, at least 1"):
        cases([tiny("no_thanks")], threads=(0,))
