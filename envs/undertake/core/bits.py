"""Sets of cards as uint64 words: counting, finding and writing bits with single machine instructions.

Each function has a plain Python body, which serves without a compiler, and a compiled form in LLVM's own terms.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

__all__ = [
    "copy_field",
    "copy_row",
    "highest_bit",
    "lowest_bit",
    "nth_bit",
    "popcount",
    "put",
    "put_field",
    "put_row",
    "put_word",
    "write_bits",
]


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


def put(out: npt.NDArray[Any], index: int, value: Any) -> None:
    """`out[index] = value` where the index is known not to be negative: compiled code need not look at its sign."""
    out[index] = value


def put_word(out: npt.NDArray[Any], index: int, word: np.uint64) -> None:
    """Write the eight bytes of `word`, lowest first, to `out[index:index + 8]`."""
    for i in range(8):
        out[index + i] = (int(word) >> 8 * i) & 255


def put_field(out: npt.NDArray[Any], index: int, field: npt.NDArray[Any]) -> None:
    """Write all of an array field of bytes to `out` from `index` on; compiled, a move or two whatever its shape."""
    out[index : index + field.size] = field.ravel()


def put_row(out: npt.NDArray[Any], index: int, field: npt.NDArray[Any], row: int) -> None:
    """Write one row of a two-dimensional array field of bytes to `out` from `index` on."""
    out[index : index + field.shape[1]] = field[row]


def copy_row(target: npt.NDArray[Any], to: int, source: npt.NDArray[Any], row: int) -> None:
    """Copy row `row` of an array field to row `to` of the field of the same type in another record."""
    target[to] = source[row]


def copy_field(target: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy all of an array field to the field of the same type in another record."""
    target[...] = source


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


_EVERY_BYTE = 0x0101010101010101
_TOP_OF_EVERY_BYTE = 0x8080808080808080
_BIT_IN_BYTE: npt.NDArray[np.uint8] = np.array(
    [[nth_bit(np.uint64(byte), n) if n < byte.bit_count() else 0 for byte in range(256)] for n in range(8)], np.uint8
)


@njit  # type: ignore[untyped-decorator]
def _nth_bit(word: np.uint64, n: np.uint64) -> int:
    """Broadword selection (Vigna, "Broadword implementation of rank/select queries", 2008): no loop, no branch."""
    counts = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    counts = (counts & np.uint64(0x3333333333333333)) + ((counts >> np.uint64(2)) & np.uint64(0x3333333333333333))
    counts = (counts + (counts >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    below = counts * np.uint64(_EVERY_BYTE)  # byte by byte, the bits in it and in the bytes below
    passed = ((n * np.uint64(_EVERY_BYTE)) | np.uint64(_TOP_OF_EVERY_BYTE)) - below
    shift = np.uint64(_popcount(passed & np.uint64(_TOP_OF_EVERY_BYTE))) << np.uint64(3)
    rest = n - (((below << np.uint64(8)) >> shift) & np.uint64(255))
    return int(shift) + int(_BIT_IN_BYTE[rest & np.uint64(7), (word >> shift) & np.uint64(255)])


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


@intrinsic  # type: ignore[untyped-decorator]
def _put_word(_context: Any, out: Any, index: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        target = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
        value = args[2] if sys.byteorder == "little" else builder.bswap(args[2])
        store = builder.store(value, builder.bitcast(target, ir.IntType(64).as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.none(out, types.int64, types.uint64), codegen


def _bytes(field: Any) -> int:
    return int(field.nitems) * int(field.dtype.bitwidth) // 8


def _move(builder: Any, target: Any, source: Any, size: int) -> None:
    pointer, count, flag = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(1)
    move = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, count])
    target, source = builder.bitcast(target, pointer), builder.bitcast(source, pointer)
    builder.call(move, [target, source, ir.Constant(count, size), ir.Constant(flag, 0)])


@intrinsic  # type: ignore[untyped-decorator]
def _put_field(_context: Any, out: Any, index: Any, field: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        source = context.make_array(signature.args[2])(context, builder, args[2]).data
        target = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
        _move(builder, target, source, _bytes(field))
        return context.get_dummy_value()

    return types.none(out, types.int64, field), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _copy_field(_context: Any, target: Any, source: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = [
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args, args, strict=True)
        ]
        _move(builder, data[0], data[1], _bytes(signature.args[1]))
        return context.get_dummy_value()

    return types.none(target, source), codegen


def _row(context: Any, builder: Any, kind: Any, value: Any, row: Any) -> Any:
    """The address of a row, and its size in bytes."""
    data = context.make_array(kind)(context, builder, value).data
    size = _bytes(kind) // kind.shape[0]
    start = builder.mul(row, ir.Constant(ir.IntType(64), size))
    return builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [start]), size


@intrinsic  # type: ignore[untyped-decorator]
def _put_row(_context: Any, out: Any, index: Any, field: Any, row: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        target = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [args[1]])
        source, size = _row(context, builder, signature.args[2], args[2], args[3])
        _move(builder, target, source, size)
        return context.get_dummy_value()

    return types.none(out, types.int64, field, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _copy_row(_context: Any, target: Any, to: Any, source: Any, row: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, size = _row(context, builder, signature.args[2], args[2], args[3])
        _move(builder, _row(context, builder, signature.args[0], args[0], args[1])[0], address, size)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64), codegen


@overload(put_row, strict=False)  # type: ignore[untyped-decorator]
def _(out: Any, index: Any, field: Any, row: Any) -> Any:
    if isinstance(field, types.NestedArray) and field.dtype.bitwidth == 8 and field.ndim == 2:
        return lambda out, index, field, row: _put_row(out, np.int64(index), field, np.int64(row))
    return None


@overload(copy_row, strict=False)  # type: ignore[untyped-decorator]
def _(target: Any, to: Any, source: Any, row: Any) -> Any:
    if isinstance(source, types.NestedArray) and target == source and source.ndim == 2:
        return lambda target, to, source, row: _copy_row(target, np.int64(to), source, np.int64(row))
    return None


@overload(put_field, strict=False)  # type: ignore[untyped-decorator]
def _(out: Any, index: Any, field: Any) -> Any:
    if isinstance(field, types.NestedArray) and field.dtype.bitwidth == 8:
        return lambda out, index, field: _put_field(out, np.int64(index), field)
    return None


@overload(put_word, strict=False)  # type: ignore[untyped-decorator]
def _(out: Any, index: Any, word: Any) -> Any:
    if isinstance(out, types.Array) and out.ndim == 1 and out.dtype.bitwidth == 8 and out.layout == "C":
        return lambda out, index, word: _put_word(out, np.int64(index), np.uint64(word))
    return None


@overload(copy_field, strict=False)  # type: ignore[untyped-decorator]
def _(target: Any, source: Any) -> Any:
    if isinstance(source, types.NestedArray) and target == source:
        return lambda target, source: _copy_field(target, source)
    return None


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
    return lambda word, n: np.int64(_nth_bit(np.uint64(word), np.uint64(n)))


@overload(put, strict=False)  # type: ignore[untyped-decorator]
def _(out: Any, index: Any, value: Any) -> Any:
    def implementation(out: Any, index: Any, value: Any) -> None:
        out[np.uint64(index)] = value

    return implementation


@overload(write_bits, strict=False)  # type: ignore[untyped-decorator]
def _(out: Any, offset: Any, word: Any) -> Any:
    if isinstance(out, types.Array) and out.ndim == 1 and out.dtype.bitwidth == 8 and out.layout == "C":
        return lambda out, offset, word: _write_bits(out, np.int64(offset), np.uint64(word))
    return None
