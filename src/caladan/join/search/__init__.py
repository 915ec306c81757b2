"""`find`: questions from Python, over values, by the guided search (join/adaptive.py).

find(relations, "x y", "r(x, y), ~s(y)", x=one_of({1, 2}))

find.py         bodies as text, and answers; library.py has relations of values
question.py     from literals to bodies of rules
specs.py        sets, ranges and predicates, as users write them
definitions.py  the same for rules, under a name
testing.py      check_constraint, for constraints of your own
"""

from caladan.join.constraints.protocol import Candidates, Constraint, Counts, Frontier, Var
from caladan.join.hypergraph import cyclic_core, is_cyclic
from caladan.join.search.find import Found, find
from caladan.join.search.library import Library
from caladan.join.search.specs import between, one_of, predicate
from caladan.join.search.testing import check_constraint
from caladan.join.statistics import Statistics

__all__ = [
    "Candidates",
    "Constraint",
    "Counts",
    "Found",
    "Frontier",
    "Library",
    "Statistics",
    "Var",
    "between",
    "check_constraint",
    "cyclic_core",
    "find",
    "is_cyclic",
    "one_of",
    "predicate",
]
