"""The relations and rules of a clique, as a task has them while certain values are split.

A delta rule reads copies of the clique's relations. One whose facts fan out by heavy values is
there twice: for the others, wherever a fact is owned; and for the heavy ones in every task, over
its share of what they find. Exit rules are shared out: every task evaluates them for its share of
one atom's facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.layout import Mask, Words
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.groups import GroupMember
from caladan.engines.spark.mesh.inputs import MeshInputs
from caladan.engines.spark.mesh.members import Member, PlainMember
from caladan.engines.spark.mesh.placement import Copy, Placement, RuleBody, placement
from caladan.engines.spark.mesh.shuffle import Slots
from caladan.engines.spark.mesh.skew import Fan, HeavyValues
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.rules import ReadyRule
from caladan.program import Constant
from caladan.rules.body import Body, Scan, Version
from caladan.rules.program import DeltaRule

_ENOUGH: Final = 64  # facts for each task that make an atom worth sharing out


def shared_atom(body: Body, base: Mapping[str, StoredRelation], tasks: int) -> int | None:
    """The atom to be shared out: the smallest that is large enough, without constants."""
    sizes = {
        i: base[scan.relation].count()
        for i, scan in enumerate(body.atoms)
        if not any(isinstance(a, Constant) for a in scan.arguments)
    }
    large = [i for i, size in sizes.items() if size >= _ENOUGH * tasks]
    if tasks == 1 or not large or body.cut is not None:
        return None
    return min(large, key=sizes.__getitem__)


def share(
    relation: StoredRelation, domains: Sequence[Domain], me: int, tasks: int
) -> StoredRelation:
    """Every so manieth fact of a finished relation, as a delta."""
    found = StoredRelation(domains)
    if isinstance(relation.body, PackedRelation) and relation.packed() is not None:
        target = found.packed()
        assert target is not None
        for run in relation.body.base.runs:
            target.add_keys(run.keys[me::tasks].copy())
    else:
        for block in relation.blocks():
            mine = [column[me::tasks].copy() for column in block]
            found.add(mine, len(mine[0]) if mine else 1)
    found.flip()
    return found


def parted(
    relation: StoredRelation, domains: Sequence[Domain], column: int, values: Words
) -> tuple[StoredRelation, StoredRelation]:
    """The facts of a finished relation that have one of these values in a column; the others."""
    found, others = StoredRelation(domains), StoredRelation(domains)
    for block in relation.blocks():
        mask: Mask = np.isin(block[column], values)
        for target, rows in ((found, mask), (others, ~mask)):
            target.add([words[rows] for words in block], int(rows.sum()))
    found.flip()
    others.flip()
    return committed(found), committed(others)


def committed(relation: StoredRelation) -> StoredRelation:
    """A relation whose delta has become old."""
    relation.commit()
    return relation


class ShardRules:
    """What task `me` of `tasks` has of what is given, once it is decided which values are split."""

    def __init__(self, given: MeshInputs, me: int, tasks: int, heavy: HeavyValues) -> None:
        self.given, self.heavy = given, heavy
        self.me, self.tasks = me, tasks
        fans = {rule.rule: fan for rule in given.recursive if (fan := heavy.fan(rule, given.own))}
        self.placement: Placement = placement(
            given.recursive, given.own, heavy.has, [fan.copy for fan in fans.values()]
        )
        self.slots = Slots()
        self.members = {name: self._member(name) for name in given.own}
        self.enter()
        self.exits = [self._exit(rule) for rule in given.clique.exit_rules]
        self.rules: list[ReadyRule] = []
        for rule in given.clique.delta_rules:
            self.rules += self._recursive(rule, fans.get(rule.rule.place))

    def enter(self) -> None:
        """Have these relations be those of the run."""
        state = self.given.state
        state.heads = dict(self.members)
        state.copies = {
            name: each for member in self.members.values() for name, each in member.copies.items()
        }

    def shelves(self) -> Iterator[SnapshotSection]:
        """What there is to be saved between two rounds, in the order in which it is put back."""
        for member in self.members.values():
            yield from member.shelves()

    def _member(self, name: str) -> Member:
        info = self.given.own[name]
        owner = self.placement.owners[name]
        others = [copy for copy in self.placement.others if copy.relation == name]
        domains = self.given.classes.columns(name)
        rest = (domains, owner, others, self.slots, self.heavy.within, (self.me, self.tasks))
        return GroupMember(info, *rest) if info.has_aggregates else PlainMember(*rest)

    def _recursive(self, rule: DeltaRule, fan: Fan | None) -> Iterator[ReadyRule]:
        """A delta rule, over the copies that it reads; once more for facts that fan out."""
        if fan is None:
            yield self._over(rule, {}, None)
            return
        scan = rule.body.separated.atoms[fan.atom]
        domains = self.given.classes.columns(scan.relation)
        values = self.heavy.of(scan.relation, fan.column)
        assert values is not None
        heavy, light = parted(self.given.base[scan.relation], domains, fan.column, values)
        mine = committed(share(heavy, domains, self.me, self.tasks))
        yield self._over(rule, {fan.atom: (f"{scan.relation}@light", light)}, None)
        yield self._over(rule, {fan.atom: (f"{scan.relation}@heavy", mine)}, fan.copy)

    def _over(
        self,
        rule: DeltaRule,
        instead: Mapping[int, tuple[str, StoredRelation]],
        seeded: Copy | None,
    ) -> ReadyRule:
        """A delta rule that reads other relations instead of some atoms, seeded by some copy."""
        known = RuleBody.of(rule)
        copies: dict[str, tuple[str, StoredRelation]] = {}
        atoms: list[Scan] = []
        for number, scan in enumerate(known.body.atoms):
            if scan.version is not Version.FULL:
                copy = seeded or self.placement.read(known, scan)
                name, relation = copy.name, self.members[scan.relation].reading(copy)
            elif number in instead:
                name, relation = instead[number]
            else:
                atoms.append(scan)
                continue
            copies[name] = (scan.relation, relation)
            atoms.append(replace(scan, relation=name))
        return self.given.planner.ready(rule, atoms, copies)

    def _exit(self, rule: DeltaRule) -> ReadyRule:
        """An exit rule, over this task's share of an atom; what is not shared the first does."""
        body, base = rule.body.separated, self.given.base
        shared = shared_atom(body, base, self.tasks)
        if shared is None:
            return self.given.planner.ready(rule, idle=self.me > 0)
        scan = body.atoms[shared]
        domains = self.given.classes.columns(scan.relation)
        name = f"{scan.relation}@share"
        mine = share(base[scan.relation], domains, self.me, self.tasks)
        atoms = list(body.atoms)
        atoms[shared] = replace(scan, relation=name, version=Version.DELTA)
        return self.given.planner.ready(rule, atoms, {name: (scan.relation, mine)})
