"""Which table a name stands for: a frame of SQL on one side, a relation of rules on the other.

Names are looked for, upper and lower case alike, among the views of the statement, then among what
the script defines, then in the session: data that was added, relations that rules derived, and on
spark temporary views and tables of the catalog. `bag` is data as SQL sees it: rows may come twice,
and values may be missing. Relations of rules are sets without NULL, so `caladan.data` is stricter
with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa
import pyarrow.dataset as ds
from sqlglot import exp

from caladan.data.frames import collect
from caladan.data.load import load
from caladan.data.nested import outward
from caladan.data.problems import no_data
from caladan.data.schema import arrow_schema, check_apart, match_columns, outer_type
from caladan.data.source import Source, files
from caladan.language.rasql.scope import KnownColumn, KnownTable
from caladan.language.rasql.script import span_of
from caladan.language.rasql.translate import relation_name
from caladan.program import Column, Declaration
from caladan.program.diagnostics import CaladanError, SourceText, Span, did_you_mean, error
from caladan.program.objects import first_object
from caladan.sql.engine import Frame, SqlEngine, key_of, no_objects

if TYPE_CHECKING:
    from caladan.language.rasql.script import Hint


class SqlSession(Protocol):
    """What a script finds in the session that runs it."""

    @property
    def names(self) -> Iterable[str]:
        """The relations that have data or rules."""
        ...

    def source(self, name: str) -> Source | None:
        """The data that was added for a relation."""
        ...

    def columns(self, name: str) -> tuple[Column, ...]:
        """The columns of such data."""
        ...

    def rows(self, name: str, source: Source, columns: tuple[Column, ...]) -> pa.Table:
        """Data of this machine; bad rows are set aside if the run allows it."""
        ...

    def nulls(self, source: Source, look: Callable[[], Iterable[str]]) -> frozenset[str]:
        """The columns of some data that have NULL, which is looked for once."""
        ...

    def frame(self, name: str, source: Source | None) -> object | None:
        """Data that only the engine can hand out: Spark's own, or what rules derive."""
        ...


class TableNames:
    """The tables of a script, and those around it."""

    def __init__(
        self, session: SqlSession, engine: SqlEngine, written: SourceText, *, may_lack_data: bool
    ) -> None:
        self._session = session
        self._engine = engine
        self._written = written
        self._may_lack_data = may_lack_data
        self._declared: dict[str, Declaration] = {}
        self._frames: dict[str, Frame] = {}
        self._given: dict[str, Frame] = {}

    def declare(self, relation: Declaration) -> None:
        self._declared[relation.name.lower()] = relation

    def add(self, name: str, frame: Frame) -> None:
        self._frames[name.lower()] = frame

    def within(self) -> TableNames:
        """Names for one statement, whose views hide others."""
        inner = TableNames(
            self._session, self._engine, self._written, may_lack_data=self._may_lack_data
        )
        inner._declared = self._declared
        inner._frames = dict(self._frames)
        inner._given = self._given
        return inner

    def frames(self, tree: exp.Expr) -> dict[str, Frame]:
        """A frame for every table that a query reads."""
        defined = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        return {
            key_of(table): self.frame(table)
            for table in tree.find_all(exp.Table)
            if isinstance(table.this, exp.Identifier)
            and (table.db or table.name.lower() not in defined)
        }

    def frame(self, table: exp.Table) -> Frame:
        """The frame of a table; C010 if nothing has the name."""
        key = key_of(table)
        if key in self._frames:
            return self._frames[key]
        if key not in self._given:
            self._given[key] = self._load(table)
        return self._given[key]

    def data(self, table: exp.Table) -> tuple[str, Source | None, tuple[Column, ...]] | None:
        """A table that is data of the session: its name there, what was given, its columns."""
        if table.db or table.name.lower() in self._frames:
            return None
        declared = self._declared.get(table.name.lower())
        name = self._name(declared.name if declared else table.name)
        source = None if name is None else self._session.source(name)
        if declared is not None:
            return name or declared.name, source, declared.columns
        if name is None or source is None:
            return None
        columns = self._session.columns(name)
        if (column := first_object(columns)) is not None:
            raise no_objects(name, column, span_of(table, self._written))
        check_apart(name, [column.name for column in columns])
        return name, source, columns

    def nulls(self, table: exp.Table, source: Source) -> frozenset[str]:
        """The columns of a table of the session that have NULL."""
        return self._session.nulls(source, lambda: self._engine.nulls(self.frame(table)))

    def _load(self, table: exp.Table) -> Frame:
        found = self.data(table)
        if found is None:
            name = self._name(table.name) if not table.db else None
            handed = self._session.frame(name or _path(table), None)
            if handed is None:
                raise self._unknown(table)
            return self._engine.table(handed)
        name, source, columns = found
        if source is None:
            if not self._may_lack_data:
                raise CaladanError(no_data(name, columns, span_of(table, self._written)))
            return self._engine.table(outward(arrow_schema(columns).empty_table(), columns))
        handed = self._session.frame(name, source)
        if handed is None:
            handed = outward(self._session.rows(name, source, columns), columns)
        return self._engine.table(handed)

    def _name(self, written: str) -> str | None:
        """A relation of the session by its name, upper and lower case alike if need be."""
        names = list(self._session.names)
        if written in names:
            return written
        return next((name for name in names if name.lower() == written.lower()), None)

    def _unknown(self, table: exp.Table) -> CaladanError:
        known = {*self._frames, *(r.name for r in self._declared.values()), *self._session.names}
        return error(
            "C010",
            f"unknown table `{table.name}`",
            span_of(table, self._written),
            help=did_you_mean(table.name, known)
            or f'add data for it, db.add("{table.name}", …), or declare it with CREATE TABLE',
        )


