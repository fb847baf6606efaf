"""Worlds that agree with a view of 6 nimmt!."""

from __future__ import annotations

import numpy as np

from undertake.core.bits import nth_bit, popcount
from undertake.core.compile import compiled, i64
from undertake.core.rng import below, draw
from undertake.six_nimmt.rules import (
    BULLS,
    CHOOSE_ROW,
    MAX_HAND,
    MAX_PLAYERS,
    MAX_ROW_SIZE,
    MAX_ROWS,
    NO_ROW,
    all_cards,
)

_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_TRIES = 64


@compiled
def _nth(low: np.uint64, high: np.uint64, n: int) -> int:
    """The n-th card of a set, counted from 0."""
    in_low = popcount(low)
    in_first = n < in_low
    return nth_bit(low if in_first else high, n if in_first else n - in_low) + (1 if in_first else 65)


@compiled
def _bulls_of(low: np.uint64, high: np.uint64) -> int:
    bulls = 0
    for i in range(popcount(low) + popcount(high)):
        bulls += BULLS[_nth(low, high, i)]
    return bulls


@compiled
def _seat_of(view: np.record, i: int) -> int:
    at = i64(view.seat) + i
    return at if at < view.num_players else at - view.num_players


@compiled
def _copy_public(view: np.record, state: np.record) -> None:
    """Copy what the view and the state share, with the seats as numbered at the table."""
    state.num_players = view.num_players
    state.num_cards = view.num_cards
    state.hand_size = view.hand_size
    state.num_rows = view.num_rows
    state.row_size = view.row_size
    state.limit = view.limit
    state.single_hand = view.single_hand
    state.cheapest_row = view.cheapest_row
    state.phase = view.phase
    state.trick = view.trick
    state.hand_number = view.hand_number
    state.turn = -1 if view.turn < 0 else _seat_of(view, view.turn)
    state.num_left = 0
    for row in range(view.num_rows, MAX_ROWS):
        state.row_end[row] = NO_ROW
    for row in range(view.num_rows):
        state.row_length[row] = view.row_length[row]
        state.row_end[row] = view.row_end[row]
        state.row_bulls[row] = view.row_bulls[row]
        for i in range(MAX_ROW_SIZE):
            state.rows[row, i] = view.rows[row, i]
    for i in range(view.num_players):
        at = _seat_of(view, i)
        state.totals[at] = view.totals[i]
        state.bulls[at] = max(i64(view.bulls[i]), 0)
        state.resigned[at] = view.resigned[i]
        state.num_left += view.resigned[i] != 0
        state.chosen[at] = view.shown[i]
        state.last_row[at] = -1
        state.last_bulls[at] = 0
        for word in range(2):
            state.hand[at, word] = view.hand[word] if i == 0 else np.uint64(0)


@compiled
def _in_rows(view: np.record, word: int) -> np.uint64:
    """The cards in the rows."""
    cards = np.uint64(0)
    for row in range(view.num_rows):
        for i in range(view.row_length[row]):
            bit = np.uint64(view.rows[row, i] - 1)
            if (bit >> _SIX) == word:
                cards |= _ONE << (bit & _LOW)
    return cards


@compiled
def _on_table(view: np.record, word: int) -> np.uint64:
    """The cards in the rows, and the shown ones while a row is chosen."""
    cards = _in_rows(view, word)
    if view.phase == CHOOSE_ROW:
        for i in range(view.num_players):
            if view.shown[i] > 0:
                bit = np.uint64(view.shown[i] - 1)
                if (bit >> _SIX) == word:
                    cards |= _ONE << (bit & _LOW)
    return cards


@compiled
def _known_in_hand(view: np.record, i: int) -> int:
    """How many cards of a leaver's hand all have seen."""
    known = 0
    for trick in range(view.tricks_shown):
        card = i64(view.played[i, trick])
        if card > 0:
            bit = np.uint64(card - 1)
            if (view.withdrawn[bit >> _SIX] >> (bit & _LOW)) & _ONE != 0:
                known += 1
    return known


