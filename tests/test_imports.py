"""Imports point one way, and `import undertake` stays light."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GAMES = ("no_thanks", "six_nimmt")
HEAVY = ("numba", "torch", "pygame")

# Each part of the house and the parts that it may import, itself aside. A file of a game belongs to the part named by
# its own name up to the first underscore: `bots_tuned.py` lies with `bots.py`.
PARTS: dict[str, set[str]] = {
    "core": set(),
    "api": {"core", "arena", "search"},
    "arena": {"core", "api", "search"},
    "search": {"core", "api", "arena"},
    "exact": {"core", "arena"},
    "undertake_training": {"core", "api", "arena", "search", "exact", "undertake"},
}
for _game in GAMES:
    PARTS[f"{_game}.rules"] = {"core"}
    PARTS[f"{_game}.options"] = {"core", f"{_game}.rules"}
    PARTS[f"{_game}.view"] = {"core", f"{_game}.rules"}
    PARTS[f"{_game}.hidden"] = {"core", f"{_game}.rules"}
    PARTS[f"{_game}.bots"] = {"core", f"{_game}.rules", f"{_game}.view"}
    PARTS[f"{_game}.render"] = {"core", f"{_game}.rules", f"{_game}.view"}
    PARTS[_game] = {"core", *(part for part in PARTS if part.startswith(f"{_game}."))}
    PARTS[f"{_game}_v0"] = {"core", "api", _game, *PARTS[_game]}
PARTS["undertake"] = set(PARTS) - {"undertake_training"}  # the package itself: what it offers, it looks up late


def test_importing_undertake_is_light() -> None:
    code = f"import sys, undertake; print(undertake.__file__); print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "envs")},
        capture_output=True,
        text=True,
        check=True,
    )
    file, loaded = done.stdout.splitlines()
    assert Path(file) == ROOT / "envs" / "undertake" / "__init__.py"
    assert loaded == "[]"


def test_imports_point_one_way() -> None:
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("envs/undertake/core/game.py", "import undertake.no_thanks.rules"),
        ("envs/undertake/core/game.py", "from undertake.no_thanks import rules"),
        ("envs/undertake/core/game.py", "from ..no_thanks.rules import deal"),
        ("envs/undertake/core/game.py", "from undertake import no_thanks_v0"),
        ("envs/undertake/core/game.py", "import undertake"),
        ("envs/undertake/core/batch.py", "from undertake import make_policy"),
        ("envs/undertake/core/batch.py", "from undertake.arena import play"),
        ("envs/undertake/no_thanks/rules.py", "from undertake.no_thanks.view import see"),
        ("envs/undertake/no_thanks/rules.py", "from .view import see"),
        ("envs/undertake/no_thanks/rules.py", "from undertake import no_thanks"),
        ("envs/undertake/no_thanks/view.py", "from undertake.no_thanks import bots"),
        ("envs/undertake/no_thanks/view_encode.py", "from undertake.no_thanks import bots_tuned"),
        ("envs/undertake/no_thanks/bots.py", "from undertake.no_thanks.render import text"),
        ("envs/undertake/no_thanks/bots.py", "from undertake.six_nimmt.rules import deal"),
        ("envs/undertake/no_thanks/bots.py", "from undertake.arena import play"),
        ("envs/undertake/no_thanks/helpers.py", "import math"),
        ("envs/undertake/no_thanks_v0.py", "from undertake.six_nimmt import rules"),
        ("envs/undertake/no_thanks_v0.py", "from undertake import six_nimmt_v0"),
        ("envs/undertake/no_thanks_v0.py", "from undertake.arena import play"),
        ("envs/undertake/api/aec.py", "from undertake.no_thanks.rules import deal"),
        ("envs/undertake/api/aec.py", "def f():\n    from undertake import no_thanks_v0"),
        ("envs/undertake/search/rollout.py", "import undertake_training.network"),
        ("envs/undertake/arena/play.py", "import torch"),
        ("envs/undertake/arena/play.py", "def f():\n    from torch.nn import Linear"),
        ("envs/undertake/arena/play.py", "import importlib\nimportlib.import_module('torch.nn')"),
        ("envs/undertake/odd.py", "import math"),
        ("training/undertake_training/ppo.py", "from undertake.six_nimmt.view import see"),
        ("training/undertake_training/ppo.py", "from undertake import six_nimmt_v0"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, line: str) -> None:
    plant(tmp_path, file, line)
    found = violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(file)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("envs/undertake/__init__.py", "def f():\n    from undertake import no_thanks_v0"),
        ("envs/undertake/core/batch.py", "from undertake import __version__\nfrom undertake.core import game"),
        ("envs/undertake/core/batch.py", "from .game import deal"),
        ("envs/undertake/core/game.py", "import importlib\nimportlib.import_module('undertake.no_thanks')"),
        ("envs/undertake/no_thanks/bots.py", "from undertake.no_thanks.rules import deal\nfrom .view import see"),
        ("envs/undertake/no_thanks/bots.py", "from undertake.no_thanks import bots_tuned"),
        ("envs/undertake/no_thanks/__init__.py", "from undertake.no_thanks import bots, render, rules, view"),
        ("envs/undertake/no_thanks_v0.py", "from undertake.api import aec\nfrom undertake.no_thanks import rules"),
        ("envs/undertake/arena/play.py", "from undertake.search import rollout\nfrom undertake.core import game"),
        ("training/undertake_training/ppo.py", "import torch\nimport undertake\nfrom undertake import make_batch"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, file: str, line: str) -> None:
    plant(tmp_path, file, line)
    assert violations(tmp_path) == []


def plant(root: Path, file: str, text: str) -> None:
    """A small project in which every part has a file, with `text` in `file`."""
    files = [
        "envs/undertake/__init__.py",
        "envs/undertake/core/game.py",
        *(f"envs/undertake/{game}/__init__.py" for game in GAMES),
        *(f"envs/undertake/{game}/{name}.py" for game in GAMES for name in ("rules", "view", "bots", "render")),
        "envs/undertake/no_thanks/bots_tuned.py",
        *(f"envs/undertake/{game}_v0.py" for game in GAMES),
        *(f"envs/undertake/{package}/__init__.py" for package in ("api", "arena", "search")),
        "training/undertake_training/__init__.py",
    ]
    for name in {*files, file}:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text if name == file else "", encoding="utf-8")


def violations(root: Path) -> list[str]:
    """Every import under `root`'s envs/ and training/ that points the wrong way, as "file:line: what"."""
    found = []
    for source in ("envs", "training"):
        for path in sorted((root / source).rglob("*.py")):
            where = path.relative_to(root).as_posix()
            module = path.relative_to(root / source).with_suffix("").parts
            importer = part(module)
            if importer not in PARTS:
                found.append(f"{where}:1: belongs to no known part of the house; see PARTS in {Path(__file__).name}")
                continue
            for line, target in imports(path, module, root / "envs"):
                if not allowed(importer, target):
                    found.append(f"{where}:{line}: may not import {'.'.join(target)}")
    return found


