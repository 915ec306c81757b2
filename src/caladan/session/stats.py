"""Stats: what a run did, and where the time went. A listener, fed by events only.

`Stats` is a tree of plain numbers: a `CliqueStats` for each clique, in it a `RuleStats` for each
rule. `str(stats)` is a table, `stats.to_dict()` is for JSON.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from caladan.program.events import (
    BytesShuffled,
    CheckpointLost,
    CliqueDone,
    CliqueStarted,
    CliqueTaken,
    DataRead,
    Event,
    KernelCompiled,
    Listener,
    MachineRan,
    RelationHeld,
    RelationReused,
    Resumed,
    RoundDone,
    RoundsGathered,
    RowsSetAside,
    RuleDone,
    RulePlanned,
    RuleSearched,
    RuleSkipped,
    RunDone,
    RunsMet,
    RunStarted,
    StrategyDeclined,
    TaskLost,
    ValuesSplit,
)
from caladan.program.notation import count_things


@dataclass(slots=True)
class SearchStats:
    """The values proposed for a variable that several atoms share; rejected ones were wasted."""

    variable: str
    proposed: int = 0
    confirmed: int = 0
    by: dict[str, int] = field(default_factory=dict[str, int])
    """The number of values that each atom proposed."""


@dataclass(slots=True)
class RuleStats:
    """A rule, and the atom whose new facts seed it; `facts` is None if it was not counted.

    `plans` has the steps of the join: one list, or several if the order changed with the facts.
    `search` has the proposals where atoms share variables, or of the guided search.
    `weighed` has, for each choice that led to them, the estimates of the atoms that could have come
    next, the chosen one first. `lookups` found facts in several runs of a relation; `accumulated`
    counts those that merged the runs first.
    """

    rule: int
    seed: str | None
    evaluated: int = 0
    skipped: int = 0
    facts: int | None = None
    seconds: float = 0.0
    search: list[SearchStats] = field(default_factory=list[SearchStats])
    plans: list[list[str]] = field(default_factory=list[list[str]])
    weighed: list[list[str]] = field(default_factory=list[list[str]])
    lookups: int = 0
    accumulated: int = 0


@dataclass(slots=True)
class DeclinedStats:
    """A strategy that did not evaluate a clique, and why."""

    strategy: str
    reason: str


@dataclass(slots=True)
class CliqueStats:
    """Relations evaluated together.

    `layouts` names the layout of each relation at the end of the clique, in this process or a task
    (several names where tasks differ); `declined` which strategies were passed over, and why;
    `tiny_rounds` counts the rounds evaluated one fact at a time,
    `gathered_rounds` those that one task of *meshed* evaluated alone.
    `split` is the number of values too frequent for one task, which all tasks shared;
    `split_values` shows the first of them, unless tasks encrypt what they send. `resumed` is the
    round at which a checkpoint let them go on, 0 if they started anew; `notes` says what was
    wrong with checkpoints.
    """

    relations: tuple[str, ...]
    recursive: bool
    strategy: str
    rounds: int = 0
    facts: int = 0
    seconds: float = 0.0
    rules: list[RuleStats] = field(default_factory=list[RuleStats])
    split: int = 0
    split_values: list[str] = field(default_factory=list[str])
    resumed: int = 0
    layouts: dict[str, str] = field(default_factory=dict[str, str])
    declined: list[DeclinedStats] = field(default_factory=list[DeclinedStats])
    tiny_rounds: int = 0
    gathered_rounds: int = 0
    notes: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class DataStats:
    """The data of a relation, as it was read."""

    relation: str
    facts: int
    seconds: float


@dataclass(slots=True)
class HeldStats:
    """The size of a relation at the end of a run: bytes in memory and on disk.

    `arrangements` lists its column orders for lookups, and views with `_` for omitted columns.
    """

    relation: str
    facts: int
    nbytes: int
    spilled: int
    layout: str = ""
    arrangements: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])


@dataclass(slots=True)
class Stats(Listener):
    """What a run did.

    `facts` counts those derived, `skipped` the scans that guards saved. `peak_memory` is the most
    this process has held, in bytes; `bytes_shuffled` is None where the engine does not tell. `held`
    has the bytes of each relation where they are held by this process or by tasks. `kernels` were
    compiled meanwhile, by the first run on a machine that needs them, in `compile_seconds`.
    `reused` names the relations that earlier runs derived, and this one read.
    """

    engine: str = ""
    seconds: float = 0.0
    peak_memory: int | None = None
    bytes_shuffled: int | None = None
    data: list[DataStats] = field(default_factory=list[DataStats])
    set_aside: dict[str, int] = field(default_factory=dict[str, int])
    """The number of rows that a permissive run set aside, by relation."""
    cliques: list[CliqueStats] = field(default_factory=list[CliqueStats])
    held: list[HeldStats] = field(default_factory=list[HeldStats])
    kernels: int = 0
    compile_seconds: float = 0.0
    reused: list[str] = field(default_factory=list[str])
    _declined: dict[tuple[str, ...], list[DeclinedStats]] = field(
        default_factory=dict[tuple[str, ...], list[DeclinedStats]], repr=False
    )  # of cliques that have not started
    _rules: list[RuleStats] | None = field(default=None, repr=False)  # of the last clique
    _known: dict[tuple[int, str | None], RuleStats] = field(
        default_factory=dict[tuple[int, str | None], RuleStats], repr=False
    )  # the same by number and seed

    @property
    def rounds(self) -> int:
        return sum(clique.rounds for clique in self.cliques)

    @property
    def facts(self) -> int:
        return sum(clique.facts for clique in self.cliques)

    @property
    def skipped(self) -> int:
        return sum(rule.skipped for clique in self.cliques for rule in clique.rules)

    @property
    def strategy(self) -> str:
        """The strategies of the cliques, each once."""
        return ", ".join(dict.fromkeys(clique.strategy for clique in self.cliques))

    @property
    def searched(self) -> dict[tuple[tuple[str, ...], int, str | None], list[SearchStats]]:
        """The proposals by clique, rule and seed, which explain prints beside its estimates."""
        return {(c.relations, r.rule, r.seed): r.search for c in self.cliques for r in c.rules}

    def to_dict(self) -> dict[str, Any]:
        """All statistics as plain values for JSON."""
        totals = {name: getattr(self, name) for name in ("rounds", "facts", "skipped", "strategy")}
        told = {name: value for name, value in asdict(self).items() if not name.startswith("_")}
        return {**told, **totals}

    def __str__(self) -> str:
        lines = [f"{'clique':<32} {'strategy':<10} {'rounds':>7} {'facts':>12} {'seconds':>9}"]
        for clique in self.cliques:
            name = _short(", ".join(clique.relations), 32)
            lines.append(
                f"{name:<32} {clique.strategy:<10} {clique.rounds:>7,} {clique.facts:>12,} "
                f"{clique.seconds:>9.3f}"
            )
            for rule in clique.rules:
                lines += [_rule_line(rule), *map(_search_line, rule.search)]
                if rule.lookups:
                    lines.append(_lookups_line(rule))
                for steps, choices in zip(rule.plans, rule.weighed, strict=True):
                    lines.append(f"    {'; '.join(steps)}")
                    lines += [f"      {each}" for each in choices]
            lines += map(_layout_line, clique.layouts.items())
            lines += [f"  not {each.strategy}: {each.reason}" for each in clique.declined]
            if clique.tiny_rounds:
                lines.append(f"  {clique.tiny_rounds:,} tiny rounds, one fact at a time")
            if clique.gathered_rounds:
                lines.append(f"  {count_things(clique.gathered_rounds, 'round')} in one task")
            if clique.split:
                lines.append(_split_line(clique))
            if clique.resumed:
                lines.append(f"  resumed at round {clique.resumed:,}")
            lines += [f"  {note}" for note in clique.notes]
        if self.reused:
            lines.append(f"read from earlier runs: {', '.join(self.reused)}")
        for relation, rows in self.set_aside.items():
            lines.append(f"{_short(relation, 40)}: {count_things(rows, 'row')} set aside")
        lines.append(
            f"{'total':<32} {self.engine:<10} {self.rounds:>7,} {self.facts:>12,} "
            f"{self.seconds:>9.3f}"
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from caladan.session.display import html_text

        return html_text(str(self))

    # ── Listening ────────────────────────────────────────────────────────────────────────────────

    def tell(self, event: Event) -> None:
        match event:
            case BytesShuffled():
                self.bytes_shuffled = (self.bytes_shuffled or 0) + event.size
            case RunStarted():
                self.engine = event.engine
            case KernelCompiled():
                self.kernels += 1
                self.compile_seconds += event.seconds
            case DataRead():
                self.data.append(DataStats(event.relation, event.facts, event.seconds))
            case RelationReused():
                self.reused.append(event.relation)
            case RowsSetAside():
                self.set_aside[event.relation] = event.rows
            case CliqueStarted():
                relations = tuple(event.relations)
                started = CliqueStats(relations, event.recursive, event.strategy)
                started.declined += self._declined.pop(relations, [])
                self.cliques.append(started)
            case TaskLost():
                lost = {tuple(relations) for relations in event.cliques}
                self.cliques = [each for each in self.cliques if each.relations not in lost]
            case StrategyDeclined():
                self._strategy_declined(event)
            case RelationHeld():
                orders = [tuple(order) for order in event.arrangements]
                held = (event.facts, event.nbytes, event.spilled, event.layout)
                self.held.append(HeldStats(event.relation, *held, orders))
            case RunDone():
                self.seconds += event.seconds
                self.peak_memory = peak_memory()
            case RulePlanned() | RuleDone() | RuleSearched() | RunsMet() | RuleSkipped():
                self._rule_told(event, self._rule(event.rule, event.seed))
            case _:
                self._clique_told(event, self._clique())

    def _strategy_declined(self, event: StrategyDeclined) -> None:
        said = DeclinedStats(event.strategy, event.reason)
        if self.cliques and self.cliques[-1].relations == tuple(event.relations):
            self.cliques[-1].declined.append(said)
        else:
            self._declined.setdefault(tuple(event.relations), []).append(said)

    def _clique_told(self, event: Event, clique: CliqueStats) -> None:
        match event:
            case CliqueTaken():
                clique.strategy = event.strategy
                clique.layouts = dict(zip(event.relations, event.layouts, strict=True))
            case MachineRan():
                clique.tiny_rounds += event.rounds
            case RoundsGathered():
                clique.gathered_rounds += event.rounds
            case RoundDone():
                clique.rounds, clique.facts = event.number, event.total
                clique.seconds += event.seconds
            case ValuesSplit():
                clique.split, clique.split_values = event.values, list(event.shown)
            case Resumed():
                clique.resumed = event.number
            case CheckpointLost():
                clique.notes.append(event.reason)
            case CliqueDone():
                clique.rounds, clique.facts = event.rounds, event.facts
                clique.seconds = event.seconds
            case _:
                pass

    def _rule_told(self, event: Event, rule: RuleStats) -> None:
        match event:
            case RulePlanned():
                if list(event.steps) not in rule.plans:
                    rule.plans.append(list(event.steps))
                    rule.weighed.append(list(event.weighed))
            case RuleDone():
                rule.evaluated += 1
                rule.seconds += event.seconds
                if event.facts is not None:
                    rule.facts = (rule.facts or 0) + event.facts
            case RuleSearched():
                found = [each for each in rule.search if each.variable == event.variable]
                if not found:
                    found = [SearchStats(event.variable)]
                    rule.search += found
                found[0].proposed += event.proposed
                found[0].confirmed += event.confirmed
                for name, count in event.by:
                    found[0].by[name] = found[0].by.get(name, 0) + count
            case RunsMet():
                rule.lookups += event.lookups
                rule.accumulated += event.accumulated
            case _:
                rule.skipped += 1

    def _clique(self) -> CliqueStats:
        if not self.cliques:
            self.cliques.append(CliqueStats((), recursive=False, strategy=""))
        return self.cliques[-1]

    def _rule(self, rule: int, seed: str | None) -> RuleStats:
        rules = self._clique().rules
        if rules is not self._rules:
            self._rules, self._known = rules, {(r.rule, r.seed): r for r in rules}
        known = self._known.get((rule, seed))
        if known is None:
            known = self._known[rule, seed] = RuleStats(rule, seed)
            rules.append(known)
        return known


def peak_memory() -> int | None:
    """The peak memory of this process in bytes; None if the system does not report it."""
    try:
        import resource
    except ImportError:  # not on this system
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _rule_line(rule: RuleStats) -> str:
    seed = f" δ{rule.seed}" if rule.seed else ""
    name = _short(f"  rule {rule.rule}{seed}", 32)
    facts = "" if rule.facts is None else f"{rule.facts:,}"
    skipped = f"  {rule.skipped:,} skipped" if rule.skipped else ""
    return f"{name:<32} {'':<10} {rule.evaluated:>7,} {facts:>12} {rule.seconds:>9.3f}{skipped}"


def _layout_line(held: tuple[str, str]) -> str:
    relation, layout = held
    return f"  {_short(relation, 40)}: {layout}"


def _split_line(clique: CliqueStats) -> str:
    values = [_short(value, 24) for value in clique.split_values]
    if values and len(values) < clique.split:
        values.append("…")
    line = f"  split {count_things(clique.split, 'frequent value')}"
    return f"{line}: {', '.join(values)}" if values else line


def _lookups_line(rule: RuleStats) -> str:
    what = count_things(rule.lookups, "lookup")
    return f"    {what} in several runs, {rule.accumulated:,} of them accumulated"


def _search_line(search: SearchStats) -> str:
    wasted = search.proposed - search.confirmed
    by = ", ".join(f"{count:,} by {name}" for name, count in search.by.items())
    return f"    {search.variable}: {search.proposed:,} proposed, {wasted:,} wasted" + (
        f" ({by})" if by else ""
    )


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
