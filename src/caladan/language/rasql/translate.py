"""Recursive views → rules.

`translate(views, tables, fresh)` makes the rules of views that depend on each other. A column of
the head that aggregates becomes a monotone aggregate: `min()` is `mmin`, `max()` is `mmax`, `sum()`
is `msum`. `count()` adds up: a number that is written out, or that a `count()` or `sum()` of the
recursion carries, counts for itself; any other value counts once for each solution.

A branch that reads no recursive view and says what rules cannot say (GROUP BY, outer joins …) is
evaluated by SQL, and read as a relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from caladan.language.rasql.body import variable_name
from caladan.language.rasql.branches import Translation, fresh_names
from caladan.language.rasql.outline import Outline, is_number, outline, written
from caladan.language.rasql.scope import Item, KnownTable, Scope, TableLookup, Unsupported
from caladan.language.rasql.script import span_of
from caladan.language.rasql.views import View, branches, tables_of
from caladan.program import (
    Aggregate,
    AggregateFunction,
    Arithmetic,
    Atom,
    Constant,
    Expression,
    Goal,
    Head,
    Program,
    Rule,
    Variable,
)
from caladan.program.diagnostics import RelatedSpan, Span, error

_MONOTONE: Final[dict[str, AggregateFunction]] = {"min": "mmin", "max": "mmax"}

AS_SET: Final = "as_set"
"""The key of a table's meta that asks for its distinct rows."""


def translate(views: Sequence[View], tables: TableLookup, fresh: Callable[[str], str]) -> Program:
    """The rules of recursive views, and a goal for each of them."""
    names = {view.key: fresh(relation_name(view.name)) for view in views}
    inside = outline(views, tables, names)
    rules: list[Rule] = []
    helpers: list[Rule] = []
    for view in views:
        translation = Translation(inside.tables, view.source, fresh)
        own = [r for b in branches(view) for r in _branch(view, b, translation, inside)]
        rules += [_counting(rule, view, inside) for rule in own]
        helpers += translation.helpers
    goals = [_goal(inside.known(view)) for view in views]
    return Program((), (*rules, *helpers), tuple(goals))


def relation_name(name: str) -> str:
    """A table's name as a relation's: a word that begins with a small letter.

    >>> relation_name("My Edges")
    'my_Edges'
    """
    plain = "".join(c if c.isalnum() or c == "_" else "_" for c in name).lstrip("_") or "t"
    return plain[0].lower() + plain[1:] if plain[0].isalpha() else f"t{plain}"


def _goal(known: KnownTable) -> Goal:
    taken: list[str] = []
    for column in known.columns:
        name = variable_name(column.name)
        taken.append(name if name not in taken else f"{name}_{len(taken) + 1}")
    return Goal(Atom(known.relation, tuple(Variable(name) for name in taken)))


def _branch(
    view: View, branch: exp.Query, translation: Translation, inside: Outline
) -> Iterator[Rule]:
    """The rules of a branch; what is not recursive and too much for rules is left to SQL."""
    span = span_of(branch, view.source)

    def head(selected: Sequence[exp.Expr], values: list[Expression], scope: Scope) -> Head:
        return _head(view, inside, values, lambda i: inside.is_number(selected[i], scope), span)

    try:
        rules = list(translation.branch(branch, head, sums=view.sums))
    except Unsupported as refused:
        if tables_of(branch) & inside.names:
            found = refused.diagnostics[0]
            raise Unsupported(replace(found, place=found.place or span)) from None
        rules = list(_from_sql(view, branch, translation, inside, span))
    for rule in rules:
        yield _as_fact(rule)


def _as_fact(rule: Rule) -> Rule:
    """A rule without a body is a fact: its values are plain."""
    if rule.body:
        return rule
    plain = tuple(a.terms[0] if isinstance(a, Aggregate) else a for a in rule.head.arguments)
    return Rule(Head(rule.head.relation, plain, rule.head.span))


def _counting(rule: Rule, view: View, inside: Outline) -> Rule:
    """A rule whose `count()` columns count solutions, unless some branch has numbers for them."""
    arguments = tuple(
        Aggregate("mcount", (Variable("_"),), argument.span)
        if isinstance(argument, Aggregate) and inside.counts(view, i)
        else argument
        for i, argument in enumerate(rule.head.arguments)
    )
    return replace(rule, head=replace(rule.head, arguments=arguments))


def _head(
    view: View,
    inside: Outline,
    values: Sequence[Expression],
    is_number: Callable[[int], bool],
    span: Span | None,
    times: Expression | None = None,
) -> Head:
    """The head of a rule whose solutions stand for as many as `times` says, each for one if None.

    `is_number` tells whether the value of a `count()` column counts for itself.
    """
    known = inside.known(view)
    if len(values) != len(known.columns):
        columns = ", ".join(column.name for column in known.columns)
        raise error(
            "C011",
            f"`{view.name}` has the columns ({columns}), but this selects {len(values)}",
            span,
            related=[RelatedSpan("its columns", view.span)] if view.span else [],
        )
    arguments: list[Expression] = []
    for i, value in enumerate(values):
        function = view.aggregates[i] if view.aggregates else None
        if function is None:
            arguments.append(value)
        elif function in ("min", "max"):
            arguments.append(Aggregate(_MONOTONE[function], (value,), value.span))
        else:
            is_once = function == "count" and not is_number(i)
            number = _repeated(None if is_once else value, times)
            arguments.append(Aggregate("msum", (number,), value.span))
    return Head(known.relation, tuple(arguments), span)


def _repeated(value: Expression | None, times: Expression | None) -> Expression:
    """What solutions with a value contribute, or without one, if there are so many of them."""
    if times is None:
        return Constant(1) if value is None else value
    return times if value is None else Arithmetic("*", value, times, value.span)


def _from_sql(
    view: View, branch: exp.Query, translation: Translation, inside: Outline, span: Span | None
) -> Iterator[Rule]:
    """The rows of a query that SQL evaluates; where the view adds up, with how often each comes."""
    query = branch.copy()
    if view.sums:
        for table in query.find_all(exp.Table):
            table.meta[AS_SET] = True
    node = _base(query.unnest())
    columns = inside.tables.describe(node, span).columns
    names = [column.name for column in columns]
    if view.sums:
        node = _counted(query.unnest(), names)
        inside.add_numbers(view)
    item = Item("base", inside.tables.describe(node, span), node)

    def head(_: Sequence[exp.Expr], values: list[Expression], __: Scope) -> Head:
        times = values.pop() if view.sums else None
        return _head(view, inside, values, lambda i: is_number(written(branch, i)), span, times)

    selected = [exp.column(c.name, table="base", quoted=True) for c in item.known.columns]
    scope = Scope([item], view.source)
    yield from translation.rules(scope, selected, None, head, sums=view.sums)


def _base(query: exp.Expr, columns: Sequence[str] = ()) -> exp.Subquery:
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    alias = exp.TableAlias(this=exp.to_identifier("base"), columns=names)
    return exp.Subquery(this=query, alias=alias)


def _counted(query: exp.Expr, columns: Sequence[str]) -> exp.Subquery:
    """The distinct rows of a query, and how often each comes."""
    names = [exp.column(name, table="base", quoted=True) for name in columns]
    found = exp.select(*names, exp.Count(this=exp.Star())).from_(_base(query, columns))
    times = fresh_names({name.lower() for name in columns})("times")
    return _base(found.group_by(*(name.copy() for name in names)), (*columns, times))
