"""A rule made ready to run: its parts as steps, in an order chosen by looking at the facts.

`RulePlan.run` hands every batch of solutions to a sink. How a body is gone through, and in which
order, route.py and choice.py decide; here a sample of solutions is looked up in each atom that
could come next, to tell them its fan-out. An order is kept until the relations have doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from caladan.analysis.core import Term
from caladan.columns.domains import Domain
from caladan.columns.relation import StoredRelation
from caladan.join.access import (
    Access,
    Amount,
    Check,
    Compute,
    Equation,
    Exclude,
    Fork,
    GuidedSearch,
    Meet,
    Probe,
    Rollup,
    Semijoin,
)
from caladan.join.choice import Chosen, JoinOrder, Trial, join_order
from caladan.join.constraints.condition import (
    Assignment,
    Condition,
    EquationConstraint,
    NegatedAtom,
)
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.constraints.narrowing import Narrowing
from caladan.join.constraints.pairing import Pairing
from caladan.join.constraints.protocol import BodyConstraint
from caladan.join.constraints.rollup import (
    RollupConstraint,
    RollupTable,
    Uncountable,
    find_window,
    rollup_tables,
)
from caladan.join.constraints.semijoin import MARK, SemijoinConstraint
from caladan.join.eager import amounts, find_group, is_exact
from caladan.join.expressions import Evaluator
from caladan.join.extend import ExtendStep, Fixed, PerRow
from caladan.join.frontier import Bindings
from caladan.join.late_materialization import LateColumns
from caladan.join.route import body_route, guided_route
from caladan.join.selections import constraint_of
from caladan.join.statistics import Statistics
from caladan.join.walk import SolutionSink, Walk
from caladan.program import Comparison, Variable, thresholds, variables
from caladan.rules.body import Body, Scan, Version, names

_T = TypeVar("_T")

if TYPE_CHECKING:
    from caladan.join.constraints.protocol import JoinConstraint
    from caladan.join.constraints.values import ValueConstraint


class RulePlan:
    """A body over stored relations.

    A `steady` one is run again and again, over deltas of any size, while the relations change
    little: its order is measured however few facts it starts from, and does not depend on them.
    Relations that are not stored are `constraints`; with these a single atom is searched as well.
    """

    def __init__(
        self,
        body: Body,
        relations: Mapping[str, StoredRelation],
        absent: Callable[[Scan], StoredRelation],
        domains: Mapping[str, Domain],
        columns: Callable[[str, int], Domain],
        head_domains: Sequence[Domain] = (),
        search: str | None = None,
        *,
        steady: bool = False,
        constraints: Mapping[str, JoinConstraint] | None = None,
    ) -> None:
        asked = amounts(body)
        is_listed = steady or asked is None or not is_exact(asked, domains)
        self.body = replace(body, functions=()) if is_listed else body
        self._steady = steady
        self.head_domains = head_domains
        self._domains = dict(domains)
        self.evaluator = Evaluator(self._domains)
        self._columns = columns
        self._relations = relations
        self._absents = {scan: absent(scan) for scan in body.absents}
        listed = not any(each.folded for each in relations.values())
        self._constraints = constraints or {}
        least = 2 if constraints is None else 1
        self._search = guided_route(body, self, search, least) if search and listed else None
        self._order: JoinOrder | None = None
        self._order_sizes: tuple[int, ...] = ()
        self._made: dict[tuple[int, ...], tuple[Sequence[Access], Sequence[ExtendStep]]] = {}
        self.accesses: Sequence[Access] | None = None
        """What the steps that were last asked for are made of."""
        self._told: Sequence[Access] | None = None
        self._late = LateColumns()
        self._rollups: Sequence[RollupTable] = ()  # of the steps that are walked through
        self._fan_out = 1.0  # of the last round
        self._check: Callable[[], None] = lambda: None  # of the walk that is under way
        self._statistics = Statistics()

    def run(self, sink: SolutionSink, check: Callable[[], None]) -> None:
        """Hand all solutions to the sink; `check` is called now and then and may raise.

        What fails for parts of solutions may not fail for whole ones: then these are listed.
        """
        try:
            self._walk(self.steps(), sink, check)
        except Uncountable:
            raise
        except ArithmeticError:
            if self.amounts is None:
                raise
            self.body = replace(self.body, functions=())
            self._order = None
            self._made.clear()
            sink.restart()
            self._walk(self.steps(), sink, check)

    def _walk(
        self, steps: Sequence[ExtendStep], sink: SolutionSink, check: Callable[[], None]
    ) -> None:
        body, needed = self.body, self.body.needed
        if self.amounts is not None:
            needed = find_group(body) | names(*(each.expression for each in self.amounts))
        for step in steps:
            step.restart()
        self._rollups = list(rollup_tables(steps))
        walk = Walk(sink, check, needed, self._late, self._fan_out, counting=body.counting)
        self._check = walk.check
        walk.run(steps)
        self._fan_out = walk.fan_out()

    @property
    def amounts(self) -> tuple[Amount, ...] | None:
        """What is asked of rows, if they stand for several solutions, and how many these are."""
        rollups = [step for step in self.accesses or () if isinstance(step, Rollup)]
        return rollups[-1].outer if rollups else None

    def spare_bytes(self) -> int:
        """What parts of the body take that are added up, and could be once more."""
        return sum(table.nbytes for table in self._rollups)

    def forget_rollups(self) -> None:
        """Forget those, each before it is next asked."""
        for table in self._rollups:
            table.is_spent = True

    def steps(self) -> Sequence[ExtendStep]:
        """The steps in the order that suits the relations as they are."""
        order = () if self._search is not None else self._chosen_order().atoms
        if order not in self._made:
            steps = self._search or body_route(self.body, order, self)
            self._made[order] = (steps, [self.ready(step) for step in steps])
        self.accesses, steps = self._made[order]
        return steps

    def lasting_steps(self) -> Sequence[ExtendStep]:
        """The steps without views of what changes: for those who go one fact at a time.

        They are gone through many times, so their order is measured however few facts are new.
        """
        if self._search is not None:
            return self.steps()
        self._order_sizes = self._sizes()
        self._order = join_order(self.body, self._order_sizes, self, Trial(self, is_sure=True))
        steps = body_route(self.body, self._order.atoms, self, lasting=True)
        return [self.ready(step) for step in steps]

    @property
    def choices(self) -> tuple[Chosen, ...]:
        """What was weighed for the order of the atoms, as the steps were last asked for."""
        return () if self._order is None else self._order.choices

    @property
    def is_outgrown(self) -> bool:
        """Whether something that is looked up has doubled since the order was chosen."""
        return any(
            now > 2 * before + thresholds.now.replan and scan.version is not Version.DELTA
            for scan, before, now in zip(
                self.body.atoms, self._order_sizes, self._sizes(), strict=True
            )
        )

    @property
    def variables(self) -> frozenset[str]:
        """All that a solution may bind."""
        return frozenset(self._domains)

    @property
    def is_steady(self) -> bool:
        """Whether the order does not depend on how large a delta is."""
        return self._steady

    def news(self) -> Sequence[Access] | None:
        """What the rule goes through, if that changed since this was last asked."""
        told, self._told = self._told, self.accesses
        return None if told is self.accesses else self.accesses

    def proposals(self) -> Iterator[tuple[str, int, int]]:
        """What was proposed and confirmed for each variable since this was last asked."""
        yield from self._statistics.taken()

    def proposers(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """By variable which atoms proposed how much since this was last asked."""
        return self._statistics.named()

    def lookups(self) -> tuple[int, int]:
        """Lookups that found facts in several runs since this was last asked, and those merged."""
        return self._statistics.lookups_taken()

    # ── The order of atoms ───────────────────────────────────────────────────────────────────────

    def _sizes(self) -> tuple[int, ...]:
        return tuple(self.count(scan) for scan in self.body.atoms)

    def _chosen_order(self) -> JoinOrder:
        sizes = self._sizes()
        if self._order is not None and not _grown(self._order_sizes, sizes):
            return self._order
        self._late.forget()
        self._order = join_order(self.body, sizes, self, Trial(self))
        self._order_sizes = sizes
        return self._order

    def can_bind(self, relation: str, column: int) -> bool:
        """Whether an index of a relation may bind a column."""
        return self._relations[relation].can_bind(column)

    def can_show(self, relation: str, column: int) -> bool:
        """Whether views of a relation may show a column."""
        return not self._steady and self._relations[relation].can_bind(column)

    def count(self, scan: Scan) -> int:
        """How many facts a version of a relation has."""
        if self._steady and scan.version is Version.DELTA:
            return 1
        relation = self._relations[scan.relation]
        return relation.delta_count() if scan.version is Version.DELTA else relation.count()

    # ── Steps ────────────────────────────────────────────────────────────────────────────────────

    def _searched(self, scan: Scan) -> JoinConstraint:
        """An atom that takes part in a search."""
        from caladan.join.constraints.atom import StoredAtom

        if (given := self._constraints.get(scan.relation)) is not None:
            return given
        arguments = tuple(
            self._term(argument, scan.relation, column)
            for column, argument in enumerate(scan.arguments)
        )
        relation = self._relations[scan.relation]
        fleeting = self._steady or scan.version is Version.EITHER
        fleeting |= not all(map(relation.can_bind, range(relation.arity)))
        return StoredAtom(relation, scan.version, arguments, scan.relation, fleeting)

    def ready(
        self, step: Access, *, is_trial: bool = False, is_repeated: bool = False
    ) -> ExtendStep:
        """A step over the relations as they are stored; a trial counts for itself.

        A test that is `repeated` is made once more further behind.
        """
        statistics = Statistics() if is_trial else self._statistics
        binds = tuple(sorted(step.binds))
        match step:
            case Probe():
                return ExtendStep(binds, (self.lookup(step, statistics),), Fixed())
            case Meet():
                others = map(self._foreign, step.tests)
                constraints = (*(self.lookup(each, statistics) for each in step.probes), *others)
                name = (step.variable,) if step.tests or len(binds) == 1 else binds
                return ExtendStep(name, constraints, PerRow(statistics))
            case Fork():
                ways = tuple(
                    tuple(self.ready(each, is_trial=is_trial, is_repeated=True) for each in way)
                    for way in ((first, *rest) for first, rest in step.ways)
                )
                return ExtendStep(binds, (), PerRow(statistics, ways))
            case GuidedSearch():
                return ExtendStep(
                    binds,
                    (*map(self._searched, step.scans), *map(self._cut, step.cuts)),
                    PerRow(
                        statistics,
                        grade=step.grade,
                        order=tuple(dict.fromkeys(v.name for v in variables(*self.body.columns))),
                        counting=self.body.counting,
                    ),
                )
            case _:
                return ExtendStep(binds, (self._single(step, is_repeated),), Fixed())

    def _single(
        self, step: Semijoin | Rollup | Exclude | Compute | Check, is_repeated: bool
    ) -> BodyConstraint:
        """What gives a row at most one solution."""
        match step:
            case Rollup():
                inside = tuple(map(self.ready, step.steps))
                table = RollupTable(len(step.shared), step.amounts, self.evaluator)
                for i, domain in enumerate(table.domains):
                    self._domains[f"{step.mark}{i}"] = domain  # pyright: ignore[reportArgumentType]
                window = find_window(step.steps, inside[0].lookup, self.body.types, self.evaluator)
                return RollupConstraint(
                    step.mark, step.shared, inside, step.amounts, table, self._through, window
                )
            case Semijoin():
                steps = tuple(map(self.ready, step.steps))
                return SemijoinConstraint(step.shared, steps, self._through)
            case Exclude():
                words = self._words(step.scan, step.bound)
                return NegatedAtom(self._absents[step.scan], words, f"~{_label(step.scan)}")
            case Compute():
                domain = self._domains[step.variable]
                return Assignment(
                    self.evaluator, step.variable, step.expression, domain, step.solved
                )
            case Check():
                return Condition(self.evaluator, step.comparison, is_repeated)

    def _through(
        self,
        steps: Sequence[ExtendStep],
        frontier: Bindings,
        take: Callable[[Bindings], None],
        needed: frozenset[str],
    ) -> None:
        """Push rows through the steps of a semijoin, where one solution is enough, or a rollup."""
        counting = self.body.counting and MARK not in needed
        Walk(SolutionSink(take), self._check, needed, LateColumns(), 1.0, counting=counting).walk(
            steps, frontier
        )

    def _foreign(self, test: Comparison) -> ValueConstraint:
        """A constraint of the user's that a test calls."""
        from caladan.join.constraints.values import ValueConstraint

        called = constraint_of(test, self.body.types)
        assert called is not None
        return ValueConstraint(called[0], self._domains, called[1])

    def _cut(self, step: Check | Exclude | Equation) -> JoinConstraint:
        """A comparison or a negated atom that takes part in a search."""
        if isinstance(step, Exclude):
            return self._single(step, is_repeated=True)
        if constraint_of(step.comparison, self.body.types) is not None:
            return self._foreign(step.comparison)
        test = Condition(self.evaluator, step.comparison, is_repeated=True)
        if isinstance(step, Check):
            return test
        found = (self._single(each, is_repeated=True) for each in step.solutions)
        return EquationConstraint(test, {s.variable: s for s in found if isinstance(s, Assignment)})

    def lookup(self, found: Probe, statistics: Statistics | None = None) -> AtomLookup:
        """An atom over its relation."""
        scan, shown = found.scan, found.view
        relation = self._relations[scan.relation]
        places = range(relation.arity) if shown is None else shown.columns

        def positions(columns: Mapping[int, _T]) -> dict[int, _T]:
            return {places.index(column): value for column, value in columns.items()}

        return AtomLookup(
            relation if shown is None else relation.view(shown),
            scan.version,
            positions(self._words(scan, found.bound)),
            positions(self._words(scan, found.checked)),
            positions(dict(found.new)),
            self.body.counting,
            self._narrowing(found),
            Pairing(self.evaluator, found.pairings) if found.pairings else None,
            _label(scan),
            statistics,
        )

    def _narrowing(self, found: Probe) -> Narrowing | None:
        if found.within is None:
            return None
        return Narrowing(self.evaluator, self._domains[found.new[0][1]], found.within)

    def _words(self, scan: Scan, given: Sequence[tuple[int, Term]]) -> dict[int, str | int]:
        return {column: self._term(term, scan.relation, column) for column, term in given}

    def _term(self, term: Term, relation: str, column: int) -> str | int:
        """A variable's name, or a constant's word."""
        if isinstance(term, Variable):
            return term.name
        domain = self._columns(relation, column)
        return int(self.evaluator.words(term, Bindings(1, {}), domain)[0])


def _label(scan: Scan) -> str:
    shown = (a.name if isinstance(a, Variable) else repr(a.value) for a in scan.arguments)
    return f"{scan.relation}({', '.join(shown)})"


def _grown(before: Sequence[int], now: Sequence[int]) -> bool:
    """Whether a relation has doubled, or halved, since an order was chosen."""
    some = thresholds.now.replan
    return any(n > 2 * b + some or 8 * n + some < b for b, n in zip(before, now, strict=True))
