"""stable-baselines3: the vector environment against its own, the trainer, and its zips as policies."""

import json
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan

from pipelines.page import run as run_page
from undertake import make_policy
from undertake.arena import PolicyError, play
from undertake.arena.cli import main as evaluate_main
from undertake_training import cli, sb3
from undertake_training.checkpoint import CheckpointError
from undertake_training.config import ConfigError
from undertake_training.sb3_env import LearnerVecEnv
from undertake_training.sb3_policy import SB3Policy, load_policy

IDS = {"no_thanks": "undertake:undertake/NoThanks-v0", "six_nimmt": "undertake:undertake/SixNimmt-v0"}
BOTS = {"no_thanks": "tuned", "six_nimmt": "closest_gap"}
every_game = pytest.mark.parametrize("game", list(IDS))


def chosen(env: Any, rng: np.random.Generator) -> Any:
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in env.env_method("action_masks")])


@every_game
@pytest.mark.parametrize("dict_observation", [False, True])
def test_it_plays_what_dummy_vec_env_plays(game: str, dict_observation: bool) -> None:
    keywords: dict[str, Any] = {"opponents": ["random", BOTS[game]], "num_players": (2, 4), "reward": "score"}
    keywords |= {"dict_observation": dict_observation, **({"length": "hand"} if game == "six_nimmt" else {})}
    ours = LearnerVecEnv(game, 5, **keywords)
    theirs = DummyVecEnv([lambda: gymnasium.make(IDS[game], **keywords)] * 5)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    ours.seed(3)
    theirs.seed(3)
    assert_same(ours.reset(), theirs.reset())
    rng, ended = np.random.default_rng(0), 0
    earned, length = np.zeros(5), np.zeros(5)
    for _ in range(120):
        assert_same(np.stack(ours.env_method("action_masks")), np.stack(theirs.env_method("action_masks")))
        actions = chosen(ours, rng)
        mine, other = ours.step(actions), theirs.step(actions)
        assert_same(mine[0], other[0])
        assert_same(mine[1], other[1])
        assert_same(mine[2], other[2])
        earned, length = earned + mine[1], length + 1
        for b in range(5):
            if mine[2][b]:
                ended += 1
                assert_same(mine[3][b]["terminal_observation"], other[3][b]["terminal_observation"])
                assert mine[3][b]["TimeLimit.truncated"] is other[3][b]["TimeLimit.truncated"] is False
                # The reward "score" sums to minus the final score.
                assert mine[3][b]["episode"] == {"r": earned[b], "l": length[b], "score": other[3][b]["score"]}
                assert earned[b] == -other[3][b]["score"]
                earned[b] = length[b] = 0
            else:
                assert mine[3][b] == {}
    assert ended > 5


@pytest.mark.filterwarnings("ignore:.*render_mode='rgb_array'")  # which SB3 tries first
def test_sb3s_own_maker_finds_the_environments() -> None:
    env = make_vec_env("undertake:undertake/NoThanks-v0", 2, env_kwargs={"dict_observation": False}, seed=0)
    assert isinstance(env, DummyVecEnv)
    assert env.reset().shape == (2, 408)  # type: ignore[union-attr]


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
        return
    assert a.dtype == b.dtype
    assert np.array_equal(a, b)


def test_sb3s_wrappers_and_queries() -> None:
    env = LearnerVecEnv("no_thanks", 4, opponents="tuned")
    assert env.has_attr("action_masks")
    assert not env.has_attr("action_mask")
    assert [mask.tolist() for mask in env.env_method("action_masks", indices=[1, 3])] == [[False] * 3] * 2
    assert env.get_attr("render_mode") == [None] * 4
    assert env.get_attr("num_envs", indices=0) == [4]
    with pytest.raises(AttributeError, match="'view' cannot be set"):
        env.set_attr("view", "recall")
    watched = VecCheckNan(env, raise_exception=True)
    watched.reset()
    rng = np.random.default_rng(0)
    for _ in range(60):
        watched.step(chosen(watched, rng))
    assert pickle.loads(pickle.dumps(env)).num_envs == 4  # noqa: S301 - made in this line


def test_a_fixed_deal_is_an_option_of_the_next_reset() -> None:
    env = LearnerVecEnv("no_thanks", 2, opponents="tuned", seat=0)
    env.set_options({"deck": list(range(3, 36)), "first_player": 0})
    first = env.reset()
    card = slice(264, 297)  # the page of no_thanks_v0: the middle card, one-hot from 3
    assert first[:, card].argmax(axis=1).tolist() == [0, 0]
    env.seed(0)
    assert env.reset()[:, card].argmax(axis=1).tolist() != [0, 0]


