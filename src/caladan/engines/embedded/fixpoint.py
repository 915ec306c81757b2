"""The fixpoint: cliques in order, each round after round over what is new.

A round evaluates every delta rule whose seed has a delta and whose guard holds: a guard is a
relation that must have facts for the rule to derive any. The heads then sort out what is new.
A clique with a special structure is handed to a shape instead, if one serves it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.analysis.core import Clique, CoreAtom, CoreRule, RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.layout import Counts, Layout, Words, concatenated
from caladan.columns.relation import StoredRelation, stored
from caladan.delta.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.engines.embedded.body import Body, body_of, mismatched
from caladan.engines.embedded.classes import Classes
from caladan.engines.embedded.expressions import DivisionByZero, Overflow
from caladan.engines.embedded.factor import Split, seeded, split
from caladan.engines.embedded.heads import Head, PlainHead
from caladan.engines.embedded.limits import Limits
from caladan.engines.embedded.memory import budget
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.stoppable import run_stoppable
from caladan.engines.embedded.tiny import TinyRounds
from caladan.engines.embedded.widened import widened_relation
from caladan.engines.problems import division_by_zero, overflow
from caladan.errors import CaladanError
from caladan.events import Events
from caladan.operators.build import rule_plan
from caladan.operators.tree import Project, Scan, Unit, Version
from caladan.program import Expression, Variable

if TYPE_CHECKING:
    from caladan.engines.embedded.shapes import Shape

_WORTH_A_SHAPE: Final = 1000  # facts, below which rounds are done before a shape has started


class Evaluation:
    """A run: the relations so far, and how to go on.

    `given` has the facts from data and from the program's text, as words.
    """

    def __init__(
        self,
        program: DeltaProgram,
        bodies: Sequence[tuple[DeltaRule, Body]],
        classes: Classes,
        given: Mapping[str, Sequence[tuple[Sequence[Words], int]]],
        limits: Limits,
        events: Events,
    ) -> None:
        self._program = program
        self._bodies = {id(rule): (number, body) for number, (rule, body) in enumerate(bodies)}
        self._rule_numbers = [rule.rule.number for rule, _ in bodies]
        self._classes = classes
        self._given = given
        self._limits = limits
        self._events = events
        self._layouts: dict[str, Layout] = {}
        self._heads: dict[str, Head] = {}
        self._parts: list[DeltaRule] = []  # keeps them alive, for they are known by their id

    def layouts(self) -> dict[str, Layout]:
        """What is known of every relation."""
        unfinished = {name: head.relation for name, head in self._heads.items()}
        return {**self._layouts, **unfinished}

    def load(self, name: str) -> None:
        """Store the given facts of a relation that no rule derives."""
        relation = StoredRelation(self._classes.columns(name))
        for columns, rows in self._given.get(name, ()):
            relation.add(columns, rows)
        relation.flip()
        relation.commit()
        self._layouts[name] = relation

    def clique(self, clique: DeltaClique) -> None:
        """Derive the relations of a clique."""
        started = time.perf_counter()
        self._limits.enter(clique.relations)
        shape = self._shape(clique)
        strategy = "rounds" if shape is None else type(shape).__name__.lower()
        self._events.clique_started(clique.relations, clique.is_recursive, strategy)
        for name in clique.relations:
            self._heads[name] = self._head(name)
        for rule in clique.exit_rules:
            self._evaluate(rule, self._plan(rule))
        rounds = self._first_round(clique)
        found = None if shape is None else self._evaluate_shape(clique)
        if found is None:
            rounds = self._rounds(clique, rounds)
            found = {name: self._heads[name].finished() for name in clique.relations}
        for name in clique.relations:
            self._layouts[name] = found[name]
            del self._heads[name]
        facts = sum(self._layouts[name].count() for name in clique.relations)
        seconds = time.perf_counter() - started
        self._events.clique_done(clique.relations, rounds, facts, seconds)

    def _head(self, name: str) -> Head:
        info = self._program.relations[name]
        domains = self._classes.columns(name)
        if info.has_aggregates:
            from caladan.engines.embedded.groups import AggregateHead

            head: Head = AggregateHead(info, domains)
        else:
            head = PlainHead(domains)
        for columns, rows in self._given.get(name, ()):
            head.give(columns, rows)
        return head

    def _first_round(self, clique: DeltaClique) -> int:
        """What the exit rules derived is the first delta."""
        self._round_done(clique, 1, time.perf_counter(), clique.relations)
        return 1

    def _rounds(self, clique: DeltaClique, rounds: int) -> int:
        """Go on until nothing is new; how many rounds it took in all."""
        members, plans = self._ready(clique)
        tiny = TinyRounds(
            [self._heads[name].relation for name in members],
            [(self._heads[rule.rule.head].relation, plan) for rule, plan in plans],
            self._limits,
        )
        while plans and any(self._heads[name].relation.delta_count() for name in members):
            self._limits.rounds(rounds)
            started = time.perf_counter()
            if more := tiny.run():
                rounds += more
                total = sum(self._heads[name].relation.count() for name in clique.relations)
                seconds = time.perf_counter() - started
                self._events.round_done(rounds, total, total, seconds)
                continue
            for rule, plan in plans:
                self._evaluate(rule, plan)
            self._commit(members)
            rounds += 1
            self._round_done(clique, rounds, started, members)
        self._commit(members)
        for name in members[len(clique.relations) :]:
            del self._heads[name]
        return rounds

    def _ready(
        self, clique: DeltaClique
    ) -> tuple[tuple[str, ...], list[tuple[DeltaRule, RulePlan]]]:
        """The relations to go round, some of them in between (factor.py), and the rules' plans."""
        splits: dict[int, Split] = {}
        done: set[int] = set()
        for rule in clique.delta_rules:
            number, body = self._bodies[id(rule)]
            if id(rule.rule) not in splits and not body.has_widenings:
                found = split(
                    rule.rule, clique, self._program.relations,
                    lambda atom, name, number=number: self._is_selective(atom, name, number),
                )  # fmt: skip
                if found is not None:
                    splits[id(rule.rule)] = found
                    domains = [self._classes.variable(number, c.name) for c in found.names]
                    self._heads[found.relation.name] = PlainHead(domains)
        between = {each.relation.name: each.relation for each in splits.values()}
        members = (*clique.relations, *between)
        relations = {**self._program.relations, **between}
        plans: list[tuple[DeltaRule, RulePlan]] = []
        for rule in clique.delta_rules:
            number, _ = self._bodies[id(rule)]
            parts = splits.pop(id(rule.rule), None)
            if parts is not None:
                for part in (parts.inner, parts.outer):
                    plans += [
                        (each, self._part(each, number, relations))
                        for each in seeded(part, members, relations)
                    ]
                done.add(id(rule.rule))
            elif id(rule.rule) not in done:
                plans.append((rule, self._plan(rule)))
        return members, plans

    def _round_done(
        self, clique: DeltaClique, number: int, started: float, members: Sequence[str]
    ) -> None:
        new = self._flip(clique)
        for name in members[len(clique.relations) :]:
            self._heads[name].flip()
        total = sum(self._heads[name].relation.count() for name in clique.relations)
        self._events.round_done(number, new, total, time.perf_counter() - started)
        self._limits.facts(self._derived())

    # ── Shapes ───────────────────────────────────────────────────────────────────────────────────

    def _shape(self, clique: DeltaClique) -> Shape | None:
        """The shape of a clique; limits on rounds and facts are about rounds."""
        if self._limits.max_rounds is not None or self._limits.max_facts is not None:
            return None
        if not clique.is_recursive or self._facts_read(clique) < _WORTH_A_SHAPE:
            return None
        from caladan.engines.embedded.shapes import recognise

        # Words of different domains would be taken for the same node.
        domains = {id(d) for name in clique.relations for d in self._classes.columns(name)}
        return recognise(clique, self._program.relations) if len(domains) == 1 else None

    def _facts_read(self, clique: DeltaClique) -> int:
        """How many facts the rules of a clique read from elsewhere."""
        rules = (*clique.exit_rules, *clique.delta_rules)
        read = {scan.relation for rule in rules for scan in self._bodies[id(rule)][1].atoms}
        given = sum(rows for name in clique.relations for _, rows in self._given.get(name, ()))
        return given + sum(self._layouts[n].count() for n in read if n in self._layouts)

    def _evaluate_shape(self, clique: DeltaClique) -> dict[str, Layout] | None:
        from caladan.engines.embedded import shapes

        stop: Counts = np.zeros(1, np.int64)
        limits = shapes.Limits(budget(), os.cpu_count() or 1, stop)

        def work() -> dict[str, Layout] | None:
            return shapes.evaluate_shape(clique, self._program, self, limits)

        try:
            return run_stoppable(work, stop, self._limits.deadline)
        except shapes.Interrupted:
            self._limits.seconds()
            raise

    def exit(self, relation: str) -> tuple[Words, ...]:
        """For shapes: the distinct facts of a relation before its recursive rules."""
        return concatenated(self._heads[relation].relation.blocks(), self._arity(relation))

    def solve(self, rule: CoreRule) -> tuple[Words, ...]:
        """For shapes: the distinct head rows of a rule over finished relations."""
        plan = self._solving(rule)
        domains = [self._domain_of(rule, a, plan.body) for a in rule.arguments]
        head = PlainHead(domains)
        delta_rule = DeltaRule(rule, None, Project(Unit(), ()), (), ())
        with blamed(rule):
            plan.run(head.sink(delta_rule, plan, ()), self._limits.seconds)
        head.flip()
        return concatenated(head.relation.blocks(), len(domains))

    def _solving(self, rule: CoreRule) -> RulePlan:
        nothing = Clique((), False, 0, ())
        built = rule_plan(rule, nothing, self._program.relations)
        body = body_of(DeltaRule(rule, None, built, (), ()), self._program.relations)
        domains = {name: self._domain_of(rule, Variable(name), body) for name in body.kinds}
        return self._made(body, domains)

    def _domain_of(self, rule: CoreRule, argument: Expression, body: Body) -> Domain:
        """The domain of a variable of a rule that the shapes made of another one."""
        assert isinstance(argument, Variable)
        for scan in body.atoms:
            for column, each in enumerate(scan.arguments):
                if each == argument:
                    return self._classes.column(scan.relation, column)
        for number, known in self._bodies.values():
            if argument.name in known.kinds and self._rule_numbers[number] == rule.number:
                return self._classes.variable(number, argument.name)
        raise AssertionError(f"{argument.name} of rule {rule.number} has no domain")

    def _arity(self, relation: str) -> int:
        return self._program.relations[relation].arity

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def _flip(self, clique: DeltaClique) -> int:
        new = 0
        for name in clique.relations:
            with blamed(_aggregating(clique, name)):
                new += self._heads[name].flip()
        return new

    def _commit(self, members: Sequence[str]) -> None:
        for name in members:
            self._heads[name].relation.commit()

    def _is_selective(self, atom: CoreAtom, name: str, number: int) -> bool:
        """Whether an atom has facts for at most half of the values of a variable."""
        values = self._classes.variable(number, name).size
        return 2 * self._relation(atom.relation).count() <= values

    def _part(
        self, rule: DeltaRule, number: int, relations: Mapping[str, RelationInfo]
    ) -> RulePlan:
        """The plan of a part of a split rule; its variables are those of the whole."""
        body = body_of(rule, relations)
        domains = {name: self._classes.variable(number, name) for name in body.kinds}
        head = rule.rule.head
        known = head in self._program.relations
        own = self._classes.columns(head) if known else [
            domains[a.name] for a in rule.rule.arguments if isinstance(a, Variable)
        ]  # fmt: skip
        self._bodies[id(rule)] = (number, body)
        self._parts.append(rule)
        return self._made(body, domains, own)

    def _derived(self) -> int:
        return sum(
            layout.count()
            for name, layout in self.layouts().items()
            if name in self._program.relations and self._program.relations[name].is_derived
        )

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, rule: DeltaRule) -> RulePlan:
        number, body = self._bodies[id(rule)]
        domains = {name: self._classes.variable(number, name) for name in body.kinds}
        return self._made(body, domains, self._classes.columns(rule.rule.head))

    def _made(
        self, body: Body, domains: Mapping[str, Domain], head: Sequence[Domain] = ()
    ) -> RulePlan:
        relations = {scan.relation: self._relation(scan.relation) for scan in body.atoms}

        def absent(scan: Scan) -> StoredRelation:
            relation = self._relation(scan.relation)
            info = self._program.relations[scan.relation]
            if columns := mismatched(scan, info, body.kinds):
                own = self._classes.columns(scan.relation)
                into = {c: domains[name] for c, name in columns.items()}
                return widened_relation(relation, own, into)
            return relation

        return RulePlan(body, relations, absent, domains, self._classes.column, head)

    def _relation(self, name: str) -> StoredRelation:
        if name in self._heads:
            return self._heads[name].relation
        relation = stored(self._layouts[name], self._classes.columns(name))
        self._layouts[name] = relation
        return relation

    def _evaluate(self, rule: DeltaRule, plan: RulePlan) -> None:
        seed = None if rule.seed is None else rule.rule.atoms[rule.seed].relation
        if not self._may_derive(rule, plan.body):
            self._events.rule_skipped(rule.rule.number, seed)
            return
        started = time.perf_counter()
        _, body = self._bodies[id(rule)]
        keys = self._classes.keys(rule, body)
        sink = self._heads[rule.rule.head].sink(rule, plan, keys)
        with blamed(rule.rule):
            plan.run(sink, self._limits.seconds)
            sink.finish()
        seconds = time.perf_counter() - started
        self._events.rule_done(rule.rule.number, seed, sink.count, seconds)

    def _may_derive(self, rule: DeltaRule, body: Body) -> bool:
        """The guard: whether the seed has a delta and every other relation facts."""
        seeds = [scan.relation for scan in body.atoms if scan.version is Version.DELTA]
        if not all(self._heads[name].relation.delta_count() for name in seeds):
            return False
        return all(self._relation(name).count() for name in rule.guard)


def _aggregating(clique: DeltaClique, name: str) -> CoreRule | None:
    rules = [r.rule for r in (*clique.exit_rules, *clique.delta_rules) if r.rule.head == name]
    return next((rule for rule in rules if rule.has_aggregates), None)


@contextmanager
def blamed(rule: CoreRule | None) -> Generator[None]:
    """Turn a failure of arithmetic into a diagnostic that names the rule."""
    try:
        yield
    except DivisionByZero:
        assert rule is not None
        raise CaladanError(division_by_zero(rule)) from None
    except Overflow:
        assert rule is not None
        raise CaladanError(overflow(rule)) from None
