"""`undertake evaluate`: the measuring protocol on the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from undertake.arena.backends import connected, make_backend
from undertake.arena.evaluation import Report, evaluate
from undertake.arena.pictures import draw_heatmap
from undertake.arena.policy import make_policy
from undertake.arena.report import print_report, progress_bar, write_csv
from undertake.core.game import GAMES, check_choice, check_names, get_game

__all__ = ["Arguments", "Playing", "evaluate_command", "exit_code", "main", "prepare", "read_options"]


@dataclass(frozen=True)
class Playing:
    """How and where the games are played, whatever is measured."""

    view: Literal["recall", "table"] = "recall"
    """What everybody sees: the table view is a track of its own."""
    processes: int = 1
    """Worker processes; the results are the same. With --backend ray the CPUs of the Ray that is started."""
    backend: Literal["serial", "processes", "ray"] | None = None
    """Where the games are played. None: in this process, or in worker processes if there are several."""
    ray_address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """The Ray cluster to join, "auto" for one that runs on this machine; None: Ray is started and ended here."""
    trust: bool = False
    """Open zips of stable-baselines3 (sb3:PATH): they hold pickles, which can run any code when they are opened."""


@dataclass(frozen=True)
class Arguments:
    """Measure an agent in fields of others, in every seat of the same deals, and one of each field among its copies.

    A policy is a bot's name, checkpoint:PATH or package.module:attribute.
    """

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
    """no_thanks or six_nimmt."""
    agent: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="POLICY")]
    """The policy measured. Several, by commas or by more of this option, are measured in turn; "all": all bots."""
    field: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="POLICY")] = ()
    """What plays all the other seats; several as with agent. None, or "all": each of the scripted baselines in turn."""
    versus: Annotated[str | None, tyro.conf.arg(metavar="POLICY")] = None
    """Another agent, compared in the same fields on the same deals, by differences."""
    players: int = 4
    """Players at the table."""
    deals: int = 4096
    """Deals; each is played once in every seat."""
    set: Literal["dev", "test"] = "dev"
    """Deals for tuning and choosing, or the others, for reporting."""
    option: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """A rule of the game, as name=value; 6 nimmt! is one hand unless length=match."""
    json: bool = False
    """Print JSON: an object, or with several agents a list."""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the figures to this file as well."""
    heatmap: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Draw win shares, agents by fields, to this PNG file."""
    keep: Path = Path("runs/arena")
    """Folder for finished blocks while it runs: what is interrupted goes on from there."""
    playing: tyro.conf.OmitArgPrefixes[Playing] = Playing()


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code: 0 done, 1 failed, 2 called wrongly, 130 interrupted."""
    prepare()
    asked = tyro.cli(Arguments, prog="undertake evaluate", args=list(arguments))
    return exit_code("undertake evaluate", lambda: evaluate_command(asked))


def prepare() -> None:
    """What a process that plays users' policies needs before their modules are imported."""
    # A policy's own threads would fight over the cores with the other processes; read when torch is first imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if str(Path.cwd()) not in sys.path:  # so that a user's module where the command is called is found
        sys.path.insert(0, str(Path.cwd()))


def exit_code(command: str, run: Callable[[], int], hint: Callable[[OSError], str] = lambda error: "") -> int:
    """What `run` returns; what it raises becomes one line on stderr and an exit code: 1 failed, 2 called wrongly, 130.

    `hint` says what to do about a file that cannot be written. An error that was raised inside a user's policy goes
    through, as who wrote it needs to see where.
    """
    try:
        return run()
    except (ValueError, TypeError) as error:
        if getattr(error, "__notes__", None):
            raise
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{command}: {error.filename or ''}: {error.strerror or error}{hint(error)}", file=sys.stderr)
        return 1
    except BrokenExecutor as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as reason:
        print(str(reason) or "interrupted", file=sys.stderr)
        return 130


def evaluate_command(asked: Arguments) -> int:
    """Measure what is asked for and print, write and draw it; returns the exit code.

    Raises what `evaluate` raises, and OSError where a file cannot be written.
    """
    check_choice("game", asked.game, GAMES)
    for path in (asked.csv, asked.heatmap):
        _check_writable(path)
    if asked.heatmap is not None and importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--heatmap needs the package 'matplotlib': pip install 'undertake[report]'")
    options = read_options(asked.option, asked.game)
    names = [part.strip() for each in asked.agent for part in each.split(",")]
    every = [bot for name in names for bot in (get_game(asked.game).bots if name == "all" else [name])]
    # All of them first: a slip of the pen shows at once.
    agents = [make_policy(name, asked.game, trust=asked.playing.trust) for name in every]
    fields = [_vouched(part.strip(), asked) for each in asked.field for part in each.split(",")]
    reports: list[Report] = []
    backend = make_backend(asked.playing.backend, asked.playing.processes, asked.playing.ray_address)
    with connected(backend) if len(agents) > 1 else contextlib.nullcontext():
        for agent in agents:
            with progress_bar(agent.name) as progress:
                reports.append(
                    evaluate(
                        asked.game,
                        agent,
                        fields or ("all",),
                        versus=asked.versus and _vouched(asked.versus, asked),
                        num_players=asked.players,
                        deals=asked.deals,
                        deal_set=asked.set,
                        view=asked.playing.view,
                        processes=asked.playing.processes,
                        backend=asked.playing.backend,
                        ray_address=asked.playing.ray_address,
                        keep=asked.keep,
                        progress=progress,
                        **options,
                    )
                )
            if not asked.json:
                print_report(reports[-1])
    if asked.json:
        found = [report.to_json() for report in reports]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    if asked.csv is not None:
        write_csv(reports, asked.csv)
    if asked.heatmap is not None:
        draw_heatmap(reports, asked.heatmap)
    return 0


def _vouched(name: str, asked: Arguments) -> Any:
    """A name, or under --trust the policy of a file that asks for it."""
    return make_policy(name, asked.game, trust=True) if asked.playing.trust and name.startswith("sb3:") else name


def _check_writable(path: Path | None) -> None:
    """Say before the work, not after it, that its result could not be written."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def read_options(given: Sequence[str], game: str) -> dict[str, Any]:
    """The game's options from texts name=value; raises ValueError in one line for one that there is not."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise ValueError(f"option {each!r}: name=value is needed")
        known = [field.name for field in dataclasses.fields(get_game(game).options)]
        check_names(f"option of {game}", [name], [each for each in known if each != "num_players"])
        found[name] = {"true": True, "false": False, "none": None}.get(text.lower(), text)
        if text.lstrip("-").isdecimal():
            found[name] = int(text)
    return found