@compiled
def _num_taken(view: np.record) -> int:
    """How many cards have been taken in this hand, counted from what is not in hands."""
    taken = i64(view.num_rows)
    for i in range(view.num_players):
        if view.resigned[i] == 0:
            taken += view.trick
        elif view.left_with[i] > 0:  # who left in an earlier hand has no cards, who left in this one has some
            taken += i64(view.hand_size) - view.left_with[i]
    for row in range(view.num_rows):
        taken -= view.row_length[row]
    return taken


@compiled
def _draw_unseen(state: np.record) -> np.uint64:
    """Take a random card, of which one less is returned, out of the undealt ones."""
    card = np.uint64(_nth(state.undealt[0], state.undealt[1], below(draw(state), _num_undealt(state))) - 1)
    state.undealt[card >> _SIX] &= ~(_ONE << (card & _LOW))
    return card


@compiled
def _num_undealt(state: np.record) -> int:
    return popcount(state.undealt[0]) + popcount(state.undealt[1])


@compiled
def _deal_unseen(view: np.record, state: np.record, num_taken: int) -> None:
    """Deal the unseen cards at random: to the cards taken (table view), to the hands, and the rest stays undealt."""
    for word in range(2):
        state.undealt[word] = view.unseen[word]
        state.taken[word] = 0
    for _ in range(num_taken):
        card = _draw_unseen(state)
        state.taken[card >> _SIX] |= _ONE << (card & _LOW)
    for i in range(1, view.num_players):
        at = _seat_of(view, i)
        state.hand[at, 0] = 0
        state.hand[at, 1] = 0
        need = i64(view.left_with[i])
        if view.resigned[i] == 0:
            need = i64(view.hand_size) - view.trick - (0 if view.phase != CHOOSE_ROW else 1)
        if view.recall:
            need -= _known_in_hand(view, i)
        for _ in range(need):
            card = _draw_unseen(state)
            state.hand[at, card >> _SIX] |= _ONE << (card & _LOW)


@compiled
def _raise_taken(view: np.record, state: np.record) -> None:
    """Swap cards until those taken hold the bulls that the seat itself has taken: only where chance failed."""
    while _bulls_of(state.taken[0], state.taken[1]) < view.bulls[0]:
        poor, rich = 0, 0
        for i in range(popcount(state.taken[0]) + popcount(state.taken[1])):
            card = _nth(state.taken[0], state.taken[1], i)
            if poor == 0 or BULLS[card] < BULLS[poor]:
                poor = card
        low = view.unseen[0] & ~state.taken[0]
        high = view.unseen[1] & ~state.taken[1]
        for i in range(popcount(low) + popcount(high)):
            card = _nth(low, high, i)
            if rich == 0 or BULLS[card] > BULLS[rich]:
                rich = card
        if rich == 0 or BULLS[rich] <= BULLS[poor]:
            return
        out = np.uint64(poor - 1)
        back = np.uint64(rich - 1)
        state.taken[out >> _SIX] &= ~(_ONE << (out & _LOW))
        state.taken[back >> _SIX] |= _ONE << (back & _LOW)
        if (state.undealt[back >> _SIX] >> (back & _LOW)) & _ONE != 0:
            state.undealt[back >> _SIX] &= ~(_ONE << (back & _LOW))
            state.undealt[out >> _SIX] |= _ONE << (out & _LOW)
        for at in range(view.num_players):
            if at != view.seat and (state.hand[at, back >> _SIX] >> (back & _LOW)) & _ONE != 0:
                state.hand[at, back >> _SIX] &= ~(_ONE << (back & _LOW))
                state.hand[at, out >> _SIX] |= _ONE << (out & _LOW)


@compiled
def _imagine_past(view: np.record, state: np.record) -> None:
    """For the table view: who took which bulls, and who played which of the cards that are out."""
    others = i64(view.num_players) - 1
    for _ in range(_bulls_of(state.taken[0], state.taken[1]) - view.bulls[0]):
        state.bulls[_seat_of(view, 1 + below(draw(state), others))] += 1
    low = state.taken[0] | _on_table(view, 0)
    high = state.taken[1] | _on_table(view, 1)
    state.seen[0] = low
    state.seen[1] = high
    if view.phase == CHOOSE_ROW:
        for i in range(view.num_players):
            card = i64(view.shown[i])
            state.played[_seat_of(view, i), view.trick] = card
            if card > 0:
                bit = np.uint64(card - 1)
                if (bit >> _SIX) == 0:
                    low &= ~(_ONE << (bit & _LOW))
                else:
                    high &= ~(_ONE << (bit & _LOW))
    for i in range(view.num_players):
        tricks = i64(view.trick)
        if view.resigned[i] != 0:
            tricks = i64(view.hand_size) - view.left_with[i] if view.left_with[i] > 0 else 0
        for trick in range(view.trick):
            card = 0
            if trick < tricks:
                card = _nth(low, high, below(draw(state), popcount(low) + popcount(high)))
                bit = np.uint64(card - 1)
                if (bit >> _SIX) == 0:
                    low &= ~(_ONE << (bit & _LOW))
                else:
                    high &= ~(_ONE << (bit & _LOW))
            state.played[_seat_of(view, i), trick] = card


