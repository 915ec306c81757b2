"""Relations that are left as matrices: what is listed of them is what they hold. Needs no Spark."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.engines.embedded.tables import LoadedTable
from caladan.engines.spark.tasks.folded import folded_of, list_facts, save, table_lister
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.events import Listener
from caladan.program.options import Options

CLOSURE = """database({{arc(A: {type}, B: {type})}}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."""
TURNED = CLOSURE.replace("tc(A, B) <- tc(A, C), arc(C, B).", "tc(A, B) <- arc(A, C), tc(C, B).")
LABELLED = """database({{arc(A: {type}, B: {type})}}).
tc(A, L, B) <- arc(A, B), L = 7. tc(A, L, B) <- tc(A, L, C), arc(C, B). query tc(A, L, B)."""


def solved(text: str, arcs: list[tuple[Any, Any]]) -> Any:
    program = compile_program(parse(text), {}, {}).delta
    columns = program.relations["arc"].columns
    type = pa.string() if isinstance(arcs[0][0], str) else pa.int64()
    data = pa.table([pa.array(each, type) for each in zip(*arcs, strict=True)], ["A", "B"])
    store = {"arc": LoadedTable(columns, data)}
    return EmbeddedEngine().run(program, store, Options(), Listener())["tc"]


def graph(kind: str, seed: int) -> list[tuple[int, int]]:
    rng = random.Random(seed)
    if kind == "chain":
        return [(i, i + 1) for i in range(1_500)]
    if kind == "cycles":
        return [(i, (i + 1) % 40 + i // 40 * 40) for i in range(1_600)]
    return list({(rng.randrange(900), rng.randrange(900)) for _ in range(1_800)})


@pytest.mark.parametrize("shares", [1, 3])
@pytest.mark.parametrize("kind", ["chain", "cycles", "random"])
@pytest.mark.parametrize("text", [CLOSURE, TURNED, LABELLED], ids=["left", "right", "labelled"])
def test_what_is_listed_is_what_was_found(
    tmp_path: Path, text: str, kind: str, shares: int
) -> None:
    for type, value in (("integer", int), ("string", "n{}".format)):
        table = solved(text.format(type=type), [(value(a), value(b)) for a, b in graph(kind, 1)])
        if folded_of(table) is None:
            pytest.fail("a graph of this size is solved as a matrix")
        files = save(table, str(tmp_path), 0, shares)
        list_all = table_lister([files.matrix], table.columns)
        keys = [pq.read_table(each) for each in files.files]
        rows = [row for part in keys for row in rows_of(list_all(part.to_batches()))]
        wanted = sorted(tuple(row.values()) for row in table.arrow().to_pylist())
        assert sorted(rows) == wanted
        # Of some keys those facts are listed that they have, and no others.
        some = keys[0].slice(3, 2)
        firsts = [f"c{i}" for i in files.keys]
        asked = {tuple(row[c] for c in firsts) for row in some.to_pylist()}
        kept = [row for row in wanted if tuple(row[i] for i in files.keys) in asked]
        assert sorted(rows_of(list_all(some.to_batches()))) == kept


def rows_of(batches: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_many_facts_are_listed_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caladan.engines.spark.tasks.folded._LISTED", 1_000)
    table = solved(CLOSURE.format(type="integer"), graph("chain", 0))
    files = save(table, str(tmp_path), 2, 1)
    (keys,) = files.files
    rows = pq.read_table(keys).column("row")
    lists = list(list_facts(rows, ["", "", files.matrix]))
    assert sum(map(len, lists)) == len(rows)
    assert max(len(each.values) for each in lists) <= 1_500
    assert sum(len(each.values) for each in lists) == table.count()
    assert 0.5 < files.nbytes / table.arrow().nbytes < 2
    assert np.all(np.diff(lists[0].offsets) >= 0)
