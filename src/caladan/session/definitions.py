"""Definitions that outlive a program: what earlier runs of a session defined, later ones can use.

`Definitions.define` takes functions of Python, for programs that are read later.
`Definitions.link(program)` adds to a program the earlier rules and declarations of the relations it
mentions but does not define, and of those that they mention, and so on. They come after the
program's own rules, which so keep their numbers. A later definition of a name replaces the earlier.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final

from caladan.language.deals.expressions import CALLS
from caladan.language.deals.tokens import RESERVED_WORDS, is_name, is_variable
from caladan.program import Column, Declaration, Program, Rule, atoms
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.functions import RETURNED, Definition

RESERVED: Final = frozenset((*CALLS, *RESERVED_WORDS))


class Definitions:
    """The rules and declarations of a session so far, by the name of their relation."""

    def __init__(self) -> None:
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._relations: dict[str, Declaration] = {}
        self.functions: dict[str, Definition] = {}
        """Those of Python that programs may call."""

    def define(self, name: str, code: object, returns: object, vectorized: object) -> None:
        """Have programs that are read from now on call a function of Python; C050 if none can."""
        if not is_name(name) or is_variable(name) or name in RESERVED:
            raise error(
                "C050",
                f"a function cannot be called `{name}`",
                help="its name begins with a small letter, and is no word of the language",
            )
        if not callable(code):
            raise error("C050", f"`{name}` is a {type(code).__name__}, not a function")
        if returns is None:
            raise error("C050", f"it must be said what `{name}` gives", help='returns="double"')
        wanted = next((each for each in RETURNED if str(each) == str(returns)), None)
        if wanted is None:
            raise error(
                "C050",
                f"`{name}` cannot give values of the type `{returns}`",
                help=did_you_mean(str(returns), map(str, RETURNED))
                or f"the types are {', '.join(map(str, RETURNED))}",
            )
        if vectorized not in (None, "numpy", "arrow"):
            raise error("C050", f'vectorized is "numpy", "arrow" or None, not {vectorized!r}')
        self.functions[name] = Definition(name, code, wanted, vectorized)

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
                waiting += [n for rule in self._rules.get(name, ()) for n in _read(rule)]
        return replace(program, relations=tuple(relations), rules=tuple(rules))


def defined(program: Program) -> Iterator[str]:
    """The names a program declares or has rules for."""
    names = [r.name for r in program.relations] + [r.head.relation for r in program.rules]
    yield from dict.fromkeys(names)


def mentioned(program: Program) -> Iterator[str]:
    """The names a program reads, in bodies and goals, in order and without repetitions."""
    bodies = (name for rule in program.rules for name in _read(rule))
    goals = (goal.atom.relation for goal in program.goals)
    yield from dict.fromkeys((*bodies, *goals))


def undeclared(program: Program, known: Container[str]) -> Iterator[str]:
    """The names a program uses without declaring them, as far as they are among the known."""
    declared = {relation.name for relation in program.relations}
    for name in dict.fromkeys((*mentioned(program), *defined(program))):
        if name in known and name not in declared:
            yield name


def _read(rule: Rule) -> list[str]:
    return [atom.relation for atom in atoms(rule.body)]
