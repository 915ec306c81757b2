"""The relations and rules of a clique, as a task has them while certain values are split."""

from __future__ import annotations

from collections.abc import Iterator

from caladan.engines.spark.mesh.given import Given
from caladan.engines.spark.mesh.grouped import GroupMember
from caladan.engines.spark.mesh.heavy import HeavyValues
from caladan.engines.spark.mesh.members import Member, Slots
from caladan.engines.spark.mesh.placement import Placement, placement
from caladan.engines.spark.mesh.plain import PlainMember
from caladan.engines.spark.mesh.ready import Ready, Rules
from caladan.engines.spark.mesh.shelves import Shelf


class Placed:
    """What task `me` of `tasks` has of what is given, once it is decided which values are split."""

    def __init__(self, given: Given, me: int, tasks: int, heavy: HeavyValues) -> None:
        self.given, self.heavy = given, heavy
        self.me, self.tasks = me, tasks
        fans = {rule.rule: fan for rule in given.recursive if (fan := heavy.fan(rule, given.own))}
        self.placement: Placement = placement(
            given.recursive, given.own, heavy.has, [fan.copy for fan in fans.values()]
        )
        self.slots = Slots()
        self.members = {name: self._member(name) for name in given.own}
        made = Rules(
            given.program.relations, given.classes, given.rules, given.base, self.members,
            self.placement, heavy, fans, me, tasks, given.search,
        )  # fmt: skip
        self.rules: list[Ready] = []
        self.exits: list[Ready] = []
        for rule, body in given.bodies:
            if rule.seed is not None:
                self.rules += made.recursive(rule, body)
            else:
                self.exits.append(made.exit(rule, body))

    @property
    def found(self) -> int:
        """How many solutions the rules have found here."""
        return sum(int(ready.sink.count) for ready in (*self.exits, *self.rules))

    def shelves(self) -> Iterator[Shelf]:
        """What there is to be saved between two rounds, in the order in which it is put back."""
        for member in self.members.values():
            yield from member.shelves()

    def _member(self, name: str) -> Member:
        info = self.given.own[name]
        owner = self.placement.owners[name]
        others = [copy for copy in self.placement.others if copy.relation == name]
        domains = self.given.classes.columns(name)
        rest = (domains, owner, others, self.slots, self.heavy.within, self.me, self.tasks)
        return GroupMember(info, *rest) if info.has_aggregates else PlainMember(*rest)
