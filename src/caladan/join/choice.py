"""Which atom comes next: from the delta, or the fewest facts, by the smallest estimate.

    t(A, D) <- arc(A, B), big(B, C), few(C, D)      start from few: 10 facts, of arc 300, big 90,000

An estimate is how many facts of an atom go with a solution of the atoms before it, measured on a
sample of solutions that is pushed along as the order grows (`Trial`): the choice of the guided
search, made once for all rows (`Fixed`). `JoinOrder` keeps the estimates that chose; stats and
explain print these. An order is kept until the relations have doubled, or halved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from caladan.join.access import Access, Check, Fork, Meet, Probe, Sample, Traits, probe
from caladan.join.eager import amounts, find_group
from caladan.join.frontier import Bindings
from caladan.join.route import BodyRoute
from caladan.program import Comparison, Constant, thresholds
from caladan.rules.body import Body, Scan, Version, names

if TYPE_CHECKING:
    from caladan.join.plan import RulePlan


@dataclass(frozen=True, slots=True)
class Chosen:
    """An atom that came next, and what it was weighed by: estimates of all that could have come."""

    atom: int
    estimates: Mapping[int, float]
    is_start: bool = False


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """The atoms of a body in order, and the choices that made it so; none where there was none."""

    atoms: tuple[int, ...]
    choices: tuple[Chosen, ...] = ()


def join_order(
    body: Body, sizes: Sequence[int], traits: Traits, sample: Sample | None = None
) -> JoinOrder:
    """The order of the atoms: from the delta, or the fewest facts, by the smallest fan-out.

    Fan-outs are measured on a sample, if there is one; without it an atom with something bound
    goes before one without, and then the one that has the fewest columns left. Where aggregates
    read most of a body, it is started from an atom of their groups, unless that is more to go
    through than what would be listed otherwise.
    """
    if len(body.atoms) < 2:
        return JoinOrder(tuple(range(len(body.atoms))))
    first = first_atoms(body)
    starts = {atom: _estimate_start(body, atom, sizes, sample) for atom in first}
    groups = frozenset[str]() if amounts(body) is None else find_group(body)
    # Of the atoms of the groups those that have most of them: others look these up row by row.
    shared = {i: len(groups.intersection(body.atoms[i].variables)) for i in first}
    near = [i for i in first if shared[i] and shared[i] == max(shared.values())]
    plain = min(first, key=starts.__getitem__)
    if near and plain not in near:
        start = min(near, key=starts.__getitem__)
        found = _from_groups(body, sizes, traits, sample, start, plain, starts)
        if found is not None:
            return found
    return _order_from(body, sizes, traits, sample, plain, starts)[0]


def _from_groups(
    body: Body,
    sizes: Sequence[int],
    traits: Traits,
    sample: Sample | None,
    start: int,
    plain: int,
    starts: Mapping[int, float],
) -> JoinOrder | None:
    """An order from an atom of the groups; None if it rolls up nothing, or listing is less.

    That is measured where the atom has many more facts than the one to start with otherwise.
    """
    few = (
        max(sizes) < thresholds.now.worth_sampling
        or sizes[start] <= thresholds.now.rollup_start * sizes[plain]
    )
    measure = sample is not None and not few
    rolled, fan_outs = _order_from(body, sizes, traits, sample, start, starts, measure=measure)
    left = _rolled_up(body, rolled.atoms, traits)
    if not left or not measure:
        return rolled if left else None
    listed = _total(_order_from(body, sizes, traits, sample, plain, starts, measure=True)[1])
    mine = [
        1.0 if atom in left else each for atom, each in zip(rolled.atoms, fan_outs, strict=True)
    ]
    return rolled if _total(mine) + sum(sizes[i] for i in left) < listed else None


def _total(fan_outs: Sequence[float]) -> float:
    """How many solutions of the first atoms, of the first two, and so on, there are in all."""
    rows, total = 1.0, 0.0
    for each in fan_outs:
        rows *= each
        total += rows
    return total


def _rolled_up(body: Body, order: Sequence[int], traits: Traits) -> set[int]:
    """The atoms that an order leaves to rollups."""
    route = BodyRoute(body, traits)
    found: set[int] = set()
    for place, atom in enumerate(order):
        before = {*route.left}
        route.reduce(order[place:])
        found |= before.difference(route.left)
        route.take(atom)
    return found


def _estimate_start(body: Body, atom: int, sizes: Sequence[int], sample: Sample | None) -> float:
    """How many facts an atom starts with, without those that its own comparisons throw out."""
    scan = body.atoms[atom]
    tests = [each for each in body.conditions if names(each) <= {*scan.variables}]
    share = sample.passing(scan, tests) if sample and tests else 1.0
    return _estimate_selected(body, atom, sizes) * share


def _order_from(
    body: Body,
    sizes: Sequence[int],
    traits: Traits,
    sample: Sample | None,
    first: int,
    starts: Mapping[int, float],
    *,
    measure: bool = False,
) -> tuple[JoinOrder, list[float]]:
    """The order from an atom on, and by how much each multiplies solutions, if that is measured."""
    route = BodyRoute(body, traits)
    order: list[int] = []
    fan_outs: list[float] = []
    choices = [Chosen(first, starts, is_start=True)] if len(starts) > 1 else []
    if sample is not None:
        sample.restart(is_sure=measure)

    def take(atom: int, fan_out: float) -> None:
        order.append(atom)
        fan_outs.append(fan_out)
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

    take(first, starts[first])
    while len(order) < len(body.atoms):
        near = [i for i in range(len(body.atoms)) if i not in order]
        if len(near) > 1:
            near = next_atoms(body, order, route.near)
        if len(near) == 1:
            take(near[0], cost(near[0])[0] if measure else 1.0)
            continue
        costs = {atom: cost(atom) for atom in near}
        following = min(near, key=costs.__getitem__)
        choices.append(Chosen(following, {atom: found[0] for atom, found in costs.items()}))
        take(following, costs[following][0])
    return JoinOrder(tuple(order), tuple(choices)), fan_outs


def first_atoms(body: Body) -> list[int]:
    """The atoms that a body may be started with: the delta, if it has one."""
    deltas = [i for i, scan in enumerate(body.atoms) if scan.version is Version.DELTA]
    return deltas[:1] or list(range(len(body.atoms)))


def next_atoms(body: Body, order: Sequence[int], known: frozenset[str]) -> list[int]:
    """The atoms that may come next: those that share something with what is known, if any do."""
    left = [i for i in range(len(body.atoms)) if i not in order]
    return [i for i in left if _connects(body.atoms[i], known)] or left


def orders(body: Body, traits: Traits) -> list[tuple[int, ...]] | None:
    """All that `join_order` may choose, the one without any sizes first; None if too many."""
    guess = join_order(body, [1] * len(body.atoms), traits).atoms
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


def _estimate_selected(body: Body, atom: int, sizes: Sequence[int]) -> float:
    """How many facts an atom starts with, taking a constant to leave a hundredth."""
    constants = sum(isinstance(a, Constant) for a in body.atoms[atom].arguments)
    return sizes[atom] / 100**constants


def _connects(scan: Scan, known: frozenset[str]) -> bool:
    return not known.isdisjoint(scan.variables) or any(
        isinstance(a, Constant) for a in scan.arguments
    )


class Trial:
    """A sample of a body's solutions, pushed along as its order grows; it may have to be large."""

    def __init__(self, plan: RulePlan, *, is_sure: bool = False) -> None:
        self._plan = plan
        self._is_always_sure = is_sure or plan.is_steady
        self.restart()

    def restart(self, *, is_sure: bool = False) -> None:
        """Another order is tried; if `is_sure`, however few facts its first atom has."""
        self._is_sure = is_sure or self._is_always_sure
        self._frontier = Bindings(1, {})
        self._done = 0  # steps that the sample went through

    def fan_out(self, steps: Sequence[Access], following: Probe | Meet | Fork) -> float | None:
        """How many facts go with a solution of the steps so far; None if there are few."""
        first = next((step for step in steps if isinstance(step, Probe | Meet | Fork)), None)
        if first is None:  # atoms of the core that are bound by constants wait for others
            return None
        met = first.ways[0][0] if isinstance(first, Fork) else first
        scan = met.scan if isinstance(met, Probe) else met.probes[0].scan
        if not self._is_sure and self._plan.count(scan) < thresholds.now.worth_sampling:
            return None
        frontier = self._frontier
        if frontier.rows:
            frontier = self._through(steps[self._done :], frontier)
            self._frontier, self._done = frontier, len(steps)
        if not frontier.rows:
            return None
        step = self._plan.ready(following, is_trial=True)
        return int(step.least(frontier).sum()) / frontier.rows

    def passing(self, scan: Scan, tests: Sequence[Comparison]) -> float:
        """How much of an atom's facts pass tests of its own variables; 1 where nobody can tell."""
        plan = self._plan
        if plan.count(scan) < thresholds.now.worth_sampling:
            return 1.0
        lookup = plan.lookup(probe(scan, frozenset(), plan))
        frontier = lookup.sampled(thresholds.now.sample)
        if frontier is None or not frontier.rows:
            return 1.0
        left = self._through(list(map(Check, tests)), frontier).rows
        return max(left, 1) / (frontier.rows + 1)

    def _through(self, steps: Sequence[Access], frontier: Bindings) -> Bindings:
        """A sample pushed through some steps; arithmetic that fails leaves it as it is."""
        everything = self._plan.variables
        for step in (self._plan.ready(each, is_trial=True) for each in steps):
            assert not step.is_walk  # orders are tried atom by atom
            if step.is_single:
                try:
                    frontier = step.apply(frontier)
                except ArithmeticError:
                    return Bindings(0, {})
            else:
                found = step.run(frontier, everything)
                frontier = next((f for f in found if f.rows), Bindings(0, {}))
                frontier = frontier.sample(thresholds.now.sample)
            if not frontier.rows:
                break
        return frontier
