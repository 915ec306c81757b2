"""docs/reference/functions.md has every function, as the table has it."""

from tests.docs.functions_page import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew: python -m tests.docs.functions_page"
