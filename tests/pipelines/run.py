"""Test the pipelines, each in an environment of its own. Needs the standard library alone.

    python tests/pipelines/run.py                    # all
    python tests/pipelines/run.py torchrl tianshou   # these
    python tests/pipelines/run.py --again torchrl    # even if nothing has changed since it passed

A pipeline is a folder beside this file: `requirements.txt`, exact versions, and tests; where a package's own pins are
too narrow, `requirements-no-deps.txt` names it instead, to be installed without what it asks for. The environment is
made in `.pipelines/NAME` (or under the folder that UNDERTAKE_PIPELINES names: a continuous integration keeps one) and
made anew when the versions change. A pipeline that passed is not tested again until something that its test can see
has changed.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = Path(os.environ.get("UNDERTAKE_PIPELINES") or ROOT / ".pipelines").resolve()
BIN = "Scripts" if os.name == "nt" else "bin"
LIMIT = 1200  # seconds, for the tests of one pipeline: one that hangs must not hold up the others
BUILD = ("hatchling", "editables")  # what installing the project in place needs; versions as in constraints.txt
SEEN = ("envs", "training", "configs", "checkpoints", "pyproject.toml", "tests/pipelines/page.py",
        "tests/pipelines/pytest.ini", "tests/pipelines/run.py")  # fmt: skip


def pipelines() -> list[str]:
    """The names of all pipelines."""
    return sorted(path.parent.name for path in HERE.glob("*/requirements.txt"))


def digest(*parts: str | Path) -> str:
    """SHA-256 over texts and over files by name and content, those of a folder in the order of their names."""
    total = hashlib.sha256(sys.version.encode())
    for part in parts:
        for name, content in [("", part.encode())] if isinstance(part, str) else _files(part):
            total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(ROOT).as_posix(), file.read_bytes()


def seen(name: str) -> str:
    """The digest of all that the test of a pipeline can see."""
    return digest(*(ROOT / path for path in SEEN), HERE / name, ROOT / "docs" / "pipelines" / f"{name}.md")


def note(file: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    temporary = file.with_name(f"{file.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


def holds(file: Path, text: str) -> bool:
    """Whether the file is there and says just that."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_text(encoding="utf-8") == text
    return False


def call(*command: str | Path, limit: float | None = None) -> int:
    """Run a command from the repository's root with nothing of the caller's Python; 124 where it took too long."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    environment.update(OMP_NUM_THREADS="1", MPLBACKEND="Agg", SDL_VIDEODRIVER="dummy", SDL_AUDIODRIVER="dummy")
    process = subprocess.Popen(list(command), cwd=ROOT, env=environment, start_new_session=os.name != "nt")
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        # After the limit or a Ctrl-C: the command and what it started, which may be many processes.
        if process.poll() is None:
            if os.name == "nt":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def install(name: str) -> tuple[Path, bool]:
    """The Python of the pipeline's environment, made where it is missing or its versions changed; whether it failed."""
    folder = HOME / name
    python = folder / BIN / "python"
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    build = [pin for pin in pins if pin.partition("==")[0] in BUILD]
    wanted = [HERE / name / "requirements.txt", *(HERE / name).glob("requirements-no-deps.txt")]
    made = digest(*wanted, *build)

    def pip(*words: str | Path) -> int:
        # Twice quiet: errors alone.
        return call(python, "-m", "pip", "--disable-pip-version-check", "install", "-qq", *words)

    if not holds(folder / "made", made):
        if folder.exists():
            shutil.rmtree(folder)
        failed = call(sys.executable, "-m", "venv", folder) or pip("-r", wanted[0], *build)
        if failed or any(pip("--no-deps", "-r", file) for file in wanted[1:]):
            return python, True
        note(folder / "made", made)
    # Every time: the environment may have been made for a checkout that lies elsewhere.
    return python, bool(pip("--no-deps", "--no-build-isolation", "--editable", ROOT))


def test(name: str, again: bool) -> str:
    """Test one pipeline and say how it went: a line that begins with "failed" where it did."""
    passed, tested = HOME / name / "passed", seen(name)
    if holds(passed, tested) and not again:
        return "unchanged since it passed"
    passed.unlink(missing_ok=True)
    print(f"== {name} ==", flush=True)
    begun = time.monotonic()
    python, failed = install(name)
    if failed:
        return f"failed: its environment in {HOME / name} could not be made"
    ready = time.monotonic()
    code = call(python, "-m", "pytest", "-c", HERE / "pytest.ini", "--rootdir", ROOT, HERE / name, limit=LIMIT)
    spent = f"environment {ready - begun:.0f} s, tests {time.monotonic() - ready:.0f} s"
    if code:
        return f"failed: {'too slow' if code == 124 else f'exit status {code}'}; {spent}"
    note(passed, tested)
    return f"passed; {spent}"


def main() -> int:
    """Test the pipelines named, or all; 1 where one failed, 2 where one does not exist, 130 if interrupted."""
    parser = argparse.ArgumentParser(description="Test the pipelines, each in an environment of its own.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(pipelines())}; default: all")
    parser.add_argument("--again", action="store_true", help="test even what has not changed since it passed")
    given = parser.parse_args()
    for name in given.names:
        if name not in pipelines():
            near = difflib.get_close_matches(name, pipelines(), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            print(f"no pipeline is called {name!r}; there are {', '.join(pipelines())}{hint}", file=sys.stderr)
            return 2
    results = {}
    for name in given.names or pipelines():
        try:
            results[name] = test(name, given.again)
        except KeyboardInterrupt:
            return 130
        print(f"{name}: {results[name]}", flush=True)
    failed = [name for name, result in results.items() if result.startswith("failed")]
    if len(results) > 1:
        print("\nPipelines\n" + "\n".join(f"  {name:<12}{result}" for name, result in results.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
