"""One task's share of a clique.

All tasks have all finished relations, and encode them alike. `start` evaluates the exit rules, each
task for its share of one of their atoms; `step` evaluates the delta rules over what is new here.
Either leaves batches to be sent. `take` takes in what has come, and decides what is new. Between
two rounds all that a shard has can be placed anew, because more values are split, because other
tasks had it, or because there is so little to do that one task is quicker alone. Where all is
*gathered* in the first task, that one goes through the rounds of the whole clique, with shapes and
small rounds, and the others wait for it.

Between two rounds a fact is *new* if some copy of it, in some task, has not been joined with all
others yet. An owner that has found a fact new tells the other copies a round later, so a fact that
is old in one copy may still be new in another. What is placed anew is new in all copies if it was
new in one. So nothing is lost: two facts that are both old have met before, wherever that was, and
any others meet in the next round. Some are joined twice, which changes nothing: relations are sets,
and groups know their contributors. What an owner then tells once more the others know already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from caladan.columns.domains import Domain
from caladan.columns.layout import Layout, Mask, Words
from caladan.columns.relation import StoredRelation
from caladan.data.schema import ARROW
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.gathering import GatheredClique, TellRound, has_shape
from caladan.engines.spark.mesh.messages import (
    Connections,
    SaveRequest,
    ShardEvents,
    SolutionCounts,
    TaskStatus,
    Verdict,
)
from caladan.engines.spark.mesh.placement import Placement
from caladan.engines.spark.mesh.rules import MeshInputs, ShardRules, move
from caladan.engines.spark.mesh.shuffle import AsIs, RowBatch, Slot, codec
from caladan.engines.spark.mesh.skew import HeavyValues, SkewLimits
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.planner import ReadyRule
from caladan.fixpoint.sums import never_settling, values_of
from caladan.join.arithmetic import blame_rule
from caladan.program.diagnostics import Diagnostic
from caladan.program.events import (
    CliqueTaken,
    Event,
    RelationHeld,
)
from caladan.rules.program import DeltaProgram
from caladan.rules.support import Growth, Sign

Going: TypeAlias = list[list[tuple[Slot, RowBatch]]]
"""What goes to each task."""


class Shard:
    """The share of task `me` of `tasks`. With `local`, it goes on alone while it can."""

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        me: int,
        tasks: int,
        limits: Limits,
        splitting: SkewLimits = SkewLimits(),  # noqa: B008
        search: str | None = None,
        *,
        local: bool = False,
    ) -> None:
        self.me, self.tasks, self.local = me, tasks, local
        self.limits = limits
        self.splitting = splitting
        self.given = MeshInputs(program, tables, splitting, tasks, limits, search)
        limits.enter(self.given.clique.origins)
        limits.memory.watch(self.given.classes.dictionaries())
        self.events = ShardEvents()
        self.done = 0
        """How many rounds are done."""
        self.tell: TellRound = lambda *_: None
        """Is told of rounds that this task goes through alone."""
        self.pauses: Callable[[], bool] = lambda: False
        """Whether it has to come back to the others between two of those."""
        self._gathered: GatheredClique | None = None
        self._alone = 0  # rounds that this task has just gone through alone
        is_gathered = tasks == 1 or has_shape(self.given, self.events)
        self.placed = ShardRules(self.given, me, tasks, self.given.heavy, is_gathered=is_gathered)
        self._aggregating = {
            each.rule.head: each.rule for each in self.given.rules if each.rule.has_aggregates
        }
        self._mine: list[tuple[Slot, RowBatch]] = []
        self._going: Going = []
        self._activity = 0  # rows that the last step left to be sent, to this task itself too
        self.new = 0
        """How many facts, or values of groups, were new when this task last took in."""
        self.reset_growth()

    def reset_growth(self) -> None:
        """Watch sums from now on; a task that goes on alone knows nothing of rounds."""
        # Other copies hear of a value one round after its owner has it.
        self.growth = Growth(None if self.local else self.given.clique.totals, steps=2)

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> int | None:
        """Evaluate the exit rules."""
        if self.is_gathered:
            return self._go_through()
        for name, (columns, rows) in self.given.facts.items():
            self.placed.members[name].give(columns, rows)
        self.given.facts = {}
        self._run(self.placed.exits)
        self._leave()
        self._activity += 1  # what is given has no delta before everybody takes in
        self._go_on_alone()
        return None

    def step(self) -> int | None:
        """Evaluate the delta rules over what is new."""
        if self.is_gathered:
            return self._go_through()
        self._run(self.placed.rules)
        self._leave()
        for member in self.placed.members.values():
            member.commit()
        self._go_on_alone()
        return None

    def _go_through(self) -> int:
        """All that is left, in the first task; fewer rounds, if it has to come back."""
        self.new = self._activity = self._alone = 0
        self.given.facts = {}
        if self.me:
            return 0
        if self._gathered is None:
            members = self.placed.members
            self._gathered = GatheredClique(self.given, members, self.events, self.done)
        whole = self._gathered

        def must_return() -> bool:
            return self.pauses() or (self.tasks > 1 and whole.is_too_much())

        self._alone = whole.go_on(self.done, must_return, self.tell)
        self.events.gathered += self._alone
        self._activity = whole.delta
        return self._alone

    def _run(self, rules: Sequence[ReadyRule]) -> None:
        for ready in rules:
            ready.evaluate(self.given.state, self.events)

    def _leave(self) -> None:
        """Sort what is leaving by where it goes."""
        going: Going = [[] for _ in range(self.tasks)]
        activity = 0
        for member in self.placed.members.values():
            for slot, batch in member.leaving():
                for task, part in enumerate(slot.spread.split(batch, self.tasks)):
                    if part is not None:
                        activity += part.rows
                        going[task].append((slot, part))
        self._mine, going[self.me] = going[self.me], []
        self._activity, self._going = activity, going

    def _go_on_alone(self) -> None:
        """Where that is asked for, go on with what this task derived for itself."""
        while self.local and self._mine:
            activity, going = self._activity, self._going
            self.take(())
            self._run(self.placed.rules)
            self._leave()
            for member in self.placed.members.values():
                member.commit()
            self._activity += activity
            self._going = [before + more for before, more in zip(going, self._going, strict=True)]

    def standing(self, verdict: Verdict, saving: SaveRequest) -> TaskStatus:
        """How this task stands after its work; one that cannot go on has nothing to send."""
        if verdict is not Verdict.GO_ON:
            self._going, self._mine, self._activity = [], [], 0
        sign = Sign.NOTHING
        if self.growth.is_suspect:
            columns = self.given.classes.columns
            sign = self.growth.look(values_of(self._owned(), self.given.own, columns))
        counts = (self._activity, self.new, self.facts, self.events.found)
        return TaskStatus(*counts, verdict, saving, sign, self._alone)

    def going(self) -> Going:
        """What goes to each task; then it is gone."""
        going, self._going = self._going, []
        return going or [[] for _ in range(self.tasks)]

    def take(self, batches: Iterable[tuple[Slot, RowBatch]]) -> None:
        """Take in what has come, this task's own too, and see what of it is new."""
        for slot, batch in self._mine:
            slot.receive(batch)
        self._mine = []
        for slot, batch in batches:
            slot.receive(batch)
        self.new = 0
        for name, member in self.placed.members.items():
            with blame_rule(self._aggregating.get(name)):
                self.new += member.flip()
        self.limits.memory.add(self.new, self.given.state.held)

    # ── What there is ────────────────────────────────────────────────────────────────────────────

    @property
    def is_gathered(self) -> bool:
        """Whether the first task has everything."""
        return self.placed.is_gathered

    @property
    def is_shaped(self) -> bool:
        """Whether the first task found everything by a shape."""
        return self._gathered is not None and self._gathered.is_shaped

    def layout(self, name: str) -> Layout:
        """What this task owns of a relation."""
        return self.given.state.finished.get(name) or self.placed.members[name].relation

    @property
    def slots(self) -> Sequence[Slot]:
        """The kinds of batches that come."""
        return self.placed.slots

    @property
    def placement(self) -> Placement:
        """Where facts are."""
        return self.placed.placement

    @property
    def heavy(self) -> int:
        """How many values are split."""
        return self.placed.heavy.count

    def heavy_values(self, most: int) -> list[str]:
        """Some of the values that are split, to be shown."""
        found: list[str] = []
        for (name, column), domain in self.given.domains():
            words = self.placed.heavy.by_domain.get(domain)
            if words is not None and len(found) < most:
                type = ARROW[self.given.program.relations[name].columns[column].type]
                found += map(str, domain.arrow(words[: most - len(found)], type).to_pylist())
        return found

    @property
    def facts(self) -> int:
        """How many facts this task owns."""
        return sum(self.layout(name).count() for name in self.placed.members)

    def never_settling(self) -> Diagnostic | None:
        """C042 for a fact of this task whose sums change for ever, if it has one."""
        given, columns = self.given, self.given.classes.columns
        return never_settling(given.clique, self._owned(), given.own, columns, self.growth.rounds)

    def _owned(self) -> dict[str, StoredRelation]:
        return {name: member.relation for name, member in self.placed.members.items()}

    def told(self) -> Iterator[Event]:
        """What was done here in all, and how relations are held in the end."""
        yield from self.events.told(is_first=self.me == 0)
        members = self.placed.members
        for name, relation in self.given.base.items():
            yield self._held(name, [relation])
        if self.me == 0 or not self.is_gathered:
            yield CliqueTaken(tuple(members), "meshed", [self.layout(n).form for n in members])
            for name, member in members.items():
                yield self._held(name, [self.layout(name), *member.copies.values()])

    def _held(self, name: str, copies: Sequence[Layout]) -> RelationHeld:
        columns = [column.name for column in self.given.program.relations[name].columns]
        stored = [copy for copy in copies if isinstance(copy, StoredRelation)]
        orders = {tuple(order): None for copy in stored for order in copy.arranged(columns)}
        return RelationHeld(
            name,
            copies[0].count(),
            sum(copy.nbytes for copy in copies),
            sum(copy.spilled for copy in stored),
            copies[0].form,
            list(orders),
        )

    def owned(self, name: str) -> DerivedTable:
        """The facts of a relation that this task owns."""
        domains = self.given.classes.columns(name)
        return DerivedTable(self.given.own[name].columns, self.layout(name), domains)

    # ── Placing anew ─────────────────────────────────────────────────────────────────────────────

    def place(
        self,
        heavy: HeavyValues,
        exchange: Connections,
        beat: Callable[[], None],
        *,
        is_gathered: bool = False,
    ) -> None:
        """Place all anew; all tasks do it between the same two rounds."""
        source, self._gathered, self._alone = self.placed, None, 0
        self.placed = ShardRules(self.given, self.me, self.tasks, heavy, is_gathered=is_gathered)
        self.reset_growth()  # groups have moved
        move([source], self.placed, exchange, beat)

    # ── Saving ───────────────────────────────────────────────────────────────────────────────────

    def fingerprint(self) -> str:
        """What a checkpoint of this shard belongs to; before the start."""
        return self.given.fingerprint(self.local)

    def saved(self) -> Iterator[Sequence[SnapshotSection]]:
        """What there is to be saved after taking in: which values are split, then all the rest."""
        is_gathered = np.array([self.is_gathered])
        yield _head_shelves(self.given, dict(self.placed.heavy.by_domain), is_gathered)
        yield list(self.placed.shelves())

    def go_on(
        self,
        tasks: int,
        saved: Mapping[int, tuple[bytearray, int]],
        solutions: Iterable[SolutionCounts],
        exchange: Connections,
        beat: Callable[[], None],
    ) -> None:
        """Go on instead of starting, with what so many tasks had saved.

        `saved` is what this task is to put back: bytes and where they begin, by the number of the
        task that had it. If there were as many tasks as now, each puts back its own. Otherwise all
        is placed anew.
        """
        put_back = (_put_back(self.given, me, tasks, *each) for me, each in saved.items())
        if tasks == self.tasks:
            (self.placed,) = put_back
        else:
            move(put_back, self.placed, exchange, beat)
        self.placed.enter()
        self.given.facts = {}
        self.new = sum(member.relation.delta_count() for member in self.placed.members.values())
        for each in solutions:
            for rule, done in each.items():
                self.events.add(rule, *done)


