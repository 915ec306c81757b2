"""What `explain` prints of a Bloom program: its stages, from what was written to what ticks do.

relations   collections with their kinds and keys
rules       the rules, as text that can be written too
delta       one rule for each atom that can change, as ticks run them
ticks       elements by stratum, the default sets, and what each collection adds to them
calm        what is monotone, and what needs coordination

CALM is consistency as logical monotonicity: what only ever adds facts gives the same in the end, in
whichever order messages arrive. A *point of order* takes back what it said when more comes: a
negation, an aggregate, a delete, an upsert or the clock. Downstream of facts that arrive from
outside, it has to wait until all of them have arrived: coordination is needed there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from caladan.analysis.core import Checked, CoreRule, RelationInfo
from caladan.analysis.schedule import Absent, Bind, Lookup
from caladan.explain import terms
from caladan.explain.operators import operators
from caladan.explain.pcg import pcg
from caladan.explain.terms import comparison, expression, expressions
from caladan.language.bloom.schema import CLOCK, CollectionKind, Schema
from caladan.language.deals import printer
from caladan.pipeline import Compiled, Request, compile_checked
from caladan.program import (
    Aggregate,
    Atom,
    Column,
    Comparison,
    Literal,
    Program,
    Rule,
    Type,
    thresholds,
)
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.transform import reachable
from caladan.ticks.elements import (
    CollectionElement,
    Element,
    GroupElement,
    IndexElement,
    RuleElement,
    SeededRule,
)
from caladan.ticks.engine import TickEngine
from caladan.ticks.extent import Earlier
from caladan.ticks.invalidation import Consequences
from caladan.ticks.recursion import CliqueElement
from caladan.ticks.wiring import TickProgram, not_monotone


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
    together: Mapping[str, tuple[str, ...]]
    """Relations whose rules join facts of one tick, and the collections these facts arrive in."""


Handed = Mapping[str, Collection[str]]
"""The collections that calls have changed, each with how: insert, delete, upsert."""

_TAKES_BACK = {"delete": "facts are deleted", "upsert": "facts are replaced"}


def calm(wired: TickProgram, handed: Handed | None = None) -> Calm:
    """The report of a program; `handed` adds collections that rules fill and calls change too.

    Facts arrive in every collection that no rule fills, from `insert`, a channel, a timer or
    standard input: whoever reads it cannot know whether all facts are there.
    """
    handed = handed or {}
    points = tuple(dict.fromkeys((*_points(wired), *_edits(handed))))
    upstream = _upstream(wired)
    arriving = _list_arriving(wired, handed)
    tainted = {point.relation for point in points}
    owners = {_owner(point.relation, wired) for point in points}
    monotone = tuple(
        name
        for name, schema in wired.schemas.items()
        if not schema.kind.is_internal
        and not (upstream.get(name, {name}) | {name}) & (tainted | owners)
    )
    coordinate: dict[PointOfOrder, tuple[str, ...]] = {}
    for point in points:
        above = upstream.get(point.reads, set[str]()) | {point.reads}
        if sources := tuple(name for name in arriving if name in above):
            coordinate[point] = sources
    return Calm(monotone, points, coordinate, _together(wired, arriving))


def _list_arriving(wired: TickProgram, handed: Handed) -> list[str]:
    """Collections whose facts come from outside; inputs that a rule of another module fills don't.

    A channel or a loopback has facts that were sent, so rules that send to it do not count.
    """
    filled: set[str] = set()
    for rule in wired.rules:
        later = wired.schemas[rule.head].later
        if later is None or later[1] in ("next", "upsert"):
            filled.add(_owner(rule.head, wired))
    return [
        name
        for name, schema in wired.schemas.items()
        if not (schema.kind.is_internal or schema.kind is CollectionKind.OUTPUT)
        and (name not in filled or name in handed)
    ]


def _together(wired: TickProgram, arriving: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each relation that joins facts of one tick, the collections that these arrive in."""
    own = {name for name in arriving if not wired.schemas[name].kind.persists}
    direct: dict[str, list[str]] = {}
    for rule in wired.rules:
        if not wired.schemas[owner := _owner(rule.head, wired)].kind.persists:
            direct.setdefault(owner, []).extend(atom.relation for atom in rule.positive)
    found: dict[str, dict[str, None]] = {}
    for rule in wired.rules:
        passing = [
            own & {*reachable([atom.relation], lambda each: direct.get(each, ()))}
            for atom in rule.positive
            if not wired.schemas[atom.relation].kind.persists
        ]
        if sum(map(bool, passing)) > 1:
            names = dict.fromkeys(sorted(set[str]().union(*passing)))
            found.setdefault(_owner(rule.head, wired), {}).update(names)
    return {name: tuple(sources) for name, sources in found.items()}


