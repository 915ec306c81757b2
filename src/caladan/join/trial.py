"""Trials: a sample of a body's solutions, looked up in each atom that could come next.

So an order of atoms (orders.py) is told by fan-outs that were measured: `Trial` is the `Sample` of
a plan whose relations are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from caladan.join.access import Access, Check, Fork, Meet, Probe, probe
from caladan.join.frontier import Bindings
from caladan.program import Comparison, thresholds
from caladan.rules.body import Scan

if TYPE_CHECKING:
    from caladan.join.plan import RulePlan


class Trial:
    """A sample of a body's solutions, pushed along as its order grows; it may have to be large."""

    def __init__(self, plan: RulePlan, *, is_sure: bool = False) -> None:
        self._plan = plan
        self._is_always_sure = is_sure or plan.is_steady
        self.restart()

    def restart(self, *, is_sure: bool = False) -> None:
        """Another order is tried; if `is_sure`, however few facts its first atom has."""
        self._is_sure = is_sure or self._is_always_sure
        self._frontier = Bindings(1, {})
        self._done = 0  # steps that the sample went through

    def fan_out(self, steps: Sequence[Access], following: Probe | Meet | Fork) -> float | None:
        """How many facts go with a solution of the steps so far; None if there are few."""
        first = next((step for step in steps if isinstance(step, Probe | Meet | Fork)), None)
        if first is None:  # atoms of the core that are bound by constants wait for others
            return None
        met = first.ways[0][0] if isinstance(first, Fork) else first
        scan = met.scan if isinstance(met, Probe) else met.probes[0].scan
        if not self._is_sure and self._plan.count(scan) < thresholds.now.worth_sampling:
            return None
        frontier = self._frontier
        if frontier.rows:
            frontier = self._through(steps[self._done :], frontier)
            self._frontier, self._done = frontier, len(steps)
        if not frontier.rows:
            return None
        step = self._plan.ready(following, is_trial=True)
        return int(step.least(frontier).sum()) / frontier.rows

    def passing(self, scan: Scan, tests: Sequence[Comparison]) -> float:
        """How much of an atom's facts pass tests of its own variables; 1 where nobody can tell."""
        plan = self._plan
        if plan.count(scan) < thresholds.now.worth_sampling:
            return 1.0
        lookup = plan.lookup(probe(scan, frozenset(), plan))
        frontier = lookup.sampled(thresholds.now.sample)
        if frontier is None or not frontier.rows:
            return 1.0
        left = self._through(list(map(Check, tests)), frontier).rows
        return max(left, 1) / (frontier.rows + 1)

    def _through(self, steps: Sequence[Access], frontier: Bindings) -> Bindings:
        """A sample pushed through some steps; arithmetic that fails leaves it as it is."""
        everything = self._plan.variables
        for step in (self._plan.ready(each, is_trial=True) for each in steps):
            assert not step.is_walk  # orders are tried atom by atom
            if step.is_single:
                try:
                    frontier = step.apply(frontier)
                except ArithmeticError:
                    return Bindings(0, {})
            else:
                found = step.run(frontier, everything)
                frontier = next((f for f in found if f.rows), Bindings(0, {}))
                frontier = frontier.sample(thresholds.now.sample)
            if not frontier.rows:
                break
        return frontier
