"""Modules: classes of collections and rules, which include and import one another.

    class KVS(Module):
        put = input("request", "key", to="value")
        state = table("key", to="value")

        @rules
        def store(self):
            self.state <<= self.put.project("key", "value")

A subclass includes its bases, and replaces a group of rules by one of the same name. `imports(M)`
as an attribute is a module of its own inside of this one, as often as it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any, TypeVar

from caladan.language.bloom.collections import Collection, LatticeCollection
from caladan.language.bloom.lattices import LBag, LBool, LMap, LMax, LMin, LPSet, LSet
from caladan.language.bloom.schema import CLOCK, CollectionKind, Columns, Recorder, Schema, schema
from caladan.language.bloom.streams import FactSource
from caladan.language.bloom.values import Lattice
from caladan.program.diagnostics import did_you_mean, error

M = TypeVar("M", bound="Module")
F = TypeVar("F", bound=Callable[..., None])


def rules(method: F) -> F:
    """A method that makes rules: a group of them, by its name."""
    method.bloom_part = "rules"  # type: ignore[attr-defined]
    return method


def bootstrap(method: F) -> F:
    """A method with facts that are there before the first tick."""
    method.bloom_part = "bootstrap"  # type: ignore[attr-defined]
    return method


def _declare(kind: CollectionKind, columns: tuple[str, ...], to: Columns | None) -> Collection:
    if not columns and to is None:
        return Collection(schema("", kind, ("key",), "val"))
    return Collection(schema("", kind, columns, to))


def table(*columns: str, to: Columns | None = None) -> Collection:
    """Facts that stay from tick to tick, until they are deleted."""
    return _declare(CollectionKind.TABLE, columns, to)


def scratch(*columns: str, to: Columns | None = None) -> Collection:
    """Facts of one tick."""
    return _declare(CollectionKind.SCRATCH, columns, to)


def temp(*columns: str, to: Columns | None = None) -> Collection:
    """A scratch that only gives a name to what a rule derives."""
    return _declare(CollectionKind.TEMP, columns, to)


def input(  # noqa: A001
    *columns: str, to: Columns | None = None
) -> Collection:
    """An interface through which facts come in, for one tick."""
    return _declare(CollectionKind.INPUT, columns, to)


def output(*columns: str, to: Columns | None = None) -> Collection:
    """An interface through which facts go out, of one tick."""
    return _declare(CollectionKind.OUTPUT, columns, to)


def channel(*columns: str, to: Columns | None = None) -> Collection:
    """Facts that are sent to the address in the column `@…`, the first if none is marked."""
    return _declare(CollectionKind.CHANNEL, columns or ("@address", "val"), to)


def loopback(*columns: str, to: Columns | None = None) -> Collection:
    """Facts that are sent to the instance itself, and arrive at a later tick."""
    return _declare(CollectionKind.LOOPBACK, columns, to)


def periodic(seconds: float) -> Collection:
    """A timer: a fact (number, time) in the tick after each period."""
    if seconds <= 0:
        raise error("C050", f"a period of {seconds} seconds never comes")
    return Collection(schema("", CollectionKind.PERIODIC, ("number",), "time", seconds))


def stdio() -> Collection:
    """Lines: those sent are written to standard output, those read arrive as facts."""
    return Collection(schema("", CollectionKind.STDIO, ("line",)))


def sync(*columns: str, to: Columns | None = None) -> Collection:
    """A table on disk, which is not here yet."""
    raise error(
        "C051",
        f"durable tables ({', '.join((*columns, *([] if to is None else [str(to)])))}) are not "
        "available yet",
        help="declare a table, and save what changes() returns after each tick",
    )


def like(other: Collection, kind: str = "scratch") -> Collection:
    """A collection with the columns, keys and lattices of another."""
    made = other.schema
    if kind not in ("table", "scratch", "temp", "input", "output"):
        raise error("C050", f"`{kind}` is not a kind of collection for like()")
    return Collection(Schema("", CollectionKind(kind), made.keys, made.values, made.lattices))


def lattice(of: type[Lattice]) -> LatticeCollection:
    """One value of a lattice, which stays from tick to tick and only grows."""
    return LatticeCollection(Schema("", CollectionKind.LATTICE, (), ("value",), {0: of}))


def lmax() -> LatticeCollection:
    """The largest value so far."""
    return lattice(LMax)


def lmin() -> LatticeCollection:
    """The smallest value so far."""
    return lattice(LMin)


def lbool() -> LatticeCollection:
    """False until it is true."""
    return lattice(LBool)


def lset() -> LatticeCollection:
    """A set that only grows."""
    return lattice(LSet)


def lpset() -> LatticeCollection:
    """A set of numbers that are not negative, which only grows."""
    return lattice(LPSet)


def lbag() -> LatticeCollection:
    """A multiset that only grows."""
    return lattice(LBag)


def lmap() -> LatticeCollection:
    """Keys with values of lattices."""
    return lattice(LMap)


class ModuleImport:
    """A module inside of another; `self.name.collection` reaches into it."""

    def __init__(self, module: type[Module]) -> None:
        self.module = module
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Module | None, owner: type | None = None) -> Any:
        return self if module is None else module.part_named(self.name)


def imports(module: type[M]) -> M:
    """A module under a name of its own, with its own state."""
    return ModuleImport(module)  # type: ignore[return-value]


class _ClassBody(dict[str, object]):
    """The names of a class, of which that of a collection stands for one thing."""

    def __setitem__(self, name: str, value: object) -> None:
        if isinstance(self.get(name), Collection | ModuleImport):
            raise error("C017", f"`{name}` is declared twice")
        super().__setitem__(name, value)


class ModuleType(type):
    """The type of modules, which finds collections that are declared twice."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **options: object) -> _ClassBody:
        return _ClassBody()


