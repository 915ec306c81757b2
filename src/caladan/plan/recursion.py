"""What a recursive clique computes: a closure, if its rules fall apart around what they carry.

    tc(A, B) <- arc(A, B).                            source#tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), arc(C, B), B > 10, A ~= B.  edge#tc(C, B)   <- arc(C, B), B > 10.
                                        tc = Closure(K = (0), N = (1), boolean, edge#tc, A ~= B)

A relation is a matrix: a fact p(K, N, V) is the value V in row K and column N. `factor` reads the
rules of a clique as steps over such matrices, or raises `Refused` with the reason:

1. `linearise` reads exit facts in place of all recursive atoms of a chain but one, where that is
   valid, and makes a rule that exchanges columns part of all others.
2. `list_splits` finds which columns may lie on the same side, K or N: a linear system over {0, 1}.
3. `build` sends the literals of each rule to the side whose variables they have: an edge of the
   left, an edge of the right, a condition on K, or tests of both sides (the mask).
4. Of several splits the cheapest is taken (`_cost`).

    p(X, Z) <- q(X, Y), e(Y, Z)                    carries X: one edge, on the right
    p(X, Z) <- e(X, Y), q(Y, Z)                    carries Z: the sides are the other way round
    p(X, Y) <- l(A, X), q(A, B), r(B, Y)           an edge on either side
    p(X, Y) <- q(Y, X)                             crosses
    p(X, Z) <- p(X, Y), q(Y, Z), X < Z             its right side walks along a relation of its own
    d(X, Z, mmin<D>) <- d(X, Y, E), e(Y, Z, W), D = E + W          a semiring: least, +

p and q are relations of the clique, each with a split of its own. X, Y and Z stand for any number
of columns. Edges are rules like all others (`EdgeRule.rules`); a test is never listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from typing import Final, TypeAlias, TypeVar

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo, Term
from caladan.plan.literals import (
    CoreLiteral,
    atom_rules,
    body_rule,
    connect,
    inline_definitions,
    is_plain,
    is_positive,
    literal_names,
    tests_difference,
    variable_names,
    without,
)
from caladan.plan.weights import Refused, Weight, take_weight, value_column
from caladan.program import Arithmetic, Comparison, Constant, Expression, Variable, names, variables
from caladan.program.aggregates import AggregateFunction
from caladan.program.kinds import Kind, kind_of
from caladan.program.transform import replace_in

RelationInfos: TypeAlias = Mapping[str, RelationInfo]
Ends: TypeAlias = tuple[tuple[Expression, ...], tuple[Expression, ...]]
"""Expressions of the carried columns, and of the node."""

Terms: TypeAlias = tuple[tuple[Term, ...], tuple[Term, ...]]
"""The same of an atom, which has variables and constants."""

T = TypeVar("T")

_SPLITS: Final = 64  # ways to split the columns of a clique that are looked at


# ── The record ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Split:
    """The columns of a relation that are carried, K, and those of its node, N."""

    carried: tuple[int, ...]
    node: tuple[int, ...]

    @property
    def both(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The two, one after the other."""
        return self.carried, self.node

    @property
    def transposed(self) -> Split:
        """The other way round."""
        return Split(self.node, self.carried)


@dataclass(frozen=True, slots=True)
class Link:
    """Pairs of tuples: a rule whose head has the columns of the left ones, then of the right.

    Where no literal is left to solve there is no rule, and one pair without columns. A link that
    `multiplies` may have more pairs than an atom of it has facts.
    """

    rule: CoreRule | None
    left: int
    multiplies: bool = False


@dataclass(frozen=True)
class EdgeRule:
    """One side of a rule: literals that lead from terms of its recursive atom to those of its head.

    They lead from the variables `read` of the one to the variables `made` of the other, by links: a
    path of atoms, `a(Y, W), b(W, Z)`, is several, which are never joined. With a `middle` these are
    two, and its variables a place between them, where a test looks. An edge that `explores` makes
    more than literals can tell before its nodes are known, as `N + 1` does.
    """

    rule: CoreRule
    source: str
    target: str
    begin: tuple[Term, ...]
    end: tuple[Expression, ...]
    literals: tuple[CoreLiteral, ...]
    read: tuple[str, ...]
    middle: tuple[str, ...] = ()
    explores: bool = False

    @property
    def made(self) -> tuple[str, ...]:
        """The variables of its end."""
        return tuple(dict.fromkeys(v.name for v in variables(*self.end)))

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The path of links; none if it explores, or hands facts on as they are."""
        found = None if self.explores else self.path
        return found or ()

    @cached_property
    def path(self) -> tuple[Link, ...] | None:
        """The path of links, None if there is none."""
        if not self.middle:
            return _find_links(self.rule, list(self.literals), self.read, self.made)
        ends = (
            _link(self.rule, self.literals, self.read, self.middle),
            _link(self.rule, self.literals, self.middle, self.made),
        )
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])

    @property
    def pairs(self) -> CoreRule | None:
        """A rule for pairs of words, if it leads from one variable to one, by atoms alone."""
        if not self.is_plain or len(self.read) != 1 or [*self.end] != [*map(Variable, self.made)]:
            return None
        whole = _link(self.rule, self.literals, self.read, self.made)
        return None if whole is None or len(self.end) != 1 else whole.rule

    @property
    def multiplies(self) -> bool:
        """Whether `pairs` may be more than an atom has facts."""
        ends = {*self.read, *self.made}
        return not any(isinstance(a, CoreAtom) and ends <= {*a.variables} for a in self.literals)

    @property
    def hands_on(self) -> bool:
        """Whether facts go to another relation as they are, where its literals hold."""
        return (
            self.begin == self.end
            and len(variable_names(self.end)) == len(self.end)
            and literal_names(*self.literals) <= {*self.made}
        )

    @property
    def is_known(self) -> bool:
        """Whether its literals tell where it leads, from any node."""
        known = {*self.read}.union(*(literal_names(a) for a in self.literals if is_positive(a)))
        return known.issuperset((*self.made, *self.middle, *literal_names(*self.literals)))

    @property
    def is_plain(self) -> bool:
        """Whether every tuple leads on, by what it has in its columns."""
        found = tuple(a.name for a in self.begin if isinstance(a, Variable))
        return found == self.read and len(found) == len(self.begin) == len(set(found))

    @property
    def is_round(self) -> bool:
        """Whether a round of the rule is one edge."""
        return (self.explores and not self.middle) or (self.is_plain and len(self.links) == 1)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved for it, as rules like all others."""
        found = [self.atoms[0]] if self.explores else [link.rule for link in self.links]
        return tuple(rule for rule in found if rule is not None)

    @property
    def atoms(self) -> tuple[CoreRule | None, tuple[CoreLiteral, ...]]:
        """A rule for all literals that its own atoms bind, and those that they do not bind.

        Its head has variables of the beginning first. There is none if there are no atoms.
        """
        atoms = [a for a in self.literals if is_positive(a)]
        if not atoms:
            return None, self.literals
        inside = literal_names(*atoms)
        mine = tuple(each for each in self.literals if literal_names(each) <= inside)
        late = tuple(each for each in self.literals if not literal_names(each) <= inside)
        wanted = literal_names(*late) | {*self.read, *self.made, *self.middle}
        head = [*(n for n in self.read if n in inside), *sorted(inside & wanted - {*self.read})]
        return body_rule(self.rule, mine, head or sorted(inside)), late


