"""Kernels as machine code on disk: compiled by numba once, loaded from then on without it.

Importing numba takes half a second, and linking a kernel from its cache a few milliseconds more. So
what numba makes of a kernel is kept as an object file: `store` writes one, `load` maps it into
memory by llvmlite alone and gives back a function as a C extension would have it. Where that does
not work, for whatever reason, there is numba itself.

The function takes numpy arrays as they are. Around the code of a kernel there is an entry that
looks at its arguments (type, dimensions, contiguous, aligned, writable), takes data and shape out
of them, lets go of the interpreter lock and calls. What the kernel raises, it raises: exceptions of
kernels are constants, class and text.

A file is good for one build: its folder is named by a digest of the versions of Python, numpy,
numba and llvmlite, of the processor, and of what makes files; its name has a digest of the sources
of its kernel, with those of other files that it imports. It starts with a digest of what follows,
and is written beside its place and then moved there; files of earlier sources go. It is code, so it
is only taken from whoever could as well change the program: it must belong to this user, or to whom
Caladan's own files belong, and nobody else may write it.

Files are in NUMBA_CACHE_DIR if that is set, else beside the kernels, or in the user's cache where
no one may write there. With CALADAN_NATIVE=0 in the environment nothing of this is done.
"""

from __future__ import annotations

import builtins
import ctypes
import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar, cast

import numpy as np

T = TypeVar("T")

KERNELS: Final = Path(__file__).parent / "kernels"
ENABLED: Final = (
    os.environ.get("CALADAN_NATIVE", "1") != "0"
    and hasattr(os, "getuid")
    and KERNELS.is_dir()  # not so in a zip, from which executors may have the package
)

_OLDEST: Final = (0, 45)  # llvmlite whose pointers have no types
_DIGEST: Final = hashlib.sha256().digest_size
_MAKERS: Final = ("native.py", "object_code.py", "kernels/__init__.py")
_loading = Lock()


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def home() -> Path:
    """The user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "caladan"


def places() -> list[Path]:
    """Where folders with object files may be, the first choice first."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return [Path(given)] if given else [KERNELS / "__pycache__", home()]


def is_likely() -> bool:
    """Whether there seem to be object files: only with llvmlite can one be sure."""
    return ENABLED and any(any(place.glob("native-*")) for place in places())


def list_stored() -> set[str]:
    """The names of kernels that have a file."""
    if not is_likely() or not _is_usable():
        return set()
    found = {path.name for place in places() for path in (place / _folder()).glob("*.o")}
    return {name for each in found if each == _file(name := each.rpartition("-")[0])}


@cache
def sources(module: str | None = None) -> str:
    """A digest of what the kernels of a file are made of; without a name, of all."""
    found = hashlib.sha256()
    for name in (
        sorted(path.stem for path in KERNELS.glob("*.py")) if module is None else _with(module)
    ):
        found.update(name.encode() + b"\0" + (KERNELS / f"{name}.py").read_bytes())
    return found.hexdigest()


def _with(module: str) -> list[str]:
    """The files of kernels that one is compiled from, itself among them."""
    wanted, known = [module], list[str]()
    while wanted:
        path = KERNELS / f"{(name := wanted.pop())}.py"
        if name not in known and path.is_file():
            known.append(name)
            wanted += re.findall(
                r"^from caladan\.columns\.kernels\.(\w+) import", path.read_text(), re.M
            )
    return sorted(known)


def _file(name: str) -> str:
    """What the object file of a kernel is called, such as `sorted.merge`."""
    return f"{name}-{sources(name.partition('.')[0])[:16]}.o"


@cache
def _folder() -> str:
    from importlib.metadata import version

    import llvmlite
    import llvmlite.binding as llvm

    makers = (Path(__file__).parent / name for name in _MAKERS)
    build = (
        *(path.read_bytes() for path in makers), sys.version, np.__version__, version("numba"),
        llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(), str(object.__basicsize__),
    )  # fmt: skip
    return f"native-{hashlib.sha256(repr(build).encode()).hexdigest()[:16]}"


def _read(name: str) -> bytes | None:
    """The object file of a kernel; None if there is none that is whole and may be trusted."""
    for place in places():
        with suppress(OSError):
            path = place / _folder() / _file(name)
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                about = os.fstat(file.fileno())
                owners = (os.getuid(), KERNELS.stat().st_uid)
                if about.st_uid not in owners or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    continue
                content = file.read()
            if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                return content[_DIGEST:]
    return None


