"""Streams: what stands on the right side of a rule, as a conjunctive query that grows.

A `FactSource` is a collection or a stream; every operator gives a new `Stream`, which is a body
(literals of a Program) and columns (expressions over its variables). Operators that need all facts
first (`group`, `argmin`, `reduce`, `sort`, `each_with_index`) give their result an element of its
own: an internal relation with its rules. So a pipeline of operators is a handful of plain rules.
"""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce as folded
from typing import TYPE_CHECKING, Any, Final, cast

from caladan.language.bloom.expressions import COMPARED, ColumnOf, Expr, Operation, lift
from caladan.language.bloom.lattices import frozen
from caladan.language.bloom.schema import CLOCK, CollectionKind
from caladan.program import (
    Atom,
    Comparison,
    Constant,
    Expression,
    Folding,
    Function,
    Head,
    Literal,
    Value,
    Variable,
)
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.transform import replace_in

if TYPE_CHECKING:
    from caladan.language.bloom.recorder import Recorder

Keys = str | Sequence[str] | None


@dataclass(frozen=True, slots=True, eq=False)
class JoinPart:
    """One of the collections that a stream joins: what stands for it, and what its columns are."""

    sources: tuple[object, ...]
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Aggregation:
    """An aggregate of a group: its name, the columns it is of, and a fold of the user's own."""

    name: str
    columns: tuple[str, ...]
    label: str
    code: Callable[..., object] | None = None
    initial: object = None


