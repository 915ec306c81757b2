"""Bloom as text: declarations of collections, and DeALS rules with a time before their head.

    table state(key => value).
    input put(request, key, value).
    @upsert state(K, V) <- put(_, K, V).
    state('spice', 10).                      % a fact holds in every tick

`module(text)` makes a class of it, which is run, included and imported like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from caladan.language import deals
from caladan.language.bloom.collections import Collection
from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.module import (
    Module,
    channel,
    input,  # noqa: A004
    lattice,
    loopback,
    output,
    periodic,
    rules,
    scratch,
    stdio,
    table,
    temp,
)
from caladan.language.bloom.schema import CollectionKind, GroupedRule
from caladan.program import Program, atoms
from caladan.program.diagnostics import CaladanError, Diagnostics, SourceText, Span, error

_KINDS: Final[dict[str, Callable[..., Collection]]] = {
    each.__name__: each
    for each in (table, scratch, input, output, channel, loopback, periodic, stdio, temp)
}

_DECLARED: Final = re.compile(
    rf"(?:^|(?<=\.))[ \t]*(?P<declared>(?P<kind>{'|'.join((*_KINDS, *LATTICES))})[ \t]+"
    r"(?P<name>[^\W\d]\w*)[ \t]*(?:\((?P<columns>[^()]*)\))?)[ \t]*\.(?=\s|$)",
    re.MULTILINE,
)
_ASIDE: Final = re.compile(
    r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|(?:%|--)[^\n]*|/\*(?s:.)*?\*/"
)
"""Texts and comments, in which nothing is declared."""


def module(text: str, *, name: str = "<bloom>") -> type[Module]:
    """A module with the collections and rules of a text."""
    declared: dict[str, Any] = {}
    found = Diagnostics()
    source = SourceText(name, text)
    places = list(_declarations(text))
    for match in places:
        place = Span(source, *match.span("declared"))
        try:
            if match["name"] in declared:
                raise error("C017", f"`{match['name']}` is declared twice")
            collection = declared[match["name"]] = _collection(match)
            collection.__set_name__(Module, match["name"])
        except CaladanError as problem:
            found.extend(replace(each, place=place) for each in problem.diagnostics)
    found.raise_errors()
    blanked = list(text)
    for match in places:
        start, end = match.span()
        blanked[start:end] = [c if c == "\n" else " " for c in text[start:end]]
    rest = SourceText(name, "".join(blanked))
    try:
        program = deals.parse(rest)
    finally:
        object.__setattr__(rest, "text", text)  # diagnostics quote lines as they were written
    _check(program, declared, found)
    found.raise_errors()

    def written(self: Module) -> None:
        for rule in program.rules:
            self.recorder.rules.append(GroupedRule(rule, name))

    return type("Text", (Module,), {**declared, "rules": rules(written)})


def is_declared(text: str) -> bool:
    """Whether a text declares a collection, as only a Bloom program does."""
    return next(_declarations(text), None) is not None


def _declarations(text: str) -> Iterator[re.Match[str]]:
    return _DECLARED.finditer(_ASIDE.sub(lambda aside: re.sub(r"[^\n]", " ", aside.group()), text))


def _collection(match: re.Match[str]) -> Collection:
    word = match["kind"]
    if word in LATTICES:
        return lattice(LATTICES[word])
    keys, _, values = (match["columns"] or "").partition("=>")
    columns = [each.strip() for each in keys.split(",") if each.strip()]
    to = [each.strip() for each in values.split(",") if each.strip()]
    if word == "stdio":
        return stdio()
    if word == "periodic":
        try:
            return periodic(float(columns[0]))
        except (IndexError, ValueError):
            raise error(
                "C050", "a timer needs a period in seconds", help="periodic tick(0.5)."
            ) from None
    return _KINDS[word](*columns, to=to or None)


def _check(program: Program, declared: dict[str, Collection], found: Diagnostics) -> None:
    """The same mistakes that collections find where rules are made in Python."""
    for rule in program.rules:
        head = declared.get(rule.head.relation)
        if head is not None and (told := head.refused(rule.time)) is not None:
            found.add("C071", told[0], rule.head.span, help=told[1])
        for atom in atoms(rule.body):
            read = declared.get(atom.relation)
            if read is not None and read.schema.kind is CollectionKind.OUTPUT:
                found.add(
                    "C072",
                    f"`{atom.relation}` is an output, and rules cannot read it",
                    atom.span,
                    help="read the collections it is derived from, or declare a scratch",
                )
    for goal in program.goals:
        found.add(
            "C050",
            "a Bloom program has no goals",
            goal.span,
            help="read a collection with instance[name]",
        )
