"""What every test process shares: one thread, no window, reproducible examples."""

import os

from hypothesis import settings

# Set before anything imports numpy, torch or pygame, which read them once.
os.environ.update(
    OMP_NUM_THREADS="1",
    MPLBACKEND="Agg",
    SDL_VIDEODRIVER="dummy",
    SDL_AUDIODRIVER="dummy",
    PYGAME_HIDE_SUPPORT_PROMPT="1",
)

# No deadline: a first example may wait for the compiler. The same examples every time: a failure is a change's doing.
settings.register_profile("undertake", deadline=None, derandomize=True)
settings.load_profile("undertake")
