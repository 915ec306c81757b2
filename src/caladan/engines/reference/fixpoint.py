"""The evaluation of a clique: all its rules, over everything known, until nothing changes.

A round evaluates every rule over the facts at its start; the first starts from nothing, so that
only what is given and the exit rules add to it. A plain relation then grows by what the rules
derived. A relation with aggregates is combined from all solutions of the round: sums and counts are
replaced by their new totals, `mmin` and `mmax` keep the best value they ever had. A clique that is
not recursive has one round. In a clique without aggregates, a rule is evaluated again only with
facts of the last round in one of its atoms: the others it has seen. Limits (rounds, facts and
seconds) are looked at between small pieces of work.

A best value with witnesses takes a fixpoint for each column: first of the values, whatever their
witnesses, then of the least witnesses among the solutions that have these values, and so on. So a
witness is made of final values.

A sum of a recursion may have been given what does not hold in the end. `SumHistory` has all
solutions that ever gave to one; if some of them are no more, there is no answer (C047).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from caladan.analysis.core import RelationInfo
from caladan.analysis.strata import components
from caladan.analysis.written import WrittenProgram, WrittenRule
from caladan.engines.reference.aggregates import (
    Addend,
    Grouping,
    agrees,
    amounts,
    combine,
    compute_alone,
    contribution,
    find_grouping,
    improve,
    kept,
    stands_alone,
    with_witness,
)
from caladan.engines.reference.body import (
    FactStore,
    InfiniteValue,
    Row,
    Solution,
    evaluate,
    row_key,
    solutions,
    sort_key,
    widen_value,
)
from caladan.program import NULL, Atom, Type, Value, Variable, atoms
from caladan.program.clock import deadline
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.events import Listener, RoundDone, RuleDone
from caladan.program.functions import CallFailed, TooLarge
from caladan.program.operations import OutOfRange
from caladan.program.options import Options
from caladan.rules.failures import (
    LimitName,
    LimitReached,
    call_failed,
    division_by_zero,
    limit,
    lost,
    overflow,
    report_growth,
)
from caladan.rules.program import Totals
from caladan.rules.support import Growth

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WrittenClique:
    """Relations that depend on each other, or one that does not, with their rules."""

    relations: tuple[str, ...]
    rules: tuple[WrittenRule, ...]
    groupings: Mapping[str, Grouping]

    @property
    def is_recursive(self) -> bool:
        """True if a rule reads a relation of the clique."""
        return any(map(self.reads_itself, self.rules))

    def reads_itself(self, rule: WrittenRule) -> bool:
        """True if this rule reads a relation of the clique."""
        return any(atom.relation in self.relations for atom in atoms(rule.body))

    @property
    def has_aggregates(self) -> bool:
        """True if some relation has an aggregate."""
        return any(each.has_aggregates for each in self.groupings.values())

    @property
    def has_witnesses(self) -> bool:
        """True if it is a relation of best values with witnesses; no other reads and feeds it."""
        return any(each.witnesses for each in self.groupings.values())


def cliques(program: WrittenProgram) -> list[WrittenClique]:
    """The derived relations, each after all that its rules read."""
    own: dict[str, list[WrittenRule]] = {
        name: [] for name, info in program.relations.items() if info.is_derived
    }
    for rule in program.rules:
        own[rule.head].append(rule)
    reads = {
        name: [atom.relation for rule in rules for atom in atoms(rule.body)]
        for name, rules in own.items()
    }
    return [
        WrittenClique(
            names,
            tuple(rule for name in names for rule in own[name]),
            {name: find_grouping(own[name], program.relations[name].arity) for name in names},
        )
        for names in components(list(own), reads)
    ]


@dataclass(frozen=True, slots=True)
class NaiveFixpoint:
    """What the cliques of a run share.

    `given` has the facts from data and from the program's text; `facts` is what is known so far.
    `totals` says how surely growing sums can be told.
    """

    relations: Mapping[str, RelationInfo]
    given: Mapping[str, set[Row]]
    facts: FactStore
    totals: Mapping[str, Totals | None]
    limits: NaiveLimits
    events: Listener


Changed = dict[str, set[Row]]
"""The facts that were not there before, of each relation that has some."""


def evaluate_clique(run: NaiveFixpoint, clique: WrittenClique) -> int:
    """Derive the relations of a clique, and return how many rounds it took."""
    run.limits.enter(clique.relations)
    for name in clique.relations:
        run.facts[name] = set()
    if clique.has_witnesses:
        (relation,) = clique.relations
        steps = range(1 + len(clique.groupings[relation].witnesses))
        return sum(_best(run, clique, relation, step) for step in steps)
    history = SumHistory(clique)

    def next_round(last: Changed | None) -> Changed:
        if last is None or clique.has_aggregates:
            return _round(run, clique, history)
        return _round_after(run, clique, last)

    rounds = _repeat(run, clique, next_round)
    history.check()
    return rounds


def _repeat(
    run: NaiveFixpoint, clique: WrittenClique, step: Callable[[Changed | None], Changed]
) -> int:
    """Rounds, each told what the one before changed, until one changes nothing; their number."""
    rounds = 0
    changed: Changed | None = None
    totals = run.totals.get(clique.relations[0])
    growth = Growth(totals)
    while True:
        started = time.perf_counter()
        before = run.facts.count(clique.relations)
        changed = step(changed)
        rounds += 1
        total = run.facts.count(clique.relations)
        run.events.tell(RoundDone(rounds, total - before, total, time.perf_counter() - started))
        run.limits.facts(run.facts.count(n for n, i in run.relations.items() if i.is_derived))
        if not (changed and clique.is_recursive):
            return rounds
        if totals is not None:
            growth.count(total)
            if growth.is_sure or (growth.is_suspect and growth.look(_values(run, clique))):
                raise LimitReached(_never_settling(clique, changed, growth.rounds))
        run.limits.rounds(rounds)


def _values(run: NaiveFixpoint, clique: WrittenClique) -> dict[tuple[str, int, Row], Value]:
    """The value of every aggregate, by relation, column and group."""
    return {
        (name, i, tuple(row[g] for g in grouping.group)): row[i]
        for name, grouping in clique.groupings.items()
        for row in run.facts[name]
        for i, function in enumerate(grouping.functions)
        if function is not None
    }


def _never_settling(clique: WrittenClique, changed: Changed, rounds: int) -> Diagnostic:
    """C042 for a fact whose sums still change."""
    names = [name for name in changed if clique.groupings[name].adds_up]
    rules = [rule for rule in clique.rules if clique.reads_itself(rule)]
    rule = next((rule for rule in rules if rule.head in names), rules[0])
    return report_growth(rule, min(changed[rule.head], key=row_key), rounds)


# ── Rounds ───────────────────────────────────────────────────────────────────────────────────────


def _round(run: NaiveFixpoint, clique: WrittenClique, history: SumHistory) -> Changed:
    """All rules over all facts."""
    after: dict[str, set[Row]] = {}
    history.begin_round()
    for name in clique.relations:
        rules = [rule for rule in clique.rules if rule.head == name]
        if clique.groupings[name].has_aggregates:
            own = clique.groupings[name]
            after[name] = _combine(run, own, name, rules, history, clique.is_recursive)
        else:
            derived = [_derive(run, rule) for rule in rules]
            after[name] = run.facts[name].union(run.given[name], *derived)
    changed = {name: new for name, rows in after.items() if (new := rows - run.facts[name])}
    for name, rows in after.items():
        run.facts[name] = rows
    return changed


def _round_after(run: NaiveFixpoint, clique: WrittenClique, last: Changed) -> Changed:
    """The rules without aggregates that read the clique, over what they have not seen together."""
    derived: Changed = {name: set() for name in clique.relations}
    for rule in filter(clique.reads_itself, clique.rules):
        read = [i for i, each in enumerate(rule.body) if _is_of(each, clique.relations)]
        if len(read) < sum(atom.relation in clique.relations for atom in atoms(rule.body)):
            derived[rule.head] |= _derive(run, rule)  # alternatives read it
            continue
        for i in read:
            atom = rule.body[i]
            if isinstance(atom, Atom) and (rows := last.get(atom.relation)):
                derived[rule.head] |= _derive(run, rule, (i, rows))
    changed = {name: new for name, rows in derived.items() if (new := rows - run.facts[name])}
    for name, rows in changed.items():
        run.facts.add(name, rows)
    return changed


def _is_of(literal: object, relations: Sequence[str]) -> bool:
    return isinstance(literal, Atom) and literal.relation in relations


def _derive(
    run: NaiveFixpoint, rule: WrittenRule, seed: tuple[int, set[Row]] | None = None
) -> set[Row]:
    """The rows of a rule, as its order and limit cut them."""
    types = run.relations[rule.head].types
    if stands_alone(rule):
        found = _for_each_solution(run, rule, lambda binding: binding)
        with _blame(rule):
            rows = set(compute_alone(rule, types, found))
    else:
        rows = set(_for_each_solution(run, rule, partial(_row, rule, types), seed))
    return {row for row, _ in (rows if rule.limit is None else _cut(rule, rows))}


def _row(rule: WrittenRule, types: Sequence[Type], binding: Solution) -> tuple[Row, Row]:
    """The head's values, and those to sort by."""
    row = tuple(
        widen_value(evaluate(argument, binding), type)
        for argument, type in zip(rule.arguments, types, strict=True)
    )
    return row, tuple(binding[key.variable.name] for key in rule.order)


