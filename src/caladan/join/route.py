"""The route through a body: its atoms in an order, each with all that can be settled then.

Atoms that form no cycle are looked up one after the other. Those of the cyclic core
(hypergraph.py) are gone through variable by variable: all of them that have the variable meet, each
under the columns that are bound and that variable's, and whichever has the fewest values for a
solution proposes. So no more is proposed than the core could have solutions (the bound of Atserias,
Grohe and Marx), however wide its atoms are:

    e(X, P, Y, Q), e(Y, Q, Z, R), e(Z, R, X, P)

    scan e(X, P, Y, Q); meet in Z: e(Y, Q, Z, _), e(Z, _, X, P); meet in R: e(Y, Q, Z, R), …

Columns that nobody reads are never bound; those that only the head reads, or a comparison, wait
until all variables that atoms share are bound, and are then looked up. Atoms that nobody reads
anything of are a semijoin: asked once for what they share with the rest. Tests, negated atoms and
arithmetic stand as early as they can, and comparisons with something known cut what is looked up
to a range of a sorted run.

`planned` makes the steps of a body for an order of its atoms, `chosen` chooses the order, by the
fan-out of a sample where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from caladan.analysis.core import Term
from caladan.analysis.expressions import partial_type
from caladan.analysis.schedule import solve
from caladan.columns.views import ViewColumns
from caladan.join.access import (
    Access,
    Check,
    Compute,
    Exclude,
    Fork,
    Hunt,
    Meet,
    Probe,
    Range,
    Sample,
    Semijoin,
    Traits,
    probe,
)
from caladan.join.constraint import Constraint
from caladan.join.hypergraph import cyclic_core
from caladan.program import (
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Type,
    Variable,
    thresholds,
)
from caladan.rules.body import Absence, Binding, Body, Part, Scan, Version, names


def planned(
    body: Body, order: Sequence[int], traits: Traits, *, lasting: bool = False
) -> list[Access]:
    """The steps for an order of the atoms; `lasting` ones have no views of what still changes."""
    route = BodyRoute(body, traits, lasting=lasting)
    for place, atom in enumerate(order):
        if not lasting:
            route.reduce(order[place:])
        route.take(atom)
    return route.finished()


def bound_by(steps: Sequence[Access]) -> frozenset[str]:
    """What some steps bind."""
    return frozenset[str]().union(*(step.binds for step in steps))


def searched(body: Body, traits: Traits, grade: str) -> list[Access] | None:
    """The steps of a body that is searched whole, behind its delta; None if it is not.

    What is left must be several atoms, and no arithmetic may give one of their variables its value:
    that is computed more quickly than searched for. Tests that compute something are made once more
    at the end, for within the search those that fail are put off.
    """
    settling = Settling(body)
    before = settling.ready(frozenset())
    left = list(body.atoms)
    first = next((scan for scan in left if scan.version is Version.DELTA), None)
    if first is not None:
        left.remove(first)
        before.append(probe(first, bound_by(before), traits))
        before += settling.ready(bound_by(before))
    bound = bound_by(before)
    atoms = frozenset(name for scan in left for name in scan.variables)
    if len(left) < 2 or any(b.variable in atoms - bound for b in body.bindings):
        return None
    after = settling.ready(bound | atoms)
    cuts = [
        step
        for step in after
        if (isinstance(step, Check) and names(step.comparison) <= bound | atoms)
        or (isinstance(step, Exclude) and step.bound and {*step.scan.variables} <= bound | atoms)
    ]
    again = (s for s in after if s not in cuts or (isinstance(s, Check) and _can_fail(s)))
    return [*before, Hunt(tuple(left), tuple(cuts), grade), *again]


_Looking = TypeVar("_Looking", Probe, Meet, "Probe | Meet")


class BodyRoute:
    """The steps through a body, as one atom after another is taken."""

    def __init__(
        self,
        body: Body,
        traits: Traits,
        known: frozenset[str] = frozenset(),
        *,
        lasting: bool = False,
    ) -> None:
        self._body = body
        self._traits = traits
        self._lasting = lasting
        self._settling = Settling(body)
        self._left = list(range(len(body.atoms)))
        # By variable the atoms that have it, in order: bodies may have hundreds of atoms.
        self._having: dict[str, list[int]] = {}
        for atom, scan in enumerate(body.atoms):
            for variable in scan.variables:
                self._having.setdefault(variable, []).append(atom)
        self._core = _core(body, traits, known)
        self._shown = {atom: _Shown(body, atom, traits, lasting=lasting) for atom in self._core}
        # By atom of the core, the variables under which it had its say.
        self._heard = dict.fromkeys(self._core, frozenset[str]())
        self.steps: list[Access] = self._settling.ready(known)
        self.known = known | bound_by(self.steps)

    def next_step(self, atom: int) -> Probe | Meet | Fork | None:
        """How an atom would be taken now; None if it is done already."""
        if atom not in self._left:
            return None
        variable = self._variable(atom)
        if variable is not None:
            return self._within(self._meeting(variable))
        if (tie := self._tie(atom)) is not None:
            return tie.fork
        if (asked := self._consulted(atom)) is not None:
            return asked
        found = self._whole(atom)
        return self._within(self._met(found, atom) or self._band(found, atom) or found)

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
            self._settling.done(asked.tests[0])
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

        `order` has the atoms that are still to be taken. What is new is scanned in any case.
        """
        if order[0] not in self._left or self._body.counting:
            return
        atoms, parts = self._part(order[0])
        scans = [self._body.atoms[i] for i in order if i in atoms]
        inside = frozenset[str]().union(*(s.variables for s in scans), *map(_read, parts))
        plain = len(scans) == 1 and not parts and self._is_bound(order[0])
        deltas = any(scan.version is Version.DELTA for scan in scans)
        if plain or deltas or not self._body.needed.isdisjoint(inside - self.known):
            return
        shared = tuple(sorted(inside & self.known))
        body = replace(
            self._body,
            parts=(*scans, *parts),
            columns=tuple(map(Variable, shared)),
            keys=(),
            cut=None,
        )
        route = BodyRoute(body, self._traits, self.known)
        for atom in range(len(scans)):
            if atom:
                route.reduce(range(atom, len(scans)))
            route.take(atom)
        self._left = [i for i in self._left if i not in atoms]
        self._settling.drop(parts)
        self._go(Semijoin(shared, tuple(route.finished())))

    def _part(self, atom: int) -> tuple[set[int], list[Part]]:
        """The atoms, and all else that waits, that unknown variables tie to an atom."""
        atoms, parts = {atom}, list[Part]()
        inside = frozenset(self._body.atoms[atom].variables) - self.known
        waiting = self._settling.waiting
        grown = True
        while grown:
            more = [i for i in self._left if i not in atoms]
            more = [i for i in more if not inside.isdisjoint(self._body.atoms[i].variables)]
            others = [p for p in waiting if p not in parts and not inside.isdisjoint(_read(p))]
            grown = bool(more or others)
            atoms.update(more)
            parts += others
            read = (self._body.atoms[i].variables for i in more)
            inside = inside.union(*read, *map(_read, others)) - self.known
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
            test = self._settling.suggested(variable, self.known)
            if test is None:
                continue
            known = self.known | {variable}
            having = [i for i in self._having[variable] if i in self._left]
            shown = (_Shown(self._body, i, self._traits, lasting=False) for i in having)
            found = [each.under(known) for each in shown if _is_shown(each, variable)]
            probes = tuple(_proposing(each, variable) for each in found if each is not None)
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
        if not shared or any(_hidden(each.scan, self._traits) or not each.bound for each in probes):
            return None
        return Meet(tuple(probes), ", ".join(sorted(shared)))

    def _proposes(self, found: Probe) -> bool:
        """Whether a probe with something bound binds one variable, and any index of it is exact."""
        if len(found.new) != 1 or not found.bound or found.checked:
            return False
        relation, version = found.scan.relation, found.scan.version
        if not _hidden(found.scan, self._traits):
            return True
        return version in (Version.FULL, Version.NEW) and all(
            self._traits.can_bind(relation, column) for column, _ in found.new
        )

    def _go(self, step: Access) -> None:
        if isinstance(step, Probe | Meet):
            step = self._within(step)
        self.steps.append(step)
        self.known |= step.binds
        settled = self._settling.ready(self.known)
        self.steps += settled
        self.known |= bound_by(settled)

    def _within(self, step: _Looking) -> _Looking:
        """A step with what comparisons say of the variable that it binds first."""
        if self._lasting:
            return step
        if isinstance(step, Meet):
            ends = self._settling.ends(step.variable, self.known)
            probes = (replace(each, within=ends) for each in step.probes)
            return step if ends is None else replace(step, probes=tuple(probes))
        found = {name: self._settling.ends(name, self.known) for _, name in step.new}
        if step.scan.version is Version.DELTA or not self._is_next(step):
            return step
        # With nothing bound there is an order for any column; else the next one must be it.
        first = max(
            (place for place, (_, name) in enumerate(step.new) if found[name] is not None),
            key=lambda place: _closed(found[step.new[place][1]]),
            default=None,
        )
        if first is None or (first and step.bound):
            return step
        new = (step.new[first], *step.new[:first], *step.new[first + 1 :])
        return replace(step, new=new, within=found[new[0][1]])

    def _band(self, found: Probe, atom: int) -> Probe | None:
        """The column of a wide atom that comparisons keep between two values, bound by itself."""
        if self._lasting or len(found.new) < 2 or not found.bound:
            return None
        shown = _Shown(self._body, atom, self._traits, lasting=False)
        for _, name in found.new:
            ends = self._settling.ends(name, self.known)
            if _closed(ends) == 2 and _is_shown(shown, name):
                under = shown.under(self.known | {name})
                return None if under is None else _proposing(under, name)
        return None

    def _is_next(self, step: Probe) -> bool:
        """Whether what a step binds first stands right behind what is bound, or is free to."""
        return bool(step.new) and (len(step.new) == 1 or not step.bound) and bool(self.known)

    # ── Variable by variable ─────────────────────────────────────────────────────────────────────

    def _waiting(self) -> list[int]:
        """The atoms of the core that are left and have something bound."""
        return [i for i in self._left if i in self._core and self._is_bound(i)]

    def _meet(self, atom: int) -> None:
        """Bind the variables that an atom of the core shares with others of it."""
        while True:
            if (variable := self._variable(atom)) is not None:
                sharing = self._sharing(variable)
                self._test(sharing)
                self._go(self._meeting(variable))
            elif (tie := self._tie(atom)) is not None:
                both = (self._sharing(name) for name in tie.variables)
                sharing = sorted({each for atoms in both for each in atoms})
                self._test(sharing)
                if tie.holds:
                    self._settling.done(tie.equation)
                self._go(tie.fork)
            else:
                return
            for each in sharing:
                self._hear(each)

    def _tie(self, atom: int) -> _Tie | None:
        """A variable of an atom of the core, and one of others of it, that an equation ties."""
        if self._lasting or atom not in self._core or atom not in self._left:
            return None
        if not self._is_bound(atom):
            return None
        for variable in self._body.atoms[atom].variables:
            if variable in self.known:
                continue
            for other, equation in self._settling.tied(variable, self.known):
                if (tie := self._forked(variable, other, equation)) is not None:
                    return tie
        return None

    def _forked(self, one: str, other: str, equation: Comparison) -> _Tie | None:
        """Both ways to bind two variables that an equation ties, if each has one."""
        known, types = self.known, self._body.types
        ways: list[tuple[Meet, tuple[Probe | Compute, ...]]] = []
        holds = True  # if what was divided by had nothing left over, on either way
        for first, then in ((one, other), (other, one)):
            found = solved(equation, known | {first}, types)
            proposing = self._sharing(first)
            if found is None or not any(map(self._is_bound, proposing)):
                return None
            both = known | {first, then}
            tests = [self._shown[atom].under(both) for atom in self._sharing(then)]
            ways.append((self._meeting(first), (found[0], *(t for t in tests if t is not None))))
            holds &= found[1]
        return _Tie(Fork(tuple(ways)), (one, other), equation, holds)

    def _variable(self, atom: int) -> str | None:
        """The variable that an atom of the core, with something bound, meets others in next."""
        if atom not in self._core or atom not in self._left or not self._is_bound(atom):
            return None

        def meeting(variable: str) -> int:
            return sum(map(self._is_bound, self._sharing(variable)))

        new = [v for v in self._body.atoms[atom].variables if v not in self.known]
        shared = [v for v in new if len(self._sharing(v)) > 1]
        return max(shared, key=meeting, default=None)  # the first, if several are alike

    def _sharing(self, variable: str) -> list[int]:
        """The atoms of the core that are left and could say which values a variable has."""
        known = self.known | {variable}
        atoms = (i for i in self._having[variable] if i in self._core and i in self._left)
        return [i for i in atoms if self._shown[i].under(known) is not None]

    def _is_bound(self, atom: int) -> bool:
        """Whether an atom has something bound; what is new is scanned whatever it has."""
        scan = self._body.atoms[atom]
        return scan.version is not Version.DELTA and any(
            isinstance(a, Constant) or a.name in self.known for a in scan.arguments
        )

    def _meeting(self, variable: str) -> Meet:
        known = self.known | {variable}
        found = (self._shown[atom].under(known) for atom in self._sharing(variable))
        return Meet(tuple(_proposing(each, variable) for each in found if each), variable)

    def _hear(self, atom: int) -> None:
        """An atom had its say about all that is known of it; it is done if that is all."""
        variables = frozenset(self._body.atoms[atom].variables)
        self._heard[atom] = variables & self.known
        if self._shown[atom].read <= self.known:
            self._left.remove(atom)

    def _test(self, others: Sequence[int]) -> None:
        """Let the atoms of the core that do not meet next throw out what they have nothing for."""
        tests = {atom: self._shown[atom].under(self.known) for atom in self._core}
        said = {_bound(test) for atom in others if (test := tests[atom]) is not None}
        for atom in [i for i in self._left if i in self._core and i not in others]:
            known = self.known & frozenset(self._body.atoms[atom].variables)
            test = tests[atom]
            if known <= self._heard[atom] or test is None:
                continue
            if _bound(test) not in said:
                said.add(_bound(test))
                self.steps.append(test)
            self._hear(atom)


