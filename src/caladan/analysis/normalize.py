"""Rules become core rules, still without types.

`normalize(program)` numbers the rules and, for each:

- splits `if` literals and disjunctions into one core rule for each way through them
  (alternatives.py);
- names the `_` of positive atoms apart, and moves expressions out of atoms into equalities;
- takes aggregates out of head expressions (`sum<C> / count<_>`), and away from sort and limit: an
  internal relation, which all ways through the rule feed, aggregates, and a second rule computes,
  sorts or cuts; a limit on several ways likewise.

Reports C015 (aggregates), C022 (sort and limit), C013 for a `_` that has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from caladan.analysis.alternatives import FreshNames, Ways
from caladan.analysis.core import CoreAtom, CoreRule, Term
from caladan.program import (
    Aggregate,
    Atom,
    Choice,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Folding,
    Program,
    Rule,
    SortKey,
    Variable,
    names,
    variables,
)
from caladan.program.aggregates import counts_solutions, row_of
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import fresh, replace_in, walk


@dataclass(frozen=True, slots=True)
class Normal:
    """Core rules without types, and the internal relations that came about."""

    rules: tuple[CoreRule, ...]
    internal: Mapping[str, str]
    """Each with the relation of the program that it is a part of."""


def normalize(
    program: Program,
    found: Diagnostics,
    skipped: frozenset[int] = frozenset(),
    *,
    may_lack: bool = False,
) -> Normal:
    """Every rule of the program in core form, numbered from 1, except those at `skipped` places.

    If values `may_lack`, an `if` has ways for these, and `count<X>` keeps what it counts.
    """
    names = FreshNames(
        {r.name for r in program.relations} | {r.head.relation for r in program.rules}
    )
    rules: list[CoreRule] = []
    alternatives = Ways(program, names, may_lack=may_lack)
    for number, rule in enumerate(program.rules, start=1):
        if number - 1 in skipped:
            continue
        if not rule.body and rule.limit is None and not rule.order:
            rules.append(_fact(number, rule, found))
            continue
        ways: list[CoreRule] = []
        for alternative in alternatives.split(rule, found):
            core = _core(number, alternative, found, may_lack)
            (ways if core.head == rule.head.relation else rules).append(core)
        rules.extend(_separate(ways, rule, names, found))
    return Normal(tuple(rules), names.made)


def _fact(number: int, rule: Rule, found: Diagnostics) -> CoreRule:
    for argument in rule.head.arguments:
        if any(isinstance(part, Aggregate) for part in walk(argument)):
            found.add(
                "C015",
                "a fact cannot contain an aggregate",
                argument.span,
                help="write the value itself: `best(1, 0).`",
            )
    return CoreRule(number, rule.head.relation, rule.head.arguments, (), (), {}, span=rule.span)


# ── Core form ────────────────────────────────────────────────────────────────────────────────────


def _core(number: int, rule: Rule, found: Diagnostics, may_lack: bool) -> CoreRule:
    used = names((*rule.body, *rule.head.arguments))
    unused = (name for name in (f"_{i}" for i in count(1)) if name not in used)
    atoms: list[CoreAtom] = []
    comparisons: list[Comparison] = []
    for literal in rule.body:
        match literal:
            case Atom():
                arguments: list[Term] = []
                for argument in literal.arguments:
                    term = _term(argument, literal.negated, unused, comparisons)
                    arguments.append(term)
                atoms.append(
                    CoreAtom(literal.relation, tuple(arguments), literal.negated, literal.span)
                )
            case Comparison():
                comparisons.append(literal)
            case Choice() | Disjunction():
                raise AssertionError("these are split before")
    return CoreRule(
        number,
        rule.head.relation,
        tuple(_head_argument(a, found, may_lack) for a in rule.head.arguments),
        tuple(atoms),
        tuple(comparisons),
        {},
        rule.order,
        _limit(rule, found),
        rule.span,
    )


def _term(
    argument: Expression, negated: bool, unused: Iterator[str], comparisons: list[Comparison]
) -> Term:
    match argument:
        case Variable() if argument.is_anonymous and not negated:
            return Variable(next(unused), argument.span)
        case Variable() | Constant():
            return argument
        case _:
            variable = Variable(next(unused), argument.span)
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


def _head_argument(argument: Expression, found: Diagnostics, may_lack: bool) -> Expression:
    for part in walk(argument):
        if isinstance(part, Aggregate):
            _check_aggregate(part, found)

    def counting(node: Expression) -> Expression | None:
        """`count<…>` counts solutions; those without a value, if some may be missing, it skips."""
        if not isinstance(node, Aggregate) or not counts_solutions(node):
            return None
        named = [t for t in node.terms if not (isinstance(t, Variable) and t.is_anonymous)]
        keeps = may_lack and not row_of(node).is_monotone
        return replace(node, terms=tuple(named) if keeps else ())

    return replace_in(argument, counting)


def _check_aggregate(node: Aggregate, found: Diagnostics) -> None:
    if any(isinstance(part, Aggregate) for term in node.terms for part in walk(term)):
        found.add("C015", "aggregates cannot be nested", node.span)
    row = row_of(node)
    least, most = row.terms
    if isinstance(node, Folding) or most is None or row.witness == "before":
        return
    if row.is_gathered:
        if not least <= len(node.terms) <= most:
            takes = "one value" if most == 1 else f"{most} terms, not {len(node.terms)}"
            found.add("C015", f"`{row}` takes {takes}", node.span, help=row.usage)
    elif len(node.terms) != 1:
        found.add(
            "C015",
            f"`{node.function}` takes one value",
            node.span,
            help="msum<(Witness, Value)> and mcount<(Witness, Value)> take a witness, and so do "
            "min, max, mmin<Value, Witness> and mmax where nothing is computed from them",
        )


def _separate(
    ways: Sequence[CoreRule], written: Rule, names: FreshNames, found: Diagnostics
) -> Iterator[CoreRule]:
    """The ways through a rule, or rules that aggregate, and one that computes, sorts or cuts.

    All ways feed one relation, so that what is computed and cut ranges over all of them:
    `p(sum<V> / count<_>) <- a(V), if(V > 3 then c(V) else b(V))` gives one mean, not two.
    """
    if not ways:
        return
    rule = ways[0]
    parts = [p for a in rule.arguments for p in walk(a) if isinstance(p, Aggregate)]
    mixed = [
        a
        for a in rule.arguments
        if not isinstance(a, Aggregate) and any(isinstance(p, Aggregate) for p in walk(a))
    ]
    is_cut = rule.limit is not None
    if not mixed and not ((rule.order or is_cut) and parts) and not (is_cut and len(ways) > 1):
        yield from ways
        return
    group = [a for a in rule.arguments if not any(isinstance(p, Aggregate) for p in walk(a))]
    _check_mixed(mixed, group, found)
    name = names.part(rule.head, "parts")
    keys = () if parts else tuple(key.variable for key in rule.order)
    # A constant tells groups apart; where nothing is aggregated, its column alone knows its type.
    shown = group if parts else [a for a in group if not isinstance(a, Constant)]
    inside = tuple(dict.fromkeys((*shown, *parts, *keys)))
    taken = {a.name for a in inside if isinstance(a, Variable)}
    stand_in = {
        a: a if isinstance(a, Variable) else Variable(fresh(f"_{i}", taken), a.span)
        for i, a in enumerate(inside, 1)
    }
    for way in ways:
        yield replace(way, head=name, arguments=inside, order=(), limit=None)
    ranged = {
        term: stand_in[core]
        for original, core in zip(written.head.arguments, rule.arguments, strict=True)
        if isinstance(original, Aggregate)
        for term in original.terms
    }
    yield CoreRule(
        rule.number,
        rule.head,
        tuple(replace_in(a, stand_in.get) for a in rule.arguments),
        (CoreAtom(name, tuple(stand_in.values()), span=written.head.span),),
        (),
        {},
        tuple(_sort_key(k, stand_in, ranged, found) for k in rule.order),
        rule.limit,
        rule.span,
    )


def _without_aggregates(node: Expression) -> Expression | None:
    return Constant(0) if isinstance(node, Aggregate) else None


def _check_mixed(
    mixed: Iterable[Expression], group: Iterable[Expression], found: Diagnostics
) -> None:
    grouped = {a.name for a in group if isinstance(a, Variable)}
    for argument in mixed:
        for variable in variables(replace_in(argument, _without_aggregates)):
            if variable.name not in grouped:
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
