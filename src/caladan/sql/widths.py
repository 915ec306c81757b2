"""The types of expressions as Spark has them, where they decide what a result is: decimals, floats.

A sum of `decimal(10, 2)` and `decimal(5, 1)` is `decimal(11, 2)` on Spark, a quotient of them has 9
digits after its point, and both are rounded where 38 digits do not suffice. DuckDB has other rules,
so whoever translates must say what comes out. `Widths.type(node)` tells, from the columns of the
tables, casts, and what functions give; None where it cannot be told. `are_around` says whether a
query mentions such columns at all: most do not, and are spared the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from caladan.program.transform import ByIdentity
from caladan.sql.digits import (
    DOUBLE,
    LONG,
    MOST_DIGITS,
    SqlType,
    adjust,
    calculate_width,
    common,
    literal,
    parse_width,
    round_width,
    words,
)
from caladan.sql.engine import Frame, key_of

# What functions give that do not give what they are given.
_GIVEN: Final[dict[str, str]] = {
    **dict.fromkeys(
        words(
            "length octet_length bit_length instr locate ascii year month day dayofmonth "
            "dayofweek weekday dayofyear weekofyear quarter hour minute second datediff "
            "date_diff bit_count levenshtein row_number rank dense_rank ntile find_in_set "
            "regexp_count unix_date str_position len char_length"
        ),
        "integer",
    ),
    **dict.fromkeys(words(
            "count count_if unix_timestamp to_unix_timestamp timestampdiff regr_count div "
            "factorial"
        ), "long"),
    **dict.fromkeys(
        words(
            "sign signum sqrt cbrt power pow exp ln log log2 log10 sin cos tan cot sec csc "
            "asin acos atan atan2 sinh cosh tanh degrees radians pi e hypot rint rand stddev "
            "stddev_pop stddev_samp std variance var_pop var_samp percentile median "
            "percentile_cont percentile_disc corr covar_pop covar_samp percent_rank cume_dist "
            "double nanvl random regr_slope regr_intercept regr_r2 regr_avgx regr_avgy "
            "regr_sxx regr_sxy regr_syy try_divide"
        ),
        "double",
    ),
    **dict.fromkeys(
        words(
            "upper lower substring left right trim ltrim rtrim btrim replace reverse repeat "
            "lpad rpad concat concat_ws chr char space date_format translate string dayname "
            "monthname unbroken md5 sha1 sha sha2 split_part substring_index regexp_replace "
            "regexp_extract regexp_substr overlay elt hex bin uuid ucase lcase from_unixtime"
        ),
        "string",
    ),
    **dict.fromkeys(
        words(
            "date_add date_sub add_months last_day next_day trunc to_date make_date date "
            "current_date date_from_unix_date dateadd curdate"
        ),
        "date",
    ),
    **dict.fromkeys(
        words(
            "date_trunc to_timestamp make_timestamp now current_timestamp timestampadd "
            "timestamp_ntz"
        ),
        "timestamp",
    ),
    **dict.fromkeys(
        words(
            "contains startswith endswith isnan isnull isnotnull equal_null regexp_like "
            "bool_and bool_or every some boolean matched"
        ),
        "boolean",
    ),
    "int": "integer", "bigint": "long", "float": "float",
}  # fmt: skip

_TIMED: Final = ("HOUR", "MINUTE", "SECOND")
_SAME: Final = frozenset(
    words(
        "abs min max lag lead first_value last_value nth_value first last nullif negative "
        "positive min_by max_by bit_and bit_or bit_xor nullifzero zeroifnull"
    )
)

_WITH_UNITS: Final = ("date_add", "dateadd", "datediff", "date_diff")
_COMMON: Final = frozenset(words("coalesce nvl ifnull greatest least nvl2"))


class QueryTypes:
    """Types of the expressions of a query, over frames."""

    def __init__(self, frames: Mapping[str, Frame]) -> None:
        self._frames = frames
        self._known = ByIdentity[exp.Expr, "SqlType | None"]()

    def are_around(self, tree: exp.Expr) -> bool:
        """Whether a query has anything to do with decimals or floats."""
        names = {
            column.name.lower()
            for frame in self._frames.values()
            for column in frame.columns
            if (found := parse_width(column.spelled)) and found.kind in ("decimal", "float")
        }
        return any(_is_about(node, names) for node in tree.walk())

    def type(self, node: exp.Expr) -> SqlType | None:
        """The type of an expression, None where it cannot be told."""
        if node not in self._known:
            self._known[node] = None  # a view that reads itself has no type
            self._known[node] = self._type(node)
        return self._known[node]

    def _type(self, node: exp.Expr) -> SqlType | None:
        match node:
            case exp.Neg(this=exp.Literal(this=str(text))) if text == str(2**31):
                return SqlType("integer", len(text))
            case exp.Paren() | exp.Alias() | exp.Neg() | exp.Filter() | exp.Window():
                return self.type(node.this)
            case exp.WithinGroup() | exp.IgnoreNulls() | exp.RespectNulls():
                return self.type(node.this)
            case exp.Literal():
                return literal(node)
            case exp.Null():
                return SqlType("null")
            case exp.Cast():
                return parse_width(node.to.sql(dialect="spark"))
            case exp.Column():
                return self._column(node)
            case exp.Subquery() | exp.Select():
                query = node.unnest()
                selected = query.selects if isinstance(query, exp.Query) else []
                return self.type(selected[0]) if len(selected) == 1 else None
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return self._arithmetic(node)
            case exp.Case() | exp.If():
                return common([self.type(each) for each in _results(node)])
            case exp.Extract():
                is_second = node.this.name.upper() in ("SECOND", "SECONDS", "SEC", "S")
                return SqlType("decimal", 8, 6) if is_second else SqlType("integer")
            case exp.Predicate() | exp.Connector() | exp.Not() | exp.Boolean():
                return SqlType("boolean")
            case exp.DPipe() | exp.Concat():
                return SqlType("string")
            case exp.Func():
                return self._function(node)
            case _:
                return None

    def _arithmetic(self, node: exp.Expr) -> SqlType | None:
        for side, step in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(step, exp.Interval):
                unit = step.args.get("unit")
                is_timed = unit is not None and unit.name.upper().rstrip("S") in _TIMED
                return SqlType("timestamp") if is_timed else self.type(side)
        return calculate_width(node, self.type(node.this), self.type(node.expression))

    def _function(self, node: exp.Func) -> SqlType | None:
        name = read_name(node)
        arguments = list(arguments_of(node))
        first = self.type(arguments[0]) if arguments else None
        if name in _WITH_UNITS and len(arguments) == 3:
            return SqlType("long" if "diff" in name else "timestamp")
        if name in _GIVEN:
            return SqlType(_GIVEN[name])
        if name in _SAME:
            return first
        if name in _COMMON:
            values = arguments[1:] if name == "nvl2" else arguments
            return common([self.type(each) for each in values])
        if first is None:
            return None
        if name == "sum":
            if first.is_decimal:
                return SqlType("decimal", min(MOST_DIGITS, first.digits + 10), first.scale)
            return LONG if first.is_whole else DOUBLE
        if name in ("avg", "mean"):
            if not first.is_decimal:
                return DOUBLE
            digits, scale = first.digits + 4, first.scale + 4
            return SqlType("decimal", min(MOST_DIGITS, digits), min(MOST_DIGITS, scale))
        if name in ("floor", "ceil", "ceiling"):
            whole = SqlType("decimal", first.digits - first.scale + 1, 0)
            return adjust(whole) if first.is_decimal else LONG
        if name == "round":
            return round_width(first, arguments[1] if len(arguments) > 1 else None)
        if name in ("pmod", "mod") and len(arguments) == 2:
            return calculate_width(exp.Mod(), first, self.type(arguments[1]))
        return None

    def _column(self, column: exp.Column) -> SqlType | None:
        query = column.find_ancestor(exp.Select)
        while query is not None:
            for source in _sources(query):
                if not column.table or _alias(source).lower() == column.table.lower():
                    found = self._output(source, column.name.lower(), query)
                    if found is not None:
                        return found
            query = query.find_ancestor(exp.Select)
        return None

    def _output(self, source: exp.Expr, name: str, around: exp.Expr) -> SqlType | None:
        """The type of a column that a table or a query gives."""
        if isinstance(source, exp.Table):
            query = _view(source, around)
            if query is None:
                frame = self._frames.get(key_of(source))
                columns = frame.columns if frame else ()
                return next(
                    (parse_width(c.spelled) for c in columns if c.name.lower() == name), None
                )
            columns = query.args["alias"].columns
            return self._selected(query.this, name, [c.name.lower() for c in columns])
        alias = source.args.get("alias")
        return self._selected(
            source, name, [c.name.lower() for c in alias.columns] if alias else []
        )

    def _selected(self, source: exp.Expr, name: str, columns: list[str]) -> SqlType | None:
        query = source.unnest()
        if isinstance(query, exp.SetOperation):
            one = self._selected(query.this, name, columns)
            names = columns or [s.alias_or_name.lower() for s in query.selects]
            other = self._selected(query.expression, name, names)
            return common([one, other])
        if not isinstance(query, exp.Select):
            return None
        selected = query.selects
        if columns:
            i = columns.index(name) if name in columns else len(selected)
            return self.type(selected[i]) if i < len(selected) else None
        for node in selected:
            if node.alias_or_name.lower() == name:
                return self.type(node)
        if any(node.is_star for node in selected):
            found = (self._output(each, name, query) for each in _sources(query))
            return next((width for width in found if width is not None), None)
        return None


def kind_of(text: str) -> str | None:
    """The kind of values of a type, None where it is not known."""
    found = parse_width(text)
    return None if found is None else found.kind


def given_by(name: str) -> str | None:
    """The kind of values that a function gives, whatever it is given."""
    return _GIVEN.get(name)


def read_name(node: exp.Expr) -> str:
    """The name of a function as Spark has it, in lower case."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return str(node.name if isinstance(node.this, exp.Identifier) else node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key


