"""Other forms of rules, for relations that change.

Variants start from a few facts, the seed:

    gained(rule, i)     heads with a solution that has a seed fact at atom i, by what holds now
    lost(rule, i)       heads that may have had one before the change, or have one now
    supporting(rule)    which of the seed's facts, which are facts of the head, the rule derives
    touched(rule, i)    the groups that such solutions belong to, before the change or now
    regrouped(rule)     all solutions of the seed's groups
    best_again(rule)    the same, of a rule with best values, whose amounts nobody tells apart

A fact that a negated atom excludes takes solutions away when it comes, and gives some when it goes:
it stands as a positive atom in the seed's place. What was there before is only approached from
above: other atoms are read as `Version.EITHER`, and negated ones are left out. Whoever asks looks
at what holds now before anything is deleted. An alias is the relation that a seed is: it has (some
of) the columns of its origin.

`linear(program)` makes rules that join their relation with itself read it once, where the pass of
recursion (plan/recursion.py) knows that to be valid. A run goes from doubled paths to doubled
paths, in few rounds. Kept true while facts come and go, such a rule is a burden: a fact takes part
in as many solutions as there are facts on either side of it, and all of them have to be looked at
when it goes. The closure is the same with the facts that the other rules derive, or that somebody
gives, as steps:

    p steps(X, Z) <- …                     the rules of p that are not recursive
    p(X, Z) <- p steps(X, Z).
    p(X, Z) <- p(X, Y), p steps(Y, Z).     for p(X, Z) <- p(X, Y), p(Y, Z)

With the program it gives, by relation, the one that takes what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from caladan.analysis.core import Clique, CoreAtom, CoreRule, RelationInfo, Term
from caladan.plan.recursion import Linear, linearise
from caladan.plan.weights import Refused
from caladan.program import Aggregate, Comparison, Constant, Expression, Type, Variable
from caladan.rules.body import BodyPart, Scan, Version, body_of
from caladan.rules.delta import delta_clique, without_wildcards
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.sums import contributors

Relations = Mapping[str, RelationInfo]


def seed_of(info: RelationInfo) -> RelationInfo:
    """The alias for facts of a relation."""
    return _alias(info, "seed", range(info.arity))


def groups_of(info: RelationInfo) -> RelationInfo:
    """The alias for groups of a relation with aggregates."""
    return _alias(info, "groups", info.group)


def given_of(info: RelationInfo) -> RelationInfo:
    """The alias for the facts that a derived relation is given."""
    return _alias(info, "given", range(info.arity))


def identity(info: RelationInfo, number: int) -> CoreRule:
    """The rule by which what is given is derived."""
    arguments = tuple(Variable(f"{column.name}'") for column in info.columns)
    types = {v.name: column.type for v, column in zip(arguments, info.columns, strict=True)}
    atom = CoreAtom(given_of(info).name, arguments)
    return CoreRule(number, info.name, arguments, (atom,), (), types)


def seed_by_gain(rule: CoreRule, index: int, relations: Relations) -> DeltaRule:
    """A rule that starts from facts which are new to an atom, or gone from a negated one."""
    atom = rule.atoms[index]
    others = [a for i, a in enumerate(rule.atoms) if i != index or atom.negated]
    rule = _positive(rule, index, relations)
    return _seed_rule(rule, _seed(rule, index), others, relations, Version.NEW)


def lost(rule: CoreRule, index: int, relations: Relations) -> DeltaRule:
    """A rule that starts from facts which are gone from an atom, or new to a negated one."""
    rule = _positive(rule, index, relations)
    others = [a for i, a in enumerate(rule.atoms) if i != index and not a.negated]
    return _seed_rule(rule, _seed(rule, index), others, relations, Version.EITHER)


def seed_touched_groups(rule: CoreRule, index: int, relations: Relations) -> DeltaRule:
    """The groups of a rule with aggregates, from facts that are new to an atom or gone from it."""
    info = relations[rule.head]
    groups = tuple(rule.arguments[i] for i in info.group)
    grouping = replace(rule, head=groups_of(info).name, arguments=groups)
    return lost(grouping, index, relations)


def bind_head(
    rule: CoreRule, relations: Relations, members: Sequence[str]
) -> tuple[DeltaRule, tuple[CoreAtom, ...]]:
    """A rule with its head bound, and its atoms of the clique, whose variables it hands on."""
    info = relations[rule.head]
    atom, equal, types = _bound_head(rule, range(info.arity), seed_of(info))
    inside = tuple(a for a in rule.positive if a.relation in members)
    names = dict.fromkeys(name for a in inside for name in a.variables)
    rule = replace(rule, comparisons=(*rule.comparisons, *equal), types={**rule.types, **types})
    keys = tuple(map(Variable, names))
    return _seed_rule(rule, atom, rule.atoms, relations, Version.NEW, keys), inside


def bind_groups(rule: CoreRule, relations: Relations) -> DeltaRule:
    """A rule with aggregates whose groups are bound."""
    info = relations[rule.head]
    alone = Clique((rule.head,), False, 0, (rule,))
    keys, places = contributors(rule, alone, relations)
    if not info.group:
        return DeltaRule(rule, None, body_of(rule, relations, keys=keys), places)
    return replace(best_again(rule, relations, keys), contributors=places)


def best_again(rule: CoreRule, relations: Relations, keys: Sequence[Expression] = ()) -> DeltaRule:
    """A rule whose groups are bound, with whatever its aggregates are fed."""
    info = relations[rule.head]
    atom, equal, types = _bound_head(rule, info.group, groups_of(info))
    rule = replace(rule, comparisons=(*rule.comparisons, *equal), types={**rule.types, **types})
    return _seed_rule(rule, atom, rule.atoms, relations, Version.NEW, keys)


def of_values(rule: CoreRule, relations: Relations) -> CoreRule:
    """A rule with best values as a rule of facts: those of all its solutions, the best or not."""
    columns = relations[rule.head].columns
    types, equal = dict(rule.types), list(rule.comparisons)
    arguments: list[Expression] = []
    for argument, column in zip(rule.arguments, columns, strict=True):
        if isinstance(argument, Aggregate):
            value = argument.terms[-1]
            argument = value
            if not isinstance(value, Variable) or types[value.name] is not column.type:
                argument = Variable(f"{column.name}'best")
                types[argument.name] = column.type
                equal.append(Comparison("=", argument, value))
        arguments.append(argument)
    return replace(rule, arguments=tuple(arguments), comparisons=tuple(equal), types=types)


def _seed_rule(
    rule: CoreRule,
    seed: CoreAtom,
    others: Sequence[CoreAtom],
    relations: Relations,
    version: Version,
    keys: Sequence[Expression] = (),
) -> DeltaRule:
    """A rule that starts from a seed and reads all else in one version."""
    rule = replace(rule, atoms=(seed, *others))

    def read(part: BodyPart) -> BodyPart:
        if not isinstance(part, Scan):
            return part
        return replace(part, version=Version.DELTA if part.relation == seed.relation else version)

    body = body_of(rule, relations, seed=0, keys=keys).changed(read)
    return DeltaRule(rule, 0, body)


def _seed(rule: CoreRule, index: int) -> CoreAtom:
    atom = rule.atoms[index]
    return replace(atom, relation=f"{atom.relation} seed")


def _alias(info: RelationInfo, kind: str, columns: Sequence[int]) -> RelationInfo:
    return RelationInfo(
        f"{info.name} {kind}",  # no name that somebody can write has a blank in it
        tuple(info.columns[i] for i in columns),
        takes_data=False,
        is_derived=False,
        aggregates=(None,) * len(columns),
        origin=info.name,
        is_internal=True,
    )


def _positive(rule: CoreRule, index: int, relations: Relations) -> CoreRule:
    """The rule with an atom that binds whatever it has."""
    atoms = list(rule.atoms)
    atoms[index] = replace(atoms[index], negated=False)
    return without_wildcards(replace(rule, atoms=tuple(atoms)), relations)


def _bound_head(
    rule: CoreRule, columns: Sequence[int], info: RelationInfo
) -> tuple[CoreAtom, list[Comparison], dict[str, Type]]:
    """The head as an atom, with equalities for what is computed in it."""
    arguments: list[Term] = []
    equal: list[Comparison] = []
    types: dict[str, Type] = {}
    for place, i in enumerate(columns):
        argument = rule.arguments[i]
        assert not isinstance(argument, Aggregate)
        if not isinstance(argument, Variable | Constant):
            column = info.columns[place]
            bound = Variable(f"{column.name}'{i}")
            types[bound.name] = column.type
            equal.append(Comparison("=", bound, argument))
            argument = bound
        arguments.append(argument)
    return CoreAtom(info.name, tuple(arguments)), equal, types


def linear(program: DeltaProgram) -> tuple[DeltaProgram, Mapping[str, str]]:
    """A program whose closures are linear."""
    steps: dict[str, str] = {}
    relations = dict(program.relations)
    places = count(1 + max((rule.rule.place for rule in program.rules), default=0))
    cliques: list[DeltaClique] = []
    for clique in program.cliques:
        chains = _chains(clique, program.relations)
        if chains is None:
            cliques.append(clique)
            continue
        (name,) = clique.relations
        info = _steps(relations[name])
        steps[name] = info.name
        relations[info.name] = info
        for rules in _split(clique, chains, info):
            placed = tuple(replace(rule, place=next(places)) for rule in rules)
            head = placed[0].head
            made = Clique((head,), head == name, clique.stratum, placed)
            cliques.append(delta_clique(made, relations))
    facts = {steps.get(name, name): rows for name, rows in program.facts.items()}
    open_facts = {steps.get(name, name): rows for name, rows in program.open_facts.items()}
    made = replace(
        program, relations=relations, cliques=tuple(cliques), facts=facts, open_facts=open_facts
    )
    return made, steps


def _chains(clique: DeltaClique, relations: Mapping[str, RelationInfo]) -> Linear | None:
    """The recursive rules of a clique with the one atom of each that stays, if some have more."""
    if len(clique.relations) != 1 or not clique.is_recursive or not clique.exit_rules:
        return None
    infos = {name: relations[name] for name in clique.relations}
    rules = [each.rule for each in (*clique.exit_rules, *clique.delta_rules)]
    if any(info.has_aggregates for info in infos.values()):
        return None
    if any(r.order or r.limit is not None for r in rules):
        return None
    recursive: list[CoreRule] = []
    for each in clique.delta_rules:  # a rule with several recursive atoms has several
        if each.rule not in recursive:
            recursive.append(each.rule)
    try:
        found = linearise(recursive, infos, exchange=False)
    except Refused:
        return None
    return found if found.chains else None


def _steps(info: RelationInfo) -> RelationInfo:
    # No name that somebody can write has a blank in it.
    name = f"{info.name} steps"
    return replace(info, name=name, origin=name, is_internal=True, order=())


def _split(clique: DeltaClique, chains: Linear, steps: RelationInfo) -> Iterator[list[CoreRule]]:
    """The rules of the steps, and those of the closure."""
    yield [replace(each.rule, head=steps.name) for each in clique.exit_rules]
    (name,) = clique.relations
    first = identity(steps, clique.delta_rules[0].rule.number)
    arguments = tuple(a for a in first.arguments if isinstance(a, Variable))
    found = [replace(first, head=name, atoms=(CoreAtom(steps.name, arguments),))]
    for rule, (kept, *_) in chains.rules:
        atoms = (
            replace(a, relation=steps.name) if a.relation == name and a is not kept else a
            for a in rule.atoms
        )
        found.append(replace(rule, atoms=tuple(atoms)))
    yield found
