"""Repairs of aggregates: groups that changed, and best values in recursion.

Where nothing is recursive, the groups of what changed are added up anew (`GroupMaintenance`).

Best values inside of recursion (`BestValueMaintenance`) are facts like any other, one for each
group. What comes improves some of them, round after round. What goes may have given the best value
of a group: that fact is a candidate, and stays if a rule derives it from better values, which
cannot stand on it; else it goes, with what was derived from it. Then the groups that are left
without a value get the best that rules still derive for them, and those join the improvements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain, TextDomain
from caladan.columns.layout import Counts, Mask, Words, concatenate
from caladan.columns.ranks import Ranks
from caladan.columns.relation import Batch, StoredRelation
from caladan.fixpoint.groups import AggregateHead, Contributions
from caladan.incremental.deletions import (
    NOTHING,
    FactChange,
    TooMuchGoneError,
    UnsupportedFacts,
    list_facts,
    take_batch,
    those,
)
from caladan.incremental.repair import OwnRule, Recomputation, derive
from caladan.incremental.wiring import CliqueWiring, PreparedVariant, Wiring
from caladan.join.arithmetic import blame_rule
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program import thresholds
from caladan.rules.body import Version
from caladan.rules.program import DeltaRule
from caladan.rules.variants import given_of

NO_WORDS: Words = np.empty(0, np.uint32)


class BestCandidates:
    """Solutions of rules with best values, of which each group's best are kept."""

    def __init__(
        self, info: RelationInfo, domains: Sequence[Domain], relation: StoredRelation
    ) -> None:
        self._info = info
        self._domains = domains
        self._relation = relation
        self._values = {i: f for i, f in enumerate(info.aggregates) if f is not None}
        self.clear()

    def clear(self) -> None:
        """Nothing is a candidate."""
        self._head = AggregateHead(self._info, self._domains)

    def sink(self, each: PreparedVariant) -> SolutionSink:
        """Where the solutions of a variant go."""
        return self.sink_of(each.rule, each.plan)

    def sink_of(self, rule: DeltaRule, plan: RulePlan) -> SolutionSink:
        """Where the solutions of a rule go."""
        contributing = Contributions(self._info, self._domains, rule, plan, ())
        return SolutionSink(lambda frontier: self._head.take(contributing.of(frontier), {}))

    def suspects(self) -> Batch:
        """The facts of groups whose best value a candidate reaches: it may have been the one."""
        batch = self._taken()
        if not batch[1]:
            return batch
        rows, facts = self._held(batch)
        reached: Mask = np.zeros(len(rows), np.bool_)
        for i, function in self._values.items():
            new, old = self._compared(i, batch[0][i][rows], facts[i])
            reached |= ~function.is_better(old, new)
        return those((facts, len(rows)), reached)

    def improve(self) -> int:
        """Give the relation the values that are better; how many groups have new ones."""
        batch = self._taken()
        if batch[1]:
            rows, facts = self._held(batch)
            columns = list(batch[0])
            better: Mask = np.zeros(len(rows), np.bool_)
            for i, function in self._values.items():
                new, old = self._compared(i, columns[i][rows], facts[i])
                is_better = function.is_better(new, old)
                columns[i][rows] = np.where(is_better, columns[i][rows], facts[i])
                better |= is_better
            good: Mask = np.ones(batch[1], np.bool_)
            good[rows] = better
            self._relation.discard(*those((facts, len(rows)), better))
            self._relation.add(*those((tuple(columns), batch[1]), good))
        return self._relation.flip()

    def _taken(self) -> Batch:
        head = self._head
        if not head.flip():
            return NOTHING
        self.clear()
        columns, rows = list_facts(head.relation)
        return tuple(column.copy() for column in columns), rows

    def _held(self, batch: Batch) -> tuple[Counts, tuple[Words, ...]]:
        """Which of some groups have a fact, and these."""
        return held(self._relation, self._info.group, batch)

    def _compared(self, i: int, new: Words, old: Words) -> tuple[Ranks, Ranks]:
        """Values of a column as numbers in their order."""
        domain = self._domains[i]
        if not isinstance(domain, TextDomain):
            return domain.ranks(new), domain.ranks(old)
        ranks = domain.ordered(np.concatenate((new, old)))
        return ranks[: len(new)], ranks[len(new) :]


