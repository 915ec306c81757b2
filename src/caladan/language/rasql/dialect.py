"""RaSQL's grammar: what it adds to sqlglot's Spark SQL.

- `WITH recursive v(A, min() AS C) AS (base) UNION (step) …`: aggregates among the columns of a
  view, and branches that follow the closing parenthesis. The view becomes an ordinary CTE over a
  UNION; its aggregates are kept in `cte.meta["aggregates"]`.
- Names may stand in double quotes or backticks; text stands in single quotes, without escapes
  other than a doubled quote.
- `From` may be a column: `SELECT From, To FROM edge`.
- Functions keep the names and arguments that they are written with: what a name means is Spark's
  affair, and that of whoever says the same in another SQL. Only those that rules have too are known
  by classes of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NoReturn, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from caladan.program.aggregates import names_in

AGGREGATES: Final = "aggregates"
"""The key of a CTE's meta under which the aggregates of its columns are kept."""

FUNCTIONS: Final = names_in("rasql")
"""The aggregates that a view's columns may have."""

_KNOWN: Final = (
    "ABS", "AVG", "CHARACTER_LENGTH", "CHAR_LENGTH", "COALESCE", "CONCAT", "COUNT", "GREATEST",
    "LCASE", "LEAST", "LEN", "LENGTH", "LOWER", "MAX", "MIN", "MOD", "REPLACE", "SUM", "UCASE",
    "UPPER",
)  # fmt: skip

_SYNTAX: Final = (
    "CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST",
)  # fmt: skip

_SUMMARIES: Final = (
    "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "bit_and", "bit_or",
    "bit_xor", "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or", "collect_list",
    "collect_set", "corr", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every",
    "first", "first_value", "grouping", "grouping_id", "histogram_numeric", "hll_sketch_agg",
    "hll_union_agg", "kurtosis", "last", "last_value", "listagg", "max_by", "mean", "median",
    "min_by", "mode", "percentile", "percentile_approx", "percentile_cont", "percentile_disc",
    "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
    "regr_sxy", "regr_syy", "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp",
    "string_agg", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
)  # fmt: skip

_WITH_UNITS: Final = (
    "dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff",
)  # fmt: skip

ARGUMENTS: Final[dict[str, tuple[int, int | None]]] = {
    **dict.fromkeys(
        ("abs", "avg", "char_length", "character_length", "lcase", "len", "length", "lower", "max",
         "mean", "min", "negative", "percentile_cont", "percentile_disc", "positive", "string",
         "sum", "ucase", "upper"), (1, 1)
    ),
    **dict.fromkeys(("current_date", "current_timestamp", "curdate", "now"), (0, 0)),
    **dict.fromkeys(("rand", "random", "uuid"), (0, 1)),
    **dict.fromkeys(
        ("ceil", "ceiling", "floor", "from_unixtime", "round", "to_date", "to_timestamp",
         "to_unix_timestamp"), (1, 2)
    ),
    **dict.fromkeys(
        ("date_format", "date_part", "datepart", "mod", "pmod", "regexp_count", "regexp_like",
         "regexp_substr", "sha2"), (2, 2)
    ),
    **dict.fromkeys(
        ("date_add", "date_diff", "dateadd", "datediff", "lpad", "regexp_extract", "replace",
         "rpad"), (2, 3)
    ),
    **dict.fromkeys(("timestampadd", "timestampdiff"), (3, 3)),
    **dict.fromkeys(("coalesce", "concat", "concat_ws", "count"), (1, None)),
    **dict.fromkeys(("elt", "greatest", "least"), (2, None)),
    # These may be written with words instead of commas.
    **dict.fromkeys(("position", "substr", "substring"), (1, 3)),
    "overlay": (1, 4), "regexp_replace": (3, 4), "unix_timestamp": (0, 2),
}  # fmt: skip
"""How many arguments functions take, at least and at most: those that are not left to an engine."""

_AFTER_A_COLUMN: Final = frozenset({
    TokenType.COMMA, TokenType.FROM, TokenType.ALIAS, TokenType.R_PAREN, TokenType.EQ,
    TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.PLUS,
    TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.AND, TokenType.OR,
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
    TokenType.UNION, TokenType.THEN, TokenType.ELSE, TokenType.END, TokenType.SEMICOLON,
    TokenType.IN, TokenType.BETWEEN, TokenType.IS, TokenType.DPIPE, TokenType.ASC, TokenType.DESC,
})  # fmt: skip