def arguments_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """The arguments of a call; those after DISTINCT too."""
    given = [] if not isinstance(node.this, exp.Expr) else [node.this]
    for each in (*given, *node.expressions):
        if isinstance(each, exp.Distinct):
            yield from each.expressions
        elif not (isinstance(node, exp.Anonymous) and each is node.this):
            yield each


def _is_about(node: exp.Expr, names: set[str]) -> bool:
    if isinstance(node, exp.Column):
        return node.name.lower() in names
    if isinstance(node, exp.DataType):
        return node.is_type("decimal", "float")
    return isinstance(node, exp.Extract) or read_name(node) in ("date_part", "datepart", "float")


def _results(node: exp.Expr) -> Iterator[exp.Expr]:
    branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    for branch in branches:
        yield branch.args["true"]
    default = node.args.get("default") or node.args.get("false")
    if default is not None:
        yield default


def _sources(query: exp.Select) -> Iterator[exp.Expr]:
    clause = query.args.get("from_")
    if clause is not None:
        yield clause.this
    for join in query.args.get("joins") or []:
        yield join.this


def _alias(source: exp.Expr) -> str:
    return source.alias_or_name


def _view(table: exp.Table, around: exp.Expr) -> exp.CTE | None:
    """The view of a WITH that a name stands for."""
    query: exp.Expr | None = around
    while query is not None:
        clause = query.args.get("with_")
        for cte in clause.expressions if clause else []:
            if not table.db and cte.alias.lower() == table.name.lower():
                return cte
        query = query.parent
    return None
