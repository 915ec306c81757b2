"""RaSQL: SQL with recursive views that may aggregate.

    dialect      what the grammar adds to sqlglot's Spark SQL
    script       statements: declared tables, queries and their views, recursive ones with branches
    parser       text → Script: `parse`
    scope        the tables in a FROM and their columns; what a name stands for
    conditions   WHERE as alternatives, each a list of literals
    expressions  values: arithmetic, CASE, functions
    body         the body of one rule: variables, atoms, literals
    branches     a SELECT of a recursive view → rules
    translate    recursive views → Program, their columns first: `translate`

Unlike the other languages a text alone does not make a Program: SQL names columns, so the columns
of every table must be known first. `caladan.sql` puts the two together.
"""

from caladan.language.rasql.parser import parse
from caladan.language.rasql.script import Script

__all__ = ["Script", "parse"]