def _cut(rule: WrittenRule, rows: set[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """The first rows in the rule's order, given with their sort keys; the columns break ties."""
    ordered = sorted(rows, key=lambda found: row_key(found[0]))
    for position, key in reversed(list(enumerate(rule.order))):
        # Sorting is stable: what was sorted by before decides where this key does not.
        ordered.sort(key=lambda found: sort_key(found[1][position]), reverse=key.descending)
    return ordered[: rule.limit]


def _combine(
    run: NaiveFixpoint,
    grouping: Grouping,
    name: str,
    rules: list[WrittenRule],
    history: SumHistory,
    is_recursive: bool,
) -> set[Row]:
    """The rows of a relation with aggregates; rows of rules that compute or cut are amounts.

    In recursion, and where it has facts, a solution without a value gives nothing at all.
    """
    types = run.relations[name].types
    given = [amounts(grouping, row) for row in run.given[name]]
    for rule in rules:
        if stands_alone(rule) or rule.limit is not None:
            given += [amounts(grouping, row) for row in _derive(run, rule)]
            continue
        found = _for_each_solution(run, rule, lambda binding: binding)
        with _blame(rule):
            added = [contribution(grouping, types, rule, binding) for binding in found]
        history.add(rule, zip(found, added, strict=True))
        given += added
    if is_recursive or run.given[name]:
        given = [each for each in given if all(part.amount is not NULL for part in each.parts)]
    with _blame(next(rule for rule in rules if not stands_alone(rule))):
        return kept(grouping, run.facts[name], combine(grouping, types, given))


def _best(run: NaiveFixpoint, clique: WrittenClique, name: str, step: int) -> int:
    """The rows that are best in one more column, among those that are best in all before it."""
    own, types = clique.groupings[name], run.relations[name].types
    final = {tuple(row[i] for i in own.group): row for row in run.facts[name]}
    run.facts[name] = set()
    known: dict[Row, Row] = {}

    def next_round(_: Changed | None) -> Changed:
        rows = set(run.given[name])
        for rule in clique.rules:
            rows.update(_for_each_solution(run, rule, partial(with_witness, types, rule)))
        if clique.is_recursive:
            best = [i for i in range(len(types)) if i not in own.group]
            rows = {row for row in rows if all(row[i] is not NULL for i in best)}
        if step > 0:
            of = {row: final[tuple(row[i] for i in own.group)] for row in rows}
            rows = {row for row in rows if agrees(own, step, row, of[row])}
        known.update(improve(own, step, rows, known))
        new = set(known.values()) - run.facts[name]
        run.facts[name] = set(known.values())
        return {name: new} if new else {}

    return _repeat(run, clique, next_round)


def _for_each_solution(
    run: NaiveFixpoint,
    rule: WrittenRule,
    make: Callable[[Solution], T],
    seed: tuple[int, set[Row]] | None = None,
) -> list[T]:
    """What is made of each solution of a rule."""
    started = time.perf_counter()
    with _blame(rule):
        found = solutions(rule, run.facts, run.limits.seconds, seed)
        made = [make(binding) for binding in found]
    run.events.tell(RuleDone(rule.number, None, len(made), time.perf_counter() - started))
    return made


@contextmanager
def _blame(rule: WrittenRule) -> Generator[None]:
    """Turn a failure of arithmetic into a diagnostic that names the rule."""
    try:
        yield
    except ZeroDivisionError:
        raise CaladanError(division_by_zero(rule)) from None
    except CallFailed as failed:
        raise CaladanError(call_failed(rule, failed.function, failed.reason)) from failed.__cause__
    except OverflowError as problem:
        double = isinstance(problem, InfiniteValue | TooLarge)
        of = problem.of if isinstance(problem, OutOfRange) else None
        raise CaladanError(overflow(rule, double=double, of=of)) from None


class SumHistory:
    """The solutions that gave to the sums of a recursion, without the values it changes."""

    def __init__(self, clique: WrittenClique) -> None:
        self._clique = clique
        self._ever: dict[tuple[int, object], tuple[WrittenRule, dict[str, Value]]] = {}
        self._now: set[tuple[int, object]] = set()

    def begin_round(self) -> None:
        """Forget which solutions there are now."""
        self._now = set()

    def add(self, rule: WrittenRule, found: Iterable[tuple[Solution, Addend]]) -> None:
        """Solutions of a rule, with what they give."""
        if not self._clique.groupings[rule.head].adds_up or not self._clique.reads_itself(rule):
            return
        fixed = self._fixed(rule)
        for binding, given in found:
            solution = {name: binding[name] for name in fixed if name in binding}
            key = rule.number, (_who(given), tuple(solution.items()))
            self._ever.setdefault(key, (rule, solution))
            self._now.add(key)

    def _fixed(self, rule: WrittenRule) -> list[str]:
        """The variables that stand in a column that no aggregate of the clique changes."""
        found: set[str] = set()
        for atom in atoms(rule.body):
            own = self._clique.groupings.get(atom.relation)
            functions = own.functions if own is not None else (None,) * len(atom.arguments)
            for argument, function in zip(atom.arguments, functions, strict=True):
                if isinstance(argument, Variable) and function is None and not atom.negated:
                    found.add(argument.name)
        return sorted(found - {"_"})

    def check(self) -> None:
        """C047 if a solution gave to a sum and is no more."""
        for key, (rule, solution) in self._ever.items():
            if key not in self._now:
                raise CaladanError(lost(rule, solution))


def _who(addend: Addend) -> tuple[Row, tuple[Row | None, ...]]:
    """The group and the witnesses of what a solution gives."""
    return addend.group, tuple(part.witness for part in addend.parts)


class NaiveLimits:
    """Watches over a run; its methods raise `LimitReached`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._deadline = deadline(options.timeout)
        self._relations: Sequence[str] = ()

    def enter(self, relations: Sequence[str]) -> None:
        """Relations that are derived from now on, to be named if a limit is reached."""
        self._relations = relations

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
