"""Compiling the rules: one decorator, one cache folder, and a word to the user while it happens.

numba's disk cache looks at the time stamp of the file that holds a kernel and at nothing else, so a kernel cached in
`batch.py` would go on playing the old rules after `rules.py` had changed. Here the cache lies in a folder named by a
digest of all of the package's sources and of the versions of Python, numba and numpy; old folders are pruned.

Set `NUMBA_DISABLE_JIT=1` to run everything as plain Python, `UNDERTAKE_CACHE_DIR` to move the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.event
import numpy as np
from numba.core import config as numba_config

__all__ = ["JIT", "cache_folder", "compiled", "i64"]

F = TypeVar("F", bound=Callable[..., Any])

JIT: bool = not numba_config.DISABLE_JIT
"""Whether functions are compiled; False under `NUMBA_DISABLE_JIT=1`."""

i64: Callable[[Any], int] = np.int64  # type: ignore[assignment]
"""To a signed 64-bit integer, in compiled code and out of it; type checkers take it for a plain int."""

_KEPT_CACHES = 4
_CACHE_NAME = re.compile("[0-9a-f]{16}")  # what is pruned: a folder named to us may hold other things


def _digest() -> str:
    digest = hashlib.sha256()
    for text in (sys.version, numba.__version__, np.__version__, str(numba_config.BOUNDSCHECK)):
        digest.update(text.encode())
    package = Path(__file__).resolve().parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _root() -> Path:
    chosen = os.environ.get("UNDERTAKE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "undertake" / "compiled"


def _prepare() -> Path | None:
    """Make the folder of this version of the sources, drop all but the newest few; None where nothing is writable."""
    name = _digest()
    user = os.getuid() if hasattr(os, "getuid") else "user"
    for root in (_root(), Path(tempfile.gettempdir()) / f"undertake-{user}"):
        folder = root / name
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            if hasattr(os, "getuid") and root.stat().st_uid != os.getuid():
                continue  # loading from a cache runs its code: take none that is somebody else's
            folder.mkdir(exist_ok=True)
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
            os.utime(folder)
            others = sorted(
                (path for path in root.iterdir() if _CACHE_NAME.fullmatch(path.name) and path != folder),
                key=lambda path: path.stat().st_mtime,
                reverse=True,
            )
        except OSError:
            continue
        for old in others[_KEPT_CACHES - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
        return folder
    return None


cache_folder: Path | None = _prepare() if JIT else None
"""Where compiled code of this version of the sources is kept; None without a writable folder or without compiling."""


class _Notice(numba.core.event.Listener):  # type: ignore[misc]
    """Says once a process that compiling has begun: it takes seconds, and silence would look like a hang."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if self.said or not getattr(event.data["dispatcher"].py_func, "__module__", "").startswith("undertake."):
            return
        self.said = True
        later = "later starts load it from the cache" if cache_folder else "no folder for a cache is writable"
        print(f"undertake: compiling the engine, some seconds a part; {later} ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


if JIT:
    numba.core.event.register("numba:compile", _Notice())


def compiled(function: F) -> F:
    """Compile `function` with numba on its first call, keep the code on disk, release the GIL while it runs.

    Kernels have to be written at module level: a closure over compiled functions would never be found in the cache.
    """
    if not JIT:
        return function
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = str(cache_folder) if cache_folder else before
    try:
        return numba.njit(cache=cache_folder is not None, nogil=True)(function)  # type: ignore[no-any-return]
    finally:
        numba_config.CACHE_DIR = before
