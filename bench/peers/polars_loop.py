"""Polars: the semi-naive loop written by hand, with joins and anti-joins."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from bench.cases import Case
from bench.contestants import Measured
from bench.generate import Tables

Frames = dict[str, pl.DataFrame]


def _fixpoint(exits: pl.DataFrame, step: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """Add what a step makes of the newest rows, until nothing is new."""
    known = new = exits.unique()
    while new.height:
        new = step(new).unique().join(known, on=known.columns, how="anti")
        known = pl.concat([known, new], rechunk=False)
    return known


def tc(frames: Frames) -> dict[str, int]:
    """Transitive closure."""
    arc = frames["arc"].unique()
    forward = arc.rename({"A": "B", "B": "C"})
    known = _fixpoint(
        arc, lambda new: new.join(forward, on="B").select(pl.col("A"), pl.col("C").alias("B"))
    )
    return {"tc": known.height}


def sg(frames: Frames) -> dict[str, int]:
    """Same generation."""
    arc = frames["arc"].unique()
    left, right = arc.rename({"A": "X", "B": "C"}), arc.rename({"A": "Y", "B": "D"})
    exits = (
        arc.join(arc.rename({"B": "C"}), on="A")
        .filter(pl.col("B") != pl.col("C"))
        .select(pl.col("B").alias("X"), pl.col("C").alias("Y"))
    )
    known = _fixpoint(
        exits,
        lambda new: (
            new.join(left, on="X")
            .join(right, on="Y")
            .select(pl.col("C").alias("X"), pl.col("D").alias("Y"))
        ),
    )
    return {"sg": known.height}


def cc(frames: Frames) -> dict[str, int]:
    """Connected components by the smallest label."""
    arc = frames["arc"].unique()
    known = new = arc.select(pl.col("A").alias("X"), pl.col("A").alias("V")).unique()
    while new.height:
        offered = (
            new.join(arc, left_on="X", right_on="A")
            .group_by(pl.col("B").alias("X"))
            .agg(pl.col("V").min())
        )
        new = (
            offered.join(known.rename({"V": "W"}), on="X", how="left")
            .filter(pl.col("W").is_null() | (pl.col("V") < pl.col("W")))
            .select("X", "V")
        )
        known = pl.concat([known.join(new, on="X", how="anti"), new])
    return {"labels": known["V"].n_unique()}


def reach(frames: Frames) -> dict[str, int]:
    """What can be reached from the start."""
    arc = frames["arc"].unique()
    known = _fixpoint(
        frames["start"], lambda new: new.join(arc, on="A").select(pl.col("B").alias("A"))
    )
    return {"reach": known.height}


PROGRAMS: dict[str, Callable[[Frames], dict[str, int]]] = {
    "tc": tc,
    "sg": sg,
    "cc": cc,
    "reach": reach,
}


def prepare(case: Case, tables: Tables, threads: int) -> Callable[[], Measured]:
    """Polars takes its threads from POLARS_MAX_THREADS, which one.py sets."""
    del threads
    frames = {name: pl.DataFrame(pl.from_arrow(table)) for name, table in tables.items()}

    def run() -> Measured:
        measured = Measured()
        with measured.timed():
            measured.counts = PROGRAMS[case.program](frames)
        return measured

    return run
