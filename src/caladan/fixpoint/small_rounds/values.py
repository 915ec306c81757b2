"""Arithmetic for the tiny-delta machine: expressions over integers as computations of ranks.

`rank` gives a term that holds the rank of an expression, `word` a register with its word in a
domain that grows. Only domains whose words are near their base, or that have a table of ranks, can
be read; only the former can be written.

Groups with a best value, as the tiny-delta machine reads and writes them.

The machine knows packed facts. So the groups of an `mmin` or `mmax` are packed when it starts, the
value in the lowest bits, and what it found is given back to the head as amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from caladan.columns.domains import Domain, OffsetDomain, SortedDomain
from caladan.columns.groups import GroupRelation
from caladan.columns.invariants import CHECKED, check_groups
from caladan.columns.kernels import machine
from caladan.columns.layout import Keys, Packing, concatenate
from caladan.columns.relation import widths_of
from caladan.columns.runs import Arrangement, Run
from caladan.fixpoint.groups import AggregateHead
from caladan.join.expressions import Evaluator
from caladan.program import Arithmetic, Constant, Expression, Negative, Variable, thresholds
from caladan.program.kinds import Kind

MachineTerm: TypeAlias = tuple[int, int, int, int, int]

REGISTERS: Final = 256

_OPERATIONS: Final = {
    "+": machine.ADD,
    "-": machine.SUBTRACT,
    "*": machine.MULTIPLY,
    "div": machine.DIVIDE,
    "mod": machine.REMAINDER,
}


class Unsuitable(Exception):
    """The rules have something that the machine does not know."""


class Numbers:
    """The computations of one rule; `add` appends a step."""

    def __init__(
        self,
        evaluator: Evaluator,
        words: Mapping[str, int],
        written: list[OffsetDomain],
        add: Callable[[int, int, int, list[MachineTerm]], None],
    ) -> None:
        self._evaluator = evaluator
        self._words = words
        self._written = written
        self._add = add
        self._used = 0
        self._ranks: dict[Expression, MachineTerm] = {}

    def register(self) -> int:
        """A register that nothing uses yet."""
        if self._used == REGISTERS:
            raise Unsuitable("a rule has too many variables")
        self._used += 1
        return self._used - 1

    def word(self, expression: Expression, domain: Domain) -> int:
        """A register with the word of an expression."""
        if not isinstance(domain, OffsetDomain) or domain.kind is not Kind.INTEGER:
            raise Unsuitable("the computed value is not an integer")
        if not domain.grows or not domain.is_near:
            raise Unsuitable("integers are too far apart")
        if domain not in self._written:
            self._written.append(domain)
        # How large a word may be is filled in when the widths of all keys are known.
        room = (self._written.index(domain), 0, 0, 0, 0)
        return self._computed(machine.WORD, self.rank(expression), _constant(domain.base), room)

    def rank(self, expression: Expression) -> MachineTerm:
        """A term with the rank of an expression of integers."""
        if expression not in self._ranks:
            self._ranks[expression] = self._rank(expression)
        return self._ranks[expression]

    def _rank(self, expression: Expression) -> MachineTerm:
        match expression:
            case Constant():
                if type(expression.value) is not int:
                    raise Unsuitable("a constant is not an integer")
                return _constant(expression.value)
            case Variable():
                return self._rank_of_word(expression.name)
            case Negative():
                operands = _constant(0), self.rank(expression.operand)
                return _held(self._computed(machine.SUBTRACT, *operands))
            case Arithmetic() if expression.operator in _OPERATIONS:
                operands = self.rank(expression.left), self.rank(expression.right)
                return _held(self._computed(_OPERATIONS[expression.operator], *operands))
            case _:
                raise Unsuitable("something other than integers is computed")

    def _rank_of_word(self, name: str) -> MachineTerm:
        domain, word = self._evaluator.domain(name), _held(self._words[name])
        if domain.kind is not Kind.INTEGER:
            raise Unsuitable("something other than integers is computed")
        if isinstance(domain, SortedDomain):
            return _held(self._computed(machine.RANK, word, _constant(domain.address)))
        if not isinstance(domain, OffsetDomain) or not domain.is_near:
            raise Unsuitable("integers are too far apart")
        if domain.base == 0:
            return word
        return _held(self._computed(machine.ADD, word, _constant(domain.base)))

    def _computed(self, operation: int, *operands: MachineTerm) -> int:
        register = self.register()
        self._add(machine.COMPUTE, register, operation, list(operands))
        return register


def _constant(value: int) -> MachineTerm:
    return (-1, 0, 0, 0, value)


def _held(register: int) -> MachineTerm:
    return (register, 0, 0, 0, 0)


class PackedGroups:
    """The groups of a head, in the machine's terms; `base` is filled by `refresh`."""

    def __init__(self, head: AggregateHead) -> None:
        self._head = head
        functions = [f for f in head.info.aggregates if f is not None]
        widths = widths_of(head.domains)
        if len(functions) != 1 or not functions[0].is_best:
            raise Unsuitable("an aggregate other than one least or largest value")
        if widths is None or not head.info.group or not self._are_few:
            raise Unsuitable("groups are too wide, too many, or all in one")
        (value,) = (i for i, f in enumerate(head.info.aggregates) if f is not None)
        if not _is_near(head.domains[value]):  # else words are in no order
            raise Unsuitable("values are not integers near each other")
        self.widths = widths
        self.value_bits = widths[value]
        self.larger = not functions[0].is_least
        self.base = Arrangement(Packing(widths, (*head.info.group, value)))

    @property
    def _groups(self) -> GroupRelation:
        body = self._head.relation.body
        assert isinstance(body, GroupRelation)
        return body

    @property
    def _are_few(self) -> bool:
        return self._groups.count() <= thresholds.now.packed_groups

    @property
    def still_fits(self) -> bool:
        """Whether values have room, and are in order."""
        sizes = [domain.size for domain in self._head.domains]
        return (
            all(size <= 1 << width for size, width in zip(sizes, self.widths, strict=True))
            and all(_is_near(d) for d in self._head.domains if isinstance(d, OffsetDomain))
            and self._are_few
        )

    def refresh(self) -> None:
        """Pack the groups as they are: those that did not change are a run, the others a delta."""
        columns = concatenate(self._groups.blocks(), self._groups.arity)
        keys = self.base.packing.keys(columns, self._groups.count())
        changed = self._groups.changed
        old, delta = keys[~changed], keys[changed]
        old.sort()
        delta.sort()
        if CHECKED:
            check_groups([old, delta], self.value_bits)
        self.base.runs = [Run(old, self.base.packing)] if len(old) else []
        self.base.delta = Run(delta, self.base.packing) if len(delta) else None

    def absorb(self, old: Keys, delta: Keys) -> None:
        """Take over what the machine found, old and still new."""
        packing, arity = self.base.packing, self._groups.arity
        parts = [[packing.column(keys, c) for c in range(arity)] for keys in (old, delta)]
        self._head.absorb(*parts)
        self.base.runs, self.base.delta = [], None


def _is_near(domain: Domain) -> bool:
    return isinstance(domain, OffsetDomain) and domain.is_near