@dataclass(frozen=True, slots=True)
class _Tie:
    """Two variables that an equation ties; whether it `holds` once both are bound."""

    fork: Fork
    variables: tuple[str, str]
    equation: Comparison
    holds: bool


class _Shown:
    """Which columns of an atom of the core anybody reads."""

    def __init__(self, body: Body, atom: int, traits: Traits, *, lasting: bool) -> None:
        self.scan = body.atoms[atom]
        self._has_views = not lasting or self.scan.version is Version.FULL
        self._hidden = _hidden(self.scan, traits)
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
        view = self._view(frozenset(c for c, _ in bound))
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
        view = self._view(shown)
        if view is None:
            return whole
        return Probe(
            self.scan,
            tuple((c, t) for c, t in whole.bound if c in kept),
            tuple((c, t) for c, t in whole.checked if c in kept),
            new,
            view,
        )

    def _view(self, columns: frozenset[int]) -> ViewColumns | None:
        if len(columns) == len(self.scan.arguments):
            return None
        return ViewColumns(tuple(sorted(columns)), self._equal)


def _is_shown(shown: _Shown, variable: str) -> bool:
    """Whether views of an atom may have a variable; those of a delta are scanned."""
    return variable in shown.visible and shown.scan.version is not Version.DELTA


def _core(body: Body, traits: Traits, known: frozenset[str]) -> frozenset[int]:
    """The atoms that form cycles, with each other, with what is known, or through arithmetic."""
    variables = [frozenset(scan.variables) for scan in body.atoms]
    together = known & frozenset[str]().union(*variables)
    computed = [names(each.expression) | {each.variable} for each in body.bindings]
    equations = [names(each) for each in body.conditions if each.operator == "="]
    found = cyclic_core([*variables, together], [*computed, *equations])
    atoms = (i for i in found if i < len(variables))
    return frozenset(i for i in atoms if _can_meet(body, i, traits))


