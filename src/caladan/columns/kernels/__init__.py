"""Kernels: the loops that numpy has no word for, compiled by numba, one theme a file.

`kernel(signature)` is how each is declared: compiled for exactly that signature, without the
interpreter lock, so that threads run side by side. Arrays are C-contiguous and of few types: u64
keys, u32 words, i64 bounds, u64 bits. A kernel may call any `helper` and any other kernel.

Numba is only the compiler: what it makes of a kernel is kept as an object file (columns/native.py),
which later processes load without it. A kernel is loaded, or compiled, when it is first called, and
not before that is worth it: numba takes half a second and llvmlite, which loads object files, a
twentieth, in which Python goes through a small program by itself. So kernels run as the plain
Python that they are until they have been handed `worth_numba` array elements in all, or
`worth_native` where there are object files. They name their types by numpy (`from numpy import
uint64 as u8`), which means the same either way but for a scalar below zero: Python's own has to
become an int64 before it wraps around to a uint64. A file that needs an `instruction`, which Python
has no word for, is always compiled.

With CALADAN_BOUNDS=1 in the environment every index is checked against its bounds; those builds are
numba's own, with a cache of their own. With CALADAN_INTERPRET=1 kernels stay plain Python for as
long as nothing is loaded. Both are for tests.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from caladan.columns import native
from caladan.program import thresholds
from caladan.program.events import KernelCompiled, KernelCompiling, Listener

F = TypeVar("F", bound=Callable[..., Any])
Signature: TypeAlias = str | list[str] | tuple[str | np.dtype[Any], ...]

BOUNDED: Final = os.environ.get("CALADAN_BOUNDS", "") not in ("", "0")
INTERPRETED: Final = os.environ.get("CALADAN_INTERPRET", "") not in ("", "0")
_ALLOCATING: Final = frozenset({"empty", "zeros", "full"})
_compiling = RLock()  # a kernel calls others
_listeners: list[Listener] = []


def kernel(signature: Signature) -> Callable[[F], F]:
    """Compile a function for a signature such as `"i8(u8[::1], u8[::1])"` when it is needed."""
    return lambda function: cast("F", Kernel(function, signature))


def helper(function: F) -> F:
    """A small function for kernels; it is compiled into its callers."""
    return cast("F", Kernel(function, None))


def instruction(types: str, generate: Callable[[Any, Any], Any]) -> Any:
    """A machine instruction for kernels, as `generate` writes it with a builder of llvmlite."""
    return Instruction(types, generate)


def is_loaded() -> bool:
    """Whether the first kernel is loaded: another one is then there in no time."""
    return Kernel.loaded or "numba" in sys.modules


@contextmanager
def compilations(listener: Listener) -> Generator[None]:
    """Tell a listener of each kernel that has to be compiled meanwhile, by whichever thread."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


class Instruction:
    """What has no meaning but as machine code."""

    def __init__(self, types: str, generate: Callable[[Any, Any], Any]) -> None:
        self._types = types
        self._generate = generate
        self._dispatcher: Any = None

    def dispatcher(self) -> Any:
        """The instruction as numba has it."""
        if self._dispatcher is None:
            from numba.core.sigutils import normalize_signature
            from numba.extending import intrinsic

            arguments, result = cast("Any", normalize_signature(self._types))

            def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
                return self._generate(builder, given)

            def of_one(_context: Any, _word: Any) -> Any:
                return result(*arguments), generate

            def of_two(_context: Any, _left: Any, _right: Any) -> Any:
                return result(*arguments), generate

            typed = {1: of_one, 2: of_two}[len(arguments)]  # numba counts their parameters
            self._dispatcher = intrinsic(typed)
        return self._dispatcher


