"""Bodies: atoms, comparisons, `if(…)` of literals; `sort` and `limit` are read by `CutGoals`.

An `if(…)` at the start of a literal may turn out to be a value, `if(A > 1 then 2 else 3) = X`, or a
choice between literals, `if(A > 1 then p(A) else X = 3)`. What follows its `)` decides: an operator
makes it a value. Until then its branches are kept as *items*, and so is a lone word, which may be a
constant or an atom without arguments. `as_expression` and `as_literal` settle what an item is.

The goals `sort((Z, desc), Y)` and `limit(10)`: which of a rule's solutions remain.

They look like atoms and may stand anywhere in a body, but belong to the whole rule and come at most
once each; otherwise C022.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NoReturn, TypeAlias

from caladan.language.deals.cursor import (
    MAX_ATOMS,
    MAX_COMPARISONS,
    Cursor,
    SyntaxFailure,
)
from caladan.language.deals.expressions import (
    COMPARISONS,
    PRECEDENCE,
    arguments,
    arithmetic,
    choice,
    comparison,
    expression,
    fail_on_function,
    inside,
    is_function,
    named_arguments,
    parse_call,
)
from caladan.language.deals.slips import word_help
from caladan.language.deals.tokens import (
    END,
    FLOAT,
    GOALS,
    INTEGER,
    NAMES,
    PARAMETER,
    TEXT,
    VARIABLE,
    WORD,
)
from caladan.program import (
    NULL,
    Atom,
    Choice,
    Comparison,
    Conditional,
    Constant,
    Disjunction,
    Expression,
    Generator,
    Literal,
    SortKey,
    Type,
    Variable,
)
from caladan.program.diagnostics import RelatedSpan, Span
from caladan.program.functions import FUNCTIONS, Definition, FunctionRow


@dataclass(frozen=True, slots=True)
class _Word:
    """A lone word: a constant, or an atom without arguments."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class _If:
    """An `if(…)` that may still become a value or a choice."""

    condition: tuple[Comparison, ...]
    then: tuple[_Item, ...]
    otherwise: tuple[_Item, ...]
    span: Span


_Item: TypeAlias = "Literal | Expression | _Word | _If"

_ENDS: Final = frozenset({",", ";", ".", ")", "then", "else", END})
"""What may follow a literal, and so a lone word that is one."""

_BEGINNINGS: Final = NAMES | {
    INTEGER, FLOAT, TEXT, PARAMETER, "true", "false", "-", "(", "{", "[",
}  # fmt: skip
"""What the left side of a comparison may begin with, apart from `if`."""

_LITERAL: Final = "an atom or a comparison"


def body(cursor: Cursor) -> tuple[tuple[Literal, ...], CutGoals]:
    """Literals joined by `,`, and the `sort` and `limit` among them."""
    cursor.no_aggregates = "an aggregate must be in the head of a rule"
    cursor.read_body = _literals
    literals: list[Literal] = []
    cut = CutGoals()
    atoms = others = 0
    first = cursor.current.start
    while True:
        if at_goal(cursor):
            cut.read(cursor)
        else:
            start = cursor.current.start
            literals.append(as_literal(cursor, _item(cursor)))
            is_atom = isinstance(literals[-1], Atom)
            atoms, others = atoms + is_atom, others + (not is_atom)
            if atoms > MAX_ATOMS or others > MAX_COMPARISONS:
                most = f"{MAX_ATOMS} atoms" if is_atom else f"{MAX_COMPARISONS} comparisons"
                cursor.fail_at(
                    cursor.since(start),
                    f"this body is too long: more than {most}",
                    help="derive a relation from some of them, by a rule of its own",
                )
        if cursor.accept(","):
            continue
        if cursor.kind == ";":
            literals = [_whole_disjunction(cursor, literals, cut, first)]
        return tuple(literals), cut


def _whole_disjunction(
    cursor: Cursor, first: list[Literal], cut: CutGoals, start: int
) -> Disjunction:
    """A body that is a disjunction without parentheses; `,` binds closer than `;`."""
    if cut.order or cut.limit is not None:
        cursor.fail(
            "`.` after the body", help="put alternatives in parentheses: `(p(X) ; q(X)), limit(3)`"
        )
    branches = [tuple(first)]
    while cursor.accept(";"):
        branches.append(_literals(cursor))
    return Disjunction(tuple(branches), cursor.since(start))


