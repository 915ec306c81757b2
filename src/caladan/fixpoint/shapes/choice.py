"""Handing a clique to its shape, if it has one, with what shapes ask of a run.

Nothing here loads the kernels of shapes: evaluate.py does, once there is one to evaluate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from caladan.analysis.core import CoreRule
from caladan.columns import pool
from caladan.columns.domains import Domain
from caladan.columns.layout import Counts, Layout, Words, concatenated
from caladan.fixpoint.blueprint import facts_read, shape_of, why_rounds
from caladan.fixpoint.heads import PlainHead
from caladan.fixpoint.limits import run_stoppable
from caladan.fixpoint.planner import Planner
from caladan.fixpoint.state import State
from caladan.join.arithmetic import blamed
from caladan.join.body import separated
from caladan.join.plan import RulePlan
from caladan.program import Expression, Variable
from caladan.rules.body import Body
from caladan.rules.delta import plain
from caladan.rules.program import DeltaClique, DeltaRule

if TYPE_CHECKING:
    from caladan.fixpoint.shapes.recognise import Shape

TellDeclined: TypeAlias = "Callable[[str, str], None]"  # what was not taken, and why


class Shaping:
    """Finds shapes and evaluates them."""

    def __init__(self, state: State, planner: Planner) -> None:
        self._state = state
        self._planner = planner

    def shape(self, clique: DeltaClique, declined: TellDeclined) -> Shape | None:
        """The shape that a clique is to be evaluated by; None if it goes in rounds."""
        if not clique.is_recursive:
            return None
        limits = self._state.limits
        facts = self.facts_read(clique)
        reason = why_rounds(facts, limits.max_rounds, limits.max_facts)
        if self._state.is_ranked:
            reason = "facts remember when they were derived"
        if reason is not None:
            declined("a shape", reason)
            return None
        found = shape_of(clique, self._state.program, self._state.classes)
        if isinstance(found, str):
            declined("a shape", found)
            return None
        return found

    def facts_read(self, clique: DeltaClique) -> int:
        """How many facts a clique is given, and its rules read from elsewhere."""
        given = [rows for name in clique.relations for _, rows in self._state.given.get(name, ())]
        finished = [name for name in facts_read(clique) if name in self._state.finished]
        return sum(given) + self._state.total(finished)

    def evaluate(self, shape: Shape, declined: TellDeclined) -> dict[str, Layout] | None:
        """The relations of a clique whose exit rules are done, None if the shape declines."""
        from caladan.fixpoint.shapes.evaluate import evaluated
        from caladan.fixpoint.shapes.pairs import Interrupted, ShapeLimits

        stop: Counts = np.zeros(1, np.int64)
        limits = ShapeLimits(self._state.limits.memory.most, pool.threads(), stop)

        def work() -> dict[str, Layout] | None:
            return evaluated(shape, self, limits, partial(declined, shape.name))

        try:
            return run_stoppable(work, stop, self._state.limits.deadline)
        except Interrupted:
            self._state.limits.seconds()
            raise

    # ── What shapes ask for ──────────────────────────────────────────────────────────────────────

    def exit(self, relation: str) -> tuple[Words, ...]:
        """The distinct facts of a relation before its recursive rules."""
        arity = self._state.program.relations[relation].arity
        return concatenated(self._state.heads[relation].relation.blocks(), arity)

    def solve(self, rule: CoreRule) -> tuple[Words, ...]:
        """The distinct head rows of a rule over finished relations."""
        solved = plain(rule, self._state.program.relations)
        plan = self.plan(solved)
        domains = [self._domain_of(rule, a, plan.body) for a in rule.arguments]
        head = PlainHead(domains)
        with blamed(rule):
            plan.run(head.sink(solved, plan, ()), self._state.limits.seconds)
        head.flip()
        return concatenated(head.relation.blocks(), len(domains))

    def plan(self, solved: DeltaRule) -> RulePlan:
        """The plan of a rule that shapes made of another one."""
        body = separated(solved.body, self._state.program.relations)
        domains = {name: self._domain_of(solved.rule, Variable(name), body) for name in body.types}
        return self._planner.made(body, domains)

    def _domain_of(self, rule: CoreRule, argument: Expression, body: Body) -> Domain:
        """The domain of a variable of a rule that the shapes made of another one."""
        assert isinstance(argument, Variable)
        for scan in body.atoms:
            for column, each in enumerate(scan.arguments):
                if each == argument:
                    return self._state.classes.column(scan.relation, column)
        domain = self._planner.variable(rule.number, argument.name)
        assert domain is not None, f"{argument.name} of rule {rule.number} has no domain"
        return domain
