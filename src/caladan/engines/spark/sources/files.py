"""Files as tables: small ones are read here; what Spark reads well, by Spark; the rest looked at.

Local files are listed here, as every engine lists them; what lies elsewhere is left to Spark. A
file is known to Spark by its path or URI, and to users by what they wrote.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, functions as sf

from caladan.data import formats, json_rows, text
from caladan.data.frames import first_line
from caladan.data.problems import BadRow, cannot_read, not_found
from caladan.data.schema import arrow_schema, match_columns
from caladan.data.source import Source, check_kinds, compression, files as local_files, of_kind
from caladan.engines.spark.session.connect import is_connect
from caladan.engines.spark.session.failures import is_bad_row
from caladan.engines.spark.session.internals import read_observed
from caladan.engines.spark.session.workspace import union
from caladan.engines.spark.sources.fields import from_column
from caladan.engines.spark.sources.lines import can_parse, json_objects, split_lines
from caladan.engines.spark.sources.validity import (
    CheckedRows,
    Reading,
    ReadTable,
    empty,
    from_arrow,
    table,
)
from caladan.program import Column, Type

if TYPE_CHECKING:
    from caladan.program.diagnostics import CaladanError

CloserLook: TypeAlias = "Callable[[Sequence[str]], tuple[pa.Table, pa.Table | None]]"

FEW_BYTES: Final = 16 << 20
"""Local files up to this size are read in this process: sooner than Spark starts to."""

_ALONE: Final = 64  # times that, in local mode
_PACKED: Final = 8  # how many times more bytes compressed text may have than its file
_START: Final = 1 << 20  # bytes in which the first row of a file is looked for
_ROW: Final = 16  # bytes of a row, for guessing how many there are
_GLOB: Final = re.compile(r"([\\*?{}\[\]])")


class _SecondHeader(Exception):
    """A line that is a header was met more than once in a file."""


def load(reading: Reading) -> ReadTable:
    """The facts of files, each once, and, if permissive, the rows set aside."""
    source, columns, workspace = reading.source, reading.columns, reading.workspace
    if source.is_remote:
        return _load_remote(reading)
    paths = {_absolute(p): p for p in local_files(reading.relation, source) if p.stat().st_size}
    if not paths:
        return empty(columns, workspace), None

    size = sum(path.stat().st_size for path in paths.values())
    # Where all is on one machine, Spark would read with its cores what Arrow reads sooner.
    most = FEW_BYTES * (_ALONE if workspace.staging.is_on_every_disk else 1)
    is_here = size <= most and not _is_sparks_own(source, columns)
    if is_here and size > FEW_BYTES:
        is_here = sum(map(_estimate_unpacked, paths.values(), repeat(len(columns)))) <= most
    if is_here or is_connect(workspace.session):  # whose server does not see our files
        return reading.in_process()

    def closer_look(files: Sequence[str]) -> tuple[pa.Table, pa.Table | None]:
        chosen = tuple(str(paths[file]) for file in files)
        return reading.looked_at(replace(source, paths=chosen))

    readable = {file: _start(path) for file, path in paths.items() if _is_for_spark(path)}
    if source.format == "json" and not can_parse(reading.own):
        readable = {}
    base = source.paths[0] if len(source.paths) == 1 and Path(source.paths[0]).is_dir() else None
    odd = [file for file in paths if file not in readable]
    base = base and _absolute(Path(base))
    return _Reader(reading).load(readable, odd, closer_look, base, size // _ROW)


def _load_remote(reading: Reading) -> ReadTable:
    there = RemoteFiles(reading)
    starts = there.starts()
    if not starts:
        return empty(reading.columns, reading.workspace), None
    paths = reading.source.paths
    base = paths[0] if len(paths) == 1 else None
    return _Reader(reading).load(starts, [], there.closer_look, base, None)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads files for one relation, by Spark as far as that can."""

    of: Reading

    def load(
        self,
        starts: Mapping[str, bytes],
        odd: list[str],
        closer_look: CloserLook,
        base: str | None,
        rows: int | None,
    ) -> ReadTable:
        """The table of files, given how each starts; `odd` ones are not for Spark."""
        parts: list[CheckedRows] = []
        wrong = list(odd)
        spelled: list[str] = []  # files with wrong rows, as Spark names them
        try:
            if starts:
                parts = self._parts(starts, base)
            if not odd:
                facts = union([part.strict() for part in parts])
                verify = self._verifier(starts)
                return table(facts, self.of.columns, self.of.workspace, rows, verify), None
        except _SecondHeader:
            wrong, parts = [*starts, *odd], []
        except (PySparkException, Py4JError) as problem:
            if is_bad_row(problem):
                spelled = [file for part in parts for file in part.wrong_files()]
                wrong += [_known_as(file, starts) for file in spelled]
            else:  # Spark cannot read these files at all; the closer look says why
                wrong, parts = [*starts, *odd], []
        taken, rejected = closer_look(wrong)
        facts = [part.good(but_of=spelled) for part in parts]
        facts.append(from_arrow(taken, self.of.columns, self.of.workspace))
        return table(union(facts), self.of.columns, self.of.workspace, rows), rejected

    def _parts(self, starts: Mapping[str, bytes], base: str | None) -> list[CheckedRows]:
        paths = list(starts)
        if self.of.source.format == "json":
            return [json_objects(self._lines(paths), self.of.own)]
        if self.of.source.format != "csv":
            return [self._columnar(paths, base)]
        parts: list[CheckedRows] = []
        for layout, alike in self._layouts(starts).items():
            lines = self._lines(alike)
            if layout.header is not None:
                met = sf.count_if(sf.col("value") == sf.lit(layout.header))
                lines = lines.observe(f"headers {len(parts)}", met.alias("met"))
            parts.append(split_lines(lines, self.of.source, self.of.own, layout))
        return parts

    def _layouts(self, starts: Mapping[str, bytes]) -> dict[text.TextColumns, list[str]]:
        """Files by how they are laid out."""
        of, found = self.of, dict[text.TextColumns, list[str]]()
        for path, start in starts.items():
            layout = text.layout(of.relation, path, start, of.source, of.own, is_whole=False)
            found.setdefault(layout, []).append(path)
        return found

    def _verifier(self, starts: Mapping[str, bytes]) -> Callable[[DataFrame], None] | None:
        """Makes sure that a line that is a header was left out once in each file, not more."""
        if self.of.source.format != "csv":
            return None

        def verify(frame: DataFrame) -> None:
            for i, (layout, alike) in enumerate(self._layouts(starts).items()):
                if layout.header is None:
                    continue
                if is_connect(frame):
                    met = self._lines(alike).where(sf.col("value") == layout.header).count()
                else:
                    met = read_observed(frame, f"headers {i}", 1)[0]
                if met > len(alike):
                    raise _SecondHeader

        return verify

    def _lines(self, paths: Sequence[str]) -> DataFrame:
        read = self.of.workspace.session.read.text([_escape(path) for path in paths])
        return read.select("value", sf.col("_metadata.file_path").alias("file"))

    def _columnar(self, paths: Sequence[str], base: str | None) -> CheckedRows:
        reader = self.of.workspace.session.read.format(cast("str", self.of.source.format))
        if base is not None:
            reader = reader.option("basePath", base)
        frame = reader.load([_escape(path) for path in paths])
        relation, columns = self.of.relation, self.of.own
        places = match_columns(relation, paths[0], frame.columns, columns)
        where = sf.col("_metadata.file_path").alias("file")
        named = frame.select("*", where).toDF(*(f"f{i}" for i in range(len(frame.columns))), "file")
        fields = [
            from_column(relation, paths[0], f"f{place}", frame.dtypes[place][1], column).unless(
                sf.col(f"f{place}").isNull(), column
            )
            for place, column in zip(places, columns, strict=True)
        ]
        return CheckedRows.of(named, fields)


