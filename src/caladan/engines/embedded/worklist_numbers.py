"""Arithmetic for the tiny-delta machine: expressions over integers as computations of ranks.

`rank` gives a term that holds the rank of an expression, `word` a register with its word in a
domain that grows. Only domains whose words are near their base, or that have a table of ranks, can
be read; only the former can be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from caladan.columns.domains import Domain, OffsetDomain, SortedDomain
from caladan.columns.kernels import worklist as machine
from caladan.columns.ranks import Kind
from caladan.engines.embedded.expressions import Evaluator
from caladan.program import Arithmetic, Constant, Expression, Negative, Variable

Term: TypeAlias = tuple[int, int, int, int, int]

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
        add: Callable[[int, int, int, list[Term]], None],
    ) -> None:
        self._evaluator = evaluator
        self._words = words
        self._written = written
        self._add = add
        self._used = 0
        self._ranks: dict[Expression, Term] = {}

    def register(self) -> int:
        """A register that nothing uses yet."""
        if self._used == REGISTERS:
            raise Unsuitable("a rule has too many variables")
        self._used += 1
        return self._used - 1

    def word(self, expression: Expression, domain: Domain) -> int:
        """A register with the word of an expression."""
        if not isinstance(domain, OffsetDomain) or domain.kind is not Kind.INTEGER:
            raise Unsuitable("what is computed is no integer")
        if not domain.grows or not domain.is_near:
            raise Unsuitable("integers are too far apart")
        if domain not in self._written:
            self._written.append(domain)
        # How large a word may be is filled in when the widths of all keys are known.
        room = (self._written.index(domain), 0, 0, 0, 0)
        return self._computed(machine.WORD, self.rank(expression), _constant(domain.base), room)

    def rank(self, expression: Expression) -> Term:
        """A term with the rank of an expression of integers."""
        if expression not in self._ranks:
            self._ranks[expression] = self._rank(expression)
        return self._ranks[expression]

    def _rank(self, expression: Expression) -> Term:
        match expression:
            case Constant():
                if type(expression.value) is not int:
                    raise Unsuitable("a constant is no integer")
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

    def _rank_of_word(self, name: str) -> Term:
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

    def _computed(self, operation: int, *operands: Term) -> int:
        register = self.register()
        self._add(machine.COMPUTE, register, operation, list(operands))
        return register


def _constant(value: int) -> Term:
    return (-1, 0, 0, 0, value)


def _held(register: int) -> Term:
    return (register, 0, 0, 0, 0)
