"""Train with RLlib's PPO in self-play, on this machine or on a Ray cluster, and measure the policy in the arena.

    python -m undertake_training.rllib --game six_nimmt --iterations 50 --evaluate random,closest_gap
    python -m undertake_training.rllib --address 10.0.0.1:6379 --runners 16
    python -m undertake_training.rllib --resume runs/rllib-six_nimmt-4p-seed0 --iterations 100

A run's folder holds the policy as the arena and `undertake` take it (`checkpoint:FOLDER`), the settings, a line of
figures an iteration, and RLlib's own checkpoint, from which it goes on. Needs the extra [rllib].
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from ray.rllib.algorithms.ppo import PPO

from undertake import arena
from undertake.arena.backends import connect_ray
from undertake.arena.report import print_report
from undertake.core.files import write_atomically
from undertake_training import checkpoint
from undertake_training.checkpoint import CheckpointError
from undertake_training.rllib_setup import MODULE, Settings, check, make_config, network_of

__all__ = ["Arguments", "Settings", "main", "measure", "train"]

_SETTINGS, _LOG = "run.json", "log.jsonl"
_KEPT = "rllib-"  # and the number of the iteration: RLlib's own checkpoints
_MAY_CHANGE = ("iterations", "runners", "tables", "checkpoint_every")


@dataclass(frozen=True)
class Arguments:
    """Train a policy with RLlib's PPO in self-play, one masked network in all seats."""

    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """The Ray cluster to use, "auto" for one that runs on this machine; None: Ray is started and ended here."""
    folder: Path | None = None
    """Folder of the run; runs/rllib-GAME-..., with a number if it is taken, if not given."""
    resume: Path | None = None
    """Folder of a run to go on with: only iterations, runners, tables and checkpoint-every may change."""
    evaluate: Annotated[str, tyro.conf.arg(metavar="POLICY,...")] = ""
    """Measure the policy at the end in fields of these, by commas, or "all": the blocks of deals are Ray tasks too."""
    deals: int = 1024
    """Test deals of that measurement."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0 done, 1 failed, 2 called wrongly, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    logging.getLogger("ray.rllib").setLevel(logging.ERROR)  # else every run is told that the new API stack is in use
    try:
        return _run(given)
    except (ValueError, TypeError) as error:
        print(f"rllib: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"rllib: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as reason:
        print(str(reason) or "interrupted", file=sys.stderr)
        return 130


def _run(given: list[str]) -> int:
    known = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    known.add_argument("--resume", type=Path)
    before = known.parse_known_args(given)[0].resume
    stored = _read_settings(before) if before else Settings()
    asked = tyro.cli(Arguments, prog="python -m undertake_training.rllib", args=given,
                     default=Arguments(settings=stored))  # fmt: skip
    settings = asked.settings
    check(settings)
    for name in asked.evaluate.split(",") if asked.evaluate not in ("", "all") else ():
        arena.make_policy(name.strip(), settings.game)
    if before:
        _check_same(stored, settings)
        folder = before
    else:
        folder = _new_folder(asked.folder, settings)
    ray, connected = connect_ray(max(settings.runners, 1), asked.address)
    try:
        print(f"{'resuming' if before else 'training'} in {folder}", file=sys.stderr)
        train(settings, folder)
        if asked.evaluate:
            report = measure(settings, folder, asked.evaluate, asked.deals)
            print_report(report)
    finally:
        if connected:
            ray.shutdown()
    return 0


def train(settings: Settings, folder: Path) -> None:
    """Train up to `settings.iterations`, going on from the folder's last checkpoint if it holds one; Ray must run.

    Ctrl-C ends it after the iteration that runs, with a checkpoint, and raises KeyboardInterrupt in one line; a
    second one at once. Raises CheckpointError where the checkpoint cannot be read.
    """
    torch.set_num_threads(1)  # the learner's, in this process: its small steps gain nothing from more
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(settings), indent=2) + "\n"
    write_atomically(folder / _SETTINGS, text.encode())
    algorithm: PPO = make_config(settings).build_algo()
    try:
        last = _last_checkpoint(folder)
        if last is not None:
            _restore(algorithm, last)
        with _interruptible() as interrupted:
            while algorithm.iteration < settings.iterations and not interrupted:
                _iterate(algorithm, settings, folder)
                left = settings.iterations - algorithm.iteration
                if interrupted or left <= 0 or algorithm.iteration % settings.checkpoint_every == 0:
                    _save(algorithm, settings, folder)
        if interrupted and algorithm.iteration < settings.iterations:
            raise KeyboardInterrupt(
                f"interrupted after iteration {algorithm.iteration} of {settings.iterations}; "
                f"--resume {folder} goes on from there"
            )
    finally:
        algorithm.stop()


def measure(settings: Settings, folder: Path, fields: str, deals: int) -> arena.Report:
    """Measure the folder's policy by the protocol, on test deals, as tasks of the Ray that runs; noted on its card."""
    report = arena.evaluate(
        settings.game,
        f"checkpoint:{folder}",
        fields,
        num_players=settings.num_players,
        deals=deals,
        deal_set="test",
        view=settings.view,
        backend="ray",
        **settings.options,
    )
    checkpoint.add_strength(folder / checkpoint.POLICY, report.to_json())
    return report


