"""The table of aggregates: every aggregate, monotone aggregate and lattice is one row.

    min<D>    the least value of a group           kernel least, idempotent, falls, over +
    mmin<D>   the same definition, in recursion
    lmin      the same definition, as a lattice of Bloom

Nothing but a row knows what an aggregate does. Recursion, incremental maintenance, partial
aggregation, ticks, the type check and the printers decide from its properties, never from its name;
`lookup` raises for a name that has no row. A new aggregate is a new row, an example, and no more.

    AggregateFunction   a row
    lookup        the row of a name
    row_of        the row of an aggregate in a rule
    evaluate      the value of a bag of solutions, in plain Python: what the row means

The algebra of a row: `lift` makes a state of one solution, `combine` makes one state of two, it is
associative, and `finish` makes a value of a state. `identity` is the value of no solution at all
(None: there is no fact). Kernels have the columnar version of this under the word `kernel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeGuard

from caladan.program.diagnostics import Diagnostics, Span, did_you_mean
from caladan.program.functions import CallFailed
from caladan.program.nested import chain
from caladan.program.operations import mean_type, sum_type
from caladan.program.program import Aggregate, Expression, Program, Value
from caladan.program.transform import replace_in
from caladan.program.types import Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Language: TypeAlias = Literal["deals", "rasql", "bloom"]

Form: TypeAlias = Literal["plain", "monotone", "lattice"]
"""Outside recursion, inside recursion, as a type of Bloom's."""

OrderName: TypeAlias = Literal["falls", "rises"]

KernelName: TypeAlias = Literal["least", "greatest", "total", "mean", "gathered", "folded"]
"""What columns do: keep the best rank, add up, add up and count, keep all values, or combine by a
function of the user's."""

Takes: TypeAlias = Literal["anything", "ordered", "number", "boolean", "text", "fraction", "size"]
"""What a term of an aggregate must be; a fraction is a constant from 0 to 1, a size one from 1."""

Segments: TypeAlias = "NDArray[np.int64]"
"""Where the values of each group start, in columns that are sorted by group and then by value."""

Product: TypeAlias = Literal["+", "*", "min", "max", "and", "first"]
"""The operation ⊗ that extends a value along a step; `first` hands it on as it is."""


@dataclass(frozen=True, slots=True)
class Example:
    """Values of one group, and what the aggregate makes of them."""

    values: tuple[Any, ...]
    gives: Any
    terms: str = "X"
    """The terms of the aggregate, where `p(X)` or `p(X, Y)` has the values."""


