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
    def implementation(word: Any, n: Any) -> Any:
        rest = np.uint64(word)
        for _ in range(n):
            rest &= rest - np.uint64(1)
        return _lowest_bit(rest)

    return implementation


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
