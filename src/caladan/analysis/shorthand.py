"""What users write short, written out, before anything else looks at a rule.

    p(X, N) <- q(X, T), N = try_cast(T, long).
    r(list<X>, top<3, S, N>) <- q(X, S, N).

    p(X, N) <- q(X, T), N = if(can_cast(T, long) = true then cast(T, long) else null).
    r(list<singleton(X)>, top<3, S, singleton(N)>) <- q(X, S, N).

A function that has no value for some arguments is missing there (missing.py): its row in the table
says which test goes with it. Aggregates that make lists get lists of one value: engines have those
as bytes, and put them together without a look at what is inside.
"""

from __future__ import annotations

from dataclasses import replace

from caladan.program import (
    NULL,
    Aggregate,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Program,
)
from caladan.program.aggregates import TABLE
from caladan.program.functions import FUNCTIONS
from caladan.program.transform import replace_in, walk


def shorthand(program: Program) -> Program:
    """The program with all of it written out."""
    if not any(_is_short(node) for rule in program.rules for node in walk(rule)):
        return program
    return replace(program, rules=tuple(replace_in(rule, _whole) for rule in program.rules))


def _is_short(node: object) -> bool:
    match node:
        case Function():
            return False
        case Call(function=name):
            return name in FUNCTIONS and FUNCTIONS[name].tested_by is not None
        case Aggregate(function=name, definition=None):
            return name in TABLE and TABLE[name].makes_lists
        case _:
            return False


def _path(node: Call) -> Call:
    """`S.home.city` as one look at a path, where it is one of several steps."""
    steps: list[Expression] = []
    value: Expression = node
    while isinstance(value, Call) and value.function in ("field", "item"):
        steps.insert(0, value.arguments[1])
        value = value.arguments[0]
    return Call("dig", (value, *steps), node.span) if len(steps) > 1 else node


def _whole(node: object) -> Expression | None:
    if not _is_short(node):
        return None
    if isinstance(node, Aggregate):
        row = TABLE[node.function]
        terms = [replace_in(each, _whole) for each in node.terms]
        if row.value_term and len(terms) < len((row.takes, *row.also)):
            terms.append(terms[-1])  # `top<3, S>` has no other value
        terms[row.value_term] = Call("singleton", (terms[row.value_term],), node.span)
        return replace(node, terms=tuple(terms))
    assert isinstance(node, Call)
    node = _path(node)
    row = FUNCTIONS[node.function]
    assert row.tested_by is not None
    arguments = tuple(replace_in(each, _whole) for each in node.arguments)
    test = Call(row.tested_by, arguments, node.span)
    return Conditional(
        (Comparison("=", test, Constant(True), node.span),),
        Call(row.given_by or row.name, arguments, node.span),
        Constant(NULL),
        node.span,
    )
