"""What the Python of executors has: whether tasks of ours can run there, and how to bring them us.

Where executors are processes of their own, perhaps on other machines, one small job asks, once for
each SparkContext and before its first task, what their Python lacks. If that is only this package,
it is shipped: a zip that Spark puts on the workers' path. What else is missing is for the user to
install; until then *frame*, which needs no Python on executors, does the work, and says why.

In local mode functions of ours run in the driver's own Python, whatever Spark was told to take: it
is on this machine, and has all that they need (`with_python`). Else a virtual environment that is
not activated, where PySpark takes the first `python3` there is, would leave users to *frame*.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from caladan.engines.spark.choice import is_local
from caladan.engines.spark.session.connect import is_connect

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

NEEDED: Final = ("numpy", "pyarrow", "numba", "caladan")
"""The modules that a task loads."""

_KNOWN: Final = "_caladan_obstacle"  # where a SparkContext keeps what was found
_SHIPPED: Final = "_caladan_shipped"
_SWAPPED: Final = threading.Lock()


def with_python(context: Any, make: Callable[[], T]) -> T:
    """What `make` makes, an RDD or a frame with a function of ours, to run in a Python that has us.

    Spark notes the Python when it is handed a function; for that moment it is told another.
    """
    if not is_local(context.master) or context.pythonExec == sys.executable:
        return make()
    from caladan.engines.spark.session.internals import hand_over

    with _SWAPPED:
        before, context.pythonExec = context.pythonExec, sys.executable
        try:
            made = make()
            hand_over(made)
            return made
        finally:
            context.pythonExec = before


def with_own_python(make: Callable[[], T]) -> T:
    """The same for whatever context is there; with Spark Connect none is."""
    from pyspark import SparkContext

    context = getattr(SparkContext, "_active_spark_context", None)
    return make() if context is None else with_python(context, make)


def obstacle(spark: Any, ship: bool | None, check: Callable[[], None]) -> str | None:
    """Why no tasks can run on the executors of a context, or of a session of Spark Connect.

    None if they can. With `ship` the package is sent whatever is there, with False never, else
    where it is missing.
    """
    if ship:
        ship_package(spark)
    if _KNOWN not in spark.__dict__:
        check()
        found = _find_lacking(spark)
        if ship is None and any("caladan" in modules for modules in found.values()):
            ship_package(spark)
            found = _find_lacking(spark)
        spark.__dict__[_KNOWN] = found
    return said(spark.__dict__[_KNOWN])


def is_known_lacking(session: Any) -> bool:
    """Whether executors were found to lack something; those of a Connect server, unless asked."""
    if is_connect(session):
        return _KNOWN not in session.__dict__ or said(session.__dict__[_KNOWN]) is not None
    return said(session.sparkContext.__dict__.get(_KNOWN, {})) is not None


def said(found: dict[str, tuple[str, ...]]) -> str | None:
    """What is missing where, in words; None if nothing is.

    >>> said({"worker-3": ("numba",), "worker-1": ("numba", "caladan")})
    "the executors' Python lacks numba, caladan (on worker-1, worker-3): install them there"
    >>> said({"worker-1": ("caladan",)})
    "the executors' Python lacks caladan (on worker-1): install it there, or connect with ship=True"
    """
    missing = list(dict.fromkeys(module for each in found.values() for module in each))
    if not missing:
        return None
    hosts = sorted(host for host, modules in found.items() if modules)
    more = ", …" if len(hosts) > 3 else ""
    where = f"{', '.join(missing)} (on {', '.join(hosts[:3])}{more})"
    todo = "it there, or connect with ship=True" if missing == ["caladan"] else "them there"
    if len(missing) == 1 and missing != ["caladan"]:
        todo = "it there"
    return f"the executors' Python lacks {where}: install {todo}"


def _find_lacking(spark: Any) -> dict[str, tuple[str, ...]]:
    """By host, what the executors' Python lacks; nothing where it is this very one."""
    if is_connect(spark):
        return asked_there(spark, NEEDED)
    return {} if is_local(spark.master) else ask_executors(spark, NEEDED)


def ask_executors(context: Any, modules: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By host, which of some modules are not there: a job, a task for each that runs at once."""

    def lacking(_: Iterable[int]) -> list[tuple[str, tuple[str, ...]]]:
        # Whatever this mentions travels with it: nothing of this package may be needed there.
        import socket
        from importlib.util import find_spec

        return [(socket.gethostname(), tuple(name for name in modules if find_spec(name) is None))]

    tasks = max(int(context.defaultParallelism), 1)
    found: dict[str, tuple[str, ...]] = {}
    for host, missing in context.parallelize(range(tasks), tasks).mapPartitions(lacking).collect():
        found[host] = tuple(dict.fromkeys((*found.get(host, ()), *missing)))
    return found


def asked_there(session: Any, modules: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The same with Spark Connect, whose server starts workers of its own: for one of its hosts."""

    def lacking(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # As above: nothing of this package may be needed there.
        import socket
        from importlib.util import find_spec

        import pyarrow as pa

        missing = " ".join(name for name in modules if find_spec(name) is None)
        yield pa.RecordBatch.from_pydict({"host": [socket.gethostname()], "missing": [missing]})

    rows = session.range(0, 1, 1, 1).mapInArrow(lacking, "host string, missing string").collect()
    return {host: tuple(missing.split()) for host, missing in rows}


def ship_package(spark: Any) -> None:
    """Bring this package to the executors of such a one, unless that was done."""
    if _SHIPPED not in spark.__dict__:
        if is_connect(spark):
            with tempfile.TemporaryDirectory(prefix="caladan-") as folder:
                spark.addArtifacts(str(archive(Path(folder))), pyfile=True)
        else:
            # Executors fetch it when they first run a task, also those that come late: it stays for
            # as long as the context does.
            spark.addPyFile(str(archive(Path(spark._temp_dir))))
        importlib.invalidate_caches()
        spark.__dict__[_SHIPPED] = True
        spark.__dict__.pop(_KNOWN, None)


def archive(folder: Path) -> Path:
    """This package as a zip in a folder."""
    root = Path(__file__).parents[3]
    path = folder / "caladan-package.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for each in sorted(root.rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                made.write(each, Path("caladan") / each.relative_to(root))
    return path
