"""Words for DuckDB: how a translation calls macros, gives types, and refuses.

`Meaning` is what every translation has: the macros it used, which node of the user's an expression
stands for, and the types of both. Below it, the small expressions that translations are made of.

`MACROS` has an entry for every function that embedded knows: a name as Spark has it, and what
stands behind `CREATE MACRO name`. A macro may have several bodies, for arguments of different
types; DuckDB takes the one that fits. A function without an entry is refused, so nothing is
answered by a function of DuckDB that happens to have the same name.

What the entries see to, again and again: the type of the result, NULL, arguments out of range, and
that a failure is an error, as Spark's ANSI mode has it. `needs(name)` lists the macros that a macro
uses. Bodies only speak of their parameters; no text of users ever stands in them. They are in
`casts.py` (with numbers) and `texts.py` (with dates).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NoReturn

from sqlglot import exp

from caladan.language.rasql.script import span_of
from caladan.program.diagnostics import SourceText, error
from caladan.program.transform import ByIdentity
from caladan.sql.casts import CASTS
from caladan.sql.digits import DIGITS, KINDS, MOST_DIGITS, SqlType
from caladan.sql.texts import TEXTS
from caladan.sql.widths import QueryTypes, given_by, kind_of

PREFIX: Final = "spark_"
"""Stands before a function's name, so that no macro hides one of DuckDB's own functions."""

MACROS: Final[dict[str, str]] = {**CASTS, **TEXTS}

_OVERLOAD: Final = re.compile(r", (?=\((?:\w+(?: [A-Z]+(?:\(\d+, ?\d+\))?)?(?:, )?)*\) AS )")
_FAILURE: Final = re.compile(r"error\('the value ''' \|\| \w \|\| ''' cannot be cast to \w+'\)")

for _name in (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "binary",
    "date_of_text", "timestamp_ntz", "timestamp_of_text",
):  # fmt: skip
    _tried = _FAILURE.sub("NULL", MACROS[_name])
    MACROS[f"try_{_name}"] = re.sub(rf"{PREFIX}(\w+_of_text)\(", rf"{PREFIX}try_\1(", _tried)


@cache
def overloads(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The bodies of a macro, each with the types of its parameters; "" where any will do.

    >>> overloads("later")[0]
    (('DATE', ''), '(a DATE, i) AS CAST(a + i AS DATE)')
    """
    found: list[tuple[tuple[str, ...], str]] = []
    for text in _OVERLOAD.split(MACROS[name]):
        parameters = text[1 : text.index(") AS ")]
        words = [each.split(" ", 1) for each in re.split(r", (?![0-9])", parameters) if each]
        found.append((tuple(word[1] if len(word) > 1 else "" for word in words), text))
    return tuple(found)


@cache
def needs(name: str) -> tuple[str, ...]:
    """The macros that a macro uses, and the macro itself, each after those that it uses."""
    found: dict[str, None] = {}
    for other in re.findall(rf"\b{PREFIX}(\w+)\(", MACROS[name.partition(":")[0]]):
        found.update(dict.fromkeys(needs(other)))
    found[name] = None
    return tuple(found)


@cache
def find_repeated(name: str) -> tuple[bool, ...]:
    """Whether a macro, or one that it uses, writes an argument out more than once; for each.

    >>> repeated("nullif:0"), repeated("ltrim:0"), repeated("upper:0")
    ((False, False), (False,), (True,))
    """
    found: list[bool] = []
    for _, text in _bodies(name):
        head, _, body = text.partition(") AS ")
        for i, parameter in enumerate(re.findall(r"(\w+)(?: [A-Z][^,]*)?(?:, |$)", head[1:])):
            mention = re.compile(rf"\b{parameter}\b")
            used = [call for call in re.split(r"(?<=\))", body) if mention.search(call)]
            inner = [name for call in used for name in re.findall(rf"{PREFIX}(\w+)\(", call)]
            many = len(mention.findall(body)) > 1 or any(any(find_repeated(each)) for each in inner)
            found += [False] * (i + 1 - len(found))
            found[i] |= many
    return tuple(found)


