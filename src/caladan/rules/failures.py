"""The diagnostics of running: what every engine says, in the same words, when a run goes wrong.

`division_by_zero` and `overflow` point at the rule; `limit` and `report_interrupt` name the
relations that were being derived, and go into a `Stopped`, whose tables stay readable; `late` and
`interrupted_early` are of runs that did not come to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from caladan.analysis.core import CoreRule
from caladan.analysis.written import WrittenRule
from caladan.program import Value
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.functions import FUNCTIONS
from caladan.program.values import quote_value


class LimitReached(CaladanError):
    """A limit of the options was reached; the engine adds what was derived."""


class MemoryReached(LimitReached):
    """The memory that a run may use was not enough."""


LimitName: TypeAlias = Literal["max_rounds", "max_facts", "timeout", "memory"]

_REACHED: Final[dict[LimitName, str]] = {
    "max_rounds": "{bound} {rounds} not enough to finish {relations}",
    "max_facts": "more than {bound} facts were derived, while evaluating {relations}",
    "timeout": "{bound} {seconds} not enough to finish {relations}",
    "memory": "{bound} bytes of memory were not enough to finish {relations}",
}

_STAYS: Final = (
    ": facts of up to 64 bits go to disk, but groups of aggregates, wider facts, shapes that list "
    "no facts, data and texts do not"
)


def division_by_zero(rule: CoreRule | WrittenRule) -> Diagnostic:
    """C040: a rule divided by zero, with `/`, `div` or `mod`."""
    return Diagnostic(
        "C040",
        f"division by zero {_place(rule)}",
        rule.span,
        help="exclude zero with a comparison such as `N ~= 0`, "
        "or with `if(N = 0 then 0 else X / N)`",
    )


_TOO_LARGE: Final = {
    "decimal": (
        "a decimal of too many digits",
        "decimals have up to 38 digits: declare columns with as many as they need, decimal(12, 2)",
    ),
    "datetime": ("a time beyond the years 1 to 9999", "compare before you add"),
    "interval": ("an interval of more than 64 bits of microseconds", "compare before you add"),
}


def overflow(
    rule: CoreRule | WrittenRule, *, double: bool = False, of: str | None = None
) -> Diagnostic:
    """C041: a value too large, in arithmetic or in a sum: for 64 bits, a double, or its type."""
    if of in _TOO_LARGE:
        what, help = _TOO_LARGE[of]
        return Diagnostic("C041", f"{what} {_place(rule)}", rule.span, help=help)
    if double:
        return Diagnostic(
            "C041",
            f"a number too large for a double {_place(rule)}",
            rule.span,
            help="the largest double is about 1.8e308; infinity can come from data, but not "
            "from arithmetic on finite numbers",
        )
    return Diagnostic(
        "C041",
        f"an integer of more than 64 bits {_place(rule)}",
        rule.span,
        help="integers range from -9223372036854775808 to 9223372036854775807; "
        "add `0.0` to compute with doubles",
    )


def call_failed(rule: CoreRule | WrittenRule, function: str, reason: str) -> Diagnostic:
    """C073: a function has no value for what it was called with; one of Python's may raise."""
    in_table = function in FUNCTIONS
    return Diagnostic(
        "C073",
        f"`{function}` failed {_place(rule)}: {reason}",
        rule.span,
        help="exclude such values with a comparison, or with `if(… then … else …)`"
        if in_table
        else "the rule calls it with the values it finds; its result must have the declared type",
    )


def limit(name: LimitName, bound: float, relations: Sequence[str]) -> Diagnostic:
    """C042: a limit of the options was reached while the relations were being derived."""
    reached = _REACHED[name].format(
        bound=f"{bound:g}" if bound < 1e6 else f"{bound:.0f}",
        rounds="round was" if bound == 1 else "rounds were",
        seconds=_seconds(bound),
        relations=_names(relations),
    )
    more = _STAYS if name == "memory" else ", or look for a rule that keeps making new values"
    return Diagnostic(
        "C042",
        reached,
        help=f"the facts derived so far can be read; raise `{name}` to continue{more}",
    )


def report_growth(rule: CoreRule | WrittenRule, row: Sequence[Value], rounds: int) -> Diagnostic:
    """C042: sums of a recursion that never settle; `row` is one of the facts that change."""
    fact = f"{rule.derives}({', '.join(map(quote_value, row))})"
    return Diagnostic(
        "C042",
        f"the sums of `{rule.derives}` do not converge: rule {rule.number} adds them up along a "
        f"cycle, and {fact} is one that still changes after {rounds} rounds without a new fact",
        rule.span,
        help="the facts derived so far can be read; look for a cycle in the data, such as a "
        "part that contains itself",
    )


def lost(rule: CoreRule | WrittenRule, solution: Mapping[str, Value]) -> Diagnostic:
    """C047: what a rule added to a sum of the recursion follows no more when all is done."""
    named = [f"{n} = {quote_value(v)}" for n, v in solution.items() if not n.startswith("_")]
    example = f" with {', '.join(named)}" if named else ""
    return Diagnostic(
        "C047",
        f"rule {rule.number} added a solution to a sum of `{rule.derives}` that no longer holds: "
        f"the solution{example} depended on a value that the recursion changed later",
        rule.span,
        help="compare, join or group after the recursion, in a rule of another relation",
    )


def report_interrupt(relations: Sequence[str]) -> Diagnostic:
    """C043: the user interrupted the run while the relations were being derived."""
    return Diagnostic(
        "C043",
        f"interrupted while evaluating {_names(relations)}",
        help="the facts derived so far can be read",
    )


def late(seconds: float, doing: str) -> Diagnostic:
    """C042: the time was over before anything could be derived."""
    return Diagnostic(
        "C042", f"{seconds:g} {_seconds(seconds)} not enough: the time limit ended while {doing}",
        help="raise `timeout` to continue",
    )  # fmt: skip


def interrupted_early(doing: str) -> Diagnostic:
    """C043: the user interrupted the run before anything could be derived."""
    return Diagnostic("C043", f"interrupted while {doing}")


def _place(rule: CoreRule | WrittenRule) -> str:
    return f"in rule {rule.number}, which derives `{rule.derives}`"


def _seconds(bound: float) -> str:
    return "second was" if bound == 1 else "seconds were"


def _names(relations: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in relations) or "the program"
