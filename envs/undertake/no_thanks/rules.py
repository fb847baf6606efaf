"""The rules of No Thanks! for one table, as plain functions on one record.

Written from the rulebook as settled in the project's rules: 33 cards from 3 to 35, nine of them set aside unseen; in
turn each player takes the card in the middle with the chips on it, or pays one chip to refuse it. Every run of
consecutive cards counts its lowest card only, every chip left is worth minus one, and the lowest score wins.

Sets of cards are uint64 words in which bit c stands for the card c. Counters are signed: numba turns arithmetic that
mixes signed and unsigned integers into floats.
"""

from __future__ import annotations

import numpy as np

from undertake.core.bits import lowest_bit
from undertake.core.compile import compiled, i64
from undertake.core.rng import below, draw

MAX_PLAYERS = 7
LOWEST, HIGHEST = 3, 35
MAX_CARDS = HIGHEST - LOWEST + 1
MAX_CHIPS = 36

PASS, TAKE, WAIT = 0, 1, 2
NO_PRICE = 1000

STATE = np.dtype(
    [
        ("rng", np.uint64),
        ("cards", np.uint64, MAX_PLAYERS),  # face up in front of each player
        ("seen", np.uint64),  # all cards turned up so far
        ("chips", np.int16, MAX_PLAYERS),
        ("card_score", np.int16, MAX_PLAYERS),  # the sum over each player's runs, kept up to date
        ("dearest", np.int16, MAX_PLAYERS),  # highest price taken of one's own will, -NO_PRICE if none was
        ("cheapest", np.int16, MAX_PLAYERS),  # lowest price refused, NO_PRICE if none was
        ("takes", np.int16, MAX_PLAYERS),  # how often taken of one's own will
        ("refusals", np.int16, MAX_PLAYERS),
        ("pot", np.int16),  # chips on the middle card
        ("turn", np.int8),  # seat to act, -1 when the game is over
        ("card", np.int8),  # the middle card, 0 when the game is over
        ("drawn", np.int8),  # cards turned up so far, the middle card included
        ("played", np.int8),  # cards played in all: those of the deck less those removed
        ("num_left", np.int8),  # players that have left
        ("resigned", np.int8, MAX_PLAYERS),  # 0, or the order of leaving from 1
        ("deck", np.uint8, MAX_CARDS),  # in the order of turning up, then the removed cards
        # The options of the game:
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
"""One table. All of it: two equal records go on equally."""

_ONE = np.uint64(1)


@compiled
def card_score(cards: np.uint64) -> int:
    """The sum over the maximal runs of consecutive cards of their lowest card ("Score")."""
    lowest_of_runs = cards & ~(cards << _ONE)
    total = 0
    while lowest_of_runs != 0:
        total += lowest_bit(lowest_of_runs)
        lowest_of_runs &= lowest_of_runs - _ONE
    return total


@compiled
def change(cards: np.uint64, card: int) -> int:
    """By how much `card` changes the card score of `cards`: it may open a run, lengthen one or join two."""
    joins_below = i64((cards >> np.uint64(card - 1)) & _ONE)
    joins_above = i64((cards >> np.uint64(card + 1)) & _ONE)
    return card * (1 - joins_below) - (card + 1) * joins_above


@compiled
def shuffle(state: np.record) -> None:
    """Shuffle the deck, so that a uniformly random part of it is played in random order ("Set-up")."""
    count = i64(state.highest) - state.lowest + 1
    for i in range(count):
        state.deck[i] = state.lowest + i
    for i in range(state.played):
        j = i + below(draw(state), count - i)
        card = state.deck[i]
        state.deck[i] = state.deck[j]
        state.deck[j] = card


@compiled
def start(state: np.record, first_player: int) -> None:
    """Set up a game with the deck as it lies; a negative `first_player` draws the starter at random ("Set-up")."""
    state.turn = first_player if first_player >= 0 else below(draw(state), state.num_players)
    state.pot = 0
    state.drawn = 1
    state.card = state.deck[0]
    state.seen = _ONE << np.uint64(state.deck[0])
    state.num_left = 0
    for seat in range(MAX_PLAYERS):
        state.cards[seat] = 0
        state.chips[seat] = state.start_chips if seat < state.num_players else 0
        state.card_score[seat] = 0
        state.dearest[seat] = -NO_PRICE
        state.cheapest[seat] = NO_PRICE
        state.takes[seat] = 0
        state.refusals[seat] = 0
        state.resigned[seat] = 0


@compiled
def next_seat(state: np.record, seat: int) -> int:
    """The next player clockwise who has not left."""
    seat += 1
    if seat == state.num_players:
        seat = 0
    while state.resigned[seat] != 0:
        seat += 1
        if seat == state.num_players:
            seat = 0
    return seat


@compiled
def is_legal(state: np.record, action: int) -> bool:
    """Whether the player to act may do so: one may always take, and pass while one has a chip ("A turn")."""
    return action == TAKE or (action == PASS and state.chips[state.turn] > 0)


@compiled
def play(state: np.record, action: int) -> None:
    """Play a legal action of the player to act ("A turn", "End")."""
    seat = state.turn
    price = change(state.cards[seat], i64(state.card)) - i64(state.pot)
    if action == PASS:
        state.cheapest[seat] = min(i64(state.cheapest[seat]), price)
        state.refusals[seat] += 1
        state.chips[seat] -= 1
        state.pot += 1
        state.turn = next_seat(state, seat)
        return
    if state.chips[seat] > 0:
        state.dearest[seat] = max(i64(state.dearest[seat]), price)
        state.takes[seat] += 1
    state.cards[seat] |= _ONE << np.uint64(state.card)
    state.card_score[seat] += price + state.pot
    state.chips[seat] += state.pot
    state.pot = 0
    if state.drawn == state.played:
        state.card = 0
        state.turn = -1
        return
    state.card = state.deck[state.drawn]
    state.seen |= _ONE << np.uint64(state.deck[state.drawn])
    state.drawn += 1
    if not state.taker_goes_on:
        state.turn = next_seat(state, seat)


@compiled
def resign(state: np.record, seat: int) -> None:
    """Let a player leave ("Leaving"): all stays as it lies, the next in order acts, the last one left ends the game."""
    state.num_left += 1
    state.resigned[seat] = state.num_left
    if state.num_left == state.num_players - 1:
        state.turn = -1
    elif state.turn == seat:
        state.turn = next_seat(state, seat)


@compiled
def score(state: np.record, seat: int) -> int:
    """Card score less chips, as if the game ended now ("Score")."""
    return i64(state.card_score[seat]) - i64(state.chips[seat])


@compiled
def paid(state: np.record, seat: int) -> int:
    """What the reward "score" has been paid for so far: chips and runs settle at the end, so nothing before it."""
    return score(state, seat) if state.turn < 0 else 0


@compiled
def random_legal(state: np.record, word: np.uint64) -> int:
    """A legal action of the player to act, uniformly by a random word."""
    return TAKE if state.chips[state.turn] <= 0 else below(word, 2)


@compiled
def end_after_round(state: np.record) -> None:
    """A game is one round: nothing to do."""
