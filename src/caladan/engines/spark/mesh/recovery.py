"""When tasks save what they have, and how they agree on where to go on.

Tasks save some seconds apart, and work ten times as long as it takes them. To go on, they tell each
other which rounds each of them has found; the latest that all have is read by all, and if one of
them finds its file damaged, all try the one before. If there were other tasks than now, each reads
some of their files, or none.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from caladan.engines.spark.mesh.checkpoint import (
    FAILURES,
    CheckpointFiles,
    CheckpointState,
    CorruptFile,
    SavePoint,
)
from caladan.engines.spark.mesh.messages import Connections, SaveRequest
from caladan.engines.spark.mesh.shard import Shard
from caladan.fixpoint.limits import Limits
from caladan.program.diagnostics import without_user
from caladan.program.events import sendable

_SHARE: Final = 10  # times as long as they save do tasks work
_ANSWER: Final = struct.Struct("<?q")


class Recovery:
    """Saves the part of a task, and brings it back.

    `attempt` is the same in all tasks that have met, and different from those that met before;
    `seconds` are between two rounds that are saved, none for all rounds. `tell` is called with the
    number of the round at which a task goes on, `lost` with what is wrong with something saved.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        attempt: str,
        seconds: float,
        tell: Callable[[int], None] = lambda _: None,
        lost: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._files, self._attempt, self._seconds = files, attempt, seconds
        self._tell, self._lost = tell, lost
        self._known: list[SavePoint] = []
        self._good: SavePoint | None = None
        self._cannot = False
        self._last = time.monotonic()
        self._took = 0.0

    @property
    def saving(self) -> SaveRequest:
        """Whether it is time to save; all tasks do it together."""
        if self._cannot:
            return SaveRequest.CANNOT
        apart = max(self._seconds, _SHARE * self._took) if self._seconds else 0.0
        return SaveRequest.NOW if time.monotonic() - self._last >= apart else SaveRequest.NOT_NOW

    # ── Saving ───────────────────────────────────────────────────────────────────────────────────

    def keep(self, part: Shard, number: int, wishes: Sequence[SaveRequest]) -> None:
        """Save a part that has taken in what it needs for a round, if somebody wishes so."""
        self._cannot |= SaveRequest.CANNOT in wishes
        if self._cannot or SaveRequest.NOW not in wishes:
            return
        started = time.monotonic()
        saved = SavePoint(number, self._attempt, part.tasks)
        try:
            state = CheckpointState(part.facts, part.events.solutions)
            self._files.write(saved, part.me, state, part.saved())
        except FAILURES as problem:
            self._cannot = True
            self._lost(f"nothing is saved from round {number} on: {without_user(str(problem))}")
            return
        # Whatever was saved before is there in whole: all have sent a message since.
        for each in self._known:
            if each != self._good:
                self._files.remove(each, _share(part, each))
        self._known = [saved] if self._good is None else [self._good, saved]
        self._good = saved
        self._last = time.monotonic()
        self._took = self._last - started

    # ── Going on ─────────────────────────────────────────────────────────────────────────────────

    def resume(self, part: Shard, exchange: Connections) -> int | None:
        """Put a part back to where all tasks have been; the round to go on with."""
        found = self._files.found()
        self._known = list(found)
        for saved in self._common([each for each in found if found[each]], part, exchange):
            mine = _share(part, saved)
            try:
                read = {number: self._files.read(saved, number) for number in mine}
            except CorruptFile as problem:
                self._lost(f"what was saved before round {saved.round} is not used: {problem}")
                read = None
            facts = 0 if read is None else sum(state.facts for state, _, _ in read.values())
            told = _told(part, exchange, _ANSWER.pack(read is not None, facts))
            answers = [_ANSWER.unpack(each) for each in told]
            if not all(good for good, _ in answers) or read is None:
                self._files.remove(saved, mine)
            elif _is_within(part.limits, saved.round, sum(facts for _, facts in answers)):
                parts = {number: (data, at) for number, (_, data, at) in read.items()}
                solutions = [state.solutions for state, _, _ in read.values()]
                part.go_on(saved.tasks, parts, solutions, exchange, self._files.beat)
                self._good = saved
                self._tell(saved.round)
                return saved.round
        return None

    def _common(
        self, found: Sequence[SavePoint], part: Shard, exchange: Connections
    ) -> list[SavePoint]:
        """The rounds that all tasks have found, the latest first."""
        mine = [[each.round, each.attempt, each.tasks] for each in found]
        told = json.dumps({"for": self._files.folder, "found": mine}, default=sendable).encode()
        heard = [json.loads(bytes(each)) for each in _told(part, exchange, told)]
        if any(each["for"] != self._files.folder for each in heard):
            self._cannot = True
            self._lost("nothing is saved: tasks do not agree on what they evaluate")
            return []
        common = set(found)
        for each in heard:
            common &= {SavePoint(int(n), str(attempt), int(m)) for n, attempt, m in each["found"]}
        return sorted(common, reverse=True)


def _share(part: Shard, saved: SavePoint) -> range:
    """The parts of a round that a task looks after: its own, if there were as many tasks."""
    return range(part.me, saved.tasks, part.tasks)


def _is_within(limits: Limits, number: int, facts: int) -> bool:
    """Whether a run with these limits would have come so far."""
    return (limits.max_rounds is None or number <= limits.max_rounds) and (
        limits.max_facts is None or facts <= limits.max_facts
    )


def _told(part: Shard, exchange: Connections, message: bytes) -> list[bytes | bytearray]:
    """What all tasks have to say, this one included."""
    came = exchange.exchange([[message]] * part.tasks)
    return [message, *(each for each in came if each is not None)]
