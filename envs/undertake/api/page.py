"""The environments' pages are the docstrings of `no_thanks_v0` and `six_nimmt_v0`; this writes their tables of slices.

`python -m undertake.api.page` brings the tables up to date with the layouts, and a test fails while they are not. What
the modules use to complain of a keyword that does not exist is here too.
"""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

from undertake.core.files import write_atomically
from undertake.core.game import GAMES, VIEWS, Game, check_names, get_game
from undertake.core.layout import Layout

__all__ = ["observation_table", "state_table", "strict_names", "updated"]

P = ParamSpec("P")
R = TypeVar("R")

_WIDTH = 120
_INDENT = " " * 4


def strict_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let a call with an unknown keyword raise TypeError in one line that names the nearest one."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        check_names("keyword", keywords, known)
        return function(*arguments, **keywords)

    return call


def observation_table(game: Game) -> str:
    """The slices of the observation vector in either view, as indented text."""
    return _table({f'view="{view}"': game.layouts[view] for view in VIEWS})


def state_table(game: Game) -> str:
    """The slices of the state vector, as indented text."""
    return _table({"state()": game.whole_layout})


def _table(layouts: Mapping[str, Layout]) -> str:
    """A line a slice: where it lies in each vector, its shape, the count that is 1.0, its meaning."""
    longest = max(layouts.values(), key=lambda layout: layout.size)
    rows = [["slice", *layouts, "shape", "1.0 is", "meaning"]]
    rows.append(["all", *(f"0:{layout.size}" for layout in layouts.values()), "", "", ""])
    for item in longest.features:
        places = [layout.slices.get(item.name) for layout in layouts.values()]
        where = [f"{place.start}:{place.stop}" if place else "-" for place in places]
        rows.append([item.name, *where, " x ".join(map(str, item.shape)), str(item.highest), item.meaning])
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        start = _INDENT + "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        lines += textwrap.wrap(row[-1], _WIDTH, initial_indent=start, subsequent_indent=" " * len(start)) or [start]
    return "\n".join(line.rstrip() for line in lines)


def updated(source: str, game: Game) -> str:
    """The source of a game's module with its two tables as they should be; ValueError where it has none."""
    for table in (observation_table(game), state_table(game)):
        head = table.splitlines()[0].split()[:2]
        lines = source.splitlines()
        begin = next((i for i, line in enumerate(lines) if line.split()[:2] == head), None)
        if begin is None:
            raise ValueError(f"the page of {game.name} has no table that begins with {' '.join(head)!r}")
        end = begin
        while lines[end].startswith(_INDENT):
            end += 1
        source = "\n".join([*lines[:begin], table, *lines[end:]]) + "\n"
    return source


def main() -> None:
    """Rewrite the tables in the modules of both games."""
    for name in GAMES:
        path = Path(__file__).resolve().parents[1] / f"{name}_v0.py"
        old = path.read_text(encoding="utf-8")
        new = updated(old, get_game(name))
        if new != old:
            write_atomically(path, new.encode())
        print(f"{path.name}: {'rewritten' if new != old else 'up to date'}", file=sys.stderr)


if __name__ == "__main__":
    main()
