"""A rehearsal: a run that has read its data, and takes the decisions that need no more than that.

Explain asks it (forecast.py); what decides is what decides in a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from math import prod

import pyarrow as pa

from caladan.fixpoint.blueprint import Blueprint
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.planner import Planner
from caladan.fixpoint.shapes.choice import Shaping
from caladan.fixpoint.state import State
from caladan.join.classes import Classes
from caladan.join.walk import SolutionSink
from caladan.program import thresholds
from caladan.program.diagnostics import CaladanError
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaClique


class Rehearsal:
    """A run that has read its data, and not begun."""

    def __init__(
        self,
        plan: Blueprint,
        classes: Classes,
        given: Mapping[str, pa.Table],
        options: Options,
    ) -> None:
        words = classes.encode(given)
        encoded = {name: [(columns, given[name].num_rows)] for name, columns in words.items()}
        self.limits = Limits(options)
        self.state = State(plan.program, classes, encoded, self.limits, plan.orders)
        self.planner = Planner(self.state, options.search)
        self.shaping = Shaping(self.state, self.planner, Listener())
        derived = {
            name
            for clique in plan.program.cliques
            for name in clique.relations
            if clique.exit_rules or clique.delta_rules
        }
        for name in plan.program.relations:
            if name not in derived:
                self.state.load(name)

    def has(self, relations: Iterable[str]) -> bool:
        """Whether all facts of some relations are there before anything is derived."""
        return all(name in self.state.finished for name in relations)

    def may_fold(self, relation: str) -> bool:
        """Whether a relation may have so many facts that rules on top of it do not list them."""
        domains = self.state.classes.columns(relation)
        most = prod(domain.size for domain in domains)
        return any(domain.grows for domain in domains) or most >= thresholds.now.folded

    def begin(self, clique: DeltaClique) -> bool:
        """Evaluate exit rules as a run does; False if that cannot be known, or would take long."""
        rules = (*clique.exit_rules, *clique.delta_rules)
        read = {name for rule in rules for name in rule.body.read}
        if not clique.is_recursive or not self.has(read.difference(clique.relations)):
            return False
        heads = self.state.heads
        self.state.start(clique.relations)
        try:
            for rule in clique.exit_rules:
                ready = self.planner.ready(rule)
                if ready.may_derive():
                    ready.plan.run(ready.sink, partial(self._look, ready.sink))
                    ready.sink.finish()
            for name in clique.relations:
                heads[name].flip()
        except (ArithmeticError, CaladanError, _TooMany):
            heads.clear()
            return False
        return True

    def _look(self, sink: SolutionSink) -> None:
        self.limits.seconds()
        if sink.count > thresholds.now.foreseen:
            raise _TooMany

    def unsuitable(self, clique: DeltaClique) -> str | None:
        """Why the machine of small rounds does not know the rules of a clique that has begun."""
        from caladan.fixpoint.small_rounds.values import Unsuitable
        from caladan.fixpoint.small_rounds.worklist import Worklist

        heads = self.state.heads
        members, rules = self.planner.recursive(clique)
        try:
            Worklist([heads[name] for name in members], [(rule.head, rule.plan) for rule in rules])
        except Unsuitable as reason:
            return str(reason)
        return None


class _TooMany(Exception):
    """Exit rules have more solutions than explain goes through."""
