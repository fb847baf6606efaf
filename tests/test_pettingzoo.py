"""PettingZoo's own tests, for every number of players and both views, with no warning but two it has for a Dict."""

import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test, state_test
from pettingzoo.utils import parallel_to_aec
from pettingzoo.utils.wrappers import OrderEnforcingWrapper, TerminateIllegalWrapper

import undertake
from undertake import no_thanks_v0, six_nimmt_v0

KNOWN = (
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
)
TABLES: list[tuple[Any, dict[str, Any]]] = [
    *((no_thanks_v0, {"num_players": n}) for n in range(2, 8)),
    *((six_nimmt_v0, {"num_players": n, "length": "hand"}) for n in range(2, 11)),
]
MODULES = [no_thanks_v0, six_nimmt_v0]
every_table = pytest.mark.parametrize(
    ("module", "options"),
    TABLES,
    ids=[f"{module.__name__[10:-3]}-{options['num_players']}" for module, options in TABLES],
)
every_view = pytest.mark.parametrize("view", ["table", "recall"])
every_game = pytest.mark.parametrize("module", MODULES, ids=["no_thanks", "six_nimmt"])


@contextmanager
def only_known_warnings() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert {str(each.message) for each in caught} <= set(KNOWN)


@every_view
@every_table
def test_the_aec_environment_passes(module: Any, options: dict[str, Any], view: str) -> None:
    with only_known_warnings():
        api_test(module.env(view=view, **options))
        api_test(module.raw_env(view=view, **options))


@every_view
@every_table
def test_the_parallel_environment_passes(module: Any, options: dict[str, Any], view: str) -> None:
    with only_known_warnings():
        parallel_api_test(module.parallel_env(view=view, **options))
        api_test(parallel_to_aec(module.parallel_env(view=view, **options)))


@every_view
@every_table
def test_the_same_seed_gives_the_same_game(module: Any, options: dict[str, Any], view: str) -> None:
    with only_known_warnings():
        seed_test(lambda: module.env(view=view, **options))
        # PettingZoo samples here without the mask, so the illegal actions have to be put up with.
        parallel_seed_test(lambda: module.parallel_env(view=view, **options))
        parallel_seed_test(lambda: module.parallel_env(view=view, illegal="random", **options))


@every_view
@every_table
def test_the_state_is_in_its_space(module: Any, options: dict[str, Any], view: str) -> None:
    for illegal in ("terminate", "random"):
        with only_known_warnings():
            made = {"view": view, "illegal": illegal, **options}
            state_test(module.env(**made), module.parallel_env(**made))


@every_game
def test_full_matches_and_all_rewards_pass(module: Any) -> None:
    for reward in ("rank", "win", "score", "margin"):
        with only_known_warnings():
            api_test(module.env(reward=reward))
            parallel_api_test(module.parallel_env(reward=reward))
            api_test(parallel_to_aec(module.parallel_env(reward=reward)))


@every_game
def test_rendering_passes(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with only_known_warnings():
        render_test(lambda **keywords: module.env(**keywords))
    assert "player_3" in capsys.readouterr().out


@every_game
def test_the_raw_environment_wears_the_stock_wrappers(module: Any) -> None:
    def wrapped() -> Any:
        return OrderEnforcingWrapper(TerminateIllegalWrapper(module.raw_env(), illegal_reward=-1))

    with only_known_warnings():
        api_test(wrapped())
        seed_test(wrapped)


@every_game
@pytest.mark.parametrize("kind", ["aec", "parallel"])
def test_both_registries_make_the_games(module: Any, kind: str) -> None:
    name = module.__name__.removeprefix("undertake.").removesuffix("_v0")
    env = pettingzoo.make(kind, f"undertake/{name}-v0", num_players=3, view="recall")
    direct: Callable[..., Any] = module.env if kind == "aec" else module.parallel_env
    assert type(env) is type(direct())
    assert env.max_num_agents == 3
    assert env.unwrapped.view_name == "recall"
    assert str(env) == f"{name}_v0"


def test_the_registries_are_looked_up_without_importing_the_engine() -> None:
    code = (
        "import sys, undertake, pettingzoo\n"
        "print(pettingzoo.spec('aec', 'undertake/no_thanks-v0').entry_point, 'numba' in sys.modules)\n"
        "env = pettingzoo.make('parallel', 'undertake/six_nimmt-v0'); print(env.max_num_agents)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=child())
    assert done.stdout.split() == ["undertake.no_thanks_v0:env", "False", "4"]


def child() -> dict[str, str]:
    """The environment of a process that finds the same packages."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_the_package_can_be_loaded_where_there_is_no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = dict(pettingzoo.aec_registry)
    pettingzoo.aec_registry.pop("undertake/no_thanks-v0")
    try:
        with monkeypatch.context() as before_1_27:
            before_1_27.delattr(pettingzoo, "register")
            importlib.reload(undertake)
        assert "undertake/no_thanks-v0" not in pettingzoo.aec_registry
        importlib.reload(undertake)
        assert "undertake/no_thanks-v0" in pettingzoo.aec_registry
        importlib.reload(undertake)  # a second time without a warning
    finally:
        pettingzoo.aec_registry.update(registry)


@every_game
def test_a_mask_can_be_sampled_and_a_space_is_the_same_object(module: Any) -> None:
    env = module.env()
    env.reset(seed=0)
    spaces = {id(env.observation_space(agent)) for agent in env.agents for _ in range(2)}
    assert len(spaces) == 1
    assert env.action_space("player_0") is env.action_space("player_0")
    observation = env.observe(env.agent_selection)
    assert list(observation) == ["observation", "action_mask"]
    assert observation["observation"].dtype == np.float32
    assert observation["action_mask"].dtype == np.int8
    assert observation["action_mask"][env.action_space("player_0").sample(observation["action_mask"])] == 1
