"""Bulk: a clique that derives much in one tick is handed to the engine that is built for that.

Facts of ticks are Python's, one by one, which is right for a few and wrong for millions. A
`BulkClique` makes of a clique the program that other languages would write, and of what it reads
columns; the embedded engine evaluates it, in whatever layout suits it, and its answer becomes facts
again. Rules that ask for no more than which values are equal go by the numbers of these, so values
may be anything; where they compare or compute, columns of whole numbers and of text do.

What does not fit (lattices, Python functions, other values) stays with the rounds of ticks, and
`reason` says why.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from caladan.analysis.core import Clique, CoreAtom, CoreRule
from caladan.program import (
    Arithmetic,
    Atom,
    Call,
    Column,
    Conditional,
    Constant,
    Declaration,
    Expression,
    Function,
    Head,
    Program,
    Rule,
    Type,
    Variable,
)
from caladan.program.diagnostics import CaladanError
from caladan.program.transform import replace_in, walk
from caladan.ticks.extent import Extent, Fact

if TYPE_CHECKING:
    import pyarrow as pa

KeyedFacts: TypeAlias = dict[Any, Fact]


class BulkClique:
    """A clique, and what it takes to evaluate it by columns."""

    def __init__(self, clique: Clique, extents: Mapping[str, Extent]) -> None:
        self._rules = clique.rules
        self._own = {name: extents[name] for name in clique.relations}
        read = dict.fromkeys(atom.relation for rule in clique.rules for atom in rule.atoms)
        self._read = {name: extents[name] for name in read if name not in self._own}
        self.reason = self._unfit()
        """Why it cannot be; empty if it can."""
        self._by_number = all(map(_only_equates, clique.rules))
        self.runs = 0

    def _unfit(self) -> str:
        nodes = list(walk(*self._rules))
        if any(extent.is_keyed for extent in self._own.values()):
            return "facts with the same key merge"
        if any(isinstance(node, Function) for node in nodes):
            return "a rule calls a Python function"
        if any(isinstance(node, Call | Conditional) for node in nodes):
            return "a rule has a call or an if"
        if any(isinstance(node, Arithmetic) and node.operator == "/" for node in nodes):
            return "a rule divides"
        if not all(extent.arity for extent in (*self._own.values(), *self._read.values())):
            return "a relation has no columns"
        return ""

    def evaluate(self) -> dict[str, KeyedFacts] | None:
        """What the relations of the clique hold, from what it reads; None if values do not fit."""
        base = {_base(name): each.base for name, each in self._own.items()}
        read = {name: each.contents for name, each in self._read.items()}
        given = {name: facts for name, facts in {**read, **base}.items() if facts}
        rules = self._fed(given)
        made: dict[str, KeyedFacts] = {name: {} for name in self._own}
        if rules:
            values = _NumberedValues() if self._by_number else _PlainValues()
            try:
                tables = values.tables(given)
                program = Program(
                    tuple(Declaration(name, columns) for name, (columns, _) in tables.items()),
                    tuple(values.rule(rule) for rule in rules),
                )
                found = _run(program, tables)
            except (CaladanError, ArithmeticError, Unfit):
                return None  # ticks know what to say, or do without 64 bits
            with _pause_collection():
                for name, table in found.items():
                    made[name] = _contents(values.columns(table))
        self.runs += 1
        return made

    def _fed(self, given: Mapping[str, object]) -> list[CoreRule]:
        """The rules that can derive something, without what is certainly absent."""
        rules = list(self._rules)
        for name, extent in self._own.items():
            columns = tuple(Variable(f"C{i}") for i in range(extent.arity))
            atom = CoreAtom(_base(name), columns)
            rules.append(CoreRule(0, name, columns, (atom,), (), {}))
        while True:
            known = {*given, *(rule.head for rule in rules)}
            kept = [r for r in rules if all(atom.relation in known for atom in r.positive)]
            if len(kept) == len(rules):
                return [_without_absent(rule, known) for rule in rules]
            rules = kept


class Unfit(Exception):
    """Values that columns do not hold."""


class _NumberedValues:
    """Values by their numbers: equal ones have one."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def tables(self, given: Mapping[str, KeyedFacts]) -> dict[str, TypedTable]:
        import pyarrow as pa

        found: dict[str, TypedTable] = {}
        for name, contents in given.items():
            arrays = [pa.array(self._taken(values), pa.int64()) for values in _list_facts(contents)]
            columns = tuple(Column(f"c{i}", Type.LONG) for i in range(len(arrays)))
            found[name] = (columns, pa.table({f"c{i}": each for i, each in enumerate(arrays)}))
        return found

    def _taken(self, values: Sequence[Any]) -> list[int]:
        numbers = self._numbers
        for value in dict.fromkeys(values):
            numbers.setdefault(value, len(numbers))
        return list(map(numbers.__getitem__, values))

    def rule(self, rule: CoreRule) -> Rule:
        def change(node: Any) -> Any:
            if isinstance(node, Constant):
                return Constant(self._numbers.setdefault(node.value, len(self._numbers)))
            return None

        return replace_in(_write_rule(rule), change)

    def columns(self, table: pa.Table) -> list[list[Any]]:
        import numpy as np

        known = np.empty(len(self._numbers), object)
        known[:] = list(self._numbers)
        return [known[column.to_numpy()].tolist() for column in table.columns]


