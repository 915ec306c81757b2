"""Lists and structs as bytes that are equal, and in order, where the values are.

    packed((3, 1), list_of(Type.LONG))      of lists the one with the lesser first element is less
    unpacked(bytes)                         (3, 1), whatever type it was packed as

Engines have the bytes: so a list joins, groups and sorts as binary data does, in this process, on
Spark, and on its way between them. What an element is stands before it, so bytes need no type to be
read; and as whole numbers of every width look alike, `list<integer>` meets `list<long>`. A struct
has the names of its fields in front.

In Python a list is a tuple and a struct a `Struct`, so that rows can be hashed.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

from caladan.program.types import Kind, Type

_END, _MISSING = 0, 1
_KINDS: Final = (
    Kind.INTEGER, Kind.FLOAT, Kind.STRING, Kind.BOOLEAN, Kind.DATETIME, Kind.DATE, Kind.INTERVAL,
    Kind.DECIMAL, Kind.BINARY, Kind.LIST, Kind.STRUCT,
)  # fmt: skip
_TAGS: Final = {kind: place for place, kind in enumerate(_KINDS, 2)}
_LIST, _STRUCT = _TAGS[Kind.LIST], _TAGS[Kind.STRUCT]
_SIGN: Final = 1 << 63
_MASK: Final = (1 << 63) - 1
_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_SCALE: Final = 38  # digits after the point, of decimals of every width
_WIDE: Final = Context(prec=4 * _SCALE, rounding=ROUND_HALF_EVEN)
_BYTES: Final = 33  # of a decimal


class Packed(bytes):
    """A list or a struct as bytes, with its type."""

    type: Type

    def __new__(cls, data: bytes, type: Type) -> Packed:
        made = super().__new__(cls, data)
        made.type = type
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (bytes(self), self.type)


class Struct(tuple[Any, ...]):  # noqa: SLOT001 - a tuple with slots can have no names
    """The values of a struct's fields: a tuple that knows their names.

    >>> city = Struct(("name", "zip"), ("Arrakeen", 10191))
    >>> city.name, city["zip"], city == ("Arrakeen", 10191), city
    ('Arrakeen', 10191, True, {'name': 'Arrakeen', 'zip': 10191})
    """

    names: tuple[str, ...]

    def __new__(cls, names: Sequence[str], values: Iterable[Any]) -> Struct:
        made = super().__new__(cls, values)
        made.names = tuple(names)
        return made

    def asdict(self) -> dict[str, Any]:
        """The values by the names of their fields."""
        return dict(zip(self.names, self, strict=True))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.__dict__.get("names", ()):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            if place not in self.names:
                raise KeyError(place)
            return tuple.__getitem__(self, self.names.index(place))
        return super().__getitem__(place)

    def __repr__(self) -> str:
        return repr(self.asdict())

    def __reduce__(self) -> tuple[Any, ...]:
        return Struct, (self.names, tuple(self))


# ── To bytes ─────────────────────────────────────────────────────────────────────────────────────


def pack(value: Any, type: Type) -> Packed:
    """A list or a struct whose values fit its type, as bytes."""
    return Packed(b"".join(_pieces(value, type)), type)


def _pieces(value: Any, type: Type) -> Iterator[bytes]:
    if value is None:
        yield bytes((_MISSING,))
        return
    yield bytes((_TAGS[type.kind],))
    if type.kind is Kind.LIST:
        for each in value:
            assert type.element is not None
            yield from _pieces(each, type.element)
        yield bytes((_END,))
    elif type.kind is Kind.STRUCT:
        for name, _ in type.fields:
            yield b"%b\0" % name.encode()
        yield bytes((_END,))
        for each, (_, own) in zip(value, type.fields, strict=True):
            yield from _pieces(each, own)
    else:
        yield _WRITERS[type.kind](value)


def _whole(number: int) -> bytes:
    return struct.pack(">Q", number + _SIGN)


def _double(number: float) -> bytes:
    number = math.nan if math.isnan(number) else number + 0.0
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return _whole(bits ^ ((bits >> 63) & _MASK))


def _text(data: bytes) -> bytes:
    return data.replace(b"\0", b"\0\xff") + b"\0\0"


def _digits(number: Decimal) -> bytes:
    whole = int(_WIDE.scaleb(number, _SCALE))
    return (whole + (1 << (8 * _BYTES - 1))).to_bytes(_BYTES, "big")


_WRITERS: Final[dict[Kind, Callable[[Any], bytes]]] = {
    Kind.INTEGER: _whole,
    Kind.FLOAT: _double,
    Kind.STRING: lambda text: _text(text.encode()),
    Kind.BOOLEAN: lambda value: bytes((value,)),
    Kind.DATETIME: lambda moment: _whole((moment - _EPOCH) // _MICROSECOND),
    Kind.DATE: lambda day: _whole(day.toordinal()),
    Kind.INTERVAL: lambda value: _whole(value // _MICROSECOND),
    Kind.DECIMAL: _digits,
    Kind.BINARY: _text,
}


def chain(lists: Iterable[bytes]) -> bytes:
    """The bytes of lists, one after the other, as those of one list."""
    return b"".join((bytes((_LIST,)), *(each[1:-1] for each in lists), bytes((_END,))))


# ── From bytes ───────────────────────────────────────────────────────────────────────────────────


def unpack(data: bytes) -> Any:
    """The value that was packed.

    >>> from caladan.program.types import list_of
    >>> unpacked(packed((1, None, 3), list_of(Type.LONG)))
    (1, None, 3)
    """
    value, end = _read(data, 0)
    assert end == len(data), "bytes are left over"
    return value


def _read(data: bytes, at: int) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    if tag == _MISSING:
        return None, at
    if tag == _LIST:
        items: list[Any] = []
        while data[at] != _END:
            item, at = _read(data, at)
            items.append(item)
        return tuple(items), at + 1
    if tag == _STRUCT:
        names: list[str] = []
        while data[at] != _END:
            end = data.index(b"\0", at)
            names.append(data[at:end].decode())
            at = end + 1
        at += 1
        values: list[Any] = []
        for _ in names:
            value, at = _read(data, at)
            values.append(value)
        return Struct(names, values), at
    return _READERS[_KINDS[tag - 2]](data, at)


def _read_whole(data: bytes, at: int) -> tuple[int, int]:
    return struct.unpack_from(">Q", data, at)[0] - _SIGN, at + 8


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    rank, at = _read_whole(data, at)
    return struct.unpack("<d", struct.pack("<q", rank ^ ((rank >> 63) & _MASK)))[0], at


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\0", end)
        if data[end + 1] == 0:
            return data[at:end].replace(b"\0\xff", b"\0"), end + 2
        end += 2


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    text, at = _read_bytes(data, at)
    return text.decode(), at


def _read_digits(data: bytes, at: int) -> tuple[Decimal, int]:
    whole = int.from_bytes(data[at : at + _BYTES], "big") - (1 << (8 * _BYTES - 1))
    return _WIDE.scaleb(Decimal(whole), -_SCALE).normalize(_WIDE), at + _BYTES


def _read_counted(make: Callable[[int], Any]) -> Callable[[bytes, int], tuple[Any, int]]:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, at = _read_whole(data, at)
        return make(number), at

    return read


_READERS: Final[dict[Kind, Callable[[bytes, int], tuple[Any, int]]]] = {
    Kind.INTEGER: _read_whole,
    Kind.FLOAT: _read_double,
    Kind.STRING: _read_text,
    Kind.BOOLEAN: lambda data, at: (bool(data[at]), at + 1),
    Kind.DATETIME: _read_counted(lambda number: _EPOCH + number * _MICROSECOND),
    Kind.DATE: _read_counted(dt.date.fromordinal),
    Kind.INTERVAL: _read_counted(lambda number: number * _MICROSECOND),
    Kind.DECIMAL: _read_digits,
    Kind.BINARY: _read_bytes,
}


# ── As people and files have them ────────────────────────────────────────────────────────────────


def python(value: Any, type: Type) -> Any:
    """An unpacked value as its type has it: decimals with all digits after the point."""
    if value is None:
        return None
    if type.kind is Kind.LIST and type.element is not None:
        element = type.element
        return tuple(python(each, element) for each in value)
    if type.kind is Kind.STRUCT:
        values = value or (None,) * len(type.fields)  # a stand-in for what is missing has none
        pairs = zip(values, type.fields, strict=True)
        names = [name for name, _ in type.fields]
        return Struct(names, [python(each, own) for each, (_, own) in pairs])
    if type.is_decimal:
        return value.quantize(Decimal(1).scaleb(-type.width[1]), context=_WIDE)
    return value


def plain(value: Any) -> Any:
    """The same of lists and dictionaries, as Arrow takes it."""
    if isinstance(value, Struct):
        return {name: plain(each) for name, each in value.asdict().items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType]


def json_text(value: Any, write: Callable[[Any], str]) -> str:
    """A value as JSON; what JSON does not have as the text that `write` makes of it.

    >>> json_text((1, Struct(("day",), (dt.date(2024, 1, 31),))), str)
    '[1, {"day": "2024-01-31"}]'
    """
    return json.dumps(plain(value), ensure_ascii=False, default=write)
