"""Trained policies: checkpoints, those that come with the package, ONNX files, zips of stable-baselines3.

Drawing an action from a network's log-probabilities is written once, here, so that a checkpoint in torch and its ONNX
file in onnxruntime play the same moves. Letters: B tables, N actions, D features.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.policy import Policy, PolicyError, Trusted, of_object
from undertake.core.game import get_game
from undertake.core.memory import Memory

__all__ = [
    "CARD",
    "KINDS",
    "OnnxPolicy",
    "draw",
    "memory_of",
    "observation_slices",
    "pick",
    "probabilities",
    "shipped",
    "stamp",
]

CARD = "undertake"
"""The entry of an ONNX file's metadata that holds the policy's card, as JSON."""

_FORMAT = 1
_PACKAGE = "undertake_training"
_STAMP = re.compile(rb'(?<="sha256": ")[0-9a-f]{64}(?=")')
_AGAIN = "write it again with 'undertake export', or fetch it again"


def pick(
    log_probs: npt.NDArray[np.floating[Any]], rng: np.random.Generator, *, greedy: bool = False
) -> npt.NDArray[np.int64]:
    """Actions int64 `[B]` from log-probabilities `[B, N]`: the likeliest, or drawn, by one uniform number a row."""
    if greedy:
        return np.asarray(log_probs.argmax(axis=1))
    return draw(probabilities(log_probs), rng)


def draw(chances: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Actions int64 `[B]` drawn from probabilities `[B, N]` by one uniform number a row."""
    cumulated = chances.cumsum(axis=1)
    word = rng.random(len(cumulated)) * cumulated[:, -1]
    # The first action whose cumulated probability exceeds the number: never one of probability 0.
    return np.asarray((cumulated > word[:, None]).argmax(axis=1))


def probabilities(log_probs: npt.NDArray[np.floating[Any]], *, greedy: bool = False) -> npt.NDArray[np.float64]:
    """The probabilities float64 `[B, N]` with which `pick` plays each action."""
    if greedy:
        return np.asarray(np.eye(log_probs.shape[1])[log_probs.argmax(axis=1)])
    return np.asarray(np.exp(log_probs.astype(np.float64)))


def observation_slices(game: str, view: str) -> dict[str, list[int]]:
    """Where in the observation what lies, as `[start, stop]` by name: what a card says its network was trained on."""
    return {name: [part.start, part.stop] for name, part in get_game(game).layouts[view].slices.items()}


def memory_of(card: Mapping[str, Any]) -> Memory:
    """What a policy remembers, by its card; KeyError, TypeError or ValueError where the card does not tell."""
    told = card.get("memory", {"slices": (), "decisions": 0})
    return Memory(tuple(told["slices"]), int(told["decisions"]))


def shipped(game: str) -> dict[str, Path]:
    """The trained policies of `game` that come with the package: the card's file by the policy's name."""
    spec = importlib.util.find_spec(_PACKAGE)
    for package in (Path(place) for place in (spec and spec.submodule_search_locations) or ()):
        # An installed wheel carries them inside the package, a checkout has them in its root.
        for folder in (package / "checkpoints", package.parents[1] / "checkpoints"):
            if found := sorted((folder / game).glob("*.safetensors")):
                return {path.stem: path.with_suffix(".json") for path in found}
    return {}


def checkpoint(name: str, path: Path, game: str | None) -> Policy:
    """The policy of a checkpoint; PolicyError without torch, and what `undertake_training` raises for a bad file."""
    module = _module(f"{_PACKAGE}.checkpoint", name, "train")
    return of_object(module.load_policy(path, game=game), name)


def onnx(name: str, path: Path, game: str | None) -> Policy:
    """The policy of an ONNX file that `undertake export` has written; PolicyError where it cannot be had."""
    runtime = _module("onnxruntime", name, "onnx")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"policy {name!r}: {error.strerror or error}") from None
    return of_object(OnnxPolicy(content, name, runtime), name)


