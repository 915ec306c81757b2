"""The physical plan of the embedded engine: the strategies, layouts and steps of every clique.

What is printed is the engine's own forecast (fixpoint/forecast.py), made by the functions
that a run decides by. Where facts decide, all alternatives are listed, each with its condition;
with data, those that the data alone decides are taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from caladan.analysis.core import CoreRule
from caladan.explain import terms
from caladan.explain.delta import facts_lines, rule_line
from caladan.explain.terms import comparison, expression, expressions
from caladan.fixpoint.blueprint import ROUNDS, Blueprint, Foreseen, atom, blueprint, said
from caladan.fixpoint.forecast import CliqueForecast, Forecast, Option, RuleForecast, forecast
from caladan.join.access import (
    Access,
    Check,
    Compute,
    Exclude,
    Fork,
    GuidedSearch,
    Meet,
    keys,
    views,
)
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Variable
from caladan.program.options import Options
from caladan.rules.body import Scan
from caladan.rules.program import DeltaClique

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from caladan.explain.stages import Proposals, Searched

_SAMPLES = (
    "Where a rule has several plans, a sample of its solutions decides: the atom with the fewest\n"
    "facts to a solution comes next. The first one is taken if nothing speaks for another."
)


_RUNS = (
    "Where a relation has several runs, a lookup accumulates if that costs less: the distinct\n"
    "keys of a batch are found in each run, what the runs have for them is merged, and crossed\n"
    "with the batch once. Rows × runs are weighed against distinct keys × runs and merged rows."
)


_PRODUCTS = (
    "Where the last lookup of a rule finds many facts for a solution, and its head has a bit for\n"
    "every possible fact: rows of bits are put together, 64 facts at once, not one by one."
)


def describe_embedded(
    compiled: Compiled,
    given: Mapping[str, pa.Table] | None,
    options: Options,
    exchanging: Collection[DeltaClique] = (),
    searched: Searched | None = None,
) -> str:
    """The plan of a program; with its data, decided as far as the data decides.

    Tasks that evaluate one of the `exchanging` cliques exchange what is new. After a run, rules
    have what was proposed in it beside their estimates.
    """
    found = forecast(blueprint(compiled.delta), given, options, exchanging)
    blocks = ["\n".join(_clique(c, found.plan, given or {}, searched or {})) for c in found.cliques]
    notes: list[str] = []
    if compiled.request.materialized:
        notes.append(f"Read from earlier runs: {', '.join(compiled.request.materialized)}")
    if any(_may_vary(rule) for each in found.cliques for rule in each.everything):
        notes.append(_SAMPLES)
    if any(c.clique.is_recursive and _goes_round(c) for c in found.cliques):
        notes += [_RUNS, _PRODUCTS]
    return "\n\n".join(
        [*blocks, *notes, f"Arrangements: {_arrangements(found, is_decided=given is not None)}"]
    )


def _clique(
    each: CliqueForecast, plan: Blueprint, given: Mapping[str, pa.Table], searched: Searched
) -> Iterator[str]:
    clique = each.clique
    kind = "Clique" if clique.is_recursive else "Relation"
    yield f"{kind} {commas(clique.relations)}"
    yield from _options("strategy", each.strategies)
    yield from _options("held as", each.layouts)
    if each.small:
        yield from _options("small rounds", each.small)
    yield from facts_lines(clique, plan.program)
    for rule in each.rules:
        yield f"  {rule_line(rule.rule, clique)}"
        yield from _plans(rule)
        yield from (f"    {each}" for each in rule.weighed)
        key = (clique.relations, rule.rule.rule.number, rule.seed)
        yield from _met(rule, given, searched.get(key, ()))
    for rule in each.links:
        core = rule.rule.rule
        head = f"shape({expressions(core.arguments)})"
        when = f", {rule.when}" if rule.when else ""
        yield f"  {head} <- {_body(core)}.  [of rule {core.number}{when}]"
        yield from _plans(rule)
    for parts in each.parts:
        yield f"  rule {parts.number} in two parts, {parts.when}:"
        for rule in parts.rules:
            core = rule.rule.rule
            head = f"δ{core.head}({expressions(core.arguments)})"
            yield f"  {head} <- {_body(core)}.  [rule {core.number}, seed {rule.seed}]"
            yield from _plans(rule)


def _body(rule: CoreRule) -> str:
    return commas([*map(terms.atom, rule.atoms), *map(comparison, rule.comparisons)])


def _options(title: str, options: Sequence[Option]) -> Iterator[str]:
    if len(options) == 1:
        yield f"  {title}: {options[0].name} ({options[0].when})"
        return
    yield f"  {title}, decided by the facts:"
    yield from (f"    {each.name}: {each.when}" for each in options)


def _plans(rule: RuleForecast) -> Iterator[str]:
    if rule.is_spare:
        yield "    the shape is taken in its place; should that run out of room:"
    if rule.plans is None:
        yield "    any order of its atoms in which each meets what is bound, by samples"
        return
    first, *others = rule.plans
    for number, step in enumerate(first, start=1):
        yield f"    {number}) {_step(step)}"
    yield from (f"    or {'; '.join(map(said, plan))}" for plan in others)


def _met(
    rule: RuleForecast, given: Mapping[str, pa.Table], searched: Sequence[Proposals]
) -> Iterator[str]:
    """Where atoms meet: what each would propose for a variable before anything is bound.

    After a run, a table: that beside what was proposed, confirmed and wasted.
    """
    steps = rule.plans[0] if rule.plans else ()
    if not searched and not any(isinstance(each, Meet | Fork | GuidedSearch) for each in steps):
        return
    estimates = _estimates(rule, given) if _is_guided(rule) else {}
    if searched:
        yield from _table(estimates, searched)
        return
    for name, found in estimates.items():
        if len(found) > 1:
            said = commas(f"{atom} {count:,}" for atom, count in found.items())
            yield f"    {name}: {min(found.values()):,} at most, of {said}"


def _estimates(rule: RuleForecast, given: Mapping[str, pa.Table]) -> dict[str, dict[str, int]]:
    """By variable what each atom has for it, if nothing else is bound; none if that is derived."""
    scans = rule.rule.body.atoms
    if any(scan.relation not in given for scan in scans):
        return {}
    found: dict[str, dict[str, int]] = {name: {} for scan in scans for name in scan.variables}
    for scan in scans:
        for column, argument in enumerate(scan.arguments):
            if isinstance(argument, Variable) and argument.name in found:
                values = given[scan.relation].column(column).unique()
                found[argument.name][atom(scan)] = len(values)
    return found


def _table(
    estimates: Mapping[str, Mapping[str, int]], searched: Sequence[Proposals]
) -> Iterator[str]:
    """Estimates against proposals, by variable and constraint."""
    rows: list[tuple[str, ...]] = [("", "estimated", "proposed", "confirmed", "wasted")]
    for each in searched:
        known, wasted = estimates.get(each.variable, {}), each.proposed - each.confirmed
        least = f"{min(known.values()):,}" if known else "-"
        counts = (f"{count:,}" for count in (each.proposed, each.confirmed, wasted))
        rows.append((each.variable, least, *counts))
        for name, proposed in _attribute(each.by, known).items():
            estimated = f"{known[name]:,}" if name in known else "-"
            rows.append((f"  {name}", estimated, f"{proposed:,}", "", ""))
    width = max(len(name) for name, *_ in rows)
    for name, *numbers in rows:
        yield f"    {name:<{width}}{''.join(f'{each:>12}' for each in numbers)}".rstrip()


def _attribute(by: Mapping[str, int], known: Iterable[str]) -> dict[str, int]:
    """Proposals by the atoms of a rule: who makes them shows `_` for columns that it leaves out."""
    found = dict.fromkeys(known, 0)
    for name, proposed in by.items():
        parts = re.split(r"[(), ]+", name)
        of = (
            each
            for each in found
            if len(own := re.split(r"[(), ]+", each)) == len(parts)
            and all(part in ("_", whole) for part, whole in zip(parts, own, strict=True))
        )
        atom = next(of, name)
        found[atom] = found.get(atom, 0) + proposed
    return found


def _step(step: Access) -> str:
    """A step as stats name it, and behind it what it is about."""
    match step:
        case Compute():
            return f"{said(step)}: {step.variable} = {expression(step.expression)}"
        case Check():
            return f"{said(step)}: {comparison(step.comparison)}"
        case _:
            return said(step)


def _arrangements(found: Forecast, *, is_decided: bool) -> str:
    """What is made for lookups: for the first plan of every rule, then what others would need.

    What is decided while a run goes on is told by its relations.
    """
    first = _made_for(found, lambda rule: () if rule.is_spare else (rule.plans or ())[:1])
    others = _made_for(found, lambda rule: rule.plans or ())
    others = {name: None for name in others if name not in first}
    said = [commas(first)] if first else []
    said += [f"for other plans {commas(others)}"] if others else []
    for what, names in list_waiting(found, is_decided=is_decided).items():
        said += [f"of {commas(names)} {what}"] if names else []
    return "; ".join(said) or "none"


def list_waiting(found: Forecast, *, is_decided: bool) -> dict[str, tuple[str, ...]]:
    """What is made of relations as a run decides, by what it is; not all of them may need it."""
    rules = [rule for each in found.cliques for rule in each.everything]
    steps = [step for rule in rules for plan in rule.plans or () for step in plan]
    sampled = [
        rule for rule in rules if is_decided and not _may_vary(rule) and not _is_guided(rule)
    ]
    scans = {
        "those of the orders that samples choose": _list_scans(r for r in rules if r.plans is None),
        "those of the variables that rows choose in a search": [
            scan for step in steps if isinstance(step, GuidedSearch) for scan in step.scans
        ],
        "views that samples of other orders look at": [
            scan for scan in _list_scans(sampled) if len(scan.arguments) > 1
        ],
    }
    names = {what: [scan.relation for scan in some] for what, some in scans.items()}
    names["those of the orders that small rounds look up, where rounds have views"] = [
        name
        for each in found.cliques
        if each.small
        for rule in each.everything
        for plan in rule.plans or ()
        for name, _ in views(plan)
    ]
    known = found.plan.program.relations
    return {
        what: tuple(dict.fromkeys(name for name in some if name in known))
        for what, some in names.items()
    }


def _list_scans(rules: Iterable[RuleForecast]) -> list[Scan]:
    """What rules of three atoms and more read: of these, which comes next is tried on samples."""
    bodies = [rule.rule.body.atoms for rule in rules]
    return [scan for scans in bodies if len(scans) > 2 for scan in scans]


def _made_for(
    found: Forecast, plans: Callable[[RuleForecast], Iterable[tuple[Access, ...]]]
) -> dict[str, None]:
    """The orders that lookups by some plans of rules need, and views under some columns.

    What a shape leaves is looked up as it is.
    """
    program = found.plan.program
    folded = {name for e in found.cliques if e.is_shaped for name in e.clique.relations}
    names: dict[str, None] = {}
    for each in found.cliques:
        traits = Foreseen(program, each.clique)
        steps = [step for rule in each.everything for plan in plans(rule) for step in plan]
        searches = [step for step in steps if isinstance(step, GuidedSearch)]
        steps += [cut for search in searches for cut in search.cuts if isinstance(cut, Exclude)]
        for relation, key in keys(steps):
            if relation not in program.relations or relation in folded - {*each.clique.relations}:
                continue  # what is between the parts of a rule is its own business
            columns = program.relations[relation].columns
            order = found.plan.order(relation, key)
            if not all(traits.can_bind(relation, i) for i in range(len(columns))):
                order = tuple(sorted(key))  # groups are indexed by what is looked up
            names[f"{relation} by ({commas(columns[i].name for i in order)})"] = None
        for relation, view in views(steps):
            if relation in program.relations:
                columns = [c.name for c in program.relations[relation].columns]
                names[f"{relation}({commas(view.named(columns))})"] = None
    return names


def _is_guided(rule: RuleForecast) -> bool:
    return any(isinstance(step, GuidedSearch) for plan in rule.plans or () for step in plan)


def _may_vary(rule: RuleForecast) -> bool:
    return rule.plans is None or len(rule.plans) > 1


def _goes_round(each: CliqueForecast) -> bool:
    return any(option.name == ROUNDS for option in each.strategies)
