"""A policy that kills the worker process it plays in, the first few times, for the tests of the backends."""

import os
import signal
from pathlib import Path

import numpy as np

# In the current folder, which workers share with their caller: "main" names the process that must live, "deaths" holds
# the number of those to come, and each leaves a file.


class Mortal:
    """Uniform over the legal actions, by the generator it is given."""

    batched = True

    def act(self, observation: np.ndarray, action_mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        die()
        return np.asarray((rng.random(action_mask.shape) * action_mask).argmax(axis=1))


def die() -> None:
    """Die in the middle of a block, unless enough processes have, or this is the caller's own."""
    if os.getpid() == int(Path("main").read_text()):
        return
    for death in range(int(Path("deaths").read_text())):
        try:
            Path(f"death-{death}").touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


def prepare(deaths: int) -> None:
    """Arrange for so many deaths."""
    Path("main").write_text(str(os.getpid()))
    Path("deaths").write_text(str(deaths))


def died() -> int:
    """How many have died."""
    return len(list(Path.cwd().glob("death-*")))
