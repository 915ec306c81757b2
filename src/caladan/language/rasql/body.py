"""The body of one rule: variables for columns, atoms for tables, literals for conditions.

A `SelectBody` stands for one alternative of one SELECT. Columns that an equality makes the same
share a variable. What rules cannot say about a table that is not recursive, SQL says beforehand:
such a table is read through a query of its own, with the conditions pushed into it and the values
computed in it. The same query leaves out rows whose NULL decides a comparison, for NULL equals
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal as OneOf, TypeAlias

from sqlglot import exp

from caladan.language.rasql.conditions import Leaf
from caladan.language.rasql.expressions import ValueTranslator
from caladan.language.rasql.scope import (
    Item,
    ItemColumn,
    Scope,
    TableLookup,
    Unsupported,
    refuse,
)
from caladan.language.rasql.script import span_of
from caladan.program import Atom, Comparison, Constant, Expression, Literal, Type, Variable
from caladan.program.transform import fresh

Role: TypeAlias = OneOf["decides", "carried"]


class Impossible(Exception):
    """A condition that never holds, so that its alternative derives nothing."""


class SelectBody:
    """Collects what a rule needs; `literals` are complete once `atoms` has been called."""

    def __init__(self, scope: Scope, tables: TableLookup, *, sums: bool) -> None:
        self.scope = scope
        self._tables = tables
        self._sums = sums
        self._parents: dict[ItemColumn, ItemColumn] = {}
        self._roles: dict[ItemColumn, set[Role]] = {}
        self._names: dict[ItemColumn, str] = {}
        self._taken: set[str] = set()
        self._pushed: dict[Item, list[exp.Expr]] = {}
        self._computed: dict[Item, list[tuple[exp.Expr, Variable]]] = {}
        self._computed_roles: set[tuple[str, Role]] = set()
        self._scalars: list[tuple[exp.Expr, Variable]] = []
        self._role: Role = "decides"  # of the columns in what is being translated
        self.literals: list[Literal] = []
        self.values = ValueTranslator(scope.source, self._column, self._compute)

    # ── Conditions ───────────────────────────────────────────────────────────────────────────────

    def equate(self, leaf: Leaf) -> bool:
        """Make the columns of an equality one variable, if it is one between columns."""
        if leaf.negated or not isinstance(leaf.node, exp.EQ):
            return False
        left, right = leaf.node.this.unnest(), leaf.node.expression.unnest()
        if not (isinstance(left, exp.Column) and isinstance(right, exp.Column)):
            return False
        one, other = self.scope.place(left), self.scope.place(right)
        if not _joinable(one.column.type, other.column.type):
            return False
        for place in (one, other):
            self._roles.setdefault(place, set()).add("decides")
        self._parents[self._root(other)] = self._root(one)
        return True

    def require(self, leaf: Leaf) -> None:
        """Add a condition that is no equality between columns and no subquery."""
        node = leaf.node
        if isinstance(node, exp.Column):
            self._role = "decides"
            value = self.values.value(node)
            span = span_of(node, self.scope.source)
            self.literals.append(Comparison("=", value, Constant(not leaf.negated), span))
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            self._null(leaf)
        else:
            self._compare(leaf)

    def _compare(self, leaf: Leaf) -> None:
        self._role = "decides"
        owner = self.owner(leaf.node)
        try:
            comparison = self.values.comparison(leaf)
        except Unsupported:
            if owner is None:
                raise
            comparison = None
        if comparison is not None:
            self.literals.append(comparison)
        elif owner is not None:
            self._push(owner, leaf)
        else:
            refuse(
                f"`{leaf.node.key.upper()}` on columns of the recursion, or of several tables",
                span_of(leaf.node, self.scope.source),
                "use comparisons, IN and EXISTS here; move other conditions to a view over "
                "non-recursive tables, or to the query after the recursion",
            )

    def _null(self, leaf: Leaf) -> None:
        """`x IS NULL`: where there is no NULL the answer is known."""
        column = leaf.node.this.unnest()
        owner = self.owner(leaf.node)
        if owner is not None and any(p.column.nullable for p in self.scope.places(leaf.node)):
            self._push(owner, leaf)
        elif not isinstance(column, exp.Column):
            self._compare(leaf)
        elif not leaf.negated:
            raise Impossible

    def _push(self, item: Item, leaf: Leaf) -> None:
        node = leaf.node.copy()
        self._pushed.setdefault(item, []).append(exp.not_(node) if leaf.negated else node)

    def owner(self, node: exp.Expr) -> Item | None:
        """The one table that a node is about, if SQL can read it before the recursion."""
        if node.find(exp.Query, exp.AggFunc, exp.Window):
            return None
        items = {place.item for place in self.scope.places(node)}
        if len(items) != 1 or (item := items.pop()).known.is_recursive:
            return None
        return item if item in self.scope.items else None

    # ── Values ───────────────────────────────────────────────────────────────────────────────────

    def carried(self, node: exp.Expr) -> Expression:
        """A value that goes into the head, or to a subquery."""
        self._role = "carried"
        return self.values.value(node)

    def role(self, role: Role) -> None:
        """What the columns of the values translated next are there for."""
        self._role = role

    def variable(self, place: ItemColumn, role: Role) -> Variable:
        """The variable of a column."""
        self._roles.setdefault(place, set()).add(role)
        return self._named(place)

    def _named(self, place: ItemColumn) -> Variable:
        root = self._root(place)
        if root not in self._names:
            self._names[root] = self._fresh(root.column.name)
        return Variable(self._names[root])

    def _column(self, node: exp.Column) -> Variable:
        found = self.variable(self.scope.place(node), self._role)
        return Variable(found.name, span_of(node, self.scope.source))

    def _compute(self, node: exp.Expr) -> Expression | None:
        """Have SQL compute a value of one table, as a column of its own, or of a subquery."""
        if isinstance(node, exp.Subquery | exp.Select):
            return self._scalar(node)
        item = self.owner(node)
        if item is None:
            return None
        known = self._computed.setdefault(item, [])
        variable = next((v for before, v in known if before == node), None)
        if variable is None:
            variable = Variable(self._fresh(node.alias_or_name or node.key))
            known.append((node.copy(), variable))
        self._computed_roles.add((variable.name, self._role))
        return variable

    def _scalar(self, node: exp.Expr) -> Expression | None:
        """The one value of a subquery that neither reads the recursion nor depends on its rows."""
        if self._tables.reads_recursion(node) or self._speaks_of_rows(node):
            return None
        known = next((v for before, v in self._scalars if before == node), None)
        if known is not None:
            return known
        span = span_of(node, self.scope.source)
        inner = exp.Subquery(this=node.unnest().copy())
        query = exp.select(exp.alias_(inner, "value", quoted=True))
        if self._role == "decides":  # NULL decides that nothing holds
            named = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("s")))
            value = exp.column("value", table="s", quoted=True)
            is_null = exp.Is(this=value.copy(), expression=exp.Null())
            query = exp.select(value).from_(named).where(is_null.not_())
        found = self._tables.evaluate(query, "value", span)
        variable = Variable(self._fresh("value"))
        self._scalars.append((node.copy(), variable))
        self.literals.append(Atom(found.relation, (variable,), span=span))
        return variable

    def _speaks_of_rows(self, node: exp.Expr) -> bool:
        """Whether a subquery names a table of the query around it."""
        inside = {table.alias_or_name.lower() for table in node.find_all(exp.Table, exp.Subquery)}
        named = {column.table.lower() for column in node.find_all(exp.Column) if column.table}
        return bool((named - inside) & self.scope.tables.keys())

    def outer_places(self) -> list[ItemColumn]:
        """The columns of queries around this one that it uses."""
        return [place for place in self._roles if not self.scope.is_own(place)]

    def is_bound_inside(self, place: ItemColumn) -> bool:
        """Whether a column from outside equals one of the body's own."""
        root = self._root(place)
        return any(self._root(other) == root and self.scope.is_own(other) for other in self._roles)

    # ── Atoms ────────────────────────────────────────────────────────────────────────────────────

    def atom(self, item: Item) -> Atom:
        """A table or view as an atom; columns that nothing uses are anonymous."""
        span = span_of(item.node, self.scope.source)
        known = item.known
        is_plain = not (known.has_nulls or item in self._pushed or item in self._computed)
        if known.is_recursive or (is_plain and known.is_relation):
            return Atom(known.relation, tuple(self._arguments(item)), span=span)
        query, arguments = self._prepared(item)
        found = self._tables.evaluate(query, known.relation or item.alias, span)
        return Atom(found.relation, tuple(arguments), span=span)

    def _arguments(self, item: Item) -> list[Variable]:
        places = [ItemColumn(item, i) for i in range(len(item.known.columns))]
        return [self._named(place) if place in self._roles else Variable("_") for place in places]

    def _prepared(self, item: Item) -> tuple[exp.Query, list[Variable]]:
        """The query that reads an item for this rule, and the variables of its columns."""
        columns: list[exp.Expr] = []
        arguments: list[Variable] = []
        present: list[exp.Expr] = []
        for i, column in enumerate(item.known.columns):
            place = ItemColumn(item, i)
            node = exp.column(column.name, table=item.alias, quoted=True)
            if place in self._roles:
                columns.append(exp.alias_(node, column.name, quoted=True))
                arguments.append(self._named(place))
                if column.nullable and "decides" in self._roles[place]:
                    present.append(exp.Is(this=node.copy(), expression=exp.Null()).not_())
            elif self._sums:
                # A row counts by all of its columns, also by those that nobody looks at.
                columns += _identity(node, column.nullable, i)
                arguments += [Variable("_")] * (2 if column.nullable else 1)
        for i, (node, variable) in enumerate(self._computed.get(item, [])):
            columns.append(exp.alias_(node.copy(), f"computed_{i + 1}", quoted=True))
            arguments.append(variable)
            if (variable.name, "decides") in self._computed_roles:
                present.append(exp.Is(this=node.copy(), expression=exp.Null()).not_())
        if not columns:  # only whether there is a row matters
            columns = [exp.alias_(exp.Literal.number(1), "one", quoted=True)]
            arguments = [Variable("_")]
        query = exp.select(*columns).distinct().from_(item.node.copy())
        conditions = [*(c.copy() for c in self._pushed.get(item, [])), *present]
        return (query.where(*conditions) if conditions else query), arguments

    # ── Names ────────────────────────────────────────────────────────────────────────────────────

    def _root(self, place: ItemColumn) -> ItemColumn:
        while place in self._parents and self._parents[place] != place:
            place = self._parents[place]
        return place

    def _fresh(self, name: str) -> str:
        return fresh(variable_name(name), self._taken)


def variable_name(name: str) -> str:
    """A column's name as the name of a variable.

    >>> variable_name("src")
    'Src'
    """
    plain = re.sub(r"\W", "_", name).lstrip("_") or "V"
    return plain[0].upper() + plain[1:] if plain[0].isalpha() else f"V{plain}"


def _joinable(one: Type | None, other: Type | None) -> bool:
    if one is None or other is None or one == other:
        return True
    return (one.is_integral and other.is_integral) or (one.is_floating and other.is_floating)


def _identity(node: exp.Expr, nullable: bool, i: int) -> Sequence[exp.Expr]:
    if not nullable:
        return [exp.alias_(node, f"other_{i + 1}", quoted=True)]
    text = exp.cast(node.copy(), "text")
    value = exp.func("COALESCE", text, exp.Literal.string(""))
    is_null = exp.Is(this=node.copy(), expression=exp.Null())
    return [
        exp.alias_(value, f"other_{i + 1}", quoted=True),
        exp.alias_(is_null, f"other_{i + 1}_null", quoted=True),
    ]
