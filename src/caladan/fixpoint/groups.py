"""The head of a relation with aggregates: groups, and what their columns add up to.

Every solution gives its amounts to its group, through an accumulator for each aggregate column.
After a round, the groups whose values changed are the delta; within the round nobody sees them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.groups import GroupRelation
from caladan.columns.interner import ABSENT, Tuples
from caladan.columns.layout import Counts, Mask, Words
from caladan.columns.packed import Orders
from caladan.columns.ranks import magnitude, rank_floats
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.aggregates import Accumulator, Gathered, accumulator
from caladan.join.access import Amount
from caladan.join.arithmetic import Overflow, ValueColumn
from caladan.join.constraints.rollup import Uncountable
from caladan.join.frontier import Bindings
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program import Expression, thresholds
from caladan.program.aggregates import has_empty_value
from caladan.program.kinds import EXACT, Kind
from caladan.rules.program import Contributors, DeltaRule


@dataclass(frozen=True, slots=True)
class Contribution:
    """Solutions of a rule: the group of each and, by aggregate column, amounts and keys.

    Amounts may be those of several `solutions`, added up.
    """

    rows: int
    group: Sequence[Words]
    amounts: Mapping[int, ValueColumn]
    keys: Mapping[int, tuple[Words, ...]]
    solutions: Counts | None = None


class Contributions:
    """What the solutions of a rule contribute; `places` has the columns that count by key."""

    def __init__(
        self,
        info: RelationInfo,
        domains: Sequence[Domain],
        rule: DeltaRule,
        plan: RulePlan,
        keys: Sequence[Domain],
    ) -> None:
        self._info = info
        self._domains = domains
        self._plan = plan
        self._columns = plan.body.columns
        self._evaluator = plan.evaluator
        self._keys: dict[int, list[tuple[Expression, Domain]]] = {}
        self.places: dict[int, Contributors] = {}
        for each in rule.contributors:
            of = range(each.start, each.stop)
            self._keys[each.column] = [(plan.body.keys[k], keys[k]) for k in of]
            self.places[each.column] = each

    @property
    def key_domains(self) -> dict[int, tuple[Domain, ...]]:
        """The domains of the keys, by column."""
        return {i: tuple(domain for _, domain in keys) for i, keys in self._keys.items()}

    def of(self, frontier: Bindings) -> Contribution:
        """What some solutions contribute, or rows that stand for several."""
        words = self._evaluator.words
        if self._plan.amounts is not None:
            return self._rolled_up(frontier, self._plan.amounts)
        return Contribution(
            frontier.rows,
            self.group(frontier),
            {
                i: self._amounts(i, frontier)
                for i, f in enumerate(self._info.aggregates)
                if f and not f.is_gathered
            },
            {i: tuple(words(e, frontier, d) for e, d in keys) for i, keys in self._keys.items()},
        )

    def group(self, frontier: Bindings) -> list[Words]:
        """The groups of some solutions."""
        words = self._evaluator.words
        return [words(self._columns[i], frontier, self._domains[i]) for i in self._info.group]

    def _rolled_up(self, frontier: Bindings, asked: Sequence[Amount]) -> Contribution:
        """What rows contribute that stand for several solutions."""
        functions = [(i, f) for i, f in enumerate(self._info.aggregates) if f]
        amounts: dict[int, ValueColumn] = {}
        for (i, function), each in zip(functions, asked, strict=False):
            try:
                values = self._evaluator.values(each.expression, frontier, None)
            except Overflow:
                raise Uncountable if function.counts else Overflow from None
            if function.is_mean and not magnitude(values.data) < EXACT:
                raise Overflow  # a double would round it
            amounts[i] = values if function.is_mean else values.widened(self._domains[i].kind)
        solutions: Counts | None = None
        if len(asked) > len(functions):
            solutions = self._evaluator.values(asked[-1].expression, frontier, None).data
        return Contribution(frontier.rows, self.group(frontier), amounts, {}, solutions)

    def _amounts(self, column: int, frontier: Bindings) -> ValueColumn:
        domain = self._domains[column]
        text = domain if domain.kind.is_coded else None
        values = self._evaluator.values(self._columns[column], frontier, text)
        row = self._info.aggregates[column]
        return values if row is not None and row.is_mean else values.widened(domain.kind)


class AggregateHead:
    """A relation with aggregates; if its rule `is_sole`, no other derives any of its facts."""

    def __init__(
        self, info: RelationInfo, domains: Sequence[Domain], *, is_sole: bool = False
    ) -> None:
        self.info = info
        self.is_sole = is_sole
        self.domains = tuple(domains)
        self._group = info.group
        self._tuples = Tuples(len(info.group))
        self._groups: list[list[Words]] = [[] for _ in info.group]  # of groups new in this round
        self._new = 0
        # Of the rule that is evaluated now: rows that stand for several solutions.
        self._held: list[Contribution] = []
        self._touched: list[Counts] = []  # groups that changed, some of them several times
        self._waiting = 0  # how many numbers these are
        self._columns = {
            i: accumulator(function, domains[i], info.types[i])
            for i, function in enumerate(info.aggregates)
            if function is not None
        }
        self.relation = StoredRelation.of_groups(domains, info.group)

    @property
    def pending_bytes(self) -> int:
        """What the groups of this round take, and rows whose amounts are not added up yet."""
        each = 4 * len(self._group) + 8 * (len(self._columns) + 1)
        held = each * sum(given.rows for given in self._held)
        return held + self._new * (self._tuples.nbytes // max(len(self._tuples), 1))

    @property
    def pending_rows(self) -> int:
        """How many groups are new, at most."""
        return self._new + sum(given.rows for given in self._held)

    def count_pending(self) -> int:
        """How many groups are new."""
        rows = sum(given.rows for given in self._held)
        if not rows or not self._group:
            return self._new + bool(rows)
        groups = [
            np.concatenate([given.group[i] for given in self._held])
            for i in range(len(self._group))
        ]
        new = self._tuples.find(groups, rows) == ABSENT
        some = [each[new] for each in groups]
        return self._new + len(Tuples(len(groups)).ids(some, len(some[0]))[1])

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start; their values count as amounts."""
        groups = self._numbers([columns[i] for i in self._group], rows)
        for i, column in self._columns.items():
            domain = self.domains[i]
            ranks = domain.ranks(columns[i])
            data = rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks
            column.add(groups, ValueColumn(domain.kind, data))

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> SolutionSink:
        """Where the solutions of a rule go."""
        contributing = Contributions(self.info, self.domains, rule, plan, keys)
        self.expect(contributing.places, contributing.key_domains)
        waiting = self._held

        def take(frontier: Bindings) -> None:
            given = contributing.of(frontier)
            if plan.amounts is None:
                self.take(given, contributing.places)
            else:  # which may turn out to be listed after all
                waiting.append(given)

        def finish() -> None:
            for given in waiting:
                self.take(given, contributing.places)
            waiting.clear()

        def nbytes() -> int:
            return sum(column.nbytes() for column in self._columns.values())

        return SolutionSink(take, finish, forget=waiting.clear, nbytes=nbytes)

    def expect(
        self, places: Mapping[int, Contributors], domains: Mapping[int, tuple[Domain, ...]]
    ) -> None:
        """Solutions of a rule will come, with these contributors, and keys of these domains."""
        for i, place in places.items():
            self._columns[i].expect(place, domains[i])

    def take(self, contribution: Contribution, places: Mapping[int, Contributors]) -> None:
        """Let every solution give its amounts to its group."""
        numbers = self._numbers(contribution.group, contribution.rows)
        for i, column in self._columns.items():
            if isinstance(column, Gathered):
                column.gather(numbers, contribution.keys[i])
            elif (place := places.get(i)) is not None:
                column.place(numbers, contribution.amounts[i], place, contribution.keys[i])
            else:
                column.add(numbers, contribution.amounts[i], contribution.solutions)

    def flip(self) -> int:
        """Give the groups that changed their new values, and make them the delta."""
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        before = body.count()
        self._add_empty(before)
        if self._new:
            words = [np.concatenate(parts) for parts in self._groups]
            body.extend(words, self._new)
            self._groups = [[] for _ in self._group]
            self._new = 0
        if not self._touched:
            return 0
        touched, self._touched, self._waiting = self._changed(), [], 0
        changed: Mask = touched >= before
        values: dict[int, Words] = {}
        for i, column in self._columns.items():
            values[i] = self.domains[i].words(column.ranks(touched))
            changed |= values[i] != body.words(i, touched.astype(np.uint32))
        body.change(touched[changed], {i: words[changed] for i, words in values.items()})
        return body.flip()

    def absorb(self, old: Sequence[Words], delta: Sequence[Words]) -> None:
        """Take over what the tiny-delta machine found: values by group, old and still new."""
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        body.commit()
        for columns in (old, delta):
            if len(columns[0]):
                self.give(columns, len(columns[0]))
                self.flip()
                body.commit()
        if len(delta[0]):
            # Groups that changed before the machine started may still wait for their round.
            ids, _ = self._tuples.ids([delta[i] for i in self._group], len(delta[0]))
            rows = np.unique(ids)
            body.change(rows.astype(np.int64), {i: body.words(i, rows) for i in self._columns})

    @property
    def columns(self) -> Mapping[int, Accumulator]:
        """What each aggregate column keeps."""
        return self._columns

    def restore(self, columns: Sequence[Words], rows: int) -> None:
        """Groups with their values, as they once were; none of them is new.

        What their aggregate columns keep is restored apart, but for texts that rules make.
        """
        numbers = self._numbers([columns[i] for i in self._group], rows)
        for i, column in self._columns.items():
            if column.keeps_texts:
                column.add(numbers, ValueColumn(Kind.STRING, columns[i]))
        self._touched, self._waiting = [], 0
        self._groups = [[] for _ in self._group]
        self._new = 0
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        body.restore(columns, rows)

    def finished(self, orders: Orders) -> StoredRelation:
        """The relation with its final values, packed like any other."""
        blocks = self.relation.blocks()
        batches = ((block, len(block[0]) if block else 1) for block in blocks)
        return StoredRelation.of(self.domains, batches, orders)

    def _numbers(self, group: Sequence[Words], rows: int) -> Counts:
        """The numbers of groups; room is made for new ones."""
        ids, fresh = self._tuples.ids(group, rows)
        if len(fresh):
            for parts, words in zip(self._groups, group, strict=True):
                parts.append(words[fresh])
            self._new += len(fresh)
            for column in self._columns.values():
                column.grow(len(self._tuples))
        numbers = ids.astype(np.int64)
        self._touched.append(numbers)
        self._waiting += rows
        if self._waiting > max(2 * len(self._tuples), thresholds.now.block):
            # Once in a while: telling numbers apart takes as long as there are groups.
            self._touched = [self._changed()]
            self._waiting = len(self._touched[0])
        return numbers

    def _changed(self) -> Counts:
        """The groups that solutions came for."""
        return distinct_numbers(np.concatenate(self._touched), len(self._tuples))

    def _add_empty(self, before: int) -> None:
        """A count or sum over nothing that has no group columns is 0."""
        if before or self._new or self._group:
            return
        if has_empty_value(self.info.aggregates):
            self._numbers([], 1)


def distinct_numbers(numbers: Counts, below: int) -> Counts:
    """Numbers in order, each once. numpy's own way goes through a hash table, and takes longer."""
    if thresholds.now.dense_numbers * len(numbers) > below:
        flags: Mask = np.zeros(below, np.bool_)
        flags[numbers] = True
        return np.flatnonzero(flags)
    ordered: Counts = np.sort(numbers)
    return (
        ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
    )
