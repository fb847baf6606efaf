"""`undertake export`: a trained policy as an ONNX file, which onnxruntime plays without torch.

The graph takes `observation` float32 `[B, D]` in [0, 1] and `action_mask` int8 `[B, N]`, non-zero where legal, for any
B, and gives `log_probs` float32 `[B, N]` and `values` float32 `[B, K]`. The file's metadata holds the policy's card as
JSON, under `undertake`; `undertake.make_policy("onnx:FILE")` draws its actions as the checkpoint's are drawn.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from undertake.arena import PolicyError, make_policy, trained
from undertake.core.files import write_atomically
from undertake_training.checkpoint import CheckpointError, CheckpointPolicy

__all__ = ["main", "to_onnx"]


@dataclass(frozen=True)
class Arguments:
    """Write a trained policy as an ONNX file, which plays the same moves without torch: as the policy onnx:FILE."""

    policy: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="POLICY")]
    """A trained policy that comes with the package, no_thanks/champion say, or checkpoint:PATH."""
    onnx: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The file to write."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code: 0 done, 1 failed, 2 called wrongly."""
    asked = tyro.cli(Arguments, prog="undertake export", args=list(arguments))
    try:
        policy = getattr(make_policy(asked.policy).target, "__self__", None)
        if not isinstance(policy, CheckpointPolicy):
            raise PolicyError(
                f"policy {asked.policy!r} is no checkpoint; give a trained policy's name or checkpoint:PATH"
            )
        content = to_onnx(policy)
        write_atomically(asked.onnx, content)
    except (PolicyError, CheckpointError, ValueError) as error:
        print(f"undertake export: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(
            f"undertake export needs the package {error.name!r}: pip install 'undertake[train,onnx]'", file=sys.stderr
        )
        return 1
    except OSError as error:
        print(f"undertake export: {error.filename or asked.onnx}: {error.strerror or error}", file=sys.stderr)
        return 1
    print(f"{asked.onnx}: {len(content) / 1e6:.1f} MB, plays as onnx:{asked.onnx}", file=sys.stderr)
    return 0


def to_onnx(policy: CheckpointPolicy) -> bytes:
    """The content of the ONNX file of a policy, its card and a SHA-256 of everything included.

    Raises ModuleNotFoundError without the packages of the extra [onnx].
    """
    import onnx  # noqa: F401  # torch says it only halfway
    import onnxscript  # noqa: F401

    network, shape = policy.network.eval(), policy.network.shape
    # Two rows: with one, the exporter would take the batch's size for a constant.
    sample = (torch.zeros(2, shape.num_features), torch.ones(2, shape.num_actions, dtype=torch.int8))
    with _quiet():
        program: Any = torch.onnx.export(
            network,
            sample,
            dynamo=True,
            input_names=["observation", "action_mask"],
            output_names=["log_probs", "values"],
            dynamic_shapes=({0: "B"}, {0: "B"}),
            verbose=False,
        )
    model = program.model_proto
    _strip(model)
    entry = model.metadata_props.add()
    entry.key = trained.CARD
    card = {**policy.card, "name": policy.name, "greedy": policy.greedy, "sha256": "0" * 64}
    entry.value = json.dumps(card)
    return trained.stamp(model.SerializeToString(deterministic=True))


def _strip(model: Any) -> None:
    """Take out what the exporter notes on every part: where in which source file, by its full path, it comes from."""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter says of itself and of torchvision, none of which is about the network."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