class FactSource:
    """A collection or a stream."""

    def query(self) -> Query:
        """The facts, with variables of their own."""
        raise NotImplementedError

    @property
    def identity(self) -> object:
        """What its columns are known by, however it is restricted later."""
        return self

    def __getitem__(self, name: str) -> Expr:
        """A column."""
        return ColumnOf(self.identity, name)

    def __getattr__(self, name: str) -> Expr:
        """A column, by a name that no method has."""
        if name.startswith("_") or not self.has_column(name):
            known = did_you_mean(name, self.column_names())
            raise AttributeError(
                f"there is no column or method `{name}`; {known or ''}".rstrip("; ")
            )
        return ColumnOf(self.identity, name)

    def has_column(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return name in self.column_names()

    def column_names(self) -> tuple[str, ...]:
        """The names of the columns."""
        raise NotImplementedError

    # ── Rows one by one ──────────────────────────────────────────────────────────────────────────

    def project(self, *columns: object, **named: object) -> Stream:
        """Columns by name, or expressions; those given by keyword are called so."""
        if len(columns) == 1 and not named and _is_function(columns[0]):
            return self.map(cast("Callable[..., Any]", columns[0]))
        return Stream(self.query().projected(columns, named))

    def map(self, code: Callable[..., Any], *columns: str) -> Stream:
        """What a Python function makes of each row: a tuple, or None for no row at all.

        After a join the function has a row of each collection as an argument. `columns` names the
        result; without it the collection that takes the rows does.
        """
        return Stream(self.query().mapped(code, columns, each=False))

    def flat_map(self, code: Callable[..., Any] | str | Expr, *columns: str) -> Stream:
        """The same with several rows for each: the function gives an iterable of tuples.

        With a column instead, each item of what it holds, beside the other columns.
        """
        if isinstance(code, str | Expr):
            return Stream(self.query().unnested(code, columns))
        return Stream(self.query().mapped(code, columns, each=True))

    def where(self, *conditions: object) -> Stream:
        """The rows for which all conditions hold: expressions, or Python functions of a row."""
        return Stream(folded(Query.selected, conditions, self.query()))

    def alias(self, name: str = "alias") -> Stream:
        """The same facts once more, for joins of a collection with itself."""
        return Stream(self.query().renamed(name))

    # ── Joins ────────────────────────────────────────────────────────────────────────────────────

    def __mul__(self, other: FactSource) -> Stream:
        """Every pair of rows; `pairs` and the like restrict them."""
        return Stream(self.query().joined(other.query()))

    def pairs(self, *on: object, **named: str) -> Stream:
        """Rows that go together: on columns of the same name, `left="right"`, or conditions."""
        return Stream(self.query().matched(on, named))

    combos = pairs

    def matches(self) -> Stream:
        """The natural join: on all columns that have the same name."""
        query = self.query()
        names = [name for part in query.parts for name, _ in part.columns]
        shared = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        return Stream(query.matched(shared, {}))

    def lefts(self, *on: object, **named: str) -> Stream:
        """The rows of the left that have a partner."""
        return Stream(self.query().matched(on, named).only(0))

    def rights(self, *on: object, **named: str) -> Stream:
        """The rows of the right that have a partner."""
        return Stream(self.query().matched(on, named).only(-1))

    def flatten(self) -> Stream:
        """All columns one after the other, with names of their own."""
        return Stream(self.query().flattened())

    def outer(self, *on: object, **named: str) -> Stream:
        """The left outer join: where a row has no partner, None stands for the right columns."""
        return Stream(self.query().outer_joined(on, named))

    def exists(self, other: FactSource, *on: object, **named: str) -> Stream:
        """The rows that have a partner in another collection."""
        query = self.query()
        return Stream(query.joined(other.query()).matched(on, named).only(0))

    def notin(self, other: FactSource, *on: str, where: object = None, **named: str) -> Stream:
        """The rows without a partner: on whole rows, on columns, or as a function `where` says."""
        return Stream(self.query().without(other.query(), on, named, where))

    # ── All rows ─────────────────────────────────────────────────────────────────────────────────

    def group(self, by: Keys, *aggregates: Aggregation, **named: Aggregation) -> Stream:
        """A row for each group: `emp.group(["dept"], bloom.max("salary"))`."""
        made = [*aggregates, *(replace(each, label=name) for name, each in named.items())]
        return Stream(self.query().grouped(_keys(by), made))

    def argmin(self, by: Keys, column: str) -> Stream:
        """The rows with the smallest value of a column in each group."""
        return Stream(self.query().best(_keys(by), column, "min"))

    def argmax(self, by: Keys, column: str) -> Stream:
        """The rows with the largest value of a column in each group."""
        return Stream(self.query().best(_keys(by), column, "max"))

    def reduce(
        self,
        initial: object,
        code: Callable[[Any, Any], Any],
        *,
        by: Keys = None,
        name: str = "value",
    ) -> Stream:
        """A fold over the rows; over no rows at all, without groups, `initial`."""
        columns = self.column_names()
        one = Aggregation("reduce", columns, name, _row_fold(code, columns), frozen(initial))
        return Stream(self.query().grouped(_keys(by), [one]))

    def sort(self) -> Stream:
        """The rows in a buffer of their own, as `rows()` shows them: by columns from the left."""
        return Stream(self.query().kept(CollectionKind.SORT))

    def each_with_index(self, *by: str, name: str = "index", reverse: bool = False) -> Stream:
        """The rows with their place, from 0, by some columns and then by all from the left."""
        return Stream(self.query().numbered(by, name, reverse=reverse))


def _keys(by: Keys) -> list[str]:
    return [] if by is None else [by] if isinstance(by, str) else list(by)


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, Expr | FactSource)


def _row_fold(code: Callable[[Any, Any], Any], columns: tuple[str, ...]) -> Callable[..., object]:
    row = _row_type(columns)
    return lambda so_far, *values: frozen(code(so_far, row(*values)))


def _row_type(columns: Iterable[str]) -> Callable[..., Any]:
    return namedtuple("Row", columns, rename=True)  # pyright: ignore[reportUntypedNamedTuple]


NOTHING: Final = Constant(cast("Value", None))
"""What stands where an outer join has no partner, and what a function gives for no row."""

_NAMED: Final = "name the columns, or keep them apart with alias()"


