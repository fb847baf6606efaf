"""The measured tables of the README and other pages are those of the reports; the README's Python runs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_measured_tables_are_generated_from_the_reports() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    parts = generate.sections()
    games = ("no_thanks", "six_nimmt")
    assert set(parts) == {"bench", *(f"{what}_{game}" for what in ("demo", "champion") for game in games)}
    assert generate.filled(README, parts) == README
    training = (ROOT / "docs" / "training.md").read_text()
    assert generate.filled(training, generate.training_sections()) == training
    cards = (ROOT / "checkpoints" / "README.md").read_text()
    assert generate.filled(cards, {"cards": generate.card_table(), "sizes": generate.size_table()}) == cards


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_python_in_the_readme_runs(code: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_files_that_the_readme_links_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
