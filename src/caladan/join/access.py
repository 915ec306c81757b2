"""How a body is gone through: plain data, decided before anything is looked up.

    Probe     an atom: which columns are bound when it is looked up, checked, or new
    Meet      atoms that would each bind the same variable: the one with the fewest facts proposes
    Hunt      all atoms that are left, by the guided search, if a run asks for it
    Exclude   a negated atom
    Compute   a variable is bound to an expression
    Check     a comparison

`planned` makes these of a body and an order of its atoms, `chosen` chooses the order. A run makes
its steps (steps.py) of them, and explain prints them: both ask the same functions, and what a run
knows better (which facts there are, by `Traits` and a `Sample`) it says to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from caladan.analysis.core import Term
from caladan.program import (
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Negative,
    Variable,
    thresholds,
)
from caladan.rules.body import Body, Scan, Version, names


@dataclass(frozen=True, slots=True)
class Probe:
    """An atom. Columns are bound by what is known, checked after they are read, or new."""

    scan: Scan
    bound: tuple[tuple[int, Term], ...]
    checked: tuple[tuple[int, Term], ...]
    new: tuple[tuple[int, str], ...]

    @property
    def binds(self) -> frozenset[str]:
        """The variables it binds."""
        return frozenset(name for _, name in self.new)

    @property
    def key(self) -> frozenset[int]:
        """The columns it is looked up by."""
        return frozenset(column for column, _ in self.bound)


@dataclass(frozen=True, slots=True)
class Meet:
    """Atoms that meet in one variable, which none of the others binds."""

    probes: tuple[Probe, ...]
    variable: str

    @property
    def binds(self) -> frozenset[str]:
        """The variable that is proposed."""
        return frozenset((self.variable,))


@dataclass(frozen=True, slots=True)
class Exclude:
    """A negated atom; columns that match anything are not among the bound ones."""

    scan: Scan
    bound: tuple[tuple[int, Term], ...]

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Compute:
    """A variable that is bound to an expression; `solved` as in `Binding`."""

    variable: str
    expression: Expression
    solved: bool

    @property
    def binds(self) -> frozenset[str]:
        """The one it binds."""
        return frozenset((self.variable,))


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison."""

    comparison: Comparison

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Hunt:
    """All atoms that are left, by the guided search, of a grade that the run asked for."""

    scans: tuple[Scan, ...]
    grade: str

    @property
    def binds(self) -> frozenset[str]:
        """All their variables."""
        return frozenset(name for scan in self.scans for name in scan.variables)


Access: TypeAlias = Probe | Meet | Hunt | Exclude | Compute | Check


class Traits(Protocol):
    """What of relations decides how they can be looked up."""

    def can_bind(self, relation: str, column: int) -> bool:
        """Whether an index may bind a column; the values of groups cannot be."""
        ...

    def is_packed(self, relation: str) -> bool:
        """Whether facts are packed, so that every version of an index is exact."""
        ...


class Sample(Protocol):
    """Some solutions, to try atoms on."""

    def fan_out(self, order: Sequence[int], found: Probe) -> float | None:
        """How many facts go with a solution of the atoms so far; None where nobody can tell."""
        ...


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────


def planned(body: Body, order: Sequence[int], traits: Traits) -> list[Access]:
    """The atoms in an order, each followed by what can be settled then."""
    settling = Settling(body)
    steps = settling.ready(frozenset())
    known = bound_by(steps)
    left = list(order)
    while left:
        first = left.pop(0)
        found = probe(body.atoms[first], known, traits)
        steps.append(_met(found, first, known, left, body, traits) or found)
        known |= found.binds
        settled = settling.ready(known)
        steps += settled
        known |= bound_by(settled)
    return steps


def bound_by(steps: Sequence[Access]) -> frozenset[str]:
    """What some steps bind."""
    return frozenset[str]().union(*(step.binds for step in steps))


