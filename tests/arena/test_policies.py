"""Policies by name and as objects: what they see, what they may return, and what is said where they don't fit."""

import sys
from typing import Any

import numpy as np
import pytest

import undertake
from arena import user_policies as mine
from undertake import no_thanks_v0, six_nimmt_v0
from undertake.arena import PolicyError, make_policy, play
from undertake.core.game import get_game

HERE = "arena.user_policies:"


@pytest.mark.parametrize("name", ["no_thanks/tuned", "six_nimmt/closest_gap"])
def test_a_name_may_drop_its_game_where_that_is_known(name: str) -> None:
    game, bot = name.split("/")
    assert undertake.make_policy(name).game == game
    assert make_policy(bot, game) == make_policy(name) == make_policy(name, game)


def test_random_plays_any_game() -> None:
    assert make_policy("random").game is None
    for game in ("no_thanks", "six_nimmt"):
        assert play(game, [make_policy("random")] * 2, deals=2).names == ("random", "random")


@pytest.mark.parametrize(
    ("name", "game", "message"),
    [
        ("no_thanks/tunned", None, "policy 'no_thanks/tunned' is unknown, did you mean 'tuned'?"),
        ("closest_gpa", "six_nimmt", "policy 'closest_gpa' is unknown, did you mean 'closest_gap'?"),
        ("tuned", None, "policy 'tuned' is unknown where no game is given, did you mean 'no_thanks/tuned'?"),
        ("lowest", "no_thanks", "policy 'lowest' is unknown"),
        ("no_thank/tuned", None, "the game of policy 'no_thank/tuned' is 'no_thank'.*did you mean 'no_thanks'?"),
        ("six_nimmt/lowest", "no_thanks", "policy 'lowest' plays six_nimmt; the game here is no_thanks"),
        (
            "no_thanks/dmo",
            None,
            "policy 'no_thanks/dmo' is unknown, did you mean 'demo'?.* and the trained policies .*demo",
        ),
        (
            "demo",
            None,
            "policy 'demo' is unknown where no game is given, did you mean 'no_thanks/demo' or 'six_nimmt/demo'?",
        ),
        ("six_nimmt/demo", "no_thanks", "policy 'demo' plays six_nimmt; the game here is no_thanks"),
        ("onnx:no/such/file.onnx", None, "policy 'onnx:no/such/file.onnx': No such file or directory"),
        ("no_such_module:f", None, "policy 'no_such_module:f': there is no such module to import"),
        (HERE + "treshold_6", None, "has no 'treshold_6', did you mean 'threshold_6'?"),
        (HERE + "NUMBER", None, "neither a function nor something with a method 'act'"),
        (HERE + "NeedsArguments", None, "its class cannot be made without arguments: .*'path'"),
        ("checkpoint:no/such/file.safetensors", None, "checkpoint no/such/file.safetensors: there is no such file"),
    ],
)
def test_an_unknown_policy_is_one_clear_line(name: str, game: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make_policy(name, game)
    assert "\n" not in str(caught.value)


def test_an_unknown_game_is_named() -> None:
    with pytest.raises(ValueError, match=r"game is 'no_thanx'.*did you mean 'no_thanks'"):
        make_policy("tuned", "no_thanx")


@pytest.mark.parametrize("name", ["checkpoint:x", "no_thanks/demo"])
def test_without_torch_a_trained_policy_says_what_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.startswith("undertake_training")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PolicyError, match=rf"'{name}' needs the package 'torch': pip install 'undertake\[train\]'"):
        make_policy(name)


def test_without_onnxruntime_an_onnx_file_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PolicyError, match=r"'onnx:x' needs the package 'onnxruntime': pip install 'undertake\[onnx\]'"):
        make_policy("onnx:x")


def test_without_the_trainer_no_trained_policy_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert make_policy("no_thanks/tuned").scripted
    with pytest.raises(PolicyError, match=r"the trained policies \(none is installed\)"):
        make_policy("no_thanks/demo")


@pytest.mark.parametrize("name", ["threshold_6", "Batched", "Seeing", "BatchedSeeing"])
def test_every_form_of_a_users_policy_plays_what_it_says(name: str) -> None:
    """A rule told in four ways, from observations or from views, plays just what the bot with that rule plays."""
    field = ["milker_win", "random", "tuned"]
    expected = play("no_thanks", ["threshold_6", *field], deals=20).scores
    found = play("no_thanks", [HERE + name, *field], deals=20)
    np.testing.assert_array_equal(found.scores, expected)
    assert found.names[0] == HERE + name


@pytest.mark.parametrize("policy", [mine.threshold_6, mine.Batched, mine.Batched(), mine.Seeing()])
def test_objects_sit_down_as_they_are(policy: Any) -> None:
    expected = play("no_thanks", ["threshold_6", "half_price"], deals=10).scores
    found = play("no_thanks", [policy, "half_price"], deals=10)
    np.testing.assert_array_equal(found.scores, expected)
    assert found.names[0] in ("threshold_6", "Batched", "Seeing")


