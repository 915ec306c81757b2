"""Ways through a body: the bodies without `if` literals and disjunctions that it stands for.

count_ways       how many there are, without going any of them; more than `MOST_WAYS` are C024
expanded         the ways; those through an `if` exclude each other
without_choices  the ways through the `if`s alone
as_test          alternatives that only compare, as one comparison instead
weakened         what alternatives demand of some variables, whatever the others are
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final

from caladan.program import (
    OPPOSITE,
    Atom,
    Call,
    Choice,
    Comparison,
    Conditional,
    Constant,
    Disjunction,
    Expression,
    Literal,
    Variable,
    variables,
)
from caladan.program.diagnostics import Diagnostics, Span

MOST_WAYS: Final = 256
"""More of them would take longer to compile than anyone waits for."""


def ways_through(body: Sequence[Literal], found: Diagnostics) -> list[list[Literal]]:
    """The bodies without alternatives that a body stands for; none if there are too many."""
    if (ways := count_ways(body)) > MOST_WAYS:
        too_many(ways, body, None, found)
        return []
    return expand(body)


def count_ways(body: Iterable[Literal]) -> int:
    """How many ways lead through a body, without going any of them, if no value is missing."""
    ways = 1
    for literal in body:
        if isinstance(literal, Disjunction):
            ways *= sum(map(count_ways, literal.branches))
        elif isinstance(literal, Choice) and _as_equality(literal) is None:
            otherwise = len(literal.condition) * count_ways(literal.otherwise)
            ways *= count_ways(literal.then) + otherwise
    return ways


def as_test(literal: Literal, bound: Set[str]) -> Literal:
    """Alternatives that only compare what is known as one comparison: `if(c then t else e) = 1`."""
    if not isinstance(literal, Choice | Disjunction) or (
        isinstance(literal, Choice) and _as_equality(literal) is not None
    ):
        return literal
    value = _test_branch(literal, bound)
    if value is None:
        return literal
    return _holds(value, literal.span)


def weaken(literal: Choice | Disjunction, known: Set[str]) -> Comparison | None:
    """What alternatives demand of some variables, as a comparison; None if that is nothing.

    `(A < 5, D > 90 ; A > 90, D < 5)` demands of A that `(A < 5 ; A > 90)`.
    """
    if isinstance(literal, Disjunction):
        branches = literal.branches
    else:
        branches = ((*literal.condition, *literal.then), literal.otherwise)
    parts = [tuple(_parts(branch, known)) for branch in branches]
    if not all(parts):
        return None
    return _holds(_either([_all_hold_of(part) for part in parts], literal.span), literal.span)


def _parts(branch: Iterable[Literal], known: Set[str]) -> Iterable[Comparison]:
    """The tests of a branch that some variables decide."""
    for literal in branch:
        if isinstance(literal, Choice | Disjunction):
            test = weaken(literal, known)
            if test is not None:
                yield test
        elif isinstance(literal, Comparison) and all(v.name in known for v in variables(literal)):
            yield literal


def _holds(value: Expression, span: Span | None) -> Comparison:
    return Comparison("=", value, Constant(1, span), span)


def _test_branch(choice: Choice | Disjunction, bound: Set[str]) -> Expression | None:
    """1 or 0, as a branch that may be taken holds or none does; None if one has more than tests."""
    if any(v.name not in bound for v in variables(choice)):
        return None
    if isinstance(choice, Disjunction):
        holds = [_all_hold(branch, bound) for branch in choice.branches]
        known = [each for each in holds if each is not None]
        return _either(known, choice.span) if len(known) == len(holds) else None
    then, otherwise = (_all_hold(each, bound) for each in (choice.then, choice.otherwise))
    if then is None or otherwise is None:
        return None
    return Conditional(choice.condition, then, otherwise, choice.span)


def _either(values: Sequence[Expression], span: Span | None) -> Expression:
    """1 or 0, as one of some values is 1 or none is; no deeper than it has to be."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    first, second = _either(values[:half], span), _either(values[half:], span)
    test = Comparison("=", first, Constant(1), span)
    return Conditional((test,), Constant(1), second, span)


