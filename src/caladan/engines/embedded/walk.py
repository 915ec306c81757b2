"""Walking through the steps of a rule, depth first, and the sink its solutions end in.

A lookup that finds much hands its solutions on in chunks; each goes through all later steps before
the next is made, so memory is bounded by the size of a chunk times the number of steps.

Arithmetic that fails is put off behind the steps that do not need its result: those may yet throw
out the solutions it fails for. If none is left, the failure is the rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from caladan.engines.embedded.frontier import Frontier
from caladan.engines.embedded.steps import Lookup, Propose, Step


class Sink:
    """Takes a rule's solutions; `count` of them so far.

    `direct`, if there is one, may take the last lookup itself, with the solutions before it; it
    returns whether it did.
    """

    def __init__(
        self,
        take: Callable[[Frontier], None],
        finish: Callable[[], None] | None = None,
        direct: Callable[[Lookup, Frontier, Callable[[], None]], int | None] | None = None,
    ) -> None:
        self._take = take
        self._finish = finish
        self._direct = direct
        self.count = 0

    def __call__(self, frontier: Frontier) -> None:
        self.count += frontier.rows
        self._take(frontier)

    def direct(self, lookup: Lookup, frontier: Frontier, check: Callable[[], None]) -> bool:
        """Take the last lookup, if that can be done without listing its solutions."""
        found = None if self._direct is None else self._direct(lookup, frontier, check)
        self.count += found or 0
        return found is not None

    def finish(self) -> None:
        """There are no more solutions."""
        if self._finish is not None:
            self._finish()


class Walk:
    """Goes through the steps depth first, chunk by chunk."""

    def __init__(self, sink: Sink, check: Callable[[], None], needed: frozenset[str]) -> None:
        self._sink = sink
        self._check = check
        self._needed = needed

    def walk(self, steps: Sequence[Step], frontier: Frontier) -> None:
        """Push a frontier through some steps and whatever comes out into the sink."""
        for i, step in enumerate(steps):
            if isinstance(step, Lookup | Propose):
                rest = steps[i + 1 :]
                if (
                    not rest
                    and isinstance(step, Lookup)
                    and self._sink.direct(step, frontier, self._check)
                ):
                    return
                keep = self._needed.union(*(s.reads for s in rest))
                for longer in step.run(frontier, keep):
                    self._check()
                    if longer.rows:
                        self.walk(rest, longer)
                return
            try:
                frontier = step.apply(frontier)
            except ArithmeticError:
                if (later := _put_off(steps[i:])) is None:
                    raise
                self.walk(later, frontier)
                return
            if not frontier.rows:
                return
        self._sink(frontier)


def _put_off(steps: Sequence[Step]) -> list[Step] | None:
    """The steps with the first one behind all that do not need it; None if all do."""
    first, *others = steps
    waiting = set(first.binds)
    before: list[Step] = []
    after: list[Step] = []
    for step in others:
        needs = not waiting.isdisjoint(step.reads) or not waiting.isdisjoint(step.binds)
        if needs:
            waiting |= step.binds
        (after if needs else before).append(step)
    return [*before, first, *after] if before else None
