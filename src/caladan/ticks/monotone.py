"""Monotone or not: what a rule does with values of lattices, which only grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from caladan.analysis.core import CoreRule
from caladan.language.bloom.expressions import FUNCTIONS
from caladan.language.bloom.schema import Schema
from caladan.language.bloom.values import Lattice
from caladan.program import Expression, Function, Variable, variables

_OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_COMPARED = {"=": "==", "~=": "!="}
_HARMLESS = frozenset({"dict", "tuple", "each", "rows", "bool", "value"})
"""Functions that rules are made of, which pass values on as they are."""


def not_monotone(rule: CoreRule, schemas: Mapping[str, Schema]) -> Iterable[tuple[str, str]]:
    """Functions and comparisons on values of lattices that may take back what they said.

    Each with the relation that the value is of.
    """
    held: dict[str, tuple[str, type[Lattice]]] = {}
    for atom in rule.positive:
        lattices = schemas[atom.relation].lattices
        for position, argument in enumerate(atom.arguments):
            if position in lattices and isinstance(argument, Variable):
                held[argument.name] = (atom.relation, lattices[position])
    for comparison in rule.comparisons:
        name = _COMPARED.get(comparison.operator, comparison.operator)
        for side, seen in ((comparison.left, name), (comparison.right, _OPPOSITE[name])):
            if isinstance(side, Variable) and side.name in held:
                source, lattice = held[side.name]
                if seen not in lattice.monotone:
                    yield source, seen
            yield from _calls(side, held)
    for argument in rule.arguments:
        yield from _calls(argument, held)


def _calls(
    node: Expression, held: Mapping[str, tuple[str, type[Lattice]]]
) -> Iterable[tuple[str, str]]:
    if not isinstance(node, Function):
        return
    for position, argument in enumerate(node.arguments):
        yield from _calls(argument, held)
        for variable in variables(argument):
            if variable.name not in held or node.function in _HARMLESS:
                continue
            source, lattice = held[variable.name]
            name = node.function if position == 0 else _OPPOSITE.get(node.function, node.function)
            if isinstance(argument, Variable) and name not in lattice.monotone:
                yield source, node.function


def is_known(name: str) -> bool:
    """Whether it is a comparison or a function of lattices; of others, users know what they do."""
    return name in _OPPOSITE or name in FUNCTIONS