class Growing:
    """The variables that are known, as one atom after another is taken: those of `planned`."""

    def __init__(self, body: Body, order: Sequence[int] = ()) -> None:
        self._body = body
        self._settling = Settling(body)
        self.known = bound_by(self._settling.ready(frozenset()))
        for atom in order:
            self.take(atom)

    def take(self, atom: int) -> None:
        """Another atom, with all that its variables let be computed."""
        self.known |= frozenset(self._body.atoms[atom].variables)
        self.known |= bound_by(self._settling.ready(self.known))


def probe(scan: Scan, known: frozenset[str], traits: Traits) -> Probe:
    """An atom, looked up when some variables are known."""
    bound: dict[int, Term] = {}
    checked: dict[int, Term] = {}
    new: dict[int, str] = {}
    for column, argument in enumerate(scan.arguments):
        is_new = False
        if isinstance(argument, Variable) and argument.name not in known:
            is_new = argument.name in new.values()
            if not is_new:
                new[column] = argument.name
                continue
        # A delta is scanned rather than looked up: an order for it would be made for one use.
        can_bind = traits.can_bind(scan.relation, column) and not is_new
        if can_bind and not (scan.version is Version.DELTA and not known):
            bound[column] = argument
        else:
            checked[column] = argument
    return Probe(scan, tuple(bound.items()), tuple(checked.items()), tuple(new.items()))


def confirming(proposed: Probe) -> Probe:
    """A probe that tests its new variable instead of binding it."""
    more = tuple((column, Variable(name)) for column, name in proposed.new)
    return Probe(proposed.scan, (*proposed.bound, *more), proposed.checked, ())


def keys(steps: Sequence[Access]) -> Iterator[tuple[str, frozenset[int]]]:
    """The columns by which steps look relations up."""
    for step in steps:
        match step:
            case Probe():
                found = [step]
            case Meet():
                found = [*step.probes, *map(confirming, step.probes)]
            case Exclude():
                found = [Probe(step.scan, step.bound, (), ())]
            case _:
                continue
        yield from ((each.scan.relation, each.key) for each in found if each.bound)


def _met(
    found: Probe, first: int, known: frozenset[str], left: list[int], body: Body, traits: Traits
) -> Meet | None:
    """The probe of an atom together with those of later ones that bind the same one variable."""
    together = {first: found}
    for atom in list(left) if _proposes(found, traits) else ():
        if found.binds.isdisjoint(body.atoms[atom].variables):
            continue
        other = probe(body.atoms[atom], known, traits)
        if other.binds == found.binds and _proposes(other, traits):
            together[atom] = other
            left.remove(atom)
    probes = tuple(together[atom] for atom in sorted(together))
    return Meet(probes, *found.binds) if len(probes) > 1 else None


def _proposes(found: Probe, traits: Traits) -> bool:
    """Whether a probe with something bound binds one variable, and any index of it is exact."""
    if len(found.new) != 1 or not found.bound or found.checked:
        return False
    relation, version = found.scan.relation, found.scan.version
    if traits.is_packed(relation):
        return True
    return version in (Version.FULL, Version.NEW) and all(
        traits.can_bind(relation, column) for column, _ in found.new
    )


class Settling:
    """What of a body still waits for variables to be bound: tests, negated atoms, equalities.

    They stand as early as they can; those that cannot fail come first, for they may keep a
    division from failing.
    """

    def __init__(self, body: Body) -> None:
        self._bindings = list(body.bindings)
        self._tests = sorted(body.conditions, key=lambda c: _computes(c.left) or _computes(c.right))
        self._absents = list(body.absents)

    def ready(self, known: frozenset[str]) -> list[Access]:
        """The steps that can be taken now that some variables are known."""
        bound = set(known)
        steps: list[Access] = []
        while step := self._next(bound):
            steps.append(step)
            bound |= step.binds
        return steps

    def _next(self, bound: set[str]) -> Access | None:
        for test in self._tests:
            if not _computes(test.left) and not _computes(test.right) and names(test) <= bound:
                self._tests.remove(test)
                return Check(test)
        for scan in self._absents:
            if set(scan.variables) <= bound:
                self._absents.remove(scan)
                return Exclude(scan, tuple(_excluded(scan)))
        for binding in self._bindings:
            if names(binding.expression) <= bound:
                self._bindings.remove(binding)
                if binding.variable in bound:
                    return Check(Comparison("=", Variable(binding.variable), binding.expression))
                return Compute(binding.variable, binding.expression, binding.solved)
        for test in self._tests:
            if names(test) <= bound:
                self._tests.remove(test)
                return Check(test)
        return None


