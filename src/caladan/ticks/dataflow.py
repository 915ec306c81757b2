"""Dataflow: nodes that keep derived relations true, tick after tick.

A `Node` is a relation with its rules (`PlainNode`), an aggregate (`GroupNode`), an order
(`IndexNode`) or a clique (`RecursiveNode`, in recursion.py). A tick goes through all of them.
Whoever has changed tells its consumers what it lost and gained: delta rules, one for each atom,
whose other atoms are read as they are at that moment. So every way to derive a fact is counted in
once and out once, whichever of its facts came or went first.

A node is either *repaired* from such changes, or *rebuilt* from the contents of what it reads: if
it must be (safe mode, invalidation as wired), or if that is less work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caladan.analysis.core import CoreRule
from caladan.language.bloom.folds import FoldState, running
from caladan.language.bloom.values import frozen, ordered
from caladan.program import Aggregate, Folding, Variable
from caladan.program.diagnostics import CaladanError
from caladan.ticks.extent import Desired, Extent, Fact, Inconsistent, picker
from caladan.ticks.plans import Evaluate, Plan, evaluator, failure, without

Facts = Sequence[Fact]


@dataclass(slots=True)
class Change:
    """What a relation lost and gained in a tick."""

    removed: Facts = ()
    added: Facts = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


class SeededRule:
    """A rule seeded by one of its atoms: what its head loses and gains if that atom changes."""

    def __init__(self, rule: CoreRule, index: int, extents: Mapping[str, Extent]) -> None:
        self.rule = rule
        self.index = index
        self.atom = rule.atoms[index]
        self.source = extents[self.atom.relation]
        if not self.atom.negated:
            self.plan = Plan(rule, extents, index)
            return
        names = list(self.atom.variables)
        self.plan = Plan(without(rule, index), extents, None, names)
        bound = [
            (i, argument)
            for i, argument in enumerate(self.atom.arguments)
            if not (isinstance(argument, Variable) and argument.is_anonymous)
        ]
        self._bound = bound
        self._positions = tuple(i for i, _ in bound)
        self._pick = picker(self._positions)
        first: dict[str, int] = {}
        for i, argument in bound:
            if isinstance(argument, Variable):
                first.setdefault(argument.name, i)
        self._variables = [first[name] for name in names]

    def losses(self, change: Change) -> Iterable[Fact]:
        """Ways to derive facts that are gone."""
        if not self.atom.negated:
            return self.plan.run(change.removed) if change.removed else ()
        return self.plan.run(self._flipped(change.added, change.removed))

    def gains(self, change: Change) -> Iterable[Fact]:
        """Ways to derive facts that are new."""
        if not self.atom.negated:
            return self.plan.run(change.added) if change.added else ()
        return self.plan.run(self._flipped(change.removed, change.added, now=False))

    def _flipped(self, these: Facts, others: Facts, *, now: bool = True) -> list[Fact]:
        """Bindings whose match has come (`now`) or gone, with facts of `these`."""
        if not these:
            return []
        rows, back = self._by_key(these), self._by_key(others)
        index = self.source.index(self._positions) if self._positions else None
        flipped: list[Fact] = []
        for key, facts in rows.items():
            after = len(self.source) if index is None else len(index.get(key, ()))
            change = len(facts) - len(back.get(key, ()))
            before = after - change if now else after + change
            if (before == 0 and after > 0) if now else (before > 0 and after == 0):
                flipped.append(tuple(facts[-1][i] for i in self._variables))
        return flipped

    def _by_key(self, facts: Facts) -> dict[Any, list[Fact]]:
        """The facts that can match the atom, by the values that are looked up."""
        rows: dict[Any, list[Fact]] = {}
        for fact in facts:
            if self._matches(fact):
                rows.setdefault(self._pick(fact), []).append(fact)
        return rows

    def _matches(self, fact: Fact) -> bool:
        """Whether a fact can match the atom at all: its constants, its repeated variables."""
        seen: dict[str, Any] = {}
        for i, argument in self._bound:
            value = fact[i]
            if isinstance(argument, Variable):
                if seen.setdefault(argument.name, value) != value:
                    return False
            elif argument.value != value:
                return False
        return True


class RuleDeltas:
    """All delta rules of a rule, of which the one with the fewest facts also derives everything."""

    def __init__(self, rule: CoreRule, extents: Mapping[str, Extent]) -> None:
        self.rule = rule
        self.deltas = [SeededRule(rule, i, extents) for i in range(len(rule.atoms))]
        self._positive = [delta for delta in self.deltas if not delta.atom.negated]
        self._alone = None if self._positive else Plan(rule, extents, None, ())

    def everything(self) -> Iterable[Fact]:
        """Every way in which the rule derives a fact, from scratch."""
        if self._alone is not None:
            return self._alone.run([()])
        best = min(self._positive, key=lambda delta: len(delta.source))
        if not len(best.source):
            return ()
        return best.plan.run(best.source.scan())

    def cost(self) -> int:
        """About how many facts that goes through."""
        return min((len(delta.source) for delta in self._positive), default=1)


class Node:
    """What derives relations. A tick asks those that are `is_dirty` to make contents true.

    `rebuild` says that it starts from scratch; `is_lost`, that nothing it keeps can be relied on;
    `is_bulk`, that the columnar engine did it.
    """

    names: tuple[str, ...]
    is_dirty = False
    rebuild = False
    is_lost = False
    is_bulk = False
    repairs = 0
    rebuilds = 0

    def start(self, base: Mapping[str, Desired]) -> None:
        """A tick begins, with changes of base facts."""

    def told(self, delta: SeededRule, change: Change) -> None:
        """A relation that a rule reads has changed."""
        raise NotImplementedError

    def finish(self) -> dict[str, Change]:
        """Make contents true; what has changed by that."""
        raise NotImplementedError

    def reset(self) -> None:
        """Be ready for the next tick."""
        self.is_dirty = self.rebuild = self.is_lost = self.is_bulk = False


class PlainNode(Node):
    """A relation that does not depend on itself."""

    def __init__(
        self, extent: Extent, rules: Sequence[CoreRule], extents: Mapping[str, Extent]
    ) -> None:
        self.names = (extent.name,)
        self.extent = extent
        self.bodies = [RuleDeltas(rule, extents) for rule in rules]
        self.deltas = [delta for body in self.bodies for delta in body.deltas]
        self.pending: dict[Fact, int] = {}
        self.keys: dict[Any, None] = {}
        self.work = 0

    def start(self, base: Mapping[str, Desired]) -> None:
        desired = base.get(self.extent.name)
        if desired is not None:
            self.keys = self.extent.based(desired)
            self.is_dirty = True

    def told(self, delta: SeededRule, change: Change) -> None:
        self.is_dirty = True
        if self.rebuild:
            return
        self.work += len(change.removed) + len(change.added)
        if self.work > 16 and self.work > self.cost():
            self.rebuild = True
            return
        pending = self.pending
        for fact in delta.losses(change):
            pending[fact] = pending.get(fact, 0) - 1
        for fact in delta.gains(change):
            pending[fact] = pending.get(fact, 0) + 1

    def cost(self) -> int:
        """About how much work it is to start from scratch."""
        return len(self.extent.derived) + sum(body.cost() for body in self.bodies)

    def finish(self) -> dict[str, Change]:
        extent = self.extent
        if not self.rebuild:
            try:
                extent.counted(self.pending, self.keys)
                self.repairs += 1
            except Inconsistent:
                self.rebuild = self.is_lost = True
        if self.rebuild:
            self.rebuilds += 1
            keys = self.keys
            if self.is_lost:
                keys.update(dict.fromkeys((*extent.contents, *extent.base)))
            for fact in extent.derived:
                keys[extent.key(fact)] = None
            extent.clear_derived()
            pending: dict[Fact, int] = {}
            for body in self.bodies:
                for fact in body.everything():
                    pending[fact] = pending.get(fact, 0) + 1
            extent.counted(pending, keys)
        return {extent.name: Change(*extent.apply(extent.settled(self.keys)))}

    def reset(self) -> None:
        super().reset()
        self.work = 0
        self.pending = {}
        self.keys = {}


def _slots(rule: CoreRule) -> dict[str, int]:
    """Where the variables of the one relation that a rule goes through stand."""
    return {a.name: i for i, a in enumerate(rule.atoms[0].arguments) if isinstance(a, Variable)}


class GroupNode(Node):
    """Aggregates of one relation, a running state for each group."""

    def __init__(self, extent: Extent, rule: CoreRule, extents: Mapping[str, Extent]) -> None:
        self.names = (extent.name,)
        self.extent = extent
        self.rule = rule
        self.source = extents[rule.atoms[0].relation]
        self.deltas = [SeededRule(rule, 0, extents)]
        slots = _slots(rule)
        by = [a for a in rule.arguments if not isinstance(a, Aggregate)]
        self._by = [evaluator(each, slots) for each in by]
        self._columns = tuple(slots[a.name] for a in by if isinstance(a, Variable))
        self._is_looked_up = len(self._columns) == len(by)
        self._folds: list[tuple[Aggregate, list[Evaluate]]] = [
            (a, [evaluator(term, slots) for term in a.terms])
            for a in rule.arguments
            if isinstance(a, Aggregate)
        ]
        self._default = not by and any(
            isinstance(a, Folding) and a.function == "reduce" for a, _ in self._folds
        )
        self._groups: dict[Fact, tuple[list[int], list[FoldState]]] = {}
        self._change = Change()

    def told(self, delta: SeededRule, change: Change) -> None:
        self.is_dirty = True
        self._change = change

    def reset(self) -> None:
        super().reset()
        self._change = Change()

    def finish(self) -> dict[str, Change]:
        try:
            return self._finish()
        except CaladanError:
            raise
        except Exception as problem:
            raise failure(self.rule, problem) from problem

    def _finish(self) -> dict[str, Change]:
        change = self._change
        size = len(change.removed) + len(change.added)
        if not self.rebuild and size > 16 and size > len(self.source):
            self.rebuild = True
        touched: dict[Fact, None] = {}
        if self.rebuild:
            self.rebuilds += 1
            touched = dict.fromkeys(self._groups)
            if self.is_lost:
                width = self.extent.width
                touched.update(dict.fromkeys(f[:width] for f in self.extent.contents.values()))
            self._groups.clear()
            if self._default:
                touched[()] = None
            for fact in self.source.scan():
                touched[self._add(fact)] = None
        else:
            self.repairs += 1
            self._repair(change, touched)
        desired: Desired = {g[0] if len(g) == 1 else g: self._row(g) for g in touched}
        return {self.extent.name: Change(*self.extent.apply(desired))}

    def _repair(self, change: Change, touched: dict[Fact, None]) -> None:
        anew: dict[Fact, None] = {}
        for fact in change.removed:
            group = self._group(fact)
            touched[group] = None
            facts, states = self._groups[group]
            facts[0] -= 1
            if not facts[0]:
                del self._groups[group]
                anew.pop(group, None)
            elif group not in anew:
                for (_, terms), state in zip(self._folds, states, strict=True):
                    if not state.remove(tuple([term(fact) for term in terms])):
                        anew[group] = None
        for fact in change.added:
            group = self._group(fact)
            touched[group] = None
            if group in anew:
                self._groups[group][0][0] += 1
            else:
                self._add(fact)
        for group in anew:
            self._groups.pop(group, None)
            for fact in self._members(group):
                self._add(fact)

    def _members(self, group: Fact) -> Iterable[Fact]:
        if self._is_looked_up and self._columns:
            key = group[0] if len(group) == 1 else group
            return list(self.source.index(self._columns).get(key, ()))
        return [fact for fact in self.source.scan() if self._group(fact) == group]

    def _group(self, fact: Fact) -> Fact:
        return tuple([frozen(value(fact)) for value in self._by])

    def _add(self, fact: Fact) -> Fact:
        group = self._group(fact)
        known = self._groups.get(group)
        if known is None:
            known = self._groups[group] = ([0], self._started())
        known[0][0] += 1
        for (_, terms), state in zip(self._folds, known[1], strict=True):
            state.add(tuple([term(fact) for term in terms]))
        return group

    def _started(self) -> list[FoldState]:
        return [
            running(a.function, a.code, a.initial)
            if isinstance(a, Folding)
            else running(a.function, None, None)
            for a, _ in self._folds
        ]

    def _row(self, group: Fact) -> Fact | None:
        if group not in self._groups and not self._default:
            return None
        states = self._groups[group][1] if group in self._groups else self._started()
        return (*group, *(frozen(state.value) for state in states))


class IndexNode(Node):
    """Facts with their place in an order."""

    def __init__(self, extent: Extent, rule: CoreRule, extents: Mapping[str, Extent]) -> None:
        self.names = (extent.name,)
        self.extent = extent
        self.source = extents[rule.atoms[0].relation]
        self.deltas = [SeededRule(rule, 0, extents)]
        slots = _slots(rule)
        number = rule.arguments[-1]
        assert isinstance(number, Folding)
        self._order = [evaluator(term, slots) for term in number.terms]
        self._is_reversed = bool(number.initial)

    def told(self, delta: SeededRule, change: Change) -> None:
        self.is_dirty = True

    def finish(self) -> dict[str, Change]:
        self.rebuilds += 1
        order = self._order

        def place(fact: Fact) -> Any:
            return [ordered(value(fact)) for value in order], ordered(fact)

        desired: Desired = dict.fromkeys(self.extent.contents)
        for number, fact in enumerate(
            sorted(self.source.scan(), key=place, reverse=self._is_reversed)
        ):
            row = (*fact, number)
            desired[self.extent.key(row)] = row
        return {self.extent.name: Change(*self.extent.apply(desired))}
