"""Bloom as text: declarations of collections, and DeALS rules with a time before their head.

    table state(key => value).
    input put(request, key, value).
    @upsert state(K, V) <- put(_, K, V).
    state('spice', 10).                      % a fact holds in every tick

`module(text)` makes a class of it, which is run, included and imported like any other.
"""

from __future__ import annotations

import re
from typing import Any, Final

from caladan.language import deals
from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.module import Module, lattice, rules
from caladan.language.bloom.recorder import Collection, GroupedRule
from caladan.language.bloom.schema import CollectionKind, schema
from caladan.program import Program, atoms
from caladan.program.diagnostics import Diagnostics, SourceText

_KINDS: Final = {
    each.value: each
    for each in CollectionKind
    if not each.is_element and each not in (CollectionKind.LATTICE, CollectionKind.CLOCK)
}

_DECLARED: Final = re.compile(
    rf"^[ \t]*(?P<kind>{'|'.join((*_KINDS, *LATTICES))})[ \t]+(?P<name>[^\W\d]\w*)[ \t]*"
    r"(?:\((?P<columns>[^()]*)\))?[ \t]*\.[ \t]*(?=%|$)",
    re.MULTILINE,
)


def module(text: str, *, name: str = "<bloom>") -> type[Module]:
    """A module with the collections and rules of a text."""
    declared: dict[str, Any] = {}
    for match in _DECLARED.finditer(text):
        collection = declared[match["name"]] = _collection(match)
        collection.__set_name__(Module, match["name"])
    blanked = _DECLARED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    program = deals.parse(SourceText(name, blanked))
    found = Diagnostics()
    _check(program, declared, found)
    found.raise_errors()

    def written(self: Module) -> None:
        for rule in program.rules:
            self.recorder.rules.append(GroupedRule(rule, name))

    return type("Text", (Module,), {**declared, "rules": rules(written)})


def is_declared(text: str) -> bool:
    """Whether a text declares a collection, as only a Bloom program does."""
    return _DECLARED.search(text) is not None


def _collection(match: re.Match[str]) -> Collection:
    word = match["kind"]
    if word in LATTICES:
        return lattice(LATTICES[word])
    kind = _KINDS[word]
    if match["columns"] is None:
        return Collection(schema("", kind, ("key",), "val"))
    keys, _, values = match["columns"].partition("=>")
    columns = [each.strip() for each in keys.split(",") if each.strip()]
    to = [each.strip() for each in values.split(",") if each.strip()]
    if kind is CollectionKind.PERIODIC:
        return Collection(schema("", kind, ("number",), "time", float(columns[0])))
    return Collection(schema("", kind, columns, to or None))


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
                    f"`{atom.relation}` is an output, which rules do not read",
                    atom.span,
                    help="read what it is derived from, or declare a scratch",
                )
    for goal in program.goals:
        found.add(
            "C050",
            "a Bloom program has no goals",
            goal.span,
            help="look at what a collection holds: instance[name]",
        )
