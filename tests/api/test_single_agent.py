"""The Gymnasium face against the AEC face, and by figures worked out by hand."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from stable_baselines3.common.env_checker import check_env as check_env_sb3

from api.playing import MODULES, PAIR, PAIR_DEAL, THREE, THREE_DEAL, every_game, legal
from undertake import make_policy
from undertake.api.single_agent import SingleAgentEnv
from undertake.core.game import get_game

IDS = {"no_thanks": "undertake:undertake/NoThanks-v0", "six_nimmt": "undertake:undertake/SixNimmt-v0"}
BOTS = {"no_thanks": "tuned", "six_nimmt": "closest_gap"}  # neither draws random numbers
PASS, TAKE = 0, 1


def always_take(observation: Any, action_mask: Any) -> int:
    """Take, or the lowest card."""
    return TAKE if len(action_mask) == 3 else int(np.flatnonzero(action_mask)[0])


def always_pass(observation: Any, action_mask: Any) -> int:
    """Pass while possible; the lowest legal action."""
    return int(np.flatnonzero(action_mask)[0])


@contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@every_game
@pytest.mark.parametrize("dict_observation", [True, False])
def test_both_checkers_pass_without_a_warning(game: str, dict_observation: bool, capsys: Any) -> None:
    with no_warnings():
        env = gymnasium.make(IDS[game], dict_observation=dict_observation).unwrapped
        check_env(env)
        check_env_sb3(env)
        ranged = gymnasium.make(IDS[game], num_players=(2, 5), view="recall", opponents=["random", BOTS[game]])
        check_env(ranged.unwrapped)


@every_game
@pytest.mark.parametrize("reward", ["rank", "win", "score", "margin"])
def test_it_plays_what_the_aec_face_plays(game: str, reward: str) -> None:
    """The learner of the one is an agent of the other, whose rewards between its decisions are added up."""
    keywords: dict[str, Any] = {"num_players": 3, "reward": reward, "view": "recall"}
    if game == "six_nimmt":
        keywords["limit"] = 30
    rng = np.random.default_rng(1)
    aec = MODULES[game].env(**keywords)
    for episode in range(6):
        seat = episode % 3
        agent, bot = f"player_{seat}", make_policy(BOTS[game], game)
        options = {"deck": rng.permutation(list(aec.options.cards())).tolist(), "first_player": episode % 3}
        if game == "six_nimmt":  # later hands are dealt by the table's own stream, which the seed sets
            options.pop("deck")
        single = SingleAgentEnv(game, opponents=BOTS[game], seat=seat, **keywords)
        observation, info = single.reset(seed=episode, options=options)
        # The same table: the state is what a face holds, and the random stream goes with it.
        aec.reset(seed=0)
        aec._states[:] = single._tables.states
        aec.agent_selection = aec.possible_agents[int(aec._states["turn"][0])]
        earned, over = 0.0, False
        while not over:
            assert aec.agent_selection == agent
            assert data_equivalence(aec.observe(agent), observation, exact=True)
            action = int(rng.choice(legal(observation)))
            observation, paid, over, truncated, info = single.step(action)
            assert truncated is False
            earned = 0.0
            aec.step(action)
            earned += aec.rewards[agent]
            while not aec.terminations[agent] and aec.agent_selection != agent:
                aec.step(bot.action(aec, aec.agent_selection))
                earned += aec.rewards[agent]
            assert paid == pytest.approx(earned)
            assert info["score"] == aec.infos[agent]["score"]
            assert over == aec.terminations[agent]


def test_a_game_of_no_thanks_by_hand() -> None:
    """playing.THREE: player_0 takes 5, player_1 takes 3 with a chip, player_2 6 with four: scores 5, 2 and 1."""
    env = SingleAgentEnv("no_thanks", opponents=[always_pass, always_take], seating="listed", seat=0, **THREE)
    # Learner in seat 0, to the left one that passes, then one that takes.
    _, info = env.reset(seed=0, options=THREE_DEAL)
    assert (info["score"], info["seat"]) == (-2, 0)
    _, reward, over, _, info = env.step(TAKE)  # 5 for nothing; the learner acts on
    assert (reward, over, info["score"]) == (0, False, 5 - 2)
    # The learner refuses 3 and pays a chip, player_1 refuses it too, and player_2 takes it, and 6, with both chips.
    _, reward, over, _, info = env.step(PASS)
    # Scores: 5 - 1 for the learner, -1 for player_1 with one chip left of two, 3 + 6 - 4: the learner is second.
    assert (reward, over, info["score"]) == (0, True, 4)
    assert env.table()["scores"] == {"player_0": 4, "player_1": -1, "player_2": 5}
    assert not env.action_masks().any()
    with pytest.raises(ResetNeeded):
        env.step(PASS)


def test_a_loss_between_two_decisions_is_paid_with_the_next() -> None:
    """playing.PAIR with the reward "score": player_1's 1 takes a bull; player_0's 2 takes 1 and 5 (1 + 2)."""
    env = SingleAgentEnv("six_nimmt", opponents=always_pass, seat=1, reward="score", **PAIR)
    observation, _ = env.reset(seed=0, options=PAIR_DEAL)
    assert legal(observation) == [0, 3]
    # player_0 plays its lowest card, 2, which is below the row's 3; the learner plays 4: player_0 takes the 3.
    _, reward, over, _, info = env.step(3)
    assert (reward, over, info["score"]) == (0, False, 0)
    # player_0 plays 5, the learner 1, the lowest: it chooses the row 2 4 and has 1 + 1 bulls when that is done.
    observation, reward, over, _, info = env.step(0)
    assert legal(observation) == [104]
    assert (reward, over, info["score"]) == (0, False, 0)
    _, reward, over, _, info = env.step(104)
    assert (reward, over, info["score"]) == (-2, True, 2)


@every_game
def test_the_same_seed_gives_the_same_episodes(game: str) -> None:
    def episodes(seed: int) -> list[Any]:
        env = SingleAgentEnv(game, opponents=["random", BOTS[game]], num_players=(2, 6))
        told: list[Any] = [env.reset(seed=seed)]
        for _ in range(120):
            *step, over, _, info = env.step(int(np.flatnonzero(info_mask(told[-1]))[-1]))
            told.append((*step, over, info))
            if over:
                told.append(env.reset())
        return told

    def info_mask(last: Any) -> Any:
        return last[-1]["action_mask"]

    assert data_equivalence(episodes(3), episodes(3), exact=True)
    assert not data_equivalence(episodes(3), episodes(4), exact=True)


@every_game
def test_seats_sizes_and_opponents_are_drawn_evenly(game: str) -> None:
    """400 episodes; for a chance p the count lies within 4.5 standard deviations of 400 p."""
    env = SingleAgentEnv(game, opponents=["random", BOTS[game]], num_players=[3, 5], seating="same", render_mode="ansi")
    sizes, seats, first = {3: 0, 4: 0, 5: 0}, {n: np.zeros(n) for n in (3, 4, 5)}, 0
    env.reset(seed=0)
    for _ in range(400):
        _, info = env.reset()
        table = env._tables.tables[0]
        n = int(env._tables.states["num_players"][0])
        assert f"player_{n - 1}" in env.render()
        assert f"player_{n}" not in env.render()
        sizes[n] += 1
        seats[n][info["seat"]] += 1
        others = {int(table["who"][s]) for s in range(n) if s != info["seat"]}
        assert len(others) == 1
        first += others == {0}
    for n, count in sizes.items():
        assert abs(count - 400 / 3) < 4.5 * (400 * 2 / 9) ** 0.5
        assert np.all(np.abs(seats[n] - count / n) < 4.5 * (count * (n - 1)) ** 0.5 / n)
    assert abs(first - 200) < 45


class Recorder:
    """Plays the lowest legal action and notes in which seat."""

    sees = "view"

    def __init__(self) -> None:
        self.seats: set[int] = set()

    def act(self, view: Any, action_mask: Any) -> int:
        self.seats.add(int(view.seat))
        return int(np.flatnonzero(action_mask)[0])


def test_a_list_may_be_one_a_seat_from_the_left() -> None:
    recorders = [Recorder() for _ in range(3)]
    env = SingleAgentEnv("six_nimmt", opponents=recorders, seating="listed", seat=2)
    observation, _ = env.reset(seed=1)
    for _ in range(10):
        observation, *_ = env.step(legal(observation)[0])
    assert [recorder.seats for recorder in recorders] == [{3}, {0}, {1}]


def test_a_deal_in_which_the_learner_is_never_asked_is_no_episode() -> None:
    """Whoever begins takes every card if it always takes, and goes on: the learner is asked only if it begins."""
    env = SingleAgentEnv("no_thanks", opponents=always_take, seat=1, num_players=3, highest=6, removed=1)
    for seed in range(10):
        env.reset(seed=seed)
        assert env.table()["turn"] == "player_1"
        assert env.table()["cards_left"] == 2
    with pytest.raises(ValueError, match=r"^the game ended before the learner was asked, .* in 1,000 deals in a row$"):
        env.reset(options={"first_player": 0})
    with pytest.raises(ValueError, match=r"^the game ended before the learner was asked, .* with this deck$"):
        env.reset(options={"first_player": 0, "deck": [3, 4, 5, 6]})
    env.reset(options={"first_player": 1, "deck": [3, 4, 5, 6]})
    assert env.table()["card"] == 3


@every_game
def test_illegal_actions(game: str) -> None:
    for reward, worst in (("rank", -1), ("win", -1 / 4)):
        env = SingleAgentEnv(game, opponents="random", reward=reward)
        for wrong in (-1, get_game(game).wait, 10**30, get_game(game).num_actions):
            env.reset(seed=2)
            observation, paid, over, truncated, info = env.step(wrong)
            assert (paid, over, truncated) == (worst, True, False)
            assert not observation["action_mask"].any()
            assert not info["action_mask"].any()
    raising = SingleAgentEnv(game, opponents="random", illegal="raise")
    raising.reset(seed=2)
    before = raising.table()
    with pytest.raises(ValueError, match=r"^action -1 \(out of range .* is illegal; legal are "):
        raising.step(-1)
    assert raising.table() == before
    replacing = SingleAgentEnv(game, opponents="random", illegal="random")
    replacing.reset(seed=2)
    _, _, over, _, _ = replacing.step(-1)
    assert not over
    for action in (0.5, None, "0"):
        with pytest.raises(TypeError, match=r"^action is .*; a whole number is needed$"):
            replacing.step(action)


class Current:
    """Counts how often it is asked for the policy that is being trained."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        return always_take if self.asked < 3 else always_pass


