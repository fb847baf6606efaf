"""One table at a time for the tests: dealing, looking, and what has to be true of every state."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.core import batch, game

BULLS = {card: 7 if card == 55 else 5 if card % 11 == 0 else 3 if card % 10 == 0 else 2 if card % 5 == 0 else 1
         for card in range(1, 105)}  # fmt: skip
"""Bulls by card, from the rulebook."""

See = Callable[[Any, int, bool, Any], None]


def new_record(dtype: np.dtype[Any]) -> Any:
    """A zeroed record with fields as attributes."""
    return batch.records(dtype).view(np.recarray)[0]


def copied(record: Any) -> Any:
    fresh = batch.records(record.dtype).view(np.recarray)
    fresh[0] = record
    return fresh[0]


def deal(name: str, seed: int = 0, first: int = -1, cards: Sequence[int] | None = None, **options: Any) -> Any:
    """A state record with a game just begun, by chance or with the cards in a given order."""
    found = game.get_game(name)
    state = batch.new_states(found, game.make_options(found, options), 1).view(np.recarray)[0]
    state.rng = np.uint64(seed)
    if cards is None:
        game.shuffle(state)
    else:
        found.lay(state, cards)
    game.start(state, first)
    return state


def game_of(record: Any) -> game.Game:
    return game.get_game("no_thanks" if "pot" in record.dtype.names else "six_nimmt")


def seen(state: Any, seat: int, view: str, see: See = game.see) -> Any:
    """A fresh view record."""
    record = new_record(game_of(state).view_dtype)
    see(state, seat, view == "recall", record)
    return record


def observed(view: Any) -> npt.NDArray[np.uint8]:
    """The observation (uint8 [D]) of a view record, checked to leave all around it alone."""
    size = game_of(view).layouts[game.VIEWS[int(view.recall)]].size
    out = np.full(size + 200, 0xA5, np.uint8)
    game.encode(view, out, 100)
    assert (out[:100] == 0xA5).all(), "the observation wrote before its row"
    assert (out[100 + size :] == 0xA5).all(), "the observation wrote past its row"
    return out[100 : 100 + size]


def mask_of(view: Any) -> npt.NDArray[np.int8]:
    """The action mask (int8 [N]) of a view record, checked to leave all around it alone."""
    size = game_of(view).num_actions
    out = np.full(size + 200, 0x55, np.int8)
    game.legal(view, out, 100)
    assert (out[:100] == 0x55).all(), "the mask wrote before its row"
    assert (out[100 + size :] == 0x55).all(), "the mask wrote past its row"
    return out[100 : 100 + size]


def walk(state: Any, rng: random.Random, leaving: float = 0.0) -> Iterator[Any]:
    """Play at random to the end, each decision with the chance `leaving` of somebody going; the state at each step."""
    yield state
    while state.turn >= 0:
        if rng.random() < leaving:
            game.resign(state, rng.choice([s for s in range(state.num_players) if state.resigned[s] == 0]))
        else:
            game.play(state, game.random_legal(state, np.uint64(rng.getrandbits(64))))
        yield state


def cards_in(words: Any) -> list[int]:
    """The cards of a set of 6 nimmt! (two words)."""
    word = int(words[0]) | int(words[1]) << 64
    return [bit + 1 for bit in range(128) if word >> bit & 1]


def places(state: Any) -> list[int]:
    """Every card of the deck in use, as often as it lies anywhere."""
    told = game_of(state).table(state)
    if "pot" in told:
        middle = [told["card"]] if told["card"] else []
        return [*middle, *told["deck"], *told["removed"], *(c for front in told["cards"].values() for c in front)]
    return [
        *(card for hand in told["hands"].values() for card in hand),
        *(card for card in told["chosen"].values() if card),
        *(card for row in told["rows"] for card in row),
        *cards_in(state.taken),
        *told["undealt"],
    ]


def check_conserved(state: Any) -> None:
    """G9 and G14: no card is lost or in two places, no chip and no bull either."""
    told = game_of(state).table(state)
    if "pot" in told:
        assert sorted(places(state)) == list(range(int(state.lowest), int(state.highest) + 1))
        chips = list(told["chips"].values())
        assert min(chips) >= 0
        assert sum(chips) + told["pot"] == int(state.num_players) * int(state.start_chips)
        return
    assert sorted(places(state)) == list(range(1, int(state.num_cards) + 1))
    if state.trick < state.hand_size:  # the bulls of a finished hand lie in the totals
        assert sum(told["bulls"].values()) == sum(BULLS[card] for card in cards_in(state.taken))
    assert all(1 <= len(row) <= state.row_size for row in told["rows"])
    assert all(row == sorted(row) for row in told["rows"])


def no_thanks_options(rng: random.Random) -> dict[str, Any]:
    """A table of No Thanks!, one in three the box's, the others anything."""
    players = rng.randint(2, 7)
    if rng.random() < 1 / 3:
        return {"num_players": players}
    lowest = rng.randint(3, 35)
    highest = rng.randint(lowest, min(35, lowest + rng.choice([3, 32])))
    return {
        "num_players": players,
        "after_take": rng.choice(["taker", "left"]),
        "open_chips": rng.random() < 0.3,
        "lowest": lowest,
        "highest": highest,
        "removed": rng.randint(0, highest - lowest),
        "chips": rng.choice([None, 0, 1, 4, 36]),
    }


def six_nimmt_options(rng: random.Random) -> dict[str, Any]:
    """A table of 6 nimmt!, one in three the box's; a match only where every hand fills a row even with two players."""
    players = rng.randint(2, 10)
    if rng.random() < 1 / 3:
        return {"num_players": players, "length": rng.choice(["hand", "match"])}
    hand, rows, size = rng.randint(1, 10), rng.randint(1, 4), rng.randint(1, 5)
    dealt = hand * players + rows
    bounded = hand * 2 > rows * (size - 1)
    reduced = rng.random() < 0.3
    return {
        "num_players": players,
        "length": "match" if bounded and rng.random() < 0.5 else "hand",
        "limit": rng.choice([1, 10, 66]),
        "deck": "reduced" if reduced else "full",
        "row_choice": rng.choice(["player", "cheapest"]),
        "hand_size": hand,
        "num_rows": rows,
        "row_size": size,
        "num_cards": None if reduced else rng.choice([None, dealt, 104]),
    }


OPTIONS: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {
    "no_thanks": no_thanks_options,
    "six_nimmt": six_nimmt_options,
}


def some_states(name: str, seed: int, looks: float) -> Iterator[tuple[Any, random.Random]]:
    """States from a random game with random options and leavers, a share `looks` of them and its end."""
    rng = random.Random(seed)
    state = deal(name, seed, **OPTIONS[name](rng))
    for _ in walk(state, rng, rng.choice([0.0, 0.02, 0.1])):
        if state.turn < 0 or rng.random() < looks:
            yield state, rng