def _get_value(value: Any, *_: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, repr=False)
class AggregateFunction:
    """A row of the table."""

    name: str
    summary: str
    combine: Callable[[Any, Any], Any]
    kernel: KernelName
    takes: Takes
    result: Type | Literal["value", "total"]
    """The type of its value: a type, that of the value it takes, or that of sums of them."""
    lift: Callable[..., Any] = _get_value
    finish: Callable[[Any], Any] = _get_value
    over: Callable[[Sequence[Any]], Any] | None = None
    """The value of many lifted solutions at once, in order, where folding them would do worse."""
    columns: Callable[..., Any] | None = None
    """The same over NumPy columns, sorted by group and by value: `columns(starts, *terms)`."""
    picks: tuple[tuple[int, bool], ...] = ()
    """Its value is the first term of the first solution, in this order of (term, descending)."""
    also: tuple[Takes, ...] = ()
    """What the terms after the first must be."""
    value_term: int = 0
    """Which term the type of its value comes from, where it keeps all solutions."""
    makes_lists: bool = False
    """It puts lists together: its value term is one, of a single value (analysis/shorthand.py)."""
    identity: Value | None = None
    counts: Literal["solutions", "terms"] | None = None
    """Each solution gives 1, or each distinct tuple of terms does."""
    is_idempotent: bool = False
    """The same value again changes nothing: solutions need not be told apart."""
    is_commutative: bool = True
    is_selective: bool = False
    """Its value is one of the values it was given."""
    invert: Callable[[Any, Any], Any] | None = None
    """Takes out of a state what `combine` put in; None: the group is gone through again."""
    improves: OrderName | None = None
    """Where its value goes as solutions come; of sums, as long as no amount is below 0."""
    distributes_over: tuple[Product, ...] = ()
    """What ⊗ makes it the ⊕ of a semiring."""
    distributes_if_not_negative: tuple[Product, ...] = ()
    """The same, for values of 0 or more."""
    merged_by: str | None = None
    """The row that makes one value of the values of parts; None: parts need their states."""
    parts: tuple[Literal["count", "sum", "min", "max"], ...] = ()
    """What it asks of a part of a body that is solved first; none: it wants every solution."""
    witness: Literal["before", "after"] | None = None
    """Where its witnesses stand: `msum<(W, V)>`, `min<V, W>`."""
    terms: tuple[int, int | None] = (1, 1)
    """How many terms it takes, at least and at most; witnesses apart."""
    word: str = ""
    """`the {word} D of each group`."""
    spark: Callable[..., Any] | None = None
    """The column of Spark, from `pyspark.sql.functions` and the columns of its terms."""
    duckdb: str | None = None
    """DuckDB's SQL over `{0}`, `{1}` …"""
    example: Example | None = None
    names: Mapping[Language, tuple[str, ...]] = field(
        default_factory=dict[Language, tuple[str, ...]]
    )
    """What each language calls it."""
    form: Form = "plain"
    base: str = ""
    """The row that has its definition: `min` for `mmin` and `lmin`."""
    code: UserCombine | None = None
    """The function of the user's that combines, where it is one."""

    @property
    def is_monotone(self) -> bool:
        """Whether it may stand inside recursion."""
        return self.form == "monotone"

    @property
    def is_best(self) -> bool:
        """Whether it keeps the best value of a group: `min`, `max` and their like."""
        return self.kernel in ("least", "greatest")

    @property
    def is_least(self) -> bool:
        """Whether smaller is better."""
        return self.kernel == "least"

    @property
    def is_total(self) -> bool:
        """Whether it adds up; 0 for nothing."""
        return self.kernel == "total"

    @property
    def is_gathered(self) -> bool:
        """Whether it keeps all solutions of a group, with all its terms, and looks at them last."""
        return self.kernel == "gathered"

    @property
    def is_mean(self) -> bool:
        """Whether it divides a total by how many there are."""
        return self.kernel == "mean"

    def is_better(self, new: Any, old: Any) -> Any:
        """Whether values or arrays of ranks are better than others, by a best aggregate."""
        assert self.is_best, self.name
        return new < old if self.is_least else new > old

    def result_type(self, value: Type | None) -> Type | None:
        """The type of its value, by that of the value it takes."""
        if value is not None and value.is_decimal and (self.is_total or self.is_mean):
            if isinstance(self.result, Type) and not self.is_mean:
                return self.result  # a count
            return mean_type(value) if self.is_mean else sum_type(value)
        if isinstance(self.result, Type):
            return self.result
        if value is Type.INTERVAL and self.is_total:
            return value
        if value is None or self.result == "value":
            return value
        if self.takes != "number" and not value.is_numeric:
            return value
        return Type.LONG if value.is_integral else Type.DOUBLE

    @property
    def usage(self) -> str:
        """How it is written, and what it gives.

        >>> lookup("min").usage
        'min<X>: the least value'
        """
        terms = "X" if self.example is None else self.example.terms
        said = self.summary[:1].lower() + self.summary[1:].rstrip(".")
        return f"{self.name}<{terms}>: {said}"

    def has_form(self, form: Form) -> bool:
        """Whether some row has the same definition in a form."""
        base = self.base or self.name
        return any(base in (row.name, row.base) and row.form == form for row in TABLE.values())

    def in_form(self, form: Form) -> AggregateFunction:
        """The row with the same definition in another form: `min` inside recursion is `mmin`."""
        base = self.base or self.name
        return next(r for r in TABLE.values() if base in (r.name, r.base) and r.form == form)

    @property
    def is_improved(self) -> bool:
        """Whether recursion combines the value of a group with what it finds for it later."""
        return self.is_monotone and self.is_idempotent

    def of(self, terms: tuple[Expression, ...], span: Span | None = None) -> Aggregate:
        """The aggregate of some terms."""
        return Aggregate(self.name, terms, span, None if self.code is None else self)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"AggregateFunction({self.name!r})"

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        """A row of the table travels by its name, one of a user's by its function."""
        return (lookup, (self.name,)) if self.code is None else (user_aggregate, (self.code,))


class UnknownAggregate(KeyError):
    """A name that has no row."""


def lookup(name: str) -> AggregateFunction:
    """The row of a name; `UnknownAggregate` if there is none.

    >>> lookup("mmin").base, lookup("lmin").base, lookup("min").kernel
    ('min', 'min', 'least')
    """
    try:
        return TABLE[name]
    except KeyError:
        raise UnknownAggregate(f"there is no aggregate `{name}`") from None


def row_of(node: Aggregate) -> AggregateFunction:
    """The row of an aggregate in a rule."""
    return lookup(node.function) if node.definition is None else node.definition


def has_tuples(node: Aggregate) -> bool:
    """Whether its terms are one tuple: `msum<(W, V)>`, `countd<(A, B)>`, but `corr<X, Y>`."""
    row = node.definition or TABLE.get(node.function)
    return row is not None and (row.witness == "before" or row.counts is not None)


_ELSEWHERE: Final = {
    "average": "avg",
    "mean": "avg",
    "total": "sum",
    "count_distinct": "countd",
    "minimum": "min",
    "maximum": "max",
}
"""What aggregates are called in other languages, and what here."""


