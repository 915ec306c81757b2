"""`find`: questions from Python, over values, by the guided search (join/guided.py).

find(relations, "x y", "r(x, y), ~s(y)", x=one_of({1, 2}))

../constraint.py  the protocol: estimate, propose, confirm, influence
constraints.py  the kinds of constraints over values
find.py         bodies as text, with kinds.py and build.py; library.py, specs.py: values, objects
in_rules.py     what users bring to `find`, for rules
testing.py      check_constraint, for constraints of your own
"""

from caladan.join.constraint import Candidates, Constraint, Counts, Frontier, Var
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
