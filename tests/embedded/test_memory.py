"""The memory of a run: what goes to disk, what ends the run, and what stats tell of it."""

import errno
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.strategies.random_thresholds import NEVER

import caladan

ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(X, Y) <- arc(X, Y). tc(X, Z) <- tc(X, Y), arc(Y, Z).\n"


@pytest.fixture
def by_rounds(monkeypatch: pytest.MonkeyPatch, tuned: Callable[..., None], tmp_path: Path) -> Path:
    """Closures go round by round, and short runs may go to disk; the folder they go to."""
    tuned(shape=NEVER, spill_keys=64)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def grid(side: int) -> list[tuple[int, int]]:
    right = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    down = [(r * side + c, r * side + c + side) for r in range(side - 1) for c in range(side)]
    return right + down


def run(text: str, arcs: Any, **options: Any) -> Any:
    db = caladan.connect("embedded")
    db.add("arc", arcs)
    return db.run(text, **options)


def reached(side: int) -> int:
    return (side * (side + 1) // 2) ** 2 - side * side


def test_runs_beyond_the_budget_go_to_disk(by_rounds: Path) -> None:
    text = CLOSURE + "far(X, Z) <- arc(X, Y), tc(Y, Z), Z > 390. query far(X, Y)."
    plain = run(text, grid(20))
    spilling = run(text, grid(20), memory=300_000)
    assert spilling["tc"].count() == plain["tc"].count() == reached(20)
    assert sorted(spilling["far"].rows()) == sorted(plain["far"].rows())
    assert sum(each.spilled for each in plain.stats.held) == 0
    assert sum(each.spilled for each in spilling.stats.held) > 8 * reached(20) // 2
    assert not list(by_rounds.iterdir())  # the files have no names


def test_a_budget_that_holds_nothing_is_told() -> None:
    """Also where a goal is bound: what it asks for is given, and reading that needs memory too."""
    with pytest.raises(caladan.Stopped, match=r"C042.*10 bytes of memory were not"):
        run(CLOSURE + "query tc(1, X).", grid(5), memory=10)


def test_what_a_shape_lists_goes_to_disk(tuned: Callable[..., None]) -> None:
    """Distances are found source by source: no more than some of them wait to be sorted."""
    tuned(shape=0, spill_keys=64)
    text = ARC + (
        "d(A, B, mmin<C>) <- arc(A, B), C = 1.\n"
        "d(A, B, mmin<C>) <- d(A, E, D), arc(E, B), C = D + 1. query d(A, B, C)."
    )
    plain = run(text, grid(20))
    spilling = run(text, grid(20), memory=150_000)
    assert [each.stats.cliques[0].strategy for each in (plain, spilling)] == ["best-first"] * 2
    assert sorted(spilling["d"].rows()) == sorted(plain["d"].rows())
    assert sum(each.spilled for each in plain.stats.held) == 0
    assert sum(each.spilled for each in spilling.stats.held) > 8 * reached(20) // 2


def test_what_cannot_go_to_disk_ends_the_run(by_rounds: Path) -> None:
    with pytest.raises(caladan.CaladanError, match="10000 bytes of memory were not enough") as end:
        run(CLOSURE + "query tc(X, Y).", grid(20), memory=10_000)
    assert end.value.exit_code == 3
    assert "raise `memory`" in str(end.value)
    assert 0 < end.value.result["tc"].count() < reached(20)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.usefixtures("by_rounds")
def test_groups_and_wide_facts_stay_in_memory() -> None:
    """As the reference says; the closure of the same arcs, which is as large, goes to disk."""
    assert run(CLOSURE + "query tc(X, Y).", grid(20), memory=300_000).answer.count() == reached(20)
    groups = """d(X, Y, mmin<N>) <- arc(X, Y), N = 1.
        d(X, Z, mmin<N>) <- d(X, Y, M), arc(Y, Z), N = M + 1. query d(X, Y, N)."""
    wide = """w(X, Y, A, B) <- arc(X, Y), A = X * 4000000000, B = A + 1.
        w(X, Z, A, B) <- w(X, Y, A, B), arc(Y, Z). query w(X, Y, A, B)."""
    for text in (groups, wide):
        with pytest.raises(
            caladan.CaladanError, match=r"C042.*300000 bytes of memory were not"
        ) as end:
            run(ARC + text, grid(20), memory=300_000)
        assert "but groups of aggregates, wider facts" in str(end.value)


def test_a_full_disk_ends_the_run(by_rounds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(caladan.CaladanError, match="bytes of memory were not enough"):
        run(CLOSURE + "query tc(X, Y).", grid(16), memory=100_000)


def test_listing_a_folded_relation_takes_memory_too() -> None:
    """The closure itself is a few ranges; sums of its columns are 200 million facts."""
    nodes = np.arange(20_000, dtype=np.int32)
    arcs = pa.table({"A": nodes, "B": nodes + 1})
    joined = CLOSURE + "p(X, Z) <- tc(X, Y), tc(Y, Z), arc(Z, X). query p(X, Y)."
    assert run(joined, arcs, memory=1 << 28).answer.count() == 0
    text = CLOSURE + "p(X, Y + X) <- tc(X, Y). query p(X, Y)."
    with pytest.raises(caladan.CaladanError, match="bytes of memory were not enough") as end:
        run(text, arcs, memory=1 << 28)
    assert end.value.result["tc"].count() == 20_000 * 20_001 // 2  # pyright: ignore[reportAttributeAccessIssue]


def test_listing_a_folded_relation_can_time_out() -> None:
    nodes = np.arange(20_000, dtype=np.int32)
    text = CLOSURE + "p(X, X * Y) <- tc(X, Y). query p(X, Y)."
    started = time.monotonic()
    with pytest.raises(caladan.CaladanError, match="1 second was not enough"):
        run(text, pa.table({"A": nodes, "B": nodes + 1}), timeout=1.0)
    assert time.monotonic() - started < 20


def test_stats_have_the_bytes_of_relations() -> None:
    out = run(CLOSURE + "query tc(X, Y).", grid(30))
    held = {each.relation: each for each in out.stats.held}
    assert held["arc"].facts == len(grid(30))
    assert held["arc"].nbytes >= 8 * len(grid(30))
    assert 0 < held["tc"].nbytes < 8 * held["tc"].facts  # a folded layout
    assert out.stats.to_dict()["held"][0]["nbytes"] > 0


@pytest.mark.parametrize("memory", [0, -1])
def test_a_budget_is_positive(memory: int) -> None:
    with pytest.raises(caladan.CaladanError, match="memory must be a number of bytes"):
        run(CLOSURE, [(1, 2)], memory=memory)


def test_data_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from caladan.engines.embedded import tables

    def never(*_: Any) -> None:
        raise AssertionError("encoded for its count alone")

    monkeypatch.setattr(tables, "closed_domain", never)
    db = caladan.connect("embedded")
    db.add("arc", [(1, 2), (2, 3), (2, 3)])
    out = db.run(CLOSURE + "query tc(X, Y).")
    assert out.stats.data[0].facts == 2
    assert not db.run(CLOSURE + "query tc(X, Y).").stats.data  # read before


@pytest.mark.parametrize(("size", "code"), [("64m", 0), ("1k", 3), ("1t", 2), ("much", 2), ("", 2)])
def test_a_size_can_be_typed(size: str, code: int, by_rounds: Path) -> None:
    from caladan.cli import main

    (by_rounds / "tc.dl").write_text(CLOSURE + "query tc(X, Y).")
    (by_rounds / "arc.csv").write_text("".join(f"{a},{b}\n" for a, b in grid(9)))
    command = ["run", str(by_rounds / "tc.dl"), "--engine", "embedded", "--memory", size]
    try:
        ended = main([*command, "--data", f"arc={by_rounds / 'arc.csv'}"])
    except SystemExit as usage:
        ended = usage.code
    assert ended == code
