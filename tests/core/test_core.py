"""Random streams, sets of cards as words, layouts, and the cache of compiled code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import undertake
from games.tables import new_record
from undertake.core import bits, game, rng
from undertake.core.compile import JIT, compiled
from undertake.core.layout import Layout, feature

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
WORDS = st.integers(0, MASK)

# --- random streams --------------------------------------------------------------------------------------------------


def mix(word: int) -> int:
    """The finaliser of SplitMix64 in whole numbers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def test_the_published_words_of_splitmix64() -> None:
    """Its first five for the seed 1234567 (Rosetta Code, "Pseudo-random numbers/Splitmix64")."""
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    # A record of ours: of a smaller one numba would warn later, when it takes ours for its kin.
    state = new_record(game.get_game("no_thanks").state_dtype)
    state.rng = np.uint64(1234567)
    assert [int(rng.draw(state)) for _ in published] == published
    assert int(state.rng) == (1234567 + 5 * GAMMA) & MASK
    assert [mix((1234567 + n * GAMMA) & MASK) for n in range(1, 6)] == published


@given(word=WORDS, index=st.integers(0, 2**33))
def test_mix_and_stream(word: int, index: int) -> None:
    assert int(rng.mix(np.uint64(word))) == mix(word)
    assert int(rng.stream(np.uint64(word), index)) == mix((mix(word) + (index + 1) * GAMMA) & MASK)


@given(word=WORDS, bound=st.integers(1, 2**31))
def test_below_is_the_top_half_scaled(word: int, bound: int) -> None:
    number = rng.below(np.uint64(word), bound)
    assert number == (word >> 32) * bound >> 32
    assert 0 <= number < bound


