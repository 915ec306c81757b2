"""Warm-up: compile every kernel now, so that no run has to wait for it.

`caladan.columns.warmup.warmup()` is what an installation (`caladan warmup`), an image build or a
worker calls once: it fills numba's cache, and loads from there what is in it already.
"""

from __future__ import annotations

import importlib
import pkgutil

from caladan.columns import kernels


def warmup() -> tuple[str, ...]:
    """Compile every kernel, or load it from the cache; the names of their modules."""
    names = tuple(
        f"{kernels.__name__}.{module.name}" for module in pkgutil.iter_modules(kernels.__path__)
    )
    for name in names:
        for each in list(vars(importlib.import_module(name)).values()):
            if isinstance(each, kernels.Kernel):
                each.compiled()
    return names
