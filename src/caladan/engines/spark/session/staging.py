"""The staging folder: where tasks leave results that are too large to send, and find large inputs.

On one machine it is a temporary folder, made when first needed and removed with the engine. On a
cluster it is wherever the setting `spark.caladan.staging` says, a URI that the driver and all
executors reach; without it nothing is staged. Names are unique to the attempt that writes them, and
only those that a successful task returned are ever read; whatever else is there goes with the
folder.

A DataFrame that users were handed reads its files whenever somebody asks it to: long after the
result that it came from, and the engine. So files have readers: a plan of Spark's, or whatever was
made of it (a view, a cached frame, another DataFrame), of which the JVM tells when nobody has it
any more. Files that have readers stay, and are removed once the last is gone, or the SparkContext
(`Readers`).
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from caladan.engines.spark.choice import is_local
from caladan.engines.spark.session.connect import is_connect

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

SETTING: Final = "spark.caladan.staging"


class Staging:
    """The folder of one engine."""

    def __init__(self, session: SparkSession) -> None:
        given = session.conf.get(SETTING, None)
        # Tasks of a server that is elsewhere do not see our disks, and none of ours run there.
        master = "" if is_connect(session) else session.sparkContext.master or ""
        self.is_on_every_disk = given is None and is_local(master)
        self._base = given
        self._readers = None if is_connect(session) else Readers.of(session.sparkContext)
        self._folder: str | None = None
        self._remove = None

    @property
    def folder(self) -> str | None:
        """Where tasks may write; None if there is no place that all can reach."""
        if self._folder is None:
            if self.is_on_every_disk:
                self._folder = tempfile.mkdtemp(prefix="caladan-")
            elif self._base is not None:
                self._folder = f"{self._base.rstrip('/')}/caladan-{uuid.uuid4().hex}"
            else:
                return None
            # An engine that nobody closes is collected, or the process ends: then too.
            leave = _remove_folder if self._readers is None else self._readers.leave
            self._remove = weakref.finalize(self, leave, self._folder)
        return self._folder

    def file(self, kind: str, suffix: str) -> str:
        """A name that nobody else has, in the folder."""
        return name_in(cast("str", self.folder), kind, suffix)

    def hold(self, files: Sequence[str], frame: DataFrame) -> None:
        """Keep files for as long as somebody can read them by way of a frame."""
        if self._readers is not None:
            self._readers.hold(files, frame)

    def sweep(self) -> None:
        """Remove files that nobody can read any more."""
        if self._readers is not None:
            self._readers.sweep()

    def close(self) -> None:
        """Remove the folder, but for files that frames outside still read."""
        self.sweep()
        if self._remove is not None:
            self._remove()
        self._folder = self._remove = None


_HOLDING: Final[dict[str, Readers]] = {}
"""By file, who holds it."""


class Readers:
    """Who reads the files of a SparkContext."""

    _of: Final[WeakKeyDictionary[SparkContext, Readers]] = WeakKeyDictionary()

    @staticmethod
    def of(context: SparkContext) -> Readers:
        """The readers of a context's files."""
        found = Readers._of.get(context)
        if found is None:
            found = Readers._of[context] = Readers(context)
        return found

    def __init__(self, context: SparkContext) -> None:
        from caladan.engines.spark.session.internals import Plans  # workers need none of it

        self._plans = Plans(context)
        self._files: dict[Any, tuple[str, ...]] = {}
        self._reading: dict[str, set[Any]] = {}
        self._unwanted: set[str] = set()
        self._left: set[str] = set()
        """Folders whose engine has gone, with files that have readers."""
        self.end = weakref.finalize(context, _end, self._left, self._reading)
        """Remove what is left: once the context is gone, nobody can read it."""

    def hold(self, files: Sequence[str], frame: DataFrame) -> None:
        """Keep files while somebody has a plan that reads them, as the frame's does."""
        reader = self._plans.follow(frame)
        if reader is None:
            return
        self._files[reader] = tuple(files)
        for file in files:
            self._reading.setdefault(file, set()).add(reader)
            _HOLDING[file] = self

    def sweep(self) -> None:
        """Remove what was unwanted and has no readers any more."""
        while _DROPPED:
            remove(_DROPPED.pop())
        for reader in self._plans.gone():
            for file in self._files.pop(reader, ()):
                self._reading[file].discard(reader)
                if not self._reading[file]:
                    del self._reading[file], _HOLDING[file]
                    if file in self._unwanted:
                        self._unwanted.discard(file)
                        _delete(file)
        for folder in [each for each in self._left if not self._in(each)]:
            self._left.discard(folder)
            _remove_folder(folder)

    def leave(self, folder: str) -> None:
        """Remove a folder; what has readers stays until they are gone."""
        kept = self._in(folder)
        if not kept:
            _remove_folder(folder)
            return
        self._left.add(folder)
        for file in _list_files(folder):
            if file not in kept:
                _delete(file)

    def _in(self, folder: str) -> set[str]:
        return {file for file in self._reading if file.startswith(f"{folder}/")}

    @staticmethod
    def discard(file: str) -> bool:
        """Whether a file has readers: it is removed once they are gone."""
        holder = _HOLDING.get(file)
        if holder is not None:
            holder._unwanted.add(file)
        return holder is not None