@dataclass(frozen=True, slots=True)
class Step:
    """A recursive rule: from `body`, the terms of its recursive atom, to `head`.

    A side without an edge stays as it is. The rule applies where its `condition` on K holds, which
    may have `looked` up variables; `leaving` are tests of what it leaves, `arriving` of what it
    arrives at, `along` of K and the middle of the right edge. If it `crosses`, the first side of
    the head comes from the second of the atom. If it walks along a relation of its `own`, that
    leads on from where the right edge ends. Where the two sides are never alike it keeps them
    `apart`. A rule that `rises` tests what holds of X, Z if it holds of X, Y and Y, Z.
    """

    rule: CoreRule
    source: str
    body: Terms
    head: Ends
    left: EdgeRule | None = None
    right: EdgeRule | None = None
    condition: tuple[CoreLiteral, ...] = ()
    looked: tuple[str, ...] = ()
    leaving: tuple[CoreLiteral, ...] = ()
    arriving: tuple[CoreLiteral, ...] = ()
    along: tuple[CoreLiteral, ...] = ()
    crosses: bool = False
    own: str | None = None
    apart: bool = False
    rises: bool = False
    weight: Weight | None = None

    @property
    def target(self) -> str:
        """The relation of its head."""
        return self.rule.head

    @property
    def edges(self) -> tuple[EdgeRule, ...]:
        """Its edges."""
        return tuple(edge for edge in (self.left, self.right) if edge is not None)

    @property
    def edge(self) -> EdgeRule:
        """The edge of a rule that carries the other side."""
        assert self.right is not None
        return self.right

    @property
    def is_void(self) -> bool:
        """Whether it derives what is there."""
        stays = self.source == self.target and not (self.crosses or self.own)
        return stays and not self.edges

    @property
    def is_tested(self) -> bool:
        """Whether it does not derive all that it leads to."""
        return bool(self.apart or self.leaving or self.arriving or self.along)

    @property
    def is_open(self) -> bool:
        """Whether the rule applies to whatever is carried."""
        carried = self.body[0]
        return not self.condition and len(variable_names(carried)) == len(carried)

    @property
    def tests(self) -> list[CoreRule]:
        """What is solved for the atoms among its tests: all their facts, if they are few."""
        return atom_rules(self.rule, (*self.leaving, *self.arriving, *self.along))

    @property
    def weighted(self) -> CoreRule:
        """The pairs of tuples that it leads from and to, and what its weight reads."""
        assert self.weight is not None
        edge = self.edge
        ends = (*variable_names(edge.begin), *edge.made)
        found = body_rule(self.rule, edge.literals, (*ends, *self.weight.read))
        assert found is not None
        return found

    def conditions(self, relation: str, columns: Split, info: RelationInfo) -> CoreRule:
        """The carried tuples of a relation that the rule applies to, and what it looks up."""
        types = dict(self.rule.types)
        fresh = [Variable(f"{column.name}'") for column in info.columns]
        arguments: list[Term] = list(fresh)
        comparisons: list[Comparison] = []
        for i, term in zip(columns.carried, self.body[0], strict=True):
            if isinstance(term, Variable) and term not in arguments:
                arguments[i] = term
            else:
                comparisons.append(Comparison("=", fresh[i], term))
        named = zip(fresh, info.columns, strict=True)
        types |= {each.name: column.type for each, column in named if each in arguments}
        atoms = tuple(each for each in self.condition if isinstance(each, CoreAtom))
        comparisons += [each for each in self.condition if isinstance(each, Comparison)]
        return replace(
            self.rule,
            arguments=(*(arguments[i] for i in columns.carried), *map(Variable, self.looked)),
            atoms=(CoreAtom(relation, tuple(arguments)), *atoms),
            comparisons=tuple(comparisons),
            types=types,
        )


@dataclass(frozen=True, slots=True)
class Closure:
    """Relations as the least matrices with M = sources ⊕ what each step makes of them.

    The sources are the exit facts. Where the rules exchanged two `mirrored` columns, the sources
    with these exchanged are sources as well. With `chains` a rule that joined its relation with
    itself reads exit facts: rounds would be fewer than edges. Exit rules that read closures may be
    `entries`: edges from what is carried to where it starts.
    """

    splits: Mapping[str, Split]
    steps: tuple[Step, ...]
    column: int | None = None
    function: AggregateFunction | None = None
    mirrored: tuple[int, int] | None = None
    chains: bool = False
    entries: tuple[EdgeRule, ...] = ()

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations, in the order of their rows."""
        return tuple(self.splits)

    @property
    def relation(self) -> str:
        """The relation, where there is one."""
        (name,) = self.splits
        return name

    @property
    def value(self) -> int:
        """The column of its best values."""
        assert self.column is not None
        return self.column

    @property
    def is_least(self) -> bool:
        """Whether the least values are the best."""
        return self.function is not None and self.function.is_least

    @property
    def is_labels(self) -> bool:
        """Whether values are handed on as they are, and nothing is carried."""
        products = {step.weight.product for step in self.steps if step.weight is not None}
        return products == {"first"} and not any(s.carried for s in self.splits.values())

    @property
    def is_two_sided(self) -> bool:
        """Whether a rule does more than to carry K."""
        return any(step.left or step.crosses or step.own for step in self.steps)

    @property
    def is_both_ends(self) -> bool:
        """Whether each rule steps one side and carries the other, whatever that is."""
        return len(self.splits) == 1 and all(
            step.is_open
            and not (step.is_tested or step.crosses or step.own)
            and len(step.edges) == 1
            for step in self.steps
        )

    @property
    def is_square(self) -> bool:
        """Whether what is on one side comes to be on the other."""
        return any(step.crosses or step.own for step in self.steps)

    @property
    def rises(self) -> bool:
        """Whether its only rule does, so that all facts may have what is tested."""
        return len(self.steps) == len(self.splits) == 1 and self.steps[0].rises

    @property
    def explores(self) -> bool:
        """Whether nodes have to be gone to before edges are known."""
        return any(edge.explores for step in self.steps for edge in step.edges)

    @property
    def solver(self) -> str:
        """Who solves it: *condensed*, *blocks* or *best-first*."""
        if self.function is not None:
            return "best-first"
        if self.is_two_sided:
            return "condensed" if self.is_both_ends else "blocks"
        return "blocks" if any(step.is_tested for step in self.steps) else "condensed"

    @property
    def layouts(self) -> tuple[str, ...]:
        """What it may leave."""
        if self.function is not None:
            return ("packed keys", "rows")
        if not any(split.carried for split in self.splits.values()):
            return ("words",)
        if self.is_two_sided and not self.is_both_ends and not self.rises:
            return ("bit rows",)
        return ("ranges", "bit rows")

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before it starts, but for conditions and tests."""
        if self.function is not None and not self.is_labels:
            return tuple(step.weighted for step in self.steps)
        if self.is_two_sided and not self.is_both_ends:
            edges = [edge for step in self.steps for edge in step.edges]
            if all(edge.pairs is not None for edge in edges):
                return tuple(edge.pairs for edge in edges if edge.pairs is not None)
            return tuple(rule for e in edges for rule in replace(e, explores=True).rules)
        return tuple(rule for step in self.steps for edge in step.edges for rule in edge.rules)


