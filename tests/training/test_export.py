"""`undertake export`: an ONNX file plays what its checkpoint plays, without torch, and says so where it can't."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import undertake
from undertake.arena import PolicyError, make_policy, play, trained
from undertake.arena.trained import OnnxPolicy, pick
from undertake.core.game import get_game
from undertake_training import checkpoint, export, network

onnx = pytest.importorskip("onnx", reason="needs the extra [onnx]")
pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
pytest.importorskip("onnxscript", reason="needs the extra [onnx]")

OPTIONS: dict[str, dict[str, Any]] = {"no_thanks": {}, "six_nimmt": {"length": "hand"}}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a game's demo policy; torch's exporter takes seconds, so each is written once."""
    folder = tmp_path_factory.mktemp("onnx")

    def file(game: str) -> Path:
        path = folder / f"{game}.onnx"
        if not path.exists():
            assert export.main([f"{game}/demo", "--onnx", str(path)]) == 0
        return path

    return file


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file of a greedy policy, to be damaged."""
    layout = get_game("no_thanks").layouts["recall"]
    net = network.build(network.Shape(layout.size, 3, (8,), 2), torch.from_numpy(layout.scale.copy()), seed=1)
    of = {"game": "no_thanks", "num_players": 4, "view": "recall", "options": {}, "greedy": True}
    card = checkpoint.make_card(**of, network=net, config={}, decisions=5, seed=1)  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("small") / "small.onnx"
    policy = checkpoint.CheckpointPolicy(net, card, "small", greedy=True)
    path.write_bytes(export.to_onnx(policy))
    return path


def target(name: str) -> Any:
    return make_policy(name).target.__self__  # type: ignore[union-attr]


@pytest.mark.parametrize("game", OPTIONS)
def test_it_plays_the_same_moves_over_ten_thousand_decisions(game: str, exported: Callable[[str], Path]) -> None:
    """Greedy, and drawn with the same uniform numbers, at 64 tables that play whole games one after another."""
    ours, theirs = target(f"{game}/demo"), target(f"onnx:{exported(game)}")
    batch = undertake.make_batch(game, num_envs=64, seed=1, view="recall", num_players=4, **OPTIONS[game])
    rng, same = np.random.default_rng(7), np.random.default_rng(7)
    chosen = []
    for _ in range(160):
        observation, mask = batch.observation * batch.scale, batch.action_mask.copy()
        actions = ours.act(observation, mask, rng)
        np.testing.assert_array_equal(theirs.act(observation, mask, same), actions)
        before, after = ours.log_probs(observation, mask), theirs.log_probs(observation, mask)
        np.testing.assert_array_equal(pick(after, same, greedy=True), pick(before, rng, greedy=True))
        np.testing.assert_allclose(np.exp(after), np.exp(before), rtol=0, atol=1e-5)
        chosen.append(actions)
        batch.step(actions)
    assert np.size(chosen) == 10_240
    assert len(np.unique(chosen)) > (1 if game == "no_thanks" else 50), "the moves are of many kinds"


def test_it_plays_at_a_table_without_torch(exported: Callable[[str], Path]) -> None:
    """A match in a process that cannot import torch, with the same result as the checkpoint's here."""
    name = f"onnx:{exported('no_thanks')}"
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import undertake\n"
        f"match = undertake.arena.play('no_thanks', [{name!r}, 'tuned'], deals=4)\n"
        "assert not [name for name in sys.modules if name.startswith('undertake_training')]\n"
        "print(match.scores.tolist())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "envs"), str(ROOT / "training")])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = play("no_thanks", ["no_thanks/demo", "tuned"], deals=4)
    assert json.loads(done.stdout) == expected.scores.tolist()


def test_any_number_of_tables_at_once(small: Path) -> None:
    policy = target(f"onnx:{small}")
    observation = np.random.default_rng(0).random((1000, policy_width(policy)), np.float32)
    mask = np.tile(np.array([1, 1, 0], np.int8), (1000, 1))
    together = policy.log_probs(observation, mask)
    assert together.shape == (1000, 3)
    np.testing.assert_allclose(policy.log_probs(observation[:1], mask[:1]), together[:1], atol=1e-5)
    told = policy.probabilities(observation, mask)
    assert (told.sum(axis=1) == 1).all(), "a greedy policy is certain"
    actions = policy.act(observation, mask, np.random.default_rng(0))
    np.testing.assert_array_equal(told.argmax(axis=1), actions)


def policy_width(policy: Any) -> int:
    return get_game(policy.game).layouts[policy.view].size


