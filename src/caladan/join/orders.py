"""Orders of a body's atoms: from the delta, or the fewest facts, by the smallest fan-out."""

from __future__ import annotations

from collections.abc import Sequence

from caladan.join.access import Meet, Probe, Sample, Traits, probe
from caladan.join.eager import amounts, grouped
from caladan.join.route import BodyRoute
from caladan.program import Constant, thresholds
from caladan.rules.body import Body, Scan, Version, names


def join_order(
    body: Body, sizes: Sequence[int], traits: Traits, sample: Sample | None = None
) -> tuple[int, ...]:
    """The order of the atoms: from the delta, or the fewest facts, by the smallest fan-out.

    Fan-outs are measured on a sample, if there is one; without it an atom with something bound
    goes before one without, and then the one that has the fewest columns left. Where aggregates
    read most of a body, it is started from an atom of their groups, unless that is more to go
    through than what would be listed otherwise.
    """
    if len(body.atoms) < 2:
        return tuple(range(len(body.atoms)))
    first = first_atoms(body)
    groups = frozenset[str]() if amounts(body) is None else grouped(body)
    # Of the atoms of the groups those that have most of them: others look these up row by row.
    shared = {i: len(groups.intersection(body.atoms[i].variables)) for i in first}
    near = [i for i in first if shared[i] and shared[i] == max(shared.values())]
    plain = min(first, key=lambda atom: _started(body, atom, sizes, sample))
    if near and plain not in near:
        found = _from_groups(body, sizes, traits, sample, near, plain)
        if found is not None:
            return found
    return _ordered(body, sizes, traits, sample, plain)[0]


def _from_groups(
    body: Body,
    sizes: Sequence[int],
    traits: Traits,
    sample: Sample | None,
    near: Sequence[int],
    plain: int,
) -> tuple[int, ...] | None:
    """An order from an atom of the groups; None if it rolls up nothing, or listing is less.

    That is measured where the atom has many more facts than the one to start with otherwise.
    """
    start = min(near, key=lambda atom: _started(body, atom, sizes, sample))
    few = (
        max(sizes) < thresholds.now.worth_sampling
        or sizes[start] <= thresholds.now.rollup_start * sizes[plain]
    )
    measure = sample is not None and not few
    rolled, fan_outs = _ordered(body, sizes, traits, sample, start, measure=measure)
    left = _rolled_up(body, rolled, traits)
    if not left or not measure:
        return rolled if left else None
    listed = _total(_ordered(body, sizes, traits, sample, plain, measure=True)[1])
    mine = [1.0 if atom in left else each for atom, each in zip(rolled, fan_outs, strict=True)]
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


def _started(body: Body, atom: int, sizes: Sequence[int], sample: Sample | None) -> float:
    """How many facts an atom starts with, without those that its own comparisons throw out."""
    scan = body.atoms[atom]
    tests = [each for each in body.conditions if names(each) <= {*scan.variables}]
    share = sample.passing(scan, tests) if sample and tests else 1.0
    return _selected(body, atom, sizes) * share


def _ordered(
    body: Body,
    sizes: Sequence[int],
    traits: Traits,
    sample: Sample | None,
    first: int,
    *,
    measure: bool = False,
) -> tuple[tuple[int, ...], list[float]]:
    """The order from an atom on, and by how much each multiplies solutions, if that is measured."""
    route = BodyRoute(body, traits)
    order: list[int] = []
    fan_outs: list[float] = []
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

    take(first, _started(body, first, sizes, sample) if measure else 1.0)
    while len(order) < len(body.atoms):
        near = [i for i in range(len(body.atoms)) if i not in order]
        if len(near) > 1:
            near = next_atoms(body, order, route.near)
        following = near[0] if len(near) == 1 else min(near, key=cost)
        take(following, cost(following)[0] if measure else 1.0)
    return tuple(order), fan_outs


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
    guess = join_order(body, [1] * len(body.atoms), traits)
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
