"""What a run tells: the progress bar, log.jsonl, TensorBoard files, the learning curve and report.json."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from undertake.core.files import write_atomically
from undertake.core.game import get_game
from undertake_training import config as configuration
from undertake_training.config import Config

__all__ = ["RunLog", "draw_curve", "read_log", "write_report"]

LOG = "log.jsonl"
CONFIG = "config.yaml"
CURVE = "learning_curve.png"
REPORT = "report.json"
SHARE = "win_share/"
"""What the name of a field's win share begins with in the log."""

Metrics = Mapping[str, float]


class RunLog:
    """Progress bar, JSON lines and TensorBoard of a run, open while it trains.

    A resumed run goes on with the log where its state was saved: lines of updates after that are dropped.
    """

    def __init__(self, folder: Path, config: Config, decisions: int) -> None:
        self._config, self._start, self._begun = config, decisions, time.monotonic()
        write_atomically(folder / CONFIG, configuration.write(config).encode())
        kept = [line for line in read_log(folder) if line["decisions"] <= decisions] if decisions else []
        text = "".join(json.dumps(_finite(line)) + "\n" for line in kept)
        write_atomically(folder / LOG, text.encode())
        self._file = (folder / LOG).open("a", encoding="utf-8")
        self._board: Any = None
        if config.log.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(folder / "tensorboard", purge_step=decisions or None)
        console = Console(stderr=True)
        self._tenth = -1
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}% {task.fields[speed]:>9,.0f} decisions/s"),
                TimeRemainingColumn(),
                TextColumn("left  {task.fields[note]}"),
                console=console,
            )
            self._task = self._bar.add_task(
                f"training {config.game}", total=config.decisions, completed=decisions, speed=0.0, note=""
            )

    def __enter__(self) -> RunLog:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()
        self._file.close()
        if self._board:
            self._board.close()

    def add(self, metrics: Metrics) -> None:
        """Log one update."""
        self._file.write(json.dumps(_finite(metrics)) + "\n")
        self._file.flush()
        done = int(metrics["decisions"])
        if self._board:
            for name, value in metrics.items():
                if name != "decisions" and math.isfinite(value):
                    self._board.add_scalar(name, value, done)
        speed = (done - self._start) / max(1e-9, time.monotonic() - self._begun)
        score = metrics.get("table_score", math.nan)
        note = f"mean score {score:.1f}" if math.isfinite(score) else ""
        total = self._config.decisions
        if self._bar:
            self._bar.update(self._task, completed=min(done, total), speed=speed, note=note)
        elif 10 * done // total > self._tenth:
            self._tenth = 10 * done // total
            left = max(0, total - done) / speed
            text = f"{done:,} of {total:,} decisions, {speed:,.0f} a second, {left:.0f} s left"
            print(f"{text}, {note}" if note else text, file=sys.stderr, flush=True)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's log.jsonl, oldest first; a last line cut short is left out."""
    path = folder / LOG
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not isinstance(line, dict) or "decisions" not in line:
            break
        lines.append({name: math.nan if value is None else value for name, value in line.items()})
    return lines


def write_report(folder: Path, config: Config, strength: Mapping[str, Any]) -> dict[str, Any]:
    """Write report.json: the run in figures, with `strength` as measured at its end; returns it."""
    lines = read_log(folder)
    last = lines[-1] if lines else {}
    report = {
        "game": config.game,
        "players": config.num_players,
        "view": config.view,
        "options": config.options,
        "run": config.run_name,
        "seed": config.seed,
        "decisions": last.get("decisions", 0),
        "seconds": last.get("seconds", 0.0),
        "last_update": _finite(last),
        "strength": dict(strength),
    }
    write_atomically(folder / REPORT, (json.dumps(report, indent=2) + "\n").encode())
    return report


def draw_curve(folder: Path, config: Config) -> Path | None:
    """Draw learning_curve.png from the run's log; None if nothing has been logged."""
    lines = read_log(folder)
    if not lines:
        return None
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    names = sorted({name for line in lines for name in line if name.startswith(SHARE)})
    axes = figure.subplots(1, 2 if names else 1, squeeze=False)[0]
    if names:
        for name in names:
            _plot(axes[0], lines, name, f"in a field of {name.removeprefix(SHARE)}")
        axes[0].axhline(1 / config.num_players, color="grey", linestyle="--", linewidth=1, label="parity")
        axes[0].set_ylabel(f"win share ({config.measure.deals} dev deals, all seats)")
        axes[0].set_ylim(0, None)
        axes[0].legend()
    for name, label in (("table_score", "mean of all seats"), ("winning_score", "winner")):
        _plot(axes[-1], lines, name, label)
    axes[-1].set_ylabel("final score with the policy in all seats (points)")
    axes[-1].legend()
    for axis in axes:
        axis.set_xlabel("training (million decisions)")
        axis.grid(alpha=0.3)
    figure.suptitle(
        f"{get_game(config.game).title}, {config.num_players} players, view {config.view}: {config.run_name}"
    )
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120)
    write_atomically(folder / CURVE, image.getvalue())
    return folder / CURVE


def _plot(axis: Any, lines: Sequence[Mapping[str, float]], name: str, label: str) -> None:
    points = [(line["decisions"] / 1e6, line[name]) for line in lines if math.isfinite(line.get(name, math.nan))]
    axis.plot([x for x, _ in points], [y for _, y in points], label=label, marker="." if len(points) < 40 else None)


def _finite(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN: what is not finite becomes null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in metrics.items()}
