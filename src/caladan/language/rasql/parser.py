"""RaSQL text → Script.

sqlglot reads the text in the dialect of `dialect.py`; its errors become diagnostics with the place
in the text. Only queries, CREATE VIEW and CREATE TABLE are statements here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, TokenError

from caladan.language.rasql.dialect import PlacedError, RaSQL
from caladan.language.rasql.script import HINTS, Hint, Script, Statement, TableDeclaration, span_of
from caladan.program import Column, Declaration, Type
from caladan.program.diagnostics import (
    CaladanError,
    RelatedSpan,
    SourceText,
    Span,
    did_you_mean,
    error,
)
from caladan.program.types import SQL_NAMES, TYPES, decimal

_WORDS: Final = tuple(type.name for type in TYPES if type is not Type.OBJECT)

_HINTS: Final[dict[str, Hint]] = {hint: hint for hint in HINTS}


def parse(source: SourceText) -> Script:
    """The statements of a text; C001, C002 and C003 where it is not RaSQL."""
    dialect = RaSQL()
    try:
        tokens = dialect.tokenize(source.text)
        trees = dialect.parser().parse(tokens, source.text)
    except TokenError:
        start = _find_unterminated(source.text)
        place = Span(source, start, len(source.text))
        raise error("C002", "text, name or comment without an end", place) from None
    except PlacedError as problem:
        raise _syntax_error(problem, source) from None
    except ParseError as problem:
        message = problem.errors[0].get("description") or str(problem)
        raise error("C001", message, Span(source, 0, 0)) from None
    _check_numbers(tokens, source)
    hints = _hints(tokens, source)
    found = [
        _statement(tree, source, hints.get(i))
        for i, tree in enumerate(t for t in trees if t is not None)
    ]
    if not found:
        raise error("C005", "the program is empty", Span(source, 0, 0))
    _check_tables(found)
    return Script(source, tuple(found))


def _syntax_error(problem: PlacedError, source: SourceText) -> CaladanError:
    place = Span(source, problem.start, problem.end)
    message = str(problem)
    return error("C001", message[:1].lower() + message[1:], place)


def _check_numbers(tokens: list[Any], source: SourceText) -> None:
    """C003 for numbers that no type of SQL holds."""
    for token in tokens:
        if token.token_type is not TokenType.NUMBER:
            continue
        if token.text.isdigit():
            problem = "has more than 38 digits" if len(token.text.lstrip("0")) > 38 else None
        else:
            problem = "is too large for a double" if _is_infinite(token.text) else None
        if problem is not None:
            place = Span(source, token.start, token.end + 1)
            raise error("C003", f"this number {problem}", place)


def _is_infinite(number: str) -> bool:
    try:
        return math.isinf(float(number))
    except ValueError:  # it has a suffix
        return False


def _check_tables(found: Sequence[TableDeclaration | Statement]) -> None:
    """C017 for a table that is declared twice, with other columns."""
    known: dict[str, Declaration] = {}
    for each in found:
        if not isinstance(each, TableDeclaration):
            continue
        table = each.relation
        first = known.setdefault(table.name.lower(), table)
        if [(c.name.lower(), c.type) for c in first.columns] != [
            (c.name.lower(), c.type) for c in table.columns
        ]:
            related = (RelatedSpan("first declared here", first.span),) if first.span else ()
            raise error(
                "C017",
                f"the table `{table.name}` is declared twice, with different columns",
                table.span,
                related=related,
            )


def _find_unterminated(text: str) -> int:
    """Where the quote or comment begins that does not end."""
    at = 0
    while at < len(text):
        opening = text[at]
        if text.startswith("--", at):
            at = text.find("\n", at)
        elif text.startswith("/*", at):
            start, at = at, text.find("*/", at + 2) + 1
            if at == 0:
                return start
        elif opening in "'\"`":
            start, at = at, text.find(opening, at + 1)
            if at < 0:
                return start
        if at < 0:
            break
        at += 1
    return 0


def _hints(tokens: list[Any], source: SourceText) -> dict[int, Hint]:
    """The hint of each statement, by its number: a comment `-- hint: broadcast`."""
    found: dict[int, Hint] = {}
    statement = 0
    for token in tokens:
        for comment in token.comments:
            word, colon, hint = comment.strip().partition(":")
            if word.strip().lower() != "hint" or not colon:
                continue
            chosen = _HINTS.get(hint.strip().lower())
            if chosen is None:
                start = source.text.find(comment.strip())
                raise error(
                    "C001",
                    f"there is no hint `{hint.strip()}`",
                    Span(source, start, start + len(comment.strip())),
                    help=f"the hints are {' and '.join(HINTS)}",
                )
            found[statement] = chosen
        if token.text == ";":
            statement += 1
    return found


def _statement(
    tree: exp.Expr, source: SourceText, hint: Hint | None
) -> TableDeclaration | Statement:
    span = span_of(tree, source)
    if isinstance(tree, exp.Query):
        return Statement(tree, source, hint=hint, span=span)
    kind = str(tree.args.get("kind", "")).upper() if isinstance(tree, exp.Create) else ""
    query = tree.args.get("expression")
    if kind == "VIEW" and isinstance(query, exp.Query):
        name, columns = _read_name(tree.this)
        return Statement(query, source, name, columns, hint, span)
    if kind == "TABLE" and query is None and isinstance(tree.this, exp.Schema):
        return TableDeclaration(_relation(tree.this, source))
    raise error(
        "C060",
        f"`{tree.key.upper()}` is not a statement of RaSQL",
        span,
        help="a script has CREATE TABLE name(column type, …), CREATE VIEW name AS query, "
        "and queries",
    )


def _read_name(node: exp.Expr) -> tuple[str, tuple[str, ...]]:
    """The name and the columns of a view."""
    if isinstance(node, exp.Schema):
        return node.this.name, tuple(column.name for column in node.expressions)
    return node.name, ()


def _relation(schema: exp.Schema, source: SourceText) -> Declaration:
    return Declaration(schema.this.name, tuple(_columns(schema, source)), span_of(schema, source))


def _columns(schema: exp.Schema, source: SourceText) -> Iterator[Column]:
    for column in schema.expressions:
        span = span_of(column, source)
        if not isinstance(column, exp.ColumnDef):
            raise error(
                "C060",
                "a table declaration has columns only",
                span,
                help="remove keys and constraints",
            )
        kind = column.args.get("kind")
        spelled = kind.this.name if isinstance(kind, exp.DataType) else ""
        if spelled not in SQL_NAMES:
            raise error(
                "C004",
                f"unknown type `{kind.sql() if kind else ''}`",
                span,
                help=did_you_mean(kind.sql().lower() if kind else "", _WORDS)
                or f"the types are {', '.join(_WORDS)}",
            )
        yield Column(column.name, _type(kind, SQL_NAMES[spelled], span), span)


def _type(kind: exp.DataType | None, type: Type, span: Span | None) -> Type:
    """A type with the digits that are written with it."""
    if kind is None or not type.is_decimal or not kind.expressions:
        return type
    try:
        return decimal(*(int(each.name) for each in kind.expressions))
    except (TypeError, ValueError) as reason:
        raise error("C004", str(reason), span) from None
