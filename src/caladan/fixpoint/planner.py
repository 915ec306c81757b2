"""The plans of a run's rules over the relations as they are, and the evaluation of each.

A guard is what must be there for a rule to derive anything: a delta in its seed, facts in every
other atom. A rule may read copies and parts of relations under names of their own; those are shown
as what they are of. A rule that pays to have in two (rules/factoring.py) goes by its parts.

A negated atom may look integers up by a variable of doubles. There is no order of words that
serves both, so its relation is stored once more, with those columns in the variable's domain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from types import MappingProxyType

import numpy as np

from caladan.analysis.core import CoreAtom
from caladan.columns.domains import CodedDomain, Domain, TextDomain
from caladan.columns.layout import Words
from caladan.columns.ranks import float_ranks, rank_floats
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.blueprint import describe_weights, said
from caladan.fixpoint.heads import PlainHead, RelationHead
from caladan.fixpoint.state import State
from caladan.join.arithmetic import blame_rule
from caladan.join.plan import RulePlan
from caladan.join.walk import SolutionSink
from caladan.program import Variable, thresholds
from caladan.program.events import (
    Listener,
    RuleDone,
    RulePlanned,
    RuleSearched,
    RuleSkipped,
    RunsMet,
)
from caladan.program.kinds import Kind
from caladan.rules.body import Scan, Version
from caladan.rules.delta import seed_rules
from caladan.rules.factoring import FactoredRule, split
from caladan.rules.program import DeltaClique, DeltaRule


def widened_relation(
    relation: StoredRelation, domains: Sequence[Domain], into: Mapping[int, Domain]
) -> StoredRelation:
    """The relation with some columns in other domains; doubles that are not whole go nowhere."""

    def widened(block: tuple[Words, ...]) -> tuple[list[Words], int]:
        keep = np.ones(len(block[0]), np.bool_)
        columns = list(block)
        for c, domain in into.items():
            columns[c], fits = _convert(block[c], domains[c], domain)
            keep &= fits
        return [words[keep] for words in columns], int(np.count_nonzero(keep))

    wider = [into.get(c, domain) for c, domain in enumerate(domains)]
    return StoredRelation.of(wider, map(widened, relation.blocks()))


def _convert(words: Words, source: Domain, to: Domain) -> tuple[Words, np.ndarray]:
    ranks = source.ranks(words)
    fits = np.ones(len(words), np.bool_)
    if source.kind is Kind.INTEGER and to.kind is Kind.FLOAT:
        ranks = float_ranks(ranks.astype(np.float64))
    elif source.kind is Kind.FLOAT and to.kind is Kind.INTEGER:
        numbers = rank_floats(ranks)
        with np.errstate(invalid="ignore"):
            whole = numbers.astype(np.int64)
        fits = whole.astype(np.float64) == numbers
        ranks = whole
    if to.grows:
        return to.words(ranks), fits
    assert not isinstance(to, CodedDomain | TextDomain)
    found = [to.find(int(rank)) for rank in ranks]
    fits &= np.array([word is not None for word in found], np.bool_)
    return np.array([word or 0 for word in found], np.uint32), fits


@dataclass(frozen=True, slots=True, eq=False)
class ReadyRule:
    """A rule over relations; `seeds` are those it reads the delta of, `reads` the others.

    An `idle` one is somebody else's to evaluate.
    """

    rule: DeltaRule
    plan: RulePlan
    head: RelationHead
    sink: SolutionSink
    seeds: tuple[StoredRelation, ...]
    reads: tuple[StoredRelation, ...]
    shown: Callable[[Scan], Scan]
    idle: bool = False

    def may_derive(self) -> bool:
        """The guard: whether there is something new to start from, and to join it with."""
        return (
            not self.idle
            and all(seed.delta_count() for seed in self.seeds)
            and all(relation.count() for relation in self.reads)
        )

    def evaluate(self, state: State, events: Listener) -> None:
        """Hand its solutions to the head, if there can be any."""
        number, seed = self.rule.rule.number, self.rule.seeded_by
        if not self.may_derive():
            events.tell(RuleSkipped(number, seed))
            return
        started, before = time.perf_counter(), self.sink.count
        limits, head = state.limits, self.head
        left = None if limits.max_facts is None else limits.facts_left(state.derived())
        counted_at = 0

        def check() -> None:
            nonlocal counted_at
            limits.seconds()
            # Sorting what was found takes as much again.
            needed = 2 * head.pending_bytes + self.sink.nbytes()
            limits.memory.require(needed, state.held, self.plan)
            if left is not None and head.pending_rows >= max(left, counted_at):
                limits.facts(state.derived() + head.count_pending())
                counted_at = 2 * head.pending_rows

        with blame_rule(self.rule.rule):
            self.plan.run(self.sink, check)
            self.sink.finish()
        seconds = time.perf_counter() - started
        if (steps := self.plan.news()) is not None:
            told = [said(step, self.shown) for step in steps]
            atoms, choices = self.plan.body.atoms, self.plan.choices
            events.tell(
                RulePlanned(number, seed, told, [*describe_weights(choices, atoms, self.shown)])
            )
        events.tell(RuleDone(number, seed, self.sink.count - before, seconds))
        lookups, accumulated = self.plan.lookups()
        if lookups:
            events.tell(RunsMet(number, seed, lookups, accumulated))
        by = self.plan.proposers()
        for variable, proposed, confirmed in self.plan.proposals():
            who = by.get(variable, ())
            events.tell(RuleSearched(number, seed, variable, proposed, confirmed, who))


class Planner:
    """Makes plans. `search` is the grade of the guided search for cyclic bodies, if they use it.

    Without `factoring` no relation comes in between: where all that is new between two rounds is
    to be found in the clique's own.
    """

    def __init__(self, state: State, search: str | None, *, factoring: bool = True) -> None:
        self._state = state
        self._search = search
        self._factoring = factoring

    def plan(
        self,
        rule: DeltaRule,
        atoms: Sequence[Scan] | None = None,
        copies: Mapping[str, tuple[str, StoredRelation]] = MappingProxyType({}),
    ) -> RulePlan:
        """The plan of a rule, or of what was made of one: its variables are those of the whole.

        Its atoms may be others, which read `copies`: by name, of which relation they are.
        """
        state, body = self._state, rule.body.separated
        if not self._factoring:
            body = replace(body, functions=())
        domains = state.classes.variables(rule.rule, body)
        if rule.rule.head in state.program.relations:
            head = state.classes.columns(rule.rule.head)
        else:  # in between: some of the variables
            given = rule.rule.arguments
            head = tuple(domains[each.name] for each in given if isinstance(each, Variable))

        def absent(scan: Scan) -> StoredRelation:
            relation = state.relation(scan.relation)
            if columns := scan.mismatched(body.types):
                own = state.classes.columns(scan.relation)
                into = {c: domains[name] for c, name in columns.items()}
                return widened_relation(relation, own, into)
            return relation

        def column(relation: str, column: int) -> Domain:
            known = copies.get(relation)
            return state.classes.column(relation if known is None else known[0], column)

        body = body if atoms is None else body.with_atoms(atoms)
        relations = {
            name: copies[name][1] if name in copies else state.relation(name)
            for name in dict.fromkeys(scan.relation for scan in body.atoms)
        }
        return RulePlan(body, relations, absent, domains, column, head, self._search)

    def ready(
        self,
        rule: DeltaRule,
        atoms: Sequence[Scan] | None = None,
        copies: Mapping[str, tuple[str, StoredRelation]] = MappingProxyType({}),
        *,
        idle: bool = False,
    ) -> ReadyRule:
        """A rule with its plan, its guard and its sink."""
        state = self._state
        plan = self.plan(rule, atoms, copies)
        head = state.heads[rule.rule.head]

        def relation(scan: Scan) -> StoredRelation:
            known = copies.get(scan.relation)
            return state.relation(scan.relation) if known is None else known[1]

        def shown(scan: Scan) -> Scan:
            known = copies.get(scan.relation)
            if known is None:
                info = state.program.relations.get(scan.relation)  # none of what is set aside
                whole = None if info is None else info.part_of
                return scan if whole is None else replace(scan, relation=whole)
            version = Version.FULL if rule.seed is None else scan.version
            return replace(scan, relation=known[0], version=version)

        scans = plan.body.atoms
        seeds = tuple(relation(scan) for scan in scans if scan.version is Version.DELTA)
        reads = tuple(relation(scan) for scan in scans if scan.version is not Version.DELTA)
        sink = head.sink(rule, plan, state.classes.keys(rule))
        return ReadyRule(rule, plan, head, sink, seeds, reads, shown, idle)

    # ── Rules in two parts ───────────────────────────────────────────────────────────────────────

    def recursive(self, clique: DeltaClique) -> tuple[tuple[str, ...], list[ReadyRule]]:
        """The relations to go round, some in between (`FactoredRule`), and the rules."""
        splits = self._splits(clique) if self._factoring else {}
        between = {each.relation.name: each.relation for each in splits.values()}
        members = (*clique.relations, *between)
        relations = {**self._state.program.relations, **between}
        rules: list[DeltaRule] = []
        for place, deltas in groupby(clique.delta_rules, key=lambda each: each.rule.place):
            if (parts := splits.get(place)) is None:
                rules += deltas
            else:
                rules += seed_rules(parts.inner, members, relations)
                rules += seed_rules(parts.outer, members, relations)
        return members, [self.ready(rule) for rule in rules]

    def _splits(self, clique: DeltaClique) -> dict[int, FactoredRule]:
        """The rules that go in two parts, by their places; what is in between gets a head."""
        splits: dict[int, FactoredRule] = {}
        for rule in clique.delta_rules:
            place, body = rule.rule.place, rule.body.separated
            if place not in splits and not body.widened:
                domains = self._state.classes.variables(rule.rule, body)
                found = split(
                    rule.rule, clique, self._state.program.relations,
                    lambda atom, name, domains=domains: self._is_selective(atom, domains[name]),
                )  # fmt: skip
                if found is not None:
                    splits[place] = found
                    head = PlainHead([domains[c.name] for c in found.names])
                    self._state.heads[found.relation.name] = head
        return splits

    def _is_selective(self, atom: CoreAtom, domain: Domain) -> bool:
        """Whether an atom has facts for at most half of the values of a variable."""
        return thresholds.now.selective * self._state.count(atom.relation) <= domain.size
