"""A function is one row: `FunctionRow` has all that parsers, types, engines, docs and tests read.

A signature says what a function takes and gives, in a small language of its own:

    (string, long) -> string          two values; whole numbers of any width are long
    (long) -> long | (double) -> double    overloads: the first that fits best is taken
    (T, T...) -> T                     one type or more values of it; the widest of them
    (string, long?) -> string          the last values may be left out
    (any, type) -> type                a value of any type, and the name of a type, which it gives
    (list, E) -> E                     a list, and a value like its elements; such a value
    (name, any, ...) -> struct         values with names that are written out; a struct of them

A whole number is taken where a double or a decimal is wanted, and a date where a datetime is; a
literal is taken where it stands for a value of the type, so a date may be written as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from caladan.program.program import Call, Constant, Expression
from caladan.program.types import (
    NAMES,
    Type,
    decimal,
    list_of,
    nested_union,
    struct_of,
    type_named,
    wider,
)

ENGINES: Final = ("arrow", "spark", "duckdb")
"""What a function may lack, with a reason; every function has a scalar evaluation."""

WORDS: Final[Mapping[str, str]] = MappingProxyType({
    "long": "a whole number", "double": "a number", "string": "text", "boolean": "true or false",
    "date": "a date", "datetime": "a datetime", "decimal": "a decimal", "binary": "binary data",
    "any": "a value", "type": "the name of a type", "T": "a value", "list": "a list",
    "struct": "a struct", "E": "a value like the others of the list",
    "name": "the name of a field, written out", "field": "what is inside",
    "texts": "a list of texts", "numbers": "a list of whole numbers",
})  # fmt: skip
"""How a parameter is called in a message."""

_OVERLOAD: Final = re.compile(r"\(([^)]*)\) -> ([\w]+)")
_ANY, _NEVER = 3, 100


class CallFailed(Exception):
    """A function has no value for its arguments, or a Python function did not do what it should."""

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(function, reason)
        self.function = function
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function: the words of its parameters, and of what it gives.

    The last `optional` parameters may be left out; if it `repeats`, the last stands for several,
    and if it `is_paired`, all of them do.
    """

    parameters: tuple[str, ...]
    result: str
    optional: int = 0
    repeats: bool = False
    is_paired: bool = False

    def parameter(self, position: int) -> str:
        """The word of a parameter."""
        if self.is_paired:
            return self.parameters[position % len(self.parameters)]
        return self.parameters[min(position, len(self.parameters) - 1)]

    def accepts(self, count: int) -> bool:
        """Whether it can be called with so many values."""
        least = len(self.parameters) - self.optional
        if self.is_paired:
            return count > 0 and count % len(self.parameters) == 0
        return least <= count and (self.repeats or count <= len(self.parameters))

    def __str__(self) -> str:
        words = list(self.parameters)
        for i in range(len(words) - self.optional, len(words)):
            words[i] += "?"
        if self.repeats:
            words[-1] += "..."
        if self.is_paired:
            words.append("...")
        return f"({', '.join(words)}) -> {self.result}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call whose types are known: what each argument is taken as, and what it gives."""

    takes: tuple[Type | None, ...]
    returns: Type


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An argument that no overload takes, and what is wanted there."""

    position: int
    wanted: str


ColumnFunction: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class FunctionRow:
    """All there is to know of a function.

    `scalar` takes Python values and gives one. It raises ValueError with a reason where there is
    none, ZeroDivisionError, or OverflowError where a number is too large.

    `arrow` takes `pyarrow.compute`, then an Arrow array for each argument, or its value if that is
    a constant; it gives an array, or None where only `scalar` gives the right values. `numpy` is
    the same for functions of numbers, with NumPy first. Where they raise, `scalar` says what is
    wrong.

    `spark` takes `pyspark.sql.functions`, then columns; a name stands for a call of that function.
    It gives null where `scalar` raises. Without one a Python worker calls `scalar`.

    `duckdb` is SQL with `{0}`, `{1}` … for its arguments; a name stands for a call. It means the
    same for the values that the row's example has, and for others unless `lacks` says otherwise.

    `moves` has a letter for each argument, and the last letter is for all that follow: `+` if what
    it gives rises, or stays, when the argument rises, `-` if it falls, `?` if neither is known.
    `inverse` has the function that gives an argument back, from the result in its place, for all
    values: `X = reverse(Y)` is solved for Y by `reverse(X)`.
    If it `grows`, calling it on what it gave may go on for ever with new values.
    `picks` is 1 if it gives the largest of its arguments, -1 if the smallest.
    If it gives several rows, as `range` does, `rows` has the functions that give their number, and
    the row at a place, counted from 0; `scalar` gives them as a list. It is called as
    `X in range(1, 4)`.
    A function of a missing value is missing, unless it `takes_missing` ones. If it is `tested_by`
    another one, it gives a missing value where that, for the same arguments, gives false, and the
    value that it is `given_by` elsewhere.
    """

    name: str
    signature: str
    summary: str
    example: tuple[str, Any]
    scalar: ColumnFunction
    family: str = ""
    aliases: tuple[str, ...] = ()
    sql: tuple[str, ...] = ()
    arrow: ColumnFunction | None = None
    numpy: ColumnFunction | None = None
    spark: ColumnFunction | str | None = None
    duckdb: str | None = None
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    fails: bool = False
    moves: str = "?"
    inverse: Mapping[int, str] = field(default_factory=dict[int, str])
    grows: bool = False
    picks: int = 0
    takes_missing: bool = False
    tested_by: str | None = None
    given_by: str | None = None
    rows: tuple[str, str] | None = None

    @cached_property
    def overloads(self) -> tuple[Overload, ...]:
        """The ways to call it."""
        return tuple(_overloads(self.signature))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names it has, in rules and in SQL."""
        return (self.name, *self.aliases, *self.sql)

    @cached_property
    def takes_type(self) -> bool:
        """Whether its last argument names a type."""
        return any("type" in each.parameters for each in self.overloads)

    @property
    def is_compiled(self) -> bool:
        """Whether the compiler decides it, by what it knows of missing values."""
        return self.takes_missing and self.family == "missing values"

    @property
    def gives_lists(self) -> bool:
        """Whether what it gives may be a list."""
        results = {each.result for each in self.overloads}
        return self.rows is None and not results.isdisjoint((*_MADE, "T", "type"))

    @property
    def is_vectorized(self) -> bool:
        """Whether it is evaluated over whole columns."""
        return self.arrow is not None or self.numpy is not None

    def complaint(self, count: int) -> str | None:
        """What is wrong with a call of it with so many values, if anything is."""
        if any(each.accepts(count) for each in self.overloads):
            return None
        counts: set[str] = set()
        for each in self.overloads:
            most = len(each.parameters)
            least = most - each.optional
            more = (
                " or more"
                if each.repeats or each.is_paired
                else f" to {most}"
                if least < most
                else ""
            )
            counts.add(f"{least}{more}")
        wanted = " or ".join(sorted(counts))
        return f"takes {wanted} {'value' if wanted == '1' else 'values'}, found {count}"

    def called(self, arguments: tuple[Expression, ...]) -> Call:
        """A call of it."""
        return Call(self.name, arguments)

    def resolve(
        self,
        given: Sequence[Type | None],
        literal: Sequence[bool] = (),
        word: str | None = None,
        texts: Sequence[str | None] = (),
    ) -> Resolved | Mismatch | None:
        """What a call with arguments of these types takes and gives; None while that is not known.

        `literal` says which arguments are constants, `word` is what stands for a type, and `texts`
        has those among the arguments that are written out.

        >>> FunctionRow(name="f", signature="(long) -> long | (double) -> double", summary="",
        ...             example=("", 0), scalar=abs).resolve([Type.FLOAT])
        Resolved(takes=(<double>,), returns=<double>)
        """
        return _resolve_overloads(self.overloads, tuple(given), tuple(literal), word, tuple(texts))

    def moving(self, position: int) -> str:
        """What its value does when an argument rises: `+`, `-` or `?`."""
        return self.moves[min(position, len(self.moves) - 1)]

    def wanted(self, position: int, count: int) -> Type | None:
        """The type of an argument, if all overloads with so many agree."""
        words = {each.parameter(position) for each in self.overloads if each.accepts(count)}
        return NAMES.get(words.pop()) if len(words) == 1 else None


