"""What numba made of a kernel as an object file that does without numba.

Numba's function takes arrays apart: reference counts, which ours have not, items, data, shape and
strides, each a parameter; it leaves its result and its exception in memory, and returns a status.
The object has an entry around it that Python calls as it calls functions of C. Numba's own
wrappers, which need numba at run time, are left out. A kernel with several signatures has an entry
for each; the first one whose arguments these are is it.

Objects that entries name, such as classes of exceptions, are symbols `caladan:NAME`, which
native.py tells llvmlite.
"""

from __future__ import annotations

import pickletools
import re
from typing import Any, Final, cast

import numpy as np

from caladan.columns.native import symbol, target


class Unable(Exception):
    """A kernel has something that an object file cannot hold."""


def object_code(name: str, overloads: list[Any]) -> bytes:
    """The object file: an entry that tries the signatures in turn, each a module of its own."""
    import llvmlite.binding as llvm

    entry = symbol(name)
    module = llvm.parse_assembly(_choice(name, len(overloads)))
    for number, each in enumerate(overloads):
        text = each.library.get_llvm_str()
        text = _RUNTIME.sub("", text) + _MEMORY + _entry(f"{entry}.{number}", each, text)
        part = llvm.parse_assembly(text)
        _hide(part, f"{entry}.{number}")
        module.link_in(part)
    _hide(module, entry)
    builder = llvm.create_pass_builder(target(), llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    outside = {f.name for f in module.functions if f.is_declaration}
    if unknown := {n for n in outside if not n.startswith("llvm.")} - _OUTSIDE:
        raise Unable(f"{name} calls {', '.join(sorted(unknown))}")
    return cast("bytes", target().emit_object(module))


def _hide(module: Any, entry: str) -> None:
    """Let nothing be seen from outside of a module but its entry, and what nobody calls go."""
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name != entry:
            each.linkage = "internal"


# What entries call, and kernels may. The rest is numba's, which is not there when they are loaded.
_CALLED: Final = {
    "PyErr_Occurred": "ptr ()",
    "PyErr_SetString": "void (ptr, ptr)",
    "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyFloat_AsDouble": "double (ptr)",
    "PyLong_AsUnsignedLongLongMask": "i64 (ptr)",
    "PyLong_FromLongLong": "ptr (i64)",
    "PyLong_FromUnsignedLongLong": "ptr (i64)",
    "PyObject_IsTrue": "i32 (ptr)",
    "PyTuple_GetItem": "ptr (ptr, i64)",
    "PyTuple_Size": "i64 (ptr)",
    "PyType_IsSubtype": "i32 (ptr, ptr)",
    "Py_IncRef": "void (ptr)",
    "free": "void (ptr)",
    "malloc": "ptr (i64)",
}
_OUTSIDE: Final = {*_CALLED, "memcpy", "memmove", "memset"}


def _declare(text: str) -> str:
    """Declarations of what entries call, but for those that a module has."""
    return "\n".join(
        f"declare {kind.replace(' (', f' @{name}(')}"
        for name, kind in _CALLED.items()
        if f"@{name}(" not in text
    )


# The memory of arrays that a kernel makes: a header as numba's code knows it, a count of references
# first, the address of the data at 24 and its size at 32. The rest of the header is not looked at.
_RUNTIME: Final = re.compile(
    r"^declare .*@NRT_MemInfo_(alloc_aligned|call_dtor)\(.*$", re.MULTILINE
)
_MEMORY: Final = """
define internal ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %bytes = add i64 %size, 112
  %header = call ptr @malloc(i64 %bytes)
  %failed = icmp eq ptr %header, null
  br i1 %failed, label %end, label %made
made:
  %address = ptrtoint ptr %header to i64
  %behind = add i64 %address, 111
  %aligned = and i64 %behind, -64
  %data = inttoptr i64 %aligned to ptr
  %data.at = getelementptr i8, ptr %header, i64 24
  %size.at = getelementptr i8, ptr %header, i64 32
  store i64 1, ptr %header
  store ptr %data, ptr %data.at
  store i64 %size, ptr %size.at
  br label %end
end:
  ret ptr %header
}
define internal void @NRT_MemInfo_call_dtor(ptr %header) {
  call void @free(ptr %header)
  ret void
}
"""
_HEAD: Final = object.__basicsize__
_PYTHON: Final = f"""
@"caladan:None" = external global i8
@"caladan:ndarray" = external global i8
define internal i1 @caladan.is_array(ptr %array, i32 %nd, i32 %one, i32 %other) {{
  %own.at = getelementptr i8, ptr %array, i64 {_HEAD - 8}
  %own = load ptr, ptr %own.at
  %is = call i32 @PyType_IsSubtype(ptr %own, ptr @"caladan:ndarray")
  %no = icmp eq i32 %is, 0
  br i1 %no, label %different, label %array_at_least
array_at_least:
  %nd.at = getelementptr i8, ptr %array, i64 {_HEAD + 8}
  %descr.at = getelementptr i8, ptr %array, i64 {_HEAD + 40}
  %flags.at = getelementptr i8, ptr %array, i64 {_HEAD + 48}
  %own.nd = load i32, ptr %nd.at
  %descr = load ptr, ptr %descr.at
  %flags = load i32, ptr %flags.at
  %number.at = getelementptr i8, ptr %descr, i64 {_HEAD + 12}
  %number = load i32, ptr %number.at
  %nd.same = icmp eq i32 %own.nd, %nd
  %is.one = icmp eq i32 %number, %one
  %is.other = icmp eq i32 %number, %other
  %number.same = or i1 %is.one, %is.other
  %wanted = and i32 %flags, {0x501}
  %flags.same = icmp eq i32 %wanted, {0x501}
  %both = and i1 %nd.same, %number.same
  %all = and i1 %both, %flags.same
  ret i1 %all
different:
  ret i1 false
}}
"""


def _choice(name: str, overloads: int) -> str:
    """The function that Python calls: the first entry whose arguments these are."""
    text = f"kernel {name} does not take these arguments"
    lines = [
        f'@text = internal constant [{len(text) + 1} x i8] c"{text}\\00"',
        '@"caladan:TypeError" = external global i8',
        "declare void @PyErr_SetString(ptr, ptr)",
        *(f'declare ptr @"{symbol(name)}.{n}"(ptr, ptr, i64)' for n in range(overloads)),
        f'define ptr @"{symbol(name)}"(ptr %self, ptr %arguments, i64 %count) {{',
    ]
    for n in range(overloads):
        lines += [
            f'  %r{n} = call ptr @"{symbol(name)}.{n}"(ptr %self, ptr %arguments, i64 %count)',
            f"  %u{n} = icmp eq ptr %r{n}, inttoptr (i64 1 to ptr)",
            f"  br i1 %u{n}, label %next{n}, label %done{n}",
            f"done{n}:",
            f"  ret ptr %r{n}",
            f"next{n}:",
        ]
    return "\n".join([
        *lines,
        '  call void @PyErr_SetString(ptr @"caladan:TypeError", ptr @text)',
        "  ret ptr null",
        "}",
    ])  # fmt: skip


def _entry(symbol: str, compiled: Any, text: str) -> str:
    """An entry for one signature; it returns 1 where the arguments are not of that kind."""
    entry = _Entry()
    entry.count(len(compiled.signature.args))
    for number, each in enumerate(compiled.signature.args):
        entry.argument(
            each, entry.loaded(f"getelementptr ptr, ptr %arguments, i64 {number}", "ptr")
        )
    result = entry.call(compiled.fndesc.llvm_func_name, compiled.signature.return_type)
    errors, raising = _write_raise(text)
    body = "\n".join(entry.lines)
    return f"""
{_PYTHON}
{errors}
{_declare(text)}
define ptr @"{symbol}"(ptr %self, ptr %arguments, i64 %count) {{
  %returned = alloca i64
  %raised = alloca ptr
  store ptr null, ptr %raised
{body}
fine:
{result}
otherwise:
  %exception = load ptr, ptr %raised
{raising}
different:
  ret ptr inttoptr (i64 1 to ptr)
failed:
  ret ptr null
}}
"""


class _Entry:
    """The lines of an entry, as they come."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._values = 0
        self._passed: list[str] = []

    def value(self, instruction: str) -> str:
        """What an instruction leaves."""
        self._values += 1
        self.lines.append(f"  %v{self._values} = {instruction}")
        return f"%v{self._values}"

    def loaded(self, address: str, kind: str) -> str:
        """What stands at an address."""
        return self.value(f"load {kind}, ptr {self.value(address)}")

    def require(self, condition: str, otherwise: str = "different") -> None:
        """Go on if something holds."""
        label = f"on{len(self.lines)}"
        self.lines += [f"  br i1 {condition}, label %{label}, label %{otherwise}", f"{label}:"]

    def count(self, arguments: int) -> None:
        self.require(self.value(f"icmp eq i64 %count, {arguments}"))

    def argument(self, kind: Any, given: str) -> None:
        """Take an argument apart, as numba passes it."""
        from numba.core import types as numba_types

        types: Any = numba_types

        if isinstance(kind, types.Array):
            self._array(kind, given)
        elif isinstance(kind, types.UniTuple):
            size = self.value(f"call i64 @PyTuple_Size(ptr {given})")
            self.require(self.value(f"icmp eq i64 {size}, {kind.count}"))
            for n in range(kind.count):
                part = self.value(f"call ptr @PyTuple_GetItem(ptr {given}, i64 {n})")
                self.argument(kind.dtype, part)
        elif isinstance(kind, types.Integer):
            word = self.value(f"call i64 @PyLong_AsUnsignedLongLongMask(ptr {given})")
            self._unless_failed(self.value(f"icmp ne i64 {word}, -1"))
            if kind.bitwidth < 64:
                word = self.value(f"trunc i64 {word} to i{kind.bitwidth}")
            self._passed.append(f"i{kind.bitwidth} {word}")
        elif kind == types.boolean:
            truth = self.value(f"call i32 @PyObject_IsTrue(ptr {given})")
            self.require(self.value(f"icmp sge i32 {truth}, 0"), "failed")
            self._passed.append(f"i8 {self.value(f'trunc i32 {truth} to i8')}")
        elif kind == types.float64:
            number = self.value(f"call double @PyFloat_AsDouble(ptr {given})")
            self._unless_failed(self.value(f"fcmp une double {number}, -1.0"))
            self._passed.append(f"double {number}")
        else:
            raise Unable(f"an argument is {kind}")

    def _array(self, kind: Any, given: str) -> None:
        from numba.np.numpy_support import as_dtype

        if kind.layout != "C":
            raise Unable(f"an argument is {kind}")
        dtype = as_dtype(kind.dtype)
        numbers = [n for n in map(np.dtype, np.typecodes["All"]) if n == dtype]
        one, *others = {each.num for each in numbers} or {dtype.num}
        other = others[0] if others else one
        self.require(
            self.value(
                f"call i1 @caladan.is_array(ptr {given}, i32 {kind.ndim}, i32 {one}, i32 {other})"
            )
        )
        data = self.loaded(f"getelementptr i8, ptr {given}, i64 {_HEAD}", "ptr")
        shape = self.loaded(f"getelementptr i8, ptr {given}, i64 {_HEAD + 16}", "ptr")
        sizes = [
            self.loaded(f"getelementptr i64, ptr {shape}, i64 {d}", "i64") for d in range(kind.ndim)
        ]
        stride, strides = str(dtype.itemsize), list[str]()
        for size in reversed(sizes):
            strides.insert(0, stride)
            stride = self.value(f"mul i64 {stride}, {size}")
        items = sizes[0]
        for size in sizes[1:]:
            items = self.value(f"mul i64 {items}, {size}")
        self._passed += ["ptr null", "ptr null", f"i64 {items}", f"i64 {dtype.itemsize}"]
        self._passed += [f"ptr {data}", *(f"i64 {each}" for each in (*sizes, *strides))]

    def _unless_failed(self, sure: str) -> None:
        """Go on unless Python could not convert an argument."""
        here = len(self.lines)
        self.lines += [f"  br i1 {sure}, label %sure{here}, label %asked{here}", f"asked{here}:"]
        error = self.value("call ptr @PyErr_Occurred()")
        fine = self.value(f"icmp eq ptr {error}, null")
        self.lines += [f"  br i1 {fine}, label %sure{here}, label %failed", f"sure{here}:"]

    def call(self, function: str, result: Any) -> str:
        """Call the kernel without the interpreter lock; the lines that return its result."""
        from numba.core import types as numba_types

        types: Any = numba_types

        passed = ", ".join(["ptr %returned", "ptr %raised", *self._passed])
        thread = self.value("call ptr @PyEval_SaveThread()")
        status = self.value(f'call i32 @"{function}"({passed})')
        self.lines.append(f"  call void @PyEval_RestoreThread(ptr {thread})")
        fine = self.value(f"icmp eq i32 {status}, 0")
        none = self.value(f"icmp eq i32 {status}, -2")
        either = self.value(f"or i1 {fine}, {none}")
        self.lines.append(f"  br i1 {either}, label %fine, label %otherwise")
        if result == types.none:
            return '  call void @Py_IncRef(ptr @"caladan:None")\n  ret ptr @"caladan:None"'
        if not isinstance(result, types.Integer):
            raise Unable(f"the result is {result}")
        sign, extend = ("", "sext") if result.signed else ("Unsigned", "zext")
        lines = [f"  %result = load i{result.bitwidth}, ptr %returned"]
        if result.bitwidth < 64:
            lines.append(f"  %wide = {extend} i{result.bitwidth} %result to i64")
        wide = "%wide" if result.bitwidth < 64 else "%result"
        lines.append(f"  %boxed = call ptr @PyLong_From{sign}LongLong(i64 {wide})")
        return "\n".join([*lines, "  ret ptr %boxed"])


_ESCAPED: Final = re.compile(rb"\\(?:\\|([0-9A-F]{2}))")
_PICKLED: Final = re.compile(r'^@\.const\.pickledata\.(\w+) = .* c"(.*)"', re.MULTILINE)


def _write_raise(text: str) -> tuple[str, str]:
    """Constants and lines that raise whichever of a module's exceptions it was."""
    constants, lines, known = list[str](), list[str](), {"SystemError"}
    for n, found in enumerate(_PICKLED.finditer(text)):
        data = _ESCAPED.sub(lambda m: bytes([int(m[1], 16)]) if m[1] else b"\\", found[2].encode())
        words = [arg for _, arg, _ in pickletools.genops(data) if isinstance(arg, str)]
        if words[0] != "builtins" or len(words) > 5:
            raise Unable("an exception is not a plain one")
        kind = words[1]
        # Behind the class there is what it says, if it says something, and perhaps two words more
        # for where it is raised.
        message = words[2] if len(words) in (3, 5) else ""
        said = "".join(f"\\{byte:02X}" for byte in message.encode())
        size = len(message.encode()) + 1
        constants.append(f'@caladan.said{n} = internal constant [{size} x i8] c"{said}\\00"')
        known.add(kind)
        lines += [
            f"  %is{n} = icmp eq ptr %exception, @.const.picklebuf.{found[1]}",
            f"  br i1 %is{n}, label %raise{n}, label %not{n}",
            f"raise{n}:",
            f'  call void @PyErr_SetString(ptr @"caladan:{kind}", ptr @caladan.said{n})',
            "  ret ptr null",
            f"not{n}:",
        ]
    constants += [f'@"caladan:{kind}" = external global i8' for kind in known]
    constants.append('@caladan.failed = internal constant [16 x i8] c"a kernel failed\\00"')
    lines += [
        '  call void @PyErr_SetString(ptr @"caladan:SystemError", ptr @caladan.failed)',
        "  ret ptr null",
    ]
    return "\n".join(constants), "\n".join(lines)
