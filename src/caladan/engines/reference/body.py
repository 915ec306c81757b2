"""The solutions of a rule's body: every binding of all its variables, each once.

The body is walked as written, one atom inside the other. A comparison is tested, or binds its
unbound variable, as soon as the variables it needs are bound; negated atoms come last. `Facts`
finds the rows of a relation by the columns that are already bound, which changes the time it takes
and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.engines.reference.evaluate import (
    Binding,
    Row,
    can_solve,
    evaluate,
    holds,
    same,
    solve,
    widened,
)
from caladan.program import Arithmetic, Comparison, Conditional, Constant, Variable, variables

Step: TypeAlias = CoreAtom | Comparison


class Facts:
    """The rows of every relation, and the indexes made of them so far."""

    def __init__(self, rows: Mapping[str, set[Row]]) -> None:
        self._rows = dict(rows)
        self._indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = {}

    def __getitem__(self, relation: str) -> set[Row]:
        return self._rows[relation]

    def __setitem__(self, relation: str, rows: set[Row]) -> None:
        self._rows[relation] = rows
        self._indexes.pop(relation, None)

    def count(self, relations: Iterable[str]) -> int:
        """How many facts some relations have together."""
        return sum(len(self._rows[relation]) for relation in relations)

    def matching(self, relation: str, columns: tuple[int, ...], key: Row) -> list[Row]:
        """The rows that have the key in some columns."""
        indexes = self._indexes.setdefault(relation, {})
        if columns not in indexes:
            index: dict[Row, list[Row]] = {}
            for row in self._rows[relation]:
                index.setdefault(tuple(row[i] for i in columns), []).append(row)
            indexes[columns] = index
        return indexes[columns].get(key, [])


def solutions(rule: CoreRule, facts: Facts) -> Iterator[Binding]:
    """Every binding of the rule's variables that satisfies its body."""
    found: Iterator[Binding] = iter([{}])
    bound: set[str] = set()
    for step in _steps(rule):
        if isinstance(step, Comparison):
            found = _compare(step, _unbound(step, bound), rule, found)
            bound.update(v.name for v in variables(step))
        elif step.negated:
            found = _reject(step, facts, found)
        else:
            found = _match(step, frozenset(bound), facts, found)
            bound.update(step.variables)
    return found


def _steps(rule: CoreRule) -> Iterator[Step]:
    """The body in the order it is walked."""
    bound: set[str] = set()
    by_atoms = {name for atom in rule.positive for name in atom.variables}
    waiting = sorted(rule.comparisons, key=_computes)
    for atom in (None, *rule.positive):
        if atom is not None:
            yield atom
            bound.update(atom.variables)
        while ready := next((c for c in waiting if _is_ready(c, bound, by_atoms)), None):
            waiting.remove(ready)
            yield ready
            bound.update(v.name for v in variables(ready))
    assert not waiting, f"the analysis let rule {rule.number} pass, which cannot be executed"
    yield from (atom for atom in rule.atoms if atom.negated)


def _computes(comparison: Comparison) -> bool:
    """Whether it has arithmetic; those without go first, and may keep a division from failing."""
    return any(isinstance(e, Arithmetic | Conditional) for e in (comparison.left, comparison.right))


def _is_ready(comparison: Comparison, bound: set[str], by_atoms: set[str]) -> bool:
    """Whether it can be tested, or can bind the one variable that is missing and no atom binds."""
    missing = _unbound(comparison, bound)
    return not missing or (
        len(missing) == 1 and missing[0] not in by_atoms and can_solve(comparison, missing[0])
    )


def _unbound(comparison: Comparison, bound: Iterable[str]) -> list[str]:
    """Its variables that are not bound, one entry for each time they occur."""
    return [v.name for v in variables(comparison) if v.name not in bound]


def _compare(
    comparison: Comparison, missing: list[str], rule: CoreRule, found: Iterator[Binding]
) -> Iterator[Binding]:
    if not missing:
        yield from (binding for binding in found if _holds(comparison, binding))
        return
    (name,) = missing
    is_computed = Variable(name) in (comparison.left, comparison.right)
    for binding in found:
        try:
            value = solve(comparison, name, binding)
        except OverflowError:
            if is_computed:
                raise
            continue  # no number within the range solves it
        yield {**binding, name: widened(value, rule.types[name])}


def _holds(comparison: Comparison, binding: Binding) -> bool:
    """Whether it does; a number beyond its range equals nothing that is known."""
    try:
        return holds(comparison, binding)
    except OverflowError:
        if comparison.operator != "=":
            raise
        return False


def _match(
    atom: CoreAtom, bound: frozenset[str], facts: Facts, found: Iterator[Binding]
) -> Iterator[Binding]:
    columns = _known_columns(atom, bound)
    new = [
        (i, argument.name)
        for i, argument in enumerate(atom.arguments)
        if isinstance(argument, Variable) and i not in columns
    ]
    for binding in found:
        key = tuple(evaluate(atom.arguments[i], binding) for i in columns)
        for row in facts.matching(atom.relation, columns, key):
            extended = dict(binding)
            if all(same(extended.setdefault(name, row[i]), row[i]) for i, name in new):
                yield extended


def _reject(atom: CoreAtom, facts: Facts, found: Iterator[Binding]) -> Iterator[Binding]:
    columns = _known_columns(atom, frozenset(atom.variables))
    for binding in found:
        key = tuple(evaluate(atom.arguments[i], binding) for i in columns)
        if not facts.matching(atom.relation, columns, key):
            yield binding


def _known_columns(atom: CoreAtom, bound: frozenset[str]) -> tuple[int, ...]:
    """The columns whose values are known before the atom is matched."""
    return tuple(
        i
        for i, argument in enumerate(atom.arguments)
        if isinstance(argument, Constant) or argument.name in bound
    )
