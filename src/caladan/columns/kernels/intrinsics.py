"""Two machine instructions that neither numpy nor Python has a word for.

popcount(word)   how many bits of a 64-bit word are set
lowest(word)     the position of the lowest set bit of a 64-bit word that is not 0
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def _popcount(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _lowest(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


popcount: Any = intrinsic(_popcount)
lowest: Any = intrinsic(_lowest)
