"""What of a body can be settled once some variables are bound: tests, negated atoms, equalities.

They stand as early as they can; those that cannot fail come first, for they may keep a division
from failing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from caladan.columns.domains import Domain
from caladan.engines.embedded.body import Body, names
from caladan.engines.embedded.expressions import Evaluator
from caladan.engines.embedded.steps import Absent, Bind, Step, Test
from caladan.operators.tree import Scan
from caladan.program import (
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Expression,
    Negative,
    Variable,
)


class Settling:
    """What of a body still waits for variables to be bound."""

    def __init__(
        self,
        body: Body,
        evaluator: Evaluator,
        domains: Mapping[str, Domain],
        absent: Callable[[Scan], Absent],
    ) -> None:
        self._evaluator = evaluator
        self._domains = domains
        self._bindings = list(body.bindings)
        # Tests that cannot fail come first: they may keep a division from failing.
        self._tests = sorted(body.conditions, key=lambda c: _computes(c.left) or _computes(c.right))
        self._absents = list(body.absents)
        self._absent = absent

    def ready(self, known: frozenset[str]) -> list[Step]:
        """The steps that can be taken now that some variables are known."""
        bound = set(known)
        steps: list[Step] = []
        while step := self._next(bound):
            steps.append(step)
            bound |= step.binds
        return steps

    def _next(self, bound: set[str]) -> Step | None:
        for test in self._tests:
            if not _computes(test.left) and not _computes(test.right) and names(test) <= bound:
                self._tests.remove(test)
                return Test(self._evaluator, test)
        for scan in self._absents:
            if set(scan.variables) <= bound:
                self._absents.remove(scan)
                return self._absent(scan)
        for binding in self._bindings:
            if names(binding.expression) <= bound:
                self._bindings.remove(binding)
                if binding.variable in bound:
                    same = Comparison("=", Variable(binding.variable), binding.expression)
                    return Test(self._evaluator, same)
                domain = self._domains[binding.variable]
                return Bind(
                    self._evaluator, binding.variable, binding.expression, domain, binding.solved
                )
        for test in self._tests:
            if names(test) <= bound:
                self._tests.remove(test)
                return Test(self._evaluator, test)
        return None


def _computes(expression: Expression) -> bool:
    return isinstance(expression, Arithmetic | Call | Negative | Conditional)
