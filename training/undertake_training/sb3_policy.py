"""Policies that stable-baselines3 has saved, as policies of the arena: a zip, and beside it a card in JSON.

A zip holds pickles, and opening pickles can run any code: `undertake.make_policy("sb3:PATH", trust=True)` and `--trust`
are how a caller says that he knows where the file comes from. Nothing here asks; call it only with files you trust.
Letters: B tables, N actions, D features.
"""

from __future__ import annotations

import json
import os
import platform
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO

import undertake
from undertake.arena.trained import draw
from undertake.core.files import write_atomically
from undertake.core.game import GAMES, VIEWS, get_game
from undertake_training.checkpoint import CheckpointError

__all__ = ["FORMAT", "POLICY", "SB3Policy", "load_model", "load_policy", "make_card", "save_policy"]

FORMAT = 1
"""Version of the card's form, in its `format`."""

POLICY = "policy.zip"
"""The name of a policy in the folder of its run."""

_PACKAGES = ("stable-baselines3", "sb3-contrib", "torch", "numpy", "numba", "gymnasium")


class SB3Policy:
    """A policy of sb3-contrib's `MaskablePPO` that sits down at any table of its game.

    See the policy protocol of `undertake.arena`. The network is held, not copied: one that goes on learning plays as it
    has learned so far.
    """

    batched = True

    def __init__(self, policy: Any, card: Mapping[str, Any], name: str, path: Path | None = None) -> None:
        self.network = policy
        self.card = dict(card)
        self.name = name
        self.path = path
        self.game: str = card["game"]
        self.view: str = card["view"]
        self.greedy = bool(card.get("greedy"))

    def act(
        self, observation: npt.NDArray[Any], action_mask: npt.NDArray[np.int8], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Actions int64 `[B]` for observations float32 `[B, D]` and masks int8 `[B, N]`.

        One uniform number of `rng` is drawn for every row, unless the policy is greedy.
        """
        self.network.set_training_mode(False)
        device = self.network.device
        seen: Any = torch.as_tensor(observation, dtype=torch.float32, device=device)
        if isinstance(self.network.observation_space, spaces.Dict):
            seen = {"observation": seen, "action_mask": torch.as_tensor(action_mask, device=device)}
        with torch.inference_mode():
            chances = self.network.get_distribution(seen, action_masks=action_mask).distribution.probs
        if self.greedy:
            return np.asarray(chances.argmax(dim=1).cpu().numpy())
        return draw(chances.cpu().numpy().astype(np.float64), rng)


def make_card(
    *,
    game: str,
    num_players: Any,
    view: str,
    options: Mapping[str, Any],
    greedy: bool,
    decisions: int,
    seed: int,
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """What a policy plays, how it came about, and (empty at first) its measured strength."""
    return {
        "format": FORMAT,
        "algorithm": "MaskablePPO",
        "game": game,
        "num_players": num_players,
        "view": view,
        "options": dict(options),
        "observation": _slices(game, view),
        "greedy": greedy,
        "decisions": decisions,
        "seed": seed,
        "config": dict(config),
        "versions": {
            "undertake": undertake.__version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        "strength": {},
    }


def save_policy(path: Path, model: MaskablePPO, card: Mapping[str, Any]) -> None:
    """Write `path` (NAME.zip), which can be learned on with, and its card NAME.json; OSError where it cannot be."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.zip")  # SB3 adds .zip to a name without it
    try:
        model.save(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    write_atomically(path.with_suffix(".json"), (json.dumps(card, indent=2) + "\n").encode())


def load_model(path: str | Path, **keywords: Any) -> tuple[MaskablePPO, dict[str, Any], Path]:
    """Open a zip, which runs what its pickles say: the model, its card ({} without one) and the zip's own path.

    Args:
        path: the zip, its card, or the folder of its run.
        **keywords: of `MaskablePPO.load`, such as `env`.

    Raises:
        CheckpointError: in one line: missing, damaged, no zip of `MaskablePPO`, or a card that cannot be read.
    """
    file = Path(path)
    file = file / POLICY if file.is_dir() else file.with_suffix(".zip") if file.suffix in (".json", "") else file
    if not file.is_file():
        raise CheckpointError(f"policy {file}: there is no such file")
    try:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        raise CheckpointError(f"policy {file}: damaged, cut short or no zip file") from None
    if not {"data", "policy.pth"} <= names:
        raise CheckpointError(f"policy {file}: a zip file, but not one of stable-baselines3's")
    try:
        model = MaskablePPO.load(file, device="cpu", **keywords)
    except Exception as error:
        raise CheckpointError(f"policy {file}: MaskablePPO cannot open it: {' '.join(str(error).split())}") from error
    card_path = file.with_suffix(".json")
    if not card_path.is_file():
        return model, {}, file
    try:
        card = json.loads(card_path.read_text(encoding="utf-8"))
        assert isinstance(card, dict)
    except (ValueError, AssertionError):
        raise CheckpointError(f"policy {file}: its card {card_path.name} is damaged") from None
    return model, card, file


def load_policy(path: str | Path, *, game: str | None = None) -> SB3Policy:
    """The policy in a zip; without a card its game and view are told from the size of what it observes.

    Args:
        path: the zip, its card, or the folder of its run.
        game: the game it must be of, if given.

    Raises:
        CheckpointError: what `load_model` raises it for, or of another game, or trained on an observation that this
            version does not have.
    """
    model, card, file = load_model(path)
    space = model.observation_space
    vector = space["observation"] if isinstance(space, spaces.Dict) else space
    size = (vector.shape or (0,))[0]
    fitting = [(name, view) for name in GAMES for view in VIEWS if get_game(name).layouts[view].size == size]
    if "game" not in card or "view" not in card:
        fitting = [each for each in fitting if get_game(each[0]).num_actions == getattr(model.action_space, "n", 0)]
        if len(fitting) != 1:
            raise CheckpointError(f"policy {file}: it observes {size} numbers, which no view of a game here has")
        card = {**card, "game": fitting[0][0], "view": fitting[0][1]}
    elif (card["game"], card["view"]) not in fitting or card.get("observation") not in (
        None,
        _slices(card["game"], card["view"]),
    ):
        raise CheckpointError(f"policy {file}: trained on an observation that this version does not have")
    if game is not None and card["game"] != game:
        raise CheckpointError(f"policy {file}: its game is {card['game']!r}, {game!r} is wanted")
    name = file.resolve().parent.name if file.name == POLICY else file.stem
    return SB3Policy(model.policy, card, name, file)


def _slices(game: str, view: str) -> dict[str, list[int]]:
    slices = get_game(game).layouts[view].slices
    return {name: [part.start, part.stop] for name, part in slices.items()}
