"""DeALS: BigDatalog's dialect of Datalog, text → Program and back.

    tokens       text → tokens; what a name and a quoted text are
    cursor       where the parser stands; failing, help for slips, recovery
    expressions  values: constants, variables, arithmetic, `if(…)`, aggregates
    literals     bodies: atoms, comparisons, `if(…)` of literals, `sort` and `limit`
    parser       statements: `parse` and `parse_goal`
    printer      Program → text: `unparse`

The grammar is written down in docs/reference/deals.md.
"""

from caladan.language.deals.parser import parse, parse_goal
from caladan.language.deals.printer import unparse

__all__ = ["parse", "parse_goal", "unparse"]
