"""Training with RLlib: the masked module, the environments as RLlib takes them, runs on a cluster, going on."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from ray.cluster_utils import Cluster
from ray.rllib.core.columns import Columns
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

from pipelines import page
from undertake.api.aec import AECFace
from undertake.api.parallel import ParallelFace
from undertake.arena import evaluate
from undertake.arena.backends import connect_ray
from undertake.core.game import get_game, make_options
from undertake_training import rllib
from undertake_training.checkpoint import load_policy
from undertake_training.rllib_setup import Settings, env_class, make_config, module_spec, network_of

SMALL = ["--hidden", "32", "--batch", "192", "--minibatch", "128", "--tables", "4"]
GAMES = ["no_thanks", "six_nimmt"]


@pytest.fixture
def connected(cluster: Cluster) -> Iterator[Cluster]:
    connect_ray(address=cluster.address)
    yield cluster
    ray.shutdown()


def small(game: str, **settings: Any) -> Settings:
    return Settings(game, hidden=(32,), batch=192, minibatch=128, tables=4, **settings)


@pytest.mark.parametrize("game", GAMES)
def test_rllib_accepts_the_environments(game: str) -> None:
    """Its own check steps with actions drawn from the space, legal or not."""
    check_multiagent_environments(env_class(game)({"game": game, "num_players": 3}))


def random_legal(observation: dict[str, np.ndarray], rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(observation["action_mask"])))


def returns(episode: Iterator[dict[str, float]], agents: list[str]) -> dict[str, float]:
    total = dict.fromkeys(agents, 0.0)
    for rewards in episode:
        for agent, reward in rewards.items():
            total[agent] += reward
    return total


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("reward", ["rank", "score"])
def test_what_rllib_is_paid_is_what_the_face_pays(game: str, reward: str) -> None:
    options = {"num_players": 4} | ({"length": "hand"} if game == "six_nimmt" else {})
    env = env_class(game)({"game": game, "view": "recall", "reward": reward, **options})
    face = (ParallelFace if game == "six_nimmt" else AECFace)(
        get_game(game), make_options(get_game(game), options), view="recall", reward=reward
    )

    def by_rllib(rng: np.random.Generator) -> Iterator[dict[str, float]]:
        seen, _ = env.reset(seed=5)
        over = False
        while not over:
            seen, rewards, terminated, _, _ = env.step({agent: random_legal(each, rng) for agent, each in seen.items()})
            over = terminated["__all__"]
            yield rewards

    def by_face(rng: np.random.Generator) -> Iterator[dict[str, float]]:
        if isinstance(face, ParallelFace):
            seen, _ = face.reset(seed=5)
            while face.agents:
                seen, rewards, *_ = face.step({agent: random_legal(each, rng) for agent, each in seen.items()})
                yield rewards
            return
        face.reset(seed=5)
        while not any(face.terminations.values()):
            face.step(random_legal(face.observe(face.agent_selection), rng))
            yield face.rewards

    agents = face.possible_agents
    found = returns(by_rllib(np.random.default_rng(0)), agents)
    assert found == pytest.approx(returns(by_face(np.random.default_rng(0)), agents))
    assert len(set(found.values())) > 1
    if reward == "rank":
        assert sum(found.values()) == pytest.approx(0)


@pytest.mark.parametrize("game", GAMES)
def test_what_the_mask_forbids_has_no_chance(game: str) -> None:
    env = env_class(game)({"game": game, "view": "recall"})
    spec = module_spec(small(game))
    agent = "player_0"
    spec.observation_space, spec.action_space = env.observation_space[agent], env.action_space[agent]
    module = spec.build()
    generator = torch.Generator().manual_seed(0)
    features, actions = module.network.shape.num_features, module.network.shape.num_actions
    mask = (torch.rand(64, actions, generator=generator) < 0.3).to(torch.int8)
    mask[:, 1] = 1
    batch = {Columns.OBS: {"observation": torch.rand(64, features, generator=generator), "action_mask": mask}}
    for forward in (module.forward_inference, module.forward_exploration, module.forward_train):
        logits = forward(batch)[Columns.ACTION_DIST_INPUTS]
        probabilities = torch.softmax(logits, dim=1)
        assert probabilities[mask == 0].max() == 0
        torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(64))
        drawn = module.get_exploration_action_dist_cls().from_logits(logits.repeat(50, 1)).sample()
        assert mask.repeat(50, 1)[torch.arange(len(drawn)), drawn].min() == 1
    told = module.forward_train(batch)
    values = module.compute_values(batch)
    assert values.shape == (64,)
    torch.testing.assert_close(values, module.compute_values(batch, embeddings=told[Columns.EMBEDDINGS]))
    (told[Columns.ACTION_DIST_INPUTS][mask == 1].sum() + values.sum()).backward()
    assert all(torch.isfinite(weight.grad).all() for weight in module.parameters() if weight.grad is not None)


def test_runners_sit_on_both_nodes_and_a_lost_one_is_replaced(connected: Cluster) -> None:
    algorithm = make_config(small("no_thanks", runners=2)).build_algo()
    try:
        before = network_of(algorithm).tensors()
        where = algorithm.env_runner_group.foreach_env_runner(
            lambda runner: ray.get_runtime_context().get_node_id(), local_env_runner=False
        )
        assert set(where) == {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        algorithm.train()
        ray.kill(algorithm.env_runner_group._worker_manager.actors()[1], no_restart=False)
        for _ in range(300):  # meanwhile the other one samples
            result = algorithm.train()
            assert result["env_runners"]["num_env_steps_sampled"] > 0
            if algorithm.env_runner_group.num_healthy_remote_workers() == 2:
                break
        assert algorithm.env_runner_group.num_healthy_remote_workers() == 2
        after = network_of(algorithm).tensors()
        assert any(not torch.equal(before[name], after[name]) for name in before)
        for name in ("scale", "centre", "gain"):
            torch.testing.assert_close(before[name], after[name])
        assert not torch.equal(before["gain"], torch.ones_like(before["gain"])), "the input has been fitted"
    finally:
        algorithm.stop()


def state_of(folder: Path, settings: Settings) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Weights and optimiser of the folder's checkpoint, as a run that goes on has them."""
    algorithm = make_config(settings).build_algo()
    try:
        rllib._restore(algorithm, max(folder.glob("rllib-*")))
        state = algorithm.learner_group.get_state(components="learner/optimizer")
        return network_of(algorithm).tensors(), state["learner"]["optimizer"]
    finally:
        algorithm.stop()


