"""Functions of Spark that a macro alone cannot say: those with a rule of their own, by name.

`Calls` has a method `_name_call` for each; everything else is a call of the macro of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from caladan.sql.meaning import Meaning, as_type, call, decimal_type, written_number
from caladan.sql.patterns import Pattern, date_format, regular_expression, replacement
from caladan.sql.widths import read_name

# Names that Spark has for the same function.
ALIASES: Final = {
    "ceiling": "ceil", "pow": "power", "char": "chr", "dayofmonth": "day", "date_diff": "datediff",
    "to_unix_timestamp": "unix_timestamp", "sha": "sha1", "dateadd": "date_add", "mod": "mod",
    "curdate": "current_date", "random": "rand", "mean": "avg", "every": "bool_and",
    "some": "bool_or", "std": "stddev_samp", "stddev": "stddev_samp", "variance": "var_samp",
    "datepart": "date_part", "first": "first_value", "last": "last_value",
}  # fmt: skip


# What arguments become before a macro sees them: s text, d a date, t a timestamp, i a whole number.
_COERCED: Final = {
    **dict.fromkeys(("upper", "lower", "bit_length", "trim", "reverse", "ascii", "sha1", "md5"),
                    "s"),
    **dict.fromkeys(("substring", "left", "right", "repeat"), "s.."),
    **dict.fromkeys(("ltrim", "rtrim", "btrim", "instr", "contains", "startswith", "endswith",
                     "levenshtein", "find_in_set"), "ss"),
    **dict.fromkeys(("replace", "translate"), "sss"),
    **dict.fromkeys(("lpad", "rpad"), "s.s"),
    "locate": "ss.", "overlay": "ss..", "split_part": "ss.", "substring_index": "ss.",
    **dict.fromkeys(("year", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear",
                     "quarter", "last_day", "unix_date", "dayname", "monthname"), "d"),
    **dict.fromkeys(("date_add", "date_sub", "add_months", "next_day", "trunc"), "d."),
    "datediff": "dd", "hour": "t", "minute": "t", "second": "t", "date_trunc": ".t",
    "unix_timestamp": "t", "div": "ii",
}  # fmt: skip


_PARTS: Final = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), "isodow"),
    "DOY": "dayofyear",
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    "YEAROFWEEK": "yearofweek",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "hour"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "minute"),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), "seconds"),
}  # fmt: skip
_TIMED: Final = ("hour", "minute", "seconds")
LENGTHS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_MONTHS: Final = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}

Arguments: TypeAlias = Sequence[tuple[exp.Expr, exp.Expr]]
"""The arguments of a call: each as the user wrote it, and translated."""


class Calls(Meaning):
    """Calls with a rule of their own."""

    def _coerced(self, name: str, given: Sequence[tuple[exp.Expr, exp.Expr]]) -> list[exp.Expr]:
        kinds = _COERCED.get(name, "")
        found: list[exp.Expr] = []
        for i, (node, value) in enumerate(given):
            match kinds[i : i + 1]:
                case "s":
                    found.append(self._text(node, value))
                case "d":
                    found.append(self._macro("date", value))
                case "t":
                    found.append(self._macro("timestamp_ntz", value))
                case _:
                    found.append(value)
        return found

    # ── Functions with a rule of their own, by name ──────────────────────────────────────────────

    def _percentile_cont_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if not isinstance(node.parent, exp.WithinGroup):
            self._refuse(node, f"`{read_name(node)}` without WITHIN GROUP")
        return exp.AnonymousAggFunc(this=read_name(node), expressions=[new for _, new in given])

    _percentile_disc_call = _percentile_cont_call

    def _length_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._macro("length", given[0][1])

    def _abs_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        width = self._width(given[0][0])
        if width is not None and width.is_decimal:
            return exp.func("abs", given[0][1])
        return self._macro("abs", given[0][1])

    def _negative_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return exp.Paren(this=exp.Neg(this=exp.Paren(this=given[0][1])))

    def _positive_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return given[0][1]

    def _round_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        places = given[1][0] if len(given) > 1 else exp.Literal.number(0)
        digits = written_number(places)
        if digits is None:
            self._refuse(node, "round to a number of places that is not written out")
        width = self._width(given[0][0])
        number = exp.Literal.number(digits)
        if width is not None and width.is_decimal:
            result = self._widths.type(node)
            if result is None or digits < 0:
                self._refuse(node, "round of decimals to tens")
            return as_type(exp.func("round", given[0][1], number), decimal_type(result))
        return self._macro("round" if digits >= 0 else "round_tens", given[0][1], number)

    def _floor_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        name = ALIASES.get(read_name(node), read_name(node))
        if len(given) > 1:
            self._refuse(node, f"`{name}` with a number of places", "use round")
        width = self._width(given[0][0])
        if width is not None and width.is_decimal:
            result = self._widths.type(node)
            assert result is not None
            return as_type(exp.func(name, given[0][1]), decimal_type(result))
        return self._macro(name, given[0][1])

    _ceil_call = _floor_call

    def _pmod_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        found = self._macro("pmod", *(new for _, new in given))
        width = self._widths.type(node) if self._is_typed else None
        return (
            as_type(found, decimal_type(width)) if width is not None and width.is_decimal else found
        )

    def _concat_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        texts = [self._text(*each) for each in given]
        found = texts[0]
        for text in texts[1:]:
            found = exp.DPipe(this=found, expression=text)
        return exp.Paren(this=found)

    def _concat_ws_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return call("concat_ws", *(self._text(*each) for each in given))

    def _elt_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        cases = exp.Case(this=given[0][1])
        for i, each in enumerate(given[1:], 1):
            cases = cases.when(exp.Literal.number(i), self._text(*each))
        return cases.else_(exp.func("error", exp.Literal.string("elt: no such argument")))

    def _lpad_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        blank = exp.Literal.string(" ")
        full = [*given, (blank, blank.copy())] if len(given) == 2 else given
        return self._macro(read_name(node), *self._coerced(read_name(node), full))

    _rpad_call = _lpad_call

    def _substring_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        numbers = [written_number(number) for number, _ in given[1:]]
        if all(number is not None and number >= 0 for number in numbers) and numbers[0]:
            return call("substring", self._text(*given[0]), *(new for _, new in given[1:]))
        return self._macro("substring", *self._coerced("substring", given))

    def _sha2_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if written_number(given[1][0]) not in (0, 256):
            self._refuse(node, "sha2 of other lengths than 256")
        return self._macro("sha256", self._text(*given[0]))

    def _string_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._text(*given[0])

    def _rand_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if given:
            self._refuse(node, "rand with a seed", "leave the seed out")
        return self._macro("rand")

    def _uuid_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return as_type(exp.Anonymous(this="uuid"), "VARCHAR")

    def _current_date_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._macro("today")

    def _current_timestamp_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._macro("moment")

    _now_call = _current_timestamp_call

    def _regexp_like_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._matched(node, self._text(*given[0]), given[1][0])

    def _matched(self, node: exp.Expr, text: exp.Expr, pattern: exp.Expr) -> exp.Expr:
        found = self._pattern(pattern, node)
        written = exp.Literal.string(found.text)
        if not found.ends:
            return call("regexp_matches", text, written)
        return self._macro("matched", text, written)

    def _regexp_replace_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        text, pattern = self._searched(node, given)
        by = replacement(str(given[2][0].this)) if isinstance(given[2][0], exp.Literal) else None
        if by is None or len(given) > 3:
            self._refuse(node, "this replacement", "write the text that replaces out")
        return call(
            "regexp_replace", text, pattern, exp.Literal.string(by), exp.Literal.string("g")
        )

    def _regexp_extract_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        group = written_number(given[2][0]) if len(given) > 2 else 1
        if group is None:
            self._refuse(node, "a group that is not written out")
        return call("regexp_extract", *self._searched(node, given), exp.Literal.number(group))

    def _regexp_count_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        found = call("regexp_extract_all", *self._searched(node, given))
        return as_type(call("len", found), "INTEGER")

    def _regexp_substr_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._macro("regexp_substr", *self._searched(node, given))

    def _searched(self, node: exp.Expr, given: Arguments) -> tuple[exp.Expr, exp.Expr]:
        """A text, and the pattern that is looked for in it.

        Where a match ends matters here, so a line break that `$` may stand before is an error.
        """
        text, found = self._text(*given[0]), self._pattern(given[1][0], node)
        if found.ends:
            text = self._macro("unbroken", text, exp.Literal.string(rf"[{found.ends}]\z"))
        return text, exp.Literal.string(found.text)

    def _pattern(self, node: exp.Expr, around: exp.Expr) -> Pattern:
        found = regular_expression(str(node.this)) if isinstance(node, exp.Literal) else None
        if found is None:
            self._refuse(
                around,
                "this regular expression",
                "write it out, without looking around, named groups, &&, possessive repetition, "
                "flags but (?i) and (?s), and $ before the end",
            )
        return found

    # ── Dates ────────────────────────────────────────────────────────────────────────────────────

    def _part(self, node: exp.Expr, word: str, value: exp.Expr, new: exp.Expr) -> exp.Expr:
        name = _PARTS.get(word.upper())
        if name is None:
            self._refuse(node, f"extract of {word.lower()}")
        kind = "timestamp_ntz" if name in _TIMED else "date"
        return self._macro(name, self._macro(kind, new))

    def _date_part_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if not isinstance(given[0][0], exp.Literal):
            self._refuse(node, "a part that is not written out")
        return self._part(node, str(given[0][0].this), *given[1])

    def _date_add_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if len(given) == 3:
            return self._shifted(node, given)
        return self._macro("date_add", self._macro("date", given[0][1]), given[1][1])

    def _timestampadd_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        return self._shifted(node, given)

    def _shifted(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        unit = self._unit(node, given[0][0])
        amount = as_type(given[1][1], "INTEGER")
        if unit == "QUARTER":
            unit, amount = "MONTH", exp.Mul(this=amount, expression=exp.Literal.number(3))
        step = call(f"to_{unit.lower()}s", amount)
        moment = self._macro("timestamp_ntz", given[2][1])
        return exp.Paren(this=exp.Add(this=moment, expression=step))

    def _datediff_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if len(given) == 3:
            return self._timestampdiff_call(node, given)
        return self._macro("datediff", *self._coerced("datediff", given))

    def _timestampdiff_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        unit = self._unit(node, given[0][0])
        moments = [self._macro("timestamp_ntz", new) for _, new in given[1:]]
        if unit in _MONTHS:
            number = exp.Literal.number(_MONTHS[unit])
            whole = exp.IntDiv(this=self._macro("months", *moments), expression=number)
            return as_type(exp.Paren(this=whole), "BIGINT")
        return call("date_sub", exp.Literal.string(unit.lower()), *moments)

    def _unit(self, node: exp.Expr, unit: exp.Expr) -> str:
        if unit.name.upper() not in LENGTHS:
            self._refuse(node, f"`{read_name(node)}` in {unit.name.lower()}")
        return unit.name.upper()

    def _to_date_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if len(given) == 1:
            return self._macro("date", given[0][1])
        return as_type(self._parsed(node, given), "DATE")

    def _to_timestamp_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if len(given) == 1:
            return self._macro("timestamp_ntz", given[0][1])
        return self._parsed(node, given)

    def _unix_timestamp_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        if not given:
            return self._macro("unix_timestamp", self._macro("moment"))
        moment = (
            self._macro("timestamp_ntz", given[0][1])
            if len(given) == 1
            else self._parsed(node, given)
        )
        return self._macro("unix_timestamp", moment)

    def _from_unixtime_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        standard = exp.Literal.string("yyyy-MM-dd HH:mm:ss")
        pattern = given[1][0] if len(given) > 1 else standard
        moment = self._macro("from_seconds", given[0][1])
        return self._macro("formatted", moment, self._format(node, pattern)[0])

    def _date_format_call(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        moment = self._macro("timestamp_ntz", given[0][1])
        return self._macro("formatted", moment, self._format(node, given[1][0])[0])

    def _parsed(self, node: exp.Expr, given: Arguments) -> exp.Expr:
        written, seen = self._format(node, given[1][0])
        return self._macro("parsed", self._text(*given[0]), seen, written)

    def _format(self, node: exp.Expr, pattern: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
        found = date_format(str(pattern.this)) if isinstance(pattern, exp.Literal) else None
        if found is None:
            self._refuse(
                node,
                "this format",
                "write it out, of yyyy yy MM dd HH mm ss and what separates them",
            )
        return exp.Literal.string(found[0]), exp.Literal.string(found[1])

    def _trim(self, node: exp.Trim, new: exp.Expr) -> exp.Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
            node.args.get("position") or "", "trim"
        )
        texts = [self._text(node.this, new.this)]
        if node.expression:
            texts.append(self._text(node.expression, new.expression))
        return call(name, *texts)
