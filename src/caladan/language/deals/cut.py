"""The goals `sort((Z, desc), Y)` and `limit(10)`: which of a rule's solutions remain.

They look like atoms and may stand anywhere in a body, but belong to the whole rule and come at most
once each; otherwise C022.
"""

from __future__ import annotations

from typing import NoReturn

from caladan.errors import Related, Span
from caladan.language.deals.cursor import Cursor, SyntaxFailure
from caladan.language.deals.expressions import expression
from caladan.language.deals.tokens import GOALS, VARIABLE
from caladan.program import Expression, SortKey, Variable


class Cut:
    """The order and limit of one rule."""

    def __init__(self) -> None:
        self.order: tuple[SortKey, ...] = ()
        self.limit: Expression | None = None
        self._seen: dict[str, Span] = {}

    def read(self, cursor: Cursor) -> None:
        """Read one goal; the cursor stands on its name."""
        token = cursor.advance()
        name = cursor.text(token)
        order, limit = self.order, self.limit
        if name == "sort":
            order = _sort(cursor)
        else:
            limit = _limit(cursor)
        span = cursor.since(token.start)
        if name in self._seen:
            _report_second(cursor, name, span, self._seen[name])
            return
        self.order, self.limit, self._seen[name] = order, limit, span


def at_goal(cursor: Cursor) -> bool:
    """Whether `sort(` or `limit(` stands here."""
    return cursor.next_kind == "(" and cursor.text(cursor.current) in GOALS


def misplaced_goal(cursor: Cursor, why: str) -> NoReturn:
    """Fail: the goal that stands here cannot."""
    token = cursor.current
    message = f"`{cursor.text(token)}` cannot be used here: {why}"
    cursor.found.add("C022", message, cursor.span(token))
    raise SyntaxFailure


def _report_second(cursor: Cursor, name: str, span: Span, first: Span) -> None:
    help = "put all keys into one `sort`" if name == "sort" else None
    related = [Related("the first one is here", first)]
    cursor.found.add("C022", f"a rule can have only one `{name}`", span, related=related, help=help)


def _sort(cursor: Cursor) -> tuple[SortKey, ...]:
    opening = cursor.advance()
    keys = [_sort_key(cursor)]
    while cursor.accept(","):
        keys.append(_sort_key(cursor))
    cursor.close(opening, ")", "`,` or `)` after a sort key")
    return tuple(keys)


def _sort_key(cursor: Cursor) -> SortKey:
    """`X`, `(X, asc)` or `(X, desc)`."""
    opening = cursor.advance() if cursor.kind == "(" else None
    token = cursor.current
    if cursor.text(token).lower() in ("asc", "desc"):
        cursor.fail(
            "a sort key", help="a direction is written with its variable: `sort((X, desc))`"
        )
    if token.kind != VARIABLE or cursor.text(token) == "_":
        cursor.fail("a variable to sort by")
    cursor.advance()
    variable = Variable(cursor.text(token), cursor.span(token))
    if opening is None:
        return SortKey(variable, False, variable.span)
    descending = False
    if cursor.accept(","):
        direction = cursor.text(cursor.current).lower()
        if direction not in ("asc", "desc"):
            cursor.fail("`asc` or `desc`")
        cursor.advance()
        descending = direction == "desc"
    cursor.close(opening, ")", "`)` after a sort key")
    return SortKey(variable, descending, cursor.since(opening.start))


def _limit(cursor: Cursor) -> Expression:
    opening = cursor.advance()
    limit = expression(cursor)
    cursor.close(opening, ")", "`)` after the limit")
    return limit
