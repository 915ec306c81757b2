"""One task's share of a clique.

All tasks have all finished relations, and encode them alike. `start` evaluates the exit rules, each
task for its share of one of their atoms; `step` evaluates the delta rules over what is new here.
Either leaves batches to be sent. `take` takes in what has come, and decides what is new. Between
two rounds all that a shard has can be placed anew, because more values are split or because other
tasks had it.

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
from caladan.columns.layout import Words
from caladan.columns.relation import StoredRelation
from caladan.data.schema import ARROW
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.spark.mesh import snapshot
from caladan.engines.spark.mesh.inputs import MeshInputs
from caladan.engines.spark.mesh.messages import (
    Connections,
    Saving,
    Standing,
    Verdict,
    batches_of,
    merged,
    message,
)
from caladan.engines.spark.mesh.placement import Placement
from caladan.engines.spark.mesh.rules import ShardRules
from caladan.engines.spark.mesh.shuffle import Batch, Slot, Slots, codec
from caladan.engines.spark.mesh.skew import HeavyValues, Splitting
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.rules import ReadyRule
from caladan.fixpoint.sums import never_settling, values_of
from caladan.join.arithmetic import blamed
from caladan.program.diagnostics import Diagnostic
from caladan.program.events import (
    CliqueTaken,
    Event,
    Listener,
    RelationHeld,
    RuleDone,
    RulePlanned,
    RuleSearched,
)
from caladan.rules.growth import Growth, Sign
from caladan.rules.program import DeltaProgram

_STANDING = Standing(0, 0, 0, 0, Verdict.GO_ON)

Going: TypeAlias = list[list[tuple[Slot, Batch]]]
"""What goes to each task."""


def moved(
    sources: Iterable[ShardRules],
    target: ShardRules,
    exchange: Connections,
    beat: Callable[[], None],
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


RuleKey: TypeAlias = tuple[int, str | None]
"""The number of a rule, and the relation whose new facts seed it."""
Solutions: TypeAlias = Mapping[RuleKey, tuple[int, float]]
"""By rule, how many solutions were found, and in how many seconds."""


class ShardEvents(Listener):
    """What a task has to tell when it is done: of all rounds together."""

    def __init__(self) -> None:
        self.solutions: dict[RuleKey, tuple[int, float]] = {}
        self.found = 0
        self._proposed: dict[tuple[RuleKey, str], tuple[int, int]] = {}
        self._planned: dict[tuple[RuleKey, tuple[str, ...]], RulePlanned] = {}

    def add(self, rule: RuleKey, count: int, seconds: float) -> None:
        """Some more solutions of a rule."""
        so_far, before = self.solutions.get(rule, (0, 0.0))
        self.solutions[rule] = (so_far + count, before + seconds)

    def tell(self, event: Event) -> None:
        """Keep what an event says of a rule."""
        match event:
            case RuleDone():
                self.add((event.rule, event.seed), event.facts or 0, event.seconds)
                self.found += event.facts or 0
            case RulePlanned():
                self._planned[(event.rule, event.seed), tuple(event.steps)] = event
            case RuleSearched():
                key = (event.rule, event.seed), event.variable
                proposed, confirmed = self._proposed.get(key, (0, 0))
                self._proposed[key] = proposed + event.proposed, confirmed + event.confirmed
            case _:
                pass

    def told(self) -> Iterator[Event]:
        """All of it."""
        yield from self._planned.values()
        for key, done in self.solutions.items():
            yield RuleDone(*key, *done)
        for (key, variable), counts in self._proposed.items():
            yield RuleSearched(*key, variable, *counts)


class Shard:
    """The share of task `me` of `tasks`. With `local`, it goes on alone while it can."""

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        me: int,
        tasks: int,
        limits: Limits,
        splitting: Splitting = Splitting(),  # noqa: B008
        search: str | None = None,
        *,
        local: bool = False,
    ) -> None:
        self.me, self.tasks, self.local = me, tasks, local
        self.limits = limits
        self.splitting = splitting
        self.given = MeshInputs(program, tables, splitting, tasks, limits, search)
        limits.enter(self.given.clique.relations)
        self.events = ShardEvents()
        self.placed = ShardRules(self.given, me, tasks, self.given.heavy)
        self._aggregating = {
            each.rule.head: each.rule for each in self.given.rules if each.rule.has_aggregates
        }
        self._mine: list[tuple[Slot, Batch]] = []
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

    def start(self) -> None:
        """Evaluate the exit rules."""
        for name, (columns, rows) in self.given.facts.items():
            self.placed.members[name].give(columns, rows)
        self.given.facts = {}
        self._run(self.placed.exits)
        self._leave()
        self._activity += 1  # what is given has no delta before everybody takes in
        self._go_on_alone()

    def step(self) -> None:
        """Evaluate the delta rules over what is new."""
        self._run(self.placed.rules)
        self._leave()
        for member in self.placed.members.values():
            member.commit()
        self._go_on_alone()

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

    def standing(self, verdict: Verdict, saving: Saving) -> Standing:
        """How this task stands after its work; one that cannot go on has nothing to send."""
        if verdict is not Verdict.GO_ON:
            self._going, self._mine, self._activity = [], [], 0
        sign = Sign.NOTHING
        if self.growth.is_suspect:
            columns = self.given.classes.columns
            sign = self.growth.look(values_of(self._owned(), self.given.own, columns))
        counts = (self._activity, self.new, self.facts, self.events.found)
        return Standing(*counts, verdict, saving, sign)

    def going(self) -> Going:
        """What goes to each task; then it is gone."""
        going, self._going = self._going, []
        return going or [[] for _ in range(self.tasks)]

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
        self.limits.memory.add(self.new, self.given.state.held)

    # ── What there is ────────────────────────────────────────────────────────────────────────────

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
        return sum(member.relation.count() for member in self.placed.members.values())

    def never_settling(self) -> Diagnostic | None:
        """C042 for a fact of this task whose sums change for ever, if it has one."""
        given, columns = self.given, self.given.classes.columns
        return never_settling(given.clique, self._owned(), given.own, columns, self.growth.rounds)

    def _owned(self) -> dict[str, StoredRelation]:
        return {name: member.relation for name, member in self.placed.members.items()}

    def told(self) -> Iterator[Event]:
        """What was done here in all, and how relations are held in the end."""
        yield from self.events.told()
        members = self.placed.members
        forms = [member.relation.form for member in members.values()]
        yield CliqueTaken(tuple(members), "meshed", forms)
        for name, relation in self.given.base.items():
            yield self._held(name, [relation])
        for name in members:
            yield self._held(name, [members[name].relation, *members[name].copies.values()])

    def _held(self, name: str, copies: Sequence[StoredRelation]) -> RelationHeld:
        columns = [column.name for column in self.given.program.relations[name].columns]
        orders = {tuple(order): None for copy in copies for order in copy.arranged(columns)}
        return RelationHeld(
            name,
            copies[0].count(),
            sum(copy.nbytes for copy in copies),
            sum(copy.spilled for copy in copies),
            copies[0].form,
            list(orders),
        )

    def owned(self, name: str) -> DerivedTable:
        """The facts of a relation that this task owns."""
        relation = self.placed.members[name].relation
        domains = self.given.classes.columns(name)
        return DerivedTable(self.given.own[name].columns, relation, domains)

    # ── Placing anew ─────────────────────────────────────────────────────────────────────────────

    def split(self, heavy: HeavyValues, exchange: Connections, beat: Callable[[], None]) -> None:
        """Split other values from now on; all tasks do it between the same two rounds."""
        source = self.placed
        self.placed = ShardRules(self.given, self.me, self.tasks, heavy)
        self.reset_growth()  # groups have moved
        moved([source], self.placed, exchange, beat)

    # ── Saving ───────────────────────────────────────────────────────────────────────────────────

    def fingerprint(self) -> str:
        """What a checkpoint of this shard belongs to; before the start."""
        return self.given.fingerprint(self.local)

    def saved(self) -> Iterator[Sequence[SnapshotSection]]:
        """What there is to be saved after taking in: which values are split, then all the rest."""
        yield _heavy_shelves(self.given, dict(self.placed.heavy.by_domain))
        yield list(self.placed.shelves())

    def go_on(
        self,
        tasks: int,
        saved: Mapping[int, tuple[bytearray, int]],
        solutions: Iterable[Solutions],
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
            moved(put_back, self.placed, exchange, beat)
        self.placed.enter()
        self.given.facts = {}
        self.new = sum(member.relation.delta_count() for member in self.placed.members.values())
        for each in solutions:
            for rule, done in each.items():
                self.events.add(rule, *done)


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
