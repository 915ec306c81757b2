"""Rules with `if` literals and disjunctions become rules without: one for each way through them.

What alternatives have in common is evaluated once where that pays:

- two branches of an `if` that each bind the same variable are one conditional expression;
- branches of a disjunction that each look one atom up are a relation of their own, which the rule
  joins: `(road(Y, Z) ; rail(Y, Z))` is one step of a recursion, not two;
- alternatives that only test what other atoms join are one test in the rule, and what they demand
  of each atom is tested as soon as that is read;
- where ways are more than a few, alternatives that only compare stay in one rule, as a test.

An aggregate ranges over the distinct solutions of a body: one that several branches of a
disjunction lead to is one. So a rule that aggregates, sorts or cuts has its disjunctions in a
relation of their own, or all of its body. The ways through an `if` exclude each other.

Ways are counted before they are made; too many are C024. A recursive sum over a disjunction that
cannot be looked up is C015.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Final

from caladan.analysis.ways import (
    MOST_WAYS,
    as_test,
    count_ways,
    expand,
    has_disjunctions,
    too_many,
    weaken,
    without_choices,
)
from caladan.program import (
    Aggregate,
    Atom,
    Choice,
    Comparison,
    Disjunction,
    Expression,
    Head,
    Literal,
    Program,
    Rule,
    Variable,
    atoms,
    names,
    variables,
)
from caladan.program.aggregates import row_of
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import fresh, reachable, walk

_FEW_WAYS: Final = 16
"""Ways through a rule that are worth a rule each: plain joins are quickest."""


class FreshNames:
    """Names for relations that the compiler makes.

    `made` has each with the relation of the program that it is made for.
    """

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self.made: dict[str, str] = {}

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        return self.part(stem)

    def part(self, whole: str, kind: str = "") -> str:
        """A name for a part of a relation, `tc_body` for `tc`."""
        name = fresh(f"{whole}_{kind}" if kind else whole, self._used)
        self.made[name] = self.made.get(whole, whole)
        return name


class Ways:
    """Takes rules of a program apart."""

    def __init__(self, program: Program, names: FreshNames, *, may_lack: bool = False) -> None:
        self._program = program
        self._names = names
        self._may_lack = may_lack

    def split(self, rule: Rule, found: Diagnostics) -> list[Rule]:
        """Rules without alternatives that mean the same; those of relations of their own too."""
        if not any(isinstance(each, Choice | Disjunction) for each in rule.body):
            return [rule]
        made: list[Rule] = []
        ranges = _ranges(rule)
        body = tuple(self._looked_up(each, rule, ranges, made) for each in rule.body)
        if count_ways(body) > _FEW_WAYS or (ranges and has_disjunctions(body)):
            bound = _bound(body)
            body = tuple(as_test(each, bound) for each in body)
        if (ways := count_ways(body)) > MOST_WAYS:
            too_many(ways, body, rule.span, found)
            return []
        rule = replace(rule, body=body)
        if ranges and has_disjunctions(body):
            if self._adds_up(rule):
                _cannot_add_up(rule, body, found)
                return []
            ways = [
                replace(rule, body=tuple(way))
                for way in without_choices(body, may_lack=self._may_lack)
            ]
            apart = [part for way in ways for part in self._apart(way, found)]
            return [*self._made(made, found), *apart]
        if ways > 1:
            rule = self._prefixed(rule, made)
        return [
            *self._made(made, found),
            *(replace(rule, body=tuple(way)) for way in expand(rule.body, may_lack=self._may_lack)),
        ]

    def _made(self, made: Sequence[Rule], found: Diagnostics) -> list[Rule]:
        return [each for rule in made for each in self.split(rule, found)]

    # ── Relations of their own ───────────────────────────────────────────────────────────────────

    def _looked_up(self, literal: Literal, rule: Rule, ranges: bool, made: list[Rule]) -> Literal:
        """A disjunction of lookups as one, in a relation that holds what any of them would find.

        Where little is joined with it, each lookup in a rule of its own does with less.
        """
        if not isinstance(literal, Disjunction):
            return literal
        shown = [Variable(name) for name in _shown(literal, rule)]
        others = [each for each in rule.body if isinstance(each, Atom) and not each.negated]
        is_worth_it = ranges or len(others) > 1 or any(map(self._is_recursive(rule), others))
        if not is_worth_it or any(map(self._is_recursive(rule), atoms([literal]))):
            return literal
        if not all(
            _is_lookup(branch, {each.name for each in shown}) for branch in literal.branches
        ):
            return literal
        name = self._names.part(rule.head.relation, "either")
        head = Head(name, tuple(shown), literal.span)
        made += [Rule(head, branch, span=rule.span) for branch in literal.branches]
        return Atom(name, tuple(shown), span=literal.span)

    def _apart(self, rule: Rule, found: Diagnostics) -> list[Rule]:
        """A rule without `if`s over the distinct solutions of its body, and the rules for these."""
        if not has_disjunctions(rule.body):
            return [rule]
        body = tuple(_name_wildcards(rule))
        outside = [each for each in body if not isinstance(each, Disjunction)]
        names = {v.name: None for each in outside for v in variables(each) if not v.is_anonymous}
        inside = [each for each in body if isinstance(each, Disjunction)]
        for each in inside:
            names |= dict.fromkeys(_shown(each, rule))
        shown = tuple(map(Variable, names))
        name = self._names.part(rule.head.relation, "body")
        solutions = Rule(Head(name, shown, rule.head.span), body, span=rule.span)
        over = replace(rule, body=(Atom(name, shown, span=rule.span),))
        return [*self.split(solutions, found), over]

    def _prefixed(self, rule: Rule, made: list[Rule]) -> Rule:
        """A rule whose alternatives only test, with its atoms joined once for all of them.

            q(A, D) <- e(A, B), f(B, D), (A < 5, D > 90 ; A > 90, D < 5).

        becomes a rule that tests `A < 5 or A > 90` of each `e`, the same of `f`, and all of the
        alternatives at the end. What compares cannot tell is tested in a rule for each way, over a
        relation of what the atoms join. Alternatives that look something up may be the better
        place to start from; so may a constant.
        """
        positive = [each for each in rule.body if isinstance(each, Atom) and not each.negated]
        inside = [each for each in rule.body if isinstance(each, Choice | Disjunction)]
        if len(positive) < 2 or any(map(self._is_recursive(rule), positive)):
            return rule
        if not all(map(_only_tests, inside)) or not _is_connected(positive):
            return rule
        known = names(positive)
        tested = [as_test(each, known) for each in rule.body]
        early = list(_early_tests(inside, positive))
        if count_ways(tested) == 1:
            return replace(rule, body=(*tested, *early))
        early += [each for each in _weaker(inside, known) if each not in early]
        first = [*(each for each in rule.body if _is_known(each, known)), *early]
        rest = [each for each in rule.body if not any(each is one for one in first)]
        later = names((*rest, *rule.head.arguments))
        later |= {key.variable.name for key in rule.order}
        shown = tuple(Variable(n) for n in dict.fromkeys(_names(first)) if n in later)
        if not shown:
            return rule
        name = self._names.part(rule.head.relation, "joined")
        made.append(Rule(Head(name, shown, rule.head.span), tuple(first), span=rule.span))
        return replace(rule, body=(Atom(name, shown, span=rule.span), *rest))

    # ── Recursion ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _reads(self) -> dict[str, set[str]]:
        """For each relation those that its rules mention."""
        found: dict[str, set[str]] = {}
        for rule in self._program.rules:
            found.setdefault(rule.head.relation, set()).update(a.relation for a in atoms(rule.body))
        return found

    def _is_recursive(self, rule: Rule) -> Callable[[Atom], bool]:
        """Whether an atom's relation depends on that of a rule."""

        def leads_back(atom: Atom) -> bool:
            reads = self._reads
            found = reachable([atom.relation], lambda name: reads.get(name, ()))
            return rule.head.relation in found

        return leads_back

    def _adds_up(self, rule: Rule) -> bool:
        """Whether a rule adds up within its own recursion."""
        adds = any(
            isinstance(each, Aggregate) and row_of(each).is_total and row_of(each).is_monotone
            for each in rule.head.arguments
        )
        return adds and any(map(self._is_recursive(rule), atoms(rule.body)))


