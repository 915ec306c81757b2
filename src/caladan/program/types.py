"""The table of types: every type of a column is one row.

A row says all that the rest of the package needs to know of a type: the words users write for it,
the kind of its values, its Arrow, Spark and DuckDB types, its range, and what its values look like
as text. Parsers, checkers, readers, engines and writers read the row.

    Type.LONG                        a row of the table
    decimal(10, 2), list_of(t), …    rows made on demand; the same parameters give the same row
    type_named("decimal(10, 2)")     the row for what a user wrote

Kinds are types whose values compare with each other: all integers are one kind, so are all floats
and all decimals. A kind says how the embedded engine keeps its values as words.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Final, Literal, TypeAlias

WordKind: TypeAlias = Literal["raw", "bits", "code"]
"""How values become 64-bit ranks: as they are, as the ordered bits of a double, or as the place in
a dictionary."""


class Kind(Enum):
    """Types whose values compare with each other: all integers are one kind, so are all floats."""

    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    DATE = "date"
    INTERVAL = "interval"
    DECIMAL = "decimal"
    BINARY = "binary"
    OBJECT = "object"  # any Python value that can be hashed
    LIST = "list"
    STRUCT = "struct"

    @property
    def words(self) -> WordKind:
        """How values of this kind become ranks."""
        if self is Kind.FLOAT:
            return "bits"
        coded = (Kind.STRING, Kind.DECIMAL, Kind.BINARY, *NESTED)
        return "code" if self in coded else "raw"

    @property
    def is_coded(self) -> bool:
        """True if values are known by their place in a dictionary."""
        return self.words == "code"

    @property
    def is_nested(self) -> bool:
        """True if values hold others: engines have them as bytes in the same order (nested.py)."""
        return self in NESTED


NESTED: Final = (Kind.LIST, Kind.STRUCT)
"""The kinds whose values hold values of other types."""

MOST_DIGITS: Final = 38
"""The most digits of a decimal, as in Spark, Arrow's decimal128 and DuckDB."""

Width: TypeAlias = tuple[int, int]
"""How many digits a decimal has, and how many of them are after the point."""