class _Halt:
    """`self.halt`: a collection that is declared once a rule uses it, one for all modules."""

    def __get__(self, module: Module | None, owner: type | None = None) -> Any:
        return self if module is None else module.collection_named("halt")

    def __set__(self, module: Module, value: object) -> None:
        """`self.halt |= …` has made its rule."""


class Module(metaclass=ModuleType):
    """What has collections and rules. Subclasses that are run extend `Bloom`."""

    halt = _Halt()
    """A scratch: `run()` ends after a tick in which it has facts."""

    def __init__(self, address: str = "") -> None:
        self._wire_up(Recorder(address), "")

    def _wire_up(self, recorder: Recorder, prefix: str) -> None:
        self._recorder = recorder
        self._prefix = prefix
        self._collections: dict[str, Collection] = {}
        self._parts: dict[str, Module] = {}
        if CLOCK not in recorder.schemas:
            recorder.declare(Schema(CLOCK, CollectionKind.CLOCK, (), ("tick", "time")))
        _check_names(type(self))
        for name, declared, _ in _attributes(type(self)):
            if isinstance(declared, ModuleImport):
                part = declared.module.__new__(declared.module)
                Module._wire_up(part, recorder, f"{prefix}{name}.")
                self._parts[name] = part
            elif isinstance(declared, Collection):
                self._collections[name] = declared.bound(recorder, prefix, name)
        for name, method, owner in _attributes(type(self)):
            part = getattr(method, "bloom_part", None) if isinstance(method, FunctionType) else None
            if part is None:
                continue
            recorder.group = f"{prefix}{name}"
            recorder.author = (prefix, owner)
            recorder.is_booting = part == "bootstrap"
            try:
                method(self)  # type: ignore[operator]
                recorder.check_read()
            finally:
                recorder.group = None
                recorder.is_booting = False

    @property
    def address(self) -> str:
        """Where channels of others find the instance, for rules that send to it or tell it."""
        return self._recorder.address

    @property
    def recorder(self) -> Recorder:
        """Where the rules of this module are written down."""
        return self._recorder

    def collection_named(self, name: str) -> Collection:
        if name == "halt" and name not in self._collections:
            halt = Collection(schema(name, CollectionKind.SCRATCH))
            self._collections[name] = halt.bound(self._recorder, "", name)
        return self._collections[name]

    def part_named(self, name: str) -> Module:
        return self._parts[name]

    def temp(self, name: str, *columns: str | FactSource, to: Columns | None = None) -> Collection:
        """A collection that a rule declares where it stands: `t = self.temp("t", "a", "b")`.

        With a stream, `self.temp("t", stream)`, it has its columns and takes its facts.
        """
        streams = [each for each in columns if isinstance(each, FactSource)]
        names = [each for each in columns if isinstance(each, str)]
        if streams and not names:
            names = list(streams[0].query().names())
        recorder, full = self._recorder, f"{self._prefix}{name}"
        if full in recorder.schemas or name in self._parts:
            raise error("C017", f"`{full}` is declared twice", recorder.here())
        made = Collection(schema(name, CollectionKind.TEMP, names or ("key",), to))
        bound = made.bound(recorder, self._prefix, name)
        for stream in streams:
            bound.now(stream)
        return bound


def _attributes(owner: type) -> Iterator[tuple[str, object, type]]:
    """What a class and its bases define, each with where; a subclass's own takes its place."""
    found: dict[str, tuple[object, type]] = {}
    for each in reversed(owner.__mro__):
        found.update((name, (value, each)) for name, value in vars(each).items())
    for name, (value, where) in found.items():
        yield name, value, where


_RESERVED: set[str] = {CLOCK, "halt"}


def _check_names(owner: type) -> None:
    """C050 for a collection that a method hides, or would be hidden by."""
    for each in owner.__mro__:
        for name, value in vars(each).items():
            if name in _RESERVED and isinstance(value, Collection):
                raise error(
                    "C050",
                    f"`{name}` of {owner.__name__} cannot be the name of a collection: "
                    "instances have a method of that name",
                )


def reserve(owner: type) -> None:
    """Names that no collection may have: those of the methods of a class."""
    _RESERVED.update(name for name in dir(owner) if not name.startswith("_"))


def unknown(name: str, known: Iterable[str]) -> Exception:
    """C010 for a collection that is not there."""
    names = list(known)
    return error(
        "C010",
        f"there is no collection `{name}`",
        help=did_you_mean(str(name), names) or f"the collections are {', '.join(names)}",
    )
