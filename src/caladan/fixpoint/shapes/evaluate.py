"""Solving a closure (plan/recursion.py) without rounds, by one of three solvers.

    condensed    closure.py: components, then ranges, bit rows or searches, over an acyclic graph
    blocks       blocks.py, with tests or conditions: 512 sources at a time; generations.py, two
                 sides: a matrix of bits
    best-first   distances.py, source by source; labels.py, label by label

`solve_closure` is what the engine calls for each clique that is a closure, with the exit facts at
hand. It gives layouts (columns/folded.py) that hold the same facts as the rounds would have found,
or None, and then the rounds go ahead:

- fewer pairs than the threshold `shape`: rounds are done before a solver's kernels are loaded;
- words are spread too thin to index arrays by them;
- no layout fits the memory budget.

A limit on facts stops a run once they are counted. With a limit on rounds a solver counts how many
there would be, or might be at most (`closure.require_rounds`), and declines if they are too many:
rounds then stop where they have to.

`Shaping` (choice.py) hands a clique to its solver, with what solvers ask of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from caladan.columns.folded import Distinct
from caladan.columns.folded_relation import ClosureGraph, FoldedRelation, FoldedSide
from caladan.columns.layout import Layout, Mask, Words
from caladan.fixpoint.shapes.blocks import Trail, search_rows
from caladan.fixpoint.shapes.closure import (
    LAYOUTS,
    close_pairs,
    find_reached,
    rank_ways,
    require_rounds,
)
from caladan.fixpoint.shapes.distances import find_distances, prepare_facts
from caladan.fixpoint.shapes.explore import graph_of
from caladan.fixpoint.shapes.generations import prepare_grid, solve_two_sided
from caladan.fixpoint.shapes.inputs import ShapeInputs, exit_facts
from caladan.fixpoint.shapes.labels import label_graph, spread_labels
from caladan.fixpoint.shapes.pairs import (
    NO_PAIRS,
    Declined,
    NodePlace,
    Pairs,
    ShapeLimits,
    contains,
    transpose,
    union,
)
from caladan.fixpoint.shapes.sources import StepSources
from caladan.fixpoint.shapes.steps import StepGraph, build_graph
from caladan.plan.recursion import Closure, Split
from caladan.program import Variable, thresholds

L = TypeVar("L", bound=Layout)


def solve_closure(
    closure: Closure,
    inputs: ShapeInputs,
    limits: ShapeLimits,
    declined: Callable[[str], None] | None = None,
) -> dict[str, Layout] | None:
    """The relations of a closure; None if rounds are better, and then `declined` is told why."""
    try:
        if closure.function is not None:
            solve = spread_labels if closure.is_labels else find_distances
            return {closure.relation: solve(closure, inputs, limits)}
        if not _is_carried(closure):
            return _evaluate_reachability(closure, inputs, limits)
        if closure.is_two_sided and not closure.is_both_ends:
            return solve_two_sided(closure, inputs, limits)
        return _evaluate_closure(closure, inputs, limits)
    except Declined as reason:
        if declined is not None:
            declined(str(reason))
        return None


def _is_carried(closure: Closure) -> bool:
    return all(split.carried for split in closure.splits.values())


def _evaluate_reachability(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> dict[str, Layout]:
    graph, firsts, edges = _find_graph(closure, inputs, limits)
    marks = find_reached(firsts, edges, graph.size)
    found: dict[str, Layout] = {}
    for name in closure.relations:
        place = graph.places[name]
        numbers = np.flatnonzero(marks[slice(*place.range)]).astype(np.uint32)
        found[name] = Distinct(np.sort(place.columns(numbers)[0]))
    return found


def _find_graph(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> tuple[StepGraph, Words, Pairs]:
    """The graph that relations spread in, where they start, and its edges."""
    starts = {name: inputs.exit(name) for name in closure.relations}
    stepping = dict.fromkeys(closure.relations, (0,))
    steps = [step.edge for step in closure.steps]
    graph = build_graph(stepping, steps, starts, inputs, limits)
    firsts = np.concatenate([graph.starts[name] for name in closure.relations])
    edges = union(graph.edges)
    exact = all(step.is_round for step in steps)
    exits = np.zeros(len(firsts), np.uint32), firsts
    require_rounds(exits, edges, graph.size, limits, exact=exact)
    return graph, firsts, edges


def _evaluate_closure(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> dict[str, Layout]:
    graph = _graph(closure, inputs, limits)
    _require_within(closure, graph, limits)
    matrix = _check_budget(
        close_pairs(
            graph.exits, graph.edges, limits, beside=graph.beside, may_share=graph.may_share
        )
        if graph.trails is None
        else search_rows(graph.exits, graph.trails, graph.size, limits)
    )
    found: dict[str, Layout] = {}
    for name, place in graph.places.items():
        mine = matrix
        if graph.size > place.size:
            mine = matrix.with_folds(matrix.rows, matrix.columns.part(*place.range))
            if graph.beside is not None:
                begin, end = place.range
                kept = (graph.beside[1] >= begin) & (graph.beside[1] < end)
                first, second = (each[kept] for each in graph.beside)
                mine = mine.with_extra(first, second - np.uint32(begin))
        first = FoldedSide(graph.splits[name].carried, graph.sources.words)
        second = FoldedSide(graph.splits[name].node, place.words)
        edges = None
        if graph.trails is None and graph.beside is None:
            edges = ClosureGraph(graph.exits, graph.edges, *place.range)
        found[name] = FoldedRelation(mine, first, second, edges)
    return found


def _require_within(closure: Closure, graph: _Graph, limits: ShapeLimits) -> None:
    """Decline if rounds are limited, and might be more."""
    edges, trails = graph.edges, graph.trails
    if trails is not None and limits.max_rounds is not None:
        edges = union([trail.edges for trail in trails])
    other = closure.is_two_sided or closure.mirrored or closure.chains or trails is not None
    exact = not other and all(step.edge.is_round for step in closure.steps)
    require_rounds(graph.exits, edges, graph.size, limits, exact=exact)


def layouts_of(closure: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> list[str]:
    """The layouts of a closure, the one estimated to cost least first; those that fit.

    Declines as `solve_closure` does, short of solving it.
    """
    if closure.function is not None:
        (label_graph if closure.is_labels else prepare_facts)(closure, inputs, limits)
    elif not _is_carried(closure):
        _find_graph(closure, inputs, limits)
    elif closure.is_two_sided and not closure.is_both_ends:
        prepare_grid(closure, inputs, limits)
    else:
        return _ways(closure, inputs, limits)
    return list(closure.layouts)


def _ways(closure: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> list[str]:
    graph = _graph(closure, inputs, limits)
    _require_within(closure, graph, limits)
    if graph.trails is None:
        found = [
            LAYOUTS[way]
            for way in rank_ways(graph.exits, graph.edges, limits, may_share=graph.may_share)
        ]
    else:  # a block says which of them is smaller
        found = [LAYOUTS["ranges"], LAYOUTS["bits"]]
    turned = {", transposed" * (min(each.node) == 0) for each in graph.splits.values()}
    return list(dict.fromkeys(form + each for form in found for each in sorted(turned)))


@dataclass(frozen=True, slots=True)
class _Graph:
    """Exit pairs B and edges E, for B·E*; facts `beside` it are added as they are.

    Pairs are numbers: of tuples of the carried columns, and of nodes, among which each relation has
    its place; `size` is how many nodes there are. Where sources differ in the steps they may take,
    there are `trails` instead of edges.
    """

    exits: Pairs
    edges: Pairs
    splits: Mapping[str, Split]
    sources: NodePlace
    places: Mapping[str, NodePlace]
    size: int
    beside: Pairs | None = None
    may_share: bool = False
    trails: list[Trail] | None = None


def _graph(closure: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> _Graph:
    """The graph that a closure is solved on; declines if its values do not fit one."""
    exits = {name: exit_facts(closure, name, inputs) for name in closure.relations}
    if closure.is_two_sided:
        return _join_ends(closure, exits, inputs, limits)
    splits = closure.splits
    nodes = {name: each.node for name, each in splits.items()}
    edges = [step.edge for step in closure.steps]
    graph = graph_of(nodes, edges, exits, inputs, limits, closure.entries)
    given = [tuple(exits[name][c] for c in each.carried) for name, each in splits.items()]
    given += [columns for columns, _ in graph.origins]
    sources = StepSources(closure.steps, splits, given, inputs)
    firsts = sources.firsts
    origins = (nodes for _, nodes in graph.origins)
    starts = np.concatenate([*(graph.starts[name] for name in closure.relations), *origins])
    places = {name: graph.places[name] for name in closure.relations}
    known = partial(_Graph, splits=splits, sources=sources.place, places=places)
    groups = None
    if not any(step.is_tested for step in closure.steps):
        groups = _groups(sources.masks, firsts)
    moving = [(steps, of) for steps, of in groups or () if steps]
    if groups is None or len(moving) > 1:
        trails = _trails(closure, graph, sources)
        return known((firsts, starts), NO_PAIRS, size=graph.size, trails=trails)
    if len(groups) > 1:
        chosen = np.isin(firsts, moving[0][1]) if moving else np.zeros(len(firsts), np.bool_)
        steps = union([graph.edges[i] for i in moving[0][0]]) if moving else NO_PAIRS
        beside = (firsts[~chosen], starts[~chosen])
        return known((firsts[chosen], starts[chosen]), steps, size=graph.size, beside=beside)
    steps = union([*(graph.edges[i] for i in groups[0][0]), *graph.entered]) if groups else NO_PAIRS
    (name, *others) = closure.relations
    place, (kept, moved) = graph.places[name], splits[name].both
    may_share = (
        not others
        and graph.size == place.size
        and sources.place.words is place.words is None
        and len(kept) == len(moved) == 1
        and inputs.share_words(name, kept[0], moved[0])
    )
    pairs = (firsts, starts)
    if may_share and kept > moved and contains(pairs, steps) and contains(steps, pairs):
        # E*·E is the same from both ends.
        pairs, steps, splits = transpose(pairs), transpose(steps), {name: splits[name].transposed}
    return replace(known(pairs, steps, size=graph.size, may_share=may_share), splits=splits)


def _groups(masks: list[Mask | None], firsts: Words) -> list[tuple[list[int], Words]] | None:
    """The sources by the steps that apply to them; None if they are too many kinds."""
    sources = np.unique(firsts)
    if not len(sources):
        return []
    codes = np.zeros(len(sources), np.uint64)
    for i, mask in enumerate(masks):
        applies = np.ones(len(sources), np.bool_) if mask is None else mask[sources]
        codes |= applies.astype(np.uint64) << np.uint64(i)
    kinds = np.unique(codes)
    if len(kinds) > thresholds.now.shape_kinds or len(masks) > 63:
        return None
    every = range(len(masks))
    return [([i for i in every if int(k) >> i & 1], sources[codes == k]) for k in kinds]


def _trails(closure: Closure, graph: StepGraph, sources: StepSources) -> list[Trail]:
    """The steps, with the sources that may take them and what is tested at their ends."""
    used = np.zeros(graph.size, np.bool_)
    for ends in (*graph.starts.values(), *(end for pairs in graph.edges for end in pairs)):
        used[ends] = True
    trails: list[Trail] = []
    for number, step in enumerate(closure.steps):
        between = graph.places[number, 1] if step.along else graph.places[step.target]
        leaving, arriving, along = sources.tests(
            number,
            [
                (step.leaving, graph.places[step.source], step.edge.begin),
                (step.arriving, graph.places[step.target], step.edge.end),
                (step.along, between, tuple(map(Variable, step.edge.middle))),
            ],
            used,
        )
        mask = sources.masks[number]
        trails.append(Trail(graph.edges[number], mask, leaving, (*arriving, *along)))
    return trails


def _join_ends(
    closure: Closure, exits: dict[str, tuple[Words, ...]], inputs: ShapeInputs, limits: ShapeLimits
) -> _Graph:
    """One relation p whose steps go by the one side or by the other: L*·B·R* as one graph."""
    name = closure.relation
    kept, moved = closure.splits[name].both
    lefts = [step.left for step in closure.steps if step.left is not None]
    rights = [step.right for step in closure.steps if step.right is not None]
    ahead = graph_of({name: moved}, rights, exits, inputs, limits)
    back = graph_of({name: kept}, lefts, exits, inputs, limits)
    right, left = ahead.places[name], back.places[name]
    # Nodes of the left side lead to those they were stepped from, exit facts lead to the right.
    # The right side comes first: numbered by itself, what is reached of it is few ranges.
    if back.size + ahead.size >= 1 << 31:
        raise Declined("its relations have too many values between them")
    shift = np.uint32(ahead.size)
    pairs = (back.starts[name] + shift, ahead.starts[name])
    edges = [(second + shift, first + shift) for first, second in back.edges]
    begin, end = left.begin + ahead.size, left.begin + left.size + ahead.size
    sources = np.unique(np.concatenate([pairs[0], *(first for first, _ in edges)]))
    sources = sources[(sources >= begin) & (sources < end)]
    return _Graph(
        (sources - np.uint32(begin), sources), union([pairs, *edges, *ahead.edges]),
        closure.splits, left, {name: right}, back.size + ahead.size,
    )  # fmt: skip


def _check_budget(layout: L | None) -> L:
    """A layout, if it fits the memory budget."""
    if layout is None:
        raise Declined("no layout of it fits the memory budget")
    return layout
