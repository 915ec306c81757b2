"""Strategy *frame*: a program as DataFrames, a recursive clique round by round.

`FrameFixpoint` goes through the cliques. What a rule derives is a frame; it is computed when the
round's new facts are, in one job for each relation. Relations that are finished are tables, which
later cliques read; those of the current clique are what `plain`, `grouped` and `summed` keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.spark.choice import SMALL, find_partitioning, partitions
from caladan.engines.spark.columns.aggregates import Bag, combine, find_rule_to_blame
from caladan.engines.spark.columns.physical import physical_schema
from caladan.engines.spark.columns.types import schema
from caladan.engines.spark.cube.spread import ask
from caladan.engines.spark.frame.facts import PlainFacts
from caladan.engines.spark.frame.groups import BestFacts
from caladan.engines.spark.frame.operators import ReadRelation, compile_rule
from caladan.engines.spark.frame.sums import SummedFacts
from caladan.engines.spark.session.workspace import FrameRows, Workspace, union
from caladan.engines.spark.sources.table import SparkTable
from caladan.program import Value
from caladan.program.aggregates import has_empty_value
from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    Listener,
    RoundDone,
    RuleDone,
    RuleSkipped,
)
from caladan.program.options import Options
from caladan.rules.body import Version
from caladan.rules.failures import LimitReached, limit, report_growth
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.support import Growth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RelationFacts: TypeAlias = PlainFacts | BestFacts | SummedFacts
Build: TypeAlias = Callable[[ReadRelation], "DataFrame"]

_FAN_OUT: Final = 5  # how many facts a join is guessed to make of one
_READ: Final = 8  # times as many facts as make a partition full are read in one, in the same time
_MOVED: Final = 30_000  # facts that are brought elsewhere in the time that a task takes


class FrameFixpoint:
    """One run of a program."""

    def __init__(
        self,
        program: DeltaProgram,
        store: Mapping[str, SparkTable],
        options: Options,
        events: Listener,
        workspace: Workspace,
    ) -> None:
        self._program = program
        self._store = store
        self._options = options
        self._events = events
        self._workspace = workspace
        self._tables: dict[str, SparkTable] = {}
        self._facts: dict[str, RelationFacts] = {}
        self._built: dict[tuple[int, int | None], Build] = {}
        self._idle_tasks = 0
        self.current: tuple[str, ...] = ()
        """The relations that are being derived, by the names that users know."""

    @property
    def rules(self) -> list[CoreRule]:
        """All rules of the program, to be named in diagnostics."""
        return [rule.rule for rule in self._program.rules]

    def run(self) -> None:
        """Evaluate every clique."""
        ask(self._program.rules, self._workspace)
        derived = {name for clique in self._program.cliques for name in clique.relations}
        for name, info in self._program.relations.items():
            if name not in derived:
                self._tables[name] = self._base(info)
        for clique in self._program.cliques:
            started = time.perf_counter()
            self.current = clique.origins
            self._events.tell(CliqueStarted(clique.relations, clique.is_recursive, "frame"))
            rounds = self._fixpoint(clique) if clique.is_recursive else self._once(clique)
            count = sum(self._tables[name].count() for name in clique.relations)
            seconds = time.perf_counter() - started
            self._events.tell(CliqueDone(clique.relations, rounds, count, seconds))

    def tables(self) -> dict[str, SparkTable]:
        """The derived relations, as far as they are known; their runs are now the tables'."""
        for name, facts in self._facts.items():
            if facts.count:
                self._tables[name] = self._finished(name, facts)
        self._facts = {}
        relations = self._program.relations
        found = {n: t for n, t in self._tables.items() if relations[n].is_derived}
        for table in found.values():
            self._workspace.keep(*table.runs)
        return found

    # ── Cliques ──────────────────────────────────────────────────────────────────────────────────

    def _once(self, clique: DeltaClique) -> int:
        """A relation that does not depend on itself."""
        started = time.perf_counter()
        (name,) = clique.relations
        info = self._program.relations[name]
        self._spread(max((self._work(rule) for rule in clique.exit_rules), default=0))
        bags = self._derived(name, clique.exit_rules)
        given = self._given(info)
        if given is not None:
            bags.insert(0, (None, Bag(given)))
        frame = self._combined(info, [bag for _, bag in bags])
        if frame is None:
            self._tables[name] = self._empty(info)
        else:
            run = self._workspace.materialise(frame)
            self._tables[name] = SparkTable(info.columns, run.frame, [run], run.count)
        count = self._tables[name].count()
        self._events.tell(RoundDone(1, count, count, time.perf_counter() - started))
        self._check_facts()
        return 1

    def _combined(self, info: RelationInfo, bags: Sequence[Bag]) -> DataFrame | None:
        """The facts of a relation that is not recursive."""
        if info.has_aggregates:
            is_zero = not info.group and has_empty_value(info.aggregates)
            if not bags and is_zero:
                bags = [Bag(self._empty(info).frame)]
            rule = find_rule_to_blame(info, self.rules)
            frame = combine(info, [self._together(bag) for bag in bags], rule) if bags else None
        else:
            frames = [bag.frame for bag in bags]
            frame = self._together(Bag(union(frames))).frame.distinct() if frames else None
        return frame

    def _fixpoint(self, clique: DeltaClique) -> int:
        """Relations that depend on each other: rounds until nothing is new."""
        self._facts = {name: self._start(clique, name) for name in clique.relations}
        number = 0
        growth = Growth(clique.totals)
        rules = clique.exit_rules
        while True:
            started = time.perf_counter()
            number += 1
            new = self._round(clique, rules, first=number == 1)
            total = sum(facts.count for facts in self._facts.values())
            self._events.tell(RoundDone(number, new, total, time.perf_counter() - started))
            self._workspace.sweep()
            self._check_facts()
            if not new:
                break
            self._check_sums(growth, clique, total)
            self._check_rounds(number)
            rules = clique.delta_rules
        for name, facts in self._facts.items():
            self._tables[name] = self._finished(name, facts)
        self._facts = {}
        self._workspace.sweep()
        return number

    def _round(self, clique: DeltaClique, rules: Sequence[DeltaRule], *, first: bool) -> int:
        self._spread(
            max((self._work(rule) for rule in rules), default=0),
            max(facts.count for facts in self._facts.values()),
        )
        bags = {name: self._derived(name, rules) for name in clique.relations}
        if first:
            for name in clique.relations:
                given = self._given(self._program.relations[name])
                if given is not None:
                    bags[name].append((None, Bag(given)))
        # All frames are built before any relation moves on: a round reads the facts at its start.
        new = 0
        for name, facts in self._facts.items():
            if isinstance(facts, SummedFacts):
                new += facts.advance(bags[name])
            else:
                new += facts.advance([bag.frame for _, bag in bags[name]])
        return new

    def _start(self, clique: DeltaClique, name: str) -> RelationFacts:
        info = self._program.relations[name]
        key, carried = find_partitioning(clique, info), clique.pivot is not None
        if not info.has_aggregates:
            return PlainFacts(self._workspace, info.arity, key, carried=carried)
        if any(row is not None and row.is_total for row in info.aggregates):
            return SummedFacts(self._workspace, info, find_rule_to_blame(info, self.rules))
        return BestFacts(self._workspace, info, key, carried=carried)

    def _finished(self, name: str, facts: RelationFacts) -> SparkTable:
        info = self._program.relations[name]
        if not facts.count:
            return self._empty(info)
        frame, runs = facts.finished()
        return SparkTable(info.columns, frame, runs, facts.count)

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _derived(self, name: str, rules: Iterable[DeltaRule]) -> list[tuple[CoreRule | None, Bag]]:
        """What each rule of a relation derives, if its guard holds."""
        bags: list[tuple[CoreRule | None, Bag]] = []
        for rule in rules:
            if rule.rule.head != name:
                continue
            seed = rule.seeded_by
            if not self._holds(rule, seed):
                self._events.tell(RuleSkipped(rule.rule.number, seed))
                continue
            started = time.perf_counter()
            frame = self._build(rule)(self._read)
            bags.append((rule.rule, Bag(frame, rule.contributors)))
            seconds = time.perf_counter() - started
            self._events.tell(RuleDone(rule.rule.number, seed, None, seconds))
        return bags

    def _build(self, rule: DeltaRule) -> Build:
        key = (rule.rule.place, rule.seed)
        if key not in self._built:
            self._built[key] = compile_rule(rule, self._program.relations)
        return self._built[key]

    def _holds(self, rule: DeltaRule, seed: str | None) -> bool:
        if seed is not None and not self._facts[seed].new:
            return False
        return all(self._count(name) for name in rule.guard)

    def _read(self, name: str | None, version: Version) -> FrameRows:
        if name is None:
            return FrameRows(self._workspace.one_row(), 1, lone=True)
        facts = self._facts.get(name)
        return self._tables[name].rows if facts is None else facts.read(version)

    def _count(self, name: str) -> int:
        facts = self._facts.get(name)
        return self._tables[name].count() if facts is None else facts.count

    # ── Sizes ────────────────────────────────────────────────────────────────────────────────────

    def _spread(self, work: int, known: int = 0) -> None:
        """Choose how many partitions the next frames have, from the facts that go into them.

        What is known lies in so many already, and a round reads it. It is brought into fewer once
        the tasks that rounds could have done without have cost as much as to move the facts.
        """
        workspace = self._workspace
        is_summed = any(isinstance(facts, SummedFacts) for facts in self._facts.values())
        read = known if is_summed else known // _READ  # totals are not read but grouped
        wanted = partitions(max(work, read), workspace.parallelism)
        if known > SMALL:
            wanted = max(wanted, min(2, workspace.parallelism))
            self._idle_tasks += max(workspace.partitions - wanted, 0)
            if wanted <= workspace.partitions and self._idle_tasks * _MOVED < known:
                return
        self._idle_tasks = 0
        if wanted != workspace.partitions:
            workspace.spread(wanted)
            for facts in self._facts.values():
                facts.spread()

    def _work(self, rule: DeltaRule) -> int:
        """How many facts a rule may derive, guessed: each join multiplies what goes in."""
        atoms = rule.body.atoms
        if rule.seed is None:
            most = max((self._count(atom.relation) for atom in atoms), default=1)
        else:
            most = self._facts[rule.rule.atoms[rule.seed].relation].new
        return most * _FAN_OUT ** max(len(atoms) - 1, 0)

    def _together(self, bag: Bag) -> Bag:
        lone = self._workspace.partitions == 1
        return Bag(bag.frame.coalesce(1), bag.contributors) if lone else bag

    # ── What there is from the start ─────────────────────────────────────────────────────────────

    def _base(self, info: RelationInfo) -> SparkTable:
        """A relation that no rule derives."""
        if info.takes_data and not self._program.facts.get(info.name):
            return self._store[info.name]
        given = self._given(info)
        if given is None:
            return self._empty(info)
        self._spread(self._store[info.name].count() if info.takes_data else 1)
        run = self._workspace.materialise(self._together(Bag(given)).frame)
        return SparkTable(info.columns, run.frame, [run], run.count)

    def _given(self, info: RelationInfo) -> DataFrame | None:
        """The facts from data and from the program, each once."""
        frames: list[DataFrame] = []
        if info.takes_data and self._store[info.name].count():
            frames.append(self._store[info.name].rows.frame)
        facts = self._program.facts.get(info.name)
        if facts:
            frames.append(self._written(info, facts))
        if not frames:
            return None
        return frames[0] if len(frames) == 1 else union(frames).distinct()

    def _written(self, info: RelationInfo, facts: Sequence[tuple[Value, ...]]) -> DataFrame:
        rows = dict.fromkeys(facts) if info.arity else {(True,): None}
        fields = list(physical_schema(info.columns))
        columns = [
            pa.array([_widen(row[i], field.type) for row in rows], field.type)
            for i, field in enumerate(fields)
        ]
        table = pa.Table.from_arrays(columns, schema=physical_schema(info.columns))
        return self._workspace.local(table, schema(info.columns)).distinct()

    def _empty(self, info: RelationInfo) -> SparkTable:
        frame = self._workspace.empty(schema(info.columns))
        return SparkTable(info.columns, frame, count=0)

    # ── Limits ───────────────────────────────────────────────────────────────────────────────────

    def _check_facts(self) -> None:
        derived = sum(facts.count for facts in self._facts.values())
        for name, table in self._tables.items():
            derived += table.count() if self._program.relations[name].is_derived else 0
        most = self._options.max_facts
        if most is not None and derived > most:
            raise LimitReached(limit("max_facts", most, self.current))

    def _check_rounds(self, done: int) -> None:
        most = self._options.max_rounds
        if most is not None and done >= most:
            raise LimitReached(limit("max_rounds", most, self.current))

    def _check_sums(self, growth: Growth, clique: DeltaClique, total: int) -> None:
        """Stop if there are sums that will never settle. If so, they are few: fewer than rounds."""
        growth.count(total)
        if not growth.is_suspect:
            return
        summed = {n: f for n, f in self._facts.items() if isinstance(f, SummedFacts)}
        grouped = {n: f for n, f in self._facts.items() if isinstance(f, SummedFacts | BestFacts)}
        if not growth.is_sure:
            found = {(n, *key): value for n, f in grouped.items() for key, value in values_of(f)}
            if not growth.look(found):
                return
        for name, facts in summed.items():
            if facts.new:
                rules = [each.rule for each in clique.delta_rules]
                rule = next((rule for rule in rules if rule.head == name), rules[0])
                changing = facts.read(Version.DELTA).frame.select(*facts.names).first()
                raise LimitReached(report_growth(rule, tuple(changing or ()), growth.rounds))


def values_of(facts: SummedFacts | BestFacts) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The values of aggregates, by column and group."""
    info = facts.info
    for row in facts.read(Version.NEW).frame.select(*facts.names).collect():
        group = tuple(row[i] for i in info.group)
        yield from (((i, *group), row[i]) for i, f in enumerate(info.aggregates) if f is not None)


def _widen(value: Value, type: pa.DataType) -> Value:
    return float(value) if pa.types.is_floating(type) and isinstance(value, int) else value