def _overloads(text: str) -> Iterator[Overload]:
    for parameters, result in _OVERLOAD.findall(text):
        words = [word.strip() for word in parameters.split(",") if word.strip()]
        is_paired = words[-1:] == ["..."]
        words = words[:-1] if is_paired else words
        repeats = bool(words) and words[-1].endswith("...")
        optional = sum(word.endswith("?") for word in words)
        yield Overload(tuple(w.rstrip("?.") for w in words), result, optional, repeats, is_paired)


@cache
def _resolve_overloads(
    overloads: tuple[Overload, ...],
    given: tuple[Type | None, ...],
    literal: tuple[bool, ...],
    word: str | None,
    texts: tuple[str | None, ...] = (),
) -> Resolved | Mismatch | None:
    found: list[tuple[int, Overload]] = []
    nearest: tuple[int, list[str]] = (-1, [])
    for each in overloads:
        if not each.accepts(len(given)):
            continue
        costs = [
            _cost(type, each.parameter(i), i < len(literal) and literal[i])
            for i, type in enumerate(given)
        ]
        bad = next((i for i, cost in enumerate(costs) if cost >= _NEVER), None)
        if bad is None:
            shared = _find_shared(each, given)
            bad = shared if isinstance(shared, int) else None
        if bad is None:
            found.append((sum(costs), each))
        elif bad >= nearest[0]:
            nearest = (bad, [*(nearest[1] if bad == nearest[0] else []), each.parameter(bad)])
    if not found:
        words = dict.fromkeys(WORDS[each] for each in nearest[1])
        return Mismatch(max(nearest[0], 0), " or ".join(words) or "another value")
    best = min(cost for cost, _ in found)
    chosen = next(each for cost, each in found if cost == best)
    if None in given and len({each.result for cost, each in found if cost == best}) > 1:
        return None
    common = _find_shared(chosen, given)
    assert not isinstance(common, int)
    if chosen.result in _MADE:
        if any(t is None and not (i < len(literal) and literal[i]) for i, t in enumerate(given)):
            return None  # what is written out and has no type is `null`
        returns = _MADE[chosen.result](given, texts, common)
        if isinstance(returns, Mismatch):
            return returns
        return Resolved(tuple(given), returns)
    returns = type_named(word or "") if chosen.result == "type" else None
    returns = returns or (common if chosen.result in _SHARED else NAMES.get(chosen.result))
    if returns is None:
        return None if chosen.result in _SHARED else Mismatch(len(given) - 1, WORDS["type"])
    takes = tuple(
        common if parameter in _SHARED
        else given[i] if parameter in ("list", "struct")
        else NAMES.get(parameter)
        for i, parameter in enumerate(map(chosen.parameter, range(len(given))))
    )  # fmt: skip
    return Resolved(takes, returns)


