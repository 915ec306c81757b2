"""The route through a body: its atoms in an order, each with all that can be settled then.

Atoms that form no cycle are looked up one after the other. Those of the cyclic core
(hypergraph.py, core_route.py) are gone through variable by variable: all of them that have the
variable meet, each under the columns that are bound and that variable's, and whichever has the
fewest values for a solution proposes. So no more is proposed than the core could have solutions
(the bound of Atserias, Grohe and Marx), however wide its atoms are:

    e(X, P, Y, Q), e(Y, Q, Z, R), e(Z, R, X, P)

    scan e(X, P, Y, Q); meet in Z: e(Y, Q, Z, _), e(Z, _, X, P); meet in R: e(Y, Q, Z, R), …

Columns that nobody reads are never bound; those that only the head reads, or a comparison, wait
until all variables that atoms share are bound, and are then looked up. Atoms that nobody reads
anything of are a semijoin: asked once for what they share with the rest. Tests, negated atoms and
arithmetic stand as early as they can, and comparisons with something known cut what is looked up
to a range of a sorted run.

`planned` makes the steps of a body for an order of its atoms; orders.py chooses the order. What an
atom shows before all of it is bound is in prefixes.py, what waits for variables in
selections.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from caladan.join.access import (
    Access,
    Amount,
    Fork,
    Meet,
    Probe,
    Rollup,
    Semijoin,
    Traits,
    probe,
)
from caladan.join.core_route import CoreRoute
from caladan.join.eager import amounts, grouped, parted
from caladan.join.prefixes import (
    AtomPrefixes,
    hidden_columns,
    is_shown,
    proposing,
)
from caladan.join.selections import ends_of, read_by
from caladan.program import Variable
from caladan.program.aggregates import lookup
from caladan.rules.body import Body, Part, Scan, Version


def body_route(
    body: Body, order: Sequence[int], traits: Traits, *, lasting: bool = False
) -> list[Access]:
    """The steps for an order of the atoms; `lasting` ones have no views of what still changes."""
    route = BodyRoute(body, traits, lasting=lasting)
    for place, atom in enumerate(order):
        if not lasting:
            route.reduce(order[place:])
        route.take(atom)
    return route.finished()


class BodyRoute(CoreRoute):
    """The steps through a body, as one atom after another is taken."""

    def __init__(
        self,
        body: Body,
        traits: Traits,
        known: frozenset[str] = frozenset(),
        *,
        lasting: bool = False,
        mark: str = "#",
        asked: tuple[Amount, ...] = (),
    ) -> None:
        super().__init__(body, traits, known, lasting=lasting)
        self._mark = mark
        self._rolled = 0
        self.amounts = asked or amounts(body)
        """What is asked of the solutions, with what was rolled up; None if they are listed."""

    def next_step(self, atom: int) -> Probe | Meet | Fork | None:
        """How an atom would be taken now; None if it is done already."""
        if atom not in self._left:
            return None
        variable = self._variable(atom)
        if variable is not None:
            # Its own variable, though rows may choose another corner: where they may not, as in
            # small rounds, the order of the atoms is all there is.
            return self._within(self._meeting(variable, self.known))
        if (tie := self._tie(atom)) is not None:
            return tie.fork
        if (asked := self._consulted(atom)) is not None:
            return asked
        found = self._whole(atom)
        return self._within(self._met(found, atom) or self._band(found, atom) or found)

    @property
    def left(self) -> Sequence[int]:
        """The atoms that were not taken yet."""
        return self._left

    @property
    def near(self) -> frozenset[str]:
        """What is known, or could be by looking up what is left of the core."""
        waiting = (self._body.atoms[i].variables for i in self._waiting())
        return self.known.union(*waiting)

    def take(self, atom: int) -> None:
        """Take an atom, with all that its variables let be computed."""
        if atom in self._core and self._is_bound(atom):
            self._meet(atom)
            return
        if atom in self._left and (asked := self._consulted(atom)) is not None:
            self._pending.done(asked.tests[0])
            self._go(asked)
        if atom in self._left and not self._is_bound(atom):  # unless the core would bind it
            for other in self._waiting():
                shared = frozenset(self._body.atoms[other].variables) - self.known
                if not shared.isdisjoint(self._body.atoms[atom].variables):
                    self._meet(other)
                    self._look_up(other)
        self._look_up(atom)

    def finished(self) -> list[Access]:
        """All steps: what is left of the core is looked up at last, tests first."""
        self._test(())
        for atom in list(self._left):
            self._look_up(atom)
        return self.steps

    def reduce(self, order: Sequence[int]) -> None:
        """Make a semijoin of what the next atom is part of, if nobody reads more of it.

        If aggregates do, and can be taken of it by itself, it is a rollup.

        `order` has the atoms that are still to be taken; those of the core that were taken, and
        wait for a last lookup, are part of it as well. What is new is scanned in any case.
        """
        if order[0] not in self._left or (self._body.counting and self.amounts is None):
            return
        atoms, parts = self._part(order[0])
        every = dict.fromkeys((*order, *self._left))
        scans = [self._body.atoms[i] for i in every if i in atoms]
        inside = frozenset[str]().union(*(s.variables for s in scans), *map(read_by, parts))
        if any(scan.version is Version.DELTA for scan in scans):
            return
        shared = tuple(sorted(inside & self.known))
        if self._body.counting or not self._body.needed.isdisjoint(inside - self.known):
            step = self._rollup(scans, parts, inside, shared)
        else:
            plain = len(scans) == 1 and not parts and self._is_bound(order[0])
            step = (
                None if plain else Semijoin(shared, tuple(self._inside(scans, parts, shared).steps))
            )
        if step is not None:
            self._left = [i for i in self._left if i not in atoms]
            self._pending.drop(parts)
            self._go(step)

    def _rollup(
        self,
        scans: Sequence[Scan],
        parts: Sequence[Part],
        inside: frozenset[str],
        shared: tuple[str, ...],
    ) -> Rollup | None:
        """A part of the body that only aggregates read, if they can be taken of it by itself."""
        own = inside - self.known
        if self.amounts is None or not grouped(self._body).isdisjoint(own):
            return None
        mark = f"{self._mark}{self._rolled + 1}#"
        found = parted(self.amounts, own, frozenset(shared), mark)
        if found is None:
            return None
        mine, outer = found
        self._rolled += 1
        self.amounts = outer
        route = self._inside(scans, parts, shared, mine, mark)
        assert route.amounts is not None
        return Rollup(mark, shared, tuple(route.steps), route.amounts, outer)

    def _inside(
        self,
        scans: Sequence[Scan],
        parts: Sequence[Part],
        shared: tuple[str, ...],
        asked: tuple[Amount, ...] = (),
        mark: str = "#",
    ) -> BodyRoute:
        """The way through a part of the body, under what it shares with the rest."""
        body = replace(
            self._body,
            parts=(*scans, *parts),
            columns=(*map(Variable, shared), *(each.expression for each in asked)),
            keys=(),
            cut=None,
            counting=any(each.function in ("count", "sum") for each in asked),
            functions=(*(None for _ in shared), *(lookup(each.function) for each in asked))
            if asked
            else (),
        )
        route = BodyRoute(body, self._traits, self.known, mark=mark, asked=asked)
        begin = len(route.steps)
        for atom in range(len(scans)):
            if len(route.steps) > begin:  # else what is left is this very part
                route.reduce(range(atom, len(scans)))
            route.take(atom)
        route.finished()
        return route

    def _part(self, atom: int) -> tuple[set[int], list[Part]]:
        """The atoms, and all else that waits, that unknown variables tie to an atom."""
        atoms, parts, left = {atom}, list[Part](), frozenset(self._left)
        new = inside = frozenset(self._body.atoms[atom].variables) - self.known
        waiting = self._pending.waiting
        while new:
            more = {i for name in new for i in self._having.get(name, ()) if i in left} - atoms
            others = [p for p in waiting if p not in parts and not new.isdisjoint(read_by(p))]
            atoms |= more
            parts += others
            read = (self._body.atoms[i].variables for i in more)
            new = frozenset[str]().union(*read, *map(read_by, others)) - self.known - inside
            inside |= new
        return atoms, parts

    # ── Atom by atom ─────────────────────────────────────────────────────────────────────────────

    def _look_up(self, atom: int) -> None:
        if atom not in self._left:
            return
        if (band := self._band(self._whole(atom), atom)) is not None:
            self._go(band)
        found = self._whole(atom)
        met = self._met(found, atom)
        self._left.remove(atom)
        if met is not None:
            self._left = [i for i in self._left if self._body.atoms[i] not in _scans(met)]
        if atom in self._core:
            self._heard[atom] = frozenset(self._body.atoms[atom].variables)
        self._go(met or found)

    def _consulted(self, atom: int) -> Meet | None:
        """An atom that nothing known ties, but a constraint that may propose one of its columns."""
        if self._lasting or self._is_bound(atom) or not self.known:
            return None
        for variable in self._body.atoms[atom].variables:
            test = self._pending.suggested(variable, self.known)
            if test is None:
                continue
            known = self.known | {variable}
            having = [i for i in self._having[variable] if i in self._left]
            shown = (AtomPrefixes(self._body, i, self._traits, lasting=False) for i in having)
            found = [each.under(known) for each in shown if is_shown(each, variable)]
            probes = tuple(proposing(each, variable) for each in found if each is not None)
            if probes:
                return Meet(probes, variable, (test,))
        return None

    def _whole(self, atom: int) -> Probe:
        """An atom under all columns that anybody reads."""
        found = probe(self._body.atoms[atom], self.known, self._traits)
        return self._shown[atom].narrowed(found) if atom in self._core else found

    def _met(self, found: Probe, first: int) -> Meet | None:
        """The probe of an atom together with those of others that bind the same one variable."""
        if not self._proposes(found):
            return self._met_whole(found, first) if self._lasting else None
        (variable,) = found.binds
        together = {first: found}
        for atom in self._having[variable]:
            if atom == first or atom not in self._left:
                continue
            other = self._whole(atom)
            if other.binds == found.binds and self._proposes(other):
                together[atom] = other
        probes = tuple(together[atom] for atom in sorted(together))
        return Meet(probes, variable) if len(probes) > 1 else None

    def _met_whole(self, found: Probe, first: int) -> Meet | None:
        """Atoms of the core under all their columns, that have the same variables in common."""
        together = {first: found}
        shared = frozenset[str]()
        for atom in [i for i in self._waiting() if i != first and first in self._core]:
            other = self._whole(atom)
            common = {other.binds & each.binds for each in together.values()}
            if len(common) == 1 and (shared or found.binds & other.binds) in common:
                shared = found.binds & other.binds
                together[atom] = other
        probes = [together[atom] for atom in sorted(together)]
        if not shared or any(
            hidden_columns(each.scan, self._traits) or not each.bound for each in probes
        ):
            return None
        return Meet(tuple(probes), ", ".join(sorted(shared)))

    def _proposes(self, found: Probe) -> bool:
        """Whether a probe with something bound binds one variable, and any index of it is exact."""
        if len(found.new) != 1 or not found.bound or found.checked:
            return False
        relation, version = found.scan.relation, found.scan.version
        if not hidden_columns(found.scan, self._traits):
            return True
        return version in (Version.FULL, Version.NEW) and all(
            self._traits.can_bind(relation, column) for column, _ in found.new
        )

    def _band(self, found: Probe, atom: int) -> Probe | None:
        """The column of a wide atom that comparisons keep between two values, bound by itself."""
        if self._lasting or len(found.new) < 2 or not found.bound:
            return None
        shown = AtomPrefixes(self._body, atom, self._traits, lasting=False)
        for _, name in found.new:
            ends = self._pending.ends(name, self.known)
            if ends_of(ends) == 2 and is_shown(shown, name):
                under = shown.under(self.known | {name})
                return None if under is None else proposing(under, name)
        return None


def _scans(met: Meet) -> list[Scan]:
    return [each.scan for each in met.probes]