def _bodies(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    stem, _, number = name.partition(":")
    return (overloads(stem)[int(number)],) if number else overloads(stem)


def spell(name: str) -> str:
    """What a macro is called in DuckDB; `round:4` is the fifth body of `round`, by itself."""
    return PREFIX + name.replace(":", "_")


def definition(name: str) -> str:
    """The statement that makes a macro.

    A body by itself has no types: where types are to be found out, DuckDB goes through arguments
    twice, and through theirs four times, and so on.

    >>> definition("year:0")
    'CREATE TEMP MACRO spark_year_0(a) AS CAST(year(a) AS INTEGER)'
    """
    stem, _, number = name.partition(":")
    if not number:
        return f"CREATE TEMP MACRO {spell(name)}{MACROS[stem]}"
    head, _, body = overloads(stem)[int(number)][1].partition(") AS ")
    names = re.sub(r"(\w+) [A-Z]+(?:\(\d+, ?\d+\))?", r"\1", head)
    return f"CREATE TEMP MACRO {spell(name)}{names}) AS {body}"


_WAY_OUT: Final = "run it on Spark: --engine spark"


class Meaning:
    """What a translation knows, and what it has used.

    `node` is always of the user's tree, which stays as it is; `new` stands for it in the copy, with
    its parts already translated.
    """

    def __init__(self, widths: QueryTypes, source: SourceText, is_typed: bool) -> None:
        self._widths = widths
        self._source = source
        self._is_typed = is_typed
        self._meant = ByIdentity[exp.Expr, exp.Expr]()
        self._made = ByIdentity[exp.Expr, "str | None"]()
        self.used: dict[str, None] = {}

    def stands_for(self, new: exp.Expr, node: exp.Expr) -> None:
        """Note which node of the user's an expression is the translation of."""
        self._meant[new] = node

    def _text(self, node: exp.Expr, value: exp.Expr) -> exp.Expr:
        """A value as text."""
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and inner.is_string:
            return value
        width = self._widths.type(node)
        if width is None and self._is_typed:
            self._refuse(node, "text of an unknown type", "CAST it to string")
        if width is not None and width.is_decimal:
            return as_type(value, "VARCHAR")
        if width is not None and width.kind == "string":
            return value
        return self._macro("string", value)

    def _width(self, node: exp.Expr) -> SqlType | None:
        """The type of an argument where it matters; refused if it cannot be told."""
        if not self._is_typed:
            return None
        width = self._widths.type(node)
        if width is None:
            self._refuse(node, "a value of an unknown type", "CAST it")
        return width

    def _macro(self, name: str, *arguments: exp.Expr) -> exp.Expr:
        """A call of a macro, which has each argument evaluated once.

        A macro writes out what it is given as often as it mentions it, and DuckDB looks at it
        twice where types decide: with calls inside of calls both would double at every level. So
        whatever is more than a name or a constant gets a name first, that of a function's
        parameter; constants stay, for some functions want them constant.
        """
        fitting = self._fitting(name, arguments)
        stem = name
        if fitting is not None:
            types, _ = overloads(name)[fitting]
            arguments = tuple(map(self._given_as, arguments, types))
            name = f"{name}:{fitting}"
        self.used[name] = None
        often = [True] * len(arguments) if fitting is None else find_repeated(name)
        if all(_is_plain(each) for each, many in zip(arguments, often, strict=True) if many):
            found: exp.Expr = call(spell(name), *arguments)
        else:
            found = _bound(spell(name), arguments)
        self._made[found] = given_by(stem)
        return found

    def _given_as(self, new: exp.Expr, type: str) -> exp.Expr:
        """An argument as a parameter of that type has it; any will do for ""."""
        return new if not type or KINDS.get(self._kind(new) or "") == type else as_type(new, type)

    def _fitting(self, name: str, arguments: Sequence[exp.Expr]) -> int | None:
        """Which body of a macro fits, if the types of its arguments are known."""
        kinds = [self._kind(each) for each in arguments]
        ranked: list[tuple[int, int]] = []
        for i, (types, _) in enumerate(overloads(name)):
            if len(types) == len(kinds):
                ranks = [_fits(kind, type) for kind, type in zip(kinds, types, strict=True)]
                if None not in ranks:
                    ranked.append((sum(rank or 0 for rank in ranks), i))
        return min(ranked)[1] if ranked else None

    def _kind(self, new: exp.Expr) -> str | None:
        """The kind of value that a translated expression gives."""
        if new in self._meant:
            width = self._widths.type(self._meant[new])
            return None if width is None else width.kind
        if isinstance(new, exp.Paren):
            return self._kind(new.this)
        if isinstance(new, exp.Cast):
            return kind_of(new.to.sql(dialect="duckdb"))
        if new in self._made:
            return self._made[new]
        return "string" if isinstance(new, exp.Literal) and new.is_string else None

    def _refuse(self, node: exp.Expr, what: str, instead: str | None = None) -> NoReturn:
        raise error(
            "C062",
            f"{what} may give another result on embedded than on Spark",
            span_of(node, self._source),
            help=f"{instead}, or {_WAY_OUT}" if instead else _WAY_OUT,
        )


def _is_plain(node: exp.Expr) -> bool:
    """Whether a value is a name or a constant."""
    return _is_constant(node) or isinstance(node, exp.Column)


def _is_constant(node: exp.Expr) -> bool:
    while isinstance(node, exp.Cast | exp.Neg | exp.Paren):
        node = node.this
    return isinstance(node, exp.Literal | exp.Null | exp.Boolean)


def _bound(name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """A call whose arguments have names: `list_transform([x], lambda v: f(v))[1]`.

    Several are the fields of one `v`.
    """
    values = [each for each in arguments if not _is_constant(each)]
    value = values[0] if len(values) == 1 else call("row", *values)
    places = iter(range(1, len(values) + 1))
    named: list[exp.Expr] = []
    for each in arguments:
        if _is_constant(each):
            named.append(each)
        elif len(values) == 1:
            named.append(exp.to_identifier("v"))
        else:
            place = exp.Literal.number(next(places))
            named.append(call("struct_extract_at", exp.to_identifier("v"), place))
    function = exp.Lambda(this=call(name, *named), expressions=[exp.to_identifier("v")])
    listed = call("list_transform", exp.Array(expressions=[value]), function)
    return exp.Bracket(this=listed, expressions=[exp.Literal.number(1)], offset=1)


def _fits(kind: str | None, type: str) -> int | None:
    """How well a value fits a parameter: 0 is best, None not at all."""
    if not type:
        return 20
    if kind is None:
        return None
    own = KINDS.get(kind, "")
    if own == type or (type == "HUGEINT" and kind == "long"):
        return 0
    numbers = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE")
    if own in numbers and type in numbers and numbers.index(own) < numbers.index(type):
        return numbers.index(type)
    if kind == "decimal" and type in ("DOUBLE", "DECIMAL(38, 18)"):
        return 1 if type != "DOUBLE" else 2
    return 1 if kind == "null" else None


def written_number(node: exp.Expr) -> int | None:
    """A whole number that is written out, perhaps with a sign."""
    sign = 1
    if isinstance(node, exp.Neg):
        node, sign = node.this, -1
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return sign * int(node.this)
    return None


def as_type(node: exp.Expr, type: str) -> exp.Expr:
    """A value of a type of DuckDB."""
    return exp.Cast(this=node, to=exp.DataType.build(type, dialect="duckdb"))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a function of DuckDB's own, exactly by this name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def decimal_type(width: SqlType) -> str:
    """A decimal as DuckDB spells it; a whole number as a decimal with room for it."""
    if width.is_decimal:
        return f"DECIMAL({width.digits}, {width.scale})"
    return f"DECIMAL({width.digits or DIGITS[width.kind]}, 0)"


def times(value: exp.Expr, tens: int) -> exp.Expr:
    """A whole number times a power of ten."""
    if tens == 0:
        return value
    power = as_type(exp.Literal.string("1" + "0" * tens), "HUGEINT")
    return exp.Paren(this=exp.Mul(this=value, expression=power))


def place_point(whole: exp.Expr, width: SqlType) -> exp.Expr:
    """A whole number as a decimal, with its point put in."""
    if width.scale == 0:
        return as_type(whole, decimal_type(width))
    unit = exp.Literal.string("0." + "0" * (width.scale - 1) + "1")
    product = exp.Mul(
        this=as_type(whole, f"DECIMAL({MOST_DIGITS}, 0)"),
        expression=as_type(unit, f"DECIMAL({width.scale}, {width.scale})"),
    )
    return as_type(exp.Paren(this=product), decimal_type(width))


def is_nonzero(node: exp.Expr) -> bool:
    """Whether a value is a number that is written out, and not zero."""
    value = node.this if isinstance(node, exp.Neg) else node
    return isinstance(value, exp.Literal) and not value.is_string and float(value.this) != 0


def is_number(node: exp.Expr) -> bool:
    """Whether a value is a number that is written out."""
    value = node.this if isinstance(node, exp.Neg) else node
    return isinstance(value, exp.Literal) and not value.is_string