# ── What a body is made of ───────────────────────────────────────────────────────────────────────


def _ranges(rule: Rule) -> bool:
    """Whether it matters how often a rule's solutions come: it aggregates, sorts or cuts."""
    terms = [part for argument in rule.head.arguments for part in walk(argument)]
    aggregates = any(isinstance(each, Aggregate) for each in terms)
    return aggregates or bool(rule.order) or rule.limit is not None


def _names(body: Iterable[Literal | Expression]) -> Iterator[str]:
    return (v.name for each in body for v in variables(each) if not v.is_anonymous)


def _bound(body: Iterable[Literal]) -> set[str]:
    return set(_names(each for each in body if isinstance(each, Atom) and not each.negated))


def _shown(literal: Literal, rule: Rule) -> list[str]:
    """The variables of a literal that the rest of its rule mentions, each once."""
    rest = [each for each in rule.body if each is not literal]
    elsewhere = {*_names([*rest, *rule.head.arguments]), *(k.variable.name for k in rule.order)}
    return [name for name in dict.fromkeys(_names([literal])) if name in elsewhere]


def _is_lookup(branch: Sequence[Literal], shown: Collection[str]) -> bool:
    """Whether a branch is one atom that binds all there is, and tests of it."""
    found = [each for each in branch if isinstance(each, Atom) and not each.negated]
    if len(found) != 1 or any(isinstance(each, Choice | Disjunction) for each in branch):
        return False
    bound = {each.name for each in found[0].arguments if isinstance(each, Variable)}
    return set(shown) | set(_names(branch)) <= bound


