"""Deletions: which facts a change leaves without a derivation.

Candidates are the heads of solutions that had a fact which is gone. Each of them stays if a rule
derives it from facts that come before it in an order, for then it does not stand on itself in a
circle; else it goes, and what was derived from it is a candidate next (`UnsupportedFacts`). Of
sets the order is that in which facts were derived; best values (aggregate_maintenance.py) have
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.layout import Layout, Mask, Words, concatenate
from caladan.columns.relation import Batch, StoredRelation
from caladan.fixpoint.heads import PlainHead
from caladan.incremental.wiring import CliqueWiring, PreparedVariant, Wiring
from caladan.join.frontier import Bindings
from caladan.join.walk import SolutionSink
from caladan.program import thresholds

FactChange: TypeAlias = tuple[Batch, Batch]
"""What was added to a relation, and what was removed from it."""

NOTHING: Batch = ((), 0)


def take_batch(head: PlainHead) -> Batch:
    """The distinct facts that a head has collected; it is empty afterwards."""
    relation = head.relation
    if not relation.flip():
        return NOTHING
    batch = relation.delta()
    relation.clear()
    return batch


def those(batch: Batch, keep: Mask) -> Batch:
    """Some facts of a batch."""
    columns, rows = batch
    if keep.all():
        return batch
    return tuple(column[keep] for column in columns), int(np.count_nonzero(keep)) if rows else 0


def list_facts(relation: Layout) -> Batch:
    """All facts of a relation."""
    columns: tuple[Words, ...] = concatenate(relation.blocks(), relation.arity)
    return columns, len(columns[0]) if columns else relation.count()


def sink_of(each: PreparedVariant, head: PlainHead) -> SolutionSink:
    """Where the solutions of a variant go."""
    return head.sink(each.rule, each.plan, ())


class TooMuchGoneError(Exception):
    """A repair would cost more than an evaluation."""


class DeletionCandidates(Protocol):
    """What may have to go: solutions with a fact that is gone lead to it."""

    def sink(self, each: PreparedVariant) -> SolutionSink:
        """Where such solutions go."""
        ...

    def suspects(self) -> Batch:
        """The facts of the relation that they derived; nothing is a candidate afterwards."""
        ...

    def clear(self) -> None:
        """Nothing is a candidate."""
        ...


class FactCandidates:
    """Of a set: the facts themselves."""

    def __init__(self, head: PlainHead, relation: StoredRelation) -> None:
        self._head = head
        self._relation = relation

    def sink(self, each: PreparedVariant) -> SolutionSink:
        """Where such solutions go."""
        return sink_of(each, self._head)

    def suspects(self) -> Batch:
        """Those that are there."""
        batch = take_batch(self._head)
        return those(batch, self._relation.contains(batch[0])) if batch[1] else batch

    def clear(self) -> None:
        """Nothing is a candidate."""
        self._head.relation.clear()


SortFacts: TypeAlias = Callable[[str, Sequence[Words], int], NDArray[Any]]
"""Numbers of facts of a relation: one derived from facts with smaller ones stands not on itself."""


class UnsupportedFacts:
    """What a clique loses: candidates that nothing supports, and what was derived from these."""

    def __init__(
        self,
        wiring: Wiring,
        made: CliqueWiring,
        candidates: Mapping[str, DeletionCandidates],
        order: SortFacts,
    ) -> None:
        self._relations = {name: wiring.relations[name] for name in made.clique.relations}
        self._candidates = candidates
        self._supported = {name: wiring.head(name) for name in self._relations}
        self._losing = [wiring.prepared(each) for each in made.losing]
        self.supporting = [wiring.prepared(each) for each in made.supporting]
        self._sinks = {each: candidates[each.rule.rule.head].sink(each) for each in self._losing}
        self._proofs = {
            each: Proof(wiring, each, self._supported[each.rule.rule.head], order).sink
            for each in self.supporting
        }
        self._counted = [*self._sinks.values(), *self._proofs.values()]

    def find(self, changed: Mapping[str, FactChange]) -> None:
        """Let go of what had a solution with a fact that is gone, unless something supports it.

        Evaluating the clique anew is taken to cost what a few solutions for each fact cost. Where
        this goes through more of them, or many facts go, TooMuchGoneError asks for that instead.
        """
        facts = sum(relation.count() for relation in self._relations.values())
        least = thresholds.now.recompute_least
        spent = -sum(sink.count for sink in self._counted)

        def check() -> None:
            if spent + sum(sink.count for sink in self._counted) > facts + least:
                raise TooMuchGoneError

        for each in self._losing:
            if (change := changed.get(each.variant.relation)) is not None:
                batch = change[0] if each.variant.negated else change[1]
                if batch[1]:
                    each.run(self._sinks[each], batch, check)
        if not spent + sum(sink.count for sink in self._counted):
            return
        gone = 0
        while True:
            lost: dict[str, Batch] = {}
            for name in self._relations:
                batch = self._unsupported(name, check)
                if batch[1]:
                    lost[name] = batch
            if not lost:
                return
            for name, batch in lost.items():
                gone += self._relations[name].discard(*batch)
            check()
            if gone * thresholds.now.recompute > facts + least:
                raise TooMuchGoneError
            for each in self._losing:
                if (batch := lost.get(each.variant.relation)) is not None:
                    each.run(self._sinks[each], batch, check)

    def _unsupported(self, name: str, check: Callable[[], None]) -> Batch:
        """Those of a relation's candidates that are there, and have no support."""
        batch = self._candidates[name].suspects()
        if not batch[1]:
            return batch
        for each in self.supporting:
            if each.rule.rule.head == name:
                each.run(self._proofs[each], batch, check)
        supported = self._supported[name].relation
        supported.flip()
        kept = supported.contains(batch[0])
        supported.clear()
        return those(batch, ~kept)

    def clear(self) -> None:
        """A change was given up: nothing is a candidate."""
        for each in self._candidates.values():
            each.clear()
        for head in self._supported.values():
            head.relation.clear()


class Proof:
    """Which facts have a derivation from facts that come before them in an order."""

    def __init__(
        self, wiring: Wiring, each: PreparedVariant, supported: PlainHead, order: SortFacts
    ) -> None:
        self._columns = each.plan.body.columns
        self._evaluator = each.plan.evaluator
        self._order = order
        self._head = each.rule.rule.head
        self._domains = wiring.classes.columns(self._head)
        self._inside = [
            (atom, wiring.classes.columns(atom.relation)) for atom in each.variant.inside
        ]
        self._supported = supported.relation
        self.sink = (
            SolutionSink(self._take) if self._inside else supported.sink(each.rule, each.plan, ())
        )

    def _take(self, frontier: Bindings) -> None:
        columns = [
            self._evaluator.words(expression, frontier, domain)
            for expression, domain in zip(self._columns, self._domains, strict=False)
        ]
        own = self._order(self._head, columns, frontier.rows)
        good: Mask = np.ones(frontier.rows, np.bool_)
        for atom, domains in self._inside:
            words = [
                self._evaluator.words(argument, frontier, domain)
                for argument, domain in zip(atom.arguments, domains, strict=True)
            ]
            good &= self._order(atom.relation, words, frontier.rows) < own
        batch = those((tuple(columns), frontier.rows), good)
        self._supported.add(*batch)
