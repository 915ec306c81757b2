"""Program → canonical DeALS text: `parse(unparse(program)) == program`.

One relation, rule or goal to a line; declarations, then rules, goals, and expectations. What was
included is printed in its place: the text needs no other file. Parentheses stand only
where the reading would change without them, and around a sign that follows an operator. What DeALS
cannot write (an infinite number, a name with blanks) is refused with C050. A date becomes the
quoted text that dates compare with. `TermWriter` writes expressions for others too.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from caladan.language.deals.expressions import PRECEDENCE
from caladan.language.deals.tokens import (
    KEYWORDS,
    RESERVED_RELATIONS,
    RESERVED_WORDS,
    is_name,
    is_variable,
    quote,
)
from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Call,
    Choice,
    Column,
    Comparison,
    Conditional,
    Constant,
    Declaration,
    Disjunction,
    Expectation,
    Expression,
    Function,
    Generator,
    Goal,
    Head,
    Literal,
    Negative,
    Null,
    Object,
    Parameter,
    Program,
    Rule,
    SortKey,
    Value,
    Variable,
)
from caladan.program.aggregates import has_tuples
from caladan.program.diagnostics import error
from caladan.program.nested import Packed, Struct, python, unpack
from caladan.program.operations import Operation
from caladan.program.values import write_value


def unparse(program: Program) -> str:
    """A program as DeALS text, with a line end after its last line."""
    parts = (
        _database(program.relations),
        [rule(each) for each in program.rules],
        [goal(each) for each in program.goals],
        [expectation(each) for each in program.expectations],
    )
    return "\n".join("".join(f"{line}\n" for line in part) for part in parts if part)


def relation(node: Declaration) -> str:
    """`arc(A: integer, B: integer)`."""
    return f"{_relation_name(node.name)}({commas(map(_column, node.columns))})"


def rule(node: Rule) -> str:
    """A rule or fact, with its `.`."""
    parts = commas((*map(literal, node.body), *_goals(node)))
    head = _head(node.head) if node.time == "now" else f"@{node.time} {_head(node.head)}"
    return f"{head} <- {parts}." if parts else f"{head}."


def goal(node: Goal) -> str:
    """`query tc(A, B).` or `export tc(A, B).`"""
    return f"{'export' if node.export else 'query'} {literal(node.atom)}."


def expectation(node: Expectation) -> str:
    """`expect tc(1, 2).`, `expect no tc(2, 1).`, `expect tc(1, X) = {(1, 2)}.`"""
    asked = literal(node.atom)
    if node.rows is None:
        return f"expect {asked}."
    if not node.rows:
        return f"expect no {asked}."
    rows = (f"({commas(map(expression, row))})" for row in node.rows)
    return f"expect {asked} = {{{commas(rows)}}}."


def literal(node: Literal) -> str:
    """A literal of a body."""
    match node:
        case Generator():
            *given, item = node.arguments
            if node.relation == "each" and not _is_several(given[0]):
                return f"{expression(item)} in {expression(given[0])}"
            return f"{expression(item)} in {node.relation}({commas(map(expression, given))})"
        case Atom():
            return f"{'~' if node.negated else ''}{_call(node.relation, node)}"
        case Comparison():
            return _WRITER.comparison(node)
        case Choice():
            then, otherwise = (
                commas(map(literal, node.then)),
                commas(map(literal, node.otherwise)),
            )
            return f"if({_WRITER.comparisons(node.condition)} then {then} else {otherwise})"
        case Disjunction():
            return f"({' ; '.join(commas(map(literal, branch)) for branch in node.branches)})"


@dataclass(frozen=True, slots=True)
class TermWriter:
    """How expressions are written; how names and values look is up to whoever writes them.

    `opaque` stands before functions that are Python's own.
    """

    variable: Callable[[Variable], str]
    value: Callable[[Value], str]
    parameter: Callable[[str], str] = str
    opaque: str = ""

    def expression(self, node: Expression, weakest: int = 0) -> str:
        """An expression, in parentheses if its top operator binds less than `weakest`."""
        match node:
            case Variable():
                return self.variable(node)
            case Constant():
                return self.value(node.value)
            case Parameter():
                name = self.parameter(node.name)
                return f"{{{name}}}" if node.style == "{}" else f"${name}"
            case Arithmetic():
                return self._arithmetic(node, weakest)
            case Negative():
                simple = isinstance(node.operand, Variable | Parameter | Conditional | Aggregate)
                operand = self.expression(node.operand)
                return f"-{operand}" if simple else f"-({operand})"
            case Conditional():
                then, otherwise = self.expression(node.then), self.expression(node.otherwise)
                return f"if({self.comparisons(node.condition)} then {then} else {otherwise})"
            case Operation():
                return self.expression(node.written, weakest)
            case Call("list" | "struct" | "item" | "field"):
                return self._nested(node)
            case Call():
                mark = self.opaque if isinstance(node, Function) else ""
                return f"{mark}{node.function}({self.expressions(node.arguments)})"
            case Aggregate():
                terms = self.expressions(node.terms) or "_"
                has_tuple = len(node.terms) > 1 and has_tuples(node)
                terms = f"({terms})" if has_tuple else terms
                return f"{node.function}<{terms}>"

    def _nested(self, node: Call) -> str:
        """`[A, B]`, `{name: N}`, `L[0]`, `S.name`; as calls where the parser would want them."""
        given = node.arguments
        if node.function == "list":
            return f"[{self.expressions(given)}]"
        names = [each.value if isinstance(each, Constant) else None for each in given]
        if node.function == "struct" and given and all(map(_is_field, names[::2])):
            values = map(self.expression, given[1::2])
            fields = zip(names[::2], values, strict=True)
            return f"{{{', '.join(f'{name}: {value}' for name, value in fields)}}}"
        if isinstance(given[0], Variable | Call) and not isinstance(given[0], Operation):
            if node.function == "item":
                return f"{self.expression(given[0])}[{self.expression(given[1])}]"
            if node.function == "field" and _is_field(names[1]):
                return f"{self.expression(given[0])}.{names[1]}"
        return f"{node.function}({self.expressions(given)})"

    def expressions(self, nodes: Iterable[Expression]) -> str:
        return commas(map(self.expression, nodes))

    def comparison(self, node: Comparison) -> str:
        """`left operator right`."""
        return f"{self.expression(node.left)} {node.operator} {self.expression(node.right)}"

    def comparisons(self, nodes: Iterable[Comparison]) -> str:
        return commas(map(self.comparison, nodes))

    def _arithmetic(self, node: Arithmetic, weakest: int) -> str:
        precedence = PRECEDENCE[node.operator]
        left = self.expression(node.left, precedence)
        right = self.expression(node.right, precedence + 1)
        if right.startswith("-"):
            right = f"({right})"
        text = f"{left} {node.operator} {right}"
        return f"({text})" if precedence < weakest else text


def _is_field(name: Value | None) -> bool:
    return isinstance(name, str) and is_name(name) and name not in KEYWORDS


def _is_several(node: Expression) -> bool:
    """Whether the parser would take what stands after `in` for no list."""
    match node:
        case Call("list") | Variable() | Constant(Packed()):
            return False
        case Call():
            return node.function not in ("item", "field")
        case _:
            return True


def expression(node: Expression) -> str:
    """An expression as DeALS has it."""
    return _WRITER.expression(node)


def _database(relations: tuple[Declaration, ...]) -> list[str]:
    if len(relations) < 2:
        return [f"database({{{relation(each)}}})." for each in relations]
    *rest, last = (f"    {relation(each)}" for each in relations)
    return ["database({", *(f"{line}," for line in rest), last, "})."]


def _column(node: Column) -> str:
    return f"{_column_name(node.name)}: {node.type}{'!' if node.is_required else ''}"


def _column_name(name: str) -> str:
    return _check(name, is_name(name) and name not in RESERVED_RELATIONS, "column")


def _head(node: Head) -> str:
    return _call(node.relation, node)


def _call(name: str, node: Atom | Head) -> str:
    arguments = list(map(expression, node.arguments))
    if node.columns:
        pairs = zip(node.columns, arguments, strict=True)
        arguments = [f"{_column_name(column)}: {argument}" for column, argument in pairs]
    row = node.row if isinstance(node, Atom) else None
    numbered = "" if row is None else f"[{_variable(row)}]"
    return f"{_relation_name(name)}{numbered}({commas(arguments)})"


def _goals(node: Rule) -> Iterator[str]:
    if node.order:
        yield f"sort({commas(map(_sort_key, node.order))})"
    if node.limit is not None:
        yield f"limit({expression(node.limit)})"


def _sort_key(node: SortKey) -> str:
    return f"({_variable(node.variable)}, {'desc' if node.descending else 'asc'})"


def _value(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            _check(str(value), math.isfinite(value), "number")
            return repr(value)
        case str():
            return value if _is_plain_word(value) else quote(value)
        case dt.datetime():
            return quote(value.isoformat(sep=" "))
        case Null():
            return "null"
        case Object():
            return _check(repr(value), False, "object")
        case Packed():
            return _print_nested(python(unpack(value), value.type))
        case _:
            return quote(write_value(value))


def _print_nested(value: Any) -> str:
    """A list or a struct as the parser reads it."""
    match value:
        case Struct():
            fields = (
                (_check(n, is_name(n), "field"), _print_nested(v))
                for n, v in value.asdict().items()
            )
            return f"{{{', '.join(f'{name}: {text}' for name, text in fields)}}}"
        case tuple():
            return f"[{commas(map(_print_nested, value))}]"  # pyright: ignore[reportUnknownArgumentType]
        case None:
            return "null"
        case _:
            return _value(value)


def _is_plain_word(text: str) -> bool:
    plain = text.isascii() and is_name(text) and not is_variable(text)
    return plain and text not in RESERVED_WORDS


def _relation_name(name: str) -> str:
    return _check(name, is_name(name) and name not in RESERVED_RELATIONS, "relation")


def _variable(node: Variable) -> str:
    return _check(node.name, is_name(node.name) and is_variable(node.name), "variable")


def _check(text: str, valid: bool, what: str) -> str:
    if not valid:
        raise error("C050", f"DeALS has no way to write the {what} `{text}`")
    return text


def _parameter(name: str) -> str:
    return _check(name, is_name(name), "parameter")


def commas(parts: Iterable[str]) -> str:
    """Parts with commas between them."""
    return ", ".join(parts)


_WRITER: Final = TermWriter(_variable, _value, _parameter)