def _cost(given: Type | None, wanted: str, literal: bool) -> int:
    """How far an argument is from what a parameter wants."""
    if given is None or wanted in ("T", "E"):
        return 0
    if wanted in ("list", "struct"):
        return 0 if given.kind.value == wanted else _NEVER
    if wanted == "name":
        return 0 if literal and given is Type.STRING else _NEVER
    if wanted in ("any", "type"):
        return _ANY
    type = NAMES[wanted]
    if given.kind is type.kind:
        return 0
    if given.is_integral and (type.is_floating or type.is_decimal):
        return 1
    if given is Type.DATE and type is Type.DATETIME:
        return 1
    if given.is_decimal and type.is_floating:
        return 2
    if literal and given is Type.STRING and type in (Type.DATE, Type.DATETIME):
        return 2
    if literal and given.is_floating and type.is_decimal:
        return 2
    return _NEVER


def _list(_: Sequence[Type | None], __: Sequence[str | None], common: Type | None) -> Type:
    return list_of(common)


def _struct(
    given: Sequence[Type | None], texts: Sequence[str | None], _: Type | None
) -> Type | Mismatch:
    fields: list[tuple[str, Type]] = []
    for i in range(0, len(given), 2):
        name, type = texts[i] if i < len(texts) else None, given[i + 1]
        if name is None or name in dict(fields):
            return Mismatch(i, WORDS["name"] if name is None else "a name that no other field has")
        fields.append((name, Type.STRING if type is None else computed_type(type)))
    return struct_of(*fields)


