"""Elements: collections, operators with state, and the joins and projections of rules.

Facts flow downstream, from scanned collections through elements into collections. An element holds
two flags, which the invalidation scheme sets (invalidation.py):

    is_invalid   what it holds may be wrong: it takes losses into account, or starts over
    is_asked     somebody downstream starts over, and asks it for all it has (`rescan`)

An element that is neither takes what is new and nothing else. An invalid one is *cleared*,
*repaired* or *rebuilt*, as `Decision` says: decided when the program is wired, or by sizes in the
tick.

An element is *fleeting* if every rule for it reads a collection without storage, as inputs,
channels and timers are: what it holds is derived from the facts of one tick, so it is cleared at
the next, and no fact is ever taken back. A rule that reads such a collection has one term, seeded
by it; the terms that would read its storage are not made. Other rules have a term for each atom:
what is new (or gone) there, joined with the others as they are at that moment, so that every way to
derive a fact is counted in once and out once. Of a relation that a rule reads twice, atoms behind
the seed are read as they were before (`Earlier`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from caladan.analysis.core import CoreRule
from caladan.language.bloom.folds import FoldState, initial_state
from caladan.language.bloom.schema import CollectionKind, Schema
from caladan.language.bloom.values import freeze, order_key
from caladan.program import Aggregate, Folding, Variable
from caladan.program.diagnostics import CaladanError
from caladan.ticks.extent import Desired, Earlier, Extent, Fact, Inconsistent, TickChange, picker
from caladan.ticks.plans import EvaluateTerm, Plan, evaluator, failure, without

Facts = Sequence[Fact]


class Decision(Enum):
    """What an element does when it is invalid."""

    CLEARED = "cleared, and derived from what has no storage"
    SIZED = "repaired by what changed, or rebuilt where that is less to go through"
    NUMBERED = "repaired by what changed, and numbered again"
    STORED = "not touched: a table keeps what is stored; what changed repairs its derivations"
    EMPTIED = "emptied; holds what arrives"
    DELETED = "rid of what is deleted"
    PASSED = "without state, and passes a rescan on to its source"
    SIDES = "with the indexes of its sides, and answers a rescan from these"


class Element:
    """A collection, an operator with state, or the join or projection of a rule."""

    is_stateful = True
    is_join = False
    persists = False
    decision = Decision.SIZED

    def __init__(self, name: str, kind: str, stratum: int) -> None:
        self.name = name
        self.kind = kind
        self.stratum = stratum
        self.sources: list[str] = []
        self.targets: list[str] = []
        self.is_invalid = False
        self.is_asked = False
        self.invalidated = 0
        self.rescanned = 0
        self.repaired = 0
        self.rebuilt = 0

    def rescan(self) -> Iterable[Fact]:
        """All facts that come out of it, from its own state or from its sources."""
        raise NotImplementedError


class CollectionElement(Element):
    """A relation: a collection, or the buffer of an operator."""

    def __init__(self, extent: Extent, stratum: int) -> None:
        super().__init__(extent.name, extent.schema.kind.value, stratum)
        self.extent = extent
        self.persists = extent.persists
        self.is_fleeting = False
        self.decision = Decision.DELETED if extent.persists else Decision.EMPTIED

    def rescan(self) -> Iterable[Fact]:
        self.rescanned += 1
        return self.extent.scan()

    def output(self) -> Iterable[Fact]:
        """What comes out of it in this tick: all it has if it is asked for that, or what is new."""
        return self.rescan() if self.is_asked else self.extent.change.added


class SeededRule:
    """A rule seeded by one of its atoms: what its head loses and gains if that atom changes."""

    def __init__(
        self,
        element: RuleElement,
        index: int,
        extents: Mapping[str, Extent],
        clique: Collection[str] = (),
    ) -> None:
        self.element = element
        self.rule = rule = element.rule
        self.index = index
        self.atom = rule.atoms[index]
        self.source = extents[self.atom.relation]
        read = [
            Earlier(extents[atom.relation])
            if i > index
            and atom.relation == self.atom.relation
            and not (element.is_fleeting or atom.relation in clique)
            else extents[atom.relation]
            for i, atom in enumerate(rule.atoms)
        ]
        is_earlier = any(isinstance(each, Earlier) for each in read)
        names = list(self.atom.variables)
        if not self.atom.negated:
            self.plan = self.whole = Plan(rule, extents, index, (), read)
            if is_earlier:
                self.whole = Plan(rule, extents, index)  # over relations as they are
        else:
            rest = without(rule, index)
            del read[index]
            self.plan = self.whole = Plan(rest, extents, None, names, read)
            if is_earlier:
                self.whole = Plan(rest, extents, None, names)
        # What a clique gains is derived once, from what there is; what it loses, from what was.
        self._gaining = self.whole if clique else self.plan
        if not self.atom.negated:
            return
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

    def losses(self, change: TickChange) -> Iterable[Fact]:
        """Ways to derive facts that are gone."""
        if not self.atom.negated:
            return self.plan.run(change.removed) if change.removed else ()
        return self.plan.run(self._flipped(change.added, change.removed))

    def gains(self, change: TickChange) -> Iterable[Fact]:
        """Ways to derive facts that are new."""
        if not self.atom.negated:
            return self._gaining.run(change.added) if change.added else ()
        return self._gaining.run(self._flipped(change.removed, change.added, now=False))

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


def _rank(schema: Schema, element: CollectionElement) -> int:
    """Where an atom stands in a join: timers, singletons, what has no storage, the others."""
    if schema.kind in (CollectionKind.PERIODIC, CollectionKind.CLOCK):
        return 0
    if not schema.width and not schema.kind.is_element:
        return 1
    return 2 if element.is_fleeting else 3


class RuleElement(Element):
    """The projection or the join that a rule is: its delta rules, one for each atom with a term."""

    def __init__(
        self,
        name: str,
        rule: CoreRule,
        stratum: int,
        elements: Mapping[str, CollectionElement],
        extents: Mapping[str, Extent],
        clique: Collection[str] = (),
    ) -> None:
        self.is_stateful = self.is_join = len(rule.atoms) > 1
        super().__init__(name, "join" if self.is_join else "project", stratum)
        self.decision = Decision.SIDES if self.is_join else Decision.PASSED
        places = {
            id(atom): _rank(elements[atom.relation].extent.schema, elements[atom.relation])
            for atom in rule.atoms
        }
        atoms = sorted(rule.atoms, key=lambda atom: (atom.negated, places[id(atom)]))
        self.written = rule
        self.rule = rule = replace(rule, atoms=tuple(atoms))
        self.negates = any(atom.negated for atom in atoms)
        self.reads = [elements[atom.relation] for atom in atoms]
        seeds = range(len(rule.positive))
        self.is_fleeting = not clique and any(self.reads[i].is_fleeting for i in seeds)
        """Whether it derives facts of one tick: it has one term then, and nothing is taken back."""
        terms: Sequence[int] = range(len(atoms))
        if self.is_fleeting:  # the outer side: timers, singletons, then what has no storage
            terms = [i for i in seeds if places[id(atoms[i])] == places[id(atoms[0])]]
        self.deltas = [SeededRule(self, i, extents, clique) for i in terms]
        self._seeds = [delta for delta in self.deltas if not delta.atom.negated]
        self._alone = None if self._seeds else Plan(rule, extents, None, ())
        self.pending: dict[Fact, int] = {}
        """How many more or fewer ways there are to derive a fact in this tick."""
        self.made: list[Fact] = []
        """What a fleeting rule derived in the last tick, for heads that other rules fill too."""

    def everything(self) -> Iterable[Fact]:
        """Every way in which the rule derives a fact, from what the relations hold."""
        if self._alone is not None:
            return self._alone.run([()])
        best = min(self._seeds, key=lambda delta: len(delta.source))
        if not best.source.contents:
            return ()
        facts = best.source.contents.values() if self.is_fleeting else best.source.scan()
        return best.whole.run(facts)

    def rescan(self) -> Iterable[Fact]:
        self.rescanned += 1
        if self.is_join or self._alone is not None:
            return self.everything()
        return self.deltas[0].plan.run(self.reads[0].output())

    def replace(self) -> None:
        """Take back what it derived in the last tick, without the join, for what it derives now."""
        pending = self.pending
        for fact in self.made:
            pending[fact] = pending.get(fact, 0) - 1
        self.made = list(self.output())
        for fact in self.made:
            pending[fact] = pending.get(fact, 0) + 1

    def output(self) -> Iterable[Fact]:
        """What comes out of a rule for a head that starts over, unless that took what is new."""
        return self.rescan() if self.is_asked else ()

    def cost(self) -> int:
        """About how many facts a rescan goes through."""
        return min((len(delta.source) for delta in self._seeds), default=1)


class DerivingElement(CollectionElement):
    """What rules, or an operator, keep true. A tick asks those that are `is_dirty` to `finish`.

    `rebuild` says that it starts over; `is_lost`, that nothing it keeps can be relied on;
    `is_bulk`, that the columnar engine did it.
    """

    may_repair = True
    is_dirty = False
    rebuild = False
    is_lost = False
    is_bulk = False

    @property
    def names(self) -> tuple[str, ...]:
        """The relations that it derives."""
        return (self.name,)

    @property
    def holds(self) -> bool:
        """Whether a fleeting element has something to clear."""
        return self.is_fleeting and bool(self.extent.contents)

    def start(self, base: Mapping[str, Desired]) -> None:
        """A tick begins, with changes of base facts."""

    def told(self, delta: SeededRule | None, change: TickChange) -> None:
        """A relation that it reads has changed, in the atom of a delta rule if it has rules."""
        raise NotImplementedError

    def finish(self) -> dict[str, TickChange]:
        """Make contents true; what has changed by that."""
        raise NotImplementedError

    def reset(self) -> None:
        """Be ready for the next tick."""
        self.is_dirty = self.rebuild = self.is_lost = self.is_bulk = False


class DerivedElement(DerivingElement):
    """A relation that rules fill, and that does not depend on itself."""

    def __init__(
        self, extent: Extent, stratum: int, rules: Sequence[RuleElement], has_timed: bool
    ) -> None:
        super().__init__(extent, stratum)
        self.rules = list(rules)
        self._fleeting = [rule for rule in rules if rule.is_fleeting]
        self.keys: dict[Any, None] = {}
        self.work = 0
        is_derived_anew = all(rule.is_fleeting for rule in rules)
        self.is_fleeting = is_derived_anew and not (self.persists or has_timed)
        self.decision = Decision.CLEARED if self.is_fleeting else Decision.SIZED
        if self.persists:
            self.decision = Decision.STORED

    @property
    def holds(self) -> bool:
        if self.is_fleeting:
            return bool(self.extent.contents)
        return bool(self._fleeting) and any(rule.made for rule in self._fleeting)

    def start(self, base: Mapping[str, Desired]) -> None:
        desired = base.get(self.name)
        if desired is not None:
            self.keys = self.extent.based(desired)
            self.is_dirty = True

    def told(self, delta: SeededRule | None, change: TickChange) -> None:
        self.is_dirty = True
        assert delta is not None
        rule = delta.element
        if rule.is_fleeting or self.is_lost:
            return  # it reads all that its sources hold, once that is known
        is_invalid = self.is_invalid
        if is_invalid and not self.rebuild:
            self.work += len(change.removed) + len(change.added)
            if not self.may_repair or (self.work > 16 and self.work > self.cost()):
                self.rebuild = True
        if self.rebuild and rule.is_asked:
            return
        pending, is_negated = rule.pending, delta.atom.negated
        if (is_invalid or self.persists) and (is_negated or change.removed):
            for fact in delta.losses(change):
                pending[fact] = pending.get(fact, 0) - 1
        if is_negated or change.added:
            for fact in delta.gains(change):
                pending[fact] = pending.get(fact, 0) + 1

    def cost(self) -> int:
        """About how much work it is to start over."""
        return len(self.extent.derived) + sum(rule.cost() for rule in self.rules)

    def finish(self) -> dict[str, TickChange]:
        if self.is_invalid:
            self.invalidated += 1
        if self.is_fleeting:
            return self._clear_and_derive()
        extent = self.extent
        if not self.rebuild:
            try:
                for rule in self._fleeting:
                    rule.replace()
                extent.counted(_count_derivations(self.rules), self.keys)
                self.repaired += 1
            except Inconsistent:
                self.rebuild = self.is_lost = True
        if self.rebuild:
            self._start_over()
        return {extent.name: TickChange(*extent.apply(extent.settled(self.keys)))}

    def _start_over(self) -> None:
        self.rebuilt += 1
        extent, keys = self.extent, self.keys
        if self.is_lost:
            keys.update(dict.fromkeys((*extent.contents, *extent.base)))
        for fact in extent.derived:
            keys[extent.key(fact)] = None
        extent.clear_derived()
        for rule in self.rules:
            if not (rule.is_asked or self.is_lost):
                rule.pending = {fact: n for fact, n in rule.pending.items() if n > 0}
                continue
            facts = list(rule.everything() if self.is_lost else rule.rescan())
            rule.pending = dict(Counter(facts))
            if rule.is_fleeting:
                rule.made = facts
        extent.counted(_count_derivations(self.rules), keys)

    def _clear_and_derive(self) -> dict[str, TickChange]:
        """Hold what this tick's facts derive; what is not invalid keeps what it had."""
        self.rebuild = True
        self.rebuilt += 1
        extent = self.extent
        contents = dict(extent.base if self.is_invalid or self.is_lost else extent.contents)
        key, joined = extent.key, extent.joined
        for rule in self.rules:
            for fact in rule.everything() if self.is_lost else rule.output():
                k = key(fact)
                old = contents.get(k)
                contents[k] = fact if old is None else joined(old, fact)
        return {extent.name: TickChange(*extent.become(contents))}

    def reset(self) -> None:
        super().reset()
        self.work = 0
        self.keys = {}
        for rule in self.rules:
            if rule.pending:
                rule.pending = {}


