"""What the tests of the compiler share: text in, artefacts or diagnostics out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from caladan.analysis.core import Checked, CoreAtom, CoreRule
from caladan.language import parse, unparse
from caladan.pipeline import Compiled, compile_program
from caladan.program import Atom, Column, Goal, Head, Program, Rule, Value
from caladan.program.diagnostics import CaladanError


def compiled(
    text: str,
    params: Mapping[str, Value] | None = None,
    catalog: Mapping[str, tuple[Column, ...]] | None = None,
    *,
    demand: bool = True,
    wanted: tuple[str, ...] | None = None,
) -> Compiled:
    """Every stage of a DeALS program."""
    program = parse(text, name="t.dl", language="deals")
    return compile_program(program, catalog or {}, params or {}, demand=demand, wanted=wanted)


def refused(text: str, **options: object) -> str:
    """What a program that is wrong is told."""
    with pytest.raises(CaladanError) as caught:
        compiled(text, **options)  # type: ignore[arg-type]
    return str(caught.value)


def rule_text(rule: CoreRule) -> str:
    """A core rule as DeALS text."""

    def atom(core: CoreAtom) -> Atom:
        return Atom(core.relation, core.arguments, core.negated)

    body = (*(atom(a) for a in rule.atoms), *rule.comparisons)
    return unparse(Program(rules=(Rule(Head(rule.head, rule.arguments), body),))).strip()


def rules_text(checked: Checked) -> list[str]:
    """The rules of a checked program as DeALS text, the facts of internal relations behind them."""
    facts = [f"{name}{row}" for name, rows in checked.facts.items() for row in rows]
    return [rule_text(r) for r in checked.rules] + facts


def goal_text(goal: Goal) -> str:
    return unparse(Program(goals=(goal,))).strip()
