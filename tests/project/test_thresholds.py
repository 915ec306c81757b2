"""What switches a path stands in thresholds.py, where tests can set it, and nowhere else."""

import ast
import doctest
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from caladan.program import thresholds
from caladan.program.thresholds import Thresholds

PACKAGE = Path(__file__).parents[2] / "src" / "caladan"

# Whole numbers by name in the rooms that evaluate, with why no threshold is among them.
NO_THRESHOLDS = {
    "columns/membership.py": {"LAST"},  # of 32 bits
    "columns/domains.py": {"FAR"},  # half of the words: a part of the format
    "columns/interner.py": {"_WORD"},  # bits of one
    "columns/native.py": {"_METH_FASTCALL"},  # CPython's
    "fixpoint/shapes/choice.py": {"_PENDING"},  # of the budget
    "fixpoint/shapes/comparisons.py": {"_FAR"},  # of 64 bits
    "fixpoint/shapes/aggregates.py": {"_FAR"},  # of 64 bits
    "fixpoint/shapes/digits.py": {"_DIGITS", "_LONG"},  # of a double
    "fixpoint/products.py": {"LEAST_WIDTH"},  # bits that number those of a word
    "columns/invariants.py": {"_LISTED"},  # of tests themselves
    "join/arithmetic.py": {"EXACT"},  # of a double
    "join/eager.py": {"_FAR"},  # of 64 bits
    "join/constraints/rollup.py": {"_FAR"},  # of 64 bits
    "fixpoint/limits.py": {"_SHARE", "_FACT", "_GLANCE"},  # of the machine; bytes; seconds
    "fixpoint/small_rounds/choice.py": {"_ENOUGH"},  # no limit
    "fixpoint/small_rounds/values.py": {"REGISTERS"},  # the size of a table
    "join/search/find.py": {"_SHOWN"},  # of a text
    "join/constraints/narrowing.py": {"_SMALL"},  # of 64 bits
    "join/constraints/pairing.py": {"_FAR"},  # of 64 bits
    "columns/ranks.py": {"_MAGNITUDE", "LEAST", "MOST"},  # of 64 bits
    "columns/runs.py": {"_GLANCE", "_WIDE_DIGIT", "_NARROW_DIGIT"},  # looked at; bits of a digit
    "columns/texts.py": {"_MOST", "_ENTRY"},  # of 32 bits; bytes
    "columns/decimals.py": {"_FITS", "_LIMB"},  # of 64 bits
    "columns/times.py": {"_FITS"},  # of 64 bits
    "fixpoint/aggregates.py": {"_PART", "_PARTS"},  # bits of a decimal's number, three times
}


def numbers(path: Path) -> Iterator[str]:
    """The names that a module gives to numbers it spells out."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                pass
            case _:
                continue
        parts = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
        if value is not None and all(isinstance(each, parts) for each in ast.walk(value)):
            constants = [each for each in ast.walk(value) if isinstance(each, ast.Constant)]
            if all(isinstance(each.value, int | float) for each in constants):
                yield name


@pytest.mark.parametrize("room", ["columns", "join", "fixpoint", "engines/embedded"])
def test_numbers_that_switch_a_path_stand_together(room: str) -> None:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        if "kernels" in path.parts:  # a kernel's numbers are compiled into it
            continue
        named = set(numbers(path)) - NO_THRESHOLDS.get(str(path.relative_to(PACKAGE)), set())
        assert not named, f"{path}: are {named} thresholds?"


def test_all_are_read() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    for each in fields(Thresholds):
        assert f".{each.name}" in text, f"nobody reads {each.name}"


def test_they_hold_for_a_while() -> None:
    before = thresholds.now
    with thresholds.override(room=3), thresholds.override(compact=4):
        assert thresholds.now.changes() == {**before.changes(), "room": 3, "compact": 4}
        with thresholds.override(Thresholds()):
            assert thresholds.now == Thresholds()
    assert thresholds.now is before


def test_they_are_taken_from_the_environment() -> None:
    script = "from caladan.program import thresholds; print(thresholds.now.changes())"
    environment = {**os.environ, "CALADAN_THRESHOLDS": "room=3, closure_byte=0.5"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'room': 3, 'closure_byte': 0.5}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [("rom=3", "there is no threshold 'rom'"), ("room=x", "room is a number, not 'x'")],
)
def test_a_wrong_one_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Thresholds.parse(text)


def test_examples() -> None:
    assert doctest.testmod(thresholds) == (0, 1)
