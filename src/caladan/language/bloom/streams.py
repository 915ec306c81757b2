"""Streams: what stands on the right side of a rule.

A `FactSource` is a collection or a stream; every operator gives a new `Stream` around a Query,
which is a body and columns. So a pipeline of operators is a handful of plain rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce as folded
from typing import Any, Final, NoReturn, cast, overload

from caladan.language.bloom.expressions import (
    Aggregation,
    ColumnExpr,
    ColumnOf,
    Expr,
    Presence,
    is_function,
    row_type,
)
from caladan.language.bloom.folds import DictFold
from caladan.language.bloom.joins import (
    best,
    group_rows,
    match_pairs,
    number_rows,
    outer_joined,
    without,
)
from caladan.language.bloom.queries import Query
from caladan.language.bloom.schema import MERGES, CollectionKind
from caladan.language.bloom.values import freeze
from caladan.program.aggregates import lookup, names_in
from caladan.program.diagnostics import did_you_mean, error

Keys = ColumnExpr | Sequence[ColumnExpr] | None

_EXEMPLARY = tuple(n for n in names_in("bloom", "plain") if lookup(n).is_selective)
"""Aggregates whose value is the value of some fact."""


ITERATED: Final = (
    "map, flat_map and where call a function for each row; outside of rules, "
    'instance["name"].rows() has the facts'
)


class FactSource:
    """A collection or a stream."""

    def query(self) -> Query:
        """The facts, with variables of their own."""
        raise NotImplementedError

    @property
    def identity(self) -> object:
        """What its columns are known by, however it is restricted later."""
        return self

    def __getitem__(self, name: str) -> Expr:
        """A column."""
        return ColumnOf(self.identity, name)

    def __getattr__(self, name: str) -> Expr:
        """A column, by a name that no method has."""
        if name.startswith("_") or not self.has_column(name):
            known = did_you_mean(name, self.column_names())
            raise AttributeError(
                f"there is no column or method `{name}`; {known or ''}".rstrip("; ")
            )
        return ColumnOf(self.identity, name)

    def has_column(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return name in self.column_names()

    def column_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        raise NotImplementedError

    # ── What Python has operators for, and rules have not ────────────────────────────────────────

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        raise self._refused("a stream is not iterated", ITERATED)

    def _no_rule(self, other: object = None) -> NoReturn:
        raise self._refused("rules do not compare whole collections", MERGES)

    __lt__ = __le__ = __gt__ = __ge__ = _no_rule
    __pos__ = __neg__ = __invert__ = _no_rule  # `t <+ u` is `t < +u`

    def _refused(self, problem: str, hint: str) -> Exception:
        return error("C050", problem, self.query().recorder.here(), help=hint)

    # ── Rows one by one ──────────────────────────────────────────────────────────────────────────

    def project(self, *columns: object, **named: object) -> Stream:
        """Columns by name, or expressions; those given by keyword are called so."""
        if len(columns) == 1 and not named and is_function(columns[0]):
            return self.map(cast("Callable[..., Any]", columns[0]))
        return Stream(self.query().projected(columns, named))

    def map(self, code: Callable[..., Any], *columns: str) -> Stream:
        """What a Python function makes of each row: a tuple, or None for no row at all.

        After a join it has a row of each collection as an argument, or all columns in one row if it
        takes one argument. `columns` names the result; without it the collection that takes the
        rows does.
        """
        return Stream(self.query().mapped(code, columns, each=False))

    def flat_map(self, code: Callable[..., Any] | ColumnExpr, *columns: str) -> Stream:
        """The same with several rows for each: the function gives an iterable of tuples.

        With a column instead, each item of what it holds, beside the other columns.
        """
        if isinstance(code, str | Expr):
            return Stream(self.query().unnested(code, columns))
        return Stream(self.query().mapped(code, columns, each=True))

    def where(self, *conditions: object) -> Stream:
        """The rows for which all conditions hold: expressions, or Python functions of a row."""
        return Stream(folded(Query.selected, conditions, self.query()))

    def alias(self) -> Stream:
        """The same facts once more, for joins of a collection with itself."""
        return Stream(self.query().renamed())

    def rename(self, *columns: str, **named: str) -> Stream:
        """The same facts under other names: of all columns, or `old="new"` of some."""
        query = self.query().renamed()
        own = query.column_names()
        for old in named:
            query.named(old)
        names = columns or tuple(named.get(name, name) for name in own)
        if len(names) != len(own):
            raise error(
                "C011",
                f"{len(own)} columns are called by {len(names)} names",
                query.recorder.here(),
                help=f"the columns are {', '.join(own)}",
            )
        values = [value for _, value in query.columns]
        return Stream(query.alone(tuple(zip(names, values, strict=True))))

    def inspected(self) -> Stream:
        """Each row as a text of its own, as Python writes it."""
        return self.map(lambda row: (repr(tuple(row)),), "line")

    # ── Joins ────────────────────────────────────────────────────────────────────────────────────

    def __mul__(self, other: object) -> Stream:
        """Every pair of rows; `pairs` and the like restrict them."""
        if not isinstance(other, FactSource):
            raise self._refused(
                f"`*` joins collections, not {other!r}", "an expression is of a column: t.a * 2"
            )
        return Stream(self.query().joined(other.query()))

    def pairs(self, *on: object, **named: str) -> Stream:
        """Rows that go together: on columns of the same name, `left="right"`, or conditions."""
        return Stream(match_pairs(self.query(), on, named))

    combos = pairs

    def matches(self) -> Stream:
        """The natural join: on all columns that have the same name."""
        query = self.query()
        names = [name for part in query.parts for name, _ in part.columns]
        shared = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        return Stream(match_pairs(query, shared, {}))

    def lefts(self, *on: object, **named: str) -> Stream:
        """The rows of the left that have a partner."""
        return Stream(match_pairs(self.query(), on, named).only(0))

    def rights(self, *on: object, **named: str) -> Stream:
        """The rows of the right that have a partner."""
        return Stream(match_pairs(self.query(), on, named).only(-1))

    def flatten(self, *on: object, **named: str) -> Stream:
        """All columns of the pairs one after the other, with names of their own."""
        query = match_pairs(self.query(), on, named)
        return Stream(query.alone(query.flat()))

    def outer(self, *on: object, **named: str) -> Stream:
        """The left outer join: where a row has no partner, None stands for the right columns."""
        return Stream(outer_joined(self.query(), on, named))

    @overload
    def exists(self) -> Presence: ...
    @overload
    def exists(
        self, other: FactSource, *on: object, where: object = None, **named: str
    ) -> Stream: ...
    def exists(
        self, other: FactSource | None = None, *on: object, where: object = None, **named: str
    ) -> Stream | Presence:
        """The rows that have a partner; without another collection, whether there are any rows."""
        if other is None:
            return Presence(self, ())
        conditions = on if where is None else (*on, where)
        return Stream(match_pairs(self.query().joined(other.query()), conditions, named).only(0))

    def include(self, *values: object) -> Presence:
        """Whether there is a row of these values, for `where`: `t.where(u.include(t.a, t.b))`."""
        return Presence(self, values)

    def notin(self, other: FactSource, *on: object, where: object = None, **named: str) -> Stream:
        """The rows without a partner: on whole rows, on columns, or for which conditions hold."""
        return Stream(without(self.query(), other.query(), on, named, where))

    # ── All rows ─────────────────────────────────────────────────────────────────────────────────

    def group(self, by: Keys, *aggregates: Aggregation, **named: Aggregation) -> Stream:
        """A row for each group: `emp.group(["dept"], bloom.max("salary"))`."""
        made = [*aggregates, *(replace(each, label=name) for name, each in named.items())]
        return Stream(group_rows(self.query(), _keys(by), made))

    def argmin(self, by: Keys, column: ColumnExpr) -> Stream:
        """The rows with the smallest value of a column in each group."""
        return self.argagg("min", by, column)

    def argmax(self, by: Keys, column: ColumnExpr) -> Stream:
        """The rows with the largest value of a column in each group."""
        return self.argagg("max", by, column)

    def argagg(self, name: str, by: Keys, column: ColumnExpr) -> Stream:
        """The rows that have the value of an aggregate of their group: min, max or choose."""
        query = self.query()
        if name not in _EXEMPLARY:
            raise error(
                "C050",
                f"`{name}` is not a value of a row",
                query.recorder.here(),
                help=f"rows are chosen by {', '.join(_EXEMPLARY)}",
            )
        return Stream(best(query, _keys(by), column, name))

    def reduce(
        self,
        initial: object,
        code: Callable[[Any, Any], Any],
        *,
        by: Keys = None,
        name: str = "value",
    ) -> Stream:
        """A fold over the rows; over no rows at all, without groups, `initial`.

        A tuple fills several columns of the collection that takes it. A dict as `initial` is
        changed by the function, or made anew: each of its pairs is a row, behind the columns of
        the group.
        """
        query = self.query()
        columns = tuple(name for name, _ in query.flat())
        row = row_type(columns)

        def fold(so_far: Any, *values: Any) -> Any:
            return freeze(code(so_far, row(*values)))

        is_dict = isinstance(initial, dict)
        folded_by = DictFold(lambda so_far, values: code(so_far, row(*values))) if is_dict else fold
        one = Aggregation("reduce", columns, name, folded_by, freeze(initial))
        flat = query if len(query.parts) < 2 else query.alone(query.flat())
        made = group_rows(flat, _keys(by), [one])
        if not is_dict:
            return Stream(made)
        return Stream(replace(made.unnested(made.column_names()[-1], (name,)), is_spread=True))

    def sort(
        self,
        *by: str | Callable[..., Any],
        key: Callable[..., Any] | None = None,
        reverse: bool = False,
    ) -> Stream:
        """The rows in a buffer of their own, in an order that `each_with_index` numbers.

        By columns, or by what functions make of a row; then, as `rows()`, by all from the left.
        """
        query = self.query()
        by = by if key is None else (*by, key)
        for each in by:
            if isinstance(each, str):
                query.named(each)
        return Stream(replace(query.kept(CollectionKind.SORT), order=(by, reverse)))

    def each_with_index(
        self, *by: ColumnExpr, name: str = "index", reverse: bool = False
    ) -> Stream:
        """The rows with their place, from 0: by some columns, else as they were sorted."""
        return Stream(number_rows(self.query(), by, name, reverse=reverse))


def _keys(by: Keys) -> list[ColumnExpr]:
    return [] if by is None else [by] if isinstance(by, str | Expr) else list(by)


class Stream(FactSource):
    """What operators make of collections; its columns are attributes, as those of collections."""

    def __init__(self, query: Query) -> None:
        self._query = query

    @property
    def identity(self) -> object:
        return self._query.token

    def query(self) -> Query:
        return self._query

    def column_names(self) -> tuple[str, ...]:
        return self._query.column_names()
