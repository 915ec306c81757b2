"""Recorder: writes down the rules of a module as they are made, and what they declare.

A rule knows the line of Python that it was written in.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from caladan.language.bloom.schema import CollectionKind, Schema
from caladan.program import Head, Literal, Rule, Time, Variable
from caladan.program.diagnostics import SourceText, Span, error

_PACKAGE: Final = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class GroupedRule:
    """A rule, and the group that it was written in."""

    rule: Rule
    group: str


class Recorder:
    """The collections and rules of a module and all that it imports."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.schemas: dict[str, Schema] = {}
        self.rules: list[GroupedRule] = []
        self.bootstrap: list[tuple[str, Time, tuple[object, ...]]] = []
        self.group: str | None = None
        self.author: tuple[str, type | None] = ("", None)
        """Whose rules are being made: where the module stands, and the class they are in."""
        self.is_booting = False
        self._variables: dict[str, int] = {}
        self._elements: dict[str, int] = {}
        self._sources: dict[str, SourceText] = {}

    def declare(self, made: Schema) -> None:
        """Take in a collection."""
        self.schemas[made.name] = made

    def variable(self, stem: str) -> Variable:
        """A variable that nobody has."""
        stem = "".join(c for c in stem.capitalize() if c.isalnum()) or "V"
        number = self._variables[stem] = self._variables.get(stem, 0) + 1
        return Variable(f"{stem}_{number}")

    def element(
        self, kind: CollectionKind, columns: Iterable[str], width: int | None = None
    ) -> Schema:
        """An internal relation for what an operator keeps."""
        names = list(columns)
        number = self._elements[kind.value] = self._elements.get(kind.value, 0) + 1
        width = len(names) if width is None else width
        made = Schema(f"{kind.value}_{number}", kind, tuple(names[:width]), tuple(names[width:]))
        self.declare(made)
        return made

    def rule(self, head: Head, body: tuple[Literal, ...], time: Time = "now") -> None:
        """Write a rule down."""
        if self.group is None:
            raise error(
                "C050",
                f"a rule for `{head.relation}` stands outside of a group of rules",
                self.here(),
                help="rules are made in methods with @bloom.rules, facts in one with "
                "@bloom.bootstrap; insert() hands facts in",
            )
        span = self.here()
        made = Rule(replace(head, span=span), body, time=time, span=span)
        self.rules.append(GroupedRule(made, self.group))

    def here(self) -> Span | None:
        """The line of the user's that is being run."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        if frame is None:
            return None
        name, number = frame.f_code.co_filename, frame.f_lineno
        lines = linecache.getlines(name)
        if not 0 < number <= len(lines):
            return None
        if name not in self._sources:
            self._sources[name] = SourceText(name, "".join(lines))
        start = sum(map(len, lines[: number - 1]))
        line = lines[number - 1]
        indent = len(line) - len(line.lstrip())
        return Span(self._sources[name], start + indent, start + len(line.rstrip()))
