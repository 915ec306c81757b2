"""What a SELECT needs of a recursive view in its FROM.

`mention(table, …)` tells, as a `Mention`: which columns are needed, which conditions can go before,
and of which parts its aggregates are made. A column is not needed if nobody can tell that it is
missing: rows that are alike are one (DISTINCT, IN, EXISTS), or each comes with how many it stands
for, and only what it is not grouped by is gone. None is for what is left to SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal as OneOf, TypeAlias

from sqlglot import exp

from caladan.language.rasql.body import variable_name
from caladan.language.rasql.scope import KnownTable
from caladan.program import Expression, Type, Variable
from caladan.program.diagnostics import SourceText
from caladan.program.transform import fresh
from caladan.sql.engine import key_of
from caladan.sql.filters import Sayable, SayableTest, filters
from caladan.sql.selects import has_name, is_plain, is_seen, is_set, list_parts, own

AggregateName: TypeAlias = OneOf["count", "sum", "min", "max", "countd", "avg"]
"""A part of an aggregate, as rules have it."""

_WORDS: Final[dict[str, str]] = {"count": "rows", "countd": "distinct"}

_OPERATIONS: Final = (exp.Add, exp.Sub, exp.Mul)
_AROUND: Final = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

_SMALL: Final = (Type.BYTE, Type.SHORT, Type.INTEGER)
_ORDERED: Final = (*_SMALL, Type.LONG, Type.STRING, Type.DATE)
"""Types of which SQL and rules have the same least and greatest value."""

ColumnsOf: TypeAlias = Callable[[exp.Table], "frozenset[str] | None"]
"""The names of a table's columns in lower case, None where they are not known."""


class _UnclearError(Exception):
    """Something in a query whose meaning is left to SQL."""


@dataclass(frozen=True, slots=True)
class ViewTerm:
    """A column of a view, or whole numbers computed of several (`is_computed`)."""

    value: Expression
    type: Type | None
    columns: frozenset[int]
    stem: str
    is_computed: bool = False


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """A column with an aggregate of a term, or of rows; or with a term itself, without a kind."""

    kind: AggregateName | None
    term: ViewTerm | None
    name: str


