"""Images: what is asked of a recursion that another one reads, without asking that other one.

A bound goal of a recursion over a recursion, `query t(0, B)` with

    t(A, B) <- t(A, C), tc(C, B).

asks tc for whatever t leads to, and t leads where tc does: demand makes one clique of the two, and
neither is a closure any more. But what is asked may be too much. The *image* of a relation has its
free columns only, for all that is asked of it together:

    image_tc_bf(B) <- demand_tc_bf(A), arc(A, B).
    image_tc_bf(B) <- image_tc_bf(C), arc(C, B).
    image_t_bf(B) <- image_tc_bf(B).
    demand_tc_bf(C) <- image_t_bf(C).

Images and demands are one clique of what is reached, found in linear time. With it tc is a closure
from those that are reached, and t one that steps by it.

The body of an image keeps what is connected with its head: it has more solutions, not fewer. Rules
that compute values have none, since without the rest they might go on for ever; nor have relations
that are given facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreRule, RelationInfo
from caladan.analysis.strata import restratify
from caladan.program import Constant, Variable, names
from caladan.program.transform import fresh


def with_images(
    before: Checked, after: Checked, patterns: Mapping[str, str], asking: frozenset[str]
) -> Checked:
    """A program whose demands do not draw recursions into each other, where images can tell them.

    `patterns` has the bindings of relations that are asked for, `asking` what is asked of them.
    """
    home = {name: clique for clique in before.cliques for name in clique.relations}
    relations, rules = dict(after.relations), list(after.rules)
    for clique in after.cliques:
        own = [name for name in clique.relations if name not in asking]
        homes = [home[after.relations[name].origin] for name in own]
        if all(each is homes[0] for each in homes):
            continue
        found = _Images(clique, after, patterns, asking).rules()
        if found is None:
            continue
        images, made = found
        relations |= {info.name: info for info in images}
        passing = [rule for rule in clique.rules if rule.head in asking]
        rules = [rule for rule in rules if all(rule is not other for other in passing)] + made
    changes = len(relations) > len(after.relations)
    return restratify(after, relations, rules) if changes else after


class _Images:
    """The images of a clique's relations."""

    def __init__(
        self,
        clique: Clique,
        checked: Checked,
        patterns: Mapping[str, str],
        asking: frozenset[str],
    ) -> None:
        self._clique, self._checked, self._asking = clique, checked, asking
        self._relations = checked.relations
        self._free = {
            name: [i for i, letter in enumerate(patterns[name]) if letter == "f"]
            for name in clique.relations
            if name in patterns
        }
        taken = set(self._relations)
        self._names = {name: fresh(f"image_{name}", taken) for name in self._free}

    def rules(self) -> tuple[list[RelationInfo], list[CoreRule]] | None:
        """The images, and the rules for them and for what is asked; None if they cannot be told."""
        own = {*self._clique.relations} - self._asking
        if own != {*self._free} or any(map(self._is_given, own)):
            return None
        made: list[CoreRule] = []
        for rule in self._clique.rules:
            columns = range(len(rule.arguments)) if rule.head in self._asking else None
            kept = self._free[rule.head] if columns is None else columns
            if not kept:
                continue
            head = rule.head if columns is not None else self._names[rule.head]
            image = self._image(replace(rule, arguments=tuple(rule.arguments[i] for i in kept)))
            if image is None:
                return None
            if all(a.relation != head or a.arguments != image.arguments for a in image.atoms):
                made.append(replace(image, head=head))
        return [self._info(name) for name, free in self._free.items() if free], made

    def _is_given(self, name: str) -> bool:
        """Whether a relation has facts, or values, that its rules do not say by themselves."""
        info, checked = self._relations[name], self._checked
        given = name in checked.facts or name in checked.open_facts
        return info.takes_data or info.has_aggregates or given

    def _info(self, name: str) -> RelationInfo:
        info, free = self._relations[name], self._free[name]
        return replace(
            info,
            name=self._names[name],
            columns=tuple(info.columns[i] for i in free),
            aggregates=(None,) * len(free),
            takes_data=False,
            is_internal=True,
        )

    def _image(self, rule: CoreRule) -> CoreRule | None:
        """A rule by images, with what is connected with its head; None if it computes anything."""
        if rule.order or rule.limit is not None:
            return None
        if not all(isinstance(a, Variable | Constant) for a in rule.arguments):
            return None
        atoms = [each for atom in rule.positive if (each := self._seen(atom)) is not None]
        known, size = names(*rule.arguments), -1
        kept = atoms if not known else []
        while known and len(kept) > size:
            size = len(kept)
            kept = [a for a in atoms if known & {*a.variables}]
            known = known.union(*(a.variables for a in kept))
        bound = frozenset(name for atom in kept for name in atom.variables)
        if not names(*rule.arguments) <= bound:
            return None
        kept += [a for a in rule.atoms if a.negated and {*a.variables} <= bound]
        comparisons = tuple(c for c in rule.comparisons if names(c) <= bound)
        types = {name: rule.types[name] for name in bound}
        return replace(rule, atoms=tuple(kept), comparisons=comparisons, types=types)

    def _seen(self, atom: CoreAtom) -> CoreAtom | None:
        """An atom by its image; None if nothing of it is free."""
        if atom.relation not in self._free:
            return atom
        free = self._free[atom.relation]
        terms = tuple(atom.arguments[i] for i in free)
        return replace(atom, relation=self._names[atom.relation], arguments=terms) if free else None