# ── The pass ─────────────────────────────────────────────────────────────────────────────────────


def factor(clique: Sequence[str], rules: Iterable[CoreRule], relations: RelationInfos) -> Closure:
    """The closure that the recursive rules of a clique compute; raises Refused if it is none."""
    recursive = _distinct(map(inline_definitions, rules))
    infos = {name: relations[name] for name in clique}
    if any(rule.order or rule.limit is not None for rule in recursive):
        raise Refused("its facts are sorted, or limited")
    if not all(is_of_one_kind(rule, relations) for rule in recursive):
        raise Refused("its variables stand for values of several kinds")
    if any(a.relation in infos and a.negated for rule in recursive for a in rule.atoms):
        raise Refused("it is negated inside its own recursion")
    columns = {value_column(info) for info in infos.values()}
    if len(columns) > 1 or (len(infos) > 1 and columns != {None}):
        raise Refused("it keeps best values of several relations")
    ways = [linearise(recursive, infos, exchange=True)]
    if ways[0].mirrored is not None:
        ways.append(linearise(recursive, infos, exchange=False))
    found = [closure for linear in ways for closure in _closures(linear, infos)]
    if not found:
        raise Refused("its rules do not fall apart into what they carry and where they step")
    best = min(found, key=_cost)
    is_wide = best.explores or any(info.arity > 1 for info in infos.values())
    if is_wide and best.function is None and not any(s.carried for s in best.splits.values()):
        raise Refused("nothing is carried: rounds reach every fact once, too")
    return best


def _closures(linear: Linear, infos: RelationInfos) -> Iterator[Closure]:
    """The closures of all splits that rules allow, the likeliest first."""
    (info, *_) = infos.values()
    column = value_column(info)
    function = None if column is None else info.aggregates[column]
    known = Closure({}, (), column, function, linear.mirrored, linear.chains)
    for atoms in product(*(choice for _, choice in linear.rules)):
        chosen = [(rule, atom) for (rule, _), atom in zip(linear.rules, atoms, strict=True)]
        weights: list[Weight | None] = [None] * len(chosen)
        if column is not None:
            taken = [take_weight(rule, atom, info) for rule, atom in chosen]
            chosen = [(r, atom) for (r, _), (_, atom) in zip(taken, chosen, strict=True)]
            weights = [weight for _, weight in taken]
        for splits, crossed in islice(_ordered_splits(chosen, infos, weights), _SPLITS):
            try:
                steps = build(chosen, splits, crossed, weights, chains=linear.chains)
            except Refused:
                continue
            found = replace(known, splits=splits, steps=steps)
            if linear.mirrored and not all(step.is_open for step in steps):
                continue  # conditions are of exit facts as they are
            if column is not None and not _is_best_first(found, info):
                continue
            yield found
            if _cost(found)[:5] == (False, 0, 0, False, 0):
                return


def _cost(closure: Closure) -> tuple[object, ...]:
    """Prefer something carried, known edges, one side, few tests, and much that is carried."""
    carried = [split.carried for split in closure.splits.values()]
    differs = any(variable_names(step.body[0]) for step in closure.steps)
    return (
        not (all(carried) and differs),
        sum(edge.explores for step in closure.steps for edge in step.edges),
        sum(step.crosses for step in closure.steps),
        closure.is_two_sided,
        sum(step.is_tested + (step.own is not None) for step in closure.steps),
        -sum(map(len, carried)),
        carried,
    )


def _is_best_first(closure: Closure, info: RelationInfo) -> bool:
    """Whether best values are found source by source, or label by label."""
    if closure.is_two_sided:
        return False
    if closure.is_labels:
        assert closure.column is not None
        return kind_of(info.columns[closure.column].type) is not Kind.OBJECT
    sums = any(step.weight is not None and not step.weight.is_widest for step in closure.steps)
    # In rounds the largest sums are found path by path, and improved as often as there are lengths
    # of these: that is why even a single source is worth an order of nodes. The least settle soon.
    assert closure.function is not None
    is_longest = not closure.function.is_least and sums and all(s.is_open for s in closure.steps)
    if not is_longest and not all(split.carried for split in closure.splits.values()):
        return False
    return all(
        not step.along
        and len(variable_names(step.edge.begin)) == len(step.edge.begin)
        and [*step.edge.end] == [*map(Variable, step.edge.made)]
        and _can_weigh(step)
        for step in closure.steps
    )


def _can_weigh(step: Step) -> bool:
    assert step.weight is not None
    ends = (*variable_names(step.edge.begin), *step.edge.made, *step.weight.read)
    return body_rule(step.rule, step.edge.literals, ends) is not None


def is_of_one_kind(rule: CoreRule, relations: RelationInfos, *, with_head: bool = True) -> bool:
    """Whether variables have the kind of all columns they stand in: words can be compared."""
    places = [(atom.relation, atom.arguments) for atom in rule.atoms]
    head = [(rule.head, rule.arguments)] if with_head else []
    return all(
        kind_of(rule.types[argument.name]) is kind_of(column.type)
        for name, arguments in (*places, *head)
        for argument, column in zip(arguments, relations[name].columns, strict=True)
        if isinstance(argument, Variable) and not argument.is_anonymous
    )


def _distinct(rules: Iterable[CoreRule]) -> list[CoreRule]:
    """A rule with several recursive atoms has several delta rules."""
    found: list[CoreRule] = []
    for rule in rules:
        if not any(rule is other or rule == other for other in found):
            found.append(rule)
    return found


def _recursive_atoms(rule: CoreRule, clique: Iterable[str]) -> list[CoreAtom]:
    known = {*clique}
    return [atom for atom in rule.atoms if atom.relation in known]


