"""Checkpoints: trained policies to share, and the whole state of a run to go on from.

A policy is `NAME.safetensors` and beside it `NAME.json`, its card. The weights file carries the card in its header as
well, so it is whole by itself; the JSON file is the one to read, and the one to which measured strength is added.
The state of a run is one file, `resume.safetensors`, header included. Nothing here is a pickle.

Every file is written under a temporary name, flushed to disk and renamed: a reader sees the old file or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.torch
import torch
from torch import Tensor

import undertake
from undertake.core.game import get_game
from undertake_training.network import PolicyNetwork, shape_from_mapping, shape_to_mapping

__all__ = [
    "FORMAT",
    "CheckpointError",
    "CheckpointPolicy",
    "add_strength",
    "load_policy",
    "make_card",
    "read",
    "save",
    "save_policy",
    "write_atomically",
]

FORMAT = 1
"""Version of the checkpoint format, in the card's `format`."""

POLICY = "policy.safetensors"
_HEADER = "undertake"
_PACKAGES = ("torch", "numpy", "numba")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, foreign, or of another game or view."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that at every moment the old or the whole new one is there; OSError if it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    with contextlib.suppress(OSError):  # not every system lets a folder be opened; the rename itself has been done
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def save(path: Path, tensors: Mapping[str, Tensor], kind: str, data: Mapping[str, Any]) -> None:
    """Write tensors and, in the header, plain data of a `kind` ("policy" or "run")."""
    header = json.dumps({"format": FORMAT, **data, "kind": kind}, separators=(",", ":"))
    write_atomically(path, safetensors.torch.save(dict(tensors), {_HEADER: header}))


