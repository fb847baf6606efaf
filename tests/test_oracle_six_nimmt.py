"""The oracle of 6 nimmt! against the rulebook: G10 to G16 of RULES.md and the other rules, by hand."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from oracles.six_nimmt import SixNimmt, bulls_on


def filled(front: Sequence[int], highest: int = 104) -> list[int]:
    """A 6 nimmt! deck that begins with these cards; the rest ascending."""
    return [*front, *(card for card in range(1, highest + 1) if card not in front)]


def no_next_deck() -> list[int]:
    raise AssertionError("no further hand is dealt here")


def play_cards(game: SixNimmt, *cards: int) -> None:
    for card in cards:
        game.play(card - 1)


@pytest.mark.parametrize(
    ("card", "bulls"),
    [(1, 1), (5, 2), (10, 3), (11, 5), (15, 2), (50, 3), (55, 7), (66, 5), (100, 3), (104, 1)],
)
def test_g10_bulls(card: int, bulls: int) -> None:
    assert bulls_on(card) == bulls


def test_g10_bulls_of_the_deck() -> None:
    assert sum(bulls_on(card) for card in range(1, 105)) == 171


def one_trick(cards: Sequence[int], row_starts: Sequence[int], **options: Any) -> SixNimmt:
    """A game of one trick, all cards chosen."""
    game = SixNimmt(
        filled([*cards, *row_starts]),
        num_players=len(cards),
        length="hand",
        hand_size=1,
        num_rows=len(row_starts),
        next_deck=no_next_deck,
        **options,
    )
    play_cards(game, *cards)
    return game


def test_g11_cards_go_to_the_nearest_lower_end() -> None:
    game = one_trick([61, 15, 44, 14], [12, 37, 43, 58])
    assert game.rows == [[12, 14, 15], [37], [43, 44], [58, 61]]
    assert game.totals == [0, 0, 0, 0]
    assert game.turn is None
    assert (game.trick, game.hand, game.phase) == (1, 0, "card")


def test_g12_the_sixth_card_takes_the_row() -> None:
    deck = filled([8, 10, 12, 7, 9, 11, 20, 30, 40, 6])
    game = SixNimmt(deck, num_players=2, length="hand", hand_size=3, next_deck=no_next_deck)
    play_cards(game, 8, 7, 10, 9)
    assert game.rows[3] == [6, 7, 8, 9, 10]
    assert game.turn == 0
    play_cards(game, 12, 11)
    assert game.rows == [[20], [30], [40], [11, 12]]
    assert game.totals == [0, 7]
    assert game.table()["bulls"] == {"player_0": 0, "player_1": 0}
    assert game.recall() == [{"played": [8, 10, 12]}, {"played": [7, 9, 11]}]
    assert game.rewards("score") == [0.0, -7.0]


@pytest.mark.parametrize(
    ("row", "rows"),
    [
        (0, [[3, 12], [20, 25], [30], [40]]),
        (1, [[10, 12, 25], [3], [30], [40]]),
        (2, [[10, 12], [20, 25], [3], [40]]),
        (3, [[10, 12], [20, 25], [30], [3]]),
    ],
)
def test_g13_the_owner_of_a_card_too_low_chooses_a_row(row: int, rows: list[list[int]]) -> None:
    game = one_trick([12, 3, 25], [10, 20, 30, 40])
    assert (game.phase, game.turn, game.trick) == ("row", 1, 0)
    assert game.rows == [[10], [20], [30], [40]]
    assert game.chosen == [12, 3, 25]
    assert game.legal_actions() == [104, 105, 106, 107]
    game.play(104 + row)
    assert game.rows == rows
    assert game.totals == [0, 3, 0]
    assert game.turn is None


def test_the_cheapest_row_is_taken_without_asking() -> None:
    assert one_trick([3, 99], [10, 20, 30, 40], row_choice="cheapest").rows == [[3], [20], [30], [40, 99]]
    assert one_trick([3, 99], [55, 15, 13, 12], row_choice="cheapest").rows == [[55, 99], [15], [3], [12]]


@pytest.mark.parametrize("row_choice", ["player", "cheapest"])
def test_of_rows_with_equal_bulls_the_one_with_fewest_cards_is_cheapest(row_choice: str) -> None:
    game = SixNimmt(
        filled([13, 3, 31, 60, 12, 15, 30]),
        num_players=2,
        hand_size=2,
        num_rows=3,
        length="hand",
        row_choice=row_choice,
        next_deck=no_next_deck,
    )
    play_cards(game, 13, 31)
    assert game.rows == [[12, 13], [15], [30, 31]]  # 2, 2 and 4 bulls
    play_cards(game, 3, 60)
    if row_choice == "player":
        assert game.default_action() == 105
        game.play(game.default_action())
    assert game.rows == [[12, 13], [3], [30, 31, 60]]
    assert game.totals == [2, 0]


def random_six_nimmt(rng: random.Random, num_players: int) -> SixNimmt:
    hand_size, num_rows, row_size = rng.choice([(10, 4, 5), (3, 2, 2), (1, 1, 1)])
    dealt = hand_size * num_players + num_rows
    reduced = rng.random() < 0.5
    highest = dealt if reduced else 104

    def next_deck() -> list[int]:
        return rng.sample(range(1, highest + 1), highest)

    return SixNimmt(
        next_deck(),
        num_players=num_players,
        length=rng.choice(["match", "hand"]),
        limit=rng.choice([5, 66]),
        deck_option="reduced" if reduced else "full",
        row_choice=rng.choice(["player", "cheapest"]),
        hand_size=hand_size,
        num_rows=num_rows,
        row_size=row_size,
        next_deck=next_deck,
    )


@pytest.mark.parametrize("num_players", range(2, 11))
def test_g14_every_card_is_in_one_place(num_players: int) -> None:
    rng = random.Random(num_players)
    for _ in range(12):
        game = random_six_nimmt(rng, num_players)
        while True:
            hands = [card for hand in game.hands for card in hand]
            chosen = [card for card in game.chosen if card is not None]
            rows = [card for row in game.rows for card in row]
            taken = [card for cards in game.taken for card in cards]
            places = sorted([*hands, *chosen, *rows, *taken, *game.undealt])
            assert places == list(range(1, game.num_cards + 1))
            if game.turn is None:
                break
            if rng.random() < 0.01:
                game.resign(rng.choice([seat for seat in range(num_players) if seat not in game.leavers]))
            else:
                action = rng.choice([*game.legal_actions(), game.default_action()])
                assert action in game.legal_actions()
                game.play(action)


@pytest.mark.parametrize(
    ("totals", "over"),
    [
        ([60, 65, 70, 41], True),
        ([65, 65, 20, 20], False),
        ([66, 0, 0, 0], True),
        ([0, 0, 0, 66], True),
        ([65, 65, 65, 65], False),
    ],
)
def test_g15_the_match_ends_at_66(totals: list[int], over: bool) -> None:
    cards, row_starts = [11, 21, 31, 41], [10, 20, 30, 40]
    second = filled([1, 2, 3, 4, 50, 60, 70, 80])
    game = SixNimmt(filled([*cards, *row_starts]), hand_size=1, next_deck=lambda: second)
    game.totals = list(totals)
    play_cards(game, *cards)  # each has a row of its own, nobody takes any
    assert game.totals == totals
    assert (game.turn is None) == over
    if over:
        assert (game.hand, game.trick) == (0, 1)
        assert game.rows == [[10, 11], [20, 21], [30, 31], [40, 41]]
    else:
        assert (game.hand, game.trick, game.turn) == (1, 0, 0)
        assert game.rows == [[50], [60], [70], [80]]
        assert game.recall()[0] == {"played": []}
    if totals == [60, 65, 70, 41]:
        assert game.ranks() == [2.0, 3.0, 4.0, 1.0]
        assert game.rewards("win") == [-0.25, -0.25, -0.25, 0.75]


def test_a_match_adds_up_the_hands() -> None:
    decks = iter([filled([2, 12, 11]), filled([1, 13, 22])])
    game = SixNimmt(filled([3, 10, 5]), num_players=2, hand_size=1, num_rows=1, limit=9, next_deck=lambda: next(decks))
    play_cards(game, 3, 10)
    game.play(104)
    assert game.totals == [2, 0]  # the 5
    assert game.hand == 1
    play_cards(game, 2, 12)
    game.play(104)
    assert game.totals == [7, 0]  # the 11
    play_cards(game, 1, 13)
    game.play(104)
    assert game.totals == [12, 0]  # the 22
    assert game.turn is None
    assert game.hand == 2


def test_g16_ten_players_use_all_cards() -> None:
    game = SixNimmt(filled([]), num_players=10, next_deck=no_next_deck)
    assert game.table()["undealt"] == []
    assert game.table()["hands"]["player_9"] == list(range(91, 101))
    assert game.rows == [[101], [102], [103], [104]]


@pytest.mark.parametrize("num_players", range(2, 11))
def test_the_reduced_deck_deals_all_its_cards(num_players: int) -> None:
    highest = 10 * num_players + 4
    game = SixNimmt(filled([], highest), num_players=num_players, deck_option="reduced", next_deck=no_next_deck)
    assert game.undealt == []
    with pytest.raises(ValueError, match=f"every card from 1 to {highest} once"):
        SixNimmt(filled([], highest + 1), num_players=num_players, deck_option="reduced", next_deck=no_next_deck)


def test_six_nimmt_table_and_views() -> None:
    deck = filled([14, 2, 12, 25, 10, 20], 38)
    game = SixNimmt(deck, num_players=2, hand_size=2, num_rows=2, num_cards=38, next_deck=no_next_deck)
    play_cards(game, 14)
    table = {
        "phase": "card",
        "turn": "player_1",
        "rows": [[10], [20]],
        "hands": {"player_0": [2], "player_1": [12, 25]},
        "chosen": {"player_0": 14, "player_1": None},
        "bulls": {"player_0": 0, "player_1": 0},
        "totals": {"player_0": 0, "player_1": 0},
        "trick": 0,
        "hand": 0,
        "undealt": [card for card in range(1, 39) if card not in (14, 2, 12, 25, 10, 20)],
    }
    assert game.table() == table
    secret: dict[str, Any] = {"hands": {"player_0": None, "player_1": [12, 25]}, "undealt": None}
    secret["chosen"] = {"player_0": None, "player_1": None}
    assert game.view(1, "recall") == table | secret
    assert game.view(1, "table") == table | secret | {"bulls": {"player_0": None, "player_1": 0}}
    assert game.view(0, "recall")["chosen"] == {"player_0": 14, "player_1": None}
    assert game.recall() == [{"played": []}, {"played": []}]
    play_cards(game, 25)
    assert game.rows == [[10, 14], [20, 25]]
    play_cards(game, 2, 12)
    assert game.phase == "row"
    for view in ("table", "recall"):
        assert game.view(1, view)["chosen"] == {"player_0": 2, "player_1": 12}
        assert game.view(1, view)["turn"] == "player_0"
    assert game.recall() == [{"played": [14, 2]}, {"played": [25, 12]}]


def leaving_game() -> SixNimmt:
    """Three players with two cards each: 3 15 | 4 25 | 12 26; rows 10 and 20."""
    second = filled([1, 2, 3, 4, 50, 60])
    return SixNimmt(
        filled([3, 15, 4, 25, 12, 26, 10, 20]), num_players=3, hand_size=2, num_rows=2, next_deck=lambda: second
    )


def test_a_leaver_takes_the_chosen_card_back_and_plays_no_more() -> None:
    game = leaving_game()
    play_cards(game, 15, 25)
    game.resign(0)
    assert game.table()["hands"]["player_0"] == [3, 15]
    assert game.chosen == [None, 25, None]
    assert game.turn == 2
    assert game.recall()[0] == {"played": []}
    play_cards(game, 26)
    assert game.rows == [[10], [20, 25, 26]]
    assert game.turn == 1
    play_cards(game, 4, 12)
    assert game.turn == 1
    game.play(104)  # takes the 10
    assert game.totals == [0, 3, 0]
    assert game.hand == 1
    assert game.table()["hands"] == {"player_0": [], "player_1": [1, 2], "player_2": [3, 4]}
    assert game.rows == [[50], [60]]
    assert game.undealt[0] == 5
    assert game.turn == 1


def test_when_the_last_to_choose_leaves_the_cards_are_shown() -> None:
    game = leaving_game()
    play_cards(game, 15, 25)
    game.resign(2)
    assert game.rows == [[10, 15], [20, 25]]
    assert (game.trick, game.turn) == (1, 0)


def test_when_the_row_chooser_leaves_the_next_card_is_looked_at() -> None:
    game = leaving_game()
    play_cards(game, 3, 4, 26)
    assert (game.phase, game.turn) == ("row", 0)
    game.resign(0)
    assert (game.phase, game.turn) == ("row", 1)
    assert game.chosen == [None, 4, 26]
    assert game.recall()[0] == {"played": [3]}
    assert game.table()["hands"]["player_0"] == [3, 15]
    game.play(105)
    assert game.rows == [[10, 26], [4]]
    assert game.table()["bulls"] == {"player_0": 0, "player_1": 3, "player_2": 0}
    assert game.trick == 1


def test_when_another_leaves_the_row_chooser_still_chooses() -> None:
    game = leaving_game()
    play_cards(game, 3, 25, 12)
    game.resign(2)
    assert (game.phase, game.turn) == ("row", 0)
    game.play(104)
    assert game.rows == [[3], [20, 25]]


def test_no_card_waits_when_the_only_low_one_is_withdrawn() -> None:
    game = leaving_game()
    play_cards(game, 3, 25, 12)
    game.resign(0)
    assert game.rows == [[10, 12], [20, 25]]
    assert (game.phase, game.turn, game.trick) == ("card", 1, 1)


def test_a_leavers_bulls_count_towards_the_limit() -> None:
    game = SixNimmt(
        filled([3, 15, 16, 25, 17, 26, 10, 20]),
        num_players=3,
        hand_size=2,
        num_rows=2,
        limit=3,
        next_deck=no_next_deck,
    )
    play_cards(game, 3, 16, 17)
    game.play(105)
    game.resign(0)
    assert game.scores() == [3, 0, 0]
    play_cards(game, 25, 26)
    assert game.totals == [3, 0, 0]
    assert game.turn is None
    assert game.ranks() == [3.0, 1.5, 1.5]


def test_the_game_ends_at_once_when_one_player_remains() -> None:
    game = leaving_game()
    play_cards(game, 3, 4, 26)
    game.play(104)
    play_cards(game, 15)
    game.resign(1)
    game.resign(0)
    assert game.turn is None
    assert game.legal_actions() == []
    table = game.table()
    assert table["bulls"] == {"player_0": 3, "player_1": 0, "player_2": 0}
    assert table["totals"] == {"player_0": 0, "player_1": 0, "player_2": 0}
    assert game.scores() == [3, 0, 0]
    assert game.ranks() == [2.0, 3.0, 1.0]
    with pytest.raises(ValueError, match="cannot resign"):
        game.resign(2)
    with pytest.raises(ValueError, match="game is over"):
        game.default_action()


def test_default_card_is_the_lowest_in_hand() -> None:
    game = leaving_game()
    assert game.default_action() == 2
    game.play(14)
    assert game.default_action() == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_players": 11}, "num_players is 11, allowed are 2 to 10"),
        ({"length": "mach"}, "did you mean 'match'"),
        ({"row_choice": "cheap"}, "did you mean 'cheapest'"),
        ({"num_cards": 43}, "num_cards is 43, allowed are 44 to 104"),
        ({"row_size": 6}, "row_size is 6, allowed are 1 to 5"),
    ],
)
def test_six_nimmt_refuses_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SixNimmt(filled([]), next_deck=no_next_deck, **options)


def test_an_unknown_view_and_a_seat_out_of_range() -> None:
    game = SixNimmt(filled([]), next_deck=no_next_deck)
    with pytest.raises(ValueError, match="did you mean 'recall'"):
        game.view(0, "recal")
    with pytest.raises(ValueError, match="seat is 4, allowed are 0 to 3"):
        game.view(4, "table")
