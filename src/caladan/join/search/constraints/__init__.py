"""The kinds of constraints, one a file.

| kind | proposes | confirms |
|---|---|---|
| `Stored` (relation.py) | what can follow the bound columns | by binary search |
| `Negated` (negation.py) | — | once all its variables are bound |
| `Compared`, `Equal` (comparison.py) | the other side of `=` | once both sides are bound |
| `Plus`, `Times`, `Computed` (arithmetic.py) | one side from the others | once all are bound |
| `Between` (between.py) | every word from low to high | by comparing |
| `OneOf` (one_of.py) | its members | by binary search |
| `Predicate` (predicate.py) | — | by a Python function |
| `Exists` (exists.py) | what a search inside finds | by a search inside |
| `Either` (disjunction.py) | the union of its alternatives | if one alternative may hold |
"""

from caladan.join.search.constraints.arithmetic import Computed, Plus, Times
from caladan.join.search.constraints.between import Between
from caladan.join.search.constraints.comparison import Compared, Equal
from caladan.join.search.constraints.disjunction import Either
from caladan.join.search.constraints.exists import Exists
from caladan.join.search.constraints.negation import Negated
from caladan.join.search.constraints.one_of import OneOf
from caladan.join.search.constraints.predicate import Predicate
from caladan.join.search.constraints.relation import Stored

__all__ = [
    "Between",
    "Compared",
    "Computed",
    "Either",
    "Equal",
    "Exists",
    "Negated",
    "OneOf",
    "Plus",
    "Predicate",
    "Stored",
    "Times",
]
