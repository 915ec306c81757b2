"""How a body is gone through: plain data, decided before anything is looked up.

    Probe     an atom: which columns are bound when it is looked up, checked, or new
    Meet      atoms that share a variable: the one with the fewest values for it proposes
    Fork      ways to bind two variables that an equation ties: each row takes the shortest
    GuidedSearch  all that is left, by the guided search, if it is asked for; with `Equation`s
    Semijoin  atoms that nothing is read of: whether they have a solution with what is bound
    Rollup    atoms that only aggregates read: what their solutions with what is bound add up to
    Exclude   a negated atom
    Compute   a variable is bound to an expression
    Check     a comparison

route.py makes these of a body and an order of its atoms. A run makes its steps (steps.py) of them,
and explain prints them: both ask the same functions, and what a run knows better (which facts there
are, by `Traits` and a `Sample`) it says to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from caladan.analysis.core import Term
from caladan.columns.views import ViewColumns
from caladan.program import Comparison, Expression, Variable
from caladan.rules.body import Scan, Version, names


@dataclass(frozen=True, slots=True)
class Range:
    """What comparisons let be the least and the most value of a variable; they are tested as well.

    Ends that had to be solved for (`moved`) are used where nothing can overflow.
    """

    lower: tuple[Expression, ...]
    upper: tuple[Expression, ...]
    moved: tuple[Expression, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The variables of the ends."""
        return names(*self.lower, *self.upper)


@dataclass(frozen=True, slots=True)
class Equal:
    """An equation of an atom's own columns, on its left side, with what is known."""

    comparison: Comparison

    @property
    def taken(self) -> frozenset[str]:
        """The variables of the atom."""
        return names(self.comparison.left)

    @property
    def given(self) -> frozenset[str]:
        """The variables of what is known."""
        return names(self.comparison.right)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two columns of an atom of which the `first` lies below something known, the `last` above."""

    first: str
    last: str
    upper: Range
    lower: Range

    @property
    def taken(self) -> frozenset[str]:
        """The variables of the atom."""
        return frozenset((self.first, self.last))

    @property
    def given(self) -> frozenset[str]:
        """The variables of what is known."""
        return self.upper.reads | self.lower.reads


@dataclass(frozen=True, slots=True)
class Probe:
    """An atom. Columns are bound by what is known, checked after they are read, or new.

    With a `view` only its columns are looked at; which values the others have does not matter.
    `within` says where the values of the first new column lie, `pairings` how facts that no column
    ties to what is known may be matched with it; both are tested as well.
    """

    scan: Scan
    bound: tuple[tuple[int, Term], ...]
    checked: tuple[tuple[int, Term], ...]
    new: tuple[tuple[int, str], ...]
    view: ViewColumns | None = None
    within: Range | None = None
    pairings: tuple[Equal | Overlap, ...] = ()

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
    """Atoms that meet in one variable, which each of them could bind.

    So could constraints of the user's (`tests`), which rules call as functions. Where there are no
    views, atoms may meet in several variables, and bind others of their own besides.
    """

    probes: tuple[Probe, ...]
    variable: str
    tests: tuple[Comparison, ...] = ()

    @property
    def binds(self) -> frozenset[str]:
        """The variable that is proposed, and what else the atoms bind."""
        return frozenset[str]().union(*(each.binds for each in self.probes))


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
class Fork:
    """Two variables that an equation or an atom ties, each bound by atoms of its own.

    A way proposes the one, and then computes or proposes the other; a row takes the shortest.
    """

    ways: tuple[tuple[Meet, tuple[Probe | Compute | Check | Meet, ...]], ...]

    @property
    def binds(self) -> frozenset[str]:
        """Both variables."""
        return frozenset(met.variable for met, _ in self.ways)

    @property
    def steps(self) -> list[Probe | Meet | Compute | Check]:
        """The steps of all ways."""
        return [step for met, rest in self.ways for step in (met, *rest)]


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation of a search: it gives any variable that it is solved for, and tests the rest."""

    comparison: Comparison
    solutions: tuple[Compute, ...]

    @property
    def binds(self) -> frozenset[str]:
        """None for certain."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class GuidedSearch:
    """All atoms that are left, by the guided search, of a grade that was asked for.

    `cuts` are what else takes part, where its variables are bound.
    """

    scans: tuple[Scan, ...]
    cuts: tuple[Check | Exclude | Equation, ...]
    grade: str

    @property
    def binds(self) -> frozenset[str]:
        """All their variables."""
        return frozenset(name for scan in self.scans for name in scan.variables)


@dataclass(frozen=True, slots=True)
class Semijoin:
    """Atoms, with tests of theirs, that nobody reads anything of but whether they have a solution.

    `shared` are the variables that they have in common with what is bound. They are asked once for
    all rows that agree in those, and only until a first solution is found.
    """

    shared: tuple[str, ...]
    steps: tuple[Access, ...]

    @property
    def binds(self) -> frozenset[str]:
        """None."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Amount:
    """What is asked of solutions: how many, the sum of an expression, its least or its most."""

    function: Literal["count", "sum", "min", "max"]
    expression: Expression


