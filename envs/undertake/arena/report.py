"""What a measurement looks like: a table, CSV, and a progress bar while it is made.

rich is imported when it is needed; without it the table is plain text.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from undertake.arena.evaluation import Report
from undertake.arena.statistics import METRICS, Estimate
from undertake.core.files import write_atomically
from undertake.core.game import get_game

__all__ = ["machine", "print_report", "print_table", "progress_bar", "write_csv"]

COLUMNS = (*METRICS, "invasion")

_MEAN = "mean of the fields"


def print_report(report: Report) -> None:
    """Print the table of one agent's fields, with 95 % intervals, and the headline below it."""
    setting = report.setting
    n = report.num_players
    rows = [[cell.field, *(str(cell.estimates[name]) for name in COLUMNS)] for cell in report.cells]
    if len(report.cells) > 1:
        rows.append([_MEAN, *(str(report.pool[name]) for name in COLUMNS)])
    title = (
        f"{report.agent} · {get_game(setting.game).title} · {n} players · view {setting.view} · "
        f"{setting.deals} {setting.deal_set} deals in {n} seats each · parity {1 / n:.3f}"
    )
    print_table(title, ["in a field of", *(name.replace("_", " ") for name in COLUMNS)], rows)
    if len(report.cells) > 1:
        worst, invasive = report.worst, report.most_invasive
        print(f"win share    {report.pool['win_share']} in the mean of the fields")
        print(f"             {worst.estimates['win_share']} in the worst, {worst.field}")
        print(f"invasion     {invasive.estimates['invasion']} at most, {invasive.field} among copies of {report.agent}")
    if report.versus is not None:
        compared = [
            [cell.field, *(_signed(cell.difference[name]) for name in COLUMNS)]
            for cell in report.cells
            if cell.difference is not None
        ]
        print_table(
            f"{report.agent} less {report.versus}, on the same deals",
            ["in a field of", *(name.replace("_", " ") for name in COLUMNS)],
            compared,
        )
    print(f"intervals: 95 %, over deals · deals sha256 {report.deals_sha256}")


def _signed(value: Estimate) -> str:
    """A difference, marked where its interval leaves 0 out."""
    clear = value.low > 0 or value.high < 0
    return f"{value.mean:+z.3f} ±{value.high - value.mean:.3f}{'*' if clear else ''}"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, its first column to the left, the others to the right."""
    if importlib.util.find_spec("rich") is None:
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        print(title)
        for row in (header, *rows):
            first, *rest = (text.rjust(width) for text, width in zip(row, widths, strict=True))
            print("  ".join([first.strip().ljust(widths[0]), *rest]))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(header[0], overflow="fold", no_wrap=max(len(row[0]) for row in rows) <= 24)
    for name in header[1:]:
        table.add_column(name, justify="right")  # in a narrow window the interval goes below the mean
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == _MEAN else None)
    console = Console(highlight=False)
    # A file or a pipe has no width: nothing is to be cut there.
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)


def write_csv(reports: Sequence[Report], path: Path) -> None:
    """One line a field of each agent: what was played, then mean, low and high of every metric."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    ends = [f"{name}_{end}" for name in COLUMNS for end in Estimate._fields]
    writer.writerow(["game", "players", "agent", "field", "view", "set", "deals", "deals_sha256", *ends])
    for report in reports:
        setting = report.setting
        for cell in report.cells:
            found = cell.estimates
            writer.writerow(
                [setting.game, report.num_players, report.agent, cell.field, setting.view, setting.deal_set]
                + [setting.deals, report.deals_sha256]
                + [f"{number:.6g}" for name in COLUMNS for number in found[name]]
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode())


@contextlib.contextmanager
def progress_bar(text: str, unit: str = "games") -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on the terminal for `play` and `evaluate`: games (or another `unit`), a second, time left.

    It comes up after a second; short runs, files and pipes get none.
    """
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}, {{task.fields[speed]:,.0f}} a second"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(text, total=None, speed=0.0)
    begun = time.monotonic()
    before: list[int] = []

    def show(played: int, total: int) -> None:
        before.append(played)  # what was kept from a run before has not been played now
        passed = time.monotonic() - begun
        if passed > 1:
            bar.start()
        bar.update(task, completed=played, total=total, speed=(played - before[0]) / max(passed, 1e-9))

    try:
        yield show
    finally:
        bar.stop()


def machine() -> str:
    """The machine and its load in a line."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{name}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}, numpy {np.__version__}"
    )
