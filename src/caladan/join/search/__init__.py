"""The guided search: a, worst-case optimal search over constraints.

find(relations, "x y", "r(x, y), ~s(y)", x=one_of({1, 2}))    from Python, over values
solve(constraints, wanted, seed)                               for engines, over words

constraint.py   the protocol: estimate, propose, confirm, influence
frontier.py     batches of bindings, candidates
constraints/    the kinds of constraints, one a file
relation.py     runs of facts; trie.py, a run in one order; accumulate.py, several runs
solve.py        the search; extend.py, one step of it; grades.py, what guides it
body.py         constraints by variable, semijoins along join trees
find.py         parse.py, kinds.py, build.py: bodies as text; library.py, specs.py: values, objects
testing.py      check_constraint, for constraints of your own
"""

from caladan.join.hypergraph import cyclic_core, is_cyclic
from caladan.join.search.constraint import Constraint
from caladan.join.search.find import Found, find
from caladan.join.search.frontier import Candidates, Counts, Frontier, Var
from caladan.join.search.library import Library
from caladan.join.search.relation import SearchRelation, TrieRun
from caladan.join.search.solve import solve
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
    "SearchRelation",
    "Statistics",
    "TrieRun",
    "Var",
    "between",
    "check_constraint",
    "cyclic_core",
    "find",
    "is_cyclic",
    "one_of",
    "predicate",
    "solve",
]
