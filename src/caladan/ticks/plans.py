"""Plans: the steps of a body, compiled to functions over batches of bindings.

`Plan` runs the schedule of a rule over a batch: from facts of one atom (a delta rule), or from
bindings of some variables. A binding is a tuple, and a step makes of a list of them the next list.
A lookup that ends a plan makes facts of the head, without a tuple for the pair. Which index a step
looks into, which columns it takes and where a comparison reads its variables is decided when the
plan is made, not when it runs. A lookup by a table's key, or by more than its key, reads the
table's own dictionary.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.analysis.schedule import Absent, Bind, Lookup, ScheduleStep, Test, schedule
from caladan.language.bloom.values import freeze
from caladan.program import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Parameter,
    Variable,
)
from caladan.program.diagnostics import CaladanError, error
from caladan.program.functions import CallFailed, call
from caladan.ticks.extent import Extent, Fact, Readable, picker

TickBinding: TypeAlias = tuple[Any, ...]
TickBatch: TypeAlias = list[TickBinding]
EvaluateTerm: TypeAlias = Callable[[TickBinding], Any]
ExtendBatch: TypeAlias = Callable[[TickBatch], TickBatch]
PairBatch: TypeAlias = Callable[[TickBatch, Callable[[TickBinding, Fact], Any]], list[Any]]
"""What a lookup finds: for each binding and each of its facts, what a function makes of both."""

_REMEMBERED: Final = 10_000
"""How many inputs of a Python function are remembered with what it made of them."""


class Plan:
    """The steps of a rule from one atom on, or from variables that are bound."""

    def __init__(
        self,
        rule: CoreRule,
        extents: Mapping[str, Extent],
        first: int | None = None,
        bound: Sequence[str] = (),
        read: Sequence[Readable] = (),
    ) -> None:
        self.rule = rule
        self._slots: dict[str, int] = {name: i for i, name in enumerate(bound)}
        self._head_extent = extents.get(rule.head)
        self.read: Sequence[Readable] = read or [extents[a.relation] for a in rule.atoms]
        self._steps: list[ExtendBatch] = []
        self.schedule = schedule(rule, first, bound)
        steps = list(self.schedule)
        self._guards = [
            self.read[i] for i, atom in enumerate(rule.atoms) if not atom.negated and i != first
        ]
        self.seed: Callable[[Iterable[Fact]], TickBatch] | None = None
        if first is not None:
            position = next(i for i, s in enumerate(steps) if s == Lookup(first))
            self.seed = self._seeding(rule.atoms[first], steps[:position])
            steps = steps[position + 1 :]
        arguments = tuple(_feed(argument) for argument in rule.arguments)
        last = steps.pop() if steps and isinstance(steps[-1], Lookup) else None
        for step in steps:
            self._steps.append(self._step(step))
        self._head: Callable[[TickBatch], Iterable[Fact]]
        if isinstance(last, Lookup):
            found, width = self._lookup(last.index), len(self._slots)
            pairs, takes = found
            if (made := self._paired(arguments, width - len(takes), takes)) is not None:
                self._head = lambda batch: pairs(batch, made)
                return
            self._steps.append(_extend(pairs, takes))
        self._head = self._heading(arguments)

    def run(self, given: Iterable[Any]) -> Iterable[Fact]:
        """The head's facts, one for each solution, from facts of the seed or from bindings."""
        for guard in self._guards:
            if not guard.contents:
                return ()
        try:
            batch = list(given) if self.seed is None else self.seed(given)
            for step in self._steps:
                if not batch:
                    return ()
                batch = step(batch)
            return self._head(batch)
        except CaladanError:
            raise
        except Exception as problem:
            raise failure(self.rule, problem) from problem

    # ── Steps ────────────────────────────────────────────────────────────────────────────────────

    def _seeding(
        self, atom: CoreAtom, before: Sequence[ScheduleStep]
    ) -> Callable[[Iterable[Fact]], TickBatch]:
        """Bindings from facts of an atom; what needs none (constants, absence) goes before."""
        early = [self._step(step) for step in before]
        known, tests, takes = self._atom(atom)
        is_whole = not known and not tests and takes == tuple(range(len(atom.arguments)))
        if is_whole and not early:
            return list
        take = _tuples(takes)
        keys = [(p, _constant(part)) for p, part in known]

        def seed(facts: Iterable[Fact]) -> TickBatch:
            starts: TickBatch = [()]
            for step in early:
                starts = step(starts)
            return [
                start + take(fact)
                for fact in (facts if starts else ())
                for start in starts
                if all(fact[p] == value(start) for p, value in keys)
                and all(fact[p] == fact[q] for p, q in tests)
            ]

        return seed

    def _atom(
        self, atom: CoreAtom
    ) -> tuple[list[tuple[int, int | Constant]], list[tuple[int, int]], tuple[int, ...]]:
        """Columns whose value is known, columns that must be equal, and columns to take."""
        known: list[tuple[int, int | Constant]] = []
        tests: list[tuple[int, int]] = []
        takes: list[int] = []
        fresh: dict[str, int] = {}
        for position, argument in enumerate(atom.arguments):
            if isinstance(argument, Constant):
                known.append((position, argument))
            elif argument.is_anonymous:
                continue
            elif argument.name in self._slots:
                known.append((position, self._slots[argument.name]))
            elif argument.name in fresh:
                tests.append((fresh[argument.name], position))
            else:
                fresh[argument.name] = position
                takes.append(position)
        for name in fresh:
            self._slots[name] = len(self._slots)
        return known, tests, tuple(takes)

    def _step(self, step: ScheduleStep) -> ExtendBatch:
        match step:
            case Lookup():
                return _extend(*self._lookup(step.index))
            case Absent():
                return self._absent(step.index)
            case Test():
                return self._test(step.comparison)
            case Bind():
                return self._bind(step)

    def _lookup(self, place: int) -> tuple[PairBatch, tuple[int, ...]]:
        """The pairs that a lookup finds, and the columns of a fact that it binds."""
        extent = self.read[place]
        known, tests, takes = self._atom(self.rule.atoms[place])
        if not known:

            def cross(batch: TickBatch, made: Callable[[TickBinding, Fact], Any]) -> list[Any]:
                facts: Iterable[Fact] = extent.scan()
                if tests:
                    facts = [f for f in facts if all(f[p] == f[q] for p, q in tests)]
                elif len(batch) > 1:
                    facts = list(facts)
                return [made(binding, fact) for binding in batch for fact in facts]

            return cross, takes
        key, rest = self._keyed(extent, known)
        if key is not None:
            checks = [(p, _constant(part)) for p, part in rest]

            def fetch(batch: TickBatch, made: Callable[[TickBinding, Fact], Any]) -> list[Any]:
                contents = extent.contents
                return [
                    made(binding, fact)
                    for binding in batch
                    if (fact := contents.get(key(binding))) is not None
                    and all(fact[p] == value(binding) for p, value in checks)
                    and all(fact[p] == fact[q] for p, q in tests)
                ]

            return fetch, takes
        positions = tuple(p for p, _ in known)
        looked_up = _key([part for _, part in known])

        def look_up(batch: TickBatch, made: Callable[[TickBinding, Fact], Any]) -> list[Any]:
            index = extent.index(positions)
            return [
                made(binding, fact)
                for binding in batch
                if (facts := index.get(looked_up(binding))) is not None
                for fact in facts
                if not tests or all(fact[p] == fact[q] for p, q in tests)
            ]

        return look_up, takes

    def _keyed(
        self, extent: Readable, known: Sequence[tuple[int, int | Constant]]
    ) -> tuple[EvaluateTerm | None, Sequence[tuple[int, int | Constant]]]:
        """How the key of a relation is made of known columns, and those that are more than it."""
        if not 0 < extent.width <= len(known) or known[extent.width - 1][0] >= extent.width:
            return None, ()
        return _key([part for _, part in known[: extent.width]]), known[extent.width :]

    def _absent(self, place: int) -> ExtendBatch:
        extent = self.read[place]
        known, _, _ = self._atom(self.rule.atoms[place])
        if not known:
            return lambda batch: [] if extent.contents else batch
        own, rest = self._keyed(extent, known)
        if own is not None:
            checks = [(p, _constant(part)) for p, part in rest]

            def unkeyed(batch: TickBatch) -> TickBatch:
                contents = extent.contents
                return [
                    binding
                    for binding in batch
                    if (fact := contents.get(own(binding))) is None
                    or any(fact[p] != value(binding) for p, value in checks)
                ]

            return unkeyed
        positions = tuple(p for p, _ in known)
        key = _key([part for _, part in known])

        def absent(batch: TickBatch) -> TickBatch:
            index = extent.index(positions)
            return [binding for binding in batch if index.get(key(binding)) is None]

        return absent

    def _test(self, comparison: Comparison) -> ExtendBatch:
        holds = condition(comparison, self._slots)
        return lambda batch: [binding for binding in batch if holds(binding)]

    def _bind(self, step: Bind) -> ExtendBatch:
        value = evaluator(step.expression, self._slots)
        self._slots[step.variable] = len(self._slots)
        if isinstance(step.expression, Function) and step.expression.each:
            return lambda batch: [
                (*binding, freeze(item)) for binding in batch for item in value(binding)
            ]
        return lambda batch: [(*binding, freeze(value(binding))) for binding in batch]

    def _paired(
        self, arguments: tuple[Expression, ...], width: int, takes: tuple[int, ...]
    ) -> Callable[[TickBinding, Fact], Fact] | None:
        """A fact of the head from a binding and the fact that ends it; None if it is computed."""
        if self._head_extent is not None and self._head_extent.lattices:
            return None
        if not all(isinstance(argument, Variable) for argument in arguments):
            return None
        slots = [self._slots[a.name] for a in arguments if isinstance(a, Variable)]
        split = sum(slot < width for slot in slots)
        if any(slot < width for slot in slots[split:]):
            return None  # columns of both in turn: one tuple for the pair, one for the fact
        one = _tuples(tuple(slots[:split]), width)
        other = _tuples(tuple(takes[slot - width] for slot in slots[split:]))
        if not slots[split:]:
            return lambda binding, _: one(binding)
        if not split:
            return lambda _, fact: other(fact)
        return lambda binding, fact: one(binding) + other(fact)

    def _heading(self, arguments: tuple[Expression, ...]) -> Callable[[TickBatch], Iterable[Fact]]:
        extent = self._head_extent
        lattices = {} if extent is None else extent.lattices
        if not lattices and all(isinstance(argument, Variable) for argument in arguments):
            slots = [self._slots[a.name] for a in arguments if isinstance(a, Variable)]
            if slots == list(range(len(self._slots))):
                return lambda batch: batch
            take = _tuples(tuple(slots))
            return lambda batch: map(take, batch)
        values = [evaluator(argument, self._slots) for argument in arguments]
        made: Callable[[Iterable[Any]], Fact] = tuple if extent is None else extent.made
        return lambda batch: [made([value(binding) for value in values]) for binding in batch]


