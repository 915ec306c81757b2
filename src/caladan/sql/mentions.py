"""What a SELECT needs of a recursive view in its FROM.

`mention(table, …)` tells, as a `Mention`: which columns are needed, which conditions can go before,
and of which parts its aggregates are made. A column is not needed if nobody can tell that it is
missing: rows that are alike are one (DISTINCT, IN, EXISTS), or each comes with how many it stands
for, and only what it is not grouped by is gone. None is for what is left to SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal as OneOf, TypeAlias

from sqlglot import exp

from caladan.language.rasql.body import variable_name
from caladan.language.rasql.scope import KnownTable
from caladan.program import Type, Variable
from caladan.program.diagnostics import SourceText
from caladan.program.transform import fresh
from caladan.sql.engine import key_of
from caladan.sql.filters import SayableTest, filters

Kind: TypeAlias = OneOf["count", "sum", "min", "max", "countd", "avg"]
"""A part of an aggregate, as rules have it."""

_WORDS: Final[dict[str, str]] = {"count": "rows", "countd": "distinct"}

_CLAUSES: Final = frozenset(
    ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
     "distinct")
)  # fmt: skip
_UNUSUAL: Final = (exp.Window, exp.Anonymous, exp.AnonymousAggFunc, exp.UDTF, exp.Lambda)
_AROUND: Final = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

_SMALL: Final = (Type.BYTE, Type.SHORT, Type.INTEGER)
_ORDERED: Final = (*_SMALL, Type.LONG, Type.STRING, Type.DATE)
"""Types of which SQL and rules have the same least and greatest value."""

Columns: TypeAlias = Callable[[exp.Table], "frozenset[str] | None"]
"""The names of a table's columns in lower case, None where they are not known."""


class _UnclearError(Exception):
    """Something in a query whose meaning is left to SQL."""


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """A column with an aggregate of a column, or of rows."""

    kind: Kind
    column: int | None
    name: str


@dataclass(slots=True)
class Mention:
    """A view in the FROM of a SELECT, and what that SELECT needs of it.

    `others` are the columns of the tables beside it, None if that is not known; with `is_outer`
    there may be rows without the view. `aggregates` have the parts that they are made of.
    """

    table: exp.Table
    select: exp.Select
    known: KnownTable
    others: frozenset[str] | None
    is_outer: bool
    needed: set[int] = field(default_factory=set[int])
    tests: list[SayableTest] = field(default_factory=list[SayableTest])
    aggregates: list[tuple[exp.Expr, tuple[PartialColumn, ...]]] = field(
        default_factory=list[tuple[exp.Expr, "tuple[PartialColumn, ...]"]]
    )
    parts: dict[tuple[Kind, int | None], PartialColumn] = field(
        default_factory=dict[tuple[Kind, "int | None"], PartialColumn]
    )

    @property
    def alias(self) -> str:
        return self.table.alias_or_name

    @property
    def every(self) -> set[int]:
        return set(range(len(self.known.columns)))

    @property
    def leaves_out(self) -> bool:
        """Whether less than the view is needed."""
        return bool(self.tests) or self.needed != self.every

    @property
    def variables(self) -> list[Variable]:
        """A variable for each column of the view."""
        taken: set[str] = set()
        return [Variable(fresh(variable_name(c.name), taken)) for c in self.known.columns]

    @property
    def names(self) -> set[str]:
        """All names in the query, in lower case."""
        return {each.name.lower() for each in self.select.root().find_all(exp.Identifier)}

    def place(self, column: exp.Column) -> int | None:
        """The view's column that a name may stand for, None if it is another table's."""
        names = [each.name.lower() for each in self.known.columns]
        name = column.name.lower()
        if column.args.get("db") or names.count(name) > 1:
            raise _UnclearError
        if not column.table:
            if name == self.alias.lower():
                raise _UnclearError  # a whole row
            return names.index(name) if name in names else None
        if column.table.lower() != self.alias.lower():
            return None
        if name not in names:
            raise _UnclearError
        return names.index(name)

    def own(self, node: exp.Expr | None) -> int | None:
        """The view's column that a node is, and no other table's."""
        node = None if node is None else node.unnest()
        if not isinstance(node, exp.Column) or (found := self.place(node)) is None:
            return None
        if node.table or (self.others is not None and node.name.lower() not in self.others):
            return found
        return None

    def part(self, kind: Kind, column: int | None) -> PartialColumn:
        """A part of an aggregate, with a name that nothing in the query has."""
        if (kind, column) not in self.parts:
            of = "" if column is None else f"_{self.known.columns[column].name}"
            taken = self.names | {each.name.lower() for each in self.parts.values()}
            name = fresh(_WORDS.get(kind, kind) + of, taken, str.lower)
            self.parts[kind, column] = PartialColumn(kind, column, name)
        return self.parts[kind, column]


