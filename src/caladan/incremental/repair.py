"""Repairs: how the relations of a clique follow a change of what they are derived from.

Inserts are delta rules for every atom of every rule, seeded into the same rounds as in a run. What
is lost is found first, while everything is still there to be joined with: the heads of solutions
that had a fact which is gone. Each such candidate stays if a rule derives it from facts that were
derived before it, for then it does not stand on itself in a circle; else it goes, and what was
derived from it is a candidate next. Then those that are gone are derived again where another way
leads to them, and join the inserts in the rounds. Where all facts of a clique are of one age, as
after a run by shapes, this is the delete-and-rederive of the textbooks.

If too much would go, the clique is evaluated anew and compared with what there was. That is the
last resort of every other case too. Aggregates are in aggregate_maintenance.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from caladan.columns.layout import Layout
from caladan.columns.membership import stamps
from caladan.columns.relation import Batch, StoredRelation
from caladan.fixpoint.fixpoint import Fixpoint
from caladan.fixpoint.small_rounds.choice import TinyRounds
from caladan.incremental.deletions import (
    NOTHING,
    FactCandidates,
    FactChange,
    SortFacts,
    TooMuchGoneError,
    UnsupportedFacts,
    list_facts,
    sink_of,
    those,
)
from caladan.incremental.wiring import CliqueWiring, PreparedVariant, Wiring
from caladan.join.arithmetic import blame_rule
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.rules.program import DeltaRule
from caladan.rules.variants import given_of


class Repair(Protocol):
    """Keeps the relations of a clique true."""

    @property
    def inputs(self) -> frozenset[str]:
        """What the clique reads."""
        ...

    @property
    def relations(self) -> list[StoredRelation]:
        """What it derives."""
        ...

    @property
    def repairs(self) -> int:
        """How many changes it followed."""
        ...

    @property
    def recomputed(self) -> int:
        """For how many of them it was evaluated anew."""
        ...

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        ...

    def update(
        self, changed: dict[str, FactChange], contents: dict[str, Batch], *, anew: bool
    ) -> None:
        """Follow changes, and add those of the clique's own relations to them.

        `contents` has the facts of transient relations; `anew` asks for an evaluation from scratch.
        """
        ...


class Recomputation:
    """Evaluated anew when something changes."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        self._wiring = wiring
        self._made = made
        self._members = made.clique.relations
        self.inputs = made.inputs
        self.relations = [wiring.relations[name] for name in self._members]
        self.repairs = 0
        self.recomputed = 0

    def update(
        self, changed: dict[str, FactChange], contents: dict[str, Batch], *, anew: bool
    ) -> None:
        """Evaluate the clique."""
        del contents, anew
        self._recompute()
        self._tell(changed)

    def _recompute(self) -> None:
        """Evaluate the clique from what it reads, and make its relations what came out."""
        self.recomputed += 1
        wiring = self._wiring
        given: dict[str, list[Batch]] = {}
        for name in self._members:
            kept = wiring.relations[given_of(wiring.program.relations[name]).name]
            given[name] = [list_facts(kept)]
        evaluation = Fixpoint(
            wiring.plan, wiring.classes, given, wiring.limits, wiring.listener,
            wiring.options.search,
        )  # fmt: skip
        evaluation.adopt(
            {n: r for n, r in wiring.relations.items() if n not in self._members}
        )  # fmt: skip
        evaluation.clique(self._made.clique)
        fresh = evaluation.layouts()
        for each in wiring.relations.values():
            each.forget_views()
        for name, relation in zip(self._members, self.relations, strict=True):
            _become(relation, fresh[name])
        stamp = stamps.take()
        for relation in self.relations:
            relation.restamp(stamp)

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        for relation in self.relations:
            relation.calm()

    def _tell(self, changed: dict[str, FactChange]) -> None:
        self.repairs += 1
        for name, relation in zip(self._members, self.relations, strict=True):
            added, removed = relation.changes()
            if added[1] or removed[1]:
                changed[name] = (added, removed)


class OwnRule:
    """A delta rule of a clique's own, over its incremental relations."""

    def __init__(
        self, rule: DeltaRule, wiring: Wiring, sink: Callable[[DeltaRule, RulePlan], SolutionSink]
    ) -> None:
        self.rule = rule
        self.plan = wiring.planned(rule)
        self._seed = wiring.relations[rule.rule.atoms[rule.seed or 0].relation]
        self._sink = sink(rule, self.plan)
        self._look = wiring.look

    def run(self) -> None:
        """Hand the solutions that start from what is new to its sink."""
        if self._seed.delta_count():
            with blame_rule(self.rule.rule):
                self.plan.run(self._sink, self._look)