def _count_derivations(rules: Sequence[RuleElement]) -> dict[Fact, int]:
    """How many more or fewer ways there are to derive facts by all rules."""
    if len(rules) == 1:
        return rules[0].pending
    found: dict[Fact, int] = {}
    for rule in rules:
        for fact, change in rule.pending.items():
            found[fact] = found.get(fact, 0) + change
    return found


def _slots(rule: CoreRule) -> dict[str, int]:
    """Where the variables of the one relation that a rule goes through stand."""
    return {a.name: i for i, a in enumerate(rule.atoms[0].arguments) if isinstance(a, Variable)}


class GroupElement(DerivingElement):
    """Aggregates of one relation, a running state for each group."""

    def __init__(
        self, extent: Extent, stratum: int, rule: CoreRule, source: CollectionElement
    ) -> None:
        super().__init__(extent, stratum)
        self.rule = rule
        self.source = source
        self.is_fleeting = source.is_fleeting
        self.decision = Decision.CLEARED if self.is_fleeting else Decision.SIZED
        slots = _slots(rule)
        by = [a for a in rule.arguments if not isinstance(a, Aggregate)]
        self._by = [evaluator(each, slots) for each in by]
        self._columns = tuple(slots[a.name] for a in by if isinstance(a, Variable))
        self._is_looked_up = len(self._columns) == len(by)
        self._folds: list[tuple[Aggregate, list[EvaluateTerm]]] = [
            (a, [evaluator(term, slots) for term in a.terms])
            for a in rule.arguments
            if isinstance(a, Aggregate)
        ]
        self._default = not by and any(
            isinstance(a, Folding) and a.function == "reduce" for a, _ in self._folds
        )
        self._groups: dict[Fact, tuple[list[int], list[FoldState]]] = {}
        self._change = TickChange()

    def told(self, delta: SeededRule | None, change: TickChange) -> None:
        self.is_dirty = True
        self._change = change

    def reset(self) -> None:
        super().reset()
        self._change = TickChange()

    def finish(self) -> dict[str, TickChange]:
        try:
            return self._finish()
        except CaladanError:
            raise
        except Exception as problem:
            raise failure(self.rule, problem) from problem

    def _finish(self) -> dict[str, TickChange]:
        change = self._change
        if self.is_invalid:
            self.invalidated += 1
            size = len(change.removed) + len(change.added)
            is_less = size > 16 and size > len(self.source.extent)
            self.rebuild = self.rebuild or self.is_fleeting or not self.may_repair or is_less
        touched: dict[Fact, None] = {}
        if self.rebuild:
            self.rebuilt += 1
            touched = dict.fromkeys(self._groups)
            if self.is_lost:
                width = self.extent.width
                touched.update(dict.fromkeys(f[:width] for f in self.extent.contents.values()))
            self._groups.clear()
            if self._default:
                touched[()] = None
            source = self.source
            for fact in source.extent.scan() if self.is_lost else source.output():
                touched[self._add(fact)] = None
        else:
            self.repaired += 1
            self._repair(change if self.is_invalid else TickChange((), change.added), touched)
        desired: Desired = {g[0] if len(g) == 1 else g: self._row(g) for g in touched}
        return {self.extent.name: TickChange(*self.extent.apply(desired))}

    def _repair(self, change: TickChange, touched: dict[Fact, None]) -> None:
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
            return list(self.source.extent.index(self._columns).get(key, ()))
        return [fact for fact in self.source.extent.scan() if self._group(fact) == group]

    def _group(self, fact: Fact) -> Fact:
        return tuple([freeze(value(fact)) for value in self._by])

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
            initial_state(a.function, a.code, a.initial)
            if isinstance(a, Folding)
            else initial_state(a.function, None, None)
            for a, _ in self._folds
        ]

    def _row(self, group: Fact) -> Fact | None:
        if group not in self._groups and not self._default:
            return None
        states = self._groups[group][1] if group in self._groups else self._started()
        return (*group, *(freeze(state.value) for state in states))