def test_the_file_says_what_it_is_and_nothing_of_the_machine(small: Path) -> None:
    model = onnx.load(small)
    onnx.checker.check_model(model, full_check=True)
    shapes = {}
    for part in (*model.graph.input, *model.graph.output):
        dims = part.type.tensor_type.shape.dim
        shapes[part.name] = (part.type.tensor_type.elem_type, [dim.dim_param or dim.dim_value for dim in dims])
    kind = onnx.TensorProto
    assert shapes == {
        "observation": (kind.FLOAT, ["B", get_game("no_thanks").layouts["recall"].size]),
        "action_mask": (kind.INT8, ["B", 3]),
        "log_probs": (kind.FLOAT, ["B", 3]),
        "values": (kind.FLOAT, ["B", 2]),
    }
    (entry,) = model.metadata_props
    card = json.loads(entry.value)
    assert entry.key == "undertake"
    assert {"format": 1, "game": "no_thanks", "view": "recall", "greedy": True, "name": "small"}.items() <= card.items()
    assert str(ROOT).encode() not in small.read_bytes()


def refused(path: Path, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        make_policy(f"onnx:{path}")
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_damaged_file_is_one_clear_line(small: Path, tmp_path: Path) -> None:
    good, bad = small.read_bytes(), tmp_path / "bad.onnx"
    for length in (0, 1, 100, len(good) // 2, len(good) - 1):
        bad.write_bytes(good[:length])
        refused(
            bad, "damaged, cut short or not written by 'undertake export'; write it again with|its content is not what"
        )
    for place in np.random.default_rng(0).integers(0, len(good), 200):
        changed = bytearray(good)
        changed[place] ^= 0x10
        bad.write_bytes(changed)
        refused(bad, "damaged")
    bad.write_bytes(good)
    assert make_policy(f"onnx:{bad}").game == "no_thanks"
    refused(tmp_path, "Is a directory")


def test_a_file_that_is_not_ours_is_one_clear_line(small: Path, tmp_path: Path) -> None:
    path, model = tmp_path / "other.onnx", onnx.load(small)
    card = json.loads(model.metadata_props[0].value)

    def write(**changes: Any) -> None:
        model.metadata_props[0].value = json.dumps({**card, **changes})
        path.write_bytes(trained.stamp(model.SerializeToString()))

    write()
    assert make_policy(f"onnx:{path}").game == "no_thanks"
    write(observation={"cards": [0, 230]})
    refused(path, "trained on an observation that this version no longer has")
    write(game="bridge")
    refused(path, "its card is not one of undertake's")
    write(format=2)
    refused(path, "format 2, this version reads up to 1")
    model.graph.node[0].op_type = "Unheard"
    write()
    refused(path, "this onnxruntime cannot run it: .*Unheard")
    model.metadata_props[0].key = "somebody"
    model.graph.CopyFrom(onnx.load(small).graph)
    write()
    refused(path, "its card is not one of undertake's")
    model.ClearField("metadata_props")
    path.write_bytes(model.SerializeToString())
    refused(path, "not written by 'undertake export'")
    with pytest.raises(PolicyError, match="plays no_thanks; the game here is six_nimmt"):
        make_policy(f"onnx:{small}", "six_nimmt")


def test_content_is_not_run_before_it_is_checked(small: Path) -> None:
    """The SHA-256 comes first: a runtime that fails whatever it is given is never asked."""
    content = bytearray(small.read_bytes())
    content[len(content) // 2] ^= 1
    with pytest.raises(PolicyError, match="its content is not what was written"):
        OnnxPolicy(bytes(content), "x", runtime=None)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["no_thanks/tuned", "--onnx", "x.onnx"], 2, "policy 'no_thanks/tuned' is no checkpoint"),
        (["no_thanks/dmo", "--onnx", "x.onnx"], 2, "did you mean 'demo'?"),
        (["checkpoint:none.safetensors", "--onnx", "x.onnx"], 2, "there is no such file"),
        (["no_thanks/demo", "--onnx", "no/such/folder/x.onnx"], 1, "No such file or directory"),
    ],
)
def test_what_cannot_be_exported_is_one_clear_line(
    words: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(export, "to_onnx", lambda _policy: b"content")
    assert export.main(words) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("undertake export: ")
    assert message in line
    assert not list(tmp_path.iterdir())


def test_the_example_in_the_documentation(
    exported: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "checkpoints" / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("demo.onnx").write_bytes(exported("no_thanks").read_bytes())
    exec(compile(code, "checkpoints/README.md", "exec"), {})
    shown = [float(number) for number in re.findall(r"[-+0-9.e]+", capsys.readouterr().out)]
    assert len(shown) == 3 + 2
    assert sum(shown[:3]) == pytest.approx(1, abs=2e-3)
    assert shown[2] == 0, "nobody may wait"


def test_without_the_exporter_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert export.main(["no_thanks/demo", "--onnx", "x.onnx"]) == 1
    assert "'onnxscript': pip install 'undertake[train,onnx]'" in capsys.readouterr().err
