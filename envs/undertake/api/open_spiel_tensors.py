"""What a player of an OpenSpiel game is shown: observations of the view, and information states with perfect recall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.deals import look
from undertake.core.batch import records
from undertake.core.game import Game

__all__ = ["Observer"]

_PAD = 64  # `encode` and `legal` write 64 bytes at a time, the last of them past the row's end

Shapes = dict[str, tuple[int, ...]]
Pieces = Mapping[str, npt.NDArray[np.float32]]
Events = Sequence[Mapping[str, Any]]


def _no_thanks_shapes(options: Any) -> Shapes:
    cards, players = len(options.cards()), options.num_players
    played = cards - options.removed
    return {"first_player": (players,), "cards": (played, cards), "passes": (played,), "taken": (played,)}


def _write_no_thanks(options: Any, events: Events, sight: Mapping[str, Any], agent: str, pieces: Pieces) -> None:
    """By card turned up: which one, how often it has been passed on, in chips that there are, and whether it is taken.

    The seats act in their order, so that this says who did what.
    """
    lowest, chips = options.cards()[0], max(options.num_players * options.start_chips, 1)
    at = -1
    for event in events:
        if event["event"] == "deal":
            pieces["first_player"][int(event["first"].removeprefix("player_"))] = 1
        elif event["event"] == "turn_up":
            at += 1
            pieces["cards"][at, event["card"] - lowest] = 1
        elif event["event"] == "pass":
            pieces["passes"][at] += 1 / chips
        elif event["event"] == "take":
            pieces["taken"][at] = 1


def _six_nimmt_shapes(options: Any) -> Shapes:
    cards, hand, rows = len(options.cards()), options.hand_size, options.num_rows
    shown = (hand, options.num_players, cards)
    return {"hand_dealt": (cards,), "row_starts": (rows, cards), "shown": shown, "row_chosen": (hand, rows)}


def _write_six_nimmt(options: Any, events: Events, sight: Mapping[str, Any], agent: str, pieces: Pieces) -> None:
    """The player's own hand as dealt, the first card of each row, the cards shown and the row chosen in every trick."""
    trick = 0
    for card in sight["hands"][agent]:
        pieces["hand_dealt"][card - 1] = 1
    for event in events:
        if event["event"] == "deal":
            for row, cards in enumerate(event["rows"]):
                pieces["row_starts"][row, cards[0] - 1] = 1
        elif event["event"] == "show":
            trick = event["trick"]
            for name, card in event["cards"].items():
                pieces["shown"][trick, int(name.removeprefix("player_")), card - 1] = 1
            pieces["hand_dealt"][event["cards"][agent] - 1] = 1
        elif event["event"] == "choose_row":
            pieces["row_chosen"][trick, event["row"]] = 1


_STATES: dict[str, tuple[Callable[[Any], Shapes], Callable[[Any, Events, Mapping[str, Any], str, Pieces], None]]] = {
    "no_thanks": (_no_thanks_shapes, _write_no_thanks),
    "six_nimmt": (_six_nimmt_shapes, _write_six_nimmt),
}


class Observer:
    """Sees for one player at a time, as OpenSpiel's `observation.py` asks for.

    Attributes:
        tensor: float32, flat, overwritten by `set_from`; None where there is none
        dict: its pieces by name. Observation: "observation" [D]. Information state: "player" [n] and the game's own
    """

    def __init__(self, game: Game, options: Any, view: str, perfect_recall: bool, tensor: bool) -> None:
        self._game, self._options = game, options
        self._view, self._perfect_recall = view, perfect_recall
        layout, (shapes, self._write) = game.layouts[view], _STATES[game.name]
        self._views = records(game.view_dtype)
        self._counts, self._mask = np.zeros(layout.size + _PAD, np.uint8), np.zeros(game.num_actions + _PAD, np.int8)
        self._scale = layout.scale
        pieces: Shapes = {"observation": (layout.size,)}
        if perfect_recall:
            pieces = {"player": (options.num_players,), **shapes(options)}
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in pieces.values())])
        self.tensor: npt.NDArray[np.float32] | None = np.zeros(ends[-1], np.float32)
        self.dict = {
            name: self.tensor[start:end].reshape(shape)
            for (name, shape), start, end in zip(pieces.items(), ends, ends[1:], strict=False)
        }
        if perfect_recall and not tensor:
            self.tensor, self.dict = None, {}

    def set_from(self, state: Any, player: int) -> None:
        """Write to `tensor` what `player` knows; zeros before the deal."""
        if self.tensor is None:
            return
        self.tensor.fill(0)
        if self._perfect_recall:
            self.dict["player"][player] = 1
        if not state.table.started:
            return
        self._see(state, player)
        if not self._perfect_recall:
            self.tensor[:] = self._counts[: self._scale.size] * self._scale
            return
        events = state.table.events(self._game)
        self._write(self._options, events, self._sight(), f"player_{player}", self.dict)

    def string_from(self, state: Any, player: int) -> str:
        """The same in words."""
        if not state.table.started:
            return f"player_{player}"
        self._see(state, player)
        sight, agent = self._sight(), f"player_{player}"
        if not self._perfect_recall:
            return f"{agent}\n{self._game.text(sight)}"
        told = [agent, *(_words(event) for event in state.table.events(self._game))]
        if "hands" in sight:
            told.append(f"hand {_plain(sight['hands'][agent])}")
        return "\n".join(told)

    def _see(self, state: Any, player: int) -> None:
        counts, mask = self._counts[: self._scale.size], self._mask[: self._game.num_actions]
        look(state.table.states, np.array([player]), self._view == "recall", self._views, counts, mask)

    def _sight(self) -> dict[str, Any]:
        return self._game.sight(self._views.view(np.recarray)[0])


def _words(event: Mapping[str, Any]) -> str:
    return " ".join(_plain(value) for value in event.values())


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{_plain(each)}" for key, each in value.items())
    return ",".join(map(_plain, value)) if isinstance(value, list) else str(value)