def atom(cursor: Cursor, what: str, *, bare: bool = False) -> Atom:
    """`relation(argument, …)`; with `bare` also `relation` alone."""
    name = cursor.relation_name(what)
    row = _row(cursor) if cursor.kind == "[" else None
    if cursor.kind != "(":
        if name.kind == VARIABLE:
            cursor.fail_on_variable(name, what)
        if not bare:
            text = cursor.text(name)
            cursor.fail(
                f"`(` after the relation `{text}`",
                help=f"write its arguments: `{text}(…)`, or `{text}()` if it has none",
            )
        return Atom(cursor.text(name), (), span=cursor.span(name))
    given, columns = named_arguments(cursor)
    return Atom(cursor.text(name), given, span=cursor.since(name.start), columns=columns, row=row)


def _row(cursor: Cursor) -> Variable:
    """`[R]` after the name of a relation: a variable for the number of the row."""
    opening = cursor.advance()
    token = cursor.current
    if token.kind != VARIABLE:
        cursor.fail("a variable for the number of a row within `[` and `]`")
    cursor.advance()
    cursor.close(opening, "]", "`]` after the number of a row")
    return Variable(cursor.text(token), cursor.span(token))


def as_literal(cursor: Cursor, item: _Item) -> Literal:
    """Take an item as a literal, or fail: it is a value."""
    match item:
        case Atom() | Comparison() | Choice() | Disjunction():
            return item
        case _Word():
            return Atom(item.name, (), span=item.span)
        case _If():
            then = tuple(as_literal(cursor, part) for part in item.then)
            otherwise = tuple(as_literal(cursor, part) for part in item.otherwise)
            return Choice(item.condition, then, otherwise, item.span)
        case _:
            _refuse_value(cursor, item)


def as_expression(cursor: Cursor, item: _Item) -> Expression:
    """Take an item as a value, or fail: it is a literal."""
    match item:
        case _Word():
            return Constant(NULL if item.name == "null" else item.name, item.span)
        case _If():
            then = _only(cursor, item.then, item.span)
            otherwise = _only(cursor, item.otherwise, item.span)
            return Conditional(item.condition, then, otherwise, item.span)
        case Atom() | Comparison() | Choice() | Disjunction():
            _refuse_literal(cursor, item.span)
        case _:
            return item


def _item(cursor: Cursor) -> _Item:
    """A literal, or what may still become one."""
    if cursor.kind == "~":
        return _parse_negation(cursor)
    if cursor.kind == "if":
        return _if(cursor)
    if cursor.kind == "(" and _has_branches(cursor):
        return _disjunction(cursor)
    if cursor.kind in NAMES and (cursor.next_kind == "(" or _has_row(cursor)):
        if at_goal(cursor):
            misplaced_goal(cursor, "it belongs to the whole rule, not to a branch of `if`")
        return _atom_or_call(cursor)
    if cursor.kind not in _BEGINNINGS or _at_slip(cursor):
        cursor.fail(_LITERAL)
    if cursor.kind == WORD and (cursor.next_kind in _ENDS or cursor.next_kind in NAMES):
        token = cursor.advance()
        return _Word(cursor.text(token), cursor.span(token))
    start = cursor.current.start
    return _parse_comparison(cursor, expression(cursor), start)


def _has_row(cursor: Cursor) -> bool:
    """Whether this is an atom with the number of its row, `tx[R](A, V)`; not `L[0]`."""
    if cursor.next_kind != "[":
        return False
    return cursor.kind != VARIABLE or (cursor.peek(3) == "]" and cursor.peek(4) == "(")


def _atom_or_call(cursor: Cursor) -> _Item:
    """An atom, or a comparison that begins with a function: what follows tells them apart."""
    token = cursor.current
    found = atom(cursor, "the name of a relation")
    name = cursor.text(token)
    if not is_function(cursor, name):
        if cursor.kind in COMPARISONS or cursor.kind in PRECEDENCE:
            fail_on_function(cursor, token)
        return found
    if cursor.kind in _ENDS:
        return _predicate(cursor, found)
    value = inside(cursor, parse_call(cursor, name, found.arguments, token))
    return _parse_comparison(cursor, arithmetic(cursor, value, token.start), token.start)


