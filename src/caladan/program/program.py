"""The Program: relations and rules, whatever language they came from.

Every language makes these nodes and can print them back; the analysis reads them. All are frozen,
and compare by meaning: `span` says where a node was written and never takes part in equality, so
that `parse(print(program)) == program` can be tested.

    Program ── relations: Relation(name, columns: Column(name, type))
            ├─ rules:     Rule(head: Head, body: Literal…, order: SortKey…, limit, time)
            └─ goals:     Goal(atom, export)

    Literal     Atom | Comparison | Choice | Disjunction
    Expression  Variable | Constant | Parameter | Arithmetic | Negative | Conditional | Call |
                Aggregate
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal as OneOf, TypeAlias

from caladan.program.diagnostics import Span
from caladan.program.types import Type

if TYPE_CHECKING:
    from caladan.program.aggregates import AggregateFunction


@dataclass(frozen=True, slots=True)
class Object:
    """A constant that is a Python value, and the dictionary that numbers it (see objects.py)."""

    value: Hashable
    numbered: Callable[[Hashable], int] = field(compare=False)

    @property
    def number(self) -> int:
        """Its number in the session."""
        return self.numbered(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class Null(Enum):
    """The value of `null`: there is none. It stands in heads and facts only."""

    NULL = "null"

    def __repr__(self) -> str:
        return "NULL"


NULL: Final = Null.NULL

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | dt.datetime
    | dt.date
    | dt.timedelta
    | Decimal
    | bytes
    | Object
    | Null
)


@dataclass(frozen=True, slots=True)
class Column:
    """A typed column of a relation that is declared, or whose data tells its columns.

    `is_required` was declared with `!`: no value may be missing. A column with the `role`
    "present" says whether the next column has a value; "row" numbers the rows of data.
    """

    name: str
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)
    is_inferred: bool = field(default=False, compare=False, repr=False)
    is_required: bool = False
    role: OneOf["value", "present", "row"] = "value"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared relation: its name and columns. Its facts come from data or from the program."""

    name: str
    columns: tuple[Column, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


# ── Expressions ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; `_` is anonymous, and each occurrence of it is a variable of its own."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_anonymous(self) -> bool:
        """Whether it was written `_`."""
        return self.name == "_"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The parameter that a constant has its value from, and the type it was made to fit."""

    name: str
    type: Type | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value. Its Python type tells its kind; 1, 1.0 and True are three constants.

    One that has its value from a parameter says so, and is equal to no other: with another value
    they differ.
    """

    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)
    placeholder: Placeholder | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Constant)
            and type(self.value) is type(other.value)
            and self.value == other.value
            and self.placeholder == other.placeholder
        )

    def fitted(self, value: Value, type: Type) -> Constant:
        """The constant as a value of a type."""
        placeholder = self.placeholder
        given = None if placeholder is None else Placeholder(placeholder.name, type)
        return Constant(value, self.span, given)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value given when the program is run, `{name}` or `$Name`; never pasted in as text."""

    name: str
    style: OneOf["{}", "$"] = "{}"
    span: Span | None = field(default=None, compare=False, repr=False)


ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/", "div", "mod"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`. `/` gives a double; `div` and `mod` take integers and round to 0."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-operand`."""

    operand: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """`if(condition then value else value)`; the condition's comparisons must all hold."""

    condition: tuple[Comparison, ...]
    then: Expression
    otherwise: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`: a function by its name in the table (program/functions)."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function(Call):
    """A Python function, which rules may call: opaque, and the same for the same values.

    It gives a value of the type `returns`; in Bloom, where values are Python's, of any. With
    `vectorized` it takes and gives whole columns. With `each` (Bloom's) it gives several values,
    and the call stands for any one of them.
    """

    code: Callable[..., object] = field(default=lambda *_: None, repr=False)
    each: bool = False
    returns: Type = Type.OBJECT
    vectorized: OneOf["numpy", "arrow"] | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function<value>` or, with witnesses, `function<(witness, …, value)>`; only in heads.

    `function` is the name of a row of the table (aggregates.py), which says what it does.

    `min`, `max`, `mmin` and `mmax` have theirs after the value, and give a column for each term.

    `count`, `mcount` and `countd` take a tuple of terms; `count<_>` counts solutions.
    """

    function: str
    terms: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    definition: AggregateFunction | None = None
    """Its row, if a user added it."""


@dataclass(frozen=True, slots=True)
class Folding(Aggregate):
    """An aggregate of Bloom, by the name under which `language.bloom.folds` knows it.

    `code` and `initial` are those of a fold that its user wrote.
    """

    code: Callable[..., object] | None = field(default=None, repr=False)
    initial: object = None


Expression: TypeAlias = (
    Variable | Constant | Parameter | Arithmetic | Negative | Conditional | Call | Aggregate
)


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────

ComparisonOperator: TypeAlias = OneOf["=", "~=", "<", "<=", ">", ">="]

OPPOSITE: Final[dict[ComparisonOperator, ComparisonOperator]] = {
    "=": "~=", "~=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`; `=` with one unbound side binds it."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Atom:
    """A relation mentioned in a body or a goal, positive or negated.

    Where `columns` names them, arguments stand for these columns, else for all in their order.
    `tx[R](A, V)` binds its `row` to the number of a row of data, which tells equal rows apart.
    """

    relation: str
    arguments: tuple[Expression, ...]
    negated: bool = False
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    span: Span | None = field(default=None, compare=False, repr=False)
    row: Variable | None = None


@dataclass(frozen=True, slots=True)
class Generator(Atom):
    """`X in function(…)`: each row that a function gives. The last argument is X.

    `parts` has two functions of Python for one of a session's own: how many rows it gives, and the
    row at a place. A pass of the analysis has rules derive the rows (analysis/generators.py).
    """

    parts: tuple[Function, Function] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """`if(condition then literals else literals)` as a literal of a body."""

    condition: tuple[Comparison, ...]
    then: tuple[Literal, ...]
    otherwise: tuple[Literal, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Disjunction:
    """`(literals ; literals ; …)` as a literal of a body: at least one of the branches holds.

    A variable that occurs in a branch and nowhere else in the rule is that branch's own.
    """

    branches: tuple[tuple[Literal, ...], ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Literal: TypeAlias = Atom | Comparison | Choice | Disjunction


@dataclass(frozen=True, slots=True)
class Head:
    """What a rule derives. Aggregates may stand in its arguments; the rest are group columns.

    `columns` names the columns of the arguments, if the rule does.
    """

    relation: str
    arguments: tuple[Expression, ...]
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SortKey:
    """A variable to sort by."""

    variable: Variable
    descending: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


Time: TypeAlias = OneOf["now", "next", "delete", "upsert", "async"]

TIMES: Final[tuple[Time, ...]] = ("now", "next", "delete", "upsert", "async")


@dataclass(frozen=True, slots=True)
class Rule:
    """`head <- body`, with the order and limit its solutions are cut by. A fact has no body.

    `time` is when it takes effect; all but `now` need ticks: `@next p(X) <- q(X).`
    """

    head: Head
    body: tuple[Literal, ...] = ()
    order: tuple[SortKey, ...] = ()
    limit: Expression | None = None
    time: Time = field(default="now", kw_only=True)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Goal:
    """A question the program asks (`query`), or a relation it hands out (`export`)."""

    atom: Atom
    export: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What `caladan test` is to find: facts that match an atom.

    `rows` are all that are expected, as constants and parameters; None if any one will do.
    """

    atom: Atom
    rows: tuple[tuple[Expression, ...], ...] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program:
    """Relations, rules and goals, in the order they were written; expectations are for tests."""

    relations: tuple[Declaration, ...] = ()
    rules: tuple[Rule, ...] = ()
    goals: tuple[Goal, ...] = ()
    expectations: tuple[Expectation, ...] = ()