class IndexElement(DerivingElement):
    """Facts with their place in an order, kept in a buffer; ordinals move, so all are numbered."""

    def __init__(
        self, extent: Extent, stratum: int, rule: CoreRule, source: CollectionElement
    ) -> None:
        super().__init__(extent, stratum)
        self.rule = rule
        self.source = source
        self.is_fleeting = source.is_fleeting
        self.decision = Decision.CLEARED if self.is_fleeting else Decision.NUMBERED
        slots = _slots(rule)
        number = rule.arguments[-1]
        assert isinstance(number, Folding)
        self._order = [evaluator(term, slots) for term in number.terms]
        self._is_reversed = bool(number.initial)
        self._buffer: dict[Fact, None] = {}
        self._change = TickChange()

    def told(self, delta: SeededRule | None, change: TickChange) -> None:
        self.is_dirty = True
        self._change = change

    def reset(self) -> None:
        super().reset()
        self._change = TickChange()

    def finish(self) -> dict[str, TickChange]:
        buffer, change, order = self._buffer, self._change, self._order
        if self.is_invalid:
            self.invalidated += 1
        if self.is_lost or (self.is_invalid and (self.is_fleeting or not self.may_repair)):
            self.rebuild = True
            self.rebuilt += 1
            buffer.clear()
            source = self.source
            facts = source.extent.scan() if self.is_lost else source.output()
        else:
            self.repaired += 1
            for fact in change.removed if self.is_invalid else ():
                buffer.pop(fact, None)
            facts = change.added
        buffer.update(dict.fromkeys(facts))

        def place(fact: Fact) -> Any:
            return [order_key(value(fact)) for value in order], order_key(fact)

        desired: Desired = dict.fromkeys(self.extent.contents)
        for number, fact in enumerate(sorted(buffer, key=place, reverse=self._is_reversed)):
            row = (*fact, number)
            desired[self.extent.key(row)] = row
        return {self.name: TickChange(*self.extent.apply(desired))}
