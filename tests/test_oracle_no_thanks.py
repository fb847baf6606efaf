"""The oracle of No Thanks! and the ranking against the rulebook: G1 to G9 of RULES.md and the other rules, by hand."""

import random
from typing import Any

import pytest

from oracles.no_thanks import PASS, TAKE, NoThanks
from oracles.ranking import ranks, rewards


def box_deck() -> list[int]:
    return list(range(3, 36))


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


def test_an_unknown_view_and_a_seat_out_of_range() -> None:
    game = NoThanks(box_deck(), 0)
    with pytest.raises(ValueError, match="did you mean 'recall'"):
        game.view(0, "recal")
    with pytest.raises(ValueError, match="seat is 4, allowed are 0 to 3"):
        game.view(4, "table")
