"""One task's part of a clique.

All tasks have all finished relations, and encode them alike. `start` evaluates the exit rules, each
task for its share of one of their atoms; `step` evaluates the delta rules over what is new here.
Either leaves batches to be sent. `take` takes in what has come, and decides what is new. Between
two rounds all that a part has can be placed anew, because more values are split or because other
tasks had it.

How what parts hold is placed anew, between two rounds: other values split, or other tasks.

Between two rounds a fact is *new* if some copy of it, in some task, has not been joined with all
others yet. An owner that has found a fact new tells the other copies a round later, so a fact that
is old in one copy may still be new in another. What is placed anew is new in all copies if it was
new in one. So nothing is lost: two facts that are both old have met before, wherever that was, and
any others meet in the next round. Some are joined twice, which changes nothing: relations are sets,
and groups know their contributors. What an owner then tells once more the others know already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from caladan.columns.domains import Domain
from caladan.columns.layout import Words
from caladan.columns.relation import StoredRelation
from caladan.data.schema import ARROW
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.inputs import MeshInputs
from caladan.engines.spark.mesh.members import Slots
from caladan.engines.spark.mesh.messages import (
    Exchange,
    Standing,
    Verdict,
    batches_of,
    merged,
    message,
)
from caladan.engines.spark.mesh.placement import Placement
from caladan.engines.spark.mesh.rules import ReadyRule, RuleKey, ShardRules
from caladan.engines.spark.mesh.shuffle import Batch, Slot, codec
from caladan.engines.spark.mesh.skew import HeavyValues, Splitting
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.sums import never_settling, values_of
from caladan.join.arithmetic import blamed
from caladan.program.diagnostics import Diagnostic
from caladan.program.events import (
    CliqueTaken,
    Event,
    RelationHeld,
    RuleDone,
    RulePlanned,
    RuleSearched,
)
from caladan.rules.program import DeltaProgram, Totals

_STANDING = Standing(0, 0, 0, 0, Verdict.GO_ON)


def moved(
    sources: Iterable[ShardRules], target: ShardRules, exchange: Exchange, beat: Callable[[], None]
) -> None:
    """Place what this task has, in one exchange with all others; `target` has nothing yet."""
    slots = Slots()
    arrivals = {name: member.arrivals(slots) for name, member in target.members.items()}
    going: list[list[tuple[Slot, Batch]]] = [[] for _ in range(target.tasks)]
    for source in sources:
        for name, member in source.members.items():
            for kind, batch in member.contents():
                for slot in arrivals[name].slots[kind]:
                    for task, part in enumerate(slot.spread.split(batch, target.tasks)):
                        if part is not None and part.rows:
                            going[task].append((slot, part))
                    beat()
    mine, going[target.me] = going[target.me], []
    came = exchange.exchange([message(_STANDING, merged(sections)) for sections in going])
    for slot, batch in mine:
        slot.receive(batch)
    for data in came:
        for slot, batch in batches_of(data, slots) if data is not None else ():
            slot.receive(batch)
    for each in arrivals.values():
        each.settle()
        beat()


Solutions = Mapping[RuleKey, tuple[int, float]]


class Shard:
    """The part of task `me` of `tasks`. `check` is called now and then, and may raise."""

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        me: int,
        tasks: int,
        check: Callable[[], None],
        splitting: Splitting = Splitting(),  # noqa: B008
        search: str | None = None,
    ) -> None:
        self.me, self.tasks = me, tasks
        self.check = check
        self.splitting = splitting
        self.given = MeshInputs(program, tables, splitting, tasks, search)
        self.placed = ShardRules(self.given, me, tasks, self.given.heavy)
        self._aggregating = {
            each.rule.head: each.rule for each in self.given.rules if each.rule.has_aggregates
        }
        self._mine: list[tuple[Slot, Batch]] = []
        self.activity = 0
        """How many rows the last step left to be sent, to this task itself too."""
        self.new = 0
        """How many facts, or values of groups, were new when this task last took in."""
        self._before: Solutions = {}
        self._found_before = 0
        self._proposed: dict[tuple[RuleKey, str], tuple[int, int]] = {}
        self._planned: dict[RulePlanned, None] = {}

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> list[list[tuple[Slot, Batch]]]:
        """Evaluate the exit rules; what goes to each task."""
        for name, (columns, rows) in self.given.facts.items():
            self.placed.members[name].give(columns, rows)
        self.given.facts = {}
        self._run(self.placed.exits)
        # What is given counts as active: it has no delta before everybody takes in.
        return self._leaving(1)

    def step(self) -> list[list[tuple[Slot, Batch]]]:
        """Evaluate the delta rules over what is new; what goes to each task."""
        self._run(self.placed.rules)
        going = self._leaving(0)
        for member in self.placed.members.values():
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
        for name, member in self.placed.members.items():
            with blamed(self._aggregating.get(name)):
                self.new += member.flip()

    @property
    def keeps_some(self) -> bool:
        """Whether this task has something to take in from itself."""
        return bool(self._mine)

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
            words = self.placed.heavy.by_domain.get(id(domain))
            if words is not None and len(found) < most:
                type = ARROW[self.given.program.relations[name].columns[column].type]
                found += map(str, domain.arrow(words[: most - len(found)], type).to_pylist())
        return found

    @property
    def facts(self) -> int:
        """How many facts this task owns."""
        return sum(member.facts.count() for member in self.placed.members.values())

    @property
    def totals(self) -> Totals | None:
        """What is known of the sums of the clique."""
        return self.given.clique.totals

    def values(self) -> dict[Any, Any]:
        """The values of the aggregates that this task owns."""
        return values_of(self._owned(), self.given.own, self.given.classes.columns)

    def never_settling(self, rounds: int) -> Diagnostic | None:
        """C042 for a fact of this task whose sums change for ever, if it has one."""
        given = self.given
        columns = given.classes.columns
        return never_settling(given.clique, self._owned(), given.own, columns, rounds)

    def _owned(self) -> dict[str, StoredRelation]:
        return {name: member.facts for name, member in self.placed.members.items()}

    @property
    def found(self) -> int:
        """How many solutions this task has found since it started or went on."""
        return self._found_before + self.placed.found

    def solutions(self) -> dict[RuleKey, tuple[int, float]]:
        """By rule and seed, how many solutions were found here, and in how many seconds."""
        done = [
            (ready.key, int(ready.sink.count), ready.seconds)
            for ready in (*self.placed.exits, *self.placed.rules)
        ]
        return _added(self._before, done)

    def proposals(self) -> dict[tuple[RuleKey, str], tuple[int, int]]:
        """By rule and variable, what the guided search proposed here, and confirmed."""
        for ready in (*self.placed.exits, *self.placed.rules):
            for variable, proposed, confirmed in ready.plan.proposals():
                key = ready.key, variable
                before, kept = self._proposed.get(key, (0, 0))
                self._proposed[key] = before + proposed, kept + confirmed
        return self._proposed

    def told(self) -> Iterator[Event]:
        """What was done here in all, and how relations are held in the end."""
        yield from self._planned
        for key, done in self.solutions().items():
            yield RuleDone(*key, *done)
        for (key, variable), counts in self.proposals().items():
            yield RuleSearched(*key, variable, *counts)
        members = self.placed.members
        forms = [member.facts.form for member in members.values()]
        yield CliqueTaken(tuple(members), "meshed", forms)
        for name, relation in self.given.base.items():
            yield self._held(name, [relation])
        for name in members:
            copies = [copy for copy in self.placement.others if copy.relation == name]
            others = [members[name].reading(copy) for copy in copies]
            yield self._held(name, [members[name].facts, *others])

    def _held(self, name: str, copies: Sequence[StoredRelation]) -> RelationHeld:
        columns = self.given.program.relations[name].columns
        orders = {order: None for copy in copies for order in copy.arrangements}
        return RelationHeld(
            name,
            copies[0].count(),
            sum(copy.nbytes for copy in copies),
            sum(copy.spilled for copy in copies),
            copies[0].form,
            [[columns[i].name for i in order] for order in orders],
        )

    def owned(self, name: str) -> DerivedTable:
        """The facts of a relation that this task owns."""
        relation = self.placed.members[name].facts
        domains = self.given.classes.columns(name)
        return DerivedTable(self.given.own[name].columns, relation, domains)

    def _run(self, rules: Sequence[ReadyRule]) -> None:
        for ready in rules:
            if ready.may_derive():
                started = time.perf_counter()
                with blamed(ready.rule.rule):
                    ready.plan.run(ready.sink, self.check)
                    ready.sink.finish()
                ready.seconds += time.perf_counter() - started
                if (planned := ready.planned()) is not None:
                    self._planned[planned] = None

    def _leaving(self, activity: int) -> list[list[tuple[Slot, Batch]]]:
        going: list[list[tuple[Slot, Batch]]] = [[] for _ in range(self.tasks)]
        for member in self.placed.members.values():
            for slot, batch in member.leaving():
                for task, part in enumerate(slot.spread.split(batch, self.tasks)):
                    if part is not None:
                        activity += part.rows
                        going[task].append((slot, part))
        self._mine, going[self.me] = going[self.me], []
        self.activity = activity
        return going

    # ── Placing anew ─────────────────────────────────────────────────────────────────────────────

    def split(self, heavy: HeavyValues, exchange: Exchange, beat: Callable[[], None]) -> None:
        """Split other values from now on; all tasks do it between the same two rounds."""
        source, solutions = self.placed, self.solutions()
        self.proposals()  # as far as the rules that are left behind know of some
        self._found_before += source.found
        self.placed = ShardRules(self.given, self.me, self.tasks, heavy)
        self._before = solutions
        moved([source], self.placed, exchange, beat)

    # ── Saving ───────────────────────────────────────────────────────────────────────────────────

    def fingerprint(self, *settings: object) -> str:
        """What a checkpoint of this part belongs to; before the start."""
        return self.given.fingerprint(*settings)

    def saved(self) -> Iterator[Sequence[SnapshotSection]]:
        """What there is to be saved after taking in: which values are split, then all the rest."""
        yield _heavy_shelves(self.given, dict(self.placed.heavy.by_domain))
        yield list(self.placed.shelves())

    def go_on(
        self,
        tasks: int,
        saved: Mapping[int, tuple[bytearray, int]],
        solutions: Iterable[Solutions],
        exchange: Exchange,
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
            moved(put_back, self.placed, exchange, beat)
        self.given.facts = {}
        self.new = sum(member.facts.delta_count() for member in self.placed.members.values())
        for each in solutions:
            self._before = _added(self._before, [(rule, *done) for rule, done in each.items()])


def _put_back(given: MeshInputs, me: int, tasks: int, data: bytearray, at: int) -> ShardRules:
    """What a task had when it saved."""
    heavy: dict[int, Words] = {}
    at = snapshot.restored(_heavy_shelves(given, heavy), data, at)
    placed = ShardRules(given, me, tasks, HeavyValues(heavy, given.classes.column))
    snapshot.restored(list(placed.shelves()), data, at)
    return placed


def _heavy_shelves(given: MeshInputs, heavy: dict[int, Words]) -> list[SnapshotSection]:
    """Which values are split, domain by domain."""

    def shelf(domain: Domain) -> SnapshotSection:
        def some() -> Iterator[Batch]:
            if id(domain) in heavy:
                yield Batch(len(heavy[id(domain)]), (heavy[id(domain)],))

        def take(batch: Batch) -> None:
            heavy[id(domain)] = np.array(batch.fields[0])

        return SnapshotSection((codec(domain),), some, take)

    return [shelf(domain) for _, domain in given.domains()]


def _added(
    solutions: Solutions, more: Iterable[tuple[RuleKey, int, float]]
) -> dict[RuleKey, tuple[int, float]]:
    found = dict(solutions)
    for rule, count, seconds in more:
        so_far, before = found.get(rule, (0, 0.0))
        found[rule] = (so_far + count, before + seconds)
    return found