def without(rule: CoreRule, index: int) -> CoreRule:
    """A rule without one of its atoms."""
    return replace(rule, atoms=(*rule.atoms[:index], *rule.atoms[index + 1 :]))


def _feed(argument: Expression) -> Expression:
    """What a head column is fed with; a text rule's count has no terms."""
    if isinstance(argument, Aggregate):
        return argument.terms[-1] if argument.terms else Constant(1)
    return argument


def _extend(pairs: PairBatch, takes: tuple[int, ...]) -> ExtendBatch:
    """Bindings with what a lookup binds."""
    take = _tuples(takes)

    def extend(binding: TickBinding, fact: Fact) -> TickBinding:
        return binding + take(fact)

    return lambda batch: pairs(batch, extend)


def _tuples(positions: tuple[int, ...], width: int | None = None) -> Callable[[Fact], Fact]:
    """The values of some columns, as a tuple even if it is one or none."""
    if width is not None and positions == tuple(range(width)):
        return lambda fact: fact
    if not positions:
        return lambda _: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda fact: (fact[only],)
    return itemgetter(*positions)


def _key(parts: Sequence[int | Constant]) -> EvaluateTerm:
    """The key to look up, from slots of a binding and constants; of one column, the value alone."""
    if all(isinstance(part, int) for part in parts):
        return picker(tuple(part for part in parts if isinstance(part, int)))
    values = [_constant(part) for part in parts]
    if len(values) == 1:
        return values[0]
    return lambda binding: tuple(value(binding) for value in values)


