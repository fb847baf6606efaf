"""Matches: rotations, compiled and generic play, several processes, interruption and going on."""

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from arena import user_policies as mine
from undertake.arena import BLOCK, Policy, evaluate, make_policy, make_setting, play, play_block
from undertake.arena.matches import play_lineups, read_scores, write_scores
from undertake.core.game import choose, get_game

HERE = "arena.user_policies:"


def in_python(game: str, bot: str) -> Policy:
    """A scripted bot that needs no chance, played as a user's policy: asked once a table from Python."""
    record = get_game(game).bots[bot].view(np.recarray)[0]

    def act(view: np.record, mask: np.ndarray) -> int:
        return choose(view, record, np.uint64(0))

    return Policy(bot, target=act, sees="view")


@pytest.mark.parametrize(
    ("game", "lineup", "options"),
    [
        ("no_thanks", ["tuned", "milker_win", "random", "threshold_3"], {}),
        ("no_thanks", ["half_price", "milker_score"], {"after_take": "left"}),
        ("no_thanks", ["random", "random", "random"], {}),
        ("six_nimmt", ["closest_gap", "random", "exp_cost", "highest"], {}),
        ("six_nimmt", ["gap_slots", "shortest_row"], {"length": "match", "row_choice": "cheapest"}),
    ],
)
@pytest.mark.parametrize("view", ["recall", "table"])
def test_compiled_and_generic_play_are_the_same(
    game: str, lineup: list[str], options: dict[str, Any], view: str
) -> None:
    """All bots in one call; and bots up to the seats of those among them that Python plays."""
    setting = make_setting(game, len(lineup), deals=12, view=view, **options)
    policies = [make_policy(name, game) for name in lineup]
    expected = play_block(setting, policies, 0)
    for asked in ({0}, {1}, set(range(len(lineup)))):
        mixed = [
            in_python(game, name) if k in asked and name != "random" else policies[k] for k, name in enumerate(lineup)
        ]
        np.testing.assert_array_equal(play_block(setting, mixed, 0), expected)


@pytest.mark.parametrize(
    ("game", "players", "bot"),
    [
        ("no_thanks", 4, "random"),
        ("no_thanks", 3, "tuned"),
        ("no_thanks", 7, "milker_win"),
        ("six_nimmt", 10, "random"),
    ],
)
def test_among_its_equals_an_agent_has_exactly_its_share(game: str, players: int, bot: str) -> None:
    """The same policy in all seats plays one game n times over; so over the rotations each seat is held once."""
    (cell,) = evaluate(game, bot, bot, num_players=players, deals=40).cells
    np.testing.assert_allclose(cell.per_deal["win_share"], 1 / players)
    np.testing.assert_allclose(cell.per_deal["invasion"], 1 / players)
    np.testing.assert_allclose(cell.per_deal["margin"], 0, atol=1e-12)
    np.testing.assert_allclose(cell.per_deal["rank"], 0, atol=1e-12)


def test_the_agent_sits_in_every_seat_of_every_deal() -> None:
    seats: list[int] = []

    def watch(view: np.record, mask: np.ndarray) -> int:
        if view.trick == 0 and mask[:104].any():
            seats.append(int(view.seat))
        return int(np.flatnonzero(mask)[0])

    play("six_nimmt", [Policy("watch", target=watch, sees="view"), "random", "random"], deals=10)
    assert [seats.count(seat) for seat in range(3)] == [10, 10, 10]


def test_rotation_moves_everybody_on_by_a_seat() -> None:
    """In rotation r policy k sits in seat (k + r) mod n: lineups turned by one give the rotations turned by one."""
    names = ["tuned", "milker_win", "threshold_0"]
    scores = play("no_thanks", names, deals=6).scores
    turned = play("no_thanks", [names[-1], *names[:-1]], deals=6).scores
    for rotation in range(3):
        np.testing.assert_array_equal(np.roll(scores[:, (rotation + 1) % 3], 1, axis=1), turned[:, rotation])


def test_the_invader_is_one_of_the_field_among_copies_of_the_agent() -> None:
    (cell,) = evaluate("no_thanks", "tuned", "milker_win", deals=30).cells
    assert cell.per_deal["invasion"] == pytest.approx(
        evaluate("no_thanks", "milker_win", "tuned", deals=30).cells[0].per_deal["win_share"]
    )
    match = play("no_thanks", ["milker_win", "tuned", "tuned", "tuned"], deals=30)
    assert cell.estimates["invasion"] == pytest.approx(match.estimates(0)["win_share"])


def test_blocks_join_without_a_seam() -> None:
    """More deals are the same ones and others: the last block is cut, not dealt anew."""
    long = play("no_thanks", ["tuned", "random"], deals=2 * BLOCK + 10).scores
    np.testing.assert_array_equal(play("no_thanks", ["tuned", "random"], deals=BLOCK + 3).scores, long[: BLOCK + 3])


def test_every_block_has_random_numbers_of_its_own_and_the_same_each_time() -> None:
    def first_draws() -> list[float]:
        drawn: dict[int, tuple[np.random.Generator, float]] = {}

        def act(view: np.record, mask: np.ndarray, rng: np.random.Generator) -> int:
            if id(rng) not in drawn:  # kept, so that no other gets its place in memory
                drawn[id(rng)] = (rng, rng.random())
            return 1

        play("no_thanks", [Policy("draws", target=act, sees="view", takes_rng=True), "random"], deals=2 * BLOCK + 2)
        return [first for _, first in drawn.values()]

    once, again = first_draws(), first_draws()
    assert len(once) == len(set(once)) == 3
    assert once == again


