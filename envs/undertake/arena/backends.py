"""Where the blocks of a match are played: in this process, in worker processes of this machine, or as Ray tasks.

A block is played by a pure function of plain data, so every backend gives the same scores, bit for bit; and a block
whose worker was lost is played again by another. Ray is imported when it is asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertake.arena.policy import Policy, PolicyError, make_policy
from undertake.core.game import check_choice, check_whole

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from undertake.arena.matches import Setting

__all__ = ["BACKENDS", "RETRIES", "Backend", "connect_ray", "connected", "make_backend", "package_digest", "play_tasks"]

BACKENDS = ("serial", "processes", "ray")

RETRIES = 3
"""How often a block is played again after the loss of its worker. Without a bound, a policy that kills its process
would be tried for ever."""

_IN_FLIGHT = 1000
"""Blocks that Ray knows of at a time: enough for any cluster, and few enough for its scheduler and for `ray.wait`."""

Scores = npt.NDArray[np.int32]
Task = tuple[int, int]
"""Number of the lineup, number of the block."""

BlockPlayer = Callable[["Setting", Sequence[Policy], int], Scores]


@dataclass(frozen=True)
class Backend:
    """Where blocks are played; made by `make_backend`.

    Attributes:
        name: one of `BACKENDS`
        processes: worker processes, or the CPUs of a Ray that is started for the match
        ray_address: of the Ray cluster to join, None to start Ray on this machine
    """

    name: str = "serial"
    processes: int = 1
    ray_address: str | None = None


def make_backend(name: str | None = None, processes: int = 1, ray_address: str | None = None) -> Backend:
    """The backend called `name`; without a name Ray if an address is given, else by the number of processes.

    Raises ValueError or TypeError in one line for what is unknown or does not go together.
    """
    check_whole("processes", processes, 1, 256)
    if name is None:
        name = "ray" if ray_address is not None else "processes" if processes > 1 else "serial"
    check_choice("backend", name, BACKENDS)
    if name == "serial" and processes > 1:
        raise ValueError(f"processes is {processes}; the backend 'serial' has 1, for more take 'processes' or 'ray'")
    if name != "ray" and ray_address is not None:
        raise ValueError(f"ray_address is {ray_address!r}; it goes with the backend 'ray', and this is {name!r}")
    return Backend(name, processes, ray_address)


@dataclass(frozen=True)
class _Order:
    """A block as a worker is told to play it: a function that can be imported, and plain data."""

    play: BlockPlayer
    setting: Setting
    lineup: tuple[tuple[str, str], ...]
    """Source and fingerprint of each policy."""
    block: int
    folder: str
    """Where the caller stands, and where it finds modules, so that policies are found as the caller finds them."""
    paths: tuple[str, ...]


def play_tasks(
    play: BlockPlayer, setting: Setting, lineups: Sequence[Sequence[Policy]], todo: Sequence[Task], backend: Backend
) -> Generator[tuple[Task, Scores], None, None]:
    """Play blocks, (lineup, block) each, and give each with its scores as it ends.

    `play` must be a function that can be imported. Close the generator to end the workers at once.

    Raises what `play` raises, in whichever process; PolicyError where a policy has no name by which a worker could
    make it; BrokenExecutor where workers are lost again and again; and what `connect_ray` raises.
    """
    if backend.name != "serial":
        _check_named(lineups)
    if backend.name == "ray":  # what is missing is told before the first block is played, not after it
        _import_ray()
        _check_answers(backend.ray_address)
    # The first is always played here: it fills the cache of compiled code, and shows a policy's mistakes plainly.
    alone = todo if backend.name == "serial" else todo[:1]
    for i, block in alone:
        yield (i, block), play(setting, lineups[i], block)
    if len(alone) == len(todo):
        return
    names = [tuple((str(policy.source), policy.fingerprint) for policy in lineup) for lineup in lineups]
    where = (str(Path.cwd()), tuple(sys.path))
    orders = {(i, block): _Order(play, setting, names[i], block, *where) for i, block in todo[len(alone) :]}
    if backend.name == "ray":
        yield from _on_ray(orders, backend)
    else:
        yield from _in_processes(orders, backend.processes)


def _check_named(lineups: Sequence[Sequence[Policy]]) -> None:
    for policy in (policy for lineup in lineups for policy in lineup):
        if policy.source is None:
            raise PolicyError(
                f"policy {policy.name!r} was given as an object, which stays in one process; "
                "give it as 'package.module:attribute' for several"
            )


@cache
def package_digest(*patterns: str) -> str:
    """A digest of this package's sources, of all or of those that match: other rules or bots play other games."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns or ("**/*.py",) for path in package.glob(pattern)}):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _play(order: _Order) -> Scores:
    """Play a block in a worker; the same policies are made once a process."""
    for path in order.paths:
        if path not in sys.path:
            sys.path.append(path)
    with contextlib.suppress(OSError):  # on another machine it need not exist; a policy that needs it will say so
        os.chdir(order.folder)
    policies = [_policy(source, fingerprint, order.setting.game) for source, fingerprint in order.lineup]
    return order.play(order.setting, policies, order.block)