class Rounds(Recomputation):
    """A clique whose own delta rules go round after round."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        self._gaining = [wiring.prepared(each) for each in made.gaining]
        self._heads = {
            name: wiring.head(name, relation)
            for name, relation in zip(self._members, self.relations, strict=True)
        }
        self._sinks: dict[PreparedVariant, SolutionSink] = {
            each: sink_of(each, self._heads[each.rule.rule.head]) for each in self._gaining
        }
        self._rounds = [
            OwnRule(rule, wiring, lambda r, plan: self._heads[r.rule.head].sink(r, plan, ()))
            for rule in made.rounds
        ]
        self._tiny = TinyRounds(
            list(self._heads.values()),
            [(self._heads[each.rule.rule.head], each.plan) for each in self._rounds],
            wiring.limits,
            lambda _: None,
        )

    def _go_round(self) -> None:
        """Take in what was added, and go on until nothing is new."""
        new = sum(relation.flip() for relation in self.relations)
        if self._rounds:
            limits, number = self._wiring.limits, 0
            while new:
                number += 1
                limits.rounds(number)
                self._wiring.look()
                if self._tiny.run(None, self._wiring.facts_left())[0]:
                    new = sum(relation.delta_count() for relation in self.relations)
                    continue
                for rule in self._rounds:
                    rule.run()
                for relation in self.relations:
                    relation.commit()
                new = sum(relation.flip() for relation in self.relations)
        for relation in self.relations:
            relation.commit()


class Renewal(Rounds):
    """Derived from transient relations alone: emptied, and derived from what they hold now."""

    def update(
        self, changed: dict[str, FactChange], contents: dict[str, Batch], *, anew: bool
    ) -> None:
        """Derive everything from transient relations."""
        del anew
        for relation in self.relations:
            relation.clear()
        for each in self._gaining:
            batch = contents.get(each.variant.relation)
            if batch is not None:
                with blame_rule(each.variant.rule):
                    each.run(self._sinks[each], batch)
        self._go_round()
        for name, relation in zip(self._members, self.relations, strict=True):
            batch = relation.changes()[0]
            if batch[1]:
                contents[name] = batch
            changed[name] = (batch, NOTHING)


class FactRepair(Rounds):
    """Sets, repaired fact by fact."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        candidates = {
            name: FactCandidates(wiring.head(name), relation)
            for name, relation in zip(self._members, self.relations, strict=True)
        }
        ages: SortFacts = lambda name, *facts: wiring.relations[name].ranks(*facts)  # noqa: E731
        self._deletions = UnsupportedFacts(wiring, made, candidates, ages)
        for each in self._deletions.supporting:
            self._sinks[each] = sink_of(each, self._heads[each.rule.rule.head])

    def update(
        self, changed: dict[str, FactChange], contents: dict[str, Batch], *, anew: bool
    ) -> None:
        """Let facts go that nothing supports any more, then derive what is new."""
        del contents
        if anew:
            self._recompute()
        else:
            try:
                self._deletions.find(changed)
            except (TooMuchGoneError, ArithmeticError):
                # Solutions that were never there may fail to be computed.
                self._deletions.clear()
                self._recompute()
            else:
                self._gain(changed)
        self._tell(changed)

    def _gain(self, changed: Mapping[str, FactChange]) -> None:
        if self._made.clique.is_recursive:
            for name, relation in zip(self._members, self.relations, strict=True):
                gone = relation.changes()[1]
                if gone[1]:
                    for each in self._deletions.supporting:
                        if each.rule.rule.head == name:
                            with blame_rule(each.variant.rule):
                                each.run(self._sinks[each], gone)
        derive(self._gaining, self._sinks, changed)
        self._go_round()

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        super().calm()
        self._deletions.clear()


def derive(
    gaining: Sequence[PreparedVariant],
    sinks: Mapping[PreparedVariant, SolutionSink],
    changed: Mapping[str, FactChange],
) -> None:
    """What follows at once from facts that are new, or gone from a negated atom."""
    for each in gaining:
        if (change := changed.get(each.variant.relation)) is not None:
            batch = change[1] if each.variant.negated else change[0]
            if batch[1]:
                with blame_rule(each.variant.rule):
                    each.run(sinks[each], batch)


def _become(relation: StoredRelation, fresh: Layout) -> None:
    """Give a relation the facts of another, as a change of it."""
    if not relation.arity:
        if relation.count() and not fresh.count():
            relation.discard((), 1)
        elif fresh.count():
            relation.add((), 1)
    else:
        for block in list(relation.blocks()):
            relation.discard(*those((block, len(block[0])), ~fresh.contains(block)))
        for block in fresh.blocks():
            relation.add(*those((block, len(block[0])), ~relation.contains(block)))
    relation.flip()
    relation.commit()
