"""The plans of a run's rules: bodies over the relations as they are, some rules in two parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caladan import thresholds
from caladan.analysis.core import CoreAtom, RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.relation import StoredRelation
from caladan.delta.program import DeltaClique, DeltaRule
from caladan.engines.embedded.body import Body, body_of, mismatched
from caladan.engines.embedded.factor import Split, seeded, split
from caladan.engines.embedded.heads import PlainHead
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.state import State
from caladan.engines.embedded.widened import widened_relation
from caladan.operators.tree import Scan
from caladan.program import Variable


class Planner:
    """Makes plans. `search` is the grade of the guided search for cyclic bodies, if they use it."""

    def __init__(
        self, state: State, bodies: Sequence[tuple[DeltaRule, Body]], search: str | None
    ) -> None:
        self._state = state
        self._search = search
        self._bodies = {id(rule): (number, body) for number, (rule, body) in enumerate(bodies)}
        self._rule_numbers = [rule.rule.number for rule, _ in bodies]
        self._parts: list[DeltaRule] = []  # keeps them alive, for they are known by their id

    def body(self, rule: DeltaRule) -> Body:
        """The parts of a rule."""
        return self._bodies[id(rule)][1]

    def plan(self, rule: DeltaRule) -> RulePlan:
        """The plan of a rule as it was written."""
        number, body = self._bodies[id(rule)]
        domains = {name: self._state.classes.variable(number, name) for name in body.kinds}
        return self.made(body, domains, self._state.classes.columns(rule.rule.head))

    def made(
        self, body: Body, domains: Mapping[str, Domain], head: Sequence[Domain] = ()
    ) -> RulePlan:
        """A plan of a body whose variables have these domains."""
        state = self._state

        def absent(scan: Scan) -> StoredRelation:
            relation = state.relation(scan.relation)
            info = state.program.relations[scan.relation]
            if columns := mismatched(scan, info, body.kinds):
                own = state.classes.columns(scan.relation)
                into = {c: domains[name] for c, name in columns.items()}
                return widened_relation(relation, own, into)
            return relation

        relations = {scan.relation: state.relation(scan.relation) for scan in body.atoms}
        columns = state.classes.column
        return RulePlan(body, relations, absent, domains, columns, head, self._search)

    def variable(self, rule: int, name: str) -> Domain | None:
        """The domain that a variable of the rule with that number has, in any of its deltas."""
        for number, known in self._bodies.values():
            if name in known.kinds and self._rule_numbers[number] == rule:
                return self._state.classes.variable(number, name)
        return None

    # ── Rules in two parts ───────────────────────────────────────────────────────────────────────

    def ready(
        self, clique: DeltaClique
    ) -> tuple[tuple[str, ...], list[tuple[DeltaRule, RulePlan]]]:
        """The relations to go round, some of them in between (factor.py), and the rules' plans."""
        splits = self._splits(clique)
        between = {each.relation.name: each.relation for each in splits.values()}
        members = (*clique.relations, *between)
        relations = {**self._state.program.relations, **between}
        plans: list[tuple[DeltaRule, RulePlan]] = []
        done: set[int] = set()
        for rule in clique.delta_rules:
            number, _ = self._bodies[id(rule)]
            parts = splits.pop(id(rule.rule), None)
            if parts is not None:
                for part in (parts.inner, parts.outer):
                    plans += [
                        (each, self._part(each, number, relations))
                        for each in seeded(part, members, relations)
                    ]
                done.add(id(rule.rule))
            elif id(rule.rule) not in done:
                plans.append((rule, self.plan(rule)))
        return members, plans

    def _splits(self, clique: DeltaClique) -> dict[int, Split]:
        """The rules that go in two parts; what is in between gets a head."""
        splits: dict[int, Split] = {}
        for rule in clique.delta_rules:
            number, body = self._bodies[id(rule)]
            if id(rule.rule) not in splits and not body.has_widenings:
                found = split(
                    rule.rule, clique, self._state.program.relations,
                    lambda atom, name, number=number: self._is_selective(atom, name, number),
                )  # fmt: skip
                if found is not None:
                    splits[id(rule.rule)] = found
                    domains = [self._state.classes.variable(number, c.name) for c in found.names]
                    self._state.heads[found.relation.name] = PlainHead(domains)
        return splits

    def _is_selective(self, atom: CoreAtom, name: str, number: int) -> bool:
        """Whether an atom has facts for at most half of the values of a variable."""
        values = self._state.classes.variable(number, name).size
        return thresholds.now.selective * self._state.count(atom.relation) <= values

    def _part(
        self, rule: DeltaRule, number: int, relations: Mapping[str, RelationInfo]
    ) -> RulePlan:
        """The plan of a part of a split rule; its variables are those of the whole."""
        body = body_of(rule, relations)
        domains = {name: self._state.classes.variable(number, name) for name in body.kinds}
        head = rule.rule.head
        known = head in self._state.program.relations
        own = self._state.classes.columns(head) if known else [
            domains[a.name] for a in rule.rule.arguments if isinstance(a, Variable)
        ]  # fmt: skip
        self._bodies[id(rule)] = (number, body)
        self._parts.append(rule)
        return self.made(body, domains, own)
