"""Repairs: how the relations of a clique follow a change of what they are derived from.

Inserts are delta rules for every atom of every rule, seeded into the same rounds as in a run. What
is lost is found first, while everything is still there to be joined with: the heads of solutions
that had a fact which is gone. Each such candidate stays if a rule derives it from facts that were
derived before it, for then it does not stand on itself in a circle; else it goes, and what was
derived from it is a candidate next. Then those that are gone are derived again where another way
leads to them, and join the inserts in the rounds. Where all facts of a clique are of one age, as
after a run by shapes, this is the delete-and-rederive of the textbooks.

If too much would go, the clique is evaluated anew and compared with what there was. That is the
last resort of every other case too. Aggregates are in regroup.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.layout import Layout, Mask, Words, concatenated
from caladan.columns.membership import stamps
from caladan.columns.relation import Batch, StoredRelation
from caladan.fixpoint.fixpoint import Fixpoint
from caladan.fixpoint.heads import PlainHead
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.small_rounds.choice import TinyRounds
from caladan.fixpoint.wiring import CliqueWiring, PreparedVariant, Wiring
from caladan.join.arithmetic import blamed
from caladan.join.frontier import Bindings
from caladan.join.walk import Sink
from caladan.program import thresholds
from caladan.rules.variants import given_of

Change: TypeAlias = tuple[Batch, Batch]
"""What was added to a relation, and what was removed from it."""


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

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
        """Follow changes, and add those of the clique's own relations to them.

        `contents` has the facts of transient relations; `anew` asks for an evaluation from scratch.
        """
        ...


class TooMuchGoneError(Exception):
    """A repair would cost more than an evaluation."""


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

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
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
            given[name] = [listed(kept)]
        limits = Limits(replace(wiring.options, timeout=None))
        evaluation = Fixpoint(
            wiring.plan, wiring.classes, given, limits, wiring.listener, wiring.options.search
        )
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

    def _tell(self, changed: dict[str, Change]) -> None:
        self.repairs += 1
        for name, relation in zip(self._members, self.relations, strict=True):
            added, removed = relation.changes()
            if added[1] or removed[1]:
                changed[name] = (added, removed)


class Rounds(Recomputation):
    """A clique whose own delta rules go round after round."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        self._gaining = [wiring.prepared(each) for each in made.gaining]
        self._heads = {
            name: wiring.head(name, relation)
            for name, relation in zip(self._members, self.relations, strict=True)
        }
        self._sinks: dict[PreparedVariant, Sink] = {
            each: sink_of(each, self._heads[each.rule.rule.head]) for each in self._gaining
        }
        plans = [(rule, wiring.planned(rule)) for rule in made.rounds]
        self._rounds = [
            (
                wiring.relations[rule.rule.atoms[rule.seed or 0].relation],
                rule,
                plan,
                self._heads[rule.rule.head].sink(rule, plan, ()),
            )
            for rule, plan in plans
        ]
        self._tiny = TinyRounds(
            list(self._heads.values()),
            [(self._heads[rule.rule.head], plan) for rule, plan in plans],
            Limits(replace(wiring.options, timeout=None)),
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
                if self._tiny.run(None, None)[0]:
                    new = sum(relation.delta_count() for relation in self.relations)
                    continue
                for seed, rule, plan, sink in self._rounds:
                    if seed.delta_count():
                        with blamed(rule.rule):
                            plan.run(sink, never)
                for relation in self.relations:
                    relation.commit()
                new = sum(relation.flip() for relation in self.relations)
        for relation in self.relations:
            relation.commit()


class Renewal(Rounds):
    """Derived from transient relations alone: emptied, and derived from what they hold now."""

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
        """Derive everything from transient relations."""
        del anew
        for relation in self.relations:
            relation.clear()
        for each in self._gaining:
            batch = contents.get(each.variant.relation)
            if batch is not None:
                with blamed(each.variant.rule):
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
        ages: Order = lambda name, *facts: wiring.relations[name].ranks(*facts)  # noqa: E731
        self._losses = Losses(wiring, made, candidates, ages)
        for each in self._losses.supporting:
            self._sinks[each] = sink_of(each, self._heads[each.rule.rule.head])

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
        """Let facts go that nothing supports any more, then derive what is new."""
        del contents
        if anew:
            self._recompute()
        else:
            try:
                self._losses.find(changed)
            except (TooMuchGoneError, ArithmeticError):
                # Solutions that were never there may fail to be computed.
                self._losses.clear()
                self._recompute()
            else:
                self._gain(changed)
        self._tell(changed)

    def _gain(self, changed: Mapping[str, Change]) -> None:
        if self._made.clique.is_recursive:
            for name, relation in zip(self._members, self.relations, strict=True):
                gone = relation.changes()[1]
                if gone[1]:
                    for each in self._losses.supporting:
                        if each.rule.rule.head == name:
                            with blamed(each.variant.rule):
                                each.run(self._sinks[each], gone)
        derive(self._gaining, self._sinks, changed)
        self._go_round()

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        super().calm()
        self._losses.clear()


def derive(
    gaining: Sequence[PreparedVariant],
    sinks: Mapping[PreparedVariant, Sink],
    changed: Mapping[str, Change],
) -> None:
    """What follows at once from facts that are new, or gone from a negated atom."""
    for each in gaining:
        if (change := changed.get(each.variant.relation)) is not None:
            batch = change[1] if each.variant.negated else change[0]
            if batch[1]:
                with blamed(each.variant.rule):
                    each.run(sinks[each], batch)


def sink_of(each: PreparedVariant, head: PlainHead) -> Sink:
    """Where the solutions of a variant go."""
    return head.sink(each.rule, each.plan, ())


class LossCandidates(Protocol):
    """What may have to go: solutions with a fact that is gone lead to it."""

    def sink(self, each: PreparedVariant) -> Sink:
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

    def sink(self, each: PreparedVariant) -> Sink:
        """Where such solutions go."""
        return sink_of(each, self._head)

    def suspects(self) -> Batch:
        """Those that are there."""
        batch = taken(self._head)
        return those(batch, self._relation.contains(batch[0])) if batch[1] else batch

    def clear(self) -> None:
        """Nothing is a candidate."""
        self._head.relation.clear()


Order: TypeAlias = Callable[[str, Sequence[Words], int], NDArray[Any]]
"""Numbers of facts of a relation: one derived from facts with smaller ones stands not on itself."""


class Losses:
    """What a clique loses: candidates that nothing supports, and what was derived from these."""

    def __init__(
        self,
        wiring: Wiring,
        made: CliqueWiring,
        candidates: Mapping[str, LossCandidates],
        order: Order,
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

    def find(self, changed: Mapping[str, Change]) -> None:
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
        self, wiring: Wiring, each: PreparedVariant, supported: PlainHead, order: Order
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
        self.sink = Sink(self._take) if self._inside else supported.sink(each.rule, each.plan, ())

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


NOTHING: Batch = ((), 0)


def taken(head: PlainHead) -> Batch:
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


def listed(relation: Layout) -> Batch:
    """All facts of a relation."""
    columns: tuple[Words, ...] = concatenated(relation.blocks(), relation.arity)
    return columns, len(columns[0]) if columns else relation.count()


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


def never() -> None:
    """Nothing to look at."""