def test_a_run_on_a_cluster_is_saved_measured_and_gone_on_with(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    there = ["--address", cluster.address, "--runners", "1"]
    told = ["--game", "six_nimmt", "--iterations", "2", "--folder", str(folder), *there, *SMALL]
    assert rllib.main([*told, "--evaluate", "random", "--deals", "300"]) == 0
    assert not ray.is_initialized()
    shown = capsys.readouterr()
    assert "iteration 2/2" in shown.err
    assert sorted(path.name for path in folder.iterdir()) == [
        "log.jsonl", "policy.json", "policy.safetensors", "rllib-000002", "run.json"]  # fmt: skip
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in log] == [1, 2]
    assert log[1]["env_steps"] >= 2 * 192
    card = json.loads((folder / "policy.json").read_text())
    assert card["options"]["length"] == "hand", "as the measuring protocol has it"
    assert card["decisions"] == log[1]["env_steps"]
    again = evaluate("six_nimmt", f"checkpoint:{folder}", "random", deals=300, deal_set="test").to_json()
    assert card["strength"]["win_share"] == pytest.approx(again["win_share"])

    assert rllib.main(["--resume", str(folder), "--iterations", "3", *there]) == 0
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in log] == [1, 2, 3]
    assert log[2]["env_steps"] >= 3 * 192
    assert [path.name for path in folder.glob("rllib-*")] == ["rllib-000003"]


def test_going_on_needs_no_pickle_and_has_the_optimisers_state(connected: Cluster, tmp_path: Path) -> None:
    settings = small("no_thanks", runners=0, iterations=1)
    rllib.train(settings, tmp_path)
    for file in tmp_path.rglob("*.pkl"):
        file.unlink()
    weights, optimiser = state_of(tmp_path, settings)
    saved = load_policy(tmp_path).network.tensors()
    assert saved.keys() == weights.keys()
    for name, tensor in saved.items():
        torch.testing.assert_close(tensor, weights[name], rtol=0, atol=0)
    steps = [each["step"] for optimizer in optimiser.values() for each in optimizer["state"]["state"].values()]
    assert steps
    assert min(steps) > 0, "Adam goes on with its moments"


def test_ctrl_c_ends_after_the_iteration_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    iterate = rllib._iterate

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        iterate(*arguments)

    monkeypatch.setattr(rllib, "_iterate", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    told = ["--folder", str(tmp_path), "--iterations", "5", "--runners", "0", *SMALL]
    assert rllib.main(told) == 130
    assert capsys.readouterr().err.strip().splitlines()[-1] == (
        f"interrupted after iteration 1 of 5; --resume {tmp_path} goes on from there"
    )
    assert (tmp_path / "rllib-000001").is_dir()
    assert signal.getsignal(signal.SIGINT) is handler
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--game", "no_thank"], "game is 'no_thank'; allowed are 'no_thanks', 'six_nimmt'; did you mean 'no_thanks'?"),
        (["--num-players", "9"], "num_players is 9; allowed is 2 to 7, nearest 7"),
        (["--batch", "0"], "batch is 0; allowed is 1 to"),
        (["--evaluate", "random,tund"], "policy 'tund' is unknown, did you mean 'tuned'?"),
        (["--resume", "nowhere"], "--resume nowhere: there is no run in it, run.json is missing"),
        (["--resume", "taken", "--seed", "1"], "seed is 1; the run to go on with has 0, and this may not change"),
        (["--folder", "taken"], "folder taken holds a run already; --resume taken goes on with it"),
        (["--address", "127.0.0.1:1"], "no Ray cluster can be joined at '127.0.0.1:1'"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "run.json").write_text("{}")
    assert rllib.main(arguments) == 2
    line = capsys.readouterr().err.strip().splitlines()
    assert len(line) == 1
    assert line[0].startswith("rllib: ")
    assert message in line[0]


def test_the_pages_script(tmp_path: Path) -> None:
    lines = page.run("rllib", tmp_path).splitlines()
    assert [line.split()[0] for line in lines if "win share" in line] == GAMES