@dataclass(frozen=True, slots=True)
class Rollup:
    """Atoms, with tests of theirs, of which only aggregates read anything (eager.py).

    They are solved once for all rows that agree in `shared`, and their amounts bound to variables:
    `mark` with the number of each. With these, `outer` is what the rest of the body is asked.
    """

    mark: str
    shared: tuple[str, ...]
    steps: tuple[Access, ...]
    amounts: tuple[Amount, ...]
    outer: tuple[Amount, ...]

    @property
    def binds(self) -> frozenset[str]:
        """The variables of the amounts."""
        return frozenset(f"{self.mark}{i}" for i in range(len(self.amounts)))


Access: TypeAlias = (
    "Probe | Meet | Fork | GuidedSearch | Semijoin | Rollup | Exclude | Compute | Check"
)


class Traits(Protocol):
    """What of relations decides how they can be looked up."""

    def can_bind(self, relation: str, column: int) -> bool:
        """Whether an index may bind a column; the values of groups cannot be."""
        ...

    def can_show(self, relation: str, column: int) -> bool:
        """Whether views may show a column; the values of groups change, and cannot be."""
        ...


class Sample(Protocol):
    """Some solutions, to try atoms on."""

    def restart(self, *, is_sure: bool = False) -> None:
        """Another order is tried; if `is_sure`, however few facts its first atom has."""
        ...

    def fan_out(self, steps: Sequence[Access], following: Probe | Meet | Fork) -> float | None:
        """How many facts go with a solution of the steps so far; None where nobody can tell."""
        ...

    def passing(self, scan: Scan, tests: Sequence[Comparison]) -> float:
        """How much of an atom's facts pass tests of its own variables; 1 where nobody can tell."""
        ...


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


def confirm_only(proposed: Probe) -> Probe:
    """A probe that tests its new variable instead of binding it."""
    more = tuple((column, Variable(name)) for column, name in proposed.new)
    return replace(proposed, bound=(*proposed.bound, *more), new=(), within=None)


def keys(steps: Sequence[Access]) -> Iterator[tuple[str, frozenset[int]]]:
    """The columns by which steps look relations up; views have orders of their own."""
    for step in steps:
        match step:
            case Fork() | Semijoin() | Rollup():
                yield from keys(step.steps)
                continue
            case Probe():
                found = [step]
            case Meet():
                found = [*step.probes, *map(confirm_only, step.probes)]
            case Exclude():
                found = [Probe(step.scan, step.bound, (), ())]
            case _:
                continue
        for each in found:
            by = each.key or frozenset(c for c, _ in each.new[:1] if each.within is not None)
            if by and each.view is None:
                yield each.scan.relation, by


def views(steps: Sequence[Access]) -> Iterator[tuple[str, ViewColumns]]:
    """The views that steps look at."""
    for step in steps:
        if isinstance(step, Fork | Semijoin | Rollup):
            yield from views(step.steps)
            continue
        found = step.probes if isinstance(step, Meet) else [step]
        for each in found:
            if isinstance(each, Probe) and each.view is not None:
                yield each.scan.relation, each.view
