"""Where blocks are played changes nothing: the same report to the last bit, also where workers die. Ray's part is in
tests/pipelines/rllib."""

import json
import os
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena import mortal
from undertake.arena import BLOCK, Policy, evaluate, play
from undertake.arena.backends import RETRIES, make_backend
from undertake.arena.cli import main

HERE = "arena.user_policies:"


def report(**settings: Any) -> str:
    found = evaluate("six_nimmt", HERE + "Drawing", "closest_gap", deals=BLOCK + 7, **settings)
    return json.dumps(found.to_json())


def test_backends_give_the_same_report_to_the_last_bit() -> None:
    expected = report()
    assert report(backend="serial") == expected
    assert report(backend="processes") == expected
    assert report(backend="processes", processes=2) == expected


def test_no_deal_is_lost_with_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lineup = ["arena.mortal:Mortal", "random", "tuned"]
    mortal.prepare(0)
    expected = play("no_thanks", lineup, deals=5 * BLOCK).scores
    mortal.prepare(2)
    played: list[int] = []
    found = play("no_thanks", lineup, deals=5 * BLOCK, processes=2, progress=lambda done, _: played.append(done))
    assert mortal.died() == 2
    np.testing.assert_array_equal(found.scores, expected)
    assert played == [3 * BLOCK * block for block in range(6)], "every block counts once"


def test_workers_that_always_die_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mortal.prepare(1000)
    with pytest.raises(BrokenExecutor, match=f"died {RETRIES + 1} times in a row without ending a block"):
        play("no_thanks", ["arena.mortal:Mortal", "random"], deals=2 * BLOCK, backend="processes")
    assert mortal.died() == RETRIES + 1


def test_a_policys_mistake_in_a_worker_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block is played by the caller; this one errs in the others only."""
    (tmp_path / "errs_elsewhere.py").write_text(
        f"import os\n\ndef act(observation, mask):\n    return 1 if os.getpid() == {os.getpid()} else 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"'errs_elsewhere:act': action 2 \(wait\) is illegal"):
        play("no_thanks", ["errs_elsewhere:act", "random"], deals=2 * BLOCK, processes=2)


def test_a_policy_that_changes_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that finds another file at the same name must not mix its games with those of the first."""
    module = tmp_path / "changes_meanwhile.py"
    module.write_text("def act(observation, mask):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def change(played: int, total: int) -> None:
        module.write_text("def act(observation, mask):\n    return 1 - mask[0]\n")

    with pytest.raises(ValueError, match="'changes_meanwhile:act' is another one for the worker"):
        play("no_thanks", ["changes_meanwhile:act", "random"], deals=2 * BLOCK, processes=2, progress=change)


def test_the_backend_follows_from_what_is_given() -> None:
    assert make_backend().name == "serial"
    assert make_backend(processes=3).name == "processes"
    assert make_backend(ray_address="auto").name == "ray"
    assert make_backend("processes").processes == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backend": "rya"}, "backend is 'rya'; allowed are 'serial', 'processes', 'ray'; did you mean 'ray'?"),
        ({"backend": "serial", "processes": 2}, "processes is 2; the backend 'serial' has 1"),
        ({"backend": "processes", "ray_address": "auto"}, "ray_address is 'auto'; it goes with the backend 'ray'"),
        ({"backend": "processes", "processes": 300}, "processes is 300; allowed is 1 to 256, nearest 256"),
    ],
)
def test_what_does_not_go_together_is_one_clear_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="is") as caught:
        play("no_thanks", ["random", "random"], deals=2, **given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_object_stays_in_this_process_for_every_other_backend() -> None:
    policy = Policy("mine", target=lambda observation, mask: 1)
    for backend in ("processes", "ray"):
        with pytest.raises(ValueError, match="'mine' was given as an object, which stays in one process"):
            play("no_thanks", [policy, "random"], deals=2, backend=backend)


def test_without_ray_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    arguments = "no_thanks --agent tuned --field random --backend ray --deals"
    assert main([*arguments.split(), str(2 * BLOCK)]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line == "undertake evaluate: the backend 'ray' needs the package 'ray': pip install 'ray>=2.60'"