# ── Rules that join the relation with itself ─────────────────────────────────────────────────────
#
# A relation with two ends is a set of paths: p(X, Z) reads "from X to Z". Write b for the exit
# facts, juxtaposition for composition. A chain rule is p <- p w p w ... p, k atoms with the same
# step w between neighbours (w may be empty, or a filter such as ok(Y)).
#
# (k = 2) With chain rules p <- p w_i p and linear rules p <- p e_j, p = b (w_i b | e_j)*.
#   The right side holds b and is closed: anything in it begins with b, so R w_i R and R e_j are in
#   R. It holds nothing else: by induction on the number of factors, u (w_i b) is derived from u by
#   p w_i p with b as the second atom, u e_j by the linear rule. Hence p <- p w_i b. Mirrored, the
#   last atom is kept, beside linear rules p <- e_j p. Linear rules at both ends: b e f b has no
#   such form.
# (k > 2) Alone, p = b (w b w b ... w b)*, k - 1 factors: lengths are 1 mod k - 1, whatever the
#   nesting. Beside other rules nesting shows (p p p and p e: b b e b). Different w: p w p v p
#   nests like brackets.
# (conditions) c(X) on the first end: for X in c everything of the form above, for others what the
#   linear rules alone give. True of both programs, as the later atoms only take less than the form
#   allows - if all chain rules have the same c, and linear rules none.
# (X ~= Z) Alone, k = 2, no w: p = b | (b+ without X = Z). Cut a walk from X to Z at its last visit
#   to X: what is left never meets X again, so that p <- p b, X ~= Z derives all its beginnings.
# (swap) p(X, Y) <- p(Y, X) beside any rules R: p is the least relation that holds b and b^T and is
#   closed under R and R^T (R with the columns of p exchanged). That one is its own transpose, so it
#   is closed under the swap; and p, its own transpose too, is closed under R^T.
# (values) Over an idempotent semiring the same words have the same values, whatever the nesting, if
#   the new value combines the values of all atoms by one associative operation.
# (parameters) A column with the same term in the head and in every recursive atom of every
#   recursive rule: each of its values is a program of its own.


@dataclass(frozen=True, slots=True)
class Linear:
    """Rules with the recursive atoms that each may start from; all others have exit facts.

    Without `chains` a rule may have two, of which one is chosen. Two `mirrored` columns of the exit
    facts are exchanged.
    """

    rules: tuple[tuple[CoreRule, tuple[CoreAtom, ...]], ...]
    chains: bool = False
    mirrored: tuple[int, int] | None = None


def linearise(rules: Sequence[CoreRule], infos: RelationInfos, *, exchange: bool) -> Linear:
    """Rules whose recursive atoms but one read exit facts, where that is valid.

    With `exchange`, a rule that exchanges two columns becomes part of the others.
    """
    mirrored, rules = _unswap(rules, infos) if exchange else (None, rules)
    plain = tuple((rule, tuple(_recursive_atoms(rule, infos))) for rule in rules)
    if any(len(atoms) > 2 for _, atoms in plain) or any(len(atoms) == 2 for _, atoms in plain):
        kept = _read_chains(rules, infos) if len(infos) == 1 else None
        if kept is not None and mirrored is not None:
            kept = [turned for each in kept for turned in _exchange_exits(*each, mirrored, infos)]
        if kept is not None:
            return Linear(tuple(kept), True, mirrored)
    if any(len(atoms) > 2 for _, atoms in plain):
        raise Refused("a rule reads it more than twice")
    return Linear(plain, False, mirrored)


def _unswap(
    rules: Sequence[CoreRule], infos: RelationInfos
) -> tuple[tuple[int, int] | None, list[CoreRule]]:
    """Rules without one that exchanges two columns: the others do both instead."""
    (info, *more) = infos.values()
    swaps = [pair for rule in rules if (pair := _find_swap(rule, info)) is not None]
    if more or info.has_aggregates or len(set(swaps)) != 1:
        return None, list(rules)
    (pair,) = set(swaps)
    found = [rule for rule in rules if _find_swap(rule, info) is None]
    for rule in list(found):
        atoms = _recursive_atoms(rule, infos)
        if len(atoms) == len(rule.atoms) == 2 and not rule.comparisons and is_plain(rule):
            continue  # p(X, Z) <- p(X, Y), p(Y, Z), which does both
        turned = replace(
            rule,
            arguments=_exchange(rule.arguments, pair),
            atoms=tuple(
                replace(a, arguments=_exchange(a.arguments, pair)) if a in atoms else a
                for a in rule.atoms
            ),
        )
        if turned not in found:
            found.append(turned)
    return pair, found


def _exchange_exits(
    rule: CoreRule, kept: tuple[CoreAtom, ...], pair: tuple[int, int], infos: RelationInfos
) -> Iterator[tuple[CoreRule, tuple[CoreAtom, ...]]]:
    """A rule that reads exit facts, and the same with their columns exchanged."""
    yield rule, kept
    others = [a for a in _recursive_atoms(rule, infos) if a is not kept[0]]
    for some in islice(product((False, True), repeat=len(others)), 1, None):
        turned = [a for a, is_turned in zip(others, some, strict=True) if is_turned]
        atoms = tuple(
            replace(a, arguments=_exchange(a.arguments, pair))
            if any(a is other for other in turned)
            else a
            for a in rule.atoms
        )
        yield replace(rule, atoms=atoms), kept


def _find_swap(rule: CoreRule, info: RelationInfo) -> tuple[int, int] | None:
    """p(X, K, Y) <- p(Y, K, X): the two columns that a rule exchanges."""
    if rule.comparisons or [a.relation for a in rule.atoms] != [info.name]:
        return None
    if rule.head != info.name:
        return None
    given = rule.atoms[0].arguments
    moved = [i for i, term in enumerate(given) if term != rule.arguments[i]]
    if not is_plain(rule) or len(moved) != 2:
        return None
    pair = moved[0], moved[1]
    return pair if _exchange(given, pair) == rule.arguments else None


def _exchange(terms: tuple[T, ...], pair: tuple[int, int]) -> tuple[T, ...]:
    found = list(terms)
    found[pair[0]], found[pair[1]] = found[pair[1]], found[pair[0]]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Chain:
    """p(X, Z) <- c(X), p(X, Y), w(Y, U), p(U, Z): its first atom, the steps w, and c."""

    first: CoreAtom
    length: int
    steps: tuple[object, ...]
    condition: object
    is_unequal: bool


