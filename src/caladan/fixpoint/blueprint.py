"""The plan of a program, as far as it is decided before there are facts: plain data.

    blueprint(program)   the column orders that lookups share
    why_rounds(…)        whether a closure goes in rounds all the same
    said(step)           a step in words

The fewest column orders serve every lookup. A lookup binds some columns of a relation; an order
serves it if those columns come first in it. A relation is kept in the order of its columns in any
case; what that does not serve needs others. One order serves a chain of such sets, each inside the
next, so the fewest orders are the fewest chains that cover all sets (Dilworth), found as a maximum
matching of sets with larger ones.

The engine runs it and explain prints it. What waits for facts (the order of atoms where several
may be next, whether a closure pays) is decided by the same functions, then with sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from caladan.analysis.core import Term
from caladan.columns.packed import Orders, straight_order
from caladan.join.access import (
    Access,
    Amount,
    Check,
    Compute,
    Equal,
    Equation,
    Exclude,
    Fork,
    GuidedSearch,
    Meet,
    Overlap,
    Probe,
    Rollup,
    Semijoin,
    keys,
)
from caladan.join.choice import Chosen, join_order
from caladan.join.route import body_route
from caladan.plan.recursion import Closure, factor
from caladan.plan.weights import Refused
from caladan.program import Comparison, Function, Variable, thresholds
from caladan.rules.body import Body, Scan, Version, names
from caladan.rules.program import DeltaClique, DeltaProgram

ROUNDS: Final = "rounds"  # the strategy that evaluates everything
OVERLAY: Final = "overlay"  # that of rules on top of layouts


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A program, and by relation the orders for lookups by some columns."""

    program: DeltaProgram
    orders: Mapping[str, Orders]

    def order(self, relation: str, columns: frozenset[int]) -> tuple[int, ...]:
        """The order in which a relation is arranged for a lookup by some columns."""
        known = self.orders.get(relation, {}).get(columns)
        return known or straight_order(columns, self.program.relations[relation].arity)


def blueprint(program: DeltaProgram) -> Blueprint:
    """What can be said of a program before there are facts.

    Arrangements are planned for the order of atoms that each rule has if nothing speaks for
    another.
    """
    wanted = [
        key
        for clique in program.cliques
        for rule in (*clique.exit_rules, *clique.delta_rules)
        for key in keys(_guess(rule.body.separated, Foreseen(program, clique)))
    ]
    arity = {name: info.arity for name, info in program.relations.items()}
    orders: dict[str, dict[frozenset[int], tuple[int, ...]]] = {}
    for (relation, columns), found in cover(wanted, arity).items():
        orders.setdefault(relation, {})[columns] = found.order
    return Blueprint(program, orders)