class Kernel:
    """A function that is compiled when that pays; until then it is what it says in Python."""

    elements = 0  # that kernels were handed as plain Python, all together
    loaded = False  # whether some kernel is
    known: Final[dict[Any, Kernel]] = {}  # by what stands for them in their modules

    def __init__(self, function: Callable[..., Any], signature: Signature | None) -> None:
        self.function = function
        self._signature = signature
        self._compiled: Callable[..., Any] | None = None
        self._dispatcher: Any = None
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            return self._compiled(*arguments)
        if self._is_small(arguments):
            with np.errstate(over="ignore"):  # hashes overflow, as they should
                return self.function(*arguments)
        return self.compiled()(*arguments)

    @property
    def name(self) -> str:
        """The file and the function."""
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    @property
    def is_kernel(self) -> bool:
        """Whether it is compiled by itself; a helper is part of its callers."""
        return self._signature is not None

    def compiled(self) -> Callable[..., Any]:
        """The compiled function, from its object file if it has one.

        It takes this one's place in its module.
        """
        with _compiling:
            if self._compiled is None:
                found = None
                if self.is_kernel and not BOUNDED and self._dispatcher is None:
                    found = native.load(self.name)
                self._stands(found or self.dispatcher())
                Kernel.loaded = True
            return cast("Callable[..., Any]", self._compiled)

    def dispatcher(self) -> Any:
        """The function as numba compiles it; what it calls is numba's as well."""
        with _compiling:
            if self._dispatcher is None:
                for names, name, callee in self._callees():
                    names[name] = callee.dispatcher()
                started = time.perf_counter()
                self._tell(KernelCompiling(self.name))
                self._dispatcher = self._made()
                self._stands(self._dispatcher)
                if self.is_kernel and not BOUNDED and native.can_store(self.name):
                    native.store(self.name, self._dispatcher.overloads)
                self._tell(KernelCompiled(self.name, time.perf_counter() - started))
            return self._dispatcher

    def _tell(self, event: KernelCompiling | KernelCompiled) -> None:
        for each in tuple(_listeners) if self.is_kernel else ():
            each.tell(event)

    def _stands(self, compiled: Any) -> None:
        self._compiled = compiled
        Kernel.known[compiled] = self
        self.function.__globals__[self.function.__name__] = compiled

    def _callees(self) -> Iterator[tuple[dict[str, Any], str, Kernel | Instruction]]:
        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            callee = names.get(name)
            if not isinstance(callee, Kernel | Instruction):
                callee = Kernel.known.get(callee) if callable(callee) else None
            if callee is not None:
                yield names, name, callee

    def _made(self) -> Any:
        import numba

        options = {
            "nogil": True,
            # What has an object file needs no other one.
            "cache": BOUNDED or not native.can_store(self.name),
            "boundscheck": BOUNDED,
            # Division by zero gives inf or 0 instead of raising: no kernel divides by what data
            # brings.
            "error_model": "numpy",
            "forceinline": not self.is_kernel,
            # Counting references to arrays takes as long as small kernels do. Only those that make
            # arrays of their own need it.
            "_nrt": not _ALLOCATING.isdisjoint(self.function.__code__.co_names),
        }
        compile_ = cast("Any", numba.njit)(_parse_signature(self._signature), **options)
        if not options["cache"]:
            return compile_(self.function)
        from numba.core import config

        # Numba renews what it has of a kernel when the kernel's own file changes; with helpers of
        # other files that is not enough, so its cache has a folder for each state of all files.
        settings = cast("Any", config)
        before, settings.CACHE_DIR = settings.CACHE_DIR, str(numba_cache())
        try:
            return compile_(self.function)
        finally:
            settings.CACHE_DIR = before

    def _is_small(self, arguments: tuple[Any, ...]) -> bool:
        """Whether to go on without compiled kernels; who has loaded one already need not."""
        if BOUNDED or is_loaded() or self._is_beyond_python():
            return False
        if self.is_kernel:  # a helper is part of its caller
            Kernel.elements += sum(a.size for a in arguments if isinstance(a, np.ndarray))
        if INTERPRETED:
            return True
        chosen = thresholds.now
        if Kernel.elements < chosen.worth_native:
            return True
        return Kernel.elements < chosen.worth_numba and not native.is_likely()

    def _is_beyond_python(self) -> bool:
        """Whether its file has instructions in it."""
        return any(isinstance(each, Instruction) for each in self.function.__globals__.values())


def _parse_signature(signature: Signature | None) -> Any:
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


def numba_cache() -> Path:
    """Where numba itself keeps kernels, where there are no object files."""
    place = os.environ.get("NUMBA_CACHE_DIR")
    build = f"{'bounded' if BOUNDED else 'numba'}-{native.sources()[:16]}"
    return (Path(place) if place else native.home()) / build
