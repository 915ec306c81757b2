"""When to hand a clique to the tiny-delta machine: after several rounds with small deltas.

Nothing here loads the machine (worklist.py) before it is time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.columns.groups import GroupRelation
from caladan.columns.kernels import is_loaded
from caladan.columns.layout import Counts
from caladan.fixpoint.heads import RelationHead
from caladan.fixpoint.limits import Limits, run_stoppable
from caladan.join.plan import RulePlan
from caladan.program import thresholds

if TYPE_CHECKING:
    from caladan.fixpoint.small_rounds.worklist import Worklist

_ENOUGH: Final = 1 << 62  # rounds, where there is no limit


class TinyRounds:
    """Watches the deltas of a clique, and runs the machine when it is time.

    `declined` is told why, where the machine does not know the rules.
    """

    def __init__(
        self,
        members: Sequence[RelationHead],
        rules: Sequence[tuple[RelationHead, RulePlan]],
        limits: Limits,
        declined: Callable[[str], None],
    ) -> None:
        self._members = members
        self._rules = rules
        self._limits = limits
        self._declined = declined
        self._in_a_row = 0
        self._patience = thresholds.now.small_rounds
        self._worklist: Worklist | None = None
        self._suits = True

    def run(self, rounds: int | None, facts: int | None) -> tuple[int, int]:
        """Run the machine if it is time: how many rounds it did, and how many facts were new.

        It does no more than so many rounds, and none after it found so many facts.
        """
        if not self._suits or not self._is_time() or not self._ready():
            return 0, 0
        assert self._worklist is not None
        worklist = self._worklist
        stop: Counts = np.zeros(1, np.int64)
        counters: Counts = np.zeros(4, np.int64)
        most_rounds = _ENOUGH if rounds is None else rounds
        # It knows nothing of memory, and returns when it is time to look.
        most_facts = self._limits.memory.facts_until_look()
        if facts is not None:
            most_facts = min(most_facts, facts)
        new = run_stoppable(
            lambda: worklist.run(most_rounds, most_facts, stop, counters),
            stop,
            self._limits.deadline,
            self._limits.glance,
        )
        self._limits.seconds()
        done = int(counters[1])
        # What was beyond the machine at once may well be so again.
        patience = thresholds.now.small_rounds
        self._patience = patience if done > patience else 2 * self._patience
        return done, new

    def _is_time(self) -> bool:
        delta = sum(member.relation.delta_count() for member in self._members)
        chosen = thresholds.now
        if delta >= chosen.small:  # more than a tail has room for, whatever the patience
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        cold = 0 if is_loaded() else chosen.small_rounds_cold // max(1, len(self._rules))
        patience = self._patience + cold
        if self._in_a_row < max(patience, self._groups() // chosen.groups_a_round):
            return False
        self._in_a_row = 0
        return True

    def _groups(self) -> int:
        """Groups, all of which are packed when the machine starts."""
        relations = (member.relation for member in self._members)
        return sum(r.count() for r in relations if isinstance(r.body, GroupRelation))

    def _ready(self) -> bool:
        from caladan.fixpoint.small_rounds.values import Unsuitable
        from caladan.fixpoint.small_rounds.worklist import Worklist, is_listed

        relations = [member.relation for member in self._members]
        if not all(isinstance(r.body, GroupRelation) or is_listed(r) for r in relations):
            return False  # there are deletions to look out for
        known = self._worklist
        if known is None or known.is_outgrown or not known.still_fits():
            try:
                known = self._worklist = Worklist(self._members, self._rules)
            except Unsuitable as reason:
                self._suits = False
                self._declined(str(reason))
                return False
        return known.still_fits()