def _guess(body: Body, traits: Foreseen) -> list[Access]:
    return body_route(body, join_order(body, [1] * len(body.atoms), traits).atoms, traits)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known of relations while a clique is evaluated, before there are facts.

    `search` is the grade of the guided search, if a run asks for one.
    """

    program: DeltaProgram
    clique: DeltaClique
    search: str | None = None

    def can_bind(self, relation: str, column: int) -> bool:
        """Whether an index may bind a column: values that the clique still improves cannot be."""
        return relation not in self.clique.relations or (
            column in self.program.relations[relation].group
        )

    def can_show(self, relation: str, column: int) -> bool:
        """Whether views may show a column: all but the values that the clique still improves."""
        return self.can_bind(relation, column)


# ── Closures or rounds ────────────────────────────────────────────────────────────────────────────


def facts_read(clique: DeltaClique) -> Iterator[str]:
    """The relations whose facts count for the choice: what the clique reads, and its own."""
    rules = (*clique.exit_rules, *clique.delta_rules)
    read = (scan.relation for rule in rules for scan in rule.body.atoms)
    return iter(dict.fromkeys((*clique.relations, *read)))


def why_rounds(facts: int | None) -> str | None:
    """Why a clique goes in rounds even if it is a closure; None if nothing speaks for that."""
    if facts is not None and facts < thresholds.now.shape:
        return f"its rules read fewer than {thresholds.now.shape:,} facts"
    return None


def closure_of(clique: DeltaClique, program: DeltaProgram) -> str | Closure:
    """The closure that a clique computes, or why it is none."""
    rules = (each.rule for each in clique.delta_rules)
    try:
        return factor(clique.relations, rules, program.relations)
    except Refused as reason:
        return f"it is no closure: {reason}"


# ── In words ─────────────────────────────────────────────────────────────────────────────────────


def said(step: Access, shown: Callable[[Scan], Scan] = lambda scan: scan) -> str:
    """A step in a few words: what is read, and by which columns. Stats and explain say the same.

    `shown` is what to say for an atom that stands for another.

    >>> from caladan.rules.body import Column, ScanKind, Type
    >>> scan = Scan("arc", (Variable("C"), Variable("B")),
    ...             (Column("A", Type.LONG), Column("B", Type.LONG)), ScanKind.BASE)
    >>> said(Probe(scan, ((0, Variable("C")),), (), ((1, "B"),)))
    'look up arc(C, B) by A'
    """
    match step:
        case Probe():
            looked = step.bound or step.within is not None or step.pairings
            verb = "look up" if looked else "scan"
            return f"{verb} {_by(step, shown)}{_cut(step)}"
        case Meet():
            probes = ", ".join(_by(probe, shown) for probe in step.probes)
            tests = "".join(f", opaque {_describe_test(each)}" for each in step.tests)
            return f"meet in {step.variable}{_cut(step.probes[0])}: {probes}{tests}"
        case Fork():
            return ", or ".join(said(met, shown) for met, _ in step.ways)
        case GuidedSearch():
            scans = ", ".join(atom(shown(scan)) for scan in step.scans)
            cuts = "".join(
                f", {said(Check(each.comparison) if isinstance(each, Equation) else each, shown)}"
                for each in step.cuts
            )
            return f"search {scans}{cuts}, graded by {step.grade}"
        case Semijoin():
            by = f" by {', '.join(step.shared)}" if step.shared else ""
            return f"semijoin{by} ({', then '.join(said(each, shown) for each in step.steps)})"
        case Rollup():
            by = f" by {', '.join(step.shared)}" if step.shared else ""
            what = ", ".join(_amount(each, step.steps) for each in step.amounts)
            return (
                f"roll up {what}{by} ({', then '.join(said(each, shown) for each in step.steps)})"
            )
        case Exclude():
            return f"exclude {_by(Probe(step.scan, step.bound, (), ()), shown)}"
        case Compute():
            return f"compute {step.variable}"
        case Check():
            return f"check {', '.join(sorted(names(step.comparison)))}".rstrip()


def describe_weights(
    choices: Iterable[Chosen], atoms: Sequence[Scan], shown: Callable[[Scan], Scan] = lambda s: s
) -> Iterator[str]:
    """What the order of a body's atoms was chosen by: all facts to start from, then of a solution.

    >>> from caladan.rules.body import Column, ScanKind, Type
    >>> columns = (Column("A", Type.LONG), Column("B", Type.LONG))
    >>> names = (Variable("A"), Variable("B"))
    >>> atoms = [Scan(name, names, columns, ScanKind.BASE) for name in ("arc", "few")]
    >>> list(weighed([Chosen(1, {0: 300, 1: 10}, is_start=True)], atoms))
    ['start from few(A, B) 10, not arc(A, B) 300']
    """
    for each in choices:
        ranked = sorted(each.estimates, key=lambda i: (i != each.atom, each.estimates[i], i))
        found = [f"{atom(shown(atoms[i]))} {_estimate(each.estimates[i])}" for i in ranked]
        how = "start from {}" if each.is_start else "then {} a solution"
        yield f"{how.format(found[0])}, not {', '.join(found[1:])}"


def _estimate(estimate: float) -> str:
    return f"{estimate:,.0f}" if estimate >= 10 or estimate == int(estimate) else f"{estimate:.1f}"


def _amount(amount: Amount, steps: Iterable[Access]) -> str:
    """An amount in a few words; what was rolled up within it is one of its factors."""
    read = _factors(amount, steps)
    return f"{amount.function} of {', '.join(sorted(read))}" if read else "count"


def _factors(amount: Amount, steps: Iterable[Access]) -> frozenset[str]:
    """The variables that an amount is made of, in place of those that steps have rolled up."""
    read = frozenset(names(amount.expression))
    for step in (each for each in steps if isinstance(each, Rollup)):
        for i, each in enumerate(step.amounts):
            if (made := f"{step.mark}{i}") in read:
                within = frozenset() if each.function == "count" else _factors(each, step.steps)
                read = read - {made} | within
    return read


def atom(scan: Scan) -> str:
    """`δtc(A, C)`, `tc'(A, C)` for the new facts and all facts of a clique, `tc(A, C)` for old."""
    mark = {Version.DELTA: "δ{}", Version.NEW: "{}'"}.get(scan.version, "{}")
    return f"{mark.format(scan.relation)}({', '.join(map(_term, scan.arguments))})"


def _cut(found: Probe) -> str:
    """What of an atom's values is left out before they are looked at."""
    if found.pairings:
        return f" ({' or '.join(map(_describe_pairing, found.pairings))})"
    if found.within is None:
        return ""
    ends = sorted(found.within.reads) or ["constants"]
    return f" ({found.new[0][1]} in a range of {', '.join(ends)})"


