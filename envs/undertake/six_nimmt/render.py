"""A table of 6 nimmt!, or one seat's view of it, as plain data and as text; the whole truth as a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core.layout import Layout, feature
from undertake.six_nimmt.rules import (
    BULLS,
    CHOOSE_ROW,
    MAX_CARDS,
    MAX_HAND,
    MAX_PLAYERS,
    MAX_ROW_SIZE,
    MAX_ROWS,
    TAKE_ROW,
    WAIT,
)

WHOLE_LAYOUT = Layout(
    (
        feature("hands", (MAX_PLAYERS, MAX_CARDS), 1, "each seat's hand, cards 1 to 104"),
        feature("chosen", (MAX_PLAYERS,), MAX_CARDS, "the card each seat has chosen and not yet placed, 0 for none"),
        feature("undealt", (MAX_CARDS,), 1, "cards not dealt in this hand"),
        feature("withdrawn", (MAX_CARDS,), 1, "shown cards that went back to the hands of leavers"),
        feature("rows", (MAX_ROWS, MAX_ROW_SIZE), MAX_CARDS, "cards of each row, 0 for an empty place"),
        feature("bulls", (MAX_PLAYERS,), 171, "the seat's bulls of this hand"),
        feature("totals", (MAX_PLAYERS,), 255, "bulls of finished hands, at most 255"),
        feature("played", (MAX_PLAYERS, MAX_HAND), MAX_CARDS, "the cards each seat has shown in this hand, by trick"),
        feature("to_act", (MAX_PLAYERS,), 1, "the seat to act"),
        feature("choosing_row", (1,), 1, "it has to choose a row"),
        feature("left", (MAX_PLAYERS,), MAX_PLAYERS, "the order in which the players have left, 0 while in the game"),
        feature("tricks_left", (1,), MAX_HAND, "tricks of this hand not finished"),
        feature("players", (MAX_PLAYERS - 1,), 1, "number of players, one-hot from 2"),
        feature("num_cards", (1,), MAX_CARDS, "cards of the deck"),
        feature("num_rows", (1,), MAX_ROWS, "rows"),
        feature("row_size", (1,), MAX_ROW_SIZE, "cards that a row holds"),
        feature("single_hand", (1,), 1, "the game ends with this hand (length is 'hand')"),
        feature("cheapest_row", (1,), 1, "the cheapest row is taken without asking"),
        feature("limit", (1,), 255, "total that ends a match"),
    )
)
"""The state vector: seats as numbered at the table, absent ones zero."""

_SHIFTS = np.arange(64, dtype=np.uint64)


def action_name(action: int) -> str:
    """What an action is called: card 1 to 104, row 1 to 4 (topmost first) or wait."""
    if action == WAIT:
        return "wait"
    return f"card {action + 1}" if action < TAKE_ROW else f"row {action - TAKE_ROW + 1}"


def _members(words: list[int]) -> list[int]:
    word = words[0] | words[1] << 64
    cards = []
    while word:
        lowest = word & -word
        cards.append(lowest.bit_length())
        word ^= lowest
    return cards


def _rows(record: Any) -> list[list[int]]:
    lengths = record.row_length.tolist()
    return [row[:length] for row, length in zip(record.rows.tolist(), lengths, strict=True)][: record.num_rows]


def _phase(record: Any) -> str:
    return "row" if record.phase == CHOOSE_ROW else "card"


def table(state: Any) -> dict[str, Any]:
    """The whole truth about a table as plain data."""
    names = [f"player_{seat}" for seat in range(int(state.num_players))]
    return {
        "phase": _phase(state),
        "turn": names[state.turn] if state.turn >= 0 else None,
        "rows": _rows(state),
        "hands": {name: _members(hand) for name, hand in zip(names, state.hand.tolist(), strict=False)},
        "chosen": {name: card or None for name, card in zip(names, state.chosen.tolist(), strict=False)},
        "bulls": dict(zip(names, state.bulls.tolist(), strict=False)),
        "totals": dict(zip(names, state.totals.tolist(), strict=False)),
        "trick": int(state.trick),
        "hand": int(state.hand_number),
        "undealt": _members(state.undealt.tolist()),
    }


def _flags(words: Any) -> npt.NDArray[np.uint64]:
    """Sets of cards, uint64 [..., 2], as a flag for each card, [..., 104]."""
    bits = (words[..., None] >> _SHIFTS) & np.uint64(1)
    return np.asarray(bits.reshape(*words.shape[:-1], 128)[..., :MAX_CARDS])


def whole(state: Any) -> dict[str, Any]:
    """The whole truth about a table as counts, by the features of `WHOLE_LAYOUT`."""
    return {
        "hands": _flags(state.hand),
        "chosen": state.chosen,
        "undealt": _flags(state.undealt),
        "withdrawn": _flags(state.withdrawn),
        "rows": np.where(np.arange(MAX_ROW_SIZE) < state.row_length[:, None], state.rows, 0),
        "bulls": state.bulls,
        "totals": np.minimum(state.totals, 255),
        "played": state.played,
        "to_act": np.arange(MAX_PLAYERS) == state.turn,
        "choosing_row": state.phase == CHOOSE_ROW,
        "left": state.resigned,
        "tricks_left": state.hand_size - state.trick,
        "players": np.arange(2, MAX_PLAYERS + 1) == state.num_players,
        "num_cards": state.num_cards,
        "num_rows": state.num_rows,
        "row_size": state.row_size,
        "single_hand": state.single_hand,
        "cheapest_row": state.cheapest_row,
        "limit": state.limit,
    }


def sight(view: Any) -> dict[str, Any]:
    """What a view holds, in the shape of `table`, unknown things None."""
    players = int(view.num_players)
    seats = [(int(view.seat) + i) % players for i in range(players)]
    relative = [seats.index(seat) for seat in range(players)]
    names = [f"player_{seat}" for seat in range(players)]
    pairs = list(zip(names, relative, strict=True))
    shown, bulls, totals = view.shown.tolist(), view.bulls.tolist(), view.totals.tolist()
    return {
        "phase": _phase(view),
        "turn": names[seats[view.turn]] if view.turn >= 0 else None,
        "rows": _rows(view),
        "hands": {name: _members(view.hand.tolist()) if i == 0 else None for name, i in pairs},
        "chosen": {name: shown[i] or None for name, i in pairs},
        "bulls": {name: bulls[i] if bulls[i] >= 0 else None for name, i in pairs},
        "totals": {name: totals[i] for name, i in pairs},
        "trick": int(view.trick),
        "hand": int(view.hand_number),
        "undealt": None,
    }


def opening(state: Any) -> list[dict[str, Any]]:
    """The public events of a deal: the rows at the start."""
    return [{"event": "deal", "hand": int(state.hand_number), "rows": _rows(state)}]


def events(before: Any, action: int, after: Any) -> list[dict[str, Any]]:
    """The public events of one decision: nothing while cards are chosen in secret, then all shown and placed.

    A negative action is a player's leaving, which the trick may have waited for.
    """
    told: list[dict[str, Any]] = []
    if action < 0 and (after.num_left == after.num_players - 1 or not _goes_on(before, after)):
        return []
    if before.phase == CHOOSE_ROW:
        if action >= 0:
            told.append({"event": "choose_row", "agent": f"player_{before.turn}", "row": action - TAKE_ROW})
    elif not _shown_now(before, after):
        return []
    else:
        told.append({"event": "show", "trick": int(before.trick), "cards": _shown(after, int(before.trick))})
        if after.phase == CHOOSE_ROW:
            return told
    told.extend(_placed(before, after))
    if after.hand_number != before.hand_number:
        told.extend(opening(after))
    return told


def _goes_on(before: Any, after: Any) -> bool:
    """Whether with a player's leaving cards were shown or placed."""
    if before.phase == CHOOSE_ROW == after.phase:
        return False
    return _shown_now(before, after)