def _read_chains(
    rules: Sequence[CoreRule], infos: RelationInfos
) -> list[tuple[CoreRule, tuple[CoreAtom, ...]]] | None:
    """The rules with the one atom of each that stays; None if that is not known to be valid."""
    ((name, info),) = infos.items()
    value = value_column(info)
    parameters = [
        c
        for c in info.group
        if all(a.arguments[c] == r.arguments[c] for r in rules for a in _recursive_atoms(r, infos))
    ]
    ends = [c for c in info.group if c not in parameters]
    if len(ends) != 2:
        return None
    linear = [r for r in rules if len(_recursive_atoms(r, infos)) == 1]
    chains = [r for r in rules if r not in linear]
    for near, far in (ends, ends[::-1]):
        read = [_read_chain(r, info, near, far, parameters) for r in chains]
        if any(chain is None for chain in read):
            continue
        found = [chain for chain in read if chain is not None]
        if not all(_keeps_end(r, name, near, value) for r in linear):
            continue
        if len(rules) > 1 and any(c.length > 2 or c.is_unequal for c in found):
            continue
        if any(c.condition != found[0].condition for c in found):
            continue
        if any(step != chain.steps[0] for chain in found for step in chain.steps):
            continue
        first = {id(r): chain.first for r, chain in zip(chains, found, strict=True)}
        return [
            (r, (first[id(r)],)) if id(r) in first else (r, tuple(_recursive_atoms(r, infos)))
            for r in rules
        ]
    return None


def _read_chain(
    rule: CoreRule, info: RelationInfo, near: int, far: int, parameters: Sequence[int]
) -> _Chain | None:
    """The chain that leads from the column `near` of the head to the column `far`."""
    atoms = _recursive_atoms(rule, (info.name,))
    value = value_column(info)
    rest = without([*rule.atoms, *rule.comparisons], atoms)
    if value is not None:
        try:
            known, weight = take_weight(rule, atoms[0], info)
        except Refused:
            return None
        numbers = [a.arguments[value] for a in atoms[1:]]
        rest = without([*known.atoms, *known.comparisons], atoms)
        if weight.is_limited or any(list(_factors(weight)).count(n) != 1 for n in numbers):
            return None
        if names(*numbers) & literal_names(*rest):
            return None
    shared = {n for c in parameters for n in variable_names([rule.arguments[c]])}
    start, end = rule.arguments[near], rule.arguments[far]
    ports = {*variable_names(a.arguments[c] for a in atoms for c in (near, far))}
    ports |= {*variable_names((start, end))}
    if not isinstance(start, Variable) or not isinstance(end, Variable) or start == end:
        return None
    if len(ports) < 2 or ports & shared:
        return None
    groups = [(g, literal_names(*g) & ports) for g in _group_literals(rest, ports | shared)]
    at, met, steps = start, list[CoreAtom](), list[object]()
    while len(met) < len(atoms):
        following = [a for a in atoms if a.arguments[near] == at]
        if len(following) != 1 or following[0] in met:
            return None
        met.append(following[0])
        here = following[0].arguments[far]
        if not isinstance(here, Variable):
            return None
        at = here
        if len(met) < len(atoms):
            between = [
                (g, touched)
                for g, touched in groups
                if here.name in touched and not touched & {start.name, end.name}
            ]
            groups = [each for each in groups if each not in between]
            literals = [each for g, _ in between for each in g]
            onward = {n for _, touched in between for n in touched} - {here.name}
            if len(onward) > 1:
                return None
            at = Variable(onward.pop()) if onward else here
            steps.append(_canonical(literals, (here.name, at.name)))
    if at != end:
        return None
    condition = [each for g, touched in groups if touched <= {start.name} for each in g]
    across = [each for g, touched in groups if not touched <= {start.name} for each in g]
    if across:
        is_alone = len(across) == 1 and not condition and len(atoms) == 2
        if not is_alone or steps[0] != _canonical((), ("", "")):
            return None
        if not tests_difference(across[0], start.name, end.name):
            return None
    asked = _canonical(condition, (start.name, ""))
    return _Chain(met[0], len(met), tuple(steps), asked, bool(across))


def _factors(weight: Weight) -> Iterator[Expression]:
    """The summands of a weight; all of it, if it is not added."""
    waiting = [weight.added]
    while waiting:
        each = waiting.pop()
        if weight.product == "+" and isinstance(each, Arithmetic) and each.operator == "+":
            waiting += [each.left, each.right]
        else:
            yield each


def _keeps_end(rule: CoreRule, relation: str, column: int, value: int | None) -> bool:
    """True of p(X, Z) <- p(X, Y), e(Y, Z): X stays, and no value is tested."""
    (atom,) = _recursive_atoms(rule, (relation,))
    end = rule.arguments[column]
    if not isinstance(end, Variable) or end != atom.arguments[column]:
        return False
    others = without([*rule.atoms, *rule.comparisons], [atom])
    seen = [
        t for terms in (rule.arguments, atom.arguments) for c, t in enumerate(terms) if c != column
    ]
    if end.name in names(*seen, *others):
        return False
    if value is None:
        return True
    number = names(atom.arguments[value], rule.arguments[value])
    tests = (c for c in rule.comparisons if c.operator != "=")
    return not any(names(c) & number for c in tests)


def _canonical(literals: Iterable[CoreLiteral], ends: tuple[str, str]) -> object:
    """Literals with numbered variables, so that equal steps are equal."""
    known: dict[str, str] = dict(zip(ends, ("here", "there"), strict=True))
    given = tuple(literals)
    for each in variables(*given):
        known.setdefault(each.name, f"V{len(known)}")
    moved = ends[0] != ends[1] and bool(ends[1])

    def renamed(node: object) -> Variable | None:
        return Variable(known[node.name]) if isinstance(node, Variable) else None

    return moved, replace_in(given, renamed)


def _group_literals(
    literals: Iterable[CoreLiteral], ports: Iterable[str]
) -> list[list[CoreLiteral]]:
    """Literals that share a variable which is no port, together."""
    known = {*ports}
    groups: list[list[CoreLiteral]] = []
    for literal in literals:
        inner = literal_names(literal) - known
        joined = [g for g in groups if literal_names(*g) & inner]
        groups = [g for g in groups if all(g is not other for other in joined)]
        groups.append([*(each for g in joined for each in g), literal])
    return groups


# ── Sides ────────────────────────────────────────────────────────────────────────────────────────

ChosenAtoms: TypeAlias = Sequence[tuple[CoreRule, CoreAtom]]


def _ordered_splits(
    chosen: ChosenAtoms, infos: RelationInfos, weights: Sequence[Weight | None]
) -> Iterator[tuple[dict[str, Split], list[bool]]]:
    """The splits of a clique, those first that carry much and change nothing of it."""
    if weights and all(weight is not None and weight.product == "first" for weight in weights):
        yield {n: Split((), info.group) for n, info in infos.items()}, [False] * len(chosen)
    if all(info.arity == 1 for info in infos.values()):
        yield {name: Split((), (0,)) for name in infos}, [False] * len(chosen)
        return

    def order(found: tuple[dict[str, Split], list[bool]]) -> tuple[object, ...]:
        splits, crossed = found
        carried = [split.carried for split in splits.values()]
        moved = sum(
            [a.arguments[c] for c in splits[a.relation].carried]
            != [r.arguments[c] for c in splits[r.head].carried]
            for r, a in chosen
        )
        return not all(carried), sum(crossed), bool(moved), -sum(map(len, carried)), carried

    found = [*islice(list_splits(chosen, infos), 4 * _SPLITS)]
    if len(infos) == 1:  # what a rule makes of both sides may be anything, and a test
        ((name, info),) = infos.items()
        copied = tuple(
            c for c in info.group if all(a.arguments[c] == r.arguments[c] for r, a in chosen)
        )
        moved = tuple(c for c in info.group if c not in copied)
        if copied and moved:
            found.append(({name: Split(copied, moved)}, [False] * len(chosen)))
    yield from sorted(found, key=order)