def _put_back(given: MeshInputs, me: int, tasks: int, data: bytearray, at: int) -> ShardRules:
    """What a task had when it saved."""
    heavy: dict[Domain, Words] = {}
    is_gathered = np.array([False])
    at = snapshot.restore_snapshot(_head_shelves(given, heavy, is_gathered), data, at)
    values = HeavyValues(heavy, given.classes.column)
    placed = ShardRules(given, me, tasks, values, is_gathered=bool(is_gathered[0]))
    snapshot.restore_snapshot(list(placed.shelves()), data, at)
    return placed


def _head_shelves(
    given: MeshInputs, heavy: dict[Domain, Words], is_gathered: Mask
) -> list[SnapshotSection]:
    """Whether all is gathered, and which values are split, domain by domain."""

    def shelf(domain: Domain) -> SnapshotSection:
        def some() -> Iterator[RowBatch]:
            if domain in heavy:
                yield RowBatch(len(heavy[domain]), (heavy[domain],))

        def take(batch: RowBatch) -> None:
            heavy[domain] = np.array(batch.fields[0])

        return SnapshotSection((codec(domain),), some, take)

    def gather(batch: RowBatch) -> None:
        is_gathered[:] = batch.fields[0]

    kind = SnapshotSection((AsIs(np.bool_),), lambda: [RowBatch(1, (is_gathered,))], gather)
    return [kind, *(shelf(domain) for _, domain in given.domains())]
