"""docs/reference/aggregates.md has every aggregate, as the table has it."""

from tests.docs.aggregates_page import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew: python -m tests.docs.aggregates_page"
