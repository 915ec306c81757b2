"""The diagnostics of running: what every engine says, in the same words, when a run goes wrong.

`division_by_zero` and `overflow` point at the rule; `limit` and `interrupted` name the relations
that were being derived, and go into a `Stopped`, whose tables stay readable; `late` and
`interrupted_early` are of runs that did not come to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from caladan.analysis.core import CoreRule
from caladan.errors import Diagnostic

LimitName: TypeAlias = Literal["max_rounds", "max_facts", "timeout", "memory"]

_REACHED: Final[dict[LimitName, str]] = {
    "max_rounds": "{bound} rounds were not enough to finish {relations}",
    "max_facts": "more than {bound} facts were derived, while evaluating {relations}",
    "timeout": "{bound} seconds were not enough to finish {relations}",
    "memory": "{bound} bytes of memory were not enough to finish {relations}",
}


def division_by_zero(rule: CoreRule) -> Diagnostic:
    """C040: a rule divided by zero, with `/`, `div` or `mod`."""
    return Diagnostic(
        "C040",
        f"division by zero in rule {rule.number}, which derives `{rule.head}`",
        rule.span,
        help="keep zero out with a comparison such as `N ~= 0`, "
        "or with `if(N = 0 then 0 else X / N)`",
    )


def overflow(rule: CoreRule) -> Diagnostic:
    """C041: a whole number left the range of 64 bits, in arithmetic or in a sum."""
    return Diagnostic(
        "C041",
        f"a whole number of more than 64 bits in rule {rule.number}, which derives `{rule.head}`",
        rule.span,
        help="whole numbers go from -9223372036854775808 to 9223372036854775807; "
        "add `0.0` to compute with doubles",
    )


def limit(name: LimitName, bound: float, relations: Sequence[str]) -> Diagnostic:
    """C042: a limit of the options was reached while the relations were being derived."""
    reached = _REACHED[name].format(
        bound=f"{bound:g}" if bound < 1e6 else f"{bound:.0f}", relations=_names(relations)
    )
    return Diagnostic(
        "C042",
        reached,
        help=f"what was derived so far can be read; raise `{name}` to go on, "
        "or look for a rule that keeps making new values",
    )


def interrupted(relations: Sequence[str]) -> Diagnostic:
    """C043: the user interrupted the run while the relations were being derived."""
    return Diagnostic(
        "C043",
        f"interrupted while evaluating {_names(relations)}",
        help="what was derived so far can be read",
    )


def late(seconds: float, doing: str) -> Diagnostic:
    """C042: the time was over before anything could be derived."""
    return Diagnostic(
        "C042", f"{seconds:g} seconds were not enough: the time was over while {doing}",
        help="raise `timeout` to go on",
    )  # fmt: skip


def interrupted_early(doing: str) -> Diagnostic:
    """C043: the user interrupted the run before anything could be derived."""
    return Diagnostic("C043", f"interrupted while {doing}")


def _names(relations: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in relations) or "the program"
