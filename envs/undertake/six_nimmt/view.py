"""What a seat of 6 nimmt! may know: the view record, its encoding as an observation, and worlds that agree with it.

Seats in a view are relative: 0 is the seat that looks, 1 the next clockwise. Two views exist. `"table"` holds what lies
in sight; `"recall"` adds what a player with a perfect memory knows of this hand: the others' bulls, and every card
that every seat has played. Which seats have chosen already is not part of the observation: it says nothing, and where
all choose at once nobody has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undertake.core.bits import (
    copy_field,
    copy_row,
    lowest_bit,
    popcount,
    put,
    put_field,
    put_row,
    put_word,
    write_bits,
)
from undertake.core.compile import compiled, i64
from undertake.core.layout import Layout, feature
from undertake.six_nimmt.rules import (
    BULLS,
    CHOOSE_ROW,
    MAX_CARDS,
    MAX_HAND,
    MAX_PLAYERS,
    MAX_ROW_SIZE,
    MAX_ROWS,
    NO_ROW,
    TAKE_ROW,
    WAIT,
    all_cards,
    cheapest,
)

VIEW = np.dtype(
    [
        ("hand", np.uint64, 2),
        ("unseen", np.uint64, 2),  # cards of the deck that the seat cannot place
        ("withdrawn", np.uint64, 2),  # recall only: shown cards that went back to the hands of leavers
        ("bulls", np.int16, MAX_PLAYERS),  # of this hand, -1 where unknown
        ("totals", np.int16, MAX_PLAYERS),
        ("shown", np.uint8, MAX_PLAYERS),  # cards not yet placed: one's own, and all while a row is chosen
        ("left_with", np.int8, MAX_PLAYERS),  # cards in the hand of a player that has left, else 0
        ("resigned", np.int8, MAX_PLAYERS),
        ("rows", np.uint8, (MAX_ROWS, MAX_ROW_SIZE)),
        ("row_length", np.int8, MAX_ROWS),
        ("row_end", np.uint8, MAX_ROWS),
        ("row_bulls", np.uint8, MAX_ROWS),
        # The rows once more, by their last cards and the lowest first, a byte a row:
        ("sorted_end", np.uint64),
        ("sorted_length", np.uint64),
        ("sorted_bulls", np.uint64),
        ("fit", np.uint64, MAX_ROWS + 1),  # for a card that goes to no row, to the first of these, ...: `_encode_hand`
        ("played", np.uint8, (MAX_PLAYERS, MAX_HAND)),  # recall only: cards shown in this hand, by trick
        ("last", np.uint8, MAX_PLAYERS),  # recall only, as the next two: of the cards shown the last, 0 for none
        ("lowest", np.uint8, MAX_PLAYERS),
        ("highest", np.uint8, MAX_PLAYERS),
        ("tricks_shown", np.int8),  # tricks of this hand in which cards have been shown
        ("phase", np.int8),
        ("turn", np.int8),  # relative seat to act, -1 when the game is over
        ("trick", np.int8),
        ("hand_number", np.int16),
        ("seat", np.int8),  # the seat that looks, as numbered at the table
        ("recall", np.bool_),
        ("num_players", np.int8),
        ("num_cards", np.int8),
        ("hand_size", np.int8),
        ("num_rows", np.int8),
        ("row_size", np.int8),
        ("limit", np.int16),
        ("single_hand", np.bool_),
        ("cheapest_row", np.bool_),
    ],
    align=True,
)
"""What one seat knows, seats relative."""

_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_BYTE = np.uint64(8)
_HAND_FEATURES = 12  # the first eight of them are put together in one word, a byte each:
_BELOW_ALL, _FREE, _FIT_BULLS, _GAP, _IN_GAP, _ABOVE = (np.uint64(8 * i) for i in range(2, 8))
_CARD = np.array([card | int(BULLS[card]) << 8 for card in range(MAX_CARDS + 1)], np.uint64)
_FROM_GAP_ON = ~np.uint64(0) << _GAP
_EVERY, _TOPS = np.uint64(0x0001000100010001), np.uint64(0x8000800080008000)

TABLE_LAYOUT = Layout(
    (
        feature("hand", (MAX_CARDS,), 1, "own hand, cards 1 to 104"),
        feature("unseen", (MAX_CARDS,), 1, "cards that may still be anywhere"),
        feature("row_cards", (MAX_ROWS, MAX_ROW_SIZE), MAX_CARDS, "cards of each row, 0 for an empty place"),
        feature("row_length", (MAX_ROWS,), MAX_ROW_SIZE, "cards in each row"),
        feature("row_bulls", (MAX_ROWS,), 40, "bulls in each row"),
        feature("sorted_end", (MAX_ROWS,), MAX_CARDS, "last cards, lowest first"),
        feature("sorted_length", (MAX_ROWS,), MAX_ROW_SIZE, "cards in these rows"),
        feature("sorted_bulls", (MAX_ROWS,), 40, "bulls in these rows"),
        feature(
            "hand_cards",
            (MAX_HAND, _HAND_FEATURES),
            MAX_CARDS,
            "for each own card, lowest first: number; its bulls; 1 if below all rows; then of the row it goes to now: "
            "free places, bulls, gap to its end, unseen cards in that gap, unseen cards above the card; "
            "and which of the rows by their ends it is, one-hot; 0 for an empty place",
        ),
        feature("choosing_row", (1,), 1, "a row is to be chosen, by the seat marked below"),
        feature("chooser", (MAX_PLAYERS,), 1, "the seat that has to choose a row"),
        feature("shown", (MAX_PLAYERS,), MAX_CARDS, "cards not yet placed: own, and all while a row is chosen"),
        feature("players", (MAX_PLAYERS - 1,), 1, "number of players, one-hot from 2"),
        feature("tricks_left", (1,), MAX_HAND, "tricks of this hand not finished"),
        feature("num_cards", (1,), MAX_CARDS, "cards of the deck"),
        feature("num_rows", (1,), MAX_ROWS, "rows"),
        feature("row_size", (1,), MAX_ROW_SIZE, "cards that a row holds"),
        feature("single_hand", (1,), 1, "the game ends with this hand (length is 'hand')"),
        feature("cheapest_row", (1,), 1, "the cheapest row is taken without asking"),
        feature("limit", (1,), 255, "total that ends a match"),
        feature("has_left", (MAX_PLAYERS,), 1, "the seat's player has left"),
        feature("totals", (MAX_PLAYERS,), 255, "bulls of finished hands, at most 255"),
        feature("bulls_known", (MAX_PLAYERS,), 1, "the seat's bulls of this hand are known"),
        feature("bulls", (MAX_PLAYERS,), 171, "the seat's bulls of this hand, 0 where unknown"),
    )
)
RECALL_LAYOUT = Layout(
    (
        *TABLE_LAYOUT.features,
        feature("last", (MAX_PLAYERS,), MAX_CARDS, "the card each seat showed last in this hand"),
        feature("lowest", (MAX_PLAYERS,), MAX_CARDS, "the lowest card each seat has shown in this hand"),
        feature("highest", (MAX_PLAYERS,), MAX_CARDS, "the highest card each seat has shown in this hand"),
        feature("played", (MAX_PLAYERS, MAX_HAND), MAX_CARDS, "the cards each seat has shown in this hand, by trick"),
    )
)

_HAND = TABLE_LAYOUT.start("hand")
_UNSEEN = TABLE_LAYOUT.start("unseen")
_ROW_CARDS = TABLE_LAYOUT.start("row_cards")
_ROW_LENGTH = TABLE_LAYOUT.start("row_length")
_ROW_BULLS = TABLE_LAYOUT.start("row_bulls")
_SORTED_END = TABLE_LAYOUT.start("sorted_end")
_SORTED_LENGTH = TABLE_LAYOUT.start("sorted_length")
_SORTED_BULLS = TABLE_LAYOUT.start("sorted_bulls")
_HAND_CARDS = TABLE_LAYOUT.start("hand_cards")
_CHOOSING_ROW = TABLE_LAYOUT.start("choosing_row")
_CHOOSER = TABLE_LAYOUT.start("chooser")
_SHOWN = TABLE_LAYOUT.start("shown")
_PLAYERS = TABLE_LAYOUT.start("players")
_TRICKS_LEFT = TABLE_LAYOUT.start("tricks_left")
_NUM_CARDS = TABLE_LAYOUT.start("num_cards")
_NUM_ROWS = TABLE_LAYOUT.start("num_rows")
_ROW_SIZE = TABLE_LAYOUT.start("row_size")
_SINGLE_HAND = TABLE_LAYOUT.start("single_hand")
_CHEAPEST_ROW = TABLE_LAYOUT.start("cheapest_row")
_LIMIT = TABLE_LAYOUT.start("limit")
_HAS_LEFT = TABLE_LAYOUT.start("has_left")
_TOTALS = TABLE_LAYOUT.start("totals")
_BULLS_KNOWN = TABLE_LAYOUT.start("bulls_known")
_BULLS = TABLE_LAYOUT.start("bulls")
_TABLE_SIZE = TABLE_LAYOUT.size
_LAST = RECALL_LAYOUT.start("last")
_LOWEST = RECALL_LAYOUT.start("lowest")
_HIGHEST = RECALL_LAYOUT.start("highest")
_PLAYED = RECALL_LAYOUT.start("played")
_RECALL_SIZE = RECALL_LAYOUT.size
_CHUNK = 64
_ZEROED, _ZEROED_TABLE = (_RECALL_SIZE - _ROW_CARDS) // _CHUNK, (_TABLE_SIZE - _ROW_CARDS) // _CHUNK


@compiled
def _see_rows(state: np.record, view: np.record) -> None:
    """Copy the rows, and sort them by counting for each how many end lower: no branch depends on the cards."""
    copy_field(view.rows, state.rows)
    copy_field(view.row_length, state.row_length)
    copy_field(view.row_end, state.row_end)
    copy_field(view.row_bulls, state.row_bulls)
    view.fit[0] = _ONE << _BELOW_ALL
    ends = lengths = costs = np.uint64(0)
    for row in range(MAX_ROWS):
        end = i64(state.row_end[row])
        place = 0
        for other in range(row):
            place += 1 if state.row_end[other] <= end else 0
        for other in range(row + 1, MAX_ROWS):
            place += 1 if state.row_end[other] < end else 0
        shift = np.uint64(8 * place)
        length, bulls = np.uint64(state.row_length[row]), np.uint64(state.row_bulls[row])
        ends |= np.uint64(end if end != NO_ROW else 0) << shift
        lengths |= length << shift
        costs |= bulls << shift
        lower = np.uint64(count_below(view.unseen[0], view.unseen[1], min(end, MAX_CARDS) + 1))
        free = np.uint64(state.row_size) - length
        view.fit[place + 1] = (free << _FREE) | (bulls << _FIT_BULLS) | (np.uint64(end) << _GAP) | (lower << _IN_GAP)
    view.sorted_end, view.sorted_length, view.sorted_bulls = ends, lengths, costs


@compiled
def _see_seat(state: np.record, at: int, recall: bool, view: np.record, i: int) -> None:
    open_cards = state.phase == CHOOSE_ROW
    chosen = i64(state.chosen[at])
    view.totals[i] = state.totals[at]
    view.bulls[i] = state.bulls[at] if recall or i == 0 else -1
    view.resigned[i] = state.resigned[at]
    view.shown[i] = chosen if open_cards or i == 0 else 0
    view.left_with[i] = 0
    if state.resigned[at] != 0:
        view.left_with[i] = popcount(state.hand[at, 0]) + popcount(state.hand[at, 1])
    if recall:
        copy_row(view.played, i, state.played, at)
        view.last[i] = state.last[at]
        view.lowest[i] = state.lowest[at]
        view.highest[i] = state.highest[at]
    else:
        view.last[i] = 0
        view.lowest[i] = 0
        view.highest[i] = 0


@compiled
def _hide(view: np.record, card: int) -> None:
    """Take a card that the seat can place out of the unseen ones; card 0 is none."""
    if card > 0:
        bit = np.uint64(card - 1)
        view.unseen[bit >> _SIX] &= ~(_ONE << (bit & _LOW))


@compiled
def see(state: np.record, seat: int, recall: bool, view: np.record) -> None:
    """Fill `view` with what `seat` may know of `state`."""
    players = i64(state.num_players)
    for word in range(2):
        known = state.hand[seat, word] | (state.seen[word] if recall else state.in_rows[word])
        view.hand[word] = state.hand[seat, word]
        view.unseen[word] = all_cards(state.num_cards, word) & ~known
        view.withdrawn[word] = state.withdrawn[word] if recall else np.uint64(0)
    for i in range(players):
        at = seat + i
        _see_seat(state, at if at < players else at - players, recall, view, i)
        _hide(view, view.shown[i])
    _see_rows(state, view)
    tricks = i64(state.trick) + (1 if state.phase == CHOOSE_ROW else 0)
    turn = i64(state.turn) - seat
    view.turn = -1 if state.turn < 0 else (turn if turn >= 0 else turn + players)
    view.tricks_shown = tricks
    view.phase = state.phase
    view.trick = state.trick
    view.hand_number = state.hand_number
    view.seat = seat
    view.recall = recall
    view.num_players = players
    view.num_cards = state.num_cards
    view.hand_size = state.hand_size
    view.num_rows = state.num_rows
    view.row_size = state.row_size
    view.limit = state.limit
    view.single_hand = state.single_hand
    view.cheapest_row = state.cheapest_row


@compiled
def count_below(low: np.uint64, high: np.uint64, card: int) -> int:
    """How many cards of a set (two words) are lower than `card`, 1 to 105."""
    in_high = card > 64
    mask = (_ONE << np.uint64((card - 1) & 63)) - _ONE
    return popcount(low & (~np.uint64(0) if in_high else mask)) + popcount(high & (mask if in_high else np.uint64(0)))


@compiled
def decides(view: np.record) -> bool:
    """Whether the seat that looks has a decision to make now."""
    if view.turn < 0:
        return False
    if view.phase == CHOOSE_ROW:
        return bool(view.turn == 0)
    return bool(view.shown[0] == 0 and view.resigned[0] == 0)


@compiled
def legal(view: np.record, mask: npt.NDArray[np.int8], at: int) -> None:
    """Write to `mask[at:at + 109]` (int8) what the seat that looks may do; zeros where it has nothing to decide."""
    low = view.hand[0]
    high = view.hand[1]
    choosing = decides(view)
    if view.phase == CHOOSE_ROW or not choosing:
        low = np.uint64(0)
        high = np.uint64(0)
        if choosing:
            high = ((_ONE << np.uint64(view.num_rows)) - _ONE) << np.uint64(TAKE_ROW - 64)
    # Two stores of 64 bytes cover the row of 109 exactly, the second one ending at its end.
    write_bits(mask, at, low)
    write_bits(mask, at + WAIT - 63, (low >> np.uint64(WAIT - 63)) | (high << np.uint64(127 - WAIT)))


@compiled
def default_action(view: np.record) -> int:
    """What is played for a player who overruns the time: the lowest card, or the cheapest row ("Time-out")."""
    if view.phase == CHOOSE_ROW:
        return TAKE_ROW + cheapest(view)
    return lowest_bit(view.hand[0]) if view.hand[0] != 0 else 64 + lowest_bit(view.hand[1])


@compiled
def _encode_rows(view: np.record, out: npt.NDArray[np.uint8], at: int) -> None:
    put_field(out, at + _ROW_CARDS, view.rows)
    put_field(out, at + _ROW_LENGTH, view.row_length)
    put_field(out, at + _ROW_BULLS, view.row_bulls)
    # Each word covers the beginning of what is written next.
    put_word(out, at + _SORTED_END, view.sorted_end)
    put_word(out, at + _SORTED_LENGTH, view.sorted_length)
    put_word(out, at + _SORTED_BULLS, view.sorted_bulls)


@compiled
def _encode_hand(view: np.record, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write the features of each own card, the first eight of them as one word and the last four as another.

    What a card does not have is looked up as zero rather than skipped: a branch that depends on the cards is guessed
    wrong half of the time, which costs more than all the rest.
    """
    slot = at + _HAND_CARDS
    unseen_low, unseen_high = view.unseen[0], view.unseen[1]
    num_low = np.uint64(popcount(unseen_low))
    num_unseen = num_low + np.uint64(popcount(unseen_high))
    ends = np.uint64(0)
    for row in range(MAX_ROWS):
        ends |= np.uint64(view.row_end[row]) << np.uint64(16 * row)
    low, high = view.hand[0], view.hand[1]
    for _ in range(popcount(low) + popcount(high)):
        in_low = low != 0
        word = low if in_low else high
        rest = word & (word - _ONE)
        low = rest if in_low else low
        high = high if in_low else rest
        card = np.uint64(lowest_bit(word) + (1 if in_low else 65))
        below_card = (word ^ rest) - _ONE
        lower = np.uint64(popcount((unseen_low if in_low else unseen_high) & below_card))
        lower += np.uint64(0) if in_low else num_low
        # Four differences at once, in lanes of 16 bits: the top bit stays where the row ends lower.
        place = popcount((_TOPS - _EVERY + card * _EVERY - ends) & _TOPS)
        fit = view.fit[place]
        gap = (card << _GAP) + (lower << _IN_GAP) - (fit & _FROM_GAP_ON)
        gap = gap if place > 0 else np.uint64(0)
        put_word(out, slot, _CARD[card] + (fit & ~_FROM_GAP_ON) + gap + ((num_unseen - lower) << _ABOVE))
        put_word(out, slot + 8, (_ONE << np.uint64(8 * place)) >> _BYTE)
        slot += _HAND_FEATURES