@compiled
def _remember_past(view: np.record, state: np.record) -> None:
    """For the recall view: all that was shown is known."""
    own = np.uint64(0)
    own_word = -1
    if view.phase != CHOOSE_ROW and view.shown[0] > 0:
        bit = np.uint64(view.shown[0] - 1)
        own = _ONE << (bit & _LOW)
        own_word = i64(bit >> _SIX)
    for word in range(2):
        seen = all_cards(view.num_cards, word) & ~view.unseen[word] & ~view.hand[word]
        if word == own_word:
            seen &= ~own
        if view.resigned[0] != 0:  # a leaver looks: its own withdrawn card lies in its hand, and all have seen it
            seen |= view.hand[word] & view.withdrawn[word]
        state.seen[word] = seen
        state.taken[word] = seen & ~_on_table(view, word) & ~view.withdrawn[word]
    for trick in range(view.tricks_shown):
        for i in range(view.num_players):
            at = _seat_of(view, i)
            card = i64(view.played[i, trick])
            state.played[at, trick] = card
            if i > 0 and card > 0:
                bit = np.uint64(card - 1)
                if (view.withdrawn[bit >> _SIX] >> (bit & _LOW)) & _ONE != 0:
                    state.hand[at, bit >> _SIX] |= _ONE << (bit & _LOW)


@compiled
def _sum_up_past(view: np.record, state: np.record) -> None:
    """Each seat's last, lowest and highest card, from the cards played."""
    for at in range(view.num_players):
        last, lowest, highest = 0, 0, 0
        for trick in range(view.tricks_shown):
            card = i64(state.played[at, trick])
            if card > 0:
                last = card
                lowest = card if lowest == 0 else min(lowest, card)
                highest = max(highest, card)
        state.last[at] = last
        state.lowest[at] = lowest
        state.highest[at] = highest


@compiled
def imagine(view: np.record, key: np.uint64, state: np.record) -> None:
    """Fill `state` with a random world that agrees with `view`; `key` is its random stream.

    The unseen cards are dealt uniformly to the others' hands and the undealt rest, and of a hand from which a card has
    been chosen in secret each card is equally likely to be it. In the table view the cards taken are dealt as well, so
    that they hold at least the bulls of the seat that looks; who took and played them is then drawn freely.
    """
    state.rng = key
    _copy_public(view, state)
    for seat in range(MAX_PLAYERS):
        for trick in range(MAX_HAND):
            state.played[seat, trick] = 0
    num_taken = 0 if view.recall else _num_taken(view)
    for _ in range(_TRIES):
        _deal_unseen(view, state, num_taken)
        if view.recall or _bulls_of(state.taken[0], state.taken[1]) >= view.bulls[0]:
            break
    for word in range(2):
        state.in_rows[word] = _in_rows(view, word)
        state.withdrawn[word] = view.withdrawn[word]
    if view.recall:
        _remember_past(view, state)
    else:
        _raise_taken(view, state)
        _imagine_past(view, state)
    _sum_up_past(view, state)
    if view.phase == CHOOSE_ROW:
        return
    for i in range(1, view.num_players):
        at = _seat_of(view, i)
        if view.resigned[i] == 0 and at < state.turn:  # the seats choose in their order
            low = state.hand[at, 0]
            high = state.hand[at, 1]
            card = _nth(low, high, below(draw(state), popcount(low) + popcount(high)))
            bit = np.uint64(card - 1)
            state.hand[at, bit >> _SIX] &= ~(_ONE << (bit & _LOW))
            state.chosen[at] = card