def _hidden(scan: Scan, traits: Traits) -> frozenset[int]:
    """The columns of an atom that views do not show."""
    columns = range(len(scan.arguments))
    return frozenset(c for c in columns if not traits.can_show(scan.relation, c))


def _can_meet(body: Body, atom: int, traits: Traits) -> bool:
    """Whether an atom can do without the columns that views hide until all else is bound."""
    scan = body.atoms[atom]
    hidden = [scan.arguments[c] for c in _hidden(scan, traits)]
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


def _scans(met: Meet) -> list[Scan]:
    return [each.scan for each in met.probes]


def _bound(found: Probe) -> tuple[object, ...]:
    return (found.scan.relation, found.scan.version, found.bound, found.view)


def _proposing(found: Probe, variable: str) -> Probe:
    """A probe that binds a variable instead of testing it."""
    new = [c for c, term in found.bound if isinstance(term, Variable) and term.name == variable]
    bound = tuple((c, term) for c, term in found.bound if c not in new)
    return replace(found, bound=bound, new=tuple((c, variable) for c in new))


class Settling:
    """What of a body still waits for variables to be bound: tests, negated atoms, equalities.

    They stand as early as they can; those that cannot fail come first, for they may keep a
    division from failing.
    """

    def __init__(self, body: Body) -> None:
        self._types = body.types
        self._looked_up = frozenset(name for scan in body.atoms for name in scan.variables)
        self._bindings = list(body.bindings)
        self._tests = sorted(body.conditions, key=lambda c: _computes(c.left) or _computes(c.right))
        self._absents = list(body.absents)

    @property
    def waiting(self) -> list[Part]:
        """What still waits."""
        return [*self._bindings, *self._tests, *map(Absence, self._absents)]

    def drop(self, parts: Sequence[Part]) -> None:
        """Others see to some parts."""
        self._bindings = [each for each in self._bindings if each not in parts]
        self._tests = [each for each in self._tests if each not in parts]
        self._absents = [each for each in self._absents if Absence(each) not in parts]

    def ready(self, known: frozenset[str]) -> list[Access]:
        """The steps that can be taken now that some variables are known."""
        bound = set(known)
        steps: list[Access] = []
        while step := self._next(bound):
            steps.append(step)
            bound |= step.binds
        return steps

    def _next(self, bound: set[str]) -> Access | None:
        for test in self._tests:
            if not _computes(test.left) and not _computes(test.right) and names(test) <= bound:
                self._tests.remove(test)
                return Check(test)
        for scan in self._absents:
            if set(scan.variables) <= bound:
                self._absents.remove(scan)
                return Exclude(scan, tuple(_excluded(scan)))
        for binding in self._bindings:
            if names(binding.expression) <= bound:
                self._bindings.remove(binding)
                if binding.variable in bound:
                    return Check(_equation(binding))
                return Compute(binding.variable, binding.expression, binding.solved)
        for test in self._tests:
            if names(test) <= bound:
                self._tests.remove(test)
                return Check(test)
        return self._solved(frozenset(bound))

    # ── Equations ────────────────────────────────────────────────────────────────────────────────

    def _solved(self, bound: frozenset[str]) -> Compute | None:
        """An equation whose one variable that is left an atom has: it is looked up by its value."""
        for equation in self._equations():
            left = names(equation) - bound
            if len(left) == 1 and left <= self._looked_up:
                found = solved(equation, bound, self._types)
                if found is not None and found[1]:
                    self.done(equation)
                if found is not None:
                    return found[0]
        return None

    def tied(self, variable: str, known: frozenset[str]) -> Iterator[tuple[str, Comparison]]:
        """The variables that an equation ties to one, both of them unknown."""
        for equation in self._equations():
            left = names(equation) - known
            if len(left) == 2 and variable in left and left <= self._looked_up:
                (other,) = left - {variable}
                yield other, equation

    def ends(self, variable: str, known: frozenset[str]) -> Range | None:
        """What comparisons with something known say about the values of a variable."""
        lower: list[Expression] = []
        upper: list[Expression] = []
        moved: list[Expression] = []
        for test in self._tests:
            if test.operator in _FLIPPED and names(test) - known == frozenset((variable,)):
                found = _isolated(test, variable, self._types)
                if found is not None:
                    operator, end = found
                    (upper if operator in ("<", "<=") else lower).append(end)
                    moved += [] if end in (test.left, test.right) else [end]
        return Range(tuple(lower), tuple(upper), tuple(moved)) if lower or upper else None

    def suggested(self, variable: str, known: frozenset[str]) -> Comparison | None:
        """A constraint of the user's that may propose a variable, all else of it being known."""
        for test in self._tests:
            if (
                names(test) - known == frozenset((variable,))
                and constraint_of(test, self._types) is not None
            ):
                return test
        return None

    def done(self, equation: Comparison) -> None:
        """An equation holds by construction."""
        self._tests = [test for test in self._tests if test != equation]
        self._bindings = [each for each in self._bindings if _equation(each) != equation]

    def _equations(self) -> list[Comparison]:
        bindings = (_equation(each) for each in self._bindings if not each.widens)
        return [*bindings, *(test for test in self._tests if test.operator == "=")]


