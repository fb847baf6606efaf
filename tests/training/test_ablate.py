"""Studies of single choices: what a study asks for, what it gathers, and runs of other settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from undertake_training import ablate, config
from undertake_training.config import ConfigError

BASE = """
decisions: 1000
measure: {fields: [random, tuned], every: 1000, deals: 2}
"""
STUDY = """
base: base.yaml
seeds: 3
settings: {ppo: {average: 0.9}}
variants:
  no average: {ppo: {average: 0.0}}
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ablate.Study:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "small.yaml").write_text(STUDY)
    return ablate.read_study(tmp_path / "small.yaml")


def finish(run: config.Config, tuned: float) -> None:
    """What a finished run leaves: its settings and the last line of its log."""
    run.folder.mkdir(parents=True)
    run.folder.with_suffix(".yaml").write_text(config.write(run))
    line = {"decisions": 1000, "win_share/random": 0.5, "win_share/tuned": tuned}
    (run.folder / "log.jsonl").write_text(json.dumps(line) + "\n")


def test_a_variant_differs_from_the_base_in_its_one_choice(study: ablate.Study) -> None:
    averages = {key: run.ppo.average for key, run in study.runs.items()}
    assert averages == {
        (name, seed): average for name, average in (("base", 0.9), ("no average", 0.0)) for seed in range(3)
    }
    assert all(run.seed == seed and run.decisions == 1000 for (_, seed), run in study.runs.items())


def test_differences_are_taken_seed_by_seed(study: ablate.Study) -> None:
    for (name, seed), run in study.runs.items():
        finish(run, 0.2 if name == "base" else 0.4 + 0.2 * seed)
    found = ablate.collect(study)["variants"]["no average"]["difference"]
    # The means of the two fields differ by .1, .2 and .3: deviation .1, and Student's t of two degrees is 4.303.
    half = 4.303 * 0.1 / 3**0.5
    assert found == pytest.approx({"mean": 0.2, "low": 0.2 - half, "high": 0.2 + half}, abs=1e-3)


def test_runs_of_other_settings_are_refused_and_finished_ones_left(study: ablate.Study) -> None:
    runs = iter(study.runs.values())
    same, other = next(runs), next(runs)
    finish(same, 0.2)
    ablate.train(same)
    finish(other, 0.2)
    settings = other.folder.with_suffix(".yaml")
    settings.write_text(settings.read_text().replace("decisions: 1000", "decisions: 999"))
    with pytest.raises(ConfigError, match="it was trained with other settings than the study has now"):
        ablate.train(other)
