"""What `db.add` was given, described before anybody reads it.

`source(data)` recognises the data by what it can do, without importing the library it comes from:

    path      files, folders, patterns (on this machine), or URIs, which only Spark can read
    arrow     anything in memory, copied: `load` makes an Arrow table of it, given the columns
    spark     a DataFrame of Spark
    external  a table elsewhere, which Spark makes a DataFrame of
    changed   any of these, and what was inserted and deleted since (load.py)

`files(source)` lists the files behind a local path. Its format follows from the file's name.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Final, Literal, TypeAlias, cast

from caladan.data import frames, memory, problems
from caladan.data.external import CatalogTable, External, Jdbc, StoredFiles, parse_name
from caladan.program.diagnostics import error
from caladan.program.objects import Objects

Format: TypeAlias = Literal["csv", "json", "parquet", "orc"]
SourceKind: TypeAlias = Literal["path", "arrow", "spark", "external", "changed"]

FORMATS: Final[dict[str, Format]] = {
    **dict[str, Format].fromkeys((".csv", ".tsv", ".tab", ".txt", ".facts"), "csv"),
    **dict[str, Format].fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict[str, Format].fromkeys((".parquet", ".pq"), "parquet"),
    ".orc": "orc",
}
COMPRESSED: Final[dict[str, str]] = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".lz4": "lz4",
    ".br": "brotli",
}
"""Suffixes of compressed files, and what Arrow calls the compression."""
_TABBED: Final = (".tsv", ".tab", ".facts")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The data of a relation, as it was given.

    `paths` are as the user wrote them: a file, a folder, a pattern, or a URI. `header` None means
    that a first line which is exactly the declared column names is one. `data` is what was given
    if it is not a path: a Spark DataFrame, an Arrow table, a dict of columns, or a list of rows,
    which stay Python values until the columns are known. `place` is the table elsewhere.
    `named` is the format that the user named; where none was, all files must be of one kind.
    `objects` has the numbers of values in columns of objects. `steps` has, for data that was
    changed, what it was made of: whether facts were inserted or deleted, and which.
    """

    kind: SourceKind
    name: str
    paths: tuple[str, ...] = ()
    format: Format | None = None
    delimiter: str = ","
    header: bool | None = None
    data: object = None
    place: External | None = None
    named: str | None = None
    objects: Objects = field(default_factory=Objects, repr=False)
    steps: tuple[tuple[bool, Source], ...] = field(default=(), repr=False)

    @property
    def quote(self) -> str | None:
        """The quote character of delimited text; with tabs between columns there is none."""
        return None if self.delimiter == "\t" else '"'

    @property
    def is_remote(self) -> bool:
        """Whether a path is a URI, such as s3:// or hdfs://, that is not of this machine."""
        return any(_is_uri(path) for path in self.paths)