def test_two_processes_play_what_one_plays_and_leave_nothing_behind() -> None:
    before = set(multiprocessing.active_children())
    lineup = [HERE + "Drawing", "random", HERE + "Drawing", "half_price"]
    settings: dict[str, Any] = {"deals": 3 * BLOCK + 5}
    one = play("no_thanks", lineup, **settings)
    two = play("no_thanks", lineup, processes=2, **settings)
    np.testing.assert_array_equal(one.scores, two.scores)
    assert set(multiprocessing.active_children()) == before


def test_an_object_stays_in_one_process() -> None:
    with pytest.raises(ValueError, match="'threshold_6' was given as an object, which stays in one process"):
        play("no_thanks", [mine.threshold_6, "random"], deals=2, processes=2)


class Stop:
    """Presses Ctrl-C when so many games have been played."""

    def __init__(self, games: int) -> None:
        self.games, self.first = games, -1

    def __call__(self, played: int, total: int) -> None:
        self.first = played if self.first < 0 else self.first
        if played >= self.games > 0:
            raise KeyboardInterrupt


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    lineup, deals = [HERE + "Drawing", "random"], 4 * BLOCK
    expected = play("no_thanks", lineup, deals=deals).scores
    with pytest.raises(KeyboardInterrupt, match=f"interrupted with 2 of 4 blocks played; they are kept in {tmp_path}"):
        play("no_thanks", lineup, deals=deals, keep=tmp_path, progress=Stop(2 * BLOCK * 2))
    files = sorted(tmp_path.rglob("*.npz"))
    assert [file.name for file in files] == ["block-00000.npz", "block-00001.npz"]
    # One that was cut short is played again, and what another lineup left is no concern of this one.
    files[1].write_bytes(files[1].read_bytes()[:100])
    with pytest.raises(KeyboardInterrupt):
        play("no_thanks", ["random", "random"], deals=deals, keep=tmp_path, progress=Stop(2 * BLOCK))
    seen = Stop(0)
    found = play("no_thanks", lineup, deals=deals, keep=tmp_path, progress=seen)
    assert seen.first == BLOCK * 2
    np.testing.assert_array_equal(found.scores, expected)
    assert len(list(tmp_path.iterdir())) == 1, "what has been reported is no longer kept"


def test_a_changed_policy_does_not_go_on_with_the_old_ones_games(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "changing_policy.py"
    module.write_text("def act(observation, mask):\n    return 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    lineup = ["changing_policy:act", "random"]
    with pytest.raises(KeyboardInterrupt):
        play("no_thanks", lineup, deals=2 * BLOCK, keep=tmp_path / "kept", progress=Stop(1))
    module.write_text("def act(observation, mask):\n    return 1 - mask[0]\n", encoding="utf-8")
    seen = Stop(0)
    play("no_thanks", lineup, deals=2 * BLOCK, keep=tmp_path / "kept", progress=seen)
    assert seen.first == 0


def is_worker(child: psutil.Process) -> bool:
    """Whether a process is one of a pool's, and not ended already."""
    try:
        return "spawn_main" in str(child.cmdline())
    except psutil.Error:
        return False


def test_interrupting_worker_processes_ends_them(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    setting = make_setting("no_thanks", 2, deals=12 * BLOCK)
    lineup = [make_policy(HERE + "Drawing"), make_policy("random")]
    with pytest.raises(KeyboardInterrupt, match="2 of 12 blocks played"):
        play_lineups(setting, [lineup], processes=2, folder=tmp_path, progress=Stop(2 * BLOCK * 2))
    # multiprocessing's own join() will not do: a thread of the pool waits for the same children.
    workers = [child for child in set(psutil.Process().children()) - before if is_worker(child)]
    assert psutil.wait_procs(workers, timeout=20)[1] == []
    assert len(list(tmp_path.rglob("*.npz"))) == 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"deals": 1}, ValueError, "deals is 1; allowed is 2 to"),
        ({"deal_set": "tset"}, ValueError, "the set of deals is 'tset'.*did you mean 'test'"),
        ({"view": "all"}, ValueError, "view is 'all'"),
        ({"processes": 0}, ValueError, "processes is 0; allowed is 1 to 256, nearest 1"),
        ({"lowst": 3}, TypeError, "unknown option of No Thanks! 'lowst'.*did you mean 'lowest'"),
        ({"removed": 40}, ValueError, "removed is 40; allowed is 0 to 32"),
        ({"policies": ["random"]}, ValueError, "num_players is 1; allowed is 2 to 7"),
        ({"game": "nothanks"}, ValueError, "game is 'nothanks'.*did you mean 'no_thanks'"),
    ],
)
def test_bad_input_is_one_clear_line(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"game": "no_thanks", "policies": ["random", "random"], "deals": 2, **change}
    with pytest.raises(error, match=message) as caught:
        play(**given)
    assert "\n" not in str(caught.value)


def test_a_damaged_file_of_scores_is_none_or_whole(tmp_path: Path) -> None:
    """Whichever byte is flipped, cut off or put in: never other scores, never an exception."""
    path = tmp_path / "scores.npz"
    scores = np.arange(2 * 3 * 3, dtype=np.int32).reshape(2, 3, 3)
    write_scores(path, scores)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for content in (
            whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :],
            whole[:at],
            whole[:at] + whole[at + 1 :],
        ):
            path.write_bytes(content)
            found = read_scores(path, scores.shape)
            assert found is None or np.array_equal(found, scores)
