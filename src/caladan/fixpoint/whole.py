"""The whole of a clique in one place: what its one peer does in a round.

    shapes/         cliques with a special structure, which are not gone through in rounds
    small_rounds/   rounds with little new in them, handed to a machine

All other rounds evaluate every delta rule, as far as its guard lets it; the heads then sort out
what is new.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from caladan.columns.layout import Layout
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.blueprint import OVERLAY, ROUNDS
from caladan.fixpoint.exchange import Tally
from caladan.fixpoint.planner import Planner, ReadyRule
from caladan.fixpoint.shapes.choice import Overlaying, Shaping
from caladan.fixpoint.small_rounds.choice import TinyRounds
from caladan.fixpoint.state import State
from caladan.fixpoint.sums import never_settling, values_of
from caladan.join.arithmetic import blame_rule
from caladan.plan.recursion import Closure
from caladan.program import thresholds
from caladan.program.diagnostics import Diagnostic
from caladan.program.events import Listener, MachineRan, RuleDone, StrategyDeclined
from caladan.rules.program import DeltaClique, DeltaRule
from caladan.rules.support import Growth, Sign


class Whole:
    """A clique, of which so many rounds are done."""

    def __init__(
        self,
        clique: DeltaClique,
        state: State,
        planner: Planner,
        events: Listener,
        done: int = 0,
    ) -> None:
        self._clique, self._state, self._planner = clique, state, planner
        self._events = events
        self._members: Sequence[str] = clique.relations
        self._rules: list[ReadyRule] | None = None
        self._tiny: TinyRounds | None = None
        self._new = 0
        self._rounds = done
        self.growth = Growth(clique.totals)
        self.strategy = ROUNDS
        self._found: Mapping[str, Layout] | None = None
        rules = (*clique.delta_rules[::-1], *clique.exit_rules[::-1])
        self._aggregating = {r.rule.head: r.rule for r in rules if r.rule.has_aggregates}

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> int | None:
        """Evaluate the exit rules, and all others if the clique is a closure that is solved."""
        clique, state = self._clique, self._state
        shaping = Shaping(state, self._planner, self._events)
        closure = shaping.closure(clique, self._declined)
        state.start(clique.relations)
        if self._entered(closure, shaping):
            return 1
        overlay = shaping.overlay(clique)
        if overlay is not None:
            return self._overlaid(overlay)
        for rule in clique.exit_rules:
            self._planner.ready(rule).evaluate(state, self._events)
        if closure is None:
            return None
        self.settle()
        self._found = shaping.solve_closure(closure, self._declined)
        if self._found is not None:
            self.strategy = closure.solver
        return 1

    def _entered(self, closure: Closure | None, shaping: Shaping) -> bool:
        """Evaluate a clique whose exit rules go through closures, all of it as a closure."""
        clique = self._clique
        whole = shaping.enter(closure, clique)
        if whole is None:
            return False
        self.settle()
        self._found = shaping.solve_closure(whole, self._declined)
        if self._found is None:
            self._state.start(clique.relations)
            return False
        self.strategy = whole.solver
        return True

    def _overlaid(self, overlay: Overlaying) -> int | None:
        """Evaluate rules on top of layouts, as far as possible without listing these."""
        held: list[DeltaRule] = []
        for rule in self._clique.exit_rules:
            started, number = time.perf_counter(), rule.rule.number
            count = overlay.take(rule, self._declined)
            if count is None:
                self._planner.ready(rule).evaluate(self._state, self._events)
                continue
            held.append(rule)
            self._events.tell(RuleDone(number, None, count, time.perf_counter() - started))
        if held:
            self.strategy = OVERLAY
        if not overlay.has_parts:
            return None
        self.settle()
        found = overlay.finish(self._declined)
        head = self._state.heads[self._clique.relations[0]]
        if found is None:
            self.strategy = ROUNDS
            for rule in held:
                self._planner.ready(rule).evaluate(self._state, self._events)
        elif found.count() < thresholds.now.folded:
            for block in found.blocks():
                head.give(block, len(block[0]))
        else:
            self._found = {self._clique.relations[0]: found}
        return None if self._found is None else 1

    def step(self) -> int | None:
        """Evaluate the delta rules; small rounds go to the machine, as many as there are."""
        if self._rules is None:
            self._prepare()
        assert self._rules is not None
        assert self._tiny is not None
        left = self._state.limits.rounds_left(self._rounds)
        more, new = self._tiny.run(left, self._facts_left())
        if more:
            self._new = new
            self._events.tell(MachineRan(more))
            return more
        for rule in self._rules:
            rule.evaluate(self._state, self._events)
        return None

    def _prepare(self) -> None:
        state, heads = self._state, self._state.heads
        self._members, self._rules = self._planner.recursive(self._clique)
        if len(self._members) > len(self._clique.relations):
            self.growth.steps = 2
        self._tiny = TinyRounds(
            [heads[name] for name in self._members],
            [(rule.head, rule.plan) for rule in self._rules],
            state.limits,
            partial(self._declined, "tiny rounds"),
        )

    def settle(self) -> None:
        """Let what is new become old, and what was derived new."""
        heads = self._state.heads
        self._new = 0
        for name in self._members:
            heads[name].relation.commit()
        for name in self._clique.relations:
            with blame_rule(self._aggregating.get(name)):
                self._new += heads[name].flip()
        for name in self._members[len(self._clique.relations) :]:
            heads[name].flip()

    def tally(self, rounds: int) -> Tally:
        """How the clique stands."""
        self._rounds += rounds
        facts = self._state.total(self._clique.relations)
        goes_on = bool(self._clique.delta_rules and self.delta)
        sign = Sign.NOTHING
        if goes_on:
            self.growth.count(facts)
        if goes_on and self.growth.is_suspect:
            relations, columns = self._relations(), self._state.classes.columns
            sign = self.growth.look(values_of(relations, self._state.program.relations, columns))
        return Tally(self._new, facts, goes_on, rounds, sign)

    def never_settling(self) -> Diagnostic | None:
        """C042 for a fact whose sums change for ever, if there is one."""
        infos, columns = self._state.program.relations, self._state.classes.columns
        return never_settling(self._clique, self._relations(), infos, columns, self.growth.rounds)

    @property
    def delta(self) -> int:
        """How many facts are new; none, if it is solved as a closure."""
        if self._found is not None:
            return 0
        return sum(self._state.heads[name].relation.delta_count() for name in self._members)

    def finish(self) -> Mapping[str, Layout]:
        """The relations, now that nothing changes any more."""
        heads, orders = self._state.heads, self._state.orders
        for name in self._members:
            heads[name].relation.commit()
        for name in self._members[len(self._clique.relations) :]:
            del heads[name]
        found = self._found
        if found is None:
            names = self._clique.relations
            found = {name: heads[name].finished(orders.get(name, {})) for name in names}
        self._state.finish(found)
        return found

    def _relations(self) -> dict[str, StoredRelation]:
        return {name: self._state.heads[name].relation for name in self._members}

    def _facts_left(self) -> int | None:
        limits = self._state.limits
        return None if limits.max_facts is None else limits.facts_left(self._state.derived())

    def _declined(self, strategy: str, reason: str) -> None:
        self._events.tell(StrategyDeclined(self._clique.relations, strategy, reason))
