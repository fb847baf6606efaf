"""What a seat of No Thanks! may know: the view record, its encoding as an observation, and worlds that agree with it.

Seats in a view are relative: 0 is the seat that looks, 1 the next clockwise. Two views exist. `"table"` holds what lies
in sight; `"recall"` adds what a player with a perfect memory knows: the others' chips, and how every seat has decided.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undertake.core.bits import put, write_bits
from undertake.core.compile import compiled, i64
from undertake.core.layout import Layout, feature
from undertake.core.rng import below, draw
from undertake.no_thanks.rules import HIGHEST, LOWEST, MAX_CARDS, MAX_PLAYERS, NO_PRICE, PASS, TAKE, WAIT, change

VIEW = np.dtype(
    [
        ("cards", np.uint64, MAX_PLAYERS),
        ("seen", np.uint64),  # all cards turned up so far
        ("chips", np.int16, MAX_PLAYERS),  # -1 where unknown
        ("card_score", np.int16, MAX_PLAYERS),
        ("dearest", np.int16, MAX_PLAYERS),  # recall only, -NO_PRICE where there is none
        ("cheapest", np.int16, MAX_PLAYERS),  # recall only, NO_PRICE where there is none
        ("takes", np.int16, MAX_PLAYERS),  # recall only, as the next
        ("refusals", np.int16, MAX_PLAYERS),
        ("resigned", np.int8, MAX_PLAYERS),
        ("pot", np.int16),
        ("turn", np.int8),  # relative seat to act, -1 when the game is over
        ("card", np.int8),
        ("cards_left", np.int8),  # cards still to be turned up
        ("seat", np.int8),  # the seat that looks, as numbered at the table
        ("recall", np.bool_),
        ("num_players", np.int8),
        ("lowest", np.int8),
        ("highest", np.int8),
        ("removed", np.int8),
        ("start_chips", np.int16),
        ("taker_goes_on", np.bool_),
        ("open_chips", np.bool_),
    ],
    align=True,
)
"""What one seat knows, seats relative."""

_ONE = np.uint64(1)
_THERMOMETER = 24
_PRICE_FLOOR = -60
_CHANGE_FLOOR = -HIGHEST - 1

TABLE_LAYOUT = Layout(
    (
        feature("cards", (MAX_PLAYERS, MAX_CARDS), 1, "cards in front of each seat, 3 to 35"),
        feature("seen", (MAX_CARDS,), 1, "cards turned up so far, the middle card included"),
        feature("card", (MAX_CARDS,), 1, "the middle card, one-hot"),
        feature("pot_at_least", (_THERMOMETER,), 1, "chips on the card are at least 1, 2, ..., 24"),
        feature("chips_at_least", (_THERMOMETER,), 1, "own chips are at least 1, 2, ..., 24"),
        feature("card_number", (1,), HIGHEST, "number of the middle card, 0 where there is none"),
        feature("pot", (1,), 255, "chips on the middle card"),
        feature("cards_left", (1,), MAX_CARDS, "cards still to be turned up"),
        feature("removed", (1,), MAX_CARDS, "cards set aside unseen"),
        feature("players", (MAX_PLAYERS - 1,), 1, "number of players, one-hot from 2"),
        feature("unseen_below", (1,), 1, "the card one below the middle card has not been seen"),
        feature("unseen_above", (1,), 1, "the card one above the middle card has not been seen"),
        feature("taker_goes_on", (1,), 1, "whoever takes acts again (after_take is 'taker')"),
        feature("open_chips", (1,), 1, "chips lie open"),
        feature("to_act", (MAX_PLAYERS,), 1, "the seat to act"),
        feature("has_left", (MAX_PLAYERS,), 1, "the seat's player has left"),
        feature("chips_known", (MAX_PLAYERS,), 1, "the seat's chips are known"),
        feature("chips", (MAX_PLAYERS,), 255, "the seat's chips, 0 where unknown"),
        feature("card_score", (MAX_PLAYERS,), 255, "the seat's card score, at most 255"),
        feature("change", (MAX_PLAYERS,), 71, "change of the seat's card score by the middle card, plus 36"),
        feature("price", (MAX_PLAYERS,), 95, "that change less the chips on the card, plus 60, at least 0"),
    )
)
RECALL_LAYOUT = Layout(
    (
        *TABLE_LAYOUT.features,
        feature("broke", (MAX_PLAYERS,), 1, "the seat has no chip"),
        feature("takes", (MAX_PLAYERS,), 33, "cards the seat took of its own will"),
        feature("refusals", (MAX_PLAYERS,), 255, "times the seat refused, at most 255"),
        feature("dearest", (MAX_PLAYERS,), 95, "dearest price it took, plus 60, at least 0; 0 if it took none"),
        feature("cheapest", (MAX_PLAYERS,), 95, "cheapest price it refused, plus 60, at least 0; 0 if it refused none"),
    )
)

_CARDS = TABLE_LAYOUT.start("cards")
_SEEN = TABLE_LAYOUT.start("seen")
_CARD = TABLE_LAYOUT.start("card")
_POT_AT_LEAST = TABLE_LAYOUT.start("pot_at_least")
_CHIPS_AT_LEAST = TABLE_LAYOUT.start("chips_at_least")
_NUMBERS = TABLE_LAYOUT.start("card_number")
_POT = TABLE_LAYOUT.start("pot")
_CARDS_LEFT = TABLE_LAYOUT.start("cards_left")
_REMOVED = TABLE_LAYOUT.start("removed")
_PLAYERS = TABLE_LAYOUT.start("players")
_UNSEEN_BELOW = TABLE_LAYOUT.start("unseen_below")
_UNSEEN_ABOVE = TABLE_LAYOUT.start("unseen_above")
_TAKER_GOES_ON = TABLE_LAYOUT.start("taker_goes_on")
_OPEN_CHIPS = TABLE_LAYOUT.start("open_chips")
_TO_ACT = TABLE_LAYOUT.start("to_act")
_HAS_LEFT = TABLE_LAYOUT.start("has_left")
_CHIPS_KNOWN = TABLE_LAYOUT.start("chips_known")
_CHIPS = TABLE_LAYOUT.start("chips")
_CARD_SCORE = TABLE_LAYOUT.start("card_score")
_CHANGE = TABLE_LAYOUT.start("change")
_PRICE = TABLE_LAYOUT.start("price")
_TABLE_SIZE = TABLE_LAYOUT.size
_BROKE = RECALL_LAYOUT.start("broke")
_TAKES = RECALL_LAYOUT.start("takes")
_REFUSALS = RECALL_LAYOUT.start("refusals")
_DEAREST = RECALL_LAYOUT.start("dearest")
_CHEAPEST = RECALL_LAYOUT.start("cheapest")
_RECALL_SIZE = RECALL_LAYOUT.size


@compiled
def _show_seat(state: np.record, at: int, recall: bool, shown: bool, view: np.record, i: int) -> None:
    view.cards[i] = state.cards[at]
    view.card_score[i] = state.card_score[at]
    view.resigned[i] = state.resigned[at]
    view.chips[i] = state.chips[at] if shown else -1
    if recall:
        view.dearest[i] = state.dearest[at]
        view.cheapest[i] = state.cheapest[at]
        view.takes[i] = state.takes[at]
        view.refusals[i] = state.refusals[at]


@compiled
def _clear(view: np.record) -> None:
    for i in range(MAX_PLAYERS):
        view.cards[i] = 0
        view.card_score[i] = 0
        view.resigned[i] = 0
        view.chips[i] = 0
        view.dearest[i] = -NO_PRICE
        view.cheapest[i] = NO_PRICE
        view.takes[i] = 0
        view.refusals[i] = 0


@compiled
def see(state: np.record, seat: int, recall: bool, view: np.record) -> None:
    """Fill `view` with what `seat` may know of `state`."""
    players = i64(state.num_players)
    over = state.turn < 0
    shown = recall or state.open_chips or over
    if view.num_players != players or view.recall != recall:
        _clear(view)
    view.num_players = players
    view.recall = recall
    view.seat = seat
    view.seen = state.seen
    for i in range(players):
        at = seat + i
        at = at if at < players else at - players
        _show_seat(state, at, recall, shown or i == 0, view, i)
    turn = i64(state.turn) - seat
    view.turn = -1 if over else (turn if turn >= 0 else turn + players)
    view.pot = state.pot
    view.card = state.card
    view.cards_left = state.played - state.drawn
    view.lowest = state.lowest
    view.highest = state.highest
    view.removed = state.removed
    view.start_chips = state.start_chips
    view.taker_goes_on = state.taker_goes_on
    view.open_chips = state.open_chips


@compiled
def legal(view: np.record, mask: npt.NDArray[np.int8], at: int) -> None:
    """Write to `mask[at:at + 3]` (int8) what the seat that looks may do; zeros where it is not its turn."""
    mine = view.turn == 0
    put(mask, at + PASS, 1 if mine and view.chips[0] > 0 else 0)
    put(mask, at + TAKE, 1 if mine else 0)
    put(mask, at + WAIT, 0)


@compiled
def default_action(view: np.record) -> int:
    """What is played for a player who overruns the time: pass while there is a chip, else take ("Time-out")."""
    return PASS if view.chips[0] > 0 else TAKE


@compiled
def _put_flags(
    out: npt.NDArray[np.uint8], at: int, kept: np.uint64, count: int, flags: np.uint64, width: int
) -> tuple[int, np.uint64, int]:
    """Append `width` flags to the `count` kept ones, and write all to `out` from `at` on when there are 64.

    Returns where the next are to be written, what is kept for it, and how many flags that is.
    """
    kept |= flags << np.uint64(count)
    count += width
    if count < 64:
        return at, kept, count
    write_bits(out, at, kept)
    count -= 64
    return at + 64, (flags >> np.uint64(width - count)) if count > 0 else np.uint64(0), count


@compiled
def encode(view: np.record, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write the observation of `view` as counts to `out[at:at + D]` (uint8), by `TABLE_LAYOUT` or `RECALL_LAYOUT`."""
    players = i64(view.num_players)
    card = i64(view.card)
    pot = i64(view.pot)
    seen = view.seen
    shift = np.uint64(LOWEST)
    # The numbers behind the flags, zeros at first: their end here, their beginning by the last flags' own 64 bytes.
    size = _RECALL_SIZE if view.recall else _TABLE_SIZE
    write_bits(out, at + size - 64, np.uint64(0))
    place, kept, count = at + _CARDS, np.uint64(0), 0
    for i in range(MAX_PLAYERS):
        place, kept, count = _put_flags(out, place, kept, count, view.cards[i] >> shift, MAX_CARDS)
    place, kept, count = _put_flags(out, place, kept, count, seen >> shift, MAX_CARDS)
    place, kept, count = _put_flags(out, place, kept, count, (_ONE << np.uint64(card)) >> shift, MAX_CARDS)
    for height in (pot, i64(view.chips[0])):
        flags = (_ONE << np.uint64(min(height, _THERMOMETER))) - _ONE
        place, kept, count = _put_flags(out, place, kept, count, flags, _THERMOMETER)
    write_bits(out, place, kept)
    put(out, at + _NUMBERS, card)
    put(out, at + _POT, pot)
    put(out, at + _CARDS_LEFT, view.cards_left)
    put(out, at + _REMOVED, view.removed)
    put(out, at + _PLAYERS + players - 2, 1)
    if card > 0:
        put(out, at + _UNSEEN_BELOW, 1 if card > view.lowest and (seen >> np.uint64(card - 1)) & _ONE == 0 else 0)
        put(out, at + _UNSEEN_ABOVE, 1 if card < view.highest and (seen >> np.uint64(card + 1)) & _ONE == 0 else 0)
    put(out, at + _TAKER_GOES_ON, view.taker_goes_on)
    put(out, at + _OPEN_CHIPS, view.open_chips)
    if view.turn >= 0:
        put(out, at + _TO_ACT + i64(view.turn), 1)
    for i in range(players):
        chips = i64(view.chips[i])
        put(out, at + _HAS_LEFT + i, view.resigned[i] != 0)
        put(out, at + _CHIPS_KNOWN + i, chips >= 0)
        put(out, at + _CHIPS + i, max(chips, 0))
        put(out, at + _CARD_SCORE + i, min(i64(view.card_score[i]), 255))
        if card > 0:
            difference = change(view.cards[i], card)
            put(out, at + _CHANGE + i, difference - _CHANGE_FLOOR)
            put(out, at + _PRICE + i, max(difference - pot - _PRICE_FLOOR, 0))
    if view.recall:
        for i in range(players):
            put(out, at + _BROKE + i, view.chips[i] == 0)
            put(out, at + _TAKES + i, view.takes[i])
            put(out, at + _REFUSALS + i, min(i64(view.refusals[i]), 255))
            put(out, at + _DEAREST + i, max(i64(view.dearest[i]) - _PRICE_FLOOR, 0))
            none = 1 if view.cheapest[i] == NO_PRICE else 0
            put(out, at + _CHEAPEST + i, max(i64(view.cheapest[i]) - _PRICE_FLOOR, 0) * (1 - none))


