"""Terms, facts and trees as explain writes them.

Like the DeALS printer, except that nothing is refused: the compiler makes names that no user could
write, and parameters may be infinite. `names` says what a variable is to be called; a variable that
is not in it keeps its own name.

Trees of lines are drawn the way Spark draws its plans: `:-` and `+-`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from caladan.analysis.core import CoreAtom, RelationInfo
from caladan.language.deals.printer import TermWriter, commas
from caladan.program import Atom, Comparison, Expression, Object, Value
from caladan.program.values import write_value
from caladan.rules.operators import Sort

Names = Mapping[str, str]

_AS_WRITTEN: Final[Names] = MappingProxyType({})


def _writer(names: Names) -> TermWriter:
    return TermWriter(lambda node: names.get(node.name, node.name), value, opaque="opaque ")


def expressions(nodes: Iterable[Expression], names: Names = _AS_WRITTEN) -> str:
    """Several expressions with commas between them."""
    return _writer(names).expressions(nodes)


def expression(node: Expression, names: Names = _AS_WRITTEN) -> str:
    """An expression."""
    return _writer(names).expression(node)


def atom(node: Atom | CoreAtom) -> str:
    """`~arc(A, B)`."""
    return f"{'~' if node.negated else ''}{node.relation}({expressions(node.arguments)})"


def comparison(node: Comparison, names: Names = _AS_WRITTEN) -> str:
    """`left operator right`."""
    return _writer(names).comparison(node)


def comparisons(nodes: Iterable[Comparison], names: Names = _AS_WRITTEN) -> str:
    """Several comparisons with commas between them."""
    return _writer(names).comparisons(nodes)


def describe_sort(node: Sort, names: Names = _AS_WRITTEN) -> str:
    """`sort C desc, A; limit 10`."""
    keys = commas(
        f"{expression(node.input.columns[i], names)}{' desc' if descending else ''}"
        for i, descending in node.cut.order
    )
    parts = [f"sort {keys}"] if keys else []
    if node.cut.limit is not None:
        parts.append(f"limit {node.cut.limit}")
    return "; ".join(parts)


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
            return f"'{write_value(constant)}'"


def columns(info: RelationInfo) -> str:
    """`A: integer, B: integer`."""
    return commas(f"{c.name}: {c.type}" for c in info.columns)


@dataclass(frozen=True, slots=True)
class Tree:
    """A line and what stands below it."""

    line: str
    children: tuple[Tree, ...] = ()


def draw(tree: Tree) -> str:
    """The lines of a tree.

    >>> print(draw(Tree("a", (Tree("b", (Tree("c"),)), Tree("d")))))
    a
    :- b
    :  +- c
    +- d
    """
    return "\n".join(_lines(tree, "", ""))


def _lines(tree: Tree, first: str, rest: str) -> Iterator[str]:
    yield first + tree.line
    for number, child in enumerate(tree.children, start=1):
        is_last = number == len(tree.children)
        yield from _lines(
            child, rest + ("+- " if is_last else ":- "), rest + ("   " if is_last else ":  ")
        )


def headings(info: RelationInfo) -> str:
    """`A,B`."""
    return ",".join(c.name for c in info.columns)
