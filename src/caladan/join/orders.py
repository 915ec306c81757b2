"""Orders of a body's atoms: from the delta, or the fewest facts, by the smallest fan-out."""

from __future__ import annotations

from collections.abc import Sequence

from caladan.join.access import Meet, Probe, Sample, Traits, probe
from caladan.join.route import BodyRoute
from caladan.program import Constant, thresholds
from caladan.rules.body import Body, Scan, Version, names


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