def _edits(handed: Handed) -> Iterable[PointOfOrder]:
    for name, ways in handed.items():
        for way in sorted(ways):
            if way in _TAKES_BACK:
                yield PointOfOrder(name, name, f"{_TAKES_BACK[way]} by calls", "")


def _points(wired: TickProgram) -> Iterable[PointOfOrder]:
    for rule in wired.rules:
        group = wired.groups.get(rule.number, "")
        for atom in rule.atoms:
            if atom.negated:
                yield PointOfOrder(rule.head, atom.relation, "negation", group)
            elif atom.relation != CLOCK and any(a.relation == CLOCK for a in rule.atoms):
                yield PointOfOrder(rule.head, atom.relation, "it reads the clock", group)
        folds = [a.function for a in rule.arguments if isinstance(a, Aggregate)]
        for name in folds:
            yield PointOfOrder(rule.head, rule.atoms[0].relation, f"the aggregate {name}", group)
        for source, name in not_monotone(rule, wired.schemas):
            why = f"`{name}`, which is not known to be monotone"
            yield PointOfOrder(rule.head, source, why, group)
        later = wired.schemas[rule.head].later
        if later is not None and later[1] in _TAKES_BACK and rule.atoms:
            yield PointOfOrder(rule.head, rule.atoms[0].relation, _TAKES_BACK[later[1]], group)


def _owner(name: str, wired: TickProgram) -> str:
    """The collection that a relation brings facts to, itself if to no other."""
    later = wired.schemas[name].later
    return name if later is None else later[0]


def _upstream(wired: TickProgram) -> dict[str, set[str]]:
    """What each relation depends on, through this tick and later ones."""
    direct: dict[str, set[str]] = {}
    for rule in wired.rules:
        direct.setdefault(rule.head, set()).update(atom.relation for atom in rule.atoms)
    for name in list(direct):  # what a later tick brings belongs to the collection
        if (owner := _owner(name, wired)) != name:
            direct.setdefault(owner, set()).add(name)
    return {
        name: {*reachable(reads, lambda each: direct.get(each, ()))}
        for name, reads in direct.items()
    }


def report(wired: TickProgram, handed: Handed | None = None) -> str:
    """The report as text."""
    found = calm(wired, handed)
    lines = [f"monotone: {', '.join(found.monotone) or '(nothing)'}"]
    lines.append("points of order:" if found.points else "points of order: none")
    for point in found.points:
        where = f" in {point.group}" if point.group else ""
        head, read = _shown(point.relation, wired), _shown(point.reads, wired)
        lines.append(f"  {head} <- {read}: {point.why}{where}")
    lines.append(
        "coordination is needed:"
        if found.coordinate
        else "coordination: none is needed; the outcome does not depend on the order"
    )
    for point, sources in found.coordinate.items():
        lines.append(
            f"  {_shown(point.relation, wired)} has to wait for all of {', '.join(sources)}: "
            f"{point.why}"
        )
    if found.together:
        lines.append("facts that last one tick, and have to arrive in the same one:")
    for name, sources in found.together.items():
        lines.append(f"  {_shown(name, wired)} joins facts of {', '.join(sources)}")
    return "\n".join(lines)


def _shown(name: str, wired: TickProgram) -> str:
    """A relation as users know it: what an operator keeps goes by the collections it is for."""
    if not wired.schemas[name].kind.is_element or _owner(name, wired) != name:
        return name
    found: dict[str, None] = {}
    work, seen = [name], {name}
    while work:
        each = work.pop()
        for rule in wired.rules:
            if any(atom.relation == each for atom in rule.atoms) and rule.head not in seen:
                seen.add(rule.head)
                schema = wired.schemas[rule.head]
                if schema.kind.is_element and schema.later is None:
                    work.append(rule.head)
                else:
                    found[rule.head] = None
    return f"{name} (for {', '.join(found)})" if found else name


