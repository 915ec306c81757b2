"""The relations and rules of a clique, as a task has them while certain values are split.

`MeshInputs` is what goes in, encoded: the same in every task, whatever part of it the task has.
`move` places what tasks have anew, when other values are split.

A delta rule reads copies of the clique's relations. One whose facts fan out by heavy values is
there twice: for the others, wherever a fact is owned; and for the heavy ones in every task, over
its share of what they find. Exit rules are shared out: every task evaluates them for its share of
one atom's facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from caladan.columns.domains import Domain
from caladan.columns.layout import Mask, Words
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.checkpoint import fingerprint
from caladan.engines.spark.mesh.groups import GroupMember
from caladan.engines.spark.mesh.members import Member, MemberPlace, PlainMember
from caladan.engines.spark.mesh.messages import (
    Connections,
    TaskStatus,
    Verdict,
    batches_of,
    merge_sections,
    message,
)
from caladan.engines.spark.mesh.placement import (
    Copy,
    Placement,
    RuleBody,
    place_in_first,
    placement,
)
from caladan.engines.spark.mesh.shuffle import RowBatch, Slot, Slots
from caladan.engines.spark.mesh.skew import (
    Fan,
    HeavyValues,
    SkewInputs,
    SkewLimits,
    heavy_values,
)
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.blueprint import blueprint
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.planner import Planner, ReadyRule
from caladan.fixpoint.state import State
from caladan.join.classes import Classes
from caladan.program import Constant
from caladan.rules.body import Body, Scan, Version
from caladan.rules.program import DeltaProgram, DeltaRule

_ENOUGH: Final = 64  # facts for each task that make an atom worth sharing out


class MeshInputs:
    """The rules of a clique and the facts that go into it.

    `base` are the finished relations, `facts` what relations of the clique have from the start, as
    columns with their length; `heavy` are the values that are heavy as far as all that tells.
    `state` and `planner` are those of the run; `search` is the grade of the guided search that
    cyclic bodies go through, if they should.
    """

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        splitting: SkewLimits,
        tasks: int,
        limits: Limits,
        search: str | None = None,
    ) -> None:
        (self.clique,) = program.cliques
        self.program = program
        self.rules = (*self.clique.exit_rules, *self.clique.delta_rules)
        self.classes = Classes(program)
        words = self.classes.encode(tables)
        encoded = {name: [(columns, tables[name].num_rows)] for name, columns in words.items()}
        self.state = State(program, self.classes, encoded, limits, blueprint(program).orders)
        self.planner = Planner(self.state, search, factoring=False)
        self.base: dict[str, StoredRelation] = {}
        for name in program.relations:
            if name not in self.clique.relations:
                self.state.load(name)
                self.base[name] = self.state.relation(name)
        self.own = {name: program.relations[name] for name in self.clique.relations}
        self.recursive = [RuleBody.of(rule) for rule in self.clique.delta_rules]
        exits = [(rule.rule.head, rule.body.separated) for rule in self.clique.exit_rules]
        inputs = SkewInputs(words, exits, self.recursive, self.own, self.classes.column)
        self.heavy: HeavyValues = heavy_values(inputs, splitting, tasks)
        self.facts = {
            name: (words[name], tables[name].num_rows) for name in self.own if name in words
        }

    def domains(self) -> Iterator[tuple[tuple[str, int], Domain]]:
        """The domains that columns have, each once, with one of these columns."""
        seen: set[Domain] = set()
        for name, info in sorted(self.program.relations.items(), key=lambda item: item[0]):
            for column in range(info.arity):
                domain = self.classes.column(name, column)
                if domain not in seen:
                    seen.add(domain)
                    yield (name, column), domain

    def fingerprint(self, *settings: object) -> str:
        """What a checkpoint belongs to; before `facts` are gone."""
        given: dict[str, StoredRelation] = dict(self.base)
        for name, (columns, rows) in self.facts.items():
            given[name] = StoredRelation.of(self.classes.columns(name), [(columns, rows)])
        relations = {name: (each, self.classes.columns(name)) for name, each in given.items()}
        return fingerprint(self.program, relations, *settings)


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


def split_by_values(
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
    return commit(found), commit(others)


def commit(relation: StoredRelation) -> StoredRelation:
    """A relation whose delta has become old."""
    relation.commit()
    return relation


class ShardRules:
    """What task `me` of `tasks` has of what is given, once it is decided which values are split.

    If all is gathered the first task has everything, and its rules are those of the whole clique;
    the rules here only say what there is to be moved and saved.
    """

    def __init__(
        self,
        given: MeshInputs,
        me: int,
        tasks: int,
        heavy: HeavyValues,
        *,
        is_gathered: bool = False,
    ) -> None:
        self.given, self.heavy, self.is_gathered = given, heavy, is_gathered
        self.me, self.tasks = me, tasks
        fans: dict[int, Fan] = {}
        if is_gathered:
            self.placement: Placement = place_in_first(given.own)
        else:
            found = ((rule.rule, heavy.fan(rule, given.own)) for rule in given.recursive)
            fans = {rule: fan for rule, fan in found if fan is not None}
            copies = [fan.copy for fan in fans.values()]
            self.placement = placement(given.recursive, given.own, heavy.has, copies)
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
        domains = tuple(self.given.classes.columns(name))
        heavy = self.heavy.within
        place = MemberPlace(domains, owner, others, self.slots, heavy, self.me, self.tasks)
        return GroupMember(info, place) if info.has_aggregates else PlainMember(place)

    def _recursive(self, rule: DeltaRule, fan: Fan | None) -> Iterator[ReadyRule]:
        """A delta rule, over the copies that it reads; once more for facts that fan out."""
        if fan is None:
            yield self._over(rule, {}, None)
            return
        scan = rule.body.separated.atoms[fan.atom]
        domains = self.given.classes.columns(scan.relation)
        values = self.heavy.of(scan.relation, fan.column)
        assert values is not None
        heavy, light = split_by_values(self.given.base[scan.relation], domains, fan.column, values)
        mine = commit(share(heavy, domains, self.me, self.tasks))
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
        shared = None if self.is_gathered else shared_atom(body, base, self.tasks)
        if shared is None:
            return self.given.planner.ready(rule, idle=self.me > 0)
        scan = body.atoms[shared]
        domains = self.given.classes.columns(scan.relation)
        name = f"{scan.relation}@share"
        mine = share(base[scan.relation], domains, self.me, self.tasks)
        atoms = list(body.atoms)
        atoms[shared] = replace(scan, relation=name, version=Version.DELTA)
        return self.given.planner.ready(rule, atoms, {name: (scan.relation, mine)})


def move(
    sources: Iterable[ShardRules],
    target: ShardRules,
    exchange: Connections,
    beat: Callable[[], None],
) -> None:
    """Place what this task has, in one exchange with all others; `target` has nothing yet."""
    slots = Slots()
    arrivals = {name: member.arrivals(slots) for name, member in target.members.items()}
    going: list[list[tuple[Slot, RowBatch]]] = [[] for _ in range(target.tasks)]
    for source in sources:
        for name, member in source.members.items():
            for kind, batch in member.contents():
                for slot in arrivals[name].slots[kind]:
                    for task, part in enumerate(slot.spread.split(batch, target.tasks)):
                        if part is not None and part.rows:
                            going[task].append((slot, part))
                    beat()
    mine, going[target.me] = going[target.me], []
    standing = TaskStatus(0, 0, 0, 0, Verdict.GO_ON)
    came = exchange.exchange([message(standing, merge_sections(sections)) for sections in going])
    for slot, batch in mine:
        slot.receive(batch)
    for data in came:
        for slot, batch in batches_of(data, slots) if data is not None else ():
            slot.receive(batch)
    for each in arrivals.values():
        each.settle()
        beat()
