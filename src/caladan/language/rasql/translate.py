"""Recursive views → rules.

`translate(views, tables, unused)` makes the rules of views that depend on each other. A column of
the head that aggregates becomes a monotone aggregate: `min()` is `mmin`, `max()` is `mmax`, `sum()`
is `msum`. `count()` adds up: a number that is written out, or that a `count()` or `sum()` of the
recursion carries, counts for itself; any other value counts once for each solution.

A branch that reads no recursive view and says what rules cannot say (GROUP BY, outer joins …) is
evaluated by SQL, and read as a relation.

Before that, `outline(views, tables)` finds the names and types of the columns from what the
branches select. Types only serve to tell whole numbers from doubles, which a join must not mix;
what cannot be told stays open. It also notes which `count()` columns add numbers up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from caladan.language.rasql.body import variable_name
from caladan.language.rasql.branches import Translation
from caladan.language.rasql.expressions import FRACTIONS, WHOLE
from caladan.language.rasql.scope import (
    Item,
    KnownColumn,
    KnownTable,
    Scope,
    TableLookup,
    Unsupported,
)
from caladan.language.rasql.script import View, branches, span_of, tables_of
from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Constant,
    Expression,
    Goal,
    Head,
    Program,
    Rule,
    Type,
    Variable,
)
from caladan.program.aggregates import recursive
from caladan.program.diagnostics import CaladanError, RelatedSpan, Span, error
from caladan.program.transform import fresh

_CASTS: Final[dict[str, Type]] = {
    **dict.fromkeys(WHOLE, Type.LONG),
    **dict.fromkeys(FRACTIONS, Type.DOUBLE),
    "DECIMAL": Type.DECIMAL,
    "TEXT": Type.STRING,
}

_PASSES: Final = 3  # a type may have to travel through a few views


@dataclass(slots=True)
class Within:
    """The tables that the branches of recursive views see: themselves, and all others."""

    views: dict[str, KnownTable]
    others: TableLookup

    def find(self, table: exp.Table) -> KnownTable:
        """A recursive view, or another table."""
        if not table.db and table.name.lower() in self.views:
            return self.views[table.name.lower()]
        return self.others.find(table)

    def reads_recursion(self, node: exp.Expr) -> bool:
        """Whether a query reads one of the views."""
        return bool(tables_of(node) & self.views.keys())

    def describe(self, node: exp.Expr, span: Span | None) -> KnownTable:
        """The columns of a subquery."""
        return self.others.describe(node, span)

    def evaluate(self, query: exp.Query, stem: str, span: Span | None) -> KnownTable:
        """The rows of a query, by SQL."""
        return self.others.evaluate(query, stem, span)


@dataclass(slots=True)
class Outline:
    """The columns of recursive views, and what their counts add up."""

    tables: Within
    adding: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    totals: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    @property
    def names(self) -> frozenset[str]:
        """The views' names, in lower case."""
        return frozenset(self.tables.views)

    def known(self, view: View) -> KnownTable:
        """What is known of a view."""
        return self.tables.views[view.key]

    def counts(self, view: View, column: int) -> bool:
        """Whether a column is a `count()` that every solution adds 1 to."""
        return is_count(view, column) and (view.key, column) not in self.adding

    def add_numbers(self, view: View) -> None:
        """Every `count()` of a view adds numbers up."""
        self.adding.update((view.key, i) for i in range(len(view.aggregates)) if is_count(view, i))

    def is_number(self, node: exp.Expr, scope: Scope) -> bool:
        """Whether a value of a `count()` column counts for itself: a total, or a literal."""
        if is_number(node):
            return True
        relations = {known.relation: key for key, known in self.tables.views.items()}
        return any(
            (relations.get(place.item.known.relation), place.index) in self.totals
            for place in scope.places(node)
        )


def is_count(view: View, column: int) -> bool:
    """Whether a column of a view counts."""
    function = view.aggregates[column] if view.aggregates else None
    return function is not None and recursive(function).counts is not None


def is_number(node: exp.Expr | None) -> bool:
    """Whether a value is a number that is written out, or an aggregate of SQL's."""
    value = None if node is None else node.unalias().unnest()
    if isinstance(value, exp.Neg):
        value = value.this
    if value is None:
        return False
    return (isinstance(value, exp.Literal) and not value.is_string) or (
        value.find(exp.AggFunc) is not None
    )


def outline(views: Sequence[View], tables: TableLookup, names: Mapping[str, str]) -> Outline:
    """The columns of views that depend on each other."""
    known = {
        view.key: KnownTable(
            names[view.key],
            tuple(KnownColumn(name, None) for name in column_names(view)),
            is_recursive=True,
        )
        for view in views
    }
    found = Outline(Within(known, tables))
    for view in views:
        for i, function in enumerate(view.aggregates):
            if function is not None and recursive(function).is_total:
                found.totals.add((view.key, i))
    for _ in range(_PASSES):
        for view in views:
            for selected, scope in _selections(view, found.tables):
                _learn(view, selected, scope, found)
    return found


