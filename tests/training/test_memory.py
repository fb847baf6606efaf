"""Policies that remember: what is stacked at the training tables, who may sit there, and what their card says."""

from __future__ import annotations

import collections
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from undertake.arena import play
from undertake.core.batch import make_batch
from undertake.core.game import get_game
from undertake.core.memory import Memory
from undertake_training import checkpoint, export, ppo
from undertake_training import run as runs
from undertake_training.checkpoint import CheckpointError, load_policy
from undertake_training.config import Config, ConfigError, Log, Network, Opponents, from_mapping, load
from undertake_training.opponents import make_cast
from undertake_training.remembering import ARMS, arms, rewritten
from undertake_training.rollout import SPARE
from undertake_training.tables import Tables

ROOT = Path(__file__).resolve().parents[2]
REMEMBERED = {
    "no_thanks": Memory(("card_number", "pot", "price"), 3),
    "six_nimmt": Memory(("unseen", "tricks_left"), 2),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "no_thanks": {"lowest": 3, "highest": 14, "removed": 2, "chips": 4},
    "six_nimmt": {"length": "hand"},
}


def tiny(game: str = "no_thanks", **changes: Any) -> Config:
    settings = Config(
        game=game,
        num_players=3,
        view="table",
        memory=REMEMBERED[game],
        options=OPTIONS[game],
        decisions=2 * 32 * 8,
        tables=32,
        steps=8,
        threads=1,
        network=Network(hidden=(8,)),
        log=Log(tensorboard=False),
    )
    return replace(settings, **changes)


@pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])
def test_what_is_stacked_is_what_the_seat_saw_when_it_decided_before(game: str) -> None:
    """Against lists of what each seat saw, at tables where bots sit too and end games by themselves."""
    memory, count, players = REMEMBERED[game], 48, 3
    batch = make_batch(game, num_envs=count, num_players=players, view="table", observe=False, seed=5, **OPTIONS[game])
    layout, network = batch.game.layouts["table"], runs.start(tiny(game)).network
    opponents = Opponents(policies=("random", "past"), fields=0.4, mixed=0.4)
    cast = make_cast(batch.game, opponents, "table", network, memory)
    at = Tables(batch, cast, fields=0.4, mixed=0.4, seed=6, memory=memory)
    columns = [i for name in memory.slices for i in range(layout.slices[name].start, layout.slices[name].stop)]
    size = layout.size + memory.decisions * len(columns)
    seen: dict[tuple[int, int], list[npt.NDArray[Any]]] = collections.defaultdict(list)
    rng, ended, full = np.random.default_rng(1), 0, 0
    for _ in range(90):
        looked = np.full((count + SPARE, size), 255, np.uint8)[:count]
        mask = np.zeros((count + SPARE, batch.num_actions), np.int8)[:count]
        at.look(looked, mask, np.zeros((count, 0), np.uint8))
        now = batch.observe(at.seat)[0]
        for b in range(count):
            past = [now[b], *(each[columns] for each in reversed(seen[b, int(at.seat[b])][-memory.decisions :]))]
            expected = np.concatenate([*past, np.zeros(size, np.uint8)])[:size]
            assert np.array_equal(looked[b], expected)
            full += len(past) == 1 + memory.decisions
            seen[b, int(at.seat[b])].append(now[b])
        at.step(np.array([rng.choice(np.flatnonzero(each)) for each in mask], np.int64))
        for ending in np.flatnonzero(at.done):
            ended += 1
            for seat in range(players):
                seen[int(ending), seat].clear()
    assert ended > count / 2
    assert full > 200


def test_a_run_remembers_learns_and_says_so_on_its_card(tmp_path: Path) -> None:
    run = runs.start(tiny(opponents=Opponents(("past", "tuned"), fields=0.4, mixed=0.4, past_every=256)))
    ppo.train(run, tmp_path)
    layout, memory = get_game("no_thanks").layouts["table"], REMEMBERED["no_thanks"]
    assert run.network.shape.num_features == layout.size + 3 * (1 + 1 + 7)
    assert run.memory.observation[:, layout.size :].any(), "the past is among what is learned from"
    again = layout.slices["price"].start
    assert torch.equal(run.network.scale[-7:], run.network.scale[again : again + 7])
    policy = load_policy(tmp_path)
    assert policy.memory == memory
    assert policy.card["memory"] == {"slices": ["card_number", "pot", "price"], "decisions": 3}


