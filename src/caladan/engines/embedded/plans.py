"""A rule made ready to run: its parts as steps, in an order chosen by looking at the facts.

`RulePlan.run` starts from the delta (or, in an exit rule, the atom with the fewest facts), and
hands every batch of solutions to a sink. Tests, bindings and negated atoms stand as early as they
can. The order of the other atoms is chosen by trying: a sample of solutions is looked up in each
atom that could come next, the one with the smallest fan-out is taken, the sample is extended by
it, and so on. An order is kept until the relations have doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from caladan.columns.domains import Domain
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.aside import Asides
from caladan.engines.embedded.body import Body
from caladan.engines.embedded.expressions import Evaluator
from caladan.engines.embedded.frontier import Frontier
from caladan.engines.embedded.settling import Settling
from caladan.engines.embedded.steps import Absent, Bind, Lookup, Propose, Step, Test
from caladan.engines.embedded.walk import Sink, Walk
from caladan.operators.tree import Scan, Version
from caladan.program import (
    Constant,
    Variable,
)

if TYPE_CHECKING:
    from caladan.search.statistics import Statistics
    from caladan.search.stored import StoredAtom

SAMPLE: Final = 64
WORTH_SAMPLING: Final = 256  # facts to start from


class RulePlan:
    """A body over stored relations."""

    def __init__(
        self,
        body: Body,
        relations: Mapping[str, StoredRelation],
        absent: Callable[[Scan], StoredRelation],
        domains: Mapping[str, Domain],
        columns: Callable[[str, int], Domain],
        head_domains: Sequence[Domain] = (),
        search: str | None = None,
    ) -> None:
        self.body = body
        self._search = search if search is not None and _is_cyclic(body) else None
        self.head_domains = head_domains
        self.evaluator = Evaluator(domains)
        self._domains = domains
        self._columns = columns
        self._relations = relations
        self._absents = {scan: absent(scan) for scan in body.absents}
        self._order: tuple[int, ...] | None = None
        self._order_sizes: tuple[int, ...] = ()
        self._made: dict[tuple[int, ...], Sequence[Step]] = {}
        self._asides = Asides()
        self._fan_out = 1.0  # of the last round
        self._statistics: Statistics | None = None

    def run(self, sink: Sink, check: Callable[[], None]) -> None:
        """Hand all solutions to the sink; `check` is called now and then and may raise."""
        walk = Walk(sink, check, self.body.needed, self._asides, self._fan_out)
        walk.run(self.steps())
        self._fan_out = walk.fan_out()

    def steps(self) -> Sequence[Step]:
        """The steps in the order that suits the relations as they are."""
        order = () if self._search is not None else self._chosen_order()
        if order not in self._made:
            searching = self._search is not None
            self._made[order] = self._searching() if searching else self._steps(order)
        return self._made[order]

    def proposals(self) -> Iterator[tuple[str, int, int]]:
        """What the search proposed and confirmed for each variable since this was last asked."""
        if (made := self._statistics) is not None:
            for variable in sorted(made.proposed):
                yield variable, made.proposed.pop(variable), made.confirmed.pop(variable, 0)

    # ── The order of atoms ───────────────────────────────────────────────────────────────────────

    def _chosen_order(self) -> tuple[int, ...]:
        atoms = self.body.atoms
        sizes = tuple(self._count(scan) for scan in atoms)
        if self._order is not None and not _grown(self._order_sizes, sizes):
            return self._order
        self._asides.forget()
        first = self._first(sizes)
        if len(atoms) < 2:
            self._order = tuple(range(len(atoms)))
        elif len(atoms) == 2 and not self._absents:
            self._order = (first, 1 - first)
        else:
            self._order = self._sampled(first, sizes)
        self._order_sizes = sizes
        return self._order

    def _first(self, sizes: Sequence[int]) -> int:
        for i, scan in enumerate(self.body.atoms):
            if scan.version is Version.DELTA:
                return i
        return min(range(len(sizes)), key=lambda i: self._selected(i, sizes), default=0)

    def _selected(self, atom: int, sizes: Sequence[int]) -> float:
        """How many facts an atom starts with, taking a constant to leave a hundredth."""
        constants = sum(isinstance(a, Constant) for a in self.body.atoms[atom].arguments)
        return sizes[atom] / 100**constants

    def _sampled(self, first: int, sizes: Sequence[int]) -> tuple[int, ...]:
        order = [first]
        sample: Frontier | None = None
        if sizes[first] >= WORTH_SAMPLING:
            sample = self._try(self._steps(order), Frontier(1, {}))
        while len(order) < len(self.body.atoms):
            bound = self._bound(order)
            left = [i for i in range(len(self.body.atoms)) if i not in order]
            near = [i for i in left if self._connects(i, bound)] or left
            best = near[0]
            if len(near) > 1:
                best = min(near, key=lambda i: self._cost(i, bound, sizes, sample))
            before = len(self._steps(order))
            order.append(best)
            if sample is not None and sample.rows:
                sample = self._try(self._steps(order)[before:], sample)
        return tuple(order)

    def _cost(
        self, atom: int, bound: frozenset[str], sizes: Sequence[int], sample: Frontier | None
    ) -> tuple[float, float, int]:
        """How many facts of an atom go with a solution: measured, else guessed from its columns."""
        scan = self.body.atoms[atom]
        lookup = self._lookup(scan, bound)
        unbound = self.relation_arity(scan) - len(lookup.bound)
        if sample is None or not sample.rows or not lookup.bound:
            return (1.0 if lookup.bound else float(sizes[atom]), unbound, atom)
        return (lookup.matches(sample).total / sample.rows, unbound, atom)

    def _try(self, steps: Sequence[Step], frontier: Frontier) -> Frontier:
        """A sample pushed through some steps; arithmetic that fails leaves it as it is."""
        everything = frozenset(self._domains)
        for step in steps:
            if not isinstance(step, Absent | Bind | Test):
                found = step.run(frontier, everything)
                frontier = next((f for f in found if f.rows), Frontier(0, {})).sample(SAMPLE)
            else:
                try:
                    frontier = step.apply(frontier)
                except ArithmeticError:
                    return Frontier(0, {})
            if not frontier.rows:
                break
        return frontier

    def relation_arity(self, scan: Scan) -> int:
        """How many columns an atom's relation has."""
        return self._relations[scan.relation].arity

    def _count(self, scan: Scan) -> int:
        relation = self._relations[scan.relation]
        return relation.delta_count() if scan.version is Version.DELTA else relation.count()

    def _connects(self, atom: int, bound: frozenset[str]) -> bool:
        scan = self.body.atoms[atom]
        return not bound.isdisjoint(scan.variables) or any(
            isinstance(a, Constant) for a in scan.arguments
        )

    def _bound(self, order: Iterable[int]) -> frozenset[str]:
        """What is bound after some atoms and everything that settles with them."""
        bound: set[str] = set()
        for step in self._steps(order):
            bound |= step.binds
        return frozenset(bound)

    # ── Steps ────────────────────────────────────────────────────────────────────────────────────

    def _steps(self, order: Iterable[int]) -> list[Step]:
        """The atoms in an order, each followed by what can be settled then."""
        settling = Settling(self.body, self.evaluator, self._domains, self._absent)
        steps = settling.ready(frozenset())
        left = list(order)
        while left:
            bound = frozenset[str]().union(*(s.binds for s in steps))
            lookup = self._lookup(self.body.atoms[left.pop(0)], bound)
            steps.append(self._met(lookup, bound, left) or lookup)
            steps += settling.ready(bound | lookup.binds)
        return steps

    def _searching(self) -> list[Step]:
        """The delta, if there is one, and a search through all other atoms."""
        from caladan.engines.embedded.searching import Search
        from caladan.search.statistics import Statistics

        assert self._search is not None
        settling = Settling(self.body, self.evaluator, self._domains, self._absent)
        steps = settling.ready(frozenset())
        bound = frozenset[str]().union(*(s.binds for s in steps))
        left = list(self.body.atoms)
        first = next((scan for scan in left if scan.version is Version.DELTA), None)
        if first is not None:
            left.remove(first)
            steps.append(self._lookup(first, bound))
            steps += settling.ready(bound | steps[-1].binds)
            bound = frozenset[str]().union(*(s.binds for s in steps))
        self._statistics = Statistics()
        atoms = tuple(map(self._searched, left))
        steps.append(Search(atoms, bound, self._search, self._statistics))
        return [*steps, *settling.ready(bound | steps[-1].binds)]

    def _searched(self, scan: Scan) -> StoredAtom:
        from caladan.search.stored import StoredAtom

        arguments = tuple(
            argument.name
            if isinstance(argument, Variable)
            else self._word(argument, scan.relation, column)
            for column, argument in enumerate(scan.arguments)
        )
        return StoredAtom(self._relations[scan.relation], scan.version, arguments)

    def _met(self, lookup: Lookup, bound: frozenset[str], left: list[int]) -> Propose | None:
        """The lookup together with those of later atoms that bind the same one variable."""
        together = [lookup]
        for atom in list(left):
            other = self._lookup(self.body.atoms[atom], bound)
            if _proposes(other) and _proposes(lookup) and other.binds == lookup.binds:
                together.append(other)
                left.remove(atom)
        return Propose(tuple(together), *lookup.binds) if len(together) > 1 else None

    def _lookup(self, scan: Scan, known: frozenset[str]) -> Lookup:
        relation = self._relations[scan.relation]
        bound: dict[int, str | int] = {}
        checked: dict[int, str | int] = {}
        new: dict[int, str] = {}
        for column, argument in enumerate(scan.arguments):
            if isinstance(argument, Variable):
                if argument.name in known or argument.name in new.values():
                    value: str | int = argument.name
                else:
                    new[column] = argument.name
                    continue
            else:
                value = self._word(argument, scan.relation, column)
            # A delta is scanned rather than looked up: an order for it would be made for one use.
            can_bind = relation.can_bind(column) and value not in new.values()
            if can_bind and not (scan.version is Version.DELTA and not known):
                bound[column] = value
            else:
                checked[column] = value
        return Lookup(relation, scan.version, bound, checked, new, self.body.counting)

    def _absent(self, scan: Scan) -> Absent:
        bound: dict[int, str | int] = {}
        for column, argument in enumerate(scan.arguments):
            if not isinstance(argument, Variable):
                bound[column] = self._word(argument, scan.relation, column)
            elif not argument.is_anonymous:
                bound[column] = argument.name
        return Absent(self._absents[scan], bound)

    def _word(self, constant: Constant, relation: str, column: int) -> int:
        return int(
            self.evaluator.words(constant, Frontier(1, {}), self._columns(relation, column))[0]
        )


def _is_cyclic(body: Body) -> bool:
    from caladan.search.acyclic import is_cyclic

    return is_cyclic([scan.variables for scan in body.atoms])


def _proposes(lookup: Lookup) -> bool:
    """Whether a lookup with something bound binds one variable, and any index of it is exact."""
    if len(lookup.new) != 1 or not lookup.bound or lookup.checked:
        return False
    if isinstance(lookup.relation.body, PackedRelation):
        return True
    return lookup.version in (Version.FULL, Version.NEW) and all(
        lookup.relation.can_bind(column) for column in lookup.new
    )


def _grown(before: Sequence[int], now: Sequence[int]) -> bool:
    """Whether a relation has doubled, or halved, since an order was chosen."""
    return any(n > 2 * b + 64 or 8 * n + 64 < b for b, n in zip(before, now, strict=True))