def _start(path: Path) -> bytes:
    """How a file starts, uncompressed; nothing if it cannot be read."""
    try:
        with pa.OSFile(str(path), "rb") as raw:
            return formats.uncompress(raw, str(path), _START)
    except (OSError, EOFError):
        return b""


def _estimate_unpacked(path: Path, columns: int) -> int:
    """How many bytes a file may have once it is read."""
    try:
        if path.suffix in (".parquet", ".pq"):
            from pyarrow.parquet import read_metadata

            return read_metadata(path).num_rows * columns * 8
    except (OSError, pa.ArrowInvalid):  # whoever reads it will say what is wrong
        pass
    packed = path.suffix == ".orc" or compression(path.name) is not None
    return path.stat().st_size * (_PACKED if packed else 1)


def _is_for_spark(path: Path) -> bool:
    """Spark skips hidden files, and knows few compressions: .zst where Hadoop was built for it."""
    is_known = (
        compression(path.name) in (None, "gzip", "bz2") and path.suffix == path.suffix.lower()
    )
    return not path.name.startswith(("_", ".")) and is_known


def _is_sparks_own(source: Source, columns: Sequence[Column]) -> bool:
    """Spark writes a datetime to ORC as a number, of which only Spark knows what it means."""
    return source.format == "orc" and any(column.type is Type.DATETIME for column in columns)