def _suggest(name: str, known: Sequence[str]) -> str:
    """Help for an aggregate that does not exist: what it is called here, a near name, or all."""
    called = _ELSEWHERE.get(name.lower())
    if called in known:
        return f"it is called `{called}` here"
    listed = f"the aggregates are {', '.join(known)}; db.aggregate adds one"
    return did_you_mean(name, known) or listed


def define_aggregates(
    program: Program, rows: Mapping[str, AggregateFunction], found: Diagnostics
) -> Program:
    """The program with the rows that users added at their aggregates; C015 for unknown names."""

    def change(node: object) -> Aggregate | None:
        if not isinstance(node, Aggregate) or node.definition or node.function in TABLE:
            return None
        if node.function in rows:
            return replace(node, definition=rows[node.function])
        known = tuple(sorted((*names_in("deals"), *rows)))
        found.add(
            "C015",
            f"there is no aggregate `{node.function}`",
            node.span,
            help=_suggest(node.function, known),
        )
        return replace(node, function="count")

    heads = [replace_in(rule.head, change) for rule in program.rules]
    if all(rule.head is head for rule, head in zip(program.rules, heads, strict=True)):
        return program
    rules = (replace(r, head=head) for r, head in zip(program.rules, heads, strict=True))
    return replace(program, rules=tuple(rules))


def counts_solutions(node: Aggregate) -> bool:
    """Whether every solution gives 1: `count<X>`, and `mcount<X>` without an amount."""
    row = row_of(node)
    return row.counts == "solutions" and (row.witness is None or len(node.terms) < 2)


def is_recursive_best(row: AggregateFunction | None) -> TypeGuard[AggregateFunction]:
    """Whether recursion keeps the best value of each group: `mmin`, `mmax`."""
    return row is not None and row.is_best and row.is_monotone


def has_empty_value(rows: Sequence[AggregateFunction | None]) -> bool:
    """Whether a relation without group columns has a fact where there is no solution."""
    return all(row is not None and row.identity is not None for row in rows)


def find_row(language: Language, name: str, form: Form | None = None) -> AggregateFunction | None:
    """The row that a language has under a name, None if it has none.

    >>> named("rasql", "min", "monotone").name
    'mmin'
    """
    for row in TABLE.values():
        if name in row.names.get(language, ()) and form in (None, row.form):
            return row
    return None


def recursive(name: str) -> AggregateFunction:
    """The row of an aggregate in the head of a recursive view of SQL.

    >>> recursive("min").name
    'mmin'
    """
    row = find_row("rasql", name, "monotone")
    if row is None:
        raise UnknownAggregate(f"a recursive view has no aggregate `{name}`")
    return row


def names_in(language: Language, form: Form | None = None) -> tuple[str, ...]:
    """All names that a language has, in the order of the table."""
    rows = (row for row in TABLE.values() if form in (None, row.form))
    return tuple(dict.fromkeys(name for row in rows for name in row.names.get(language, ())))


def evaluate(row: AggregateFunction, solutions: Sequence[tuple[Any, ...]]) -> Any:
    """The value of a bag of solutions, each the tuple of its terms; this is what a row means.

    >>> evaluate(lookup("min"), [(3,), (1,)]), evaluate(lookup("avg"), [(1,), (2,)])
    (1, 1.5)
    """
    if not solutions:
        return row.identity
    lifted = [row.lift(*each) for each in solutions]
    if row.over is not None:
        return row.over(lifted)
    return row.finish(reduce(row.combine, lifted))


# ── Algebra ──────────────────────────────────────────────────────────────────────────────────────


def order_key(value: Any, other: Any = None) -> tuple[bool, Any]:
    """A key to sort values of one type by, NaN last; `other` is what the value is compared with."""
    if isinstance(other, float) and isinstance(value, int):
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        return (True, 0.0)
    return (False, value)


def comes_before(one: Any, other: Any) -> bool:
    """Whether the first of two values comes before the second."""
    return order_key(one, other) < order_key(other, one)


def _lesser(one: Any, other: Any) -> Any:
    return other if comes_before(other, one) else one


def _greater(one: Any, other: Any) -> Any:
    return other if comes_before(one, other) else one


def _add(one: Any, other: Any) -> Any:
    return one + other


def _subtract(one: Any, other: Any) -> Any:
    return one - other


def exact_total(numbers: Sequence[Any]) -> Any:
    """The sum of numbers; of doubles rounded once, whatever their order.

    >>> exact_total([1e100, 1.0, -1e100])
    1.0
    """
    if not any(isinstance(number, float) for number in numbers):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except ValueError:  # infinities of both signs
        return sum(numbers)