def _write(name: str, file_name: str, content: bytes) -> None:
    """Write a file at the first place where that is allowed, if there is one."""
    for place in places():
        with suppress(OSError):
            folder = place / _folder()
            folder.mkdir(0o755 if place.parent == KERNELS else 0o700, parents=True, exist_ok=True)
            number, path = tempfile.mkstemp(dir=folder)
            beside = Path(path)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(content)
                beside.chmod(0o644)
                beside.replace(folder / file_name)
                for old in folder.glob(f"{name}-*"):
                    if old.name != file_name:
                        old.unlink(missing_ok=True)
            except OSError:
                beside.unlink()
                raise
            return


# ── Loading ──────────────────────────────────────────────────────────────────────────────────────


class _Method(ctypes.Structure):
    """A PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


_METH_FASTCALL: Final = 0x80


def _immortal(each: T) -> T:
    """Something that stays until the process is gone.

    Functions point at their method and into the engine, and Python follows those pointers while it
    takes modules apart at its end, in an order of its own: whatever went first would be read freed.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    return each


@cache
def _is_usable() -> bool:
    """Whether llvmlite is there, and arrays look in memory as an entry takes them to."""
    try:
        from llvmlite import __version__ as version

        new = tuple(map(int, version.split(".")[:2])) >= _OLDEST
    except (ImportError, ValueError):
        return False
    probe = np.arange(6, dtype=np.uint64).reshape(2, 3)
    at, head = id(probe), object.__basicsize__
    word = ctypes.c_size_t.from_address
    return (
        new
        and sys.implementation.name == "cpython"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and word(at + head - 8).value == id(np.ndarray)
        and word(at + head).value == probe.ctypes.data
        and ctypes.c_int.from_address(at + head + 8).value == probe.ndim
        and [word(word(at + head + 16).value + 8 * d).value for d in (0, 1)] == [2, 3]
        and word(at + head + 40).value == id(probe.dtype)
        and ctypes.c_int.from_address(id(probe.dtype) + head + 12).value == probe.dtype.num
        and ctypes.c_int.from_address(at + head + 48).value == probe.flags.num
    )


@cache
def target() -> Any:
    """The processor that code is made for: this one."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if sys.platform != "darwin" and "86" in os.uname().machine else "default",
        codemodel="jitdefault",
        jit=True,
    )


def symbol(name: str) -> str:
    """What the entry of a kernel is called in its object file."""
    return f"caladan.{name}"


@cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    # Objects that entries name. Numba has names of its own for some, so ours have a colon.
    named = {name: each for name, each in vars(builtins).items() if isinstance(each, type)}
    for name, each in {**named, "None": None, "ndarray": np.ndarray}.items():
        llvm.add_symbol(f"caladan:{name}", id(each))
    return _immortal(llvm.create_mcjit_compiler(llvm.parse_assembly(""), target()))


def load(name: str) -> Callable[..., Any] | None:
    """A kernel from its file; None if there is none."""
    if not ENABLED or not is_likely() or not _is_usable():
        return None
    content = _read(name)
    if content is None:
        return None
    import llvmlite.binding as llvm

    with _loading:
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        engine.finalize_object()
        address = engine.get_function_address(symbol(name))
    if not address:
        return None
    method = _immortal(_Method(name.encode(), address, _METH_FASTCALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_Method), ctypes.c_void_p, ctypes.c_void_p]
    return cast("Callable[..., Any]", make(ctypes.byref(method), None, None))


# ── Storing ──────────────────────────────────────────────────────────────────────────────────────


def can_store(name: str) -> bool:
    """Whether what numba compiles a kernel to can be kept: else numba's own cache is of use."""
    if not ENABLED or not _is_usable():
        return False
    return not any((place / _folder() / _unable(name)).exists() for place in places())


def store(name: str, overloads: Mapping[Any, Any]) -> None:
    """Keep what numba compiled a kernel to, for each of its signatures."""
    from caladan.columns.object_code import Unable, object_code

    try:
        content = object_code(name, list(overloads.values()))
    except (Unable, RuntimeError) as reason:  # LLVM's own complaints are RuntimeErrors
        _write(name, _unable(name), str(reason).encode())
    else:
        _write(name, _file(name), hashlib.sha256(content).digest() + content)


def _unable(name: str) -> str:
    """The name of a file that stands for a kernel which has none."""
    return _file(name).replace(".o", ".unable")
