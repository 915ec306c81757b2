"""Stage `delta`: for every clique its exit rules and delta rules, as Datalog.

    δtc(A, B) <- δtc(A, C), arc(C, B).  [rule 2, seed tc]  guard: arc has facts

A body is written in the order it is evaluated in. Within a clique `x` are the facts of earlier
rounds, `δx` those of the last one and `x'` both; what aggregates combine is said where it matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from caladan.analysis.core import RelationInfo
from caladan.explain.terms import comparison, expression, expressions, value
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Aggregate, Comparison, Value
from caladan.program.aggregates import row_of
from caladan.program.notation import count_things
from caladan.rules.body import Absence, Body, BodyBinding, Scan, Version
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule

_FACTS_SHOWN: Final = 3

_LEGEND: Final = "x: facts of earlier rounds; δx: those of the last round; x': both"


def delta(compiled: Compiled) -> str:
    """Every clique in evaluation order."""
    program = compiled.delta
    blocks = ["\n".join(clique_lines(c, program)) for c in program.cliques]
    if any(c.delta_rules for c in program.cliques):
        blocks.insert(0, _LEGEND)
    return "\n\n".join(blocks) or "(no rules)"


def clique_lines(clique: DeltaClique, program: DeltaProgram) -> Iterator[str]:
    """A clique's rules, one to a line."""
    kind = "Clique" if clique.is_recursive else "Relation"
    parts = [f"{kind} {commas(clique.relations)}: stratum {clique.stratum}"]
    if clique.pivot:
        pivots = (f"{n} by {program.relations[n].columns[i].name}" for n, i in clique.pivot.items())
        parts.append(f"pivot {commas(pivots)}")
    yield "; ".join(parts)
    yield from facts_lines(clique, program)
    yield from (f"  {rule_line(r, clique)}" for r in clique.exit_rules)
    yield from (f"  {rule_line(r, clique)}" for r in clique.delta_rules)


def facts_lines(clique: DeltaClique, program: DeltaProgram) -> Iterator[str]:
    """What aggregates combine, and the facts that no rule derives."""
    for name in clique.relations:
        info = program.relations[name]
        if combined := _describe_aggregates(info):
            yield f"  {name}: {combined}"
        if info.takes_data:
            yield f"  {name} has data of its own"
        yield from (f"  {line}" for line in _facts(name, program.facts.get(name, ())))


def rule_line(rule: DeltaRule, clique: DeltaClique) -> str:
    """A rule with its number and seed, and its guard."""
    core = rule.rule
    mark = "δ" if clique.is_recursive else ""
    body = commas(_literals(rule.body))
    head = f"{mark}{core.head}({expressions(core.arguments)})"
    text = f"{head} <- {body}." if body else f"{head}."
    seed = "" if rule.seeded_by is None else f", seed {rule.seeded_by}"
    notes = list(_notes(rule))
    return f"{text}  [rule {core.number}{seed}]" + ("  " + "; ".join(notes) if notes else "")


def _notes(rule: DeltaRule) -> Iterator[str]:
    if rule.guard:
        verb = "has" if len(rule.guard) == 1 else "have"
        yield f"guard: {commas(rule.guard)} {verb} facts"
    for each in rule.contributors:
        keys = expressions(rule.body.keys[each.start : each.end])
        argument = rule.rule.arguments[each.column]
        row = row_of(argument) if isinstance(argument, Aggregate) else None
        if row is not None and row.is_gathered:
            yield f"{expression(argument)} looks at all ({keys})"
            continue
        note = f"{expression(argument)} counts once for each ({keys})"
        within = expressions(rule.body.keys[each.end : each.stop])
        yield f"{note}, the largest of each ({within})" if within else note


def _facts(name: str, rows: Sequence[tuple[Value, ...]]) -> Iterator[str]:
    for row in rows[:_FACTS_SHOWN]:
        yield f"{name}({commas(value(v) for v in row)})."
    if len(rows) > _FACTS_SHOWN:
        yield f"and {count_things(len(rows) - _FACTS_SHOWN, 'more fact')} of {name}"


def _describe_aggregates(info: RelationInfo) -> str:
    combined = commas(
        f"{column.name} by {function}"
        for column, function in zip(info.columns, info.aggregates, strict=True)
        if function is not None
    )
    group = commas(info.columns[i].name for i in info.group)
    if not combined:
        return ""
    return f"combines {combined}" + (f" for each ({group})" if group else "")


def _literals(body: Body) -> Iterator[str]:
    """The parts of a body in their order, then how it is cut."""
    for part in body.parts:
        match part:
            case Scan():
                yield _atom(part)
            case Absence():
                yield f"~{_atom(part.scan)}"
            case BodyBinding():
                yield f"{part.variable} = {expression(part.expression)}"
            case Comparison():
                yield comparison(part)
    if body.cut is not None and body.cut.order:
        keys = commas(
            f"({expression(body.columns[i])}, {'desc' if descending else 'asc'})"
            for i, descending in body.cut.order
        )
        yield f"sort({keys})"
    if body.cut is not None and body.cut.limit is not None:
        yield f"limit({body.cut.limit})"


def _atom(node: Scan) -> str:
    mark, prime = {
        Version.FULL: ("", ""),
        Version.OLD: ("", ""),
        Version.DELTA: ("δ", ""),
        Version.NEW: ("", "'"),
    }[node.version]
    return f"{mark}{node.relation}{prime}({expressions(node.arguments)})"
