"""The policies in `checkpoints/`: they load, say how they were made, and beat parity where their cards say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from undertake import arena
from undertake_training import config
from undertake_training.checkpoint import load_policy

ROOT = Path(__file__).resolve().parents[2]
GAMES: dict[str, dict[str, Any]] = {"no_thanks": {}, "six_nimmt": {"length": "hand"}}


@pytest.mark.parametrize("game", GAMES)
def test_a_card_names_the_shipped_config(game: str) -> None:
    card = load_policy(ROOT / "checkpoints" / f"demo-{game}.safetensors").card
    shipped = config.load(ROOT / "configs" / "demo" / f"{game}.yaml")
    assert (card["game"], card["num_players"], card["view"]) == (game, 4, "recall")
    assert card["decisions"] >= shipped.decisions
    assert card["seed"] == shipped.seed
    strength = json.loads((ROOT / "checkpoints" / f"demo-{game}.json").read_text())["strength"]
    assert (strength["game"], strength["set"]) == (game, "test")
    assert "random" in strength["fields"]


@pytest.mark.parametrize(("game", "field"), [("no_thanks", "milker_win"), ("six_nimmt", "random")])
def test_a_shipped_policy_beats_parity(game: str, field: str) -> None:
    policy = f"checkpoint:{ROOT / 'checkpoints' / f'demo-{game}.safetensors'}"
    report = arena.evaluate(game, policy, [field], num_players=4, deals=256, deal_set="dev", **GAMES[game])
    assert report.cells[0].estimates["win_share"].low > 0.25
