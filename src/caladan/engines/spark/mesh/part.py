"""One task's part of a clique.

All tasks have all finished relations, and encode them alike. `start` evaluates the exit rules, each
task for its share of one of their atoms; `step` evaluates the delta rules over what is new here.
Either leaves batches to be sent. `take` takes in what has come, and decides what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from caladan.columns.domains import Domain
from caladan.columns.layout import Words
from caladan.columns.relation import StoredRelation
from caladan.delta.program import DeltaProgram
from caladan.engines.embedded.blame import blamed
from caladan.engines.embedded.body import body_of
from caladan.engines.embedded.classes import Classes
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.spark.mesh.fingerprint import fingerprint
from caladan.engines.spark.mesh.grouped import GroupMember
from caladan.engines.spark.mesh.heavy import Inputs, Splitting, heavy_values
from caladan.engines.spark.mesh.members import Member, Slots
from caladan.engines.spark.mesh.placement import Placement, RuleBody, placement
from caladan.engines.spark.mesh.plain import PlainMember
from caladan.engines.spark.mesh.ready import Ready, Rules
from caladan.engines.spark.mesh.shelves import Shelf
from caladan.engines.spark.mesh.slots import Batch, Slot


class Part:
    """The part of task `me` of `tasks`. `check` is called now and then, and may raise."""

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        me: int,
        tasks: int,
        check: Callable[[], None],
        splitting: Splitting = Splitting(),  # noqa: B008
    ) -> None:
        (self._clique,) = program.cliques
        self._program = program
        self._me, self.tasks = me, tasks
        self.check = check
        rules = (*self._clique.exit_rules, *self._clique.delta_rules)
        bodies = [(rule, body_of(rule, program.relations)) for rule in rules]
        self._classes = Classes(program, bodies)
        words = self._classes.encode(tables)
        self._base = {
            name: stored(
                words.get(name),
                tables[name].num_rows if name in words else 0,
                self._classes.columns(name),
            )
            for name in program.relations
            if name not in self._clique.relations
        }
        own = {name: program.relations[name] for name in self._clique.relations}
        recursive = [
            RuleBody(rule.rule.number, rule.rule.head, body)
            for rule, body in bodies
            if rule.seed is not None
        ]
        exits = [(rule.rule.head, body) for rule, body in bodies if rule.seed is None]
        inputs = Inputs(words, exits, recursive, own, self._classes.column)
        self._heavy = heavy_values(inputs, splitting, tasks)
        fans = {rule.rule: fan for rule in recursive if (fan := self._heavy.fan(rule, own))}
        self.placement: Placement = placement(
            recursive, own, self._heavy.has, [fan.copy for fan in fans.values()]
        )
        self.slots = Slots()
        self._members = {name: self._member(name) for name in own}
        made = Rules(
            program.relations, self._classes, rules, self._base, self._members,
            self.placement, self._heavy, fans, me, tasks,
        )  # fmt: skip
        self._rules: list[Ready] = []
        self._exits: list[Ready] = []
        for rule, body in bodies:
            if rule.seed is not None:
                self._rules += made.recursive(rule, body)
            else:
                self._exits.append(made.exit(rule, body))
        self._given = {n: (words[n], tables[n].num_rows) for n in self._members if n in words}
        self._aggregating = {r.rule.head: r.rule for r in rules if r.rule.has_aggregates}
        self._mine: list[tuple[Slot, Batch]] = []
        self.activity = 0
        """How many rows the last step left to be sent, to this task itself too."""
        self.new = 0
        """How many facts, or values of groups, were new when this task last took in."""
        self._before: Mapping[int, tuple[int, float]] = {}

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> list[list[tuple[Slot, Batch]]]:
        """Evaluate the exit rules; what goes to each task."""
        for name, (columns, rows) in self._given.items():
            self._members[name].give(columns, rows)
        self._given = {}
        self._run(self._exits)
        # What is given counts as active: it has no delta before everybody takes in.
        return self._leaving(1)

    def step(self) -> list[list[tuple[Slot, Batch]]]:
        """Evaluate the delta rules over what is new; what goes to each task."""
        self._run(self._rules)
        going = self._leaving(0)
        for member in self._members.values():
            member.commit()
        return going

    def take(self, batches: Iterable[tuple[Slot, Batch]]) -> None:
        """Take in what has come, this task's own too, and see what of it is new."""
        for slot, batch in self._mine:
            slot.receive(batch)
        self._mine = []
        for slot, batch in batches:
            slot.receive(batch)
        self.new = 0
        for name, member in self._members.items():
            with blamed(self._aggregating.get(name)):
                self.new += member.flip()

    @property
    def keeps_some(self) -> bool:
        """Whether this task has something to take in from itself."""
        return bool(self._mine)

    @property
    def heavy(self) -> int:
        """How many values are split."""
        return self._heavy.count

    @property
    def facts(self) -> int:
        """How many facts this task owns."""
        return sum(member.facts.count() for member in self._members.values())

    def solutions(self) -> dict[int, tuple[int, float]]:
        """By rule number, how many solutions were found here, and in how many seconds."""
        found = dict(self._before)
        for ready in (*self._exits, *self._rules):
            count, seconds = found.get(ready.rule.rule.number, (0, 0.0))
            found[ready.rule.rule.number] = (count + int(ready.sink.count), seconds + ready.seconds)
        return found

    # ── Saving ───────────────────────────────────────────────────────────────────────────────────

    def fingerprint(self, *settings: object) -> str:
        """What a checkpoint of this part belongs to; before the start."""
        given: dict[str, StoredRelation] = dict(self._base)
        for name, (columns, rows) in self._given.items():
            given[name] = stored(columns, rows, self._classes.columns(name))
        relations = {name: (each, self._classes.columns(name)) for name, each in given.items()}
        heavy = self._heavy.described(self._program.relations)
        return fingerprint(self._program, relations, self.tasks, heavy, *settings)

    def shelves(self) -> list[Shelf]:
        """What there is to be saved after taking in; also what can be put back before the start."""
        return [shelf for member in self._members.values() for shelf in member.shelves()]

    def go_on(self, new: int, solutions: Mapping[int, tuple[int, float]]) -> None:
        """Go on instead of starting, after the shelves were put back."""
        self.new, self._before, self._given = new, solutions, {}

    def owned(self, name: str) -> DerivedTable:
        """The facts of a relation that this task owns."""
        info = self._program.relations[name]
        return DerivedTable(info.columns, self._members[name].facts, self._classes.columns(name))

    def _run(self, rules: Sequence[Ready]) -> None:
        for ready in rules:
            if ready.may_derive():
                started = time.perf_counter()
                with blamed(ready.rule.rule):
                    ready.plan.run(ready.sink, self.check)
                    ready.sink.finish()
                ready.seconds += time.perf_counter() - started

    def _leaving(self, activity: int) -> list[list[tuple[Slot, Batch]]]:
        going: list[list[tuple[Slot, Batch]]] = [[] for _ in range(self.tasks)]
        for member in self._members.values():
            for slot, batch in member.leaving():
                for task, part in enumerate(slot.spread.split(batch, self.tasks)):
                    if part is not None:
                        activity += part.rows
                        going[task].append((slot, part))
        self._mine, going[self._me] = going[self._me], []
        self.activity = activity
        return going

    def _member(self, name: str) -> Member:
        info = self._program.relations[name]
        owner = self.placement.owners[name]
        others = [copy for copy in self.placement.others if copy.relation == name]
        domains = self._classes.columns(name)
        rest = (domains, owner, others, self.slots, self._heavy.within, self._me, self.tasks)
        return GroupMember(info, *rest) if info.has_aggregates else PlainMember(*rest)


def stored(columns: Sequence[Words] | None, rows: int, domains: Sequence[Domain]) -> StoredRelation:
    """A finished relation."""
    relation = StoredRelation(domains)
    if columns is not None:
        relation.add(columns, rows)
    relation.flip()
    relation.commit()
    return relation