def _end(left: set[str], reading: dict[str, set[Any]]) -> None:
    for folder in {*left, *(file.rpartition("/")[0] for file in reading)}:
        _remove_folder(folder)
    for file in reading:
        _HOLDING.pop(file, None)
    left.clear()
    reading.clear()


_DROPPED: Final[list[tuple[str, ...]]] = []


def drop(files: Sequence[str]) -> None:
    """Files of somebody who was collected: they are removed by the next to sweep."""
    _DROPPED.append(tuple(files))


def name_in(folder: str, kind: str, suffix: str) -> str:
    """A name in a folder that nobody else has."""
    return f"{folder}/{kind}-{uuid.uuid4().hex}.{suffix}"


def open_filesystem(uri: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path in it."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(uri) if "://" in uri else (fs.LocalFileSystem(), uri)


@contextmanager
def create_file(uri: str) -> Generator[Any]:
    """A stream to a new file; on this machine one that no link can lead elsewhere."""
    from caladan.data.output import new_file

    system, path = open_filesystem(uri)
    if system.type_name == "local":
        with new_file(Path(path)) as file:
            yield file
    else:
        with system.open_output_stream(path) as stream:
            yield stream


def write_facts(
    batches: Iterable[pa.RecordBatch], fields: pa.Schema, folder: str, bucket: int | None = None
) -> str:
    """Write facts as a new Parquet file; Spark tells by its name which bucket it is, if it is one.

    Statistics let Spark skip row groups where facts lie in the order of a column.
    """
    import pyarrow.parquet as pq

    uri = name_in(folder, "facts", "parquet")
    if bucket is not None:
        uri = f"{uri.removesuffix('.parquet')}_{bucket:05d}.parquet"
    system, path = open_filesystem(uri)
    if "://" in uri:
        system.create_dir(path.rpartition("/")[0])
    # Facts are many and alike, read once or twice: encoding them well is not worth its time.
    texts = [field.name for field in fields if pa.types.is_string(field.type)]
    with pq.ParquetWriter(
        path, fields, filesystem=system, compression="lz4",
        use_dictionary=cast("Any", texts),
    ) as writer:  # fmt: skip
        for batch in batches:
            writer.write_batch(batch)
    return uri


def gather_files(folder: str) -> tuple[str, ...]:
    """The files that Spark wrote to a folder; on this machine they move beside it, and it goes.

    Spark leaves marks and checksums in a folder of its own, which nobody would ever remove.
    """
    files = tuple(each for each in _list_files(folder) if "/part-" in each)
    if "://" in folder:
        return files
    found = [f"{folder}-{i}.parquet" for i in range(len(files))]
    for file, name in zip(files, found, strict=True):
        Path(file).rename(name)
    shutil.rmtree(folder, ignore_errors=True)
    return tuple(found)


def rows_of(uri: str) -> int:
    """How many rows a Parquet file has."""
    from pyarrow.parquet import ParquetFile

    system, path = open_filesystem(uri)
    with system.open_input_file(path) as file:
        return ParquetFile(file).metadata.num_rows


def nulls_of(uri: str) -> set[int]:
    """The columns of a Parquet file that have nulls, or may have: its writer did not count."""
    from pyarrow.parquet import ParquetFile

    system, path = open_filesystem(uri)
    found: set[int] = set()
    with system.open_input_file(path) as file:
        metadata = ParquetFile(file).metadata
        for group in range(metadata.num_row_groups):
            for i in range(metadata.num_columns):
                statistics = metadata.row_group(group).column(i).statistics
                if statistics is None or not statistics.has_null_count or statistics.null_count:
                    found.add(i)
    return found


def remove(uris: Iterable[str]) -> None:
    """Remove files, as far as they are there; those that have readers once these are gone."""
    for uri in uris:
        if not Readers.discard(uri):
            _delete(uri)


def _delete(uri: str) -> None:
    with suppress(OSError):
        system, path = open_filesystem(uri)
        system.delete_file(path)


def _list_files(folder: str) -> list[str]:
    """The files of a folder."""
    from pyarrow import fs

    with suppress(OSError):
        system, path = open_filesystem(folder)
        found = system.get_file_info(fs.FileSelector(path))
        return [f"{folder}/{each.base_name}" for each in found]
    return []


def _remove_folder(folder: str) -> None:
    if "://" not in folder:
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        system, path = open_filesystem(folder)
        system.delete_dir(path)
