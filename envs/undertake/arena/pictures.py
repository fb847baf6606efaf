"""Pictures of measurements as PNG files: the heat map of a pool, strength against the worst field, learning curves.

matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertake.arena.evaluation import Report
from undertake.core.files import write_atomically
from undertake.core.game import get_game

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "draw_heatmap", "draw_pool", "draw_strength", "read_curve"]

_SHARE = "win_share/"
_PANELS = {
    "win_share": ("win share of the agent (row)\nin a field of the other (column)", "RdBu"),
    "invasion": ("win share of one of the other (column)\namong copies of the agent (row)", "RdBu_r"),
}
"""Title and colours of a panel: blue is good for the agent."""

_COLOURS = {"scripted": "#6b7280", "policy": "#1d4ed8", "search": "#15803d"}
_MINE = "#c2410c"


def draw_heatmap(reports: Sequence[Report], path: Path) -> None:
    """Draw win shares as a PNG: agents (rows) in fields (columns), and each field's bot among the agent's copies."""
    setting = reports[0].setting
    values = {
        name: np.array([[cell.estimates[name].mean for cell in report.cells] for report in reports]) for name in _PANELS
    }
    title = (
        f"{get_game(setting.game).title}, {reports[0].num_players} players, view {setting.view}, "
        f"{setting.deals} {setting.deal_set} deals in every seat"
    )
    fields = [cell.field for cell in reports[0].cells]
    _draw_matrices(values, [report.agent for report in reports], fields, reports[0].num_players, title, path)


def draw_pool(table: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], path: Path, mine: str | None = None) -> None:
    """Draw the same from rows of the benchmark in the fields of `table`'s pool; the agent `mine` in bold."""
    fields = table["pool"]
    values = {}
    for name in _PANELS:
        cells = [{cell["field"]: cell[name]["mean"] for cell in row["cells"]} for row in rows]
        values[name] = np.array([[row.get(field, math.nan) for field in fields] for row in cells])
    title = f"{_title(table)}; the best mean over the pool on top"
    _draw_matrices(values, [row["agent"] for row in rows], fields, table["players"], title, path, mine)


def _title(table: Mapping[str, Any]) -> str:
    deals = " or ".join(table["deals_sha256"])
    return (
        f"{get_game(table['game']).title}, {table['players']} players, view {table['view']}, "
        f"{deals} {table['set']} deals in every seat"
    )


def _draw_matrices(
    panels: Mapping[str, npt.NDArray[np.float64]],
    agents: Sequence[str],
    fields: Sequence[str],
    n: int,
    title: str,
    path: Path,
    mine: str | None = None,
) -> None:
    """One heat map a panel, around parity; what is NaN is left blank."""
    from matplotlib.colors import TwoSlopeNorm

    width, height = 1.2 + 0.62 * len(fields), 1.6 + 0.36 * len(agents)
    figure = _figure(2 * width + 0.13 * max(map(len, agents)) + 1.4, height + 0.09 * max(map(len, fields)) + 0.6)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (name, values) in zip(axes, panels.items(), strict=True):
        title_above, colours = _PANELS[name]
        image = axis.imshow(values, cmap=colours, norm=TwoSlopeNorm(1 / n, 0.0, 1.0), aspect="auto")
        axis.set_facecolor("#e5e7eb")
        for row, column in np.ndindex(values.shape):
            value = values[row, column]
            if math.isnan(value):
                continue
            dark = value > 1 / n + 0.6 * (1 - 1 / n) or value < 0.3 / n
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if dark else "black", size=8)
        axis.set_xticks(range(len(fields)), fields, rotation=45, ha="right", rotation_mode="anchor", size=9)
        axis.set_yticks(range(len(agents)), agents, size=9)
        axis.set_xlabel("field")
        axis.set_title(title_above, size=10)
        bar = figure.colorbar(image, ax=axis, ticks=[0, 1 / n, 0.5, 0.75, 1], fraction=0.05, pad=0.02)
        bar.ax.set_yticklabels(["0", f"{1 / n:.2f}\nparity", "0.50", "0.75", "1"], size=8)
    for text in axes[0].get_yticklabels():
        if text.get_text() == mine:
            text.set(weight="bold", color=_MINE)
    axes[0].set_ylabel("agent")
    figure.suptitle(f"{title}\nwin share of games, ties shared; blue is good for the agent", size=11)
    _save(figure, path)


