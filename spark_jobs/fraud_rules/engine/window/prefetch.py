"""Prefetches rows into the CPU's caches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1


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
