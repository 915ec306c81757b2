"""CALM: which parts of a program are monotone, and where order matters.

Consistency as logical monotonicity: what only ever adds facts gives the same in the end, in
whichever order messages arrive. A *point of order* takes back what it said when more comes: a
negation, an aggregate, a delete or an upsert. Where it lies downstream of something that arrives
from elsewhere, those involved have to agree that all has arrived: coordination is needed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from caladan.analysis.core import CoreRule
from caladan.language.bloom.lattices import Lattice
from caladan.language.bloom.schema import CollectionKind
from caladan.program import Aggregate, Expression, Function
from caladan.ticks.wiring import Wired


@dataclass(frozen=True, slots=True)
class PointOfOrder:
    """Where a rule may take back what it derived: what reads what, and why."""

    relation: str
    reads: str
    why: str
    group: str


@dataclass(frozen=True, slots=True)
class Calm:
    """The report: monotone relations, points of order, and those that need coordination."""

    monotone: tuple[str, ...]
    points: tuple[PointOfOrder, ...]
    coordinate: Mapping[PointOfOrder, tuple[str, ...]]

    @property
    def is_calm(self) -> bool:
        """Whether the program needs no coordination at all."""
        return not self.coordinate


_ARRIVING = (CollectionKind.CHANNEL, CollectionKind.INPUT, CollectionKind.STDIO)
_TAKES_BACK = {"delete": "deletes facts", "upsert": "replaces facts"}


def calm(wired: Wired) -> Calm:
    """The report of a program."""
    points = tuple(dict.fromkeys(_points(wired)))
    upstream = _upstream(wired.rules)
    arriving = [n for n, s in wired.schemas.items() if s.kind in _ARRIVING]
    tainted = {point.relation for point in points}
    owners = {point.relation.partition("@")[0] for point in points}
    monotone = tuple(
        name
        for name, schema in wired.schemas.items()
        if not schema.kind.is_element
        and schema.kind is not CollectionKind.CLOCK
        and not (upstream.get(name, {name}) | {name}) & (tainted | owners)
    )
    coordinate: dict[PointOfOrder, tuple[str, ...]] = {}
    for point in points:
        above = upstream.get(point.reads, set[str]()) | {point.reads}
        if sources := tuple(name for name in arriving if name in above):
            coordinate[point] = sources
    return Calm(monotone, points, coordinate)


def _points(wired: Wired) -> Iterable[PointOfOrder]:
    for rule in wired.rules:
        group = wired.groups.get(rule.number, "")
        for atom in rule.atoms:
            if atom.negated:
                yield PointOfOrder(rule.head, atom.relation, "negation", group)
        folds = [a.function for a in rule.arguments if isinstance(a, Aggregate)]
        for name in folds:
            yield PointOfOrder(rule.head, rule.atoms[0].relation, f"the aggregate {name}", group)
        for atom in rule.atoms:
            schema = wired.schemas[atom.relation]
            lattices = dict(schema.lattices)
            for name in _not_monotone(rule, lattices):
                yield PointOfOrder(rule.head, atom.relation, f"{name} is not monotone", group)
        _, _, time = rule.head.rpartition("@")
        if time in _TAKES_BACK and rule.head in wired.schemas and rule.atoms:
            yield PointOfOrder(rule.head, rule.atoms[0].relation, _TAKES_BACK[time], group)


def _not_monotone(rule: CoreRule, lattices: Mapping[int, type[Lattice]]) -> Iterable[str]:
    """Functions on the value of a lattice that are not known to grow with it."""
    if not lattices:
        return
    parts = [*rule.arguments, *(c.left for c in rule.comparisons)]
    parts += [c.right for c in rule.comparisons]
    known = frozenset[str]().union(*(each.monotone for each in lattices.values()))
    for part in parts:
        for call in _calls(part):
            if call.function not in known and call.function in _ORDER:
                yield call.function


_ORDER = frozenset({"reveal", "==", "!=", "<", "<=", ">", ">=", "not"})


def _calls(node: Expression) -> Iterable[Function]:
    if isinstance(node, Function):
        yield node
        for argument in node.arguments:
            yield from _calls(argument)


def _upstream(rules: Iterable[CoreRule]) -> dict[str, set[str]]:
    """What each relation depends on, through this tick and later ones."""
    direct: dict[str, set[str]] = {}
    for rule in rules:
        direct.setdefault(rule.head, set()).update(atom.relation for atom in rule.atoms)
    for name in list(direct):
        if "@" in name:  # what a later tick brings belongs to the collection
            direct.setdefault(name.partition("@")[0], set()).add(name)
    found: dict[str, set[str]] = {}
    for name in direct:
        seen: set[str] = set()
        work = [name]
        while work:
            for each in direct.get(work.pop(), ()):
                if each not in seen:
                    seen.add(each)
                    work.append(each)
        found[name] = seen
    return found


def report(wired: Wired) -> str:
    """The report as text."""
    found = calm(wired)
    lines = [f"monotone: {', '.join(found.monotone) or '(nothing)'}"]
    lines.append("points of order:" if found.points else "points of order: none")
    for point in found.points:
        where = f" in {point.group}" if point.group else ""
        lines.append(f"  {point.relation} <- {point.reads}: {point.why}{where}")
    if not found.coordinate:
        lines.append("coordination: none is needed; whatever the order, the outcome is the same")
        return "\n".join(lines)
    lines.append("coordination is needed:")
    for point, sources in found.coordinate.items():
        lines.append(
            f"  before {point.relation} is believed, for {point.why} of {point.reads} has to see "
            f"all of {', '.join(sources)}"
        )
    return "\n".join(lines)