@lru_cache(maxsize=64)
def _policy(source: str, fingerprint: str, game: str) -> Policy:
    """The caller's policy made anew; the fingerprint tells one checkpoint from a later one at the same path."""
    policy = make_policy(source, game)
    if policy.fingerprint != fingerprint:
        raise PolicyError(f"policy {source!r} is another one for the worker on {socket.gethostname()} than here")
    return policy


def _in_processes(orders: Mapping[Task, _Order], processes: int) -> Generator[tuple[Task, Scores], None, None]:
    """Play the orders in a pool of processes; a new pool takes over where one has lost a worker."""
    left = dict(orders)
    in_vain = 0
    while left:
        before = set(multiprocessing.active_children())
        count = len(left)
        context = multiprocessing.get_context("spawn")
        begun = context.Event()
        pool = ProcessPoolExecutor(processes, context, _start_worker, (begun,))
        try:
            running = {pool.submit(_play, order): task for task, order in left.items()}
            for future in as_completed(running):
                try:
                    scores = future.result()
                except BrokenExecutor:  # this block, and all that had not yet ended
                    continue
                del left[running[future]]
                yield running[future], scores
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise
        pool.shutdown()
        if left and not begun.is_set():
            raise BrokenExecutor(
                "no worker process has started; a script that calls this needs `if __name__ == '__main__':` around it"
            )
        in_vain = in_vain + 1 if len(left) == count else 0
        if in_vain > RETRIES:
            raise BrokenExecutor(
                f"worker processes have died {in_vain} times in a row without ending a block; is there memory for them?"
            )


def _start_worker(begun: Event) -> None:
    """Prepare a worker process; Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begun.set()


def _play_there(order: _Order, digest: str) -> Scores:
    """Play a block on what may be another machine, with a package of its own."""
    if package_digest() != digest:
        raise ValueError(
            f"the package undertake of the worker on {socket.gethostname()} differs from the caller's; "
            "all machines need the same version, and its files must not change while a match runs"
        )
    return _play(order)


def _on_ray(orders: Mapping[Task, _Order], backend: Backend) -> Generator[tuple[Task, Scores], None, None]:
    """Play the orders as Ray tasks of one CPU each; Ray plays a block anew whose worker or node was lost."""
    with connected(backend):
        ray = _import_ray()
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_play_there)
        waiting = iter(orders.items())
        running: dict[Any, Task] = {}
        try:
            while True:
                for task, order in islice(waiting, _IN_FLIGHT - len(running)):
                    running[remote.remote(order, package_digest())] = task
                if not running:
                    return
                ended, _ = ray.wait(list(running))
                for reference in ended:
                    yield running.pop(reference), _result(ray, reference)
        except BaseException:
            for reference in running:
                ray.cancel(reference, force=True)
            raise


def _result(ray: Any, reference: Any) -> Scores:
    """The scores of a task that has ended; what a policy or the game raised there comes through as it is."""
    try:
        scores: Scores = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        told = str(error).strip().partition("\n")[0]
        raise BrokenExecutor(f"Ray has lost the worker of a block {RETRIES + 1} times: {told}") from error
    return scores


@contextlib.contextmanager
def connected(backend: Backend) -> Iterator[None]:
    """Keep one connection over several matches on Ray; nothing for the other backends."""
    if backend.name != "ray":
        yield
        return
    ray, here = connect_ray(backend.processes, backend.ray_address)
    try:
        yield
    finally:
        if here:
            ray.shutdown()


def connect_ray(cpus: int = 1, address: str | None = None) -> tuple[Any, bool]:
    """The module `ray`, connected, and whether it was connected here, so that the caller is to shut it down.

    Where the process is connected already, that connection is used. Else an `address` ("host:port", "auto" for one
    that runs on this machine) names the cluster to join, and without one Ray is started on this machine with `cpus`
    CPUs; its servers then listen on the loopback address alone.

    Raises ValueError in one line where Ray is not installed, or nothing answers at the address.
    """
    ray = _import_ray()
    if ray.is_initialized():
        return ray, False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        with _loopback():
            ray.init(
                address="local",  # never the one that RAY_ADDRESS names: that has to be asked for
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=200_000_000,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
        return ray, True
    _check_answers(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        told = str(error).strip().partition("\n")[0]
        raise ValueError(f"no Ray cluster can be joined at {address!r}: {told}") from error
    return ray, True


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ValueError(f"the backend 'ray' needs the package {error.name!r}: pip install 'ray>=2.60'") from None
    return ray


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Let a Ray that is started meanwhile take 127.0.0.1 for its address, whatever other ones the machine has.

    Ray replaces that address by a public one and then listens on all, except where this switch, which it has for other
    systems' firewalls, is off. Ray reads it when it is imported, and its processes when they start.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    name, before = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", constants.ENABLE_RAY_CLUSTER
    set_before = os.environ.get(name)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ[name] = "0"
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
        del os.environ[name]
        if set_before is not None:
            os.environ[name] = set_before


def _check_answers(address: str | None) -> None:
    """Say at once that nothing listens at "host:port": Ray itself would try for a minute."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or "/" in host or not port.isdecimal():
        return  # none, "auto", or a protocol of Ray's own
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"no Ray cluster can be joined at {address!r}: {error}") from None
