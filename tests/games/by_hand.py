"""The observations once more, slowly: each slice from the whole truth and the public past, by its stated meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from games.tables import BULLS, game_of


def runs_score(cards: Sequence[int]) -> int:
    return sum(card for card in cards if card - 1 not in cards)


def price(cards: Sequence[int], card: int, pot: int) -> int:
    return runs_score([*cards, card]) - runs_score(cards) - pot


@dataclass
class Past:
    """What happened in the open, noted after each decision or leaving from the table before and after."""

    took: dict[int, list[int]] = field(default_factory=dict)
    refused: dict[int, list[int]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    played: list[dict[int, int]] = field(default_factory=list)
    _pending: dict[int, int] = field(default_factory=dict)
    _shown: bool = False

    def begin(self, told: Mapping[str, Any]) -> None:
        self.starts = [row[0] for row in told.get("rows", [])]
        self.played = []

    def note(self, before: Mapping[str, Any], seat: int, action: int | None, after: Mapping[str, Any]) -> None:
        """`action` is None where the player of `seat` has left."""
        if "pot" in before:
            self._note_no_thanks(before, seat, action)
        else:
            self._note_six_nimmt(before, seat, action, after)

    def _note_no_thanks(self, before: Mapping[str, Any], seat: int, action: int | None) -> None:
        name = f"player_{seat}"
        if action is None or before["chips"][name] == 0:  # who has no chip must take
            return
        noted = self.took if action == 1 else self.refused
        noted.setdefault(seat, []).append(price(before["cards"][name], before["card"], before["pot"]))

    def _note_six_nimmt(
        self, before: Mapping[str, Any], seat: int, action: int | None, after: Mapping[str, Any]
    ) -> None:
        if before["phase"] == "card":
            if action is None:
                self._pending.pop(seat, None)
            else:
                self._pending[seat] = action + 1
        ended = (after["hand"], after["trick"]) != (before["hand"], before["trick"])
        if not self._shown and (ended or after["phase"] == "row"):
            self.played.append(self._pending)
            self._pending, self._shown = {}, True
        if ended:
            self._shown = False
        if after["hand"] != before["hand"]:
            self.begin(after)


def expected(state: Any, seat: int, view: str, past: Past) -> npt.NDArray[np.uint8]:
    """The observation (uint8 [D]) of `seat`."""
    found = game_of(state)
    told = found.table(state)
    slices = (_no_thanks if "pot" in told else _six_nimmt)(state, told, seat, view, past)
    layout = found.layouts[view]
    vector = np.zeros(layout.size, np.uint8)
    for item in layout.features:
        place = np.zeros(item.shape, np.uint8)
        values = np.asarray(slices[item.name])
        place[tuple(slice(size) for size in values.shape)] = values
        vector[layout.slices[item.name]] = place.ravel()
    return vector


def _around(state: Any, seat: int) -> list[int]:
    players = int(state.num_players)
    return [(seat + i) % players for i in range(players)]


def _thermometer(count: int) -> list[bool]:
    return [count >= level for level in range(1, 25)]


def _no_thanks(state: Any, told: Mapping[str, Any], seat: int, view: str, past: Past) -> dict[str, Any]:
    around = _around(state, seat)
    names = [f"player_{s}" for s in around]
    known = view == "recall" or bool(state.open_chips) or told["turn"] is None
    fronts = [told["cards"][name] for name in names]
    card, pot = told["card"], told["pot"]
    visible = {c for front in fronts for c in front} | ({card} if card else set())
    lowest, highest = int(state.lowest), int(state.highest)
    prices = [price(front, card, pot) for front in fronts] if card else []
    took = [past.took.get(s, []) for s in around]
    refused = [past.refused.get(s, []) for s in around]
    chips = [told["chips"][name] if known or i == 0 else None for i, name in enumerate(names)]
    return {
        "cards": [[c in front for c in range(3, 36)] for front in fronts],
        "seen": [c in visible for c in range(3, 36)],
        "card": [c == card for c in range(3, 36)],
        "pot_at_least": _thermometer(pot),
        "chips_at_least": _thermometer(told["chips"][names[0]]),
        "card_number": [card or 0],
        "pot": [pot],
        "cards_left": [told["cards_left"]],
        "removed": [len(told["removed"])],
        "players": [n == len(around) for n in range(2, 8)],
        "unseen_below": [bool(card) and lowest < card and card - 1 not in visible],
        "unseen_above": [bool(card) and card < highest and card + 1 not in visible],
        "taker_goes_on": [bool(state.taker_goes_on)],
        "open_chips": [bool(state.open_chips)],
        "to_act": [name == told["turn"] for name in names],
        "has_left": [state.resigned[s] > 0 for s in around],
        "chips_known": [has is not None for has in chips],
        "chips": [has or 0 for has in chips],
        "card_score": [min(runs_score(front), 255) for front in fronts],
        "change": [p + pot + 36 for p in prices],
        "price": [max(p + 60, 0) for p in prices],
        "broke": [has == 0 for has in chips],
        "takes": [len(paid) for paid in took],
        "refusals": [min(len(paid), 255) for paid in refused],
        "dearest": [max(max(paid) + 60, 0) if paid else 0 for paid in took],
        "cheapest": [max(min(paid) + 60, 0) if paid else 0 for paid in refused],
    }


def _hand_cards(hand: list[int], rows: list[list[int]], row_size: int, unseen: list[int]) -> list[list[int]]:
    by_end = sorted(rows, key=lambda row: row[-1])
    lines = []
    for card in hand:
        above = sum(c > card for c in unseen)
        fitting = [place for place, row in enumerate(by_end) if row[-1] < card]
        if not fitting:
            lines.append([card, BULLS[card], 1, 0, 0, 0, 0, above, 0, 0, 0, 0])
            continue
        row = by_end[fitting[-1]]
        between = sum(row[-1] < c < card for c in unseen)
        free, bulls = row_size - len(row), sum(BULLS[c] for c in row)
        which = [int(place == fitting[-1]) for place in range(4)]
        lines.append([card, BULLS[card], 0, free, bulls, card - row[-1], between, above, *which])
    return lines


def _six_nimmt(state: Any, told: Mapping[str, Any], seat: int, view: str, past: Past) -> dict[str, Any]:
    around = _around(state, seat)
    names = [f"player_{s}" for s in around]
    rows, hand, choosing = told["rows"], told["hands"][names[0]], told["phase"] == "row"
    shown = [told["chosen"][name] or 0 if choosing or i == 0 else 0 for i, name in enumerate(names)]
    placed = {*hand, *shown, *(c for row in rows for c in row)}
    if view == "recall":
        placed |= {*past.starts, *(c for trick in past.played for c in trick.values())}
    unseen = [c for c in range(1, int(state.num_cards) + 1) if c not in placed]
    by_end = sorted(rows, key=lambda row: row[-1])
    bulls = [sum(BULLS[c] for c in row) for row in rows]
    known = [view == "recall" or i == 0 for i in range(len(around))]
    cards_of = [[trick[s] for trick in past.played if s in trick] for s in around]
    return {
        "hand": [c in hand for c in range(1, 105)],
        "unseen": [c in unseen for c in range(1, 105)],
        "row_cards": [[*row, *[0] * (5 - len(row))] for row in rows],
        "row_length": [len(row) for row in rows],
        "row_bulls": bulls,
        "row_end": [row[-1] for row in rows],
        "sorted_end": [row[-1] for row in by_end],
        "sorted_length": [len(row) for row in by_end],
        "sorted_bulls": [sum(BULLS[c] for c in row) for row in by_end],
        "hand_cards": _hand_cards(hand, rows, int(state.row_size), unseen) or np.zeros((0, 12), int),
        "choosing_row": [choosing and told["turn"] is not None],
        "chooser": [choosing and name == told["turn"] for name in names],
        "shown": shown,
        "players": [n == len(around) for n in range(2, 11)],
        "tricks_left": [int(state.hand_size) - told["trick"]],
        "num_cards": [int(state.num_cards)],
        "num_rows": [len(rows)],
        "row_size": [int(state.row_size)],
        "single_hand": [bool(state.single_hand)],
        "cheapest_row": [bool(state.cheapest_row)],
        "limit": [int(state.limit)],
        "has_left": [state.resigned[s] > 0 for s in around],
        "totals": [min(told["totals"][name], 255) for name in names],
        "bulls_known": known,
        "bulls": [told["bulls"][name] if open_ else 0 for name, open_ in zip(names, known, strict=True)],
        "last": [cards[-1] if cards else 0 for cards in cards_of],
        "lowest": [min(cards, default=0) for cards in cards_of],
        "highest": [max(cards, default=0) for cards in cards_of],
        "played": [[*(trick.get(s, 0) for trick in past.played), *[0] * (10 - len(past.played))] for s in around],
    }
