"""The staging folder: where tasks leave results that are too large to send, and find large inputs.

On one machine it is a temporary folder, made when first needed and removed with the engine. On a
cluster it is wherever the setting `spark.caladan.staging` says, a URI that the driver and all
executors reach; without it nothing is staged. Names are unique to the attempt that writes them, and
only those that a successful task returned are ever read; whatever else is there goes with the
folder.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from caladan.engines.spark.session.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING: Final = "spark.caladan.staging"


class Staging:
    """The folder of one engine."""

    def __init__(self, session: SparkSession) -> None:
        given = session.conf.get(SETTING, None)
        # Tasks of a server that is elsewhere do not see our disks, and none of ours run there.
        master = "" if is_connect(session) else session.sparkContext.master or ""
        self.is_on_every_disk = given is None and master.startswith("local")
        self._base = given
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
            self._remove = weakref.finalize(self, partial(_remove_folder, self._folder))
        return self._folder

    def file(self, kind: str, suffix: str) -> str:
        """A name that nobody else has, in the folder."""
        return name_in(cast("str", self.folder), kind, suffix)

    def close(self) -> None:
        """Remove the folder with everything in it."""
        if self._remove is not None:
            self._remove()
        self._folder = self._remove = None


def name_in(folder: str, kind: str, suffix: str) -> str:
    """A name in a folder that nobody else has."""
    return f"{folder}/{kind}-{uuid.uuid4().hex}.{suffix}"


def opened(uri: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path in it."""
    from pyarrow import fs

    return fs.FileSystem.from_uri(uri) if "://" in uri else (fs.LocalFileSystem(), uri)


@contextmanager
def created(uri: str) -> Generator[Any]:
    """A stream to a new file; on this machine one that no link can lead elsewhere."""
    from caladan.data.draft import new_file

    system, path = opened(uri)
    if system.type_name == "local":
        with new_file(Path(path)) as file:
            yield file
    else:
        with system.open_output_stream(path) as stream:
            yield stream


def written(batches: Iterable[pa.RecordBatch], fields: pa.Schema, folder: str) -> str:
    """Write facts, in the columns that frames of the engine have, as a new Parquet file."""
    import pyarrow.parquet as pq

    uri = name_in(folder, "facts", "parquet")
    system, path = opened(uri)
    if "://" in uri:
        system.create_dir(path.rpartition("/")[0])
    # Facts are many and alike, read once or twice: encoding them well is not worth its time.
    texts = [field.name for field in fields if pa.types.is_string(field.type)]
    with pq.ParquetWriter(
        path, fields, filesystem=system, compression="lz4",
        use_dictionary=cast("Any", texts), write_statistics=False,
    ) as writer:  # fmt: skip
        for batch in batches:
            writer.write_batch(batch)
    return uri


def remove(uris: Iterable[str]) -> None:
    """Remove files, as far as they are there."""
    for uri in uris:
        with suppress(OSError):
            system, path = opened(uri)
            system.delete_file(path)


def _remove_folder(folder: str) -> None:
    if "://" not in folder:
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        system, path = opened(folder)
        system.delete_dir(path)
