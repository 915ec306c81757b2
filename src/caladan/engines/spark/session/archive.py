"""Spark's classes as an archive, so that a JVM starts in half the time.

Most of what a new session costs is classes: a JVM reads, checks and links some thousands of Spark's
before the first job. Java can write down what it has loaded (class data sharing), and JVMs after
that map the file. `caladan warmup` makes such an archive, of some 150 MB, in the user's cache;
sessions that we start use it if it is there.

An archive belongs to one Java and to the jars of one Spark: its name has both. A JVM that finds
that it does not fit does without, and says nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from caladan.engines.spark.session.java import user_cache

_QUIET: Final = "-Xlog:disable -Xlog:all=off"
_PATIENCE: Final = 600  # seconds
_SHARING: Final = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")


def option(given: str = "") -> str:
    """What makes a JVM use the archive; nothing if there is none, or others were `given`."""
    path = where(os.environ)
    if path is None or not path.is_file() or any(each in given for each in _SHARING):
        return ""
    return f"-XX:SharedArchiveFile={path} {_QUIET}"


def where(environ: Mapping[str, str]) -> Path | None:
    """The file that the archive is in, or will be; None if there is no Java, or a blank in it."""
    import pyspark

    home = environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    try:
        java = Path(found or "").resolve(strict=True)
        made = f"{java} {java.stat().st_mtime_ns} {pyspark.__file__} {pyspark.__version__}"
        key = hashlib.sha256(made.encode()).hexdigest()[:12]
        path = user_cache(environ) / "java" / f"spark-{pyspark.__version__}-{key}.jsa"
    except (OSError, RuntimeError):  # no Java, or no home directory
        return None
    return None if " " in str(path) else path  # options are cut at blanks


def make() -> Path | None:
    """Make the archive, unless it is there; None if it cannot be."""
    path = where(os.environ)
    if path is None or path.is_file():
        return path
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rehearsal = f"from {__name__} import rehearse; rehearse({str(draft)!r})"
        subprocess.run(
            [sys.executable, "-c", rehearsal],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        )
        draft.replace(path)
    except (OSError, subprocess.SubprocessError):
        return None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return path


def rehearse(archive: str) -> None:
    """Do in a session what most do, and have its JVM write down the classes that it took."""
    from pyspark import SparkContext

    from caladan.engines.spark.session.session import start

    options = f"-XX:ArchiveClassesAtExit={archive} {_QUIET}"
    session = start("local[2]", {"spark.driver.extraJavaOptions": options})
    numbers = session.range(100).selectExpr("id as A", "id % 7 as B")
    met = numbers.join(numbers.toDF("B", "C"), "B").groupBy("C").count()
    cast("Any", met.cache()).toArrow()
    numbers.repartition(2).mapInArrow(lambda some: some, numbers.schema).count()
    session.sparkContext.parallelize([1, 2], 2).map(str).collect()
    gateway = cast("Any", SparkContext)._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # at which it ends
    gateway.proc.wait(_PATIENCE)