def list_splits(
    chosen: ChosenAtoms, infos: RelationInfos
) -> Iterator[tuple[dict[str, Split], list[bool]]]:
    """All ways to put columns on side 0 or 1 such that each head column is made on its own side.

    Unknowns are the side of every column, and for every rule whether it crosses. If one group of
    literals alone makes a head column, all columns of the atom and the head that the group reads
    lie on its side: side(head) + side(body) + crosses = 0 (mod 2), one equation each. What literals
    only test restricts nothing: it may become the mask. The solutions are a space that Gaussian
    elimination lists.
    """
    columns = [(name, c) for name, info in infos.items() for c in info.group]
    number, pivots = {column: n for n, column in enumerate(columns)}, dict[int, int]()
    for n, (rule, atom) in enumerate(chosen):
        crosses = 1 << len(columns) + n
        head = {c: rule.arguments[c] for c in infos[rule.head].group}
        body = {c: atom.arguments[c] for c in infos[atom.relation].group}
        side: dict[str, int] = {}
        equal: dict[tuple[str, int], frozenset[str]] = {}
        for c, term in body.items():
            if isinstance(term, Variable):
                side.setdefault(term.name, 1 << number[atom.relation, c] | crosses)
        ports = {*side, *variable_names(head.values())}
        binds = [a for a in rule.atoms if a is not atom and not a.negated]
        groups = _group_literals(
            [*binds, *(c for c in rule.comparisons if c.operator == "=")], ports
        )
        for c, term in head.items():
            if isinstance(term, Variable) and term.name not in side:
                side[term.name] = 1 << number[rule.head, c]
            elif not isinstance(term, Constant):
                equal[rule.head, c] = names(term)
        for c, term in head.items():
            mine = 1 << number[rule.head, c]
            read: frozenset[str] = frozenset()
            if (rule.head, c) in equal:
                read = equal[rule.head, c]
                inner = read - side.keys()
                making = [g for g in groups if literal_names(*g) & inner]
                read |= {name for g in making for name in literal_names(*g)}
            elif isinstance(term, Variable):
                making = [g for g in groups if term.name in literal_names(*g)]
                read = literal_names(*making[0]) if len(making) == 1 else read
            for name in read & side.keys():
                _add_equation(mine ^ side[name], pivots)
    unknowns = range(len(columns) + len(chosen))
    free = [v for v in unknowns if v not in pivots]
    for bits in product((0, 1), repeat=len(free)):
        given = sum(bit << v for bit, v in zip(bits, free, strict=True))
        solution = given | sum(1 << v for v, row in pivots.items() if (row & given).bit_count() % 2)
        splits = {
            name: Split(
                *(
                    tuple(c for c in info.group if solution >> number[name, c] & 1 == s)
                    for s in (0, 1)
                )
            )
            for name, info in infos.items()
        }
        if all(split.node for split in splits.values()):
            yield splits, [bool(solution >> len(columns) + n & 1) for n in range(len(chosen))]


def _add_equation(equation: int, pivots: dict[int, int]) -> None:
    """Add an equation (a mask of unknowns that add up to 0) to a system in reduced echelon form."""
    for v, row in pivots.items():
        equation ^= row if equation >> v & 1 else 0
    if equation:
        pivot = equation.bit_length() - 1
        pivots |= {v: row ^ equation for v, row in pivots.items() if row >> pivot & 1}
        pivots[pivot] = equation


# ── Steps ────────────────────────────────────────────────────────────────────────────────────────


def build(
    chosen: ChosenAtoms,
    splits: Mapping[str, Split],
    crossed: Sequence[bool],
    weights: Sequence[Weight | None],
    *,
    chains: bool,
) -> tuple[Step, ...]:
    """The steps of rules, with their columns split; raises Refused if some rule does not fit."""
    steps: list[Step] = []
    carries = [
        None if crosses else _carry(rule, atom, splits, chains=chains)
        for (rule, atom), crosses in zip(chosen, crossed, strict=True)
    ]
    is_one_sided = all(step is not None for step in carries)
    for (rule, atom), crosses, carry, weight in zip(chosen, crossed, carries, weights, strict=True):
        step = carry
        if not is_one_sided:
            step = _step_both(rule, atom, splits, crosses=crosses, chains=chains)
        if step is None:
            raise Refused("a rule does not fall apart")
        if not step.is_void:
            steps.append(replace(step, weight=weight))
        elif weight is not None and weight.product != "first":
            raise Refused("a value grows where it stays")
    if not steps:
        raise Refused("its rules derive nothing new")
    widths = {len(split.node) for split in splits.values()}
    sizes = {len(split.carried) for split in splits.values()}
    is_square = any(step.crosses or step.own for step in steps)
    if not is_one_sided and (len(widths | sizes if is_square else widths) > 1 or len(sizes) > 1):
        raise Refused("its relations have sides of several widths")
    if is_one_sided and (len(widths) > 1 or any(step.edge.explores for step in steps)):
        steps = [replace(s, right=replace(s.edge, explores=True)) for s in steps]
    return tuple(steps)


