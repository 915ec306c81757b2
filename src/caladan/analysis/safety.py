"""Safety: every variable that a rule needs is bound by its body.

`safety(rules)` reports C013 for each variable of a head, a negated atom, a comparison, a sort or an
aggregate that no positive atom and no equality binds.
"""

from __future__ import annotations

from collections.abc import Iterable

from caladan.analysis.core import CoreRule
from caladan.analysis.schedule import reach
from caladan.program import Variable, variables
from caladan.program.diagnostics import Diagnostics, Span

_WHATEVER = "write `_` if any value will do there"


def safety(rules: Iterable[CoreRule], found: Diagnostics) -> None:
    """Report what is not bound."""
    for rule in rules:
        reached = reach(rule)
        # An unplaced equality may be what should have bound a head variable: report the cause once.
        for comparison in reached.comparisons:
            for variable in variables(comparison):
                if variable.name not in reached.bound:
                    _unsafe(variable, "in a comparison", rule, found)
        for atom in reached.atoms:
            for argument in atom.arguments:
                if isinstance(argument, Variable) and argument.name not in (*reached.bound, "_"):
                    where = f"in the negated `{atom.relation}`"
                    _unsafe(argument, where, rule, found, help=_WHATEVER)
        for node in rule.arguments:
            for variable in variables(node):
                if variable.name not in reached.bound:
                    _unsafe(variable, "in the head", rule, found)
        for key in rule.order:
            if key.variable.name not in reached.bound:
                _unsafe(key.variable, "in a sort", rule, found)


def _unsafe(
    variable: Variable, where: str, rule: CoreRule, found: Diagnostics, *, help: str | None = None
) -> None:
    span: Span | None = variable.span or rule.span
    if variable.is_anonymous:
        found.add(
            "C013",
            f"`_` {where} of rule {rule.number} has no value",
            span,
            help="give it a name and bind it in the body",
        )
        return
    named = f"`{variable.name}`"
    found.add(
        "C013",
        f"variable {named} {where} of rule {rule.number} is not bound by a positive atom",
        span,
        help=help or f"mention {named} in a positive atom of the body, or bind it with `=`",
    )
