"""The example of a pipeline: the one Python block of its page, `docs/pipelines/NAME.md`, run as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["run", "script"]

PAGES = Path(__file__).resolve().parents[2] / "docs" / "pipelines"


def script(name: str) -> str:
    """The script of the pipeline's page; raises ValueError where the page has not exactly one ```python block."""
    page = PAGES / f"{name}.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        raise ValueError(f"{page.name} has {len(blocks)} Python blocks; one is needed")
    return str(blocks[0])


def run(name: str, folder: Path, *arguments: str, seconds: float = 600) -> str:
    """Paste the script into a file in `folder`, run it there with this Python, and return what it prints.

    Raises AssertionError with the end of its output where it fails, subprocess.TimeoutExpired where it takes longer
    than `seconds`.
    """
    file = folder / f"{name}_example.py"
    file.write_text(script(name), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, file.name, *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"the script of {name}.md ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout
