"""The order in which the parts of a body can be evaluated.

`schedule(rule, first)` gives the steps: look an atom up, bind a variable to an expression, test a
comparison, test that a negated atom has no match. Tests come as soon as their variables are bound,
so a selection stands where it first can. The atom `first` starts, and the others follow so that
each shares a variable with what is bound, where one does. An equality binds whichever side is
unbound, and solves `D = A + B` for any one whole number in it.

`reach(rule)` says what a body binds in the end, whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.analysis.type_check import joinable, partial_type
from caladan.program import (
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Expression,
    Function,
    Negative,
    Type,
    Variable,
    names,
    variables,
)
from caladan.program.functions import find
from caladan.program.transform import walk


@dataclass(frozen=True, slots=True)
class Lookup:
    """Extend the bindings by the facts of a positive atom; `index` is its place in rule.atoms."""

    index: int


@dataclass(frozen=True, slots=True)
class Absent:
    """Keep the bindings for which a negated atom has no fact."""

    index: int


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a variable to the value of an expression."""

    variable: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Test:
    """Keep the bindings for which a comparison holds."""

    comparison: Comparison


ScheduleStep: TypeAlias = Lookup | Absent | Bind | Test


@dataclass(frozen=True, slots=True)
class Reach:
    """What a body binds, and what of it waits for ever: for something that nothing binds."""

    bound: frozenset[str]
    atoms: tuple[CoreAtom, ...]
    comparisons: tuple[Comparison, ...]


def reach(rule: CoreRule) -> Reach:
    """What the body of a rule binds once all its atoms are looked up."""
    negated = [i for i, a in enumerate(rule.atoms) if a.negated]
    work = _Work(rule.atoms, negated, rule.comparisons, rule.types)
    work.bound.update(name for atom in rule.positive for name in atom.variables)
    work.settle()
    waiting = tuple(rule.atoms[i] for i in work.negated)
    return Reach(frozenset(work.bound), waiting, tuple(work.comparisons))


def schedule(
    rule: CoreRule, first: int | None, bound: Iterable[str] = ()
) -> tuple[ScheduleStep, ...]:
    """Steps for a whole body, starting with the atom `first`, if there is one, from what is bound.

    Without a first atom, one that shares most with what is bound starts.
    """
    negated = [i for i, a in enumerate(rule.atoms) if a.negated]
    return arrange(rule.atoms, negated, rule.comparisons, rule.types, first, bound)


class HasVariables(Protocol):
    """An atom, or the scan that it became."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Named variables, each once."""
        ...


def arrange(
    atoms: Sequence[HasVariables],
    negated: Sequence[int],
    comparisons: Iterable[Comparison],
    types: Mapping[str, Type],
    first: int | None,
    bound: Iterable[str] = (),
) -> tuple[ScheduleStep, ...]:
    """The same for atoms of which some are negated, and comparisons."""
    work = _Work(atoms, negated, comparisons, types, bound)
    work.settle()
    waiting = [i for i in range(len(atoms)) if i not in negated]
    while waiting:
        index = min(waiting, key=lambda i: (i != first, -work.shared(atoms[i]), i))
        waiting.remove(index)
        work.look_up(index)
    return tuple(work.steps)


