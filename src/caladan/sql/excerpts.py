"""Excerpts of recursive views, which rules on top of them derive, and queries over excerpts.

    WITH recursive tc(A, B) AS … SELECT A, count(*) FROM tc WHERE B > 5 GROUP BY A

needs no more than `tc_part(A, count<_>) <- tc(A, B), B > 5.`, and is asked as

    SELECT A, coalesce(sum(tc.rows), 0) AS "count(*)" FROM tc_part AS tc GROUP BY A

so that a view of many facts is counted where it was derived, and SQL sees the few rows that are
left. What a query needs is found by mentions.py, filters.py and semijoins.py; what is not known to
mean the same stays with SQL, over the whole view. A view has no NULL, and no row twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from caladan.language.rasql.body import variable_name
from caladan.language.rasql.scope import KnownTable
from caladan.program import Aggregate, Atom, Constant, Expression, Goal, Head, Rule, Type, Variable
from caladan.program.diagnostics import SourceText
from caladan.program.transform import fresh, names as names_in
from caladan.sql.engine import key_of, name_columns
from caladan.sql.filters import without
from caladan.sql.mentions import ColumnsOf, Mention, PartialColumn, mention
from caladan.sql.semijoins import FrameOf, JoinedKeys, semijoins


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A table that a rule derives from a view, under the names that a query has for its columns."""

    name: str
    columns: tuple[str, ...]
    rule: Rule
    goal: Goal


@dataclass(frozen=True, slots=True)
class Excerpts:
    """Makes excerpts of views, which are known by their names in lower case.

    `frame` gives tables of data, `evaluate` a relation with what a query selects, `unused` a name.
    """

    views: Mapping[str, KnownTable]
    columns: ColumnsOf
    frame: FrameOf
    evaluate: Callable[[exp.Query, str], str]
    unused: Callable[[str], str]
    source: SourceText

    def of(self, query: exp.Query) -> tuple[exp.Query, list[Excerpt]]:
        """The query over excerpts; where it reads all that there is, a view stays what it was."""
        tree = name_columns(query)
        found: list[Excerpt] = []
        if any(cte.alias.lower() in self.views for cte in tree.find_all(exp.CTE)):
            return query, found
        for table in list(tree.find_all(exp.Table)):
            if key_of(table) not in self.views:
                continue
            read = mention(table, self.views, self.columns, self.source)
            joined = [] if read is None else list(semijoins(read, self.frame))
            if read is not None and (joined or read.leaves_out):
                found.append(self._excerpt(read, joined))
                _rewrite(read, found[-1].name)
        return (tree, found) if found else (query, found)

    def _excerpt(self, read: Mention, joined: Sequence[JoinedKeys]) -> Excerpt:
        """The rule that derives what is needed of a view."""
        name = self.unused(f"{read.known.relation}_part")
        variables = read.variables
        columns = [read.known.columns[i].name for i in sorted(read.needed)]
        head: list[Expression] = [variables[i] for i in sorted(read.needed)]
        if not head and not read.terms:  # a group that there is only where there are rows
            head.append(Constant(1))
            columns.append(fresh("one", read.names, str.lower))
        for part in read.parts.values():
            of = Variable("_") if part.term is None else part.term.value
            head.append(of if part.kind is None else Aggregate(part.kind, (of,)))
            columns.append(part.name)
        tests = [literal for test in read.tests for literal in test.literals]
        keys = [
            Atom(self.evaluate(each.query, each.stem), tuple(variables[i] for i in each.columns))
            for each in joined
        ]
        used = names_in(*head, *tests, *keys)
        arguments = tuple(v if v.name in used else Variable("_") for v in variables)
        taken: set[str] = set()
        asked = tuple(Variable(fresh(variable_name(column), taken)) for column in columns)
        return Excerpt(
            name,
            tuple(columns),
            Rule(Head(name, tuple(head)), (Atom(read.known.relation, arguments), *keys, *tests)),
            Goal(Atom(name, asked)),
        )


def _rewrite(read: Mention, name: str) -> None:
    """Let a query read an excerpt in place of a view."""
    for node, parts in read.aggregates:
        node.replace(_aggregate(node, parts, read))
    for node, part in read.terms:
        node.replace(_cast(_column(part, read), part))
    for test in read.tests:
        without(test.node)
    alias = read.table.args.get("alias") or exp.TableAlias(this=read.table.this.copy())
    read.table.set("alias", alias)
    read.table.set("this", exp.to_identifier(name))


def _aggregate(node: exp.Expr, parts: Sequence[PartialColumn], read: Mention) -> exp.Expr:
    """An aggregate of rows as one of parts."""
    part = parts[0]
    first, *more = (_column(each, read) for each in parts)
    match part.kind:
        case "count" | "countd":
            if read.is_outer and read.term(node.this) is None:  # a row without the view is a row
                first = exp.func("COALESCE", first, exp.Literal.number(1))
            return exp.func("COALESCE", exp.Sum(this=first), exp.Literal.number(0))
        case "sum" if more:
            total = exp.cast(exp.Sum(this=first), "double")
            return exp.Paren(this=exp.Div(this=total, expression=exp.Sum(this=more[0])))
        case "sum":
            return exp.Sum(this=first)
        case "min":
            return _cast(exp.Min(this=first), part)
        case "max":
            return _cast(exp.Max(this=first), part)
        case _:  # an avg is whole: there is one for each group
            return exp.Max(this=first)


def _column(part: PartialColumn, read: Mention) -> exp.Expr:
    return exp.column(part.name, table=read.alias, quoted=True)


def _cast(node: exp.Expr, part: PartialColumn) -> exp.Expr:
    """What is computed of integers is an integer in SQL, and a long in rules."""
    term = part.term
    is_integer = term is not None and term.is_computed and term.type is Type.INTEGER
    return exp.cast(node, "int") if is_integer else node
