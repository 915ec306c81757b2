"""Handing a clique to its shape, if it has one, with what shapes ask of a run.

Nothing here loads the kernels of shapes: evaluate.py does, once there is one to evaluate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.columns import pool
from caladan.columns.domains import Domain, word_of
from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.layout import Counts, Layout, Mask, Words, concatenate
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.blueprint import closure_of, facts_read, said, why_rounds
from caladan.fixpoint.heads import PlainHead
from caladan.fixpoint.limits import run_stoppable
from caladan.fixpoint.planner import Planner
from caladan.fixpoint.state import State
from caladan.join.arithmetic import blame_rule
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.join.plan import RulePlan
from caladan.plan.recursion import Closure, EdgeRule, enter
from caladan.program import Comparison, Constant, Value, Variable, thresholds
from caladan.program.events import Listener, RuleDone, RulePlanned
from caladan.rules.body import Version
from caladan.rules.delta import plain
from caladan.rules.program import DeltaClique, DeltaRule

if TYPE_CHECKING:
    from caladan.fixpoint.shapes.pairs import ShapeLimits

T = TypeVar("T")
_PENDING: Final = 4  # a part of the memory that facts may take before they are sorted

_MANY: Final = "its steps are a join of many more pairs than it has facts"

TellDeclined: TypeAlias = "Callable[[str, str], None]"  # what was not taken, and why


class Shaping:
    """Finds closures and solves them; `events` are told of the rules that were solved for one."""

    def __init__(self, state: State, planner: Planner, events: Listener) -> None:
        self._state = state
        self._planner = planner
        self._events = events

    def closure(self, clique: DeltaClique, declined: TellDeclined) -> Closure | None:
        """The closure that a clique is to be solved as; None if it goes in rounds."""
        if not clique.is_recursive:
            return None
        reason = why_rounds(self.facts_read(clique))
        if self._state.is_ranked:
            reason = "facts remember when they were derived"
        if reason is not None:
            declined("a closure", reason)
            return None
        found = closure_of(clique, self._state.program)
        if isinstance(found, str):
            declined("a closure", found)
            return None
        return found

    def facts_read(self, clique: DeltaClique) -> int:
        """How many facts a clique is given, and its rules read from elsewhere."""
        given = [rows for name in clique.relations for _, rows in self._state.given.get(name, ())]
        finished = [name for name in facts_read(clique) if name in self._state.finished]
        return sum(given) + self._state.total(finished)

    def solve_closure(self, closure: Closure, declined: TellDeclined) -> dict[str, Layout] | None:
        """The relations of a clique whose exit rules are done, None if its solver declines."""
        from caladan.fixpoint.shapes.evaluate import solve_closure

        return self._run(
            lambda limits: solve_closure(closure, self, limits, partial(declined, closure.solver))
        )

    def _run(self, work: Callable[[ShapeLimits], T]) -> T:
        """Do some work, which ends early past the deadline."""
        from caladan.fixpoint.shapes.pairs import Interrupted, ShapeLimits

        stop: Counts = np.zeros(1, np.int64)
        known = self._state.limits
        limits = ShapeLimits(known.memory.most, pool.threads(), stop, known.max_rounds)
        try:
            return run_stoppable(lambda: work(limits), stop, known.deadline, known.glance)
        except Interrupted:
            self._state.limits.seconds()
            raise

    def enter(self, closure: Closure | None, clique: DeltaClique) -> Closure | None:
        """A closure that takes the exit rules itself, where these read closures."""
        if self._state.limits.max_rounds is not None or self._state.is_ranked:
            return None
        relations = self._state.program.relations
        exits = [each.rule for each in clique.exit_rules]
        found = enter(
            closure, clique.relations, exits, relations,
            lambda atom: self.layout(atom) is not None,
        )  # fmt: skip
        return found if found is not None and all(map(self._is_closing, found.entries)) else None

    def _is_closing(self, step: EdgeRule) -> bool:
        """Whether all layouts that an edge reads are closures it can go through."""
        from caladan.fixpoint.shapes.steps import split_closure

        return all(
            split_closure(link, self) is not None
            for link in step.links
            if link.rule is not None and any(map(self.layout, link.rule.positive))
        )

    def overlay(self, clique: DeltaClique) -> Overlaying | None:
        """What takes the rules of a relation that reads layouts; None if it has none."""
        from caladan.fixpoint.shapes.halves import refusals

        (name, *_) = clique.relations
        bodies = [each.rule for each in clique.exit_rules]
        read = (a for rule in bodies for a in (*rule.positive, *refusals(rule)))
        if clique.is_recursive or self._state.is_ranked or not any(map(self.layout, read)):
            return None
        return Overlaying(name, self._state, self._run, self)

    def layout(self, atom: CoreAtom) -> FoldedRelation | None:
        """The relation of an atom, if it is folded and has many facts."""
        if atom.relation not in self._state.finished:
            return None
        found = self._state.finished[atom.relation]
        folded = found.folded if isinstance(found, StoredRelation) else found
        if not isinstance(folded, FoldedRelation) or folded.count() < thresholds.now.folded:
            return None
        return folded

    # ── What shapes ask for ──────────────────────────────────────────────────────────────────────

    def exit(self, relation: str) -> tuple[Words, ...]:
        """The distinct facts of a relation before its recursive rules."""
        arity = self._state.program.relations[relation].arity
        return concatenate(self._state.heads[relation].relation.blocks(), arity)

    def info(self, relation: str) -> RelationInfo:
        """What is known of a relation."""
        return self._state.program.relations[relation]

    def word(self, relation: str, column: int, value: Value) -> int | None:
        """The word of a value in a column, None if no fact has it."""
        return word_of(value, self._state.classes.column(relation, column))

    def domain(self, relation: str, column: int) -> Domain:
        """The domain of a column."""
        return self._state.classes.column(relation, column)

    def share_words(self, relation: str, *columns: int) -> bool:
        """Whether the same word in some columns is the same value."""
        domains = self._state.classes.columns(relation)
        return all(domains[c] is domains[columns[0]] for c in columns)

    def numbers(self, relation: str, column: int, words: Words) -> Counts:
        """The numbers that words of a column stand for."""
        return self._state.classes.column(relation, column).ranks(words)

    def words(self, relation: str, column: int, numbers: Counts) -> Words:
        """The words of numbers in a column, new ones if need be."""
        return self._state.classes.column(relation, column).words(numbers)

    def values(self, rule: CoreRule, variable: str, words: Words) -> Counts:
        """The numbers that words of a variable stand for."""
        solved = plain(rule, self._state.program.relations)
        domains = self._state.classes.variables(rule, solved.body.separated)
        return domains[variable].ranks(words)

    def stored(self, relation: str, facts: Iterator[tuple[Words, ...]]) -> Layout:
        """A relation that holds some facts, each of which comes once.

        Where the memory has no room for all of them, those that have come are a run on disk.
        """
        state = self._state
        memory = state.limits.memory
        domains = state.classes.columns(relation)
        found = StoredRelation(domains, state.orders.get(relation, {}))
        for block in facts:
            if (packed := found.packed()) is not None:
                packed.expect_distinct()
            found.add(block, len(block[0]))
            if _PENDING * found.pending_bytes > memory.most:
                found.flip()
                found.commit()
                memory.settle(lambda: {**state.held(), relation: found})
        found.flip()
        found.commit()
        return found

    def evaluator(self, rule: CoreRule, names: Iterable[str]) -> Evaluator:
        """What evaluates expressions over some variables of a rule."""
        return Evaluator({name: self._state.classes.variable(rule, name) for name in names})

    def holds(
        self,
        rule: CoreRule,
        literals: Sequence[CoreAtom | Comparison],
        columns: Mapping[str, Words],
        shape: tuple[int, int],
    ) -> Mask:
        """Where literals of a rule hold; columns are those of a matrix, or of its rows or columns.

        What cannot be computed for some pair may never be asked for it in rounds: then it declines.
        """
        from caladan.fixpoint.shapes.pairs import Declined

        found: Mask = np.ones(shape, np.bool_)
        domains = {name: self._state.classes.variable(rule, name) for name in columns}
        evaluator = self.evaluator(rule, columns)
        rows = shape[0] * shape[1]
        for literal in literals:
            if isinstance(literal, Comparison) and _tells_words_apart(literal, domains):
                found &= evaluator.holds(literal, Bindings(rows, columns))
                continue
            flat = {n: np.broadcast_to(words, shape).flatten() for n, words in columns.items()}
            if isinstance(literal, CoreAtom):
                held = self._is_fact(literal, flat, rows) ^ literal.negated
            else:
                try:
                    held = evaluator.holds(literal, Bindings(rows, flat))
                except ArithmeticError:
                    raise Declined("a comparison of it cannot be made for all values") from None
            found &= held.reshape(shape)
        return found

    def _is_fact(self, atom: CoreAtom, columns: Mapping[str, Words], rows: int) -> Mask:
        """For which rows an atom has a fact; whatever is not bound may be anything.

        Declines if that has to be the same in two columns.
        """
        from caladan.fixpoint.shapes.pairs import Declined

        free = [a for a in atom.arguments if isinstance(a, Variable) and a.name not in columns]
        if any(free.count(each) > 1 for each in free if not each.is_anonymous):
            raise Declined("an atom has a variable twice that nothing else binds")
        words: dict[int, Words | int] = {}
        for column, argument in enumerate(atom.arguments):
            if isinstance(argument, Constant):
                word = self.word(atom.relation, column, argument.value)
                if word is None:
                    return np.zeros(rows, np.bool_)
                words[column] = word
            elif argument.name in columns:
                words[column] = columns[argument.name]
        relation = self._state.relation(atom.relation)
        if not words:
            return np.full(rows, relation.count() > 0)
        index = relation.index(tuple(words), Version.FULL)
        return index.present(*index.key(words, rows))

    def solve(self, rule: CoreRule, most: int | None = None) -> tuple[Words, ...]:
        """The distinct head rows of a rule over finished relations, if there are at most so many.

        Relations of the clique have their exit facts.
        """
        from caladan.fixpoint.shapes.pairs import Declined

        solved = plain(rule, self._state.program.relations)
        plan = self._planner.plan(solved)
        known = self._state.classes.variables(rule, plan.body)
        domains = [known[a.name] for a in rule.arguments if isinstance(a, Variable)]
        if (copied := self._copied(rule, domains, most)) is not None:
            plan.steps()
            self._tell_solved(rule, plan, len(copied[0]), 0.0)
            return copied
        head = PlainHead(domains)
        sink = head.sink(solved, plan, ())

        def check() -> None:
            self._state.limits.seconds()
            if most is not None and sink.count > most:
                raise Declined(_MANY)

        started = time.perf_counter()
        with blame_rule(rule):
            plan.run(sink, check)
        check()
        head.flip()
        self._tell_solved(rule, plan, sink.count, time.perf_counter() - started)
        return concatenate(head.relation.blocks(), len(domains))

    def _copied(
        self, rule: CoreRule, domains: Sequence[Domain], most: int | None
    ) -> tuple[Words, ...] | None:
        """The columns of a finished relation, if a rule asks for nothing else."""
        from caladan.fixpoint.shapes.pairs import Declined

        if rule.comparisons or len(rule.atoms) != 1 or rule.atoms[0].negated:
            return None
        (atom,) = rule.atoms
        name, arguments = atom.relation, atom.arguments
        if name not in self._state.finished or {*arguments} != {*rule.arguments}:
            return None
        if not len({*arguments}) == len(arguments) == len(rule.arguments):
            return None
        order = [arguments.index(each) for each in rule.arguments if isinstance(each, Variable)]
        own = self._state.classes.columns(name)
        if len(order) < len(own) or any(
            own[c] is not d for c, d in zip(order, domains, strict=True)
        ):
            return None
        if most is not None and self._state.finished[name].count() > most:
            raise Declined(_MANY)
        columns = concatenate(self._state.finished[name].blocks(), len(own))
        return tuple(columns[c] for c in order)

    def _tell_solved(self, rule: CoreRule, plan: RulePlan, count: int, seconds: float) -> None:
        steps = [said(step) for step in plan.accesses or ()]
        self._events.tell(RulePlanned(rule.number, None, steps))
        self._events.tell(RuleDone(rule.number, None, count, seconds))


class Overlaying:
    """The rules of a relation that reads layouts; those it declines go the way of all rules."""

    def __init__(
        self,
        name: str,
        state: State,
        run: Callable[[Callable[[ShapeLimits], Any]], Any],
        shaping: Shaping,
    ) -> None:
        from caladan.fixpoint.shapes.overlay import Overlay

        self._state = state
        self._run = run
        self._name = name
        self._overlay = Overlay(state.program.relations[name], shaping)

    def take(self, rule: DeltaRule, declined: TellDeclined) -> int | None:
        """Take the solutions of a rule; how many, None if it is to be evaluated as any other."""
        from caladan.fixpoint.shapes.pairs import Declined

        try:
            return self._run(lambda limits: self._taken(rule, limits))
        except Declined as reason:
            declined("overlay", str(reason))
            return None

    def _taken(self, rule: DeltaRule, limits: ShapeLimits) -> int:
        from caladan.fixpoint.shapes.halves import spelled_out

        rule = spelled_out(rule)
        head = self._state.heads[self._name]
        if isinstance(head, PlainHead):
            return self._overlay.take(rule, head.give, limits)
        from caladan.fixpoint.groups import AggregateHead
        from caladan.fixpoint.shapes.aggregates import weigh

        assert isinstance(head, AggregateHead)
        return weigh(self._overlay.solve(rule, limits), head, rule, limits)

    @property
    def has_parts(self) -> bool:
        """Whether it holds solutions that are not in the head."""
        return self._overlay.has_parts

    def finish(self, declined: TellDeclined) -> FoldedRelation | None:
        """The relation, with what else is in its head; None if rules have to be evaluated."""
        from caladan.fixpoint.shapes.pairs import Declined

        arity = self._state.program.relations[self._name].arity
        listed = concatenate(self._state.heads[self._name].relation.blocks(), arity)
        try:
            return self._run(lambda limits: self._overlay.finish(listed, limits))
        except Declined as reason:
            declined("overlay", str(reason))
            return None


def _tells_words_apart(comparison: Comparison, domains: Mapping[str, Domain]) -> bool:
    """Whether a comparison of two variables looks at nothing but their words."""
    left, right = comparison.left, comparison.right
    if not isinstance(left, Variable) or not isinstance(right, Variable):
        return False
    same = domains.get(left.name) is domains.get(right.name)
    return same and comparison.operator in ("=", "~=")
