"""Checkpoints: what goes in comes out, bad files are one clear line, and no file is ever left half written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from undertake.core.files import write_atomically
from undertake.core.game import get_game
from undertake_training import checkpoint, network
from undertake_training.checkpoint import CheckpointError, load_policy

LAYOUT = get_game("no_thanks").layouts["recall"]


def policy_file(path: Path) -> network.PolicyNetwork:
    shape = network.Shape(LAYOUT.size, 3, (16,), 2)
    net = network.build(shape, torch.from_numpy(LAYOUT.scale.copy()), seed=1)
    with torch.no_grad():
        net.policy.weight.mul_(300)
    card = checkpoint.make_card(
        game="no_thanks", num_players=4, view="recall", options={}, network=net, config={"seed": 1}, decisions=5, seed=1
    )
    checkpoint.save_policy(path, net, card)
    return net


def some_observations(rows: int) -> Any:
    return np.random.default_rng(0).integers(0, 2, (rows, LAYOUT.size), dtype=np.uint8)


def test_a_saved_policy_plays_as_before(tmp_path: Path) -> None:
    net = policy_file(tmp_path / "policy.safetensors")
    mask = np.tile(np.array([1, 1, 0], np.int8), (50, 1))
    loaded = load_policy(tmp_path / "policy.safetensors", game="no_thanks", view="recall")
    with torch.no_grad():
        expected, _ = net(torch.from_numpy(some_observations(50)), torch.from_numpy(mask))
        found, _ = loaded.network(torch.from_numpy(some_observations(50)), torch.from_numpy(mask))
    assert torch.equal(expected, found)
    greedy = load_policy(tmp_path, greedy=True)  # the folder will do, and the card
    assert greedy.act(some_observations(50), mask, np.random.default_rng(0)).tolist() == expected.argmax(1).tolist()
    scaled = some_observations(50) * LAYOUT.scale
    rows = load_policy(tmp_path / "policy.json").act(scaled, mask, np.random.default_rng(0))
    assert rows.tolist() == loaded.act(some_observations(50), mask, np.random.default_rng(0)).tolist()
    assert set(rows) == {0, 1}


def test_a_policy_draws_by_its_probabilities(tmp_path: Path) -> None:
    policy_file(tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path)
    observation = np.repeat(some_observations(1), 20_000, axis=0)
    mask = np.tile(np.array([1, 1, 0], np.int8), (20_000, 1))
    with torch.no_grad():
        log_probs, _ = loaded.network(torch.from_numpy(observation[:1]), torch.from_numpy(mask[:1]))
    share = (loaded.act(observation, mask, np.random.default_rng(4)) == 1).mean()
    # three standard deviations of a share are at most 3 * sqrt(0.25 / 20,000) = 0.011
    assert share == pytest.approx(log_probs[0, 1].exp().item(), abs=0.011)
    told = loaded.probabilities(observation[:1], mask[:1])
    assert told[0] == pytest.approx(log_probs[0].exp().numpy(), abs=1e-6)
    greedy = load_policy(tmp_path, greedy=True).probabilities(observation[:1], mask[:1])
    assert greedy.tolist() == [[float(a == log_probs[0].argmax()) for a in range(3)]]


def test_the_card_says_what_it_is(tmp_path: Path) -> None:
    policy_file(tmp_path / "p.safetensors")
    card = json.loads((tmp_path / "p.json").read_text())
    assert {"game": "no_thanks", "view": "recall", "decisions": 5, "strength": {}}.items() <= card.items()
    assert card["versions"]["torch"] == torch.__version__
    assert card["observation"]["cards"] == [0, 231]
    checkpoint.add_strength(tmp_path / "p.safetensors", {"random": {"win_share": {"mean": 0.9}}})
    assert json.loads((tmp_path / "p.json").read_text())["strength"]["random"]["win_share"]["mean"] == 0.9
    assert load_policy(tmp_path / "p.safetensors").name == "p"


def test_bad_checkpoints_are_one_clear_line(tmp_path: Path) -> None:
    good = tmp_path / "good.safetensors"
    policy_file(good)
    content = good.read_bytes()

    def refused(path: Path, message: str, **wanted: str) -> None:
        with pytest.raises(CheckpointError, match=message) as caught:
            load_policy(path, **wanted)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)

    def written(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    refused(tmp_path / "none.safetensors", "there is no such file")
    for cut in (0, 5, 300, len(content) - 1):
        refused(written("cut.safetensors", content[:cut]), "damaged, cut short")
    refused(written("text.safetensors", b"these are not the weights you are looking for\n" * 9), "no safetensors file")
    foreign = safetensors.torch.save({"w": torch.ones(2)})
    refused(written("foreign.safetensors", foreign), "not one of undertake's")
    foreign = safetensors.torch.save({"w": torch.ones(2)}, {"undertake": "7"})
    refused(written("seven.safetensors", foreign), "not one of undertake's")
    refused(good, "its game is 'no_thanks', 'six_nimmt' is wanted", game="six_nimmt")
    refused(good, "its view is 'recall', 'table' is wanted", view="table")

    tensors, card = checkpoint.read(good, "policy")
    changed = tmp_path / "changed.safetensors"
    checkpoint.save(changed, tensors, "policy", {**card, "observation": {"cards": [0, 230]}})
    refused(changed, "an observation that this version no longer has")
    checkpoint.save(changed, {**tensors, "more": torch.ones(1)}, "policy", card)
    refused(changed, "do not fit each other")
    checkpoint.save(changed, tensors, "policy", {"game": "no_thanks"})
    refused(changed, "do not fit each other")
    checkpoint.save(changed, tensors, "run", card)
    refused(changed, "it holds a run, a policy is wanted")
    checkpoint.save(changed, tensors, "policy", {**card, "format": 2})
    refused(changed, "format 2, this version reads up to 1")
    assert load_policy(good).game == "no_thanks", "none of it has touched the good one"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy_file(tmp_path / "policy.safetensors")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        policy_file(tmp_path / "policy.safetensors")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_file_is_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    seen: list[bytes] = []
    really = os.fsync

    def look(descriptor: int) -> None:
        seen.append(path.read_bytes())
        really(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    write_atomically(path, b"new")
    assert seen[0] == b"old", "the new content is on disk before the name is given to it"
    assert path.read_bytes() == b"new"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
