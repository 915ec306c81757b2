"""When to hand a clique to the tiny-delta machine: after several rounds with small deltas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.columns.layout import Counts
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.limits import Limits
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.stoppable import run_stoppable

if TYPE_CHECKING:
    from caladan.engines.embedded.worklist import Worklist

SMALL: Final = 1000  # facts of a delta
PATIENCE: Final = 8  # small rounds in a row before the machine is worth its start


class TinyRounds:
    """Watches the deltas of a clique, and runs the machine when it is time."""

    def __init__(
        self,
        members: Sequence[StoredRelation],
        rules: Sequence[tuple[StoredRelation, RulePlan]],
        limits: Limits,
    ) -> None:
        self._members = members
        self._rules = rules
        self._limits = limits
        self._in_a_row = 0
        self._worklist: Worklist | None = None
        # Limits on rounds and facts are about rounds that are looked at one by one.
        self._suits = limits.max_rounds is None and limits.max_facts is None

    def run(self) -> int:
        """Run the machine if it is time; how many rounds it did, 0 if it did not run."""
        if not self._suits or not self._is_time() or not self._ready():
            return 0
        assert self._worklist is not None
        worklist = self._worklist
        stop: Counts = np.zeros(1, np.int64)
        counters: Counts = np.zeros(3, np.int64)
        run_stoppable(lambda: worklist.run(stop, counters), stop, self._limits.deadline)
        self._limits.seconds()
        return max(1, int(counters[1]))

    def _is_time(self) -> bool:
        delta = sum(member.delta_count() for member in self._members)
        self._in_a_row = self._in_a_row + 1 if delta < SMALL else 0
        if self._in_a_row < PATIENCE:
            return False
        self._in_a_row = 0
        return True

    def _ready(self) -> bool:
        from caladan.engines.embedded.worklist import Worklist
        from caladan.engines.embedded.worklist_rules import Unsuitable

        if self._worklist is None or not self._worklist.still_fits():
            try:
                self._worklist = Worklist(self._members, self._rules)
            except Unsuitable:
                self._suits = False
                return False
        return True