def constraint_of(
    test: Comparison, types: Mapping[str, Type]
) -> tuple[Constraint, Mapping[str, str]] | None:
    """The constraint that a test calls, with its own names for the test's variables.

    It sees whole numbers: what has others is left to the test, which says so.
    """
    called = test.left
    if test.operator != "=" or test.right != Constant(True) or not isinstance(called, Function):
        return None
    constraint: Constraint | None = getattr(called.code, "constraint", None)
    own: tuple[str, ...] = getattr(called.code, "arguments", ())
    here = [a.name for a in called.arguments if isinstance(a, Variable) and not a.is_anonymous]
    if constraint is None or len(set(here)) < len(own):
        return None
    if not all(types[name].is_integral for name in here):
        return None
    return constraint, dict(zip(here, own, strict=True))


def _read(part: Part) -> frozenset[str]:
    """The variables of something that waits for them."""
    match part:
        case Binding():
            return names(part.expression) | {part.variable}
        case Absence():
            return frozenset(part.scan.variables)
        case Scan():
            return frozenset(part.variables)
        case _:
            return names(part)


def _equation(binding: Binding) -> Comparison:
    return Comparison("=", Variable(binding.variable), binding.expression)


def solved(
    equation: Comparison, known: frozenset[str], types: Mapping[str, Type]
) -> tuple[Compute, bool] | None:
    """The one variable of an equation that is not known, and whether the equation holds then.

    Of whole numbers: what else is computed may have no words in the columns it is looked up in.
    """
    sides = (partial_type(side, types) for side in (equation.left, equation.right))
    if not all(types[name].is_integral for name in names(equation)):
        return None
    if not all(side is not None and side.is_integral for side in sides):
        return None
    exact = solve(equation, known, types)
    found = exact or solve(equation, known, types, divides=True)
    if found is None:
        return None
    return Compute(found.variable, found.expression, True), exact is not None


