"""A table of No Thanks!, or one seat's view of it, as plain data and as text; the whole truth as a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from undertake.core.layout import Layout, feature
from undertake.no_thanks.rules import LOWEST, MAX_CARDS, MAX_PLAYERS, PASS, TAKE, WAIT, change

WHOLE_LAYOUT = Layout(
    (
        feature("cards", (MAX_PLAYERS, MAX_CARDS), 1, "cards in front of each seat, 3 to 35"),
        feature("card", (MAX_CARDS,), 1, "the middle card, one-hot"),
        feature("to_come", (MAX_CARDS,), MAX_CARDS, "place of each card among those still to be turned up, 1 the next"),
        feature("removed", (MAX_CARDS,), 1, "cards set aside unseen"),
        feature("pot", (1,), 255, "chips on the middle card"),
        feature("chips", (MAX_PLAYERS,), 255, "the seat's chips"),
        feature("card_score", (MAX_PLAYERS,), 255, "the seat's card score, at most 255"),
        feature("to_act", (MAX_PLAYERS,), 1, "the seat to act"),
        feature("left", (MAX_PLAYERS,), MAX_PLAYERS, "the order in which the players have left, 0 while in the game"),
        feature("takes", (MAX_PLAYERS,), 33, "cards the seat took of its own will"),
        feature("refusals", (MAX_PLAYERS,), 255, "times the seat refused, at most 255"),
        feature("dearest", (MAX_PLAYERS,), 95, "dearest price it took, plus 60, at least 0; 0 if it took none"),
        feature("cheapest", (MAX_PLAYERS,), 95, "cheapest price it refused, plus 60, at least 0; 0 if it refused none"),
        feature("players", (MAX_PLAYERS - 1,), 1, "number of players, one-hot from 2"),
        feature("taker_goes_on", (1,), 1, "whoever takes acts again (after_take is 'taker')"),
        feature("open_chips", (1,), 1, "chips lie open"),
    )
)
"""The state vector: seats as numbered at the table, absent ones zero."""

_PRICE_FLOOR = -60
_SHIFTS = np.arange(LOWEST, LOWEST + MAX_CARDS, dtype=np.uint64)
_NAMES = {PASS: "pass", TAKE: "take", WAIT: "wait"}


def action_name(action: int) -> str:
    """What an action is called: pass, take or wait."""
    return _NAMES[action]


def card_look(card: int) -> str:
    """The card of a general 100-card deck that stands for `card`: clubs 3-9, spades 0-9, hearts 0-9, diamonds 0-5."""
    return f"{'♣♠♥♦'[card // 10]}{card % 10}"


def _members(cards: Any) -> list[int]:
    word = int(cards)
    return [card for card in range(64) if word >> card & 1]


def table(state: Any) -> dict[str, Any]:
    """The whole truth about a table as plain data."""
    names = [f"player_{seat}" for seat in range(int(state.num_players))]
    drawn, played, removed = int(state.drawn), int(state.played), int(state.removed)
    chips, deck = state.chips.tolist(), state.deck.tolist()
    scores = [points - has for points, has in zip(state.card_score.tolist(), chips, strict=True)]
    return {
        "card": int(state.card) or None,
        "pot": int(state.pot),
        "cards_left": played - drawn,
        "turn": names[state.turn] if state.turn >= 0 else None,
        "cards": {name: _members(cards) for name, cards in zip(names, state.cards.tolist(), strict=False)},
        "chips": dict(zip(names, chips, strict=False)),
        "scores": dict(zip(names, scores, strict=False)),
        "deck": deck[drawn:played],
        "removed": deck[played : played + removed],
    }


def whole(state: Any) -> dict[str, Any]:
    """The whole truth about a table as counts, by the features of `WHOLE_LAYOUT`."""
    drawn, played = int(state.drawn), int(state.played)
    to_come = np.zeros(MAX_CARDS, np.uint8)
    to_come[state.deck[drawn:played] - LOWEST] = np.arange(1, played - drawn + 1)
    removed = np.zeros(MAX_CARDS, np.uint8)
    removed[state.deck[played : played + int(state.removed)] - LOWEST] = 1
    return {
        "cards": (state.cards[:, None] >> _SHIFTS) & np.uint64(1),
        "card": state.card == _SHIFTS,
        "to_come": to_come,
        "removed": removed,
        "pot": state.pot,
        "chips": state.chips,
        "card_score": np.minimum(state.card_score, 255),
        "to_act": np.arange(MAX_PLAYERS) == state.turn,
        "left": state.resigned,
        "takes": state.takes,
        "refusals": np.minimum(state.refusals, 255),
        "dearest": np.where(state.takes > 0, np.maximum(state.dearest - _PRICE_FLOOR, 0), 0),
        "cheapest": np.where(state.refusals > 0, np.maximum(state.cheapest - _PRICE_FLOOR, 0), 0),
        "players": np.arange(2, MAX_PLAYERS + 1) == state.num_players,
        "taker_goes_on": state.taker_goes_on,
        "open_chips": state.open_chips,
    }


def sight(view: Any) -> dict[str, Any]:
    """What a view holds, in the shape of `table`, unknown things None."""
    players = int(view.num_players)
    seats = [(int(view.seat) + i) % players for i in range(players)]
    relative = [seats.index(seat) for seat in range(players)]
    names = [f"player_{seat}" for seat in range(players)]
    chips = [int(view.chips[i]) if view.chips[i] >= 0 else None for i in relative]
    scores = [None if has is None else int(view.card_score[i]) - has for i, has in zip(relative, chips, strict=True)]
    return {
        "card": int(view.card) or None,
        "pot": int(view.pot),
        "cards_left": int(view.cards_left),
        "turn": names[seats[view.turn]] if view.turn >= 0 else None,
        "cards": {name: _members(view.cards[i]) for name, i in zip(names, relative, strict=True)},
        "chips": dict(zip(names, chips, strict=True)),
        "scores": dict(zip(names, scores, strict=True)),
        "deck": None,
        "removed": None,
    }


def events(before: Any, action: int, after: Any) -> list[dict[str, Any]]:
    """The public events of one decision: a pass or a take, then the card turned up. Leaving brings none."""
    if action < 0:
        return []
    agent = f"player_{before.turn}"
    price = int(change(before.cards[before.turn], before.card)) - int(before.pot)
    told = {"event": action_name(action), "agent": agent, "card": int(before.card), "pot": int(before.pot)}
    told["price"] = price
    if action == PASS:
        return [told]
    return [told, *([{"event": "turn_up", "card": int(after.card)}] if after.card > 0 else [])]


def opening(state: Any) -> list[dict[str, Any]]:
    """The public events of a deal."""
    return [{"event": "deal", "first": f"player_{state.turn}"}, {"event": "turn_up", "card": int(state.card)}]


def text(shown: Mapping[str, Any]) -> str:
    """A few lines of text that show what `table` or `sight` tells."""
    card, pot = shown["card"], shown["pot"]
    middle = f"card {card} {card_look(card)} with {pot} chip{'' if pot == 1 else 's'}" if card else "no card"
    lines = [f"No Thanks!   {middle} · {shown['cards_left']} to come"]
    for name, cards in shown["cards"].items():
        chips, score_now = shown["chips"][name], shown["scores"][name]
        lines.append(
            f"{'>' if name == shown['turn'] else ' '} {name}  "
            f"{'?' if chips is None else chips:>3} chips  {'?' if score_now is None else score_now:>4} points  "
            f"{runs(cards)}"
        )
    if shown["turn"] is None:
        lines.append("The game is over.")
    return "\n".join(lines) + "\n"


def runs(cards: list[int]) -> str:
    """Cards with their runs joined: 3 · 7-9 · 20."""
    parts: list[list[int]] = []
    for card in cards:
        if parts and parts[-1][-1] == card - 1:
            parts[-1].append(card)
        else:
            parts.append([card])
    return " · ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts) or "no cards"