def _carry(
    rule: CoreRule, atom: CoreAtom, splits: Mapping[str, Split], *, chains: bool
) -> Step | None:
    """A rule that carries K and steps N by one edge; None if it does something else."""
    if not chains and len(_recursive_atoms(rule, splits)) > 1:
        return None
    source, target = splits[atom.relation], splits[rule.head]
    body, head = _terms(atom.arguments, source), _terms(rule.arguments, target)
    if body[0] != head[0]:
        return None
    kept, before = variable_names(body[0]), variable_names(body[1])
    after = tuple(dict.fromkeys(v.name for v in variables(*head[1])))
    if {*kept} & {*before, *after}:
        return None
    literals: list[CoreLiteral] = [a for a in rule.atoms if a is not atom]
    literals += rule.comparisons
    if body[1] == head[1] and atom.relation == rule.head:
        return Step(rule, atom.relation, body, head)
    parts = _divide(literals, kept, before, after, variable_names(head[1]))
    if parts is None:
        return None
    # What only an atom with carried variables binds may be anything that it has for any of them.
    rest = list(parts.rest)
    bound = {*before}.union(*(literal_names(a) for a in rest if is_positive(a)))
    for each in parts.arriving:
        if (
            isinstance(each, CoreAtom)
            and is_positive(each)
            and {*each.variables} & {*after} - bound
        ):
            held = [*map(Variable, (*kept, *parts.looked))]
            terms = (Variable("_") if term in held else term for term in each.arguments)
            rest = [*rest, replace(each, arguments=tuple(terms))]
    seen = literal_names(*rest, *parts.along)
    read = tuple(name for name in before if name in seen or name in after)
    middle: tuple[str, ...] = ()
    if parts.along:
        between = literal_names(*parts.along) - parts.unread - {*kept, *parts.looked}
        middle = tuple(dict.fromkeys((*read, *after, *sorted(between))))
    edge = EdgeRule(rule, atom.relation, rule.head, body[1], head[1], tuple(rest), read, middle)
    if edge.path is None and not edge.hands_on:
        if not edge.is_known:
            return None
        edge = replace(edge, explores=True)
    return Step(
        rule, atom.relation, body, head, None, edge,
        parts.condition, parts.looked, parts.leaving, parts.arriving, parts.along,
    )  # fmt: skip


