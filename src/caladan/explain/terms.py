"""Terms, comparisons and facts as explain writes them.

Like the DeALS printer, except that nothing is refused: the compiler makes names that no user could
write, and parameters may be infinite. `names` says what a variable is to be called; a variable that
is not in it keeps its own name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from caladan.analysis.core import RelationInfo
from caladan.program import (
    Aggregate,
    Arithmetic,
    ArithmeticOperator,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Object,
    Parameter,
    Value,
    Variable,
)
from caladan.program.values import written

Names = Mapping[str, str]

_AS_WRITTEN: Final[Names] = MappingProxyType({})

_PRECEDENCE: Final[dict[ArithmeticOperator, int]] = {
    "+": 1, "-": 1, "*": 2, "/": 2, "div": 2, "mod": 2,
}  # fmt: skip


def commas(parts: Iterable[str]) -> str:
    """Parts with commas between them."""
    return ", ".join(parts)


def expressions(nodes: Iterable[Expression], names: Names = _AS_WRITTEN) -> str:
    """Several expressions with commas between them."""
    return commas(expression(n, names) for n in nodes)


def expression(node: Expression, names: Names = _AS_WRITTEN, weakest: int = 0) -> str:
    """An expression, in parentheses if its top operator binds less than `weakest`."""
    match node:
        case Variable():
            return names.get(node.name, node.name)
        case Constant():
            return value(node.value)
        case Parameter():
            return f"{{{node.name}}}" if node.style == "{}" else f"${node.name}"
        case Arithmetic():
            precedence = _PRECEDENCE[node.operator]
            left = expression(node.left, names, precedence)
            right = expression(node.right, names, precedence + 1)
            text = f"{left} {node.operator} {right}"
            return f"({text})" if precedence < weakest else text
        case Negative():
            return f"-{expression(node.operand, names, 3)}"
        case Conditional():
            condition = comparisons(node.condition, names)
            then, otherwise = expression(node.then, names), expression(node.otherwise, names)
            return f"if({condition} then {then} else {otherwise})"
        case Function():
            return f"opaque {node.function}({expressions(node.arguments, names)})"
        case Call():
            return f"{node.function}({expressions(node.arguments, names)})"
        case Aggregate():
            terms = expressions(node.terms, names) or "_"
            return (
                f"{node.function}<({terms})>"
                if len(node.terms) > 1
                else f"{node.function}<{terms}>"
            )


def comparison(node: Comparison, names: Names = _AS_WRITTEN) -> str:
    """`left operator right`."""
    return f"{expression(node.left, names)} {node.operator} {expression(node.right, names)}"


def comparisons(nodes: Iterable[Comparison], names: Names = _AS_WRITTEN) -> str:
    """Several comparisons with commas between them."""
    return commas(comparison(n, names) for n in nodes)


def value(constant: Value) -> str:
    """A constant as DeALS writes it, as far as DeALS can; texts are always quoted."""
    match constant:
        case bool():
            return "true" if constant else "false"
        case int() | float():
            return repr(constant)
        case str():
            return (
                "'" + constant.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"
            )
        case dt.datetime():
            return f"'{constant.isoformat(sep=' ')}'"
        case Object():
            known = constant.value
            return value(known) if isinstance(known, bool | int | float | str) else repr(constant)
        case _:
            return f"'{written(constant)}'"


def columns(info: RelationInfo) -> str:
    """`A: integer, B: integer`."""
    return commas(f"{c.name}: {c.type}" for c in info.columns)


def counted(number: int, what: str) -> str:
    """`1 fact`, `2 facts`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
