"""The graph a closure is computed on: the components of the steps, and sources before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caladan.columns.fold import NONE, Fold
from caladan.columns.kernels.graph import components, condense, reach
from caladan.columns.layout import Mask
from caladan.engines.embedded.shapes.pairs import Graph, Pairs, contains, distinct, extent


@dataclass(frozen=True, slots=True)
class Rows:
    """The acyclic graph to close: rows 0 … columns - 1 are components, those behind are sources."""

    graph: Graph
    cyclic: Mask
    row_fold: Fold
    column_fold: Fold

    @property
    def columns(self) -> int:
        """How many components."""
        return self.column_fold.count

    @property
    def has_sources(self) -> bool:
        """Whether the answer's rows are the sources rather than the components."""
        return self.row_fold is not self.column_fold

    @property
    def first(self) -> int:
        """Where the answer's rows start."""
        return self.columns if self.has_sources else 0


def condensed(exits: Pairs, step: Pairs, may_share: bool = True) -> Rows:
    """The rows for exit pairs B and step pairs E; if they are the same, components are enough."""
    closes_itself = may_share and contains(exits, step) and contains(step, exits)
    size = extent(*step, exits[1])
    graph = Graph.of(*step, size)
    if not closes_itself:
        # Nothing counts but what the exit pairs reach.
        reached = np.zeros(size, np.bool_)
        reach(graph.bounds, graph.targets, np.ascontiguousarray(exits[1], np.uint32), reached)
        keep = reached[step[0]]
        graph = Graph.of(step[0][keep], step[1][keep], size)
    else:
        reached = np.zeros(size, np.bool_)
        reached[step[0]] = True
        reached[step[1]] = True
    # Words nobody uses would be components of their own: number those in use.
    used = np.flatnonzero(reached).astype(np.uint32)
    number = np.full(size, NONE, np.uint32)
    number[used] = np.arange(len(used), dtype=np.uint32)
    graph = Graph(np.append(graph.bounds[used], graph.bounds[-1]), number[graph.targets])
    component = np.empty(len(used), np.uint32)
    count = components(graph.bounds, graph.targets, component)
    members = Graph.of(component, np.arange(len(used), dtype=np.uint32), count)
    bounds = np.zeros(count + 1, np.int64)
    targets = np.empty(len(graph.targets), np.uint32)
    cyclic = np.zeros(count, np.bool_)
    edges = condense(
        graph.bounds, graph.targets, component, members.bounds, members.targets,
        bounds, targets, cyclic,
    )  # fmt: skip
    condensed = Graph(bounds, targets[:edges])
    class_of = np.full(size, NONE, np.uint32)
    class_of[used] = component
    columns = Fold.of(class_of, count)
    if closes_itself:
        return Rows(condensed, cyclic, columns, columns)
    return _with_sources(condensed, cyclic, columns, exits)


def _with_sources(graph: Graph, cyclic: Mask, columns: Fold, exits: Pairs) -> Rows:
    sources, starts = distinct(exits[0], columns.class_of[exits[1]])
    size = extent(sources)
    is_source = np.zeros(size, np.bool_)
    is_source[sources] = True
    words = np.flatnonzero(is_source)
    class_of = np.full(size, NONE, np.uint32)
    class_of[words] = np.arange(len(words), dtype=np.uint32)
    behind = Graph.of(class_of[sources], starts, len(words))
    both = Graph(
        np.concatenate([graph.bounds, behind.bounds[1:] + graph.bounds[-1]]),
        np.concatenate([graph.targets, behind.targets]),
    )
    return Rows(both, cyclic, Fold.of(class_of, len(words)), columns)
