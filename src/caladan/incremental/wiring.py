"""Wiring: what can be decided about relations that follow their data before any of them changes.

For each clique how it is kept true, and the variants of its rules that this takes:

    repaired     sets: facts that lost a derivation go unless another one supports them
    regrouped    aggregates that are not recursive: groups that changed are added up anew
    improved     best values in recursion: what comes improves some; groups whose best value lost
                 its support have it derived again
    recomputed   the rest (sums in recursion, sorted and cut rules): evaluated anew
    renewed      derived from transient relations alone: emptied and derived at each change

`ready` then makes plans of the variants over relations, with seeds to start from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.columns.relation import Batch, StoredRelation
from caladan.fixpoint.blueprint import Blueprint
from caladan.fixpoint.heads import PlainHead, RelationHead
from caladan.fixpoint.limits import Limits
from caladan.incremental.seeds import Seed
from caladan.join.classes import Classes
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program import thresholds
from caladan.program.aggregates import is_recursive_best
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.body import Scan, Version
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.variants import (
    best_again,
    bind_groups,
    bind_head,
    given_of,
    groups_of,
    identity,
    lost,
    of_values,
    seed_by_gain,
    seed_of,
    seed_touched_groups,
)

_SEVERAL = "several best values, or one of all facts: what goes has them evaluated anew"

_PACE = 0.1  # seconds between two counts of facts and bytes

StoredRelations: TypeAlias = Mapping[str, StoredRelation]


class Upkeep(Enum):
    """How a clique is kept true."""

    REPAIRED = "repaired"
    REGROUPED = "regrouped"
    IMPROVED = "improved"
    RECOMPUTED = "recomputed"
    RENEWED = "renewed"


@dataclass(slots=True)
class Variant:
    """A variant of a rule, and what it is seeded by.

    Facts that come to `relation` seed it, or if it is `negated` those that go; for a variant that
    finds what is lost it is the other way round. `inside` are the atoms of its clique.
    """

    delta: DeltaRule
    rule: CoreRule
    relation: str
    negated: bool = False
    inside: tuple[CoreAtom, ...] = ()


@dataclass(slots=True)
class CliqueWiring:
    """A clique, how it is kept true, and the variants that takes."""

    clique: DeltaClique
    upkeep: Upkeep
    reason: str = ""
    losing: list[Variant] = field(default_factory=list[Variant])
    gaining: list[Variant] = field(default_factory=list[Variant])
    supporting: list[Variant] = field(default_factory=list[Variant])
    touching: list[Variant] = field(default_factory=list[Variant])
    regrouping: list[Variant] = field(default_factory=list[Variant])
    rounds: list[DeltaRule] = field(default_factory=list[DeltaRule])
    inputs: frozenset[str] = frozenset()


class PreparedVariant:
    """A variant with its plan."""

    def __init__(
        self,
        variant: Variant,
        plan: RulePlan,
        seed: Seed | None,
        rule: DeltaRule,
        guard: Sequence[StoredRelation],
        look: Callable[[], None],
    ) -> None:
        self._look = look
        self.variant = variant
        self.plan = plan
        self.seed = seed
        self.rule = rule
        self._guard = guard  # without facts in all of these there is no solution

    def run(
        self,
        sink: SolutionSink,
        batch: Batch | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Hand all solutions that start from some facts to a sink.

        Limits are looked at meanwhile, and `check` may raise.
        """

        def both() -> None:
            self._look()
            if check is not None:
                check()

        for relation in self._guard:
            if not relation.count():
                return
        if self.seed is not None and batch is not None:
            self.seed.put(batch)
        self.plan.run(sink, self._look if check is None else both)
        sink.finish()


