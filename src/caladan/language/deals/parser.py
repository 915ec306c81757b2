"""Statements: `database({…}).`, rules and facts, `query`, `export`; and goals on their own.

`parse` reads statement after statement. One that cannot be read is reported and skipped, so the
errors of a text come all at once, in one CaladanError. `parse_goal` reads what a user types at a
session: `tc(1, X)`, with or without `query` before and `.` after it.
"""

from __future__ import annotations

from typing import Final

from caladan.errors import Diagnostics, Source, did_you_mean
from caladan.language.deals.cursor import Cursor, SyntaxFailure
from caladan.language.deals.expressions import arguments
from caladan.language.deals.literals import atom, body
from caladan.language.deals.tokens import END, NAMES, VARIABLE
from caladan.program import Column, Goal, Head, Program, Relation, Rule, Type

TYPES: Final[dict[str, Type]] = {
    **{kind.value: kind for kind in Type},
    "int": Type.INTEGER,
    "bigint": Type.LONG,
    "smallint": Type.SHORT,
    "tinyint": Type.BYTE,
    "real": Type.FLOAT,
    "text": Type.STRING,
    "varchar": Type.STRING,
    "char": Type.STRING,
    "bool": Type.BOOLEAN,
    "timestamp": Type.DATETIME,
    "numeric": Type.DECIMAL,
    "bytes": Type.BINARY,
}
"""The words for the types, in lower case; case does not matter to users."""

_STATEMENT: Final = "a fact, a rule, `database`, `query` or `export`"
_AFTER_GOAL_WORD: Final = frozenset({"(", ".", "<-", ":-", END})
"""What shows that `query` or `export` is a relation here."""


class _Statements:
    """The statements read so far."""

    def __init__(self) -> None:
        self.relations: list[Relation] = []
        self.rules: list[Rule] = []
        self.goals: list[Goal] = []


def parse(source: Source) -> Program:
    """The Program of a text; raises all that is wrong with it at once."""
    found = Diagnostics()
    cursor = Cursor(source, found)
    read = _Statements()
    while cursor.kind != END:
        try:
            _statement(cursor, read)
        except SyntaxFailure as failure:
            cursor.recover(failure)
    found.raise_errors()
    return Program(tuple(read.relations), tuple(read.rules), tuple(read.goals))


def parse_goal(source: Source) -> Goal:
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
    if _goal_word(cursor) == "query":
        cursor.advance()
    goal = _goal(cursor, export=False)
    cursor.accept(".")
    if cursor.kind != END:
        cursor.fail("the end of the goal")
    return goal


def _statement(cursor: Cursor, read: _Statements) -> None:
    word = _goal_word(cursor)
    if word is not None:
        cursor.advance()
        goal = _goal(cursor, export=word == "export")
        _end(cursor, "`.` after a goal")
        read.goals.append(goal)
    elif cursor.text(cursor.current) == "database":
        read.relations.extend(_database(cursor))
    else:
        read.rules.append(_rule(cursor))


def _end(cursor: Cursor, expected: str) -> None:
    if cursor.kind != ".":
        cursor.fail(expected, ends=True)
    cursor.advance()


# ── Rules ────────────────────────────────────────────────────────────────────────────────────────


def _rule(cursor: Cursor) -> Rule:
    start = cursor.current.start
    head = _head(cursor)
    if not cursor.accept("<-"):
        span = cursor.since(start)
        _end(cursor, "`<-` or `.` after the head of a rule")
        return Rule(head, span=span)
    literals, cut = body(cursor)
    span = cursor.since(start)
    _end(cursor, "`,` or `.` after a literal")
    return Rule(head, literals, cut.order, cut.limit, span)


def _head(cursor: Cursor) -> Head:
    name = cursor.relation_name(_STATEMENT)
    cursor.no_aggregates = None
    if cursor.kind == "(":
        return Head(cursor.text(name), arguments(cursor), cursor.since(name.start))
    if name.kind == VARIABLE:
        cursor.fail_on_variable(name, _STATEMENT)
    return Head(cursor.text(name), (), cursor.span(name))


# ── Goals ────────────────────────────────────────────────────────────────────────────────────────


def _goal_word(cursor: Cursor) -> str | None:
    """`query` or `export`, if a goal begins here."""
    if cursor.next_kind in _AFTER_GOAL_WORD:
        return None
    word = cursor.text(cursor.current)
    return word if word in ("query", "export") else None


def _goal(cursor: Cursor, *, export: bool) -> Goal:
    cursor.no_aggregates = "an aggregate can stand only in the head of a rule"
    if cursor.kind == "~":
        cursor.fail("the relation of a goal", help="a goal cannot be negated; write a rule for it")
    asked = atom(cursor, "the relation of a goal")
    return Goal(asked, export, asked.span)


# ── Declarations ─────────────────────────────────────────────────────────────────────────────────


def _database(cursor: Cursor) -> list[Relation]:
    cursor.advance()
    outer = cursor.expect("(", "`(` after `database`")
    inner = cursor.expect("{", "`{` after `database(`")
    relations = [_relation(cursor)]
    while cursor.accept(","):
        relations.append(_relation(cursor))
    cursor.close(inner, "}", "`,` or `}` after a relation")
    cursor.close(outer, ")", "`)` after `}`")
    _end(cursor, "`.` after `database({…})`")
    return relations


def _relation(cursor: Cursor) -> Relation:
    name = cursor.relation_name("the name of a relation")
    opening = cursor.expect("(", "`(` after the name of a relation")
    columns: list[Column] = []
    if not cursor.accept(")"):
        columns.append(_column(cursor))
        while cursor.accept(","):
            columns.append(_column(cursor))
        cursor.close(opening, ")", "`,` or `)` after a column")
    return Relation(cursor.text(name), tuple(columns), cursor.since(name.start))


def _column(cursor: Cursor) -> Column:
    name = cursor.current
    if name.kind not in NAMES:
        cursor.fail("the name of a column")
    cursor.advance()
    cursor.expect(":", "`:` and a type after the name of a column")
    if cursor.kind not in NAMES:
        cursor.fail("the type of a column")
    return Column(cursor.text(name), _type(cursor), cursor.since(name.start))


def _type(cursor: Cursor) -> Type:
    token = cursor.advance()
    word = cursor.text(token)
    found = TYPES.get(word.lower())
    if found is not None:
        return found
    cursor.found.add(
        "C004",
        f"unknown type `{word}`",
        cursor.span(token),
        help=did_you_mean(word.lower(), TYPES) or f"the types are {', '.join(map(str, Type))}",
    )
    return Type.STRING
