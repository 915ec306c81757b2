"""Columns: values as words, facts as packed keys, relations as sorted runs.

    domains.py       values ↔ words: one domain for each class of columns that can meet
    runs.py          a run: sorted distinct keys; an arrangement: a few runs of falling size
    relation.py      a stored relation: packed (up to 64 bits a fact), or by rows (wider)
    folded.py        relations never listed: matrices.py has bit rows and ranges over classes
    pool.py          threads for kernels
    layout.py        what every layout of a relation offers its readers; words packed into keys
    kernels/         the kernels, one theme a file
    native.py        kernels as object files; object_code.py makes them, warmup.py of all kernels

A *word* is an unsigned 32-bit number that stands for a value within its class.
"""
