"""How what parts hold is placed anew, between two rounds: other values split, or other tasks.

Between two rounds a fact is *new* if some copy of it, in some task, has not been joined with all
others yet. An owner that has found a fact new tells the other copies a round later, so a fact that
is old in one copy may still be new in another. What is placed anew is new in all copies if it was
new in one. So nothing is lost: two facts that are both old have met before, wherever that was, and
any others meet in the next round. Some are joined twice, which changes nothing: relations are sets,
and groups know their contributors. What an owner then tells once more the others know already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from caladan.engines.spark.mesh.members import Slots
from caladan.engines.spark.mesh.messages import (
    Exchange,
    Standing,
    Verdict,
    batches_of,
    merged,
    message,
)
from caladan.engines.spark.mesh.placed import Placed
from caladan.engines.spark.mesh.slots import Batch, Slot

_STANDING = Standing(0, 0, 0, 0, Verdict.GO_ON)


def moved(
    sources: Iterable[Placed], target: Placed, exchange: Exchange, beat: Callable[[], None]
) -> None:
    """Place what this task has, in one exchange with all others; `target` has nothing yet."""
    slots = Slots()
    arrivals = {name: member.arrivals(slots) for name, member in target.members.items()}
    going: list[list[tuple[Slot, Batch]]] = [[] for _ in range(target.tasks)]
    for source in sources:
        for name, member in source.members.items():
            for kind, batch in member.contents():
                for slot in arrivals[name].slots[kind]:
                    for task, part in enumerate(slot.spread.split(batch, target.tasks)):
                        if part is not None and part.rows:
                            going[task].append((slot, part))
                    beat()
    mine, going[target.me] = going[target.me], []
    came = exchange.exchange([message(_STANDING, merged(sections)) for sections in going])
    for slot, batch in mine:
        slot.receive(batch)
    for data in came:
        for slot, batch in batches_of(data, slots) if data is not None else ():
            slot.receive(batch)
    for each in arrivals.values():
        each.settle()
        beat()
