"""Stages `logical`, `analyzed` and `optimized`: the logical plan, below what is asked for.

The lines are those of Spark's plans, and of BigDatalog's: columns that the analysis has resolved
have numbers, what it has not is marked `'`. `PlanTrees` draws the nodes of a plan; frames.py draws
the physical plan of frames with it.

A relation is drawn in full where it is first needed and only named after that; one that is very
deep down gets a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from caladan.analysis.core import CoreGoal, RelationInfo, Term
from caladan.explain.terms import (
    Tree,
    comparison,
    describe_sort,
    draw,
    expression,
    expressions,
    value,
)
from caladan.language.deals.printer import commas
from caladan.pipeline import Compiled
from caladan.program import Comparison, Constant, Variable
from caladan.program.notation import count_things
from caladan.program.transform import variables
from caladan.rules.body import Attribute, Scan, ScanKind, Version
from caladan.rules.logical import LogicalClique, LogicalPlan, LogicalRule, is_copy
from caladan.rules.operators import (
    AntiJoin,
    BroadcastHint,
    Extend,
    Join,
    Operator,
    Project,
    Prune,
    Select,
    Sort,
    SubqueryAlias,
    Unit,
    inputs,
)


def logical(compiled: Compiled) -> str:
    """The whole program, with names."""
    return _drawn(_Unresolved(compiled.unresolved))


def describe_analyzed(compiled: Compiled) -> str:
    """The same with numbers and types, below the columns of each answer."""
    plan = compiled.analyzed
    drawn = [draw(tree) for tree in PlanTrees(plan).trees()]
    heads = [commas(f"{a.name}: {a.type}" for a in each) for each in plan.answers.values()]
    asked = [goal.relation for goal in plan.goals] + list(plan.wanted)
    types = dict(zip(plan.answers, heads, strict=True))
    titles = [types[name] for name in asked] + [""] * (len(drawn) - len(asked))
    pairs = zip(titles, drawn, strict=True)
    return "\n\n".join(f"{title}\n{tree}" if title else tree for title, tree in pairs) or NOTHING


def describe_optimized(compiled: Compiled) -> str:
    """The same as it is evaluated."""
    return _drawn(PlanTrees(compiled.optimized, has_aliases=False))


def _drawn(trees: PlanTrees) -> str:
    return "\n\n".join(map(draw, trees.trees())) or NOTHING


NOTHING: Final = "(nothing to evaluate)"
_DEEPEST: Final = 40  # relations above each other in one tree

Names = Mapping[str, str]
"""What the variables of a rule are called."""


class PlanTrees:
    """Draws a plan; what it calls columns, and the lines of its leaves and joins, may differ."""

    mark = ""
    """What stands before what is not resolved."""

    def __init__(self, plan: LogicalPlan, *, has_aliases: bool = True) -> None:
        self.plan = plan
        self.relations = plan.relations
        self._has_aliases = has_aliases
        self._home = {name: each for each in plan.cliques for name in each.clique.relations}
        self._drawn: set[str] = set()  # relations
        self._depth = 0
        self._below: list[str] = []  # what is too deep where it is first needed
        self.rule: LogicalRule | None = None  # what is being drawn

    def trees(self) -> Iterator[Tree]:
        """A tree for each goal and each wanted relation, and those that are too deep for them."""
        for goal in self.plan.goals:
            yield self._answer(goal.relation, goal)
        for name in self.plan.wanted:
            yield self._answer(name, None)
        for name in self._below:  # grows meanwhile
            yield Tree(f"{self.mark}Relation {name}", (self.relation(name),))

    # ── Columns ──────────────────────────────────────────────────────────────────────────────────

    def columns(self, name: str) -> list[str]:
        """What the columns of a relation are called where it is derived or read first."""
        return list(map(str, self.plan.schema[name]))

    def leaf_names(self, scan: Scan, _alias: str) -> list[str]:
        """What the columns of a scan are called."""
        return list(map(str, scan.attributes))

    def computed(self, variable: str) -> str:
        """What a variable is called that no scan binds."""
        assert self.rule is not None
        return str(self.rule.computed.get(variable, variable))

    # ── Answers ──────────────────────────────────────────────────────────────────────────────────

    def _answer(self, name: str, goal: CoreGoal | None) -> Tree:
        columns = self.columns(name)
        tree = self.relation(name)
        if goal is not None:
            tree = self._filtered(tree, goal.arguments, columns)
        pairs = zip(columns, self.plan.answers[name], strict=True)
        tree = Tree(
            f"{self.mark}Project [{commas(self.renamed(*pair) for pair in pairs)}]", (tree,)
        )
        if not self._has_aliases:
            return tree
        return Tree(f"{self.mark}SubqueryAlias {name if goal is None else goal.name}", (tree,))

    def renamed(self, column: str, attribute: Attribute) -> str:
        """A column of an answer."""
        return f"{column} AS {attribute}"

    # ── Relations ────────────────────────────────────────────────────────────────────────────────

    def relation(self, name: str) -> Tree:
        """A relation, in full if it was not drawn before."""
        clique = self._home.get(name)
        if clique is None:
            return self.base(self.relations[name])
        if name in self._drawn:
            return Tree(f"{self.mark}Relation {name} [{commas(self.columns(name))}], see above")
        if self._depth >= _DEEPEST:
            if name not in self._below:
                self._below.append(name)
            return Tree(f"{self.mark}Relation {name} [{commas(self.columns(name))}], see below")
        self._drawn.update(clique.clique.relations)
        self._depth += 1
        outer = self.rule
        tree = self.recursion(clique) if clique.clique.is_recursive else self.derived(clique, name)
        self.rule = outer
        self._depth -= 1
        return tree

    def base(self, info: RelationInfo) -> Tree:
        """A relation that nothing derives."""
        return Tree(f"LogicalRDD [{commas(self.columns(info.name))}]")

    def facts(self, info: RelationInfo, many: int) -> Tree:
        """Facts in the program."""
        called = commas(self.columns(info.name))
        return Tree(f"{self.mark}LocalRelation [{called}], {count_things(many, 'fact')}")

    def recursion(self, clique: LogicalClique) -> Tree:
        """Exit rules, then recursive ones."""
        children: list[Tree] = []
        infos = [self.relations[name] for name in clique.clique.relations]
        for info in infos:
            sides = (self.exits(clique, info), self.rules(clique.recursive, info))
            children += [self.collected(info, union(side)) for side in sides if side]
        masks = commas(mask(clique, info) for info in infos)
        names = commas(clique.clique.relations)
        return Tree(f"{self.mark}Recursion {names}, [Driver], {masks}", tuple(children))

    def derived(self, clique: LogicalClique, name: str) -> Tree:
        """A relation that does not read itself."""
        info = self.relations[name]
        tree = union(self.exits(clique, info))
        if info.has_aggregates:
            return self.collected(info, tree)
        return Tree(f"{self.mark}Distinct", (tree,))

    def collected(self, info: RelationInfo, tree: Tree) -> Tree:
        """What aggregates make of the solutions of all rules."""
        if not info.has_aggregates:
            return tree
        return Tree(f"{self.mark}Aggregate {self.aggregation(info)}", (tree,))

    def aggregation(self, info: RelationInfo) -> str:
        """The columns that group, and the functions of the others."""
        columns = self.columns(info.name)
        pairs = zip(info.aggregates, columns, strict=True)
        functions = commas(f"{function}({column})" for function, column in pairs if function)
        return f"[{commas(columns[i] for i in info.group)}], [{functions}]"

    def exits(self, clique: LogicalClique, info: RelationInfo) -> list[Tree]:
        """What a relation starts with: data, facts of the program, rules."""
        found: list[Tree] = []
        if info.takes_data:
            found.append(self.base(info))
        if facts := self.plan.facts.get(info.name):
            found.append(self.facts(info, len(facts)))
        return [*found, *self.rules(clique.exits, info)]

    def rules(self, rules: Iterable[LogicalRule], info: RelationInfo) -> list[Tree]:
        """The trees of the rules of a relation."""
        found: list[Tree] = []
        for rule in rules:
            if rule.rule.head == info.name:
                self.rule = rule
                found.append(self._operator(rule.tree)[0])
        return found

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _operator(self, node: Operator) -> tuple[Tree, Names]:
        """An operator with those below it, and what its variables are called."""
        match node:
            case Unit():
                return Tree("OneRow"), {}
            case Scan():
                return self._leaf(node, "")
            case SubqueryAlias():
                assert isinstance(node.input, Scan)
                return self._leaf(node.input, node.alias)
            case BroadcastHint():
                return self._hinted(node, ())
            case Join() | AntiJoin():
                left, names = self._side(node.left, node.on)
                right, others = self._side(node.right, node.on)
                type = "LeftAnti" if isinstance(node, AntiJoin) else "Inner" if node.on else "Cross"
                pairs = [(names.get(v, v), others[v]) for v in node.on]
                line = self.join(node, type, pairs)
                both = names if isinstance(node, AntiJoin) else {**others, **names}
                return Tree(f"{self.mark}{line}", (left, right)), both
            case Project() if is_copy(node):
                scan = node.input
                assert isinstance(scan, Scan)
                return self.relation(scan.relation), _name_variables(
                    scan, self.leaf_names(scan, "")
                )
            case Sort():
                tree, names = self._operator(node.input)
                return Tree(f"{self.mark}{self.cut(node, names)}", (tree,)), names
            case _:
                below, names = self._operator(node.input)
                line, names = self._changed(node, names)
                return Tree(f"{self.mark}{line}", (below,)), names

    def _side(self, node: Operator, on: Sequence[str]) -> tuple[Tree, Names]:
        """A side of a join on some variables."""
        return self._hinted(node, on) if isinstance(node, BroadcastHint) else self._operator(node)

    def _hinted(self, node: BroadcastHint, on: Sequence[str]) -> tuple[Tree, Names]:
        tree, names = self._operator(node.input)
        return self.broadcast(tree, node, on), names

    def _changed(self, node: Select | Extend | Prune | Project, names: Names) -> tuple[str, Names]:
        match node:
            case Select():
                free = {v.name for c in node.conditions for v in variables(c)} - names.keys()
                names = {**names, **{name: self.computed(name) for name in free}}
                return f"Filter {self.conditions(node.conditions, names)}", names
            case Extend():
                made = node.binding.variable
                line = f"Project [*, {expression(node.binding.expression, names)} AS "
                names = {**names, made: self.computed(made)}
                return f"{line}{names[made]}]", names
            case Prune():
                return f"Project [{commas(names[v] for v in node.keep)}]", names
            case Project():
                return f"Project [{self._projected(node, names)}]", names

    def conditions(self, conditions: Sequence[Comparison], names: Names) -> str:
        """`(A#1 > 5)`."""
        return conjunction([comparison(each, names) for each in conditions])

    def _projected(self, node: Project, names: Names) -> str:
        """The columns, then what tells contributors apart."""
        assert self.rule is not None
        output = self.rule.output[: len(node.columns)]
        made = [
            expression(column, names)
            if isinstance(column, Variable) or named is None
            else f"{expression(column, names)} AS {named}"
            for column, named in zip_longest(node.columns, output)
        ]
        keys = f"; by {expressions(node.keys, names)}" if node.keys else ""
        return commas(made) + keys

    def cut(self, node: Sort, names: Names) -> str:
        """The line of a sort or limit."""
        return f"SortLimit ({describe_sort(node, names)})"

    def _leaf(self, scan: Scan, alias: str) -> tuple[Tree, Names]:
        called = self.leaf_names(scan, alias or scan.relation)
        names = _name_variables(scan, called)
        if scan.kind is ScanKind.RECURSIVE:
            tree, mark = Tree(self.recursive(scan)), ""
        else:
            tree, mark = self.relation(scan.relation), self.mark
        if alias:
            if scan.kind is not ScanKind.RECURSIVE:
                tree = Tree(f"{mark}Project [{'*' if mark else commas(called)}]", (tree,))
            tree = Tree(f"{mark}SubqueryAlias {alias}", (tree,))
            return self._filtered(tree, scan.arguments, called), names
        tree = self._filtered(tree, scan.arguments, called)
        if scan.kind is not ScanKind.RECURSIVE and names:
            tree = Tree(f"Project [{commas(names.values())}]", (tree,))
        return tree, names

    def recursive(self, scan: Scan) -> str:
        """The line of a relation of the clique that is derived."""
        clique = self._home[scan.relation]
        called = commas(map(str, scan.attributes))
        partitioned = mask(clique, self.relations[scan.relation])
        return f"{self.kind_of(scan)} {self.version(scan)}, [{called}], {partitioned}"

    def kind_of(self, scan: Scan) -> str:
        """`LinearRecursiveRelation`, if it is the only one that its rule reads."""
        return f"{'' if self._is_linear(scan) else 'Non'}LinearRecursiveRelation"

    def version(self, scan: Scan) -> str:
        """Which facts of a relation are read, where there are several to tell apart."""
        assert self.rule is not None
        if self.rule.seed is None or self._is_linear(scan):
            return scan.relation
        shown = {Version.DELTA: "δ{}", Version.NEW: "{}'"}
        return shown.get(scan.version, "{}").format(scan.relation)

    def _is_linear(self, scan: Scan) -> bool:
        assert self.rule is not None
        members = self._home[scan.relation].clique.relations
        return sum(atom.relation in members for atom in self.rule.rule.positive) == 1

    def broadcast(self, tree: Tree, node: BroadcastHint, keys: Sequence[str]) -> Tree:
        """What is to be sent to all tasks, to be met by some variables."""
        del node, keys
        return Tree(f"{self.mark}BroadcastHint", (tree,))

    def join(self, node: Join | AntiJoin, type: str, pairs: Sequence[tuple[str, str]]) -> str:
        """The line of a join on pairs of columns."""
        del node
        on = conjunction([f"{one} = {other}" for one, other in pairs])
        return f"Join {type}, {on}" if pairs else f"Join {type}"

    def _filtered(self, tree: Tree, arguments: Sequence[Term], called: Sequence[str]) -> Tree:
        """A tree below what constants and repeated variables among some arguments ask of it."""
        found: list[str] = []
        first: dict[str, str] = {}
        for argument, name in zip(arguments, called, strict=True):
            if isinstance(argument, Constant):
                found.append(f"{name} = {value(argument.value)}")
            elif argument.name in first:
                found.append(f"{first[argument.name]} = {name}")
            elif not argument.is_anonymous:
                first[argument.name] = name
        return Tree(f"{self.mark}Filter {conjunction(found)}", (tree,)) if found else tree


class _Unresolved(PlanTrees):
    """The same with names of aliases and columns."""

    mark = "'"

    def columns(self, name: str) -> list[str]:
        """By the names that the first rule has for them."""
        clique = self._home.get(name)
        rules = [] if clique is None else [*clique.recursive, *clique.exits]
        rule = next((each for each in rules if each.rule.head == name), None)
        own = [column.name for column in self.relations[name].columns]
        if rule is None:
            return [f"'{name}.{column}" for column in own]
        outer, self.rule = self.rule, rule
        names = _alias_variables(rule.written)
        made = rule.written.input if isinstance(rule.written, Sort) else rule.written
        called = [
            names.get(given.name, f"'{given.name}") if isinstance(given, Variable) else f"'{column}"
            for given, column in zip(made.columns, own, strict=False)
        ]
        self.rule = outer
        return called

    def leaf_names(self, scan: Scan, alias: str) -> list[str]:
        columns = scan.attributes or scan.columns
        return [f"'{alias}.{column.name}" for column in columns]

    def computed(self, variable: str) -> str:
        return f"'{variable}"

    def renamed(self, column: str, attribute: Attribute) -> str:
        return f"unresolvedalias({column} AS {attribute}, None)"

    def base(self, info: RelationInfo) -> Tree:
        return Tree(f"'UnresolvedRelation `{info.name}`")

    def facts(self, info: RelationInfo, many: int) -> Tree:
        called = commas(column.name for column in info.columns)
        return Tree(f"LocalRelation [{called}], {count_things(many, 'fact')}")


def _name_variables(scan: Scan, called: Sequence[str]) -> dict[str, str]:
    """The variables of a scan by what its columns are called, each by the first of them."""
    names: dict[str, str] = {}
    for argument, name in zip(scan.arguments, called, strict=True):
        if isinstance(argument, Variable) and not argument.is_anonymous:
            names.setdefault(argument.name, name)
    return names


def _alias_variables(node: Operator, alias: str = "") -> dict[str, str]:
    """What the variables of a rule are called by the aliases of its scans."""
    if isinstance(node, Scan):
        columns = node.attributes or node.columns
        return _name_variables(
            node, [f"'{alias or node.relation}.{column.name}" for column in columns]
        )
    alias = node.alias if isinstance(node, SubqueryAlias) else alias
    found: dict[str, str] = {}
    for each in inputs(node):
        found = {**_alias_variables(each, alias), **found}
    return found


def mask(clique: LogicalClique, info: RelationInfo) -> str:
    """The columns that say where facts of a relation belong: `[1, 0]`."""
    keys = clique.partitioning(info)
    return f"[{commas('1' if i in keys else '0' for i in range(info.arity))}]"


def conjunction(conditions: Sequence[str]) -> str:
    """`(A = B)`, `((A = B) AND (C = D))`."""
    if len(conditions) == 1:
        return f"({conditions[0]})"
    return f"({' AND '.join(f'({each})' for each in conditions)})"


def union(trees: list[Tree]) -> Tree:
    """Several inputs as one."""
    match trees:
        case []:
            return Tree("Empty")
        case [one]:
            return one
        case _:
            return Tree("Union", tuple(trees))
