"""What the Python of executors has: whether tasks of ours can run there, and how to bring them us.

Where the executors' Python is not the driver's, one small job asks, once for each SparkContext and
before its first task, what it lacks. If that is only this package, it is shipped: a zip that Spark
puts on the workers' path. What else is missing is for the user to install; until then *frame*,
which needs no Python on executors, does the work, and says why.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

NEEDED: Final = ("numpy", "pyarrow", "numba", "caladan")
"""The modules that a task loads."""

_KNOWN: Final = "_caladan_obstacle"  # where a SparkContext keeps what was found
_SHIPPED: Final = "_caladan_shipped"


def obstacle(context: Any, ship: bool | None, check: Callable[[], None]) -> str | None:
    """Why no tasks can run on the executors of a context; None if they can.

    With `ship` the package is sent whatever is there, with False never, else where it is missing.
    """
    if ship:
        shipped(context)
    if _KNOWN not in context.__dict__:
        check()
        found = _lacking(context)
        if ship is None and any("caladan" in modules for modules in found.values()):
            shipped(context)
            found = _lacking(context)
        context.__dict__[_KNOWN] = found
    return said(context.__dict__[_KNOWN])


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


def _lacking(context: Any) -> dict[str, tuple[str, ...]]:
    """By host, what the executors' Python lacks; nothing where it is this very one."""
    if context.master.startswith("local") and context.pythonExec == sys.executable:
        return {}
    return asked(context, NEEDED)


def asked(context: Any, modules: Sequence[str]) -> dict[str, tuple[str, ...]]:
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


def shipped(context: Any) -> None:
    """Bring this package to the executors of a context, unless that was done."""
    if _SHIPPED not in context.__dict__:
        with tempfile.TemporaryDirectory(prefix="caladan-") as folder:
            context.addPyFile(str(archive(Path(folder))))  # which copies it
        importlib.invalidate_caches()
        context.__dict__[_SHIPPED] = True
        context.__dict__.pop(_KNOWN, None)


def archive(folder: Path) -> Path:
    """This package as a zip in a folder."""
    root = Path(__file__).parents[3]
    path = folder / "caladan-package.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for each in sorted(root.rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                made.write(each, Path("caladan") / each.relative_to(root))
    return path