def _iterate(algorithm: PPO, settings: Settings, folder: Path) -> None:
    """One iteration, its line on the terminal and in the log."""
    begun = time.monotonic()
    result = algorithm.train()
    seconds = time.monotonic() - begun
    sampled, learned = result["env_runners"], result["learners"][MODULE]
    line = {
        "iteration": algorithm.iteration,
        "env_steps": int(sampled["num_env_steps_sampled_lifetime"]),
        "env_steps_per_second": round(float(sampled["num_env_steps_sampled"]) / seconds, 1),
        "episode_length": round(float(sampled["episode_len_mean"]), 2),
        **{name: round(float(learned[name]), 5) for name in ("entropy", "policy_loss", "vf_loss", "vf_explained_var")},
    }
    with (folder / _LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
    left = (settings.iterations - algorithm.iteration) * seconds
    print(
        f"iteration {line['iteration']}/{settings.iterations} · {line['env_steps']:,} steps, "
        f"{line['env_steps_per_second']:,.0f} a second · {line['episode_length']:.1f} an episode · "
        f"entropy {line['entropy']:.3f} · value loss {line['vf_loss']:.3f}, "
        f"explained {line['vf_explained_var']:.2f} · {left / 60:.0f} min left",
        file=sys.stderr,
        flush=True,
    )


def _save(algorithm: PPO, settings: Settings, folder: Path) -> None:
    """The policy with its card, and RLlib's checkpoint; the older checkpoint goes when the new one is whole."""
    network = network_of(algorithm)
    steps = algorithm.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0)
    card = checkpoint.make_card(
        game=settings.game,
        num_players=settings.num_players,
        view=settings.view,
        options=settings.options,
        network=network,
        config={"trainer": "rllib", **dataclasses.asdict(settings)},
        decisions=int(steps),
        seed=settings.seed,
    )
    checkpoint.save_policy(folder / checkpoint.POLICY, network, card)
    whole = folder / f"{_KEPT}{algorithm.iteration:06d}"
    partial = folder / f".{whole.name}.tmp"
    shutil.rmtree(partial, ignore_errors=True)
    algorithm.save_to_path(partial.resolve(), use_msgpack=True)
    shutil.rmtree(whole, ignore_errors=True)
    partial.rename(whole)
    for other in folder.glob(f"{_KEPT}*"):
        if other != whole:
            shutil.rmtree(other, ignore_errors=True)


def _last_checkpoint(folder: Path) -> Path | None:
    return max(folder.glob(f"{_KEPT}*"), default=None)


def _restore(algorithm: PPO, path: Path) -> None:
    try:
        algorithm.restore_from_path(path.resolve())
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"checkpoint {path}: {str(error).strip().partition(chr(10))[0]}") from error


@contextlib.contextmanager
def _interruptible() -> Iterator[list[int]]:
    """A list that the first Ctrl-C fills; the second acts as it always does."""
    caught: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, before)
        print("ending after this iteration; Ctrl-C again ends at once", file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, note)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, before)


def _read_settings(folder: Path) -> Settings:
    """The settings of a run; raises CheckpointError where the folder holds none."""
    path = folder / _SETTINGS
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return Settings(**values)
    except FileNotFoundError:
        raise CheckpointError(f"--resume {folder}: there is no run in it, {_SETTINGS} is missing") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not the settings of a run: {error}") from None


def _check_same(stored: Settings, asked: Settings) -> None:
    for each in dataclasses.fields(Settings):
        old, new = getattr(stored, each.name), getattr(asked, each.name)
        if old != new and each.name not in _MAY_CHANGE:
            raise ValueError(f"{each.name} is {new!r}; the run to go on with has {old!r}, and this may not change")


def _new_folder(given: Path | None, settings: Settings) -> Path:
    folder = given or Path("runs") / f"rllib-{settings.game}-{settings.num_players}p-seed{settings.seed}"
    if given is not None and (given / _SETTINGS).exists():
        raise ValueError(f"folder {given} holds a run already; --resume {given} goes on with it")
    first, number = folder, 1
    while given is None and folder.exists():
        number += 1
        folder = first.with_name(f"{first.name}-{number}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
