"""Files that only Spark can reach: their names, how they start, and their bytes, if need be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from caladan.data import json_rows, text, utf8
from caladan.data.problems import BadRow, cannot_read, not_found, rejected_table, report
from caladan.data.schema import arrow_schema
from caladan.data.source import Source, check_kinds, of_kind
from caladan.engines.spark.session.failures import first_line
from caladan.program import Column

if TYPE_CHECKING:
    from caladan.program.diagnostics import CaladanError


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """The files behind URIs."""

    relation: str
    source: Source
    columns: tuple[Column, ...]
    session: SparkSession

    def starts(self) -> dict[str, bytes]:
        """Each file, with its first line where that may be a header."""
        try:
            read = self.session.read.format("text").option("recursiveFileLookup", "true")
            files = self._chosen(read.load(list(self.source.paths)).inputFiles())
            if self.source.format != "csv" or self.source.header is False:
                return dict.fromkeys(files, b"")
            return {file: self._first_line(file) for file in files}
        except (PySparkException, Py4JError) as problem:
            raise self._unreadable(problem) from None

    def closer_look(
        self, files: Sequence[str], *, permissive: bool
    ) -> tuple[pa.Table, pa.Table | None]:
        """The rows of files, read in this process, and what is wrong with the others."""
        bad: list[BadRow] = []
        tables: list[pa.Table] = [arrow_schema(self.columns).empty_table()]
        for file in files:
            if self.source.format not in ("csv", "json"):
                raise cannot_read(
                    self.relation, file, "values are missing or do not fit their columns",
                    "read it with Spark, filter it, and add the DataFrame",
                )  # fmt: skip
            raw = self._content(file)
            if self.source.format == "csv":
                found = text.read(self.relation, file, raw, self.source, self.columns, bad)
            else:
                found = json_rows.read(self.relation, file, raw, self.columns, bad)
            tables.append(found)
        if bad and not permissive:
            raise report(bad)
        return pa.concat_tables(tables), rejected_table(bad) if bad else None

    def _chosen(self, files: list[str]) -> list[str]:
        """The files of the one kind that is meant; C035 if there are others and nobody said."""
        if self.source.named is None:
            check_kinds(self.relation, self.source.name, files)
            return files
        return of_kind(files, self.source.named) or files

    def _first_line(self, file: str) -> bytes:
        row = self.session.read.text(file).head()
        return b"" if row is None else f"{row[0]}\n".encode()

    def _content(self, file: str) -> bytes:
        try:
            read = self.session.read.format("binaryFile").load(file).select("content").head()
        except (PySparkException, Py4JError) as problem:
            raise self._unreadable(problem) from None
        raw = b"" if read is None else bytes(cast("Any", read)[0])
        return utf8.uncompressed(pa.BufferReader(raw), file)

    def _unreadable(self, problem: Exception) -> CaladanError:
        reason = str(problem)
        if "PATH_NOT_FOUND" in reason or "FileNotFound" in reason:
            return not_found(self.relation, self.source.name)
        return cannot_read(self.relation, self.source.name, first_line(reason))
