"""Queries: a body and the columns of its solutions, as operators of streams make them.

A `Query` is immutable; every operator gives the next one. Its `parts` are the collections that it
joins, under whatever a rule may call them, so that `self.emp.name` means the right column wherever
it stands. What has to be kept (`kept`) gets an element of its own, an internal relation with its
rule. joins.py has the operators that are made of these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce as folded
from itertools import product
from typing import TYPE_CHECKING, Any, Final, cast

from caladan.language.bloom.expressions import (
    COMPARED,
    BloomOperation,
    ColumnExpr,
    Presence,
    as_row,
    is_function,
    items,
    label,
    lift,
    row_type,
    several,
    takes_one,
)
from caladan.language.bloom.schema import CLOCK, CollectionKind, Schema
from caladan.program import (
    Atom,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Function,
    Head,
    Literal,
    Value,
    Variable,
)
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.transform import replace_in

if TYPE_CHECKING:
    from caladan.language.bloom.schema import Recorder

Columns = tuple[tuple[str, Expression], ...]
NOTHING: Final = Constant(cast("Value", None))
"""What stands where an outer join has no partner, and what a function gives for no row."""

_NAMED: Final = "name the columns, or keep them apart with alias()"
_MOST_BRANCHES: Final = 8
"""More alternatives than these are tested one by one, instead of becoming rules of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class JoinPart:
    """One of the collections that a query joins: what stands for it, and what its columns are."""

    sources: tuple[object, ...]
    columns: Columns


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query: a body, and the columns of its solutions."""

    recorder: Recorder
    columns: Columns
    literals: tuple[Literal, ...]
    parts: tuple[JoinPart, ...]
    row: Variable | None = None
    """A variable that holds the whole row, where nobody has named its columns yet."""
    is_spread: bool = False
    """Whether the last column may hold a tuple of what stands in several columns of a head."""
    order: tuple[tuple[str | Callable[..., Any], ...], bool] = ((), False)
    """What a sort goes by, and whether backwards."""
    left: Query | None = None
    """Of a join, what stands on its left."""
    token: object = field(default_factory=object)

    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    # ── Scope ────────────────────────────────────────────────────────────────────────────────────

    def column(self, source: object, name: str) -> Expression:
        """What a column of a collection is here; C063 if that cannot be told."""
        owners = [part for part in self.parts if any(each is source for each in part.sources)]
        if source is self.token:
            owners = [JoinPart((), self.columns)]
        known = [pair for part in owners for pair in part.columns]
        if not known:
            problem = f"there is no column `{name}` here"
            strange = "the collection is none of those that are joined"
            raise error("C063", problem, self.recorder.here(), help=strange)
        return self._one(name, known)

    def named(self, name: str) -> Expression:
        """A column by its name alone."""
        return self._one(name, self.columns)

    def _one(self, name: str, columns: Iterable[tuple[str, Expression]]) -> Expression:
        found = list(dict.fromkeys(value for n, value in columns if n == name))
        if len(found) == 1:
            return found[0]
        known = [n for n, _ in columns]
        problem = f"there {'are two columns' if found else 'is no column'} `{name}` here"
        hint = _NAMED if found else did_you_mean(name, known) or _columns(known)
        raise error("C063", problem, self.recorder.here(), help=hint)

    def value(self, given: object) -> tuple[Query, Expression]:
        """An expression as a node, and this query with the lattices that it reads."""
        if isinstance(given, str):
            return self, self.named(given)
        scope = _ReadScope(self)
        node = lift(given).node(scope)
        return scope.query, node

    def solved(self, node: Expression) -> tuple[Query, Variable]:
        """A variable that has the value of an expression."""
        if isinstance(node, Variable):
            return self, node
        variable = self.recorder.variable("v")
        return self.also(Comparison("=", variable, node)), variable

    def also(self, *literals: Literal) -> Query:
        """The solutions for which more holds."""
        return replace(self, literals=(*self.literals, *literals))

    # ── Rows one by one ──────────────────────────────────────────────────────────────────────────

    def projected(self, columns: Sequence[object], named: dict[str, object]) -> Query:
        query = self
        made: list[tuple[str, Expression]] = []
        for i, given in enumerate(columns):
            query, node = query.value(given)
            made.append((label(given) or f"c{i + 1}", node))
        for name, given in named.items():
            query, node = query.value(given)
            made.append((name, node))
        return query.alone(tuple(made), self.parts[0].sources if len(self.parts) == 1 else ())

    def alone(self, columns: Columns, sources: tuple[object, ...] = ()) -> Query:
        """The same body with other columns, as one part."""
        token = object()
        part = JoinPart((*sources, token), columns)
        return Query(self.recorder, columns, self.literals, (part,), token=token)

    def mapped(self, code: Callable[..., Any], names: Sequence[str], *, each: bool) -> Query:
        row = self.recorder.variable("row")
        call = self.of_rows(code, several if each else as_row)
        made = Comparison("=", row, replace(call, each=each))
        columns = tuple(
            (name, Function(f"item {i + 1}", (row,), code=operator.itemgetter(i)))
            for i, name in enumerate(names)
        )
        result = self.also(made, Comparison("~=", row, NOTHING)).alone(columns)
        return replace(result, row=None if names else row)

    def unnested(self, given: ColumnExpr, names: Sequence[str]) -> Query:
        query, node = self.value(given)
        item = self.recorder.variable("item")
        made = Comparison("=", item, Function("each", (node,), code=items, each=True))
        name = names[0] if names else label(given) or "item"
        kept = [pair for pair in self.columns if pair[1] != node]
        return query.also(made).alone((*kept, (name, item)))

    def of_rows(self, code: Callable[..., Any], shape: Callable[[Any], Any]) -> Function:
        """A call of a function: with a row of each part, or with the whole if it takes but one."""
        is_whole = len(self.parts) < 2 or takes_one(code)
        parts = [self.flat()] if is_whole else [part.columns for part in self.parts]
        rows = [row_type(name for name, _ in columns) for columns in parts]
        ends: list[tuple[int, int]] = []
        arguments: list[Expression] = []
        for columns in parts:
            ends.append((len(arguments), len(arguments) + len(columns)))
            arguments += [value for _, value in columns]

        def call(*values: Any) -> Any:
            made = (row(*values[i:j]) for row, (i, j) in zip(rows, ends, strict=True))
            return shape(code(*made))

        return Function(getattr(code, "__name__", "function"), tuple(arguments), code=call)

    def selected(self, condition: object) -> Query:
        if is_function(condition):
            code = cast("Callable[..., Any]", condition)
            return self.also(Comparison("=", self.of_rows(code, bool), Constant(True)))
        if isinstance(condition, Presence):
            return self.present(condition)
        if isinstance(condition, bool):
            raise error(
                "C050",
                f"a condition that is {condition} for every row",
                self.recorder.here(),
                help="conditions compare columns: where(t.a > 1); `==` of whole collections is "
                "Python's own",
            )
        if isinstance(condition, BloomOperation) and condition.name == "&":
            condition.is_read = True
            return folded(Query.selected, condition.arguments, self)
        query, branches = self._branches(condition)
        if not 0 < len(branches) <= _MOST_BRANCHES:
            query, node = self.value(BloomOperation("bool", bool, (lift(condition),)))
            branches = [(Comparison("=", node, Constant(True)),)]
        return query.also(*branches[0] if len(branches) == 1 else [Disjunction(tuple(branches))])

    def _branches(self, condition: object) -> tuple[Query, list[tuple[Literal, ...]]]:
        """A condition in disjunctive normal form; none if it is made of more than comparisons."""
        if not isinstance(condition, BloomOperation):
            return self, []
        condition.is_read = True
        if condition.name in COMPARED:
            query, left = self.value(condition.arguments[0])
            query, right = query.value(condition.arguments[1])
            return query, [(Comparison(COMPARED[condition.name], left, right),)]
        if condition.name not in ("&", "|"):
            return self, []
        query, one = self._branches(condition.arguments[0])
        query, other = query._branches(condition.arguments[1])
        if not (one and other):
            return self, []
        if condition.name == "|":
            return query, [*one, *other]
        return query, [(*some, *more) for some, more in product(one, other)]

    def present(self, condition: Presence) -> Query:
        """The rows for which a collection has, or has not, a fact with some values."""
        other: Query = condition.source.query()
        query, values = self, list[Expression]()
        for given in condition.values:
            query, node = query.value(given)
            values.append(node)
        if len(values) not in (0, len(other.columns), condition.width):
            raise error(
                "C011",
                f"a fact of {len(other.columns)} columns is looked for by {len(values)} values",
                self.recorder.here(),
                help=_columns(other.column_names()),
            )
        wanted = dict(enumerate(values))
        if condition.is_absent:
            return query.absent(other, wanted)
        both = query.joined(other)
        for i, value in wanted.items():
            both = both.equated(value, both.columns[len(query.columns) + i][1])
        return replace(query, literals=both.literals)

    def absent(self, other: Query, wanted: dict[int, Expression]) -> Query:
        """The rows for which a relation has no fact with these values in these columns."""
        plain = other if other.relation is not None else other.kept(CollectionKind.STREAM)
        query = self
        arguments: list[Expression] = []
        for i in range(len(plain.columns)):
            if i not in wanted:
                arguments.append(Variable("_"))
                continue
            query, variable = query.solved(wanted[i])
            arguments.append(variable)
        return query.also(Atom(plain.relation or "", tuple(arguments), negated=True))

    def renamed(self) -> Query:
        """The same query with variables of its own."""
        own: dict[str, Variable] = {}

        def change(node: Expression) -> Expression | None:
            if isinstance(node, Variable) and not node.is_anonymous:
                stem = node.name.partition("_")[0]
                return own.setdefault(node.name, self.recorder.variable(stem))
            return None

        literals, columns, row = replace_in((self.literals, self.columns, (self.row,)), change)
        result = Query(self.recorder, columns, literals, ()).alone(columns)
        return replace(result, row=row[0])

    # ── Joins ────────────────────────────────────────────────────────────────────────────────────

    def joined(self, other: Query) -> Query:
        if {v for part in self.parts for _, v in part.columns} & {
            v for part in other.parts for _, v in part.columns
        }:
            other = other.renamed()
        return Query(
            self.recorder,
            (*self.columns, *other.columns),
            (*self.literals, *other.literals),
            (*self.as_parts(), *other.as_parts()),
            left=self,
        )

    def as_parts(self) -> tuple[JoinPart, ...]:
        """The parts of a join; what is none is one, under all its names."""
        if len(self.parts) > 1:
            return self.parts
        known = self.parts[0].sources if self.parts else ()
        return (JoinPart((*known, self.token), self.columns),)

    def equated(self, one: Expression, other: Expression) -> Query:
        """The solutions where two columns are equal: with one variable for both, if they are."""
        if one == other:
            return self
        if not isinstance(other, Variable) or not isinstance(one, Variable):
            return self.also(Comparison("=", one, other))

        def change(node: Expression) -> Expression | None:
            return one if node == other else None

        literals, columns = replace_in((self.literals, self.columns), change)
        parts = tuple(JoinPart(p.sources, replace_in(p.columns, change)) for p in self.parts)
        return replace(self, columns=columns, literals=literals, parts=parts)

    def only(self, part: int) -> Query:
        chosen = self.parts[part]
        return replace(self, columns=chosen.columns, parts=(chosen,))

    def flat(self) -> Columns:
        """The columns with names of their own: a second `key` is `key_2`."""
        names: list[str] = []
        for name, _ in self.columns:
            numbers = (f"{name}_{i}" for i in range(2, len(self.columns) + 2))
            names.append(name if name not in names else next(n for n in numbers if n not in names))
        return tuple((n, v) for n, (_, v) in zip(names, self.columns, strict=True))

    def names(self) -> list[str]:
        """The names of the columns, each once; C063 if a function gives rows without any."""
        if self.row is not None:
            problem = "the columns that a function gives have no names here"
            hint = 'name them: map(f, "a", "b")'
            raise error("C063", problem, self.recorder.here(), help=hint)
        return [name for name, _ in self.flat()]

    @property
    def relation(self) -> str | None:
        """The relation whose facts these are, if they are the whole of one."""
        match self.literals:
            case (Atom(relation, arguments, False),) if (
                self.row is None
                and len(set(arguments)) == len(arguments)
                and tuple(value for _, value in self.columns) == arguments
            ):
                return relation
            case _:
                return None

    # ── All rows ─────────────────────────────────────────────────────────────────────────────────

    def kept(self, kind: CollectionKind) -> Query:
        """The same facts in an element of their own, known by the same names."""
        kept = self.recorder.element(kind, self.names())
        self.recorder.rule(Head(kept.name, tuple(v for _, v in self.columns)), self.literals)
        return facts_of(kept, self.recorder).under(self.as_parts())

    def under(self, parts: Sequence[JoinPart]) -> Query:
        """The same columns, as parts that are known by other names."""
        if sum(len(part.columns) for part in parts) != len(self.columns):
            return self
        values = iter(self.columns)
        made = [
            JoinPart(
                part.sources,
                tuple((name if len(parts) > 1 else own, value) for (name, _), (own, value) in
                      zip(part.columns, values, strict=False)),
            )
            for part in parts
        ]  # fmt: skip
        return replace(self, parts=tuple(made))


class _ReadScope:
    """The scope of an expression: a query, which gets an atom for each lattice that is read."""

    def __init__(self, query: Query) -> None:
        self.query = query

    def column(self, source: object, name: str) -> Expression:
        return self.query.column(source, name)

    def read(self, name: str, position: int) -> Expression:
        width = 2 if name == CLOCK else 1
        for literal in self.query.literals:
            if isinstance(literal, Atom) and literal.relation == name and not literal.negated:
                return literal.arguments[position]
        made = tuple(self.query.recorder.variable(name[0]) for _ in range(width))
        self.query = self.query.also(Atom(name, made))
        return made[position]


def facts_of(schema: Schema, recorder: Recorder, *sources: object) -> Query:
    """The facts of a relation, with variables of their own."""
    values = tuple(recorder.variable(name) for name in schema.columns)
    columns = tuple(zip(schema.columns, values, strict=True))
    atom = Atom(schema.name, values, span=recorder.here())
    return Query(recorder, columns, (atom,), (JoinPart(sources, columns),))


def empty(recorder: Recorder) -> Query:
    """One row without columns: where values that depend on no collection start."""
    return Query(recorder, (), (), ())


def _columns(known: Iterable[str]) -> str:
    return f"the columns are {', '.join(known)}"