_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _isolated(
    test: Comparison, name: str, types: Mapping[str, Type]
) -> tuple[str, Expression] | None:
    """What a comparison says of one variable, which is then alone on its left side.

    >>> one, other = Variable("X"), Arithmetic("-", Variable("Y"), Variable("X"))
    >>> _isolated(Comparison("<", other, Constant(3)), "X", dict.fromkeys("XY", Type.LONG))
    ('>', Arithmetic(operator='-', left=Variable(name='Y'), right=Constant(value=3)))
    """
    operator, node, value = test.operator, test.left, test.right
    if name in names(value):
        operator, node, value = _FLIPPED[operator], value, node
    if name in names(value):
        return None
    if not isinstance(node, Variable) and not all(types[n].is_integral for n in names(test)):
        return None
    while not isinstance(node, Variable):
        match node:
            case Negative():
                operator, node, value = _FLIPPED[operator], node.operand, Negative(value)
            case Arithmetic("+", left, right) if name in names(left) - names(right):
                node, value = left, Arithmetic("-", value, right)
            case Arithmetic("+", left, right) if name in names(right) - names(left):
                node, value = right, Arithmetic("-", value, left)
            case Arithmetic("-", left, right) if name in names(left) - names(right):
                node, value = left, Arithmetic("+", value, right)
            case Arithmetic("-", left, right) if name in names(right) - names(left):
                operator = _FLIPPED[operator]
                node, value = right, Arithmetic("-", left, value)
            case _:
                return None
    return operator, value