@compiled
def encode(view: np.record, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write the observation of `view` as counts to `out[at:at + D]` (uint8), by `TABLE_LAYOUT` or `RECALL_LAYOUT`."""
    players = i64(view.num_players)
    size = _RECALL_SIZE if view.recall else _TABLE_SIZE
    write_bits(out, at + _HAND, view.hand[0])
    write_bits(out, at + _HAND + 64, view.hand[1])
    write_bits(out, at + _UNSEEN, view.unseen[0])
    write_bits(out, at + _UNSEEN + 64, view.unseen[1])
    for i in range(_ZEROED_TABLE):
        write_bits(out, at + _ROW_CARDS + i * _CHUNK, np.uint64(0))
    if view.recall:
        for i in range(_ZEROED_TABLE, _ZEROED):
            write_bits(out, at + _ROW_CARDS + i * _CHUNK, np.uint64(0))
    write_bits(out, at + size - _CHUNK, np.uint64(0))
    _encode_rows(view, out, at)
    _encode_hand(view, out, at)
    if view.phase == CHOOSE_ROW and view.turn >= 0:
        put(out, at + _CHOOSING_ROW, 1)
        put(out, at + _CHOOSER + i64(view.turn), 1)
    put(out, at + _PLAYERS + players - 2, 1)
    put(out, at + _TRICKS_LEFT, view.hand_size - view.trick)
    put(out, at + _NUM_CARDS, view.num_cards)
    put(out, at + _NUM_ROWS, view.num_rows)
    put(out, at + _ROW_SIZE, view.row_size)
    put(out, at + _SINGLE_HAND, view.single_hand)
    put(out, at + _CHEAPEST_ROW, view.cheapest_row)
    put(out, at + _LIMIT, view.limit)
    for i in range(players):
        put(out, at + _SHOWN + i, view.shown[i])
        put(out, at + _HAS_LEFT + i, view.resigned[i] != 0)
        put(out, at + _TOTALS + i, min(i64(view.totals[i]), 255))
        put(out, at + _BULLS_KNOWN + i, view.bulls[i] >= 0)
        put(out, at + _BULLS + i, max(i64(view.bulls[i]), 0))
    if view.recall:
        for i in range(players):
            put(out, at + _LAST + i, view.last[i])
            put(out, at + _LOWEST + i, view.lowest[i])
            put(out, at + _HIGHEST + i, view.highest[i])
            put_row(out, at + _PLAYED + i * MAX_HAND, view.played, i)
