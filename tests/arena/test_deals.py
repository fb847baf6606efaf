"""The deals are those that the protocol describes, and no deal of one set is in the other."""

import hashlib

import numpy as np
import pytest

from arena.splitmix import DEALS, deal_key, mix, no_thanks, stream
from undertake.arena import Policy, make_policy, make_setting, play


def test_the_generator_is_splitmix64() -> None:
    # The first words of SplitMix64 with the seed 1234567, as published with its reference code in C.
    state, found = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        found.append(mix(state))
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("deal_set", ["dev", "test"])
@pytest.mark.parametrize(("game", "players"), [("no_thanks", 4), ("no_thanks", 7), ("six_nimmt", 4), ("six_nimmt", 10)])
def test_the_hash_is_that_of_the_documented_cards(game: str, players: int, deal_set: str) -> None:
    digest = hashlib.sha256()
    for index in range(300):
        deck, first_player = DEALS[game](deal_set, index, players)
        digest.update(bytes([*deck, first_player]))
    assert make_setting(game, players, deals=300, deal_set=deal_set).sha256 == digest.hexdigest()


def test_dev_and_test_are_disjoint() -> None:
    dev, test = ({tuple(no_thanks(deal_set, i)[0]) for i in range(1000)} for deal_set in ("dev", "test"))
    assert len(dev) == len(test) == 1000
    assert not dev & test
    assert make_setting("no_thanks", 4).sha256 != make_setting("no_thanks", 4, deal_set="test").sha256


def test_matches_play_these_deals_in_every_seat() -> None:
    """What the first to act sees is the documented first card, and every policy acts first in just one rotation."""
    deals, players = 5, 3
    told: list[tuple[int, int]] = []

    def watcher(view: np.record, mask: np.ndarray, rng: np.random.Generator) -> int:
        if view.cards_left == 23 and view.chips[: view.num_players].sum() == 33:
            told.append((int(view.card), int(view.seat)))
        return 1

    policy = Policy("watcher", target=watcher, sees="view", takes_rng=True)
    play("no_thanks", [policy, "always_pass", "always_pass"], deals=deals, deal_set="test")
    expected = [no_thanks("test", index, players) for index in range(deals)]
    assert sorted(told) == sorted((deck[0], first) for deck, first in expected)


def test_the_random_bot_draws_from_its_seats_stream() -> None:
    """Replayed from the documented seat streams: 0 passes and 1 takes, by the top bit of the seat's next word."""
    players, index = 4, 1
    deck, turn = no_thanks("dev", index, players)
    key = deal_key("no_thanks", "dev", index)
    counters = [stream(key, 1 + seat) for seat in range(players)]
    chips, cards, pot = [11] * players, [[] for _ in range(players)], 0  # type: list[int], list[list[int]], int
    for card in deck[:24]:
        while True:
            counters[turn] = (counters[turn] + 0x9E3779B97F4A7C15) % 2**64
            if chips[turn] == 0 or mix(counters[turn]) >> 63:
                cards[turn].append(card)
                chips[turn] += pot
                pot = 0
                break
            chips[turn] -= 1
            pot += 1
            turn = (turn + 1) % players
    scores = [
        sum(card for card in hand if card - 1 not in hand) - left for hand, left in zip(cards, chips, strict=True)
    ]
    found = play("no_thanks", ["random"] * players, deals=2).scores[index]
    for rotation in range(players):
        assert [found[rotation, k] for k in range(players)] == [
            scores[(k + rotation) % players] for k in range(players)
        ]


def test_a_policy_object_is_taken_as_it_is() -> None:
    policy = make_policy("no_thanks/tuned")
    assert make_policy(policy, "no_thanks") is policy
