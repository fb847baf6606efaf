"""Sets of cards as uint64 words: counting, finding and writing bits with single machine instructions.

Each function has a plain Python body, which serves without a compiler, and a compiled form in LLVM's own terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

__all__ = ["highest_bit", "lowest_bit", "nth_bit", "popcount", "write_bits"]


def popcount(word: np.uint64) -> int:
    """The number of bits set."""
    return int(word).bit_count()


def lowest_bit(word: np.uint64) -> int:
    """The index of the lowest bit set; 64 for an empty word."""
    value = int(word)
    return (value & -value).bit_length() - 1 if value else 64


def highest_bit(word: np.uint64) -> int:
    """The index of the highest bit set; -1 for an empty word."""
    return int(word).bit_length() - 1


def nth_bit(word: np.uint64, n: int) -> int:
    """The index of the n-th bit set, counted from 0 at the lowest; the word must hold more than n bits."""
    value = int(word)
    for _ in range(n):
        value &= value - 1
    return (value & -value).bit_length() - 1


def write_bits(out: npt.NDArray[Any], offset: int, word: np.uint64) -> None:
    """Write the 64 bits of `word`, lowest first, as 64 bytes 0 or 1 to `out[offset:offset + 64]`.

    `out` is a contiguous one-dimensional int8 or uint8 array. A set of fewer cards is written at full width too: the
    caller sees to it that the rest lies inside the row and is overwritten by what follows.
    """
    value = int(word)
    for i in range(64):
        out[offset + i] = (value >> i) & 1


@intrinsic  # type: ignore[untyped-decorator]
def _popcount(_context: Any, word: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _lowest_bit(_context: Any, word: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _leading_zeros(_context: Any, word: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _write_bits(_context: Any, out: Any, offset: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        target = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
        flags = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), 64))
        lanes = builder.zext(flags, ir.VectorType(ir.IntType(8), 64))
        store = builder.store(lanes, builder.bitcast(target, ir.VectorType(ir.IntType(8), 64).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.none(out, types.int64, types.uint64), codegen


@overload(popcount, strict=False)  # type: ignore[untyped-decorator]
def _(word: Any) -> Any:
    return lambda word: _popcount(np.uint64(word))


@overload(lowest_bit, strict=False)  # type: ignore[untyped-decorator]
def _(word: Any) -> Any:
    return lambda word: _lowest_bit(np.uint64(word))


@overload(highest_bit, strict=False)  # type: ignore[untyped-decorator]
def _(word: Any) -> Any:
    return lambda word: 63 - _leading_zeros(np.uint64(word))


@overload(nth_bit, strict=False)  # type: ignore[untyped-decorator]
def _(word: Any, n: Any) -> Any:
    def implementation(word: Any, n: Any) -> Any:
        rest = np.uint64(word)
        for _ in range(n):
            rest &= rest - np.uint64(1)
        return _lowest_bit(rest)

    return implementation


@overload(write_bits, strict=False)  # type: ignore[untyped-decorator]
def _(out: Any, offset: Any, word: Any) -> Any:
    if isinstance(out, types.Array) and out.ndim == 1 and out.dtype.bitwidth == 8 and out.layout == "C":
        return lambda out, offset, word: _write_bits(out, np.int64(offset), np.uint64(word))
    return None
