"""Which cliques have a special structure: decided from the rules, before any data is seen.

`recognise` looks at the recursive rules of a clique of plain relations.

    Reachability  p(Y) <- q(X), step(X, Y)
    Closure       p(X, Z) <- q(X, Y), step(Y, Z)           carries X
                  p(X, Z) <- step(X, Y), q(Y, Z)           carries Z
                  p(X, Z) <- p(X, Y), p(Y, Z)              doubles
                  p(X, Z, N + 1) <- q(X, Y, N), step(Y, Z) explores
    Generations   p(X, Y) <- l(A, X), q(A, B), r(B, Y)     steps both
                  p(X, Y) <- q(Y, X), X < Y                crosses
                  p(X, Z) <- p(X, Y), q(Y, Z), X < Z       joins
    Distances     p(X, Z, mmin<D>) <- p(X, Y, E), step(Y, Z, W), D = E + W
    Labels        p(Y, mmin<Z>) <- p(X, Z), step(X, Y)

p and q are relations of the clique, the same one or others: odd and even, or the states of a
regular path query. X, Y and Z of `Closure` stand for any number of columns, of any types, some of
them constants. `step`, `l` and `r` stand for whatever else the body holds: one atom or several,
negations and comparisons, as long as it falls apart along the variables as shown. Each becomes a
rule of its own (`CoreRule`), which the generic evaluator solves before the shape starts: a step
along a path of atoms, `a(Y, W), b(W, Z)`, becomes several `links`, which are never joined. Literals
on the carried columns alone, such as the demand of a bound query or `X > 10`, are a condition on
the facts that a rule applies to; those that connect the carried columns with one end of a step,
such as `X ~= Z`, are tested as it is taken. Exit rules may be of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.program import (
    Variable,
)
from caladan.program.kinds import kind_of
from caladan.rules.program import DeltaClique
from caladan.rules.shapes.forms import (
    Closure,
    Reachability,
    Shape,
    Sides,
)
from caladan.rules.shapes.literals import (
    are_apart,
    connected,
    literal_names,
    named,
    simplified,
    without,
)
from caladan.rules.shapes.paces import generations_of, swaps
from caladan.rules.shapes.steps import entry, step_of
from caladan.rules.shapes.weights import weighted
from caladan.rules.variants import doubles


def recognise(clique: DeltaClique, relations: Mapping[str, RelationInfo]) -> Shape | None:
    """The shape of a clique, if it has one."""
    infos = [relations[name] for name in clique.relations]
    rules = _distinct(simplified(d.rule) for d in clique.delta_rules)
    if not clique.is_recursive or any(rule.order or rule.limit is not None for rule in rules):
        return None
    if not all(is_of_one_kind(rule, relations) for rule in rules):
        return None
    if len(infos) == 1 and infos[0].has_aggregates:
        return weighted(infos[0], rules)
    if any(i.has_aggregates for i in infos):
        return None
    if all(i.arity == 1 for i in infos):
        return _reached(clique.relations, rules)
    paced = generations_of(infos, rules)
    if paced is not None and paced.is_even:
        return paced
    found = _carried(infos, rules)
    if found is None or (
        paced is not None and paced.is_uneven and any(step.explores for step in found.steps)
    ):
        return paced  # what both sides carry tells few sources apart
    return found


def is_of_one_kind(
    rule: CoreRule, relations: Mapping[str, RelationInfo], *, with_head: bool = True
) -> bool:
    """Whether variables have the kind of all columns they stand in: words can be compared."""
    places = [(atom.relation, atom.arguments) for atom in rule.atoms]
    head = [(rule.head, rule.arguments)] if with_head else []
    return all(
        kind_of(rule.types[argument.name]) is kind_of(column.type)
        for name, arguments in (*places, *head)
        for argument, column in zip(arguments, relations[name].columns, strict=True)
        if isinstance(argument, Variable) and not argument.is_anonymous
    )


def _reached(relations: tuple[str, ...], rules: list[CoreRule]) -> Reachability | None:
    steps = [step_of(rule, dict.fromkeys(relations, Sides((), (0,)))) for rule in rules]
    # To explore where it leads is to go there in rounds.
    found = tuple(step for step in steps if step is not None and not step.explores)
    return Reachability(relations, found) if len(found) == len(rules) else None


def _carried(infos: list[RelationInfo], rules: list[CoreRule]) -> Closure | None:
    relations = tuple(info.name for info in infos)
    alone = len(infos) == 1 and infos[0].arity == 2
    doubling = [r for r in rules if alone and doubles(r, relations[0])]
    swapping = [r for r in rules if alone and swaps(r, relations[0])]
    linear = [r for r in rules if all(r is not other for other in (*doubling, *swapping))]
    single = rules[0] if alone and len(rules) == len(linear) == 1 else None
    if single is not None and (found := _unfolded(single, relations[0])) is not None:
        return found
    if any(_is_joined(rule, relations) for rule in linear):
        return _chained(relations[0], rules) if len(relations) == 1 else None
    otherwise: Closure | None = None
    for sides in _possible_sides(infos, linear):
        steps = [step_of(rule, sides) for rule in linear]
        turned = {name: each.turned for name, each in sides.items()}
        back = [
            step_of(rule, turned) if step is None else None
            for rule, step in zip(linear, steps, strict=True)
        ]
        if any(s is None and b is None for s, b in zip(steps, back, strict=True)):
            continue
        behind = tuple(step for step in back if step is not None)
        if behind and len(relations) > 1:
            continue
        ahead = tuple(step for step in steps if step is not None)
        both = (*ahead, *behind)
        if (behind or doubling or swapping) and not all(
            s.is_open and not s.is_tested for s in both
        ):
            continue
        # Where all rules step behind, the sides turned round have them step ahead.
        if (doubling or swapping or not ahead) and any(step.explores for step in both):
            continue
        if len({len(each.stepping) for each in sides.values()}) > 1 or any(
            step.explores for step in ahead
        ):
            ahead = tuple(replace(step, links=(), explores=True) for step in ahead)
            otherwise = otherwise or Closure(relations, sides, ahead, behind)
        else:
            return Closure(relations, sides, ahead, behind, bool(doubling), bool(swapping))
    return otherwise


def _unfolded(rule: CoreRule, relation: str) -> Closure | None:
    """A doubling rule with conditions, as one that steps by exit facts.

    p(X, Z) <- p(X, Y), p(Y, Z) gives X whatever a path of exit facts leads to. So it still is with
    conditions on X and Y alone, for they hold from the first step on, or on Y and Z alone, seen
    from the other end. X ~= Z brings nothing else: a path without detours never comes back to X.
    """
    mine = [a for a in rule.atoms if a.relation == relation]
    if len(mine) != 2 or any(a.negated for a in mine):
        return None
    bare = replace(rule, atoms=tuple(mine), comparisons=())
    for first, second in (mine, mine[::-1]):
        if not doubles(replace(bare, atoms=(first, second)), relation):
            continue
        (x, y), (_, z) = named(first.arguments), named(second.arguments)
        literals = without([*rule.atoms, *rule.comparisons], mine)
        apart = [c for c in literals if are_apart(c, x, z)]
        rest = without(literals, apart)
        for sides, atom, near, far in (
            (Sides((0,), (1,)), first, x, z),
            (Sides((1,), (0,)), second, z, x),
        ):
            _, names = connected(rest, (near, y))
            at_near, _ = connected(rest, (near,))
            at_middle, between = connected(without(rest, at_near), (y,))
            if far in names or near in between or y in literal_names(*at_near):
                continue
            if len(at_near) + len(at_middle) < len(rest):
                continue
            step = step_of(rule, {relation: sides}, atom)
            if step is not None and not step.explores:
                return Closure((relation,), {relation: sides}, (step,), exits=True)
    return None


def _is_joined(rule: CoreRule, relations: tuple[str, ...]) -> bool:
    """Whether a rule joins relations of a clique with each other."""
    return sum(a.relation in relations for a in rule.positive) > 1


def _chained(relation: str, rules: list[CoreRule]) -> Closure | None:
    """Rules that join a relation with itself as steps by its exit facts, with others that step."""
    chains = [
        _chain(rule, relation, alone=len(rules) == 1) if _is_joined(rule, (relation,)) else None
        for rule in rules
    ]
    for sides in next((chain for chain in chains if chain is not None), {}):
        steps = [
            step_of(rule, {relation: sides}, None if chain is None else chain[sides])
            for rule, chain in zip(rules, chains, strict=True)
            if chain is None or sides in chain
        ]
        found = tuple(step for step in steps if step is not None and not step.explores)
        # What is open to some may be reached from others, through a fact of these.
        if len(found) == len(rules) and all(s.is_open and not s.is_tested for s in found):
            return Closure((relation,), {relation: sides}, found, exits=True)
    return None


def _chain(rule: CoreRule, relation: str, *, alone: bool) -> dict[Sides, CoreAtom]:
    """What a rule may carry, and from which atom, if its recursive atoms form a chain.

    p(K, X, Z) <- p(K, X, Y), w(Y, V), p(K, V, Z) gives, for each K, whatever a path of exit facts
    with a w between any two leads to. With three atoms or more nothing may stand between, or the
    rule may not say where; and what others add to a path would have to come in pairs.
    """
    mine = [a for a in rule.positive if a.relation == relation]
    head = rule.arguments
    fixed = {i for i, term in enumerate(head) if all(a.arguments[i] == term for a in mine)}
    free = [i for i in range(len(head)) if i not in fixed]
    names = {*named(head[i] for i in free)}
    at_end = [(a, tuple(i for i in free if a.arguments[i] == head[i])) for a in mine]
    outer = [(a, columns) for a, columns in at_end if columns]
    inner = (a.arguments[i] for a, columns in at_end for i in free if i not in columns)
    rest = without([*rule.atoms, *rule.comparisons], mine)
    if (
        len(names) < len(free)
        or sorted(c for _, columns in outer for c in columns) != free
        or len(outer) != 2
        or names & {*named(inner), *literal_names(*rest)}
    ):
        return {}
    (first, begin), (last, end) = outer
    if len(mine) > 2 and not (alone and not rest and _is_path(mine, first, last, begin, end)):
        return {}
    return {
        Sides(columns, tuple(i for i in range(len(head)) if i not in columns)): atom
        for atom, columns in outer
    }


def _is_path(
    atoms: list[CoreAtom],
    first: CoreAtom,
    last: CoreAtom,
    begin: tuple[int, ...],
    end: tuple[int, ...],
) -> bool:
    """Whether each atom ends in what another one begins with, from the first to the last."""
    at, left = first, [a for a in atoms if a is not first]
    while at is not last:
        reached = tuple(at.arguments[i] for i in end)
        after = [a for a in left if tuple(a.arguments[i] for i in begin) == reached]
        if len(after) != 1:
            return False
        at, left = after[0], [a for a in left if a is not after[0]]
    return not left


def _possible_sides(
    infos: list[RelationInfo], rules: list[CoreRule]
) -> Iterator[Mapping[str, Sides]]:
    """The ways to part the columns of relations, those first that all rules agree upon."""
    (first, *others) = infos
    if not rules:
        yield from [{first.name: Sides((0,), (1,))}] if first.arity == 2 else []
        return
    shared = _pivots(infos, rules)
    options = [shared]
    if not others:
        each = [_pivots(infos, [rule]) for rule in rules]
        every = [{first.name: column} for column in range(first.arity)]
        options += [*each, *([c for c in every if c not in some] for some in each)]
    # A column that a step reads cannot be carried, even if it stays the same: it steps along.
    options += [
        [c for c in shared if c not in some] for n in (1, 2) for some in combinations(shared, n)
    ]
    for chosen in (each for i, each in enumerate(options) if each not in options[:i]):
        sides: dict[str, Sides] = {}
        for info in infos:
            carried = tuple(each[info.name] for each in chosen)
            stepping = tuple(c for c in range(info.arity) if c not in carried)
            sides[info.name] = Sides(carried, stepping)
        if all(each.carried and each.stepping for each in sides.values()):
            yield sides


def _pivots(infos: list[RelationInfo], rules: list[CoreRule]) -> list[dict[str, int]]:
    """Columns of relations that all rules with one recursive atom hand on as they are."""
    found: list[dict[str, int]] = []
    names = [info.name for info in infos]
    for column in range(infos[0].arity):
        taken = {name: {each[name] for each in found} for name in names}
        pivot = _spread({names[0]: column}, names, rules, taken)
        if pivot is not None:
            found.append(pivot)
    return found


def _spread(
    pivot: dict[str, int],
    names: list[str],
    rules: list[CoreRule],
    taken: Mapping[str, set[int]],
) -> dict[str, int] | None:
    """A column of every relation, from that of one; None if a rule does not hand it on."""
    grown = True
    while grown:
        grown = False
        for rule in rules:
            mine = [a for a in rule.atoms if a.relation in names]
            if len(mine) != 1:
                return None
            ends = (mine[0].relation, mine[0].arguments), (rule.head, rule.arguments)
            for (one, given), (other, terms) in (ends, ends[::-1]):
                if one not in pivot:
                    continue
                term = given[pivot[one]]
                places = [i for i, t in enumerate(terms) if t == term and i not in taken[other]]
                places.sort(key=lambda i, one=one: i != pivot[one])
                if other not in pivot and places:
                    pivot[other] = places[0]
                    grown = True
                if pivot.get(other) not in places:
                    return None
    return pivot if pivot.keys() == {*names} else None


def _distinct(rules: Iterable[CoreRule]) -> list[CoreRule]:
    """A rule with several recursive atoms has several delta rules."""
    found: list[CoreRule] = []
    for rule in rules:
        if not any(rule is other or rule == other for other in found):
            found.append(rule)
    return found


def entered(
    shape: Shape | None,
    clique: DeltaClique,
    relations: Mapping[str, RelationInfo],
    is_large: Callable[[CoreAtom], bool],
) -> Closure | None:
    """A closure that takes the exit rules itself, where these read closures; None if there is none.

    A clique that is not recursive has such a shape if its rules join closures.
    """
    (name, *others) = clique.relations
    read = [sum(map(is_large, rule.rule.positive)) for rule in clique.exit_rules]
    if shape is None and not clique.is_recursive and max(read, default=0) > 1:
        shape = Closure((name,), {name: Sides((0,), (1,))}, ())
    info = relations[name]
    if not isinstance(shape, Closure) or others or not any(read) or info.has_aggregates:
        return None
    if shape.doubles or shape.back or shape.swaps or shape.exits:
        return None
    if any(step.is_tested or not step.is_open or step.explores for step in shape.steps):
        return None
    sides = shape.sides[name]
    if info.arity != len(sides.carried) + len(sides.stepping):
        return None
    found = [entry(rule.rule, sides) for rule in clique.exit_rules]
    entries = tuple(each for each in found if each is not None)
    return replace(shape, entries=entries) if len(entries) == len(found) else None