class BestValueMaintenance(Recomputation):
    """Best values in recursion."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        domains = {name: wiring.classes.columns(name) for name in self._members}
        heads = {
            name: BestCandidates(wiring.program.relations[name], domains[name], relation)
            for name, relation in zip(self._members, self.relations, strict=True)
        }
        self._heads = heads
        self._gaining = [wiring.prepared(each) for each in made.gaining]
        self._again = [wiring.prepared(each) for each in made.regrouping]
        self._sinks = {
            each: heads[each.rule.rule.head].sink(each) for each in (*self._gaining, *self._again)
        }
        self._rounds = [
            OwnRule(rule, wiring, lambda rule, plan: heads[rule.rule.head].sink_of(rule, plan))
            for rule in made.rounds
        ]
        self._read = {
            (atom.relation, atom.negated) for each in made.gaining for atom in each.rule.atoms
        }
        self._deletions = self._wired_deletions(domains) if made.losing else None

    def _wired_deletions(self, domains: Mapping[str, Sequence[Domain]]) -> UnsupportedFacts | None:
        """What finds them; None where values have no numbers in their order."""
        infos = {name: self._wiring.program.relations[name] for name in self._members}
        places = {name: (domains[name], *_value(infos[name])) for name in self._members}
        if any(isinstance(of[column], TextDomain) for of, column, _ in places.values()):
            return None

        def order(name: str, words: Sequence[Words], _: int) -> NDArray[np.int64]:
            of, column, is_smaller = places[name]
            ranks = of[column].ranks(words[column])
            return ranks if is_smaller else ~ranks

        candidates = {
            name: BestCandidates(infos[name], domains[name], relation)
            for name, relation in zip(self._members, self.relations, strict=True)
        }
        return UnsupportedFacts(self._wiring, self._made, candidates, order)

    def update(
        self, changed: dict[str, FactChange], contents: dict[str, Batch], *, anew: bool
    ) -> None:
        """Let values go that nothing supports any more, then improve what can be."""
        del contents
        lost = any(
            changed[name][0 if negated else 1][1] for name, negated in self._read if name in changed
        )
        try:
            if anew or (lost and self._deletions is None):
                raise TooMuchGoneError
            if lost and self._deletions is not None:
                self._deletions.find(changed)
        except (TooMuchGoneError, ArithmeticError):
            self._forget()
            self._recompute()
        else:
            self._improve(changed)
        self._tell(changed)

    def _improve(self, changed: Mapping[str, FactChange]) -> None:
        for name, relation in zip(self._members, self.relations, strict=True):
            columns, rows = relation.changes()[1]
            if rows:
                group = self._wiring.program.relations[name].group
                groups = tuple(columns[i] for i in group), rows
                for each in self._again:
                    if each.rule.rule.head == name:
                        with blame_rule(each.variant.rule):
                            each.run(self._sinks[each], groups)
        derive(self._gaining, self._sinks, changed)
        number = 0
        while sum([head.improve() for head in self._heads.values()]):
            number += 1
            self._wiring.limits.rounds(number)
            self._wiring.look()
            for rule in self._rounds:
                rule.run()
            for relation in self.relations:
                relation.commit()

    def _tell(self, changed: dict[str, FactChange]) -> None:
        """What changed in the end: a group may have had values that it has no more."""
        super()._tell(changed)
        for name, relation in zip(self._members, self.relations, strict=True):
            added, removed = changed.get(name, (NOTHING, NOTHING))
            if added[1] and removed[1]:
                new = StoredRelation.of(relation.domains, [added])
                removed = those(removed, ~new.contains(removed[0]))
                changed[name] = those(added, relation.contains(added[0])), removed

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        super().calm()
        self._forget()

    def _forget(self) -> None:
        for head in self._heads.values():
            head.clear()
        if self._deletions is not None:
            self._deletions.clear()


def _value(info: RelationInfo) -> tuple[int, bool]:
    """The one column with a best value, and whether that is the smallest."""
    ((column, function),) = ((i, f) for i, f in enumerate(info.aggregates) if f is not None)
    return column, function.is_least


class GroupMaintenance(Recomputation):
    """Aggregates: the groups that changed are added up anew."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        (self._name,) = self._members
        self._info = wiring.program.relations[self._name]
        self._given = given_of(self._info).name
        self._is_given = False
        self._touching = [wiring.prepared(each) for each in made.touching]
        self._regrouping = [wiring.prepared(each) for each in made.regrouping]
        self._groups = wiring.head(f"{self._name} groups")
        self._sinks = {each: self._groups.sink(each.rule, each.plan, ()) for each in self._touching}

    def update(
        self, changed: dict[str, FactChange], contents: dict[str, Batch], *, anew: bool
    ) -> None:
        """Find the groups of what changed, and add them up."""
        del contents
        self._is_given |= self._given in changed
        try:
            if anew or self._is_given:  # facts of its own are amounts too
                raise TooMuchGoneError
            groups = self._touched(changed)
        except (TooMuchGoneError, ArithmeticError):
            self._groups.relation.clear()
            self._recompute()
        else:
            if groups[1] or not self._info.group:
                self._regroup(groups)
        self._tell(changed)

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        super().calm()
        self._groups.relation.clear()

    def _touched(self, changed: Mapping[str, FactChange]) -> Batch:
        known = self.relations[0].count()
        for each in self._touching:
            for batch in changed.get(each.variant.relation, ()):
                if batch[1] and self._info.group:
                    sink = self._sinks[each]
                    each.run(sink, batch, self._wiring.collecting(self._groups, sink, known))
        return take_batch(self._groups)

    def _regroup(self, groups: Batch) -> None:
        domains = self._wiring.classes.columns(self._name)
        head = AggregateHead(self._info, domains)
        for each in self._regrouping:
            keys = self._wiring.classes.keys(each.rule)
            with blame_rule(each.variant.rule):
                sink = head.sink(each.rule, each.plan, keys)
                each.run(sink, groups, self._wiring.collecting(head, sink))
        with blame_rule(self._regrouping[0].variant.rule):
            head.flip()
        (relation,) = self.relations
        fresh = head.finished({})
        group = self._info.group
        columns = dict(zip(group, groups[0], strict=True))
        asked = tuple(columns.get(i, NO_WORDS) for i in range(relation.arity)), groups[1]
        facts = held(relation, group, asked)[1]
        before = facts, len(facts[0])
        relation.discard(*those(before, ~fresh.contains(before[0])))
        relation.extend([list_facts(fresh)])


def held(
    relation: StoredRelation, group: Sequence[int], groups: Batch
) -> tuple[Counts, tuple[Words, ...]]:
    """Facts of some groups, which stand in the columns of a batch of facts: of which, and these."""
    if not group:
        columns, rows = list_facts(relation)
        return np.zeros(rows, np.int64), columns
    index = relation.index(group, Version.NEW)
    keys, lead = index.key({i: groups[0][i] for i in group}, groups[1])
    numbers: list[Counts] = []
    blocks: list[tuple[Words, ...]] = []
    for rows, hits in index.find(keys, lead).chunks(thresholds.now.room):
        numbers.append(rows.astype(np.int64))
        blocks.append(tuple(index.column(hits, c) for c in range(relation.arity)))
    which: Counts = np.concatenate([np.empty(0, np.int64), *numbers])
    return which, concatenate(iter(blocks), relation.arity)