def _excluded(scan: Scan) -> Iterator[tuple[int, Term]]:
    for column, argument in enumerate(scan.arguments):
        if isinstance(argument, Constant) or not argument.is_anonymous:
            yield column, argument


def _computes(expression: Expression) -> bool:
    return isinstance(expression, Arithmetic | Call | Negative | Conditional)


# ── Orders ───────────────────────────────────────────────────────────────────────────────────────


def chosen(
    body: Body, sizes: Sequence[int], traits: Traits, sample: Sample | None = None
) -> tuple[int, ...]:
    """The order of the atoms: from the delta, or the fewest facts, by the smallest fan-out.

    Fan-outs are measured on a sample, if there is one; without it an atom with something bound
    goes before one without, and then the one that has the fewest columns left.
    """
    if len(body.atoms) < 2:
        return tuple(range(len(body.atoms)))
    starts = first_atoms(body)
    order = [min(starts, key=lambda i: _selected(body, i, sizes))]
    growing = Growing(body, order)
    while len(order) < len(body.atoms):
        near = [i for i in range(len(body.atoms)) if i not in order]
        best = near[0]
        if len(near) > 1:
            near = next_atoms(body, order, growing.known)

            def cost(atom: int) -> tuple[float, int, int]:
                found = probe(body.atoms[atom], growing.known, traits)
                measured = sample.fan_out(order, found) if sample and found.bound else None
                guess = 1.0 if found.bound else float(sizes[atom])
                unbound = len(found.scan.arguments) - len(found.bound)
                return (guess if measured is None else measured, unbound, atom)

            best = min(near, key=cost)
        order.append(best)
        growing.take(best)
    return tuple(order)


def first_atoms(body: Body) -> list[int]:
    """The atoms that a body may be started with: the delta, if it has one."""
    deltas = [i for i, scan in enumerate(body.atoms) if scan.version is Version.DELTA]
    return deltas[:1] or list(range(len(body.atoms)))


def next_atoms(body: Body, order: Sequence[int], known: frozenset[str]) -> list[int]:
    """The atoms that may come next: those that share something with what is known, if any do."""
    left = [i for i in range(len(body.atoms)) if i not in order]
    return [i for i in left if _connects(body.atoms[i], known)] or left


def orders(body: Body, traits: Traits) -> list[tuple[int, ...]] | None:
    """All orders that `chosen` may choose, the one without any sizes first; None if too many."""
    guess = chosen(body, [1] * len(body.atoms), traits)
    found = [guess]
    waiting: list[tuple[int, ...]] = [(i,) for i in reversed(first_atoms(body))]
    while waiting:
        order = waiting.pop()
        if len(order) == len(body.atoms):
            if order != guess:
                found.append(order)
        else:
            known = Growing(body, order).known
            waiting += [(*order, i) for i in reversed(next_atoms(body, order, known))]
        if max(len(found), len(waiting)) > thresholds.now.orders:
            return None
    return found


def _selected(body: Body, atom: int, sizes: Sequence[int]) -> float:
    """How many facts an atom starts with, taking a constant to leave a hundredth."""
    constants = sum(isinstance(a, Constant) for a in body.atoms[atom].arguments)
    return sizes[atom] / 100**constants


def _connects(scan: Scan, known: frozenset[str]) -> bool:
    return not known.isdisjoint(scan.variables) or any(
        isinstance(a, Constant) for a in scan.arguments
    )