def sb3(name: str, path: Path, game: str | None) -> Policy:
    """The policy of a zip of stable-baselines3's, if the name is `Trusted`; PolicyError where it cannot be had."""
    if not isinstance(name, Trusted):
        raise PolicyError(
            f"policy {name!r}: a zip of stable-baselines3 holds pickles, which can run any code when they are opened; "
            "if you know where the file comes from, say --trust, in Python make_policy(..., trust=True)"
        )
    loaded = _module(f"{_PACKAGE}.sb3_policy", name, "sb3").load_policy(path, game=game)
    digest = hashlib.sha256(loaded.path.read_bytes()).hexdigest()
    return replace(of_object(loaded, name), name=str.__str__(name), fingerprint=digest)


KINDS: Mapping[str, Callable[[str, Path, str | None], Policy]] = {"checkpoint": checkpoint, "onnx": onnx, "sb3": sb3}
"""What stands before the colon in the name of a policy from a file, and what loads it."""


def _module(module: str, name: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        needed = f"the package {error.name!r}: pip install 'undertake[{extra}]'"
        raise PolicyError(f"policy {name!r} needs {needed}") from None


class OnnxPolicy:
    """A trained policy in onnxruntime, which needs no torch; see the policy protocol of `undertake.arena`.

    Raises PolicyError, in one line, for content that is damaged, foreign, or made for another observation.
    """

    batched = True

    def __init__(self, content: bytes, name: str, runtime: Any) -> None:
        self.name = name
        self.fingerprint = hashlib.sha256(content).hexdigest()
        if not _STAMP.search(content):
            raise PolicyError(f"policy {name!r}: damaged, cut short or not written by 'undertake export'; {_AGAIN}")
        if stamp(content) != content:
            raise PolicyError(f"policy {name!r}: damaged, its content is not what was written; {_AGAIN}")
        options = runtime.SessionOptions()
        # One thread: a match has its processes, and the order of sums, so the last bit, stays the same.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except _errors(runtime) as error:
            reason = str(error).strip().partition("\n")[0]
            raise PolicyError(f"policy {name!r}: this onnxruntime cannot run it: {reason}") from None
        try:
            self.card: dict[str, Any] = json.loads(self._session.get_modelmeta().custom_metadata_map[CARD])
            form, self.game, self.view = int(self.card["format"]), str(self.card["game"]), str(self.card["view"])
            self.greedy, self.memory = bool(self.card["greedy"]), memory_of(self.card)
            known = self.card["observation"] == observation_slices(self.game, self.view)
        except (KeyError, TypeError, ValueError):
            raise PolicyError(f"policy {name!r}: its card is not one of undertake's; {_AGAIN}") from None
        if form > _FORMAT:
            raise PolicyError(f"policy {name!r}: format {form}, this version reads up to {_FORMAT}")
        if not known:
            raise PolicyError(f"policy {name!r}: trained on an observation that this version no longer has")

    def act(
        self, observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Actions int64 `[B]` for observations float32 `[B, D]` in [0, 1] and masks int8 `[B, N]`.

        One uniform number of `rng` is drawn for every row, unless the policy is greedy.
        """
        return pick(self.log_probs(observation, action_mask), rng, greedy=self.greedy)

    def probabilities(
        self, observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float64]:
        """The probability of every action, float64 `[B, N]`, with which `act` plays it."""
        return probabilities(self.log_probs(observation, action_mask), greedy=self.greedy)

    def log_probs(
        self, observation: npt.NDArray[np.float32], action_mask: npt.NDArray[np.int8]
    ) -> npt.NDArray[np.float32]:
        """The network's log-probabilities, float32 `[B, N]`."""
        seen = {"observation": np.asarray(observation, np.float32), "action_mask": np.asarray(action_mask, np.int8)}
        return np.asarray(self._session.run(["log_probs"], seen)[0])


def stamp(content: bytes) -> bytes:
    """An ONNX file's content with its SHA-256, taken with zeros in that place, in the card's "sha256"."""
    digest = hashlib.sha256(_STAMP.sub(b"0" * 64, content)).hexdigest()
    return _STAMP.sub(digest.encode(), content)


def _errors(runtime: Any) -> tuple[type[Exception], ...]:
    """What onnxruntime raises for a file that it cannot run: classes that have no base in common but Exception."""
    module = runtime.capi.onnxruntime_pybind11_state
    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException")
    return (RuntimeError, *(getattr(module, name) for name in names))
