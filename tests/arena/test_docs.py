"""What the documents show, run as a reader would: the files they tell one to write, the Python, the commands."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from undertake.arena.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(document: str, language: str) -> list[str]:
    text = (DOCS / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the reader's module in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_policies", raising=False)
    (tmp_path / "my_policies.py").write_text("\n\n".join(blocks("policies.md", "python my_policies.py")))


def test_the_examples_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    shown = blocks("policies.md", "python")
    assert len(shown) == 2
    for block in shown:
        exec(compile(block, "policies.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["tuned", "half_price"]
    assert {line.split()[0] for line in lines[3:]} == {"player_0", "player_1"}


@pytest.mark.parametrize("command", [line for name in ("policies.md", "protocol.md") for block in blocks(name, "sh")
                                     for line in block.splitlines()])  # fmt: skip
def test_the_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    assert words[:2] == ["undertake", "evaluate"]
    assert main([*words[2:], "--deals", "4"]) == 0
    assert capsys.readouterr().out
