"""Stage `pcg`: the and-or tree of relations and rules, in the form BigDatalog prints it.

A node is called relation_evaluated_occurrence: the binding pattern its facts are computed under,
and the bindings where it is mentioned. Relations that only take data are not computed, so both
parts are the mention's. Comparisons stand below their rule, as built-in predicates.
"""

from __future__ import annotations

from collections.abc import Iterator

from caladan.analysis.core import Checked, RelationInfo
from caladan.analysis.pcg import AndNode, CliqueNode, CliquePredicate, OrNode
from caladan.explain.terms import comparison, expressions
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program.notation import counted


def pcg(compiled: Compiled) -> str:
    """A tree for each goal, a blank line between them."""
    tree = _Tree(compiled.checked)
    return "\n\n".join("\n".join(tree.relation(root, 0)) for root in compiled.pcg.roots)


class _Tree:
    """Yields lines; `depth` is the number of blanks before them."""

    def __init__(self, checked: Checked) -> None:
        self._facts = checked.facts

    def relation(self, node: OrNode, depth: int) -> Iterator[str]:
        """An or node, and below it its rules, its clique, or where its facts come from."""
        leaves = () if node.seen or node.below else tuple(self._leaves(node.relation))
        yield " " * depth + _or_node(node, len(leaves))
        if node.clique is not None:
            yield from self._clique(node.clique, depth + 1)
            return
        yield from (" " * (depth + 1) + leaf for leaf in leaves)
        for rule in node.children:
            yield from self._rule(rule, depth + 1)

    def _rule(self, node: AndNode, depth: int) -> Iterator[str]:
        rule = node.rule
        name = f"{_name(rule.head, node.pattern, node.pattern)}({expressions(rule.arguments)})"
        children = len(node.children) + len(rule.comparisons)
        yield (
            f"{' ' * depth}PCGAndNode({name}, rule#: {rule.number}, #Children: {children}, "
            "predicateType: DERIVED)"
        )
        for child in node.children:
            yield from self.relation(child, depth + 1)
        for each in rule.comparisons:
            yield f"{' ' * (depth + 1)}PCGOrNode({comparison(each)}, predicateType: BUILT_IN)"

    def _clique(self, node: CliqueNode, depth: int) -> Iterator[str]:
        margin = " " * depth
        yield f"{margin}Clique {node.number}"
        yield f"{margin} Parents:"
        for number, parent in enumerate(node.parents, start=1):
            yield f"{margin}  {number}) {_or_node(parent, 0)}"
        yield f"{margin} Clique Predicates:"
        for number, predicate in enumerate(node.predicates, start=1):
            yield from self._predicate(predicate, number, depth + 1)
        yield f"{margin}End Clique {node.number}"

    def _predicate(self, node: CliquePredicate, number: int, depth: int) -> Iterator[str]:
        margin = " " * depth
        yield (
            f"{margin}{number}) CliquePredicate({_name(node.relation.name, node.pattern)}, "
            f"binding: {node.pattern}, #ExitRules: {len(node.exit_rules)}, "
            f"#RecursiveRules: {len(node.recursive_rules)})"
        )
        yield from (f"{margin} {leaf}" for leaf in self._leaves(node.relation))
        for title, rules in (("Exit", node.exit_rules), ("Recursive", node.recursive_rules)):
            if rules:
                yield f"{margin} {title} Rules:"
            for rule in rules:
                yield from self._rule(rule, depth + 2)

    def _leaves(self, info: RelationInfo) -> Iterator[str]:
        columns = commas(f"{c.name}:{c.type}" for c in info.columns)
        if info.takes_data:
            yield f"{info.name}({columns})"
        facts = self._facts.get(info.name, ())
        if facts:
            yield f"{info.name}({columns}): {counted(len(facts), 'fact')} in the program"


def _or_node(node: OrNode, leaves: int) -> str:
    info = node.relation
    is_base = not info.is_derived
    evaluated = node.occurrence if is_base else node.evaluated
    name = _name(info.name, evaluated, node.occurrence)
    parts = [f"{'~' if node.negated else ''}{name}({expressions(node.arguments)})"]
    if node.below or (node.seen and not node.is_recursive):
        parts += ["predicateType: DERIVED", "shown below" if node.below else "shown above"]
    else:
        children = 1 if node.is_recursive or is_base else len(node.children) + leaves
        parts += [f"#Children: {children}", f"predicateType: {'BASE' if is_base else 'DERIVED'}"]
    if node.is_recursive:
        parts.append("isRecursive: Yes")
    return f"PCGOrNode({commas(parts)})"


def _name(relation: str, *patterns: str) -> str:
    return "_".join((relation, *filter(None, patterns)))
