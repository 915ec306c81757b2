"""A body around a layout: what is connected with one side of it, with the other, and tests of both.

    tc(A, B), A > 10, w(B, V), V < 5, B - A > 100      A > 10 | w(B, V), V < 5 | B - A > 100

`split_body` takes a body apart around an atom, `around` finds the atom of a rule that it falls
apart around. Each side is a rule of its own. A body may fall apart by itself, with a layout among
the tests, n(A), n(B), ~tc(A, B): `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.columns.folded_relation import FoldedRelation
from caladan.fixpoint.shapes.pairs import (
    Declined,
)
from caladan.plan.literals import (
    CoreLiteral,
    body_rule,
    connect,
    inline_definitions_in,
    is_positive,
    literal_names,
    without,
)
from caladan.plan.recursion import Split, is_of_one_kind
from caladan.program import Comparison, Type, Variable
from caladan.rules.body import names
from caladan.rules.program import DeltaRule


@dataclass(frozen=True, slots=True)
class Halves:
    """A body around a folded atom: the rules for the tuples of its sides, and tests of both.

    The heads of the rules begin with the columns of the atom's side. In one that `is_free` the atom
    is negated, and nothing but tests connects the sides: any two of their tuples may be a solution.
    """

    rule: CoreRule
    relation: str
    left: CoreRule
    right: CoreRule
    tests: tuple[CoreLiteral, ...]
    is_free: bool = False


def split_body(
    rule: CoreRule,
    atom: CoreAtom,
    columns: Split,
    info: RelationInfo,
    wanted: frozenset[str] | None,
    whole: Sequence[CoreAtom],
) -> Halves | None:
    """The parts of a body around an atom with columns on either side.

    Its tuples have all variables, or those that are `wanted`. Atoms
    that are to stay `whole` are layouts too.
    """
    types = dict(rule.types)
    literals: list[CoreLiteral] = [a for a in rule.atoms if a is not atom]
    literals += rule.comparisons
    own: list[Variable] = []
    for column, term in zip(info.columns, atom.arguments, strict=True):
        fresh = Variable(f"{column.name}'")
        if isinstance(term, Variable) and term not in own:
            own.append(term)
        else:
            types[fresh.name] = column.type
            own.append(fresh)
            literals.append(Comparison("=", fresh, term))
    sides = columns.carried, columns.node
    reach = [{own[c].name for c in side} for side in sides]
    parts: tuple[list[CoreLiteral], list[CoreLiteral]] = ([], [])
    rest = _bound(literals, reach, parts, types, whole)
    tests = _divide(rest, reach, parts)
    if tests is None:
        return None
    asked = literal_names(*tests) if wanted is None else literal_names(*tests) | wanted
    rules: list[CoreRule] = []
    for side, mine, known in zip(sides, parts, reach, strict=True):
        first = [own[c].name for c in side]
        others = sorted((known if wanted is None else known & asked) - {*first})
        terms = [
            own[c] if c in side else Variable(f"{column.name}''")
            for c, column in enumerate(info.columns)
        ]
        beside = [c for c in range(info.arity) if c not in side]
        unread = {f"{info.columns[c].name}''": info.columns[c].type for c in beside}
        mine_only = {name: type for name, type in types.items() if name in known}
        rules.append(
            replace(
                rule,
                arguments=tuple(map(Variable, (*first, *others))),
                atoms=(CoreAtom(atom.relation, tuple(terms)), *_atoms(mine)),
                comparisons=tuple(each for each in mine if isinstance(each, Comparison)),
                types=mine_only | unread,
                order=(),
                limit=None,
            )
        )
    return Halves(rule, atom.relation, rules[0], rules[1], tuple(tests))


def spelled_out(rule: DeltaRule) -> DeltaRule:
    """A rule without variables that are defined: what they are stands in their place."""
    core, (columns, keys) = inline_definitions_in(rule.rule, (rule.body.columns, rule.body.keys))
    return replace(rule, rule=core, body=replace(rule.body, columns=columns, keys=keys))


def sides_of(folded: FoldedRelation) -> Split:
    """The columns of a layout, those of its rows first."""
    return Split(folded.first.columns, folded.second.columns)


def around(
    rule: DeltaRule,
    relations: Mapping[str, RelationInfo],
    sides: Callable[[CoreAtom], Split | None],
) -> tuple[CoreAtom, Halves]:
    """The folded atom that a body falls apart around, and its parts; declines if there is none."""
    core = rule.rule
    large = [a for a in core.positive if sides(a) is not None]
    refused = [a for a in refusals(core) if sides(a) is not None]
    if not (large or refused) or core.order or core.limit is not None:
        raise Declined("its rules read no layout")
    if not is_of_one_kind(core, relations, with_head=False):
        raise Declined("its variables have values of several kinds")
    wanted = None if core.has_aggregates else names(*rule.body.columns)
    if not large:
        return refused[0], _free(core, refused[0], wanted)
    for atom in large:
        mine = sides(atom)
        assert mine is not None
        body = split_body(core, atom, mine, relations[atom.relation], wanted, large)
        if body is not None and all(a is atom or any(a is t for t in body.tests) for a in large):
            return atom, body  # no other layout is listed for a side
    raise Declined("its rules join layouts with each other")


def refusals(rule: CoreRule) -> list[CoreAtom]:
    """The negated atoms of a body of two parts, ~tc(X, Y) of n(X), m(Y), if they connect these."""
    near, far = _split_unconnected(rule)
    if not far:
        return []
    one, other = literal_names(*near), literal_names(*far)
    negated = (a for a in rule.atoms if a.negated and literal_names(a) <= one | other)
    return [a for a in negated if literal_names(a) & one and literal_names(a) & other]


def _split_unconnected(rule: CoreRule) -> tuple[list[CoreLiteral], list[CoreLiteral]]:
    """The atoms that are connected with the first, and all others, if those are one part more."""
    positive = list(rule.positive)
    if not positive:
        return [], []
    near, _ = connect(positive, literal_names(positive[0]))
    far = without(positive, near)
    part, _ = connect(far, literal_names(*far[:1]))
    return near, (far if len(part) == len(far) else [])


def _divide(
    literals: Sequence[CoreLiteral],
    reach: Sequence[Set[str]],
    parts: tuple[list[CoreLiteral], list[CoreLiteral]],
) -> list[CoreLiteral] | None:
    """Give each part its literals; those of both are tests, and None says that some are of none."""
    tests: list[CoreLiteral] = []
    for literal in literals:
        mine = literal_names(literal)
        if mine <= reach[0] or mine <= reach[1]:
            parts[0 if mine <= reach[0] else 1].append(literal)
        elif mine <= reach[0] | reach[1]:
            tests.append(literal)
        else:
            return None
    return tests


def _free(rule: CoreRule, atom: CoreAtom, wanted: frozenset[str] | None) -> Halves:
    """A body of two parts, with what is tested of both."""
    parts = _split_unconnected(rule)
    reach = [literal_names(*part) for part in parts]
    rest = without([*rule.atoms, *rule.comparisons], [*parts[0], *parts[1]])
    tests = _divide(rest, reach, parts)
    if tests is None:
        raise Declined("its rules read no layout")
    asked = literal_names(*tests) | (wanted or frozenset())
    rules = [
        body_rule(rule, part, sorted(known if wanted is None else known & asked))
        for part, known in zip(parts, reach, strict=True)
    ]
    assert rules[0] is not None
    assert rules[1] is not None
    return Halves(rule, atom.relation, rules[0], rules[1], tuple(tests), is_free=True)


def _bound(
    literals: Sequence[CoreLiteral],
    reach: list[set[str]],
    parts: tuple[list[CoreLiteral], list[CoreLiteral]],
    types: dict[str, Type],
    whole: Sequence[CoreAtom],
) -> list[CoreLiteral]:
    """Put what binds variables to the side that it is connected with; what is left."""
    rest = list(literals)

    def moved(binds: Callable[[CoreLiteral], bool], *, alone: bool = False) -> bool:
        for literal in rest:
            mine = literal_names(literal)
            found = [i for i in (0, 1) if mine & reach[i]]
            if binds(literal) and (len(found) == 1 or (alone and not found)):
                side = found[0] if found else 0
                parts[side].append(literal)
                reach[side] |= mine
                rest[:] = [each for each in rest if each is not literal]
                return True
        return False

    own = [{*names} for names in reach]

    def parts_ways() -> bool:
        """Put an atom that finds the same for both sides to the one whose own columns it has."""
        for literal in rest:
            mine = literal_names(literal)
            sides = [i for i in (0, 1) if mine & own[i]]
            if not is_positive(literal) or len(sides) != 1 or any(literal is a for a in whole):
                continue
            assert isinstance(literal, CoreAtom)
            (side,) = sides
            twice = (mine & reach[1 - side]) - reach[side]
            renamed = {Variable(n): Variable(f"{n}'{side}") for n in twice}
            terms = tuple(
                renamed.get(t, t) if isinstance(t, Variable) else t for t in literal.arguments
            )
            types.update({f"{n}'{side}": types[n] for n in twice})
            rest[:] = [each for each in rest if each is not literal]
            rest.extend(Comparison("=", one, other) for one, other in renamed.items())
            found = replace(literal, arguments=tuple(terms))
            parts[side].append(found)
            reach[side] |= literal_names(found)
            return True
        return False

    while (
        moved(is_positive) or moved(_is_equality) or moved(is_positive, alone=True) or parts_ways()
    ):
        pass
    return rest


def _is_equality(literal: CoreLiteral) -> bool:
    return isinstance(literal, Comparison) and literal.operator == "="


def _atoms(literals: Sequence[CoreLiteral]) -> tuple[CoreAtom, ...]:
    return tuple(each for each in literals if isinstance(each, CoreAtom))