def mention(
    table: exp.Table, views: Mapping[str, KnownTable], columns: Columns, source: SourceText
) -> Mention | None:
    """What a SELECT needs of a view that it reads, None if that is not to be told."""
    select = table.parent_select
    if not isinstance(select, exp.Select) or not _is_plain(table, select):
        return None
    joins = list[exp.Join](select.args.get("joins") or [])
    tables = [select.args["from_"].this, *(join.this for join in joins)]
    names = [_columns(each, views, columns) for each in tables if each is not table]
    others = None if None in names else frozenset(n for each in names if each for n in each)
    known = views[key_of(table)]
    found = Mention(table, select, known, others, any(join.side for join in joins))
    is_alone = sum(isinstance(t, exp.Table) and key_of(t) in views for t in tables) == 1
    try:
        if not found.is_outer:
            where = select.args.get("where")
            found.tests = list(filters(where, known, found.own, found.variables, source))
        _read(found, is_alone=is_alone)
    except _UnclearError:
        return None
    return found


def _read(found: Mention, *, is_alone: bool) -> None:
    """Find out what is needed."""
    select = found.select
    aggregates = [node for node in _own(select) if isinstance(node, exp.AggFunc)]
    is_grouped = bool(aggregates or select.args.get("group") or select.args.get("having"))
    aside = [test.node for test in found.tests]
    found.needed = found.every
    if is_grouped and (meant := _meanings(found, aggregates)) is not None:
        named = _named(found, [*aside, *(node for node, kind, _ in meant if kind)])
        _take_apart(found, meant, named, is_alone=is_alone)
    elif not is_grouped and _is_set(select):
        found.needed = _named(found, aside)


_Meaning: TypeAlias = tuple[exp.Expr, "Kind | None", "int | None"]


def _take_apart(
    found: Mention, meant: Sequence[_Meaning], named: set[int], *, is_alone: bool
) -> None:
    """Make aggregates of parts, where columns are left out; `named` are needed besides."""
    by_group = [of for _, kind, of in meant if kind in ("countd", "avg")]
    is_group = _is_group(found, named)
    if by_group and not is_group:
        if any(kind == "avg" and not _is_small(found, of) for _, kind, of in meant):
            return
        named = named | {of for _, kind, of in meant if kind == "countd" and of is not None}
    if named == found.every or not (is_alone or not any(kind for _, kind, _ in meant)):
        return
    found.needed = named
    for node, kind, of in meant:
        if kind == "avg" and not is_group:
            made = (found.part("sum", of), found.part("count", None))
        elif kind is not None and (kind != "countd" or is_group):
            made = (found.part(kind, of),)
        else:
            continue
        found.aggregates.append((node, made))


def _meanings(found: Mention, aggregates: Sequence[exp.AggFunc]) -> list[_Meaning] | None:
    """For each aggregate the part that it needs, if any; None if one needs all rows as they are."""
    if _is_seen(found.select) and not all(map(_has_name, found.select.expressions)):
        return None  # the engine gives a column its name, by how it is computed
    meant: list[_Meaning] = []
    for node in aggregates:
        of = found.own(node.this)
        type = None if of is None else found.known.columns[of].type
        is_whole = type is not None and type.is_integral
        match node:
            case _ if node.args.get("expressions") or isinstance(node.parent, _AROUND):
                return None
            case exp.Count(this=exp.Distinct(expressions=[one])):
                of = found.own(one)
                meant.append((node, None if of is None else "countd", of))
            case exp.Count() if of is not None or isinstance(node.this, exp.Star | exp.Literal):
                meant.append((node, "count", None))
            case exp.Sum() if is_whole:
                meant.append((node, "sum", of))
            case exp.Avg() if is_whole:
                meant.append((node, "avg", of))
            case exp.Min() if type in _ORDERED:
                meant.append((node, "min", of))
            case exp.Max() if type in _ORDERED:
                meant.append((node, "max", of))
            case exp.Min() | exp.Max():
                meant.append((node, None, None))
            case exp.Count() | exp.Sum() | exp.Avg() if isinstance(node.this, exp.Distinct):
                meant.append((node, None, None))
            case _:
                return None
    return meant


