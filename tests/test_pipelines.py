"""The driver of the pipelines' tests, and that each pipeline has its page; the tests themselves are not run here."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import page, run

ROOT = Path(__file__).resolve().parents[1]


def test_every_pipeline_has_a_test_and_a_page_with_one_script() -> None:
    assert {"agilerl", "openspiel", "pufferlib", "rllib", "tianshou", "torchrl"} <= set(run.pipelines())
    index = (page.PAGES / "README.md").read_text(encoding="utf-8")
    for name in run.pipelines():
        assert list((run.HERE / name).glob("test_*.py")), name
        compile(page.script(name), name, "exec")
        assert f"({name}.md)" in index


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    command = [sys.executable, str(ROOT / "tests" / "pipelines" / "run.py"), "torchlr"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean 'torchrl'?" in done.stderr


def test_a_change_of_what_a_test_sees_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "HERE", tmp_path / "tests" / "pipelines")
    watched = ["envs/undertake/core/rng.py", "tests/pipelines/some/test_some.py", "docs/pipelines/some.md"]
    for file in (*watched, *run.SEEN, "docs/pipelines/other.md", "envs/__pycache__/rng.pyc"):
        if Path(file).suffix:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text("first")
        else:
            (tmp_path / file).mkdir(parents=True, exist_ok=True)
    before = run.seen("some")
    for file in ("docs/pipelines/other.md", "envs/__pycache__/rng.pyc"):
        (tmp_path / file).write_text("second")
    assert run.seen("some") == before
    for file in watched:
        (tmp_path / file).write_text("second")
        after = run.seen("some")
        assert after != before, file
        before = after


def test_a_command_that_takes_too_long_is_ended() -> None:
    assert run.call(sys.executable, "-c", "import time; time.sleep(600)", limit=0.5) == 124
    assert run.call(sys.executable, "-c", "raise SystemExit(3)") == 3
