"""The steps of a body: each takes a frontier and hands on smaller or longer ones.

LookupStep   extend the solutions by the facts of an atom (constraints/lookup.py)
ProposeStep  atoms that meet in a variable, ForkStep two that an equation ties
             (constraints/proposal.py)
ConsultStep  a variable that a constraint of the user's may propose, as atoms may (meeting.py)
SearchStep   all that is left, by the guided search (guided.py), if it is asked for
SemijoinStep keep the solutions for which some atoms have a solution at all (semijoin.py)
RollupStep   add up what some atoms give, once for what they share with the rest (rollup.py)
AbsentStep, BindStep, TestStep   negated atoms, computed variables, comparisons
             (constraints/condition.py)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from caladan.columns.layout import Counts
from caladan.join.constraints.condition import AbsentStep, BindStep, TestStep
from caladan.join.constraints.lookup import LookupStep
from caladan.join.constraints.proposal import ForkStep, ProposeStep
from caladan.join.frontier import Bindings

if TYPE_CHECKING:
    from caladan.join.guided import SearchStep
    from caladan.join.meeting import ConsultStep
    from caladan.join.rollup import RollupStep
    from caladan.join.semijoin import SemijoinStep


_Joining: TypeAlias = "LookupStep | ProposeStep | ForkStep | ConsultStep | SearchStep"
Step: TypeAlias = "_Joining | SemijoinStep | RollupStep | AbsentStep | BindStep | TestStep"


Through: TypeAlias = (
    "Callable[[Sequence[Step], Bindings, Callable[[Bindings], None], frozenset[str]], None]"
)
"""Pushes solutions through some steps, of which some columns are kept."""


@runtime_checkable
class Proposing(Protocol):
    """A step that binds what several could bind."""

    def least(self, frontier: Bindings) -> Counts:
        """How many values the one with the fewest has, for each solution."""
        ...
