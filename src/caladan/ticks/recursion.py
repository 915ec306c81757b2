"""Cliques: relations that depend on each other, kept true from tick to tick.

What is new goes round after round through the rules that read it. What was lost is repaired by
delete and rederive: everything that was derived through it goes, and comes back if there is another
way to derive it. Where values merge, the value of a key goes if something that is gone may have
been in it, and what is left is merged anew; the largest or smallest value only if it was reached by
what is gone. Where that is most of the clique, the clique is derived anew.

Once a tick has derived much, the clique is handed to the columnar engine (bulk.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from caladan.analysis.core import Clique, CoreRule
from caladan.language.bloom.lattices import LMax, LMin
from caladan.language.bloom.values import Lattice
from caladan.program import Constant, Variable, thresholds
from caladan.ticks.bulk import BulkClique
from caladan.ticks.elements import (
    CollectionElement,
    Decision,
    DerivingElement,
    RuleElement,
    SeededRule,
)
from caladan.ticks.extent import Desired, Extent, Fact, TickChange
from caladan.ticks.plans import Plan


class CliqueElement(DerivingElement):
    """The relations of a clique; in the dataflow, the first of them stands for all."""

    def __init__(
        self,
        clique: Clique,
        stratum: int,
        rules: Sequence[RuleElement],
        elements: Mapping[str, CollectionElement],
        extents: Mapping[str, Extent],
    ) -> None:
        super().__init__(extents[clique.relations[0]], stratum)
        self._names = clique.relations
        self.extents = {name: extents[name] for name in clique.relations}
        self.rules = list(rules)
        self._inner: dict[str, list[SeededRule]] = {name: [] for name in self.names}
        self._outer: list[SeededRule] = []
        for rule in rules:
            for delta in rule.deltas:
                inner = self._inner.get(delta.atom.relation)
                (self._outer if inner is None else inner).append(delta)
        self._ways = [_Way(_outside_first(rule.rule, self.extents), extents) for rule in rules]
        self._exits = [
            rule
            for rule in rules
            if not any(atom.relation in self.extents for atom in rule.rule.positive)
        ]
        self.members = [elements[name] for name in clique.relations]
        self.is_fleeting = not any(each.persists for each in self.members) and all(
            any(
                atom.relation in self.extents or elements[atom.relation].is_fleeting
                for atom in rule.rule.positive
            )
            for rule in rules
        )
        for each in self.members:
            each.is_fleeting = self.is_fleeting
            each.decision = Decision.CLEARED if self.is_fleeting else Decision.SIZED
            if each.persists:
                each.decision = Decision.STORED
        self.bulk = BulkClique(clique, extents)
        self.reset()

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def holds(self) -> bool:
        return self.is_fleeting and any(map(len, self.extents.values()))

    def reset(self) -> None:
        super().reset()
        self._old: dict[str, dict[Any, Fact | None]] = {name: {} for name in self.names}
        """What each key had before, of those that were touched."""
        self._news: list[tuple[SeededRule, TickChange]] = []
        self._gains: dict[str, list[Fact]] = {name: [] for name in self.names}
        self._losses: dict[str, dict[Fact, None]] = {name: {} for name in self.names}
        self._may_be_bulk = not self.bulk.reason

    @property
    def deltas(self) -> list[SeededRule]:
        """The delta rules that tell this node of changes outside of it."""
        return self._outer

    def start(self, base: Mapping[str, Desired]) -> None:
        for name, extent in self.extents.items():
            if name not in base:
                continue
            self.is_dirty = True
            for key, fact in base[name].items():
                old = extent.base.get(key)
                if old is not None and old != fact:
                    self._losses[name][old] = None
                if fact is not None:
                    self._gains[name].append(fact)
            extent.based(base[name])

    def told(self, delta: SeededRule | None, change: TickChange) -> None:
        self.is_dirty = True
        assert delta is not None
        if self.is_fleeting or self.is_lost:
            return
        if self._takes_losses:
            head = delta.rule.head
            self._losses[head].update(dict.fromkeys(delta.losses(change)))
        # What is new is joined with the clique once it has lost what it will lose.
        self._news.append((delta, change))

    @property
    def _takes_losses(self) -> bool:
        return any(each.is_invalid or each.persists for each in self.members)

    def finish(self) -> dict[str, TickChange]:
        for each in self.members:
            each.invalidated += each.is_invalid
        if any(each.is_invalid for each in self.members):
            self.rebuild = self.rebuild or self.is_fleeting or not self.may_repair
        try:
            return self._finish()
        except BaseException:
            for name, extent in self.extents.items():
                extent.apply(self._old[name])
            raise

    def _finish(self) -> dict[str, TickChange]:
        lost = self._unsupported() if not self.rebuild else None
        if lost is None:
            self.rebuild = True
            return self._anew()
        self._count(repaired=1)
        old = self._old
        for name, facts in lost.items():
            extent = self.extents[name]
            for fact in facts:
                old[name][extent.key(fact)] = fact
            extent.apply(dict.fromkeys(map(extent.key, facts)))
        delta: dict[str, list[Fact]] = {name: [] for name in self.names}
        for name, facts in lost.items():
            base = self.extents[name].base
            keys = map(self.extents[name].key, facts)
            self._take(name, [base[key] for key in keys if key in base], delta, old)
            self._take(name, self._rederived(name, facts), delta, old)
        self._take_news(delta, old)
        for name in self.names:
            self._take(name, self._gains[name], delta, old)
        return self._rounds(delta, old)

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def _take(
        self,
        name: str,
        facts: Iterable[Fact],
        delta: dict[str, list[Fact]],
        old: dict[str, dict[Any, Fact | None]],
    ) -> None:
        extent, before, new = self.extents[name], old[name], delta[name]
        if extent.is_own_key:
            added = extent.put_all(facts)
            for fact in added:
                before.setdefault(fact, None)
            new += added
            return
        for fact in facts:
            key = extent.key(fact)
            was = extent.contents.get(key)
            made = extent.put(fact)
            if made is not None:
                before.setdefault(key, was)
                new.append(made)

    def _rounds(
        self, delta: dict[str, list[Fact]], old: dict[str, dict[Any, Fact | None]]
    ) -> dict[str, TickChange]:
        derived = 0
        while new := sum(map(len, delta.values())):
            derived += new
            if self._may_be_bulk and self._is_much(derived):
                for name, extent in self.extents.items():
                    extent.apply(old[name])
                    old[name].clear()
                if (changes := self._at_once()) is not None:
                    return changes
                return self._anew()
            following: dict[str, list[Fact]] = {name: [] for name in self.names}
            for name, facts in delta.items():
                if facts:
                    for each in self._inner[name]:
                        # Listed first: what is found goes into what is looked at.
                        found = list(each.plan.run(facts))
                        self._take(each.rule.head, found, following, old)
            delta = following
        return self._changes(old)

    def _is_much(self, derived: int) -> bool:
        """Whether so many new facts are more than some, and than a part of all there are."""
        chosen = thresholds.now
        held = sum(map(len, self.extents.values()))
        return derived > chosen.bulk and derived * chosen.bulk_share > held

    def _at_once(self) -> dict[str, TickChange] | None:
        """The clique by columns; None if that cannot be."""
        self._may_be_bulk = False
        found = self.bulk.evaluate()
        if found is None:
            return None
        self.rebuild = self.is_bulk = True
        self._count(rebuilt=1)
        changes = {n: TickChange(*self.extents[n].become(facts)) for n, facts in found.items()}
        return {name: change for name, change in changes.items() if change}

    def _anew(self) -> dict[str, TickChange]:
        held = sum(map(len, self.extents.values()))
        may_be_bulk = self._may_be_bulk and self._is_much(held)
        if may_be_bulk and (changes := self._at_once()) is not None:
            return changes
        self.rebuild = True
        self._count(rebuilt=1)
        old = self._old
        delta: dict[str, list[Fact]] = {name: [] for name in self.names}
        clears = self.is_lost or not self.is_fleeting or any(e.is_invalid for e in self.members)
        for name, extent in self.extents.items():
            old[name].update(extent.contents)
            if clears:
                extent.contents.clear()
                extent.indexes.clear()
        for name, extent in self.extents.items():
            self._take(name, list(extent.base.values()), delta, old)
        for rule in self._exits:
            facts = rule.everything() if self.is_lost else rule.output()
            self._take(rule.rule.head, list(facts), delta, old)
        if not self.is_lost:
            self._take_news(delta, old)
        return self._rounds(delta, old)

    def _take_news(
        self, delta: dict[str, list[Fact]], old: dict[str, dict[Any, Fact | None]]
    ) -> None:
        for each, change in self._news:
            self._take(each.rule.head, list(each.gains(change)), delta, old)

    def _count(self, *, repaired: int = 0, rebuilt: int = 0) -> None:
        for each in self.members:
            each.repaired += repaired
            each.rebuilt += rebuilt

    def _changes(self, old: Mapping[str, Mapping[Any, Fact | None]]) -> dict[str, TickChange]:
        changes: dict[str, TickChange] = {}
        for name, before in old.items():
            contents = self.extents[name].contents
            removed: list[Fact] = []
            added: list[Fact] = []
            for key, was in before.items():
                now = contents.get(key)
                if was == now:
                    continue
                if was is not None:
                    removed.append(was)
                if now is not None:
                    added.append(now)
            if removed or added:
                changes[name] = TickChange(removed, added)
        return changes

    # ── What was lost ────────────────────────────────────────────────────────────────────────────

    def _unsupported(self) -> dict[str, dict[Fact, None]] | None:
        """All that was derived through what was lost; None if starting anew is less work."""
        lost: dict[str, dict[Fact, None]] = {name: {} for name in self.names}
        fresh = {
            name: self._without_base(name, facts, lost) for name, facts in self._losses.items()
        }
        most = 64 + sum(map(len, self.extents.values())) // 2
        while any(fresh.values()):
            following: dict[str, list[Fact]] = {name: [] for name in self.names}
            for name, facts in fresh.items():
                if facts:
                    for each in self._inner[name]:
                        found = self._without_base(each.rule.head, each.plan.run(facts), lost)
                        following[each.rule.head] += found
            fresh = following
            if sum(map(len, lost.values())) > most:
                return None
        return lost

    def _without_base(
        self, name: str, facts: Iterable[Fact], lost: dict[str, dict[Fact, None]]
    ) -> list[Fact]:
        """The facts that are there because of others, which are gone, and are no base facts."""
        extent, gone = self.extents[name], lost[name]
        fresh: list[Fact] = []
        for fact in facts:
            key = extent.key(fact)
            held = extent.contents.get(key)
            if held is None or held in gone or extent.base.get(key) == held:
                continue
            if held == fact or _may_be_of(held, fact):
                gone[held] = None
                fresh.append(held)
        return fresh

    def _rederived(self, name: str, lost: Mapping[Fact, None]) -> list[Fact]:
        """Those of the lost facts that another way leads to."""
        if not lost:
            return []
        back: dict[Fact, None] = {}
        for way in self._ways:
            if way.rule.head == name:
                back.update(dict.fromkeys(way.among(lost)))
        return list(back)


def _outside_first(rule: CoreRule, clique: Mapping[str, Extent]) -> CoreRule:
    """The same rule, with atoms of other relations first: they tend to have fewer facts."""
    atoms = sorted(rule.atoms, key=lambda atom: atom.relation in clique)
    return replace(rule, atoms=tuple(atoms))


class _Way:
    """How a rule derives given facts: from the variables of its head."""

    def __init__(self, rule: CoreRule, extents: Mapping[str, Extent]) -> None:
        self.rule = rule
        self._key = extents[rule.head].key
        names: dict[str, int] = {}
        self._constants: list[tuple[int, Any]] = []
        for i, argument in enumerate(rule.arguments[: extents[rule.head].width]):
            if isinstance(argument, Variable):
                names.setdefault(argument.name, i)
            elif isinstance(argument, Constant):
                self._constants.append((i, argument.value))
        self._places = list(names.values())
        self._plan = Plan(rule, extents, None, list(names))

    def among(self, facts: Mapping[Fact, None]) -> Iterable[Fact]:
        """What the rule derives for the keys of some facts."""
        keys = set(map(self._key, facts))
        wanted = [
            tuple([fact[i] for i in self._places])
            for fact in facts
            if all(fact[i] == value for i, value in self._constants)
        ]
        return [f for f in self._plan.run(dict.fromkeys(wanted)) if self._key(f) in keys]


def _may_be_of(held: Fact, fact: Fact) -> bool:
    """Whether values of lattices may have been merged of others, of which something is gone."""
    is_reached = False
    for one, other in zip(held, fact, strict=True):
        if isinstance(one, LMax | LMin):
            is_reached |= one == other  # else another value is the largest
        elif isinstance(one, Lattice):
            is_reached = True
        elif one != other:
            return False
    return is_reached