def test_observation_and_mask_are_those_of_the_environment() -> None:
    """The first decision of a fixed policy at a table, shown by the environment and by the arena."""
    seen: list[Any] = []

    def watch(observation: np.ndarray, action_mask: np.ndarray) -> int:
        seen.append((observation, action_mask))
        return int(np.flatnonzero(action_mask)[-1])

    env = six_nimmt_v0.env(num_players=3, view="recall")
    env.reset(seed=5)
    action = make_policy(watch).action(env, "player_0")
    shown = env.observe("player_0")
    assert action == np.flatnonzero(shown["action_mask"])[-1]
    np.testing.assert_array_equal(seen[0][0], shown["observation"])
    np.testing.assert_array_equal(seen[0][1], shown["action_mask"])
    assert seen[0][0].dtype == np.float32
    assert seen[0][1].dtype == np.int8


def test_a_policys_own_view_holds_at_every_table() -> None:
    play("no_thanks", [HERE + "TableView", "random"], deals=2, view="recall")
    with pytest.raises(
        PolicyError, match=r"'arena.user_policies:Batched' needs the view 'recall'; the view here is 'table'"
    ):
        play("no_thanks", [HERE + "Batched", "random"], deals=2, view="table")
    with pytest.raises(PolicyError, match="plays no_thanks; the game here is six_nimmt"):
        play("six_nimmt", [HERE + "Batched", "random"], deals=2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("waits", r"'arena.user_policies:waits': action 2 \(wait\) is illegal; legal are 0 \(pass\), 1 \(take\)"),
        ("talks", "'arena.user_policies:talks' returned 'pass'; an action's number is needed"),
        ("TooMany", r"'arena.user_policies:TooMany' returned float64 \[\d+, 3\]; integers \[\d+\] are needed"),
    ],
)
def test_what_is_no_legal_action_is_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        play("no_thanks", [HERE + name, "random"], deals=2)
    assert "\n" not in str(caught.value)


def test_a_users_own_error_comes_through_and_names_the_policy() -> None:
    with pytest.raises(ZeroDivisionError, match="no luck") as caught:
        play("no_thanks", [HERE + "fails", "random"], deals=2)
    assert caught.value.__notes__ == ["raised by the policy 'arena.user_policies:fails'"]


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("sees", "veiw", "sees is 'veiw'; allowed are 'observation', 'view'; did you mean 'view'?"),
        ("view", "all", "view is 'all'; allowed are 'table', 'recall'"),
        ("game", "bridge", "game is 'bridge'"),
    ],
)
def test_a_wrong_attribute_is_named(attribute: str, value: str, message: str) -> None:
    policy = type("Mine", (), {"act": lambda self, observation, mask: 0, attribute: value})
    with pytest.raises(PolicyError, match=message):
        make_policy(policy())


# In environments


@pytest.mark.parametrize("module", [no_thanks_v0, six_nimmt_v0])
@pytest.mark.parametrize("name", ["random", "scripted", HERE + "Drawing", HERE + "draw"])
def test_a_policy_plays_whole_games_in_both_faces(module: Any, name: str) -> None:
    game = module.__name__.split(".")[-1].removesuffix("_v0")
    bot = {"no_thanks": "milker_score", "six_nimmt": "exp_cost"}[game]
    finals = []
    for _ in range(2):  # the same seeds twice
        policy = make_policy(bot if name == "scripted" else name, game, seed=3)
        env = module.env(num_players=3, illegal="raise")
        env.reset(seed=11)
        for agent in env.agent_iter():
            _, _, termination, truncation, info = env.last()
            env.step(None if termination or truncation else policy.action(env, agent))
            finals.append(info["score"])
        parallel = module.parallel_env(num_players=3, illegal="raise")
        parallel.reset(seed=11)
        infos: dict[str, Any] = {}
        while parallel.agents:
            actions = {agent: policy.action(parallel, agent) for agent in parallel.agents}
            *_, infos = parallel.step(actions)
        if name == "scripted":  # no chance in it: both faces play the same game
            assert [infos[agent]["score"] for agent in infos] == finals[-3:]
        finals += [info["score"] for info in infos.values()]
    half = len(finals) // 2
    assert finals[:half] == finals[half:]


def test_a_bot_in_an_environment_sees_its_view_only() -> None:
    """In the table view the chips of others are unknown, so the milker does not know that somebody is broke."""
    view = no_thanks_v0.env(num_players=2, view="table")
    view.reset(seed=0)
    seen: list[int] = []

    class Watch:
        sees = "view"

        def act(self, view: Any, action_mask: np.ndarray) -> int:
            seen.append(int(view.chips[1]))
            return 0

    agent = view.agent_selection
    assert make_policy(Watch()).action(view, agent) == 0
    assert seen == [-1]


def test_an_agent_with_nothing_to_decide() -> None:
    env = no_thanks_v0.env(num_players=2)
    env.reset(seed=0)
    other = next(agent for agent in env.agents if agent != env.agent_selection)
    policy = make_policy("random")
    with pytest.raises(ValueError, match=f"{other} has nothing to decide now"):
        policy.action(env, other)
    parallel = no_thanks_v0.parallel_env(num_players=2)
    parallel.reset(seed=0)
    assert sorted(policy.action(parallel, agent) == get_game("no_thanks").wait for agent in parallel.agents) == [0, 1]


def test_another_environment_is_refused() -> None:
    class Foreign:
        @property
        def unwrapped(self) -> "Foreign":
            return self

    with pytest.raises(TypeError, match="one of undertake's environments is needed"):
        make_policy("random").action(Foreign(), "player_0")