def _absolute(path: Path) -> str:
    return os.path.normpath(path.expanduser().absolute())


def _escape(path: str) -> str:
    """A path as Spark takes it, for which some characters would make it a pattern."""
    return path if "://" in path else _GLOB.sub(r"\\\1", path)


def _known_as(spelled: str, files: Iterable[str]) -> str:
    """The file that Spark names so, be it as a URI or not quite."""
    path = re.sub(r"^file:(//)?", "", spelled)
    return next(file for file in files if file in (spelled, path, unquote(path)))


# ── Files that only Spark can reach ──────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """The files behind URIs."""

    of: Reading

    @property
    def _read(self) -> DataFrameReader:
        return self.of.workspace.session.read

    def starts(self) -> dict[str, bytes]:
        """Each file, with its first line where that may be a header."""
        try:
            read = self._read.format("text").option("recursiveFileLookup", "true")
            files = self._chosen(read.load(list(self.of.source.paths)).inputFiles())
            if self.of.source.format != "csv" or self.of.source.header is False:
                return dict.fromkeys(files, b"")
            return {file: self._first_line(file) for file in files}
        except (PySparkException, Py4JError) as problem:
            raise self._unreadable(problem) from None

    def closer_look(self, files: Sequence[str]) -> tuple[pa.Table, pa.Table | None]:
        """The rows of files, read in this process, and what is wrong with the others."""
        of, bad = self.of, list[BadRow]()
        tables: list[pa.Table] = [arrow_schema(of.own).empty_table()]
        for file in files:
            if of.source.format not in ("csv", "json"):
                raise cannot_read(
                    of.relation, file, "values are missing or do not fit their columns",
                    "read it with Spark, filter it, and add the DataFrame",
                )  # fmt: skip
            raw = self._content(file)
            if of.source.format == "csv":
                found = text.read(of.relation, file, raw, of.source, of.own, bad)
            else:
                found = json_rows.read(of.relation, file, raw, of.own, bad)
            tables.append(found)
        return pa.concat_tables(tables), of.judged(bad)

    def _chosen(self, files: list[str]) -> list[str]:
        """The files of the one kind that is meant; C035 if there are others and nobody said."""
        if self.of.source.named is None:
            check_kinds(self.of.relation, self.of.source.name, files)
            return files
        return of_kind(files, self.of.source.named) or files

    def _first_line(self, file: str) -> bytes:
        row = self._read.text(file).head()
        return b"" if row is None else f"{row[0]}\n".encode()

    def _content(self, file: str) -> bytes:
        try:
            read = self._read.format("binaryFile").load(file).select("content").head()
        except (PySparkException, Py4JError) as problem:
            raise self._unreadable(problem) from None
        raw = b"" if read is None else bytes(cast("Any", read)[0])
        return formats.uncompress(pa.BufferReader(raw), file)

    def _unreadable(self, problem: Exception) -> CaladanError:
        reason = str(problem)
        if "PATH_NOT_FOUND" in reason or "FileNotFound" in reason:
            return not_found(self.of.relation, self.of.source.name)
        return cannot_read(self.of.relation, self.of.source.name, first_line(reason))
