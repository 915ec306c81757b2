"""Repairs: how the relations of a clique follow a change of what they are derived from.

Inserts are delta rules for every atom of every rule, seeded into the same rounds as in a run. What
is lost is found first, while everything is still there to be joined with: the heads of solutions
that had a fact which is gone. Each such candidate stays if a rule derives it from facts that were
derived before it, for then it does not stand on itself in a circle; else it goes, and what was
derived from it is a candidate next. Then those that are gone are derived again where another way
leads to them, and join the inserts in the rounds. Where all facts of a clique are of one age, as
after a run by shapes, this is the delete-and-rederive of the textbooks.

If too much would go, the clique is evaluated anew and compared with what there was. That is the
last resort of every other case too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np

from caladan.columns.deletions import stamps
from caladan.columns.layout import Counts, Layout, Mask, Words, concatenated
from caladan.columns.relation import Batch, StoredRelation
from caladan.columns.rows import GroupRelation
from caladan.fixpoint.fixpoint import Fixpoint
from caladan.fixpoint.groups import AggregateHead
from caladan.fixpoint.heads import PlainHead
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.small_rounds.choice import TinyRounds
from caladan.fixpoint.wiring import CliqueWiring, Prepared, Upkeep, Wiring
from caladan.join.arithmetic import blamed
from caladan.join.frontier import Bindings
from caladan.join.plan import RulePlan
from caladan.join.walk import Sink
from caladan.program import thresholds
from caladan.rules.body import Version
from caladan.rules.program import DeltaRule
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


def wired(wiring: Wiring) -> list[Repair]:
    """A repair for every clique, in their order."""
    kinds: dict[Upkeep, type[Repaired | Regrouped | Improved | Recomputed | Renewed]] = {
        Upkeep.REPAIRED: Repaired,
        Upkeep.REGROUPED: Regrouped,
        Upkeep.IMPROVED: Improved,
        Upkeep.RECOMPUTED: Recomputed,
        Upkeep.RENEWED: Renewed,
    }
    return [kinds[each.upkeep](wiring, each) for each in wiring.cliques]


class TooMuchGoneError(Exception):
    """A repair would cost more than an evaluation."""


class Recomputed:
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
            given[name] = [_whole(kept)]
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


class Improved(Recomputed):
    """Best values in recursion: improved by what comes; what goes has them evaluated anew.

    Beside the relations, groups with the values they have, as in a run.
    """

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        self._heads: dict[str, AggregateHead] | None = None
        self._read = {
            (atom.relation, atom.negated) for each in made.gaining for atom in each.rule.atoms
        }

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
        """Improve what can be, unless something is lost."""
        del contents
        lost = any(
            changed[name][0 if negated else 1][1] for name, negated in self._read if name in changed
        )
        if anew or lost:
            self._heads = None
            self._recompute()
        else:
            self._improve(changed)
        self._tell(changed)

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        super().calm()
        self._heads = None

    def _improve(self, changed: Mapping[str, Change]) -> None:
        heads = self._wired()
        for each, sink in self._gaining:
            if (change := changed.get(each.variant.relation)) is not None:
                batch = change[1] if each.variant.negated else change[0]
                if batch[1]:
                    with blamed(each.variant.rule):
                        each.run(sink, batch)
        improved: dict[str, list[Counts]] = {name: [] for name in heads}
        number = 0
        while self._flip(heads, improved):
            number += 1
            self._wiring.limits.rounds(number)
            for seed, rule, plan, sink in self._rounds:
                if seed.relation.delta_count():
                    with blamed(rule.rule):
                        plan.run(sink, _never)
            for head in heads.values():
                head.relation.commit()
        for name, rows in improved.items():
            self._take(name, heads[name], rows)

    def _flip(self, heads: Mapping[str, AggregateHead], improved: dict[str, list[Counts]]) -> bool:
        new = False
        for name, head in heads.items():
            if head.flip():
                new = True
                assert isinstance(head.relation.body, GroupRelation)
                improved[name].append(head.relation.body.changed_rows)
        return new

    def _take(self, name: str, head: AggregateHead, rows: list[Counts]) -> None:
        """Give the relation the values of groups that have better ones."""
        if not rows:
            return
        body, relation = head.relation.body, self._wiring.relations[name]
        assert isinstance(body, GroupRelation)
        which = np.unique(np.concatenate(rows)).astype(np.uint32)
        facts: Batch = tuple(body.words(c, which) for c in range(body.arity)), len(which)
        group = head.info.group
        before = _facts_of(relation, group, (tuple(facts[0][c] for c in group), len(which)))
        relation.discard(*before)
        relation.add(*facts)
        relation.flip()
        relation.commit()

    def _wired(self) -> dict[str, AggregateHead]:
        """The groups, made of the relations when they are first needed, and plans over them."""
        if self._heads is not None:
            return self._heads
        wiring, classes = self._wiring, self._wiring.classes
        self._heads = {}
        for name, relation in zip(self._members, self.relations, strict=True):
            head = AggregateHead(wiring.program.relations[name], classes.columns(name))
            head.give(*_whole(relation))
            head.flip()
            head.relation.commit()
            self._heads[name] = head
        groups = {name: head.relation for name, head in self._heads.items()}
        gaining = [wiring.prepared(each, groups) for each in self._made.gaining]
        self._gaining = [
            (each, self._sink(each.rule, each.plan)) for each in gaining
        ]  # fmt: skip
        plans = [(rule, wiring.planned(rule, groups)) for rule in self._made.rounds]
        self._rounds = [
            (
                self._heads[rule.rule.atoms[rule.seed or 0].relation],
                rule,
                plan,
                self._sink(rule, plan),
            )
            for rule, plan in plans
        ]
        return self._heads

    def _sink(self, rule: DeltaRule, plan: RulePlan) -> Sink:
        assert self._heads is not None
        return self._heads[rule.rule.head].sink(rule, plan, ())


class Rounds(Recomputed):
    """A clique whose own delta rules go round after round."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        self._gaining = [wiring.prepared(each) for each in made.gaining]
        self._heads = {
            name: wiring.head(name, relation)
            for name, relation in zip(self._members, self.relations, strict=True)
        }
        self._sinks: dict[Prepared, Sink] = {
            each: self._sink(each, self._heads[each.rule.rule.head]) for each in self._gaining
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

    def _sink(self, each: Prepared, head: PlainHead) -> Sink:
        return head.sink(each.rule, each.plan, ())

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
                            plan.run(sink, _never)
                for relation in self.relations:
                    relation.commit()
                new = sum(relation.flip() for relation in self.relations)
        for relation in self.relations:
            relation.commit()


class Renewed(Rounds):
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
            changed[name] = (batch, _NOTHING)


class Repaired(Rounds):
    """Sets, repaired fact by fact."""

    def __init__(self, wiring: Wiring, made: CliqueWiring) -> None:
        super().__init__(wiring, made)
        self._candidates = {name: wiring.head(name) for name in self._members}
        self._supported = {name: wiring.head(name) for name in self._members}
        self._losing = [wiring.prepared(each) for each in made.losing]
        self._supporting = [wiring.prepared(each) for each in made.supporting]
        for each in self._losing:
            self._sinks[each] = self._sink(each, self._candidates[each.rule.rule.head])
        self._proofs = {
            each: Proof(wiring, each, self._supported[each.rule.rule.head]).sink
            for each in self._supporting
        }
        self._losses = [self._sinks[each] for each in self._losing]
        self._losses += self._proofs.values()
        for each in self._supporting:
            self._sinks[each] = self._sink(each, self._heads[each.rule.rule.head])

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
        """Let facts go that nothing supports any more, then derive what is new."""
        del contents
        if anew:
            self._recompute()
        else:
            try:
                self._lose(changed)
            except (TooMuchGoneError, ArithmeticError):
                # Solutions that were never there may fail to be computed.
                self._clear_pending()
                self._recompute()
            else:
                self._gain(changed)
        self._tell(changed)

    def _lose(self, changed: Mapping[str, Change]) -> None:
        """Let go of what had a solution with a fact that is gone, unless something supports it.

        Evaluating the clique anew is taken to cost what a few solutions for each fact cost. Where
        this goes through more of them, or many facts go, that is done instead.
        """
        facts = sum(relation.count() for relation in self.relations)
        least = thresholds.now.recompute_least
        spent = -sum(sink.count for sink in self._losses)

        def check() -> None:
            if spent + sum(sink.count for sink in self._losses) > facts + least:
                raise TooMuchGoneError

        for each in self._losing:
            if (change := changed.get(each.variant.relation)) is not None:
                batch = change[0] if each.variant.negated else change[1]
                if batch[1]:
                    each.run(self._sinks[each], batch, check)
        if not spent + sum(sink.count for sink in self._losses):
            return
        gone = 0
        while True:
            lost: dict[str, Batch] = {}
            for name in self._members:
                batch = self._unsupported(name, check)
                if batch[1]:
                    lost[name] = batch
            if not lost:
                return
            for name, batch in lost.items():
                gone += self._wiring.relations[name].discard(*batch)
            check()
            if gone * thresholds.now.recompute > facts + least:
                raise TooMuchGoneError
            for each in self._losing:
                if (batch := lost.get(each.variant.relation)) is not None:
                    each.run(self._sinks[each], batch, check)

    def _unsupported(self, name: str, check: Callable[[], None]) -> Batch:
        """Those of a relation's candidates that are there, and have no support."""
        batch = _taken(self._candidates[name])
        if not batch[1]:
            return batch
        batch = _where(batch, self._wiring.relations[name].contains(batch[0]))
        if not batch[1]:
            return batch
        for each in self._supporting:
            if each.rule.rule.head == name:
                each.run(self._proofs[each], batch, check)
        supported = self._supported[name].relation
        supported.flip()
        kept = supported.contains(batch[0])
        supported.clear()
        return _where(batch, ~kept)

    def _gain(self, changed: Mapping[str, Change]) -> None:
        if self._made.clique.is_recursive:
            for name, relation in zip(self._members, self.relations, strict=True):
                gone = relation.changes()[1]
                if gone[1]:
                    for each in self._supporting:
                        if each.rule.rule.head == name:
                            with blamed(each.variant.rule):
                                each.run(self._sinks[each], gone)
        for each in self._gaining:
            if (change := changed.get(each.variant.relation)) is not None:
                batch = change[1] if each.variant.negated else change[0]
                if batch[1]:
                    with blamed(each.variant.rule):
                        each.run(self._sinks[each], batch)
        self._go_round()

    def calm(self) -> None:
        """A change was given up half-way: nothing is left to be taken in."""
        super().calm()
        self._clear_pending()

    def _clear_pending(self) -> None:
        for head in (*self._candidates.values(), *self._supported.values()):
            head.relation.clear()


class Proof:
    """Which facts have a derivation from facts that were derived before them."""

    def __init__(self, wiring: Wiring, each: Prepared, supported: PlainHead) -> None:
        self._columns = each.plan.body.columns
        self._evaluator = each.plan.evaluator
        head = each.rule.rule.head
        self._domains = wiring.classes.columns(head)
        self._head = wiring.relations[head]
        self._inside = [
            (wiring.relations[atom.relation], atom, wiring.classes.columns(atom.relation))
            for atom in each.variant.inside
        ]
        self._supported = supported.relation
        self.sink = Sink(self._take) if self._inside else supported.sink(each.rule, each.plan, ())

    def _take(self, frontier: Bindings) -> None:
        columns = [
            self._evaluator.words(expression, frontier, domain)
            for expression, domain in zip(self._columns, self._domains, strict=False)
        ]
        own = self._head.ranks(columns, frontier.rows)
        good: Mask = np.ones(frontier.rows, np.bool_)
        for relation, atom, domains in self._inside:
            words = [
                self._evaluator.words(argument, frontier, domain)
                for argument, domain in zip(atom.arguments, domains, strict=True)
            ]
            good &= relation.ranks(words, frontier.rows) < own
        batch = _where((tuple(columns), frontier.rows), good)
        self._supported.add(*batch)


class Regrouped(Recomputed):
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

    def update(self, changed: dict[str, Change], contents: dict[str, Batch], *, anew: bool) -> None:
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

    def _touched(self, changed: Mapping[str, Change]) -> Batch:
        for each in self._touching:
            for batch in changed.get(each.variant.relation, ()):
                if batch[1] and self._info.group:
                    each.run(self._sinks[each], batch)
        return _taken(self._groups)

    def _regroup(self, groups: Batch) -> None:
        domains = self._wiring.classes.columns(self._name)
        head = AggregateHead(self._info, domains)
        for each in self._regrouping:
            keys = self._wiring.classes.keys(each.rule)
            with blamed(each.variant.rule):
                each.run(head.sink(each.rule, each.plan, keys), groups)
        with blamed(self._regrouping[0].variant.rule):
            head.flip()
        (relation,) = self.relations
        fresh = head.finished({})
        before = _facts_of(relation, self._info.group, groups)
        relation.discard(*_where(before, ~fresh.contains(before[0])))
        relation.add(*_whole(fresh))
        relation.flip()
        relation.commit()


_NOTHING: Batch = ((), 0)


def _taken(head: PlainHead) -> Batch:
    """The distinct facts that a head has collected; it is empty afterwards."""
    relation = head.relation
    if not relation.flip():
        return _NOTHING
    batch = relation.delta()
    relation.clear()
    return batch


def _facts_of(relation: StoredRelation, group: Sequence[int], groups: Batch) -> Batch:
    """The facts of some groups, by their columns; all of them, if there are none."""
    if not group:
        return _whole(relation)
    index = relation.index(group, Version.NEW)
    keys, lead = index.key(dict(zip(group, groups[0], strict=True)), groups[1])
    found = index.find(keys, lead).chunks(thresholds.now.room)
    blocks = (tuple(index.column(hits, c) for c in range(relation.arity)) for _, hits in found)
    columns = concatenated(blocks, relation.arity)
    return columns, len(columns[0])


def _where(batch: Batch, keep: Mask) -> Batch:
    columns, rows = batch
    if keep.all():
        return batch
    return tuple(column[keep] for column in columns), int(np.count_nonzero(keep)) if rows else 0


def _whole(relation: Layout) -> Batch:
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
            relation.discard(*_where((block, len(block[0])), ~fresh.contains(block)))
        for block in fresh.blocks():
            relation.add(*_where((block, len(block[0])), ~relation.contains(block)))
    relation.flip()
    relation.commit()


def _never() -> None:
    """Nothing to look at."""
