"""Conditions in a search: tests and negated atoms confirm, and equations propose as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from caladan.columns.layout import Counts
from caladan.join.constraints.condition import AbsentStep, BindStep, TestStep
from caladan.join.frontier import Bindings


class ConditionConstraint:
    """A test or a negated atom of a body: it kills candidates once all its variables are bound."""

    def __init__(self, step: AbsentStep | TestStep, name: str = "test") -> None:
        self._step = step
        self._name = name
        self.variables = step.reads

    def __str__(self) -> str:
        return self._name

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """Nothing: it has no values to propose."""
        del frontier, var

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """Never asked, for it estimates nothing."""
        raise AssertionError(f"a test proposes no {var} for {frontier.rows} rows, {counts}")

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """Without what the step would throw out; arithmetic that fails is left to later ones."""
        del var
        if not self.variables <= frontier.columns.keys():
            return frontier
        try:
            return self._step.apply(frontier)
        except ArithmeticError:
            return frontier

    def influence(self, var: str) -> frozenset[str]:
        """Nobody's estimates change."""
        del var
        return frozenset()


class EquationConstraint(ConditionConstraint):
    """An equation: it proposes the one variable that is not bound, where it can be solved for it.

    A value that no fact has, or that leaves 64 bits, is nobody's.
    """

    def __init__(self, test: TestStep, solutions: Sequence[BindStep], name: str) -> None:
        super().__init__(test, name)
        self._solutions = {each.variable: each for each in solutions}

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """One, if the others are bound."""
        solution = self._solutions.get(var)
        if solution is None or not solution.reads <= frontier.columns.keys():
            return None
        return np.ones(frontier.rows, np.int64)

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The value that makes it true, as far as can be told before it is tested."""
        del counts
        yield self.confirm(self._solutions[var].apply(frontier), var)

    def influence(self, var: str) -> frozenset[str]:
        """Whatever it is solved for."""
        return frozenset(self._solutions) - {var} if var in self.variables else frozenset()
