"""What the parser says about each mistake, to the letter.

deals_errors.txt holds the cases: `=== title`, the text, `---`, what must be rendered. A title that
begins with `goal` is read by `parse_goal`.
"""

import re
from pathlib import Path

import pytest

from caladan.language import parse, parse_goal
from caladan.program.diagnostics import CaladanError

CASES: list[tuple[str, str, str]] = re.findall(
    r"^=== (.*)\n([\s\S]*?)\n---\n([\s\S]*?)\n(?=\n===|\Z)",
    Path(__file__).with_name("deals_errors.txt").read_text(encoding="utf-8"),
    re.MULTILINE,
)


@pytest.mark.parametrize(("title", "text", "rendered"), CASES, ids=[case[0] for case in CASES])
def test_diagnostics(title: str, text: str, rendered: str) -> None:
    with pytest.raises(CaladanError) as caught:
        if title.startswith("goal:"):
            parse_goal(text)
        else:
            parse(text, name="a.dl", language="deals")
    assert str(caught.value) == rendered
    assert caught.value.exit_code == 1


def test_every_code_of_the_parser_has_a_case() -> None:
    found = set(re.findall(r"error\[(C\d+)\]", "".join(case[2] for case in CASES)))
    assert found == {"C001", "C002", "C003", "C004", "C022"}
    assert len(CASES) > 40


def test_a_goal_of_nothing() -> None:
    with pytest.raises(CaladanError, match="expected the relation of a goal, found the end of the"):
        parse_goal("")
