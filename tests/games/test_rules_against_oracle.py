"""The engine against the oracle: the same random games, state for state."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from games.against_oracle import NO_THANKS_VALUES, SIX_NIMMT_VALUES, fitting, option_sets, play_one

GAMES = int(os.environ.get("ORACLE_GAMES", "500"))
VALUES = {"no_thanks": NO_THANKS_VALUES, "six_nimmt": SIX_NIMMT_VALUES}
TABLES = [*(("no_thanks", n) for n in range(2, 8)), *(("six_nimmt", n) for n in range(2, 11))]


def play_many(name: str, players: int, games: int, seed: int) -> None:
    for number, options in enumerate(option_sets(VALUES[name], games, random.Random(seed))):
        play_one(name, fitting(name, players, options), seed + number)


@pytest.mark.parametrize(("name", "players"), TABLES)
def test_engine_and_oracle_play_the_same_games(name: str, players: int) -> None:
    play_many(name, players, GAMES, 10_000 * players)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "players"), TABLES)
def test_engine_and_oracle_play_the_same_games_at_length(name: str, players: int) -> None:
    play_many(name, players, 100_000 // len(TABLES) + 1, 1_000_000 * players)


@pytest.mark.parametrize("setting", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_oracle_games_hold_without_compiling_and_with_bounds_checked(setting: str) -> None:
    environment = {**os.environ, setting: "1", "ORACLE_GAMES": "12"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            __file__,
            "-k",
            "same_games",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert f"{len(TABLES)} passed" in done.stdout
