"""What a game offers, and the operations on its records that everything else is written over.

A game is a folder with `rules.py` (the state record and its functions for one table), `view.py` (what a seat may know),
`bots.py` and `render.py`, and an `__init__.py` that binds them into one `Game`. The operations below (`deal`, `play`,
`see`, ...) are called by kernels and faces with records of any game: each game registers its own function for its
record type, compiled code finds it by the type of the record, plain Python by its dtype.

Every state record has the fields `rng` (its random stream, see `core.rng`), `num_players`, `turn` (the seat to act, -1
when the game is over) and `resigned` (per seat 0 or the order of leaving, from 1); every view record has `num_players`,
`seat` (the seat that looks, as numbered at the table) and `recall`.
"""

from __future__ import annotations

import difflib
import importlib
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import overload

from undertake.core.compile import JIT
from undertake.core.layout import Layout

__all__ = [
    "BOT",
    "GAMES",
    "REWARDS",
    "VIEWS",
    "Game",
    "Options",
    "check_choice",
    "choose",
    "default_action",
    "encode",
    "end_after_round",
    "get_game",
    "imagine",
    "implement",
    "is_legal",
    "legal",
    "make_options",
    "paid",
    "play",
    "random_legal",
    "resign",
    "reveal",
    "score",
    "see",
    "shuffle",
    "start",
]

GAMES = ("no_thanks", "six_nimmt")
VIEWS = ("table", "recall")
REWARDS = ("rank", "win", "score", "margin")
ILLEGAL = ("terminate", "raise", "random")

BOT = np.dtype([("kind", np.int64), ("parameters", np.float64, 12)])
"""A scripted bot: which rule of its game's `choose`, and the numbers in it."""


class Options(Protocol):
    """The rule options of a game, a frozen dataclass that refuses bad values on construction."""

    @property
    def num_players(self) -> int:
        """Players at the table."""

    def write(self, state: Any) -> None:
        """Write the options to a state record, before the first deal."""

    def cards(self) -> range:
        """The cards of the deck in use."""

    def score_bounds(self) -> tuple[float, float]:
        """A lower and an upper bound of a player's final score."""


