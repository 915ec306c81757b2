"""Values for `{name}` and `:name`: they become literals of the syntax tree, never text."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import cast

from sqlglot import exp

from caladan.data.schema import DECIMAL
from caladan.language.rasql.script import Script, Statement, span_of
from caladan.program import Object, Value
from caladan.program.diagnostics import Diagnostics, did_you_mean, error
from caladan.program.values import written


def bind(script: Script, values: Mapping[str, Value]) -> Script:
    """The script with literals where parameters stood; C020 for those that have no value."""
    found = Diagnostics()
    statements = tuple(
        replace(s, query=_bound(s, values, found)) if isinstance(s, Statement) else s
        for s in script.statements
    )
    found.raise_errors()
    return replace(script, statements=statements)


def _bound(statement: Statement, values: Mapping[str, Value], found: Diagnostics) -> exp.Query:
    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Placeholder | exp.Parameter):
            return node
        name = node.name
        if name in values:
            return _literal(values[name], node)
        given = ", ".join(f"`{n}`" for n in sorted(values)) or "none"
        found.add(
            "C020",
            f"no value was given for the parameter `{name}` (given: {given})",
            span_of(node, statement.source) or statement.span,
            help=did_you_mean(name, values) or f"pass params={{'{name}': …}}, or --param {name}=…",
        )
        return exp.Literal.number(0)

    return cast("exp.Query", statement.query.transform(change))


def _literal(value: Value, node: exp.Expr) -> exp.Expr:
    """A value as a literal that stands where the parameter stood."""
    match value:
        case bool():
            literal: exp.Expr = exp.Boolean(this=value)
        case int():
            literal = exp.Literal.number(abs(value))
            literal = exp.Neg(this=literal) if value < 0 else literal
        case float() if not math.isfinite(value):
            spelled = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            literal = exp.cast(exp.Literal.string(spelled), "double")
        case float():
            literal = exp.Literal.number(repr(abs(value)))
            literal = exp.Neg(this=literal) if value < 0 else literal
        case dt.datetime():
            text = exp.Literal.string(value.isoformat(sep=" "))
            literal = exp.Cast(this=text, to=exp.DataType.build("timestampntz"))
        case dt.date():
            literal = exp.cast(exp.Literal.string(value.isoformat()), "date")
        case Decimal():
            literal = exp.cast(exp.Literal.string(written(value)), DECIMAL)
        case bytes():
            literal = exp.func("unhex", exp.Literal.string(value.hex()))
        case str():
            literal = exp.Literal.string(value)
        case Object():
            raise error("C065", f"the parameter `{node.name}` is an object, which SQL has none of")
    place = next((part.meta for part in node.walk() if "start" in part.meta), None)
    if place is not None:
        for part in literal.walk():
            part.meta.update(place)
    return literal