def _closed(ends: Range | None) -> int:
    """How many ends there are."""
    return 0 if ends is None else bool(ends.lower) + bool(ends.upper)


def _can_fail(check: Check) -> bool:
    return _computes(check.comparison.left) or _computes(check.comparison.right)


def _excluded(scan: Scan) -> Iterator[tuple[int, Term]]:
    for column, argument in enumerate(scan.arguments):
        if isinstance(argument, Constant) or not argument.is_anonymous:
            yield column, argument


def _computes(expression: Expression) -> bool:
    return isinstance(expression, Arithmetic | Call | Negative | Conditional)


# ── Orders ───────────────────────────────────────────────────────────────────────────────────────


def chosen(
    body: Body, sizes: Sequence[int], traits: Traits, sample: Sample | None = None
) -> tuple[int, ...]:
    """The order of the atoms: from the delta, or the fewest facts, by the smallest fan-out.

    Fan-outs are measured on a sample, if there is one; without it an atom with something bound
    goes before one without, and then the one that has the fewest columns left.
    """
    if len(body.atoms) < 2:
        return tuple(range(len(body.atoms)))
    route = BodyRoute(body, traits)
    order: list[int] = []

    def take(atom: int) -> None:
        order.append(atom)
        route.take(atom)

    def cost(atom: int) -> tuple[float, int, int]:
        step = route.next_step(atom)
        if step is None:
            return (0.0, 0, atom)
        found = step if isinstance(step, Probe) else probe(body.atoms[atom], route.known, traits)
        measured = sample.fan_out(route.steps, step) if sample and found.bound else None
        consulted = isinstance(step, Meet) and step.tests
        guess = 1.0 if found.bound or consulted else float(sizes[atom])
        unbound = len(found.scan.arguments) - len(found.bound)
        return (guess if measured is None else measured, unbound, atom)

    def started(atom: int) -> float:
        scan = body.atoms[atom]
        tests = [each for each in body.conditions if names(each) <= {*scan.variables}]
        share = sample.passing(scan, tests) if sample and tests else 1.0
        return _selected(body, atom, sizes) * share

    take(min(first_atoms(body), key=started))
    while len(order) < len(body.atoms):
        near = [i for i in range(len(body.atoms)) if i not in order]
        if len(near) > 1:
            near = next_atoms(body, order, route.near)
        take(near[0] if len(near) == 1 else min(near, key=cost))
    return tuple(order)


