"""Damaged checkpoints, of policies and of runs: one line that says what happened and what to do, whatever was hit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from training.test_checkpoint import policy_file
from undertake_training import checkpoint, train
from undertake_training.checkpoint import CheckpointError, load_policy, read

REMEDIES = {"policy": "use an earlier one", "run": "the run's policy.safetensors still plays, and its config.yaml"}


@pytest.fixture(params=["policy", "run"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def good(kind: str, tmp_path: Path) -> Path:
    """A checkpoint of each kind."""
    path = tmp_path / f"{kind}.safetensors"
    if kind == "policy":
        policy_file(path)
    else:
        tensors = {"network.weight": torch.arange(500.0), "generator": torch.arange(200, dtype=torch.uint8)}
        checkpoint.save(path, {**tensors, "none": torch.zeros(0), "one": torch.ones(())}, "run", {"decisions": 7})
    return path


def refused(content: bytes, path: Path, kind: str, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        read(path, kind)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"checkpoint {path}: ")


def header(content: bytes) -> int:
    """The length of all that stands before the weights: 8 bytes that count, and the JSON that they count."""
    return 8 + int.from_bytes(content[:8], "little")


def test_cut_short(good: Path, kind: str) -> None:
    content = good.read_bytes()
    start = header(content)
    for length in (0, 1, 7, 8, 9, start // 2, start - 1, start, start + 1, len(content) // 2, len(content) - 1):
        refused(content[:length], good, kind, f"damaged, cut short .*; {REMEDIES[kind]}")


def test_a_flipped_bit_in_the_weights(good: Path, kind: str) -> None:
    content = good.read_bytes()
    for place in np.random.default_rng(0).integers(header(content), len(content), 50):
        changed = bytearray(content)
        changed[place] ^= 1
        refused(bytes(changed), good, kind, f"damaged, its content is not what was written; {REMEDIES[kind]}")
    good.write_bytes(content)
    assert read(good, kind)[1]["kind"] == kind


def test_a_flipped_bit_in_the_header(good: Path, kind: str) -> None:
    """Whichever of its bytes it is: the lengths, the names, the card's text, the SHA-256 itself."""
    content = good.read_bytes()
    rng = np.random.default_rng(1)
    for place in {*range(16), *rng.integers(0, header(content), 200).tolist()}:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(7))
        refused(bytes(changed), good, kind, "damaged|not one of undertake's|format")


def test_weights_of_one_with_the_header_of_another(tmp_path: Path) -> None:
    policy_file(tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    other = content[: header(content)] + bytes(len(content) - header(content))
    refused(other, tmp_path / "b.safetensors", "policy", "its content is not what was written")


def test_numbers_that_are_not_finite(good: Path, kind: str) -> None:
    """Written by other hands, or before this was checked: safetensors' own writer takes them."""
    tensors, data = read(good, kind)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel() > 3)
    text = json.dumps(data)
    for value in (float("nan"), float("inf"), -float("inf")):
        tensors[name].view(-1)[3] = value
        content = safetensors.torch.save(tensors, {"undertake": text})
        refused(
            content,
            good,
            kind,
            f"the tensor '{name}' holds NaN or infinity, its training went astray; {REMEDIES[kind]}",
        )


def test_numbers_that_are_not_finite_are_not_written_over_good_ones(good: Path, kind: str) -> None:
    before = good.read_bytes()
    tensors, data = read(good, kind)
    tensors["one"] = torch.tensor(float("nan"))
    with pytest.raises(
        CheckpointError, match="not written, the tensor 'one' holds NaN or infinity; what was there before"
    ):
        checkpoint.save(good, tensors, kind, data)
    assert good.read_bytes() == before
    assert len([path for path in good.parent.iterdir() if path.suffix != ".json"]) == 1


def test_a_file_without_a_sha256_loads_as_before(good: Path, kind: str) -> None:
    tensors, data = read(good, kind)
    good.write_bytes(safetensors.torch.save(tensors, {"undertake": json.dumps(data)}))
    again, same = read(good, kind)
    assert same == data
    assert set(again) == set(tensors)
    assert all(torch.equal(again[name], tensors[name]) for name in again)


def test_a_run_that_cannot_go_on_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "resume.safetensors").write_bytes(b"half of")
    assert train.main(["--resume", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"undertake train: checkpoint {tmp_path / 'resume.safetensors'}: damaged, cut short")
    assert REMEDIES["run"] in line


def test_tensors_of_a_critic_are_not_asked_for_in_play(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    policy_file(path)
    tensors, card = read(path, "policy")
    checkpoint.save(path, {**tensors, "critic.weight": torch.ones(2, 2)}, "policy", card)
    assert load_policy(path).game == "no_thanks"


# The card's own file


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A policy's card, and what stands in it."""
    policy_file(tmp_path / "p.safetensors")
    return tmp_path / "p.json", json.loads((tmp_path / "p.json").read_text())


def test_a_swapped_card(pair: tuple[Path, dict[str, Any]]) -> None:
    path, card = pair
    assert load_policy(path).name == "p"
    path.write_text(json.dumps({**card, "sha256": "0" * 64}))
    with pytest.raises(
        CheckpointError, match=r"p.json: it is the card of other weights; .*header of p.safetensors"
    ) as caught:
        load_policy(path)
    assert "\n" not in str(caught.value)
    assert load_policy(path.with_suffix(".safetensors")).game == "no_thanks", "the weights carry their own"


def test_a_damaged_card(pair: tuple[Path, dict[str, Any]]) -> None:
    path, card = pair
    for text in ("", "{", json.dumps(card)[:-5], "7"):
        path.write_text(text)
        with pytest.raises(CheckpointError, match=r"p.json: the card is damaged; .*header of p.safetensors"):
            load_policy(path)
    path.unlink()
    assert load_policy(path).name == "p"


def test_a_card_of_before_names_no_weights(pair: tuple[Path, dict[str, Any]]) -> None:
    path, card = pair
    del card["sha256"]
    path.write_text(json.dumps(card))
    assert load_policy(path).name == "p"


def test_measured_strength_leaves_the_card_with_its_weights(pair: tuple[Path, dict[str, Any]]) -> None:
    path, _ = pair
    checkpoint.add_strength(path.with_suffix(".safetensors"), {"pool": 0.3})
    assert json.loads(path.read_text())["strength"] == {"pool": 0.3}
    assert load_policy(path).fingerprint == json.loads(path.read_text())["sha256"]
