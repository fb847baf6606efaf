"""Config files: what differs from the defaults, and clear errors for what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from undertake_training import config
from undertake_training.config import Config, ConfigError


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return config.load(path)


def test_only_what_differs_needs_to_be_written(tmp_path: Path) -> None:
    loaded = read(
        tmp_path, "decisions: 7\nppo: {clip: 1}\nnetwork: {hidden: [32, 16]}\noptions: {length: hand, limit: 5}"
    )
    assert (loaded.decisions, loaded.network.hidden) == (7, (32, 16))
    assert loaded.ppo.clip == 1.0
    assert isinstance(loaded.ppo.clip, float)
    assert loaded.options == {"length": "hand", "limit": 5}
    assert loaded.ppo.epochs == Config().ppo.epochs


def test_what_is_written_is_what_was_read(tmp_path: Path) -> None:
    loaded = read(tmp_path, "seed: 5\nopponents: {policies: [random]}\noptions: {chips: null, open_chips: true}")
    text = config.write(loaded)
    assert text == "options:\n  chips: null\n  open_chips: true\nseed: 5\nopponents:\n  policies:\n  - random\n"
    assert read(tmp_path, text) == loaded
    assert config.from_mapping(config.to_mapping(loaded)) == loaded


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing\n") == Config()
    assert read(tmp_path, config.write(Config())) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decision: 5", "unknown setting 'decision': did you mean decisions?"),
        ("ppo: {learningrate: 0.1}", "unknown setting 'learningrate' in ppo: did you mean ppo.learning_rate?"),
        ("network: {card_slots: {slice: [a]}}", "in network.card_slots: did you mean network.card_slots.slices?"),
        ("decisions: many", "decisions: a whole number is wanted, not the text 'many'"),
        ("decisions: 1.5", "decisions: a whole number is wanted, not the number 1.5"),
        ("decisions: true", "decisions: a whole number is wanted, not true"),
        ("decisions:", "decisions: a whole number is wanted, not nothing"),
        ("log: {tensorboard: 1}", "log.tensorboard: true or false is wanted, not the number 1"),
        ("ppo: {learning_rate: 1e-3}", "a number is wanted, not the text '1e-3' (YAML wants a point: 1.0e-3)"),
        ("ppo: {clip: '0.1'}", "a number is wanted, not the text '0.1' (no quotes)"),
        ("ppo: [1, 2]", "ppo: settings of its own are wanted, not a list"),
        ("network: {hidden: 64}", "network.hidden: a list is wanted, not the number 64"),
        ("network: {hidden: [64, wide]}", "network.hidden[1]: a whole number is wanted, not the text 'wide'"),
        ("network: {hidden: []}", "network.hidden: at least one layer is wanted"),
        ("options: {deck: [1, 2]}", "options.deck: a number, true, false, a text or nothing is wanted, not a list"),
        ("method: monte_carl", "'monte_carl' is not allowed, one of ppo, monte_carlo; did you mean 'monte_carlo'?"),
        ("monte_carlo: {epsilon: 1.5}", "monte_carlo.epsilon: 1.5 is not allowed, 0.0 to 1.0"),
        ("ppo: {magnet: 0.2}", "ppo.magnet: 0.2 is not allowed, this setting is no more: leave it out, or at 0.0"),
        ("objective: {result: winn}", "'winn' is not allowed, one of win, rank; did you mean 'win'?"),
        ("tables: 0", "tables: 0 is not allowed, at least 1"),
        ("ppo: {clip: -0.1}", "ppo.clip: -0.1 is not allowed, 0.0 to 1.0"),
        ("ppo: {clip: .nan}", "ppo.clip: nan is not allowed"),
        ("objective: {blend_from: 0.8, blend_to: 0.7}", "objective.blend_to: 0.7 is not allowed, 0.8 to 1.0"),
        ("name: ../away", "name: '../away' is not allowed: it names one folder"),
        ("[1, 2]", "a mapping of settings is wanted, not a list"),
        ("a: [", "no valid YAML"),
        ("\0", "no valid YAML"),
    ],
)
def test_what_cannot_be_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "run.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_that_is_no_more_may_stand_where_it_did_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, "ppo: {clip: 0.2, magnet: 0.0}") == Config(ppo=config.PPO(clip=0.2))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: No such file"):
        config.load(tmp_path / "missing.yaml")


def test_a_binary_file_is_no_config(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(range(128, 256)))
    with pytest.raises(ConfigError, match="no text file"):
        config.load(tmp_path / "weights")


CONFIGS = Path(__file__).parents[2] / "configs"
SHIPPED = [
    path
    for folder in ("champion", "demo", "exact", "monte_carlo", "table")
    for path in sorted((CONFIGS / folder).glob("*.yaml"))
]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_configs_say_only_what_differs(path: Path) -> None:
    assert config.from_mapping(config.to_mapping(config.load(path))) == config.load(path)
