"""Generators of inputs: deterministic, as Arrow tables by relation name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

Tables: TypeAlias = dict[str, pa.Table]


def _table(**columns: np.ndarray) -> pa.Table:
    return pa.table({name: pa.array(values.astype(np.int32)) for name, values in columns.items()})


def andersen(functions: int = 10_000, size: int = 50, seed: int = 1) -> Tables:
    """The statements of a C-like program, for points-to analysis.

    A function has `size` variables, which its statements assign to each other, load and store
    through, and point at objects. It is called from one place before it, which assigns to it. With
    10,000 functions statements and what they point to come to about 5 M facts, and they grow in
    proportion to the functions; with two callers each they would not.
    """
    random = np.random.default_rng(seed)

    def inside(count: int) -> tuple[np.ndarray, np.ndarray]:
        base = np.repeat(np.arange(functions) * size, count)
        first, second = random.integers(0, size, (2, len(base)))
        return base + first, base + second

    to, source = inside(size + 12)
    called = np.arange(1, functions)
    caller = (random.random(len(called)) * called).astype(np.int64)
    parameter, argument = random.integers(0, size, (2, len(called)))
    pointing, _ = inside(9)
    load_to, load_from = inside(6)
    store_to, store_from = inside(6)
    return {
        "address_of": _table(A=pointing, B=functions * size + np.arange(len(pointing))),
        "assign": _table(
            A=np.concatenate([to, called * size + parameter]),
            B=np.concatenate([source, caller * size + argument]),
        ),
        "load": _table(A=load_to, B=load_from),
        "store": _table(A=store_to, B=store_from),
    }


def hub(edges: int = 3_000_000) -> Tables:
    """Triangles where every binary join explodes: one hub, spokes out and in, and a loop at it.

    The join of spokes in with spokes out has edges²/4 rows; the triangles are few.
    """
    spokes = np.arange(1, edges // 2 + 1)
    zeros = np.zeros(len(spokes), np.int64)
    return {
        "arc": _table(
            A=np.concatenate([[0], zeros, spokes]), B=np.concatenate([[0], spokes, zeros])
        )
    }


def chain(length: int = 100_000) -> Tables:
    """0 → 1 → 2 … : a round for each arc."""
    return {
        "arc": _table(A=np.arange(length), B=np.arange(1, length + 1)),
        "start": _table(A=np.zeros(1, np.int64)),
    }


def flow(longest: int = 9_000, arcs: int = 30_000, sources: int = 150, seed: int = 1) -> Tables:
    """Statements of a program that follow each other, and some that a null comes from.

    Seven chains, each 0.7 times as long as the one before, and shortcuts that lead a few statements
    ahead, numbered at random: thousands of rounds of some sixty facts each.
    """
    random = np.random.default_rng(seed)
    lengths = (longest * 0.7 ** np.arange(7)).astype(np.int64)
    ends = np.cumsum(lengths) - 1
    last = np.repeat(ends, lengths)  # of the chain of each statement
    numbers = random.permutation(len(last))
    inner = np.setdiff1d(np.arange(len(last)), ends)
    start = random.choice(inner, arcs - len(inner), replace=False)
    ahead = np.minimum(start + random.integers(2, 9, len(start)), last[start])
    places = random.choice(len(last), sources, replace=False)
    return {
        "arc": _table(
            A=numbers[np.concatenate([inner, start])], B=numbers[np.concatenate([inner + 1, ahead])]
        ),
        "source": _table(A=np.arange(sources), B=numbers[places]),
    }


def document(inserts: int = 180_000, depth: int = 20_000, seed: int = 1) -> Tables:
    """A text that people type together, as a tree of inserts: each names what it was put behind.

    One types on behind the last letter, `depth` letters long; then somebody goes on behind some
    earlier letter. Now and then a single letter is put in further back, and the typing goes on
    where it was. Some letters are deleted. Identifiers grow with time, 0 is the beginning.

    A letter that was typed on has no next sibling, so finding what follows the last letter of a
    stretch leads all the way up it: about `depth` rounds of a few facts each.
    """
    random = np.random.default_rng(seed)
    identifiers = np.arange(1, inserts + 1)
    corrections = random.random(inserts) < 0.02
    corrections[identifiers % depth == 1] = False
    # The last letter before each that was typed on.
    typed = np.where(corrections, 0, identifiers)
    behind = np.concatenate([[0], np.maximum.accumulate(typed)[:-1]])
    jumps = (identifiers % depth == 1) & (identifiers > 1)
    behind[jumps] = (random.random(np.count_nonzero(jumps)) * identifiers[jumps]).astype(np.int64)
    back = random.integers(1, 50, np.count_nonzero(corrections))
    behind[corrections] = np.maximum(behind[corrections] - back, 0)
    removed = identifiers[random.random(inserts) < 0.3]
    return {"insert": _table(Id=identifiers, Behind=behind), "remove": _table(Id=removed)}


def weighted(nodes: int = 40_000, degree: int = 5, seed: int = 1) -> Tables:
    """A random graph with whole weights."""
    random = np.random.default_rng(seed)
    count = nodes * degree
    return {
        "arc": _table(
            A=random.integers(0, nodes, count),
            B=random.integers(0, nodes, count),
            Cost=random.integers(1, 100, count),
        )
    }


GENERATORS: dict[str, Callable[..., Tables]] = {
    "andersen": andersen,
    "hub": hub,
    "chain": chain,
    "flow": flow,
    "document": document,
    "weighted": weighted,
}
