"""The command line: `undertake train | evaluate | bench | ...`. Each command is imported when it is called for.

So measuring scripted agents needs no torch, and a command stays unlisted where its code is not installed.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence

__all__ = ["main"]

_COMMANDS = {
    "train": ("undertake_training.train", "train a policy by self-play"),
    "train-sb3": ("undertake_training.sb3", "train stable-baselines3's MaskablePPO in one seat against policies"),
    "evaluate": ("undertake.arena.cli", "measure an agent in fields of others, over the same deals in every seat"),
    "benchmark": ("undertake.arena.benchmark_cli", "measure an agent by the whole protocol; the leaderboard"),
    "export": ("undertake_training.export", "write a trained policy as ONNX, to be played without torch"),
    "best-response": (
        "undertake_training.best_response",
        "learn how much a policy can be exploited, on a fixed budget",
    ),
    "bench": ("undertake_training.bench", "measure the speed of the engine, or of the trainer, on this machine"),
}
"""Command: the module whose `main(arguments) -> exit code` is the command, and what it does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 1 failed, 2 called wrongly, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands = {name: entry for name, entry in _COMMANDS.items() if _exists(entry[0])}
    if not given or given[0] in ("-h", "--help", "help"):
        print(_usage(commands), file=sys.stdout if given else sys.stderr)
        return 0 if given else 2
    if given[0] in ("-V", "--version"):
        import undertake

        print(f"undertake {undertake.__version__}")
        return 0
    if given[0] not in commands:
        near = difflib.get_close_matches(given[0], commands, 1, 0.0)[0]
        print(
            f"undertake: no command {given[0]!r}, there are {', '.join(commands)}; did you mean {near}?",
            file=sys.stderr,
        )
        return 2
    try:
        command: Callable[[list[str]], int] = importlib.import_module(commands[given[0]][0]).main
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("undertake", "undertake_training"):
            raise
        extra = f"pip install 'undertake[{'sb3' if given[0] == 'train-sb3' else 'train'}]'"
        print(f"undertake {given[0]} needs the package {error.name!r}: {extra}", file=sys.stderr)
        return 1
    try:
        return command(given[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _usage(commands: dict[str, tuple[str, str]]) -> str:
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in commands.items())
    return f"usage: undertake COMMAND ... (--help after a command explains it)\n\n{listed}"
