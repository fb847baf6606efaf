"""Training that is killed, runs out of disk, or finds its state damaged: what was trained before is not lost."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from undertake_training import checkpoint, config, ppo
from undertake_training import run as runs
from undertake_training.config import Config, Log, Network, Opponents
from undertake_training.report import read_log

UPDATE = 16 * 8
COMMAND = "import sys; from undertake_training.cli import main; sys.exit(main())"


def tiny(tmp_path: Path, **changes: Any) -> Config:
    settings = Config(
        num_players=3,
        options={"lowest": 3, "highest": 12, "removed": 2, "chips": 3},
        decisions=40 * UPDATE,
        tables=16,
        steps=8,
        threads=1,
        network=Network(hidden=(16,)),
        opponents=Opponents(("random", "past"), fields=0.3, mixed=0.3, past_every=UPDATE),
        log=Log(runs=str(tmp_path), tensorboard=False, checkpoint_every=UPDATE),
    )
    return replace(settings, **changes)


def same_weights(one: runs.Run, other: runs.Run) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True))


def test_killed_in_the_middle_it_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    settings = tmp_path / "run.yaml"
    settings.write_text(config.write(tiny(tmp_path, name="killed")))
    paths = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", COMMAND, "train", "--config", str(settings)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=paths) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "decisions, " in line and not line.startswith(f"{UPDATE} "):  # some updates are through and saved
                break
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    folder = tmp_path / "killed"
    (folder / ".resume.safetensors.1.tmp").write_bytes(b"half a file")  # as a kill in the middle of a write leaves it
    resumed = runs.resume(folder)
    assert 0 < resumed.decisions < 40 * UPDATE
    ppo.train(resumed, folder)
    (tmp_path / "whole").mkdir()
    whole = runs.start(tiny(tmp_path, name="killed"))
    ppo.train(whole, tmp_path / "whole")
    assert same_weights(resumed, whole)
    assert [line["decisions"] for line in read_log(folder)] == [UPDATE * i for i in range(1, 41)]
    assert not list(folder.glob(".*"))


def test_a_full_disk_says_so_and_spares_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runs.start(tiny(tmp_path))
    for _ in range(3):
        ppo.advance(run)
    runs.save(run, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    real = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 2000:  # the small log and config still find room, the checkpoints do not
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(ppo.TrainingError, match=r"cannot write .*: No space left on device, after 512 decisions; "):
            ppo.train(run, tmp_path)
    for name, content in before.items():
        assert (tmp_path / name).read_bytes() == content
    assert not list(tmp_path.glob(".*"))
    again = runs.resume(tmp_path)
    assert again.decisions == 3 * UPDATE
    ppo.train(again, tmp_path)
    assert again.decisions == 40 * UPDATE


def test_a_damaged_state_is_replaced_by_the_one_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs.start(tiny(tmp_path))
    ppo.advance(run)
    runs.save(run, tmp_path)
    ppo.advance(run)
    runs.save(run, tmp_path)
    state = tmp_path / runs.STATE
    state.write_bytes(state.read_bytes()[:-100])
    resumed = runs.resume(tmp_path)
    assert resumed.decisions == UPDATE
    said = capsys.readouterr().err
    assert "resume.safetensors" in said
    assert f"going on from the state before it, {UPDATE} decisions" in said
    (tmp_path / runs.PREVIOUS).write_bytes(b"")
    with pytest.raises(checkpoint.CheckpointError, match="damaged"):
        runs.resume(tmp_path)
