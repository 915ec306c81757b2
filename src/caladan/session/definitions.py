"""Definitions that outlive a program: what earlier runs of a session defined, later ones can use.

`Definitions.link(program)` adds to a program the earlier rules and declarations of the relations it
mentions but does not define, and of those that they mention, and so on. They come after the
program's own rules, which so keep their numbers. A later definition of a name replaces the earlier.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from caladan.program import Atom, Choice, Column, Declaration, Literal, Program, Rule


class Definitions:
    """The rules and declarations of a session so far, by the name of their relation."""

    def __init__(self) -> None:
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._relations: dict[str, Declaration] = {}

    def remember(self, program: Program) -> None:
        """Take over what a program defines; what it says about a name replaces what was known."""
        for relation in program.relations:
            self._relations[relation.name] = relation
        own: dict[str, list[Rule]] = {}
        for rule in program.rules:
            own.setdefault(rule.head.relation, []).append(rule)
        self._rules.update((name, tuple(rules)) for name, rules in own.items())

    @property
    def derived(self) -> Iterator[str]:
        """The names that have rules."""
        yield from self._rules

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a relation that was declared."""
        found = self._relations.get(name)
        return None if found is None else found.columns

    def forget_rules(self, name: str) -> None:
        """Drop the rules of a name; its declaration stays."""
        self._rules.pop(name, None)

    def link(self, program: Program, with_data: Container[str] = ()) -> Program:
        """The program with the earlier definitions it needs.

        A relation for which it has rules of its own keeps its earlier declaration if it has data.
        """
        declared = {relation.name for relation in program.relations}
        derived = {rule.head.relation for rule in program.rules}
        relations = list(program.relations)
        rules = list(program.rules)
        waiting = [*mentioned(program), *derived]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop(0)
            if name in seen:
                continue
            seen.add(name)
            if name not in declared and (name not in derived or name in with_data):
                relations += [r for r in [self._relations.get(name)] if r is not None]
            if name not in derived and name not in declared:
                rules += self._rules.get(name, ())
                waiting += [n for rule in self._rules.get(name, ()) for n in _atoms(rule.body)]
        return replace(program, relations=tuple(relations), rules=tuple(rules))


def defined(program: Program) -> Iterator[str]:
    """The names a program declares or has rules for."""
    names = [r.name for r in program.relations] + [r.head.relation for r in program.rules]
    yield from dict.fromkeys(names)


def mentioned(program: Program) -> Iterator[str]:
    """The names a program reads, in bodies and goals, in order and without repetitions."""
    bodies = (name for rule in program.rules for name in _atoms(rule.body))
    goals = (goal.atom.relation for goal in program.goals)
    yield from dict.fromkeys((*bodies, *goals))


def undeclared(program: Program, known: Container[str]) -> Iterator[str]:
    """The names a program uses without declaring them, as far as they are among the known."""
    declared = {relation.name for relation in program.relations}
    for name in dict.fromkeys((*mentioned(program), *defined(program))):
        if name in known and name not in declared:
            yield name


def _atoms(body: Iterable[Literal]) -> Iterator[str]:
    for literal in body:
        match literal:
            case Atom():
                yield literal.relation
            case Choice():
                yield from _atoms((*literal.then, *literal.otherwise))
            case _:
                pass
