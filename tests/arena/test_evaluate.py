"""The report and `undertake evaluate`: figures, files, interruptions, and what is said of bad input."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena import user_policies as mine
from undertake.arena import BLOCK, evaluate, play
from undertake.arena.cli import main
from undertake.core.game import get_game

METRICS = ["win_share", "rank", "score", "margin", "field_score", "invasion"]
BASE = ["game", "players", "agent", "field", "set", "deals", "deals_sha256"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])


def run(*arguments: str) -> int:
    return main([*arguments, "--deals", "20"] if "--deals" not in arguments else arguments)


def test_the_report_of_one_field_is_one_flat_object(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "no_thanks --players 4 --agent tuned --field half_price --deals 20 --set test --json"
    assert main(arguments.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [*BASE, *METRICS]
    assert [found[name] for name in BASE[:-1]] == ["no_thanks", 4, "tuned", "half_price", "test", 20]
    match = play("no_thanks", ["tuned", *["half_price"] * 3], deals=20, deal_set="test")
    reverse = play("no_thanks", ["half_price", *["tuned"] * 3], deals=20, deal_set="test")
    assert found["deals_sha256"] == match.deals_sha256
    for name in METRICS[:-1]:
        assert found[name] == pytest.approx(match.estimates()[name]._asdict())
    assert found["invasion"] == pytest.approx(reverse.estimates()["win_share"]._asdict())
    assert found["invasion"]["low"] < found["invasion"]["mean"] < found["invasion"]["high"]


def test_several_fields_have_a_headline(capsys: pytest.CaptureFixture[str]) -> None:
    fields = ["threshold_0", "tuned", "milker_win"]
    assert (
        run("no_thanks", "--agent", "milker_win", "--field", "threshold_0,tuned", "--field", "milker_win", "--json")
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["fields"] == [cell["field"] for cell in found["cells"]] == fields
    # Its own field, which is at parity by symmetry, is not in the headline.
    shares = [cell["win_share"]["mean"] for cell in found["cells"]]
    assert found["pool"]["win_share"]["mean"] == pytest.approx((shares[0] + shares[1]) / 2)
    assert found["worst"] == {"field": "tuned", "win_share": found["cells"][1]["win_share"]}
    assert shares[1] < shares[0]
    assert found["largest_invasion"] == {"field": "tuned", "invasion": found["cells"][1]["invasion"]}


def test_the_pools_interval_is_over_deals() -> None:
    """The fields share their deals, so a deal's mean over the fields is one number, not three."""
    report = evaluate("no_thanks", "tuned", ["threshold_0", "threshold_3"], deals=30)
    both = np.mean([cell.per_deal["score"] for cell in report.cells], axis=0)
    half = 1.96 * both.std(ddof=1) / 30**0.5
    assert report.pool["score"] == pytest.approx((both.mean(), both.mean() - half, both.mean() + half))


def test_all_is_the_pool_of_scripted_baselines() -> None:
    report = evaluate("six_nimmt", "random", deals=2)
    assert [cell.field for cell in report.cells] == list(get_game("six_nimmt").bots)


def test_two_agents_are_compared_on_the_same_deals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("no_thanks", "--agent", "tuned", "--versus", "threshold_3", "--field", "half_price", "--json") == 0
    versus = json.loads(capsys.readouterr().out)["versus"]
    assert list(versus) == ["agent", *METRICS]
    one, other = (evaluate("no_thanks", name, "half_price", deals=20).cells[0] for name in ("tuned", "threshold_3"))
    paired = one.per_deal["margin"] - other.per_deal["margin"]
    assert versus["margin"]["mean"] == pytest.approx(paired.mean())
    assert versus["margin"]["high"] == pytest.approx(paired.mean() + 1.96 * paired.std(ddof=1) / 20**0.5)
    (same,) = evaluate("no_thanks", "tuned", "half_price", versus="tuned", deals=20).cells
    assert same.difference is not None
    assert all(value == (0, 0, 0) for value in same.difference.values())


def test_what_departs_from_the_protocol_is_said() -> None:
    report = evaluate("six_nimmt", "highest", "random", num_players=2, deals=4, view="table", length="match")
    found = report.to_json()
    assert found["view"] == "table"
    assert found["options"] == {"length": "match", "num_players": 2}
    usual = evaluate("six_nimmt", "highest", "random", num_players=2, deals=4).to_json()
    assert list(usual) == [*BASE, *METRICS]
    # One hand has 104 cards with 171 bulls at most; a match goes on to 66 of one player.
    assert found["field_score"]["mean"] + found["score"]["mean"] >= 66


def test_the_table_names_fields_and_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("no_thanks", "--agent", "tuned", "--field", "all", "--versus", "random") == 0
    text = capsys.readouterr().out
    for bot in get_game("no_thanks").bots:
        assert bot in text
    report = evaluate("no_thanks", "tuned", deals=20)
    win = report.cells[2].estimates["win_share"]
    assert f"{win.mean:.3f} ±{win.high - win.mean:.3f}" in text
    assert report.deals_sha256 in text
    assert "parity 0.250" in text
    assert "tuned less random, on the same deals" in text


