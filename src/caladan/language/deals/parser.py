"""Statements: `database({…}).`, rules and facts, `query`, `export`, `include`, `expect`; and goals.

`parse` reads statement after statement. One that cannot be read is reported and skipped, so the
errors of a text come all at once, in one CaladanError. The statements of an included file stand in
place of its `include`, the first time that it is met; its expectations speak of that file alone and
are left out. `parse_goal` reads what a user types at a
session: `tc(1, X)`, with or without `query` before and `.` after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from caladan.language import files
from caladan.language.deals import slips
from caladan.language.deals.body_aggregates import without_body_aggregates
from caladan.language.deals.cursor import Cursor, SyntaxFailure
from caladan.language.deals.expressions import (
    COMPARISONS,
    arguments,
    expression,
    named_arguments,
    primary,
)
from caladan.language.deals.literals import atom, body
from caladan.language.deals.tokens import END, INTEGER, NAMES as WORDS, TEXT, VARIABLE, Token
from caladan.program import (
    TIMES,
    Atom,
    Column,
    Constant,
    Declaration,
    Expectation,
    Expression,
    Goal,
    Head,
    Parameter,
    Program,
    Rule,
    Time,
    Type,
)
from caladan.program.diagnostics import (
    CaladanError,
    Diagnostics,
    SourceText,
    Span,
    did_you_mean,
    error,
)
from caladan.program.functions import Definition
from caladan.program.types import NAMES, TYPES, decimal, list_of, struct_of

_STATEMENT: Final = "a fact, a rule, `database`, `query` or `export`"
_AFTER_GOAL_WORD: Final = frozenset({"(", ".", "<-", ":-", END})
"""What shows that `query`, `export`, `include` or `expect` is a relation here."""


class _Statements:
    """The statements read so far."""

    def __init__(self) -> None:
        self.relations: list[Declaration] = []
        self.rules: list[Rule] = []
        self.goals: list[Goal] = []
        self.expectations: list[Expectation] = []


def parse(
    source: SourceText,
    seen: set[str] | None = None,
    functions: Mapping[str, Definition] = MappingProxyType({}),
) -> Program:
    """The Program of a text; raises all that is wrong with it at once.

    `seen` has the files that were read before, by their identity, and gets those read now.
    `functions` are those of Python that it may call.
    """
    found = Diagnostics()
    read = _Statements()
    seen = set() if seen is None else seen
    seen.add(files.identity(source.name))
    root = files.root_of(source.name)
    cursors = [Cursor(source, found, functions=functions)]
    while cursors:
        cursor = cursors[-1]
        if cursor.kind == END:
            cursors.pop()
            continue
        try:
            if _word(cursor) != "include":
                _statement(cursor, read)
            elif (included := _include(cursor, seen, root)) is not None:
                cursors.append(Cursor(included, found, functions=functions))
        except SyntaxFailure as failure:
            cursor.recover(failure)
    found.raise_errors()
    own = (each for each in read.expectations if each.span and each.span.source is source)
    rules = without_body_aggregates(read.rules, (each.name for each in read.relations))
    return Program(tuple(read.relations), tuple(rules), tuple(read.goals), tuple(own))


def parse_goal(source: SourceText) -> Goal:
    """The Goal of a text that holds one."""
    found = Diagnostics()
    cursor = Cursor(source, found, whole="goal")
    try:
        goal = _goal_alone(cursor)
    except SyntaxFailure:
        found.raise_errors()
        raise
    found.raise_errors()
    return goal


def _goal_alone(cursor: Cursor) -> Goal:
    if _word(cursor) == "query":
        cursor.advance()
    goal = _goal(cursor, export=False)
    cursor.accept(".")
    if cursor.kind != END:
        cursor.fail("the end of the goal")
    return goal


def _statement(cursor: Cursor, read: _Statements) -> None:
    word = _word(cursor)
    if word == "expect":
        read.expectations.append(_expectation(cursor))
    elif word is not None:
        cursor.advance()
        goal = _goal(cursor, export=word == "export")
        _end(cursor, "`.` after a goal")
        read.goals.append(goal)
    elif cursor.text(cursor.current) == "database":
        read.relations.extend(_database(cursor))
    else:
        read.rules.append(_rule(cursor))


def _end(cursor: Cursor, expected: str, *, help: str | None = None) -> None:
    if cursor.kind != ".":
        cursor.fail(expected, ends=True, help=help)
    cursor.advance()


# ── Rules ────────────────────────────────────────────────────────────────────────────────────────


def _rule(cursor: Cursor) -> Rule:
    start = cursor.current.start
    time = _time(cursor)
    head = _head(cursor)
    if not cursor.accept("<-"):
        span = cursor.since(start)
        help = slips.HEAD_FIRST if cursor.kind == "=>" else None
        _end(cursor, "`<-` or `.` after the head of a rule", help=help)
        return Rule(head, span=span, time=time)
    literals, cut = body(cursor)
    span = cursor.since(start)
    help = slips.CHOICE if cursor.kind in COMPARISONS else None
    _end(cursor, "`,` or `.` after a literal", help=help)
    return Rule(head, literals, cut.order, cut.limit, span, time=time)


def _time(cursor: Cursor) -> Time:
    """When a rule takes effect: `@next` and the like before its head."""
    if not cursor.accept("@"):
        return "now"
    word = cursor.text(cursor.current)
    time: Time | None = next((each for each in TIMES[1:] if each == word), None)
    if time is None:
        cursor.fail("`next`, `delete`, `upsert` or `async` after `@`")
    cursor.advance()
    return time


def _head(cursor: Cursor) -> Head:
    name = cursor.relation_name(_STATEMENT)
    cursor.no_aggregates = cursor.read_body = None
    if cursor.kind == "(":
        given, columns = named_arguments(cursor)
        return Head(cursor.text(name), given, cursor.since(name.start), columns=columns)
    if name.kind == VARIABLE:
        cursor.fail_on_variable(name, _STATEMENT)
    return Head(cursor.text(name), (), cursor.span(name))


# ── Goals ────────────────────────────────────────────────────────────────────────────────────────


def _word(cursor: Cursor) -> str | None:
    """`query`, `export`, `include` or `expect`, if such a statement begins here."""
    if cursor.next_kind in _AFTER_GOAL_WORD:
        return None
    word = cursor.text(cursor.current)
    return word if word in ("query", "export", "include", "expect") else None


def _goal(cursor: Cursor, *, export: bool) -> Goal:
    cursor.no_aggregates = "an aggregate must be in the head of a rule"
    if cursor.kind == "~":
        cursor.fail("the relation of a goal", help="a goal cannot be negated; write a rule for it")
    asked = atom(cursor, "the relation of a goal")
    if cursor.kind == ",":
        cursor.fail("`.` after a goal", help="a goal is one atom; write a rule for the rest")
    return Goal(asked, export, asked.span)


# ── Other files ─────────────────────────────────────────────────────────────────────────────────


def _include(cursor: Cursor, seen: set[str], root: str) -> SourceText | None:
    """The text that is included; None if it was before, or cannot be read.

    `root` is the folder of the program. Of a file from elsewhere that is no program nothing is
    quoted.
    """
    start = cursor.advance().start
    if cursor.kind != TEXT:
        cursor.fail("the name of a file in quotes", help="as in `include 'rules.dl'.`")
    named = primary(cursor)
    span = cursor.since(start)
    _end(cursor, "`.` after the name of a file")
    assert isinstance(named, Constant)
    name = files.beside(cursor.source.name, str(named.value))
    try:
        identity = files.identity(name)
        if identity in seen:
            return None
        files.require_allowed(name, root, span)
        text = SourceText(name, files.text_of(name, span))
        if not files.is_below(name, root):
            _require_program(text, seen, cursor.functions, span)
        seen.add(identity)
        return text
    except CaladanError as problem:
        cursor.found.extend(problem.diagnostics)
    return None


def _require_program(
    text: SourceText, seen: set[str], functions: Mapping[str, Definition], included: Span
) -> None:
    """Raise C035 where a file is included that does not parse, with nothing of what it says."""
    try:
        parse(text, {*seen}, functions)
    except CaladanError as problem:
        lines = sorted({getattr(each.place, "line", 0) for each in problem.diagnostics})
        found = f"cannot read `{text.name}`: it is no program (line {lines[0]})"
        raise error("C035", found, included) from None


# ── Expectations ─────────────────────────────────────────────────────────────────────────────────


def _expectation(cursor: Cursor) -> Expectation:
    """`expect p(X).`, `expect no p(X).`, `expect p(X) = {1, 2}.`"""
    start = cursor.advance().start
    cursor.no_aggregates = "an aggregate must be in the head of a rule"
    nothing = cursor.text(cursor.current) == "no" and cursor.next_kind in WORDS
    if nothing:
        cursor.advance()
    if cursor.kind == "~":
        cursor.fail("the relation of an expectation", help="write `expect no …`")
    asked = atom(cursor, "the relation of an expectation")
    if asked.columns:
        cursor.fail_at(cursor.since(start), "an expectation has its arguments by position")
    rows: tuple[tuple[Expression, ...], ...] | None = () if nothing else None
    if not nothing and cursor.accept("="):
        rows = _rows(cursor, asked)
    span = cursor.since(start)
    _end(cursor, "`.` after an expectation" if nothing else "`.` or `= {…}` after an expectation")
    return Expectation(asked, rows, span)


def _rows(cursor: Cursor, asked: Atom) -> tuple[tuple[Expression, ...], ...]:
    opening = cursor.expect("{", "`{` and the facts that are expected")
    if cursor.accept("}"):
        return ()
    rows = cursor.several(lambda at: _row(at, asked))
    cursor.close(opening, "}", "`,` or `}` after a fact that is expected")
    return tuple(rows)


def _row(cursor: Cursor, asked: Atom) -> tuple[Expression, ...]:
    start = cursor.current.start
    row = arguments(cursor) if cursor.kind == "(" else (expression(cursor),)
    for value in row:
        if not isinstance(value, Constant | Parameter):
            cursor.fail_at(
                value.span or cursor.since(start), "a fact that is expected holds constants only"
            )
    if len(row) != len(asked.arguments):
        wanted = len(asked.arguments)
        cursor.found.add(
            "C011",
            f"a fact of {len(row)} where `{asked.relation}` is asked for with {wanted} "
            f"{'argument' if wanted == 1 else 'arguments'}",
            cursor.since(start),
        )
    return row


# ── Declarations ─────────────────────────────────────────────────────────────────────────────────


def _database(cursor: Cursor) -> list[Declaration]:
    cursor.advance()
    outer = cursor.expect("(", "`(` after `database`")
    inner = cursor.expect("{", "`{` after `database(`")
    relations = cursor.several(_relation)
    cursor.close(inner, "}", "`,` or `}` after a relation")
    cursor.close(outer, ")", "`)` after `}`")
    _end(cursor, "`.` after `database({…})`")
    return relations


def _relation(cursor: Cursor) -> Declaration:
    name = cursor.relation_name("the name of a relation")
    opening = cursor.expect("(", "`(` after the name of a relation")
    columns: list[Column] = []
    if not cursor.accept(")"):
        columns += cursor.several(_column)
        cursor.close(opening, ")", "`,` or `)` after a column")
    return Declaration(cursor.text(name), tuple(columns), cursor.since(name.start))


def _column(cursor: Cursor) -> Column:
    name = cursor.current
    if name.kind not in WORDS:
        cursor.fail("the name of a column")
    cursor.advance()
    cursor.expect(":", "`:` and a type after the name of a column")
    if cursor.kind not in WORDS:
        cursor.fail("the type of a column")
    type = _type(cursor)
    is_required = cursor.accept("!")
    return Column(cursor.text(name), type, cursor.since(name.start), is_required=is_required)


def _type(cursor: Cursor) -> Type:
    token = cursor.advance()
    word = cursor.text(token)
    if NAMES.get(word.lower()) is Type.DECIMAL and cursor.kind == "(":
        return _decimal(cursor, token)
    found = NAMES.get(word.lower())
    if found is not None and found.is_nested and found is not Type.OBJECT:
        return _parse_nested(cursor, found)
    if found is not None:
        return found
    cursor.found.add(
        "C004",
        f"unknown type `{word}`",
        cursor.span(token),
        help=did_you_mean(word.lower(), NAMES) or f"the types are {', '.join(map(str, TYPES))}",
    )
    return Type.STRING


def _parse_nested(cursor: Cursor, outer: Type) -> Type:
    """`list<string>`, `struct<name: string, city: string>`."""
    is_list = outer is Type.LIST
    example = "list<string>" if is_list else "struct<name: string, city: string>"
    if cursor.kind != "<":
        cursor.fail(f"`<` and what is inside of a {outer}, as in `{example}`")
    cursor.enter()
    opening = cursor.advance()
    fields: list[tuple[str, Type]] = []

    def inside(at: Cursor) -> Type:
        if at.kind not in WORDS:
            at.fail("a type")
        return _type(at)

    def field(at: Cursor) -> None:
        if at.kind not in WORDS:
            at.fail("the name of a field")
        name = at.text(at.advance())
        at.expect(":", "`:` and a type after the name of a field")
        fields.append((name, inside(at)))

    if is_list:
        element = inside(cursor)
    else:
        cursor.several(field)
        element = None
    cursor.close(opening, ">", "`>` after what is inside")
    cursor.depth -= 1
    return struct_of(*fields) if element is None else list_of(element)


def _decimal(cursor: Cursor, word: Token) -> Type:
    """`decimal(10, 2)`: all digits, and those after the point."""
    opening = cursor.advance()
    numbers = cursor.several(_digits)
    cursor.close(opening, ")", "`,` or `)` after the digits of a decimal")
    try:
        if len(numbers) > 2:
            raise ValueError("a decimal has two numbers: all digits, and those after the point")
        return decimal(*numbers)
    except ValueError as reason:
        help = "such as decimal(10, 2): 10 digits, 2 of them after the point"
        cursor.found.add("C004", str(reason), cursor.since(word.start), help=help)
    return Type.DECIMAL


def _digits(cursor: Cursor) -> int:
    if cursor.kind != INTEGER:
        cursor.fail("a number of digits")
    return int(cursor.text(cursor.advance()))
