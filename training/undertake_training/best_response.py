"""How much a policy can be exploited: a best response learned against frozen copies of it, on a fixed budget.

The response sits in one seat, frozen copies of the policy in all others. It begins with the policy's own weights, so it
starts at parity, and is trained on its win share alone. What it wins more than parity on the test deals is the gain: a
lower bound of what the true best response would gain (the approximate best response of Timbers et al. 2022, by the
trainer that made the policy).
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from undertake import arena
from undertake.arena.report import progress_bar
from undertake.core.files import write_atomically
from undertake_training import checkpoint, ppo
from undertake_training import config as configuration
from undertake_training import run as runs
from undertake_training.checkpoint import CheckpointError, CheckpointPolicy, load_policy
from undertake_training.config import Config, ConfigError, Log, Measure, Objective, Opponents
from undertake_training.train import options_of

__all__ = ["Arguments", "main", "respond"]

_TRIAL = 4
"""Updates by whose speed the budget in minutes is turned into decisions."""


@dataclass(frozen=True)
class Arguments:
    """Learn a best response to a policy and report what it gains over parity."""

    policy: Annotated[Path, tyro.conf.Positional]
    """The policy's .safetensors file, or the folder of its run."""
    minutes: float = 30.0
    """Budget of CPU time."""
    deals: int = 4096
    """Test deals on which the gain is measured; the response takes every seat of each."""
    seed: int = 1
    """Seed of the response's training."""
    out: Path | None = None
    """JSON file to write the report to."""


def respond(
    path: Path,
    *,
    deals: int,
    minutes: float | None = None,
    decisions: int | None = None,
    deal_set: str = "test",
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Learn a best response to the policy saved at `path` and measure it.

    Args:
        path: a checkpoint, or the folder of a run.
        deals: deals on which it is measured, in every seat.
        minutes: budget in CPU time, or
        decisions: budget in decisions, the copies' among them; one of the two.
        deal_set: "dev" or "test".
        seed: of the response's training.
        progress: called with decisions played and in all.

    Returns:
        A report as plain data: policy, budget, decisions, and the response's win share and gain with 95 % intervals.

    Raises:
        CheckpointError: the policy cannot be loaded or was trained by no config of this version.
        TrainingError: as in any training.
    """
    target = load_policy(path)
    config = dataclasses.replace(_config(target, path, seed), decisions=decisions or 10**9)
    run = runs.start(config)
    run.network.load_state_dict(target.network.state_dict())
    if run.average:
        run.average.load_state_dict(target.network.state_dict())
    begun, first = time.process_time(), None
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        while run.decisions < run.config.decisions:
            ppo.advance(run)
            if minutes and run.decisions <= _TRIAL * config.steps * config.tables:
                now = time.process_time()
                if not first:  # it compiles the engine, or loads it, so its speed tells nothing
                    first = run.decisions, now
                else:
                    rate = (run.decisions - first[0]) / (now - first[1])
                    total = run.decisions + rate * (60 * minutes - (now - begun))
                    run.config = dataclasses.replace(config, decisions=max(run.decisions, int(total)))
            if progress:
                progress(min(run.decisions, run.config.decisions), run.config.decisions)
    finally:
        torch.set_num_threads(threads)
    response = CheckpointPolicy(run.policy, runs.card(run), "best response", greedy=target.greedy)
    lineup = [response, *[target] * (config.num_players - 1)]
    match = arena.play(config.game, lineup, deals=deals, deal_set=deal_set, view=config.view, **options_of(config))
    share = match.estimates()["win_share"]
    parity = 1 / config.num_players
    return {
        "game": config.game,
        "policy": target.name,
        "players": config.num_players,
        "cpu_minutes": round((time.process_time() - begun) / 60, 2),
        "budget_minutes": minutes,
        "decisions": run.decisions,
        "seed": seed,
        "deals": deals,
        "set": deal_set,
        "win_share": share.to_json(),
        "gain": {name: value - parity for name, value in share.to_json().items()},
    }


def _config(target: CheckpointPolicy, path: Path, seed: int) -> Config:
    """The policy's own config, turned against it."""
    try:
        config = configuration.from_mapping(target.card["config"])
    except (ConfigError, KeyError) as error:
        raise CheckpointError(f"checkpoint {path}: trained by no config of this version ({error})") from None
    file = path / checkpoint.POLICY if path.is_dir() else path.with_suffix(".safetensors")
    return dataclasses.replace(
        config,
        name=f"response-to-{target.name}",
        seed=seed,
        other_sizes=(),
        objective=Objective(config.objective.margin_scale, "win", 0.0, 0.0, 1.0),
        opponents=Opponents((f"checkpoint:{file}",), fields=1.0, mixed=0.0),
        method="ppo",
        ppo=dataclasses.replace(config.ppo, learning_rate=5e-4, learning_rate_end=0.0, entropy=0.02, entropy_end=0.0),
        measure=Measure(),
        log=Log(tensorboard=False),
        greedy=target.greedy,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    asked = tyro.cli(Arguments, prog="undertake best-response", args=arguments)
    try:
        with progress_bar("learning a best response", "decisions") as progress:
            report = respond(asked.policy, minutes=asked.minutes, deals=asked.deals, seed=asked.seed, progress=progress)
    except (CheckpointError, ConfigError, ppo.TrainingError, arena.PolicyError) as error:
        print(f"undertake best-response: {error}", file=sys.stderr)
        return 1 if isinstance(error, ppo.TrainingError) else 2
    text = json.dumps(report, indent=1) + "\n"
    if asked.out:
        write_atomically(asked.out, text.encode())
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