def test_without_rich_the_table_is_plain_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("undertake.arena.report.importlib.util.find_spec", lambda name: None)
    assert run("no_thanks", "--agent", "tuned", "--field", "random,half_price") == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[1].split()) == "in a field of win share rank score margin field score invasion"
    assert [line.split()[0] for line in lines[2:4]] == ["random", "half_price"]
    assert len({len(line) for line in lines[1:5]}) == 1


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("no_thanks", "--agent", "tuned,random", "--field", "random,half_price,tuned", "--json",
               "--csv", "out/cells.csv", "--heatmap", "out/shares.png") == 0  # fmt: skip
    reports = json.loads(capsys.readouterr().out)
    assert [report["agent"] for report in reports] == ["tuned", "random"]
    with (tmp_path / "out/cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["agent"], row["field"]) for row in rows] == [
        (agent, field) for agent in ("tuned", "random") for field in ("random", "half_price", "tuned")
    ]
    assert float(rows[1]["score_low"]) == pytest.approx(reports[0]["cells"][1]["score"]["low"], rel=1e-5)
    assert (tmp_path / "out/shares.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cells.csv", "shares.png"]
    assert not list((tmp_path / "runs/arena").iterdir())


def test_ctrl_c_says_where_it_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    name = "arena.user_policies:Interrupting"
    arguments = [
        "no_thanks",
        "--players",
        "2",
        "--agent",
        name,
        "--field",
        "random",
        "--deals",
        str(2 * BLOCK),
        "--json",
    ]
    monkeypatch.setattr(mine.Interrupting, "calls", 0)
    monkeypatch.setattr(mine.Interrupting, "at", -1)
    assert main(arguments) == 0
    expected = json.loads(capsys.readouterr().out)
    in_all = mine.Interrupting.calls
    monkeypatch.setattr(mine.Interrupting, "calls", 0)
    monkeypatch.setattr(mine.Interrupting, "at", in_all - 10)
    assert main(arguments) == 130
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.strip() == (
        "interrupted with 3 of 4 blocks played; they are kept in runs/arena, and the same call goes on from there"
    )
    monkeypatch.setattr(mine.Interrupting, "calls", 0)
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == expected
    assert mine.Interrupting.calls < in_all / 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_thank", "--agent", "random"], "game is 'no_thank'; allowed are 'no_thanks', 'six_nimmt'; did you mean"),
        (["no_thanks", "--agent", "tunde"], "policy 'tunde' is unknown, did you mean 'tuned'?"),
        (
            ["no_thanks", "--agent", "tuned", "--field", "milker"],
            "policy 'milker' is unknown, did you mean 'milker_win'?",
        ),
        (["no_thanks", "--agent", "tuned", "--versus", "x"], "policy 'x' is unknown"),
        (["no_thanks", "--agent", "tuned", "--players", "8"], "num_players is 8; allowed is 2 to 7, nearest 7"),
        (["no_thanks", "--agent", "tuned", "--deals", "0"], "deals is 0; allowed is 2 to"),
        (["no_thanks", "--agent", "tuned", "--option", "lowest"], "option 'lowest': name=value is needed"),
        (["no_thanks", "--agent", "tuned", "--option", "lenth=3"], "unknown option of no_thanks 'lenth'"),
        (
            ["no_thanks", "--agent", "tuned", "--option", "lowest=a"],
            "lowest is 'a'; a whole number from 3 to 35 is needed",
        ),
        (["no_thanks", "--agent", "arena.user_policies:waits"], "action 2 (wait) is illegal; legal are"),
        (["no_thanks", "--agent", "tuned", "--processes", "0"], "processes is 0; allowed is 1 to 256"),
        (["no_thanks", "--agent", "tuned", "--csv", "."], ".: Is a directory"),
        (["no_thanks", "--agent", "tuned", "--keep", "/dev/null/x"], "/dev/null/x: Not a directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) in (1, 2)
    told = capsys.readouterr()
    assert told.out == ""
    line = told.err.strip().splitlines()[-1]  # the engine may have said before that it compiles
    assert line.startswith("undertake evaluate: ")
    assert message in line


def test_a_users_module_beside_the_command_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside.py").write_text("def take(observation, action_mask):\n    return 1\n", encoding="utf-8")
    assert run("no_thanks", "--agent", "beside:take", "--field", "random", "--json") == 0
    assert json.loads(capsys.readouterr().out)["agent"] == "beside:take"


def test_options_reach_the_game(capsys: pytest.CaptureFixture[str]) -> None:
    options: list[str] = []
    for each in ("lowest=3", "highest=8", "removed=1", "chips=3"):
        options += ["--option", each]
    assert run("no_thanks", "--agent", "tuned", "--field", "random", "--players", "2", *options, "--json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["options"] == {"lowest": 3, "highest": 8, "removed": 1, "chips": 3, "num_players": 2}
    # Both players' cards are five of 3 to 8, and both have three chips: the scores sum to at most 30 - 6.
    assert found["score"]["mean"] + found["field_score"]["mean"] <= 30 - 6
