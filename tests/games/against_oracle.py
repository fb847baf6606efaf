"""Random games with random options, played by the engine and by the oracle side by side, state for state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oracles.no_thanks import NoThanks
from oracles.six_nimmt import SixNimmt
from undertake.core import batch, game, reward

NO_THANKS_VALUES: Mapping[str, Sequence[Any]] = {
    "after_take": ("taker", "left"),
    "open_chips": (False, True),
    "lowest": (3, 4, 11),
    "highest": (35, 34, 20),
    "removed": (9, 0, 3),
    "chips": (None, 0, 2, 14),
}
SIX_NIMMT_VALUES: Mapping[str, Sequence[Any]] = {
    "length": ("hand", "match"),
    "limit": (66, 1, 20),
    "deck": ("full", "reduced"),
    "row_choice": ("player", "cheapest"),
    "hand_size": (10, 4, 1),
    "num_rows": (4, 2, 1),
    "row_size": (5, 3, 1),
    "num_cards": (None, "fewest", 104),
}


def option_sets(values: Mapping[str, Sequence[Any]], count: int, rng: random.Random) -> list[dict[str, Any]]:
    """`count` sets of options in which every pair of values of two options occurs, or as many of them as fit."""
    missing = {
        pair
        for a, b in itertools.combinations(values, 2)
        for pair in itertools.product([(a, x) for x in values[a]], [(b, y) for y in values[b]])
    }
    chosen: list[dict[str, Any]] = []
    while len(chosen) < count:
        drawn = [{name: rng.choice(values[name]) for name in values} for _ in range(20)]
        best = max(drawn, key=lambda one: len(missing & set(itertools.combinations(one.items(), 2))))
        missing -= set(itertools.combinations(best.items(), 2))
        chosen.append(best)
    assert count < 60 or not missing, f"pairs of option values not met: {missing}"
    return chosen


def fitting(name: str, players: int, options: dict[str, Any]) -> dict[str, Any]:
    """The options as the game takes them with so many players."""
    fitted = dict(options, num_players=players)
    if name == "six_nimmt":
        dealt = fitted["hand_size"] * players + fitted["num_rows"]
        if fitted["num_cards"] == "fewest" or (fitted["num_cards"] is not None and fitted["deck"] == "reduced"):
            fitted["num_cards"] = dealt
    return fitted


def oracle_of(name: str, options: Mapping[str, Any], table: Mapping[str, Any], later: Callable[[], Any]) -> Any:
    """The oracle's game from the table that the engine has dealt."""
    if name == "no_thanks":
        deck = [table["card"], *table["deck"], *table["removed"]]
        return NoThanks(deck, int(table["turn"][len("player_") :]), **options)
    own = {key: value for key, value in options.items() if key != "deck"}
    return SixNimmt(deck_on(table), deck_option=options["deck"], next_deck=later, **own)


def deck_on(table: Mapping[str, Any]) -> list[int]:
    """The dealing order of a hand of 6 nimmt! just dealt."""
    hands = [card for hand in table["hands"].values() for card in hand]
    return [*hands, *(row[0] for row in table["rows"]), *table["undealt"]]


def play_one(name: str, options: Mapping[str, Any], seed: int, *, leaving: float = 0.01, looks: float = 0.2) -> int:
    """Play one game both ways with random actions and random leaving; returns the decisions played."""
    found = game.get_game(name)
    rng = random.Random(seed)
    states = batch.new_states(found, game.make_options(found, options), 1)
    record = states.view(np.recarray)[0]
    record.rng = np.uint64(seed)
    game.shuffle(record)
    game.start(record, -1)
    players = options["num_players"]
    before: dict[str, Any] = {}

    def later_deck() -> list[int]:
        return deck_on(found.table(record))

    oracle = oracle_of(name, options, found.table(record), later_deck)
    view = batch.records(found.view_dtype).view(np.recarray)[0]
    mask = np.zeros(found.num_actions, np.int8)
    decisions = 0
    quits = rng.random() < 0.3
    while True:
        truth = found.table(record)
        told = oracle.table()
        wrong = {key: (truth[key], told[key]) for key in truth if truth[key] != told[key]}
        assert not wrong, f"{options} seed {seed} after {before}: (engine, oracle) differ in {wrong}"
        assert [game.score(record, seat) for seat in range(players)] == oracle.scores()
        if oracle.turn is None or rng.random() < looks:
            seat, recall = rng.randrange(players), rng.random() < 0.5
            game.see(record, seat, recall, view)
            assert found.sight(view) == oracle.view(seat, game.VIEWS[recall])
            game.see(record, seat, True, view)
            _compare_recall(name, view, oracle, players)
        if oracle.turn is None:
            break
        game.see(record, oracle.turn, True, view)
        game.legal(view, mask, 0)
        legal = [int(action) for action in np.flatnonzero(mask)]
        assert legal == oracle.legal_actions()
        assert game.default_action(view) == oracle.default_action()
        for action in (
            legal[-1],
            *rng.sample((-1, found.wait, found.num_actions, 2**40, *range(found.num_actions)), 2),
        ):
            assert game.is_legal(record, action) == (action in legal)
        assert game.random_legal(record, np.uint64(rng.getrandbits(64))) in legal
        if quits and rng.random() < leaving:
            seat = rng.choice([seat for seat in range(players) if record.resigned[seat] == 0])
            before = {"resign": seat}
            game.resign(record, seat)
            oracle.resign(seat)
        else:
            action = oracle.default_action() if rng.random() < 0.1 else rng.choice(legal)
            before = {"action": action}
            game.play(record, action)
            oracle.play(action)
            decisions += 1
    _compare_rewards(record, oracle, players)
    return decisions


def _compare_recall(name: str, view: Any, oracle: Any, players: int) -> None:
    for i in range(players):
        told = oracle.recall()[(int(view.seat) + i) % players]
        if name == "no_thanks":
            dearest = int(view.dearest[i]) if view.takes[i] else None
            cheapest = int(view.cheapest[i]) if view.refusals[i] else None
            assert told == {
                "dearest": dearest,
                "cheapest": cheapest,
                "takes": int(view.takes[i]),
                "refusals": int(view.refusals[i]),
            }
        else:
            played = [int(card) for card in view.played[i, : view.tricks_shown] if card]
            assert told == {"played": played}


def _compare_rewards(record: Any, oracle: Any, players: int) -> None:
    assert [reward.rank(record, seat) for seat in range(players)] == oracle.ranks()
    for kind in ("rank", "win", "margin"):
        code = game.REWARDS.index(kind)
        given = [reward.final_reward(record, seat, code) for seat in range(players)]
        np.testing.assert_allclose(given, oracle.rewards(kind), atol=1e-12)
    paid = [game.paid(record, seat) for seat in range(players)]
    assert [-amount for amount in paid] == oracle.rewards("score")