def test_a_policy_of_an_observation_alone_has_no_memory_on_its_card(tmp_path: Path) -> None:
    runs.save(runs.start(tiny(memory=Memory())), tmp_path)
    assert load_policy(tmp_path).memory == Memory()
    assert "memory" not in load_policy(tmp_path).card


def test_a_card_whose_memory_does_not_fit_is_refused(tmp_path: Path) -> None:
    run = runs.start(tiny())
    for wrong in ({"slices": ["pot"], "decisions": 3}, {"slices": ["pots"], "decisions": 3}, {"slices": 1}):
        checkpoint.save_policy(tmp_path / "policy.safetensors", run.policy, {**runs.card(run), "memory": wrong})
        with pytest.raises(CheckpointError, match="its card and its weights do not fit each other"):
            load_policy(tmp_path)


def test_opponents_may_remember_less_and_not_otherwise(tmp_path: Path) -> None:
    def opponent(memory: Memory) -> dict[str, Any]:
        folder = tmp_path / f"{memory.decisions}-{'-'.join(memory.slices)}"
        folder.mkdir()
        runs.save(runs.start(tiny(memory=memory)), folder)
        return {"opponents": Opponents((f"checkpoint:{folder}",), fields=1.0, mixed=0.0)}

    for memory in (Memory(), Memory(("card_number", "pot", "price"), 2), REMEMBERED["no_thanks"]):
        assert ppo.advance(runs.start(tiny(**opponent(memory))))["learned_from"] > 0
    for memory in (Memory(("card_number", "pot", "price"), 4), Memory(("pot",), 1)):
        with pytest.raises(ConfigError, match=rf"remembers .* at {memory.decisions} decisions, the policy .* at 3"):
            runs.start(tiny(**opponent(memory)))


def test_settings_that_cannot_be_are_one_line() -> None:
    with pytest.raises(ConfigError, match=r"memory\.slices: .*'prise'; allowed are .*; did you mean 'price'\?"):
        runs.start(tiny(memory=Memory(("prise",), 2)))
    with pytest.raises(ConfigError, match=r"memory\.decisions: 0 is not allowed, 1 to 1000"):
        from_mapping({"memory": {"slices": ["pot"]}})
    with pytest.raises(ConfigError, match=r"memory\.slices: the names of the slices to be remembered are wanted"):
        from_mapping({"memory": {"decisions": 2}})
    assert from_mapping(json.loads('{"memory": {"slices": ["pot"], "decisions": 2}}')).memory == Memory(("pot",), 2)


@pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])
def test_what_is_compared_differs_in_view_and_memory_alone(game: str) -> None:
    settings = load(ROOT / "configs" / "table" / f"{game}.yaml")
    found = {arm: (each.view, each.memory.decisions > 0) for arm, each in arms(settings, 5).items()}
    assert found == {"alone": ("table", False), "memory": ("table", True), "recall": ("recall", False)}
    for each in arms(settings, 5).values():
        assert replace(each, view="table", memory=settings.memory, name="", seed=0) == replace(settings, name="")
        runs.start(replace(each, tables=2))


def test_the_page_says_what_was_measured() -> None:
    page, measured = (ROOT / "docs" / name for name in ("training.md", "measured/memory.json"))
    found = json.loads(measured.read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert rewritten(text, found) == text, "write it again with python -m undertake_training.remembering"
    assert {arm for each in found.values() for arm in each["arms"]} == set(ARMS)


@pytest.mark.slow
def test_an_onnx_file_remembers_as_its_checkpoint_does(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    runs.save(runs.start(tiny(greedy=True)), tmp_path)
    exported = tmp_path / "policy.onnx"
    assert export.main([f"checkpoint:{tmp_path}", "--onnx", str(exported)]) == 0
    ours, theirs = (
        play("no_thanks", [name, "tuned", name], deals=20, view="table", **OPTIONS["no_thanks"]).scores
        for name in (f"checkpoint:{tmp_path}", f"onnx:{exported}")
    )
    assert np.array_equal(ours, theirs)