def _predicate(cursor: Cursor, found: Atom) -> Atom | Comparison:
    """An atom, or the test that a function of Python which stands in its place gives true."""
    defined = cursor.functions.get(found.relation)
    if defined is None:
        return found
    if defined.returns is not Type.BOOLEAN:
        cursor.fail_at(
            found.span or cursor.span(cursor.current),
            f"`{found.relation}` gives a {defined.returns}, which is neither true nor false",
            help=f"compare it, as in `V = {found.relation}(…)`",
        )
    call = replace(defined.called(found.arguments), span=found.span)
    return Comparison("=", call, Constant(not found.negated), found.span)


def _at_slip(cursor: Cursor) -> bool:
    """Whether a word of another language stands before an atom, as in `not p(X)`."""
    word = cursor.text(cursor.current)
    return cursor.next_kind in NAMES and word_help(word, cursor.known_functions) is not None


def _parse_comparison(cursor: Cursor, left: Expression, start: int) -> _Item:
    """The rest of a comparison, or a value alone for the caller to judge."""
    if cursor.kind in COMPARISONS:
        return comparison(cursor, left, start)
    if cursor.kind == WORD and cursor.text(cursor.current) == "in":
        return _generator(cursor, left, start)
    if cursor.kind not in _ENDS:
        cursor.fail("a comparison operator after a value")
    return left


def _generator(cursor: Cursor, item: Expression, start: int) -> Generator:
    """The rest of `X in range(1, 4)`."""
    cursor.advance()
    token = cursor.current
    name = cursor.text(token)
    row = cursor.functions.get(name) or FUNCTIONS.get(name)
    gives_list = isinstance(row, FunctionRow) and row.gives_lists
    if cursor.kind == WORD and (row is None or cursor.next_kind != "("):
        cursor.fail("a list, or a function that gives several rows, after `in`", help=_SEVERAL)
    if cursor.kind in (TEXT, INTEGER, FLOAT) or (cursor.kind == "{" and cursor.peek(2) == ","):
        cursor.fail("a list, or a function that gives several rows, after `in`", help=_SEVERAL)
    if row is None or cursor.kind != WORD or gives_list:
        return Generator("each", (expression(cursor), item), span=cursor.since(start))
    cursor.advance()
    given = arguments(cursor)
    span = cursor.since(start)
    complaint = row.complaint(len(given))
    if complaint is not None:
        cursor.fail_at(span, f"`{name}` {complaint}")
    if row.rows is None:
        cursor.fail_at(span, f"`{name}` gives one value", help=f"write `X = {name}(…)`")
    parts = row.rows if isinstance(row, Definition) else None
    return Generator(row.name, (*given, item), span=span, parts=parts)


_SEVERAL: Final = (
    "for one of several values write `X in [1, 2]`, for each of a range `X in range(1, 4)`; or "
    "join a relation that has them"
)


def _parse_negation(cursor: Cursor) -> Atom | Comparison:
    tilde = cursor.advance()
    if at_goal(cursor):
        misplaced_goal(cursor, "it cannot be negated")
    if cursor.kind == "(":
        cursor.fail(
            "the name of a relation after `~`",
            help="to negate several literals, move them to a rule and negate its relation; "
            "to negate a comparison, write its opposite, as in `X ~= Y`",
        )
    positive = atom(cursor, "the name of a relation after `~`", bare=True)
    found = replace(positive, negated=True, span=cursor.since(tilde.start))
    return _predicate(cursor, found)


def _if(cursor: Cursor) -> _Item:
    token, test, then, otherwise = choice(cursor, _branch, "`,`", "a branch of `if`")
    item = _If(test, then, otherwise, cursor.since(token.start))
    if cursor.kind in PRECEDENCE or cursor.kind in COMPARISONS:
        value = arithmetic(cursor, as_expression(cursor, item), token.start)
        return _parse_comparison(cursor, value, token.start)
    return item


def _has_branches(cursor: Cursor) -> bool:
    """Whether the parentheses that open here are those of a disjunction, not of a value."""
    depth = 0
    for kind in islice(cursor.kinds, cursor.index, None):
        depth += (kind == "(") - (kind == ")")
        if not depth or kind in (".", END):
            return False
        if kind == ";" and depth == 1:
            return True
    return False


