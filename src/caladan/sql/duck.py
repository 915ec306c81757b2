"""DuckDB as the SQL engine: over Arrow, without copying.

Each script has a database of its own in memory, which can neither read files nor see variables of
Python. Frames are views in it, under names that are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa
from sqlglot import exp

from caladan.data.nested import all_inward, outward
from caladan.data.schema import DECIMAL_SPELLED, ArrowTable, outer_type, spark_type
from caladan.data.source import Source, source
from caladan.engines.interface import Table, stoppable
from caladan.language.rasql.script import Hint
from caladan.program import Column, Type
from caladan.program.clock import TimeOver, look, wait_for
from caladan.program.diagnostics import SourceText
from caladan.program.types import TYPES, list_of, nested_parts, struct_of
from caladan.sql.engine import (
    Frame,
    FrameColumn,
    apart,
    generate,
    key_of,
    list_names,
    no_type,
    refuse,
)
from caladan.sql.functions import said
from caladan.sql.meaning import definition

T = TypeVar("T")

_TYPES: Final[dict[str, Type]] = {
    spelled: type
    for type in TYPES
    for spelled in (type.duck, *type.duck_reads)
    if spelled and not type.is_nested
}


class DuckDB:
    """Answers SQL in this process."""

    def __init__(self, written: SourceText) -> None:
        self._written = written
        self._connection: Any = duckdb.connect(
            config={"enable_external_access": False, "python_enable_replacements": False}
        )
        self._connection.execute("SET TimeZone = 'UTC'")
        self._fetched: dict[str, pa.Table] = {}
        self._macros: set[str] = set()
        self._count = 0

    def table(self, data: pa.Table) -> Frame:
        """An Arrow table, read where it lies."""
        name = self._name()
        self._connection.register(name, data)
        nulls = [column.null_count > 0 for column in data.columns]
        return self._frame(name, nulls)

    def held(self, table: Table) -> Frame:
        return self.table(outward(table.arrow(), table.columns))

    def query(self, tree: exp.Query, frames: Mapping[str, Frame]) -> Frame:
        try:
            return self._attended(lambda: self._view(tree, frames), "compiling SQL")
        except duckdb.Error as problem:
            raise refuse(str(problem), tree, self._written) from None

    def _view(self, tree: exp.Query, frames: Mapping[str, Frame]) -> Frame:
        query, macros = said(tree, frames, self._written)
        text = generate(query, lambda table: frames[key_of(table)].handle, "duckdb").sql
        look()
        name = self._name()
        self._define(macros)
        columns = apart(list_names(tree, self._connection.sql(text).columns))
        listed = ", ".join(_quote(column) for column in columns)
        self._connection.execute(f"CREATE TEMP VIEW {name}({listed}) AS {text}")
        return self._frame(name, tree=tree)

    def nulls(self, frame: Frame) -> list[str]:
        data = self._arrow(frame)
        names = [column.name for column in frame.columns]
        return [n for n, c in zip(names, data.columns, strict=True) if c.null_count]

    def source(self, frame: Frame, hint: Hint | None) -> Source:
        """The rows as data; how they are spread means nothing in one process."""
        return source(frame.handle, self._arrow(frame))

    def result(self, frame: Frame, *, is_ordered: bool) -> Table:
        columns = tuple(Column(c.name, c.type) for c in frame.columns if c.type)
        return ArrowTable(columns, all_inward(self._arrow(frame), columns))

    def close(self) -> None:
        self._connection.close()

    def _arrow(self, frame: Frame) -> pa.Table:
        if frame.handle not in self._fetched:
            self._fetched[frame.handle] = self._fetch(frame)
        return self._fetched[frame.handle]

    def _fetch(self, frame: Frame) -> pa.Table:
        for column in frame.columns:
            if column.type is None:
                raise no_type(column.name, column.spelled, frame.tree, self._written)
        try:
            found = self._attended(self._connection.table(frame.handle).to_arrow_table)
        except duckdb.Error as problem:
            raise refuse(str(problem), frame.tree, self._written) from None
        types = [outer_type(column.type) for column in frame.columns if column.type]
        names = [column.name for column in frame.columns]
        columns = [_cast(c, t) for c, t in zip(found.columns, types, strict=True)]
        return pa.table(columns, names=names)

    def _attended(self, work: Callable[[], T], doing: str = "evaluating SQL") -> T:
        """Do some work; when the time is over or somebody interrupts, DuckDB is told to stop."""
        with stoppable(doing):
            try:
                return wait_for(work)
            except (TimeOver, KeyboardInterrupt):
                self._connection.interrupt()
                raise
            except RuntimeError as problem:
                if "interrupted" in str(problem).lower():
                    raise KeyboardInterrupt from None
                raise

    def _frame(
        self, name: str, nulls: list[bool] | None = None, tree: exp.Query | None = None
    ) -> Frame:
        found = self._connection.table(name)
        spelled = [str(type) for type in found.types]
        return Frame(
            tuple(
                FrameColumn(column, _type(type), type, nulls is None or nulls[i])
                for i, (column, type) in enumerate(zip(found.columns, spelled, strict=True))
            ),
            name,
            tree,
        )

    def _define(self, macros: tuple[str, ...]) -> None:
        for macro in macros:
            if macro not in self._macros:
                self._connection.execute(definition(macro))
                self._macros.add(macro)

    def _name(self) -> str:
        self._count += 1
        return f"t{self._count}"


def _type(spelled: str) -> Type | None:
    if spelled.endswith("[]"):
        element = _type(spelled[:-2])
        return None if element is None else list_of(element)
    if spelled.startswith("STRUCT("):
        fields: list[tuple[str, Type]] = []
        for part in nested_parts(spelled[len("STRUCT(") : -1]):
            name, _, own = part.strip().partition(" ")
            type = _type(own)
            if type is None:
                return None
            fields.append((name.strip('"'), type))
        return struct_of(*fields)
    return spark_type(spelled) if DECIMAL_SPELLED.fullmatch(spelled) else _TYPES.get(spelled)


def _cast(column: Any, type: pa.DataType) -> Any:
    if column.type == type:
        return column
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.cast(pa.timestamp("us", column.type.tz)).cast(type)
    return column.cast(type, safe=not pa.types.is_floating(type))


def _quote(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")