def source(
    relation: str,
    data: object,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> Source:
    """Recognise what was given for a relation; C030 if it is not there, C050 if it is no data."""
    problems.check_name("a relation", relation)
    place = _elsewhere(relation, data, format)
    if place is not None:
        return Source("external", place.shown, place=place)
    if isinstance(data, str | os.PathLike):
        return _from_paths(relation, [data], format, delimiter, header)
    if _is_list_of_paths(data):
        paths = cast("Sequence[str | os.PathLike[str]]", data)
        return _from_paths(relation, paths, format, delimiter, header)
    if delimiter is not None or header is not None or format is not None:
        raise error("C050", f"format, delimiter and header are for files; {relation} is none")
    name = f"the {type(data).__name__} given for {relation}"
    module = type(data).__module__
    if module.startswith("pyspark.sql") and type(data).__name__ == "DataFrame":
        frames.check(relation, data)
        return Source("spark", name, data=data)
    if isinstance(data, bytes) or not (
        hasattr(data, "__arrow_c_stream__") or hasattr(data, "__iter__")
    ):
        raise error(
            "C050",
            f"{relation} was given a {type(data).__name__}, which is not data",
            help="give a list of tuples, a dict of columns, a data frame, or a path",
        )
    return Source("arrow", name, data=memory.snapshot(data))


def files(relation: str, source: Source) -> tuple[Path, ...]:
    """The files behind local paths: folders searched, patterns expanded, in order of name."""
    found = [path for given in source.paths for path in _behind(relation, given, source.named)]
    if source.named is None:
        check_kinds(relation, source.name, [path.name for path in found])
    return tuple(found)


def kind(path: str) -> str | None:
    """What kind of file it is, by its name: csv, tsv, json, parquet, orc."""
    ending = suffix(path)
    return "tsv" if ending in _TABBED else FORMATS.get(ending)


def check_kinds(relation: str, place: str, names: Iterable[str]) -> None:
    """C035 where files are of several kinds, for one reader reads one kind."""
    kinds = sorted({found for name in names if (found := kind(name)) is not None})
    if len(kinds) > 1:
        raise problems.several_kinds(relation, place, kinds)


def of_kind(names: Sequence[str], named: str) -> list[str]:
    """The files of the kind that a user named; tsv passes for csv where there is no other."""
    alike = [name for name in names if kind(name) == named]
    text = [name for name in names if named in ("csv", "tsv") and kind(name) in ("csv", "tsv")]
    return alike or text


def suffix(path: str) -> str:
    """The suffix that tells the format: without `.gz` and the like, in lower case."""
    name = PurePath(path.lower())
    return PurePath(name.stem).suffix if name.suffix in COMPRESSED else name.suffix


def compression(path: str) -> str | None:
    """What a file is compressed with, by its name."""
    return COMPRESSED.get(PurePath(path.lower()).suffix)


def _from_paths(
    relation: str,
    paths: Sequence[str | os.PathLike[str]],
    format: str | None,
    delimiter: str | None,
    header: bool | None,
) -> Source:
    given = tuple(os.fspath(path) for path in paths)
    if delimiter is not None and len(delimiter) != 1:
        raise error("C050", f"the delimiter of {relation} must be one character, not {delimiter!r}")
    if format is not None:
        format = "json" if format == "jsonl" else format
        if format not in ("tsv", *FORMATS.values()):
            known_formats = "csv, tsv, json, jsonl, parquet, orc and delta"
            raise error("C050", f"unknown format {format!r}; known are {known_formats}")
        for path in given:
            if not _is_uri(path):
                _check_there(relation, path)
        known = format
        if format == "csv" and all(kind(path) == "tsv" for path in given):
            known = "tsv"
    else:
        known = _kind_of_all(relation, given)
    return Source(
        "path",
        ", ".join(given),
        given,
        cast("Format", "csv" if known == "tsv" else known),
        delimiter if delimiter is not None else "\t" if known == "tsv" else ",",
        header,
        named=format,
    )


def _kind_of_all(relation: str, paths: Sequence[str]) -> str:
    """The kind of all the files behind some paths; C035 if names do not tell, or differ."""
    names: list[str] = []
    for path in paths:
        found = [path] if _is_uri(path) else [p.name for p in _behind(relation, path, None)]
        known = [name for name in found if kind(name) is not None]
        if not known and kind(path) is None and not _local(path).is_dir():
            raise problems.cannot_read(
                relation, path, "its name does not show the format",
                'name the format: format="csv" (or tsv, json, parquet, orc)',
            )  # fmt: skip
        names += known or [path]
    check_kinds(relation, ", ".join(paths), names)
    return next((each for name in names if (each := kind(name)) is not None), "csv")


def _elsewhere(relation: str, data: object, format: str | None) -> External | None:
    """The table elsewhere that was given, None if it is something else."""
    if isinstance(data, Jdbc | CatalogTable | StoredFiles):
        return data
    if format == "delta" and isinstance(data, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str]", data))
        if not _is_uri(path):
            _check_there(relation, path)
        return StoredFiles(path, "delta")
    if isinstance(data, str | os.PathLike):
        return parse_name(os.fspath(cast("str | os.PathLike[str]", data)), relation, os.environ)
    return None


def _check_there(relation: str, path: str) -> None:
    if not _local(path).exists() and not _matches(path):
        raise problems.not_found(relation, path, is_pattern=glob.has_magic(path))


def _matches(pattern: str) -> list[Path]:
    """The files and folders that a pattern names; pathlib cannot start from an absolute one."""
    found = glob.glob(str(_local(pattern)), recursive=True)  # noqa: PTH207
    return sorted(Path(path) for path in found)


def _behind(relation: str, given: str, named: str | None) -> list[Path]:
    """The files behind a path: itself, what is in a folder, what a pattern matches."""
    path = _local(given)
    matches = [path] if path.exists() else _matches(given)
    if not matches:
        raise problems.not_found(relation, given, is_pattern=glob.has_magic(given))
    found: list[Path] = []
    for match in matches:
        found.extend(_inside(relation, match, named) if match.is_dir() else [match])
    return found


def _inside(relation: str, folder: Path, named: str | None) -> list[Path]:
    """The data files of a folder; names that start with `_` or `.` are marks, not data.

    Files of no known kind are left out, unless all are; where a kind was named, all others.
    """
    found = [p for p in sorted(folder.rglob("*")) if p.is_file() and not _is_hidden(p, folder)]
    known = {str(path): path for path in found if kind(path.name) is not None}
    if named is None or not known:
        return list(known.values()) or found
    chosen = of_kind(list(known), named)
    if not chosen:
        raise problems.other_kind(relation, str(folder), named, {kind(p) or "" for p in known})
    return [known[path] for path in chosen]


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)


def _local(path: str) -> Path:
    return Path(path.removeprefix("file://")).expanduser()


def _is_uri(path: str) -> bool:
    return "://" in path and not path.startswith("file://")


def _is_list_of_paths(data: object) -> bool:
    if not isinstance(data, list) or not data:
        return False
    return all(isinstance(item, os.PathLike) for item in cast("list[object]", data))