class SqlInputs:
    """The tables that recursive views read, as relations; those of SQL are evaluated on the way."""

    def __init__(
        self,
        names: TableNames,
        engine: SqlEngine,
        fresh: Callable[[str], str],
        hint: Hint | None,
    ) -> None:
        self._names = names
        self._engine = engine
        self._fresh = fresh
        self._hint: Hint | None = hint
        self._evaluated: dict[str, KnownTable] = {}
        self._plain: dict[str, KnownTable] = {}
        self.sources: dict[str, Source] = {}
        self.relations: dict[str, Declaration] = {}
        self.queries: dict[str, exp.Query] = {}

    def find(self, table: exp.Table) -> KnownTable:
        """A table as rules see it: data without NULL as it is, all else through a query."""
        key = key_of(table)
        if key in self._plain:
            return self._plain[key]
        found = self._names.data(table)
        if found is not None:
            name, source, columns = found
            nulls = frozenset[str]() if source is None else may_be_null(name, source, columns)
            if source is not None and nulls and self._hint is None:
                nulls = self._names.nulls(table, source)
            if not nulls:
                self._plain[key] = self._relation(name, columns, source)
                return self._plain[key]
        frame = self._names.frame(table)
        columns = _known(frame, may_be_null=True)
        return KnownTable(relation_name(table.name), columns, is_relation=False)

    def reads_recursion(self, node: exp.Expr) -> bool:
        """No table out here is recursive."""
        return False

    def describe(self, node: exp.Expr, span: Span | None) -> KnownTable:
        """The columns of a subquery in a FROM."""
        tree = exp.select("*").from_(node.copy())
        frame = self._engine.query(tree, self._names.frames(tree))
        return KnownTable("", _known(frame, may_be_null=True), is_relation=False)

    def evaluate(self, query: exp.Query, stem: str, span: Span | None) -> KnownTable:
        """The rows of a query as a relation; C064 if there is a NULL in them."""
        text = query.sql()
        if text in self._evaluated:
            return self._evaluated[text]
        frame = self._engine.query(query, self._names.frames(query))
        if nulls := self._engine.nulls(frame):
            raise error(
                "C064",
                f"{_write(nulls[0])} is NULL in some rows of `{stem}` that the recursion reads",
                span,
                help="recursion has no NULL: exclude such rows with IS NOT NULL, or replace it "
                "with COALESCE",
            )
        relation = self._fresh(relation_name(stem))
        columns = tuple(Column(c.name, c.type) for c in frame.columns if c.type is not None)
        source = self._engine.source(frame, self._hint)
        self.sources[relation] = source
        self.relations[relation] = Declaration(relation, columns)
        self.queries[relation] = query
        self._evaluated[text] = KnownTable(relation, _known(frame, may_be_null=False))
        return self._evaluated[text]

    def _relation(
        self, name: str, columns: tuple[Column, ...], source: Source | None
    ) -> KnownTable:
        relation = self._fresh(relation_name(name))
        if source is not None:
            self.sources[relation] = source
        self.relations[relation] = Declaration(relation, columns)
        return KnownTable(relation, tuple(KnownColumn(c.name, c.type) for c in columns))