def first_atoms(body: Body) -> list[int]:
    """The atoms that a body may be started with: the delta, if it has one."""
    deltas = [i for i, scan in enumerate(body.atoms) if scan.version is Version.DELTA]
    return deltas[:1] or list(range(len(body.atoms)))


def next_atoms(body: Body, order: Sequence[int], known: frozenset[str]) -> list[int]:
    """The atoms that may come next: those that share something with what is known, if any do."""
    left = [i for i in range(len(body.atoms)) if i not in order]
    return [i for i in left if _connects(body.atoms[i], known)] or left


def orders(body: Body, traits: Traits) -> list[tuple[int, ...]] | None:
    """All orders that `chosen` may choose, the one without any sizes first; None if too many."""
    guess = chosen(body, [1] * len(body.atoms), traits)
    found = [guess]
    waiting: list[tuple[int, ...]] = [(i,) for i in reversed(first_atoms(body))]
    while waiting:
        order = waiting.pop()
        if len(order) == len(body.atoms):
            if order != guess:
                found.append(order)
        else:
            route = BodyRoute(body, traits)
            for atom in order:
                route.take(atom)
            near = next_atoms(body, order, route.near)
            waiting += [(*order, i) for i in reversed(near)]
        if max(len(found), len(waiting)) > thresholds.now.orders:
            return None
    return found


def _selected(body: Body, atom: int, sizes: Sequence[int]) -> float:
    """How many facts an atom starts with, taking a constant to leave a hundredth."""
    constants = sum(isinstance(a, Constant) for a in body.atoms[atom].arguments)
    return sizes[atom] / 100**constants


def _connects(scan: Scan, known: frozenset[str]) -> bool:
    return not known.isdisjoint(scan.variables) or any(
        isinstance(a, Constant) for a in scan.arguments
    )