def _add_pairs(one: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
    return (one[0] + other[0], one[1] + other[1])


def _subtract_pairs(one: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
    return (one[0] - other[0], one[1] - other[1])


def _mean(pairs: Sequence[tuple[Any, int]]) -> float:
    return exact_total([value for value, _ in pairs]) / sum(count for _, count in pairs)


def _unite(one: frozenset[Any], other: frozenset[Any]) -> frozenset[Any]:
    return one if other <= one else one | other


def _each_value(*terms: Any) -> frozenset[Any]:
    return frozenset([terms[0] if len(terms) == 1 else terms])


def _both(one: Any, other: Any) -> bool:
    return bool(one and other)


def _either(one: Any, other: Any) -> bool:
    return bool(one or other)


def _more_often(one: Mapping[Any, int], other: Mapping[Any, int]) -> dict[Any, int]:
    """The larger multiplicity of each item of two bags."""
    return {item: max(one.get(item, 0), other.get(item, 0)) for item in {**one, **other}}


def _merge_maps(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """Two maps whose values are of lattices: values of one key are merged."""
    found = dict(one)
    for key, value in other.items():
        found[key] = found[key].merge(value) if key in found else value
    return found


# ── Of users ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UserCombine:
    """What `Session.aggregate` was given: a function that makes one value of two."""

    name: str
    code: Callable[[Any, Any], Any]
    identity: Value | None = None
    is_idempotent: bool = False
    is_monotone: bool = False
    vectorized: Literal["numpy"] | None = None

    def one(self, left: Any, right: Any) -> Any:
        """One value of two; `CallFailed` if the function fails, or gives another type."""
        if self.vectorized is None:
            made = self._called(left, right)
        else:
            import numpy as np

            (made,) = self.columns(np.array([left]), np.array([right])).tolist()
        if type(made) is not type(left):
            kind = type(made).__name__
            raise CallFailed(self.name, f"it made {made!r}, a {kind}, of {left!r} and {right!r}")
        return made

    def columns(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        """One column of two."""
        import numpy as np

        if self.vectorized is None:
            made = [self.one(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
            found = np.empty(len(made), object)
            found[:] = made
            return found
        found = self._called(left, right)
        if not isinstance(found, np.ndarray) or found.shape != left.shape:
            raise CallFailed(self.name, f"it must give {len(left)} values for {len(left)} pairs")
        return found

    def _called(self, left: Any, right: Any) -> Any:
        try:
            return self.code(left, right)
        except Exception as problem:
            said = str(problem).partition("\n")[0]
            reason = f"{type(problem).__name__}: {said}".rstrip(": ")
            raise CallFailed(self.name, reason) from problem


def user_aggregate(code: UserCombine) -> AggregateFunction:
    """The row of an aggregate that a user added.

    >>> import math
    >>> evaluate(user_aggregate(UserCombine("gcd", math.gcd, is_idempotent=True)), [(12,), (18,)])
    6
    """
    return AggregateFunction(
        code.name, f"`{code.name}`, as it was added.", code.one, "folded", "anything", "total",
        identity=code.identity, is_idempotent=code.is_idempotent,
        form="monotone" if code.is_monotone else "plain", code=code,
    )  # fmt: skip


# ── Statistics ───────────────────────────────────────────────────────────────────────────────────


def _quantile(values: Sequence[tuple[Any, float]]) -> float:
    """The value below which a fraction of the values lies, between two of them if need be."""
    numbers = sorted((float(value) for value, _ in values), key=order_key)
    place = (len(numbers) - 1) * values[0][1]
    low = math.floor(place)
    high = min(low + 1, len(numbers) - 1)
    return _interpolate(numbers[low], numbers[high], place - low)


def _interpolate(low: Any, high: Any, share: Any) -> Any:
    return low + (high - low) * share


def _quantile_columns(starts: Segments, values: Any, fractions: Any) -> Any:
    import numpy as np

    ends = np.append(starts[1:], len(values))
    places = (ends - starts - 1) * fractions[starts]
    low = np.floor(places).astype(np.int64)
    high = np.minimum(low + 1, ends - starts - 1)
    numbers = values.astype(np.float64)
    with np.errstate(all="ignore"):
        found = _interpolate(numbers[starts + low], numbers[starts + high], places - low)
    # Between infinity and itself lies infinity.
    return np.where(places == low, numbers[starts + low], found)


def _moments(starts: Segments, *terms: Any) -> tuple[Any, list[Any]]:
    """How many values each group has, and how far each value of each term is from its mean."""
    import numpy as np

    counts = np.diff(np.append(starts, len(terms[0])))
    apart: list[Any] = []
    with np.errstate(all="ignore"):
        for values in terms:
            numbers = values.astype(np.float64)
            mean = np.add.reduceat(numbers, starts) / counts
            # Once more, for what rounding lost: the mean of what is left.
            mean = mean + np.add.reduceat(numbers - np.repeat(mean, counts), starts) / counts
            apart.append(numbers - np.repeat(mean, counts))
    return counts, apart


def _variance_columns(less: int, *, root: bool) -> Callable[..., Any]:
    def columns(starts: Segments, values: Any) -> Any:
        import numpy as np

        counts, (apart,) = _moments(starts, values)
        with np.errstate(all="ignore"):
            found = np.add.reduceat(apart * apart, starts) / (counts - less)
            return np.sqrt(found) if root else found

    return columns


def _variance(less: int, *, root: bool) -> Callable[[Sequence[Any]], float]:
    def over(values: Sequence[Any]) -> float:
        if len(values) <= less:
            return math.nan
        mean = exact_total([float(value) for value in values]) / len(values)
        found = exact_total([(value - mean) ** 2 for value in values]) / (len(values) - less)
        return math.sqrt(found) if root else found

    return over


def _correlation(pairs: Sequence[tuple[Any, Any]]) -> float:
    sides = [[float(pair[i]) for pair in pairs] for i in (0, 1)]
    apart = [[v - exact_total(side) / len(side) for v in side] for side in sides]
    spread = [exact_total([v * v for v in side]) for side in apart]
    shared = exact_total([one * other for one, other in zip(*apart, strict=True)])
    scale = math.sqrt(spread[0] * spread[1])
    return shared / scale if scale else math.nan


def _correlation_columns(starts: Segments, one: Any, other: Any) -> Any:
    import numpy as np

    _, (left, right) = _moments(starts, one, other)
    with np.errstate(all="ignore"):
        spread = [np.add.reduceat(side * side, starts) for side in (left, right)]
        return np.add.reduceat(left * right, starts) / np.sqrt(spread[0] * spread[1])


def _earlier(order: tuple[tuple[int, bool], ...]) -> Callable[[Any, Any], Any]:
    """The first of two solutions in an order of (term, descending)."""

    def combine(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        for term, descending in order:
            if comes_before(other[term], one[term]):
                return one if descending else other
            if comes_before(one[term], other[term]):
                return other if descending else one
        return one

    return combine


def _join_texts(rows: Sequence[tuple[str, str]]) -> str:
    """Texts in their order, with what separates them between."""
    return rows[0][1].join(sorted(text for text, _ in rows))


def _make_list(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Lists, in the order of what stands after them or else of their values, as one."""
    return chain(row[0] for row in _sort_rows(rows, *range(1, len(rows[0])), 0))


def _each_once(lists: Sequence[bytes]) -> bytes:
    return chain(sorted({*lists}))


def _best(rows: Sequence[tuple[Any, ...]], *, descending: bool) -> bytes:
    """Of the lists with the best values so many; the first of several in their own order."""
    by_value = _sort_rows(rows, 2)
    best = sorted(by_value, key=lambda row: order_key(row[1]), reverse=descending)
    return chain(row[2] for row in best[: rows[0][0]])


def _sort_rows(rows: Sequence[tuple[Any, ...]], *places: int) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [order_key(row[place]) for place in places])


def _both_kept(one: Sequence[Any], other: Sequence[Any]) -> tuple[Any, ...]:
    """The solutions of two parts: what can only be told of all of them keeps them all."""
    return (*one, *other)


def _terms(*terms: Any) -> tuple[Any, ...]:
    return terms


def _gather_row(
    name: str, summary: str, over: Callable[[Sequence[Any]], Any], **properties: Any
) -> AggregateFunction:
    """A row whose state is the bag of its solutions."""
    return AggregateFunction(name, summary, _both_kept, "gathered", over=over, **properties)


# ── The table ────────────────────────────────────────────────────────────────────────────────────


def _in(deals: str = "", *, rasql: str = "", bloom: str = "") -> Mapping[Language, tuple[str, ...]]:
    found: dict[Language, tuple[str, ...]] = {}
    pairs: tuple[tuple[Language, str], ...] = (("deals", deals), ("rasql", rasql), ("bloom", bloom))
    for language, words in pairs:
        if words:
            found[language] = tuple(words.split())
    return MappingProxyType(found)


_BEST: Final[dict[str, Any]] = {
    "takes": "ordered", "result": "value", "witness": "after",
    "is_idempotent": True, "is_selective": True,
}  # fmt: skip
_SUM: Final[dict[str, Any]] = {
    "combine": _add, "kernel": "total", "identity": 0, "invert": _subtract, "improves": "rises",
    "distributes_over": ("*",), "merged_by": "sum", "word": "total",
}  # fmt: skip

_MIN: Final = AggregateFunction(
    "min", "The least value.", _lesser, "least", **_BEST,
    improves="falls", distributes_over=("+", "min", "max", "first"),
    distributes_if_not_negative=("*",), merged_by="min", parts=("min",), word="least",
    spark=lambda f, x: f.min(x), duckdb="min({0})",
    example=Example((3, 1, 2), 1), names=_in("min", bloom="min"),
)  # fmt: skip

_MAX: Final = AggregateFunction(
    "max", "The greatest value.", _greater, "greatest", **_BEST,
    improves="rises", distributes_over=("+", "min", "max", "first"),
    distributes_if_not_negative=("*",), merged_by="max", parts=("max",), word="greatest",
    spark=lambda f, x: f.max(x), duckdb="max({0})",
    example=Example((3, 1, 2), 3), names=_in("max", bloom="max"),
)  # fmt: skip

_TOTAL: Final = AggregateFunction(
    "sum", "The sum over all solutions; 0 if none.", **_SUM,
    takes="number", result="total", over=exact_total, parts=("sum",),
    spark=lambda f, x: f.sum(x), duckdb="sum({0})",
    example=Example((3, 1, 2), 6), names=_in("sum", bloom="sum"),
)  # fmt: skip

_COUNT: Final = AggregateFunction(
    "count", "The number of solutions; 0 if none.", **_SUM,
    takes="anything", result=Type.LONG, lift=lambda *_: 1, counts="solutions", terms=(0, None),
    parts=("count",), spark=lambda f, *_: f.count(f.lit(1)), duckdb="count(*)",
    example=Example((3, 1, 2), 3), names=_in("count", bloom="count"),
)  # fmt: skip

_DISTINCT: Final = AggregateFunction(
    "countd", "The number of distinct values, or tuples of values.", _unite, "total",
    takes="anything", result=Type.LONG, lift=_each_value, finish=len, identity=0,
    over=lambda values: len(frozenset[Any]().union(*values)), counts="terms", is_idempotent=True,
    improves="rises", terms=(1, None), word="number of",
    spark=lambda f, *x: f.count_distinct(*x), duckdb="count(DISTINCT {0})",
    example=Example((3, 1, 3), 2),
    names=_in("countd count_distinct approx_count_distinct", bloom="countd"),
)  # fmt: skip

_AVERAGE: Final = AggregateFunction(
    "avg", "The mean over all solutions, as a double.", _add_pairs, "mean",
    takes="number", result=Type.DOUBLE, lift=lambda value: (value, 1), invert=_subtract_pairs,
    finish=lambda pair: pair[0] / pair[1], over=_mean, parts=("sum", "count"), word="mean",
    spark=lambda f, x: f.avg(x), duckdb="avg({0})",
    example=Example((3, 1, 2), 2.0), names=_in("avg mean", bloom="avg"),
)  # fmt: skip

_ALL: Final = AggregateFunction(
    "bool_and", "True if all values are true.", _both, "least",
    takes="boolean", result=Type.BOOLEAN, over=all, is_idempotent=True, is_selective=True,
    improves="falls", distributes_over=("first",), merged_by="bool_and", word="least",
    spark=lambda f, x: f.bool_and(x), duckdb="bool_and({0})",
    example=Example((True, False), False), names=_in("all bool_and every", bloom="bool_and"),
)  # fmt: skip

_ANY: Final = AggregateFunction(
    "bool_or", "True if a value is true.", _either, "greatest",
    takes="boolean", result=Type.BOOLEAN, over=any, is_idempotent=True, is_selective=True,
    improves="rises", distributes_over=("and", "first"), merged_by="bool_or", word="greatest",
    spark=lambda f, x: f.bool_or(x), duckdb="bool_or({0})",
    example=Example((True, False), True), names=_in("any bool_or some", bloom="bool_or"),
)  # fmt: skip

_CHOOSE: Final = AggregateFunction(
    "choose", "One of the values; the same facts give the same value.", _lesser, "least",
    takes="anything", result="value", is_idempotent=True, is_selective=True,
    merged_by="choose", word="chosen", duckdb="min({0})",
    example=Example((3, 1, 2), 1), names=_in(bloom="choose"),
)  # fmt: skip

_SET: Final = AggregateFunction(
    "accum", "The set of all values.", _unite, "gathered",
    takes="anything", result=Type.OBJECT, lift=_each_value, identity=None,
    over=lambda values: frozenset[Any]().union(*values), is_idempotent=True, improves="rises",
    merged_by="accum", names=_in(bloom="accum"), example=Example((3, 1, 3), frozenset({1, 3})),
)  # fmt: skip

_PAIRS: Final = replace(
    _SET, name="accum_pair", summary="The set of all pairs of values.", terms=(2, 2),
    merged_by="accum_pair", names=_in(bloom="accum_pair"), example=None,
)  # fmt: skip

_BAG: Final = AggregateFunction(
    "lbag", "A multiset; merging keeps the larger multiplicity of each item.", _more_often,
    "gathered", takes="anything", result=Type.OBJECT, is_idempotent=True, improves="rises",
    merged_by="lbag", names=_in(bloom="lbag"), form="lattice",
)  # fmt: skip

_MAP: Final = AggregateFunction(
    "lmap", "Keys with values of lattices; merging merges the values of a key.", _merge_maps,
    "gathered", takes="anything", result=Type.OBJECT, is_idempotent=True, improves="rises",
    merged_by="lmap", names=_in(bloom="lmap"), form="lattice",
)  # fmt: skip

_FOLD: Final = AggregateFunction(
    "reduce", "A user-defined fold over the facts of a group, in any order.", _get_value,
    "gathered", takes="anything", result=Type.OBJECT, is_commutative=False, terms=(0, None),
)  # fmt: skip

_PLACE: Final = replace(
    _FOLD, name="index", summary="The place of a fact in an order, from 0.", result=Type.LONG
)


_COUNT_IF: Final = replace(
    _TOTAL, name="count_if", summary="How many solutions a condition holds for; 0 if none.",
    takes="boolean", result=Type.LONG, lift=int, parts=(), spark=lambda f, x: f.count_if(x),
    duckdb="count_if({0})", example=Example((3, 1, 2), 2, "(X > 1)"), names=_in("count_if"),
)  # fmt: skip

_MEDIAN: Final = _gather_row(
    "median", "The median, as a double; the mean of the two middle values if their number is even.",
    lambda values: _quantile([(value, 0.5) for value in values]),
    takes="number", result=Type.DOUBLE,
    columns=lambda starts, values: _quantile_columns(starts, values, _halves(values)),
    spark=lambda f, x: f.median(x), duckdb="median({0})",
    example=Example((3, 1, 2, 10), 2.5), names=_in("median"),
)  # fmt: skip

_QUANTILE: Final = _gather_row(
    "quantile", "The value below which a fraction of the values lies, interpolated between two.",
    _quantile, lift=_terms, takes="number", also=("fraction",), result=Type.DOUBLE, terms=(2, 2),
    columns=_quantile_columns, duckdb="quantile_cont({0}, {1})",
    example=Example((3, 1, 2, 10, 4), 2.0, "X, 0.25"), names=_in("quantile percentile"),
)  # fmt: skip

_STATISTIC: Final[dict[str, Any]] = {"takes": "number", "result": Type.DOUBLE}

_VARIANCE: Final = _gather_row(
    "variance", "The sample variance (divided by n - 1); NaN for one value.",
    _variance(1, root=False), **_STATISTIC, columns=_variance_columns(1, root=False),
    spark=lambda f, x: f.coalesce(f.var_samp(x), f.lit(math.nan)), duckdb="var_samp({0})",
    example=Example((1, 2, 3, 4), 5 / 3), names=_in("variance var_samp"),
)  # fmt: skip

_STDDEV: Final = _gather_row(
    "stddev", "The sample standard deviation; NaN for one value.",
    _variance(1, root=True), **_STATISTIC, columns=_variance_columns(1, root=True),
    spark=lambda f, x: f.coalesce(f.stddev_samp(x), f.lit(math.nan)), duckdb="stddev_samp({0})",
    example=Example((1, 3, 5), 2.0), names=_in("stddev stddev_samp"),
)  # fmt: skip

_VARIANCE_ALL: Final = _gather_row(
    "var_pop", "The population variance (divided by n).",
    _variance(0, root=False), **_STATISTIC, columns=_variance_columns(0, root=False),
    spark=lambda f, x: f.var_pop(x), duckdb="var_pop({0})",
    example=Example((1, 2, 3, 4), 1.25), names=_in("var_pop"),
)  # fmt: skip

_STDDEV_ALL: Final = _gather_row(
    "stddev_pop", "The population standard deviation.",
    _variance(0, root=True), **_STATISTIC, columns=_variance_columns(0, root=True),
    spark=lambda f, x: f.stddev_pop(x), duckdb="stddev_pop({0})",
    example=Example((1, 1, 5, 5), 2.0), names=_in("stddev_pop"),
)  # fmt: skip

_CORRELATION: Final = _gather_row(
    "corr", "The correlation of two columns, from -1 to 1; NaN if one is constant.",
    _correlation, lift=_terms, **_STATISTIC, also=("number",), terms=(2, 2),
    columns=_correlation_columns,
    spark=lambda f, x, y: f.coalesce(f.corr(x, y), f.lit(math.nan)), duckdb="corr({0}, {1})",
    example=Example(((1, 2), (2, 4), (3, 6)), 1.0, "X, Y"), names=_in("corr"),
)  # fmt: skip


def _pick_row(
    name: str, summary: str, order: tuple[tuple[int, bool], ...], **properties: Any
) -> AggregateFunction:
    return AggregateFunction(
        name, summary, _earlier(order), "gathered", lift=_terms, finish=lambda row: row[0],
        picks=order, takes="anything", also=("ordered",), result="value", terms=(2, 2),
        is_idempotent=True, is_selective=True, **properties,
    )  # fmt: skip


_ARG_MIN: Final = _pick_row(
    "arg_min", "The X with the least Y; the least X of several.", ((1, False), (0, False)),
    spark=lambda f, x, y: f.min_by(x, f.when(y.isNotNull(), f.struct(y, x))),
    duckdb="arg_min({0}, ({1}, {0}))",
    example=Example((("b", 1), ("a", 2), ("c", 1)), "b", "X, Y"), names=_in("arg_min min_by first"),
)  # fmt: skip

_ARG_MAX: Final = _pick_row(
    "arg_max", "The X with the greatest Y; the least X of several.", ((1, True), (0, False)),
    example=Example((("b", 2), ("a", 1), ("c", 2)), "b", "X, Y"), names=_in("arg_max max_by"),
)  # fmt: skip

_LAST: Final = _pick_row(
    "last", "The last X in the order of Y, then of X.", ((1, True), (0, True)),
    spark=lambda f, x, y: f.max_by(x, f.when(y.isNotNull(), f.struct(y, x))),
    duckdb="arg_max({0}, ({1}, {0}))",
    example=Example((("b", 2), ("a", 1), ("c", 2)), "c", "X, Y"), names=_in("last"),
)  # fmt: skip

_JOIN: Final = _gather_row(
    "join", "All texts in order, joined by a separator.", _join_texts, lift=_terms,
    takes="text", also=("text",), result=Type.STRING, terms=(2, 2),
    duckdb="string_agg({0}, {1} ORDER BY {0})",
    example=Example(("b", "a", "c"), "a, b, c", "X, \", \""), names=_in("join string_agg listagg"),
)  # fmt: skip


_LIST: Final = _gather_row(
    "list", "The values of all solutions, in their order or in that of a second term.", _make_list,
    lift=_terms, takes="anything", also=("ordered",), result="value", terms=(1, 2),
    makes_lists=True, duckdb="list({0} ORDER BY {0})",
    example=Example((3, 1, 2), (1, 2, 3)), names=_in("list collect_list array_agg"),
)  # fmt: skip

_VALUES: Final = _gather_row(
    "set", "The list of all different values, in their order.", _each_once, takes="ordered",
    result="value", makes_lists=True, is_idempotent=True,
    duckdb="list_sort(list(DISTINCT {0}))",
    example=Example((3, 1, 3), (1, 3)), names=_in("set collect_set"),
)  # fmt: skip

_TOP: Final = _gather_row(
    "top", "The list of the X of the so many greatest Y, the greatest first.",
    lambda rows: _best(rows, descending=True), lift=_terms, takes="size",
    also=("ordered", "anything"), result="value", value_term=2, terms=(2, 3), makes_lists=True,
    example=Example((("a", 1), ("b", 3), ("c", 2)), ("b", "c"), "2, Y, X"), names=_in("top"),
)  # fmt: skip

_BOTTOM: Final = _gather_row(
    "bottom", "The list of the X of the so many least Y, the least first.",
    lambda rows: _best(rows, descending=False), lift=_terms, takes="size",
    also=("ordered", "anything"), result="value", value_term=2, terms=(2, 3), makes_lists=True,
    example=Example((("a", 1), ("b", 3), ("c", 2)), ("a", "c"), "2, Y, X"), names=_in("bottom"),
)  # fmt: skip


def _halves(values: Any) -> Any:
    import numpy as np

    return np.full(len(values), 0.5)


def _monotone(row: AggregateFunction, name: str, **changes: Any) -> AggregateFunction:
    """The form of a row that may stand inside recursion."""
    return replace(row, name=name, base=row.name, form="monotone", parts=(), duckdb=None, **changes)


def _lattice(row: AggregateFunction, name: str, **changes: Any) -> AggregateFunction:
    """The form of a row that is a type of Bloom's."""
    return replace(
        row, name=name, base=row.name, form="lattice", parts=(), duckdb=None, example=None,
        names=_in(bloom=name), **changes,
    )  # fmt: skip


TABLE: Final[Mapping[str, AggregateFunction]] = MappingProxyType({row.name: row for row in (
    _MIN, _MAX, _TOTAL, _COUNT, _DISTINCT, _AVERAGE, _COUNT_IF, _ALL, _ANY, _MEDIAN, _QUANTILE,
    _VARIANCE, _STDDEV, _VARIANCE_ALL, _STDDEV_ALL, _CORRELATION, _ARG_MIN, _ARG_MAX, _LAST, _JOIN,
    _LIST, _VALUES, _TOP, _BOTTOM, _CHOOSE, _SET, _PAIRS,
    _monotone(_MIN, "mmin", names=_in("mmin", rasql="min")),
    _monotone(_MAX, "mmax", names=_in("mmax", rasql="max")),
    _monotone(_TOTAL, "msum", names=_in("msum", rasql="sum"), witness="before"),
    _monotone(
        _COUNT, "mcount", names=_in("mcount", rasql="count"), witness="before", takes="number",
        result="total",
    ),
    _lattice(_MIN, "lmin"),
    _lattice(_MAX, "lmax"),
    _lattice(_ANY, "lbool"),
    _lattice(_SET, "lset"),
    _lattice(_SET, "lpset", summary="A set of numbers of 0 or more, whose sum only grows."),
    _BAG, _MAP, _FOLD, _PLACE,
)})  # fmt: skip
"""Every row, by name."""