def _field(
    given: Sequence[Type | None], texts: Sequence[str | None], _: Type | None
) -> Type | Mismatch:
    """What is at a path of fields and places in a value."""
    inside = given[0]
    for i, type in enumerate(given[1:], 1):
        name = texts[i] if i < len(texts) else None
        if inside is not None and inside.kind.value == "struct":
            fields = dict(inside.fields)
            if name not in fields:
                return Mismatch(i, f"one of the fields {', '.join(fields)}")
            inside = fields[name]
        elif inside is None or inside.element is None:
            wanted = "a struct" if name is not None else "a list of something"
            return Mismatch(i - 1 if i == 1 else i, wanted)
        elif type is None or not type.is_integral:
            return Mismatch(i, WORDS["long"])
        else:
            inside = inside.element
    assert inside is not None
    return inside


def _element(
    _: Sequence[Type | None], __: Sequence[str | None], common: Type | None
) -> Type | Mismatch:
    return common or Mismatch(0, "a list of something")


_MADE: Final[Mapping[str, Callable[..., Type | Mismatch]]] = MappingProxyType({
    "list": _list, "struct": _struct, "field": _field, "E": _element,
    "texts": lambda *_: list_of(Type.STRING), "numbers": lambda *_: list_of(Type.LONG),
})  # fmt: skip
"""Results whose type is made of those of the arguments."""

_SHARED: Final = ("T", "decimal")
"""Parameters that take the common type of all of them."""


def _find_shared(overload: Overload, given: Sequence[Type | None]) -> Type | int | None:
    """The type of all arguments that share one; the place of one that has no type in common."""
    found: Type | None = None
    for i, type in enumerate(given):
        parameter = overload.parameter(i) if overload.parameters else ""
        if parameter == "list":
            type = None if type is None else type.element
        if parameter in (*_SHARED, "E", "list") and type is not None:
            own = computed_type(type)
            found = own if found is None else _common(found, own)
            if found is None:
                return i
    return found


def _common(one: Type, other: Type) -> Type | None:
    """The type that values of two types are compared in."""
    if one is other:
        return one
    if one.is_decimal and other.is_decimal:
        return decimal(*wider(one.width, other.width))
    if one.is_nested and other.is_nested:
        return nested_union(one, other)
    for narrow, wide in ((one, other), (other, one)):
        if narrow.is_integral and (wide.is_floating or wide.is_decimal):
            return wide
        if narrow is Type.DATE and wide is Type.DATETIME:
            return wide
    return None


def computed_type(type: Type) -> Type:
    """The type in which values of a type are computed with."""
    if type.is_integral:
        return Type.LONG
    if type.element is not None:
        return list_of(computed_type(type.element))
    if type.fields:
        return struct_of(*((name, computed_type(own)) for name, own in type.fields))
    return Type.DOUBLE if type.is_floating else type


def resolve(
    row: FunctionRow, call: Call, type_of: Callable[[Expression], Type | None]
) -> Resolved | Mismatch | None:
    """What a call takes and gives, by the types of its arguments."""
    given = [type_of(each) for each in call.arguments]
    literal = [isinstance(each, Constant) for each in call.arguments]
    texts = [
        each.value if isinstance(each, Constant) and isinstance(each.value, str) else None
        for each in call.arguments
    ]
    return row.resolve(given, literal, type_word(row, call.arguments), texts)


def type_word(row: FunctionRow, arguments: Sequence[object]) -> str | None:
    """The last argument's text, where that names a type."""
    if not row.takes_type:
        return None
    last = arguments[-1] if arguments else None
    value = last.value if isinstance(last, Constant) else last
    return value if isinstance(value, str) else None
