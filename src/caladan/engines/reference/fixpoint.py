"""The naive evaluation of a clique: all its rules, over everything known, until nothing changes.

A round evaluates every rule over the facts at its start; the first starts from nothing, so that
only what is given and the exit rules add to it. A plain relation then grows by what the rules
derived. A relation with aggregates is combined from all solutions of the round: sums and counts are
replaced by their new totals, `mmin` and `mmax` keep the best value they ever had. A clique that is
not recursive has one round. Limits (rounds, facts and seconds) are looked at between small pieces
of work.

A solution gives every aggregate column a `Part`: an amount and, where each witness counts once, the
witness. `count` has the amount 1 everywhere; the tuple of a `countd` is a witness of the amount 1.
A plain value in an aggregate column, from a fact or from a rule, is an amount without witness.
`combined` collects the parts by group and makes one row of each group.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Final, TypeVar

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.reference.body import (
    Binding,
    Facts,
    InfiniteValue,
    Row,
    canonical,
    evaluate,
    less,
    row_key,
    solutions,
    sort_key,
    widened,
)
from caladan.program import Aggregate, Type, Value
from caladan.program.aggregates import (
    AggregateFunction,
    counts_solutions,
    evaluate as of_solutions,
    has_empty_value,
    row_of,
)
from caladan.program.clock import deadline
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.events import Listener, RoundDone, RuleDone
from caladan.program.functions import CallFailed
from caladan.program.options import Options
from caladan.rules.failures import (
    LimitName,
    LimitReached,
    call_failed,
    division_by_zero,
    growing,
    limit,
    overflow,
)
from caladan.rules.program import DeltaClique
from caladan.rules.support import Growth


@dataclass(frozen=True, slots=True)
class Part:
    """What one solution gives to one aggregate column."""

    amount: Value
    witness: Row | None = None


@dataclass(frozen=True, slots=True)
class Addend:
    """What one solution gives to a relation: the group, and a part for each aggregate column."""

    group: Row
    parts: tuple[Part, ...]


def contribution(info: RelationInfo, rule: CoreRule, binding: Binding) -> Addend:
    """What a solution of a rule gives."""
    group: list[Value] = []
    parts: list[Part] = []
    for argument, column, function in zip(
        rule.arguments, info.columns, info.aggregates, strict=True
    ):
        if isinstance(argument, Aggregate):
            parts.append(_part(argument, column.type, binding))
        else:
            value = widened(evaluate(argument, binding), column.type)
            group.append(value) if function is None else parts.append(Part(value))
    return Addend(tuple(group), tuple(parts))


def fact(info: RelationInfo, row: Row) -> Addend:
    """What a fact gives."""
    return Addend(
        tuple(value for value, f in zip(row, info.aggregates, strict=True) if f is None),
        tuple(Part(value) for value, f in zip(row, info.aggregates, strict=True) if f is not None),
    )


def combined(info: RelationInfo, given: Iterable[Addend]) -> set[Row]:
    """One row for each group; a count or sum over nothing that has no group columns is 0."""
    groups: dict[Row, list[Addend]] = {}
    for each in given:
        groups.setdefault(each.group, []).append(each)
    if not groups and not info.group and has_empty_value(info.aggregates):
        groups[()] = []
    return {_row(info, group, members) for group, members in groups.items()}


def kept(info: RelationInfo, old: set[Row], new: set[Row]) -> set[Row]:
    """A round's rows in the place of those before: `mmin` and `mmax` never give up a better value.

    A group that is not derived any more stays.
    """
    by_group = {_group(info, row): row for row in old}
    for row in new:
        before = by_group.get(_group(info, row), row)
        by_group[_group(info, row)] = tuple(
            _better(function, was, now)
            for function, was, now in zip(info.aggregates, before, row, strict=True)
        )
    return set(by_group.values())


def _part(aggregate: Aggregate, type: Type, binding: Binding) -> Part:
    terms = aggregate.terms
    if row_of(aggregate).counts == "terms" or row_of(aggregate).is_gathered:
        return Part(1, tuple(evaluate(term, binding) for term in terms))
    if counts_solutions(aggregate):
        return Part(1)
    *witness, amount = (evaluate(term, binding) for term in terms)
    return Part(widened(amount, type), tuple(witness) or None)


def _row(info: RelationInfo, group: Row, members: list[Addend]) -> Row:
    values = iter(group)
    columns = iter(zip(*(each.parts for each in members), strict=True))
    return tuple(
        next(values) if function is None else _value_of(function, next(columns, ()), column.type)
        for function, column in zip(info.aggregates, info.columns, strict=True)
    )


def _value_of(row: AggregateFunction, parts: Sequence[Part], type: Type) -> Value:
    if row.is_gathered:
        return canonical(widened(of_solutions(row, [part.witness or () for part in parts]), type))
    amounts = [part.amount for part in parts if part.witness is None]
    witnessed: dict[Row, Value] = {}
    for part in parts:
        if part.witness is not None:
            best = witnessed.get(part.witness, part.amount)
            witnessed[part.witness] = part.amount if less(best, part.amount) else best
    amounts += witnessed.values()
    match row.kernel:
        case "least" | "greatest" | "folded":
            if not amounts:
                assert row.identity is not None, row
                return row.identity
            return reduce(row.combine, amounts)
        case "mean":
            return canonical(_total(amounts, type) / len(amounts))
        case "total":
            return canonical(widened(_total(amounts, type), type))
        case "gathered":
            raise AssertionError("done above")


def _total(amounts: list[Value], type: Type) -> float:
    """The sum of numbers, rounded once if they are doubles, whatever their order."""
    numbers = [number for number in amounts if isinstance(number, int | float)]
    if not type.is_floating:
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except ValueError:  # infinities of both signs
        return sum(numbers)
    except OverflowError:
        raise InfiniteValue from None


def _better(row: AggregateFunction | None, was: Value, now: Value) -> Value:
    return row.combine(was, now) if row is not None and row.is_improved else now


def _group(info: RelationInfo, row: Row) -> Row:
    return tuple(row[i] for i in info.group)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NaiveFixpoint:
    """What the cliques of a run share.

    `given` has the facts from data and from the program's text; `facts` is what is known so far.
    """

    relations: Mapping[str, RelationInfo]
    given: Mapping[str, set[Row]]
    facts: Facts
    limits: NaiveLimits
    events: Listener


def evaluate_clique(run: NaiveFixpoint, clique: DeltaClique) -> int:
    """Derive the relations of a clique, and return how many rounds it took."""
    run.limits.enter(clique.origins)
    rules = _rules(clique)
    for name in clique.relations:
        run.facts[name] = set()
    rounds = 0
    growth = Growth(clique.totals)
    while True:
        started = time.perf_counter()
        before = run.facts.count(clique.relations)
        changed = _round(run, clique, rules)
        rounds += 1
        total = run.facts.count(clique.relations)
        run.events.tell(RoundDone(rounds, total - before, total, time.perf_counter() - started))
        run.limits.facts(run.facts.count(n for n, i in run.relations.items() if i.is_derived))
        if not (changed and clique.is_recursive):
            return rounds
        if clique.totals is not None:
            growth.count(total)
            if growth.is_sure or (growth.is_suspect and growth.look(_values(run, clique))):
                raise LimitReached(_never_settling(run, clique, changed, growth.rounds))
        run.limits.rounds(rounds)


def _rules(clique: DeltaClique) -> list[CoreRule]:
    """The rules behind the exit and delta rules, each once."""
    rules: list[CoreRule] = []
    for each in (*clique.exit_rules, *clique.delta_rules):
        if each.rule not in rules:
            rules.append(each.rule)
    return rules


def _values(run: NaiveFixpoint, clique: DeltaClique) -> dict[tuple[str, int, Row], Value]:
    """The value of every aggregate, by relation, column and group."""
    return {
        (name, i, tuple(row[g] for g in run.relations[name].group)): row[i]
        for name in clique.relations
        for row in run.facts[name]
        for i, function in enumerate(run.relations[name].aggregates)
        if function is not None
    }


def _never_settling(
    run: NaiveFixpoint, clique: DeltaClique, changed: Mapping[str, set[Row]], rounds: int
) -> Diagnostic:
    """C042 for a fact whose sums still change."""
    names = [
        n for n in changed if any(f is not None and f.is_total for f in run.relations[n].aggregates)
    ]
    rules = [each.rule for each in clique.delta_rules]
    rule = next((rule for rule in rules if rule.head in names), rules[0])
    return growing(rule, min(changed[rule.head], key=row_key), rounds)


def _round(run: NaiveFixpoint, clique: DeltaClique, rules: list[CoreRule]) -> dict[str, set[Row]]:
    """One round; the facts that were not there before, of each relation that has some."""
    after: dict[str, set[Row]] = {}
    for name in clique.relations:
        deriving = [rule for rule in rules if rule.head == name]
        if run.relations[name].has_aggregates:
            after[name] = _combine(run, run.relations[name], deriving)
        else:
            derived = [_derive(run, rule) for rule in deriving]
            after[name] = run.facts[name].union(run.given[name], *derived)
    changed = {name: new for name, rows in after.items() if (new := rows - run.facts[name])}
    for name, rows in after.items():
        run.facts[name] = rows
    return changed


def _derive(run: NaiveFixpoint, rule: CoreRule) -> set[Row]:
    """The rows of a rule for a plain relation."""
    info = run.relations[rule.head]

    def derived(binding: Binding) -> tuple[Row, Row]:
        row = tuple(
            widened(evaluate(argument, binding), column.type)
            for argument, column in zip(rule.arguments, info.columns, strict=True)
        )
        return row, tuple(binding[key.variable.name] for key in rule.order)

    rows = set(_for_each_solution(run, rule, derived))
    return {row for row, _ in (rows if rule.limit is None else _cut(rule, rows))}


def _cut(rule: CoreRule, rows: set[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """The first rows in the rule's order, given with their sort keys; the columns break ties."""
    ordered = sorted(rows, key=lambda found: row_key(found[0]))
    for position, key in reversed(list(enumerate(rule.order))):
        # Sorting is stable: what was sorted by before decides where this key does not.
        ordered.sort(key=lambda found: sort_key(found[1][position]), reverse=key.descending)
    return ordered[: rule.limit]


