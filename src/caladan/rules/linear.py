"""Linear closures: p(X, Z) <- p(X, Y), p(Y, Z) said with one recursive atom.

A run goes from doubled paths to doubled paths, in few rounds. Kept true while facts come and go,
such a rule is a burden: a fact takes part in as many solutions as there are facts on either side of
it, and all of them have to be looked at when it goes. The closure is the same with the facts that
the other rules derive, or that somebody gives, as steps:

    p steps(X, Z) <- …                     the rules of p that are not recursive
    p(X, Z) <- p steps(X, Z).
    p(X, Z) <- p(X, Y), p steps(Y, Z).

`linear(program)` gives the program, and by relation the one that takes what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from caladan.analysis.core import Clique, CoreAtom, CoreRule, RelationInfo
from caladan.program import Variable
from caladan.rules.delta import delta_clique
from caladan.rules.program import DeltaClique, DeltaProgram


def linear(program: DeltaProgram) -> tuple[DeltaProgram, Mapping[str, str]]:
    """A program whose closures are linear."""
    steps: dict[str, str] = {}
    relations = dict(program.relations)
    places = count(1 + max((rule.rule.place for rule in program.rules), default=0))
    cliques: list[DeltaClique] = []
    for clique in program.cliques:
        if not _is_doubled(clique, program.relations):
            cliques.append(clique)
            continue
        (name,) = clique.relations
        info = _steps(relations[name])
        steps[name] = info.name
        relations[info.name] = info
        for rules in _split(clique, info):
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


def _is_doubled(clique: DeltaClique, relations: Mapping[str, RelationInfo]) -> bool:
    if len(clique.relations) != 1 or not clique.is_recursive or not clique.exit_rules:
        return False
    (name,) = clique.relations
    rules = [each.rule for each in (*clique.exit_rules, *clique.delta_rules)]
    if relations[name].has_aggregates or any(r.order or r.limit is not None for r in rules):
        return False
    return all(doubles(each.rule, name) for each in clique.delta_rules)


def _steps(info: RelationInfo) -> RelationInfo:
    # No name that somebody can write has a blank in it.
    name = f"{info.name} steps"
    return replace(info, name=name, origin=name, is_internal=True, order=())


def _split(clique: DeltaClique, steps: RelationInfo) -> Iterator[list[CoreRule]]:
    """The rules of the steps, and those of the closure."""
    yield [replace(each.rule, head=steps.name) for each in clique.exit_rules]
    double = clique.delta_rules[0].rule
    x, z = double.arguments
    first = next(atom for atom in double.atoms if atom.arguments[0] == x)
    y = first.arguments[1]
    assert isinstance(x, Variable) and isinstance(y, Variable) and isinstance(z, Variable)
    yield [
        replace(double, atoms=(CoreAtom(steps.name, (x, z)),)),
        replace(double, atoms=(first, CoreAtom(steps.name, (y, z)))),
    ]


def doubles(rule: CoreRule, relation: str) -> bool:
    """p(X, Z) <- p(X, Y), p(Y, Z), in either order of the atoms, and nothing else."""
    if rule.comparisons or len(rule.atoms) != len(rule.arguments) or len(rule.atoms) != 2:
        return False
    if any(a.relation != relation or a.negated for a in rule.atoms):
        return False
    x, z = rule.arguments
    for first, second in (rule.atoms, rule.atoms[::-1]):
        middle = first.arguments[1]
        if (
            isinstance(x, Variable)
            and isinstance(z, Variable)
            and x != z
            and isinstance(middle, Variable)
            and middle not in (x, z)
            and first.arguments[0] == x
            and second.arguments == (middle, z)
        ):
            return True
    return False