@every_game
@pytest.mark.parametrize("policy", ["MlpPolicy", "MultiInputPolicy"])
def test_maskable_ppo_learns_and_plays_legally(game: str, policy: str) -> None:
    """Under illegal="raise" a single illegal action would end it; evaluation passes the masks as well."""
    torch.set_num_threads(1)
    keywords: dict[str, Any] = {"opponents": BOTS[game], "illegal": "raise", "num_players": 2}
    keywords |= {
        "dict_observation": policy == "MultiInputPolicy",
        **({"length": "hand"} if game == "six_nimmt" else {}),
    }
    env = LearnerVecEnv(game, 16, **keywords)
    model = MaskablePPO(policy, env, n_steps=16, batch_size=128, n_epochs=1, seed=0, device="cpu")
    model.learn(2048)
    assert len(model.ep_info_buffer or ()) > 0
    rewards, _ = evaluate_policy(model, env, n_eval_episodes=20, return_episode_rewards=True)
    assert isinstance(rewards, list)
    assert set(rewards) <= {-1.0, 0.0, 1.0}  # two players: last, level or first
    single = gymnasium.make(IDS[game], **keywords)
    MaskablePPO(policy, single, n_steps=64, batch_size=64, n_epochs=1, device="cpu").learn(64)


def test_it_learns_to_beat_random_play(tmp_path: Path) -> None:
    """By 24,576 decisions the policy wins most games against three random players; an even share were a quarter."""
    config = sb3.SB3Config(
        opponents=("random",), decisions=24_576, tables=128, ppo=sb3.MaskedPPO(batch_size=1024), seed=1
    )
    model = sb3.train(config, tmp_path)
    policy = SB3Policy(model.policy, sb3.card(config, 0), "trained")
    match = play("no_thanks", [policy, "random", "random", "random"], deals=64)
    assert match.estimates()["win_share"].low > 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run by the command line, with itself among its opponents."""
    root = tmp_path_factory.mktemp("sb3")
    (root / "config.yaml").write_text(
        "name: short\nopponents: [tuned, self]\ndecisions: 1024\ntables: 32\nnum_players: 3\n"
        "ppo: {n_steps: 16, batch_size: 256, net_arch: [16]}\n"
        "measure: {fields: [random], test_fields: [tuned], every: 512, deals: 4, test_deals: 4}\n"
    )
    arguments = ["train-sb3", "--config", str(root / "config.yaml"), "--runs", str(root), "--evaluate"]
    assert cli.main(arguments) == 0
    return root / "short"


def test_a_run_leaves_a_zip_a_card_and_a_log(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in run.iterdir()} == {"policy.zip", "policy.json", "config.yaml", "log.jsonl"}
    card = json.loads((run / "policy.json").read_text())
    assert (card["game"], card["num_players"], card["view"], card["decisions"]) == ("no_thanks", 3, "recall", 1024)
    assert card["strength"]["field"] == "tuned"
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [line["decisions"] for line in lines] == [512, 1024]
    assert all(0 <= line["win_share/random"] <= 1 for line in lines)
    assert sb3.load(run / "config.yaml").opponents == ("tuned", "self")


def test_a_zip_sits_in_the_arena_only_if_it_is_trusted(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"sb3:{run}"
    with pytest.raises(PolicyError, match=r"holds pickles, which can run any code when they are opened; .*trust=True"):
        make_policy(name, "no_thanks")
    policy = make_policy(name, "no_thanks", trust=True)
    assert (policy.name, policy.game, policy.view, policy.batched) == (name, "no_thanks", "recall", True)
    assert len(policy.fingerprint) == 64
    with pytest.raises(PolicyError, match="plays no_thanks; the game here is six_nimmt"):
        make_policy(policy, "six_nimmt")
    arguments = ["no_thanks", "--agent", name, "--field", f"random,{name}", "--players", "3", "--deals", "4"]
    arguments += ["--json", "--keep", str(run.parent / "kept")]
    assert evaluate_main(arguments) == 2
    assert "--trust" in capsys.readouterr().err
    assert evaluate_main([*arguments, "--trust"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agent"] == name
    assert told["fields"] == ["random", name]


def test_trust_goes_to_worker_processes(run: Path) -> None:
    """Workers get names alone and make the policies anew; two processes give what one gives."""
    policy = make_policy(f"sb3:{run / 'policy.zip'}", "no_thanks", trust=True)
    alone, shared = (
        play("no_thanks", [policy, "tuned", "random"], deals=512, processes=processes) for processes in (1, 2)
    )
    assert np.array_equal(alone.scores, shared.scores)


def test_a_policy_from_a_zip_plays_as_the_model_does(run: Path) -> None:
    loaded = load_policy(run)
    model = MaskablePPO.load(run / "policy.zip", device="cpu")
    env = LearnerVecEnv("no_thanks", 64, opponents="random", view="recall", num_players=3)
    env.seed(0)
    observation = env.reset()
    masks = env.action_masks()
    expected, _ = model.predict(observation, action_masks=masks, deterministic=True)
    rng = np.random.default_rng(0)
    assert loaded.act(observation, masks.astype(np.int8), rng).tolist() == expected.tolist()
    loaded.greedy = False
    drawn = np.stack([loaded.act(observation, masks.astype(np.int8), rng) for _ in range(200)])
    assert masks[np.arange(64), drawn].all()
    with torch.no_grad():
        found: Any = model.policy.get_distribution(torch.from_numpy(observation), action_masks=masks).distribution
    # 200 draws of each of 64 rows: the share of takes is within 5 standard deviations of its mean chance.
    assert abs((drawn == 1).mean() - float(found.probs[:, 1].mean())) < 5 * 0.5 / (200 * 64) ** 0.5


def test_a_zip_without_a_card_is_told_by_its_sizes(run: Path, tmp_path: Path) -> None:
    bare = tmp_path / "mine.zip"
    bare.write_bytes((run / "policy.zip").read_bytes())
    policy = load_policy(bare)
    assert (policy.game, policy.view, policy.name) == ("no_thanks", "recall", "mine")
    with pytest.raises(CheckpointError, match="its game is 'no_thanks', 'six_nimmt' is wanted"):
        load_policy(bare, game="six_nimmt")


def test_zips_that_cannot_be_used_say_so_in_one_line(run: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.zip"
    cut.write_bytes((run / "policy.zip").read_bytes()[:500])
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("hello.txt", "hello")
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", b"nothing")
    other = tmp_path / "other.zip"
    other.write_bytes((run / "policy.zip").read_bytes())
    card = json.loads((run / "policy.json").read_text())
    other.with_suffix(".json").write_text(json.dumps({**card, "observation": {"cards": [0, 3]}}))
    for path, message in (
        (tmp_path / "none.zip", "there is no such file"),
        (cut, "damaged, cut short or no zip file"),
        (foreign, "a zip file, but not one of stable-baselines3's"),
        (broken, "MaskablePPO cannot open it"),
        (other, "trained on an observation that this version does not have"),
    ):
        with pytest.raises(CheckpointError, match=message) as caught:
            load_policy(path)
        assert "\n" not in str(caught.value)


def test_a_run_goes_on_where_it_stopped(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "again"
    folder.mkdir()
    for path in run.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    arguments = ["train-sb3", "--resume", str(folder), "--decisions", "2048"]
    assert cli.main(arguments) == 2
    assert "say --trust" in capsys.readouterr().err
    assert cli.main([*arguments, "--trust"]) == 0
    assert json.loads((folder / "policy.json").read_text())["decisions"] == 2048
    lines = (folder / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["decisions"] for line in lines] == [512, 1024, 1536, 2048]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gamee: no_thanks", "unknown setting 'gamee': did you mean game?"),
        ("ppo: {n_stps: 3}", "unknown setting 'n_stps' in ppo: did you mean ppo.n_steps?"),
        ("tables: many", "tables: a whole number is wanted, not the text 'many'"),
        ("tables: 0", "tables: 0 is not allowed, at least 1"),
        ("game: chess", "game is 'chess'; allowed are"),
        ("name: a/b", "it names one folder"),
    ],
)
def test_settings_that_cannot_be_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        sb3.load(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_opponents_and_options_that_cannot_be_leave_no_folder(tmp_path: Path, capsys: Any) -> None:
    for line, message in (("options: {chips: 99}", "chips is 99"), ("opponents: [tunde]", "did you mean 'tuned'")):
        (tmp_path / "config.yaml").write_text(f"{line}\nruns: {tmp_path / 'runs'}\n")
        assert cli.main(["train-sb3", "--config", str(tmp_path / "config.yaml")]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "runs").exists()


@every_game
def test_the_shipped_configurations_are_read(game: str) -> None:
    config = sb3.load(Path(__file__).resolve().parents[2] / "configs" / "sb3" / f"{game}.yaml")
    assert config.game == game
    assert sb3.make_env(config).num_envs == config.tables


def test_the_pages_script_runs_as_it_stands(tmp_path: Path) -> None:
    """40,000 decisions beat random play in No Thanks!: an even share were a quarter."""
    told = run_page("sb3", tmp_path)
    shares = re.findall(r"^(\w+) win share among three random players \(parity 0.25\): (0\.\d+)", told, re.MULTILINE)
    assert [game for game, _ in shares] == list(IDS)
    assert float(shares[0][1]) > 0.4
    assert {path.name for path in tmp_path.glob("*.zip")} == {"no_thanks.zip", "six_nimmt.zip"}
