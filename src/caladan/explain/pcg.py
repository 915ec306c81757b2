"""Stage `pcg`: the and-or tree of relations and rules, in the form BigDatalog prints it.

A node is called relation_evaluated_occurrence: the binding pattern its facts are computed under,
and the bindings where it is mentioned. Relations that only take data are not computed, so both
parts are the mention's. Comparisons stand below their rule, as built-in predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from caladan.analysis.core import Clique, RelationInfo
from caladan.analysis.pcg import AndNode, OrNode, Pcg, PcgPart
from caladan.explain.terms import comparison, expressions
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Variable
from caladan.program.notation import count_things
from caladan.program.transform import reachable

_DEEPEST: Final = 50  # rules above each other in one tree


def pcg(compiled: Compiled) -> str:
    """A tree for each goal, a blank line between them."""
    return "\n\n".join("\n".join(lines) for lines in _Tree(compiled.demanded.pcg).roots())


class _Tree:
    """Yields lines; `depth` is the number of blanks before them.

    A relation that was expanded before is mentioned, not expanded again; one that is very deep down
    gets a tree of its own. Recursive ones are shown once, as a clique with its exit and recursive
    rules and its parents, the places that mention it.
    """

    def __init__(self, program: Pcg) -> None:
        self._program = program
        self._relations = program.source.relations
        self._facts = program.source.facts
        self._home = {name: c for c in program.source.cliques for name in c.relations}
        self._seen: set[PcgPart] = set()
        self._cliques = 0
        self._rules_above = 0
        self._below: list[PcgPart] = []  # what is too deep where it is first mentioned

    def roots(self) -> Iterator[list[str]]:
        """The lines of every tree."""
        for root in self._program.roots:
            yield list(self._relation(root, 0))
        for name, pattern in self._below:  # grows meanwhile
            arguments = tuple(Variable(c.name) for c in self._relations[name].columns)
            yield list(self._relation(OrNode(name, pattern, pattern, arguments), 0))

    def _relation(self, node: OrNode, depth: int) -> Iterator[str]:
        """An or node, and below it its rules, its clique, or where its facts come from."""
        margin, clique = " " * depth, self._home.get(node.relation)
        info = self._relations[node.relation]
        is_seen = clique is not None and node.part in self._seen
        if clique is not None and not is_seen and self._rules_above >= _DEEPEST:
            if node.part not in self._below:
                self._below.append(node.part)
            yield margin + self._mention(node, "shown below")
        elif clique is not None and clique.is_recursive:
            yield margin + self._mention(node)
            if not is_seen:
                yield from self._clique(node, clique, depth + 1)
        elif is_seen:
            yield margin + self._mention(node, "shown above")
        else:
            self._seen.add(node.part)
            leaves = tuple(self._leaves(info))
            rules = self._program.rules[node.part]
            yield margin + self._mention(node, children=len(rules) + len(leaves))
            yield from (f"{margin} {leaf}" for leaf in leaves)
            for rule in rules:
                yield from self._rule(rule, depth + 1)

    def _rule(self, node: AndNode, depth: int) -> Iterator[str]:
        rule = node.rule
        name = f"{_name(rule.head, node.pattern, node.pattern)}({expressions(rule.arguments)})"
        children = len(node.children) + len(rule.comparisons)
        yield (
            f"{' ' * depth}PCGAndNode({name}, rule#: {rule.number}, #Children: {children}, "
            "predicateType: DERIVED)"
        )
        self._rules_above += 1
        for child in node.children:
            yield from self._relation(child, depth + 1)
        self._rules_above -= 1
        for each in rule.comparisons:
            yield f"{' ' * (depth + 1)}PCGOrNode({comparison(each)}, predicateType: BUILT_IN)"

    def _clique(self, mention: OrNode, clique: Clique, depth: int) -> Iterator[str]:
        """The clique below a mention from outside; mentions inside it are its other parents."""
        self._cliques += 1
        number, margin, rules = self._cliques, " " * depth, self._program.rules

        def inside(part: PcgPart) -> list[OrNode]:
            found = (child for node in rules[part] for child in node.children)
            return [child for child in found if child.relation in clique.relations]

        # Other relations and patterns of the clique are met in the bodies of its rules.
        parts = reachable([mention.part], lambda part: (child.part for child in inside(part)))
        self._seen.update(parts)
        yield f"{margin}Clique {number}"
        yield f"{margin} Parents:"
        parents = [child for part in parts for child in inside(part)]
        for place, parent in enumerate((*parents, mention), start=1):
            yield f"{margin}  {place}) {self._mention(parent)}"
        yield f"{margin} Clique Predicates:"
        for place, part in enumerate(parts, start=1):
            yield from self._predicate(part, clique, place, depth + 1)
        yield f"{margin}End Clique {number}"

    def _predicate(self, part: PcgPart, clique: Clique, place: int, depth: int) -> Iterator[str]:
        margin, nodes = " " * depth, self._program.rules[part]
        recursive = [node for node in nodes if clique.is_recursive_rule(node.rule)]
        exits = [node for node in nodes if node not in recursive]
        yield (
            f"{margin}{place}) CliquePredicate({_name(*part)}, binding: {part[1]}, "
            f"#ExitRules: {len(exits)}, #RecursiveRules: {len(recursive)})"
        )
        yield from (f"{margin} {leaf}" for leaf in self._leaves(self._relations[part[0]]))
        for title, rules in (("Exit", exits), ("Recursive", recursive)):
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
            yield f"{info.name}({columns}): {count_things(len(facts), 'fact')} in the program"

    def _mention(self, node: OrNode, shown: str = "", children: int = 1) -> str:
        """The line of an or node; of what is `shown` elsewhere it says where."""
        info = self._relations[node.relation]
        evaluated = node.evaluated if info.is_derived else node.occurrence
        name = _name(info.name, evaluated, node.occurrence)
        parts = [f"{'~' if node.negated else ''}{name}({expressions(node.arguments)})"]
        kind = f"predicateType: {'DERIVED' if info.is_derived else 'BASE'}"
        parts += [kind, shown] if shown else [f"#Children: {children}", kind]
        clique = self._home.get(info.name)
        if clique is not None and clique.is_recursive:
            parts.append("isRecursive: Yes")
        return f"PCGOrNode({commas(parts)})"


def _name(relation: str, *patterns: str) -> str:
    return "_".join((relation, *filter(None, patterns)))
