"""The cyclic core of a body, variable by variable.

`CoreRoute` has the steps so far and what is known by them. `_meet` binds what an atom of the core
shares with others of it: they meet in a variable, each under the columns that are bound and that
variable's (prefixes.py); those that have no say in it throw out first what they have nothing for.
Two variables that an equation ties are bound together, from whichever side has fewer values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from caladan.join.access import (
    Access,
    Check,
    Compute,
    Fork,
    Meet,
    Probe,
    Traits,
)
from caladan.join.prefixes import (
    AtomPrefixes,
    cyclic_atoms,
    proposing,
)
from caladan.join.selections import Selections, ends_of, read_by, solved
from caladan.program import Comparison, Constant, Variable
from caladan.rules.body import Body, Scan, Version


def bound_by(steps: Sequence[Access]) -> frozenset[str]:
    """What some steps bind."""
    return frozenset[str]().union(*(step.binds for step in steps))


class CoreRoute:
    """The steps through a body so far, and how those of its cyclic core go on."""

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
        for other in dict.fromkeys(name for names in beside for name in names):
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
            found = solved(equation, known | {first}, types)
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
        return Meet(tuple(proposing(each, variable) for each in found if each), variable)

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
