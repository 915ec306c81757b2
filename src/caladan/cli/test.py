"""`caladan test`: the expectations of programs, and a diff of facts where one does not hold.

A file is a program with its facts and `expect` statements. It is run by itself, with what it
expects as its goals, so that nothing else is derived; a relation that it declares and has no facts
of is empty. Files of a folder that expect nothing are rules for others, and are passed over.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from caladan.cli.run import add_data, fact, options, parameters
from caladan.language.deals.printer import literal
from caladan.program import Constant, Expectation, Goal, Parameter, Program, Type, Value
from caladan.program.diagnostics import CaladanError, Diagnostic, Place, error
from caladan.program.notation import count_things
from caladan.program.types import type_named
from caladan.program.values import fit
from caladan.session import inputs
from caladan.session.result import Relation
from caladan.session.session import connect

SHOWN: Final = 20  # facts of a diff, on either side
_DIGITS: Final = 1e-9  # of two doubles that are taken for one

Row = tuple[Any, ...]


@dataclass
class _Outcome:
    """How many expectations held and how many did not, and what could not be run."""

    held: int = 0
    failed: int = 0
    broken: int = 0
    files: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.failed and not self.broken


def test(arguments: argparse.Namespace) -> int:
    """Run the expectations of files and folders; 0 if all hold, else 1."""
    outcome = _Outcome()
    with connect(arguments.engine):  # stays while the sessions of single files come and go
        for name, is_asked in _found(arguments.path):
            _file(name, arguments, outcome, is_asked=is_asked)
    if not outcome.files:
        raise error(
            "C050", "no file has an `expect` statement",
            help="add one to a program: `expect tc(1, 3).`",
        )  # fmt: skip
    if len(outcome.files) > 1 and not arguments.quiet:
        print(f"{len(outcome.files)} files: {_summary(outcome)}")
    return 0 if outcome.is_good else 1


def _found(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The files to look into, each once; and whether it was named itself."""
    seen: set[Path] = set()
    for path in paths:
        if path == inputs.STDIN:
            yield path, True
            continue
        place = Path(path).expanduser()
        inside = sorted(place.rglob("*.dl")) if place.is_dir() else [place]
        if not place.exists():
            raise error("C030", "no such file or folder", Place(path))
        for each in inside:
            if each.resolve() not in seen:
                seen.add(each.resolve())
                yield str(each), not place.is_dir()


def _file(name: str, arguments: argparse.Namespace, outcome: _Outcome, *, is_asked: bool) -> None:
    here = _Outcome()
    try:
        program = inputs.programs([name], "deals")
        assert isinstance(program, Program)
        if not program.expectations:
            if is_asked:
                raise error("C050", "this file has no `expect` statement", Place(name))
            return
        for diagnostic, lines in _run(program, arguments):
            if diagnostic is None:
                here.held += 1
                continue
            here.failed += 1
            print(diagnostic, *lines, "", sep="\n", file=sys.stderr)
    except CaladanError as problem:
        here.broken += 1
        print(problem, "", sep="\n", file=sys.stderr)
    outcome.files.append(name)
    outcome.held, outcome.failed = outcome.held + here.held, outcome.failed + here.failed
    outcome.broken += here.broken
    if not arguments.quiet:
        print(f"{'<stdin>' if name == inputs.STDIN else name}: {_summary(here)}", flush=True)


def _run(
    program: Program, arguments: argparse.Namespace
) -> Iterator[tuple[Diagnostic | None, list[str]]]:
    """For each expectation what is wrong with it, and the diff."""
    given = parameters(arguments)
    goals = tuple(Goal(each.atom, span=each.span) for each in program.expectations)
    asked = replace(program, goals=goals)
    with connect(arguments.engine) as db:
        for relation in program.relations:
            db.add(relation.name, [])
        add_data(db, asked, arguments)
        answers = db.run(asked, given, **options(arguments)).answers
        for expectation, answer in zip(program.expectations, answers, strict=True):
            yield _check(expectation, answer, given)


def _check(
    expectation: Expectation, answer: Relation, given: Mapping[str, Value]
) -> tuple[Diagnostic | None, list[str]]:
    asked = literal(expectation.atom)
    if expectation.rows is None:
        if answer.count():
            return None, []
        message = f"no fact matches `{asked}`"
        return Diagnostic("C046", message, expectation.span), [f"  - {asked}"]
    types = [each for word in answer.types if (each := type_named(word)) is not None]
    wanted = [_row(each, types, given) for each in expectation.rows]
    missing, surplus = _difference(wanted, answer.rows())
    if not missing and not surplus:
        return None, []
    lines = [*_lines("-", missing, expectation), *_lines("+", surplus, expectation)]
    counts = [f"{len(missing):,} missing"] * bool(missing)
    counts += [f"{len(surplus):,} not expected"] * bool(surplus)
    return Diagnostic("C046", f"facts of `{asked}`: {', '.join(counts)}", expectation.span), lines


def _row(row: Sequence[object], types: Sequence[Type], given: Mapping[str, Value]) -> Row:
    """An expected fact, as values of the columns."""
    values: list[Value] = []
    for term, type in zip(row, types, strict=True):
        assert isinstance(term, Constant | Parameter)
        if isinstance(term, Parameter) and term.name not in given:
            raise error("C020", f"the parameter `{term.name}` has no value", term.span)
        value = given[term.name] if isinstance(term, Parameter) else term.value
        try:
            values.append(fit(value, type))
        except ValueError as problem:
            raise error("C018", f"{problem}, as the column is {type}", term.span) from None
    return tuple(values)


def _difference(wanted: Sequence[Row], found: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """What is missing, and what is there but not wanted; doubles agree to nine digits."""
    there = set(found)
    missing = [row for row in dict.fromkeys(wanted) if row not in there]
    asked = set(wanted)
    surplus = [row for row in found if row not in asked]
    for row in missing.copy() if any(isinstance(v, float) for r in missing[:1] for v in r) else ():
        near = next((each for each in surplus if _is_near(row, each)), None)
        if near is not None:
            missing.remove(row)
            surplus.remove(near)
    return missing, surplus


def _is_near(one: Row, other: Row) -> bool:
    return all(
        math.isclose(a, b, rel_tol=_DIGITS, abs_tol=_DIGITS)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(one, other, strict=True)
    )


def _lines(sign: str, rows: Sequence[Row], expectation: Expectation) -> Iterator[str]:
    for row in rows[:SHOWN]:
        yield f"  {sign} {fact(expectation.atom.relation, row)}"
    if len(rows) > SHOWN:
        yield f"  {sign} and {len(rows) - SHOWN:,} more"


def _summary(outcome: _Outcome) -> str:
    parts: list[str] = []
    if outcome.broken:
        parts.append("cannot be run" if outcome.broken == 1 else f"{outcome.broken} cannot be run")
    total = outcome.held + outcome.failed
    if outcome.failed:
        does = "does" if outcome.failed == 1 else "do"
        parts.append(f"{outcome.failed} of {count_things(total, 'expectation')} {does} not hold")
    elif total:
        parts.append(f"{count_things(total, 'expectation')} {'holds' if total == 1 else 'hold'}")
    return ", ".join(parts)