def _describe_pairing(how: Equal | Overlap) -> str:
    """How an atom is matched with what no column of it is."""
    given = ", ".join(sorted(how.given))
    if isinstance(how, Equal):
        return f"{', '.join(sorted(how.taken))} by an equation with {given}"
    return f"{how.first} to {how.last} across {given}"


def _describe_test(test: Comparison) -> str:
    assert isinstance(test.left, Function)
    return f"{test.left.function}({', '.join(sorted(names(test)))})"


def _term(term: Term) -> str:
    if isinstance(term, Variable):
        return term.name
    return repr(term.value) if isinstance(term.value, bool | int | float | str) else "…"


def _by(found: Probe, shown: Callable[[Scan], Scan]) -> str:
    """An atom, with `_` where it does not matter which values there are."""
    scan = shown(found.scan)
    if found.view is not None:
        named = {*found.view.columns, *(c for _, c in found.view.equal)}
        terms = (a if c in named else Variable("_") for c, a in enumerate(scan.arguments))
        scan = replace(scan, arguments=tuple(terms))
    columns = ", ".join(scan.column_names[c] for c, _ in found.bound)
    return f"{atom(scan)} by {columns}" if columns else atom(scan)


Need = tuple[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """A relation in one column order; a lookup binds the first columns of the order."""

    relation: str
    order: tuple[int, ...]


def cover(wanted: Iterable[Need], arity: Mapping[str, int]) -> dict[Need, ColumnOrder]:
    """An arrangement for each need; needs share one where an order serves both.

    >>> wanted = [("r", frozenset({0})), ("r", frozenset({0, 1})), ("r", frozenset({1}))]
    >>> sorted({a.order for a in cover(wanted, {"r": 3}).values()})
    [(0, 1, 2), (1, 0, 2)]
    """
    by_relation: dict[str, list[frozenset[int]]] = {}
    for relation, columns in dict.fromkeys(wanted):
        by_relation.setdefault(relation, []).append(columns)
    found: dict[Need, ColumnOrder] = {}
    for relation, sets in by_relation.items():
        straight = tuple(range(arity[relation]))
        served = [columns for columns in sets if columns == frozenset(straight[: len(columns)])]
        for columns in served:
            found[relation, columns] = ColumnOrder(relation, straight)
        for chain in chains([columns for columns in sets if columns not in served]):
            order: list[int] = []
            for columns in (*chain, range(arity[relation])):
                order += sorted(set(columns).difference(order))
            for columns in chain:
                found[relation, columns] = ColumnOrder(relation, tuple(order))
    return found


def chains(sets: list[frozenset[int]]) -> list[list[frozenset[int]]]:
    """The fewest chains of growing sets that cover all of them."""
    ordered = sorted(set(sets), key=lambda s: (len(s), sorted(s)))
    above: dict[frozenset[int], frozenset[int]] = {}
    below: dict[frozenset[int], frozenset[int]] = {}

    def match(one: frozenset[int], tried: set[frozenset[int]]) -> bool:
        for larger in ordered:
            if one < larger and larger not in tried:
                tried.add(larger)
                if larger not in below or match(below[larger], tried):
                    above[one], below[larger] = larger, one
                    return True
        return False

    for one in ordered:
        match(one, set())
    found: list[list[frozenset[int]]] = []
    for start in ordered:
        if start not in below:
            chain = [start]
            while chain[-1] in above:
                chain.append(above[chain[-1]])
            found.append(chain)
    return found