def _constant(part: int | Constant) -> EvaluateTerm:
    if isinstance(part, int):
        return itemgetter(part)
    value = part.value
    return lambda _: value


# ── Expressions ──────────────────────────────────────────────────────────────────────────────────

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "div": lambda a, b: (
        int(a / b) if abs(a) < 2**52 else (abs(a) // abs(b)) * (-1) ** ((a < 0) != (b < 0))
    ),
    "mod": lambda a, b: a - b * _OPERATORS["div"](a, b),
    "=": operator.eq,
    "~=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluator(node: Expression, slots: Mapping[str, int]) -> EvaluateTerm:
    """The value of an expression for a binding."""
    match node:
        case Variable():
            return itemgetter(slots[node.name])
        case Constant():
            value = node.value
            return lambda _: value
        case Arithmetic():
            compute = _OPERATORS[node.operator]
            left, right = evaluator(node.left, slots), evaluator(node.right, slots)
            return lambda binding: compute(left(binding), right(binding))
        case Negative():
            operand = evaluator(node.operand, slots)
            return lambda binding: -operand(binding)
        case Conditional():
            tests = [condition(each, slots) for each in node.condition]
            then, otherwise = evaluator(node.then, slots), evaluator(node.otherwise, slots)
            return lambda b: then(b) if all(test(b) for test in tests) else otherwise(b)
        case Function():
            return _opaque(node, [evaluator(each, slots) for each in node.arguments])
        case Call():
            parts = [evaluator(each, slots) for each in node.arguments]
            function = node.function
            return lambda binding: call(function, [part(binding) for part in parts])
        case Aggregate() | Parameter():
            raise AssertionError("aggregates and parameters are gone by now")


def _opaque(node: Function, parts: Sequence[EvaluateTerm]) -> EvaluateTerm:
    """A Python function, called once for each distinct input that is remembered."""
    code = node.code
    known: dict[tuple[Any, ...], Any] = {}

    def value(binding: TickBinding) -> Any:
        arguments = tuple([part(binding) for part in parts])
        try:
            if arguments in known:
                return known[arguments]
        except TypeError:
            return code(*arguments)
        if len(known) >= _REMEMBERED:
            known.clear()
        made = known[arguments] = code(*arguments)
        return made

    return value


def condition(comparison: Comparison, slots: Mapping[str, int]) -> EvaluateTerm:
    """Whether a comparison holds for a binding."""
    compare = _OPERATORS[comparison.operator]
    left, right = evaluator(comparison.left, slots), evaluator(comparison.right, slots)
    return lambda binding: compare(left(binding), right(binding))


def failure(rule: CoreRule, problem: Exception) -> CaladanError:
    """What went wrong in a rule, as a diagnostic."""
    if isinstance(problem, ZeroDivisionError):
        return error("C040", f"a rule for `{rule.head}` divides by zero", rule.span)
    if isinstance(problem, CallFailed):
        told = f"`{problem.function}` failed in a rule for `{rule.head}`: {problem.reason}"
        return error("C073", told, rule.span)
    return error(
        "C073",
        f"a rule for `{rule.head}` failed: {type(problem).__name__}: {problem}",
        rule.span,
        help="the function or the comparison in it does not take the values it was given",
    )