def read(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote.

    Raises:
        CheckpointError: the file is missing, damaged, not ours, of another kind, or of a later format.
    """
    if not path.is_file():
        raise CheckpointError(f"checkpoint {path}: there is no such file")
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            header = (file.metadata() or {}).get(_HEADER)
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise CheckpointError(f"checkpoint {path}: {error.strerror or error}") from None
    except safetensors.SafetensorError:
        raise CheckpointError(f"checkpoint {path}: damaged, cut short or no safetensors file") from None
    try:
        data = json.loads(header or "")
        written, found = data["format"], data["kind"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"checkpoint {path}: a safetensors file, but not one of undertake's") from None
    if not isinstance(written, int) or written > FORMAT:
        raise CheckpointError(f"checkpoint {path}: format {written}, this version reads up to {FORMAT}")
    if found != kind:
        raise CheckpointError(f"checkpoint {path}: it holds a {found}, a {kind} is wanted")
    return tensors, data


def make_card(
    *,
    game: str,
    num_players: int,
    view: str,
    options: Mapping[str, Any],
    network: PolicyNetwork,
    config: Mapping[str, Any],
    decisions: int,
    seed: int,
    greedy: bool = False,
) -> dict[str, Any]:
    """A policy's card: what it plays, how it came about, and (empty at first) its measured strength."""
    slices = get_game(game).layouts[view].slices
    return {
        "format": FORMAT,
        "game": game,
        "num_players": num_players,
        "view": view,
        "options": dict(options),
        "observation": {name: [part.start, part.stop] for name, part in slices.items()},
        "network": shape_to_mapping(network.shape),
        "greedy": greedy,
        "decisions": decisions,
        "seed": seed,
        "config": dict(config),
        "versions": {
            "undertake": undertake.__version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        "commit": _commit(),
        "strength": {},
    }


def save_policy(path: Path, network: PolicyNetwork, card: Mapping[str, Any]) -> None:
    """Write `path` (NAME.safetensors) and its card NAME.json."""
    save(path, network.tensors(), "policy", card)
    write_atomically(path.with_suffix(".json"), (json.dumps(card, indent=2) + "\n").encode())


def add_strength(path: Path, measured: Mapping[str, Any]) -> None:
    """Put measured strength on the card beside the policy `path`."""
    card_path = path.with_suffix(".json")
    card = json.loads(card_path.read_text(encoding="utf-8"))
    card["strength"] = dict(measured)
    write_atomically(card_path, (json.dumps(card, indent=2) + "\n").encode())


class CheckpointPolicy:
    """A trained policy that sits down at any table of its game; see the policy protocol of `undertake.arena`."""

    batched = True

    def __init__(self, network: PolicyNetwork, card: Mapping[str, Any], name: str, *, greedy: bool = False) -> None:
        self.network = network.eval()
        self.card = dict(card)
        self.name = name
        self.game: str = card["game"]
        self.view: str = card["view"]
        self.greedy = greedy

    def act(
        self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Actions int64 `[B]` for observations `[B, D]` (uint8 counts or float32 in [0, 1]) and masks int8 `[B, N]`.

        One uniform number of `rng` is drawn for every row, unless the policy is greedy.
        """
        log_probs = self._log_probs(observation, action_mask)
        if self.greedy:
            return np.asarray(log_probs.argmax(axis=1))
        cumulated = np.exp(log_probs.astype(np.float64)).cumsum(axis=1)
        word = rng.random(len(cumulated)) * cumulated[:, -1]
        # The first action whose cumulated probability exceeds the number: never one of probability 0.
        return np.asarray((cumulated > word[:, None]).argmax(axis=1))

    def probabilities(
        self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """The probability of every action, float64 `[B, N]`, with which `act` plays it."""
        log_probs = self._log_probs(observation, action_mask)
        if self.greedy:
            return np.asarray(np.eye(log_probs.shape[1])[log_probs.argmax(axis=1)])
        return np.asarray(np.exp(log_probs.astype(np.float64)))

    def _log_probs(self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            log_probs, _ = self.network(torch.from_numpy(observation), torch.from_numpy(action_mask))
        return np.asarray(log_probs.numpy())


def load_policy(
    path: str | Path, *, game: str | None = None, view: str | None = None, greedy: bool | None = None
) -> CheckpointPolicy:
    """Load a policy from its `.safetensors` file, its card, or the folder of its run.

    Args:
        path: the file or folder.
        game: the game it must be of, if given.
        view: the view it must be of, if given.
        greedy: take the likeliest action, or draw from the probabilities; None leaves it to the card.

    Raises:
        CheckpointError: in one line: missing, damaged, foreign, of another game or view, or trained on an observation
            that this version no longer has.
    """
    file = Path(path)
    file = file / POLICY if file.is_dir() else file.with_suffix(".safetensors") if file.suffix == ".json" else file
    tensors, card = read(file, "policy")
    for what, wanted in (("game", game), ("view", view)):
        if wanted is not None and card.get(what) != wanted:
            raise CheckpointError(f"checkpoint {file}: its {what} is {card.get(what)!r}, {wanted!r} is wanted")
    try:
        slices = get_game(card["game"]).layouts[card["view"]].slices
        observation = {name: [part.start, part.stop] for name, part in slices.items()}
        if observation != card["observation"]:
            raise CheckpointError(f"checkpoint {file}: trained on an observation that this version no longer has")
        shape = shape_from_mapping(card["network"])
        network = PolicyNetwork(shape, torch.ones(shape.num_features))
        network.load_state_dict(tensors)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise CheckpointError(f"checkpoint {file}: its card and its weights do not fit each other") from None
    name = file.resolve().parent.name if file.name == POLICY else file.stem
    return CheckpointPolicy(network, card, name, greedy=bool(card.get("greedy")) if greedy is None else greedy)


def _commit() -> str | None:
    """The git commit of these sources, None if they are not in a working copy."""
    here = Path(__file__).resolve()
    for command in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
        try:
            done = subprocess.run(["git", *command], cwd=here.parent, capture_output=True, text=True, check=False)
        except OSError:
            return None
        if done.returncode:
            return None
    return done.stdout.strip()
