"""Warm-up: compile every kernel now, so that no run has to wait for it.

Kernels have explicit signatures, so importing their modules compiles them, or loads them from
numba's cache. `caladan.columns.warmup.warmup()` is what an installation, an image build or a worker
calls once.
"""

from __future__ import annotations

import importlib
import pkgutil

from caladan.columns import kernels


def warmup() -> tuple[str, ...]:
    """Load every module of kernels, compiling what is not in the cache; their names."""
    names = tuple(
        f"{kernels.__name__}.{module.name}" for module in pkgutil.iter_modules(kernels.__path__)
    )
    for name in names:
        importlib.import_module(name)
    return names