def _only_tests(literal: Choice | Disjunction) -> bool:
    """Whether alternatives look nothing up, and none of them asks for one value."""
    if isinstance(literal, Disjunction):
        branches = literal.branches
    else:
        branches = ((*literal.condition, *literal.then), literal.otherwise)
    for each in (each for branch in branches for each in branch):
        match each:
            case Atom() if not each.negated:
                return False
            case Comparison() if each.operator == "=":
                return False
            case Choice() | Disjunction() if not _only_tests(each):
                return False
            case _:
                pass
    return True


def _early_tests(
    inside: Sequence[Choice | Disjunction], joined: Sequence[Atom]
) -> Iterator[Comparison]:
    """What alternatives demand of each atom, and of the first two, three … of them, each once."""
    told: list[Comparison] = []
    prefixes = (names(joined[:i]) for i in range(2, len(joined)))
    for known in (*(names([atom]) for atom in joined), *prefixes):
        for test in _weaker(inside, known):
            if test not in told:
                told.append(test)
                yield test


def _weaker(inside: Iterable[Choice | Disjunction], known: Set[str]) -> Iterator[Comparison]:
    """What has to hold of some variables, for alternatives to hold of all."""
    for each in inside:
        test = weaken(each, known)
        if test is not None:
            yield test


def _is_known(literal: Literal, known: Set[str]) -> bool:
    """Whether a literal can be decided where these variables are bound."""
    if isinstance(literal, Choice | Disjunction):
        return False
    return set(_names([literal])) <= known


def _is_connected(found: Sequence[Atom]) -> bool:
    """Whether atoms hang together by variables: what does not would be multiplied out."""
    first, *rest = found
    reached = set(_names([first]))
    while rest:
        near = next((each for each in rest if reached & set(_names([each]))), None)
        if near is None:
            return False
        reached |= set(_names([near]))
        rest.remove(near)
    return True


def _name_wildcards(rule: Rule) -> Iterator[Literal]:
    """The body, with names for the `_` of its atoms: they tell its solutions apart."""
    used = {*_names(rule.body), *_names(rule.head.arguments)}
    fresh = (name for name in (f"_{i}" for i in count(1)) if name not in used)
    for literal in rule.body:
        if not isinstance(literal, Atom) or literal.negated:
            yield literal
            continue
        terms = (
            Variable(next(fresh), each.span)
            if isinstance(each, Variable) and each.is_anonymous
            else each
            for each in literal.arguments
        )
        yield replace(literal, arguments=tuple(terms))


# ── Diagnostics ──────────────────────────────────────────────────────────────────────────────────


def _cannot_add_up(rule: Rule, body: Iterable[Literal], found: Diagnostics) -> None:
    first = next(each for each in body if isinstance(each, Disjunction | Choice))
    found.add(
        "C015",
        f"`{rule.head.relation}` sums within its recursion, but several alternatives of this "
        "rule can find the same solution",
        first.span or rule.span,
        help="make the alternatives exclude each other with `if`, or move them to a relation "
        "that does not depend on the recursion",
    )