class _Work:
    def __init__(
        self,
        atoms: Sequence[HasVariables],
        negated: Iterable[int],
        comparisons: Iterable[Comparison],
        types: Mapping[str, Type],
        bound: Iterable[str] = (),
    ) -> None:
        self._atoms = atoms
        self._types = types
        self.bound = set(bound)
        self.steps: list[ScheduleStep] = []
        self.comparisons = list(comparisons)
        self.negated = list(negated)

    def shared(self, atom: HasVariables) -> int:
        return len(self.bound.intersection(atom.variables))

    def look_up(self, index: int) -> None:
        self.steps.append(Lookup(index))
        self.bound.update(self._atoms[index].variables)
        self.settle()

    def settle(self) -> None:
        """Place everything that can be: tests before bindings, as they make less of the rest."""
        placed = True
        while placed:
            placed = self._test() or self._absent() or self._bind()

    def _test(self) -> bool:
        ready = [c for c in self.comparisons if self._is_bound(c)]
        for comparison in ready:
            self.comparisons.remove(comparison)
            self.steps.append(Test(comparison))
        return bool(ready)

    def _absent(self) -> bool:
        ready = [i for i in self.negated if self.bound.issuperset(self._atoms[i].variables)]
        for index in ready:
            self.negated.remove(index)
            self.steps.append(Absent(index))
        return bool(ready)

    def _bind(self) -> bool:
        for comparison in self.comparisons:
            step = solve(comparison, self.bound, self._types)
            if step is not None:
                self.comparisons.remove(comparison)
                self.steps.append(step)
                self.bound.add(step.variable)
                return True
        return False

    def _is_bound(self, comparison: Comparison) -> bool:
        return all(v.name in self.bound for v in variables(comparison))


def solve(
    comparison: Comparison,
    bound: Set[str],
    types: Mapping[str, Type],
    *,
    divides: bool = False,
) -> Bind | None:
    """How an equality binds its one unbound variable, if it does.

    If it `divides`, through products with constants too: what is left over is lost, so that the
    equality has to be tested.
    """
    if comparison.operator != "=":
        return None
    unbound = [v.name for v in variables(comparison) if v.name not in bound]
    if len(unbound) != 1 or unbound[0] == "_":
        return None
    name = unbound[0]
    for one, other in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        if isinstance(one, Variable) and one.name == name:
            # A whole number that an atom will bind is not looked up by a fraction: it is tested.
            own, value = types.get(name), partial_type(other, types)
            differs = own is not None and value is not None and not joinable(own, value)
            return None if differs else Bind(name, other)
        # Only whole numbers are solved for: on fractions `(A + B) - B` need not give A back.
        can = _is_whole(comparison, name, types) or not _has_arithmetic(one)
        if can and any(v.name == name for v in variables(one)):
            value = _isolate(name, one, other, divides)
            if value is not None:
                return Bind(name, value)
    return None


def _is_whole(equality: Comparison, name: str, types: Mapping[str, Type]) -> bool:
    """True if both sides are whole numbers where `name` is one."""
    known = {v.name: types.get(v.name, Type.LONG) for v in variables(equality)}
    known[name] = types.get(name, Type.LONG)
    sides = (partial_type(equality.left, known), partial_type(equality.right, known))
    return all(side is not None and side.is_integral for side in sides)


def _has_arithmetic(node: Expression) -> bool:
    return any(isinstance(each, Arithmetic | Negative) for each in walk(node))


def _isolate(name: str, node: Expression, value: Expression, divides: bool) -> Expression | None:
    """The expression for `name` that makes `node = value`, through sums and differences."""
    match node:
        case Variable():
            return value
        case Negative():
            return _isolate(name, node.operand, Negative(value), divides)
        case Arithmetic("+" | "-" as operator, left, right):
            if any(v.name == name for v in variables(left)):
                inverse = "-" if operator == "+" else "+"
                return _isolate(name, left, Arithmetic(inverse, value, right), divides)
            if operator == "+":
                return _isolate(name, right, Arithmetic("-", value, left), divides)
            return _isolate(name, right, Arithmetic("-", left, value), divides)
        case Arithmetic("*", Constant() as factor, other) | Arithmetic(
            "*", other, Constant() as factor
        ) if divides and factor.value:
            return _isolate(name, other, Arithmetic("div", value, factor), divides)
        case Call() if not isinstance(node, Function):
            return _invert(name, node, value, divides)
        case _:
            return None


def _invert(name: str, node: Call, value: Expression, divides: bool) -> Expression | None:
    """The same through a function whose row has the function that gives the argument back."""
    place = next(i for i, each in enumerate(node.arguments) if name in names(each))
    inverse = find(node.function).inverse.get(place)
    if inverse is None:
        return None
    others = (*node.arguments[:place], value, *node.arguments[place + 1 :])
    return _isolate(name, node.arguments[place], Call(inverse, others), divides)