def _combine(run: NaiveFixpoint, info: RelationInfo, rules: list[CoreRule]) -> set[Row]:
    """The rows of a relation with aggregates."""
    given = [fact(info, row) for row in run.given[info.name]]
    for rule in rules:
        given += _for_each_solution(run, rule, partial(contribution, info, rule))
    with _blamed(next(rule for rule in rules if rule.has_aggregates)):
        return kept(info, run.facts[info.name], combined(info, given))


def _for_each_solution(run: NaiveFixpoint, rule: CoreRule, make: Callable[[Binding], T]) -> list[T]:
    """What is made of each solution of a rule."""
    started = time.perf_counter()
    with _blamed(rule):
        made = [make(binding) for binding in run.limits.watch(solutions(rule, run.facts))]
    run.events.tell(RuleDone(rule.number, None, len(made), time.perf_counter() - started))
    return made


@contextmanager
def _blamed(rule: CoreRule) -> Generator[None]:
    """Turn a failure of arithmetic into a diagnostic that names the rule."""
    try:
        yield
    except ZeroDivisionError:
        raise CaladanError(division_by_zero(rule)) from None
    except CallFailed as failed:
        raise CaladanError(call_failed(rule, failed.function, failed.reason)) from failed.__cause__
    except OverflowError as problem:
        double = isinstance(problem, InfiniteValue)
        raise CaladanError(overflow(rule, double=double)) from None


_GLANCE: Final = 1024  # solutions between two looks at the clock


class NaiveLimits:
    """Watches over a run; its methods raise `LimitReached`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._deadline = deadline(options.timeout)
        self._relations: Sequence[str] = ()

    def enter(self, relations: Sequence[str]) -> None:
        """Relations that are derived from now on, to be named if a limit is reached."""
        self._relations = relations

    def watch(self, items: Iterator[T]) -> Iterator[T]:
        """The same items, with a look at the clock now and then."""
        for number, item in enumerate(items):
            if number % _GLANCE == 0:
                self.seconds()
            yield item

    def seconds(self) -> None:
        """Stop if the time is over."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._stop("timeout", self._options.timeout or 0)

    def facts(self, derived: int) -> None:
        """Stop if more facts were derived than allowed."""
        most = self._options.max_facts
        if most is not None and derived > most:
            self._stop("max_facts", most)

    def rounds(self, done: int) -> None:
        """Stop if another round is needed and none is left."""
        most = self._options.max_rounds
        if most is not None and done >= most:
            self._stop("max_rounds", most)

    def _stop(self, name: LimitName, bound: float) -> None:
        raise LimitReached(limit(name, bound, self._relations))
