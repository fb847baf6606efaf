"""From a run to a policy that comes with the package: its best policy, measured on test deals, with card and curve.

`python -m undertake_training.ship runs/champion-no_thanks no_thanks/champion` writes `checkpoints/no_thanks/champion`:
the weights, the card with its strength at every size of the protocol, and `champion.curve.jsonl`, the win shares on dev
deals while it was trained.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from undertake import arena
from undertake.arena.benchmark import SIZES
from undertake.arena.report import progress_bar
from undertake.core.files import write_atomically
from undertake_training import checkpoint
from undertake_training import config as configuration
from undertake_training.checkpoint import CheckpointError, load_policy
from undertake_training.network import PolicyNetwork, shape_from_mapping
from undertake_training.report import SHARE, read_log
from undertake_training.run import BEST
from undertake_training.train import options_of

__all__ = ["Arguments", "main", "ship"]


@dataclass(frozen=True)
class Arguments:
    """Measure a run's best policy on test deals and put it among the shipped ones."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    name: Annotated[str, tyro.conf.Positional]
    """GAME/NAME of the shipped policy."""
    to: Path = Path("checkpoints")
    """Folder of the shipped policies."""
    deals: int = 4096
    """Test deals, a quarter of them at other sizes than it was trained for; the policy takes every seat of each."""
    response: Path | None = None
    """Report of `undertake best-response` against it, to go onto the card."""
    note: str = ""
    """What else the card should say of how the policy came about."""
    greedy: bool = False
    """Let it play its likeliest action, though it was measured drawing while it was trained."""
    last: bool = False
    """Ship the last policy of the run and not the best on dev deals."""


def ship(asked: Arguments) -> Path:
    """Write the policy, its card and its curve; returns the path of the weights.

    Raises:
        CheckpointError: the run's policy cannot be loaded, or is of another game than the name says.
        OSError: a file cannot be read or written.
    """
    game, _, name = asked.name.partition("/")
    source = asked.run / (checkpoint.POLICY if asked.last else BEST)
    load_policy(source, game=game)
    tensors, card = checkpoint.read(source, "policy")
    card = {key: value for key, value in card.items() if key != "kind"}
    card["config"].pop("log", None)  # where it was written says nothing of how it was made
    if asked.note:
        card["note"] = asked.note
    if asked.greedy:
        card["greedy"] = card["config"]["greedy"] = True
    target = asked.to / game / f"{name}.safetensors"
    target.parent.mkdir(parents=True, exist_ok=True)
    shape = shape_from_mapping(card["network"])
    network = PolicyNetwork(shape, tensors["scale"])
    network.load_state_dict(tensors)
    checkpoint.save_policy(target, network, card)
    lines = [
        {key: value for key, value in line.items() if key == "decisions" or key.startswith(SHARE)}
        for line in read_log(asked.run)
    ]
    curve = "".join(json.dumps(line) + "\n" for line in lines if len(line) > 1)
    write_atomically(target.with_suffix(".curve.jsonl"), curve.encode())
    strength = _strength(target, card, asked.deals)
    if asked.response:
        strength["best_response"] = json.loads(asked.response.read_text(encoding="utf-8"))
    checkpoint.add_strength(target, strength)
    return target


def _strength(path: Path, card: dict[str, Any], deals: int) -> dict[str, Any]:
    """What `undertake evaluate` reports at the size it was trained for, and under `sizes` at the protocol's others."""
    config = configuration.from_mapping(card["config"])
    policy = load_policy(path)
    found = {}
    for players in dict.fromkeys((config.num_players, *SIZES[config.game])):
        with progress_bar(f"{players} players") as progress:
            report = arena.evaluate(
                config.game,
                policy,
                num_players=players,
                deals=deals if players == config.num_players else max(2, deals // 4),
                deal_set="test",
                view=config.view,
                progress=progress,
                **options_of(config),
            )
        found[players] = report.to_json()
    first = found.pop(config.num_players)
    return {**first, "sizes": {str(players): strength for players, strength in found.items()}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    asked = tyro.cli(Arguments, prog="python -m undertake_training.ship", args=arguments)
    try:
        print(ship(asked))
    except (CheckpointError, configuration.ConfigError) as error:
        print(f"ship: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
