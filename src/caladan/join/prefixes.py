"""Prefixes: under which of its columns an atom of a cyclic core takes part before all are bound.

A column that nobody reads is in no prefix; one whose values still change is in none either, and
waits until all else is bound. Where a prefix is not the whole atom, it takes a view.
"""

from __future__ import annotations

from dataclasses import replace

from caladan.analysis.core import Term
from caladan.columns.views import ViewColumns
from caladan.join.access import Probe, Traits
from caladan.join.hypergraph import cyclic_core
from caladan.program import Constant, Variable
from caladan.rules.body import Body, Scan, Version, names


class AtomPrefixes:
    """Which columns of an atom of the core anybody reads."""

    def __init__(self, body: Body, atom: int, traits: Traits, *, lasting: bool) -> None:
        self.scan = body.atoms[atom]
        self._has_views = not lasting or self.scan.version is Version.FULL
        self._hidden = hidden_columns(self.scan, traits)
        others = [scan for i, scan in enumerate(body.atoms) if i != atom]
        elsewhere = body.needed.union(
            *(scan.variables for scan in (*others, *body.absents)),
            *map(names, body.conditions),
            *({each.variable} | names(each.expression) for each in body.bindings),
        )
        everything = frozenset(self.scan.variables)
        self.read = everything if body.counting else everything & elsewhere
        """The variables that somebody reads."""
        places: dict[str, int] = {}
        equal: list[tuple[int, int]] = []
        self._terms: dict[int, Term] = {}
        for column, argument in enumerate(self.scan.arguments):
            if column in self._hidden:
                continue
            if isinstance(argument, Constant):
                self._terms[column] = argument
            elif argument.name in places:
                equal.append((places[argument.name], column))
            else:
                places[argument.name] = column
                self._terms[column] = argument
        self._equal = tuple(equal)

    @property
    def visible(self) -> frozenset[str]:
        """The variables in columns that views show."""
        return frozenset(term.name for term in self._terms.values() if isinstance(term, Variable))

    def under(self, known: frozenset[str]) -> Probe | None:
        """The atom under those of its columns that are known; None if that takes a view."""
        bound = tuple(
            (column, term)
            for column, term in self._terms.items()
            if isinstance(term, Constant) or term.name in known
        )
        view = self._view(frozenset(c for c, _ in bound), is_whole=self.read <= known)
        return Probe(self.scan, bound, (), (), view) if view is None or self._has_views else None

    def narrowed(self, whole: Probe) -> Probe:
        """The atom without the columns that nobody reads."""
        new = tuple((c, name) for c, name in whole.new if name in self.read)
        if any(c in self._hidden for c, _ in new):
            return whole
        if not self._has_views:
            checked = {term.name for _, term in whole.checked if isinstance(term, Variable)}
            new = tuple((c, name) for c, name in whole.new if name in self.read | checked)
            return replace(whole, new=new)
        kept = {c: t for c, t in (*whole.bound, *whole.checked) if c in self._terms}
        shown = frozenset(kept) | {c for c, _ in new}
        view = self._view(shown, is_whole=True)
        if view is None:
            return whole
        return Probe(
            self.scan,
            tuple((c, t) for c, t in whole.bound if c in kept),
            tuple((c, t) for c, t in whole.checked if c in kept),
            new,
            view,
        )

    def _view(self, columns: frozenset[int], *, is_whole: bool) -> ViewColumns | None:
        """The atom under some columns; it is not read again if that is the whole of it."""
        if len(columns) == len(self.scan.arguments):
            return None
        of_delta = self.scan.version is Version.DELTA and not is_whole
        return ViewColumns(tuple(sorted(columns)), self._equal, of_delta)


def is_shown(shown: AtomPrefixes, variable: str) -> bool:
    """Whether views of an atom may have a variable; those of a delta are scanned."""
    return variable in shown.visible and shown.scan.version is not Version.DELTA


def cyclic_atoms(body: Body, traits: Traits, known: frozenset[str]) -> frozenset[int]:
    """The atoms that form cycles, with each other, with what is known, or through arithmetic."""
    variables = [frozenset(scan.variables) for scan in body.atoms]
    together = known & frozenset[str]().union(*variables)
    computed = [names(each.expression) | {each.variable} for each in body.bindings]
    equations = [names(each) for each in body.conditions if each.operator == "="]
    found = cyclic_core([*variables, together], [*computed, *equations])
    atoms = (i for i in found if i < len(variables))
    return frozenset(i for i in atoms if _can_meet(body, i, traits))


def hidden_columns(scan: Scan, traits: Traits) -> frozenset[int]:
    """The columns of an atom that views do not show."""
    columns = range(len(scan.arguments))
    return frozenset(c for c in columns if not traits.can_show(scan.relation, c))


def _can_meet(body: Body, atom: int, traits: Traits) -> bool:
    """Whether an atom can do without the columns that views hide until all else is bound."""
    scan = body.atoms[atom]
    hidden = [scan.arguments[c] for c in hidden_columns(scan, traits)]
    if not hidden:
        return True
    if scan.version not in (Version.FULL, Version.NEW) or len(hidden) == len(scan.arguments):
        return False
    uses = [a.name for each in body.atoms for a in each.arguments if isinstance(a, Variable)]
    computed = {each.variable for each in body.bindings}
    return all(
        isinstance(a, Variable) and uses.count(a.name) == 1 and a.name not in computed
        for a in hidden
    )


def propose_instead(found: Probe, variable: str) -> Probe:
    """A probe that binds a variable instead of testing it."""
    new = [c for c, term in found.bound if isinstance(term, Variable) and term.name == variable]
    bound = tuple((c, term) for c, term in found.bound if c not in new)
    return replace(found, bound=bound, new=tuple((c, variable) for c in new))