class _PlainValues:
    """Columns of whole numbers or of text."""

    def tables(self, given: Mapping[str, KeyedFacts]) -> dict[str, TypedTable]:
        import pyarrow as pa

        found: dict[str, TypedTable] = {}
        for name, contents in given.items():
            columns: list[Column] = []
            arrays: dict[str, pa.Array] = {}
            for i, values in enumerate(_list_facts(contents)):
                kinds = set(map(type, values))
                if kinds not in ({int}, {str}):
                    raise Unfit
                whole = kinds == {int}
                columns.append(Column(f"c{i}", Type.LONG if whole else Type.STRING))
                try:
                    arrays[f"c{i}"] = pa.array(values, pa.int64() if whole else pa.string())
                except (OverflowError, UnicodeError, pa.ArrowInvalid):
                    raise Unfit from None
            found[name] = (tuple(columns), pa.table(arrays))
        return found

    def rule(self, rule: CoreRule) -> Rule:
        return _write_rule(rule)

    def columns(self, table: pa.Table) -> list[list[Any]]:
        return [column.to_pylist() for column in table.columns]


TypedTable: TypeAlias = "tuple[tuple[Column, ...], pa.Table]"


def _run(program: Program, tables: Mapping[str, TypedTable]) -> dict[str, pa.Table]:
    from caladan.engines.embedded.engine import EmbeddedEngine
    from caladan.engines.embedded.tables import LoadedTable
    from caladan.pipeline import compile_program
    from caladan.program.events import Listener
    from caladan.program.options import Options

    heads = dict.fromkeys(rule.head.relation for rule in program.rules)
    compiled = compile_program(program, {}, {}, demand=False, wanted=heads)
    store = {name: LoadedTable(columns, data) for name, (columns, data) in tables.items()}
    found = EmbeddedEngine().run(compiled.delta, store, Options(), Listener())
    return {name: found[name].arrow() for name in heads}


def _base(name: str) -> str:
    return f"{name} base"


def _list_facts(contents: KeyedFacts) -> list[tuple[Any, ...]]:
    return list(zip(*contents.values(), strict=True))


def _contents(columns: Sequence[list[Any]]) -> KeyedFacts:
    facts: list[Fact] = list(zip(*columns, strict=True))
    return dict(zip(columns[0] if len(columns) == 1 else facts, facts, strict=True))


@contextmanager
def _pause_collection() -> Generator[None]:
    """A while without garbage collection, which would go through every new fact again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _write_rule(rule: CoreRule) -> Rule:
    """A core rule as it would be written."""
    atoms = tuple(Atom(atom.relation, atom.arguments, atom.negated) for atom in rule.atoms)
    return Rule(Head(rule.head, rule.arguments), (*atoms, *rule.comparisons))


def _without_absent(rule: CoreRule, known: Iterable[str]) -> CoreRule:
    return replace(rule, atoms=tuple(a for a in rule.atoms if a.relation in known))


def _only_equates(rule: CoreRule) -> bool:
    """Whether a rule asks for no more than which values are equal."""
    parts: list[Expression] = list(rule.arguments)
    for each in rule.comparisons:
        if each.operator not in ("=", "~="):
            return False
        parts += (each.left, each.right)
    return all(isinstance(part, Variable | Constant) for part in parts)
