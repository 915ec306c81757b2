"""Benchmarks: Caladan and its peers, side by side, on the same inputs in the same run.

programs/      a folder for each program: deals.dl, and how peers say it (duckdb.sql, souffle.dl)
cases.py       the cases: a program, its data, the counts that must come out
data.py        inputs as Arrow tables, from CALADAN_DATA or made by
generate.py    the generators
contestants.py who takes part: Caladan's engines and the peers
peers/         DuckDB, a Polars loop, Soufflé, the DataFrame loop people write on Spark
one.py         runs one case with one contestant, in a process of its own
report.py      tables, and RESULTS.md
cliffs.py      near misses: a plain closure, and the same with one thing more

python -m bench                        every case, embedded and the peers at hand
python -m bench tc-grid150 sg          some cases, or groups of them
python -m bench --list
"""