def imports(path: Path, module: tuple[str, ...], envs: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted name of every import in the file, wherever it stands; of a `from` import, the module meant."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                target = (*base, alias.name)
                is_module = envs.joinpath(*target).is_dir() or envs.joinpath(*target).with_suffix(".py").is_file()
                yield node.lineno, target if is_module or alias.name == "__version__" else base
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name in ("import_module", "__import__") and isinstance(node.args[0], ast.Constant):
                target = tuple(str(node.args[0].value).split("."))
                # Late binding within the house is meant: core.game finds the games by name.
                if not target[0].startswith("undertake"):
                    yield node.lineno, target


def part(module: tuple[str, ...]) -> str:
    """The part of the house to which a module of ours belongs; a name outside `PARTS` where there is no such part."""
    match module:
        case ("undertake_training", *_):
            return "undertake_training"
        case ("undertake",) | ("undertake", "__init__"):
            return "undertake"
        case ("undertake", game, name, *_) if game in GAMES and name != "__init__":
            return f"{game}.{name.split('_')[0]}"
        case _:
            return module[1]


def allowed(importer: str, target: tuple[str, ...]) -> bool:
    """Whether the design lets a module of the part `importer` import `target`."""
    if target[0] not in ("undertake", "undertake_training"):
        return target[0] != "torch" or importer == "undertake_training"
    return part(target) in PARTS[importer] | {importer} or target == ("undertake", "__version__")
