"""Rules of a part, ready to run: each over the copies and shares that it reads here.

A delta rule reads copies of the clique's relations, an exit rule this task's share of one atom. A
rule whose facts fan out by heavy values is there twice: for the others, wherever a fact is owned;
and for the heavy ones in every task, over its share of what they find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from caladan.analysis.core import RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.relation import StoredRelation
from caladan.delta.program import DeltaRule
from caladan.engines.embedded.body import Body, mismatched
from caladan.engines.embedded.classes import Classes
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.walk import Sink
from caladan.engines.embedded.widened import widened_relation
from caladan.engines.spark.mesh.heavy import Fan, HeavyValues
from caladan.engines.spark.mesh.members import Member
from caladan.engines.spark.mesh.placement import Copy, Placement, RuleBody, origins
from caladan.engines.spark.mesh.shares import committed, parted, share, shared_atom
from caladan.operators.tree import Scan, Version

_SHARE: Final = "share@"


@dataclass(slots=True)
class Ready:
    """A rule that is ready to run, and what it has done."""

    rule: DeltaRule
    plan: RulePlan
    reads: tuple[StoredRelation, ...]
    seed: StoredRelation | None
    sink: Sink
    idle: bool
    seconds: float = 0.0

    def may_derive(self) -> bool:
        """Whether there is something new to start from, and something to join it with."""
        if self.idle or (self.seed is not None and not self.seed.delta_count()):
            return False
        return all(relation.count() for relation in self.reads)


class Rules:
    """Makes the rules of task `me` of `tasks` ready; `rules` are all of them, in their order."""

    def __init__(
        self,
        relations: Mapping[str, RelationInfo],
        classes: Classes,
        rules: Sequence[DeltaRule],
        base: Mapping[str, StoredRelation],
        members: Mapping[str, Member],
        placement: Placement,
        heavy: HeavyValues,
        fans: Mapping[int, Fan],
        me: int,
        tasks: int,
        search: str | None = None,
    ) -> None:
        self._search = search
        self._relations = relations
        self._classes = classes
        self._numbers = {id(rule): number for number, rule in enumerate(rules)}
        self._origins = origins(rules)
        self._base, self._members, self._placement = base, members, placement
        self._heavy, self._fans = heavy, fans
        self._me, self._tasks = me, tasks

    def recursive(self, rule: DeltaRule, body: Body) -> Iterator[Ready]:
        """A delta rule, over the copies that it reads; once more for facts that fan out."""
        fan = self._fans.get(self._origins[id(rule)])
        if fan is None:
            yield self._over(rule, body, {}, None)
            return
        scan = body.atoms[fan.atom]
        domains = self._classes.columns(scan.relation)
        values = self._heavy.of(scan.relation, fan.column)
        assert values is not None
        heavy, light = parted(self._base[scan.relation], domains, fan.column, values)
        mine = committed(share(heavy, domains, self._me, self._tasks))
        yield self._over(rule, body, {fan.atom: (f"{scan.relation}@light", light)}, None)
        yield self._over(rule, body, {fan.atom: (f"{scan.relation}@heavy", mine)}, fan.copy)

    def _over(
        self,
        rule: DeltaRule,
        body: Body,
        instead: Mapping[int, tuple[str, StoredRelation]],
        seeded: Copy | None,
    ) -> Ready:
        """A delta rule that reads other relations instead of some atoms, seeded by some copy."""
        known = RuleBody(self._origins[id(rule)], rule.rule.head, body)
        relations: dict[str, StoredRelation] = {}
        atoms: list[Scan] = []
        seed: StoredRelation | None = None
        for number, scan in enumerate(body.atoms):
            if scan.version is Version.FULL:
                name, relation = instead.get(number, (scan.relation, self._base[scan.relation]))
                relations[name] = relation
                atoms.append(replace(scan, relation=name))
                continue
            copy = seeded or self._placement.read(known, scan)
            relation = self._members[scan.relation].reading(copy)
            relations[copy.name] = relation
            atoms.append(replace(scan, relation=copy.name))
            if scan.version is Version.DELTA:
                seed = relation
        return self._ready(rule, body, tuple(atoms), relations, seed)

    def exit(self, rule: DeltaRule, body: Body) -> Ready:
        """An exit rule, over this task's share of an atom; what is not shared the first does."""
        relations = {scan.relation: self._base[scan.relation] for scan in body.atoms}
        shared = shared_atom(body, self._base, self._tasks)
        if shared is None:
            return self._ready(rule, body, body.atoms, relations, None, idle=self._me > 0)
        scan = body.atoms[shared]
        domains = self._classes.columns(scan.relation)
        mine = share(self._base[scan.relation], domains, self._me, self._tasks)
        name = _SHARE + scan.relation
        atoms = list(body.atoms)
        atoms[shared] = replace(scan, relation=name, version=Version.DELTA)
        return self._ready(rule, body, tuple(atoms), {**relations, name: mine}, mine)

    def _ready(
        self,
        rule: DeltaRule,
        body: Body,
        atoms: tuple[Scan, ...],
        relations: Mapping[str, StoredRelation],
        seed: StoredRelation | None,
        *,
        idle: bool = False,
    ) -> Ready:
        number = self._numbers[id(rule)]
        domains = {name: self._classes.variable(number, name) for name in body.kinds}
        plan = RulePlan(
            replace(body, atoms=atoms),
            relations,
            lambda scan: self._absent(scan, body, domains),
            domains,
            self._column,
            self._classes.columns(rule.rule.head),
            self._search,
        )
        keys = self._classes.keys(rule, body)
        sink = self._members[rule.rule.head].sink(rule, plan, keys)
        return Ready(rule, plan, tuple(relations.values()), seed, sink, idle)

    def _column(self, relation: str, column: int) -> Domain:
        """The domain of a column of a relation, a copy of one, or a share."""
        name = relation.removeprefix(_SHARE).partition("@")[0]
        return self._classes.column(name, column)

    def _absent(self, scan: Scan, body: Body, domains: Mapping[str, Domain]) -> StoredRelation:
        relation = self._base[scan.relation]
        info = self._relations[scan.relation]
        if columns := mismatched(scan, info, body.kinds):
            own = self._classes.columns(scan.relation)
            return widened_relation(relation, own, {c: domains[v] for c, v in columns.items()})
        return relation
