"""Demand: only what the goals ask for is evaluated.

`demand(checked, wanted)` drops the rules no goal leads to, and rewrites the rules of relations that
are needed only for certain bindings (the magic-set transformation). For `query tc(1, B)`:

    demand_tc_bf(1).
    tc_bf(A, B) <- demand_tc_bf(A), arc(A, B).
    tc_bf(A, B) <- demand_tc_bf(A), tc_bf(A, C), arc(C, B).

and where a body passes bindings on, a rule for the demand. Recursions that would go against their
bindings are turned round first (direction.py), and what a recursion asks of another one that it
reads is told by images (images.py). A rewriting must not draw a relation into the
recursion of a relation whose final values it needs; where it would, that relation is evaluated
whole. So is one whose demand would go on for ever although its facts end: `n(Y) <- n(X), Y = X + 1,
Y <= 9` has ten facts, but 9 asks for 8, 0 for -1, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from caladan.analysis.core import (
    Checked,
    CoreAtom,
    CoreGoal,
    CoreRule,
    Facts,
    OpenFacts,
    RelationInfo,
    Term,
    with_open,
)
from caladan.analysis.monotone import computes, may_not_end
from caladan.analysis.pcg import AndNode, Pcg, settle
from caladan.analysis.schedule import reach
from caladan.analysis.strata import restratify, strata
from caladan.program import Comparison, Constant, Type, Value, Variable
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import fresh


@dataclass(frozen=True, slots=True)
class DemandProgram:
    """The program that is evaluated, and the PCG it was made by."""

    checked: Checked
    pcg: Pcg
    wanted: tuple[str, ...]


def demand(
    checked: Checked, wanted: Iterable[str] | None = None, enabled: bool = True
) -> DemandProgram:
    """What has to be evaluated for the goals and for the wanted relations.

    Without goals and wanted relations that is every derived relation.
    """
    derived = [n for n, r in checked.relations.items() if r.is_derived and not r.is_internal]
    if wanted is None:
        wanted = () if checked.goals else derived
    wanted = tuple(wanted)
    whole: set[str] = set() if enabled else set(checked.relations)
    while True:
        pcg = settle(checked, wanted, whole)
        if not pcg.binds:
            return DemandProgram(_Rewrite(pcg).result(), pcg, wanted)
        from caladan.analysis.direction import turn_recursions  # most small programs bind nothing
        from caladan.analysis.images import with_images

        turned = turn_recursions(pcg)
        if turned is not checked:
            pcg = settle(turned, wanted, whole)
        rewriting = _Rewrite(pcg)
        asking = rewriting.demands
        demanded = with_images(turned, rewriting.result(), rewriting.patterns, asking)
        clash = _clashes(turned, demanded, asking) | _find_growing(turned, demanded, asking)
        if not clash:
            return DemandProgram(demanded, pcg, wanted)
        whole |= clash


def _clashes(before: Checked, after: Checked, asking: Collection[str]) -> set[str]:
    """Relations that must be evaluated whole for the rewritten program to mean the same.

    Those that are `asking` have what is asked of others.
    """
    found = Diagnostics()
    strata(after.rules, [n for n, r in after.relations.items() if r.is_derived], found)
    if found.errors:
        return {r.origin for r in after.relations.values() if r.is_internal} - {""}
    home = {name: clique for clique in before.cliques for name in clique.relations}
    clash: set[str] = set()
    for clique in after.cliques:
        for rule in clique.rules:
            head = after.relations[rule.head]
            if head.name in asking:
                continue
            for atom in rule.positive:
                read = after.relations[atom.relation]
                if (
                    atom.relation in clique.relations
                    and read.has_aggregates
                    and home[read.origin] is not home[head.origin]
                ):
                    clash.add(read.origin)
    return clash


def _find_growing(before: Checked, after: Checked, asking: Collection[str]) -> set[str]:
    """Relations whose demand computes values from itself, while their own rules do not grow."""
    endless = {
        rule.head
        for clique in before.cliques
        for rule in clique.recursive_rules
        if may_not_end(rule, clique)
    }
    return {
        origin
        for clique in after.cliques
        for rule in clique.recursive_rules
        if rule.head in asking
        for origin in [after.relations[rule.head].origin]
        if origin not in endless and computes(rule, clique) is not None
    }


class _Rewrite:
    def __init__(self, pcg: Pcg) -> None:
        self._pcg = pcg
        self._checked = pcg.source
        self._reached = tuple(pcg.rules)
        taken = set(self._checked.relations)
        self._names: dict[tuple[str, str], str] = {}
        self._demands: dict[tuple[str, str], str] = {}
        for relation, pattern in self._reached:
            if "b" in pattern:
                self._names[relation, pattern] = fresh(f"{relation}_{pattern}", taken)
                self._demands[relation, pattern] = fresh(f"demand_{relation}_{pattern}", taken)
        self._rules: list[CoreRule] = []
        self._seeds: dict[str, dict[tuple[Value, ...], None]] = {}
        self._open: dict[str, dict[tuple[Constant, ...], None]] = {}

    @property
    def demands(self) -> frozenset[str]:
        """The relations that have what is asked of others."""
        return frozenset(self._demands.values())

    @property
    def patterns(self) -> dict[str, str]:
        """The bindings of those that are asked for."""
        return {name: pattern for (_, pattern), name in self._names.items()}

    def result(self) -> Checked:
        # The roots of the goals come first.
        pairs = zip(self._checked.goals, self._pcg.roots, strict=False)
        goals = tuple(self._goal(goal, root.evaluated) for goal, root in pairs)
        for nodes in self._pcg.rules.values():
            for node in nodes:
                self._rewrite(node)
        relations = self._relations()
        facts, open_facts = self._facts()
        asked = replace(self._checked, goals=goals, facts=facts, open_facts=open_facts)
        return restratify(asked, relations, self._rules)

    # The store: relations and facts

    def _relations(self) -> dict[str, RelationInfo]:
        relations: dict[str, RelationInfo] = {}
        for relation, pattern in self._reached:
            info = self._checked.relations[relation]
            if "b" not in pattern:
                relations[relation] = info
                continue
            name, needed = self._names[relation, pattern], self._demands[relation, pattern]
            relations[needed] = RelationInfo(
                needed,
                tuple(_bound(info.columns, pattern)),
                takes_data=False,
                is_derived=True,
                aggregates=(None,) * pattern.count("b"),
                origin=relation,
                is_internal=True,
            )
            relations[name] = replace(info, name=name, is_internal=True)
        return relations

    def _facts(self) -> tuple[Facts, OpenFacts]:
        open_facts = {name: tuple(rows) for name, rows in self._open.items()}
        facts = dict(
            with_open({name: tuple(rows) for name, rows in self._seeds.items()}, open_facts)
        )
        for relation, pattern in self._reached:
            name = self._names.get((relation, pattern), relation)
            if relation in self._checked.facts:
                facts[name] = self._checked.facts[relation]
            if relation in self._checked.open_facts:
                open_facts[name] = self._checked.open_facts[relation]
        return facts, open_facts

    def _goal(self, goal: CoreGoal, pattern: str) -> CoreGoal:
        if "b" not in pattern:
            return goal
        self._seed((goal.relation, pattern), goal.arguments)
        return replace(goal, relation=self._names[goal.relation, pattern])

    def _seed(self, part: tuple[str, str], arguments: tuple[Term, ...]) -> None:
        row = tuple(a for a in _bound(arguments, part[1]) if isinstance(a, Constant))
        name = self._demands[part]
        if any(constant.placeholder is not None for constant in row):
            self._open.setdefault(name, {})[row] = None
        else:
            self._seeds.setdefault(name, {})[tuple(constant.value for constant in row)] = None

    # The rules

    def _rewrite(self, node: AndNode) -> None:
        rule, pattern = node.rule, node.pattern
        parts = {i: node.children[i].part for i in node.order if "b" in node.children[i].evaluated}
        atoms = tuple(
            replace(a, relation=self._names[parts[i]]) if i in parts else a
            for i, a in enumerate(rule.atoms)
        )
        if "b" not in pattern:
            for i, part in parts.items():
                self._seed(part, rule.atoms[i].arguments)
            self._rules.append(replace(rule, atoms=atoms))
            return
        asked, comparisons, types = self._asked(rule, pattern)
        self._rules.append(
            replace(
                rule,
                head=self._names[rule.head, pattern],
                atoms=(asked, *atoms),
                comparisons=comparisons,
                types=types,
            )
        )
        for i, part in parts.items():
            before = tuple(atoms[j] for j in node.order[: node.order.index(i)])
            self._pass_on(rule, part, rule.atoms[i], (asked, *before), comparisons, types)

    def _asked(
        self, rule: CoreRule, pattern: str
    ) -> tuple[CoreAtom, tuple[Comparison, ...], Mapping[str, Type]]:
        """The atom that lets a rule derive only what is asked for."""
        info = self._checked.relations[rule.head]
        comparisons, types = list(rule.comparisons), dict(rule.types)
        arguments: list[Term] = []
        for i, (argument, letter) in enumerate(zip(rule.arguments, pattern, strict=True)):
            if letter == "f":
                continue
            if isinstance(argument, Variable | Constant):
                arguments.append(argument)
                continue
            stand_in = Variable(fresh(f"_d{i + 1}", set(types)), argument.span)
            types[stand_in.name] = info.columns[i].type
            comparisons.append(Comparison("=", stand_in, argument, argument.span))
            arguments.append(stand_in)
        atom = CoreAtom(self._demands[rule.head, pattern], tuple(arguments), span=rule.span)
        return atom, tuple(comparisons), types

    def _pass_on(
        self,
        rule: CoreRule,
        part: tuple[str, str],
        atom: CoreAtom,
        before: tuple[CoreAtom, ...],
        comparisons: tuple[Comparison, ...],
        types: Mapping[str, Type],
    ) -> None:
        """The rule by which what is asked of the head asks for a part of a body's relation."""
        head = self._demands[part]
        arguments = tuple(_bound(atom.arguments, part[1]))
        if any(b.relation == head and b.arguments == arguments for b in before):
            return
        passing = CoreRule(rule.number, head, arguments, before, comparisons, types, span=rule.span)
        unplaced = reach(passing).comparisons
        kept = tuple(c for c in comparisons if not any(c is u for u in unplaced))
        self._rules.append(replace(passing, comparisons=kept))


_Item = TypeVar("_Item")


def _bound(items: Iterable[_Item], pattern: str) -> list[_Item]:
    return [item for item, letter in zip(items, pattern, strict=True) if letter == "b"]