class Wiring:
    """The wiring of a program."""

    def __init__(
        self,
        program: DeltaProgram,
        plan: Blueprint,
        transient: frozenset[str],
        options: Options,
        listener: Listener,
    ) -> None:
        self.program = program
        self.plan = plan
        self.options = options
        self.listener = listener
        self.variants: list[DeltaRule] = []
        self._derived = [name for clique in program.cliques for name in clique.relations]
        self._places = count(1 + max((rule.rule.place for rule in program.rules), default=0))
        derived = {name for clique in program.cliques for name in clique.relations}
        infos = program.relations
        self.givens = {given_of(infos[name]).name: name for name in derived}
        made = [kind(info) for info in infos.values() for kind in (seed_of, groups_of)]
        made += [given_of(infos[name]) for name in derived]
        made += [_seed_of_given(infos[name]) for name in derived]
        self.aliases = {info.name: info for info in made}
        self._known: Mapping[str, RelationInfo] = {**infos, **self.aliases}
        self.transient = transient
        self.renewed = _find_renewed(program, transient)
        self.cliques = [self._clique(clique) for clique in program.cliques]
        self.stored = self._stored()

    # ── Before there are facts ───────────────────────────────────────────────────────────────────

    def _clique(self, clique: DeltaClique) -> CliqueWiring:
        rules = _rules(clique)
        upkeep, reason = self._upkeep(clique, rules)
        made = CliqueWiring(clique, upkeep, reason)
        given = [
            identity(self.program.relations[name], 0)
            for name in clique.relations
            if upkeep in (Upkeep.REPAIRED, Upkeep.IMPROVED)
        ]
        members = clique.relations
        for rule in (*rules, *given):
            match upkeep:
                case Upkeep.REPAIRED:
                    self._repaired(made, rule, members)
                case Upkeep.RENEWED:
                    self._from_transient(made, rule, members)
                case Upkeep.REGROUPED:
                    for index, atom in enumerate(rule.atoms):
                        variant = seed_touched_groups(rule, index, self._known)
                        made.touching.append(self._variant(variant, rule, atom))
                    made.regrouping.append(self._variant(bind_groups(rule, self._known), rule))
                case Upkeep.IMPROVED:
                    self._improved(made, rule, members)
                case Upkeep.RECOMPUTED:
                    pass
        if upkeep in (Upkeep.REPAIRED, Upkeep.RENEWED, Upkeep.IMPROVED):
            made.rounds = list(clique.delta_rules)
        read = {a.relation for rule in (*rules, *given) for a in rule.atoms}
        made.inputs = frozenset(read | {given_of(self._known[n]).name for n in members})
        return made

    def _upkeep(self, clique: DeltaClique, rules: Sequence[CoreRule]) -> tuple[Upkeep, str]:
        infos = self.program.relations
        if any(rule.order or rule.limit is not None for rule in rules):
            return Upkeep.RECOMPUTED, "a rule sorts or limits"
        for rule in (*clique.exit_rules, *clique.delta_rules):
            if any(scan.mismatched(rule.body.types) for scan in rule.body.absents):
                return Upkeep.RECOMPUTED, "a negated atom compares integers with doubles"
        if any(infos[name].has_aggregates for name in clique.relations):
            if clique.is_recursive and all(map(self._is_best, clique.relations)):
                return Upkeep.IMPROVED, "" if self._is_one_best(clique) else _SEVERAL
            if clique.is_recursive:
                return Upkeep.RECOMPUTED, "sums are recursive, or sets are derived with aggregates"
            if any(self._is_given(name) for name in clique.relations):
                return Upkeep.RECOMPUTED, "a relation with aggregates has facts of its own"
            return Upkeep.REGROUPED, ""
        if self.renewed.issuperset(clique.relations):
            return Upkeep.RENEWED, ""
        return Upkeep.REPAIRED, ""

    def _is_best(self, name: str) -> bool:
        functions = [f for f in self.program.relations[name].aggregates if f is not None]
        return bool(functions) and all(map(is_recursive_best, functions))

    def _is_one_best(self, clique: DeltaClique) -> bool:
        """Whether one best value for each group is all there is, and all are compared alike."""
        infos = [self.program.relations[name] for name in clique.relations]
        functions = [f for info in infos for f in info.aggregates if f is not None]
        return len(functions) == len(infos) and len(set(functions)) == 1 and all(
            info.group for info in infos
        )  # fmt: skip

    def _is_given(self, name: str) -> bool:
        return self.program.relations[name].takes_data or bool(self.program.facts.get(name))

    def _repaired(self, made: CliqueWiring, rule: CoreRule, members: Sequence[str]) -> None:
        for index, atom in enumerate(rule.atoms):
            made.losing.append(self._variant(lost(rule, index, self._known), rule, atom))
            if atom.relation not in members:
                variant = seed_by_gain(rule, index, self._known)
                made.gaining.append(self._variant(variant, rule, atom))
        support, inside = bind_head(rule, self._known, members)
        made.supporting.append(self._variant(support, rule, None, inside))

    def _improved(self, made: CliqueWiring, rule: CoreRule, members: Sequence[str]) -> None:
        for index, atom in enumerate(rule.atoms):
            if not made.reason:
                made.losing.append(self._variant(lost(rule, index, self._known), rule, atom))
            if atom.relation not in members:
                variant = seed_by_gain(rule, index, self._known)
                made.gaining.append(self._variant(variant, rule, atom))
        if not made.reason:
            support, inside = bind_head(of_values(rule, self._known), self._known, members)
            made.supporting.append(self._variant(support, rule, None, inside))
            made.regrouping.append(self._variant(best_again(rule, self._known), rule))

    def _from_transient(self, made: CliqueWiring, rule: CoreRule, members: Sequence[str]) -> None:
        """A rule that reads transient relations starts from one of them, unless it goes round."""
        if any(atom.relation in members for atom in rule.positive):
            return
        brief = self.transient | self.renewed
        index = next(
            i for i, a in enumerate(rule.atoms) if not a.negated and a.relation in brief
        )  # fmt: skip
        variant = seed_by_gain(rule, index, self._known)
        made.gaining.append(self._variant(variant, rule, rule.atoms[index]))

    def _variant(
        self,
        variant: DeltaRule,
        rule: CoreRule,
        atom: CoreAtom | None = None,
        inside: tuple[CoreAtom, ...] = (),
    ) -> Variant:
        made = replace(variant, rule=replace(variant.rule, place=next(self._places)))
        self.variants.append(made)
        if atom is None:
            return Variant(made, rule, rule.head, False, inside)
        return Variant(made, rule, atom.relation, atom.negated, inside)

    def _stored(self) -> frozenset[str]:
        """The transient relations that are read otherwise than as a seed of what is renewed."""
        read: set[str] = set()
        for each in self.cliques:
            if each.upkeep is not Upkeep.RENEWED:
                read |= each.inputs
                continue
            for rule in (*(variant.delta for variant in each.gaining), *each.rounds):
                read |= {*rule.body.read}
        return frozenset(read & self.transient)

    # ── Over relations ───────────────────────────────────────────────────────────────────────────

    def ready(
        self, classes: Classes, relations: Mapping[str, StoredRelation], limits: Limits
    ) -> None:
        """The relations that variants are about."""
        self.classes = classes
        self.relations = relations
        self.limits = limits
        self._next_look = 0.0
        self.seeds = {name: Seed(info.arity) for name, info in self.aliases.items()}

    def restart(self) -> None:
        """A change begins: what it leads to may take as long as a run."""
        self.limits.restart()
        self._next_look = time.monotonic() + _PACE

    def look(self) -> None:
        """Stop if a limit is reached; facts and bytes are counted now and then."""
        self.limits.seconds()
        if time.monotonic() > self._next_look:
            self._count()
            self._next_look = time.monotonic() + _PACE

    def facts_left(self) -> int | None:
        """How many more facts are too many."""
        if self.limits.max_facts is None:
            return None
        return self.limits.facts_left(sum(self.relations[n].count() for n in self._derived))

    def collecting(
        self, head: RelationHead, sink: SolutionSink, known: int = 0
    ) -> Callable[[], None]:
        """What to look at while solutions are collected beside the relations.

        Of the facts that these are of, so many may be `known`, and about to go.
        """

        def check() -> None:
            relations = self.relations
            try:
                needed = 2 * head.pending_bytes + sink.nbytes()
                self.limits.memory.require(needed, lambda: relations)
            except MemoryError:
                raise self.limits.out_of_memory() from None
            most = self.limits.max_facts
            if most is not None and head.pending_rows > most + known:
                self.limits.facts(head.count_pending() - known)

        return check

    def _count(self) -> None:
        limits, relations = self.limits, self.relations
        pending = sum(each.pending_bytes for each in relations.values())
        try:
            limits.memory.settle(lambda: relations)
            limits.memory.require(2 * pending, lambda: relations)
        except MemoryError:
            raise limits.out_of_memory() from None
        derived, most = [relations[name] for name in self._derived], limits.max_facts
        if most is not None and sum(r.count() + r.pending_rows for r in derived) > most:
            limits.facts(sum(r.count() + r.count_pending() for r in derived))

    def prepared(
        self, variant: Variant, instead: StoredRelations = MappingProxyType({})
    ) -> PreparedVariant:
        """A variant with a plan; the indexes that it looks things up in are made."""
        plan = self.planned(variant.delta, instead)
        seeds = (s.relation for s in variant.delta.body.atoms if s.version is Version.DELTA)
        alias = next(seeds, None)
        seed = None if alias is None else self.seeds[alias]
        if alias is not None and seed is not None:
            seed.put(self._sample(self.aliases[alias]))
        for step in plan.steps():
            step.prepare()
        if seed is not None:
            seed.put(((), 0))
        atoms = variant.delta.body.atoms
        others = dict.fromkeys(s.relation for s in atoms if s.version is Version.NEW)
        guard = [self.relations[name] for name in others]
        return PreparedVariant(variant, plan, seed, variant.delta, guard, self.look)

    def _sample(self, alias: RelationInfo) -> Batch:
        """Some facts, for the order of a plan to be measured on."""
        origin = self.program.relations[alias.origin]
        facts = self.relations[alias.origin].head(thresholds.now.sample)
        names = [column.name for column in origin.columns]
        columns = tuple(facts[names.index(column.name)] for column in alias.columns)
        return columns, len(facts[0]) if facts else 0

    def planned(self, rule: DeltaRule, instead: StoredRelations = MappingProxyType({})) -> RulePlan:
        """A plan of a rule over the incremental relations, or others in the place of some."""
        body = rule.body.separated
        domains = self.classes.variables(rule.rule, body)
        relations = {scan.relation: self._relation(scan) for scan in body.atoms}
        relations |= {name: other for name, other in instead.items() if name in relations}
        head = self.classes.columns(rule.rule.head)
        return RulePlan(
            body, relations, self._relation, domains, self.classes.column, head, steady=True
        )  # pyright: ignore[reportArgumentType]

    def head(self, name: str, relation: StoredRelation | None = None) -> PlainHead:
        """A head that collects facts of a relation, in that relation or in one of its own."""
        head = PlainHead(self.classes.columns(name))
        if relation is not None:
            head.relation = relation
        return head

    def _relation(self, scan: Scan) -> StoredRelation:
        if scan.relation in self.seeds and scan.relation not in self.relations:
            return self.seeds[scan.relation]  # pyright: ignore[reportReturnType]
        return self.relations[scan.relation]


