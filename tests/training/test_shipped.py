"""The policies in `checkpoints/`: they load by name, say how they were made, and travel with the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from undertake import arena, make_policy
from undertake.arena import cli, trained
from undertake.core.game import get_game
from undertake_training import config
from undertake_training.checkpoint import load_policy, read

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: dict[str, dict[str, Any]] = {"no_thanks": {}, "six_nimmt": {"length": "hand"}}
SHIPPED = sorted(path.relative_to(ROOT / "checkpoints") for path in (ROOT / "checkpoints").glob("*/*.safetensors"))
"""GAME/NAME.safetensors of each: the policy GAME/NAME, made by configs/NAME/GAME.yaml."""

parametrized = pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.with_suffix("").as_posix())


@parametrized
def test_a_name_finds_it(path: Path) -> None:
    game, name = path.parent.name, path.stem
    for policy in (make_policy(f"{game}/{name}"), make_policy(name, game), make_policy(f"{game}/{name}", game)):
        assert (policy.name, policy.source, policy.game) == (name, f"{game}/{name}", game)
        assert (
            policy.fingerprint == json.loads((ROOT / "checkpoints" / path).with_suffix(".json").read_text())["sha256"]
        )
    assert name not in get_game(game).bots, "a bot's name would go before it"


def test_the_demos_are_among_them() -> None:
    assert {Path("no_thanks/demo.safetensors"), Path("six_nimmt/demo.safetensors")} <= set(SHIPPED)


@parametrized
def test_a_card_is_that_of_its_weights_and_of_a_shipped_config(path: Path) -> None:
    file = ROOT / "checkpoints" / path
    assert file.stat().st_size < 8e6
    beside = json.loads(file.with_suffix(".json").read_text())
    inside = read(file, "policy")[1]
    assert {key: beside[key] for key in inside if key not in ("kind", "strength")} == {
        key: value for key, value in inside.items() if key not in ("kind", "strength")
    }
    assert re.fullmatch("[0-9a-f]{40}", beside["commit"]), "trained at a state of the sources that can be had again"
    made_by = config.load(ROOT / "configs" / path.stem / f"{path.parent.name}.yaml")
    wanted = {"game": path.parent.name, "num_players": 4, "seed": made_by.seed, "decisions": made_by.decisions}
    assert wanted.items() <= beside["config"].items()
    assert beside["decisions"] > 0
    assert (beside["game"], beside["view"]) == (path.parent.name, made_by.view)
    strength = beside["strength"]
    assert (strength["game"], strength["set"]) == (path.parent.name, "test")
    assert "random" in strength["fields"]


@pytest.mark.parametrize(("game", "field"), [("no_thanks", "milker_win"), ("six_nimmt", "random")])
def test_a_demo_beats_parity(game: str, field: str) -> None:
    report = arena.evaluate(game, "demo", [field], num_players=4, deals=256, deal_set="dev", **OPTIONS[game])
    assert report.cells[0].estimates["win_share"].low > 0.25


def test_the_command_line_takes_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["no_thanks", "--agent", "demo", "--field", "tuned", "--deals", "4", "--json", "--keep", str(tmp_path)]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["agent"] == "demo"


def test_a_swapped_card_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    game = tmp_path / "no_thanks"
    game.mkdir()
    for source, name in (("no_thanks/demo.safetensors", "p.safetensors"), ("six_nimmt/demo.json", "p.json")):
        (game / name).write_bytes((ROOT / "checkpoints" / source).read_bytes())
    monkeypatch.setattr(trained, "shipped", lambda _game: {"p": game / "p.json"})
    with pytest.raises(ValueError, match=r"p.json: it is the card of other weights"):
        make_policy("no_thanks/p")
    assert load_policy(game / "p.safetensors").game == "no_thanks"


def test_a_wheel_carries_them(tmp_path: Path) -> None:
    """Built as pip builds it, unpacked as pip unpacks it, and asked in a process that sees nothing of this checkout."""
    pytest.importorskip("hatchling", reason="needs the extra [dev]")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        file.extractall(tmp_path / "site")
    assert {f"undertake_training/checkpoints/{path.as_posix()}" for path in SHIPPED} <= set(names)
    code = "import undertake, undertake_training as t; print(undertake.make_policy('no_thanks/demo').game, t.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["no_thanks", str(tmp_path / "site" / "undertake_training" / "__init__.py")], (
        done.stderr
    )
