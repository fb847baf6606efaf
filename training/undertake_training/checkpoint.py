"""Checkpoints: trained policies to share, and the whole state of a run to go on from.

A policy is `NAME.safetensors` and beside it `NAME.json`, its card. The weights file carries the card in its header as
well, so it is whole by itself; the JSON file is the one to read, and the one to which measured strength is added.
The state of a run is one file, `resume.safetensors`, header included. Nothing here is a pickle, and the header holds a
SHA-256 of all the rest, so that damage is noticed wherever it is.

Every file is written under a temporary name, flushed to disk and renamed: a reader sees the old file or the new one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
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
from undertake.arena import trained
from undertake.core.files import write_atomically
from undertake.core.game import get_game
from undertake.core.memory import Memory, width
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
]

FORMAT = 1
"""Version of the checkpoint format, in the card's `format`."""

POLICY = "policy.safetensors"
_HEADER = "undertake"
_DIGEST = "sha256"
_REMEDIES = {
    "policy": "use an earlier one or fetch it again",
    "run": f"the run's {POLICY} still plays, and its config.yaml starts it anew",
}
_CRITIC = "critic."  # what these tensors are for is training
_PACKAGES = ("torch", "numpy", "numba")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, foreign, or of another game or view."""


def save(path: Path, tensors: Mapping[str, Tensor], kind: str, data: Mapping[str, Any]) -> str:
    """Write tensors and, in the header, plain data of a `kind` ("policy" or "run"); returns the SHA-256 of both.

    Raises:
        CheckpointError: a tensor holds a number that is not finite: what the file held before stays as it was.
    """
    if bad := _not_finite(tensors):
        raise CheckpointError(
            f"checkpoint {path}: not written, {bad} holds NaN or infinity; what was there before is kept"
        )
    header = json.dumps({"format": FORMAT, **data, "kind": kind}, separators=(",", ":"))
    digest = _digest(tensors, header)
    write_atomically(path, safetensors.torch.save(dict(tensors), {_HEADER: header, _DIGEST: digest}))
    return digest


def read(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote.

    Raises:
        CheckpointError: the file is missing, damaged, not ours, of another kind, or of a later format, or it holds
            numbers that are not finite.
    """
    tensors, data, _ = _read(path, kind)
    return tensors, data


def _read(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """As `read`, and the SHA-256 of what was read."""
    if not path.is_file():
        raise CheckpointError(f"checkpoint {path}: there is no such file")
    remedy = _REMEDIES[kind]
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            found = file.metadata() or {}
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise CheckpointError(f"checkpoint {path}: {error.strerror or error}") from None
    except safetensors.SafetensorError:
        raise CheckpointError(f"checkpoint {path}: damaged, cut short or no safetensors file; {remedy}") from None
    header = found.get(_HEADER, "")
    try:
        data = json.loads(header)
        written, is_a = data["format"], data["kind"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"checkpoint {path}: a safetensors file, but not one of undertake's") from None
    if not isinstance(written, int) or written > FORMAT:
        raise CheckpointError(f"checkpoint {path}: format {written}, this version reads up to {FORMAT}")
    digest = _digest(tensors, header)
    if found.get(_DIGEST, digest) != digest or not set(found) <= {_HEADER, _DIGEST}:  # older files carry none
        raise CheckpointError(f"checkpoint {path}: damaged, its content is not what was written; {remedy}")
    if is_a != kind:
        raise CheckpointError(f"checkpoint {path}: it holds a {is_a}, a {kind} is wanted")
    if bad := _not_finite(tensors):
        raise CheckpointError(f"checkpoint {path}: {bad} holds NaN or infinity, its training went astray; {remedy}")
    return tensors, data, digest


def _digest(tensors: Mapping[str, Tensor], header: str) -> str:
    """SHA-256 over the header's text and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The first tensor, by name, with a number that is not finite."""
    bad = (name for name, tensor in tensors.items() if tensor.is_floating_point() and not tensor.isfinite().all())
    return next((f"the tensor {name!r}" for name in bad), None)


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
    cpu_hours: float | None = None,
    memory: Memory | None = None,
) -> dict[str, Any]:
    """A policy's card: what it plays, how it came about, and (empty at first) its measured strength.

    `cpu_hours` is what its training took: the process's seconds on all cores / 3600, None where nobody kept count.
    """
    return {
        "format": FORMAT,
        "game": game,
        "num_players": num_players,
        "view": view,
        "options": dict(options),
        "observation": trained.observation_slices(game, view),
        **({"memory": dataclasses.asdict(memory)} if memory and memory.decisions else {}),
        "network": shape_to_mapping(network.shape),
        "greedy": greedy,
        "decisions": decisions,
        "seed": seed,
        "cpu_hours": cpu_hours,
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
    """Write `path` (NAME.safetensors) and its card NAME.json, which names the weights' SHA-256 too.

    Raises CheckpointError, and leaves both files as they were, where a weight is not finite.
    """
    digest = save(path, network.tensors(), "policy", card)
    _write_card(path.with_suffix(".json"), {**card, _DIGEST: digest})


def _write_card(path: Path, card: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(card, indent=2) + "\n").encode())


