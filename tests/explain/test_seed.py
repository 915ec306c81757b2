"""The transitive closure, compiled and printed as BigDatalog's own documents print it.

`bigdatalog.txt` is their example: a heading for each stage, and its lines. Ours are the same, but
for the numbers of columns.
"""

import re
from pathlib import Path

import pytest

from caladan import explain
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.options import Options

PROGRAM = """\
database({arc(A: integer, B: integer)}).

tc(A,B) <- arc(A,B).
tc(A,B) <- tc(A,C), arc(C,B).
query tc(A, B).
"""
STAGES = {
    "Relation Definition": "relations",
    "Datalog Rules": "rules",
    "PCG Tree": "pcg",
    "Operator Program": "operators",
    "Unresolved SparkPlan": "logical",
    "Optimized Logical Plan": "optimized",
    "Physical Plan": "plan",
}


def example() -> dict[str, list[str]]:
    """The lines of each stage."""
    text = (Path(__file__).parent / "bigdatalog.txt").read_text("utf-8")
    parts = re.split(r"^== (.+) ==$", text, flags=re.MULTILINE)[1:]
    return {heading: lines(body) for heading, body in zip(parts[::2], parts[1::2], strict=True)}


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def renumbered(found: list[str]) -> list[str]:
    """The same lines, with columns numbered in the order in which they appear."""
    known: dict[str, str] = {}
    numbers = re.compile(r"#(\d+)")
    return [numbers.sub(lambda m: known.setdefault(m[1], f"#{len(known)}"), s) for s in found]


class Counted:
    """A table that only counts."""

    def count(self) -> int:
        return 10


def test_the_example_has_all_stages() -> None:
    assert example().keys() == STAGES.keys()
    assert sum(map(len, example().values())) == 61


@pytest.mark.parametrize("heading", STAGES)
def test_stage(heading: str) -> None:
    compiled = compile_program(parse(PROGRAM), {}, {})
    frames = Options(strategy="frame", partitions=3)
    setting = explain.Setting(data={"arc": Counted()}, options=frames)  # type: ignore[dict-item]
    _, *printed = lines(explain.text(compiled, STAGES[heading], setting))
    assert renumbered(printed) == renumbered(example()[heading])


def test_the_example_is_this_program() -> None:
    program = Path(__file__).parents[2] / "examples" / "tc.dl"
    assert parse(program.read_text("utf-8")) == parse(PROGRAM)
