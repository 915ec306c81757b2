"""The programs of docs/reference/deals.md are programs."""

import re
from pathlib import Path

import pytest

from caladan.language import detect, parse, unparse

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "deals.md"
BLOCKS: list[str] = re.findall(r"^```deals\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


def test_there_are_programs() -> None:
    assert len(BLOCKS) > 10


@pytest.mark.parametrize("text", BLOCKS)
def test_program(text: str) -> None:
    program = parse(text)
    assert detect(text) == "deals"
    assert program.goals
    assert parse(unparse(program)) == program
