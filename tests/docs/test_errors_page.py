"""docs/reference/errors.md has every code, and shows what is really printed."""

import re

from tests.docs.error_page import PAGE, PROSE, page

from caladan.program.diagnostics import CODES


def test_every_code_is_there() -> None:
    shown = re.findall(r"^### (\w+): (.+)$", PAGE.read_text("utf-8"), re.M)
    assert dict(shown) == CODES
    assert CODES.keys() <= PROSE.keys()


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew: python -m tests.docs.error_page"
