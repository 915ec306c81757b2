"""Taking the literals of a rule apart: their variables, what connects them, what they define."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.program import Comparison, Expression, Function, Variable, variables
from caladan.program.kinds import kind_of, kind_of_expression
from caladan.program.transform import replace_in, walk

CoreLiteral: TypeAlias = CoreAtom | Comparison

TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "~=": "~="}


def inline_definitions(rule: CoreRule) -> CoreRule:
    """A rule without the variables that a comparison defines: D = E + 1 is said where D stood."""
    return inline_definitions_in(rule, ())[0]


def inline_definitions_in(
    rule: CoreRule, beside: tuple[tuple[Expression, ...], ...]
) -> tuple[CoreRule, tuple[tuple[Expression, ...], ...]]:
    """The same, with expressions beside the rule that read its variables."""
    found = _definition(rule)
    if found is None:
        return rule, beside
    name, value, comparison = found
    comparisons = tuple(c for c in rule.comparisons if c is not comparison)
    arguments, comparisons, beside = replace_in(
        (rule.arguments, comparisons, beside),
        lambda node: value if node == Variable(name) else None,
    )
    return inline_definitions_in(
        replace(rule, arguments=arguments, comparisons=comparisons), beside
    )


def _definition(rule: CoreRule) -> tuple[str, Expression, Comparison] | None:
    """A variable that stands in no atom, what it is, and the comparison that says so."""
    bound = literal_names(*rule.atoms)
    for each in rule.comparisons:
        for one, other in ((each.left, each.right), (each.right, each.left)):
            if (
                each.operator == "="
                and isinstance(one, Variable)
                and one.name not in bound
                and one not in variables(other)
                and not any(isinstance(node, Function) for node in walk(other))
                and kind_of_expression(other, rule.types) is kind_of(rule.types[one.name])
            ):
                return one.name, other, each
    return None


def literal_names(*literals: CoreLiteral) -> frozenset[str]:
    """The variables of some literals."""
    return frozenset(
        name
        for literal in literals
        for name in (
            literal.variables
            if isinstance(literal, CoreAtom)
            else (v.name for v in variables(literal))
        )
    )


def variable_names(terms: Iterable[object]) -> tuple[str, ...]:
    """The variables among some terms, each once."""
    return tuple(dict.fromkeys(t.name for t in terms if isinstance(t, Variable)))


def without(literals: Iterable[CoreLiteral], some: Iterable[CoreLiteral]) -> list[CoreLiteral]:
    """Literals but for some of them."""
    gone = list(some)
    return [each for each in literals if all(each is not other for other in gone)]


def connect(
    literals: Sequence[CoreLiteral], start: Iterable[str], stop: str = ""
) -> tuple[list[CoreLiteral], set[str]]:
    """The literals that share variables with `start`, directly or through each other.

    Sharing `stop` does not count, but the names found include it.
    """
    names = set(start)
    inside: list[CoreLiteral] = []
    rest = list(literals)
    grown = True
    while grown:
        grown = False
        for literal in list(rest):
            if literal_names(literal) & (names - {stop}):
                names |= literal_names(literal)
                inside.append(literal)
                rest.remove(literal)
                grown = True
    return inside, names


def is_positive(literal: CoreLiteral) -> bool:
    """Whether a literal is an atom that must have facts."""
    return isinstance(literal, CoreAtom) and not literal.negated


def is_plain(rule: CoreRule) -> bool:
    """Whether the head consists of different variables."""
    names = [a.name for a in rule.arguments if isinstance(a, Variable)]
    return len(names) == len(rule.arguments) == len(set(names))


def tests_difference(literal: CoreLiteral, one: str, other: str) -> bool:
    """Whether a literal says that two variables differ, and no more."""
    return (
        isinstance(literal, Comparison)
        and literal.operator == "~="
        and {literal.left, literal.right} == {Variable(one), Variable(other)}
    )


def atom_rules(rule: CoreRule, literals: Iterable[CoreLiteral]) -> list[CoreRule]:
    """Rules for all facts of the atoms among some literals of a rule."""
    return [
        replace(
            rule,
            arguments=tuple(map(Variable, dict.fromkeys(atom.variables))),
            atoms=(replace(atom, negated=False),),
            comparisons=(),
        )
        for atom in literals
        if isinstance(atom, CoreAtom)
    ]


def body_rule(
    rule: CoreRule, literals: Iterable[CoreLiteral], head: Iterable[str]
) -> CoreRule | None:
    """A rule for some literals alone; every head variable must stand in one of its atoms."""
    literals, head = list(literals), list(head)
    atoms = tuple(a for a in literals if isinstance(a, CoreAtom))
    bound = {name for a in atoms if not a.negated for name in a.variables}
    if not bound.issuperset(head):
        return None
    return replace(
        rule,
        arguments=tuple(Variable(name) for name in head),
        atoms=atoms,
        comparisons=tuple(c for c in literals if isinstance(c, Comparison)),
    )