@dataclass(frozen=True)
class Game:
    """One game, for everything that is written over any game.

    `table(state)` is the whole truth as plain data and `sight(view)` the same shape with what the seat may not see set
    to None; `text` draws either. `whole(state)` is the whole truth as counts, by the features of `whole_layout`;
    `hidden_layout` is that of the operation `reveal`.
    `events(before, action, after)` are the public events of one decision, with a negative action those that follow
    a player's leaving. `bots` are `BOT` records by name. `lay(state, deck)` puts a given deck on the table, to be
    followed by `start`.
    """

    name: str
    title: str
    min_players: int
    max_players: int
    num_actions: int
    wait: int
    state_dtype: np.dtype[Any]
    view_dtype: np.dtype[Any]
    layouts: Mapping[str, Layout]
    whole_layout: Layout
    hidden_layout: Layout
    options: type[Any]
    lay: Callable[[Any, Sequence[int]], None]
    table: Callable[[Any], dict[str, Any]]
    sight: Callable[[Any], dict[str, Any]]
    whole: Callable[[Any], dict[str, Any]]
    text: Callable[[Mapping[str, Any]], str]
    opening: Callable[[Any], list[dict[str, Any]]]
    events: Callable[[Any, int, Any], list[dict[str, Any]]]
    action_name: Callable[[int], str]
    bots: Mapping[str, np.ndarray[Any, Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are the game itself: what holds a game can be copied and sent to other processes."""
        return get_game, (self.name,)


def get_game(name: str) -> Game:
    """The game called `name`; raises ValueError naming the known ones."""
    check_choice("game", name, GAMES)
    found = importlib.import_module(f"undertake.{name}").GAME
    assert isinstance(found, Game)
    return found


def check_choice(what: str, value: object, allowed: Sequence[str]) -> None:
    """Raise ValueError in one line, with the nearest allowed value, unless `value` is one of `allowed`."""
    if value in allowed:
        return
    near = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} is {value!r}; allowed are {', '.join(map(repr, allowed))}{hint}")


def check_whole(what: str, value: object, low: int, high: int) -> None:
    """Raise unless `value` is an int (TypeError) from `low` to `high` (ValueError); the message names the nearest."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} is {value!r}; a whole number from {low} to {high} is needed")
    if not low <= value <= high:
        raise ValueError(f"{what} is {value}; allowed is {low} to {high}, nearest {min(max(int(value), low), high)}")


def check_flag(what: str, value: object) -> None:
    """Raise TypeError unless `value` is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{what} is {value!r}; True or False is needed")


def check_names(what: str, given: Iterable[str], allowed: Sequence[str]) -> None:
    """Raise TypeError in one line for the first name that is not allowed, with the nearest one."""
    for name in given:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"unknown {what} {name!r}; known are {', '.join(map(repr, allowed))}{hint}")


def make_options(game: Game, given: Mapping[str, Any]) -> Any:
    """The game's options from keywords; raises TypeError or ValueError in one line for what is not allowed."""
    check_names(f"option of {game.title}", given, [item.name for item in fields(game.options)])
    return game.options(**given)


def check_deck(deck: Sequence[int], cards: range) -> None:
    """Raise ValueError in one line unless `deck` is a permutation of `cards`, TypeError unless it is of integers."""
    try:
        given = [operator.index(card) for card in deck]
    except TypeError:
        raise TypeError(f"deck is {reprlib.repr(deck)}; a sequence of whole numbers is needed") from None
    if sorted(given) == list(cards):
        return
    wanted = f"each card from {cards[0]} to {cards[-1]} once"
    strange = next((card for card in given if card not in cards), None)
    if strange is not None:
        raise ValueError(f"deck holds the card {strange}; it must hold {wanted}")
    double = next((card for card in given if given.count(card) > 1), None)
    if double is not None:
        raise ValueError(f"deck holds the card {double} twice; it must hold {wanted}")
    raise ValueError(f"deck holds {len(given)} cards, {min(set(cards) - set(given))} is missing; it must hold {wanted}")


# The operations. Their bodies serve where nothing is compiled; `implement` gives each record type its function.

_FUNCTIONS: dict[str, dict[Any, Callable[..., Any]]] = {}


def implement(record: np.dtype[Any], *functions: Callable[..., Any]) -> None:
    """Let the operations that bear the functions' names be these functions on records of dtype `record`."""
    for function in functions:
        table = _FUNCTIONS.setdefault(function.__name__, {})
        table[np.dtype(record)] = function
        if JIT:
            table[numba.from_dtype(np.dtype(record))] = getattr(function, "py_func", function)


def _of(name: str, record: Any) -> Callable[..., Any]:
    return _FUNCTIONS[name][record.dtype]


def shuffle(state: Any) -> None:
    """Shuffle the deck by the table's own random stream."""
    _of("shuffle", state)(state)


def start(state: Any, first_player: int) -> None:
    """Begin a game with the deck as it lies; a negative `first_player` leaves the starter to the random stream."""
    _of("start", state)(state, first_player)


def play(state: Any, action: int) -> None:
    """Play a legal action of the seat to act."""
    _of("play", state)(state, action)


def resign(state: Any, seat: int) -> None:
    """Let the player of `seat`, who has not left before, leave a running game."""
    _of("resign", state)(state, seat)


def is_legal(state: Any, action: int) -> bool:
    """Whether the seat to act may play `action`, which may be any integer."""
    return bool(_of("is_legal", state)(state, action))


def score(state: Any, seat: int) -> int:
    """The final score of `seat` if the game ended now; low is good."""
    return int(_of("score", state)(state, seat))


def paid(state: Any, seat: int) -> int:
    """That part of the score of `seat` which the reward "score" has been paid for so far."""
    return int(_of("paid", state)(state, seat))


def random_legal(state: Any, word: np.uint64) -> int:
    """A legal action of the seat to act, uniform in the random `word`."""
    return int(_of("random_legal", state)(state, word))


def end_after_round(state: Any) -> None:
    """Let the game end with the round that is being played, where a game is made of several."""
    _of("end_after_round", state)(state)


def see(state: Any, seat: int, recall: bool, view: Any) -> None:
    """Fill the view record with what `seat` may know: what lies in sight, with `recall` the public past as well."""
    _of("see", state)(state, seat, recall, view)


def reveal(state: Any, seat: int, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write what the views of `seat` hide as counts to `out[at:at + H]` (flat uint8), for critics in training."""
    _of("reveal", state)(state, seat, out, at)


def legal(view: Any, mask: npt.NDArray[np.int8], at: int) -> None:
    """Write the seat's action mask to `mask[at:at + N]` (flat int8); zeros where it has nothing to decide.

    Rows are named by where they begin: cutting a row out of an array costs compiled code two atomic operations.
    """
    _of("legal", view)(view, mask, at)


def encode(view: Any, out: npt.NDArray[np.uint8], at: int) -> None:
    """Write the observation of the view as counts to `out[at:at + D]` (flat uint8)."""
    _of("encode", view)(view, out, at)


def imagine(view: Any, key: np.uint64, state: Any) -> None:
    """Fill `state` with a random world that agrees with the view; `key` becomes its random stream."""
    _of("imagine", view)(view, key, state)


def default_action(view: Any) -> int:
    """What is played for the seat that looks, and has a decision to make, when its time runs out."""
    return int(_of("default_action", view)(view))


def choose(view: Any, bot: Any, word: np.uint64) -> int:
    """The action of a scripted bot (a `BOT` record) for the seat that looks, with one random word to use."""
    return int(_of("choose", view)(view, bot, word))


_OPERATIONS = (
    *(shuffle, start, play, resign, is_legal, score, paid, random_legal, end_after_round, see, reveal),
    *(legal, encode, imagine, default_action, choose),
)

_HOT = (play, is_legal, random_legal, see, legal, encode)


def _bind(operation: Callable[..., Any]) -> None:
    """Let compiled calls of `operation` find the function registered for the type of the first argument."""

    def find(*arguments: Any) -> Callable[..., Any] | None:
        return _FUNCTIONS[operation.__name__].get(arguments[0])

    overload(operation, strict=False, jit_options={"forceinline": operation in _HOT})(find)


for _operation in _OPERATIONS:
    _bind(_operation)
