"""The cursor: where the parser stands in the tokens, and how it says what it expected.

Grammar functions take a `Cursor`, look at `kind`, and move on with `advance`, `accept` or `expect`.
What goes wrong is reported with `fail`, which raises `SyntaxFailure`; the statement loop catches it
and calls `recover`, so that every statement of a text gets its say.

What people coming from other languages write gets help from slips.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn, TypeVar

from caladan.language.deals import slips
from caladan.language.deals.tokens import BAD, END, NAMES, RESERVED_RELATIONS, Token, tokenize
from caladan.program import Literal
from caladan.program.diagnostics import Diagnostics, RelatedSpan, SourceText, Span
from caladan.program.functions import FUNCTIONS, Definition

T = TypeVar("T")

MAX_DEPTH: Final = 64
"""How deep parentheses, signs and `if` may nest; recursion in later passes relies on it."""

MAX_OPERATORS: Final = 200
"""How many operators one expression may have, for the same reason: `a + b + c` is a deep tree."""

MAX_ATOMS: Final = 200
"""How many atoms one body may have: so many joins are a deep tree, too."""

MAX_COMPARISONS: Final = 300
"""How many comparisons and choices one body may have: each is a level of that tree."""

COMMENTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "%": "`%` begins a comment; for the remainder write `mod`",
        "--": "`--` begins a comment; put a blank between two minus signs",
    }
)
"""Help for what was meant as an operator, and read as a comment."""

_NEVER_OPENED: Final = "this `)` has no matching `(`"


class SyntaxFailure(Exception):
    """A statement cannot be read on; the diagnostic has been noted."""

    def __init__(self, *, resume: bool = False) -> None:
        super().__init__()
        self.resume = resume
        """Whether the next statement seems to begin right here."""


class Cursor:
    """A position in the tokens of one text."""

    def __init__(
        self,
        source: SourceText,
        found: Diagnostics,
        whole: str = "program",
        functions: Mapping[str, Definition] = MappingProxyType({}),
    ) -> None:
        self.source = source
        self.found = found
        self.whole = whole
        self.functions = functions
        self.tokens = tokenize(source, found)
        self.kinds = self.tokens.kinds
        self.index = 0
        self.depth = 0
        self.operators = 0
        self.read_body: Callable[[Cursor], tuple[Literal, ...]] | None = None
        """What reads the literals that an aggregate ranges over; None outside of bodies."""
        self.no_aggregates: str | None = None
        """Why an aggregate cannot stand here, or None where it can: in the head of a rule."""

    # ── Looking ──────────────────────────────────────────────────────────────────────────────────

    @property
    def current(self) -> Token:
        return self.tokens[self.index]

    @property
    def kind(self) -> str:
        """The kind of the token to be read next."""
        return self.kinds[self.index]

    @property
    def next_kind(self) -> str:
        """The kind of the token after it."""
        return END if self.kinds[self.index] == END else self.kinds[self.index + 1]

    def peek(self, ahead: int) -> str:
        """The kind of the token so many places after it."""
        place = self.index + ahead
        return self.kinds[place] if place < len(self.kinds) else END

    def text(self, token: Token) -> str:
        return self.source.text[token.start : token.end]

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    def since(self, start: int) -> Span:
        """From an offset to the end of what was read last."""
        return Span(self.source, start, self.tokens.ends[self.index - 1])

    # ── Moving ───────────────────────────────────────────────────────────────────────────────────

    def advance(self) -> Token:
        """Read a token, whatever it is; the end stays the end."""
        token = self.tokens[self.index]
        if token.kind != END:
            self.index += 1
        return token

    def accept(self, kind: str) -> bool:
        """Read a token if it is of this kind."""
        if self.kinds[self.index] != kind:
            return False
        self.index += 1
        return True

    def several(self, read: Callable[[Cursor], T], separator: str = ",") -> list[T]:
        """What is read once, and again after each separator."""
        found = [read(self)]
        while self.accept(separator):
            found.append(read(self))
        return found

    def expect(self, kind: str, expected: str) -> Token:
        """Read a token of this kind, or fail; `expected` says what was, and where."""
        if self.kind != kind:
            self.fail(expected)
        return self.advance()

    def close(
        self, opening: Token, closing: str, expected: str, *, help: str | None = None
    ) -> Token:
        """Read the partner of a parenthesis, or fail and show where it was opened."""
        if self.kind != closing:
            related = [RelatedSpan("opened here", self.span(opening))]
            self.fail(expected, related=related, help=help)
        return self.advance()

    def split(self, first: str) -> Token:
        """Read the first character of a token of two: `<-` where `<` and `-` were meant."""
        start = self.tokens.starts[self.index]
        self.kinds[self.index] = self.kind[1:]
        self.tokens.starts[self.index] = start + 1
        return Token(first, start, start + 1)

    def enter(self) -> None:
        """Go one level deeper: a parenthesis, a sign, an `if`. Leave with `depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail_at(
                self.span(self.current),
                f"nested too deeply: more than {MAX_DEPTH} levels",
                help="give parts of it a name: `X = …`",
            )

    def count_operator(self, token: Token) -> None:
        """Note an operator of the current expression."""
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            self.fail_at(
                self.span(token),
                f"this expression is too long: more than {MAX_OPERATORS} operators",
                help="give parts of it a name: `X = …`",
            )

    # ── Failing ──────────────────────────────────────────────────────────────────────────────────

    def fail(
        self,
        expected: str,
        *,
        help: str | None = None,
        related: Iterable[RelatedSpan] = (),
        ends: bool = False,
    ) -> NoReturn:
        """Say what was expected and what was found. `ends`: a `.` was possible here."""
        token = self.current
        if token.kind == BAD:
            raise SyntaxFailure
        place, resume = self.span(token), False
        help = help or self._help(token)
        if ends and token.kind == ")":
            help = _NEVER_OPENED
        if ends and help is None and self._begins_statement(token):
            help = "end the statement with `.`"
            resume = token.kind in NAMES
            place = self._after_previous()
        message = f"expected {expected}, found {self.describe(token)}"
        self.found.add("C001", message, place, related=related, help=help)
        raise SyntaxFailure(resume=resume)

    def fail_at(self, place: Span, message: str, *, help: str | None = None) -> NoReturn:
        """Fail at a place already read, with a message of its own."""
        self.found.add("C001", message, place, help=help)
        raise SyntaxFailure

    def recover(self, failure: SyntaxFailure) -> None:
        """Go to where the next statement seems to begin."""
        self.depth = 0
        if failure.resume:
            return
        while self.kind != END:
            token = self.advance()
            if token.kind == "." and not self._within_name(token):
                return

    def describe(self, token: Token) -> str:
        """A token as a message names it."""
        if token.kind == END:
            return f"the end of the {self.whole}"
        text = self.text(token)
        if len(text) == 1 and not text.isprintable():
            return f"the character U+{ord(text):04X}"
        text = "".join(each if each.isprintable() else " " for each in text[:41])
        return f"`{text}`" if len(text) <= 40 else f"`{text[:40]}…`"

    def relation_name(self, what: str) -> Token:
        """Read the name of a relation; `what` says whose."""
        token = self.current
        if self.text(token) in RESERVED_RELATIONS:
            self.fail(what, help=f"`{self.text(token)}` is a reserved word; use another name")
        if token.kind not in NAMES:
            self.fail(what)
        return self.advance()

    def fail_on_variable(self, token: Token, what: str) -> NoReturn:
        """Fail on a name that would be a relation if arguments followed it."""
        text = self.text(token)
        message = f"expected {what}, found the variable `{text}`"
        help = f"a relation is written `{text}(…)`, or begins in lower case"
        self.fail_at(self.span(token), message, help=help)

    def _help(self, token: Token) -> str | None:
        known = self.known_functions
        if self.next_kind == ":" and self.peek(2) == "{":  # sum X : { … }
            return slips.PAIRS[":", "{"]
        if token.kind in NAMES:
            slip = slips.word_help(self.text(token), known, self.text(self.tokens[self.index + 1]))
        else:
            before = self.kinds[self.index - 1] if self.index else END
            slip = (
                slips.pair_help(token.kind, self.next_kind, known)
                or (slips.pair_help(before, token.kind, known) if before == "*" else None)
                or slips.symbol_help(token.kind, known)
            )
        return slip or self._commented(token)

    @property
    def known_functions(self) -> frozenset[str]:
        """The names of functions that can be called here."""
        return frozenset((*FUNCTIONS, *self.functions))

    def _commented(self, token: Token) -> str | None:
        """Help where the comment before a token closes more parentheses than it opens."""
        start = self.tokens.ends[self.index - 1] if self.index else 0
        skipped = self.source.text[start : token.start].lstrip(" \t").partition("\n")[0]
        if skipped.count(")") <= skipped.count("("):
            return None
        return next((told for sign, told in COMMENTED.items() if skipped.startswith(sign)), None)

    def _begins_statement(self, token: Token) -> bool:
        """Whether a token looks like what follows a forgotten `.`: a name that begins its line."""
        if self.index == 0 or token.kind not in NAMES:
            return token.kind == END
        return "\n" in self.source.text[self.tokens.ends[self.index - 1] : token.start]

    def _after_previous(self) -> Span:
        end = self.tokens.ends[self.index - 1] if self.index else 0
        return Span(self.source, end, end)

    def _within_name(self, dot: Token) -> bool:
        """Whether a `.` ends no statement: it is glued to what follows, as in `a.b` or `.5`."""
        text = self.source.text
        before, after = text[dot.start - 1 : dot.start], text[dot.end : dot.end + 1]
        return after.isdecimal() or (before.isalnum() and after.isalpha())
