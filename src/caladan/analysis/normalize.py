"""Rules become core rules, still without types.

`normalize(program)` numbers the rules and, for each:

- splits `if` literals: one core rule for each way through them. Two branches that each bind the
  same variable stay one rule, as a conditional expression. Ways are counted before they are made:
  where they are more than a few, an `if` that only compares stays one rule too, as a test; where
  they are too many, that is C024;
- names the `_` of positive atoms apart, and moves expressions out of atoms into equalities;
- takes aggregates out of head expressions (`sum<C> / count<_>`), and away from sort and limit: an
  internal relation aggregates, and a second rule computes, sorts or cuts.

Reports C015 (aggregates), C022 (sort and limit), C024 (`if`), C013 for a `_` that has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from caladan.analysis.core import CoreAtom, CoreRule, Term
from caladan.program import (
    OPPOSITE,
    Aggregate,
    Arithmetic,
    Atom,
    Call,
    Choice,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Folding,
    Literal,
    Negative,
    Program,
    Rule,
    SortKey,
    Variable,
    variables,
)
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import replace_in

_WITNESSED = ("msum", "mcount")

_FEW_WAYS: Final = 16
"""Ways through the `if` literals of a rule that are worth a rule each: plain joins are quickest."""

_MOST_WAYS: Final = 256
"""More of them would take longer to compile than anyone waits for."""


@dataclass(frozen=True, slots=True)
class Normal:
    """Core rules without types, and the internal relations that came about."""

    rules: tuple[CoreRule, ...]
    internal: frozenset[str]


def normalize(
    program: Program, found: Diagnostics, skipped: frozenset[int] = frozenset()
) -> Normal:
    """Every rule of the program in core form, numbered from 1, except those at `skipped` places."""
    names = _Names({r.name for r in program.relations} | {r.head.relation for r in program.rules})
    rules: list[CoreRule] = []
    for number, rule in enumerate(program.rules, start=1):
        if number - 1 in skipped:
            continue
        if not rule.body and rule.limit is None and not rule.order:
            rules.append(_fact(number, rule, found))
            continue
        for alternative in _split(rule, found):
            core = _core(number, alternative, found)
            rules.extend(_separate(core, rule, names, found))
    return Normal(tuple(rules), frozenset(names.made))


class _Names:
    def __init__(self, used: set[str]) -> None:
        self._used = used
        self.made: set[str] = set()

    def fresh(self, stem: str) -> str:
        name = next(n for n in _candidates(stem) if n not in self._used)
        self._used.add(name)
        self.made.add(name)
        return name


def _candidates(stem: str) -> Iterator[str]:
    yield stem
    for i in count(2):
        yield f"{stem}_{i}"


def _fact(number: int, rule: Rule, found: Diagnostics) -> CoreRule:
    for argument in rule.head.arguments:
        if any(isinstance(part, Aggregate) for part in _parts(argument)):
            found.add(
                "C015",
                "an aggregate needs a body to range over",
                argument.span,
                help="a fact has the value itself: `best(1, 0).`",
            )
    return CoreRule(number, rule.head.relation, rule.head.arguments, (), (), {}, span=rule.span)


# ── `if` literals ────────────────────────────────────────────────────────────────────────────────


def _split(rule: Rule, found: Diagnostics) -> list[Rule]:
    """One rule for each way through the `if` literals of the body."""
    body = rule.body
    if _count(body) > _FEW_WAYS:
        bound = {
            v.name
            for literal in body
            if isinstance(literal, Atom) and not literal.negated
            for v in variables(literal)
        }
        body = tuple(_as_test(each, bound) for each in body)
    if (ways := _count(body)) > _MOST_WAYS:
        first = next(each for each in body if isinstance(each, Choice))
        amount = f"{ways:,}" if ways < 10**9 else f"some 10^{len(str(ways)) - 1}"
        found.add(
            "C024",
            f"there are {amount} ways through the `if`s of this rule, more than {_MOST_WAYS}",
            first.span or rule.span,
            help="give some of them a relation of their own: rules with an `if` each, which this "
            "rule then joins",
        )
        return []
    return [replace(rule, body=tuple(way)) for way in _ways(body)]


def _count(body: Iterable[Literal]) -> int:
    """How many ways lead through a body, without going any of them."""
    ways = 1
    for literal in body:
        if isinstance(literal, Choice) and _as_equality(literal) is None:
            ways *= _count(literal.then) + len(literal.condition) * _count(literal.otherwise)
    return ways


def _as_test(literal: Literal, bound: Set[str]) -> Literal:
    """An `if` that only compares what is known as one comparison: `if(c then t else e) = 1`."""
    if not isinstance(literal, Choice) or _as_equality(literal) is not None:
        return literal
    value = _tested(literal, bound)
    if value is None:
        return literal
    return Comparison("=", value, Constant(1, literal.span), literal.span)


def _tested(choice: Choice, bound: Set[str]) -> Expression | None:
    """1 or 0, as the branch that is taken holds or does not; None if one has more than tests."""
    if any(v.name not in bound for v in variables(choice)):
        return None
    then, otherwise = (_all_hold(each, bound) for each in (choice.then, choice.otherwise))
    if then is None or otherwise is None:
        return None
    return Conditional(choice.condition, then, otherwise, choice.span)


def _all_hold(body: Iterable[Literal], bound: Set[str]) -> Expression | None:
    """1 or 0, as all literals of a branch hold or one does not."""
    tests: list[Comparison] = []
    for literal in body:
        match literal:
            case Comparison():
                tests.append(literal)
            case Choice():
                value = _tested(literal, bound)
                if value is None:
                    return None
                tests.append(Comparison("=", value, Constant(1), literal.span))
            case Atom():
                return None
    return Conditional(tuple(tests), Constant(1), Constant(0)) if tests else Constant(1)


def _ways(body: Iterable[Literal]) -> list[list[Literal]]:
    ways: list[list[Literal]] = [[]]
    for literal in body:
        if isinstance(literal, Choice):
            choice = _as_equality(literal)
            options: list[list[Literal]] = [[choice]] if choice is not None else _branches(literal)
        else:
            options = [[literal]]
        ways = [way + option for way in ways for option in options]
    return ways


def _branches(choice: Choice) -> list[list[Literal]]:
    """The ways through an `if`; no two of them hold together, so nothing is counted twice."""
    ways = [[*choice.condition, *way] for way in _ways(choice.then)]
    for i, failing in enumerate(choice.condition):
        opposite = replace(failing, operator=OPPOSITE[failing.operator])
        ways += [[*choice.condition[:i], opposite, *way] for way in _ways(choice.otherwise)]
    return ways


def _as_equality(choice: Choice) -> Comparison | None:
    """`if(c then Y = a else Y = b)` as `Y = if(c then a else b)`."""
    match (choice.then, choice.otherwise):
        case (
            (Comparison("=", Variable(name), then),),
            (Comparison("=", Variable(other) as variable, otherwise),),
        ) if name == other and name != "_":
            value = Conditional(choice.condition, then, otherwise, choice.span)
            return Comparison("=", variable, value, choice.span)
        case _:
            return None


# ── Core form ────────────────────────────────────────────────────────────────────────────────────


def _core(number: int, rule: Rule, found: Diagnostics) -> CoreRule:
    used = {v.name for part in (*rule.body, *rule.head.arguments) for v in variables(part)}
    fresh = (name for name in (f"_{i}" for i in count(1)) if name not in used)
    atoms: list[CoreAtom] = []
    comparisons: list[Comparison] = []
    for literal in rule.body:
        match literal:
            case Atom():
                arguments: list[Term] = []
                for argument in literal.arguments:
                    term = _term(argument, literal.negated, fresh, comparisons)
                    arguments.append(term)
                atoms.append(
                    CoreAtom(literal.relation, tuple(arguments), literal.negated, literal.span)
                )
            case Comparison():
                comparisons.append(literal)
            case Choice():
                raise AssertionError("if literals are split before")
    return CoreRule(
        number,
        rule.head.relation,
        tuple(_head_argument(a, found) for a in rule.head.arguments),
        tuple(atoms),
        tuple(comparisons),
        {},
        rule.order,
        _limit(rule, found),
        rule.span,
    )


def _term(
    argument: Expression, negated: bool, fresh: Iterator[str], comparisons: list[Comparison]
) -> Term:
    match argument:
        case Variable() if argument.is_anonymous and not negated:
            return Variable(next(fresh), argument.span)
        case Variable() | Constant():
            return argument
        case _:
            variable = Variable(next(fresh), argument.span)
            comparisons.append(Comparison("=", variable, argument, argument.span))
            return variable


def _limit(rule: Rule, found: Diagnostics) -> int | None:
    match rule.limit:
        case None:
            return None
        case Constant(int(value)) if not isinstance(value, bool) and value >= 0:
            return value
        case _:
            found.add(
                "C022", "a limit must be a whole number, 0 or more", rule.limit.span or rule.span
            )
            return 0


# ── Aggregates ───────────────────────────────────────────────────────────────────────────────────


def _head_argument(argument: Expression, found: Diagnostics) -> Expression:
    for part in _parts(argument):
        if isinstance(part, Aggregate):
            _check_aggregate(part, found)
    return replace_in(argument, _counting_solutions)


def _counting_solutions(node: Expression) -> Expression | None:
    """`count<…>` counts solutions, whatever stands in it."""
    if isinstance(node, Aggregate) and (
        node.function == "count" or (node.function == "mcount" and len(node.terms) == 1)
    ):
        return replace(node, terms=())
    return None


def _check_aggregate(node: Aggregate, found: Diagnostics) -> None:
    if any(isinstance(part, Aggregate) for term in node.terms for part in _parts(term)):
        found.add("C015", "an aggregate cannot stand inside another", node.span)
    if isinstance(node, Folding) or node.function in ("countd", "count", *_WITNESSED):
        return
    if len(node.terms) != 1:
        found.add(
            "C015",
            f"`{node.function}` takes one value",
            node.span,
            help="msum<(Witness, Value)> and mcount<(Witness, Value)> take a witness, and so do "
            "min, max, mmin<Value, Witness> and mmax where nothing is computed from them",
        )


def _parts(node: Expression) -> Iterator[Expression]:
    yield node
    match node:
        case Arithmetic():
            yield from _parts(node.left)
            yield from _parts(node.right)
        case Negative():
            yield from _parts(node.operand)
        case Conditional():
            for comparison in node.condition:
                yield from _parts(comparison.left)
                yield from _parts(comparison.right)
            yield from _parts(node.then)
            yield from _parts(node.otherwise)
        case Call():
            for part in node.arguments:
                yield from _parts(part)
        case Aggregate():
            for term in node.terms:
                yield from _parts(term)
        case _:
            return


def _separate(
    rule: CoreRule, written: Rule, names: _Names, found: Diagnostics
) -> tuple[CoreRule, ...]:
    """The rule itself, or one that aggregates and one that computes, sorts or cuts."""
    mixed = [
        a
        for a in rule.arguments
        if not isinstance(a, Aggregate) and any(isinstance(p, Aggregate) for p in _parts(a))
    ]
    cut = bool(rule.order) or rule.limit is not None
    if not mixed and not (cut and rule.has_aggregates):
        return (rule,)
    group = [a for a in rule.arguments if not any(isinstance(p, Aggregate) for p in _parts(a))]
    _check_mixed(mixed, group, found)
    name = names.fresh(f"{rule.head}_parts")
    aggregates = list(
        dict.fromkeys(p for a in rule.arguments for p in _parts(a) if isinstance(p, Aggregate))
    )
    inner = replace(rule, head=name, arguments=(*group, *aggregates), order=(), limit=None)
    columns = [_column_variable(i, a) for i, a in enumerate((*group, *aggregates))]
    stand_in = dict(zip((*group, *aggregates), columns, strict=True))
    ranged = {
        term: stand_in[core]
        for original, core in zip(written.head.arguments, rule.arguments, strict=True)
        if isinstance(original, Aggregate)
        for term in original.terms
    }
    outer = CoreRule(
        rule.number,
        rule.head,
        tuple(replace_in(a, stand_in.get) for a in rule.arguments),
        (CoreAtom(name, tuple(columns), span=written.head.span),),
        (),
        {},
        tuple(_sort_key(k, stand_in, ranged, found) for k in rule.order),
        rule.limit,
        rule.span,
    )
    return (inner, outer)


def _column_variable(position: int, argument: Expression) -> Variable:
    return Variable(
        argument.name if isinstance(argument, Variable) else f"_{position + 1}", argument.span
    )


def _check_mixed(
    mixed: Iterable[Expression], group: Iterable[Expression], found: Diagnostics
) -> None:
    grouped = {a.name for a in group if isinstance(a, Variable)}
    for argument in mixed:
        inside = {
            id(v)
            for part in _parts(argument)
            if isinstance(part, Aggregate)
            for v in variables(part)
        }
        for variable in variables(argument):
            if id(variable) not in inside and variable.name not in grouped:
                found.add(
                    "C015",
                    f"`{variable.name}` is mixed with an aggregate but is not a group column",
                    variable.span,
                    help=f"add `{variable.name}` to the head as a column of its own, "
                    "or aggregate it too",
                )


def _sort_key(
    key: SortKey,
    stand_in: dict[Expression, Variable],
    ranged: dict[Expression, Variable],
    found: Diagnostics,
) -> SortKey:
    """Sorting by what an aggregate ranges over means sorting by the aggregate."""
    column = stand_in.get(key.variable) or ranged.get(key.variable)
    if column is not None:
        return replace(key, variable=column)
    found.add(
        "C022",
        f"cannot sort by `{key.variable.name}`: it is not a column of the head",
        key.span,
        help="sort by a group column or by the variable of an aggregate",
    )
    return key