@compiled
def imagine(view: np.record, key: np.uint64, state: np.record) -> None:
    """Fill `state` with a random world that agrees with `view`; `key` is its random stream.

    The unseen cards lie in a uniformly random order, of which the end is the removed cards. Where others' chips are
    unknown, every way of dividing them is equally likely. In the table view how the seats have decided is forgotten.
    """
    players = i64(view.num_players)
    state.rng = key
    state.num_players = players
    state.lowest = view.lowest
    state.highest = view.highest
    state.removed = view.removed
    state.start_chips = view.start_chips
    state.taker_goes_on = view.taker_goes_on
    state.open_chips = view.open_chips
    state.played = view.highest - view.lowest + 1 - view.removed
    state.drawn = state.played - view.cards_left
    state.card = view.card
    state.pot = view.pot
    at = i64(view.seat) + view.turn
    state.turn = -1 if view.turn < 0 else (at if at < players else at - players)
    state.num_left = 0
    hidden = players * i64(view.start_chips) - view.pot
    num_hidden = 0
    for i in range(MAX_PLAYERS):
        at = i64(view.seat) + i
        at = i if i >= players else (at if at < players else at - players)
        state.cards[at] = view.cards[i]
        state.card_score[at] = view.card_score[i]
        state.resigned[at] = view.resigned[i]
        state.num_left += view.resigned[i] != 0
        state.chips[at] = max(i64(view.chips[i]), 0)
        state.dearest[at] = view.dearest[i]
        state.cheapest[at] = view.cheapest[i]
        state.takes[at] = view.takes[i]
        state.refusals[at] = view.refusals[i]
        if view.chips[i] < 0:
            num_hidden += 1
        else:
            hidden -= view.chips[i]
    # Chips and the walls between their owners in a row: choosing the walls' places uniformly divides uniformly.
    places = hidden + num_hidden - 1
    walls = num_hidden - 1
    for i in range(players):
        if view.chips[i] >= 0:
            continue
        at = i64(view.seat) + i
        at = at if at < players else at - players
        while places > 0:
            wall = below(draw(state), places) < walls
            places -= 1
            if wall:
                walls -= 1
                break
            state.chips[at] += 1
    seen = view.seen
    state.seen = seen
    num_seen = 0
    for card in range(view.lowest, view.highest + 1):
        if (seen >> np.uint64(card)) & _ONE != 0 and card != view.card:
            state.deck[num_seen] = card
            num_seen += 1
    if view.card > 0:
        state.deck[num_seen] = view.card
        num_seen += 1
    end = num_seen
    for card in range(view.lowest, view.highest + 1):
        if (seen >> np.uint64(card)) & _ONE == 0:
            other = num_seen + below(draw(state), end - num_seen + 1)
            state.deck[end] = state.deck[other]
            state.deck[other] = card
            end += 1
