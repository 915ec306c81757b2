"""Parameters become constants.

`parameters(program, values)` replaces every `{name}` and `$Name` by the value given for it. Values
are bound as constants of the program, never pasted into text. Unknown parameters are C020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from caladan.program import (
    Atom,
    Choice,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Literal,
    Parameter,
    Program,
    Rule,
    Value,
)
from caladan.program.diagnostics import Diagnostics, did_you_mean
from caladan.program.transform import replace_in, replace_in_comparison


def parameters(program: Program, values: Mapping[str, Value], found: Diagnostics) -> Program:
    """The program with constants where parameters stood."""
    binder = _Binder(values, found)
    return replace(
        program,
        rules=tuple(binder.rule(r) for r in program.rules),
        goals=tuple(replace(g, atom=binder.atom(g.atom)) for g in program.goals),
    )


class _Binder:
    def __init__(self, values: Mapping[str, Value], found: Diagnostics) -> None:
        self._values = values
        self._found = found

    def rule(self, rule: Rule) -> Rule:
        if not rule.body and all(isinstance(a, Constant) for a in rule.head.arguments):
            return rule  # a fact: there may be many
        return replace(
            rule,
            head=replace(
                rule.head, arguments=tuple(self.expression(a) for a in rule.head.arguments)
            ),
            body=tuple(self.literal(part) for part in rule.body),
            limit=None if rule.limit is None else self.expression(rule.limit),
        )

    def atom(self, atom: Atom) -> Atom:
        return replace(atom, arguments=tuple(self.expression(a) for a in atom.arguments))

    def literal(self, node: Literal) -> Literal:
        match node:
            case Atom():
                return self.atom(node)
            case Comparison():
                return replace_in_comparison(node, self._bound)
            case Choice():
                return replace(
                    node,
                    condition=tuple(replace_in_comparison(c, self._bound) for c in node.condition),
                    then=tuple(self.literal(part) for part in node.then),
                    otherwise=tuple(self.literal(part) for part in node.otherwise),
                )
            case Disjunction():
                branches = (tuple(map(self.literal, branch)) for branch in node.branches)
                return replace(node, branches=tuple(branches))

    def expression(self, node: Expression) -> Expression:
        return replace_in(node, self._bound)

    def _bound(self, node: Expression) -> Constant | None:
        if not isinstance(node, Parameter):
            return None
        if node.name in self._values:
            return Constant(self._values[node.name], node.span)
        given = ", ".join(f"`{n}`" for n in sorted(self._values)) or "none"
        self._found.add(
            "C020",
            f"no value was given for the parameter `{node.name}` (given: {given})",
            node.span,
            help=did_you_mean(node.name, self._values)
            or f"pass params={{'{node.name}': …}}, or --param {node.name}=…",
        )
        return Constant(0, node.span)