def _all_hold(body: Iterable[Literal], bound: Set[str]) -> Expression | None:
    """1 or 0, as all literals of a branch hold or one does not."""
    tests: list[Comparison] = []
    for literal in body:
        match literal:
            case Comparison():
                tests.append(literal)
            case Choice() | Disjunction():
                value = _test_branch(literal, bound)
                if value is None:
                    return None
                tests.append(_holds(value, literal.span))
            case Atom():
                return None
    return _all_hold_of(tuple(tests)) if tests else Constant(1)


def _all_hold_of(tests: tuple[Comparison, ...]) -> Expression:
    return Conditional(tests, Constant(1), Constant(0))


def expand(body: Iterable[Literal], *, may_lack: bool = False) -> list[list[Literal]]:
    """All ways through a body, also those of values that are missing if there `may_lack` some."""
    ways: list[list[Literal]] = [[]]
    for literal in body:
        match literal:
            case Choice():
                choice = _as_equality(literal)
                through = partial(expand, may_lack=may_lack)
                options = (
                    [[choice]] if choice is not None else _branches(literal, through, may_lack)
                )
            case Disjunction():
                options = [
                    way for branch in literal.branches for way in expand(branch, may_lack=may_lack)
                ]
            case _:
                options = [[literal]]
        ways = [way + option for way in ways for option in options]
    return ways


def without_choices(body: Iterable[Literal], *, may_lack: bool = False) -> list[list[Literal]]:
    """The ways through the `if`s of a body, each with its disjunctions as they are."""
    ways: list[list[Literal]] = [[]]
    through = partial(without_choices, may_lack=may_lack)
    for literal in body:
        options: list[list[Literal]] = [[literal]]
        if isinstance(literal, Choice):
            choice = _as_equality(literal)
            options = [[choice]] if choice is not None else _branches(literal, through, may_lack)
        ways = [way + option for way in ways for option in options]
    return ways


def _branches(
    choice: Choice, through: Callable[[Iterable[Literal]], list[list[Literal]]], may_lack: bool
) -> list[list[Literal]]:
    """The ways through an `if`; no two of them hold together, so nothing is counted twice."""
    ways = [[*choice.condition, *way] for way in through(choice.then)]
    otherwise = through(choice.otherwise)
    for i, failing in enumerate(choice.condition):
        before = choice.condition[:i]
        for test in _list_failures(failing, may_lack):
            ways += [[*before, *test, *way] for way in otherwise]
    return ways


def _list_failures(test: Comparison, may_lack: bool) -> list[list[Literal]]:
    """How a comparison does not hold: its opposite does, or a value is missing."""
    opposite: Literal = replace(test, operator=OPPOSITE[test.operator])
    if not may_lack:
        return [[opposite]]

    def lacks(side: Expression, *, is_missing: bool) -> Literal:
        return Comparison("=", Call("missing", (side,)), Constant(is_missing), test.span)

    left, right = test.left, test.right
    return [
        [opposite],
        [lacks(left, is_missing=True)],
        [lacks(left, is_missing=False), lacks(right, is_missing=True)],
    ]


def _as_equality(choice: Choice) -> Comparison | None:
    """`if(c then Y = a else Y = b)` as `Y = if(c then a else b)`."""
    match (choice.then, choice.otherwise):
        case (
            (Comparison("=", Variable(name), then),),
            (Comparison("=", Variable(other) as variable, otherwise),),
        ) if name == other and name != "_":
            value = Conditional(choice.condition, then, otherwise, choice.span)
            return Comparison("=", variable, value, choice.span)
        case _:
            return None


def has_disjunctions(body: Iterable[Literal]) -> bool:
    """Whether there is a disjunction in a body, at any depth."""
    return any(
        isinstance(each, Disjunction)
        or (isinstance(each, Choice) and has_disjunctions((*each.then, *each.otherwise)))
        for each in body
    )


def too_many(ways: int, body: Iterable[Literal], span: Span | None, found: Diagnostics) -> None:
    """C024: there are more ways than anyone waits for."""
    first = next(each for each in body if isinstance(each, Choice | Disjunction))
    kinds = "`if`s" if not has_disjunctions(body) else "alternatives"
    amount = f"{ways:,}" if ways < 10**9 else f"some 10^{len(str(ways)) - 1}"
    found.add(
        "C024",
        f"there are {amount} ways through the {kinds} of this rule, more than {MOST_WAYS}",
        first.span or span,
        help="move some of them to rules of their own, and join those here"
        if kinds == "`if`s"
        else "move some of them to a relation of their own, and join it here",
    )