def test_self_is_what_the_callable_gives_when_it_is_refreshed() -> None:
    current = Current()
    env = SingleAgentEnv("no_thanks", opponents="self", current_policy=current, num_players=2, seat=0)
    assert current.asked == 0  # before the first reset there may be no policy yet
    env.reset(seed=0, options={"first_player": 0})
    env.step(PASS)
    assert env.table()["cards"]["player_1"]
    assert current.asked == 1
    env.reset(options={"first_player": 0})
    assert current.asked == 2
    env.refresh()
    before = len(env.table()["cards"]["player_1"])
    env.step(PASS)
    assert current.asked == 3
    assert len(env.table()["cards"]["player_1"]) == before == 0


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"opponents": "tunde"}, "policy 'tunde' is unknown, did you mean 'tuned'"),
        ({"opponents": []}, "opponents is an empty list"),
        ({"opponents": "self"}, "opponents='self' and current_policy"),
        ({"opponents": "tuned", "current_policy": always_take}, "opponents='self' and current_policy"),
        ({"opponents": "six_nimmt/lowest"}, "policy 'lowest' plays six_nimmt; the game here is no_thanks"),
        ({"seating": "mixd"}, "seating is 'mixd'; .*did you mean 'mixed'"),
        ({"seating": "listed", "opponents": ["tuned", "tuned"]}, "seating is 'listed' with 2 opponents"),
        ({"num_players": 8}, "num_players is 8; allowed is 2 to 7, nearest 7"),
        ({"num_players": (5, 3)}, "the most of num_players is 3; allowed is 5 to 7"),
        ({"num_players": (2, 3, 4)}, "a number or a pair"),
        ({"num_players": (2, 4), "seat": 2}, "seat is 2; allowed is 0 to 1"),
        ({"seat": "randm"}, "seat is 'randm'; .*did you mean 'random'"),
        ({"view": "recal"}, "view is 'recal'; .*did you mean 'recall'"),
        ({"reward": "points"}, "reward is 'points'; allowed are"),
        ({"illegal": "rase"}, "illegal is 'rase'; .*did you mean 'raise'"),
        ({"render_mode": "rgb"}, "render_mode is 'rgb'"),
        ({"chps": 3}, "unknown keyword 'chps'.*did you mean 'chips'"),
        ({"opponents": "sb3:policy.zip"}, "holds pickles, which can run any code .*trust=True"),
    ],
)
def test_what_is_not_allowed_is_said_in_one_line(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        SingleAgentEnv("no_thanks", **keywords)
    assert "\n" not in str(caught.value)


def test_a_bad_deck_leaves_the_game_as_it_was() -> None:
    env = SingleAgentEnv("no_thanks", opponents="tuned", num_players=(2, 5))
    env.reset(seed=5)
    before = env.table()
    with pytest.raises(ValueError, match="deck holds the card 3 twice"):
        env.reset(options={"deck": [3, *range(3, 35)]})
    assert env.table() == before
    with pytest.raises(TypeError, match="options is 7"):
        env.reset(options=7)  # type: ignore[arg-type]


@every_game
def test_a_copy_goes_on_with_the_same_game(game: str) -> None:
    env = SingleAgentEnv(game, opponents=["random", always_pass], num_players=(2, 4))
    observation, _ = env.reset(seed=3)
    for _ in range(3):
        observation, *_ = env.step(legal(observation)[-1])
    copies = [env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))]  # noqa: S301 - made a line above
    told = []
    for each in copies:
        seen, steps = observation, []
        for _ in range(60):
            seen, *rest = each.step(legal(seen)[-1])
            steps.append((seen, *rest))
            if rest[1]:
                seen, _ = each.reset()
        told.append(steps)
    assert data_equivalence(told[0], told[1], exact=True)
    assert data_equivalence(told[0], told[2], exact=True)


def test_the_table_is_drawn(capsys: Any) -> None:
    env = gymnasium.make(IDS["no_thanks"], render_mode="ansi")
    env.reset(seed=1)
    text = env.render()
    assert isinstance(text, str)
    assert text.startswith("No Thanks!   card ")
    human = gymnasium.make(IDS["six_nimmt"], render_mode="human")
    observation, _ = human.reset(seed=1)
    human.step(legal(observation)[0])
    assert capsys.readouterr().out.count("6 nimmt!   hand 1") == 2
