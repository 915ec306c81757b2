"""The result of a run.

A `Result` maps names to `Relation`s, which convert to rows, Arrow, pandas, Polars, Spark and files,
and display as a table in a terminal or a notebook.

A relation that the goals needed in part or not at all is evaluated in full when you read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from caladan.program import Type
from caladan.program.diagnostics import CaladanError, Diagnostic, did_you_mean, error
from caladan.program.objects import Objects, first_object
from caladan.session import display
from caladan.session.stats import Stats

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from caladan.data.external import External
    from caladan.data.folder import Spread
    from caladan.data.formats import Look
    from caladan.engines.interface import Table
    from caladan.program.notation import Widths
    from caladan.program.options import FileFormat, WriteMode

REJECTED: Final = "_rejected"
"""The relation of the rows that a permissive run set aside."""

_SORTED_UP_TO: Final = 1_000_000  # above that, `show` does not sort
_NOTEBOOK_ROWS: Final = 20


class CaladanWarning(UserWarning):
    """A warning about a program or its data; the run continues."""

    __module__ = "caladan"


class UnknownRelation(CaladanError, KeyError):
    """A result has no relation of that name."""


class Relation:
    """A relation of a result: a set of facts with named, typed columns."""

    def __init__(
        self,
        name: str,
        table: Table,
        order: Sequence[tuple[int, bool]] = (),
        session: SparkSession | None = None,
        *,
        is_ordered: bool = False,
        widths: Widths = (),
        looks: Sequence[Look] = (),
        objects: Objects | None = None,
        needs: Sequence[object] = (),
        is_lent: bool = False,
    ) -> None:
        self.name = name
        self._is_lent = is_lent  # the table is the session's, which goes on with it
        self._needs = tuple(needs)  # what must stay while this does: its data, what it is read from
        self._objects = objects  # what the numbers in columns of objects stand for
        self._widths = widths  # of decimals, on their way out
        self._looks = tuple(looks)  # of columns, on their way to Spark
        self._table = table
        self._order = tuple(order)
        self._session = session
        self._is_ordered = is_ordered  # the table's own order is the one to show
        self._count: int | None = None
        self._arrow: pa.Table | None = None

    @property
    def session(self) -> SparkSession | None:
        """The SparkSession of its DataFrames, if its engine has one."""
        return self._session

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self._table.columns)

    @property
    def types(self) -> tuple[str, ...]:
        """The names of the column types."""
        return tuple(column.type.name for column in self._table.columns)

    def count(self) -> int:
        """The number of facts."""
        if self._count is None:
            self._count = self._table.count()
        return self._count

    def rows(self) -> list[tuple[Any, ...]]:
        """The facts as tuples, in the order of `sort`, or else sorted by their columns."""
        return self._rows(self._in_order())

    def arrow(self) -> pa.Table:
        """The facts as an Arrow table."""
        self._check_objects("an Arrow table")
        return self._outward(self._facts())

    def _outward(self, table: pa.Table) -> pa.Table:
        """Facts with lists and structs as Arrow has them."""
        if not self._is_nested:
            return table
        from caladan.data.nested import outward

        return outward(table, self._table.columns)

    @property
    def _is_nested(self) -> bool:
        return any(column.type.is_nested for column in self._table.columns)

    def _facts(self) -> pa.Table:
        """The facts as an Arrow table, with objects as numbers."""
        from caladan.session.display import in_order

        if self._arrow is None:
            table = self._narrowed(self._table.arrow())
            self._count = table.num_rows
            self._arrow = in_order(table, self._order) if self._order else table
        return self._arrow

    def _narrowed(self, table: pa.Table) -> pa.Table:
        if not self._widths:
            return table
        from caladan.data.formats import narrow

        return narrow(table, self._widths)

    def _rows(self, table: pa.Table) -> list[tuple[Any, ...]]:
        """Facts as tuples, with the values of objects."""
        from caladan.data.schema import rows

        has_objects = self._objects is not None and first_object(self._table.columns) is not None
        if not has_objects and not self._is_nested:
            return list(rows(table))
        pairs = zip(self._table.columns, table.columns, strict=True)
        return list(zip(*(self._values(data, c.type) for c, data in pairs), strict=True))

    def _values(self, data: Any, type: Type) -> list[object]:
        """The values of a column, in Python."""
        if type is Type.OBJECT and self._objects is not None:
            return self._objects.decoded(data.to_pylist())
        if type.is_nested:
            from caladan.data.nested import values

            return values(data, type)
        return data.to_pylist()

    def _check_objects(self, where: str) -> None:
        """Raise C012 if a column holds Python objects, which the destination cannot hold."""
        column = first_object(self._table.columns)
        if column is not None:
            raise error(
                "C012",
                f"column {column.name} of `{self.name}` holds objects, which {where} cannot",
                help="use rows(), or derive a relation without that column",
            )

    def pandas(self) -> pd.DataFrame:
        """The facts as a pandas data frame."""
        return self.arrow().to_pandas()

    def polars(self) -> pl.DataFrame:
        """The facts as a Polars data frame."""
        try:
            import polars as pl
        except ImportError:
            raise error("C050", "Polars is not installed", help="pip install polars") from None
        frame = pl.from_arrow(self.arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def spark(self, session: SparkSession | None = None) -> DataFrame:
        """The facts as a Spark DataFrame in the engine's SparkSession, or in `session`.

        The DataFrame stays readable after the result and its session are closed.
        """
        from caladan.engines.interface import SharedStorage

        frame = self.frame(session)
        for table in (self._table, *self._needs):
            if isinstance(table, SharedStorage):
                table.lend()
        return frame

    def to_arrow(self) -> pa.Table:
        """The same as `arrow()`."""
        return self.arrow()

    def to_pandas(self) -> pd.DataFrame:
        """The same as `pandas()`."""
        return self.pandas()

    def to_polars(self) -> pl.DataFrame:
        """The same as `polars()`."""
        return self.polars()

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The same as `spark()`."""
        return self.spark(session)

    def frame(self, session: SparkSession | None = None) -> DataFrame:
        """Like `spark()`, but the DataFrame may become unreadable once this relation is closed."""
        self._check_objects("Spark")
        session = session or self._session
        if session is None:
            from caladan.engines.interface import check_pyspark

            check_pyspark()
            from pyspark.sql import SparkSession

            session = SparkSession.getActiveSession()
        if session is None:
            raise error(
                "C050", "there is no Spark session", help="pass one: relation.spark(session)"
            )
        from caladan.engines.interface import SharedStorage

        if isinstance(self._table, SharedStorage):
            frame = self._table.framed(session, self._widths, self._looks)
        else:
            frame = self._table.spark(session)
            if self._widths:
                from caladan.engines.spark.columns.types import narrow_frame

                frame = narrow_frame(frame, self._widths)
        if not self._is_nested:
            return frame
        from caladan.engines.spark.columns.nested import outward

        return outward(frame, self._table.columns)

    def show(self, n: int = 20) -> None:
        """Print the first facts as a table, and the number of the others."""
        from rich.console import Console

        console = Console()
        rows = self.head(n)
        console.print(display.terminal(self, rows))
        if more := display.remainder(len(rows), self.count()):
            console.print(more, highlight=False)

    def head(self, n: int = 20) -> list[tuple[Any, ...]]:
        """The first n facts in the order of `rows()`; above a million facts, any n."""
        from caladan.data.schema import first_rows
        from caladan.engines.interface import KnowsFirst
        from caladan.session.display import first_in_order

        if self._order or self._is_ordered:
            return self._rows(first_rows(self._facts(), n))
        if self._arrow is None:
            first = self._table.first(n) if isinstance(self._table, KnowsFirst) else None
            if first is None and self.count() > _SORTED_UP_TO:
                first = self._table.arrow(limit=n)
            if first is not None:
                return self._rows(self._narrowed(first))
        return self._rows(first_in_order(self._facts(), n))

    def write(
        self,
        path: str | Path | External,
        format: FileFormat | None = None,
        mode: WriteMode = "error",
        *,
        header: bool = False,
        partition_by: str | Sequence[str] = (),
        bucket_by: tuple[int, str | Sequence[str]] | None = None,
    ) -> None:
        """Write the facts to a file: parquet, orc, csv, tsv, json or jsonl, by suffix or `format`.

        A path without a suffix, or a URI, is a folder. On the spark engine Spark writes folders,
        and `jdbc(…)`, `table(…)` and `stored(…)`. `mode` is error, overwrite or append.
        `partition_by` makes a folder for each value of some columns; `bucket_by=(8, "A")` is for
        catalog tables.
        """
        from caladan.data import folder, output

        output.check_path(path)
        self._check_objects("a file or a table elsewhere")
        spread = folder.spread(self.columns, partition_by, bucket_by)
        place = output.elsewhere(path, format)
        if place is not None:
            self._write_elsewhere(place, format if place is path else None, mode, spread)
            return
        given = str(path)
        if folder.is_folder(given):
            kind = format or "parquet"
            folder.write(self, given, kind, mode, self._session, spread, header=header)
            return
        if spread != folder.NOT_SPREAD:
            raise error("C050", f"{given} is one file: only a folder can be partitioned")
        kind = output.format_of(given, format)
        output.write(self.ordered(), Path(given).expanduser(), kind, mode, header=header)

    def _write_elsewhere(
        self, place: External, format: str | None, mode: str, spread: Spread
    ) -> None:
        from caladan.data import output

        if self._session is None:
            raise output.cannot_write(
                place.shown, "only the spark engine writes tables of databases and catalogs"
            )
        from caladan.engines.spark.sources import external

        external.write(self, place, format, mode, self._session, spread)

    def close(self) -> None:
        """Release what the engine holds for this relation. The session keeps its data."""
        if not self._is_lent:
            self._table.close()

    def ordered(self) -> pa.Table:
        """The facts as an Arrow table, in the order of `rows()`."""
        self._check_objects("an Arrow table")
        return self._outward(self._in_order())

    def _in_order(self) -> pa.Table:
        from caladan.session.display import in_order

        in_place = self._order or self._is_ordered
        return self._facts() if in_place else in_order(self._facts())

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(f"{n}: {t}" for n, t in zip(self.columns, self.types, strict=True))
        count = "" if self._count is None else f", {self._count:,} facts"
        return f"<{self.name} ({columns}){count}>"

    def _repr_html_(self) -> str:
        return display.notebook(self, self.head(_NOTEBOOK_ROWS), self.count())