def test_below_reaches_both_ends() -> None:
    assert [rng.below(np.uint64(word), 104) for word in (0, MASK)] == [0, 103]
    assert {rng.below(np.uint64(n << 57), 104) for n in range(128)} == {n * 104 // 128 for n in range(128)}


# --- sets of cards ---------------------------------------------------------------------------------------------------


@compiled
def _all_bits(word: np.uint64, n: int, out: np.ndarray) -> tuple[int, int, int, int]:
    bits.write_bits(out, 10, word)
    bits.put(out, 5, n)
    return bits.popcount(word), bits.lowest_bit(word), bits.highest_bit(word), bits.nth_bit(word, n)


@given(word=st.one_of(WORDS, st.integers(0, 63).map(lambda i: 1 << i)), data=st.data())
def test_sets_of_cards(word: int, data: st.DataObject) -> None:
    """In compiled code and out of it, against the places of the ones in a word written out."""
    ones = [place for place in range(64) if word >> place & 1]
    n = data.draw(st.integers(0, max(len(ones) - 1, 0)))
    wanted = (len(ones), ones[0] if ones else 64, ones[-1] if ones else -1)
    assert (
        bits.popcount(np.uint64(word)),
        bits.lowest_bit(np.uint64(word)),
        bits.highest_bit(np.uint64(word)),
    ) == wanted
    for dtype in (np.uint8, np.int8):
        out = np.full(84, 0x55, dtype)
        *counted, nth = _all_bits(np.uint64(word), n, out)
        assert tuple(counted) == wanted
        if ones:
            assert nth == bits.nth_bit(np.uint64(word), n) == ones[n]
        assert np.flatnonzero(out[10:74]).tolist() == ones
        assert set(out[10:74].tolist()) <= {0, 1}
        assert out[5] == n
        out[5] = 0x55
        assert set(out[:10].tolist()) | set(out[74:].tolist()) == {0x55}
        plain = np.full(84, 0x55, dtype)
        bits.write_bits(plain, 10, np.uint64(word))
        np.testing.assert_array_equal(plain, out)


# --- layouts ---------------------------------------------------------------------------------------------------------


def test_a_layout() -> None:
    layout = Layout(
        (feature("a", (2, 3), 1, "flags"), feature("b", (1,), 255, "a number"), feature("c", (2,), 4, "two"))
    )
    assert layout.size == 9
    assert layout.slices == {"a": slice(0, 6), "b": slice(6, 7), "c": slice(7, 9)}
    assert [layout.start(name) for name in "abc"] == [0, 6, 7]
    assert layout.scale.dtype == np.float32
    np.testing.assert_allclose(layout.scale, [1, 1, 1, 1, 1, 1, 1 / 255, 0.25, 0.25], rtol=1e-7)
    packed = layout.pack({"c": [3, 4], "a": [[1, 0, 1], [0, 0, 1]], "b": 200})
    assert packed.dtype == np.uint8
    assert packed.tolist() == [1, 0, 1, 0, 0, 1, 200, 3, 4]
    with pytest.raises(ValueError, match="read-only"):
        layout.scale[0] = 2
    with pytest.raises(KeyError):
        layout.pack({"a": np.zeros(6), "b": 0})


@pytest.mark.parametrize("highest", [0, 256, -1])
def test_counts_fit_into_a_byte(highest: int) -> None:
    with pytest.raises(ValueError, match=f"'many': the highest count is {highest}; uint8 counts allow 1 to 255"):
        feature("many", (1,), highest, "")


# --- the cache of compiled code --------------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(not JIT, reason="nothing is compiled under NUMBA_DISABLE_JIT=1")
SHOW_FOLDER = "from undertake.core.compile import cache_folder; print(cache_folder)"
MIX_TWICE = """
import numpy as np
from undertake.core.rng import mix, stream
print(mix(np.uint64(1234567 + 0x9E3779B97F4A7C15)), stream(np.uint64(1), 2) > 0)
"""


def run(code: str, sources: Path | None = None, **environment: str) -> tuple[str, str]:
    """What a fresh process prints, and what it says on stderr."""
    root = sources or Path(undertake.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@needs_compiler
def test_an_edit_anywhere_in_the_package_makes_another_cache(tmp_path: Path) -> None:
    package = tmp_path / "sources" / "undertake"
    shutil.copytree(Path(undertake.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def folder() -> Path:
        told, _ = run(SHOW_FOLDER, package.parent, UNDERTAKE_CACHE_DIR=str(tmp_path / "cache"))
        assert Path(told).parent == tmp_path / "cache"
        assert Path(told).is_dir()
        return Path(told)

    first = folder()
    assert folder() == first
    rules = package / "six_nimmt" / "rules.py"
    rules.write_text(rules.read_text() + "\n# another rule\n")
    second = folder()
    assert second != first
    (package / "core" / "new.py").touch()
    assert len({first, second, folder()}) == 3


@needs_compiler
def test_old_caches_are_pruned_and_nothing_else(tmp_path: Path) -> None:
    old = [tmp_path / f"{n:016x}" for n in range(6)]
    for age, folder in enumerate(old):
        folder.mkdir()
        os.utime(folder, (1000 + age, 1000 + age))
    mine = [tmp_path / "photographs", tmp_path / "0123456789abcdef0", tmp_path / "letters.txt"]
    for path in mine[:2]:
        path.mkdir()
        os.utime(path, (1, 1))
    mine[2].touch()
    told, _ = run(SHOW_FOLDER, UNDERTAKE_CACHE_DIR=str(tmp_path))
    assert {*tmp_path.iterdir()} == {Path(told), *old[3:], *mine}


@needs_compiler
def test_compiling_is_announced_once_and_not_from_the_cache(tmp_path: Path) -> None:
    wanted = "6457827717110365317 True"
    told, said = run(MIX_TWICE, UNDERTAKE_CACHE_DIR=str(tmp_path))
    assert told == wanted
    assert said.count("compiling the engine") == 1
    assert "later starts load it from the cache" in said
    told, said = run(MIX_TWICE, UNDERTAKE_CACHE_DIR=str(tmp_path))
    assert told == wanted
    assert said == ""


@needs_compiler
def test_where_a_folder_cannot_be_written_another_serves_or_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "cache")  # a file is no folder, not even for the administrator
    told, _ = run(SHOW_FOLDER, UNDERTAKE_CACHE_DIR=nowhere, TMPDIR=str(tmp_path))
    assert Path(told).parent.parent == tmp_path
    no_temporary = f"import tempfile; tempfile.tempdir = {nowhere!r}\n"
    told, said = run(no_temporary + SHOW_FOLDER + MIX_TWICE, UNDERTAKE_CACHE_DIR=nowhere)
    assert told.splitlines() == ["None", "6457827717110365317 True"]
    assert said.count("compiling the engine") == 1
    assert "no folder for a cache is writable" in said


def test_without_a_compiler_nothing_is_cached(tmp_path: Path) -> None:
    told, said = run(SHOW_FOLDER + MIX_TWICE, UNDERTAKE_CACHE_DIR=str(tmp_path / "c"), NUMBA_DISABLE_JIT="1")
    assert told.splitlines() == ["None", "6457827717110365317 True"]
    assert said == ""
    assert not (tmp_path / "c").exists()


PLAY = """
import hashlib, undertake
for game in ("no_thanks", "six_nimmt"):
    for view in ("table", "recall"):
        digest = hashlib.sha256()
        batch = undertake.make_batch(game, num_envs=2, num_players=3, view=view, reward="score", seed=5)
        for key in range(40):
            batch.step(batch.random_actions(key))
            for array in (batch.observation, batch.action_mask, batch.seat, batch.reward, batch.done, batch.states):
                digest.update(array.tobytes())
        print(digest.hexdigest())
"""


@needs_compiler
def test_plain_python_plays_the_same_games_as_compiled_code() -> None:
    plain, said = run(PLAY, NUMBA_DISABLE_JIT="1")
    assert said == ""
    assert len(set(plain.split())) == 4
    assert run(PLAY)[0] == plain
