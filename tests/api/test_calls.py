"""The order of calls, options and their errors, rendering, and the environments' pages."""

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from api.playing import MODULES, WAIT, every_game
from undertake.api import page
from undertake.core.game import get_game


@every_game
def test_calls_before_reset_are_refused(game: str) -> None:
    env = MODULES[game].env()
    calls = {
        "step": lambda: env.step(0),
        "observe": lambda: env.observe("player_0"),
        "render": env.render,
        "state": env.state,
        "agent_iter": env.agent_iter,
        "table": env.unwrapped.table,
        "view": lambda: env.unwrapped.view("player_0"),
        "history": env.unwrapped.history,
        "resign": lambda: env.unwrapped.resign("player_0"),
    }
    for name, call in calls.items():
        with pytest.raises(AssertionError, match=rf"reset\(\) needs to be called before {name}\(\)"):
            call()
    for name in ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos"):
        with pytest.raises(AttributeError, match=rf"{name} cannot be accessed before reset\(\)"):
            getattr(env, name)
    assert env.num_agents if hasattr(env, "agents") else True
    with pytest.raises(AttributeError, match="agents cannot be accessed before reset"):
        MODULES[game].parallel_env().step({})


@every_game
def test_an_iteration_without_a_step_is_refused(game: str) -> None:
    env = MODULES[game].env()
    env.reset(seed=0)
    with pytest.raises(AssertionError, match="need to call step"):
        list(env.agent_iter())
    for _ in zip(env.agent_iter(), range(1), strict=False):  # a new loop may begin where the last one was left
        env.step(env.unwrapped.default_action(env.agent_selection))


@every_game
def test_a_step_after_the_end_only_warns(game: str) -> None:
    env = MODULES[game].env()
    env.reset(seed=0)
    env.step(WAIT[game])
    for _ in range(4):
        with pytest.raises(ValueError, match="the only valid action is None"):
            env.step(0)
        env.step(None)
    assert env.agents == []
    with pytest.warns(UserWarning, match="call reset"):
        env.step(None)


@every_game
def test_options_that_cannot_be(game: str) -> None:
    for make in (MODULES[game].env, MODULES[game].raw_env, MODULES[game].parallel_env):
        for keywords, error, message in (
            ({"num_player": 3}, TypeError, r"unknown keyword 'num_player'; .* did you mean 'num_players'"),
            ({"num_players": 1}, ValueError, "num_players is 1; allowed is 2 to"),
            ({"num_players": 11}, ValueError, "num_players is 11; allowed is 2 to"),
            ({"view": "tabel"}, ValueError, r"view is 'tabel'; .* did you mean 'table'"),
            ({"reward": "points"}, ValueError, "reward is 'points'; allowed are 'rank'"),
            ({"render_mode": "rgb"}, ValueError, "render_mode is 'rgb'; allowed are"),
        ):
            with pytest.raises(error, match=message) as caught:
                make(**keywords)
            assert "\n" not in str(caught.value)
    for make in (MODULES[game].env, MODULES[game].parallel_env):
        with pytest.raises(ValueError, match="illegal is 'stop'; allowed are 'terminate', 'raise', 'random'"):
            make(illegal="stop")
    with pytest.raises(TypeError, match="unknown keyword 'illegal'"):
        MODULES[game].raw_env(illegal="raise")


@every_game
def test_the_keywords_are_the_options_with_their_defaults(game: str) -> None:
    options = {item.name: item.default for item in fields(get_game(game).options)}
    rest = {"view": "table", "reward": "rank", "render_mode": None}
    for make, more in (("env", {"illegal": "terminate"}), ("raw_env", {}), ("parallel_env", {"illegal": "terminate"})):
        signature = inspect.signature(getattr(MODULES[game], make))
        assert {name: each.default for name, each in signature.parameters.items()} == {**options, **rest, **more}


@every_game
def test_rendering(game: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = MODULES[game].env(render_mode="ansi")
    env.reset(seed=1)
    text = env.render()
    assert env.agent_selection in text
    assert capsys.readouterr().out == ""
    human = MODULES[game].env(render_mode="human")
    human.reset(seed=1)
    assert capsys.readouterr().out == text + "\n"
    human.step(human.unwrapped.default_action(human.agent_selection))
    assert human.agent_selection in capsys.readouterr().out
    silent = MODULES[game].env()
    silent.reset(seed=1)
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None


@every_game
def test_the_page_tells_the_slices_as_they_are(game: str) -> None:
    source = inspect.getsource(MODULES[game])
    assert page.updated(source, get_game(game)) == source, "run python -m undertake.api.page"


@every_game
def test_the_example_on_the_page_runs(game: str) -> None:
    text = MODULES[game].__doc__ or ""
    code = text.split("\n    from ", 1)[1].split("\n\n## ", 1)[0]
    scope: dict[str, Any] = {}
    exec(inspect.cleandoc("    from " + code), scope)
    assert scope["env"].agents == []


@every_game
def test_an_environment_feeds_a_policy(game: str) -> None:
    env, parallel = MODULES[game].env(), MODULES[game].parallel_env()
    env.reset(seed=1, options={"first_player": 0})
    parallel.reset(seed=1, options={"first_player": 0})
    for each in (env.unwrapped, parallel):
        states, seat = each.policy_input("player_0")
        assert seat == 0
        assert get_game(game).table(states.view(np.recarray)[0]) == each.table()
    env.step(env.unwrapped.default_action("player_0"))
    with pytest.raises(ValueError, match="player_0 has nothing to decide"):
        env.unwrapped.policy_input("player_0")