def _disjunction(cursor: Cursor) -> Disjunction:
    cursor.enter()
    opening = cursor.advance()
    branches = cursor.several(_literals, ";")
    cursor.close(opening, ")", "`,`, `;` or `)` after a branch of a disjunction")
    cursor.depth -= 1
    return Disjunction(tuple(branches), cursor.since(opening.start))


def _literals(cursor: Cursor) -> tuple[Literal, ...]:
    return tuple(cursor.several(_literal))


def _literal(cursor: Cursor) -> Literal:
    if at_goal(cursor):
        misplaced_goal(cursor, "it belongs to the whole rule, not to one of several branches")
    return as_literal(cursor, _item(cursor))


def _branch(cursor: Cursor) -> tuple[_Item, ...]:
    return tuple(cursor.several(_item))


def _only(cursor: Cursor, items: tuple[_Item, ...], span: Span) -> Expression:
    if len(items) != 1:
        _refuse_literal(cursor, span)
    return as_expression(cursor, items[0])


def _refuse_value(cursor: Cursor, value: Expression) -> NoReturn:
    span = value.span or cursor.span(cursor.current)
    text = span.text
    help = f"compare it, as in `X = {text}`"
    if isinstance(value, Variable):
        help = f"`{text}` is a variable; a relation is written `{text}(…)`, or begins in lower case"
    cursor.fail_at(span, f"expected {_LITERAL}, found a value", help=help)


def _refuse_literal(cursor: Cursor, span: Span | None) -> NoReturn:
    cursor.fail_at(
        span or cursor.span(cursor.current),
        "expected a value, found a literal: an operator follows, so this `if` is a value",
        help="write one value after `then` and one after `else`",
    )


class CutGoals:
    """The order and limit of one rule."""

    def __init__(self) -> None:
        self.order: tuple[SortKey, ...] = ()
        self.limit: Expression | None = None
        self._seen: dict[str, Span] = {}

    def read(self, cursor: Cursor) -> None:
        """Read one goal; the cursor stands on its name."""
        token, opening = cursor.advance(), cursor.advance()
        name = cursor.text(token)
        order, limit = self.order, self.limit
        if name == "sort":
            order = tuple(cursor.several(_sort_key))
            cursor.close(opening, ")", "`,` or `)` after a sort key")
        else:
            limit = expression(cursor)
            cursor.close(opening, ")", "`)` after the limit")
        span = cursor.since(token.start)
        first = self._seen.setdefault(name, span)
        if first is span:
            self.order, self.limit = order, limit
            return
        help = "put all keys into one `sort`" if name == "sort" else None
        related = [RelatedSpan("the first one is here", first)]
        message = f"a rule can have only one `{name}`"
        cursor.found.add("C022", message, span, related=related, help=help)


def at_goal(cursor: Cursor) -> bool:
    """Whether `sort(` or `limit(` stands here."""
    return cursor.next_kind == "(" and cursor.text(cursor.current) in GOALS


def misplaced_goal(cursor: Cursor, why: str) -> NoReturn:
    """Fail: the goal that stands here cannot."""
    message = f"`{cursor.text(cursor.current)}` cannot be used here: {why}"
    cursor.found.add("C022", message, cursor.span(cursor.current))
    raise SyntaxFailure


def _sort_key(cursor: Cursor) -> SortKey:
    """`X`, `(X, asc)` or `(X, desc)`."""
    opening = cursor.advance() if cursor.kind == "(" else None
    token = cursor.current
    if cursor.text(token).lower() in ("asc", "desc"):
        cursor.fail("a sort key", help="write the direction with its variable: `sort((X, desc))`")
    if token.kind != VARIABLE or cursor.text(token) == "_":
        cursor.fail("a variable to sort by")
    cursor.advance()
    variable = Variable(cursor.text(token), cursor.span(token))
    if opening is None:
        return SortKey(variable, False, variable.span)
    direction = "asc"
    if cursor.accept(","):
        direction = cursor.text(cursor.current).lower()
        if direction not in ("asc", "desc"):
            cursor.fail("`asc` or `desc`")
        cursor.advance()
    cursor.close(opening, ")", "`)` after a sort key")
    return SortKey(variable, direction == "desc", cursor.since(opening.start))
