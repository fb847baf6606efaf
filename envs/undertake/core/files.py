"""Writing files so that what was there before is never lost."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that at every moment the old or the whole new one is there.

    The content is on the disk before the name is given to it, so this holds through a loss of power as well.

    Raises OSError, with the file's name, where it cannot be written; what was there before is left as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # a write that fails names no file; the one that is wanted says more
            error.filename = str(path)
        raise
    with contextlib.suppress(OSError):  # not every system lets a folder be opened; the rename itself has been done
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
