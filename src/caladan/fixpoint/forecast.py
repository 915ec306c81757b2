"""What a run will do, as far as it can be told without running: plain data for explain and tests.

`forecast(plan)` lists, for every clique, the strategies, layouts and steps that may be taken;
`forecast(plan, given)` is asked with the data and takes the decisions that depend on nothing else,
by the functions that the run takes them by. What depends on facts that only the run derives stays
open, with its alternatives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from caladan.analysis.core import CoreAtom
from caladan.columns import pool
from caladan.columns.relation import widths_of
from caladan.fixpoint.blueprint import (
    ROUNDS,
    Blueprint,
    Foreseen,
    closure_of,
    describe_weights,
    facts_read,
    why_rounds,
)
from caladan.fixpoint.rehearsal import Rehearsal
from caladan.fixpoint.shapes.forecast import Top, folds, links, top
from caladan.join.access import Access
from caladan.join.choice import orders
from caladan.join.classes import Classes
from caladan.join.eager import amounts
from caladan.join.route import body_route, guided_route
from caladan.plan.recursion import Closure, Split
from caladan.program import Constant, Variable, thresholds
from caladan.program.options import Options
from caladan.rules.body import Body
from caladan.rules.delta import plain, seed_rules
from caladan.rules.factoring import splits
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule


@dataclass(frozen=True, slots=True)
class Option:
    """Something that may be taken, and when; or, if it is the only one, why it is."""

    name: str
    when: str


@dataclass(frozen=True, slots=True)
class RuleForecast:
    """A rule with the lists of steps it may go through; None where they are too many to list.

    `is_spare` says that a shape is taken in its place, unless that runs out of room; `when` says
    when a rule is solved that is a part of another.
    """

    rule: DeltaRule
    plans: tuple[tuple[Access, ...], ...] | None
    is_spare: bool = False
    when: str = ""
    weighed: tuple[str, ...] = ()
    """What its order was chosen by, where that is known before the run."""

    @property
    def seed(self) -> str | None:
        """The relation whose new facts seed the rule."""
        return None if self.rule.seed is None else self.rule.rule.atoms[self.rule.seed].relation


@dataclass(frozen=True, slots=True)
class PartsForecast:
    """Rules that may take the place of those with a number: a rule in two parts."""

    number: int
    when: str
    rules: tuple[RuleForecast, ...]


@dataclass(frozen=True, slots=True)
class CliqueForecast:
    """A clique: how it may be evaluated, how its relations may be held, what its rules do.

    `links` are the rules that a shape or an overlay has solved first, if it may be taken; `parts`
    take the place of rules in rounds. `is_shaped` says whether a shape is taken, as far as the data
    can tell; `small` how small rounds are done, if there may be some.
    """

    clique: DeltaClique
    strategies: tuple[Option, ...]
    layouts: tuple[Option, ...]
    rules: tuple[RuleForecast, ...]
    links: tuple[RuleForecast, ...]
    parts: tuple[PartsForecast, ...]
    is_shaped: bool
    small: tuple[Option, ...] = ()

    @property
    def everything(self) -> tuple[RuleForecast, ...]:
        """All rules that may be gone through."""
        return (*self.rules, *self.links, *(r for each in self.parts for r in each.rules))

    def plans(self, number: int, seed: str | None) -> list[tuple[Access, ...]] | None:
        """All lists of steps that the rules with a number and a seed may go through."""
        found: list[tuple[Access, ...]] = []
        for each in self.everything:
            if (each.rule.rule.number, each.seed) == (number, seed):
                if each.plans is None:
                    return None
                found += each.plans
        return found


@dataclass(frozen=True, slots=True)
class Forecast:
    """All cliques, in the order they are evaluated in."""

    plan: Blueprint
    cliques: tuple[CliqueForecast, ...]


def forecast(
    plan: Blueprint,
    given: Mapping[str, pa.Table] | None = None,
    options: Options | None = None,
    exchanging: Collection[DeltaClique] = (),
) -> Forecast:
    """What a run will do; `given` has the facts of every relation from data and program.

    Tasks that evaluate one of the `exchanging` cliques go round together, and one of them alone
    where that is sooner: nothing is left to them but that and the order of atoms.
    """
    options = options or Options()
    classes = Classes(plan.program)
    known = None if given is None else Rehearsal(plan, classes, given, options)
    layouts: dict[str, Split] = {}
    cliques = [_clique(e, plan, known, options.search, layouts) for e in plan.program.cliques]
    return Forecast(
        plan,
        tuple(
            _forecast_meshed(e, plan) if any(e.clique is o for o in exchanging) else e
            for e in cliques
        ),
    )


def _clique(
    clique: DeltaClique,
    plan: Blueprint,
    known: Rehearsal | None,
    search: str | None,
    layouts: dict[str, Split],
) -> CliqueForecast:
    """What becomes of a clique; `layouts` has the relations before it that may be such."""
    relations = plan.program.relations
    traits = Foreseen(plan.program, clique, search)
    is_begun = known is not None and known.begin(clique)
    choice = _choice(clique, plan.program, known, is_begun=is_begun)
    above = top(clique, choice.closure, relations, layouts)
    if above is not None:
        choice = _choose_above(choice, above, is_recursive=clique.is_recursive)
    is_shaped = all(each.name != ROUNDS for each in choice.strategies)
    rules = (
        *(_forecast(rule, traits, known) for rule in clique.exit_rules),
        *(RuleForecast(r, _plans(r, traits, known), is_shaped) for r in clique.delta_rules),
    )
    solving = [] if above is None else list(above.solving)
    if choice.closure is not None:
        solving += links(choice.closure, relations, layouts, choice.when)
    own = clique.relations if is_begun else ()
    solved = [(each.when, plain(each.rule, relations)) for each in solving]
    made = tuple(RuleForecast(r, _plans(r, traits, known, own), when=when) for when, r in solved)
    small: tuple[Option, ...] = ()
    if clique.is_recursive and not is_shaped:
        small = _small(clique, known if is_begun else None)
    if known is not None:
        known.state.heads.clear()
    may = {} if choice.closure is None or choice.is_tried else folds(choice.closure)
    if above is not None and above.sides is not None:
        may = dict.fromkeys(clique.relations, above.sides) | may
    layouts |= {name: may[name] for name in may if known is None or known.may_fold(name)}
    parts = tuple(_parts(clique, plan, traits))
    return CliqueForecast(
        clique, choice.strategies, choice.layouts, rules, made, parts, is_shaped, small
    )


def _forecast_meshed(alone: CliqueForecast, plan: Blueprint) -> CliqueForecast:
    """A clique whose tasks exchange facts, by what one task would do with it alone."""
    clique, chosen = alone.clique, thresholds.now
    traits = Foreseen(plan.program, clique)
    rules = (
        RuleForecast(rule.rule, _possible(rule.rule.body.separated, traits), rule.is_spare)
        for rule in alone.rules
    )
    first = alone.strategies[0]
    shape = first.when if first.name == ROUNDS else f"one task by solver {first.name}: {first.when}"
    when = (
        f"{shape}; in rounds tasks exchange what is new, and after {chosen.mesh_small_rounds} in a "
        f"row with fewer than {chosen.small:,} rows to send one task goes on by itself, until one "
        f"has more than {chosen.mesh_spread:,} new facts"
    )
    layouts = alone.layouts
    if any(plan.program.relations[name].has_aggregates for name in clique.relations):
        layouts = (Option("groups", "those with aggregates"), *layouts)
    strategies = (Option("meshed", when),)
    return replace(alone, strategies=strategies, layouts=layouts, rules=tuple(rules), parts=())


# ── Strategies and layouts ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Choice:
    """The strategies, and the layouts of what they leave.

    `shape` may be taken, unless it `is_tried`: then it declines after it had its rules solved.
    """

    strategies: tuple[Option, ...]
    layouts: tuple[Option, ...]
    closure: Closure | None = None
    is_tried: bool = False

    @property
    def when(self) -> str:
        """When the rules of the shape are solved."""
        if self.is_tried:
            return "before the shape declines"
        return "if the shape is taken" if len(self.strategies) > 1 else ""


def _choice(
    clique: DeltaClique, program: DeltaProgram, known: Rehearsal | None, *, is_begun: bool
) -> _Choice:
    stored = _list_layouts(clique, known)
    if not clique.is_recursive:
        return _Choice((Option(ROUNDS, "once, for it is not recursive"),), stored)
    facts, is_all = (0, False) if known is None else _facts(clique, known)
    reason = why_rounds(facts if is_all else None)
    closure = closure_of(clique, program) if reason is None else reason
    if isinstance(closure, str):
        return _Choice((Option(ROUNDS, closure),), stored)
    solver = closure.solver
    own = [each for each in closure.layouts if each not in {option.name for option in stored}]
    either = (*(Option(each, f"by solver {solver}") for each in own), *stored)
    otherwise = Option(ROUNDS, "if the solver declines: its facts may not fit it, or the memory")
    if known is None or why_rounds(facts) is not None:
        taken = Option(solver, f"if its rules read at least {thresholds.now.shape:,} facts")
        rounds = Option(ROUNDS, f"if they read fewer, or {otherwise.when[3:]}")
        return _Choice((taken, rounds), either, closure)
    taken = Option(solver, f"its rules read {'' if is_all else 'at least '}{facts:,} facts")
    if not is_begun:
        return _Choice((taken, otherwise), either, closure)
    match _ask_shape(closure, known):
        case str() as declined:
            rounds = Option(ROUNDS, f"solver {solver} declines: {declined}")
            return _Choice((rounds,), stored, closure, is_tried=True)
        case [first, *others]:
            if closure.function is not None:
                return _Choice((taken,), stored, closure)
            rest = (Option(each, "if that runs out of room") for each in others)
            layouts = (Option(first, "estimated to cost least time and memory"), *rest)
            return _Choice((taken,), layouts, closure)
        case _:
            rounds = Option(ROUNDS, "no layout of it fits the memory")
            return _Choice((rounds,), stored, closure, is_tried=True)


def _facts(clique: DeltaClique, known: Rehearsal) -> tuple[int, bool]:
    """How many facts a clique reads, as far as they are known, and whether that is all."""
    elsewhere = [name for name in facts_read(clique) if name not in clique.relations]
    return known.shaping.facts_read(clique), known.has(elsewhere)


def _ask_shape(closure: Closure, known: Rehearsal) -> list[str] | str:
    """The layouts of a closure whose clique has begun, the best first, or why it declines."""
    from caladan.fixpoint.shapes import evaluate

    stop = np.zeros(1, np.int64)
    memory, rounds = known.limits.memory.most, known.limits.max_rounds
    limits = evaluate.ShapeLimits(memory, pool.threads(), stop, rounds)
    try:
        return evaluate.layouts_of(closure, known.shaping, limits)
    except evaluate.Declined as reason:
        return str(reason)


def _choose_above(choice: _Choice, above: Top, *, is_recursive: bool) -> _Choice:
    """What may take the rules of a clique that reads what may be layouts."""
    if not above.strategies:
        if is_recursive:
            return choice
        (once,) = choice.strategies
        reasons = "; ".join(above.reasons)
        return replace(choice, strategies=(Option(ROUNDS, f"{once.when}; no overlay: {reasons}"),))
    taken = {name: Option(name, when) for name, when in above.strategies.items()}
    taken |= {each.name: each for each in choice.strategies}
    if not is_recursive:
        taken[ROUNDS] = Option(ROUNDS, "once, otherwise")
    known = {each.name for each in choice.layouts}
    own = [each for each in ("ranges", "bit rows") if each not in known]
    layouts = (*choice.layouts, *(Option(each, "if it is a layout itself") for each in own))
    return replace(choice, strategies=tuple(taken.values()), layouts=layouts)


def _small(clique: DeltaClique, begun: Rehearsal | None) -> tuple[Option, ...]:
    """How small rounds are done, by what is known of a clique that has begun."""
    unsuitable = None if begun is None else begun.unsuitable(clique)
    if unsuitable is not None:
        return (Option("as all others", unsuitable),)
    chosen = thresholds.now
    cold = chosen.small_rounds + chosen.small_rounds_cold // max(1, len(clique.delta_rules))
    when = (
        f"after {chosen.small_rounds} in a row with fewer than {chosen.small:,} new facts; "
        f"{cold} where no kernel is loaded yet"
    )
    if begun is None:
        when += "; if the rules are made of what that machine knows"
    return (Option("one fact at a time", when),)


def _list_layouts(clique: DeltaClique, known: Rehearsal | None) -> tuple[Option, ...]:
    """The layouts of what rounds leave."""
    packed = Option("packed keys", "facts of at most 64 bits")
    rows = Option("rows", "wider ones")
    if known is None:
        return (packed, rows)
    domains = [known.state.classes.columns(name) for name in clique.relations]
    fits = [widths_of(each) is not None for each in domains]
    grows = any(domain.grows for each in domains for domain in each)
    if all(fits):
        return (packed, rows) if grows else (packed,)
    return (packed, rows) if any(fits) or grows else (rows,)


# ── Rules ────────────────────────────────────────────────────────────────────────────────────────


def _forecast(rule: DeltaRule, traits: Foreseen, known: Rehearsal | None) -> RuleForecast:
    if known is None or rule.seed is not None or not known.has(rule.body.read):
        return RuleForecast(rule, _plans(rule, traits, known))
    made = known.planner.plan(rule)
    made.steps()
    said = tuple(describe_weights(made.choices, made.body.atoms))
    return RuleForecast(rule, (tuple(made.accesses or ()),), weighed=said)


def _plans(
    rule: DeltaRule, traits: Foreseen, known: Rehearsal | None, own: Collection[str] = ()
) -> tuple[tuple[Access, ...], ...] | None:
    """The lists of steps of a rule; `own` are relations of a clique that has begun."""
    if known is not None and rule.seed is None and known.has({*rule.body.read}.difference(own)):
        made = known.planner.plan(rule)
        made.steps()
        return (tuple(made.accesses or ()),)
    return _possible(rule.body.separated, traits)


def _possible(body: Body, traits: Foreseen) -> tuple[tuple[Access, ...], ...] | None:
    found = orders(body, traits)
    guided = None if traits.search is None else guided_route(body, traits, traits.search)
    if guided is not None and found is not None:  # unless a relation turns out not to be listed
        return _distinct([tuple(guided), *(tuple(body_route(body, o, traits)) for o in found)])
    if found is None:
        return None
    bodies = [body]
    if any(not isinstance(e.expression, Variable | Constant) for e in amounts(body) or ()):
        bodies.append(replace(body, functions=()))  # where a part could leave 64 bits
    return _distinct(tuple(body_route(b, o, traits)) for b in bodies for o in found)


def _distinct(plans: Iterable[tuple[Access, ...]]) -> tuple[tuple[Access, ...], ...]:
    """Plans, each once: different orders of atoms that meet come down to the same steps."""
    return tuple(dict.fromkeys(plans))


def _parts(clique: DeltaClique, plan: Blueprint, traits: Foreseen) -> Iterable[PartsForecast]:
    relations = plan.program.relations
    for rule in {each.rule.place: each for each in clique.delta_rules}.values():
        if rule.body.separated.widened:
            continue
        for found, names in splits(rule.rule, clique, relations):
            members = (*clique.relations, found.relation.name)
            known = {**relations, found.relation.name: found.relation}
            made = [
                RuleForecast(each, _plans(each, traits, None))
                for part in (found.inner, found.outer)
                for each in seed_rules(part, members, known)
            ]
            yield PartsForecast(
                rule.rule.number, _describe_condition(found.selective, names), tuple(made)
            )


def _describe_condition(selective: CoreAtom, names: list[str]) -> str:
    values, least = " or ".join(names), thresholds.now.selective
    return f"if there are at least {least} values of {values} to a fact of {selective.relation}"