class Stream(FactSource):
    """What operators make of collections; its columns are attributes, as those of collections."""

    def __init__(self, query: Query) -> None:
        self._query = query

    @property
    def identity(self) -> object:
        return self._query.token

    def query(self) -> Query:
        return self._query

    def column_names(self) -> tuple[str, ...]:
        return self._query.column_names()


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query: a body, and the columns of its solutions."""

    recorder: Recorder
    columns: tuple[tuple[str, Expression], ...]
    literals: tuple[Literal, ...]
    parts: tuple[JoinPart, ...]
    row: Variable | None = None
    """A variable that holds the whole row, where nobody has named its columns yet."""
    token: object = field(default_factory=object)

    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    # ── Scope ────────────────────────────────────────────────────────────────────────────────────

    def column(self, source: object, name: str) -> Expression:
        """What a column of a collection is here; C063 if that cannot be told."""
        owners = [part for part in self.parts if any(each is source for each in part.sources)]
        if source is self.token:
            owners = [JoinPart((), self.columns)]
        found = [value for part in owners for n, value in part.columns if n == name]
        if len(found) != 1:
            known = [n for part in owners for n, _ in part.columns]
            raise error(
                "C063",
                f"column `{name}` is of two collections here"
                if found
                else f"there is no column `{name}` here",
                self.recorder.here(),
                help=_NAMED if found else did_you_mean(name, known) or _columns(known),
            )
        return found[0]

    def named(self, name: str) -> Expression:
        """A column by its name alone."""
        found = list(dict.fromkeys(value for n, value in self.columns if n == name))
        if len(found) != 1:
            known = self.column_names()
            raise error(
                "C063",
                f"there are two columns `{name}`" if found else f"there is no column `{name}`",
                self.recorder.here(),
                help=_NAMED if found else did_you_mean(name, known) or _columns(known),
            )
        return found[0]

    def value(self, given: object) -> tuple[Query, Expression]:
        """An expression as a node, and this stream with the lattices that it reads."""
        if isinstance(given, str):
            return self, self.named(given)
        scope = _Reading(self)
        node = lift(given).node(scope)
        return scope.stream, node

    def solved(self, node: Expression) -> tuple[Query, Variable]:
        """A variable that has the value of an expression."""
        if isinstance(node, Variable):
            return self, node
        variable = self.recorder.variable("v")
        bound = Comparison("=", variable, node)
        return replace(self, literals=(*self.literals, bound)), variable

    # ── Rows one by one ──────────────────────────────────────────────────────────────────────────

    def projected(self, columns: Sequence[object], named: dict[str, object]) -> Query:
        stream = self
        made: list[tuple[str, Expression]] = []
        for i, given in enumerate(columns):
            stream, node = stream.value(given)
            name = given if isinstance(given, str) else None
            name = given.name if isinstance(given, ColumnOf) else name
            made.append((name or f"c{i + 1}", node))
        for name, given in named.items():
            stream, node = stream.value(given)
            made.append((name, node))
        return stream.alone(tuple(made), self.parts[0].sources if len(self.parts) == 1 else ())

    def alone(
        self, columns: tuple[tuple[str, Expression], ...], sources: tuple[object, ...] = ()
    ) -> Query:
        """The same body with other columns, as one part."""
        token = object()
        part = JoinPart((*sources, token), columns)
        return replace(self, columns=columns, parts=(part,), row=None, token=token)

    def mapped(self, code: Callable[..., Any], names: Sequence[str], *, each: bool) -> Query:
        row = self.recorder.variable("row")
        call = self._of_rows(code, _several if each else _row)
        made = Comparison("=", row, replace(call, each=each))
        literals = (*self.literals, made, Comparison("~=", row, NOTHING))
        columns = tuple(
            (name, Function(f"item {i + 1}", (row,), code=operator.itemgetter(i)))
            for i, name in enumerate(names)
        )
        result = Query(self.recorder, columns, literals, ()).alone(columns)
        return replace(result, row=None if names else row)

    def unnested(self, given: str | Expr, names: Sequence[str]) -> Query:
        stream, node = self.value(given)
        item = self.recorder.variable("item")
        made = Comparison("=", item, Function("each", (node,), code=_items, each=True))
        name = names[0] if names else given if isinstance(given, str) else "item"
        kept = [pair for pair in self.columns if pair[0] != given]
        whole = replace(stream, literals=(*stream.literals, made))
        return whole.alone((*kept, (name, item)))

    def _of_rows(self, code: Callable[..., Any], shape: Callable[[Any], Any]) -> Function:
        """A call of a function with a row of each part."""
        parts = self.parts if len(self.parts) > 1 else (JoinPart((), self.columns),)
        rows = [_row_type(name for name, _ in part.columns) for part in parts]
        ends: list[tuple[int, int]] = []
        arguments: list[Expression] = []
        for part in parts:
            ends.append((len(arguments), len(arguments) + len(part.columns)))
            arguments += [value for _, value in part.columns]

        def call(*values: Any) -> Any:
            made = (row(*values[i:j]) for row, (i, j) in zip(rows, ends, strict=True))
            return shape(code(*made))

        return Function(getattr(code, "__name__", "function"), tuple(arguments), code=call)

    def selected(self, condition: object) -> Query:
        if _is_function(condition):
            node: Expression = self._of_rows(condition, bool)  # type: ignore[arg-type]
            test = Comparison("=", node, Constant(True))
            return replace(self, literals=(*self.literals, test))
        if isinstance(condition, Operation) and condition.name == "&":
            return folded(Query.selected, condition.arguments, self)
        if isinstance(condition, Operation) and condition.name in COMPARED:
            stream, left = self.value(condition.arguments[0])
            stream, right = stream.value(condition.arguments[1])
            test = Comparison(COMPARED[condition.name], left, right)
        else:
            given = Operation("bool", bool, (lift(condition),))
            stream, node = self.value(given)
            test = Comparison("=", node, Constant(True))
        return replace(stream, literals=(*stream.literals, test))

    def renamed(self, name: str) -> Query:
        """The same query with variables of its own."""
        own: dict[str, Variable] = {}

        def change(node: Expression) -> Expression | None:
            if isinstance(node, Variable) and not node.is_anonymous:
                return own.setdefault(
                    node.name, self.recorder.variable(node.name.partition("_")[0])
                )
            return None

        literals = tuple(_changed(literal, change) for literal in self.literals)
        columns = tuple((n, replace_in(value, change)) for n, value in self.columns)
        row = None if self.row is None else replace_in(self.row, change)
        result = Query(self.recorder, columns, literals, ()).alone(columns)
        return replace(result, row=row)  # type: ignore[arg-type]

    # ── Joins ────────────────────────────────────────────────────────────────────────────────────

    def joined(self, other: Query) -> Query:
        if {v for part in self.parts for _, v in part.columns} & {
            v for part in other.parts for _, v in part.columns
        }:
            other = other.renamed("alias")
        return Query(
            self.recorder,
            (*self.columns, *other.columns),
            (*self.literals, *other.literals),
            (*self.as_parts(), *other.as_parts()),
        )

    def as_parts(self) -> tuple[JoinPart, ...]:
        """The parts of a join; what is none is one, under all its names."""
        if len(self.parts) > 1:
            return self.parts
        known = self.parts[0].sources if self.parts else ()
        return (JoinPart((*known, self.token), self.columns),)

    def matched(self, on: Sequence[object], named: dict[str, str]) -> Query:
        stream = self
        for each in on:
            if not isinstance(each, str):
                stream = stream.selected(each)
                continue
            values = [v for part in self.parts for n, v in part.columns if n == each]
            if len(values) < 2:
                raise error(
                    "C063",
                    f"column `{each}` is not in two of the collections that are joined",
                    self.recorder.here(),
                    help='other names go together as in pairs(key="id")',
                )
            for other in values[1:]:
                stream = stream.equated(values[0], other)
        for left, right in named.items():
            names = [[name for name, _ in part.columns] for part in self.parts]
            first = next((i for i, each in enumerate(names[:-1]) if left in each), 0)
            one = Query(self.recorder, self.parts[first].columns, (), ()).named(left)
            rest = [pair for part in self.parts[first + 1 :] for pair in part.columns]
            other = Query(self.recorder, tuple(rest), (), ()).named(right)
            stream = stream.equated(one, other)
        return stream

    def equated(self, one: Expression, other: Expression) -> Query:
        """The solutions where two columns are equal: with one variable for both, if they are."""
        if one == other:
            return self
        if not isinstance(one, Variable) or not isinstance(other, Variable):
            return replace(self, literals=(*self.literals, Comparison("=", one, other)))

        def change(node: Expression) -> Expression | None:
            return one if node == other else None

        literals = tuple(_changed(literal, change) for literal in self.literals)
        columns = tuple((n, replace_in(v, change)) for n, v in self.columns)
        parts = tuple(
            JoinPart(p.sources, tuple((n, replace_in(v, change)) for n, v in p.columns))
            for p in self.parts
        )
        return replace(self, columns=columns, literals=literals, parts=parts)

    def only(self, part: int) -> Query:
        chosen = self.parts[part]
        return replace(self, columns=chosen.columns, parts=(chosen,))

    def flattened(self) -> Query:
        names: list[str] = []
        for name, _ in self.columns:
            numbers = (f"{name}_{i}" for i in range(2, len(self.columns) + 2))
            names.append(name if name not in names else next(n for n in numbers if n not in names))
        return self.alone(tuple((n, v) for n, (_, v) in zip(names, self.columns, strict=True)))

    def outer_joined(self, on: Sequence[object], named: dict[str, str]) -> Query:
        matched = self.matched(on, named)
        partners = matched.only(0).kept(CollectionKind.STREAM)
        flat = matched.flattened()
        width = len(self.parts[0].columns)
        alone = self.left_alone().without(partners, (), {}, None)
        padded = (*alone.columns, *((n, NOTHING) for n, _ in flat.columns[width:]))
        names = [name for name, _ in flat.columns]
        kept = self.recorder.element(CollectionKind.STREAM, names)
        for stream, columns in ((flat, flat.columns), (alone, padded)):
            self.recorder.rule(Head(kept.name, tuple(v for _, v in columns)), stream.literals)
        return self.recorder.collection(kept)

    def left_alone(self) -> Query:
        """The left part of a join of two, by itself."""
        columns = self.parts[0].columns
        needed = {v.name for _, v in columns if isinstance(v, Variable)}
        literals: list[Literal] = []
        for literal in self.literals:
            names = {v.name for v in _variables(literal)}
            if names & needed:
                literals.append(literal)
                needed |= names
        return replace(self, literals=tuple(literals)).alone(columns)

    def without(
        self, right: Query, on: Sequence[str], named: dict[str, str], where: object
    ) -> Query:
        if right.is_plain is None:
            right = right.kept(CollectionKind.STREAM)
        pairs = [(each, each) for each in on] + list(named.items())
        if where is not None:
            both = self.joined(right).selected(where)
            for left, name in pairs:
                both = both.equated(
                    self.named(left),
                    both.parts[-1].columns[[n for n, _ in right.columns].index(name)][1],
                )
            partners = replace(both, columns=self.columns).kept(CollectionKind.STREAM)
            return self.without(partners, (), {}, None)
        stream = self
        if not pairs:
            if len(self.columns) != len(right.columns):
                raise error(
                    "C011",
                    f"rows of {len(self.columns)} columns are compared with rows of "
                    f"{len(right.columns)}",
                    self.recorder.here(),
                    help='name the columns to compare: notin(other, "key")',
                )
            wanted = {i: value for i, (_, value) in enumerate(self.columns)}
        else:
            names = list(right.column_names())
            wanted = {}
            for left, name in pairs:
                right.named(name)
                wanted[names.index(name)] = self.named(left)
        arguments: list[Expression] = []
        for i in range(len(right.columns)):
            if i not in wanted:
                arguments.append(Variable("_"))
                continue
            stream, variable = stream.solved(wanted[i])
            arguments.append(variable)
        absent = Atom(right.is_plain or "", tuple(arguments), negated=True)
        return replace(stream, literals=(*stream.literals, absent))

    @property
    def is_plain(self) -> str | None:
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
        """The same facts in an element of their own."""
        kept = self.recorder.element(kind, [n for n, _ in self.flattened().columns])
        self.recorder.rule(Head(kept.name, tuple(v for _, v in self.columns)), self.literals)
        return self.recorder.collection(kept)

    def grouped(self, by: Sequence[str], aggregates: Sequence[Aggregation]) -> Query:
        source = self if self.is_plain is not None else self.kept(CollectionKind.STREAM)
        terms: list[Expression] = [source.named(name) for name in by]
        for each in aggregates:
            values = tuple(source.named(name) for name in each.columns)
            terms.append(Folding(each.name, values, code=each.code, initial=each.initial))
        is_reduced = any(each.name == "reduce" for each in aggregates)
        kind = CollectionKind.REDUCE if is_reduced else CollectionKind.GROUP
        labels = [*by]
        for each in aggregates:
            labels.append(each.label if each.label not in labels else f"{each.label}_{each.name}")
        kept = self.recorder.element(kind, labels, len(by))
        self.recorder.rule(Head(kept.name, tuple(terms)), source.literals)
        return self.recorder.collection(kept)

    def best(self, by: Sequence[str], column: str, name: str) -> Query:
        source = self if self.is_plain is not None else self.kept(CollectionKind.STREAM)
        best = source.grouped(by, [Aggregation(name, (column,), "best")])
        rows = source.renamed("alias")
        both = rows.joined(best)
        for i, key in enumerate(by):
            both = both.equated(rows.named(key), both.parts[-1].columns[i][1])
        both = both.equated(rows.named(column), both.parts[-1].columns[-1][1])
        return both.alone(both.parts[0].columns)

    def numbered(self, by: Sequence[str], name: str, *, reverse: bool) -> Query:
        source = self if self.is_plain is not None else self.kept(CollectionKind.STREAM)
        order = tuple(source.named(each) for each in by)
        kept = self.recorder.element(
            CollectionKind.INDEX, [*source.column_names(), name], len(self.columns)
        )
        terms = (*(v for _, v in source.columns), Folding("index", order, initial=reverse))
        self.recorder.rule(Head(kept.name, terms), source.literals)
        return self.recorder.collection(kept)


class _Reading:
    """The scope of an expression: a stream, which gets an atom for each lattice that is read."""

    def __init__(self, stream: Query) -> None:
        self.stream = stream

    def column(self, source: object, name: str) -> Expression:
        return self.stream.column(source, name)

    def read(self, name: str, position: int) -> Expression:
        width = 2 if name == CLOCK else 1
        for literal in self.stream.literals:
            if isinstance(literal, Atom) and literal.relation == name and not literal.negated:
                return literal.arguments[position]
        variables = tuple(self.stream.recorder.variable(name[0]) for _ in range(width))
        atom = Atom(name, variables)
        self.stream = replace(self.stream, literals=(*self.stream.literals, atom))
        return variables[position]


def empty(recorder: Recorder) -> Query:
    """One row without columns: where values that depend on no collection start."""
    return Query(recorder, (), (), ())


def _row(made: Any) -> Any:
    if made is None:
        return None
    return frozen(tuple(made)) if isinstance(made, tuple | list) else (frozen(made),)


def _several(made: Any) -> Any:
    return [] if made is None else [_row(each) for each in made]


def _items(value: Any) -> Any:
    return [] if value is None else list(value)


def _columns(known: Iterable[str]) -> str:
    return f"the columns are {', '.join(known)}"


def _variables(literal: Literal) -> Iterable[Variable]:
    from caladan.program import variables

    return variables(literal)


def _changed(literal: Literal, change: Callable[[Expression], Expression | None]) -> Literal:
    match literal:
        case Atom():
            return replace(
                literal, arguments=tuple(replace_in(a, change) for a in literal.arguments)
            )
        case Comparison():
            return replace_in(literal, change)
        case _:
            raise AssertionError("streams have no choices")
