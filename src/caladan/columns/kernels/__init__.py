"""Kernels: the loops that numpy has no word for, compiled by numba, one theme a file.

`kernel(signature)` is how each is declared: compiled for exactly that signature (from numba's cache
when it can be), without the interpreter lock, so that threads run side by side. Arrays are
C-contiguous and of few types: u64 keys, u32 words, i64 bounds, u64 bits.

A kernel is compiled when it is first called, and not before numba is worth loading: that takes half
a second, in which Python goes through a small program by itself. So kernels run as the plain Python
that they are until they have been handed `worth_numba` array elements in all. They name their
types by numpy (`from numpy import uint64 as u8`), which means the same either way but for a scalar
below zero: Python's own has to become an int64 before it wraps around to a uint64. A file that
needs more of numba imports it, and from then on everything is compiled.

With CALADAN_BOUNDS=1 in the environment every index is checked against its bounds; those builds
have a cache of their own, for numba does not tell them apart. With CALADAN_INTERPRET=1 kernels
stay plain Python for as long as nobody imports numba. Both are for tests.

A kernel's cache is renewed when its own file changes. So kernels call only kernels of their own
file, and every `helper` in it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from caladan.program import thresholds

F = TypeVar("F", bound=Callable[..., Any])
Signature: TypeAlias = str | list[str] | tuple[str | np.dtype[Any], ...]

BOUNDED: Final = os.environ.get("CALADAN_BOUNDS", "") not in ("", "0")
INTERPRETED: Final = os.environ.get("CALADAN_INTERPRET", "") not in ("", "0")
_ALLOCATING: Final = frozenset({"empty", "zeros", "full"})
_compiling = RLock()  # a kernel calls others


def kernel(signature: Signature) -> Callable[[F], F]:
    """Compile a function for a signature such as `"i8(u8[::1], u8[::1])"` when it is needed."""
    return lambda function: cast("F", Kernel(function, signature))


def helper(function: F) -> F:
    """A small function for kernels of the same file; it is compiled into its callers."""
    return cast("F", Kernel(function, None))


def is_loaded() -> bool:
    """Whether numba is there: then kernels are compiled at their first call."""
    return "numba" in sys.modules


class Kernel:
    """A function that is compiled when that pays; until then it is what it says in Python."""

    elements = 0  # that kernels were handed as plain Python, all together

    def __init__(self, function: Callable[..., Any], signature: Signature | None) -> None:
        self.function = function
        self._signature = signature
        self._compiled: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None and self._is_small(arguments):
            with np.errstate(over="ignore"):  # hashes overflow, as they should
                return self.function(*arguments)
        return self.compiled()(*arguments)

    @property
    def is_kernel(self) -> bool:
        """Whether it is compiled by itself; a helper is part of its callers."""
        return self._signature is not None

    def compiled(self) -> Callable[..., Any]:
        """The compiled function. It takes this one's place in its module, and so do its callees."""
        with _compiling:
            if self._compiled is None:
                names = self.function.__globals__
                for name in self.function.__code__.co_names:
                    if isinstance(callee := names.get(name), Kernel):
                        callee.compiled()
                self._compiled = self._made()
                names[self.function.__name__] = self._compiled
            return self._compiled

    def _made(self) -> Callable[..., Any]:
        import numba

        options = {
            **_options(),
            "forceinline": not self.is_kernel,
            # Counting references to arrays takes as long as small kernels do. Only those that make
            # arrays of their own need it.
            "_nrt": not _ALLOCATING.isdisjoint(self.function.__code__.co_names),
        }
        return cast("Any", numba.njit)(_typed(self._signature), **options)(self.function)

    def _is_small(self, arguments: tuple[Any, ...]) -> bool:
        """Whether to go on without numba; who has loaded it already need not."""
        if is_loaded() or BOUNDED:
            return False
        if self._signature is not None:  # a helper is part of its caller
            Kernel.elements += sum(a.size for a in arguments if isinstance(a, np.ndarray))
        return INTERPRETED or Kernel.elements < thresholds.now.worth_numba


def _typed(signature: Signature | None) -> Any:
    """A signature as numba has it."""
    if not isinstance(signature, tuple):
        return signature
    from numba import from_dtype
    from numba.core.sigutils import normalize_signature

    result, *arguments = [
        from_dtype(each)[::1] if isinstance(each, np.dtype) else normalize_signature(f"{each}()")[1]
        for each in signature
    ]
    return cast("Any", result)(*arguments)


def bounded_cache() -> Path:
    """Where kernels that check their indices are kept."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return home / "caladan" / "bounded"


def _options() -> dict[str, Any]:
    if BOUNDED:
        from numba.core import config

        config.CACHE_DIR = str(bounded_cache())  # pyright: ignore[reportAttributeAccessIssue]
    return {
        "nogil": True,
        "cache": True,
        "boundscheck": BOUNDED,
        # Division by zero gives inf or 0 instead of raising: no kernel divides by what data brings.
        "error_model": "numpy",
    }
