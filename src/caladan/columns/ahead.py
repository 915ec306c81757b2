"""Loading kernels ahead: numba and its first kernel take half a second, in which data can be read.

Reading leaves the interpreter lock alone most of the time, so that on two cores both together take
about as long as the longer one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from caladan import thresholds
from caladan.columns import kernels, pool


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