def _shown_now(before: Any, after: Any) -> bool:
    return bool(
        after.phase == CHOOSE_ROW
        or after.trick != before.trick
        or after.hand_number != before.hand_number
        or after.turn < 0
    )


def _shown(state: Any, trick: int) -> dict[str, int]:
    cards = {f"player_{seat}": int(state.played[seat, trick]) for seat in range(int(state.num_players))}
    return {name: card for name, card in cards.items() if card > 0}


def _placed(before: Any, after: Any) -> list[dict[str, Any]]:
    """Where the cards of the trick just finished went, in the order of placing."""
    trick = int(before.trick)
    seats = [seat for seat in range(int(after.num_players)) if after.played[seat, trick] > 0]
    seats = [seat for seat in seats if after.resigned[seat] == 0]
    return [
        {
            "event": "place",
            "agent": f"player_{seat}",
            "card": int(after.played[seat, trick]),
            "row": int(after.last_row[seat]),
            "bulls": int(after.last_bulls[seat]),
        }
        for seat in sorted(seats, key=lambda seat: int(after.played[seat, trick]))
    ]


def text(shown: Mapping[str, Any]) -> str:
    """A few lines of text that show what `table` or `sight` tells."""
    lines = [f"6 nimmt!   hand {shown['hand'] + 1}, trick {shown['trick'] + 1}"]
    if shown["turn"] is None:
        lines = [f"6 nimmt!   over after hand {shown['hand'] + 1}"]
    for number, row in enumerate(shown["rows"], start=1):
        bulls = sum(int(BULLS[card]) for card in row)
        lines.append(f"  row {number}  {' '.join(f'{card:>3}' for card in row):<20}  {bulls:>2} bulls")
    for name, hand in shown["hands"].items():
        bulls, chosen = shown["bulls"][name], shown["chosen"][name]
        lines.append(
            f"{'>' if name == shown['turn'] else ' '} {name}  {shown['totals'][name]:>3} total "
            f"{'?' if bulls is None else bulls:>3} bulls  "
            f"{'' if chosen is None else f'[{chosen}] '}{'' if hand is None else ' '.join(map(str, hand))}".rstrip()
        )
    if shown["phase"] == "row" and shown["turn"] is not None:
        lines.append(f"{shown['turn']} has to choose a row to take.")
    return "\n".join(lines) + "\n"