def add_strength(path: Path, measured: Mapping[str, Any]) -> None:
    """Put measured strength on the card beside the policy `path`."""
    card_path = path.with_suffix(".json")
    card = json.loads(card_path.read_text(encoding="utf-8"))
    card["strength"] = dict(measured)
    _write_card(card_path, card)


class CheckpointPolicy:
    """A trained policy that sits down at any table of its game; see the policy protocol of `undertake.arena`."""

    batched = True

    def __init__(
        self,
        network: PolicyNetwork,
        card: Mapping[str, Any],
        name: str,
        *,
        greedy: bool = False,
        fingerprint: str = "",
    ) -> None:
        self.network = network.eval()
        self.card = dict(card)
        self.name = name
        self.game: str = card["game"]
        self.view: str = card["view"]
        self.memory = trained.memory_of(card)
        self.greedy = greedy
        self.fingerprint = fingerprint

    def act(
        self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Actions int64 `[B]` for observations `[B, D]` (uint8 counts or float32 in [0, 1]) and masks int8 `[B, N]`.

        One uniform number of `rng` is drawn for every row, unless the policy is greedy.
        """
        return trained.pick(self.log_probs(observation, action_mask), rng, greedy=self.greedy)

    def probabilities(
        self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """The probability of every action, float64 `[B, N]`, with which `act` plays it."""
        return trained.probabilities(self.log_probs(observation, action_mask), greedy=self.greedy)

    def log_probs(self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
        """The network's log-probabilities, float32 `[B, N]`."""
        with torch.inference_mode():
            log_probs, _ = self.network(torch.from_numpy(observation), torch.from_numpy(action_mask))
        return np.asarray(log_probs.numpy())


def load_policy(
    path: str | Path, *, game: str | None = None, view: str | None = None, greedy: bool | None = None
) -> CheckpointPolicy:
    """Load a policy from its `.safetensors` file, its card, or the folder of its run.

    Weights and all that is needed to play them come from the `.safetensors` file. Where the card is what `path` names,
    it must be the card of these weights.

    Args:
        path: the file or folder.
        game: the game it must be of, if given.
        view: the view it must be of, if given.
        greedy: take the likeliest action, or draw from the probabilities; None leaves it to the card.

    Raises:
        CheckpointError: in one line: missing, damaged, foreign, of another game or view, beside another's card, or
            trained on an observation that this version no longer has.
    """
    given = Path(path)
    file = given / POLICY if given.is_dir() else given
    if given.suffix == ".json" and not given.is_dir():
        file = given.with_suffix(".safetensors")
    tensors, card, digest = _read(file, "policy")
    if file.suffix != given.suffix and given.is_file():
        _check_card(given, digest)
    for what, wanted in (("game", game), ("view", view)):
        if wanted is not None and card.get(what) != wanted:
            raise CheckpointError(f"checkpoint {file}: its {what} is {card.get(what)!r}, {wanted!r} is wanted")
    try:
        if card["observation"] != trained.observation_slices(card["game"], card["view"]):
            raise CheckpointError(f"checkpoint {file}: trained on an observation that this version no longer has")
        shape = shape_from_mapping(card["network"])
        if shape.num_features != width(get_game(card["game"]).layouts[card["view"]], trained.memory_of(card)):
            raise ValueError("of another width than the observation with its memory")
        network = PolicyNetwork(shape, torch.ones(shape.num_features))
        network.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith(_CRITIC)})
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise CheckpointError(f"checkpoint {file}: its card and its weights do not fit each other") from None
    name = file.resolve().parent.name if file.name == POLICY else file.stem
    likeliest = bool(card.get("greedy")) if greedy is None else greedy
    return CheckpointPolicy(network, card, name, greedy=likeliest, fingerprint=digest)


def _check_card(path: Path, digest: str) -> None:
    """Raise CheckpointError where a card's file is no card, or that of other weights."""
    what = f"a copy of it is in the header of {path.with_suffix('.safetensors').name}, which plays without"
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get(_DIGEST, digest)  # older cards name none
    except OSError as error:
        raise CheckpointError(f"checkpoint {path}: {error.strerror or error}") from None
    except (ValueError, AttributeError):
        raise CheckpointError(f"checkpoint {path}: the card is damaged; {what}") from None
    if found != digest:
        raise CheckpointError(f"checkpoint {path}: it is the card of other weights; {what}")


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