def _write(name: str) -> str:
    """A column for a diagnostic; where nobody named it, engines call it by functions of ours."""
    return "a computed value" if "(" in name or name.startswith("computed_") else f"`{name}`"


def _known(frame: Frame, may_be_null: bool) -> tuple[KnownColumn, ...]:
    return tuple(KnownColumn(c.name, c.type, may_be_null and c.nullable) for c in frame.columns)


def _path(table: exp.Table) -> str:
    parts: Mapping[str, str] = {"catalog": table.catalog, "db": table.db, "name": table.name}
    return ".".join(
        exp.to_identifier(part, quoted=True).sql(dialect="spark") for part in parts.values() if part
    )


def bag(
    name: str, source: Source, columns: Sequence[Column], *, permissive: bool = False
) -> tuple[pa.Table, pa.Table | None]:
    """The rows of a source on this machine, in the Arrow types of its columns.

    With them, if permissive, the bad rows that were set aside; a missing value is not bad in SQL.
    """
    try:
        rows, rejected = load(name, source, columns)
        return _with_validity(rows), rejected
    except CaladanError as problem:
        rows = None
        if all(found.code == "C036" for found in problem.diagnostics):
            rows = _with_nulls(name, source, columns)
        if rows is not None:
            return rows, None
        if not permissive:
            raise
        rows, rejected = load(name, source, columns, permissive=True)
        return _with_validity(rows), rejected


def _with_validity(rows: pa.Table) -> pa.Table:
    """The rows with a schema that says which columns lack values: Spark believes it."""
    fields = [
        field.with_nullable(column.null_count > 0)
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    return rows.cast(pa.schema(fields)) if fields else rows


def may_be_null(name: str, source: Source, columns: Sequence[Column]) -> frozenset[str]:
    """The columns in which a value may be missing, as far as a look at the source tells."""
    if source.kind == "arrow":
        found = _columns(name, cast("Any", source.data), columns)
        return frozenset(c.name for c, v in zip(columns, found, strict=True) if _has_null(v))
    if source.kind == "path" and source.format in ("csv", "json"):
        return frozenset()  # text has no NULL, and one in JSON is an error when it is read
    return frozenset(column.name for column in columns)


def _with_nulls(name: str, source: Source, columns: Sequence[Column]) -> pa.Table | None:
    if source.kind == "changed":
        return None
    data = cast("Any", source.data)
    if source.kind == "spark":
        data = collect(name, data)
    elif source.kind == "path":
        if source.format not in ("parquet", "orc"):
            return None
        paths = [str(path) for path in files(name, source)]
        data = ds.dataset(paths, format=source.format, partitioning="hive").to_table()
    arrays: list[Any] = []
    for column, values in zip(columns, _columns(name, data, columns), strict=True):
        type = outer_type(column.type)
        if isinstance(values, pa.ChunkedArray):
            arrays.append(values.cast(type, safe=not column.type.is_floating))
        else:
            arrays.append(pa.chunked_array([pa.array(values, type)]))
    return pa.table(arrays, names=[column.name for column in columns])


def _columns(name: str, data: Any, columns: Sequence[Column]) -> list[Any]:
    """The columns of what was given, in the order of the relation's."""
    if isinstance(data, pa.Table):
        places = match_columns(name, None, data.column_names, columns)
        return [data.column(i) for i in places]
    if isinstance(data, dict):
        by_name = cast("dict[str, Any]", data)
        places = match_columns(name, None, list(by_name), columns)
        return [list(by_name.values())[i] for i in places]
    return [[_cell(row, i, column.name) for row in data] for i, column in enumerate(columns)]


def _cell(row: Any, i: int, name: str) -> Any:
    if isinstance(row, dict):
        return cast("dict[str, Any]", row).get(name)
    if isinstance(row, tuple | list):
        cells = cast("Sequence[Any]", row)
        return cells[i] if i < len(cells) else None
    return row


def _has_null(values: Any) -> bool:
    if isinstance(values, pa.ChunkedArray):
        return values.null_count > 0
    return any(value is None for value in values)
