"""Parameters become constants.

`parameters(program, values)` replaces every `{name}` and `$Name` by the value given for it. Values
are bound as constants of the program, never pasted into text. Unknown parameters are C020.

The constants say which parameter they are from, so what was compiled with one value can be given
another: `refilled`. It is the program that would have been compiled if both are of one type, for
the analysis reads of values no more than that; but for limits, which it turns into numbers.
`signature` has all that compiling depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TypeVar

from caladan.analysis.core import HasFacts, RelationInfo, with_open
from caladan.analysis.expressions import constant_type
from caladan.program import Constant, Parameter, Placeholder, Program, Rule, Value
from caladan.program.diagnostics import Diagnostics, did_you_mean
from caladan.program.objects import Objects
from caladan.program.transform import replace_in, walk

T = TypeVar("T")


def parameters(program: Program, values: Mapping[str, Value], found: Diagnostics) -> Program:
    """The program with constants where parameters stood."""

    def bound(node: object) -> Constant | None:
        if not isinstance(node, Parameter):
            return None
        if node.name in values:
            return Constant(values[node.name], node.span, Placeholder(node.name))
        given = ", ".join(f"`{n}`" for n in sorted(values)) or "none"
        found.add(
            "C020",
            f"no value was given for the parameter `{node.name}` (given: {given})",
            node.span,
            help=did_you_mean(node.name, values)
            or f"pass params={{'{node.name}': …}}, or --param {node.name}=…",
        )
        return Constant(0, node.span)

    rules = tuple(rule if _is_fact(rule) else replace_in(rule, bound) for rule in program.rules)
    return replace(program, rules=rules, goals=replace_in(program.goals, bound))


def _is_fact(rule: Rule) -> bool:
    """Whether it has nothing but constants; of facts there may be many."""
    return not rule.body and all(isinstance(a, Constant) for a in rule.head.arguments)


def has_parameters(program: Program) -> bool:
    """Whether a program waits for values."""
    nodes = walk(program.rules, program.goals)
    return any(isinstance(node, Parameter) for node in nodes)


def signature(program: Program, values: Mapping[str, Value]) -> tuple[tuple[str, object], ...]:
    """What a compiled program depends on: the types of its parameters, and values of limits."""
    used = {node.name for node in walk(program.rules, program.goals) if isinstance(node, Parameter)}
    limits = walk(*(rule.limit for rule in program.rules))
    cut = {node.name for node in limits if isinstance(node, Parameter)}
    return tuple(
        (name, (constant_type(value), value) if name in cut else constant_type(value))
        for name, value in sorted(values.items())
        if name in used
    )


def refilled(made: T, values: Mapping[str, Value], objects: Objects) -> T:
    """What was compiled, with other values; ValueError where one does not fit its column."""

    def change(part: object) -> object:
        match part:
            case Constant(placeholder=Placeholder(name, type)):
                value = values[name]
                return replace(part, value=value if type is None else objects.fit(value, type))
            case HasFacts():
                return _refilled(part, change)
            case RelationInfo():
                return part
            case _:
                return None

    return replace_in(made, change)


def _refilled(part: HasFacts, change: Callable[[object], object]) -> HasFacts:
    """Facts may be many: only those with parameters are looked at."""
    others = {name: part.facts[name][: -len(rows)] for name, rows in part.open_facts.items()}
    open_facts = replace_in(part.open_facts, change)
    facts = with_open({**part.facts, **others}, open_facts)
    rest = [each.name for each in fields(part) if each.name not in ("facts", "open_facts")]
    inside = {name: replace_in(getattr(part, name), change) for name in rest}
    return replace(part, **inside, facts=facts, open_facts=open_facts)
