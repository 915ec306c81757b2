"""Warnings about recursion that may go wrong although it is allowed.

`monotone(cliques)` looks at recursive rules:

- W101: a head column computed by arithmetic from the recursion itself, with no aggregate and no
  comparison to stop it, may produce new facts for ever;
- W102: a value that an aggregate of the same clique still improves is compared in a direction the
  improvement can undo (`mmin` values only fall, so `D > 5` may hold at first and not later).
- W103: a recursive relation without an exit rule, facts or data can never have facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from caladan.analysis.core import Clique, CoreRule, Facts, RelationInfo
from caladan.program import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Expression,
    Function,
    Negative,
    Variable,
    names,
    variables,
)
from caladan.program.diagnostics import Diagnostics

_FALLING = ("mmin",)


def monotone(
    cliques: Iterable[Clique],
    relations: Mapping[str, RelationInfo],
    facts: Facts,
    found: Diagnostics,
) -> None:
    """Report what may not terminate or may depend on the order of evaluation."""
    for clique in cliques:
        if not clique.is_recursive:
            continue
        _started(clique, relations, facts, found)
        for rule in clique.recursive_rules:
            _terminates(rule, clique, found)
            _improves(rule, clique, relations, found)


def _started(
    clique: Clique,
    relations: Mapping[str, RelationInfo],
    facts: Facts,
    found: Diagnostics,
) -> None:
    if clique.exit_rules or any(facts.get(r) or relations[r].takes_data for r in clique.relations):
        return
    names = ", ".join(f"`{r}`" for r in clique.relations)
    rule = clique.rules[0]
    found.add(
        "W103",
        f"{names} can never have facts: every rule needs one to start with",
        rule.span,
        help="add a rule that does not depend on the recursion",
    )


def _terminates(rule: CoreRule, clique: Clique, found: Diagnostics) -> None:
    argument = computes(rule, clique) if may_not_end(rule, clique) else None
    if argument is not None:
        found.add(
            "W101",
            f"rule {rule.number} computes new values of `{rule.head}` from its own facts "
            "and may not terminate",
            argument.span or rule.span,
            help="bound the value with a comparison, aggregate it with mmin or mmax, "
            "or run with a limit on rounds",
        )


def may_not_end(rule: CoreRule, clique: Clique) -> bool:
    """Whether a recursive rule computes values from its own, with no comparison to stop it."""
    compared = {
        v.name for c in rule.comparisons if c.operator not in ("=", "~=") for v in variables(c)
    }
    values = _computed(rule, clique) | _recursive_variables(rule, clique)
    return not compared & values and computes(rule, clique) is not None


def computes(rule: CoreRule, clique: Clique) -> Expression | None:
    """The first head column that arithmetic makes out of the recursion's own values, if any."""
    growing, sources = _computed(rule, clique), _recursive_variables(rule, clique)
    for argument in rule.arguments:
        if not isinstance(argument, Aggregate):
            used = names(argument)
            if used & growing or (_is_computed(argument) and used & sources):
                return argument
    return None


def _recursive_variables(rule: CoreRule, clique: Clique) -> set[str]:
    return {
        name
        for atom in rule.positive
        if atom.relation in clique.relations
        for name in atom.variables
    }


def _computed(rule: CoreRule, clique: Clique) -> set[str]:
    """Variables that arithmetic makes out of the recursion's own values."""
    sources = _recursive_variables(rule, clique)
    bound = {name for atom in rule.positive for name in atom.variables}
    growing: set[str] = set()
    equations = [
        (names(c), _is_computed(c.left) or _is_computed(c.right))
        for c in rule.comparisons
        if c.operator == "="
    ]
    before = -1
    while before < len(growing):
        before = len(growing)
        for read, is_computed in equations:
            if (is_computed and read & sources) or read & growing:
                growing |= read - bound  # an equation is solved for whatever is not known
    return growing


def _is_computed(node: Expression) -> bool:
    match node:
        case Arithmetic("mod", _, right):
            return any(True for _ in variables(right))
        case Arithmetic() | Negative() | Function() | Call("concat" | "replace"):
            return True
        case Conditional():
            return _is_computed(node.then) or _is_computed(node.otherwise)
        case _:
            return False


def _improves(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo], found: Diagnostics
) -> None:
    direction: dict[str, str] = {}
    for atom in rule.positive:
        if atom.relation in clique.relations:
            functions = relations[atom.relation].aggregates
            for argument, function in zip(atom.arguments, functions, strict=True):
                if function is not None and isinstance(argument, Variable):
                    direction[argument.name] = "falls" if function in _FALLING else "grows"
    for comparison in rule.comparisons:
        for variable, undone in _undone(comparison):
            if direction.get(variable.name) == undone or (
                variable.name in direction and undone == "changes"
            ):
                found.add(
                    "W102",
                    f"`{variable.name}` still {direction[variable.name]} while the recursion "
                    "runs, so this comparison may hold at first and fail later",
                    comparison.span or rule.span,
                    help="compare after the recursion, in a rule of another relation",
                )


def _undone(comparison: Comparison) -> Iterator[tuple[Variable, str]]:
    """The variables of a comparison, with the change that can undo it."""
    for variable, larger in ((comparison.left, True), (comparison.right, False)):
        if isinstance(variable, Variable):
            match comparison.operator:
                case ">" | ">=":
                    yield variable, "falls" if larger else "grows"
                case "<" | "<=":
                    yield variable, "grows" if larger else "falls"
                case "~=":
                    yield variable, "changes"
                case "=":
                    other = comparison.right if larger else comparison.left
                    if not isinstance(other, Variable) and not any(True for _ in variables(other)):
                        yield variable, "changes"
