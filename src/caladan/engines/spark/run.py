"""A run: the cliques of a program, one after another, each by the strategy that suits it.

All cliques whose inputs are small go to one task together. The others are evaluated one by one: the
tables that one makes are data for the next, whichever strategies they have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.data.schema import table_of
from caladan.engines.interface import EngineStopped, Table
from caladan.engines.spark.choice import (
    ONE_TASK,
    choices,
    facts_in,
    find_forced,
    inputs_of,
    together,
    why_not,
)
from caladan.engines.spark.frame.fixpoint import FrameFixpoint
from caladan.engines.spark.session.connect import describe_jobs, is_connect
from caladan.engines.spark.session.memory import task_memory
from caladan.engines.spark.session.workers import obstacle
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources.table import SparkTable, distinct, held
from caladan.engines.spark.strategy import CannotServe, Context, Stopping, Strategy
from caladan.engines.spark.tasks.job import lost
from caladan.program.clock import deadline
from caladan.program.diagnostics import Diagnostic
from caladan.program.events import Listener, StrategyDeclined
from caladan.program.options import Options
from caladan.rules.failures import LimitName, LimitReached, limit, report_interrupt
from caladan.rules.program import DeltaClique, DeltaProgram, program_of, reads

_FEW_NAMES: Final = 5  # relations that the description of a job names


_NO_SEARCH: Final = "the joins of frames are Spark's own plans"


@dataclass(slots=True)
class Cliques:
    """One run of a program."""

    program: DeltaProgram
    store: InitVar[Mapping[str, SparkTable]]
    options: Options
    events: Listener
    workspace: Workspace
    stopping: Stopping = field(default_factory=Stopping)
    current: tuple[str, ...] = ()
    """The relations that are being derived."""
    _deadline: float | None = field(init=False)
    _given: Options = field(init=False)  # what the strategy that is at work was given
    _known: dict[str, SparkTable] = field(init=False)
    _derived: dict[str, SparkTable] = field(default_factory=dict)
    _frame: FrameFixpoint | None = None

    def __post_init__(self, store: Mapping[str, SparkTable]) -> None:
        self._deadline = deadline(self.options.timeout)
        self._given, self._known = self.options, dict(store)

    @property
    def _has_rdds(self) -> bool:
        return not is_connect(self.workspace.session)

    @property
    def rules(self) -> list[CoreRule]:
        """All rules of the program, to be named in diagnostics."""
        return [rule.rule for rule in self.program.rules]

    def run(self) -> None:
        """Evaluate every clique."""
        in_cliques = {name for clique in self.program.cliques for name in clique.relations}
        for name, info in self.program.relations.items():
            if name not in in_cliques and info.is_derived:
                self._keep({name: self._written(info)})
        waiting = list(self.program.cliques)
        tasks: int | None = parts_of(self.workspace)
        is_open = True  # whether all that is left may go to one task
        while waiting:
            if is_open and self._goes_together(waiting, tasks):
                if self._try("single", waiting):
                    return
                is_open = False
            self._evaluate(waiting.pop(0))
            tasks = None  # what is explained before a run is decided before it, too

    def tables(self) -> dict[str, SparkTable]:
        """The derived relations, as far as they are known."""
        if self._frame is not None:
            # A run that was told to end is no reason not to finish what it has derived.
            self.workspace.check = lambda: None
            self._keep(self._frame.tables())
            self._frame = None
        return dict(self._derived)

    def close(self) -> None:
        """Let go of everything that was derived: nobody will ask for it."""
        for table in self.tables().values():
            table.close()

    # ── Strategies ───────────────────────────────────────────────────────────────────────────────

    def _goes_together(self, cliques: Sequence[DeltaClique], tasks: int | None) -> bool:
        facts, relations = facts_in(cliques, self._sizes()), self.program.relations
        how = together(cliques, facts, self.options, tasks, relations, has_rdds=self._has_rdds)
        return how is not None

    def _evaluate(self, clique: DeltaClique) -> None:
        tasks = parts_of(self.workspace)
        facts, asked = facts_in([clique], self._sizes()), find_forced(clique, self.options)
        relations = self.program.relations
        if asked is not None and (obstacle := why_not(asked, clique, relations)):
            self.events.tell(StrategyDeclined(clique.relations, asked, obstacle))
            asked = None
        for choice in choices(clique, facts, asked, tasks, relations, has_rdds=self._has_rdds):
            if self._try(choice.strategy, [clique]):
                return
        raise AssertionError("frame serves everything")

    def _try(self, name: str, cliques: Sequence[DeltaClique]) -> bool:
        """Have cliques evaluated by a strategy; False if it cannot."""
        program = program_of(self.program, cliques)
        self.current = cliques[0].origins
        store = {n: self._known[n] for n, info in program.relations.items() if info.takes_data}
        self._given = self._left()
        parts = parts_of(self.workspace)
        context = Context(
            self.workspace,
            self._given,
            self.events,
            parts,
            self.stopping,
            self._limits,
            find_asked(self.program, cliques),
        )
        if name != "single" and self.workspace.shuffle_bytes is not None:
            self.workspace.shuffle_bytes.expected = True
        try:
            if name != "frame" and (reason := self._why_no_tasks(name, cliques)) is not None:
                raise CannotServe(reason)
            if name == "frame" and self.options.search is not None:
                for clique in cliques:
                    grade = f"search {self.options.search}"
                    self.events.tell(StrategyDeclined(clique.relations, grade, _NO_SEARCH))
            describe_jobs(
                self.workspace.session, f"{_list_names(cliques)}, {name}{_tasks(name, parts)}"
            )
            found = self._strategy(name)(program, store, context)
        except CannotServe as cannot:
            for clique in cliques:
                self.events.tell(StrategyDeclined(clique.relations, name, cannot.reason))
            return False
        except MemoryError:  # of this process, which brings tasks their inputs
            reason = "the driver's Python has too little memory for it"
            for clique in cliques:
                self.events.tell(StrategyDeclined(clique.relations, name, reason))
            if name == "frame":
                raise
            return False
        except EngineStopped as stopped:
            self._keep(stopped.store)
            said = stopped.diagnostics[0]
            late = self.stopping.is_late
            told = restate(said, self._given, self.options, cliques, late)
            raise EngineStopped(told, {}) from None
        self._keep(found)
        return True

    def _strategy(self, name: str) -> Strategy:
        """A strategy, loaded when it is first wanted."""
        if name == "frame":
            return self._by_frames
        if name == "cubed":
            from caladan.engines.spark.cube.strategy import run_cubed

            return run_cubed
        if name == "meshed":
            from caladan.engines.spark.mesh.strategy import run_meshed

            return run_meshed
        if name == "single" and not self._has_rdds:
            from caladan.engines.spark.tasks import connect

            return connect.single
        from caladan.engines.spark.tasks import strategies

        return strategies.single if name == "single" else strategies.run_pivoted

    def _why_no_tasks(self, strategy: str, cliques: Sequence[DeltaClique]) -> str | None:
        workspace = self.workspace
        try:
            if strategy != "single" and not self._has_rdds:
                return ONE_TASK
            session: Any = workspace.session
            if self._has_rdds:
                relations, parts = self.program.relations, parts_of(workspace)
                inputs = inputs_of(strategy, cliques, relations, self._sizes(), parts)
                memory = task_memory(session.sparkContext)
                if inputs is not None and (reason := inputs.why_too_much(memory)):
                    return reason
            asked = session.sparkContext if self._has_rdds else session
            return obstacle(asked, workspace.ship, workspace.check)
        except (PySparkException, Py4JError) as problem:
            failure = lost(problem)
            if isinstance(failure, CannotServe):
                return failure.reason
            raise

    def _by_frames(
        self, program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
    ) -> dict[str, SparkTable]:
        """Strategy *frame*; what it has derived can be had even after its jobs were cancelled."""
        self._frame = FrameFixpoint(program, store, context.options, context.events, self.workspace)
        try:
            self._frame.run()
        except LimitReached as reached:
            raise EngineStopped(reached.diagnostics[0], {}) from None
        found = self._frame.tables()
        self._frame = None
        return found

    def _limits(self) -> Options:
        """The limits that hold for tasks that are started now."""
        self._given = self._left()
        return self._given

    def _left(self) -> Options:
        """The limits that hold from now on."""
        left = self.options
        if self._deadline is not None:
            # Never nothing: an engine that has no time left should say so itself.
            left = replace(left, timeout=max(self._deadline - time.monotonic(), 1e-3))
        if left.max_facts is not None:
            facts = sum(table.count() for table in self._derived.values())
            left = replace(left, max_facts=max(left.max_facts - facts, 0))
        return left

    # ── Tables ───────────────────────────────────────────────────────────────────────────────────

    def _sizes(self) -> Mapping[str, int]:
        """How many facts each relation has that is known; counted when somebody asks."""
        return _Sizes(self._known)

    def _keep(self, tables: Mapping[str, Table]) -> None:
        """Relations that are known from now on."""
        for name, table in tables.items():
            if isinstance(table, SparkTable) and self.program.relations[name].is_derived:
                self._known[name] = self._derived[name] = table

    def _written(self, info: RelationInfo) -> SparkTable:
        """A relation whose facts are in the program, perhaps beside data."""
        data = table_of(self.program.facts.get(info.name, ()), info.columns)
        if info.takes_data:
            data = pa.concat_tables([self._known[info.name].arrow(), data])
        return held(info.columns, distinct(data), self.workspace)


class _Sizes(Mapping[str, int]):
    """The numbers of facts in tables, each counted when it is asked for."""

    def __init__(self, tables: Mapping[str, SparkTable]) -> None:
        self._tables = tables

    def __getitem__(self, name: str) -> int:
        return self._tables[name].size

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def find_asked(program: DeltaProgram, cliques: Sequence[DeltaClique]) -> frozenset[str] | None:
    """What of some cliques goals read, or others; None of a program without goals: perhaps all.

    A clique that nobody reads would not be evaluated unless somebody wanted it.
    """
    if not program.goals:
        return None
    goals = {goal.relation for goal in program.goals}
    read = {each.relations: set(reads([each])) for each in program.cliques}
    own = {each.relations for each in cliques}
    outside = goals.union(*(names for key, names in read.items() if key not in own))
    found = set[str]()
    for clique in cliques:
        others = (names for key, names in read.items() if key != clique.relations)
        is_read = not goals.isdisjoint(clique.relations) or any(
            not names.isdisjoint(clique.relations) for names in others
        )
        found.update(outside.intersection(clique.relations) if is_read else clique.relations)
    return frozenset(found)


def parts_of(workspace: Workspace) -> int:
    """How many tasks evaluate a clique together: as many as run at the same time."""
    return workspace.parallelism


def restate(
    diagnostic: Diagnostic,
    given: Options,
    asked: Options,
    cliques: Sequence[DeltaClique],
    late: bool,
) -> Diagnostic:
    """What a strategy says about a limit, in the numbers that the user gave.

    Tasks have clocks of their own; one that was asked to stop since it was late met that limit.
    """
    names: tuple[LimitName, ...] = ("timeout", "max_facts", "max_rounds")
    for name in names:
        bound, wanted = getattr(given, name), getattr(asked, name)
        for clique in cliques:
            said = [] if bound is None else [limit(name, bound, clique.origins)]
            if name == "timeout" and late:
                said.append(report_interrupt(clique.origins))
            if diagnostic in said:
                return limit(name, wanted, clique.origins)
    return diagnostic


def _list_names(cliques: Sequence[DeltaClique]) -> str:
    """The names of what some cliques derive, of many the first."""
    names = [name for clique in cliques for name in clique.relations]
    return ", ".join(names if len(names) <= _FEW_NAMES else [*names[:_FEW_NAMES], "…"])


def _tasks(strategy: str, parts: int) -> str:
    if strategy in ("pivoted", "meshed"):
        return f", {parts} tasks"
    return ", 1 task" if strategy == "single" else ""
