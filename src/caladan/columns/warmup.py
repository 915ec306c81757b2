"""Warm-up: compile every kernel now, so that no run has to wait for it.

`warmup()` is what an installation (`caladan warmup`) or an image build calls once: it makes an
object file of every kernel. `preload()` is for a process that others are forked from: it loads
those that there are, and compiles nothing. All kernels together take minutes, and who has only just
installed Caladan and tries a small program needs none of them.

Loading kernels ahead: the first one takes a moment, in which data can be read.

Reading leaves the interpreter lock alone most of the time, so that on two cores both together take
about as long as the longer one.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from caladan.columns import kernels, native, pool
from caladan.program import thresholds


def warmup() -> tuple[str, ...]:
    """Compile every kernel, or load it from the cache; the names of their modules."""
    for name in _modules():
        names = vars(importlib.import_module(name))
        for own, each in list(names.items()):
            if isinstance(each, kernels.Kernel):
                names[own] = each.compiled()
    return tuple(_modules())


def preload() -> int:
    """Load the kernels that were compiled before; how many."""
    there = native.list_stored()
    if not there:
        return 0
    found = [each for each in _kernels() if each.is_kernel and each.name in there]
    for each in found:
        each.compiled()
    return len(found)


def _modules() -> Iterator[str]:
    import pkgutil

    for module in pkgutil.iter_modules(kernels.__path__):
        yield f"{kernels.__name__}.{module.name}"


def _kernels() -> Iterator[kernels.Kernel]:
    for name in _modules():
        for each in list(vars(importlib.import_module(name)).values()):
            if isinstance(each, kernels.Kernel):
                yield each


def load_ahead(paths: Sequence[str]) -> None:
    """Start to load the kernels that every large run calls, if these files are large."""
    if pool.threads() > 1 and not kernels.is_loaded() and any(map(_is_large, paths)):
        _start()


@cache
def _start() -> None:
    if not kernels.INTERPRETED:
        loading = threading.Thread(target=_load, name="caladan-kernels")
        loading.start()
        if hasattr(os, "register_at_fork"):
            # A child that is forked meanwhile would wait for ever for modules that are half loaded.
            os.register_at_fork(before=loading.join)


def _is_large(path: str) -> bool:
    try:
        return Path(path).stat().st_size >= thresholds.now.worth_loading
    except OSError:  # a pattern, a URI, or nothing: whoever reads it will say so
        return False


def _load() -> None:
    from caladan.columns.kernels import packs, probe, sorted as ordered

    wanted = (
        ordered.dedup, packs.pack, packs.unpack, probe.leading_bounds, probe.ranges, probe.spread,
        probe.fill_filter, probe.mark_present, probe.emit, ordered.subtract_linear, ordered.merge,
    )  # fmt: skip
    with suppress(Exception):  # whoever calls the kernel is told what is wrong with it
        for each in wanted:
            if threading.main_thread().is_alive():
                _compile(each)


def _compile(function: object) -> None:
    if isinstance(function, kernels.Kernel):  # somebody may have called it by now
        function.compiled()
