"""Stages `logical` and `optimized`: the whole program as one tree below each goal.

    logical     as it was written: atoms joined from the left, then what is negated, then all
                comparisons, then the head; names are those of the text, marked `'` until the
                analysis has resolved them
    optimized   what is handed to engines: only what goals demand, selections where their variables
                are bound first, columns that nobody reads any more pruned

A clique is a `Recursion` in both. A rule with one recursive atom reads a `LinearRecursiveRelation`,
one with several reads each as a `NonLinearRecursiveRelation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreGoal, CoreRule, RelationInfo
from caladan.explain.operators import PlanTrees, cut, named, renamed
from caladan.explain.terms import (
    RelationTrees,
    Tree,
    aggregation,
    comparisons,
    draw,
    expression,
    expressions,
    filtered,
    headings,
    shown,
    union,
)
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Aggregate, Constant
from caladan.program.notation import counted
from caladan.rules.body import Scan, ScanKind
from caladan.rules.operators import (
    AntiJoin,
    CliqueOperators,
    Join,
    OperatorProgram,
    RuleOperators,
    Sort,
)


def logical(compiled: Compiled, *, by_column: bool = False) -> str:
    """The program as it was written."""
    checked = compiled.checked
    drawing = _WrittenTrees(checked, by_column=by_column)
    return _drawn(drawing.trees(checked.goals, _unasked(checked), "'"))


def optimized(compiled: Compiled, *, by_column: bool = False) -> str:
    """The program as it is handed to engines."""
    program = compiled.operators
    drawing = _OptimizedTrees(program, by_column=by_column)
    return _drawn(drawing.trees(program.goals, compiled.demanded.wanted))


def _drawn(trees: Iterable[Tree]) -> str:
    return "\n\n".join(map(draw, trees)) or "(nothing to evaluate)"


def _unasked(checked: Checked) -> list[str]:
    """Without goals, what is derived and nothing else reads."""
    if checked.goals:
        return []
    read = {a.relation for rule in checked.rules for a in rule.atoms if a.relation != rule.head}
    return [
        name for name, info in checked.relations.items() if info.is_derived and name not in read
    ]


def _kind(rule: CoreRule, relations: Sequence[str]) -> str:
    """What a recursive atom of a rule is read as."""
    atoms = sum(a.relation in relations for a in rule.positive)
    return "LinearRecursiveRelation" if atoms == 1 else "NonLinearRecursiveRelation"


def _recursion(relations: Sequence[RelationInfo]) -> str:
    outputs = commas(f"[{headings(info)}]" for info in relations)
    return f"Recursion {commas(info.name for info in relations)}, [Driver], {outputs}"


def _aggregate(info: RelationInfo, tree: Tree) -> Tree:
    keys, functions = aggregation(info)
    return Tree(f"Aggregate [{keys}], [{functions}]", (tree,))


# ── As written ───────────────────────────────────────────────────────────────────────────────────


class _WrittenTrees(RelationTrees[Clique]):
    def __init__(self, checked: Checked, *, by_column: bool) -> None:
        home = {name: clique for clique in checked.cliques for name in clique.relations}
        super().__init__(checked.relations, home)
        self._checked = checked
        self._by_column = by_column

    def goal(self, goal: CoreGoal) -> Tree:
        """What a goal asks for: by its own name, before demand."""
        tree = self.relation(goal.name if goal.name in self._relations else goal.relation)
        info = self._relations[goal.name if goal.name in self._relations else goal.relation]
        return filtered(tree, goal.arguments, [c.name for c in info.columns], "'")

    def base(self, info: RelationInfo) -> Tree:
        """Data, which nobody has looked at yet."""
        return Tree(f"'UnresolvedRelation {info.name}")

    def clique(self, clique: Clique, info: RelationInfo) -> Tree:
        """Exit rules, then recursive ones."""
        infos = [self._relations[name] for name in clique.relations]
        if not clique.is_recursive:
            return self._derived(clique.rules, info)
        exits = [self._derived(clique.exit_rules, each) for each in infos if self._starts(each)]
        rules = [self._rule(rule, clique) for rule in clique.recursive_rules]
        return Tree(f"'{_recursion(infos)}", (*exits, *rules))

    def _starts(self, info: RelationInfo) -> bool:
        clique = self._home[info.name]
        facts = self._checked.facts.get(info.name)
        return bool(info.takes_data or facts or any(r.head == info.name for r in clique.exit_rules))

    def _derived(self, rules: Sequence[CoreRule], info: RelationInfo) -> Tree:
        clique = self._home[info.name]
        trees = list(_given(info, self._checked, "'"))
        trees += [self._rule(rule, clique) for rule in rules if rule.head == info.name]
        return union(trees)

    def _rule(self, rule: CoreRule, clique: Clique) -> Tree:
        names: dict[str, str] = {}
        tree: Tree | None = None
        positive = list(rule.positive)
        for number, atom in enumerate(positive, start=1):
            leaf, own = self._leaf(atom, f"{atom.relation}{number}", rule, clique)
            if tree is None:
                tree = leaf
            else:
                shared = [f"{names[v]} = {own[v]}" for v in own if v in names]
                on = f", ({' and '.join(shared)})" if shared else ""
                tree = Tree(f"'Join {'Inner' if shared else 'Cross'}{on}", (tree, leaf))
            names = {**own, **names}
        tree = Tree("OneRow") if tree is None else tree
        for number, atom in enumerate((a for a in rule.atoms if a.negated), start=1):
            alias = f"{atom.relation}{len(positive) + number}"
            leaf, own = self._leaf(atom, alias, rule, clique)
            shared = [f"{names.get(v, v)} = {column}" for v, column in own.items()]
            on = f", ({' and '.join(shared)})" if shared else ""
            tree = Tree(f"'Join LeftAnti{on}", (tree, leaf))
        if rule.comparisons:
            tree = Tree(f"'Filter ({comparisons(rule.comparisons, names)})", (tree,))
        return self._head(rule, names, tree)

    def _head(self, rule: CoreRule, names: dict[str, str], tree: Tree) -> Tree:
        if rule.has_aggregates:
            keys = expressions((a for a in rule.arguments if not isinstance(a, Aggregate)), names)
            made = commas(
                f"{a.function}({expressions(a.terms, names) or '*'})"
                for a in rule.arguments
                if isinstance(a, Aggregate)
            )
            tree = Tree(f"'Aggregate [{keys}], [{made}]", (tree,))
        else:
            tree = Tree(f"'Project [{expressions(rule.arguments, names)}]", (tree,))
        if rule.order:
            keys = commas(
                f"{expression(k.variable, names)}{' desc' if k.descending else ''}"
                for k in rule.order
            )
            tree = Tree(f"'Sort [{keys}]", (tree,))
        return tree if rule.limit is None else Tree(f"'Limit {rule.limit}", (tree,))

    def _leaf(
        self, atom: CoreAtom, alias: str, rule: CoreRule, clique: Clique
    ) -> tuple[Tree, dict[str, str]]:
        """An atom below its alias, and what its variables are called."""
        info = self._relations[atom.relation]
        is_recursive = atom.relation in clique.relations and not atom.negated
        shows_columns = self._by_column or not info.is_derived
        called = [
            a.name
            if not shows_columns and not isinstance(a, Constant) and not a.is_anonymous
            else column.name
            for a, column in zip(atom.arguments, info.columns, strict=True)
        ]
        if is_recursive:
            leaf = Tree(f"{_kind(rule, clique.relations)} {atom.relation}, [{commas(called)}]")
        else:
            leaf = self.relation(atom.relation)
        tree = Tree(f"'SubqueryAlias {alias}", (leaf,))
        own: dict[str, str] = {}
        for argument, name in zip(atom.arguments, called, strict=True):
            if not isinstance(argument, Constant) and not argument.is_anonymous:
                own.setdefault(argument.name, f"{alias}.{name}")
        names = [f"{alias}.{name}" for name in called]
        return filtered(tree, atom.arguments, names, "'"), own


def _given(info: RelationInfo, checked: Checked, mark: str) -> Iterator[Tree]:
    """Facts that are not derived."""
    if info.takes_data:
        yield Tree(f"{mark}UnresolvedRelation {info.name}" if mark else f"Relation {shown(info)}")
    if facts := checked.facts.get(info.name):
        yield Tree(f"LocalRelation {shown(info)}, {counted(len(facts), 'fact')}")


# ── Optimised ────────────────────────────────────────────────────────────────────────────────────


class _OptimizedTrees(RelationTrees[CliqueOperators], PlanTrees):
    def __init__(self, program: OperatorProgram, *, by_column: bool) -> None:
        home = {name: each for each in program.cliques for name in each.clique.relations}
        super().__init__(program.relations, home)
        self._program = program
        self._by_column = by_column
        self._reads = ""  # what the recursive atoms of the rule being drawn are read as

    def base(self, info: RelationInfo) -> Tree:
        return Tree(f"Relation {shown(info)}")

    def clique(self, clique: CliqueOperators, info: RelationInfo) -> Tree:
        """Exit rules, then recursive ones; outside of recursion, all rules as one."""
        core = clique.clique
        infos = [self._relations[name] for name in core.relations]
        if not core.is_recursive:
            tree = union(
                [*_given(info, self._program.checked, ""), *self._rules(clique.exit, info)]
            )
            return _aggregate(info, tree) if info.has_aggregates else Tree("Distinct", (tree,))
        children: list[Tree] = []
        for each in infos:
            exits = [*_given(each, self._program.checked, ""), *self._rules(clique.exit, each)]
            for inputs in (exits, list(self._rules(clique.recursive, each))):
                if inputs:
                    tree = union(inputs)
                    children.append(_aggregate(each, tree) if each.has_aggregates else tree)
        return Tree(_recursion(infos), tuple(children))

    def _rules(self, rules: Sequence[RuleOperators], info: RelationInfo) -> Iterator[Tree]:
        for rule in rules:
            if rule.rule.head == info.name:
                relations = self._home[info.name].clique.relations
                self._reads, outer = _kind(rule.rule, relations), self._reads
                yield self.operator(named(rule.plan, by_column=self._by_column))
                self._reads = outer

    def join(self, node: Join | AntiJoin, type: str, columns: tuple[list[str], list[str]]) -> str:
        on = " and ".join(f"{one} = {other}" for one, other in zip(*columns, strict=True))
        return f"Join {type}" + (f", ({on})" if on else "")

    def cut(self, node: Sort, names: Mapping[str, str]) -> str:
        return f"SortLimit ({cut(node, names)})"

    def scan(self, node: Scan, names: Mapping[str, str]) -> Tree:
        if node.kind is ScanKind.RECURSIVE:
            called = commas(node.column_names) if self._by_column else expressions(node.arguments)
            return Tree(f"{self._reads} {node.relation}, [{called}]")
        tree = self.relation(node.relation)
        tree = filtered(tree, node.arguments, node.column_names)
        return tree if self._by_column else renamed(tree, node, names)
