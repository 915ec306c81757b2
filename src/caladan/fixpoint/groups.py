"""The head of a relation with aggregates: groups, and what their columns add up to.

Every solution gives its amounts to its group, through an accumulator for each aggregate column.
After a round, the groups whose values changed are the delta; within the round nobody sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain, TextDomain
from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.interner import Tuples
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.packed import Orders
from caladan.columns.ranks import Kind, rank_floats
from caladan.columns.relation import StoredRelation
from caladan.columns.rows import GroupRelation
from caladan.fixpoint.aggregates import TOTALS, Accumulator, TextBest, accumulator
from caladan.join.arithmetic import ValueColumn
from caladan.join.frontier import Bindings
from caladan.join.plan import RulePlan
from caladan.join.steps import LookupStep
from caladan.join.walk import Sink
from caladan.program import Aggregate, Expression, Variable, thresholds
from caladan.rules.body import Version, names
from caladan.rules.program import Contributors, DeltaRule


@dataclass(frozen=True, slots=True)
class Contribution:
    """Solutions of a rule: the group of each and, by aggregate column, amounts and keys."""

    rows: int
    group: Sequence[Words]
    amounts: Mapping[int, ValueColumn]
    keys: Mapping[int, tuple[Words, ...]]


class Contributing:
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
        """What some solutions contribute."""
        words = self._evaluator.words
        return Contribution(
            frontier.rows,
            self.group(frontier),
            {i: self._amounts(i, frontier) for i, f in enumerate(self._info.aggregates) if f},
            {i: tuple(words(e, frontier, d) for e, d in keys) for i, keys in self._keys.items()},
        )

    def group(self, frontier: Bindings) -> list[Words]:
        """The groups of some solutions."""
        words = self._evaluator.words
        return [words(self._columns[i], frontier, self._domains[i]) for i in self._info.group]

    def _amounts(self, column: int, frontier: Bindings) -> ValueColumn:
        domain = self._domains[column]
        text = domain if domain.kind.is_coded else None
        values = self._evaluator.values(self._columns[column], frontier, text)
        return values if self._info.aggregates[column] == "avg" else values.widened(domain.kind)


class Weighing:
    """Aggregates of a last lookup whose relation is folded: by its tuples, without its facts.

    Solutions that share all that the group reads are one solution with a weight for `count`, and
    with the least or largest value for `min` and `max`.
    """

    def __init__(
        self, head: AggregateHead, contributing: Contributing, plan: RulePlan, rule: DeltaRule
    ) -> None:
        self._head = head
        self._contributing = contributing
        self._columns = plan.body.columns
        self._evaluator = plan.evaluator
        functions = [f for f in head.info.aggregates if f is not None]
        self._group = names(*(self._columns[i] for i in head.info.group))
        self._counted = [i for i, f in enumerate(head.info.aggregates) if f in ("count", "countd")]
        self._picked = [i for i, f in enumerate(head.info.aggregates) if f in ("min", "max")]
        self._is_alone = len(plan.body.atoms) == 1
        plain = all(isinstance(self._columns[i], Variable) for i in self._picked)
        self.is_possible = (
            len(functions) == len(self._counted) + len(self._picked)
            and plain
            and not (self._counted and self._picked)
            and all(
                i not in contributing.places
                if head.info.aggregates[i] == "count"
                else head.is_sole and self._is_counted_once(i, rule)
                for i in self._counted
            )
            and not any(isinstance(head.domains[i], TextDomain) for i in self._picked)
        )

    def _is_counted_once(self, column: int, rule: DeltaRule) -> bool:
        """Whether distinct terms are as many as solutions: one atom holds them and the group."""
        argument = rule.rule.arguments[column]
        (atom,) = rule.rule.atoms if len(rule.rule.atoms) == 1 else (None,)
        if atom is None or atom.negated or not isinstance(argument, Aggregate):
            return False
        read = self._group | names(*argument.terms)
        return self._is_alone and len(read) == len(atom.arguments) == len(atom.variables)

    def take(self, lookup: LookupStep, frontier: Bindings, check: Callable[[], None]) -> int | None:
        """Take a last lookup; how many solutions it stands for, None if it takes another way."""
        relation = lookup.relation
        folded = relation.folded if isinstance(relation, StoredRelation) else None
        if folded is None or lookup.checked:
            return None
        check()
        found = {name: column for column, name in lookup.new.items()}
        if lookup.bound:
            return self._bound(lookup, frontier, found)
        if frontier.rows != 1:
            return None
        if self._picked:
            return self._best(folded, frontier, found)
        weighed = folded.weights(frozenset(found[n] for n in self._group if n in found))
        if weighed is None:
            return None
        keys, counts = weighed
        self._count(self._extended(folded, frontier, keys, found), counts)
        return int(counts.sum())

    def _bound(self, lookup: LookupStep, frontier: Bindings, found: dict[str, int]) -> int | None:
        if self._picked or not self._group.isdisjoint(found):
            return None
        counts = lookup.matches(frontier).counts()
        some: Mask = counts > 0
        self._count(frontier.where(some), counts[some])
        return int(counts.sum())

    def _best(
        self, folded: FoldedRelation, frontier: Bindings, found: dict[str, int]
    ) -> int | None:
        """The best of a column of the second side for each tuple of the first."""
        group = {found[n] for n in self._group if n in found}
        sources = names(*(self._columns[i] for i in self._picked))
        if len(sources) != 1 or not group <= frozenset(folded.first.columns):
            return None
        (source,) = sources
        if found.get(source) not in folded.second.columns:
            return None
        domain = self._evaluator.domain(source)
        size = 1 + int(max(folded.matrix.columns.members.max(initial=0), _largest(folded)))
        words = folded.second.of(np.arange(size, dtype=np.uint32), found[source])
        data = domain.ranks(words)
        keys: Keys = np.empty(0, np.uint64)
        picked: dict[int, ValueColumn] = {}
        for i in self._picked:
            smaller = self._head.info.aggregates[i] == "min"
            keys, best = folded.best(data if smaller else ~data)
            ranks = best if smaller else ~best
            whole = rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks
            picked[i] = ValueColumn(domain.kind, whole).widened(self._head.domains[i].kind)
        if len(keys):
            group_words = self._contributing.group(self._extended(folded, frontier, keys, found))
            self._head.take(Contribution(len(keys), group_words, picked, {}), {})
        return folded.count()

    def _extended(
        self, folded: FoldedRelation, frontier: Bindings, keys: Keys, found: dict[str, int]
    ) -> Bindings:
        """The one solution before the lookup, for each key, with what the group reads of it."""
        index = folded.index((), Version.FULL)
        columns = frontier.at(np.zeros(len(keys), np.uint32), frontier.columns)
        for name in self._group & found.keys():
            columns[name] = index.column(keys, found[name])
        return Bindings(len(keys), columns)

    def _count(self, frontier: Bindings, counts: Counts) -> None:
        if frontier.rows:
            amounts = {i: ValueColumn(Kind.INTEGER, counts) for i in self._counted}
            group = self._contributing.group(frontier)
            self._head.take(Contribution(frontier.rows, group, amounts, {}), {})


def _largest(folded: FoldedRelation) -> int:
    extra = folded.matrix.extra.astype(np.uint32)
    return int(extra.max(initial=0))


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
        self._touched: list[Counts] = []
        self._columns = {
            i: accumulator(function, domains[i])
            for i, function in enumerate(info.aggregates)
            if function is not None
        }
        self.relation = StoredRelation.of_groups(domains, info.group)

    @property
    def pending_bytes(self) -> int:
        """Nothing: amounts are added up as they come."""
        return 0

    def give(self, columns: Sequence[Words], rows: int) -> None:
        """Facts that are there from the start; their values count as amounts."""
        groups = self._numbers([columns[i] for i in self._group], rows)
        for i, column in self._columns.items():
            domain = self.domains[i]
            ranks = domain.ranks(columns[i])
            data = rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks
            column.add(groups, ValueColumn(domain.kind, data))

    def sink(self, rule: DeltaRule, plan: RulePlan, keys: Sequence[Domain]) -> Sink:
        """Where the solutions of a rule go."""
        contributing = Contributing(self.info, self.domains, rule, plan, keys)
        self.expect(contributing.places)
        weighing = Weighing(self, contributing, plan, rule)
        return Sink(
            lambda frontier: self.take(contributing.of(frontier), contributing.places),
            direct=weighing.take if weighing.is_possible else None,
        )

    def expect(self, places: Mapping[int, Contributors]) -> None:
        """Solutions of a rule will come, with these contributors."""
        for i, place in places.items():
            if (known := self._columns[i].places) is not None:
                known.expect(place)

    def take(self, contribution: Contribution, places: Mapping[int, Contributors]) -> None:
        """Let every solution give its amounts to its group."""
        numbers = self._numbers(contribution.group, contribution.rows)
        for i, column in self._columns.items():
            amounts = contribution.amounts[i]
            if (place := places.get(i)) is not None:
                column.place(numbers, amounts, place, contribution.keys[i])
            else:
                column.add(numbers, amounts)

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
        touched = distinct_numbers(np.concatenate(self._touched), len(self._tuples))
        self._touched = []
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
            if isinstance(column, TextBest):
                column.add(numbers, ValueColumn(Kind.STRING, columns[i]))
        self._touched = []
        self._groups = [[] for _ in self._group]
        self._new = 0
        body = self.relation.body
        assert isinstance(body, GroupRelation)
        body.restore(columns, rows)

    def finished(self, orders: Orders) -> StoredRelation:
        """The relation with its final values, packed like any other."""
        relation = StoredRelation(self.domains, orders)
        for block in self.relation.blocks():
            relation.add(block, len(block[0]) if block else 1)
        relation.flip()
        relation.commit()
        return relation

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
        self._touched.append(distinct_numbers(numbers, len(self._tuples)))
        return numbers

    def _add_empty(self, before: int) -> None:
        """A count or sum over nothing that has no group columns is 0."""
        if before or self._new or self._group:
            return
        if all(function in TOTALS for function in self.info.aggregates):
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