def _terms(terms: Sequence[T], split: Split) -> tuple[tuple[T, ...], tuple[T, ...]]:
    return tuple(terms[i] for i in split.carried), tuple(terms[i] for i in split.node)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The literals beside a recursive atom, by what they connect (see `Step`)."""

    rest: tuple[CoreLiteral, ...]
    looked: tuple[str, ...]
    condition: tuple[CoreLiteral, ...]
    leaving: tuple[CoreLiteral, ...]
    arriving: tuple[CoreLiteral, ...]
    along: tuple[CoreLiteral, ...]
    unread: frozenset[str]


def _divide(
    literals: list[CoreLiteral],
    kept: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    made: tuple[str, ...],
) -> _Parts | None:
    """Literals by whether they read K, or the ends of the edge; None if all are mixed.

    The head has the variables `after`, those of them that are `made` in columns of their own.
    """
    unread = _unread(literals, {*kept, *before, *after})
    looked = _look_up(literals, kept, (*before, *after))
    kept += looked
    leaving = _bridges(literals, kept, before, unread)
    arriving = _bridges(without(literals, leaving), kept, made, unread)
    rest = without(literals, (*leaving, *arriving))
    along = _along(rest, kept, before, after, unread)
    condition, found = connect(without(rest, along), kept)
    if found & {*before, *after}:
        return None
    rest = without(rest, (*condition, *along))
    ends = tuple(leaving), tuple(arriving), tuple(along)
    return _Parts(tuple(rest), looked, tuple(condition), *ends, unread)


def _look_up(
    literals: list[CoreLiteral], kept: tuple[str, ...], ends: tuple[str, ...]
) -> tuple[str, ...]:
    """What atoms find for the carried side, and another literal compares with an edge.

    In src(K, X), src(L, Z), K < L that is K: L is found along the edge.
    """
    positive = [a for a in literals if is_positive(a)]
    _, inside = connect([a for a in positive if not literal_names(a) & {*kept}], ends)
    mine = [a for a in positive if not literal_names(a) & inside]
    _, found = connect(mine, kept)
    others = (literal_names(each) for each in without(literals, mine))
    return tuple(sorted({n for some in others if some & inside for n in some & found - {*kept}}))


def _unread(literals: list[CoreLiteral], known: set[str]) -> frozenset[str]:
    """The variables that stand in one positive atom and nowhere else: whatever they may be."""
    return frozenset(
        name
        for each in literals
        if is_positive(each)
        for name in literal_names(each) - known
        if name not in literal_names(*without(literals, [each]))
    )


def _bridges(
    literals: list[CoreLiteral], kept: tuple[str, ...], end: tuple[str, ...], unread: frozenset[str]
) -> list[CoreLiteral]:
    """The literals that have variables of the carried side and of one end of an edge, no others."""
    found = [(each, literal_names(each) - unread) for each in literals]
    return [
        each for each, mine in found if mine & {*kept} and mine & {*end} and mine <= {*kept, *end}
    ]


def _along(
    literals: list[CoreLiteral],
    kept: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    unread: frozenset[str],
) -> list[CoreLiteral]:
    """The literals that connect the carried side with what an edge goes through."""
    free = [each for each in literals if not literal_names(each) & {*kept}]
    _, inside = connect(free, (*before, *after))
    bound = literal_names(*(a for a in free if is_positive(a)))
    found = [(each, literal_names(each) - unread) for each in literals]
    return [
        each
        for each, mine in found
        if mine & {*kept} and mine & inside and mine - {*kept} <= (bound & inside)
    ]


def _step_both(
    rule: CoreRule, atom: CoreAtom, splits: Mapping[str, Split], *, crosses: bool, chains: bool
) -> Step | None:
    """A rule that steps both sides, each by itself; None if it is no such rule."""
    others = [a for a in _recursive_atoms(rule, splits) if a is not atom]
    body = _terms(atom.arguments, splits[atom.relation])
    head = _terms(rule.arguments, splits[rule.head])
    if others and not chains:
        return None if crosses else _walk_own(rule, atom, others[0], body, head, splits)
    first, second = body[::-1] if crosses else body
    near, far = names(*first, *head[0]), names(*second, *head[1])
    if near & far or (crosses and len(first) != len(head[0])):
        return None
    literals = without([*rule.atoms, *rule.comparisons], [atom])
    arriving = [each for each in literals if _reads_both(each, head)]
    leaving = [each for each in without(literals, arriving) if _reads_both(each, body)]
    literals = without(literals, (*arriving, *leaving))
    on_left, reached = connect(literals, near)
    if reached & far:
        return None
    condition: tuple[CoreLiteral, ...] = ()
    edges: list[EdgeRule | None] = []
    for side, mine, begin, end in (
        (0, on_left, first, head[0]),
        (1, without(literals, on_left), second, head[1]),
    ):
        stays = begin == end and len(variable_names(begin)) == len(begin)
        if stays and all(isinstance(each, Comparison) for each in mine):
            if side == 0 and not crosses:
                condition = tuple(mine)
            else:
                arriving += mine
            edges.append(None)
            continue
        edge = _edge(rule, atom, begin, end, mine)
        if edge is None:
            return None
        edges.append(edge)
    if crosses:  # bit by bit: the fewer the better
        leaving += [each for each in arriving if literal_names(each) <= names(*body[0], *body[1])]
        arriving = without(arriving, leaving)
    apart = [each for each in arriving if _are_apart(each, head)]
    return Step(
        rule, atom.relation, body, head, edges[0], edges[1], condition,
        leaving=tuple(leaving), arriving=tuple(without(arriving, apart)),
        crosses=crosses, apart=bool(apart),
    )  # fmt: skip


def _edge(
    rule: CoreRule,
    atom: CoreAtom,
    begin: tuple[Term, ...],
    end: tuple[Expression, ...],
    literals: Sequence[CoreLiteral],
) -> EdgeRule | None:
    """The edge of some literals, from terms of an atom to terms of the head."""
    seen = literal_names(*literals) | names(*end)
    read = tuple(name for name in variable_names(begin) if name in seen)
    edge = EdgeRule(rule, atom.relation, rule.head, begin, end, tuple(literals), read)
    if edge.path is not None:
        return edge
    return replace(edge, explores=True) if edge.is_known else None


def _walk_own(
    rule: CoreRule,
    first: CoreAtom,
    last: CoreAtom,
    body: Terms,
    head: Ends,
    splits: Mapping[str, Split],
) -> Step | None:
    """p(X, Z) <- q(X, Y), w(Y, V), s(V, Z), with tests of X and Z, or of X and Y."""
    begin, end = _terms(last.arguments, splits[last.relation])
    ends = [variable_names(terms) for terms in (head[0], body[1], begin, head[1])]
    outer, inner = {*ends[0], *ends[3]}, {*ends[1], *ends[2]}
    if body[0] != head[0] or end != head[1] or outer & inner or {*ends[0]} & {*ends[3]}:
        return None
    given = (head[0], body[1], begin, head[1])
    if any(len(some) < len(terms) for some, terms in zip(ends, given, strict=True)):
        return None
    literals = without([*rule.atoms, *rule.comparisons], [first, last])
    arriving = [each for each in literals if literal_names(each) <= outer]
    leaving = [each for each in without(literals, arriving) if _reads_both(each, body)]
    rest, reached = connect(without(literals, (*arriving, *leaving)), inner)
    if reached & outer or len(rest) + len(arriving) + len(leaving) < len(literals):
        return None
    edge: EdgeRule | None = None
    if rest or body[1] != begin:
        edge = _edge(rule, first, body[1], begin, rest)
        if edge is None:
            return None
    apart = [each for each in arriving if _are_apart(each, head)]
    rises = edge is None and len(head[0]) == len(head[1]) == 1 and not (apart or leaving)
    return Step(
        rule, first.relation, body, head, None, edge,
        leaving=tuple(leaving), arriving=tuple(without(arriving, apart)), own=last.relation,
        apart=bool(apart), rises=rises and all(_rises(each, head) for each in arriving),
    )  # fmt: skip


def _rises(literal: CoreLiteral, head: Ends) -> bool:
    """Whether a literal compares the same of both sides, X < Z or 2 * X >= 2 * Z: transitively."""
    if not isinstance(literal, Comparison) or literal.operator == "~=":
        return False
    (one,), (other,) = (variable_names(terms) for terms in head)
    if names(literal.left) == frozenset([other]):
        one, other = other, one
    moved = replace_in(literal.left, lambda t: Variable(other) if t == Variable(one) else None)
    return names(literal.left) == frozenset([one]) and moved == literal.right


def _reads_both(literal: CoreLiteral, ends: Ends) -> bool:
    """Whether a literal is a test of both sides: it has variables of each, and no others."""
    mine, left, right = literal_names(literal), names(*ends[0]), names(*ends[1])
    return bool(mine & left and mine & right) and mine <= left | right


def _are_apart(literal: CoreLiteral, head: Ends) -> bool:
    """Whether a literal says that two words differ, and no more."""
    both = (*variable_names(head[0]), *variable_names(head[1]))
    return len(both) == 2 and tests_difference(literal, both[0], both[1])


# ── Links and entries ────────────────────────────────────────────────────────────────────────────


def _find_links(
    rule: CoreRule, literals: list[CoreLiteral], source: tuple[str, ...], target: tuple[str, ...]
) -> tuple[Link, ...] | None:
    """A path of pairs from source to target, cut wherever one variable alone connects its parts."""
    if len(source) == len(target) == 1 and source != target:
        for cut in dict.fromkeys(n for each in literals for n in sorted(literal_names(each))):
            near, found = connect(literals, source, stop=cut)
            if cut in (*source, *target) or target[0] in found or cut not in found:
                continue
            far = without(literals, near)
            first = _find_links(rule, near, source, (cut,))
            second = _find_links(rule, far, (cut,), target)
            if first is not None and second is not None:
                return first + second
    near, found = connect(literals, source)
    if not found & {*target}:
        # Nothing connects the two: whatever can leave goes wherever can be arrived at.
        ends = _link(rule, near, source, ()), _link(rule, without(literals, near), (), target)
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])
    whole = _link(rule, literals, source, target)
    return None if whole is None else (whole,)


def _link(
    rule: CoreRule,
    literals: Sequence[CoreLiteral],
    source: tuple[str, ...],
    target: tuple[str, ...],
) -> Link | None:
    if not source and not target:
        return None if literals else Link(None, 0)
    pairs = body_rule(rule, literals, (*source, *target))
    if pairs is None:
        return None
    wanted = {*source, *target}
    holds = any(isinstance(a, CoreAtom) and wanted <= {*a.variables} for a in literals)
    return Link(pairs, len(source), not holds)


def enter(
    closure: Closure | None,
    clique: Sequence[str],
    exits: Sequence[CoreRule],
    relations: RelationInfos,
    is_large: Callable[[CoreAtom], bool],
) -> Closure | None:
    """A closure that takes the exit rules itself, where these read closures; None if there is none.

    A clique that is not recursive is such a closure if its rules join closures.
    """
    (name, *others) = clique
    read = [sum(map(is_large, rule.positive)) for rule in exits]
    if closure is None and max(read, default=0) > 1:
        closure = Closure({name: Split((0,), (1,))}, ())
    info = relations[name]
    if closure is None or others or not any(read) or info.has_aggregates:
        return None
    if closure.is_two_sided or closure.mirrored or closure.chains or closure.explores:
        return None
    split = closure.splits[name]
    if not split.carried or any(step.is_tested or not step.is_open for step in closure.steps):
        return None
    if info.arity != len(split.carried) + len(split.node):
        return None
    found = [_entry(rule, split) for rule in exits]
    entries = tuple(each for each in found if each is not None)
    return replace(closure, entries=entries) if len(entries) == len(found) else None


def _entry(rule: CoreRule, split: Split) -> EdgeRule | None:
    """An exit rule as an edge from the carried columns of its head to those of the node."""
    if not is_plain(rule) or rule.order or rule.limit is not None:
        return None
    source, target = (variable_names(rule.arguments[i] for i in side) for side in split.both)
    begin, end = tuple(map(Variable, source)), tuple(map(Variable, target))
    literals = (*rule.atoms, *rule.comparisons)
    edge = EdgeRule(rule, rule.head, rule.head, begin, end, literals, source)
    return edge if edge.path is not None else None