def draw_strength(
    table: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], path: Path, mine: str | None = None
) -> None:
    """Draw each agent's win share in its worst field over its mean over the pool, with 95 % intervals.

    Names stand in a column at the right, joined to their points, so that none covers another.
    """
    n = table["players"]
    figure = _figure(9.5, max(5.2, 1.2 + 0.27 * len(rows)))
    axis = figure.subplots()
    # The weakest first, as labels are spread from below.
    ordered = sorted(rows, key=lambda row: (row["worst"]["win_share"]["mean"], row["pool"]["win_share"]["mean"]))
    for row in ordered:
        mean, worst = row["pool"]["win_share"], row["worst"]["win_share"]
        colour = _MINE if row["agent"] == mine else _COLOURS[row["track"]]
        axis.errorbar(
            mean["mean"],
            worst["mean"],
            xerr=mean["high"] - mean["mean"],
            yerr=worst["high"] - worst["mean"],
            fmt="D" if row["agent"] == mine else "o",
            markersize=6 if row["agent"] == mine else 4.5,
            linewidth=1,
            color=colour,
            zorder=3,
        )
    right = 1.06 * max(max(row["pool"]["win_share"]["high"] for row in rows), 1 / n)
    top = 1.12 * max(max(row["worst"]["win_share"]["high"] for row in rows), 1 / n)
    low = 0.02  # of the axes, below 0: for points that lie there
    axis.set_xlim(-low * right, right)
    axis.set_ylim(-low * top, top)
    for draw in (axis.axhline, axis.axvline):
        draw(1 / n, color="black", linestyle="--", linewidth=0.8, zorder=1)
    axis.text(0, 1 / n, f"parity {1 / n:.2f}", va="bottom", size=8)
    wanted = [(row["worst"]["win_share"]["mean"] / top + low) / (1 + low) for row in ordered]
    heights = _spread(wanted, min(0.045, 0.97 / len(rows)))
    for row, height in zip(ordered, heights, strict=True):
        colour = _MINE if row["agent"] == mine else _COLOURS[row["track"]]
        axis.annotate(
            f"{row['agent']}  (worst: {row['worst']['field']})",
            (row["pool"]["win_share"]["mean"], row["worst"]["win_share"]["mean"]),
            (1.03, height),
            textcoords="axes fraction",
            va="center",
            size=8.5,
            color=colour,
            weight="bold" if row["agent"] == mine else "normal",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "relpos": (0, 0.5), "color": colour, "alpha": 0.45, "linewidth": 0.7},
        )
    axis.set_xlabel("win share, mean over the fields of the pool")
    axis.set_ylabel("win share in the worst field")
    axis.grid(alpha=0.25)
    tracks = [track for track in _COLOURS if any(row["track"] == track and row["agent"] != mine for row in rows)]
    for track in tracks:
        axis.plot([], [], "o", color=_COLOURS[track], label={"policy": "policy, one forward pass"}.get(track, track))
    if mine is not None:
        axis.plot([], [], "D", color=_MINE, label=mine)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8.5, frameon=False)
    figure.suptitle(f"{_title(table)}\n95 % intervals over deals; up and to the right is stronger", size=10.5)
    _save(figure, path)


def _spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Heights in [0, 1], in the ascending order of `wanted` and near to it, at least `gap` apart."""
    found = list(wanted)
    for i in range(1, len(found)):
        found[i] = max(found[i], found[i - 1] + gap)
    if found:
        found[-1] = min(found[-1], 0.99)
    for i in range(len(found) - 2, -1, -1):
        found[i] = min(found[i], found[i + 1] - gap)
    return found


def read_curve(path: Path) -> list[dict[str, Any]]:
    """The lines of a training log (JSON lines) that hold win shares; empty where there is no such file.

    What is no such line, a last one cut short say, is left out.
    """
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "decisions" in line and any(name.startswith(_SHARE) for name in line):
            found.append(line)
    return found


def draw_curves(lines: Sequence[Mapping[str, Any]], players: int, title: str, path: Path) -> None:
    """Draw the win share in each field over the decisions of training, from the lines that `read_curve` gives."""
    names = list(dict.fromkeys(name for line in lines for name in line if name.startswith(_SHARE)))
    curves = {
        name.removeprefix(_SHARE): [
            (line["decisions"] / 1e6, line[name])
            for line in lines
            if isinstance(line.get(name), int | float) and math.isfinite(line[name])
        ]
        for name in names
    }
    curves = {name: points for name, points in curves.items() if points}
    from matplotlib import colormaps

    figure = _figure(9.5, 5.2)
    axis = figure.subplots()
    last = sorted(curves, key=lambda name: curves[name][-1][1])
    top = 1.06 * max([1 / players, *(y for points in curves.values() for _, y in points)])
    heights = _spread([curves[name][-1][1] / top for name in last], min(0.045, 0.96 / max(1, len(last))))
    for i, (name, height) in enumerate(zip(last, heights, strict=True)):
        colour = colormaps["tab10"](i % 10)
        x, y = zip(*curves[name], strict=True)
        axis.plot(
            x, y, color=colour, linestyle="-" if i < 10 else "--", linewidth=1.5, marker="." if len(x) < 40 else None
        )
        axis.annotate(
            f"{name}  {y[-1]:.2f}",
            (x[-1], y[-1]),
            (1.03, height),
            textcoords="axes fraction",
            va="center",
            size=8.5,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "relpos": (0, 0.5), "color": colour, "alpha": 0.5, "linewidth": 0.7},
        )
    axis.axhline(1 / players, color="black", linestyle="--", linewidth=0.8, zorder=1)
    axis.annotate(
        f"parity {1 / players:.2f}", (0.004, 1 / players), xycoords=("axes fraction", "data"), va="bottom", size=8
    )
    axis.set_xlim(0, None)
    axis.set_ylim(0, top)
    axis.set_xlabel("training (million decisions)")
    axis.set_ylabel("win share of the policy in a field of")
    axis.grid(alpha=0.25)
    figure.suptitle(f"{title}: measured while it was trained, on dev deals", size=10.5)
    _save(figure, path)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> None:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())
