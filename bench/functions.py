"""Functions over a million rows, beside DuckDB.

    python -m bench.functions [name …]

Each case is one function in a rule, `p(X, count<I>) <- t(I, …), X = f(…)`, and the same in DuckDB.
Both read a table in memory and hand out Arrow; DuckDB has two threads. What counts is CPU time, the
least of three runs, without reading the table into a session: that is done once.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa

import caladan as cal

ROWS = 1_000_000
CASES: dict[str, tuple[str, str]] = {
    "abs": ("abs(I - 500000) div 100", "abs(i - 500000) // 100"),
    "round": ("round(D, 1)", "round(d, 1)"),
    "floor": ("floor(sqrt(D))", "CAST(floor(sqrt(d)) AS BIGINT)"),
    "greatest": ("greatest(I mod 1000, 500)", "greatest(i % 1000, 500)"),
    "band": ("band(I, 1023)", "i & 1023"),
    "year": ("year(T)", "year(t)"),
    "date_trunc": ('date_trunc("day", T)', "date_trunc('day', t)"),
    "date_add": ("date_add(A, 30)", "a + 30"),
    "cast": ("cast(I mod 5000, string)", "CAST(i % 5000 AS VARCHAR)"),
    "cast text": ("cast(C, long)", "CAST(c AS BIGINT)"),
    "upper": ("upper(W)", "upper(w)"),
    "substring": ("substring(W, 2, 3)", "substring(w, 2, 3)"),
    "concat": ('concat(W, "-", C)', "concat(w, '-', c)"),
    "replace": ('replace(W, "a", "o")', "replace(w, 'a', 'o')"),
    "lpad": ('lpad(C, 8, "0")', "lpad(c, 8, '0')"),
    "contains": ('contains(W, "an")', "contains(w, 'an')"),
    "split_part": ('split_part(W, " ", 1)', "split_part(w, ' ', 1)"),
    "regexp_matches": ('regexp_matches(W, "a[n-r]+")', "regexp_matches(w, 'a[n-r]+')"),
    "regexp_extract": ('regexp_extract(W, "([a-e]+)")', "regexp_extract(w, '([a-e]+)', 1)"),
    "levenshtein": ('levenshtein(W, "Chani Kynes")', "levenshtein(w, 'Chani Kynes')"),
    "jaro_winkler": ('jaro_winkler(W, "Chani Kynes")', "jaro_winkler_similarity(w, 'Chani Kynes')"),
    "md5": ("md5(W)", "md5(w)"),
    "length of unique": ("length(U)", "length(u)"),
    "substring of unique": ("substring(U, 1, 4)", "substring(u, 1, 4)"),
    "levenshtein of unique": ('levenshtein(U, "name 500000")', "levenshtein(u, 'name 500000')"),
    "cast of unique": ("cast(substring(U, 6, 7), long) mod 100",
                       "CAST(substring(u, 6, 7) AS BIGINT) % 100"),
}  # fmt: skip
"""For each name, an expression of rules and one of SQL."""


def table() -> pa.Table:
    """A million rows: numbers, moments, words of which there are 50,000, texts that all differ."""
    random = np.random.default_rng(7)
    first = ["Paul", "Chani", "Jessica", "Leto", "Duncan", "Gurney", "Stilgar", "Alia", "Irulan"]
    words = [f"{first[i % 9]} {first[i // 9 % 9]} {i:x}" for i in range(50_000)]
    places = random.integers(0, len(words), ROWS)
    seconds = random.integers(1_500_000_000, 1_700_000_000, ROWS)
    return pa.table({
        "I": pa.array(np.arange(ROWS)),
        "D": pa.array(random.random(ROWS) * 10_000),
        "W": pa.array(words).take(pa.array(places)),
        "C": pa.array([str(n) for n in range(50_000)]).take(pa.array(places)),
        "U": pa.array([f"name {n}" for n in range(ROWS)]),
        "T": pa.array(seconds * 1_000_000).cast(pa.timestamp("us")),
        "A": pa.array((seconds // 86_400).astype(np.int32)).cast(pa.date32()),
    })  # fmt: skip


def least(run: Callable[[], object]) -> float:
    """The CPU seconds of the quickest of three runs."""
    found: list[float] = []
    for _ in range(3):
        before = time.process_time()
        run()
        found.append(time.process_time() - before)
    return min(found)


def main(names: list[str]) -> None:
    """Print a line for each case: both times, and how many times longer the rule takes."""
    data = table()
    duck = duckdb.connect(config={"threads": 2})
    duck.register("source", data)
    duck.execute("CREATE TABLE t AS SELECT * FROM source")
    with cal.connect("embedded") as db:
        db.add("t", data)
        print(f"{'function':24}{'rules':>9}{'DuckDB':>9}{'times':>8}")
        for name, (rule, sql) in CASES.items():
            if names and name not in names:
                continue
            used = sorted({"I", *re.findall(r"\b[A-Z]\b", rule)})
            read = ", ".join(f"{letter}: {letter}" for letter in used)
            text = f"p(X, count<I>) <- t({read}), X = {rule}. query p(X, N)."
            query = f"SELECT {sql} AS x, count(*) AS n FROM t GROUP BY ALL"
            ours = least(lambda text=text: db.run(text, keep=False).answer.arrow())
            theirs = least(lambda query=query: duck.sql(query).to_arrow_table())
            print(f"{name:24}{ours:9.3f}{theirs:9.3f}{ours / theirs:8.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