@dataclass(slots=True)
class Mention:
    """A view in the FROM of a SELECT, and what that SELECT needs of it.

    `others` are the columns of the tables beside it, None if that is not known; with `is_outer`
    there may be rows without the view. `aggregates` have the parts that they are made of, `terms`
    the columns that stand for what is computed.
    """

    table: exp.Table
    select: exp.Select
    known: KnownTable
    source: SourceText
    others: frozenset[str] | None
    is_outer: bool
    needed: set[int] = field(default_factory=set[int])
    tests: list[SayableTest] = field(default_factory=list[SayableTest])
    aggregates: list[tuple[exp.Expr, tuple[PartialColumn, ...]]] = field(
        default_factory=list[tuple[exp.Expr, "tuple[PartialColumn, ...]"]]
    )
    terms: list[tuple[exp.Expr, PartialColumn]] = field(
        default_factory=list[tuple[exp.Expr, PartialColumn]]
    )
    parts: dict[tuple[AggregateName | None, Expression | None], PartialColumn] = field(
        default_factory=dict[tuple["AggregateName | None", "Expression | None"], PartialColumn]
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

    @property
    def sayable(self) -> Sayable:
        """What rules can say of the view."""
        return Sayable(self.known, self.own, self.variables, self.source)

    def term(self, node: exp.Expr | None) -> ViewTerm | None:
        """A column of the view, or what is computed of its columns."""
        if (place := self.own(node)) is not None:
            column = self.known.columns[place]
            return ViewTerm(self.variables[place], column.type, frozenset([place]), column.name)
        if node is None or not isinstance(node.unnest(), _OPERATIONS):
            return None
        if not (sayable := self.sayable).whole(node):
            return None
        places = frozenset(p for c in node.find_all(exp.Column) if (p := self.own(c)) is not None)
        types = {self.known.columns[place].type for place in places}
        if not types or types - {Type.INTEGER, Type.LONG}:
            return None
        type = Type.LONG if Type.LONG in types else Type.INTEGER
        return ViewTerm(sayable.values.value(node), type, places, "value", is_computed=True)

    def part(self, kind: AggregateName | None, term: ViewTerm | None = None) -> PartialColumn:
        """A column that is made for the query, with a name that nothing in it has."""
        key = (kind, None if term is None else term.value)
        if key not in self.parts:
            words = [_WORDS.get(kind, kind) if kind else None, term.stem if term else None]
            taken = self.names | {each.name.lower() for each in self.parts.values()}
            name = fresh("_".join(word for word in words if word), taken, str.lower)
            self.parts[key] = PartialColumn(kind, term, name)
        return self.parts[key]


def mention(
    table: exp.Table, views: Mapping[str, KnownTable], columns: ColumnsOf, source: SourceText
) -> Mention | None:
    """What a SELECT needs of a view that it reads, None if that is not to be told."""
    select = table.parent_select
    if not isinstance(select, exp.Select) or not is_plain(table, select):
        return None
    joins = list[exp.Join](select.args.get("joins") or [])
    tables = [select.args["from_"].this, *(join.this for join in joins)]
    names = [_columns(each, views, columns) for each in tables if each is not table]
    others = None if None in names else frozenset(n for each in names if each for n in each)
    known = views[key_of(table)]
    found = Mention(table, select, known, source, others, any(join.side for join in joins))
    is_alone = sum(isinstance(t, exp.Table) and key_of(t) in views for t in tables) == 1
    try:
        if not found.is_outer:
            found.tests = list(filters(select.args.get("where"), found.sayable))
        _read(found, is_alone=is_alone)
    except _UnclearError:
        return None
    return found


def _read(found: Mention, *, is_alone: bool) -> None:
    """Find out what is needed."""
    select = found.select
    aggregates = [node for node in own(select) if isinstance(node, exp.AggFunc)]
    is_grouped = bool(aggregates or select.args.get("group") or select.args.get("having"))
    found.needed = found.every
    if is_seen(select) and not all(map(has_name, select.expressions)):
        return  # the engine gives a column its name, by how it is computed
    meant = _meanings(found, aggregates) if is_grouped else [] if is_set(select) else None
    if meant is None:
        return
    aside = [test.node for test in found.tests] + [node for node, kind, _ in meant if kind]
    computed = _find_computed(found, aside) if is_alone else []
    named = _find_named(found, [*aside, *(node for node, _ in computed)])
    if any(term.columns & named for _, term in computed):
        computed, named = [], _find_named(found, aside)
    _take_apart(found, meant, named, computed, is_alone=is_alone)


_Meaning: TypeAlias = tuple[exp.Expr, "AggregateName | None", "ViewTerm | None"]


def _take_apart(
    found: Mention,
    meant: Sequence[_Meaning],
    named: set[int],
    computed: Sequence[tuple[exp.Expr, ViewTerm]],
    *,
    is_alone: bool,
) -> None:
    """Make aggregates of parts, where columns are left out; `named` are needed besides."""
    is_group = _is_group(found, named, {term.value for _, term in computed})
    if not is_group:
        if any(kind == "avg" and term and term.type not in _SMALL for _, kind, term in meant):
            return
        for _, kind, term in meant:
            named = named | term.columns if kind == "countd" and term else named
    is_apart = any(kind for _, kind, _ in meant)
    if named == found.every or (is_apart and not is_alone):
        return
    found.needed = named
    found.terms = [(node, found.part(None, term)) for node, term in computed]
    if computed:  # as groups, they need not be listed
        found.part("count")
    for node, kind, term in meant:
        if kind == "avg" and not is_group:
            made = (found.part("sum", term), found.part("count"))
        elif kind is not None and (kind != "countd" or is_group):
            made = (found.part(kind, term),)
        else:
            continue
        found.aggregates.append((node, made))


def _find_computed(found: Mention, aside: Sequence[exp.Expr]) -> list[tuple[exp.Expr, ViewTerm]]:
    """What a SELECT computes of several columns of a view, if it is one thing."""
    skipped = {id(node) for node in aside}
    terms: dict[int, tuple[exp.Expr, ViewTerm]] = {}

    def is_over(node: exp.Expr) -> bool:
        if id(node) in skipped or (node is not found.select and isinstance(node, exp.Query)):
            return True
        term = found.term(node) if isinstance(node, _OPERATIONS) else None
        if term is None or len(term.columns) < 2:
            return False
        terms[id(node)] = (node, term)
        return True

    for _ in found.select.walk(prune=is_over):
        pass
    is_one = len({term.value for _, term in terms.values()}) == 1
    return list(terms.values()) if is_one else []


def _meanings(found: Mention, aggregates: Sequence[exp.AggFunc]) -> list[_Meaning] | None:
    """For each aggregate the part that it needs, if any; None if one needs all rows as they are."""
    meant: list[_Meaning] = []
    for node in aggregates:
        term = found.term(node.this)
        type = None if term is None else term.type
        is_whole = type is not None and type.is_integral
        match node:
            case _ if node.args.get("expressions") or isinstance(node.parent, _AROUND):
                return None
            case exp.Count(this=exp.Distinct(expressions=[one])):
                term = found.term(one)
                meant.append((node, None if term is None else "countd", term))
            case exp.Count() if term or isinstance(node.this, exp.Star | exp.Literal):
                meant.append((node, "count", None))
            case exp.Sum() if is_whole:
                meant.append((node, "sum", term))
            case exp.Avg() if is_whole:
                meant.append((node, "avg", term))
            case exp.Min() if type in _ORDERED:
                meant.append((node, "min", term))
            case exp.Max() if type in _ORDERED:
                meant.append((node, "max", term))
            case exp.Min() | exp.Max():
                meant.append((node, None, None))
            case exp.Count() | exp.Sum() | exp.Avg() if isinstance(node.this, exp.Distinct):
                meant.append((node, None, None))
            case _:
                return None
    return meant


def _find_named(found: Mention, aside: Sequence[exp.Expr]) -> set[int]:
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


def _columns(
    node: exp.Expr, views: Mapping[str, KnownTable], columns: ColumnsOf
) -> frozenset[str] | None:
    if not isinstance(node, exp.Table):
        return None
    known = views.get(key_of(node))
    return columns(node) if known is None else frozenset(c.name.lower() for c in known.columns)


def _is_group(found: Mention, needed: set[int], computed: set[Expression]) -> bool:
    """Whether each row with the needed columns is a group of the query."""
    select = found.select
    group = select.args.get("group")
    if select.args.get("joins"):
        return False
    if group is None:
        return not needed and not computed
    terms = [found.term(_meant_by(node, found)) for node in group.expressions]
    columns = {i for term in terms if term and not term.is_computed for i in term.columns}
    values = {term.value for term in terms if term}
    is_some = bool(needed or computed)
    return (
        list_parts(group) == {"expressions"}
        and is_some
        and needed <= columns
        and computed <= values
    )


def _meant_by(node: exp.Expr, found: Mention) -> exp.Expr:
    """What is grouped by: a number or another name may stand for something that is selected."""
    selected = found.select.expressions
    if isinstance(node, exp.Literal) and str(node.this).isdigit():
        i = int(node.this) - 1
        return selected[i].unalias() if i < len(selected) else node
    if isinstance(node, exp.Column) and not node.table and found.place(node) is None:
        name = node.name.lower()
        return next((s.this for s in selected if s.alias.lower() == name), node)
    return node
