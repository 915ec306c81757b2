"""The pictures of docs/how-it-works/join.md are those that the script draws."""

import runpy
from pathlib import Path

import pytest

FIGURES = Path(__file__).parents[2] / "docs" / "how-it-works" / "figures"
PICTURES = runpy.run_path(str(FIGURES / "join.py"))["PICTURES"]


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_up_to_date(name: str) -> None:
    drawn = PICTURES[name]()
    assert (FIGURES / name).read_text(encoding="utf-8") == drawn, (
        "draw it again: python docs/how-it-works/figures/join.py"
    )