class PlacedError(ParseError):
    """A syntax error that knows the stretch of text it is about."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message, [{"description": message}])
        self.start = start
        self.end = end


def _summary(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """A call of an aggregate under the name it was written with."""
    return exp.AnonymousAggFunc(this=name, expressions=arguments)


def _with_unit(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """A call whose first of three arguments is a word, such as DAY, and no column."""
    if len(arguments) == 3 and isinstance(arguments[0], exp.Column):
        arguments = [exp.var(arguments[0].name.upper()), *arguments[1:]]
    return exp.Anonymous(this=name, expressions=arguments)


class RaSQLParser(Spark.Parser):
    """Spark SQL with recursive views that aggregate."""

    STRICT_CAST = True
    FUNCTIONS = {  # noqa: RUF012
        **{name: Spark.Parser.FUNCTIONS[name] for name in _KNOWN},
        **{name.upper(): partial(_summary, name) for name in _SUMMARIES},
        **{name.upper(): partial(_with_unit, name) for name in _WITH_UNITS},
    }
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SYNTAX
    }

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Raise with the place of a token; the parser also fails like this while it tries."""
        at = cast("Any", token or self._curr or self._prev)
        start, end = (at.start, at.end + 1) if at else (0, 0)
        raise PlacedError(_plain(message), start, end)

    def _parse_function_call(self, *arguments: Any, **options: Any) -> exp.Expr | None:
        """A call of a function that takes so many arguments: sqlglot drops some without a word."""
        token = self._curr
        least, most = ARGUMENTS.get(token.text.lower() if token else "", (0, None))
        if least or most is not None:
            count = self._count_arguments()
            if count is not None and not least <= count <= (count if most is None else most):
                takes = _count_arguments(least, most)
                self.raise_error(f"`{token.text}` takes {takes}, not {count}", token)
        return cast("Any", super())._parse_function_call(*arguments, **options)

    def _count_arguments(self) -> int | None:
        """How many arguments follow in parentheses; None if there are none, or they do not end."""
        tokens = self._tokens
        if not self._next or self._next.token_type != TokenType.L_PAREN:
            return None
        first, depth, commas = self._index + 2, 1, 0
        for at in range(first, len(tokens)):
            match tokens[at].token_type:
                case TokenType.L_PAREN:
                    depth += 1
                case TokenType.R_PAREN:
                    depth -= 1
                    if not depth:
                        return commas + 1 if at > first else 0
                case TokenType.COMMA:
                    commas += depth == 1
                case _:
                    pass
        return None

    def _parse_cte(self) -> exp.CTE | None:
        comments = self._prev_comments
        name = self._parse_id_var(any_token=False, tokens=self.ID_VAR_TOKENS)
        if name is None:
            self.raise_error("expected the name of a view")
        columns, aggregates = self._parse_view_head()
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS after the view's name and columns")
        query = self._parse_branch()
        while self._match_set((TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)):
            query = self._parse_next_branch(query, self._prev)
        cte = self.expression(
            exp.CTE(this=query, alias=exp.TableAlias(this=name, columns=columns or None)),
            comments=comments,
        )
        if any(aggregates):
            cte.meta[AGGREGATES] = tuple(aggregates)
        return cte

    def _parse_view_head(self) -> tuple[list[exp.Expr], list[str | None]]:
        columns: list[exp.Expr] = []
        aggregates: list[str | None] = []
        if self._match(TokenType.L_PAREN):
            while True:
                function = self._parse_head_aggregate()
                column = self._parse_id_var()
                if column is None:
                    self.raise_error("expected the name of a column")
                columns.append(column)
                aggregates.append(function)
                if not self._match(TokenType.COMMA):
                    break
            self._match_r_paren()
        return columns, aggregates

    def _parse_head_aggregate(self) -> str | None:
        """`min() AS`, before the name of its column."""
        if not self._next or self._next.token_type != TokenType.L_PAREN:
            return None
        function = self._curr.text.lower()
        if function not in FUNCTIONS:
            self.raise_error(
                f"`{self._curr.text}` cannot aggregate a view's column: "
                "min(), max(), sum() and count() can"
            )
        self._advance(2)
        if not self._match(TokenType.R_PAREN):
            self.raise_error(
                f"the aggregate of a view's column takes nothing: {function}() AS name"
            )
        if not self._match(TokenType.ALIAS):
            self.raise_error(f"name the column: {function}() AS name")
        return function

    def _parse_branch(self) -> exp.Expr:
        query = self._parse_wrapped(self._parse_statement)
        if not isinstance(query, exp.Query):
            self.raise_error("expected a query")
        return cast("exp.Expr", query)

    def _parse_next_branch(self, left: exp.Expr, token: Any) -> exp.Expr:
        kind = {
            TokenType.UNION: exp.Union,
            TokenType.EXCEPT: exp.Except,
            TokenType.INTERSECT: exp.Intersect,
        }[token.token_type]
        distinct = not self._match(TokenType.ALL)
        self._match(TokenType.DISTINCT)
        right = self._parse_branch()
        return self.expression(kind(this=left, expression=right, distinct=distinct))

    def _parse_field(
        self, any_token: bool = False, tokens: Any = None, anonymous_func: bool = False
    ) -> exp.Expr | None:
        is_from = bool(self._curr) and self._curr.token_type == TokenType.FROM
        if is_from and (not self._next or self._next.token_type in _AFTER_A_COLUMN):
            self._advance()
            return cast("exp.Expr", self._identifier_expression(quoted=False))
        return cast("Any", super())._parse_field(any_token, tokens, anonymous_func)


class RaSQL(Spark):
    """The dialect that RaSQL texts are read in."""

    class Tokenizer(Spark.Tokenizer):
        """Names in double quotes or backticks, text in single quotes."""

        QUOTES = ["'"]  # noqa: RUF012
        STRING_ESCAPES = ["'"]  # noqa: RUF012
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012
        KEYWORDS = {  # noqa: RUF012
            **Spark.Tokenizer.KEYWORDS,
            # A datetime has no zone here.
            "TIMESTAMP": TokenType.TIMESTAMPNTZ,
            "DATETIME": TokenType.TIMESTAMPNTZ,
        }

    Parser = RaSQLParser
    SUPPORTS_USER_DEFINED_TYPES = True  # so that a misspelt type is told as such


def _count_arguments(least: int, most: int | None) -> str:
    """A number of arguments in words.

    >>> _counted(2, 2), _counted(1, 3), _counted(1, None), _counted(0, 0)
    ('2 arguments', '1 to 3 arguments', 'at least 1 argument', '0 arguments')
    """
    count = f"{least}" if least == most else f"{least} to {most}"
    if most is None:
        count, most = f"at least {least}", least
    return f"{count} {'argument' if most == 1 else 'arguments'}"


def _plain(message: str) -> str:
    """sqlglot's messages, without its tokens' insides."""
    return message.split(" but got <Token", 1)[0]
