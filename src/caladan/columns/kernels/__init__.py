"""Kernels: the loops that numpy has no word for, compiled by numba, one theme a file.

`kernel(signature)` is how each is declared: compiled for exactly that signature when its module is
imported (from numba's cache when it can be), without the interpreter lock, so that threads run
side by side. Arrays are C-contiguous and of few types: u64 keys, u32 words, i64 bounds, u64 bits.

With CALADAN_CHECK=1 in the environment every index is checked against its bounds; those builds
have a cache of their own, for numba does not tell them apart.

A kernel's cache is renewed when its own file changes. So kernels call only kernels of their own
file, and every `helper` in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import config as numba_config

F = TypeVar("F", bound=Callable[..., Any])

CHECKED: Final = os.environ.get("CALADAN_CHECK", "") not in ("", "0")

if CHECKED:
    _HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    numba_config.CACHE_DIR = str(_HOME / "caladan" / "checked")  # pyright: ignore[reportAttributeAccessIssue]


def kernel(signature: str | list[str]) -> Callable[[F], F]:
    """Compile a function for a signature such as `"i8(u8[::1], u8[::1])"`."""
    return cast("Callable[[F], F]", numba.njit(signature, **_OPTIONS))


def helper(function: F) -> F:
    """A small function for kernels of the same file; it is compiled into its callers."""
    return cast("F", numba.njit(**_OPTIONS)(function))


_OPTIONS: Final[dict[str, Any]] = {
    "nogil": True,
    "cache": True,
    "boundscheck": CHECKED,
    # Division by zero gives inf or 0 instead of raising: no kernel divides by what data brings.
    "error_model": "numpy",
}
