"""Two machine instructions that neither numpy nor Python has a word for.

popcount(word)   how many bits of a 64-bit word are set
lowest(word)     the position of the lowest set bit of a 64-bit word that is not 0
"""

from __future__ import annotations

from typing import Any

from caladan.columns.kernels import instruction


def _popcount(builder: Any, given: Any) -> Any:
    return builder.ctpop(given[0])


def _lowest(builder: Any, given: Any) -> Any:
    from llvmlite import ir

    return builder.cttz(given[0], ir.Constant(ir.IntType(1), 1))


popcount: Any = instruction("u8(u8)", _popcount)
lowest: Any = instruction("u8(u8)", _lowest)
