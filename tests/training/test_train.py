"""Runs: resumed to the same result, interrupted without loss, refused with one clear line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from undertake.core.memory import Memory
from undertake_training import checkpoint, config, ppo
from undertake_training import run as runs
from undertake_training.cli import main
from undertake_training.config import Config, ConfigError, Log, Network, Objective, Opponents
from undertake_training.report import read_log
from undertake_training.train import ADVANCE

UPDATE = 32 * 8
"""Decisions an update of `tiny`."""


def tiny(tmp_path: Path, **changes: Any) -> Config:
    return replace(
        Config(
            num_players=3,
            options={"lowest": 3, "highest": 12, "removed": 2, "chips": 3},
            decisions=6 * UPDATE,
            tables=32,
            steps=8,
            threads=1,
            network=Network(hidden=(16,)),
            ppo=config.PPO(minibatch=64),
            objective=Objective(blend_from=0.0, blend_to=0.5),
            opponents=Opponents(policies=("threshold_3", "random"), mixed=0.5),
            log=Log(runs=str(tmp_path), tensorboard=False),
        ),
        **changes,
    )


SIX = {
    "game": "six_nimmt",
    "options": {"length": "hand"},
    "network": Network(hidden=(16,), card_slots=config.CardSlots(("hand_cards",), hidden=8)),
    "opponents": Opponents(policies=("closest_gap",)),
}


def weights(run: runs.Run) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in run.network.state_dict().items()}


def without_clock(metrics: list[dict[str, Any]]) -> list[str]:
    clock = ("seconds", "decisions_per_second", "rollout_share")
    return [repr({name: value for name, value in line.items() if name not in clock}) for line in metrics]


ALL = {
    "num_players": 3,
    "other_sizes": (2, 4),
    "network": Network(hidden=(16,), critic=(8,)),
    "ppo": config.PPO(minibatch=64, average=0.9),
    "opponents": Opponents(("tuned", "past"), fields=0.4, mixed=0.4, past_every=UPDATE, past_kept=2),
}
"""Every part that a run can have."""


MEMORY = {
    "view": "table",
    "memory": Memory(("card_number", "pot", "price"), 3),
    "opponents": Opponents(("tuned", "past"), fields=0.4, mixed=0.4, past_every=UPDATE, past_kept=2),
}


@pytest.mark.parametrize(
    "changes",
    [{}, {"opponents": Opponents()}, SIX, ALL, MEMORY, {**ALL, "method": "monte_carlo"}],
    ids=["bots", "self-play", "six_nimmt", "all", "memory", "monte_carlo"],
)
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(tmp_path: Path, changes: dict[str, Any]) -> None:
    whole = tmp_path / "whole"
    halves = tmp_path / "halves"
    for folder in (whole, halves):
        folder.mkdir()
    run = runs.start(tiny(tmp_path, **changes))
    advance = ADVANCE[run.config.method]
    ppo.train(run, whole, advance)

    first = runs.start(tiny(tmp_path, **changes))
    for _ in range(3):
        advance(first)
    runs.save(first, halves)
    after_three = weights(first)
    second = runs.resume(halves)
    assert second.decisions == 3 * UPDATE
    assert all(torch.equal(after_three[name], tensor) for name, tensor in weights(second).items())
    ppo.train(second, halves, advance)

    assert any(not torch.equal(after_three[name], tensor) for name, tensor in weights(second).items()), "it went on"
    assert all(torch.equal(tensor, weights(second)[name]) for name, tensor in weights(run).items())
    for one, other in zip(run.groups, second.groups, strict=True):
        assert np.array_equal(one.tables.batch.states, other.tables.batch.states)
    assert without_clock(read_log(whole))[3:] == without_clock(read_log(halves))
    (tensors, card), (others, its) = (checkpoint.read(at / checkpoint.POLICY, "policy") for at in (whole, halves))
    assert all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())
    assert {**card, "cpu_hours": 0} == {**its, "cpu_hours": 0}


def test_a_run_from_before_resumes_though_a_setting_is_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, to_mapping = runs.start(tiny(tmp_path)), config.to_mapping

    def saved_with(magnet: float) -> Path:
        def before(settings: Config) -> dict[str, Any]:
            known = to_mapping(settings)
            return {**known, "ppo": {**known["ppo"], "magnet": magnet}}

        with monkeypatch.context() as patch:
            patch.setattr(config, "to_mapping", before)
            runs.save(run, tmp_path)
        return tmp_path

    assert runs.resume(saved_with(0.0)).config == run.config
    assert checkpoint.load_policy(tmp_path).card["config"]["ppo"]["magnet"] == 0.0
    saved_with(0.2)
    with pytest.raises(checkpoint.CheckpointError, match=r"ppo\.magnet: 0\.2 is not allowed, this setting is no more"):
        runs.resume(saved_with(0.2))


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    one, other = runs.start(tiny(tmp_path)), runs.start(tiny(tmp_path, seed=1))
    assert not np.array_equal(one.groups[0].tables.batch.states, other.groups[0].tables.batch.states)
    assert not torch.equal(one.network.trunk[0].weight, other.network.trunk[0].weight)  # type: ignore[arg-type]


def test_a_resumed_run_keeps_its_log_and_may_only_get_more_time(tmp_path: Path) -> None:
    run = runs.start(tiny(tmp_path))
    ppo.train(run, tmp_path)
    with (tmp_path / "log.jsonl").open("a") as log:  # as after a crash: logged, but not saved
        log.write('{"decisions": 99999}\n{"decis')
    longer = runs.resume(tmp_path, lambda known: replace(known, decisions=8 * UPDATE))
    ppo.train(longer, tmp_path)
    assert [line["decisions"] for line in read_log(tmp_path)] == [UPDATE * i for i in range(1, 9)]
    with pytest.raises(ConfigError, match="seed cannot change in a resumed run: it is 0, given was 3"):
        runs.resume(tmp_path, lambda known: replace(known, seed=3))


def test_a_resumed_run_may_draw_its_opponents_more_or_less_often(tmp_path: Path) -> None:
    ppo.train(runs.start(tiny(tmp_path)), tmp_path)  # threshold_3 and random at half of the tables

    def turned(policies: tuple[str, ...], fields: float, mixed: float) -> runs.Run:
        opponents = Opponents(policies=policies, fields=fields, mixed=mixed)
        return runs.resume(tmp_path, lambda known: replace(known, decisions=200 * UPDATE, opponents=opponents))

    run = turned(("threshold_3", *["random"] * 15), 1.0, 0.0)
    for _ in range(30):
        ppo.advance(run)  # by then every table's first game is over
    seats = run.groups[0].tables.seats
    assert ((seats == -1).sum(axis=1) == 1).all(), "fields alone"
    assert (seats == 1).sum() > 3 * (seats == 0).sum(), "drawn 15 times as often"
    runs.save(run, tmp_path)
    assert runs.resume(tmp_path).config.opponents == run.config.opponents
    with pytest.raises(ConfigError, match="in this order, each at least once: threshold_3, random"):
        turned(("random", "threshold_3"), 0.5, 0.5)
    with pytest.raises(ConfigError, match="in this order, each at least once: threshold_3, random"):
        turned(("threshold_3", "random", "past"), 0.5, 0.5)


def test_the_policy_left_behind_is_the_trained_one(tmp_path: Path) -> None:
    run = runs.start(tiny(tmp_path))
    ppo.train(run, tmp_path)
    policy = checkpoint.load_policy(tmp_path, game="no_thanks", view="recall")
    assert all(torch.equal(tensor, weights(run)[name]) for name, tensor in policy.network.state_dict().items())
    assert policy.card["decisions"] == 6 * UPDATE
    assert policy.card["config"] == config.to_mapping(run.config)
    assert config.load(tmp_path / "config.yaml") == run.config


def test_a_loss_that_is_no_number_stops_and_spares_the_checkpoint(tmp_path: Path) -> None:
    run = runs.start(tiny(tmp_path))
    runs.save(run, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with torch.no_grad():
        run.network.value.weight.fill_(1e30)
    with pytest.raises(ppo.TrainingError, match=r"the loss is (inf|nan),.* after 0 decisions; the last checkpoint in"):
        ppo.train(run, tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert all(torch.isfinite(tensor).all() for tensor in weights(run).values())


COMMAND = "import sys; from undertake_training.cli import main; sys.exit(main())"


def test_ctrl_c_saves_and_says_where(tmp_path: Path) -> None:
    settings = tmp_path / "run.yaml"
    endless = tiny(tmp_path, name="stopped", decisions=10**9)
    settings.write_text(config.write(endless))
    command = [sys.executable, "-c", COMMAND, "train", "--config", str(settings)]
    paths = {"PYTHONPATH": ":".join(sys.path), "HOME": str(Path.home())}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=paths) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "decisions," in line:  # the first update is through
                break
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().strip().splitlines()
    assert process.returncode == 130
    folder = tmp_path / "stopped"
    assert f"saved in {folder}; go on with: undertake train --resume {folder}" in said[-1]
    saved = runs.resume(folder)
    assert saved.decisions >= UPDATE
    assert f"stopped after {saved.decisions:,} of 1,000,000,000 decisions" in said[-1]
    assert checkpoint.load_policy(folder).card["decisions"] == saved.decisions


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_training_from_the_command_line_leaves_all_that_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "run.yaml"
    names = ("random", "threshold_3")
    measured = config.Measure(fields=names, test_fields=names, every=3 * UPDATE, deals=4, test_deals=8)
    board = Log(runs=str(tmp_path / "runs"))
    settings.write_text(config.write(tiny(tmp_path, name="mine", measure=measured, log=board)))
    arguments = ("train", "--config", str(settings), "--evaluate", "--json")
    code, out, err = run_command(capsys, *arguments)
    assert code == 0
    folder = tmp_path / "runs" / "mine"
    assert f"training in {folder}" in err
    report = json.loads(out)
    assert report == json.loads((folder / "report.json").read_text())
    assert report["decisions"] == 6 * UPDATE
    assert [cell["field"] for cell in report["strength"]["cells"]] == ["random", "threshold_3"]
    assert report["strength"]["set"] == "test"
    assert json.loads((folder / "policy.json").read_text())["strength"] == report["strength"]
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert list((folder / "tensorboard").iterdir())
    lines = read_log(folder)
    assert [i for i, line in enumerate(lines) if "win_share/random" in line] == [2, 5]
    assert 0 <= lines[2]["win_share/random"] <= 1
    # The same name again: the first run is left alone. And it can be gone on with, with a larger budget.
    before = (folder / "policy.safetensors").read_bytes()
    assert run_command(capsys, *arguments)[0] == 0
    assert (folder / "policy.safetensors").read_bytes() == before
    assert (tmp_path / "runs" / "mine-2" / "policy.safetensors").read_bytes() == before, "same seed, same policy"
    assert run_command(capsys, "train", "--resume", str(folder), "--decisions", str(7 * UPDATE))[0] == 0
    assert len(read_log(folder)) == 7


def test_what_cannot_be_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(message: str, *arguments: str, code: int = 2) -> None:
        found, out, err = run_command(capsys, *arguments)
        assert (found, out) == (code, "")
        assert message in err
        assert len([line for line in err.splitlines() if "compiling the engine" not in line]) == 1

    runs = ("--log.runs", str(tmp_path / "runs"), "--log.no-tensorboard")
    strange = ("--measure.fields", "milker_wins", "--evaluate", *runs)
    refused("no command 'trian', there are train", "trian")
    refused("game is 'no_thank'; allowed are 'no_thanks', 'six_nimmt'", "train", "--game", "no_thank", *runs)
    refused("num_players is 8", "train", "--num-players", "8", *runs)
    refused("'chip'", "train", "--options", "chip", "3", *runs)
    refused("view is 'recal'", "train", "--view", "recal", *runs)
    refused("no bot 'thresold_3'; did you mean 'threshold_3'?", "train", "--opponents.policies", "thresold_3", *runs)
    refused("policy 'milker_wins' is unknown, did you mean 'milker_win'?", "train", *strange)
    refused("no slice 'hand_cards'", "train", "--network.card-slots.slices", "hand_cards", *runs)
    refused("ppo.clip: 2.0 is not allowed", "train", "--ppo.clip", "2", *runs)
    refused("there is no such file", "train", "--resume", str(tmp_path / "nowhere"))
    refused("nothing.yaml: No such file", "train", "--config", str(tmp_path / "nothing.yaml"))
    refused("give one of the two", "train", "--config", "a.yaml", "--resume", "b")
    (tmp_path / "file").write_text("in the way")
    refused("file", "train", "--log.runs", str(tmp_path / "file"), "--log.no-tensorboard", code=1)
    assert not (tmp_path / "runs").exists(), "nothing was begun"
    with pytest.raises(SystemExit):
        main(["train", "--ppo.learning-rat", "0.1"])
    assert "--ppo.learning-rate" in capsys.readouterr().err


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_command(capsys, "--help")
    assert (code, err) == (0, "")
    assert "train a policy by self-play" in out
    code, out, err = run_command(capsys)
    assert (code, out) == (2, "")
    code, out, _ = run_command(capsys, "--version")
    assert (code, out) == (0, "undertake 0.1.0\n")


@pytest.mark.parametrize(
    ("goals", "merit"),
    [
        ({}, 0.2),  # .4 - (.4 - .2)
        ({"tuned": 0.3}, 0.3),  # .4 - (.3 - .2)
        ({"random": 0.5}, 0.5),  # above its goal by .1; tuned has none
        ({"random": 0.5, "tuned": 0.5}, 0.1),
        ({"half_price": 0.9}, 0.2),  # of a field that was not measured
    ],
)
def test_the_best_policy_is_that_of_the_greatest_mean_less_the_worst_gap(goals: dict[str, float], merit: float) -> None:
    assert ppo.merit_of({"random": 0.6, "tuned": 0.2}, goals) == pytest.approx(merit)


def test_the_objective_turns_from_margin_to_result() -> None:
    blended = Config(objective=Objective(blend_from=0.5, blend_to=0.75, result_weight=0.4))
    weights_at = [ppo.objective_weights(blended, progress) for progress in (0.0, 0.5, 0.625, 0.75, 1.0)]
    assert [result for _, result in weights_at] == pytest.approx([0, 0, 0.2, 0.4, 0.4])
    assert [margin for margin, _ in weights_at] == pytest.approx([1, 1, 0.8, 0.6, 0.6])
    # Margin's advantages 2 and -2 (deviation 2 sqrt 2), result's -1 and 1: opposite, and as strong once normalised.
    advantage = torch.tensor([[2.0, -1.0], [-2.0, 1.0]])
    assert ppo.blend(advantage, (1.0, 0.0)).tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])
    assert ppo.blend(advantage, (0.0, 1.0)).tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert ppo.blend(advantage, (0.5, 0.5)).tolist() == pytest.approx([0, 0], abs=1e-6)
