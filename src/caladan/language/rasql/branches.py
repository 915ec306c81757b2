"""A SELECT of a recursive view → rules.

`Translation.branch` makes rules of a SELECT: one for all alternatives of its condition that join
the same tables, where nothing is aggregated, else one for each. A subquery of EXISTS or IN becomes
a relation of its own, which holds the values for which it has rows; so it never changes how often a
row is derived. A list of values becomes a relation too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from caladan.language.rasql.body import Impossible, SelectBody
from caladan.language.rasql.conditions import Leaf, alternatives
from caladan.language.rasql.scope import BOUND, Item, ItemColumn, Scope, TableLookup, refuse
from caladan.language.rasql.script import span_of
from caladan.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Head,
    Literal,
    Rule,
    Type,
)
from caladan.program.diagnostics import SourceText, error

# What a SELECT of a recursive view cannot have, by its name in sqlglot: the words for it, and what
# to write instead.
_REFUSED: Final[dict[str, tuple[str, str]]] = {
    "group": (
        "GROUP BY in a recursive query",
        "aggregate in the head of the view: v(A, sum() AS total); the other columns are the group",
    ),
    "having": (
        "HAVING in a recursive query",
        "compare the aggregated column of the view, in the query or view that reads it",
    ),
    "order": ("ORDER BY in a recursive query", "order the query after the recursion"),
    "limit": ("LIMIT in a recursive query", "limit the query after the recursion"),
    "offset": ("OFFSET in a recursive query", "use it in the query after the recursion"),
    "qualify": ("QUALIFY in a recursive query", "use it in the query after the recursion"),
    "windows": ("WINDOW in a recursive query", "use it in the query after the recursion"),
    "laterals": ("LATERAL VIEW in a recursive query", "unnest in a view before the recursion"),
    "with_": ("WITH inside a recursive query", "move it to the front of the statement"),
    "pivots": ("PIVOT in a recursive query", "pivot in a view before the recursion"),
}


_LISTED: Final = (Type.INTEGER, Type.LONG, Type.FLOAT, Type.DOUBLE)

MakeHead: TypeAlias = Callable[[Sequence[exp.Expr], list[Expression], Scope], Head]


class Translation:
    """Makes rules; those for subqueries and lists of values are collected on the way."""

    def __init__(
        self, tables: TableLookup, source: SourceText, fresh: Callable[[str], str]
    ) -> None:
        self._tables = tables
        self._source = source
        self._fresh = fresh
        self.helpers: list[Rule] = []

    def branch(self, query: exp.Query, head: MakeHead, *, sums: bool) -> Iterator[Rule]:
        """The rules of a query; `head` makes a rule's head of what it selects."""
        if isinstance(query, exp.Values):
            nothing = Scope((), self._source)
            for row in query.expressions:
                yield from self.rules(nothing, list(row.expressions), None, head, sums=sums)
            return
        select = self._select(query, sums=sums)
        items, joined = self._from(select)
        scope = Scope(items, self._source)
        condition = _both(joined, select.args.get("where"))
        yield from self.rules(scope, self._selected(select, items), condition, head, sums=sums)

    def selection(self, query: exp.Query, *, sums: bool) -> tuple[list[exp.Expr], Scope]:
        """What a query selects, and from where."""
        if isinstance(query, exp.Values):
            return list(query.expressions[0].expressions), Scope((), self._source)
        select = self._select(query, sums=sums)
        items, _ = self._from(select)
        return self._selected(select, items), Scope(items, self._source)

    def rules(
        self,
        scope: Scope,
        selected: Sequence[exp.Expr],
        condition: exp.Expr | None,
        head: MakeHead,
        *,
        sums: bool,
    ) -> Iterator[Rule]:
        """A rule for each alternative of a condition, or one for those that join the same."""
        found: dict[tuple[Head, tuple[Atom, ...]], list[list[Literal]]] = {}
        for way in self._ways(scope, condition, disjoint=sums):
            body = SelectBody(scope, self._tables, sums=sums)
            try:
                self._conditions(body, way)
                values = [body.carried(node) for node in selected]
            except Impossible:
                continue
            atoms = tuple(body.atom(item) for item in scope.items)
            found.setdefault((head(selected, values, scope), atoms), []).append(body.literals)
        for (made, atoms), ways in found.items():
            if any(isinstance(each, Aggregate) for each in made.arguments):
                # Alternatives exclude each other where it counts, and say what is compared.
                yield from (Rule(made, (*atoms, *way)) for way in ways)
            else:
                yield Rule(made, (*atoms, *_either(ways)))

    # ── FROM and SELECT ──────────────────────────────────────────────────────────────────────────

    def _select(self, query: exp.Expr, *, sums: bool) -> exp.Select:
        span = span_of(query, self._source)
        if isinstance(query, exp.Subquery):
            return self._select(query.this, sums=sums)
        if not isinstance(query, exp.Select):
            refuse(f"{query.key.upper()} in a recursive view", span, "combine SELECTs with UNION")
        for part, (what, instead) in _REFUSED.items():
            if found := query.args.get(part):
                place = span_of(found, self._source) if isinstance(found, exp.Expr) else None
                refuse(what, place or span, instead)
        if query.args.get("distinct") and sums:
            refuse(
                "DISTINCT in a view that adds up",
                span,
                "select the distinct rows in a view of their own, and read that",
            )
        return query

    def _from(self, select: exp.Select) -> tuple[list[Item], exp.Expr | None]:
        """The items of a FROM, and the conditions of its joins."""
        clause = select.args.get("from_")
        if clause is None:
            return [], None
        items = [self._item(clause.this)]
        condition: exp.Expr | None = None
        for table in (clause.this, *(join.this for join in select.args.get("joins") or [])):
            for nested in table.args.get("joins") or []:
                refuse(
                    "a join in parentheses",
                    span_of(nested, self._source),
                    "join the tables one after the other",
                )
        for join in select.args.get("joins") or []:
            self._check_join(join)
            item = self._item(join.this)
            for name in join.args.get("using") or []:
                condition = _both(condition, self._using(name, items, item))
            items.append(item)
            condition = _both(condition, join.args.get("on"))
        return items, condition

    def _check_join(self, join: exp.Join) -> None:
        side = join.side or (join.method if join.method == "NATURAL" else "")
        if side or join.kind not in ("", "INNER", "CROSS"):
            kind = " ".join(word for word in (join.method, side, join.kind) if word)
            refuse(
                f"{kind} JOIN in a recursive query",
                span_of(join, self._source),
                "use an inner JOIN … ON here; move an outer join to a view before the recursion "
                "or to the query after it; write an anti join as NOT EXISTS",
            )

    def _using(self, name: exp.Expr, before: Sequence[Item], item: Item) -> exp.Expr:
        column = exp.Column(this=name.copy())
        left = Scope(before, self._source).place(column)
        right = Scope([item], self._source).place(column)
        return exp.EQ(this=_bound(name, left), expression=_bound(name, right))

    def _item(self, node: exp.Expr) -> Item:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            known = self._tables.find(node)
            return Item(node.alias or node.name, known, node)
        query = node.this if isinstance(node, exp.Subquery) else node
        span = span_of(node, self._source)
        if not isinstance(node, exp.Subquery | exp.Values) or not node.alias:
            refuse("this in a FROM", span, "name it with CREATE VIEW, and read the view")
        if self._tables.reads_recursion(query):
            refuse(
                "a subquery in FROM that reads the recursion",
                span,
                "write its tables and conditions into the query itself, or make it a view of "
                "the WITH",
            )
        return Item(node.alias, self._tables.describe(node, span), node)

    def _selected(self, select: exp.Select, items: Sequence[Item]) -> list[exp.Expr]:
        """What is selected, with `*` and `t.*` written out."""
        found: list[exp.Expr] = []
        for node in select.expressions:
            if isinstance(node, exp.Star):
                found += [star for item in items for star in _stars(item)]
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                item = next((i for i in items if i.alias.lower() == node.table.lower()), None)
                if item is None:
                    raise error(
                        "C063",
                        f"there is no table `{node.table}` here",
                        span_of(node, self._source),
                    )
                found += _stars(item)
            else:
                found.append(node)
        return found

    # ── WHERE ────────────────────────────────────────────────────────────────────────────────────

    def _ways(
        self, scope: Scope, condition: exp.Expr | None, *, disjoint: bool
    ) -> list[list[Leaf]]:
        def nullable(node: exp.Expr) -> bool:
            # What a subquery selects may be NULL: whether it is, its own scope would tell.
            is_query = node.find(exp.Query) is not None
            return is_query or any(place.column.nullable for place in scope.places(node))

        def is_listed(node: exp.Expr, value: exp.Expr) -> bool:
            # A list is joined, which compares exactly; and what the recursion makes may still grow.
            if not isinstance(node, exp.Column) or not isinstance(value, exp.Literal):
                return False
            place = scope.place(node)
            kinds = (Type.STRING,) if value.is_string else _LISTED
            is_exact = value.is_string or str(value.this).isdigit()
            return is_exact and place.column.type in kinds and not place.item.known.is_recursive

        span = span_of(condition, self._source)
        return alternatives(
            condition, span, disjoint=disjoint, nullable=nullable, is_listed=is_listed
        )

    def _conditions(self, body: SelectBody, way: Sequence[Leaf]) -> None:
        rest = [leaf for leaf in way if not body.equate(leaf)]
        for leaf in rest:
            match leaf.node:
                case exp.Exists():
                    self._exists(body, leaf.node.this, leaf.negated)
                case exp.In() if leaf.node.args.get("query"):
                    self._in_query(body, leaf)
                case exp.In() if leaf.node.expressions:
                    self._in_list(body, leaf)
                case _:
                    body.require(leaf)

    def _in_list(self, body: SelectBody, leaf: Leaf) -> None:
        """`x IN (1, 2)` as a relation with those facts."""
        node = leaf.node
        span = span_of(node, self._source)
        body.role("carried" if leaf.negated else "decides")
        value = body.values.value(node.this)
        values = [body.values.value(each) for each in node.expressions]
        if len(values) == 1:
            operator = "~=" if leaf.negated else "="
            body.literals.append(Comparison(operator, value, values[0], span))
            return
        place = body.scope.place(node.this) if isinstance(node.this, exp.Column) else None
        if place is not None and place.column.type in (Type.FLOAT, Type.DOUBLE):
            values = [_as_double(each) for each in values]
        name = self._fresh("listed")
        self.helpers += [Rule(Head(name, (each,))) for each in dict.fromkeys(values)]
        body.literals.append(Atom(name, (value,), leaf.negated, span))

    def _in_query(self, body: SelectBody, leaf: Leaf) -> None:
        node = leaf.node
        query = node.args["query"].unnest()
        subject = node.this.copy()
        for column, original in zip(
            subject.find_all(exp.Column), node.this.find_all(exp.Column), strict=True
        ):
            column.meta[BOUND] = body.scope.place(original)
        selected = query.selects[0].unalias() if query.selects else None
        self._exists(body, query, leaf.negated, selected and (subject, selected))

    def _exists(
        self,
        outer: SelectBody,
        query: exp.Expr,
        negated: bool,
        equal: tuple[exp.Expr, exp.Expr] | None = None,
    ) -> None:
        """A relation with the outer values for which a subquery has rows, and an atom of it."""
        span = span_of(query, self._source)
        select = self._select(query.unnest(), sums=False)
        items, joined = self._from(select)
        scope = Scope(items, self._source, outer.scope)
        condition = _both(joined, select.args.get("where"))
        if equal is not None:
            subject, selected = equal
            if negated and any(p.column.nullable for n in equal for p in scope.places(n)):
                refuse(
                    "NOT IN where a value may be NULL",
                    span,
                    "write NOT EXISTS (SELECT 1 FROM … WHERE … = …), which defines NULL",
                )
            condition = _both(exp.EQ(this=subject, expression=selected), condition)
        bodies: list[SelectBody] = []
        for way in self._ways(scope, condition, disjoint=False):
            body = SelectBody(scope, self._tables, sums=False)
            try:
                self._conditions(body, way)
            except Impossible:
                continue
            bodies.append(body)
        places = list(dict.fromkeys(p for body in bodies for p in body.outer_places()))
        name = self._fresh("exists")
        for body in bodies:
            self.helpers.append(self._helper(name, body, places, items))
        if not bodies:
            if not negated:
                raise Impossible
            return
        arguments = tuple(outer.variable(p, "carried" if negated else "decides") for p in places)
        outer.literals.append(Atom(name, arguments, negated, span))

    def _helper(
        self, name: str, body: SelectBody, places: Sequence[ItemColumn], items: Sequence[Item]
    ) -> Rule:
        head = Head(name, tuple(body.variable(place, "decides") for place in places))
        # A column from outside that only comparisons mention gets its values from its own table.
        free = dict.fromkeys(p.item for p in places if not body.is_bound_inside(p))
        atoms = [body.atom(item) for item in (*free, *items)]
        return Rule(head, (*atoms, *body.literals))


def _both(one: exp.Expr | None, other: exp.Expr | None) -> exp.Expr | None:
    parts = [part.this if isinstance(part, exp.Where) else part for part in (one, other) if part]
    if len(parts) == 2:
        return exp.And(this=parts[0], expression=parts[1])
    return parts[0] if parts else None


def _bound(name: exp.Expr, place: ItemColumn) -> exp.Column:
    column = exp.Column(this=name.copy())
    column.meta[BOUND] = place
    return column


def _either(ways: Sequence[Sequence[Literal]]) -> Iterator[Literal]:
    """The literals of all ways, then what is left of each as alternatives."""
    common = [each for each in ways[0] if all(each in way for way in ways)]
    rest = [tuple(each for each in way if each not in common) for way in ways]
    yield from common
    if all(rest):
        yield Disjunction(tuple(rest))


def _stars(item: Item) -> list[exp.Expr]:
    """The columns that `t.*` stands for."""
    return [
        _bound(exp.to_identifier(column.name, quoted=True), ItemColumn(item, i))
        for i, column in enumerate(item.known.columns)
    ]


def _as_double(node: Expression) -> Expression:
    if isinstance(node, Constant) and type(node.value) is int:
        return Constant(float(node.value), node.span)
    return node
