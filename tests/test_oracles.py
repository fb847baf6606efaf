"""The oracles against the rulebook: golden cases G1 to G16 of RULES.md and the other rules, figures by hand."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oracles.no_thanks import PASS, TAKE, NoThanks
from oracles.ranking import ranks, rewards
from oracles.six_nimmt import SixNimmt, bulls_on


def box_deck() -> list[int]:
    return list(range(3, 36))


def filled(front: Sequence[int], highest: int = 104) -> list[int]:
    """A 6 nimmt! deck that begins with these cards; the rest ascending."""
    return [*front, *(card for card in range(1, highest + 1) if card not in front)]


def no_next_deck() -> list[int]:
    raise AssertionError("no further hand is dealt here")


def play_cards(game: SixNimmt, *cards: int) -> None:
    for card in cards:
        game.play(card - 1)


# --- ranking and rewards ---------------------------------------------------------------------------------------------


def test_equal_scores_share_the_mean_place() -> None:
    assert ranks([5, 3, 5, -2], []) == [3.5, 2.0, 3.5, 1.0]
    assert ranks([7, 7, 7], []) == [2.0, 2.0, 2.0]


def test_leavers_rank_below_all_others_the_earlier_the_lower() -> None:
    assert ranks([-9, 40, 50, -20], [3, 0]) == [3.0, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("rank", [-2 / 3, 1 / 3, -2 / 3, 1.0]),  # (5 - 2r) / 3 with ranks 3.5, 2, 3.5, 1
        ("win", [-0.25, -0.25, -0.25, 0.75]),
        ("score", [-5.0, -3.0, -5.0, 2.0]),
        ("margin", [6 / 3 - 5, 8 / 3 - 3, 6 / 3 - 5, 13 / 3 + 2]),
    ],
)
def test_rewards_by_hand(kind: str, expected: list[float]) -> None:
    assert rewards(kind, [5, 3, 5, -2], []) == pytest.approx(expected)


def test_tied_winners_share_the_win_and_a_leaver_has_no_part_in_it() -> None:
    assert rewards("win", [4, 4, 9, 4], []) == pytest.approx([1 / 12, 1 / 12, -1 / 4, 1 / 12])
    assert rewards("win", [4, 4, 9, 4], [1]) == pytest.approx([1 / 4, -1 / 4, -1 / 4, 1 / 4])
    assert rewards("win", [4, 90, 9, 4], [0, 3, 2]) == pytest.approx([-1 / 4, 3 / 4, -1 / 4, -1 / 4])


def test_an_unknown_reward_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'margn'.*did you mean 'margin'"):
        rewards("margn", [1, 2], [])


# --- No Thanks! ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "chips", "score"),
    [
        pytest.param([20, 21, 22, 27, 30], 4, 73, id="G1"),
        pytest.param([20, 22, 27, 30, 21], 4, 73, id="G1-any-order"),
        pytest.param([3, 7, 8, 10, 14, 15, 16, 25], 8, 51, id="G2"),
        pytest.param([27, 28, 29, 30], 0, 27, id="G3"),
        pytest.param([17, 18, 19, 20], 0, 17, id="G4"),
        pytest.param([8, 9], 0, 8, id="G5"),
        pytest.param([], 11, -11, id="G6"),
        pytest.param([24, 25, 26], 0, 24, id="G7"),
    ],
)
def test_score(cards: list[int], chips: int, score: int) -> None:
    game = NoThanks(box_deck(), 0)
    game.cards[2] = set(cards)
    game.chips[2] = chips
    assert game.scores()[2] == score
    assert game.table()["scores"]["player_2"] == score


@pytest.mark.parametrize(("num_players", "chips"), [(2, 11), (3, 11), (4, 11), (5, 11), (6, 9), (7, 7)])
def test_chips_at_the_start(num_players: int, chips: int) -> None:
    assert NoThanks(box_deck(), 1, num_players=num_players).chips == [chips] * num_players
    assert NoThanks(box_deck(), 1, num_players=num_players, chips=4).chips == [4] * num_players


def test_g8_without_chips_the_last_card_must_be_taken() -> None:
    game = NoThanks([3, 4, 5], 0, num_players=3, lowest=3, highest=5, removed=1, chips=1)
    for action in (PASS, PASS, TAKE, PASS):  # the third takes 3 with two chips and passes on 4, the last card
        game.play(action)
    assert game.turn == 0
    assert game.chips == [0, 0, 2]
    assert game.legal_actions() == [TAKE]
    assert game.default_action() == TAKE
    with pytest.raises(ValueError, match=r"action is 0, allowed are \[1\]"):
        game.play(PASS)
    game.play(TAKE)
    assert game.table()["turn"] is None
    assert game.legal_actions() == []
    assert game.scores() == [4 - 1, 0, 3 - 2]
    assert game.ranks() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("after_take", "actions", "turns"),
    [
        ("taker", [TAKE, TAKE, PASS, PASS, TAKE, TAKE], [1, 1, 1, 2, 0, 0]),
        ("left", [TAKE, TAKE, PASS, PASS, TAKE, TAKE], [1, 2, 0, 1, 2, 0]),
    ],
)
def test_who_acts_after_a_take(after_take: str, actions: list[int], turns: list[int]) -> None:
    game = NoThanks(box_deck(), 1, num_players=3, after_take=after_take)
    for action, turn in zip(actions, turns, strict=True):
        assert game.turn == turn
        game.play(action)


def test_a_whole_game_by_hand() -> None:
    game = NoThanks([5, 6, 3, 8, 7, 4], 0, num_players=2, lowest=3, highest=8, removed=1, chips=3)
    assert game.table() == {
        "card": 5,
        "pot": 0,
        "cards_left": 4,
        "turn": "player_0",
        "cards": {"player_0": [], "player_1": []},
        "chips": {"player_0": 3, "player_1": 3},
        "scores": {"player_0": -3, "player_1": -3},
        "deck": [6, 3, 8, 7],
        "removed": [4],
    }
    assert game.recall()[0] == {"dearest": None, "cheapest": None, "takes": 0, "refusals": 0}
    assert game.default_action() == PASS
    game.play(PASS)  # 0 refuses at 5
    game.play(TAKE)  # 1 takes 5 at 4
    game.play(TAKE)  # 1 takes 6 at 0: its run grows, its score does not
    game.play(PASS)  # 1 refuses 3 at 3
    assert game.table() == {
        "card": 3,
        "pot": 1,
        "cards_left": 2,
        "turn": "player_0",
        "cards": {"player_0": [], "player_1": [5, 6]},
        "chips": {"player_0": 2, "player_1": 3},
        "scores": {"player_0": -2, "player_1": 2},
        "deck": [8, 7],
        "removed": [4],
    }
    game.play(TAKE)  # 0 takes 3 at 2
    for _ in range(6):  # 8 is refused at 8, 7, 6, 5, 4 and 3, by 0 first
        game.play(PASS)
    assert game.legal_actions() == [TAKE]
    game.play(TAKE)  # 0 must take 8
    assert game.legal_actions() == [PASS, TAKE]
    game.play(TAKE)  # 0 takes 7 at -1: below its 8
    assert game.recall() == [
        {"dearest": 2, "cheapest": 4, "takes": 2, "refusals": 4},
        {"dearest": 4, "cheapest": 3, "takes": 2, "refusals": 4},
    ]
    assert game.table() == {
        "card": None,
        "pot": 0,
        "cards_left": 0,
        "turn": None,
        "cards": {"player_0": [3, 7, 8], "player_1": [5, 6]},
        "chips": {"player_0": 6, "player_1": 0},
        "scores": {"player_0": 4, "player_1": 5},
        "deck": [],
        "removed": [4],
    }
    assert game.rewards("rank") == [1.0, -1.0]
    assert game.rewards("margin") == [1.0, -1.0]


@pytest.mark.parametrize(
    ("view", "open_chips", "others"),
    [("table", False, None), ("table", True, 11), ("recall", False, 11), ("recall", True, 11)],
)
def test_no_thanks_view(view: str, open_chips: bool, others: int | None) -> None:
    game = NoThanks(box_deck(), 0, num_players=3, open_chips=open_chips)
    game.play(PASS)
    seen = game.view(0, view)
    assert (seen["card"], seen["pot"], seen["cards_left"], seen["turn"]) == (3, 1, 23, "player_1")
    assert seen["deck"] is None
    assert seen["removed"] is None
    assert seen["cards"] == {"player_0": [], "player_1": [], "player_2": []}
    assert seen["chips"] == {"player_0": 10, "player_1": others, "player_2": others}
    score = None if others is None else -others
    assert seen["scores"] == {"player_0": -10, "player_1": score, "player_2": score}
    assert seen.keys() == game.table().keys()


def test_chips_are_shown_when_the_game_is_over_the_removed_cards_never() -> None:
    game = NoThanks([3, 4, 5], 0, num_players=2, lowest=3, highest=5, removed=1)
    game.play(TAKE)
    game.play(TAKE)
    seen = game.view(1, "table")
    assert seen["chips"] == {"player_0": 11, "player_1": 11}
    assert seen["scores"] == {"player_0": -8, "player_1": -11}
    assert seen["removed"] is None


def test_when_the_seat_to_act_leaves_the_next_acts_on_the_same_card() -> None:
    game = NoThanks(box_deck(), 2, num_players=4)
    game.play(TAKE)
    game.play(PASS)
    assert game.turn == 3
    game.resign(0)
    game.resign(3)
    table = game.table()
    assert (table["turn"], table["card"], table["pot"]) == ("player_1", 4, 1)
    game.play(PASS)
    assert game.turn == 2
    game.play(PASS)
    assert game.turn == 1
    assert game.chips == [11, 10, 9, 11]
    assert game.ranks()[0] == 4.0
    assert game.ranks()[3] == 3.0
    game.resign(2)
    table = game.table()
    assert (table["turn"], table["card"], table["pot"]) == (None, 4, 3)
    assert table["cards"]["player_2"] == [3]
    assert table["chips"] == {"player_0": 11, "player_1": 10, "player_2": 9, "player_3": 11}
    assert game.ranks() == [4.0, 1.0, 2.0, 3.0]
    assert game.rewards("win") == [-0.25, 0.75, -0.25, -0.25]
    with pytest.raises(ValueError, match="cannot resign"):
        game.resign(1)


def test_after_take_left_passes_over_leavers() -> None:
    game = NoThanks(box_deck(), 0, num_players=4, after_take="left")
    game.resign(1)
    with pytest.raises(ValueError, match="seat is 1"):
        game.resign(1)
    game.play(TAKE)
    assert game.turn == 2


@pytest.mark.parametrize(
    ("deck", "options", "message"),
    [
        ([3, 3, *range(5, 36)], {}, "every card from 3 to 35 once"),
        (box_deck(), {"num_players": 8}, "num_players is 8, allowed are 2 to 7"),
        (box_deck(), {"after_take": "tekar"}, "did you mean 'taker'"),
        (box_deck(), {"removed": 33}, "removed is 33, allowed are 0 to 32"),
        (box_deck(), {"chips": -1}, "chips is -1"),
    ],
)
def test_no_thanks_refuses_bad_options(deck: list[int], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NoThanks(deck, 0, **options)


@pytest.mark.parametrize("num_players", range(2, 8))
def test_g9_chips_and_cards_are_conserved(num_players: int) -> None:
    rng = random.Random(num_players)
    for _ in range(30):
        lowest = rng.choice([1, 3, 5])
        highest = rng.choice([lowest + 5, 35])
        removed = rng.choice([0, 1, 3])
        chips = rng.choice([None, 0, 1, 5])
        deck = list(range(lowest, highest + 1))
        rng.shuffle(deck)
        game = NoThanks(
            deck,
            rng.randrange(num_players),
            num_players=num_players,
            after_take=rng.choice(["taker", "left"]),
            lowest=lowest,
            highest=highest,
            removed=removed,
            chips=chips,
        )
        start = sum(game.chips)
        while True:
            assert sum(game.chips) + game.pot == start
            middle = [] if game.card is None else [game.card]
            places = [*game.removed, *game.deck, *middle, *(card for cards in game.cards for card in cards)]
            assert sorted(places) == sorted(deck)
            if game.turn is None:
                break
            if rng.random() < 0.01:
                game.resign(rng.choice([seat for seat in range(num_players) if seat not in game.leavers]))
            else:
                game.play(rng.choice(game.legal_actions()))


# --- 6 nimmt! --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "make", [lambda: NoThanks(box_deck(), 0), lambda: SixNimmt(filled([]), next_deck=no_next_deck)]
)
def test_an_unknown_view_and_a_seat_out_of_range(make: Callable[[], NoThanks | SixNimmt]) -> None:
    with pytest.raises(ValueError, match="did you mean 'recall'"):
        make().view(0, "recal")
    with pytest.raises(ValueError, match="seat is 4, allowed are 0 to 3"):
        make().view(4, "table")
