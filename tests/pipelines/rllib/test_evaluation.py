"""Matches as Ray tasks: what the other backends give, to the last bit, and no deal lost with a worker or a node."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from arena import mortal
from pipelines.rllib.conftest import NODE
from undertake.arena import BLOCK, evaluate, play
from undertake.arena.backends import connect_ray
from undertake.arena.cli import main

HERE = "arena.user_policies:"
LINEUP = ["arena.mortal:Mortal", "random", "tuned"]


@pytest.fixture
def connected(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with this process connected to it."""
    _, here = connect_ray(address=cluster.address)
    assert here
    yield cluster
    ray.shutdown()


def listening(processes: list[psutil.Process]) -> set[str]:
    found = set()
    for process in processes:
        try:
            found |= {each.laddr.ip for each in process.net_connections() if each.status == psutil.CONN_LISTEN}
        except psutil.Error:
            continue
    return found


def test_a_ray_that_is_started_listens_on_loopback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in a process that imported Ray before it knew of us.
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", True)
    before = set(psutil.Process().children(recursive=True))
    _, started = connect_ray(1)
    try:
        assert started
        assert connect_ray(1) == (ray, False), "the connection there is is used"
        assert ray.get(ray.remote(lambda: 1).remote()) == 1
        servers = set(psutil.Process().children(recursive=True)) - before
        found = listening([psutil.Process(), *servers])
    finally:
        ray.shutdown()
    assert found
    assert found <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ


def report(game: str, **settings: Any) -> str:
    fields = ["closest_gap", "random"] if game == "six_nimmt" else ["tuned", "random"]
    return json.dumps(evaluate(game, HERE + "Drawing", fields, deals=2 * BLOCK + 7, **settings).to_json())


@pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])
def test_a_cluster_of_two_nodes_gives_the_same_report_to_the_last_bit(connected: Cluster, game: str) -> None:
    expected = report(game)
    assert report(game, backend="ray") == expected
    assert report(game, processes=2) == expected


def test_the_command_prints_the_same(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It joins the cluster once for two agents, and leaves it; one of them is a module beside the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "beside_the_command.py").write_text(
        "from pathlib import Path\n\nLIMIT = int(Path('limit.txt').read_text())\n\n"
        "def act(observation, mask):\n    return int(not mask[0] or observation[-1] * LIMIT > 1)\n"
    )
    (tmp_path / "limit.txt").write_text("3")
    told = f"no_thanks --agent beside_the_command:act,random --field tuned --deals {2 * BLOCK} --json".split()
    assert main(told) == 0
    expected = capsys.readouterr().out
    assert main([*told, "--backend", "ray", "--ray-address", cluster.address]) == 0
    assert capsys.readouterr().out == expected
    assert not ray.is_initialized()


def test_no_deal_is_lost_with_a_worker(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mortal.prepare(0)
    expected = play("no_thanks", LINEUP, deals=5 * BLOCK).scores
    mortal.prepare(2)
    played: list[int] = []
    found = play("no_thanks", LINEUP, deals=5 * BLOCK, ray_address=cluster.address,
                 progress=lambda done, _: played.append(done))  # fmt: skip
    assert mortal.died() == 2
    np.testing.assert_array_equal(found.scores, expected)
    assert played == [3 * BLOCK * block for block in range(6)], "every block counts once"


def test_no_deal_is_lost_with_a_node(connected: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third node plays a block that never ends; it is killed once it has begun with it."""
    doomed = connected.add_node(**NODE)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "stuck_on_a_node.py").write_text(
        "import signal\nfrom pathlib import Path\n\nimport numpy as np\nimport ray\n\n\n"
        "class Stuck:\n    batched = True\n\n"
        "    def act(self, observation, mask, rng):\n"
        f"        if ray.get_runtime_context().get_node_id() == {doomed.node_id!r}:\n"
        f"            Path({str(tmp_path / 'begun')!r}).touch()\n"
        "            signal.pause()\n"
        "        return (rng.random(mask.shape) * mask).argmax(axis=1)\n"
    )
    lineup = ["stuck_on_a_node:Stuck", "random", "half_price"]
    expected = play("no_thanks", lineup, deals=8 * BLOCK).scores
    ended = threading.Event()

    def kill() -> None:
        while not (tmp_path / "begun").exists() and not ended.wait(0.05):
            pass
        connected.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = play("no_thanks", lineup, deals=8 * BLOCK, backend="ray")
    finally:
        ended.set()
        killer.join()
    assert (tmp_path / "begun").exists(), "the node had a block when it was killed"
    np.testing.assert_array_equal(found.scores, expected)


def test_an_interrupted_match_goes_on_where_it_stopped(connected: Cluster, tmp_path: Path) -> None:
    lineup, deals = [HERE + "Drawing", "random"], 4 * BLOCK
    expected = play("no_thanks", lineup, deals=deals).scores

    def stop(played: int, total: int) -> None:
        if played >= total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="interrupted with 2 of 4 blocks played"):
        play("no_thanks", lineup, deals=deals, keep=tmp_path, backend="ray", progress=stop)
    seen: list[int] = []
    found = play("no_thanks", lineup, deals=deals, keep=tmp_path, backend="ray",
                 progress=lambda played, _: seen.append(played))  # fmt: skip
    assert seen[0] == 2 * BLOCK * 2
    np.testing.assert_array_equal(found.scores, expected)


def test_what_goes_wrong_in_a_worker_comes_through(
    connected: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block is played by the caller; this one errs in the others only."""
    (tmp_path / "errs_on_ray.py").write_text(
        f"import os\n\nHERE = os.getpid() == {os.getpid()}\n\n"
        "def waits(observation, mask):\n    return 1 if HERE else 2\n\n"
        "def divides(observation, mask):\n    return 1 // int(HERE)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"^policy 'errs_on_ray:waits': action 2 \(wait\) is illegal") as caught:
        play("no_thanks", ["errs_on_ray:waits", "random"], deals=2 * BLOCK, backend="ray")
    assert "\n" not in str(caught.value)
    with pytest.raises(ZeroDivisionError) as divided:
        play("no_thanks", ["errs_on_ray:divides", "random"], deals=2 * BLOCK, backend="ray")
    assert "raised by the policy 'errs_on_ray:divides'" in divided.value.__notes__
    assert "in divides" in str(divided.value.__cause__), "where it happened, in the worker"


def test_a_worker_with_other_rules_is_an_error(connected: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("undertake.arena.backends.package_digest", lambda: "that of another version")
    with pytest.raises(ValueError, match=r"undertake of the worker on .* differs from the caller's") as caught:
        play("no_thanks", ["tuned", "random"], deals=2 * BLOCK, backend="ray")
    assert "\n" not in str(caught.value)


def test_where_nothing_listens_there_is_no_cluster() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ValueError, match=f"no Ray cluster can be joined at '127.0.0.1:{port}': .*refused") as caught:
        play("no_thanks", ["random", "random"], deals=2, ray_address=f"127.0.0.1:{port}")
    assert "\n" not in str(caught.value)