class Result(Mapping[str, Relation]):
    """The relations of a run by name, goals first, and the answers to its queries."""

    def __init__(
        self,
        names: Iterable[str],
        fetch: Callable[[str], Relation | None],
        *,
        answers: Sequence[Relation] = (),
        exports: Sequence[str] = (),
        stats: Stats | None = None,
        warnings: Sequence[Diagnostic] = (),
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._fetch = fetch
        self._fetched: dict[str, Relation] = {}
        self.answers = tuple(answers)
        self.exports = tuple(exports)
        self.stats = stats or Stats()
        self.warnings = tuple(warnings)
        self._release = release
        self.on_fetch: Callable[[str, Relation], None] | None = None
        """Called with a relation when it is first read."""

    @property
    def answer(self) -> Relation:
        """The answer to the last query."""
        if not self.answers:
            names = ", ".join(self._names) or "none"
            raise error(
                "C050",
                "the program has no query, so there is no answer",
                help=f'add `query …` to it, or read a relation by name, as in out["…"]: {names}',
            )
        return self.answers[-1]

    def __getitem__(self, name: str) -> Relation:
        if name not in self._fetched:
            relation = self._fetch(name)
            if relation is None:
                raise UnknownRelation(
                    Diagnostic(
                        "C010",
                        f"the result has no relation `{name}`",
                        help=did_you_mean(name, self._names)
                        or f"it has {', '.join(self._names) or 'none'}",
                    )
                )
            self._fetched[name] = relation
            if self.on_fetch is not None:
                self.on_fetch(name, relation)
        return self._fetched[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _repr_html_(self) -> str:
        shown = self.answers or tuple(self[name] for name in self._names if name in self._fetched)
        tables = "".join(display.notebook(r, r.head(_NOTEBOOK_ROWS), r.count()) for r in shown)
        others = [(name,) for name in self._names if name not in {r.name for r in shown}]
        caption = f"Result on {self.stats.engine}, {self.stats.seconds:.2f} s"
        return tables + display.html_table(caption, ("relation",), others)

    def __repr__(self) -> str:
        return f"<Result: {', '.join(self._names) or 'no relations'}>"

    def close(self) -> None:
        """Release what the engine holds for the relations of this result."""
        for relation in (*self._fetched.values(), *self.answers):
            relation.close()
        self._release()

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Stopped(CaladanError):
    """A run hit a limit or was interrupted; `result` has the facts derived so far."""

    __module__ = "caladan"

    def __init__(self, diagnostics: Sequence[Diagnostic], result: Result) -> None:
        super().__init__(*diagnostics)
        self.result = result
