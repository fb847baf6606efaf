"""The golden cases G1 to G16 of the rules, through the engine's public names; figures by hand."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from games.tables import check_conserved, deal, mask_of, observed, seen, walk
from undertake.core import game, reward
from undertake.no_thanks import rules as no_thanks
from undertake.six_nimmt import rules as six_nimmt

PASS, TAKE = 0, 1


def filled(front: Sequence[int], cards: range) -> list[int]:
    """A deck that begins with these cards."""
    return [*front, *(card for card in cards if card not in front)]


def word(cards: Sequence[int]) -> np.uint64:
    return np.uint64(sum(1 << card for card in cards))


def legal_actions(state: Any) -> list[int]:
    return [int(a) for a in np.flatnonzero(mask_of(seen(state, int(state.turn), "table")))]


# --- No Thanks! ------------------------------------------------------------------------------------------------------

SCORES = [
    pytest.param([20, 21, 22, 27, 30], 4, 73, id="G1"),
    pytest.param([3, 7, 8, 10, 14, 15, 16, 25], 8, 51, id="G2"),
    pytest.param([27, 28, 29, 30], 0, 27, id="G3"),
    pytest.param([17, 18, 19, 20], 0, 17, id="G4"),
    pytest.param([8, 9], 0, 8, id="G5"),
    pytest.param([], 11, -11, id="G6"),
    pytest.param([24, 25, 26], 0, 24, id="G7"),
]


@pytest.mark.parametrize(("cards", "chips", "score"), SCORES)
def test_scores(cards: list[int], chips: int, score: int) -> None:
    assert no_thanks.card_score(word(cards)) == score + chips
    for order in itertools.islice(itertools.permutations(cards), 120):
        state = deal("no_thanks", first=1, cards=filled(order, range(3, 36)), num_players=3, chips=chips)
        for _ in cards:
            game.play(state, TAKE)
        assert game.score(state, 1) == score
        assert game.get_game("no_thanks").table(state)["scores"]["player_1"] == score


def test_g1_the_run_saves_43_points() -> None:
    cards = [20, 21, 22, 27, 30]
    assert sum(cards) - no_thanks.card_score(word(cards)) == 43


@pytest.mark.parametrize(
    ("cards", "card", "change"),
    [
        ([], 35, 35),
        ([20, 22], 21, -22),  # joins two runs: 20 + 22 become 20
        ([20], 21, 0),
        ([21], 20, -1),
        ([19, 22], 20, 0),
        ([18, 22], 20, 20),
        ([34], 35, 0),
        ([4], 3, -1),
    ],
)
def test_change_of_the_card_score(cards: list[int], card: int, change: int) -> None:
    assert no_thanks.change(word(cards), card) == change
    assert no_thanks.card_score(word([*cards, card])) - no_thanks.card_score(word(cards)) == change


@pytest.mark.parametrize(("players", "chips"), [(2, 11), (3, 11), (4, 11), (5, 11), (6, 9), (7, 7)])
def test_chips_at_the_start_and_24_cards_played(players: int, chips: int) -> None:
    state = deal("no_thanks", seed=players, num_players=players)
    told = game.get_game("no_thanks").table(state)
    assert list(told["chips"].values()) == [chips] * players
    assert (told["cards_left"], len(told["deck"]), len(told["removed"])) == (23, 23, 9)
    taken = 0
    while state.turn >= 0:
        game.play(state, TAKE)
        taken += 1
    assert taken == 24


def test_g8_without_chips_the_last_card_must_be_taken() -> None:
    options: dict[str, Any] = {"num_players": 3, "lowest": 3, "highest": 5, "removed": 1, "chips": 1}
    state = deal("no_thanks", first=0, cards=[3, 4, 5], **options)
    for action in (PASS, PASS, TAKE, PASS):  # the third takes 3 with two chips and passes on 4, the last card
        game.play(state, action)
    assert (int(state.turn), state.chips[:3].tolist()) == (0, [0, 0, 2])
    assert legal_actions(state) == [TAKE]
    assert [game.is_legal(state, action) for action in range(3)] == [False, True, False]
    assert game.random_legal(state, np.uint64(0)) == TAKE
    assert game.default_action(seen(state, 0, "table")) == TAKE
    game.play(state, TAKE)
    assert state.turn == -1
    assert [game.score(state, seat) for seat in range(3)] == [4 - 1, 0, 3 - 2]
    assert [reward.rank(state, seat) for seat in range(3)] == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(("after_take", "turns"), [("taker", [1, 1, 1, 2, 0, 0]), ("left", [1, 2, 0, 1, 2, 0])])
def test_who_acts_after_a_take(after_take: str, turns: list[int]) -> None:
    state = deal("no_thanks", seed=3, first=1, num_players=3, after_take=after_take)
    for turn, action in zip(turns, (TAKE, TAKE, PASS, PASS, TAKE, TAKE), strict=True):
        assert state.turn == turn
        game.play(state, action)


def test_leaving_no_thanks() -> None:
    state = deal("no_thanks", first=0, cards=filled([10, 20], range(3, 36)), num_players=4)
    game.play(state, PASS)
    game.play(state, TAKE)  # player 1 takes 10 and faces 20
    game.play(state, PASS)
    game.resign(state, 2)  # its turn: the next in order acts on the same card with the chip on it
    assert (int(state.turn), int(state.card), int(state.pot)) == (3, 20, 1)
    game.resign(state, 1)
    assert (int(state.turn), state.chips[:4].tolist()) == (3, [10, 11, 11, 11])
    check_conserved(state)
    assert seen(state, 3, "table").cards[:4].tolist() == [0, 0, 1 << 10, 0]  # from player 3 on: 3, 0, 1, 2
    game.resign(state, 0)  # one player remains
    assert state.turn == -1
    assert [reward.rank(state, seat) for seat in range(4)] == [2.0, 3.0, 4.0, 1.0]
    assert mask_of(seen(state, 3, "table")).sum() == 0


# --- 6 nimmt! --------------------------------------------------------------------------------------------------------


def six(deck: Sequence[int], **options: Any) -> Any:
    return deal("six_nimmt", cards=filled(deck, range(1, options.pop("highest", 104) + 1)), **options)


def play_cards(state: Any, *cards: int) -> None:
    for card in cards:
        assert game.is_legal(state, card - 1)
        game.play(state, card - 1)


def rows(state: Any) -> list[list[int]]:
    return list(game.get_game("six_nimmt").table(state)["rows"])


def test_g10_bulls() -> None:
    bulls = {1: 1, 5: 2, 10: 3, 11: 5, 15: 2, 50: 3, 55: 7, 66: 5, 100: 3, 104: 1}
    assert {card: int(six_nimmt.BULLS[card]) for card in bulls} == bulls
    assert int(six_nimmt.BULLS[1:].sum()) == 171
    assert len(six_nimmt.BULLS) == 105


@pytest.mark.parametrize("order", list(itertools.permutations([14, 15, 44, 61])))
def test_g11_each_card_goes_to_the_row_with_the_largest_smaller_end(order: tuple[int, ...]) -> None:
    state = six([*order, 12, 37, 43, 58], num_players=4, hand_size=1, length="hand")
    play_cards(state, *order)
    assert rows(state) == [[12, 14, 15], [37], [43, 44], [58, 61]]
    assert [game.score(state, seat) for seat in range(4)] == [0, 0, 0, 0]


def test_g12_the_sixth_card_takes_the_row() -> None:
    state = six([7, 9, 11, 8, 10, 12, 6, 20, 30, 40], num_players=2, hand_size=3, length="hand")
    play_cards(state, 7, 8, 9, 10)
    assert rows(state) == [[6, 7, 8, 9, 10], [20], [30], [40]]
    play_cards(state, 11, 12)
    assert rows(state) == [[11, 12], [20], [30], [40]]
    assert [game.score(state, seat) for seat in range(2)] == [1 + 1 + 1 + 1 + 3, 0]


@pytest.mark.parametrize(
    ("row", "bulls", "after"),
    [
        (0, 3, [[5, 22], [33, 34], [41], [55]]),
        (1, 5, [[20, 22, 34], [5], [41], [55]]),
        (2, 1, [[20, 22], [33, 34], [5], [55]]),
        (3, 7, [[20, 22], [33, 34], [41], [5]]),
    ],
)
def test_g13_a_card_below_all_rows_waits_for_the_choice(row: int, bulls: int, after: list[list[int]]) -> None:
    state = six([34, 5, 22, 20, 33, 41, 55], num_players=3, hand_size=1, length="hand")
    play_cards(state, 34, 5, 22)
    told = game.get_game("six_nimmt").table(state)
    assert (told["phase"], told["turn"], told["rows"]) == ("row", "player_1", [[20], [33], [41], [55]])
    assert told["chosen"] == {"player_0": 34, "player_1": 5, "player_2": 22}
    assert legal_actions(state) == [104, 105, 106, 107]
    assert game.default_action(seen(state, 1, "table")) == 106  # the 41 with its single bull
    game.play(state, 104 + row)
    assert rows(state) == after
    assert [game.score(state, seat) for seat in range(3)] == [0, bulls, 0]


def test_g13_the_cheapest_row_is_taken_without_asking() -> None:
    state = six([34, 5, 22, 20, 33, 41, 55], num_players=3, hand_size=1, length="hand", row_choice="cheapest")
    play_cards(state, 34, 5, 22)
    assert rows(state) == [[20, 22], [33, 34], [5], [55]]
    assert [game.score(state, seat) for seat in range(3)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("totals", "over", "shares"),
    [
        ([60, 65, 65, 41], True, [0, 0, 0, 1]),  # and five more for the third: 60, 65, 70, 41
        ([65, 65, 15, 20], False, None),
        ([0, 3, 60, 3], False, None),  # 65 is not enough
        ([0, 3, 61, 0], True, [0.5, 0, 0, 0.5]),  # 66 is
        ([66, 0, 0, 0], True, [0, 0.5, 0, 0.5]),
    ],
)
def test_g15_the_end_of_the_game(totals: list[int], over: bool, shares: list[float] | None) -> None:
    state = six([61, 62, 2, 63, 33, 50, 60, 80], num_players=4, hand_size=1)
    state.totals[:4] = totals
    play_cards(state, 61, 62, 2, 63)
    assert state.turn == 2  # the 2 is below all rows
    game.play(state, 104)  # and takes 33 with its five bulls
    totals = [totals[0], totals[1], totals[2] + 5, totals[3]]
    told = game.get_game("six_nimmt").table(state)
    assert list(told["totals"].values()) == totals
    assert list(told["bulls"].values()) == [0, 0, 0, 0]
    assert (told["turn"], told["hand"]) == ((None, 0) if over else ("player_0", 1))
    if shares is not None:
        assert [reward.win_share(state, seat) for seat in range(4)] == shares


def test_g16_ten_players_use_all_cards() -> None:
    state = deal("six_nimmt", seed=16, num_players=10)
    assert game.get_game("six_nimmt").table(state)["undealt"] == []
    for _ in walk(state, random.Random(16)):
        check_conserved(state)


@pytest.mark.parametrize("players", range(2, 11))
def test_the_reduced_deck(players: int) -> None:
    state = deal("six_nimmt", seed=1, num_players=players, deck="reduced")
    told = game.get_game("six_nimmt").table(state)
    cards = [*(card for hand in told["hands"].values() for card in hand), *(row[0] for row in told["rows"])]
    assert sorted(cards) == list(range(1, 10 * players + 5))
    assert told["undealt"] == []


def test_leaving_six_nimmt() -> None:
    state = six([34, 35, 5, 6, 22, 23, 20, 33, 41, 55], num_players=3, hand_size=2)
    play_cards(state, 34, 5, 22)
    assert state.turn == 1
    game.resign(state, 1)  # the 5 is withdrawn, the others' cards are placed, the next trick begins
    told = game.get_game("six_nimmt").table(state)
    assert told["rows"] == [[20, 22], [33, 34], [41], [55]]
    assert (told["turn"], told["trick"], told["hands"]["player_1"]) == ("player_0", 1, [5, 6])
    check_conserved(state)
    play_cards(state, 35, 23)
    assert (int(state.hand_number), int(state.turn)) == (1, 0)
    assert state.hand[1].tolist() == [0, 0]  # who has left is dealt no hand
    game.resign(state, 0)
    assert state.turn == -1
    assert [reward.rank(state, seat) for seat in range(3)] == [2.0, 3.0, 1.0]


def test_the_default_card_is_the_lowest_in_hand() -> None:
    state = six([70, 12, 104, 13, 65, 100, 20, 33, 41, 55], num_players=2, hand_size=3)
    assert game.default_action(seen(state, 0, "table")) == 12 - 1
    play_cards(state, 12)
    assert game.default_action(seen(state, 1, "table")) == 13 - 1
    play_cards(state, 13)
    game.play(state, 104)  # the 12 takes the first row
    assert game.default_action(seen(state, 0, "table")) == 70 - 1


@pytest.mark.parametrize(
    ("starts", "trick", "after", "row"),
    [
        ([55, 33, 11, 4], (103, 104), [[55, 103, 104], [33], [11], [4]], 3),  # 9, 5, 5 and 1 bulls
        ([16, 55, 22, 15], (17, 71), [[16, 17], [55, 71], [22], [15]], 3),  # 2, 8, 5, 2: the one with fewer cards
        ([15, 55, 22, 16], (17, 71), [[15], [55, 71], [22], [16, 17]], 0),
        ([55, 12, 30, 20], (13, 14), [[55], [12, 13, 14], [30], [20]], 2),  # 7, 3, 3, 3: of two as short the topmost
    ],
)
def test_the_default_row_has_fewest_bulls_then_fewest_cards_then_is_the_topmost(
    starts: list[int], trick: tuple[int, int], after: list[list[int]], row: int
) -> None:
    state = six([trick[0], 1, trick[1], 70, *starts], num_players=2, hand_size=2)
    play_cards(state, *trick)
    assert rows(state) == after
    play_cards(state, 1, 70)
    assert game.default_action(seen(state, 0, "table")) == 104 + row


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("no_thanks", {"num_players": 8}, ValueError, "num_players is 8; allowed is 2 to 7, nearest 7"),
        ("no_thanks", {"num_players": 1}, ValueError, "num_players is 1; allowed is 2 to 7, nearest 2"),
        ("no_thanks", {"num_players": "4"}, TypeError, "num_players is '4'; a whole number from 2 to 7"),
        ("no_thanks", {"num_players": True}, TypeError, "num_players is True"),
        ("no_thanks", {"after_take": "rigth"}, ValueError, "'rigth'; allowed are 'taker', 'left'"),
        ("no_thanks", {"after_take": "lefd"}, ValueError, "did you mean 'left'"),
        ("no_thanks", {"open_chips": 1}, TypeError, "open_chips is 1; True or False"),
        ("no_thanks", {"lowest": 2}, ValueError, "lowest is 2; allowed is 3 to 35, nearest 3"),
        ("no_thanks", {"lowest": 9, "highest": 8}, ValueError, "highest is 8; allowed is 9 to 35, nearest 9"),
        ("no_thanks", {"highest": 36}, ValueError, "highest is 36; allowed is 3 to 35, nearest 35"),
        ("no_thanks", {"removed": 33}, ValueError, "removed is 33; allowed is 0 to 32, nearest 32"),
        ("no_thanks", {"chips": 37}, ValueError, "chips is 37; allowed is 0 to 36, nearest 36"),
        ("no_thanks", {"chips": 1.5}, TypeError, "chips is 1.5; a whole number"),
        ("no_thanks", {"num_player": 3}, TypeError, "'num_player'.*did you mean 'num_players'"),
        ("six_nimmt", {"num_players": 11}, ValueError, "num_players is 11; allowed is 2 to 10, nearest 10"),
        ("six_nimmt", {"length": "hands"}, ValueError, "allowed are 'match', 'hand'; did you mean 'hand'"),
        ("six_nimmt", {"limit": 0}, ValueError, "limit is 0; allowed is 1 to 255, nearest 1"),
        ("six_nimmt", {"deck": "fill"}, ValueError, "did you mean 'full'"),
        ("six_nimmt", {"row_choice": "cheap"}, ValueError, "did you mean 'cheapest'"),
        ("six_nimmt", {"hand_size": 11}, ValueError, "hand_size is 11; allowed is 1 to 10, nearest 10"),
        ("six_nimmt", {"num_rows": 5}, ValueError, "num_rows is 5; allowed is 1 to 4, nearest 4"),
        ("six_nimmt", {"row_size": 0}, ValueError, "row_size is 0; allowed is 1 to 5, nearest 1"),
        ("six_nimmt", {"num_cards": 43}, ValueError, "num_cards is 43; allowed is 44 to 104, nearest 44"),
        ("six_nimmt", {"num_cards": 50, "deck": "reduced"}, ValueError, "num_cards is 50 with deck='reduced'.*44"),
        ("six_nimmt", {"rows": 3}, TypeError, "'rows'; known are"),
    ],
)
def test_options_that_cannot_be(name: str, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as told:
        game.make_options(game.get_game(name), options)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("deck", "words"),
    [
        ([3, 4, 5, 5], "holds the card 5 twice"),
        ([3, 4, 5, 7], "holds the card 7; it must hold each card from 3 to 6 once"),
        ([3, 4, 5], "holds 3 cards, 6 is missing"),
        ([3, 4, 5.0, 6], "whole numbers"),
    ],
)
def test_decks_that_cannot_be(deck: list[Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words) as told:
        deal("no_thanks", cards=deck, lowest=3, highest=6, removed=0)
    assert "\n" not in str(told.value)


def test_what_a_seat_sees_of_a_whole_small_game() -> None:
    """The observation of a table drawn up by hand, number by number in the slices that tell it."""
    options: dict[str, Any] = {"num_players": 3, "lowest": 5, "highest": 10, "removed": 1, "chips": 2}
    state = deal("no_thanks", first=0, cards=[7, 6, 10, 9, 8, 5], **options)
    for action in (PASS, TAKE, PASS, PASS):  # player 1 takes 7 with a chip, then passes on 6, player 2 as well
        game.play(state, action)
    view = seen(state, 0, "recall")
    layout = game.get_game("no_thanks").layouts["recall"]
    told = {name: observed(view)[place].tolist() for name, place in layout.slices.items()}
    assert [told[name][:3] for name in ("chips", "card_score", "to_act", "takes", "refusals")] == [
        [1, 2, 1],  # 2 - 1, 2 + 1 - 1, 2 - 1
        [0, 7, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 1],
    ]
    assert (told["card_number"], told["pot"], told["cards_left"], told["removed"]) == ([6], [2], [3], [1])
    assert told["change"][:3] == [6 + 36, -1 + 36, 6 + 36]
    assert told["price"][:3] == [6 - 2 + 60, -1 - 2 + 60, 6 - 2 + 60]
    assert told["dearest"][:3] == [0, 7 - 1 + 60, 0]
    assert told["cheapest"][:3] == [7 + 60, -1 + 60, 6 - 1 + 60]
    assert (told["unseen_below"], told["unseen_above"]) == ([1], [0])