WIDEST: Final[Width] = (MOST_DIGITS, 18)
"""The width of `decimal` without one."""


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A row of the table; two types are the same if they are the same object.

    `aliases` are other words for it, in any language, and `sql` the names that sqlglot gives it.
    `arrow` is Arrow's alias; `spark` and `duck` are their spellings in Spark and DuckDB. Data of
    other types becomes this type, too: `arrow_reads` names tests of `pyarrow.types`, the
    other two have spellings. `pattern` matches text that is a value, for Python, Arrow and Java
    alike, and `from_text` is true where a string may stand for a value. `python` is the Python
    type of a value, and `exact` the Python types that a column takes without a closer look.
    `described` completes "… is not". `order` places numbers from narrow to wide. A list has the
    type of its `element`, a struct its `fields`.
    """

    name: str
    kind: Kind
    arrow: str
    spark: str
    duck: str
    described: str
    python: type
    exact: tuple[type, ...] = ()
    aliases: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()
    arrow_reads: tuple[str, ...] = ()
    spark_reads: tuple[str, ...] = ()
    duck_reads: tuple[str, ...] = ()
    pattern: str = ""
    from_text: bool = False
    range: tuple[int, int] | None = None
    order: int = 0
    digits: Width | None = None
    is_unsigned: bool = False
    element: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()

    BYTE: ClassVar[Type]
    UBYTE: ClassVar[Type]
    USHORT: ClassVar[Type]
    UINTEGER: ClassVar[Type]
    ULONG: ClassVar[Type]
    SHORT: ClassVar[Type]
    INTEGER: ClassVar[Type]
    LONG: ClassVar[Type]
    FLOAT: ClassVar[Type]
    DOUBLE: ClassVar[Type]
    STRING: ClassVar[Type]
    BOOLEAN: ClassVar[Type]
    DATETIME: ClassVar[Type]
    DATE: ClassVar[Type]
    INTERVAL: ClassVar[Type]
    DECIMAL: ClassVar[Type]
    BINARY: ClassVar[Type]
    OBJECT: ClassVar[Type]
    LIST: ClassVar[Type]
    STRUCT: ClassVar[Type]

    @property
    def has_order(self) -> bool:
        """True if one value can be less than another; objects are equal or they are not."""
        return self.kind is not Kind.OBJECT

    @property
    def has_empty(self) -> bool:
        """True if a value may be empty: what a text file has for it is no missing value."""
        return self.kind in (Kind.STRING, Kind.BINARY)

    @property
    def is_integral(self) -> bool:
        """Whole numbers; all of them are evaluated with 64 bits."""
        return self.kind is Kind.INTEGER

    @property
    def is_floating(self) -> bool:
        """Binary fractions; both are evaluated with 64 bits."""
        return self.kind is Kind.FLOAT

    @property
    def is_decimal(self) -> bool:
        """Decimal fractions, of any width."""
        return self.kind is Kind.DECIMAL

    @property
    def is_nested(self) -> bool:
        """Lists and structs, whose values hold others."""
        return self.kind.is_nested

    @property
    def is_numeric(self) -> bool:
        """Whole numbers and binary fractions, which widen to each other."""
        return self.kind in (Kind.INTEGER, Kind.FLOAT)

    @property
    def width(self) -> Width:
        """The digits of a decimal type, all and after the point."""
        return WIDEST if self.digits is None else self.digits

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _unpickle, (self.name,)


def _unpickle(name: str) -> Type:
    found = type_named(name)
    assert found is not None, name
    return found


# ── The table ────────────────────────────────────────────────────────────────────────────────────

BLANKS: Final = " \t"
"""What may stand around a value in text; a string is taken as it stands."""

INTEGER_PATTERN: Final = r"[+-]?[0-9]+"
FLOAT_PATTERN: Final = (
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
)
BOOLEAN_PATTERN: Final = r"(?:[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[01])"
DATE_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
DATETIME_PATTERN: Final = (
    rf"{DATE_PATTERN}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
DECIMAL_PATTERN: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
INTERVAL_PATTERN: Final = (
    r"[+-]?(?:[0-9]+ *(?:weeks?|days?|hours?|minutes?|seconds?|milliseconds?|microseconds?) *)*"
    r"(?:[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?"
)
BINARY_PATTERN: Final = r"(?:[0-9a-fA-F]{2})*"


def _integer(
    name: str,
    bits: int,
    arrow: str,
    spark: str,
    duck: str,
    aliases: tuple[str, ...] = (),
    sql: tuple[str, ...] = (),
    arrow_reads: tuple[str, ...] = (),
    duck_reads: tuple[str, ...] = (),
) -> Type:
    return Type(
        name, Kind.INTEGER, arrow, spark, duck, "an integer", int, (int,),
        (*aliases, spark), sql, arrow_reads, duck_reads=duck_reads, pattern=INTEGER_PATTERN,
        range=(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), order=bits,
    )  # fmt: skip


def _make_unsigned(name: str, bits: int, spark: str, duck: str, *aliases: str) -> Type:
    """Whole numbers from 0 on. Spark has none: they are the next wider type there.

    All are evaluated with 64 bits, so a `ulong` from 2^63 on is refused.
    """
    return Type(
        name, Kind.INTEGER, f"uint{bits}", spark, duck, "an integer from 0 on", int, (int,),
        (*aliases, duck.lower()), (duck.replace("UINTEGER", "UINT"),), pattern=INTEGER_PATTERN,
        range=(0, min(2**bits, 2**63) - 1), order=bits, is_unsigned=True,
    )  # fmt: skip


def _decimal(name: str, digits: Width) -> Type:
    spelled = f"decimal({digits[0]},{digits[1]})"
    return Type(
        name, Kind.DECIMAL, spelled, spelled, spelled.upper(), "a decimal number", Decimal, (),
        ("numeric",) if digits == WIDEST else (), ("DECIMAL",), pattern=DECIMAL_PATTERN,
        from_text=True, digits=digits,
    )  # fmt: skip


Type.BYTE = _integer("byte", 8, "int8", "tinyint", "TINYINT", sql=("TINYINT",))
Type.SHORT = _integer("short", 16, "int16", "smallint", "SMALLINT", sql=("SMALLINT",))
Type.INTEGER = _integer(
    "integer", 32, "int32", "int", "INTEGER", sql=("INT",),
)  # fmt: skip
Type.LONG = _integer(
    "long", 64, "int64", "bigint", "BIGINT", sql=("BIGINT",),
    duck_reads=("HUGEINT",),
)  # fmt: skip
Type.UBYTE = _make_unsigned("ubyte", 8, "smallint", "UTINYINT")
Type.USHORT = _make_unsigned("ushort", 16, "int", "USMALLINT")
Type.UINTEGER = _make_unsigned("uinteger", 32, "bigint", "UINTEGER", "uint")
Type.ULONG = _make_unsigned("ulong", 64, "bigint", "UBIGINT")
Type.FLOAT = Type(
    "float", Kind.FLOAT, "float", "float", "FLOAT", "a number", float, (int, float), ("real",),
    ("FLOAT",), pattern=FLOAT_PATTERN, order=65,
)  # fmt: skip
Type.DOUBLE = Type(
    "double", Kind.FLOAT, "double", "double", "DOUBLE", "a number", float, (int, float), (),
    ("DOUBLE",), arrow_reads=("is_floating",), pattern=FLOAT_PATTERN, order=66,
)  # fmt: skip
Type.STRING = Type(
    "string", Kind.STRING, "string", "string", "VARCHAR", "a string", str, (str,),
    ("text", "varchar", "char"), ("TEXT", "VARCHAR", "CHAR"),
    arrow_reads=("is_large_string", "is_string_view", "is_null"), duck_reads=('"NULL"',),
)  # fmt: skip
Type.BOOLEAN = Type(
    "boolean", Kind.BOOLEAN, "bool", "boolean", "BOOLEAN", "a boolean (true or false)", bool,
    (bool,), ("bool",), ("BOOLEAN",), pattern=BOOLEAN_PATTERN,
)  # fmt: skip
Type.DATETIME = Type(
    "datetime", Kind.DATETIME, "timestamp[us]", "timestamp_ntz", "TIMESTAMP",
    "a datetime (such as 2024-01-31 or 2024-01-31T12:30:00)", dt.datetime, (), ("timestamp",),
    ("DATETIME", "TIMESTAMP", "TIMESTAMPNTZ"), ("is_timestamp", "is_date64"), ("timestamp",),
    ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
    pattern=DATETIME_PATTERN, from_text=True,
)  # fmt: skip
Type.DATE = Type(
    "date", Kind.DATE, "date32", "date", "DATE", "a date (such as 2024-01-31)", dt.date, (), (),
    ("DATE",), pattern=DATE_PATTERN, from_text=True,
)  # fmt: skip
Type.INTERVAL = Type(
    "interval", Kind.INTERVAL, "duration[us]", "interval day to second", "INTERVAL",
    "an interval (such as 90 minutes or 1 day 02:30:00)", dt.timedelta, (dt.timedelta,),
    arrow_reads=("is_duration",), pattern=INTERVAL_PATTERN, from_text=True,
    sql=("INTERVAL",),
)  # fmt: skip
Type.DECIMAL = _decimal("decimal", WIDEST)
Type.BINARY = Type(
    "binary", Kind.BINARY, "binary", "binary", "BLOB",
    "binary data (bytes, or pairs of hexadecimal digits)", bytes, (bytes,), ("bytes",),
    ("BINARY", "VARBINARY"), ("is_large_binary", "is_fixed_size_binary", "is_binary_view"),
    pattern=BINARY_PATTERN, from_text=True,
)  # fmt: skip
Type.OBJECT = Type(
    "object", Kind.OBJECT, "int64", "", "",  # numbers, see objects.py; never handed out
    "an object, which only Python values in memory are", object,
)  # fmt: skip


def _make_nested(name: str, kind: Kind, described: str, python: type, **inside: Any) -> Type:
    """Engines have values of these types as bytes, whatever is inside of them."""
    return Type(name, kind, "binary", "binary", "BLOB", described, python, **inside)


Type.LIST = _make_nested("list", Kind.LIST, "a list", tuple, aliases=("array",))
Type.STRUCT = _make_nested("struct", Kind.STRUCT, "a struct", tuple)

TYPES: Final = (
    Type.BYTE, Type.SHORT, Type.INTEGER, Type.LONG, Type.UBYTE, Type.USHORT, Type.UINTEGER,
    Type.ULONG, Type.FLOAT, Type.DOUBLE, Type.STRING,
    Type.BOOLEAN, Type.DATETIME, Type.DATE, Type.INTERVAL, Type.DECIMAL, Type.BINARY, Type.OBJECT,
    Type.LIST, Type.STRUCT,
)  # fmt: skip
"""The types without parameters; a list of nothing, and a struct without fields, among them."""

NAMES: Final[dict[str, Type]] = {word: t for t in TYPES for word in (t.name, *t.aliases)}
"""The words for types, in lower case; case does not matter to users."""

SQL_NAMES: Final[dict[str, Type]] = {word: t for t in TYPES for word in t.sql}
"""The types by the names that sqlglot gives them."""


@cache
def decimal(digits: int, scale: int = 0) -> Type:
    """The type of decimals of a width; ValueError if there is none.

    >>> decimal(10, 2), decimal(38, 18) is Type.DECIMAL
    (<decimal(10,2)>, True)
    """
    if not 1 <= digits <= MOST_DIGITS:
        raise ValueError(f"a decimal has 1 to {MOST_DIGITS} digits, not {digits}")
    if not 0 <= scale <= digits:
        raise ValueError(
            f"a decimal of {digits} digits cannot have {scale} of them after the point"
        )
    if (digits, scale) == WIDEST:
        return Type.DECIMAL
    return _decimal(f"decimal({digits},{scale})", (digits, scale))


@cache
def list_of(element: Type | None) -> Type:
    """The type of lists; of an empty one without anything said of its elements, of None.

    >>> list_of(Type.LONG), list_of(None) is Type.LIST
    (<list<long>>, True)
    """
    if element is None:
        return Type.LIST
    return _make_nested(
        f"list<{element}>", Kind.LIST, f"a list of {element}", tuple, element=element
    )


@cache
def struct_of(*fields: tuple[str, Type]) -> Type:
    """The type of structs with these fields.

    >>> struct_of(("name", Type.STRING), ("born", Type.DATE))
    <struct<name: string, born: date>>
    """
    if not fields:
        return Type.STRUCT
    inside = ", ".join(f"{name}: {type}" for name, type in fields)
    return _make_nested(
        f"struct<{inside}>", Kind.STRUCT, f"a struct of {inside}", tuple, fields=fields
    )


def _nested_named(word: str) -> Type | None:
    """`list<string>`, `array<array<int>>`, `struct<name: string, city: string>`."""
    outer, _, rest = word.partition("<")
    row = NAMES.get(outer.strip().lower())
    if row is None or not row.is_nested or not rest.endswith(">"):
        return None
    parts = nested_parts(rest[:-1])
    if row is Type.LIST:
        element = type_named(parts[0]) if len(parts) == 1 else None
        return None if element is None else list_of(element)
    fields: list[tuple[str, Type]] = []
    for part in parts:
        name, colon, spelled = part.partition(":")
        type = type_named(spelled)
        if not colon or type is None:
            return None
        fields.append((name.strip().strip("`"), type))
    return struct_of(*fields)


def nested_parts(text: str) -> list[str]:
    """The parts of a text between commas that stand in no brackets.

    >>> nested_parts("a: list<int>, b: decimal(10, 2)")
    ['a: list<int>', ' b: decimal(10, 2)']
    """
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


_PARAMETERS: Final = re.compile(r"(\w+)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)


def type_named(word: str) -> Type | None:
    """The type that a user means by a word, None if there is none.

    >>> type_named("BIGINT"), type_named("numeric(10, 2)"), type_named("colour")
    (<long>, <decimal(10,2)>, None)
    """
    if "<" in word:
        return _nested_named(word.strip())
    word = word.strip().lower()
    if word in NAMES:
        return NAMES[word]
    found = _PARAMETERS.fullmatch(word)
    if found is None or NAMES.get(found[1]) is not Type.DECIMAL:
        return None
    try:
        return decimal(int(found[2]), int(found[3] or 0))
    except ValueError:
        return None


def nested_union(one: Type, other: Type) -> Type | None:
    """The type of lists, or structs, of either type; None if values would have to change for it.

    >>> nested_union(list_of(Type.INTEGER), list_of(Type.LONG))
    <list<long>>
    """
    if one.kind is not other.kind:
        return None
    if not one.element and not one.fields:
        return other
    if not other.element and not other.fields:
        return one
    if one.element is not None and other.element is not None:
        element = _union(one.element, other.element)
        return None if element is None else list_of(element)
    if [name for name, _ in one.fields] != [name for name, _ in other.fields]:
        return None
    both = [
        _union(own, their) for (_, own), (_, their) in zip(one.fields, other.fields, strict=True)
    ]
    names = [name for name, _ in one.fields]
    return None if None in both else struct_of(*zip(names, both, strict=True))  # pyright: ignore[reportArgumentType]


def _union(one: Type, other: Type) -> Type | None:
    if one is other or one.kind is not other.kind:
        return one if one is other else None
    if one.is_decimal:
        return decimal(*wider(one.width, other.width))
    if one.is_nested:
        return nested_union(one, other)
    if one.is_unsigned != other.is_unsigned:
        return Type.LONG
    return max(one, other, key=lambda type: type.order)


# ── Widths of decimals ───────────────────────────────────────────────────────────────────────────

_LEAST_SCALE: Final = 6  # of a result that has too many digits, as in Spark


def wider(one: Width, other: Width) -> Width:
    """The least width that holds what either does, as Spark has it where columns are united.

    >>> wider((10, 2), (5, 4)), wider((38, 0), (38, 18))
    ((12, 4), (38, 18))
    """
    scale = max(one[1], other[1])
    digits = max(one[0] - one[1], other[0] - other[1]) + scale
    return min(digits, MOST_DIGITS), scale


def fit_width(digits: int, scale: int) -> Width:
    """A width of at most 38 digits: digits after the point go first, down to 6.

    >>> fitting(20, 4), fitting(77, 36), fitting(40, 3)
    ((20, 4), (38, 6), (38, 3))
    """
    if digits <= MOST_DIGITS:
        return digits, scale
    whole = digits - scale
    return MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE))
