"""The route through a body: its atoms in an order, each with all that can be settled then.

Atoms that form no cycle are looked up one after the other. Those of the cyclic core
(hypergraph.py) are gone through variable by variable: all of them that have the
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

Two variables that an equation ties, or an atom, are bound together, by each row from the side that
has fewer values. With a `search=` all atoms behind the delta are searched, each row choosing its
own variable (`guided_route`).

`body_route` makes the steps of a body for an order of its atoms; choice.py chooses the order. What
an atom shows before all of it is bound is in prefixes.py, what waits for variables in
selections.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from caladan.join.access import (
    Access,
    Amount,
    Check,
    Compute,
    Equation,
    Exclude,
    Fork,
    GuidedSearch,
    Meet,
    Probe,
    Rollup,
    Semijoin,
    Traits,
    probe,
)
from caladan.join.eager import amounts, find_group, split_amounts
from caladan.join.prefixes import (
    AtomPrefixes,
    cyclic_atoms,
    hidden_columns,
    is_shown,
    propose_instead,
)
from caladan.join.selections import (
    Selections,
    can_fail,
    ends_of,
    equation_of,
    read_by,
    solve_equation,
)
from caladan.program import Arithmetic, Call, Comparison, Constant, Expression, Variable
from caladan.program.aggregates import lookup
from caladan.program.transform import replace_in, walk
from caladan.rules.body import Body, BodyPart, Scan, Version, names

_Node = TypeVar("_Node")


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


class BodyRoute:
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
        self._body = body
        self._traits = traits
        self._lasting = lasting
        self._pending = Selections(body)
        self._left = list(range(len(body.atoms)))
        # By variable the atoms that have it, in order: bodies may have hundreds of atoms.
        self._having: dict[str, list[int]] = {}
        for atom, scan in enumerate(body.atoms):
            for variable in scan.variables:
                self._having.setdefault(variable, []).append(atom)
        self._core = cyclic_atoms(body, traits, known)
        self._shown = {
            atom: AtomPrefixes(body, atom, traits, lasting=lasting) for atom in self._core
        }
        # By atom of the core, the variables under which it had its say.
        self._heard = dict.fromkeys(self._core, frozenset[str]())
        self.steps: list[Access] = self._pending.ready(known)
        self.known = known | bound_by(self.steps)
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
        parts: Sequence[BodyPart],
        inside: frozenset[str],
        shared: tuple[str, ...],
    ) -> Rollup | None:
        """A part of the body that only aggregates read, if they can be taken of it by itself."""
        own = inside - self.known
        if self.amounts is None or not find_group(self._body).isdisjoint(own):
            return None
        mark = f"{self._mark}{self._rolled + 1}#"
        found = split_amounts(self.amounts, own, frozenset(shared), mark)
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
        parts: Sequence[BodyPart],
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

    def _part(self, atom: int) -> tuple[set[int], list[BodyPart]]:
        """The atoms, and all else that waits, that unknown variables tie to an atom."""
        atoms, parts, left = {atom}, list[BodyPart](), frozenset(self._left)
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
            probes = tuple(propose_instead(each, variable) for each in found if each is not None)
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
                return None if under is None else propose_instead(under, name)
        return None

    # ── The cyclic core, variable by variable ────────────────────────────────────────────────────

    def _go(self, step: Access) -> None:
        if isinstance(step, Probe | Meet):
            step = self._within(step)
        self.steps.append(step)
        self.known |= step.binds
        settled = self._pending.ready(self.known)
        self.steps += settled
        self.known |= bound_by(settled)

    def _within(self, step: Probe | Meet) -> Probe | Meet:
        """A step with what comparisons say of the variable that it binds first."""
        if self._lasting:
            return step
        if isinstance(step, Meet):
            return self._ranged(step, self.known)
        if step.scan.version is Version.DELTA:
            return step
        if self.known and not any(isinstance(term, Variable) for _, term in step.bound):
            new = [name for _, name in step.new]
            step = replace(step, pairings=self._pending.pairings(new, self.known))
        if step.pairings or not self._is_next(step):
            return step
        found = {name: self._pending.ends(name, self.known) for _, name in step.new}
        # With nothing bound there is an order for any column; else the next one must be it.
        first = max(
            (place for place, (_, name) in enumerate(step.new) if found[name] is not None),
            key=lambda place: ends_of(found[step.new[place][1]]),
            default=None,
        )
        if first is None or (first and step.bound):
            return step
        new = (step.new[first], *step.new[:first], *step.new[first + 1 :])
        return replace(step, new=new, within=found[new[0][1]])

    def _ranged(self, step: Meet, known: frozenset[str]) -> Meet:
        """A meeting with what comparisons with something known say of its variable."""
        ends = self._pending.ends(step.variable, known)
        probes = (replace(each, within=ends) for each in step.probes)
        return step if ends is None else replace(step, probes=tuple(probes))

    def _is_next(self, step: Probe) -> bool:
        """Whether what a step binds first stands right behind what is bound, or is free to."""
        return bool(step.new) and (len(step.new) == 1 or not step.bound) and bool(self.known)

    def _waiting(self) -> list[int]:
        """The atoms of the core that are left and have something bound."""
        return [i for i in self._left if i in self._core and self._is_bound(i)]

    def _meet(self, atom: int) -> None:
        """Bind the variables that an atom of the core shares with others of it."""
        while True:
            if (variable := self._variable(atom)) is not None:
                step = self._corner(variable) or self._meeting(variable, self.known)
                sharing = sorted({i for name in step.binds for i in self._sharing(name)})
                self._test(sharing)
                asked = self.known | step.binds
                self._go(step)
            elif (tie := self._tie(atom)) is not None:
                both = (self._sharing(name) for name in tie.variables)
                sharing = sorted({each for atoms in both for each in atoms})
                self._test(sharing)
                if tie.holds:
                    self._pending.done(tie.equation)
                asked = self.known | tie.fork.binds
                self._go(tie.fork)
            else:
                return
            for each in sharing:
                self._hear(each, asked)

    def _corner(self, variable: str) -> Fork | None:
        """A variable, or another one that an atom has beside it: some rows have fewer of these.

        So it is around a cycle of four: with two neighbours known, either of the others may come
        first. Where several atoms tell what a variable can be, the least of them is few enough; of
        one that only atoms read, a first value will do, once all else is known.
        """
        if self._lasting or not self._turns(variable):
            return None
        beside = (self._body.atoms[i].variables for i in self._sharing(variable))
        for other in dict.fromkeys(name for some in beside for name in some):
            if other in self.known or other == variable or not self._turns(other):
                continue
            ways: list[tuple[Meet, tuple[Check | Meet, ...]]] = []
            for first, then in ((variable, other), (other, variable)):
                known = self.known | {first}
                tests = self._pending.comparisons(known)
                meeting = self._ranged(self._meeting(first, self.known), self.known)
                behind = self._ranged(self._meeting(then, known), known)
                ways.append((meeting, (*tests, behind)))
            return Fork(tuple(ways))
        return None

    def _turns(self, variable: str) -> bool:
        """Whether one atom of the core leads to a variable that not only atoms read.

        One that nothing but the head and its own atom has cuts nothing, and waits for the rest.
        """
        body = self._body
        tests = frozenset[str]().union(*(read_by(p) for p in body.parts if not isinstance(p, Scan)))
        read = body.counting or variable in body.needed | tests
        meets = len(self._having[variable]) > 1 or variable in tests
        return read and meets and self._reached(variable) == 1

    def _reached(self, variable: str) -> int:
        """How many atoms of the core have a variable beside something that is bound."""
        return sum(map(self._is_bound, self._sharing(variable)))

    def _tie(self, atom: int) -> _Tie | None:
        """A variable of an atom of the core, and one of others of it, that an equation ties."""
        if self._lasting or atom not in self._core or atom not in self._left:
            return None
        if not self._is_bound(atom):
            return None
        for variable in self._body.atoms[atom].variables:
            if variable in self.known:
                continue
            for other, equation in self._pending.tied(variable, self.known):
                if (tie := self._forked(variable, other, equation)) is not None:
                    return tie
        return None

    def _forked(self, one: str, other: str, equation: Comparison) -> _Tie | None:
        """Both ways to bind two variables that an equation ties, if each has one."""
        known, types = self.known, self._body.types
        ways: list[tuple[Meet, tuple[Probe | Compute, ...]]] = []
        holds = True  # if what was divided by had nothing left over, on either way
        for first, then in ((one, other), (other, one)):
            found = solve_equation(equation, known | {first}, types)
            proposing = self._sharing(first)
            if found is None or not any(map(self._is_bound, proposing)):
                return None
            both = known | {first, then}
            tests = [self._shown[atom].under(both) for atom in self._sharing(then)]
            meeting = self._meeting(first, known)
            ways.append((meeting, (found[0], *(t for t in tests if t is not None))))
            holds &= found[1]
        return _Tie(Fork(tuple(ways)), (one, other), equation, holds)

    def _variable(self, atom: int) -> str | None:
        """The variable that an atom of the core, with something bound, meets others in next."""
        if atom not in self._core or atom not in self._left or not self._is_bound(atom):
            return None

        new = [v for v in self._body.atoms[atom].variables if v not in self.known]
        shared = [v for v in new if len(self._sharing(v)) > 1]
        return max(shared, key=self._reached, default=None)  # the first, if several are alike

    def _sharing(self, variable: str, known: frozenset[str] = frozenset()) -> list[int]:
        """The atoms of the core that are left and could say which values a variable has."""
        known |= self.known | {variable}
        atoms = (i for i in self._having[variable] if i in self._core and i in self._left)
        return [i for i in atoms if self._shown[i].under(known) is not None]

    def _is_bound(self, atom: int) -> bool:
        """Whether an atom has something bound; what is new is scanned whatever it has."""
        scan = self._body.atoms[atom]
        return scan.version is not Version.DELTA and any(
            isinstance(a, Constant) or a.name in self.known for a in scan.arguments
        )

    def _meeting(self, variable: str, known: frozenset[str]) -> Meet:
        known |= {variable}
        found = (self._shown[atom].under(known) for atom in self._sharing(variable, known))
        return Meet(tuple(propose_instead(each, variable) for each in found if each), variable)

    def _hear(self, atom: int, asked: frozenset[str]) -> None:
        """An atom had its say about what it was asked; it is done if that is all.

        What was computed since, of what the step had bound, it was not asked about.
        """
        self._heard[atom] = frozenset(self._body.atoms[atom].variables) & asked
        if self._shown[atom].read <= asked:
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
            self._hear(atom, self.known)


@dataclass(frozen=True, slots=True)
class _Tie:
    """Two variables that an equation ties; whether it `holds` once both are bound."""

    fork: Fork
    variables: tuple[str, str]
    equation: Comparison
    holds: bool


def _bound(found: Probe) -> tuple[object, ...]:
    return (found.scan.relation, found.scan.version, found.bound, found.view)


def _scans(met: Meet) -> list[Scan]:
    return [each.scan for each in met.probes]


def bound_by(steps: Sequence[Access]) -> frozenset[str]:
    """What some steps bind."""
    return frozenset[str]().union(*(step.binds for step in steps))


# ── Bodies that are searched whole ───────────────────────────────────────────────────────────────


def guided_route(body: Body, traits: Traits, grade: str, least: int = 2) -> list[Access] | None:
    """The steps of a body that is searched whole, behind its delta; None if it has few atoms."""
    pending = Selections(body)
    before = pending.ready(frozenset())
    left = list(body.atoms)
    first = next((scan for scan in left if scan.version is Version.DELTA), None)
    if first is not None:
        left.remove(first)
        before.append(probe(first, bound_by(before), traits))
        before += pending.ready(bound_by(before))
    if len(left) < least:
        return None
    inside = bound_by(before).union(*(scan.variables for scan in left))
    computed: dict[str, Expression] = {}
    cuts: list[Check | Exclude | Equation] = []
    after: list[Access] = []
    for step in pending.ready(inside):
        match step:
            case Check():
                comparison = _replace_computed(step.comparison, computed)
                takes_part = names(comparison) <= inside
                if takes_part:
                    cuts.append(_cut(comparison, body, bound_by(before)))
                if not takes_part or can_fail(step):
                    after.append(step)
            case Exclude() if step.bound and inside.issuperset(step.scan.variables):
                cuts.append(step)
            case Compute():
                computed[step.variable] = _replace_computed(step.expression, computed)
                after.append(step)
            case _:
                after.append(step)
    return [*before, GuidedSearch(tuple(left), tuple(cuts), grade), *after]


def _replace_computed(node: _Node, computed: Mapping[str, Expression]) -> _Node:
    """An expression or a comparison in variables of atoms alone, as far as that can be had."""
    return replace_in(
        node, lambda each: computed.get(each.name) if isinstance(each, Variable) else None
    )


def _cut(comparison: Comparison, body: Body, bound: Collection[str]) -> Check | Equation:
    """A comparison as it takes part: one that can be solved proposes as well."""
    if comparison.operator != "=":
        return Check(comparison)
    every = names(comparison)
    own = next((each for each in body.bindings if equation_of(each) == comparison), None)
    found: dict[str, Compute] = {}
    for name in sorted(every.difference(bound)):
        if (given := solve_equation(comparison, every - {name}, body.types)) is not None:
            found[name] = given[0]
        elif own is not None and own.variable == name and name not in names(own.expression):
            found[name] = Compute(name, own.expression, True)
    total = tuple(each for each in found.values() if _is_total(each.expression))
    return Equation(comparison, total) if total else Check(comparison)


def _is_total(expression: Expression) -> bool:
    """Whether an expression has a value for all numbers, or leaves 64 bits."""
    for node in walk(expression):
        match node:
            case Arithmetic("+" | "-" | "*"):
                pass
            case Arithmetic("div", _, Constant() as divisor) if divisor.value:
                pass
            case Arithmetic() | Call():
                return False
            case _:
                pass
    return True
