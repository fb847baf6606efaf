"""The rules of 6 nimmt! for one table, as plain functions on one record.

Written from the rulebook as settled in the project's rules: 104 cards with bulls on them, four rows of at most five.
All players choose a card in secret and at the same time; the cards are shown and placed lowest first, each on the row
whose last card is the largest one below it. Whoever places a sixth card takes the five; whose card is below all rows
chooses a row to take. After ten turns the bulls are counted; the game ends when somebody has 66, and the fewest win.

Sets of cards are two uint64 words in which bit c - 1 of the 128 stands for the card c. Counters are signed: numba turns
arithmetic that mixes signed and unsigned integers into floats. The seats choose in the order 0, 1, ... because one
decision is played at a time; nobody sees what was chosen before all are shown.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undertake.core.bits import nth_bit, popcount
from undertake.core.compile import compiled, i64
from undertake.core.rng import below, draw

MAX_PLAYERS = 10
MAX_CARDS = 104
MAX_HAND = 10
MAX_ROWS = 4
MAX_ROW_SIZE = 5
MAX_LIMIT = 255

TAKE_ROW = MAX_CARDS  # action 104 + r takes row r; action c - 1 plays card c
WAIT = TAKE_ROW + MAX_ROWS
NUM_ACTIONS = WAIT + 1

CHOOSE_CARD, CHOOSE_ROW = 0, 1
NO_ROW = 255

STATE = np.dtype(
    [
        ("rng", np.uint64),
        ("hand", np.uint64, (MAX_PLAYERS, 2)),
        ("seen", np.uint64, 2),  # cards of this hand that all have seen: row starts and shown cards
        ("in_rows", np.uint64, 2),
        ("taken", np.uint64, 2),  # cards taken in this hand
        ("undealt", np.uint64, 2),
        ("withdrawn", np.uint64, 2),  # shown cards that went back to the hands of leavers
        ("bulls", np.int16, MAX_PLAYERS),  # taken in this hand
        ("totals", np.int16, MAX_PLAYERS),  # of the finished hands
        ("chosen", np.uint8, MAX_PLAYERS),  # card chosen and not yet placed, 0 for none
        ("resigned", np.int8, MAX_PLAYERS),  # 0, or the order of leaving from 1
        ("rows", np.uint8, (MAX_ROWS, MAX_ROW_SIZE)),  # 0 for an empty place
        ("row_length", np.int8, MAX_ROWS),
        ("row_end", np.uint8, MAX_ROWS),  # the last card; NO_ROW where there is no row
        ("row_bulls", np.uint8, MAX_ROWS),
        ("played", np.uint8, (MAX_PLAYERS, MAX_HAND)),  # cards each seat has shown in this hand, by trick, 0 for none
        ("last", np.uint8, MAX_PLAYERS),  # of the cards each seat has shown in this hand the last, 0 for none
        ("lowest", np.uint8, MAX_PLAYERS),
        ("highest", np.uint8, MAX_PLAYERS),
        ("last_row", np.int8, MAX_PLAYERS),  # where the seat's last card went
        ("last_bulls", np.int16, MAX_PLAYERS),  # bulls it took with that card
        ("phase", np.int8),
        ("turn", np.int8),  # seat to act, -1 when the game is over
        ("trick", np.int8),  # tricks finished in this hand
        ("hand_number", np.int16),
        ("num_left", np.int8),  # players that have left
        ("deck", np.uint8, MAX_CARDS),  # in dealing order
        # The options of the game:
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
"""One table. All of it: two equal records go on equally."""

_NONE = 255 << 4
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)


def _bulls_on(card: int) -> int:
    if card == 55:
        return 7
    if card % 11 == 0:
        return 5
    if card % 10 == 0:
        return 3
    return 2 if card % 5 == 0 else 1


BULLS: npt.NDArray[np.int64] = np.array([0, *(_bulls_on(card) for card in range(1, MAX_CARDS + 1))])
"""Bulls by card ("Material"): 55 has seven, other multiples of 11 five, of 10 three, of 5 two, all others one."""


@compiled
def all_cards(num_cards: int, word: int) -> np.uint64:
    """The first or second word of the set of all cards 1 to `num_cards`."""
    count = num_cards - 64 * word
    if count >= 64:
        return ~np.uint64(0)
    return (_ONE << np.uint64(count)) - _ONE if count > 0 else np.uint64(0)


@compiled
def shuffle(state: np.record) -> None:
    """Shuffle as much of the deck as may be dealt ("Set-up of a hand")."""
    count = i64(state.num_cards)
    for i in range(count):
        state.deck[i] = i + 1
    for i in range(i64(state.num_players) * state.hand_size + state.num_rows):
        j = i + below(draw(state), count - i)
        card = state.deck[i]
        state.deck[i] = state.deck[j]
        state.deck[j] = card


@compiled
def deal_hand(state: np.record) -> None:
    """Deal from the deck as it lies: a hand to each player in the game, then the start of each row."""
    position = 0
    for word in range(2):
        state.undealt[word] = all_cards(state.num_cards, word)
        state.seen[word] = 0
        state.in_rows[word] = 0
        state.taken[word] = 0
        state.withdrawn[word] = 0
    for seat in range(MAX_PLAYERS):
        for trick in range(MAX_HAND):
            state.played[seat, trick] = 0
    for seat in range(state.num_players):
        state.hand[seat, 0] = 0
        state.hand[seat, 1] = 0
        state.chosen[seat] = 0
        state.bulls[seat] = 0
        state.last[seat] = 0
        state.lowest[seat] = 0
        state.highest[seat] = 0
        if state.resigned[seat] != 0:
            continue
        for _ in range(state.hand_size):
            card = np.uint64(state.deck[position] - 1)
            state.hand[seat, card >> _SIX] |= _ONE << (card & _LOW)
            position += 1
        state.undealt[0] &= ~state.hand[seat, 0]
        state.undealt[1] &= ~state.hand[seat, 1]
    for row in range(state.num_rows):
        card = np.uint64(state.deck[position] - 1)
        _start_row(state, row, i64(state.deck[position]))
        state.seen[card >> _SIX] |= _ONE << (card & _LOW)
        position += 1
    for row in range(state.num_rows, MAX_ROWS):
        state.row_end[row] = NO_ROW
    state.undealt[0] &= ~state.seen[0]
    state.undealt[1] &= ~state.seen[1]
    state.trick = 0
    state.phase = CHOOSE_CARD
    state.turn = next_to_choose(state, 0)


@compiled
def start(state: np.record, first_player: int) -> None:
    """Begin a game with the deck as it lies. All choose at once, so there is no first player."""
    for seat in range(MAX_PLAYERS):
        state.totals[seat] = 0
        state.resigned[seat] = 0
        state.last_row[seat] = -1
        state.last_bulls[seat] = 0
    state.num_left = 0
    state.hand_number = 0
    deal_hand(state)


@compiled
def next_to_choose(state: np.record, seat: int) -> int:
    """The first player from `seat` on who is in the game and has no card chosen; -1 if there is none."""
    while seat < state.num_players:
        if state.resigned[seat] == 0 and state.chosen[seat] == 0:
            return seat
        seat += 1
    return -1


@compiled
def _start_row(state: np.record, row: int, card: int) -> None:
    """Let a row consist of one card."""
    bit = np.uint64(card - 1)
    state.in_rows[bit >> _SIX] |= _ONE << (bit & _LOW)
    state.rows[row, 0] = card
    for i in range(1, MAX_ROW_SIZE):
        state.rows[row, i] = 0
    state.row_length[row] = 1
    state.row_end[row] = card
    state.row_bulls[row] = BULLS[card]


@compiled
def cheapest(state: np.record) -> int:
    """The row with fewest bulls; ties go to fewest cards, then to the topmost. `state` may be a view."""
    best, best_cost = 0, 1 << 30
    for row in range(state.num_rows):
        cost = i64(state.row_bulls[row]) * 8 + state.row_length[row]
        if cost < best_cost:
            best, best_cost = row, cost
    return best


@compiled
def row_for(state: np.record, card: int) -> int:
    """The row whose last card is the largest one smaller than `card`; -1 if there is none. `state` may be a view."""
    best = -1  # the end and the row in one number, so that no branch depends on the cards
    for row in range(MAX_ROWS):
        end = i64(state.row_end[row])
        best = max(best, end << 2 | row if end < card else -1)
    return best & 3 if best >= 0 else -1


@compiled
def _take_row(state: np.record, seat: int, row: int) -> None:
    """The player takes all cards of the row, and the chosen card starts it anew."""
    bulls = i64(state.row_bulls[row])
    for i in range(state.row_length[row]):
        bit = np.uint64(state.rows[row, i] - 1)
        state.taken[bit >> _SIX] |= _ONE << (bit & _LOW)
        state.in_rows[bit >> _SIX] &= ~(_ONE << (bit & _LOW))
    state.bulls[seat] += bulls
    _start_row(state, row, i64(state.chosen[seat]))
    state.chosen[seat] = 0
    state.last_row[seat] = row
    state.last_bulls[seat] = bulls


@compiled
def _lowest_chosen(state: np.record, floor: int) -> int:
    """The seat whose chosen card is the lowest above `floor`; -1 if there is none."""
    best = _NONE  # the card and the seat in one number, as in `row_for`
    for seat in range(state.num_players):
        card = i64(state.chosen[seat])
        best = min(best, card << 4 | seat if card > floor else _NONE)
    return best & 15 if best < _NONE else -1


@compiled
def _place_all(state: np.record) -> None:
    """Place the shown cards, lowest first; whoever would place a card too many takes the row ("Sixth card")."""
    card = 0
    while True:
        seat = _lowest_chosen(state, card)
        if seat < 0:
            break
        card = i64(state.chosen[seat])
        row = row_for(state, card)
        length = state.row_length[row]
        if length == state.row_size:
            _take_row(state, seat, row)
        else:
            bit = np.uint64(card - 1)
            state.in_rows[bit >> _SIX] |= _ONE << (bit & _LOW)
            state.rows[row, length] = card
            state.row_length[row] = length + 1
            state.row_end[row] = card
            state.row_bulls[row] += BULLS[card]
            state.last_row[seat] = row
            state.last_bulls[seat] = 0
    for seat in range(state.num_players):
        state.chosen[seat] = 0
    state.trick += 1
    state.phase = CHOOSE_CARD
    if state.trick == state.hand_size:
        _end_hand(state)
    else:
        state.turn = next_to_choose(state, 0)


@compiled
def _end_hand(state: np.record) -> None:
    """Add the bulls to the totals; the game is over at the limit, else a new hand is dealt ("End of the game")."""
    over = state.single_hand
    for seat in range(state.num_players):
        state.totals[seat] += state.bulls[seat]
        state.bulls[seat] = 0
        if state.totals[seat] >= state.limit:
            over = True
    if over:
        state.turn = -1
    else:
        state.hand_number += 1
        shuffle(state)
        deal_hand(state)


@compiled
def _place_or_ask(state: np.record) -> None:
    """Place the shown cards, unless the lowest fits nowhere and its owner has to choose a row first ("Too low")."""
    seat = _lowest_chosen(state, 0)
    if seat >= 0 and row_for(state, state.chosen[seat]) < 0:
        if not state.cheapest_row:
            state.phase = CHOOSE_ROW
            state.turn = seat
            return
        _take_row(state, seat, cheapest(state))
    _place_all(state)


@compiled
def _show_all(state: np.record) -> None:
    """All have chosen: the cards are shown."""
    for seat in range(state.num_players):
        card = state.chosen[seat]
        state.played[seat, state.trick] = card
        if card > 0:
            state.last[seat] = card
            state.lowest[seat] = card if state.lowest[seat] == 0 else min(card, state.lowest[seat])
            state.highest[seat] = max(card, state.highest[seat])
            bit = np.uint64(card - 1)
            state.seen[bit >> _SIX] |= _ONE << (bit & _LOW)
    _place_or_ask(state)


@compiled
def is_legal(state: np.record, action: int) -> bool:
    """Whether the seat to act may do so: play a card it holds, or take any row where it has to choose one."""
    if state.phase == CHOOSE_ROW:
        return bool(TAKE_ROW <= action < TAKE_ROW + state.num_rows)
    if action < 0 or action >= MAX_CARDS:
        return False
    bit = np.uint64(action)
    return bool((state.hand[state.turn, bit >> _SIX] >> (bit & _LOW)) & _ONE != 0)


@compiled
def play(state: np.record, action: int) -> None:
    """Play a legal action of the seat to act ("A turn")."""
    seat = i64(state.turn)
    if state.phase == CHOOSE_ROW:
        _take_row(state, seat, action - TAKE_ROW)
        _place_all(state)
        return
    bit = np.uint64(action)
    state.hand[seat, bit >> _SIX] &= ~(_ONE << (bit & _LOW))
    state.chosen[seat] = action + 1
    state.turn = next_to_choose(state, seat + 1)
    if state.turn < 0:
        _show_all(state)


@compiled
def resign(state: np.record, seat: int) -> None:
    """Let a player leave: the hand is out of play, a chosen card is withdrawn, the last one left ends the game."""
    state.num_left += 1
    state.resigned[seat] = state.num_left
    if state.chosen[seat] > 0:
        bit = np.uint64(state.chosen[seat] - 1)
        state.hand[seat, bit >> _SIX] |= _ONE << (bit & _LOW)
        if state.phase == CHOOSE_ROW:
            state.withdrawn[bit >> _SIX] |= _ONE << (bit & _LOW)
        state.chosen[seat] = 0
    if state.num_left == state.num_players - 1:
        state.turn = -1
    elif state.phase == CHOOSE_ROW:
        if state.turn == seat:
            _place_or_ask(state)
    elif state.turn == seat:
        state.turn = next_to_choose(state, seat + 1)
        if state.turn < 0:
            _show_all(state)


@compiled
def score(state: np.record, seat: int) -> int:
    """All bulls taken so far, those of the running hand included."""
    return i64(state.totals[seat]) + i64(state.bulls[seat])


@compiled
def paid(state: np.record, seat: int) -> int:
    """What the reward "score" has been paid for so far: bulls are paid as they are taken."""
    return score(state, seat)


@compiled
def random_legal(state: np.record, word: np.uint64) -> int:
    """A legal action of the seat to act, uniformly by a random word."""
    if state.phase == CHOOSE_ROW:
        return TAKE_ROW + below(word, state.num_rows)
    low = state.hand[state.turn, 0]
    high = state.hand[state.turn, 1]
    in_low = popcount(low)
    n = below(word, in_low + popcount(high))
    in_first = n < in_low
    return nth_bit(low if in_first else high, n if in_first else n - in_low) + (0 if in_first else 64)


@compiled
def end_after_round(state: np.record) -> None:
    """Let the game end with this hand."""
    state.single_hand = True