def _learn(view: View, selected: Sequence[exp.Expr], scope: Scope, found: Outline) -> None:
    known = found.known(view)
    columns = list(known.columns)
    for i, node in enumerate(selected[: len(columns)]):
        if is_count(view, i):
            columns[i] = KnownColumn(columns[i].name, Type.LONG)
            if found.is_number(node, scope):
                found.adding.add((view.key, i))
            continue
        type, before = _type(node, scope), columns[i].type
        if type is not None and (before is None or (type.is_floating and before.is_integral)):
            columns[i] = KnownColumn(columns[i].name, type)
    found.tables.views[view.key] = KnownTable(known.relation, tuple(columns), is_recursive=True)


def _selections(view: View, tables: TableLookup) -> Iterator[tuple[Sequence[exp.Expr], Scope]]:
    """What each branch selects, and from where; a branch that SQL must evaluate tells nothing."""
    for branch in branches(view):
        try:
            yield Translation(tables, view.source, str).selection(branch, sums=False)
        except CaladanError:
            continue  # whoever makes the rules reports it


def column_names(view: View) -> tuple[str, ...]:
    """The names of a recursive view's columns: those in its head, or what its base selects."""
    if view.columns:
        return view.columns
    names = [node.alias_or_name for node in selects(branches(view)[0])]
    if not all(names) or "*" in names:
        raise error(
            "C063",
            f"the columns of the recursive view `{view.name}` have no names",
            view.span,
            help=f"name them: {view.name}(A, B, …) AS …",
        )
    return tuple(names)


def selects(query: exp.Query) -> list[exp.Expr]:
    """What a query selects, perhaps inside parentheses."""
    inner = query.unnest()
    return inner.selects if isinstance(inner, exp.Query) else []


def find_selected(query: exp.Query, column: int) -> exp.Expr | None:
    """What a query selects as one of its columns, unless `*` hides which that is."""
    found = selects(query)
    return None if any(node.is_star for node in found) else found[column]


def _type(node: exp.Expr, scope: Scope) -> Type | None:
    match node:
        case exp.Paren() | exp.Alias() | exp.Neg():
            return _type(node.this, scope)
        case exp.Column():
            return scope.place(node).column.type
        case exp.Literal():
            if node.is_string:
                return Type.STRING
            return Type.LONG if str(node.this).isdigit() else Type.DOUBLE
        case exp.Div():
            return Type.DOUBLE
        case exp.Add() | exp.Sub() | exp.Mul():
            sides = {_type(side, scope) for side in (node.this, node.expression)}
            if any(side is not None and side.is_floating for side in sides):
                return Type.DOUBLE
            return Type.LONG if None not in sides else None
        case exp.Cast():
            return _CASTS.get(node.to.this.name)
        case exp.Case():
            return _type(node.args["ifs"][0].args["true"], scope)
        case _:
            return None


AS_SET: Final = "as_set"
"""The key of a table's meta that asks for its distinct rows."""


def translate(views: Sequence[View], tables: TableLookup, unused: Callable[[str], str]) -> Program:
    """The rules of recursive views, and a goal for each; `unused` makes a name of a stem."""
    names = {view.key: unused(relation_name(view.name)) for view in views}
    inside = outline(views, tables, names)
    rules: list[Rule] = []
    helpers: list[Rule] = []
    for view in views:
        translation = Translation(inside.tables, view.source, unused)
        own = [r for b in branches(view) for r in _branch(view, b, translation, inside)]
        rules += [_count_solutions(rule, view, inside) for rule in own]
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


def _count_solutions(rule: Rule, view: View, inside: Outline) -> Rule:
    """A rule whose `count()` columns count solutions, unless some branch has numbers for them."""
    arguments = tuple(
        recursive("count").of((Variable("_"),), argument.span)
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
        elif not (row := recursive(function)).is_total:
            arguments.append(row.of((value,), value.span))
        else:
            is_once = row.counts is not None and not is_number(i)
            number = _multiply(None if is_once else value, times)
            arguments.append(recursive("sum").of((number,), value.span))
    return Head(known.relation, tuple(arguments), span)


def _multiply(value: Expression | None, times: Expression | None) -> Expression:
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
        node = _count_rows(query.unnest(), names)
        inside.add_numbers(view)
    item = Item("base", inside.tables.describe(node, span), node)

    def head(_: Sequence[exp.Expr], values: list[Expression], __: Scope) -> Head:
        times = values.pop() if view.sums else None
        return _head(
            view, inside, values, lambda i: is_number(find_selected(branch, i)), span, times
        )

    selected = [exp.column(c.name, table="base", quoted=True) for c in item.known.columns]
    scope = Scope([item], view.source)
    yield from translation.rules(scope, selected, None, head, sums=view.sums)


def _base(query: exp.Expr, columns: Sequence[str] = ()) -> exp.Subquery:
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    alias = exp.TableAlias(this=exp.to_identifier("base"), columns=names)
    return exp.Subquery(this=query, alias=alias)


def _count_rows(query: exp.Expr, columns: Sequence[str]) -> exp.Subquery:
    """The distinct rows of a query, and how often each comes."""
    names = [exp.column(name, table="base", quoted=True) for name in columns]
    found = exp.select(*names, exp.Count(this=exp.Star())).from_(_base(query, columns))
    times = fresh("times", {name.lower() for name in columns}, str.lower)
    return _base(found.group_by(*(name.copy() for name in names)), (*columns, times))
