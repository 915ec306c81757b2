"""Missing values, compiled away: what engines evaluate has a value in every column.

    v(A, B) <- org(A, V, _), org(B, V, _), A < B.          `vat` of `org` has missing values

A column that may lack values gets a second one in front of it, which says whether there is one:
`org(id, vat?, vat, name)`. A row without a value has `false` there, and a value that stands for
nothing in the column itself, so that two such rows are equal in all columns or in none. A rule
then asks for `true` where values meet, and hands the second column on where a value travels:

    v(A, B) <- org(A, true, V, _), org(B, true, V, _), A < B.
    w(V, V?) <- org(_, V?, V, _).

Engines, layouts and kernels know nothing of this. A program whose data has no missing values, and
which mentions none, stays as it is.

`check_null` refuses `null` where it would have to be equal to something.
`complete` is the pass: `nullable` says which columns of data lack values; which columns of derived
relations may do follows, as the least solution of what rules hand on. In a rule

- a variable of two atoms has a value in both; so has one that is compared, or computed with;
- a rule that computes from a value that may be missing becomes two: one where it is there, one
  where it is not and expressions of it are missing too. `coalesce`, `if`, `missing` and `present`
  are decided then, and a negated atom with a missing value holds;
- an aggregate passes over missing values. The groups in which it finds no value come from a second
  relation of all groups: `sum` of nothing but missing values is missing, `count` of them is 0.
  Within recursion a group has no fact until it has a value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, TypeAlias, cast

from caladan.analysis.core import (
    Checked,
    CoreAtom,
    CoreGoal,
    CoreRule,
    RelationInfo,
    Term,
    with_open,
)
from caladan.analysis.strata import restratify
from caladan.analysis.type_check import partial_type
from caladan.program import (
    NULL,
    OPPOSITE,
    Aggregate,
    Arithmetic,
    Atom,
    Call,
    Column,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Object,
    Program,
    SortKey,
    Type,
    Value,
    Variable,
    names,
)
from caladan.program.aggregates import (
    AggregateFunction,
    counts_solutions,
    has_empty_value,
    row_of,
)
from caladan.program.diagnostics import Diagnostics, error
from caladan.program.functions import NestedCall
from caladan.program.nested import pack
from caladan.program.transform import fresh, replace_in, walk
from caladan.program.types import Kind

MissingPlace: TypeAlias = tuple[str, int]
"""A column of a relation."""

Nullable: TypeAlias = Mapping[str, Collection[str]]
"""By relation of data the names of its columns that lack values."""

_TRUE, _FALSE = Constant(True), Constant(False)
_NULL: Final = Constant(NULL)
_MOST_WAYS: Final = 256

_STAND_INS: Final[dict[Kind, Value]] = {
    Kind.INTEGER: 0,
    Kind.FLOAT: 0.0,
    Kind.STRING: "",
    Kind.BOOLEAN: False,
    Kind.DATETIME: dt.datetime(1970, 1, 1),
    Kind.DATE: dt.date(1970, 1, 1),
    Kind.INTERVAL: dt.timedelta(0),
    Kind.DECIMAL: Decimal(0),
    Kind.BINARY: b"",
    Kind.LIST: pack((), Type.LIST),
    Kind.STRUCT: pack((), Type.STRUCT),
    Kind.OBJECT: Object(None, lambda _: 0),
}


def presence_column(column: Column) -> Column:
    """The column in front of another one that says whether that has a value."""
    return Column(f"{column.name}?", Type.BOOLEAN, role="present")


def stand_in(type: Type) -> Value:
    """What a column of a type has where its value is missing."""
    return _STAND_INS[type.kind]


@dataclass(frozen=True, slots=True)
class CompleteProgram:
    """A program in which no value is missing, and which columns of the written one may lack some.

    Columns of `checked` that stand for one of these come as two. Which rules there are depends on
    what the data that is `asked` lacks, also where none of them reads it.
    """

    checked: Checked
    nullable: frozenset[MissingPlace] = frozenset()
    asked: frozenset[str] = frozenset()


# ── Programs as they are written ─────────────────────────────────────────────────────────────────


def mentions_missing(program: Program) -> bool:
    """Whether `null` stands in a rule or a fact."""
    for rule in program.rules:
        if not rule.body and any(isinstance(a, Constant) for a in rule.head.arguments):
            if any(isinstance(a, Constant) and a.value is NULL for a in rule.head.arguments):
                return True
        elif any(isinstance(n, Constant) and n.value is NULL for n in walk(rule)):
            return True
    return False


def check_null(program: Program, found: Diagnostics) -> None:
    """C025 where `null` is matched or compared, which nothing is equal to."""
    for goal in program.goals:
        for argument in goal.atom.arguments:
            _refuse(argument, "a goal", found)
    for rule in program.rules:
        for node in walk(rule.body) if rule.body else ():
            match node:
                case Atom():
                    for argument in node.arguments:
                        _refuse(argument, f"`{node.relation}`", found)
                case Comparison():
                    for side in (node.left, node.right):
                        _refuse(side, "a comparison", found)
                case _:
                    pass
    if any(each.code == "C025" for each in found.errors):
        found.raise_errors()  # it has no type, and nothing more can be said


def _refuse(node: Expression, where: str, found: Diagnostics) -> None:
    if isinstance(node, Constant) and node.value is NULL:
        found.add(
            "C025",
            f"`null` in {where} equals nothing",
            node.span,
            help="test for missing values with `missing(X)` or `present(X)`; quote the text: "
            "'null'",
        )


# ── The pass ─────────────────────────────────────────────────────────────────────────────────────


def complete(checked: Checked, nullable: Nullable) -> CompleteProgram:
    """The program over columns that lack no values."""
    given = {
        (name, i)
        for name, info in checked.relations.items()
        if info.takes_data
        for i, column in enumerate(info.columns)
        if column.name in nullable.get(info.origin, ())
    }
    given |= {
        (name, i)
        for name, rows in checked.facts.items()
        for row in rows
        for i, value in enumerate(row)
        if value is NULL
    }
    if not given and not any(map(_mentions, checked.rules)):
        return CompleteProgram(checked)
    return _Completion(checked, given).result()


def _mentions(rule: CoreRule) -> bool:
    """Whether a rule says something about missing values, or counts what may be one."""
    for node in walk(rule.arguments, rule.comparisons):
        match node:
            case Constant(value) if value is NULL:
                return True
            case Call("missing" | "present" | "coalesce"):
                return True
            case Aggregate() if node.terms and counts_solutions(node):
                return True
            case _:
                pass
    return False


@dataclass(frozen=True, slots=True)
class _Way:
    """A rule where it is known which variables have a value; `open` may, or may not, have one."""

    rule: CoreRule
    missing: frozenset[str]
    open: frozenset[str]

    def lacks(self, node: Expression) -> bool:
        """Whether an argument of the head may have no value."""
        return _is_null(node) or (isinstance(node, Variable) and node.name in self.open)


def _is_null(node: Expression) -> bool:
    return isinstance(node, Constant) and node.value is NULL


@dataclass(slots=True)
class _Completion:
    checked: Checked
    nullable: set[MissingPlace]
    added: dict[str, RelationInfo] = field(default_factory=dict[str, RelationInfo])
    """Relations that come about on the way."""
    taken: set[str] = field(default_factory=set[str])

    def result(self) -> CompleteProgram:
        checked = self.checked
        self.taken |= checked.relations.keys()
        rules = [each for rule in checked.rules for each in self._uncut(rule)]
        ways = self._settle(rules)
        by_head: dict[str, list[_Way]] = {}
        for found in ways:
            for way in found:
                by_head.setdefault(way.rule.head, []).append(way)
        made: list[CoreRule] = []
        # Relations none of whose rules can fire aggregate nothing.
        silent = {r.head for r in rules if self._info(r.head).has_aggregates} - by_head.keys()
        rewritten = set(silent)
        for head, own in by_head.items():
            info = self._info(head)
            if info.has_aggregates and any(
                _is_skipped(way, i) for way in own for i in _terms(info)
            ):
                made += self._grouped(info, own)
                rewritten.add(head)
            else:
                made += [self._physical(way) for way in own]
        relations = {
            name: self._columns(info, plain=name in rewritten)
            for name, info in {**checked.relations, **self.added}.items()
        }
        facts = {name: self._facts(name, rows) for name, rows in checked.facts.items()}
        for name in silent:
            info = checked.relations[name]
            if not info.group and has_empty_value(info.aggregates):
                facts[name] = self._facts(name, [tuple(_empty_values(info))])
        open_facts = {
            name: tuple(self._constants(name, row) for row in rows)
            for name, rows in checked.open_facts.items()
        }
        closed = {n: r[: len(r) - len(open_facts.get(n, ()))] for n, r in facts.items()}
        whole = replace(
            checked,
            goals=tuple(map(self._goal, checked.goals)),
            facts=with_open(closed, open_facts),
            open_facts=open_facts,
        )
        numbered = [replace(rule, place=0) for rule in made]
        final = restratify(whole, relations, numbered)
        read = {a.relation for rule in rules for a in rule.atoms}
        asked = [n for n, info in checked.relations.items() if info.takes_data and n in read]
        return CompleteProgram(final, frozenset(self.nullable), frozenset(asked))

    def _info(self, name: str) -> RelationInfo:
        return self.added[name] if name in self.added else self.checked.relations[name]

    def _add(
        self,
        stem: str,
        columns: Sequence[Column],
        aggregates: Sequence[AggregateFunction | None] = (),
    ) -> str:
        name = fresh(stem, self.taken)
        functions = aggregates or [None] * len(columns)
        self.added[name] = RelationInfo(
            name, tuple(columns), False, True, tuple(functions), name, is_internal=True,
        )  # fmt: skip
        return name

    def _uncut(self, rule: CoreRule) -> list[CoreRule]:
        """A rule that sorts or cuts, over a relation of its solutions: it may become several."""
        if not rule.order and rule.limit is None:
            return [rule]
        is_plain = len(rule.atoms) == 1 and not rule.comparisons and not rule.atoms[0].negated
        if is_plain and all(isinstance(a, Variable) for a in rule.arguments):
            return [rule]
        info = self.checked.relations[rule.head]
        keys = tuple(key.variable for key in rule.order)
        columns = [*info.columns]
        columns += [
            Column(fresh(k.name, {c.name for c in columns}), rule.types[k.name]) for k in keys
        ]
        name = self._add(f"{rule.head}_solutions", columns)
        shown = tuple(Variable(f"_{i}") for i in range(1, len(columns) + 1))
        types = {v.name: c.type for v, c in zip(shown, columns, strict=True)}
        inner = replace(
            rule, head=name, arguments=(*rule.arguments, *keys), order=(), limit=None, origin=name
        )
        places = shown[len(info.columns) :]
        order = tuple(
            replace(key, variable=variable)
            for key, variable in zip(rule.order, places, strict=True)
        )
        outer = replace(
            rule,
            arguments=shown[: len(info.columns)],
            atoms=(CoreAtom(name, shown, span=rule.span),),
            comparisons=(),
            types=types,
            order=order,
        )
        return [inner, outer]

    # ── Which columns may lack values ────────────────────────────────────────────────────────────

    def _settle(self, rules: Sequence[CoreRule]) -> list[list[_Way]]:
        """The ways of each rule, once no rule makes another column lack values."""
        reading: dict[str, set[int]] = {}
        for i, rule in enumerate(rules):
            for atom in rule.atoms:
                reading.setdefault(atom.relation, set()).add(i)
        ways: list[list[_Way]] = [[] for _ in rules]
        waiting = set(range(len(rules)))
        while waiting:
            i = min(waiting)
            waiting.remove(i)
            ways[i] = self._ways(rules[i])
            head = self._info(rules[i].head)
            for way in ways[i]:
                for j, argument in enumerate(way.rule.arguments):
                    if (
                        self._may_lack(head, way, j, argument)
                        and (head.name, j) not in self.nullable
                    ):
                        self.nullable.add((head.name, j))
                        waiting |= reading.get(head.name, set())
        return ways

    def _may_lack(self, head: RelationInfo, way: _Way, place: int, argument: Expression) -> bool:
        if not isinstance(argument, Aggregate):
            return way.lacks(argument)
        return _is_skipped(way, place) and row_of(argument).counts is None

    # ── Ways ─────────────────────────────────────────────────────────────────────────────────────

    def _ways(self, rule: CoreRule) -> list[_Way]:
        """A rule by what is missing; those that cannot fire are left out."""
        bound = frozenset(v for a in rule.positive for v in a.variables)
        computed = names(*rule.comparisons) - bound
        found: list[_Way] = []
        waiting = [(rule, frozenset[str](), self._open(rule))]
        while waiting:
            state, missing, undecided = waiting.pop()
            settled = _simplify(state, missing, undecided | computed, bound)
            if settled is None:
                continue
            state, missing = settled
            if matters := _matters(state) & undecided:
                name = min(matters)
                rest = undecided - {name}
                waiting += [(state, missing | {name}, rest), (state, missing, rest)]
                continue
            if (choice := _undecided_choice(state)) is not None:
                waiting += [(each, missing, undecided) for each in _branches(state, choice)]
                continue
            # What is computed is there now, or it would be known to be missing.
            settled = _simplify(state, missing, undecided, bound)
            if settled is not None:
                found.append(_Way(*settled, undecided))
            if len(found) > _MOST_WAYS:
                raise _too_many(rule)
        if self._filters(self._info(rule.head)):
            found = [
                w for w in found if not any(_is_skipped(w, i) for i in range(len(rule.arguments)))
            ]
        return found

    def _filters(self, info: RelationInfo) -> bool:
        """Whether solutions without a value to aggregate are left out altogether."""
        if not info.has_aggregates:
            return False
        if info.takes_data or info.name in self.checked.facts:
            return True
        return any(info.name in c.relations and c.is_recursive for c in self.checked.cliques)

    def _open(self, rule: CoreRule) -> frozenset[str]:
        """The variables that may be missing: in one atom, in a column that lacks values."""
        met: dict[str, int] = {}
        present: set[str] = set()
        for atom in rule.positive:
            matched = self._info(atom.relation).matches_missing
            for i, term in enumerate(atom.arguments):
                if isinstance(term, Variable):
                    met[term.name] = met.get(term.name, 0) + (not matched)
                    if (atom.relation, i) not in self.nullable:
                        present.add(term.name)
        return frozenset(n for n, times in met.items() if times <= 1 and n not in present)

    # ── Rules over two columns ───────────────────────────────────────────────────────────────────

    def _physical(self, way: _Way) -> CoreRule:
        """A way as a rule, with the columns that say whether there is a value."""
        info, rule = self._info(way.rule.head), way.rule
        arguments: list[Expression] = []
        for i, argument in enumerate(rule.arguments):
            if isinstance(argument, Aggregate):
                argument = _count_solutions(argument)
            arguments += self._pair((rule.head, i), argument, info.columns[i].type, way)
        return replace(
            rule,
            arguments=tuple(arguments),
            atoms=tuple(self._atom(atom, way) for atom in rule.atoms),
            order=tuple(key for each in rule.order for key in _keys(each, way)),
            types={**rule.types, **{_flag(name): Type.BOOLEAN for name in way.open}},
        )

    def _pair(
        self, place: MissingPlace, node: Expression, type: Type, way: _Way
    ) -> Iterator[Expression]:
        """An argument of a head: whether it is there, if its column may lack values, and itself."""
        if place not in self.nullable:
            yield node
        elif _is_null(node):
            yield _FALSE
            yield Constant(stand_in(type))
        else:
            is_open = isinstance(node, Variable) and node.name in way.open
            yield Variable(_flag(node.name)) if is_open else _TRUE  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
            yield node

    def _atom(self, atom: CoreAtom, way: _Way) -> CoreAtom:
        terms: list[Term] = []
        for i, term in enumerate(atom.arguments):
            if (atom.relation, i) in self.nullable:
                terms.append(self._asked(term, way))
            terms.append(term)
        return replace(atom, arguments=tuple(terms))

    def _asked(self, term: Term, way: _Way) -> Term:
        """What the column in front of a term has to say."""
        if isinstance(term, Constant):
            return _TRUE
        if term.is_anonymous:
            return term
        if term.name in way.missing:
            return _FALSE
        return Variable(_flag(term.name)) if term.name in way.open else _TRUE

    # ── Aggregates ───────────────────────────────────────────────────────────────────────────────

    def _grouped(self, info: RelationInfo, ways: Sequence[_Way]) -> list[CoreRule]:
        """A relation that aggregates values some of which are missing, by a relation of all groups.

        p(A, sum<V>) <- tx(A, V).       p_groups(A) <- tx(A, V?, V).
                                        p_sum(A, sum<V>) <- tx(A, true, V).
                                        p(A, true, S) <- p_sum(A, S).
                                        p(A, false, 0) <- p_groups(A), ~p_sum(A, _).
        """
        rule = ways[0].rule
        group = [c for i in info.group for c in self._pair_of_columns(info, i)]
        is_global = not info.group
        if is_global:
            group = [Column("one", Type.INTEGER)]
        shown = [Variable(f"_{i}") for i in range(1, len(group) + 1)]
        kinds = {v.name: c.type for v, c in zip(shown, group, strict=True)}

        def keys(way: _Way) -> list[Expression]:
            if is_global:
                return [Constant(1)]
            return [
                each
                for i in info.group
                for each in self._pair(
                    (info.name, i), way.rule.arguments[i], info.columns[i].type, way
                )
            ]

        def feed(name: str, way: _Way, more: Sequence[Expression]) -> CoreRule:
            plain = self._physical(replace(way, rule=replace(way.rule, head=name, arguments=())))
            return replace(plain, arguments=(*keys(way), *more), origin=info.name)

        def rest(head: str, arguments: Sequence[Expression], atoms: Sequence[CoreAtom]) -> CoreRule:
            return replace(
                rule, head=head, arguments=tuple(arguments), atoms=tuple(atoms), comparisons=(),
                types=types, origin=info.name,
            )  # fmt: skip

        groups = self._add(f"{info.name}_groups", group)
        made = [feed(groups, way, ()) for way in ways]
        values: dict[int, str] = {}
        types = dict(kinds)
        for i in _terms(info):
            has_values = any(not _is_skipped(way, i) for way in ways)
            function = info.aggregates[i] if has_values else None
            values[i] = self._add(
                f"{info.name}_{info.aggregates[i]}",
                [*group, info.columns[i]],
                [*([None] * len(group)), function],
            )
            types[f"_v{i}"] = info.columns[i].type
            types[f"_p{i}"] = Type.BOOLEAN
            for way in ways:
                if not _is_skipped(way, i):
                    term = cast("Aggregate", way.rule.arguments[i])
                    made.append(feed(values[i], way, [_count_solutions(term)]))
        found = CoreAtom(groups, tuple(shown))
        atoms: list[CoreAtom] = []
        for i, name in values.items():
            value, flag = Variable(f"_v{i}"), Variable(f"_p{i}")
            looked_up = CoreAtom(name, (*shown, value))
            if not any(_is_skipped(way, i) for way in ways):
                atoms.append(looked_up)
                continue
            column, row = info.columns[i], info.aggregates[i]
            assert row is not None
            lacks = (info.name, i) in self.nullable
            either = self._add(
                f"{info.name}_or_none",
                [*group, *([presence_column(column)] if lacks else []), column],
            )
            there = [_TRUE, value] if lacks else [value]
            other = Constant(stand_in(column.type))
            none = [_FALSE, other] if lacks else [Constant(cast("Value", row.identity))]
            absent = CoreAtom(name, (*shown, Variable("_")), negated=True)
            made.append(rest(either, [*shown, *there], [looked_up]))
            made.append(rest(either, [*shown, *none], [found, absent]))
            atoms.append(CoreAtom(either, (*shown, *([flag] if lacks else []), value)))
        arguments: list[Expression] = []
        places = iter(shown)
        for i in range(info.arity):
            lacks = (info.name, i) in self.nullable
            if info.aggregates[i] is None:
                arguments += [next(places) for _ in range(1 + lacks)]
            else:
                arguments += [*([Variable(f"_p{i}")] if lacks else []), Variable(f"_v{i}")]
        made.append(rest(info.name, arguments, atoms))
        if is_global and has_empty_value(info.aggregates):
            zero: list[Expression] = []
            for i, value in enumerate(_empty_values(info)):
                zero += [_TRUE] if (info.name, i) in self.nullable else []
                zero.append(Constant(value))
            nothing = CoreAtom(groups, (Constant(1),), negated=True)
            made.append(rest(info.name, zero, [nothing]))
        return [replace(each, place=0) for each in made]

    # ── Relations, facts and goals ───────────────────────────────────────────────────────────────

    def _pair_of_columns(self, info: RelationInfo, i: int) -> Iterator[Column]:
        if (info.name, i) in self.nullable:
            yield presence_column(info.columns[i])
        yield info.columns[i]

    def _columns(self, info: RelationInfo, *, plain: bool) -> RelationInfo:
        if not plain and not any((info.name, i) in self.nullable for i in range(info.arity)):
            return info
        columns: list[Column] = []
        functions: list[AggregateFunction | None] = []
        at: list[int] = []
        for i in range(info.arity):
            pair = list(self._pair_of_columns(info, i))
            functions += [None] * (len(pair) - 1) + [None if plain else info.aggregates[i]]
            columns += pair
            at.append(len(columns) - 1)
        order: list[tuple[int, bool]] = []
        for i, descending in info.order:
            if (info.name, i) in self.nullable:
                order.append((at[i] - 1, descending))
            order.append((at[i], descending))
        return replace(
            info,
            columns=tuple(columns),
            aggregates=tuple(functions),
            order=tuple(order),
        )

    def _facts(self, name: str, rows: Sequence[tuple[Value, ...]]) -> tuple[tuple[Value, ...], ...]:
        info = self._info(name)
        if not any((name, i) in self.nullable for i in range(info.arity)):
            return tuple(rows)
        return tuple(
            tuple(
                each
                for i, value in enumerate(row)
                for each in (
                    (value,)
                    if (name, i) not in self.nullable
                    else (False, stand_in(info.columns[i].type))
                    if value is NULL
                    else (True, value)
                )
            )
            for row in rows
        )

    def _constants(self, name: str, row: Sequence[Constant]) -> tuple[Constant, ...]:
        info = self._info(name)
        found: list[Constant] = []
        for i, constant in enumerate(row):
            if (name, i) in self.nullable:
                found.append(_FALSE if constant.value is NULL else _TRUE)
            is_null = constant.value is NULL
            found.append(Constant(stand_in(info.columns[i].type)) if is_null else constant)
        return tuple(found)

    def _goal(self, goal: CoreGoal) -> CoreGoal:
        info = self._info(goal.relation)
        if not any((goal.relation, i) in self.nullable for i in range(info.arity)):
            return goal
        asked = [a.name for a in goal.arguments if isinstance(a, Variable)]
        arguments: list[Term] = []
        columns: list[Column] = []
        for i, term in enumerate(goal.arguments):
            if (goal.relation, i) in self.nullable:
                is_met = isinstance(term, Constant) or (
                    not term.is_anonymous and asked.count(term.name) > 1
                )
                arguments.append(_TRUE if is_met else Variable("_"))
                columns.append(presence_column(goal.columns[i]))
            arguments.append(term)
            columns.append(goal.columns[i])
        return replace(goal, arguments=tuple(arguments), columns=tuple(columns))


def _terms(info: RelationInfo) -> list[int]:
    """The columns of aggregates."""
    return [i for i, function in enumerate(info.aggregates) if function is not None]


def _is_skipped(way: _Way, place: int) -> bool:
    """Whether an aggregate passes over the solutions of a way."""
    argument = way.rule.arguments[place]
    return isinstance(argument, Aggregate) and any(map(_is_null, argument.terms))


def _count_solutions(node: Aggregate) -> Aggregate:
    """`count<X>` counts solutions, once those without X are gone."""
    return replace(node, terms=()) if counts_solutions(node) else node


def _empty_values(info: RelationInfo) -> Iterator[Value]:
    """What aggregates without groups give where there is no solution."""
    for row, column in zip(info.aggregates, info.columns, strict=True):
        assert row is not None and row.identity is not None
        value = row.identity
        yield float(value) if column.type.is_floating and isinstance(value, int) else value


def _flag(name: str) -> str:
    return f"{name}?"


def _keys(key: SortKey, way: _Way) -> Iterator[SortKey]:
    """What is missing comes first, or last if descending."""
    if key.variable.name in way.open:
        yield replace(key, variable=Variable(_flag(key.variable.name)))
    yield key


def _matters(rule: CoreRule) -> frozenset[str]:
    """Variables of which a rule does more than hand them on."""
    inside = [a for a in rule.arguments if not isinstance(a, Variable)]
    return names(*rule.comparisons, *inside) | names(*(a for a in rule.atoms if a.negated))


def _undecided_choice(rule: CoreRule) -> Conditional | None:
    """An `if` of values one of which is `null`: the rule takes both ways."""
    for node in walk(rule.comparisons, rule.arguments):
        if isinstance(node, Conditional) and any(
            _is_null(part) for part in walk(node.then, node.otherwise)
        ):
            return node
    return None


def _branches(rule: CoreRule, choice: Conditional) -> Iterator[CoreRule]:
    """A rule where the condition of an `if` holds, and where one of its comparisons does not."""

    type = partial_type(choice, rule.types)

    def taken(tests: tuple[Comparison, ...], value: Expression) -> CoreRule:
        if type is not None and any(isinstance(n, Call | Arithmetic) for n in walk(value)):
            # Engines may compute it before they test, so it has a value everywhere.
            value = Conditional(tests, value, Constant(stand_in(type)), choice.span)
        chosen = replace_in(rule, lambda node: value if node == choice else None)
        return replace(chosen, comparisons=(*chosen.comparisons, *tests))

    yield taken(choice.condition, choice.then)
    for i, failing in enumerate(choice.condition):
        opposite = replace(failing, operator=OPPOSITE[failing.operator])
        yield taken((*choice.condition[:i], opposite), choice.otherwise)


def _too_many(rule: CoreRule) -> Exception:
    return error(
        "C024",
        f"rule {rule.number} computes with too many values that may be missing",
        rule.span,
        help="add `present(X)` for values that are never missing, or compute in several rules",
    )


# ── Expressions without some values ──────────────────────────────────────────────────────────────


def _simplify(
    rule: CoreRule, missing: frozenset[str], undecided: frozenset[str], bound: frozenset[str]
) -> tuple[CoreRule, frozenset[str]] | None:
    """A rule without what is known to be missing, and all that is; None if it cannot fire."""
    while True:
        fold = _Folding(missing, undecided, rule.types)
        comparisons: list[Comparison] = []
        more: set[str] = set()
        for comparison in rule.comparisons:
            left, right = fold.value(comparison.left), fold.value(comparison.right)
            if _is_null(left) or _is_null(right):
                other = right if _is_null(left) else left
                is_bound = not isinstance(other, Variable) or other.name in bound | more
                if comparison.operator == "=" and not is_bound:
                    more.add(cast("Variable", other).name)
                    continue
                return None
            match (comparison.operator, left, right):
                case ("=" | "~=" as operator, Constant(bool(one)), Constant(bool(other))):
                    if (one == other) != (operator == "="):
                        return None
                case _:
                    comparisons.append(replace(comparison, left=left, right=right))
        atoms = tuple(
            a for a in rule.atoms if not (a.negated and missing.intersection(a.variables))
        )
        arguments = tuple(map(fold.value, rule.arguments))
        order = tuple(key for key in rule.order if key.variable.name not in missing)
        rule = replace(
            rule, comparisons=tuple(comparisons), atoms=atoms, arguments=arguments, order=order
        )
        if not more:
            return rule, missing
        missing |= more


@dataclass(frozen=True, slots=True)
class _Folding:
    """Expressions where some variables are missing, and of others it is not decided."""

    missing: frozenset[str]
    undecided: frozenset[str]
    types: Mapping[str, Type]

    def value(self, node: Expression) -> Expression:
        return replace_in(node, self._folded)

    def _folded(self, node: object) -> Expression | None:
        match node:
            case Variable():
                return _NULL if node.name in self.missing else None
            case Arithmetic():
                left, right = self.value(node.left), self.value(node.right)
                lacks = _is_null(left) or _is_null(right)
                return _NULL if lacks else replace(node, left=left, right=right)
            case Negative():
                operand = self.value(node.operand)
                return _NULL if _is_null(operand) else replace(node, operand=operand)
            case Conditional():
                return self._alike(node, self._conditional(node))
            case Call("missing" | "present", (value,)):
                folded = self.value(value)
                if _is_null(folded) or self._is_there(folded):
                    return Constant(_is_null(folded) == (node.function == "missing"), node.span)
                return replace(node, arguments=(folded,))
            case Call("coalesce"):
                return self._alike(node, self._first(node))
            case Function() if isinstance(node.code, NestedCall) and node.code.keeps_missing:
                arguments = tuple(map(self.value, node.arguments))
                lacks = [i for i, each in enumerate(arguments) if _is_null(each)]
                kept = tuple(each for each in arguments if not _is_null(each))
                return replace(node, arguments=kept, code=node.code.without(lacks))
            case Call():
                arguments = tuple(map(self.value, node.arguments))
                lacks = any(map(_is_null, arguments))
                return _NULL if lacks else replace(node, arguments=arguments)
            case _:
                return None

    def _alike(self, whole: Expression, chosen: Expression) -> Expression:
        """What is left of an expression, in the type that all of it has."""
        wanted, own = (partial_type(each, self.types) for each in (whole, chosen))
        if wanted is None or own is None or not (wanted.is_floating and own.is_integral):
            return chosen
        return Arithmetic("*", chosen, Constant(1.0), chosen.span)

    def _conditional(self, node: Conditional) -> Expression:
        condition: list[Comparison] = []
        for each in node.condition:
            left, right = self.value(each.left), self.value(each.right)
            if _is_null(left) or _is_null(right):
                return self.value(node.otherwise)
            match (each.operator, left, right):
                case ("=", Constant(bool(one)), Constant(bool(other))):
                    if one != other:
                        return self.value(node.otherwise)
                case _:
                    condition.append(replace(each, left=left, right=right))
        then, otherwise = self.value(node.then), self.value(node.otherwise)
        if not condition:
            return then
        return replace(node, condition=tuple(condition), then=then, otherwise=otherwise)

    def _first(self, node: Call) -> Expression:
        arguments: list[Expression] = []
        for argument in map(self.value, node.arguments):
            if not _is_null(argument):
                arguments.append(argument)
            if self._is_there(argument):
                break
        if not arguments:
            return _NULL
        return arguments[0] if len(arguments) == 1 else replace(node, arguments=tuple(arguments))

    def _is_there(self, node: Expression) -> bool:
        """Whether an expression is known to have a value."""
        for part in walk(node):
            if isinstance(part, Variable) and part.name in self.undecided:
                return False
            if isinstance(part, Constant) and part.value is NULL:
                return False
        return True
