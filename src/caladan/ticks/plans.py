"""Plans: the steps of a body, compiled to functions over batches of bindings.

`Plan` runs the schedule of a rule over a batch: from facts of one atom (a delta rule), or from
bindings of some variables. A binding is a tuple, and a step makes of a list of them the next list.
Which index a step looks into, which columns it takes and where a comparison reads its variables is
decided when the plan is made, not when it runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final, TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.analysis.schedule import Absent, Bind, Lookup, Step, Test, schedule
from caladan.language.bloom.values import frozen
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
from caladan.ticks.extent import Extent, Fact, Index, picker

Binding: TypeAlias = tuple[Any, ...]
Batch: TypeAlias = list[Binding]
Evaluate: TypeAlias = Callable[[Binding], Any]
Extend: TypeAlias = Callable[[Batch], Batch]

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
    ) -> None:
        self.rule = rule
        self._slots: dict[str, int] = {name: i for i, name in enumerate(bound)}
        self._extents = extents
        self._steps: list[Extend] = []
        steps = list(schedule(rule, first, bound))
        self._guards = [
            extents[atom.relation]
            for i, atom in enumerate(rule.atoms)
            if not atom.negated and i != first
        ]
        self.seed: Callable[[Iterable[Fact]], Batch] | None = None
        if first is not None:
            position = next(i for i, s in enumerate(steps) if s == Lookup(first))
            self.seed = self._seeding(rule.atoms[first], steps[:position])
            steps = steps[position + 1 :]
        for step in steps:
            self._steps.append(self._step(step))
        arguments = tuple(_fed(argument) for argument in rule.arguments)
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

    def _seeding(self, atom: CoreAtom, before: Sequence[Step]) -> Callable[[Iterable[Fact]], Batch]:
        """Bindings from facts of an atom; what needs none (constants, absence) goes before."""
        early = [self._step(step) for step in before]
        known, tests, takes = self._atom(atom)
        is_whole = not known and not tests and takes == tuple(range(len(atom.arguments)))
        if is_whole and not early:
            return list
        take = _tuples(takes)
        keys = [(p, _constant(part)) for p, part in known]

        def seed(facts: Iterable[Fact]) -> Batch:
            starts: Batch = [()]
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

    def _step(self, step: Step) -> Extend:
        match step:
            case Lookup():
                return self._lookup(self.rule.atoms[step.index])
            case Absent():
                return self._absent(self.rule.atoms[step.index])
            case Test():
                return self._test(step.comparison)
            case Bind():
                return self._bind(step)

    def _lookup(self, atom: CoreAtom) -> Extend:
        extent = self._extents[atom.relation]
        known, tests, takes = self._atom(atom)
        take = _tuples(takes)
        if not known:

            def cross(batch: Batch) -> Batch:
                facts = [
                    take(fact)
                    for fact in extent.scan()
                    if all(fact[p] == fact[q] for p, q in tests)
                ]
                return [binding + more for binding in batch for more in facts]

            return cross
        positions = tuple(p for p, _ in known)
        key = _key([part for _, part in known])
        if extent.is_key(positions) and not tests:

            def fetch(batch: Batch) -> Batch:
                contents = extent.contents
                found = ((binding, contents.get(key(binding))) for binding in batch)
                return [binding + take(fact) for binding, fact in found if fact is not None]

            return fetch

        def look_up(batch: Batch) -> Batch:
            index: Index = extent.index(positions)
            found: Batch = []
            for binding in batch:
                facts = index.get(key(binding))
                if facts is not None:
                    for fact in facts:
                        if not tests or all(fact[p] == fact[q] for p, q in tests):
                            found.append(binding + take(fact))
            return found

        return look_up

    def _absent(self, atom: CoreAtom) -> Extend:
        extent = self._extents[atom.relation]
        known, _, _ = self._atom(atom)
        if not known:
            return lambda batch: [] if extent.contents else batch
        positions = tuple(p for p, _ in known)
        key = _key([part for _, part in known])
        if extent.is_key(positions):
            return lambda batch: [b for b in batch if key(b) not in extent.contents]

        def absent(batch: Batch) -> Batch:
            index = extent.index(positions)
            return [binding for binding in batch if key(binding) not in index]

        return absent

    def _test(self, comparison: Comparison) -> Extend:
        holds = condition(comparison, self._slots)
        return lambda batch: [binding for binding in batch if holds(binding)]

    def _bind(self, step: Bind) -> Extend:
        value = evaluator(step.expression, self._slots)
        self._slots[step.variable] = len(self._slots)
        if isinstance(step.expression, Function) and step.expression.each:
            return lambda batch: [
                (*binding, frozen(item)) for binding in batch for item in value(binding)
            ]
        return lambda batch: [(*binding, frozen(value(binding))) for binding in batch]

    def _heading(self, arguments: tuple[Expression, ...]) -> Callable[[Batch], Iterable[Fact]]:
        extent = self._extents.get(self.rule.head)
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


def _fed(argument: Expression) -> Expression:
    """What a head column is fed with; a text rule's count has no terms."""
    if isinstance(argument, Aggregate):
        return argument.terms[-1] if argument.terms else Constant(1)
    return argument


def _tuples(positions: tuple[int, ...]) -> Callable[[Fact], Fact]:
    """The values of some columns, as a tuple even if it is one or none."""
    if not positions:
        return lambda _: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda fact: (fact[only],)
    return itemgetter(*positions)


def _key(parts: Sequence[int | Constant]) -> Evaluate:
    """The key to look up, from slots of a binding and constants; of one column, the value alone."""
    if all(isinstance(part, int) for part in parts):
        return picker(tuple(part for part in parts if isinstance(part, int)))
    values = [_constant(part) for part in parts]
    if len(values) == 1:
        return values[0]
    return lambda binding: tuple(value(binding) for value in values)


def _constant(part: int | Constant) -> Evaluate:
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


def evaluator(node: Expression, slots: Mapping[str, int]) -> Evaluate:
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


def _opaque(node: Function, parts: Sequence[Evaluate]) -> Evaluate:
    """A Python function, called once for each distinct input that is remembered."""
    code = node.code
    known: dict[tuple[Any, ...], Any] = {}

    def value(binding: Binding) -> Any:
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


def condition(comparison: Comparison, slots: Mapping[str, int]) -> Evaluate:
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