_HEADINGS: Final = {
    "relations": "Collections",
    "rules": "Bloom Rules",
    "pcg": "PCG Tree",
    "operators": "Operator Program",
    "delta": "Delta Rules",
    "ticks": "Invalidation and Rescan",
    "calm": "CALM Report",
}


def explain(
    wired: TickProgram, engine: TickEngine, stage: str, handed: Handed | None = None
) -> str:
    """A stage, or all of them, each below its heading."""
    if stage not in (*_HEADINGS, "all"):
        names = ("all", *_HEADINGS)
        raise error(
            "C050",
            f"there is no stage `{stage}`",
            help=did_you_mean(stage, names) or f"the stages are {', '.join(names)}",
        )
    shown: dict[str, Callable[[], str]] = {
        "relations": lambda: relations(_list_used(wired)),
        "rules": lambda: rules(wired.program),
        "pcg": lambda: pcg(_compile(wired)),
        "operators": lambda: operators(_compile(wired)),
        "delta": lambda: delta(engine),
        "ticks": lambda: ticks(engine),
        "calm": lambda: report(wired, handed),
    }
    return "\n\n".join(
        f"== {heading} ==\n\n{shown[name]()}"
        for name, heading in _HEADINGS.items()
        if stage in (name, "all")
    )


def _compile(wired: TickProgram) -> Compiled:
    """What the compiler makes of one tick: the rules as they were wired, of values of any type."""
    derived = {rule.head for rule in wired.rules}
    infos = {
        name: RelationInfo(
            name,
            tuple(Column(column, Type.OBJECT) for column in schema.columns),
            takes_data=not schema.kind.is_element,
            is_derived=name in derived,
            aggregates=(None,) * len(schema.columns),
            origin=name,
        )
        for name, schema in wired.schemas.items()
    }
    cliques = tuple(replace(c, rules=tuple(map(_type_rule, c.rules))) for c in wired.cliques)
    checked = Checked(infos, tuple(map(_type_rule, wired.rules)), cliques, (), facts={})
    request = Request(wired.program, {}, {}, demand=False, wanted=tuple(sorted(derived)))
    return compile_checked(checked, request)


def _type_rule(rule: CoreRule) -> CoreRule:
    return replace(rule, types={v: Type.OBJECT for a in rule.atoms for v in a.variables})


def _list_used(wired: TickProgram) -> Iterable[Schema]:
    """The schemas, without a clock that no rule reads."""
    read = {atom.relation for rule in wired.rules for atom in rule.atoms}
    return (s for n, s in wired.schemas.items() if n in read or s.kind is not CollectionKind.CLOCK)


def relations(schemas: Iterable[Schema]) -> str:
    """A line for each collection."""
    lines: list[str] = []
    for schema in schemas:
        names = [
            f"{'@' if i == schema.address else ''}{name}"
            + (f": {schema.lattices[i].word}" if i in schema.lattices else "")
            for i, name in enumerate(schema.columns)
        ]
        keys, values = names[: schema.width], names[schema.width :]
        columns = ", ".join(keys) + (f" => {', '.join(values)}" if values else "")
        lines.append(f"{schema.kind.value} {schema.name}({columns.strip()})")
    return "\n".join(lines)


def rules(program: Program) -> str:
    """A line for each rule."""
    return "\n".join(map(_rule, program.rules)) or "(no rules)"


def _rule(rule: Rule) -> str:
    when = "" if rule.time == "now" else f"@{rule.time} "
    head = f"{rule.head.relation}({expressions(rule.head.arguments)})"
    body = ", ".join(map(_literal, rule.body))
    return f"{when}{head} <- {body}." if body else f"{when}{head}."


def _literal(node: Literal) -> str:
    if isinstance(node, Comparison):
        return comparison(node)
    return terms.atom(node) if isinstance(node, Atom) else printer.literal(node)