def _named(found: Mention, aside: Sequence[exp.Expr]) -> set[int]:
    """The columns of a view that a SELECT names outside of some nodes."""
    select = found.select
    is_asked = not isinstance(select.parent, exp.Exists)
    if is_asked and any(isinstance(node, exp.Star) for node in select.expressions):
        return found.every
    aliases = {node.alias.lower() for node in select.expressions if isinstance(node, exp.Alias)}
    skipped = {id(node) for node in aside}
    needed: set[int] = set()
    for node in select.walk(prune=lambda node: id(node) in skipped):
        if isinstance(node, exp.Join):
            names = [each.name.lower() for each in node.args.get("using") or []]
            needed |= {i for i, c in enumerate(found.known.columns) if c.name.lower() in names}
        if id(node) in skipped or not isinstance(node, exp.Column):
            continue
        if isinstance(node.this, exp.Star):
            if node.table.lower() == found.alias.lower():
                return found.every
            continue
        is_alias = not node.table and node.name.lower() in aliases
        if is_alias and isinstance(node.parent, exp.Ordered):
            continue
        if (place := found.place(node)) is not None:
            needed.add(place)
    return needed


def _is_plain(table: exp.Table, select: exp.Select) -> bool:
    """Whether a table is one of a FROM, in a SELECT with nothing unusual."""
    clause, alias = table.parent, table.args.get("alias")
    distinct = select.args.get("distinct")
    joins = list[exp.Join](select.args.get("joins") or [])
    return (
        isinstance(clause, exp.From | exp.Join)
        and clause.parent is select
        and _given(table) <= {"this", "alias"}
        and not (alias and alias.columns)
        and _given(select) <= _CLAUSES
        and not (isinstance(distinct, exp.Distinct) and distinct.args.get("on"))
        and all(_given(join) <= {"this", "on", "using", "side", "kind"} for join in joins)
        and all(join.kind in ("", "INNER", "OUTER", "CROSS") for join in joins)
        and not any(isinstance(node, _UNUSUAL) for node in _own(select))
    )


def _given(node: exp.Expr) -> set[str]:
    return {key for key, value in node.args.items() if value}


def _columns(
    node: exp.Expr, views: Mapping[str, KnownTable], columns: Columns
) -> frozenset[str] | None:
    if not isinstance(node, exp.Table):
        return None
    known = views.get(key_of(node))
    return columns(node) if known is None else frozenset(c.name.lower() for c in known.columns)


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT without those of queries in it."""
    return select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query))


def _is_set(select: exp.Select) -> bool:
    """Whether it does not matter how often a SELECT gives a row."""
    if select.args.get("distinct"):
        return True
    if select.args.get("limit") or select.args.get("offset"):
        return False
    around: exp.Expr | None = select.parent
    if isinstance(around, exp.SetOperation):
        return bool(around.args.get("distinct"))
    while isinstance(around, exp.Subquery | exp.Paren):
        around = around.parent
    return isinstance(around, exp.Exists | exp.In)


def _is_seen(select: exp.Select) -> bool:
    """Whether others know the columns of a SELECT by their names."""
    around: exp.Expr | None = select.parent
    while isinstance(around, exp.SetOperation):
        around = around.parent
    return isinstance(around, exp.CTE) or (
        isinstance(around, exp.Subquery) and isinstance(around.parent, exp.From | exp.Join)
    )


def _has_name(node: exp.Expr) -> bool:
    return isinstance(node, exp.Alias | exp.Column) or not node.find(exp.AggFunc)


def _is_small(found: Mention, column: int | None) -> bool:
    """Whether no sum of a column is too large."""
    return column is not None and found.known.columns[column].type in _SMALL


def _is_group(found: Mention, needed: set[int]) -> bool:
    """Whether each row with the needed columns is a group of the query."""
    group = found.select.args.get("group")
    if found.select.args.get("joins"):
        return False
    if group is None:
        return not needed
    by = {found.own(node) for node in group.expressions}
    return _given(group) == {"expressions"} and bool(needed) and needed <= by
