"""Random Programs that DeALS can write: `programs()` and its parts.

They are well-formed, not meaningful: a relation may be undeclared, a variable unsafe. What the text
cannot tell apart is left out: sort keys on `_`, dates (they are quoted texts), infinite numbers.
"""

from dataclasses import replace

from hypothesis import strategies as st

from caladan.language.deals.tokens import RESERVED_RELATIONS, is_name, is_variable
from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Choice,
    Column,
    Comparison,
    Conditional,
    Constant,
    Declaration,
    Disjunction,
    Expectation,
    Expression,
    Goal,
    Head,
    Literal,
    Negative,
    Parameter,
    Program,
    Rule,
    SortKey,
    Variable,
)
from caladan.program.aggregates import TABLE
from caladan.program.types import TYPES, Type, decimal, list_of, struct_of

_AGGREGATES = [row.name for row in TABLE.values() if "deals" in row.names]
_TYPES: list[Type] = [
    *(type for type in TYPES if not type.is_nested),
    list_of(list_of(Type.STRING)),
    struct_of(("a", Type.LONG), ("b", list_of(decimal(10, 2)))),
]
_NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True) | st.sampled_from(
    [
        "query",
        "export",
        "include",
        "expect",
        "no",
        "min",
        "count",
        "asc",
        "not",
        "Ärger",
        "été",
        "東京",
        "if",
        "mod",
        "sort",
    ]
)


def names() -> st.SearchStrategy[str]:
    """Names of relations and columns."""
    return _NAME.filter(lambda name: name not in RESERVED_RELATIONS)


def variables() -> st.SearchStrategy[Variable]:
    """Variables, `_` among them."""
    return st.builds(Variable, st.just("_") | _NAME.filter(is_variable))


def constants() -> st.SearchStrategy[Constant]:
    """Constants of every kind that DeALS can write."""
    integers = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 5])
    floats = st.floats(allow_nan=False, allow_infinity=False)
    texts = st.text(max_size=8) | _NAME | st.sampled_from(["it's", '"', "\\", "\\n", "a\nb", "--"])
    return st.builds(Constant, integers | floats | texts | st.booleans())


def parameters() -> st.SearchStrategy[Parameter]:
    """Parameters in both styles."""
    name = _NAME.filter(lambda each: is_name(each) and each not in RESERVED_RELATIONS)
    return st.builds(Parameter, name, st.sampled_from(["{}", "$"]))


def expressions(*, aggregates: bool = False) -> st.SearchStrategy[Expression]:
    """Expressions; with `aggregates`, those that may stand in a head."""
    leaves: st.SearchStrategy[Expression] = variables() | constants() | parameters()
    if aggregates:
        terms = st.lists(expressions(), min_size=1, max_size=3).map(tuple)
        leaves = leaves | st.builds(
            Aggregate,
            st.sampled_from([row.name for row in TABLE.values() if "deals" in row.names]),
            terms,
        )
    return st.recursive(leaves, _larger, max_leaves=6)


def literals() -> st.SearchStrategy[Literal]:
    """Literals of a body."""
    leaves = _atoms(st.booleans()) | _comparisons(expressions())
    return st.recursive(leaves, _choices, max_leaves=4)


def rules() -> st.SearchStrategy[Rule]:
    """Rules and facts."""
    arguments = st.lists(expressions(aggregates=True), max_size=4).map(tuple)
    sorted_by = variables().filter(lambda variable: not variable.is_anonymous)
    keys = st.lists(st.builds(SortKey, sorted_by, st.booleans()), max_size=3).map(tuple)
    return st.builds(
        Rule,
        head=st.builds(Head, names(), arguments),
        body=st.lists(literals(), max_size=4).map(tuple),
        order=keys,
        limit=st.none() | expressions(),
    )


def relations() -> st.SearchStrategy[Declaration]:
    """Declared relations."""
    columns = st.lists(
        st.builds(Column, names(), st.sampled_from([*_TYPES, decimal(10, 2)])), max_size=4
    ).map(tuple)
    return st.builds(Declaration, names(), columns)


def goals() -> st.SearchStrategy[Goal]:
    """Goals of both kinds."""
    return st.builds(Goal, _atoms(st.just(False)), st.booleans())


def programs() -> st.SearchStrategy[Program]:
    """Whole programs."""
    return st.builds(
        Program,
        relations=st.lists(relations(), max_size=3).map(tuple),
        rules=st.lists(rules(), max_size=4).map(tuple),
        goals=st.lists(goals(), max_size=3).map(tuple),
        expectations=st.lists(expectations(), max_size=2).map(tuple),
    )


@st.composite
def expectations(draw: st.DrawFn) -> Expectation:
    """Expectations: of any fact, of none, of all that are listed."""
    atom = replace(draw(_atoms(st.just(False))), columns=())
    row = st.tuples(*[constants() | parameters()] * len(atom.arguments))
    return Expectation(atom, draw(st.none() | st.lists(row, max_size=3).map(tuple)))


def _atoms(negated: st.SearchStrategy[bool]) -> st.SearchStrategy[Atom]:
    by_place = st.builds(Atom, names(), st.lists(expressions(), max_size=3).map(tuple), negated)
    arguments = st.dictionaries(names(), expressions(), min_size=1, max_size=3)
    by_name = st.builds(
        lambda name, given, negated: Atom(
            name, tuple(given.values()), negated, columns=tuple(given)
        ),
        names(), arguments, negated,
    )  # fmt: skip
    return by_place | by_name


def _comparisons(sides: st.SearchStrategy[Expression]) -> st.SearchStrategy[Comparison]:
    return st.builds(Comparison, st.sampled_from(["=", "~=", "<", "<=", ">", ">="]), sides, sides)


def _conditions(sides: st.SearchStrategy[Expression]) -> st.SearchStrategy[tuple[Comparison, ...]]:
    return st.lists(_comparisons(sides), min_size=1, max_size=2).map(tuple)


def _larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    operators = st.sampled_from(["+", "-", "*", "/", "div", "mod"])
    return (
        st.builds(Arithmetic, operators, parts, parts)
        | st.builds(Negative, parts)
        | st.builds(Conditional, _conditions(parts), parts, parts)
    )


def _choices(parts: st.SearchStrategy[Literal]) -> st.SearchStrategy[Literal]:
    branch = st.lists(parts, min_size=1, max_size=2).map(tuple)
    several = st.lists(branch, min_size=2, max_size=3).map(tuple)
    return st.builds(Choice, _conditions(expressions()), branch, branch) | st.builds(
        Disjunction, several
    )