def delta(engine: TickEngine) -> str:
    """One line for each term of a rule: what is new, and what it is joined with, in order."""
    lines = ["each compiled to functions over batches of bindings, which hold Python's values", ""]
    elements = {id(e.written): e for e in engine.elements.values() if isinstance(e, RuleElement)}
    for rule in engine.wired.rules:
        head = f"{rule.head}({expressions(rule.arguments)})"
        if not rule.atoms:
            lines.append(f"{head}: once")
        element = elements.get(id(rule))
        if element is None:  # an operator, which goes through one relation
            lines.append(f"Δ{head} <- δ{terms.atom(rule.atoms[0])}")
            continue
        for term in element.deltas:
            lines.append(f"Δ{head} <- {', '.join(_steps(term))}")
            others = [
                atom.relation
                for i, atom in enumerate(term.rule.atoms)
                if i != term.index and not atom.negated
            ]
            if others:
                lines[-1] += f"   if {' and '.join(dict.fromkeys(others))} have facts"
        if element.is_fleeting and len(rule.atoms) > 1:
            names = dict.fromkeys(each.name for each in element.reads if each.is_fleeting)
            lines.append(f"  no other term: {', '.join(names)} has no storage")
    return "\n".join(lines) if engine.wired.rules else "(no rules)"


def _steps(term: SeededRule) -> Iterable[str]:
    yield f"δ{terms.atom(term.atom)}"
    for step in term.plan.schedule:
        match step:
            case Lookup(index) | Absent(index):
                atom = term.plan.rule.atoms[index]
                if atom is not term.atom:
                    read = term.plan.read[index]
                    yield terms.atom(atom) + (" before" if isinstance(read, Earlier) else "")
            case Bind():
                yield f"{step.variable} = {expression(step.expression)}"
            case _:
                yield comparison(step.comparison)


def ticks(engine: TickEngine) -> str:
    """Elements by stratum, the sets that a tick looks up, and what invalid elements do."""
    scheme = engine.scheme
    lines: list[str] = []
    for stratum in sorted({element.stratum for element in scheme.elements.values()}):
        lines.append(f"stratum {stratum}")
        for element in scheme.elements.values():
            if element.stratum == stratum:
                state = "stateful" if element.is_stateful else "stateless"
                state = "persists" if element.persists else state
                if isinstance(element, CollectionElement) and element.is_fleeting:
                    state = "no storage"
                arrow = f" -> {', '.join(element.targets)}" if element.targets else ""
                lines.append(f"  {element.name}  [{element.kind}, {state}]{arrow}")
    lines += ["", "every tick", *_consequences(scheme.default)]
    for name, more in scheme.scanners.items():
        if more.invalidate_set or more.rescan_set:
            lines += ["", f"besides, if {_taking_back(scheme.elements[name])}"]
            lines += _consequences(more)
    lines.append("")
    if engine.safe:
        lines.append("mode: safe; every tick invalidates and rescans everything")
    elif engine.repair == "never":
        lines.append("mode: lazy; a tick invalidates and rescans what the sets say")
    else:
        lines.append("mode: lazy; an element that the sets invalidate is")
        lines += [f"  {e.name}: {_decision(e)}" for e in scheme.elements.values() if e.sources]
    cliques = [node for node in engine.nodes if isinstance(node, CliqueElement)]
    if cliques:
        most, share = thresholds.now.bulk, thresholds.now.bulk_share
        lines += ["", f"cliques, from {most:,} facts of a tick and a share of 1/{share} on"]
        lines += [f"  {', '.join(node.names)}: {_bulk(node)}" for node in cliques]
    return "\n".join(lines)


def _taking_back(element: Element) -> str:
    if not isinstance(element, CollectionElement):
        return f"{element.name} takes back what it derived"
    if isinstance(element, GroupElement | IndexElement):
        return f"rows of {element.name} change"
    return f"{element.name} loses facts"


def _decision(element: Element) -> str:
    if isinstance(element, CollectionElement):
        return f"{element.decision.value}; {_describe_taken(element.repaired, element.rebuilt)}"
    return f"{element.decision.value}; rescanned {element.rescanned} times so far"


def _bulk(node: CliqueElement) -> str:
    if node.bulk.reason:
        return f"round by round all the same, since {node.bulk.reason}"
    return f"by columns, on the fixpoint of batch runs, {node.bulk.runs} times so far"


def _describe_taken(repaired: int, rebuilt: int) -> str:
    return f"repaired {repaired} times, rebuilt {rebuilt} times so far"


def _consequences(found: Consequences) -> Iterable[str]:
    for title, members in (("invalidate", found.invalidate_set), ("rescan", found.rescan_set)):
        if not members:
            yield f"  {title}: nothing"
            continue
        yield f"  {title}:"
        yield from (f"    {name}: {why}" for name, why in members.items())
