"""`undertake benchmark`: its figures, what it keeps through kill -9, a full disk and damage, the leaderboard's page."""

import errno
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from undertake.arena import BLOCK, benchmark, evaluate, play
from undertake.arena.benchmark_cli import main
from undertake.arena.benchmark_page import Target, leaderboard_page, place, read_tables, verdicts
from undertake.arena.pictures import draw_curves, read_curve
from undertake.arena.statistics import pooled
from undertake.core.game import get_game

ROOT = Path(__file__).resolve().parents[2]
PAIRS = Path("runs/benchmark/pairs")
PNG = b"\x89PNG\r\n\x1a\n"

# A policy that waits to be killed once a pair and a block of the next are kept, if it is told to.
WAITING = """
import os
import sys
from pathlib import Path

import numpy as np


class Drawing:
    batched = True
    decisions = 0

    def act(self, observation, action_mask, rng):
        kept = Path("runs/benchmark/pairs")
        if os.environ.get("WAIT") and [*kept.glob("pair-*")] and [*kept.glob("*/block-*")]:
            print("waiting", flush=True)
            sys.stdin.read()
        Drawing.decisions += len(action_mask)
        return (rng.random(action_mask.shape) * action_mask).argmax(axis=1)
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def run(arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """What `undertake benchmark ... --json` prints."""
    code = main([*arguments.split(), "--json"])
    told = capsys.readouterr()
    assert code == 0, told.err
    return json.loads(told.out)


def call(arguments: str) -> int:
    return main(arguments.split())


def figures(table: Any) -> Any:
    """All but when and where it was measured."""
    return {name: value for name, value in table.items() if name != "measured"}


def test_a_row_is_what_evaluate_measures(capsys: pytest.CaptureFixture[str]) -> None:
    table = run("no_thanks --agent tuned --pool random,half_price,tuned --deals 20", capsys)
    report = evaluate("no_thanks", "tuned", ["random", "half_price"], deals=20, deal_set="test")
    assert table["deals_sha256"] == {"20": report.deals_sha256}
    (row,) = table["rows"]
    assert [cell["field"] for cell in row["cells"]] == ["random", "half_price"]  # its own is at parity by symmetry
    for cell, measured in zip(row["cells"], report.cells, strict=True):
        for name, value in measured.estimates.items():
            assert cell[name] == pytest.approx(value._asdict(), rel=1e-5)
    assert row["pool"]["rank"] == pytest.approx(report.pool["rank"]._asdict(), rel=1e-5)
    assert row["worst"]["field"] == "half_price"
    assert row["largest_invasion"]["invasion"] == row["cells"][1]["invasion"]
    own = play("no_thanks", ["tuned"] * 4, deals=20, deal_set="test")
    assert row["own_score"]["mean"] == pytest.approx(own.scores.mean(), rel=1e-5)
    assert (row["track"], row["ms_a_decision"]) == ("scripted", None)


def test_the_mean_of_fields_of_different_numbers_of_deals() -> None:
    few, many = np.array([1.0, 3.0]), np.array([0.0, 2.0, 4.0, 6.0])
    # A deal adds x / (its field's deals * 2 fields): the first two (0.25 + 0, 0.75 + 0.25), the others 0.5 and 0.75.
    variance = 2 * np.var([0.25, 1.0], ddof=1) + 2 * np.var([0.5, 0.75], ddof=1)
    assert pooled([few, many]) == pytest.approx((2.5, 2.5 - 1.96 * variance**0.5, 2.5 + 1.96 * variance**0.5))
    with pytest.raises(ValueError, match="an interval over 1 deals; at least 2 are needed"):
        pooled([few, few[:1]])


def test_who_searches_plays_fewer_deals_and_is_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "SEARCH_DEALS", 4)
    table = run("six_nimmt --players 2 --agent lowest --pool random,rollout:2:random --deals 8", capsys)
    assert [cell["deals"] for cell in table["rows"][0]["cells"]] == [8, 4]
    assert list(table["deals_sha256"]) == ["8", "4"]
    assert table["rows"][0]["ms_a_decision"] is None
    (row,) = run("six_nimmt --players 2 --agent rollout:2:random --pool random --deals 8", capsys)["rows"]
    assert row["track"] == "search"
    assert row["ms_a_decision"] > 0
    assert row["cells"][0]["deals"] == 4
    (Path.cwd() / "mine.py").write_text("def first(observation, mask):\n    return int(mask.argmax())\n")
    (row,) = run("six_nimmt --players 2 --agent mine:first --search --pool random --deals 8", capsys)["rows"]
    assert (row["track"], row["cells"][0]["deals"]) == ("search", 4)
    assert row["ms_a_decision"] > 0


def test_a_benchmark_that_is_killed_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    arguments = f"no_thanks --players 2 --agent waiting:Drawing --pool random,tuned --deals {2 * BLOCK}"
    code = "import sys; from undertake.arena.benchmark_cli import main; main(sys.argv[1:])"
    paths = os.pathsep.join([str(ROOT / "envs"), str(ROOT / "training"), str(tmp_path)])
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments.split()],
        env={**os.environ, "PYTHONPATH": paths, "WAIT": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.kill()
    assert process.returncode == -9
    kept = {path: path.read_bytes() for path in PAIRS.glob("pair-*.npz")}
    assert len(kept) == 1
    assert list(PAIRS.glob("*/block-*.npz"))
    import waiting  # type: ignore[import-not-found]

    resumed = run(arguments, capsys)
    after_the_kill, waiting.Drawing.decisions = waiting.Drawing.decisions, 0
    undisturbed = run(f"{arguments} --keep elsewhere", capsys)
    assert figures(resumed) == figures(undisturbed)
    # Of five pairs, its own and two fields both ways round, one and at least half of another were not played again.
    assert after_the_kill < 0.8 * waiting.Drawing.decisions
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert not list(PAIRS.glob("*/block-*"))


def test_a_full_disk_is_told_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = "no_thanks --agent tuned --pool random,half_price --deals 8"
    expected = run(f"{arguments} --keep elsewhere", capsys)
    flush, room = os.fsync, 5

    def fill(descriptor: int) -> None:
        nonlocal room
        room -= stat.S_ISREG(os.fstat(descriptor).st_mode)
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fill)
        assert call(arguments) == 1
    told = capsys.readouterr()
    kept = len(list(PAIRS.glob("pair-*.npz")))
    assert kept == 2  # a block and a pair each, and a block
    (line,) = told.err.strip().splitlines()
    assert re.fullmatch(
        rf"undertake benchmark: {PAIRS}/\S+: No space left on device; 2 finished pairs are kept in {PAIRS}: "
        r"make room and give the same command again, it goes on from there",
        line,
    )
    assert not list(Path("runs").rglob("*.tmp"))
    assert figures(run(arguments, capsys)) == figures(expected)


def test_a_damaged_pair_is_played_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "no_thanks --agent tuned --pool random,half_price --deals 8"
    expected = run(arguments, capsys)
    first, second, *others = sorted(PAIRS.glob("pair-*.npz"))
    whole = {path: path.read_bytes() for path in (first, second)}
    first.write_bytes(whole[first][:-20])
    flipped = bytearray(whole[second])
    flipped[len(flipped) // 2] ^= 1
    second.write_bytes(flipped)
    before = [path.stat().st_mtime_ns for path in others]
    assert main([*arguments.split(), "--json"]) == 0
    told = capsys.readouterr()
    assert figures(json.loads(told.out)) == figures(expected)
    assert len(re.findall(r"pair-\w+\.npz is damaged; \w+ in a field of \w+ is played again", told.err)) == 2
    assert {path: path.read_bytes() for path in (first, second)} == whole
    assert [path.stat().st_mtime_ns for path in others] == before


def interval(mean: float, half: float = 0.01) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half}


def row(agent: str, shares: dict[str, float], invasion: float = 0.05, own: float = 41) -> dict[str, Any]:
    worst = min(shares, key=lambda field: shares[field])
    return {
        "agent": agent,
        "track": "policy",
        "view": None,
        "ms_a_decision": None,
        "own_score": interval(own, 0.5),
        "pool": {"win_share": interval(sum(shares.values()) / len(shares))},
        "worst": {"field": worst, "win_share": interval(shares[worst])},
        "largest_invasion": {"field": worst, "invasion": interval(invasion)},
        "cells": [
            {"field": field, "win_share": interval(share), "invasion": interval(invasion)}
            for field, share in shares.items()
        ],
    }


def test_a_target_is_reached_by_the_intervals_worse_end() -> None:
    share, score = Target("win_share", ("a",), 0.4, 0.5), Target("own_score", (), 42, 40)
    reached = [share.reached(interval(mean)) for mean in (0.405, 0.415, 0.505, 0.515)]
    assert reached == ["not met", "floor", "floor", "goal"]
    assert [score.reached(interval(mean, 0.5)) for mean in (41.8, 41.4, 39.4)] == ["not met", "floor", "goal"]


def test_targets_of_an_agent() -> None:
    shares = {"threshold_0": 0.6, "threshold_3": 0.6, "threshold_6": 0.45, "threshold_9": 0.7, "tuned": 0.36}
    found = {each["what"]: each for each in verdicts("no_thanks", 4, row("mine", shares, invasion=0.045))}
    listed = "threshold_0, threshold_3, threshold_6, threshold_9"
    assert {what: each["reached"] for what, each in found.items()} == {
        "win share in a field of tuned": "not met",
        f"win share in the worst field of {listed} (here threshold_6)": "floor",
        "win share of any baseline among its copies, at most (here threshold_0)": "goal",
        "mean score of its own table, at most": "floor",
    }
    # At other sizes: above parity everywhere; in 6 nimmt! the field of highest is stated by itself.
    bots = dict.fromkeys(get_game("six_nimmt").bots, 0.2)
    at_six = verdicts("six_nimmt", 6, row("mine", {**bots, "highest": 0.1}))
    assert [(each["floor"], each["reached"]) for each in at_six] == [(1 / 6, "floor"), (None, "")]
    assert at_six[1]["what"] == "win share in a field of highest"


def test_the_place_among_known_agents() -> None:
    def table(*rows: dict[str, Any], **other: Any) -> dict[str, Any]:
        return {"pool": ["a", "b"], "deals_sha256": {"8": "0"}, "rows": list(rows), **other}

    mine = table(row("mine", {"a": 0.5, "b": 0.3}))
    known = table(row("one", {"a": 0.9, "b": 0.1}), row("two", {"a": 0.2, "b": 0.25}), row("mine", {"a": 1, "b": 1}))
    assert place(mine, known) == "place 2 of 3 by the mean over the pool, 1 of 3 by the worst field"
    known["deals_sha256"] = {"4096": "1"}
    assert place(mine, known).endswith(" (the others on 4096 deals)")
    # In the field of a alone it is second, by the mean as by the worst.
    elsewhere = place(mine, {**known, "pool": ["a"]})
    assert elsewhere.startswith("place 2 of 3 by the mean over the pool, 2 of 3 by the worst field, of the 1 fields")
    assert place(mine, {**known, "pool": ["c"]}) == "not ranked: the fields of the leaderboard's pool are c"
    assert place(mine, None).startswith("no leaderboard is at hand")


def test_the_report_and_its_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("no_thanks --leaderboard --players 3,4 --pool tuned,half_price --deals 8 --agent random") == 0
    known = "--known docs/measured/leaderboard"
    asked = "no_thanks --players 3,4 --agent milker_win --pool tuned,half_price --deals 8 --out it"
    assert call(f"{asked} {known}") == 0
    told = capsys.readouterr()
    assert "of 4 by the mean over the pool" in told.out
    assert sorted(path.name for path in Path("it").iterdir()) == [
        "pool-3.png", "pool-4.png", "report.json", "report.md", "strength-3.png", "strength-4.png",
    ]  # fmt: skip
    assert all(path.read_bytes().startswith(PNG) for path in Path("it").glob("*.png"))
    page = Path("it/report.md").read_text()
    tables = json.loads(Path("it/report.json").read_text())["tables"]
    assert [table["players"] for table in tables] == [3, 4]
    for table in tables:
        share = table["rows"][0]["pool"]["win_share"]
        assert f"{share['mean']:.3f} ± {share['high'] - share['mean']:.3f}" in page
        assert table["deals_sha256"]["8"] in page
        assert f"(pool-{table['players']}.png)" in page
    assert "| win share in a field of tuned |" in page


def test_the_curve_of_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    for path in (ROOT / "checkpoints" / "no_thanks").glob("demo.*"):
        shutil.copy(path, tmp_path / f"mine{path.suffix}")
    lines = [{"decisions": 1000, "win_share/tuned": 0.2}, {"decisions": 1500, "entropy": 0.1}]
    lines.append({"decisions": 2000, "win_share/tuned": 0.3})
    (tmp_path / "mine.curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"deci')
    assert read_curve(tmp_path / "mine.curve.jsonl") == [lines[0], lines[2]]
    assert read_curve(tmp_path / "none.jsonl") == []
    assert call("no_thanks --agent checkpoint:mine.safetensors --pool random --deals 2 --out it") == 0
    assert Path("it/learning_curve.png").read_bytes().startswith(PNG)
    assert "(learning_curve.png)" in Path("it/report.md").read_text()
    assert json.loads(Path("it/report.json").read_text())["tables"][0]["rows"][0]["agent"] == "mine"


def test_curves_with_gaps_are_drawn(tmp_path: Path) -> None:
    fields = [f"win_share/{i}" for i in range(12)]
    lines = [{"decisions": 10**6 * i, **dict.fromkeys(fields[i:], 0.1 * i)} for i in range(4)]
    draw_curves([*lines, {"decisions": 4 * 10**6, "win_share/3": None}], 4, "many", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)


def test_the_leaderboard_has_every_agent_once_and_plays_every_pair_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = "six_nimmt --leaderboard --players 2,4 --pool random,lowest,highest --agent exp_cost,random --deals 8"
    assert call(command) == 0
    kept = list(PAIRS.glob("pair-*.npz"))
    # 3 * 3 among the pool, and the other with itself and with each of the three both ways round, at two sizes.
    assert len(kept) == 2 * (9 + 1 + 6)
    tables = read_tables(Path("docs/measured/leaderboard"))
    assert list(tables) == [("six_nimmt", 2), ("six_nimmt", 4)]
    for table in tables.values():
        assert sorted(each["agent"] for each in table["rows"]) == ["exp_cost", "highest", "lowest", "random"]
        means = [each["pool"]["win_share"]["mean"] for each in table["rows"]]
        assert means == sorted(means, reverse=True)
        cells = {(each["agent"], cell["field"]): cell for each in table["rows"] for cell in each["cells"]}
        assert cells["lowest", "random"]["invasion"] == cells["random", "lowest"]["win_share"]
    page = Path("docs/leaderboard.md").read_text()
    assert page == leaderboard_page(tables)
    assert tables["six_nimmt", 2]["deals_sha256"]["8"] in page
    assert f"`undertake benchmark {command}`" in page
    capsys.readouterr()


def test_the_page_is_made_from_the_measured_tables() -> None:
    assert leaderboard_page(read_tables(ROOT / "docs/measured/leaderboard")) == (
        ROOT / "docs/leaderboard.md"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "command", re.findall(r"^undertake .*$", (ROOT / "docs/benchmark.md").read_text(encoding="utf-8"), re.MULTILINE)
)
def test_the_commands_of_the_document(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(
        r"^```python my_policies.py\n(.*?)^```", (ROOT / "docs/policies.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert code
    (tmp_path / "my_policies.py").write_text(code[1])
    words = shlex.split(command)
    assert words[:2] == ["undertake", "benchmark"]
    assert main([*words[2:], "--deals", "2", "--pool", "baselines"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("no_thanks", "a game and --agent POLICY are needed, or --leaderboard"),
        ("no_thank --agent tuned", "did you mean 'no_thanks'?"),
        ("no_thanks --agent tunde", "did you mean 'tuned'?"),
        ("no_thanks --agent tuned --players many", "players is 'many'; a number is needed, several with commas, or"),
        ("no_thanks --agent tuned --players 9", "num_players is 9; allowed is 2 to 7, nearest 7"),
        ("no_thanks --agent tuned --pool milker", "did you mean 'milker_win'?"),
        ("no_thanks --agent tuned --pool tuned", "the pool holds nothing but 'tuned' itself; another field is needed"),
        ("no_thanks --agent tuned --pool random --deals 1", "deals is 1; allowed is 2 to"),
        ("no_thanks --agent tuned --pool random --deals 4 --keep /dev/null/x", "/dev/null/x: Not a directory"),
    ],
)
def test_bad_input_is_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(arguments) in (1, 2)
    told = capsys.readouterr()
    assert told.out == ""
    line = told.err.strip().splitlines()[-1]
    assert line.startswith("undertake benchmark: ")
    assert message in line
