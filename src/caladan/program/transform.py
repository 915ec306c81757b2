"""The walks over expressions: one that looks at all parts, one that replaces some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from caladan.program.program import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Negative,
    Parameter,
    Variable,
)


def replace_in(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with every part that `change` answers for replaced, from the outside in."""
    changed = change(node)
    if changed is not None:
        return changed
    match node:
        case Variable() | Constant() | Parameter():
            return node
        case Arithmetic():
            return replace(
                node, left=replace_in(node.left, change), right=replace_in(node.right, change)
            )
        case Negative():
            return replace(node, operand=replace_in(node.operand, change))
        case Conditional():
            return replace(
                node,
                condition=tuple(replace_in_comparison(c, change) for c in node.condition),
                then=replace_in(node.then, change),
                otherwise=replace_in(node.otherwise, change),
            )
        case Call():
            return replace(node, arguments=tuple(replace_in(a, change) for a in node.arguments))
        case Aggregate():
            return replace(node, terms=tuple(replace_in(t, change) for t in node.terms))


def replace_in_comparison(
    node: Comparison, change: Callable[[Expression], Expression | None]
) -> Comparison:
    """The same for both sides of a comparison."""
    return replace(node, left=replace_in(node.left, change), right=replace_in(node.right, change))


def parts(node: Expression) -> Iterator[Expression]:
    """An expression and all parts of it, from the outside in."""
    yield node
    match node:
        case Arithmetic():
            yield from parts(node.left)
            yield from parts(node.right)
        case Negative():
            yield from parts(node.operand)
        case Conditional():
            for comparison in node.condition:
                yield from parts(comparison.left)
                yield from parts(comparison.right)
            yield from parts(node.then)
            yield from parts(node.otherwise)
        case Call():
            for part in node.arguments:
                yield from parts(part)
        case Aggregate():
            for term in node.terms:
                yield from parts(term)
        case _:
            return
