"""Instructions that numba lacks: prefetch, the CPU's count of cycles, and a call of a function by its address."""

from __future__ import annotations

import platform
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fraud_rules.engine.window.compiler import compiled

_READ, _KEEP, _DATA = 0, 3, 1

HAS_CYCLES: Final = platform.machine() in ("x86_64", "AMD64")
"""Whether programs may read the cycle counter. On other CPUs, the instruction can end the process."""


@intrinsic
def fetch(typing_context: Any, array: Any, row: Any) -> Any:
    """Prefetch the first bytes of an array's row. This is only a hint to the CPU."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, row_type = signature.args
        view = context.make_array(array_type)(context, builder, arguments[0])
        index = context.cast(builder, arguments[1], row_type, types.intp)
        (stride, *_) = cgutils.unpack_tuple(builder, view.strides)
        address = builder.gep(builder.bitcast(view.data, ir.IntType(8).as_pointer()), [builder.mul(index, stride)])
        word = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [address.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(function, [address, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.none(array, row), generate


@intrinsic
def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
    """Call a C function of two int64 without a result. It may be Python's, because compiled code keeps the GIL."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        of_type = ir.FunctionType(ir.VoidType(), [word, word])
        place, *values = [
            context.cast(builder, each, kind, types.int64) for each, kind in zip(arguments, signature.args, strict=True)
        ]
        builder.call(builder.inttoptr(place, of_type.as_pointer()), values)
        return context.get_dummy_value()

    return types.none(address, first, second), generate


@intrinsic
def read_cycles(typing_context: Any) -> Any:
    """The CPU's count of cycles since its start. Call this only if HAS_CYCLES."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = ir.FunctionType(ir.IntType(64), [])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.readcyclecounter")
        return builder.call(function, [])

    return types.int64(), generate


@compiled
def timing_cycles(repetitions: int) -> int:
    """The cycles that a timing adds to what it times: the least of so many repetitions."""
    least = read_cycles()
    for _ in range(repetitions):
        began = read_cycles()
        least = min(least, read_cycles() - began)
    return least  # type: ignore[no-any-return]


@compiled
def cycles_now() -> int:
    """`read_cycles` for callers in Python."""
    return read_cycles()  # type: ignore[no-any-return]