def _rules(clique: DeltaClique) -> list[CoreRule]:
    """The rules of a clique, each once."""
    every = [each.rule for each in (*clique.exit_rules, *clique.delta_rules)]
    return list({rule.place: rule for rule in every}.values())


def _seed_of_given(info: RelationInfo) -> RelationInfo:
    seed = seed_of(given_of(info))
    return replace(seed, origin=info.name)


def _find_renewed(program: DeltaProgram, transient: frozenset[str]) -> frozenset[str]:
    """What is derived from transient relations alone, and read by nothing else."""
    if not transient:
        return frozenset()
    found = {
        name
        for clique in program.cliques
        for name in clique.relations
        if not any(program.relations[n].has_aggregates for n in clique.relations)
        and not any(program.relations[n].takes_data for n in clique.relations)
        and not any(program.facts.get(n) for n in clique.relations)
    }
    while True:
        out = set(_find_lasting(program, transient, found))
        if not out:
            return frozenset(found)
        found -= out


def _find_lasting(
    program: DeltaProgram, transient: frozenset[str], found: set[str]
) -> Iterator[str]:
    """Those of some relations that are derived from others too, or read for others."""
    for clique in program.cliques:
        rules = _rules(clique)
        inside = found.issuperset(clique.relations)
        for rule in rules:
            read = {atom.relation for atom in rule.atoms}
            brief = any(
                a.relation in transient or a.relation in found or a.relation in clique.relations
                for a in rule.positive
            )
            if not inside or rule.order or rule.limit is not None:
                yield from read & found
                yield from found.intersection(clique.relations)
            elif not brief:
                yield from found.intersection(clique.relations)
