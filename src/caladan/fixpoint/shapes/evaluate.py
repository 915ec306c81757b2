"""Shapes: cliques with a structure that lets them be evaluated without rounds.

    rules/shapes/    which cliques have a shape: from the rules alone
    closure.py       p(X, Z) <- p(X, Y), step(Y, Z): bit rows, ranges or searches, over the acyclic
                     graph of the steps' components
    distances.py     d(X, Z, mmin<D>) <- d(X, Y, E), step(Y, Z, W), D = E + W: source by source
    labels.py        l(Y, mmin<Z>) <- l(X, Z), step(X, Y): label by label, the best first
    generations.py   p(X, Y) <- l(A, X), p(A, B), r(B, Y): a bit matrix over classes
    pairs.py         pairs of words and small graphs; words of several relations side by side

`evaluated` is what the engine calls for each clique that has a shape, with the exit facts at hand.
It gives layouts (columns/folded.py) that hold the same facts as the rounds would have found, or
None, and then the rounds go ahead:

- the pairs don't fit it (`Closure` with steps that do not commute);
- fewer pairs than the threshold `shape`: rounds are done before the shape's kernels are loaded;
- words are spread too thin to index arrays by them;
- no way fits the memory budget.

A limit on facts stops a run once they are counted. With a limit on rounds a shape counts how many
there would be, or might be at most (`closure.require_rounds`), and declines if they are too many:
rounds then stop where they have to.

`Shaping` (choice.py) hands a clique to its shape, with what shapes ask of a run.
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
from caladan.fixpoint.shapes.blocks import Trail, searched
from caladan.fixpoint.shapes.closure import (
    LAYOUTS,
    carried,
    ranked,
    reached,
    require_rounds,
)
from caladan.fixpoint.shapes.distances import distances, prepared
from caladan.fixpoint.shapes.explore import graph_of
from caladan.fixpoint.shapes.generations import generations, paced
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.labels import label_graph, labels
from caladan.fixpoint.shapes.pairs import (
    NO_PAIRS,
    Declined,
    NodePlace,
    Pairs,
    ShapeLimits,
    contains,
    turned,
    union,
)
from caladan.fixpoint.shapes.sources import StepSources
from caladan.fixpoint.shapes.steps import StepGraph, stepped
from caladan.program import Variable, thresholds
from caladan.rules.shapes.forms import (
    Closure,
    Distances,
    Generations,
    Labels,
    Reachability,
    Shape,
    Sides,
)

L = TypeVar("L", bound=Layout)


def evaluated(
    shape: Shape,
    inputs: ShapeInputs,
    limits: ShapeLimits,
    declined: Callable[[str], None] | None = None,
) -> dict[str, Layout] | None:
    """The relations of a shape; None if rounds are better, and then `declined` is told why."""
    try:
        match shape:
            case Reachability():
                return _reached(shape, inputs, limits)
            case Closure():
                return _carried(shape, inputs, limits)
            case Generations():
                return generations(shape, inputs, limits)
            case Distances():
                return {shape.relation: distances(shape, inputs, limits)}
            case Labels():
                return {shape.relation: labels(shape, inputs, limits)}
    except Declined as reason:
        if declined is not None:
            declined(str(reason))
        return None


def _reached(shape: Reachability, inputs: ShapeInputs, limits: ShapeLimits) -> dict[str, Layout]:
    graph, firsts, edges = _spreading(shape, inputs, limits)
    marks = reached(firsts, edges, graph.size)
    found: dict[str, Layout] = {}
    for name in shape.relations:
        place = graph.places[name]
        numbers = np.flatnonzero(marks[slice(*place.range)]).astype(np.uint32)
        found[name] = Distinct(np.sort(place.columns(numbers)[0]))
    return found


def _spreading(
    shape: Reachability, inputs: ShapeInputs, limits: ShapeLimits
) -> tuple[StepGraph, Words, Pairs]:
    """The graph that relations spread in, where they start, and its edges."""
    starts = {name: inputs.exit(name) for name in shape.relations}
    stepping = dict.fromkeys(shape.relations, (0,))
    graph = stepped(stepping, shape.steps, starts, inputs, limits)
    firsts = np.concatenate([graph.starts[name] for name in shape.relations])
    edges = union(graph.edges)
    exact = all(step.is_round for step in shape.steps)
    exits = np.zeros(len(firsts), np.uint32), firsts
    require_rounds(exits, edges, graph.size, limits, exact=exact)
    return graph, firsts, edges


def _carried(shape: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> dict[str, Layout]:
    closure = _closure(shape, inputs, limits)
    _require_within(shape, closure, limits)
    matrix = _fitting(
        carried(
            closure.exits,
            closure.steps,
            limits,
            beside=closure.beside,
            may_share=closure.may_share,
        )
        if closure.trails is None
        else searched(closure.exits, closure.trails, closure.size, limits)
    )
    found: dict[str, Layout] = {}
    for name, place in closure.places.items():
        mine = matrix
        if closure.size > place.size:
            mine = matrix.with_folds(matrix.rows, matrix.columns.part(*place.range))
            if closure.beside is not None:
                begin, end = place.range
                kept = (closure.beside[1] >= begin) & (closure.beside[1] < end)
                first, second = (each[kept] for each in closure.beside)
                mine = mine.with_extra(first, second - np.uint32(begin))
        first = FoldedSide(closure.sides[name].carried, closure.sources.words)
        second = FoldedSide(closure.sides[name].stepping, place.words)
        graph = None
        if closure.trails is None and closure.beside is None:
            graph = ClosureGraph(closure.exits, closure.steps, *place.range)
        found[name] = FoldedRelation(mine, first, second, graph)
    return found


def _require_within(shape: Closure, closure: _Closure, limits: ShapeLimits) -> None:
    """Decline if rounds are limited, and might be more."""
    steps, trails = closure.steps, closure.trails
    if trails is not None and limits.max_rounds is not None:
        steps = union([trail.edges for trail in trails])
    other = shape.doubles or shape.back or shape.exits or trails is not None
    exact = not other and all(step.is_round for step in shape.steps)
    require_rounds(closure.exits, steps, closure.size, limits, exact=exact)


def ways(shape: Shape, inputs: ShapeInputs, limits: ShapeLimits) -> list[str]:
    """The layouts of a shape, the one estimated to cost least first; those of a closure that fit.

    Declines as `evaluated` does, short of evaluating it.
    """
    match shape:
        case Reachability():
            _spreading(shape, inputs, limits)
        case Closure():
            return _ways(shape, inputs, limits)
        case Generations():
            paced(shape, inputs, limits)
        case Distances():
            prepared(shape, inputs, limits)
        case Labels():
            label_graph(shape, inputs, limits)
    return list(shape.layouts)


def _ways(shape: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> list[str]:
    closure = _closure(shape, inputs, limits)
    _require_within(shape, closure, limits)
    if closure.trails is None:
        found = [
            LAYOUTS[way]
            for way in ranked(closure.exits, closure.steps, limits, may_share=closure.may_share)
        ]
    else:  # a block says which of them is smaller
        found = [LAYOUTS["ranges"], LAYOUTS["bits"]]
    turned = {", transposed" * (min(each.stepping) == 0) for each in closure.sides.values()}
    return list(dict.fromkeys(form + each for form in found for each in sorted(turned)))


@dataclass(frozen=True, slots=True)
class _Closure:
    """Exit pairs B and step pairs E, for B·E*; facts `beside` it are added as they are.

    Pairs are numbers: of tuples of the carried columns, and of nodes, among which each relation has
    its place; `size` is how many nodes there are. Where sources differ in the steps they may take,
    there are `trails` instead of steps.
    """

    exits: Pairs
    steps: Pairs
    sides: Mapping[str, Sides]
    sources: NodePlace
    places: Mapping[str, NodePlace]
    size: int
    beside: Pairs | None = None
    may_share: bool = False
    trails: list[Trail] | None = None


def _closure(shape: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> _Closure:
    """What a carried shape comes down to; declines if it comes down to nothing of the kind."""
    exits = {name: inputs.exit(name) for name in shape.relations}
    if shape.doubles or shape.back or shape.swaps:
        return _from_both_ends(shape, exits, inputs, limits)
    stepping = {name: each.stepping for name, each in shape.sides.items()}
    graph = graph_of(stepping, shape.steps, exits, inputs, limits, shape.entries)
    given = [tuple(exits[name][c] for c in each.carried) for name, each in shape.sides.items()]
    given += [columns for columns, _ in graph.origins]
    sources = StepSources(shape.steps, shape.sides, given, inputs)
    firsts = sources.firsts
    starts = np.concatenate(
        [*(graph.starts[name] for name in shape.relations), *(nodes for _, nodes in graph.origins)]
    )
    places = {name: graph.places[name] for name in shape.relations}
    known = partial(_Closure, sides=shape.sides, sources=sources.place, places=places)
    groups = None
    if not any(step.is_tested for step in shape.steps):
        groups = _groups(sources.masks, firsts)
    moving = [(steps, of) for steps, of in groups or () if steps]
    if groups is None or len(moving) > 1:
        trails = _trails(shape, graph, sources)
        return known((firsts, starts), NO_PAIRS, size=graph.size, trails=trails)
    if len(groups) > 1:
        chosen = np.isin(firsts, moving[0][1]) if moving else np.zeros(len(firsts), np.bool_)
        steps = union([graph.edges[i] for i in moving[0][0]]) if moving else NO_PAIRS
        beside = (firsts[~chosen], starts[~chosen])
        return known((firsts[chosen], starts[chosen]), steps, size=graph.size, beside=beside)
    steps = union([*(graph.edges[i] for i in groups[0][0]), *graph.entered]) if groups else NO_PAIRS
    (name, *others) = shape.relations
    place, (kept, moved) = graph.places[name], shape.sides[name].both
    may_share = (
        not others
        and graph.size == place.size
        and sources.place.words is place.words is None
        and len(kept) == len(moved) == 1
        and inputs.share_words(name, kept[0], moved[0])
    )
    pairs, sides = (firsts, starts), shape.sides
    if may_share and kept > moved and contains(pairs, steps) and contains(steps, pairs):
        # E*·E is the same from both ends.
        pairs, steps, sides = turned(pairs), turned(steps), {name: sides[name].turned}
    return replace(known(pairs, steps, size=graph.size, may_share=may_share), sides=sides)


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


def _trails(shape: Closure, graph: StepGraph, sources: StepSources) -> list[Trail]:
    """The steps, with the sources that may take them and what is tested at their ends."""
    used = np.zeros(graph.size, np.bool_)
    for ends in (*graph.starts.values(), *(end for pairs in graph.edges for end in pairs)):
        used[ends] = True
    trails: list[Trail] = []
    for number, step in enumerate(shape.steps):
        between = graph.places[number, 1] if step.along else graph.places[step.target]
        leaving, arriving, along = sources.tests(
            number,
            [
                (step.leaving, graph.places[step.source], step.pattern),
                (step.arriving, graph.places[step.target], step.head),
                (step.along, between, tuple(map(Variable, step.middle))),
            ],
            used,
        )
        mask = sources.masks[number]
        trails.append(Trail(graph.edges[number], mask, leaving, (*arriving, *along)))
    return trails


def _from_both_ends(
    shape: Closure, exits: dict[str, tuple[Words, ...]], inputs: ShapeInputs, limits: ShapeLimits
) -> _Closure:
    """One relation p, stepping either side: L*·B·R*; or doubling, where it may step by B."""
    (name,) = shape.relations
    kept, stepping = shape.sides[name].both
    ahead = graph_of({name: stepping}, shape.steps, exits, inputs, limits)
    back = graph_of({name: kept}, shape.back, exits, inputs, limits)
    right, left = ahead.places[name], back.places[name]
    known = partial(_Closure, sides=shape.sides, sources=left)
    if shape.doubles or shape.swaps:
        alike = inputs.share_words(name, *kept, *stepping)
        plain = left.words is right.words is None and ahead.size == right.size
        if not (alike and plain and back.size == left.size):
            raise Declined("its values are spread too thin to index arrays by them")
        pairs = (back.starts[name], ahead.starts[name])
        edges = [*ahead.edges, *map(turned, back.edges)]
        size = max(left.size, right.size)
        place = {name: NodePlace(None, size)}
        if shape.swaps:
            # Whatever steps the one side steps the other as well.
            pairs = union([pairs, turned(pairs)])
            edges = [union([*edges, *map(turned, edges)])] if shape.doubles else edges
        if shape.doubles and all(contains(pairs, each) for each in edges):
            # p ⊇ its exit pairs B. Steps inside B make no more than B⁺, which doubling gives.
            return known(pairs, pairs, places=place, size=size, may_share=True)
        if shape.swaps:
            steps = union([*ahead.edges, *back.edges])
            back, ahead = replace(back, edges=[steps]), replace(ahead, edges=[steps])
        back = replace(back, starts={name: pairs[0]}, size=size)
        ahead = replace(ahead, starts={name: pairs[1]}, size=size)
        right = left = place[name]
        known = partial(_Closure, sides=shape.sides, sources=left)
    # Nodes of the left side lead to those they were stepped from, exit facts lead to the right.
    # The right side comes first: numbered by itself, what is reached of it is few ranges.
    if back.size + ahead.size >= 1 << 31:
        raise Declined("its relations have too many values between them")
    shift = np.uint32(ahead.size)
    pairs = (back.starts[name] + shift, ahead.starts[name])
    edges = [(second + shift, first + shift) for first, second in back.edges]
    if shape.doubles:  # (L*·B·R*)⁺: whatever is reached may go on as if it began there
        every = np.arange(ahead.size, dtype=np.uint32)
        edges.append((every, every + shift))
    begin, end = left.begin + ahead.size, left.begin + left.size + ahead.size
    sources = np.unique(np.concatenate([pairs[0], *(first for first, _ in edges)]))
    sources = sources[(sources >= begin) & (sources < end)]
    return known(
        (sources - np.uint32(begin), sources), union([pairs, *edges, *ahead.edges]),
        places={name: right}, size=back.size + ahead.size,
    )  # fmt: skip


def _fitting(layout: L | None) -> L:
    """A layout, if it fits the memory budget."""
    if layout is None:
        raise Declined("no layout of it fits the memory budget")
    return layout
